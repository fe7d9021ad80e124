"""Least privilege: what each function's policy allows is what its code calls, line by line, and nothing else.

`tests/integration/test_samples.py` holds the calls that the functions really make against the same policies.
"""

from __future__ import annotations

import pytest

from tests.support.permissions import allowed, functions

READ_STATE = {("StateTable", "dynamodb:GetItem"): "the kill switch, cursors, gauges (StateTable.get)"}
WRITE_STATE = {("StateTable", "dynamodb:PutItem"): "the run's result (tasks.run), reasons, cursors, marks"}
FORGET_STATE = {("StateTable", "dynamodb:DeleteItem"): "marks that are over (StateTable.delete)"}
CHECKS_GO = {
    ("ChecksTable", "dynamodb:Query"): "the keys of a proxy's checks (ChecksTable.keys)",
    ("ChecksTable", "dynamodb:BatchWriteItem"): "deletes them (ChecksTable.delete)",
}
BUS = {("EventBus", "events:PutEvents"): "what the pool tells the world (events.publish)"}
KEY = {("JudgeSecret", "secretsmanager:GetSecretValue"): "the key that signs (checks.secret)"}


def fed_by(queue: str) -> dict[tuple[str, str], str]:
    """A function that a queue feeds, and that says when a failed message comes again."""
    return {
        (queue, "sqs:ReceiveMessage"): "the mapping polls with the function's role",
        (queue, "sqs:DeleteMessage"): "the mapping",
        (queue, "sqs:GetQueueAttributes"): "the mapping",
        (queue, "sqs:ChangeMessageVisibility"): "the delay of a retry (retry.schedule)",
        (queue, "sqs:SendMessage"): "the rest of a long list; quick rechecks, and what came while the pool was paused",
    }


def to_cache(user: str) -> dict[tuple[str, str], str]:
    return {
        ("Cache.Outputs.CacheArn", "elasticache:Connect"): "logs in by IAM (leases.cache)",
        (f"Cache.Outputs.{user}Arn", "elasticache:Connect"): "as its own user",
    }


