"""CSV: rows as objects by the header, or as lists."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from proxypool.jobs.fetch.page import Answer
from proxypool.jobs.transforms import TransformError
from proxypool.jobs.transforms.raw import text_of


class Csv:
    """Options: `delimiter` (one character, default a comma), `header` (whether the first row names the columns, default true)."""

    def check(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """A delimiter is one character."""
        wrong = {name: "unknown" for name in options if name not in ("delimiter", "header")}
        delimiter = options.get("delimiter", ",")
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n"':
            wrong["delimiter"] = "must be one character"
        if not isinstance(options.get("header", True), bool):
            wrong["header"] = "must be boolean"
        return wrong

    def apply(self, page: Answer, options: Mapping[str, Any]) -> Any:
        """The rows; raises TransformError `not_csv`."""
        text = text_of(page)
        if text is None:
            raise TransformError("not_csv")
        source, delimiter = io.StringIO(text.removeprefix("\ufeff"), newline=""), options.get("delimiter", ",")
        try:
            if options.get("header", True):
                return [dict(row) for row in csv.DictReader(source, delimiter=delimiter, restkey="_more")]
            return list(csv.reader(source, delimiter=delimiter))
        except csv.Error as error:
            raise TransformError("not_csv", str(error)) from error


CSV = Csv()
