"""CSV: rows as objects keyed by the header, or as lists."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from proxypool.jobs.fetch.page import Answer
from proxypool.jobs.transforms import TransformError
from proxypool.jobs.transforms.raw import decode_text


class Csv:
    """Options: `delimiter` (one character, default a comma), `header` (true if the first row has the column names, the default)."""

    def check(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Validates the options."""
        errors = {name: "unknown" for name in options if name not in ("delimiter", "header")}
        delimiter = options.get("delimiter", ",")
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n"':
            errors["delimiter"] = "must be one character"
        if not isinstance(options.get("header", True), bool):
            errors["header"] = "must be boolean"
        return errors

    def apply(self, page: Answer, options: Mapping[str, Any]) -> Any:
        """The rows; raises TransformError `not_csv`."""
        text = decode_text(page)
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
