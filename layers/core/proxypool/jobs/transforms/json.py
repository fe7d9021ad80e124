"""JSON: the whole document, or the result of a JMESPath query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from proxypool.jobs.fetch.page import Answer
from proxypool.jobs.transforms import TransformError


class Json:
    """Option `query`: a JMESPath expression."""

    def check(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Validates the options."""
        errors = {name: "unknown" for name in options if name != "query"}
        query = options.get("query", "@")
        try:
            jmespath.compile(query if isinstance(query, str) else "")
        except JMESPathError:
            errors["query"] = "is not a JMESPath expression"
        return errors

    def apply(self, page: Answer, options: Mapping[str, Any]) -> Any:
        """The value; raises TransformError `not_json` or `query`."""
        try:
            value = json.loads(page.body)
        except (ValueError, RecursionError) as error:
            raise TransformError("not_json") from error
        try:
            return jmespath.search(options.get("query", "@"), value)
        except JMESPathError as error:
            raise TransformError("query", str(error)) from error


JSON = Json()
