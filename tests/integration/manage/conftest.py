"""The admin API with tables that are shared by a module and emptied for each test."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from botocore.client import BaseClient
from botocore.signers import RequestSigner
from proxypool import aws
from proxypool.aws.state import StateTable
from proxypool.config.settings import Settings
from proxypool.jobs.build import build_service
from proxypool.manage import routes
from proxypool.manage.service import Manager
from proxypool.proxies.table import ProxyTable
from proxypool.sources.table import SourceTable

from tests.support.admin import Admin, actions, empty
from tests.support.servers import create_tables


@pytest.fixture(scope="module")
def stage(aws_endpoint: str) -> tuple[str, Settings]:
    """The name prefix of tables and queues, and their settings."""
    aws.client.cache_clear()
    prefix = f"m{uuid4().hex[:8]}-"
    tables, sqs = create_tables(prefix), aws.client("sqs")
    aws.client("s3").create_bucket(Bucket=f"{prefix}bodies")
    return prefix, Settings(
        sources_table=tables["SourcesTable"], proxies_table=tables["ProxiesTable"], state_table=tables["StateTable"],
        scrape_queue_url=sqs.create_queue(QueueName=prefix + "scrape")["QueueUrl"],
        validate_queue_url=sqs.create_queue(QueueName=prefix + "validate")["QueueUrl"],
        fetch_queue_url=sqs.create_queue(QueueName=prefix + "fetch")["QueueUrl"], jobs_table=tables["JobsTable"],
        bodies_bucket=f"{prefix}bodies", allow_loopback=True,
    )  # fmt: skip


@pytest.fixture
def admin(stage: tuple[str, Settings], monkeypatch: pytest.MonkeyPatch) -> Admin:
    """The admin API with empty tables and settings of the local stack."""
    prefix, settings = stage
    manager = Manager(
        settings=settings, sources=SourceTable(settings.sources_table), proxies=ProxyTable(settings.proxies_table),
        state=StateTable(settings.state_table),
    )  # fmt: skip
    empty(settings)
    monkeypatch.setattr(routes, "manager", lambda: manager)
    monkeypatch.setattr(routes, "jobs", lambda: build_service(manager.settings))
    monkeypatch.setattr(routes, "settings", lambda: manager.settings)
    api = Admin(settings, manager.proxies, manager.state)
    original = BaseClient._make_api_call

    def recorded(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
        api.calls |= {*actions(client.meta.service_model.service_name, operation, arguments, prefix)}
        return original(client, operation, arguments)

    presign = RequestSigner.generate_presigned_url

    def presigned(signer: Any, *parts: Any, operation_name: str, **named: Any) -> Any:
        """A presigned URL uses a permission of the function."""
        api.calls.add(("BodiesBucket", f"s3:{operation_name}"))
        return presign(signer, *parts, operation_name=operation_name, **named)

    monkeypatch.setattr(BaseClient, "_make_api_call", recorded)
    monkeypatch.setattr(RequestSigner, "generate_presigned_url", presigned)
    return api
