"""The text of the template's parameter `Overrides`: `sweep_page=100,check_skip=integrity_https+targets`.

Pairs are separated by commas, the items of a list by `+`; every other character that is not in `UNESCAPED_CHARACTER` is percent-encoded (RFC
3986; a comma is `%2C`). Nothing in it needs quotes in a shell, in samconfig.toml or in `sam deploy --parameter-overrides`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

MAX_CHARS: Final = 1_300  # with all other variables below the 4 KB of a Lambda environment (a test adds them up)
PAIR_SEPARATOR: Final = ","
LIST_SEPARATOR: Final = "+"
UNESCAPED_CHARACTER: Final = "[A-Za-z0-9._~:/@%#=-]"  # unescaped characters of a text, and `%` for escapes like `%2C`
_NOT_QUOTED: Final = "._~:/@#=-"
_BROKEN_ESCAPE: Final = "%(?![0-9A-Fa-f]{2})"

Value = bool | int | float | str | tuple[str, ...]


class SettingSpec(NamedTuple):  # a dataclass would slow down the cold start of `lease`
    """One row of the table of settings. The type of `default` is the type of the setting.

    `low` and `high` are the bounds of a number; `choices` are the valid texts, or items of a list; `pattern` is a regular
    expression for a text, or for each item of a list, after decoding. `unit` is for the documentation, "" where there is none.
    """

    section: str
    default: Value
    doc: str
    unit: str = ""
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    pattern: str = ".*"

    @property
    def shape(self) -> str:
        """A regular expression for the value as it is written in an override; ranges are not part of it."""
        if isinstance(self.default, bool):
            return "(true|false)"
        if isinstance(self.default, int):
            return "[0-9]{1,9}"
        if isinstance(self.default, float):
            return "[0-9]{1,9}([.][0-9]{1,3})?"
        if self.choices and isinstance(self.default, str):
            return f"({'|'.join(self.choices)})"
        return (
            f"{UNESCAPED_CHARACTER}+([+]{UNESCAPED_CHARACTER}+)*"
            if isinstance(self.default, tuple)
            else f"{UNESCAPED_CHARACTER}+"
        )

    @property
    def allowed(self) -> str:
        """The valid values, for documentation: `1 to 900`, `strict or availability`, `a list`."""
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, int | float):
            return f"{self.low:,g} to {self.high:,g}" if self.high < 1e6 else f"{self.low:,g} to {self.high:,.0f}"
        if self.choices:
            return f"{'a list of ' * isinstance(self.default, tuple)}{', '.join(self.choices)}"
        return "a list" if isinstance(self.default, tuple) else "a text"

    def read(self, text: str) -> Value:
        """The value of an override. Raises ValueError with a message for the user."""
        if not re.fullmatch(self.shape, text) or re.search(_BROKEN_ESCAPE, text):
            raise ValueError(f"{text!r} is not {self._expected()}")
        if isinstance(self.default, bool):
            return text == "true"
        if isinstance(self.default, int | float):
            number = type(self.default)(text)
            if not self.low <= number <= self.high:
                raise ValueError(f"{text} is not {self._expected()}")
            return number
        if isinstance(self.default, tuple):
            return tuple(self._text(self._decode(item)) for item in text.split(LIST_SEPARATOR))
        return self._text(self._decode(text))

    def _decode(self, text: str) -> str:
        try:
            return unquote(text, errors="strict")
        except UnicodeDecodeError as error:
            raise ValueError(f"{text!r} is not {self._expected()} in UTF-8") from error

    def _text(self, text: str) -> str:
        if (
            not text.isprintable()
            or not re.fullmatch(self.pattern, text)
            or (self.choices and text not in self.choices)
        ):
            raise ValueError(f"{text!r} is not {self._expected(item=True)}")
        return text

    def _expected(self, *, item: bool = False) -> str:
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, int):
            return f"an integer from {self.allowed}"
        if isinstance(self.default, float):
            return f"a number from {self.allowed}"
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if item:
            return f"valid: it must match {self.pattern}"
        return "a percent-encoded text" + " with + between items" * isinstance(self.default, tuple)


def parse(text: str, rows: Mapping[str, SettingSpec]) -> tuple[dict[str, Value], list[str]]:
    """The valid settings of the text, and a line for each pair that is not valid. A name that occurs twice is not valid."""
    values: dict[str, Value] = {}
    problems: list[str] = []
    seen: set[str] = set()
    for name, value in _pairs(text):
        if name not in rows:
            problems.append(f"{name!r} is not a setting")
        elif name in seen:
            problems.append(f"{name} occurs more than once")
            values.pop(name, None)
        else:
            try:
                values[name] = rows[name].read(value)
            except ValueError as error:
                problems.append(f"{name}: {error}")
        seen.add(name)
    return values, problems


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.split(PAIR_SEPARATOR) if text else []:
        name, _, value = pair.partition("=")
        yield name, value


def serialize(values: Mapping[str, Value]) -> str:
    """The text of these settings; the inverse of `parse`. An empty text or list cannot be written and is left out."""
    return PAIR_SEPARATOR.join(f"{name}={_written(value)}" for name, value in values.items() if value not in ("", ()))


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return LIST_SEPARATOR.join(quote(item, safe=_NOT_QUOTED) for item in value)
    return quote(f"{value:g}" if isinstance(value, float) else str(value), safe=_NOT_QUOTED)


def pattern(rows: Mapping[str, SettingSpec]) -> str:
    """A regular expression (Python, Java) for the whole text: known names, each with a value of its shape."""
    names_of: dict[str, list[str]] = {}
    for name, row in rows.items():
        names_of.setdefault(row.shape, []).append(name)
    pairs = "|".join(f"({'|'.join(names)})={shape}" for shape, names in names_of.items())
    return f"(?!,)((^|,)({pairs}))*"
