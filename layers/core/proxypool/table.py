"""The common ground of the DynamoDB tables: pynamodb models that learn their table's name at run time, batched statements."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pynamodb.models import Model

from proxypool import aws
from proxypool.errors import ProxyPoolError

STATEMENTS_PER_CALL = 25  # BatchExecuteStatement's bound
THROTTLES = (
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "TransactionConflict",
    "InternalServerError",
)  # codes of a statement that a later try may bring through
TRIES = 5
FIRST_WAIT_SECONDS = 0.1  # doubling, each wait between half and the whole of it

_M = TypeVar("_M", bound=Model)
_binding = threading.Lock()


def bind(model: type[_M], table_name: str) -> type[_M]:
    """The model, for the table of that name. The models themselves name none: nothing reads the environment at import."""
    meta: Any = model.Meta
    if meta.bound_to != table_name:
        with _binding:  # two threads that bind at once would each throw away what the other uses
            if meta.bound_to != table_name:
                meta.table_name = table_name
                model._connection = None
                model._get_connection().connection._client = aws.client("dynamodb")  # else each model makes its own
                meta.bound_to = table_name
    return model


class Unbound:
    """The Meta of a model whose table is not known yet."""

    table_name: ClassVar[str] = ""
    bound_to: ClassVar[str] = ""


class Throttled(ProxyPoolError):
    """DynamoDB went on refusing statements for their number; what was not refused is written."""

    def __init__(self, count: int) -> None:
        super().__init__(f"DynamoDB throttled {count} statements, {TRIES} times")
        self.count = count


Statement = tuple[str, Sequence[Mapping[str, Any]]]


def execute(statements: Sequence[Statement]) -> list[str]:
    """Runs conditional PartiQL statements, 25 a call; one code per statement, in order: "" where it took effect.

    Each fails alone. `ConditionalCheckFailed` and `DuplicateItem` are answers; those that are throttled are tried again,
    with growing waits, and raise Throttled in the end. Parameters are in DynamoDB's own JSON, e.g. {"S": "text"}.
    """
    codes = _run(statements)
    for number in range(TRIES - 1):
        again = [index for index, code in enumerate(codes) if code in THROTTLES]
        if not again:
            break
        time.sleep(FIRST_WAIT_SECONDS * 2**number * random.uniform(0.5, 1))  # noqa: S311
        for index, code in zip(again, _run([statements[index] for index in again]), strict=True):
            codes[index] = code
    if refused := sum(code in THROTTLES for code in codes):
        raise Throttled(refused)
    return codes


def _run(statements: Sequence[Statement]) -> list[str]:
    codes = []
    for start in range(0, len(statements), STATEMENTS_PER_CALL):
        page = [
            {"Statement": text, "Parameters": list(parameters)}
            for text, parameters in statements[start : start + STATEMENTS_PER_CALL]
        ]
        for response in aws.client("dynamodb").batch_execute_statement(Statements=page)["Responses"]:
            codes.append(response.get("Error", {}).get("Code", ""))
    return codes


def parameters(*values: str | int | bytes) -> list[dict[str, Any]]:
    """Values as a statement's parameters, in DynamoDB's own JSON."""
    return [_parameter(value) for value in values]


def _parameter(value: str | int | bytes) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    return {"S": value} if isinstance(value, str) else {"B": value}
