"""The jobs table. Exactly one result per run is ensured by conditions: a run takes the job under a token of its own, and only that
token may end it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pynamodb.attributes import BinaryAttribute, BooleanAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

from proxypool import clock
from proxypool.aws.dynamodb import StatementRefused, bind, execute_each, find, try_write
from proxypool.jobs.job import Job, JobRequest, JobState, split_key
from proxypool.jobs.store.statements import Ending, begin, end, owner_state


class ByState(GlobalSecondaryIndex["JobItem"]):
    """An owner's jobs by state, the last changed last."""

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


class JobItem(Model):
    """A row."""

    key = UnicodeAttribute(attr_name="job_id", hash_key=True)
    request = UnicodeAttribute()
    state = UnicodeAttribute()
    owner_state = UnicodeAttribute()
    batch_key = UnicodeAttribute(null=True)
    runs = NumberAttribute(default=0)
    replays = NumberAttribute(default=0)
    token = UnicodeAttribute(null=True)
    deadline_ms = NumberAttribute(default=0)
    attempts = NumberAttribute(default=0)
    processed = BooleanAttribute(default=False)
    reason = UnicodeAttribute(null=True)
    result = BinaryAttribute(null=True, legacy_encoding=False)
    result_key = UnicodeAttribute(null=True)
    received_bytes = NumberAttribute(default=0)
    created_ms = NumberAttribute()
    updated_ms = NumberAttribute()
    expires_at = NumberAttribute(attr_name="ttl")

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
            request=job.request.text(),
            state=JobState.QUEUED.value,
            owner_state=owner_state(job.owner, JobState.QUEUED),
            batch_key=_batch_key(job.owner, job.request.batch) if job.request.batch else None,
            created_ms=now,
            updated_ms=now,
            expires_at=self._expiry(now),
        )
        free = JobItem.key.does_not_exist() | (JobItem.expires_at <= now // 1000)
        return try_write(lambda: item.save(condition=free))

    def get(self, key: str) -> Job | None:
        """The job, or None where there is none (any more)."""
        item = self._item(key)
        return None if item is None else _job(item)

    def packed(self, key: str) -> tuple[Job, bytes | None] | None:
        """The job and its packed result as far as it is in the row."""
        item = self._item(key)
        return None if item is None else (_job(item), item.result)

    def start(self, keys: Sequence[str], *, now: datetime, seconds: float) -> list[Job | StatementRefused | None]:
        """Takes jobs for a run of so many seconds, each under a new token. None if the job is over, gone, or held by another run."""
        tokens, now_ms = {key: secrets.token_hex(16) for key in keys}, clock.epoch_ms(now)
        done = execute_each(
            [begin(self.table_name, key, token=token, now_ms=now_ms, seconds=seconds) for key, token in tokens.items()]
        )
        # The token in the row decides, not the answer: when a call is retried because its answer was lost, the retry fails.
        rows = self._model.batch_get(list(tokens), consistent_read=True, attributes_to_get=_ALL_BUT_RESULT)
        jobs = {row.key: _job(row) for row in rows if row.token == tokens[row.key]}
        return [jobs.get(key) if isinstance(one, bool) else one for key, one in zip(tokens, done, strict=True)]

    def finish(self, endings: Sequence[tuple[Job, Ending]], *, now: datetime) -> list[bool | StatementRefused]:
        """Ends the runs that took these jobs; False if a token is no longer the row's: then nothing is written.

        Only a result takes the place of a result: a replay that fails leaves the old one.
        """
        now_ms = clock.epoch_ms(now)
        expires_at = self._expiry(now_ms)
        return execute_each(
            [end(self.table_name, job, ending=ending, now_ms=now_ms, expires_at=expires_at) for job, ending in endings]
        )

    def requeue(self, job: Job, *, now: datetime) -> bool:
        """Ends a run without a result: the job is queued again; False if another run holds it."""
        return self._update(job.key, JobItem.token == job.token, *self._to(job.owner, JobState.QUEUED, now)) is not None

    def replay(self, key: str, *, now: datetime) -> Job | None:
        """Queues a finished job again and counts that; None if it is not over, or gone. The old result stays until replaced."""
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
        """Removes a job with its result and returns what it was; None where there is none."""
        job = self.get(key)
        if job is not None:
            self._model(key).delete()
        return job

    def page(
        self, owner: str, state: JobState, *, batch: str = "", limit: int, after: dict[str, Any] | None = None
    ) -> tuple[list[Job], dict[str, Any] | None]:
        """A page of an owner's jobs in one state, the last changed first (those of a batch in no order), and the key to go on
        from (None at the end).
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
        """How many jobs of a batch are in each state."""
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
        item = find(self._model, key)
        return item if item is not None and item.expires_at > clock.epoch(clock.now()) else None

    def _expiry(self, now_ms: int) -> int:
        return now_ms // 1000 + self.ttl_seconds

    @property
    def _model(self) -> type[JobItem]:
        return bind(JobItem, self.table_name)


def _batch_key(owner: str, batch: str) -> str:
    return f"{owner}#{batch}"


def _job(item: JobItem) -> Job:
    owner, job_id = split_key(item.key)
    return Job(
        owner=owner,
        id=job_id,
        request=JobRequest.parse(item.request),
        state=JobState(item.state),
        runs=int(item.runs),
        replays=int(item.replays),
        token=item.token or "",
        deadline_ms=int(item.deadline_ms),
        attempts=int(item.attempts),
        processed=bool(item.processed),
        reason=item.reason or "",
        result_key=item.result_key or "",
        received_bytes=int(item.received_bytes),
        created_ms=int(item.created_ms),
        updated_ms=int(item.updated_ms),
    )
