"""The tree of exceptions: complete, with unique names."""

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
    """All exception classes of the package."""
    modules = [
        importlib.import_module(module.name) for module in pkgutil.walk_packages(proxypool.__path__, "proxypool.")
    ]
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__ == module.__name__
    ]


def test_every_error_is_under_one_root() -> None:
    """Errors of the command line are under the root of the client."""
    assert [kind for kind in classes() if not issubclass(kind, ProxyPoolError | PoolError)] == []


def test_no_two_errors_share_a_name() -> None:
    assert [name for name, number in Counter(kind.__name__ for kind in classes()).items() if number > 1] == []


def test_the_tree_in_the_docstring_names_every_error() -> None:
    assert errors.__doc__
    in_tree = set(re.findall(r"[A-Z]\w+", errors.__doc__.partition("\n\n")[2].partition("\n\n")[0]))

    assert {kind.__name__ for kind in classes() if issubclass(kind, ProxyPoolError)} <= in_tree


def test_the_tree_gives_each_api_error_its_status() -> None:
    """A status applies to the classes after it: `413 TooLarge · 422 Invalid`."""
    assert errors.__doc__
    in_tree: dict[str, int] = {}
    status = 0
    for word in re.findall(r"\b[1-5]\d\d\b|[A-Z]\w+", errors.__doc__.partition("ApiError")[2]):
        status = int(word) if word.isdigit() else status
        in_tree.setdefault(word, status)

    kinds = [kind for kind in classes() if issubclass(kind, ApiError) and kind is not ApiError]
    assert {kind.__name__: kind.status for kind in kinds}.items() <= in_tree.items()
