"""Stream records of the emulator, which the ready index depends on."""

from __future__ import annotations

from uuid import uuid4

import boto3
from proxypool import aws
from proxypool.proxies.proxy import Kind
from proxypool.proxies.table import ProxyTable

from tests.support import servers
from tests.support.builders import NOW, a_proxy


def test_a_batch_write_creates_stream_records(aws_endpoint: str) -> None:
    """I11: a new proxy and its claim are both in the stream."""
    aws.client.cache_clear()
    name = servers.create_tables(f"st{uuid4().hex[:8]}-")["ProxiesTable"]
    table = ProxyTable(name)
    new = table.upsert_many([a_proxy()], source_id="a", kind=Kind.UNKNOWN, tags=frozenset(), now=NOW).new[0]
    assert new.next_check_at is not None
    table.claim_many({new.id: int(new.next_check_at.timestamp())}, now=NOW, claim_seconds=9)

    streams = boto3.client("dynamodbstreams")
    arn = boto3.client("dynamodb").describe_table(TableName=name)["Table"]["LatestStreamArn"]
    shard = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"][0]["ShardId"]
    start = streams.get_shard_iterator(StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    assert [record["eventName"] for record in streams.get_records(ShardIterator=start)["Records"]] == [
        "INSERT",
        "MODIFY",
    ]
