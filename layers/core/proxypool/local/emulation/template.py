"""Reads a SAM template as data: YAML with CloudFormation's short tags (`!Ref`, `!Sub`, …) in their long form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as Safe  # six times as fast
except ImportError:  # pragma: no cover  PyYAML without libyaml
    from yaml import SafeLoader as Safe  # type: ignore[assignment]


class _Loader(Safe):
    """SafeLoader with the short tags."""


def _tag(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _tag)


def load(path: Path) -> dict[str, Any]:
    """The template as plain dictionaries."""
    template = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506  a subclass of SafeLoader
    assert isinstance(template, dict)
    return template
