"""What the package says of itself: stubs, docstrings, the command, what it imports."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import vesica
from vesica import _core

MODULES = [m.name for m in pkgutil.walk_packages(vesica.__path__, "vesica.") if not m.name.endswith(("__main__", "._core"))]


@pytest.mark.parametrize("name", ["vesica", *MODULES])
def test_the_docstrings_examples(name: str) -> None:
    for extra, needed in (("vesica.ray", "ray"), ("vesica.spark", "pyspark")):
        if name.startswith(extra):
            pytest.importorskip(needed)
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def parameters(function: ast.FunctionDef) -> list[str]:
    return [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs) if a.arg != "self"]


def test_the_stubs_are_of_this_module() -> None:
    stubs = ast.parse((files("vesica") / "_core.pyi").read_text())
    told = {node.name: node for node in stubs.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    values = {node.target.id for node in stubs.body if isinstance(node, ast.AnnAssign)}
    there = {name for name in dir(_core) if not name.startswith("__") or name == "__version__"}
    assert there == {*told, *values}
    for name, node in told.items():
        real = getattr(_core, name)
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == list(inspect.signature(real).parameters), name
            continue
        members = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef) and one.name != "__init__"}
        public = {one for one in vars(real) if not one.startswith("__") or one.startswith("__arrow")}
        assert public == set(members), name
        for member, stub in members.items():
            if callable(getattr(real, member)) and not stub.decorator_list:
                signature = inspect.signature(getattr(real, member))
                assert parameters(stub) == [p for p in signature.parameters if p != "self"], f"{name}.{member}"


def test_everything_public_is_there_typed_and_explained() -> None:
    assert (files("vesica") / "py.typed").is_file()
    for name in vesica.__all__:
        one = getattr(vesica, name)
        if callable(one):
            assert inspect.getdoc(one), name


def test_importing_brings_nothing_heavy() -> None:
    code = "import vesica, vesica.secretflow, sys; print({'pyarrow', 'pandas', 'polars', 'ray'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_the_command_comes_with_the_wheel(tmp_path: Path) -> None:
    for command in ([str(Path(sys.executable).parent / "vesica")], [sys.executable, "-m", "vesica"]):
        told = subprocess.run([*command, "--version"], capture_output=True, text=True)
        assert (told.returncode, told.stdout) == (0, f"vesica {vesica.__version__}\n")
        wrong = subprocess.run([*command, "run", tmp_path / "none.toml"], capture_output=True, text=True)
        assert wrong.returncode == 2 and "none.toml" in wrong.stderr


def test_the_command_starts_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vesica", "demo", "--rows", "2000", "--out", tmp_path / "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "Checked: both outputs hold exactly" in done.stdout, done.stderr
    report = vesica.Report.from_json((tmp_path / "demo" / "alice.report.json").read_text())
    assert report.job.party == "alice" and "<svg" in report.html()
    # There is one page, and a notebook shows it where it can do nothing.
    made = [sys.executable, "-m", "vesica", "report", tmp_path / "demo" / "alice.report.json", "--html", "--out", tmp_path / "page.html"]
    subprocess.run(made, check=True, timeout=60)
    assert (tmp_path / "page.html").read_text() == report.html()
    shown = report._repr_html_()
    assert shown.startswith('<iframe sandbox srcdoc="&lt;!doctype html') and shown.count('"') == 4 and "<svg" not in shown


def test_what_is_no_report_has_no_page() -> None:
    with pytest.raises(vesica.InputError, match="this is no report of a run"):
        _core.page("{}")
