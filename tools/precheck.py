"""Says in one line what this machine lacks, before anything is installed. Standard library, any Python 3."""

import importlib.util
import sys

if sys.version_info < (3, 11):  # noqa: UP036  the very question
    sys.exit("Python 3.11 or newer is needed; another one is named by: make PYTHON=python3.12 ...")
for module in ("venv", "ensurepip"):
    if importlib.util.find_spec(module) is None:
        sys.exit("Python's venv module is missing: on Debian and Ubuntu install the package python3-venv.")
