#!/usr/bin/env python3
"""Builds the wheel and tests it where nothing else is installed:

    python3 python/build.py            # a wheel as it is published, in target/wheels
    python3 python/build.py --target aarch64-unknown-linux-gnu    # the same for ARM and glibc 2.28, with C compiled by Zig
    python3 python/build.py --test     # a wheel of the checked build, in an empty virtual environment, and every test there
    python3 python/build.py --prepare  # installs what --test needs, and no more: then `--offline --test` waits for no download

Needs Python 3.10 or later with `venv`, Rust and a C compiler. What else it needs it installs into `target/python`.

With `--test` the native half is built as tests are, with little optimisation. The wheel that is published is built with all of it;
`--release --test` tests that one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORK = ROOT / "target" / "python"
WHEELS = ROOT / "target" / "wheels"

TOOLS = ["maturin>=1.9,<2"]
TESTS = ["pytest>=8", "pyarrow>=15", "pandas>=2.2", "polars>=1.3", "duckdb>=1.1"]
TESTS += ["obstore>=0.6", "deltalake>=1", "pyiceberg[sql-sqlite,pyarrow]>=0.9", "moto[server]"]
# Extras, and large: only the tests of clusters have them. Those of Spark are skipped where there is no Java.
CLUSTERS = ["pytest>=8", "ray[data]>=2.60,<3", "pyarrow>=15", "pandas>=2.2", "obstore>=0.6", "moto[server]"]
CLUSTERS += ["pyspark>=3.5,<5"] if shutil.which("java") else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", action="store_true", help="test the wheel in an empty virtual environment")
    parser.add_argument("--prepare", action="store_true", help="install what --test needs, and build nothing")
    parser.add_argument("--release", action="store_true", help="with --test: build with all optimisation")
    parser.add_argument("--offline", action="store_true", help="install nothing: take what a run before this one installed")
    parser.add_argument("--target", help="a target of Rust: a wheel for Linux with glibc 2.28 and later there, not tested")
    args = parser.parse_args()
    if args.test and args.target:
        parser.error("--test runs the wheel, so it takes no --target")
    if args.prepare:
        for name, packages in {"tools": TOOLS, "tests": TESTS, "clusters": CLUSTERS}.items():
            environment(name, packages)
        return
    wheel = build(release=args.release or not args.test, offline=args.offline, target=args.target)
    print(wheel.relative_to(ROOT))
    if args.test:
        test(wheel, args.offline)


def build(release: bool, offline: bool, target: str | None) -> Path:
    """The wheel, made by maturin. For another machine Zig compiles the C code, and links against an old glibc."""
    zig = ["ziglang>=0.13"] if target else []
    tools = environment("tools", [] if offline else [*TOOLS, *zig])
    there = ["--zig", "--compatibility", "manylinux_2_28", "--target", target] if target else []
    for old in WHEELS.glob("vesica-*.whl"):
        old.unlink()
    profile = ["--release"] if release else ["--profile", "dev"]
    # Maturin looks for Zig as a module of the Python that comes first.
    path = os.pathsep.join([str(tools), os.environ.get("PATH", "")])
    call([tools / "maturin", "build", "--quiet", "--out", WHEELS, *profile, *there], cwd=HERE, PATH=path)
    (wheel,) = WHEELS.glob("vesica-*.whl")
    return wheel


def test(wheel: Path, offline: bool) -> None:
    """The wheel alone, then with the libraries whose tables it takes."""
    bare = environment("bare", [], clear=True)
    call([bare / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel])
    # Without any other package, and away from the sources.
    call([bare / "vesica", "--version"], cwd=WORK)
    call([bare / "python", "-c", "import vesica, sys; assert not {'pyarrow', 'pandas', 'polars'} & set(sys.modules)"], cwd=WORK)
    tests = environment("tests", [] if offline else TESTS)
    call([tests / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", wheel])
    # Away from the sources, so that the package of the wheel is the one that is imported.
    suite = ["-p", "no:cacheprovider", "-c", HERE / "pyproject.toml"]
    call([tests / "pytest", *suite, HERE / "tests"], cwd=WORK)
    clusters = environment("clusters", [] if offline else CLUSTERS)
    call([clusters / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", wheel])
    call([clusters / "pytest", *suite, *(HERE / "tests" / f"test_{name}.py" for name in ("ray", "spark"))], cwd=WORK)


def environment(name: str, packages: list[str], clear: bool = False) -> Path:
    """The programs of a virtual environment that has these packages."""
    folder = WORK / name
    if clear or not (folder / "bin" / "python").exists():
        venv.create(folder, clear=True, with_pip=True)
    if packages:
        # Thousands of modules come with these, and few are imported: those are compiled then.
        quickly = ["--quiet", "--disable-pip-version-check", "--no-compile"]
        call([folder / "bin" / "python", "-m", "pip", "install", *quickly, *packages])
    return folder / "bin"


def call(command: list[object], cwd: Path = ROOT, **variables: str) -> None:
    words = [str(word) for word in command]
    print(">", " ".join(words), flush=True)
    ended = subprocess.run(words, cwd=cwd, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables})
    if ended.returncode != 0:
        sys.exit(f"{Path(words[0]).name} ended with exit code {ended.returncode}")


main()
