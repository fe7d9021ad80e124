"""The host build: every function can be imported with only its folder and the layers."""

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
def layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both layers, built for this machine."""
    out = tmp_path_factory.mktemp("build")
    for layer, folder in (("CoreLayer", "core"), ("DepsLayer", "deps")):
        target = ["make", "-s", "-C", str(ROOT / "layers" / folder), f"build-{layer}"]
        flags = ["HOST=1", f"ARTIFACTS_DIR={out / layer}", f"PYTHON={sys.executable}"]
        subprocess.run([*target, *flags], check=True, capture_output=True)
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_imports_with_the_layers_alone(layers: Path, name: str) -> None:
    """The local environment has more packages than Lambda."""
    paths = [str(ROOT / "functions" / name), str(layers / "CoreLayer/python"), str(layers / "DepsLayer/python")]

    run = subprocess.run([sys.executable, "-I", "-c", IMPORT, *paths], capture_output=True, text=True, cwd=layers)

    assert run.returncode == 0, run.stderr


def test_every_module_of_the_layer_imports_with_the_layers_alone(layers: Path) -> None:
    """B6: modules that cannot be imported on Lambda are not part of the layer."""
    core, deps = (str(layers / layer / "python") for layer in ("CoreLayer", "DepsLayer"))

    run = subprocess.run(
        [sys.executable, "-I", "-c", IMPORT_ALL, core, deps], capture_output=True, text=True, cwd=layers
    )

    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 100


def test_the_layer_has_no_unused_packages(layers: Path) -> None:
    """B7: redis-py (6 MB) is used by the local stack only, SOCKS support of httpx not at all."""
    packages = {path.name for path in (layers / "DepsLayer/python").iterdir()}

    assert "httpx" in packages
    assert packages.isdisjoint({"redis", "socksio", "typer", "rich"})


def test_the_layer_has_no_local_stack_and_no_command_line(layers: Path) -> None:
    package = layers / "CoreLayer/python/proxypool"

    assert (package / "config/settings.py").is_file()
    assert not (package / "local").exists()
    assert not (package / "cli.py").exists()
    assert not (package / "cli").exists()
    assert (package / "openapi.json").is_file()
