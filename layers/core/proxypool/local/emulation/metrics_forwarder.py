"""Works around a gap of the emulator: sends the metrics in the functions' logs (embedded metric format) to CloudWatch."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from proxypool.local.emulation.emulator import Clients

PERIOD_SECONDS = 2.0
PAUSE_FACTOR = 10  # a round reads each log stream: between two rounds at least ten times its duration
LOG_GROUP_PREFIX = "/aws/lambda/"


class MetricsForwarder(threading.Thread):
    """Follows the functions' logs until `stop`; a page that fails is read again in the next round."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(name="metrics", daemon=True)
        self._clients = clients
        self._tokens: dict[tuple[str, str], str] = {}
        self._stopped = threading.Event()

    def run(self) -> None:
        """Forwards new lines every two seconds, or less often if a round takes more than a tenth of that."""
        pause = PERIOD_SECONDS
        while not self._stopped.wait(pause):
            started = time.monotonic()
            with suppress(ClientError, BotoCoreError):  # the emulator is busy or stopping
                self.forward()
            pause = max(PERIOD_SECONDS, PAUSE_FACTOR * (time.monotonic() - started))

    def stop(self) -> None:
        """Ends the thread after the current round."""
        self._stopped.set()

    def forward(self) -> int:
        """Forwards new metrics in the logs; returns their number."""
        count = 0
        logs = self._clients("logs")
        for group in logs.describe_log_groups(logGroupNamePrefix=LOG_GROUP_PREFIX)["logGroups"]:
            name = group["logGroupName"]
            for stream in logs.describe_log_streams(logGroupName=name)["logStreams"]:
                count += self._forward_stream(name, stream["logStreamName"])
        return count

    def _forward_stream(self, group: str, stream: str) -> int:
        token = self._tokens.get((group, stream))
        request = {"logGroupName": group, "logStreamName": stream, "startFromHead": True}
        page = self._clients("logs").get_log_events(**request, **({"nextToken": token} if token else {}))
        count = 0
        for event in page["events"]:
            for namespace, data in parse_metrics(event["message"]):
                self._clients("cloudwatch").put_metric_data(Namespace=namespace, MetricData=data)
                count += len(data)
        self._tokens[group, stream] = page["nextForwardToken"]
        return count


def parse_metrics(line: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """The metrics in a log line as arguments of PutMetricData: [(namespace, data)]; empty for any other line."""
    if '"_aws"' not in line:
        return []
    try:
        value = json.loads(line)
        directives = value["_aws"]["CloudWatchMetrics"]
    except (ValueError, TypeError, KeyError):
        return []
    return [(directive["Namespace"], _data(directive, value)) for directive in directives]


def _data(directive: dict[str, Any], line: dict[str, Any]) -> list[dict[str, Any]]:
    data = []
    for names in directive["Dimensions"]:
        dimensions = [{"Name": name, "Value": str(line[name])} for name in names]
        for metric in directive["Metrics"]:
            value = line[metric["Name"]]
            values = value if isinstance(value, list) else [value]
            data.append(
                {
                    "MetricName": metric["Name"],
                    "Unit": metric.get("Unit", "None"),
                    "Dimensions": dimensions,
                    "Values": [float(number) for number in values],
                }
            )
    return data