NEEDED: dict[str, dict[tuple[str, str], str]] = {
    "ScrapeAllFunction": {
        ("SourcesTable", "dynamodb:Scan"): "which sources there are (SourceTable.list)",
        ("SourcesTable", "dynamodb:UpdateItem"): "that staleness was told (SourceTable.update)",
        ("ScrapeQueue", "sqs:SendMessage"): "one message per due source",
        **READ_STATE, **WRITE_STATE, **BUS,
    },
    "ScrapeSourceFunction": {
        ("SourcesTable", "dynamodb:GetItem"): "the source (SourceTable.get)",
        ("SourcesTable", "dynamodb:UpdateItem"): "how it fared (SourceTable.update)",
        ("ProxiesTable", "dynamodb:BatchGetItem"): "which are known (ProxyTable.get_many)",
        ("ProxiesTable", "dynamodb:PartiQLInsert"): "new ones (ProxyTable.upsert_many)",
        ("ProxiesTable", "dynamodb:PartiQLUpdate"): "seen again (ProxyTable.upsert_many)",
        ("ValidateQueue", "sqs:SendMessage"): "new ones are checked at once",
        ("BodiesBucket/bodies/*", "s3:GetObject"): "the rest of a long list",
        ("BodiesBucket/bodies/*", "s3:PutObject"): "keeps a long list",
        ("BodiesBucket/seen/*", "s3:GetObject"): "what a source listed before (DigestStore)",
        ("BodiesBucket/seen/*", "s3:PutObject"): "what it lists now (DigestStore)",
        ("BodiesBucket/uploads/*", "s3:GetObject"): "a list that was uploaded",
        ("arn:AWS::Partition:s3:::SourceBucket/*", "s3:GetObject"): "a source that is an object of the operator's",
        ("arn:AWS::Partition:secretsmanager:AWS::Region:AWS::AccountId:secret:proxypool/sources/*",
         "secretsmanager:GetSecretValue"): "what stands for {secret} (sources.secret)",
        **fed_by("ScrapeQueue"), **READ_STATE, **WRITE_STATE, **BUS,
    },
    "RevalidateSweepFunction": {
        ("ProxiesTable/index/due", "dynamodb:Query"): "who is due, and how many are overdue (ProxyTable.due, count_due)",
        ("ValidateQueue", "sqs:SendMessage"): "one message per due proxy",
        ("ValidateQueue", "sqs:GetQueueAttributes"): "how many wait (queues.waiting)",
        **READ_STATE, **WRITE_STATE,
    },
    "ValidateProxyFunction": {
        ("ProxiesTable", "dynamodb:BatchGetItem"): "the claimed ones (ProxyTable.get_many)",
        ("ProxiesTable", "dynamodb:PartiQLUpdate"): "claims and results (claim_many, record_many, release_claims)",
        ("ProxiesTable", "dynamodb:PartiQLInsert"): "a proxy that speaks another protocol is filed anew",
        ("ChecksTable", "dynamodb:BatchWriteItem"): "the checks (ChecksTable.add)",
        ("StateTable", "dynamodb:UpdateItem"): "counters of a sweep (StateTable.add)",
        **fed_by("ValidateQueue"), **READ_STATE, **WRITE_STATE, **FORGET_STATE, **KEY, **BUS,
    },
    "JudgeFunction": KEY,
    "PruneDeadProxiesFunction": {
        ("ProxiesTable/index/due", "dynamodb:Query"): "the dead (ProxyTable.due)",
        ("ProxiesTable", "dynamodb:BatchGetItem"): "since when (ProxyTable.get_many)",
        ("ProxiesTable", "dynamodb:DeleteItem"): "those that are long dead (ProxyTable.delete_dead)",
        **CHECKS_GO, **READ_STATE, **WRITE_STATE,
    },
    "PruneOldChecksFunction": {
        ("ProxiesTable", "dynamodb:Scan"): "who has many checks (ProxyTable.scan_page)",
        **CHECKS_GO, **READ_STATE, **WRITE_STATE,
    },
    "IndexPoolFunction": {
        **{
            ("ProxiesTable.StreamArn", f"dynamodb:{action}"): "the mapping reads the stream with the function's role"
            for action in ("GetRecords", "GetShardIterator", "DescribeStream", "ListStreams")
        },
        ("IndexDeadLetterQueue", "sqs:SendMessage"): "the mapping's destination of what failed for good",
        **to_cache("ProjectorUser"),
    },
    "ExpireLeasesFunction": {
        ("ProxiesTable", "dynamodb:Scan"): "fills a new or lost cache (ProxyTable.scan_page)",
        ("ProxiesTable", "dynamodb:BatchGetItem"): "the evidence that rows hold (ProxyTable.get_many)",
        ("ProxiesTable", "dynamodb:UpdateItem"): "adds to it (ProxyTable.fold_lease)",
        ("ProxiesTable/index/due", "dynamodb:Query"): "how many there are, by status (proxies.census)",
        ("LeasesTable", "dynamodb:PartiQLInsert"): "the ledger's rows (Ledger.write)",
        ("LeasesTable", "dynamodb:PartiQLUpdate"): "their ends and renewals (Ledger.write, close_lost)",
        ("LeasesTable/index/open", "dynamodb:Query"): "overdue rows (Ledger.overdue)",
        **READ_STATE, **WRITE_STATE, **FORGET_STATE, **to_cache("ExpiryUser"),
    },
    "LeaseFunction": to_cache("LeaseUser"),
    "FetchPageFunction": {
        ("JobsTable", "dynamodb:GetItem"): "a job that another run holds; links that are known (JobTable.get)",
        ("JobsTable", "dynamodb:PutItem"): "the jobs of a page's links (JobTable.create)",
        ("JobsTable", "dynamodb:PartiQLUpdate"): "takes and ends jobs (JobTable.start, finish)",
        ("JobsTable", "dynamodb:BatchGetItem"): "what it took (JobTable.start)",
        ("JobsTable", "dynamodb:UpdateItem"): "jobs that wait again (requeue)",
        ("ProxiesTable", "dynamodb:BatchGetItem"): "whose bytes they were (usage.save)",
        ("StateTable", "dynamodb:UpdateItem"): "turns and places of domains, bytes, a crawl's budget",
        ("BodiesBucket/results/*", "s3:PutObject"): "large results",
        ("BodiesBucket/lake/*", "s3:PutObject"): "results for Athena",
        **{(f"arn:AWS::Partition:execute-api:AWS::Region:AWS::AccountId:Api/*/*/{path}", "execute-api:Invoke"): "leases"
           for path in ("leases", "leases/*", "sessions/*")},
        **fed_by("FetchQueue"), **READ_STATE, **WRITE_STATE, **BUS,
    },
}  # fmt: skip


@pytest.mark.parametrize("function", NEEDED)
def test_a_function_may_do_what_it_does_and_nothing_else(function: str) -> None:
    assert allowed(function) == NEEDED[function].keys()


def test_every_function_has_its_row() -> None:
    """manage is the admin's hand: its routes, of which each has its own right, are held in its own table."""
    assert NEEDED.keys() | {"ManageFunction"} == functions().keys()


def test_only_the_functions_that_reach_the_cache_lie_in_the_network() -> None:
    """Inside there is no internet and no NAT: DynamoDB by its gateway, and Redis. So no policy in there names another service."""
    inside = {name for name, function in functions().items() if "VpcConfig" in function}

    assert inside == {"LeaseFunction", "IndexPoolFunction", "ExpireLeasesFunction"}
    for name in inside:
        services = {
            action.partition(":")[0] for resource, action in allowed(name) if resource != "IndexDeadLetterQueue"
        }
        assert services <= {"dynamodb", "elasticache"}, name
