"""What a record's fields are outside of Python: the metadata of a dataclass field, and a codec for each type.

`fields.py` makes requests, answers and rows from it. Standard library only: `lease` imports this at its cold start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, Final, NamedTuple, TypedDict, cast, get_args, get_origin, get_type_hints

from proxypool import clock
from proxypool.http import operation as json_schema
from proxypool.http.operation import TEXT, Schema, array, map_, nullable, one_of
from proxypool.http.web import Field


class Codec(NamedTuple):
    """A type's conversions, which never get None. `load` reads stored values, and a request's values once they are checked."""

    stored: type  # of the stored value: str, int, float, bool, set, list or dict
    schema: Schema
    show: Callable[[Any], Any] = lambda value: value  # to JSON
    store: Callable[[Any], Any] = lambda value: value
    load: Callable[[Any], Any] = lambda value: value
    record: type | None = None  # the dataclass, if it is a nested record


class Meta(TypedDict, total=False):
    """The metadata of a field. Without any it is stored under its own name, and no request or answer has it."""

    request: Field  # limits and description; kind, choices and default are the dataclass field's
    shown: Schema  # answers have it, with this added to its schema; a nested record is shown flat
    optional: bool  # answers omit it where it is "" or None
    stored: str  # the attribute's name, if it differs; "": not stored
    codec: Codec  # instead of the annotation's


class Member(NamedTuple):
    """A field of a record; `default` is MISSING if there is none."""

    name: str
    meta: Meta
    codec: Codec
    stored: str
    default: Any


TEXT_OR_NULL: Final = Codec(str, nullable(TEXT), lambda text: text or None, str)
"""A text that is null in JSON where it is empty."""
_CODECS: Final = {
    str: Codec(str, TEXT, store=str),
    bool: Codec(bool, json_schema.BOOLEAN, load=bool),
    int: Codec(int, json_schema.INTEGER, load=int),
    float: Codec(float, json_schema.NUMBER, store=lambda number: round(number, 4), load=float),
    datetime: Codec(int, json_schema.INSTANT, clock.iso, clock.epoch, clock.from_epoch),
    Any: Codec(dict, json_schema.ANYTHING),
}


def find_codec(hint: Any) -> Codec:
    """The codec of an annotation: a type above, StrEnum, X | None, tuple[X, ...], frozenset[X], Mapping[str, X], a dataclass."""
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if NoneType in arguments:
        codec = find_codec(arguments[0])
        return codec._replace(schema=nullable(codec.schema))
    if kind is tuple:
        return Codec(list, array(find_codec(arguments[0]).schema), list, list, tuple)
    if kind is frozenset:
        return Codec(set, array(find_codec(arguments[0]).schema), sorted, set, frozenset)
    if kind is Mapping:
        return Codec(dict, map_(find_codec(arguments[1]).schema), dict, dict, dict)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return Codec(str, one_of(*kind), str, str, kind)
    if isinstance(kind, type) and is_dataclass(kind):
        return Codec(dict, {}, record=kind)
    return _CODECS[kind]


@cache
def members(record: type) -> tuple[Member, ...]:
    """The fields of a dataclass, in order; annotations are resolved here, at first use."""
    hints, out = get_type_hints(record), []
    for one in fields(record):
        meta = cast(Meta, one.metadata)
        codec = meta.get("codec") or find_codec(hints[one.name])
        default = one.default if one.default_factory is MISSING else one.default_factory()
        out.append(Member(one.name, meta, codec, meta.get("stored", one.name), default))
    return tuple(out)


def attributes(record: type) -> dict[str, tuple[str, type]]:
    """What the rows of a table have of a record: field name → (attribute name, type of the stored value)."""
    return {one.name: (one.stored, one.codec.stored) for one in members(record) if one.stored}
