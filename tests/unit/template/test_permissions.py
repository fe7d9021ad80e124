"""Least privilege: the policy of each function, permission by permission, with the code that needs it.

`tests/integration/test_samples.py` compares the calls that the functions make with the same policies.
"""

from __future__ import annotations

import pytest

from tests.support.permissions import allowed, functions

READ_STATE = {("StateTable", "dynamodb:GetItem"): "the kill switch, cursors, gauges (StateTable.get)"}
WRITE_STATE = {("StateTable", "dynamodb:PutItem"): "the run's result (tasks.run), reasons, cursors, marks"}
DELETE_STATE = {("StateTable", "dynamodb:DeleteItem"): "expired marks (StateTable.delete)"}
DELETE_CHECKS = {
    ("ChecksTable", "dynamodb:Query"): "the keys of a proxy's checks (ChecksTable.keys)",
    ("ChecksTable", "dynamodb:BatchWriteItem"): "deletes them (ChecksTable.delete)",
}
PUBLISH = {("EventBus", "events:PutEvents"): "events (events.publish)"}
SIGNING_KEY = {("JudgeSecret", "secretsmanager:GetSecretValue"): "the signing key of the judge"}


def consume(queue: str) -> dict[tuple[str, str], str]:
    """The permissions of a function that consumes a queue and delays its retries."""
    return {
        (queue, "sqs:ReceiveMessage"): "the mapping polls with the function's role",
        (queue, "sqs:DeleteMessage"): "the mapping",
        (queue, "sqs:GetQueueAttributes"): "the mapping",
        (queue, "sqs:ChangeMessageVisibility"): "the delay of a retry (retry.schedule_retry)",
        (
            queue,
            "sqs:SendMessage",
        ): "the next part of a long list; rechecks; messages received while the pool was paused",
    }


def use_cache(user: str) -> dict[tuple[str, str], str]:
    return {
        ("Cache.Outputs.CacheArn", "elasticache:Connect"): "logs in by IAM (leases.cache)",
        (f"Cache.Outputs.{user}Arn", "elasticache:Connect"): "as its own user",
    }


