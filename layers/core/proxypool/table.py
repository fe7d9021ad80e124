"""The common ground of the DynamoDB tables: pynamodb models that learn their table's name at run time, batched statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pynamodb.models import Model

from proxypool import aws

STATEMENTS_PER_CALL = 25  # BatchExecuteStatement's bound
THROTTLES = (
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "TransactionConflict",
    "InternalServerError",
)  # codes of a statement that a later run may bring through

_M = TypeVar("_M", bound=Model)


def bind(model: type[_M], table_name: str) -> type[_M]:
    """The model, for the table of that name. The models themselves name none: nothing reads the environment at import."""
    meta: Any = model.Meta
    if meta.table_name != table_name:
        meta.table_name = table_name
        model._connection = None
    return model


class Unbound:
    """The Meta of a model whose table is not known yet."""

    table_name: ClassVar[str] = ""


def execute(statements: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> Iterator[str]:
    """Runs conditional PartiQL statements, 25 a call; yields one code per statement, in order: "" where it took effect.

    Each fails alone. `ConditionalCheckFailed` and `DuplicateItem` are answers; a code of THROTTLES means: try it again.
    Parameters are in DynamoDB's own JSON, e.g. {"S": "text"}.
    """
    for start in range(0, len(statements), STATEMENTS_PER_CALL):
        page = [
            {"Statement": text, "Parameters": list(parameters)}
            for text, parameters in statements[start : start + STATEMENTS_PER_CALL]
        ]
        for response in aws.client("dynamodb").batch_execute_statement(Statements=page)["Responses"]:
            yield response.get("Error", {}).get("Code", "")


def parameters(*values: str | int) -> list[dict[str, Any]]:
    """Texts and numbers as a statement's parameters, in DynamoDB's own JSON."""
    return [{"S": value} if isinstance(value, str) else {"N": str(value)} for value in values]
