"""The host build: every function imports with nothing but its own folder and the layers, so no package is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("build")

FUNCTIONS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))
IMPORT = "import sys; sys.path[:0] = sys.argv[1:]; sys.path = [p for p in sys.path if 'site-packages' not in p]; import app; app.handler"

IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path[:0] = sys.argv[1:]
sys.path = [p for p in sys.path if 'site-packages' not in p]
number = 0
for package in ('proxypool', 'proxypool_client'):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + '.'):
        importlib.import_module(module.name)
        number += 1
print(number)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both layers, built for this machine."""
    out = tmp_path_factory.mktemp("build")
    for layer, folder in (("CoreLayer", "core"), ("DepsLayer", "deps")):
        target = ["make", "-s", "-C", str(ROOT / "layers" / folder), f"build-{layer}"]
        flags = ["HOST=1", f"ARTIFACTS_DIR={out / layer}", f"PYTHON={sys.executable}"]
        subprocess.run([*target, *flags], check=True, capture_output=True)
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_imports_with_the_layers_alone(built: Path, name: str) -> None:
    """The emulator would lend its own packages; Lambda lends none."""
    places = [str(ROOT / "functions" / name), str(built / "CoreLayer/python"), str(built / "DepsLayer/python")]

    run = subprocess.run([sys.executable, "-I", "-c", IMPORT, *places], capture_output=True, text=True, cwd=built)

    assert run.returncode == 0, run.stderr


def test_every_module_of_the_layer_imports_with_the_layers_alone(built: Path) -> None:
    """B6: a module whose imports Lambda lacks does not belong into the layer."""
    core, deps = (str(built / layer / "python") for layer in ("CoreLayer", "DepsLayer"))

    run = subprocess.run(
        [sys.executable, "-I", "-c", IMPORT_ALL, core, deps], capture_output=True, text=True, cwd=built
    )

    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 100


def test_the_layer_carries_no_package_that_no_function_imports(built: Path) -> None:
    """B7: redis-py serves the local stack only (6 MB), SOCKS support of httpx nobody."""
    packages = {path.name for path in (built / "DepsLayer/python").iterdir()}

    assert "httpx" in packages
    assert packages.isdisjoint({"redis", "socksio", "typer", "rich"})


def test_the_layer_leaves_out_what_only_a_laptop_needs(built: Path) -> None:
    """The local stack and the command line stay at home."""
    package = built / "CoreLayer/python/proxypool"

    assert (package / "config/settings.py").is_file()
    assert not (package / "local").exists()
    assert not (package / "cli.py").exists()
    assert not (package / "cli").exists()
    assert (package / "openapi.json").is_file()
