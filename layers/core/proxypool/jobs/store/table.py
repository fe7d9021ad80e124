"""The jobs table. Conditions ensure one result per run: a run claims the job with a token, and only that token can end it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from pynamodb.attributes import BinaryAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

from proxypool import clock
from proxypool.aws.dynamodb import StatementRefused, bind_table, execute_each, get_item, try_write, with_attributes
from proxypool.http.codec import attributes
from proxypool.http.fields import to_arguments, to_row
from proxypool.jobs.job import Job, JobState, split_key
from proxypool.jobs.store.statements import Ending, begin_run, end_run, owner_state


class ByState(GlobalSecondaryIndex["JobItem"]):
    """An owner's jobs by state, in order of their last change."""

    class Meta:
        """The index."""

        index_name = "by_state"
        projection = KeysOnlyProjection()

    owner_state = UnicodeAttribute(hash_key=True)
    updated_ms = NumberAttribute(range_key=True)


class ByBatch(GlobalSecondaryIndex["JobItem"]):
    """The jobs of one batch by state; only jobs of a batch are in it."""

    class Meta:
        """The index."""

        index_name = "by_batch"
        projection = KeysOnlyProjection()

    batch_key = UnicodeAttribute(hash_key=True)
    state = UnicodeAttribute(range_key=True)


@with_attributes(attributes(Job))
class JobItem(Model):
    """A row: the key, the keys of the indexes, the result, and an attribute for each field of `Job`."""

    key = UnicodeAttribute(attr_name="job_id", hash_key=True)
    owner_state = UnicodeAttribute()
    batch_key = UnicodeAttribute(null=True)
    result = BinaryAttribute(null=True, legacy_encoding=False)
    expires_at = NumberAttribute(attr_name="ttl")
    request: UnicodeAttribute
    state: UnicodeAttribute
    replays: NumberAttribute
    token: UnicodeAttribute
    deadline_ms: NumberAttribute
    updated_ms: NumberAttribute

    by_state = ByState()
    by_batch = ByBatch()


_ALL_BUT_RESULT: Final = [one.attr_name for name, one in JobItem.get_attributes().items() if name != "result"]


