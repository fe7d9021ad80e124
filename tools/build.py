"""Builds the layers and functions without Docker: `build.py aws` for Lambda, `build.py host` for this machine."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
from pathlib import Path
from py_compile import PycInvalidationMode

ROOT = Path(__file__).parents[1]
TAGS = ("none-any", "aarch64")  # wheels for Lambda are pure Python or for arm64


def build(target: str) -> Path:
    """Builds into build/<target>/{CoreLayer,DepsLayer,functions}; returns that folder. Raises CalledProcessError."""
    out = ROOT / "build" / target
    shutil.rmtree(out, ignore_errors=True)
    for layer, folder in (("CoreLayer", "core"), ("DepsLayer", "deps")):
        flags = [f"ARTIFACTS_DIR={out / layer}", f"PYTHON={sys.executable}", *(["HOST=1"] if target == "host" else [])]
        subprocess.run(["make", "-s", "-C", str(ROOT / "layers" / folder), f"build-{layer}", *flags], check=True)  # noqa: S603, S607
    shutil.copytree(ROOT / "functions", out / "functions", ignore=shutil.ignore_patterns("__pycache__"))
    if target == "aws":
        check_wheels(out / "DepsLayer")
    _compile(out, target)
    return out


def check_wheels(layer: Path) -> None:
    """Exits with a message if a wheel is for another platform than Lambda's."""
    for wheel in layer.rglob("*.dist-info/WHEEL"):
        tags = [line.split()[-1] for line in wheel.read_text().splitlines() if line.startswith("Tag:")]
        if not any(tag.endswith(TAGS) for tag in tags):
            sys.exit(f"{wheel.parent.name} is not for arm64: {', '.join(tags)}")


def _compile(out: Path, target: str) -> None:
    if target == "host":
        compileall.compile_dir(out, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
        return
    command = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(out)]
    try:
        subprocess.run(["python3.13", *command], check=True, capture_output=True)  # noqa: S603, S607
    except (OSError, subprocess.CalledProcessError):
        print("python3.13 not found: the build has no .pyc files, so that each cold start compiles (0.2-0.5 s more).")


if __name__ == "__main__":
    print(f"built {build(sys.argv[1]).relative_to(ROOT)}")
