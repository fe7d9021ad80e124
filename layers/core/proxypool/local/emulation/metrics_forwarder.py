"""Mends a gap of the emulator: metrics written as embedded format into the functions' logs reach CloudWatch here."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from proxypool.local.emulation.emulator import Clients

EVERY_SECONDS = 2.0
PAUSES_PER_ROUND = 10  # a round asks for each log stream: the busier the stack, the rarer
GROUPS = "/aws/lambda/"


class Forwarder(threading.Thread):
    """Follows the functions' logs until `stop`; a page that fails is read again at the next round."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(name="metrics", daemon=True)
        self._clients = clients
        self._tokens: dict[tuple[str, str], str] = {}
        self._over = threading.Event()

    def run(self) -> None:
        """Forwards new lines every two seconds, or less often where that is a tenth of the time and more."""
        pause = EVERY_SECONDS
        while not self._over.wait(pause):
            started = time.monotonic()
            with suppress(ClientError, BotoCoreError):  # the emulator is busy or about to end
                self.forward()
            pause = max(EVERY_SECONDS, PAUSES_PER_ROUND * (time.monotonic() - started))

    def stop(self) -> None:
        """Ends the thread after the round at hand."""
        self._over.set()

    def forward(self) -> int:
        """Forwards what is new in the logs; returns how many values."""
        count = 0
        logs = self._clients("logs")
        for group in logs.describe_log_groups(logGroupNamePrefix=GROUPS)["logGroups"]:
            name = group["logGroupName"]
            for stream in logs.describe_log_streams(logGroupName=name)["logStreams"]:
                count += self._forward_stream(name, stream["logStreamName"])
        return count

    def _forward_stream(self, group: str, stream: str) -> int:
        token = self._tokens.get((group, stream))
        asked = {"logGroupName": group, "logStreamName": stream, "startFromHead": True}
        page = self._clients("logs").get_log_events(**asked, **({"nextToken": token} if token else {}))
        count = 0
        for event in page["events"]:
            for namespace, data in read(event["message"]):
                self._clients("cloudwatch").put_metric_data(Namespace=namespace, MetricData=data)
                count += len(data)
        self._tokens[group, stream] = page["nextForwardToken"]
        return count


def read(line: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """The metrics in a log line as arguments of PutMetricData: [(namespace, data)]; empty for any other line."""
    if '"_aws"' not in line:
        return []
    try:
        value = json.loads(line)
        directives = value["_aws"]["CloudWatchMetrics"]
    except (ValueError, TypeError, KeyError):
        return []
    return [(directive["Namespace"], _data(directive, value)) for directive in directives]


def _data(directive: dict[str, Any], value: dict[str, Any]) -> list[dict[str, Any]]:
    made = []
    for names in directive["Dimensions"]:
        dimensions = [{"Name": name, "Value": str(value[name])} for name in names]
        for metric in directive["Metrics"]:
            given = value[metric["Name"]]
            values = given if isinstance(given, list) else [given]
            made.append(
                {
                    "MetricName": metric["Name"],
                    "Unit": metric.get("Unit", "None"),
                    "Dimensions": dimensions,
                    "Values": [float(number) for number in values],
                }
            )
    return made
