"""Finds the file `.local/stack.json` of a local stack, and checks that it can be trusted.

Its addresses determine where requests go and which proxies a worker uses, so a file that another user can write is rejected: in
a shared folder such as /tmp, every user of the machine can create one above another user's working directory.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from proxypool_client.errors import NoPool

STACK_FILE = Path(".local") / "stack.json"
ADDRESSES = ("api_url", "endpoint_url")
_LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR)  # of O_NOFOLLOW at a symbolic link: to a file, to a folder


class LocalUrl(str):
    """The address of a local stack, read from its file. Requests to it carry neither a bearer token nor a signature: the
    address contains the stack's own token."""

    __slots__ = ()


def find_stack(folder: Path | None = None) -> Path | None:
    """The file `.local/stack.json` of this folder or the nearest one above it, or None.

    The search ends at a repository's root, at the home folder and at a file system boundary. `read_stack` checks whether the
    file can be trusted.
    """
    current = (folder or Path.cwd()).resolve()
    home, device = Path(os.path.expanduser("~")).resolve(), current.stat().st_dev
    while True:
        if os.path.isfile(current / STACK_FILE):  # also False for a folder that this user cannot enter
            return current / STACK_FILE
        above = current.parent
        if current in (home, above) or (current / ".git").exists() or above.stat().st_dev != device:
            return None
        current = above


def read_stack(file: Path) -> dict[str, Any]:
    """The content of a stack's file: `api_url` and more; all its addresses are on loopback.

    Raises NoPool if the file cannot be read, if another user could have written it (the file and its folder must belong to this
    user, must not be writable by others, and must not be symbolic links), or if it was left by a killed stack: any user can
    listen on a port that is free again.
    """
    text = _own_text(file)
    try:
        stack = dict(json.loads(text))
        addresses = [stack["api_url"], *(stack[name] for name in ADDRESSES[1:] if name in stack)]
        if all(isinstance(address, str) for address in addresses):
            if not all(is_loopback(urlsplit(address).hostname) for address in addresses):
                raise NoPool(f"{file} is not used: it names an address that is not on this machine")
            if not _is_alive(stack.get("children", {}).get("aws", os.getpid())):
                raise NoPool(f"{file} is not used: its stack was killed; start it again, or set PROXYPOOL_URL")
            return stack
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise _unreadable(file)


def why_not_trusted(status: os.stat_result) -> str:
    """The reason why another user could have written a file or folder; "" if none."""
    if status.st_uid != os.getuid():
        return "belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by other users"
    return ""


def is_loopback(host: str | None) -> bool:
    """True if a URL's host is localhost or a loopback IP address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _is_alive(pid: int) -> bool:
    """True if a process of this user has this id."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError, OverflowError):
        return False
    return pid > 0  # others denote process groups


def _own_text(file: Path) -> str:
    """The file's text; opened relative to its folder's descriptor, so that the checked file is the one that is read."""
    try:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _trust(file.parent, folder)
            opened = os.open(file.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)
        with open(opened, encoding="utf-8") as text:
            _trust(file, opened)
            return text.read()
    except OSError as error:
        if error.errno in _LINK_ERRORS:
            raise NoPool(f"{file} is not used: it or its folder is a symbolic link") from error
        raise _unreadable(file) from error
    except UnicodeDecodeError as error:
        raise _unreadable(file) from error


def _trust(path: Path, descriptor: int) -> None:
    if reason := why_not_trusted(os.fstat(descriptor)):
        raise NoPool(f"{path} is not used: it {reason}")


def _unreadable(file: Path) -> NoPool:
    return NoPool(f"{file} cannot be read: restart the stack, or set PROXYPOOL_URL")