NEEDED: dict[str, dict[tuple[str, str], str]] = {
    "ScrapeAllFunction": {
        ("SourcesTable", "dynamodb:Scan"): "the sources (SourceTable.list)",
        ("SourcesTable", "dynamodb:UpdateItem"): "that source.stale was published (SourceTable.update)",
        ("ScrapeQueue", "sqs:SendMessage"): "one message per due source",
        **READ_STATE, **WRITE_STATE, **PUBLISH,
    },
    "ScrapeSourceFunction": {
        ("SourcesTable", "dynamodb:GetItem"): "the source (SourceTable.get)",
        ("SourcesTable", "dynamodb:UpdateItem"): "the result of the scrape (SourceTable.update)",
        ("ProxiesTable", "dynamodb:BatchGetItem"): "existing rows (ProxyTable.get_many)",
        ("ProxiesTable", "dynamodb:PartiQLInsert"): "new ones (ProxyTable.upsert_many)",
        ("ProxiesTable", "dynamodb:PartiQLUpdate"): "seen again (ProxyTable.upsert_many)",
        ("ValidateQueue", "sqs:SendMessage"): "new proxies are checked at once",
        ("BodiesBucket/bodies/*", "s3:GetObject"): "the next part of a long list",
        ("BodiesBucket/bodies/*", "s3:PutObject"): "stores a long list",
        ("BodiesBucket/seen/*", "s3:GetObject"): "the digest of the previous scrape",
        ("BodiesBucket/seen/*", "s3:PutObject"): "the digest of this scrape",
        ("BodiesBucket/uploads/*", "s3:GetObject"): "an uploaded list",
        ("arn:AWS::Partition:s3:::SourceBucket/*", "s3:GetObject"): "a list in the operator's bucket",
        ("arn:AWS::Partition:secretsmanager:AWS::Region:AWS::AccountId:secret:proxypool/sources/*",
         "secretsmanager:GetSecretValue"): "the value of {secret} in a URL",
        **consume("ScrapeQueue"), **READ_STATE, **WRITE_STATE, **PUBLISH,
    },
    "RevalidateSweepFunction": {
        ("ProxiesTable/index/due", "dynamodb:Query"): "due proxies and the number of overdue ones (ProxyTable.due, count_due)",
        ("ValidateQueue", "sqs:SendMessage"): "one message per due proxy",
        ("ValidateQueue", "sqs:GetQueueAttributes"): "the length of the queue (queues.approximate_message_count)",
        **READ_STATE, **WRITE_STATE,
    },
    "ValidateProxyFunction": {
        ("ProxiesTable", "dynamodb:BatchGetItem"): "claimed proxies (ProxyTable.get_many)",
        ("ProxiesTable", "dynamodb:PartiQLUpdate"): "claims and results (claim_many, record_many, release_claims)",
        ("ProxiesTable", "dynamodb:PartiQLInsert"): "a proxy with another detected protocol gets a new row",
        ("ChecksTable", "dynamodb:BatchWriteItem"): "the checks (ChecksTable.add)",
        ("StateTable", "dynamodb:UpdateItem"): "counters of a sweep (StateTable.add)",
        **consume("ValidateQueue"), **READ_STATE, **WRITE_STATE, **DELETE_STATE, **SIGNING_KEY, **PUBLISH,
    },
    "JudgeFunction": SIGNING_KEY,
    "PruneDeadProxiesFunction": {
        ("ProxiesTable/index/due", "dynamodb:Query"): "dead proxies (ProxyTable.due)",
        ("ProxiesTable", "dynamodb:BatchGetItem"): "since when they are dead (ProxyTable.get_many)",
        ("ProxiesTable", "dynamodb:DeleteItem"): "deletes expired ones (ProxyTable.delete_dead)",
        **DELETE_CHECKS, **READ_STATE, **WRITE_STATE,
    },
    "PruneOldChecksFunction": {
        ("ProxiesTable", "dynamodb:Scan"): "proxies with many checks (ProxyTable.scan_page)",
        **DELETE_CHECKS, **READ_STATE, **WRITE_STATE,
    },
    "IndexPoolFunction": {
        **{
            ("ProxiesTable.StreamArn", f"dynamodb:{action}"): "the mapping reads the stream with the function's role"
            for action in ("GetRecords", "GetShardIterator", "DescribeStream", "ListStreams")
        },
        ("IndexDeadLetterQueue", "sqs:SendMessage"): "the mapping's destination for records that failed finally",
        **use_cache("ProjectorUser"),
    },
    "ExpireLeasesFunction": {
        ("ProxiesTable", "dynamodb:Scan"): "rebuilds the index (ProxyTable.scan_page)",
        ("ProxiesTable", "dynamodb:BatchGetItem"): "stored outcomes (ProxyTable.get_many)",
        ("ProxiesTable", "dynamodb:UpdateItem"): "adds reported outcomes (ProxyTable.fold_lease)",
        ("ProxiesTable/index/due", "dynamodb:Query"): "the number of proxies by status",
        ("LeasesTable", "dynamodb:PartiQLInsert"): "rows of the ledger (Ledger.write)",
        ("LeasesTable", "dynamodb:PartiQLUpdate"): "renewals and ends (Ledger.write, close_lost)",
        ("LeasesTable/index/open", "dynamodb:Query"): "overdue rows (Ledger.overdue)",
        **READ_STATE, **WRITE_STATE, **DELETE_STATE, **use_cache("ExpiryUser"),
    },
    "LeaseFunction": use_cache("LeaseUser"),
    "FetchPageFunction": {
        ("JobsTable", "dynamodb:GetItem"): "a job that another run holds; existing jobs of links (JobTable.get)",
        ("JobsTable", "dynamodb:PutItem"): "the jobs of a page's links (JobTable.create)",
        ("JobsTable", "dynamodb:PartiQLUpdate"): "starts and ends jobs (JobTable.start, finish)",
        ("JobsTable", "dynamodb:BatchGetItem"): "the started jobs (JobTable.start)",
        ("JobsTable", "dynamodb:UpdateItem"): "requeued jobs (requeue)",
        ("ProxiesTable", "dynamodb:BatchGetItem"): "the sources of the used proxies (usage.save)",
        ("StateTable", "dynamodb:UpdateItem"): "rate limits of domains, bytes by source, budgets of crawls",
        ("BodiesBucket/results/*", "s3:PutObject"): "large results",
        ("BodiesBucket/lake/*", "s3:PutObject"): "results for Athena",
        **{(f"arn:AWS::Partition:execute-api:AWS::Region:AWS::AccountId:Api/*/*/{path}", "execute-api:Invoke"): "leases"
           for path in ("leases", "leases/*", "sessions/*")},
        **consume("FetchQueue"), **READ_STATE, **WRITE_STATE, **PUBLISH,
    },
}  # fmt: skip


@pytest.mark.parametrize("function", NEEDED)
def test_a_function_has_the_permissions_that_it_needs_and_no_other(function: str) -> None:
    assert allowed(function) == NEEDED[function].keys()


def test_every_function_has_its_row() -> None:
    """Except manage: tests/integration/manage/test_routes.py has its permissions by route."""
    assert NEEDED.keys() | {"ManageFunction"} == functions().keys()


def test_only_the_functions_that_use_the_cache_are_in_the_network() -> None:
    """It has no internet access and no NAT, so that their policies name only DynamoDB and the cache."""
    inside = {name for name, function in functions().items() if "VpcConfig" in function}

    assert inside == {"LeaseFunction", "IndexPoolFunction", "ExpireLeasesFunction"}
    for name in inside:
        services = {
            action.partition(":")[0] for resource, action in allowed(name) if resource != "IndexDeadLetterQueue"
        }
        assert services <= {"dynamodb", "elasticache"}, name
