"""The book's notebook: its cells are run in their order, and give what the page shows below them."""

from __future__ import annotations

import ast
import contextlib
import fnmatch
import importlib.util
import io
from pathlib import Path
from typing import Any

import pandas
import pytest

SOURCES = Path(__file__).resolve().parents[2]


def run(cell: str, names: dict[str, Any]) -> str:
    """What a cell prints, and then what its last line is, as a notebook shows it."""
    tree, last = ast.parse(cell), None
    if isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(last, "cell", "eval"), names) if last else None
        if value is not None:
            print(repr(value))
    return printed.getvalue()


def test_cells_give_what_the_page_shows(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("notebook", SOURCES / "python" / "notebook.py")
    assert spec is not None and spec.loader is not None
    notebook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebook)
    monkeypatch.chdir(tmp_path)
    pandas.set_option("display.width", 120)
    names: dict[str, Any] = {}
    gave, compared = "", 0
    for kind, text in notebook.parts(notebook.PAGE.read_text(encoding="utf-8").replace(":5300", f":{port}")):
        if kind == "python":
            gave = run(text, names)
        elif kind == "shown":
            want = [line.rstrip() for line in text.splitlines()]
            got = [line.rstrip() for line in gave.splitlines()]
            same = len(want) == len(got) and all(
                fnmatch.fnmatchcase(g, "*".join(part.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]") for part in w.split("…")))
                for g, w in zip(got, want)
            )
            assert same, f"the page shows\n{text}and the cell gives\n{gave}"
            compared += 1
    assert compared >= 5
