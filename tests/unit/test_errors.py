"""One tree of errors: every exception class of the package is in it, under its own name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections import Counter

import proxypool
from proxypool import errors
from proxypool.errors import ApiError, ProxyPoolError
from proxypool_client.errors import PoolError


def classes() -> list[type[BaseException]]:
    """Every exception class that a module of the package defines."""
    modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(proxypool.__path__, "proxypool.")]
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__ == module.__name__
    ]


def test_every_error_is_under_one_root() -> None:
    """So that one `except` catches what the package itself raises; the command line's are under the client's root."""
    assert [kind for kind in classes() if not issubclass(kind, ProxyPoolError | PoolError)] == []


def test_no_two_errors_share_a_name() -> None:
    assert [name for name, number in Counter(kind.__name__ for kind in classes()).items() if number > 1] == []


def test_the_tree_in_the_docstring_names_every_error() -> None:
    assert errors.__doc__
    drawn = set(re.findall(r"[A-Z]\w+", errors.__doc__.partition("\n\n")[2].partition("\n\n")[0]))

    assert {kind.__name__ for kind in classes() if issubclass(kind, ProxyPoolError)} <= drawn


def test_the_tree_gives_each_api_error_its_status() -> None:
    """The line of a class begins its part with the status: `413 TooLarge · 422 Invalid`."""
    assert errors.__doc__
    drawn: dict[str, int] = {}
    status = 0
    for word in re.findall(r"\b[1-5]\d\d\b|[A-Z]\w+", errors.__doc__.partition("ApiError")[2]):
        status = int(word) if word.isdigit() else status
        drawn.setdefault(word, status)

    kinds = [kind for kind in classes() if issubclass(kind, ApiError) and kind is not ApiError]
    assert {kind.__name__: kind.status for kind in kinds}.items() <= drawn.items()
