"""Access to DynamoDB: pynamodb models bound to a table, conditional writes, batches of PartiQL statements.

A failed condition is a result, not an error: `try_write` and `execute` return False.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from pynamodb.attributes import (
    Attribute,
    BooleanAttribute,
    JSONAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.exceptions import DeleteError, PutError, UpdateError
from pynamodb.models import Model

from proxypool import aws
from proxypool.errors import ProxyPoolError

STATEMENTS_PER_CALL = 25  # limit of BatchExecuteStatement
THROTTLING_CODES = (
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "TransactionConflict",
    "InternalServerError",
)  # error codes for which a retry may help
NOT_APPLIED = ("ConditionalCheckFailed", "DuplicateItem")  # error codes of a failed condition
MAX_TRIES = 5
INITIAL_BACKOFF_SECONDS = 0.1  # doubles with each retry; jittered by a factor of 0.5 to 1

_ATTRIBUTES: Mapping[type, type[Attribute[Any]]] = {
    str: UnicodeAttribute, int: NumberAttribute, float: NumberAttribute, bool: BooleanAttribute, set: UnicodeSetAttribute,
    list: JSONAttribute, dict: JSONAttribute,
}  # fmt: skip
_M = TypeVar("_M", bound=Model)
_bind_lock = threading.Lock()


class Throttled(ProxyPoolError):
    """DynamoDB throttled `count` statements in every attempt; the others were executed."""

    def __init__(self, count: int) -> None:
        super().__init__(f"DynamoDB throttled {count} statements, {MAX_TRIES} times")
        self.count = count


class StatementRefused(ProxyPoolError):
    """DynamoDB refused a statement for another reason than a failed condition; `code` is the error code."""

    def __init__(self, code: str) -> None:
        super().__init__(f"DynamoDB refused a statement: {code}")
        self.code = code


def with_attributes(attributes: Mapping[str, tuple[str, type]]) -> Callable[[type[_M]], type[_M]]:
    """Adds optional attributes to a model: field name → (attribute name, type of its value). Those that the model has stay.

    A model that uses such an attribute in a condition declares it by an annotation alone, e.g. `state: UnicodeAttribute`.
    """

    def complete(model: type[_M]) -> type[_M]:
        return _subclass(
            model,
            {
                name: _ATTRIBUTES[kind](attr_name=attribute, null=True)
                for name, (attribute, kind) in attributes.items()
                if name not in model.get_attributes()
            },
        )

    return complete


@cache
def bind_table(model: type[_M], table_name: str) -> type[_M]:
    """A subclass of the model, bound to a table; cached per process. The model itself has no table name.

    pynamodb creates a client per model, which takes 100 ms each. The shared client is set through a private attribute,
    because there is no public one.
    """
    with _bind_lock:
        bound = _subclass(model, {"Meta": type("Meta", (), {"table_name": table_name})})
        bound._get_connection().connection._client = aws.client("dynamodb")
    return bound


def _subclass(model: type[_M], namespace: Mapping[str, Any]) -> type[_M]:
    """A subclass of the same name. It has the same DoesNotExist: `except model.DoesNotExist` must catch the subclass's."""
    same = {"__module__": model.__module__, "__doc__": model.__doc__, "DoesNotExist": model.DoesNotExist}
    return cast(type[_M], type(cast(type, model))(model.__name__, (model,), {**same, **namespace}))


def get_item(model: type[_M], hash_key: str) -> _M | None:
    """The item of that key, read consistently; None where there is none."""
    try:
        return model.get(hash_key, consistent_read=True)
    except model.DoesNotExist:
        return None


def try_write(write: Callable[[], object]) -> bool:
    """Executes a conditional write of a model; False if its condition failed. Other errors are raised."""
    try:
        write()
    except (PutError, UpdateError, DeleteError) as error:
        if error.cause_response_code == "ConditionalCheckFailedException":
            return False
        raise
    return True


Value = str | int | bytes | Mapping[str, Any]
"""A value of a statement; a mapping is DynamoDB JSON already, e.g. {"SS": ["a"]}."""
Statement = tuple[str, Sequence[Mapping[str, Any]]]
"""PartiQL text and its parameters as DynamoDB JSON."""
Where = Sequence[tuple[str, str, Value]]
"""Conditions joined by AND, e.g. ("claim", "<=", 5), including the key attributes. Batched PartiQL does not support OR."""


def insert(table_name: str, item: Mapping[str, Value]) -> Statement:
    """Inserts an item; not applied if its key exists."""
    pairs = ", ".join(f"'{name}': ?" for name in item)
    return f'INSERT INTO "{table_name}" VALUE {{{pairs}}}', _parameters(item.values())


def update(
    table_name: str,
    where: Where,
    *,
    sets: Mapping[str, Value],
    adds: Mapping[str, int] | None = None,
    removes: Sequence[str] = (),
) -> Statement:
    """Updates an item if all conditions hold: sets and removes attributes, adds to existing numbers."""
    adds = adds or {}
    changes = [*(f'"{name}" = ?' for name in sets), *(f'"{name}" = "{name}" + ?' for name in adds)]
    remove_clauses = "".join(f' REMOVE "{name}"' for name in removes)
    conditions = " AND ".join(f'"{name}" {operator} ?' for name, operator, _ in where)
    values = [*sets.values(), *adds.values(), *(value for _, _, value in where)]
    return f'UPDATE "{table_name}" SET {", ".join(changes)}{remove_clauses} WHERE {conditions}', _parameters(values)


def execute(statements: Sequence[Statement]) -> list[bool]:
    """Like `execute_each`, but raises StatementRefused for the first statement that was refused."""
    results: list[bool] = []
    for result in execute_each(statements):
        if isinstance(result, StatementRefused):
            raise result
        results.append(result)
    return results


def execute_each(statements: Sequence[Statement]) -> list[bool | StatementRefused]:
    """Executes conditional statements, 25 per call. Results in order: True (applied), False (condition failed) or the error.

    Statements are independent of each other. Throttled ones are retried with backoff; raises Throttled after the last attempt.
    """
    codes = _codes(statements)
    for number in range(MAX_TRIES - 1):
        again = [index for index, code in enumerate(codes) if code in THROTTLING_CODES]
        if not again:
            break
        time.sleep(INITIAL_BACKOFF_SECONDS * 2**number * random.uniform(0.5, 1))  # noqa: S311
        for index, code in zip(again, _codes([statements[index] for index in again]), strict=True):
            codes[index] = code
    if refused := sum(code in THROTTLING_CODES for code in codes):
        raise Throttled(refused)
    return [not code if code in ("", *NOT_APPLIED) else StatementRefused(code) for code in codes]


def _codes(statements: Sequence[Statement]) -> list[str]:
    codes = []
    for start in range(0, len(statements), STATEMENTS_PER_CALL):
        page = [
            {"Statement": text, "Parameters": list(parameters)}
            for text, parameters in statements[start : start + STATEMENTS_PER_CALL]
        ]
        for response in aws.client("dynamodb").batch_execute_statement(Statements=page)["Responses"]:
            codes.append(response.get("Error", {}).get("Code", ""))
    return codes


def _parameters(values: Iterable[Value]) -> list[Mapping[str, Any]]:
    return [_parameter(value) for value in values]


def _parameter(value: Value) -> Mapping[str, Any]:
    match value:
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case _:
            return value
