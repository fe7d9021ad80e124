"""Access to DynamoDB on the emulated AWS: results of each kind of write, and models bound to several tables."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from proxypool import aws
from proxypool.aws import dynamodb
from proxypool.aws.dynamodb import (
    StatementRefused,
    Throttled,
    bind_table,
    execute,
    execute_each,
    insert,
    try_write,
    update,
)
from proxypool.aws.state import StateItem, StateTable
from pynamodb.exceptions import UpdateError

from tests.support.servers import create_tables


@pytest.fixture(scope="module")
def states(aws_endpoint: str) -> tuple[str, str]:
    """Two state tables."""
    first, second = (create_tables(f"tb{uuid4().hex[:8]}-")["StateTable"] for _ in range(2))
    return first, second


def item(table_name: str, name: str) -> dict[str, Any]:
    """An item as DynamoDB JSON; empty if it does not exist."""
    response = aws.client("dynamodb").get_item(TableName=table_name, Key={"name": {"S": name}}, ConsistentRead=True)
    return dict(response.get("Item", {}))


def test_one_process_has_a_model_for_each_table(states: tuple[str, str]) -> None:
    first, second = (StateTable(name) for name in states)

    first.put("fact", 1)
    second.put("fact", 2)

    assert (first.get("fact"), second.get("fact")) == (1, 2)
    assert bind_table(StateItem, states[0]) is bind_table(StateItem, states[0])
    assert bind_table(StateItem, states[0]) is not bind_table(StateItem, states[1])


def test_a_bound_model_raises_the_errors_of_its_model(states: tuple[str, str]) -> None:
    with pytest.raises(StateItem.DoesNotExist):
        bind_table(StateItem, states[0]).get("missing")


def test_a_conditional_write_returns_false_if_its_condition_failed(states: tuple[str, str]) -> None:
    row = bind_table(StateItem, states[0])("conditional", number=1)
    absent = StateItem.name.does_not_exist()

    assert try_write(lambda: row.save(condition=absent))
    assert not try_write(lambda: row.save(condition=absent))
    assert not try_write(lambda: row.update(actions=[StateItem.number.set(5)], condition=StateItem.number == 2))
    assert not try_write(lambda: row.delete(condition=StateItem.number == 2))
    assert item(states[0], "conditional")["number"] == {"N": "1"}


def test_a_write_that_fails_for_another_reason_raises(aws_endpoint: str) -> None:
    """A missing table is not a failed condition."""
    missing = bind_table(StateItem, f"missing-{uuid4().hex[:8]}")("x")

    with pytest.raises(UpdateError):
        try_write(lambda: missing.update(actions=[StateItem.number.set(5)]))


def test_a_statement_is_applied_if_all_conditions_hold(states: tuple[str, str]) -> None:
    """Sets, adds, removes and each kind of value in one statement."""
    name = states[0]
    assert execute([insert(name, {"name": "s", "number": 1, "asked": 2, "value": {"S": "old"}})]) == [True]
    key = ("name", "=", "s")

    results = execute(
        [
            insert(name, {"name": "s", "number": 9}),
            update(name, [key, ("number", ">", 1)], sets={"asked": 9}),
            update(name, [key, ("number", "<=", 1), ("asked", "<>", 9)],
                   sets={"flag": True, "raw": b"x"}, adds={"number": 4}, removes=["value"]),
            update(name, [("name", "=", "missing")], sets={"asked": 9}),
        ]
    )  # fmt: skip

    assert results == [False, False, True, False]
    assert item(name, "s") == {
        "name": {"S": "s"}, "number": {"N": "5"}, "asked": {"N": "2"}, "flag": {"BOOL": True}, "raw": {"B": b"x"},
    }  # fmt: skip
    assert item(name, "missing") == {}


def test_results_of_several_calls_are_in_order(states: tuple[str, str]) -> None:
    name, prefix = states[0], f"n{uuid4().hex[:8]}"
    statements = [insert(name, {"name": f"{prefix}{number // 2}"}) for number in range(60)]

    assert execute(statements) == [True, False] * 30


def test_a_refused_statement_fails_alone(states: tuple[str, str]) -> None:
    """The others are applied."""
    name, prefix = states[0], f"r{uuid4().hex[:8]}"
    rows = [insert(name, {"name": prefix}), (f'UPDATE "{name}" SET x = ?', [{"N": "1"}])]

    applied, refused = execute_each(rows)

    assert applied is True
    assert isinstance(refused, StatementRefused)
    assert refused.code
    with pytest.raises(StatementRefused):
        execute(rows)


@pytest.mark.parametrize(
    "code",
    [
        "ThrottlingError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "TransactionConflict",
        "InternalServerError",
    ],
)
def test_a_transient_error_of_a_statement_is_retried(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    codes = iter([[code], [""]])
    monkeypatch.setattr(dynamodb, "_codes", lambda _: next(codes))
    monkeypatch.setattr("proxypool.aws.dynamodb.time.sleep", lambda _: None)

    assert execute_each([("", [])]) == [True]


def test_throttled_statements_are_retried_alone_and_reported_after_the_last_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits, sizes = list[float](), list[int]()

    def codes(statements: Any) -> list[str]:
        sizes.append(len(statements))
        return [text if len(sizes) < 4 or text != "ThrottlingError" else "" for text, _ in statements]

    monkeypatch.setattr(dynamodb, "_codes", codes)
    monkeypatch.setattr("proxypool.aws.dynamodb.time.sleep", waits.append)
    rows: list[dynamodb.Statement] = [
        ("", []),
        ("ThrottlingError", []),
        ("DuplicateItem", []),
        ("RequestLimitExceeded", []),
    ]

    assert execute_each(rows[:3]) == [True, True, False]
    assert (sizes, waits) == ([3, 1, 1, 1], sorted(waits))
    with pytest.raises(Throttled) as raised:
        execute_each(rows)
    assert raised.value.count == 1
