"""Requests, answers, schemas and rows of a record, from what its fields declare (`codec.py`). Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, replace
from typing import Any

from proxypool.http.codec import Codec, members
from proxypool.http.operation import Schema, object_
from proxypool.http.web import Field


def request_fields(record: type) -> dict[str, Field]:
    """The members of a request that the record's fields declare, by name."""
    out = {}
    for name, meta, codec, _, default in members(record):
        if "request" in meta:
            kind = list if codec.stored is set else codec.stored
            value = None if default is MISSING else tuple(default) if kind is list else default
            choices = tuple(codec.schema.get("enum", meta["request"].choices))
            out[name] = replace(meta["request"], kind=kind, required=default is MISSING, default=value, choices=choices)
    return out


def to_json(record: Any) -> dict[str, Any]:
    """The record as answers have it, with the properties that its class names in SHOWN (name → schema)."""
    out: dict[str, Any] = {}
    for name, meta, codec, _, _ in members(record.__class__):
        value = getattr(record, name) if "shown" in meta else None
        if codec.record and value is not None:
            out |= to_json(value)
        elif "shown" in meta and (value not in (None, "") or "optional" not in meta):
            out[name] = None if value is None else codec.show(value)
    return out | {name: getattr(record, name) for name in getattr(record, "SHOWN", ())}


def json_schema(record: type) -> dict[str, Any]:
    """The JSON schema of `to_json`."""
    found: dict[str, Schema] = {}
    for name, meta, codec, *_ in members(record):
        if "shown" in meta:
            found |= (
                json_schema(codec.record)["properties"] if codec.record else {name: {**codec.schema, **meta["shown"]}}
            )
    found |= getattr(record, "SHOWN", {})
    optional = {one.name for one in members(record) if one.meta.get("optional")}
    return {**object_(**found), "required": [name for name in found if name not in optional]}


def to_arguments(record: type, values: Mapping[str, Any], *, by_stored_name: bool = False) -> dict[str, Any]:
    """The record's arguments from a row, or from checked values of a request; None and unknown names are left out."""
    out: dict[str, Any] = {}
    for name, _, codec, stored, _ in members(record):
        value = values.get(stored if by_stored_name else name)
        if value is not None:
            if codec.record is None or codec.stored is not dict:
                out[name] = codec.load(value)
            else:
                out[name] = codec.record(**to_arguments(codec.record, value, by_stored_name=True))
    return out


def to_attributes(record: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of fields as a row's attributes, by field name; None for nothing: None, empty texts and empty collections."""
    codecs = {one.name: one.codec for one in members(record)}
    out = {name: _store(codecs[name], value) for name, value in values.items()}
    return {name: None if value in ("", [], {}, set()) else value for name, value in out.items()}


def to_row(record: Any) -> dict[str, Any]:
    """All attributes of a record, as `store` has them."""
    return to_attributes(
        type(record), {one.name: getattr(record, one.name) for one in members(record.__class__) if one.stored}
    )


def _store(codec: Codec, value: Any) -> Any:
    if value is None or codec.record is None or codec.stored is not dict:
        return None if value is None else codec.store(value)
    stored = to_row(value)
    return {one.stored: stored[one.name] for one in members(codec.record) if stored.get(one.name)}