@dataclass(frozen=True, slots=True)
class JobTable:
    """All access to the jobs table. Reads are consistent and treat a row past its TTL as absent."""

    table_name: str
    ttl_seconds: int

    def create(self, job: Job) -> bool:
        """Writes a new job; False if its id is taken (the same job, unless its request differs)."""
        now = clock.epoch_ms(clock.now())
        item = self._model(
            job.key,
            owner_state=owner_state(job.owner, JobState.QUEUED),
            batch_key=_batch_key(job.owner, job.request.batch) if job.request.batch else None,
            expires_at=self._expiry(now),
            **to_row(replace(job, state=JobState.QUEUED, created_ms=now, updated_ms=now)),
        )
        free = JobItem.key.does_not_exist() | (JobItem.expires_at <= now // 1000)
        return try_write(lambda: item.save(condition=free))

    def get(self, key: str) -> Job | None:
        """The job, or None if it does not exist or has expired."""
        item = self._item(key)
        return None if item is None else _job(item)

    def packed(self, key: str) -> tuple[Job, bytes | None] | None:
        """The job, and its packed result if that is in the row."""
        item = self._item(key)
        return None if item is None else (_job(item), item.result)

    def start(self, keys: Sequence[str], *, now: datetime, seconds: float) -> list[Job | StatementRefused | None]:
        """Claims jobs for a run of at most `seconds`, each with a new token. None if a job is over, deleted, or held by another run."""
        tokens, now_ms = {key: secrets.token_hex(16) for key in keys}, clock.epoch_ms(now)
        done = execute_each(
            [
                begin_run(self.table_name, key, token=token, now_ms=now_ms, seconds=seconds)
                for key, token in tokens.items()
            ]
        )
        # The token in the row decides, not the answer: when a call is retried because its answer was lost, the retry fails.
        rows = self._model.batch_get(list(tokens), consistent_read=True, attributes_to_get=_ALL_BUT_RESULT)
        jobs = {row.key: _job(row) for row in rows if row.token == tokens[row.key]}
        return [jobs.get(key) if isinstance(one, bool) else one for key, one in zip(tokens, done, strict=True)]

    def finish(self, endings: Sequence[tuple[Job, Ending]], *, now: datetime) -> list[bool | StatementRefused]:
        """Ends the runs that claimed these jobs; False (nothing is written) if the row has another token.

        Only a result replaces a result: a replay that fails leaves the old one.
        """
        now_ms = clock.epoch_ms(now)
        expires_at = self._expiry(now_ms)
        return execute_each(
            [
                end_run(self.table_name, job, ending=ending, now_ms=now_ms, expires_at=expires_at)
                for job, ending in endings
            ]
        )

    def requeue(self, job: Job, *, now: datetime) -> bool:
        """Ends a run without a result: the job is queued again; False if another run holds it."""
        return self._update(job.key, JobItem.token == job.token, *self._to(job.owner, JobState.QUEUED, now)) is not None

    def replay(self, key: str, *, now: datetime) -> Job | None:
        """Queues a finished job again and counts that; None if it is not over, or deleted. The old result stays until replaced."""
        owner, _ = split_key(key)
        over = JobItem.state.is_in(*(state.value for state in JobState if state.is_over))
        return self._update(
            key,
            over & (JobItem.expires_at > clock.epoch(now)),
            *self._to(owner, JobState.QUEUED, now),
            JobItem.replays.set((JobItem.replays | 0) + 1),
            JobItem.expires_at.set(self._expiry(clock.epoch_ms(now))),
        )

    def delete(self, key: str) -> Job | None:
        """Deletes a job with its result and returns it, or None."""
        job = self.get(key)
        if job is not None:
            self._model(key).delete()
        return job

    def page(
        self, owner: str, state: JobState, *, batch: str = "", limit: int, after: dict[str, Any] | None = None
    ) -> tuple[list[Job], dict[str, Any] | None]:
        """A page of an owner's jobs in one state, last changed first (unordered for a batch), and the key of the next page (None
        at the end).
        """
        if batch:
            is_so = JobItem.state == state.value
            found = self._model.by_batch.query(_batch_key(owner, batch), is_so, limit=limit, last_evaluated_key=after)
        else:
            found = self._model.by_state.query(
                owner_state(owner, state), scan_index_forward=False, limit=limit, last_evaluated_key=after
            )
        keys = [item.key for item in found]
        items = {item.key: item for item in self._model.batch_get(keys)} if keys else {}
        alive = [items[key] for key in keys if key in items and items[key].expires_at > clock.epoch(clock.now())]
        return [_job(item) for item in alive], found.last_evaluated_key

    def batch_counts(self, owner: str, batch: str) -> dict[str, int]:
        """Number of jobs of a batch by state."""
        key = _batch_key(owner, batch)
        return {state.value: self._model.by_batch.count(key, JobItem.state == state.value) for state in JobState}

    def _to(self, owner: str, state: JobState, now: datetime) -> list[Any]:
        return [
            JobItem.state.set(state.value),
            JobItem.owner_state.set(owner_state(owner, state)),
            JobItem.token.remove(),
            JobItem.deadline_ms.set(0),
            JobItem.updated_ms.set(clock.epoch_ms(now)),
        ]

    def _update(self, key: str, condition: Condition, *actions: Any) -> Job | None:
        item = self._model(key)
        return _job(item) if try_write(lambda: item.update(actions=list(actions), condition=condition)) else None

    def _item(self, key: str) -> JobItem | None:
        item = get_item(self._model, key)
        return item if item is not None and item.expires_at > clock.epoch(clock.now()) else None

    def _expiry(self, now_ms: int) -> int:
        return now_ms // 1000 + self.ttl_seconds

    @property
    def _model(self) -> type[JobItem]:
        return bind_table(JobItem, self.table_name)


def _batch_key(owner: str, batch: str) -> str:
    return f"{owner}#{batch}"


def _job(item: JobItem) -> Job:
    owner, job_id = split_key(item.key)
    return Job(owner=owner, id=job_id, **to_arguments(Job, item.attribute_values))
