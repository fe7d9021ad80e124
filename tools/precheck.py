"""Checks the Python installation before packages are installed; exits with one line. Standard library, any Python 3."""

import importlib.util
import sys

if sys.version_info < (3, 11):  # noqa: UP036
    found = ".".join(str(part) for part in sys.version_info[:3])
    sys.exit("Python 3.11 or newer is needed, this is " + found + "; choose another one: make PYTHON=python3.12 ...")
for module in ("venv", "ensurepip"):
    if importlib.util.find_spec(module) is None:
        sys.exit("Python's venv module is missing: on Debian and Ubuntu install the package python3-venv.")
