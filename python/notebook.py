#!/usr/bin/env python3
"""Prints the notebook that docs/src/tutorials/notebook.md is: its text, its cells, and what they gave.

`cargo xtask gen` keeps it beside the page. The test `python/tests/test_notebook.py` runs the cells and compares what they give with what
the page shows, so the notebook's outputs are those of a run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "src" / "tutorials" / "notebook.md"


def parts(page: str) -> list[tuple[str, str]]:
    """The page in its order: `("text", …)`, `("python", …)` for a cell, and `("shown", …)` for what the cell before it gave."""
    found: list[tuple[str, str]] = []
    for text, kind, code in re.findall(r"(.*?)(?:^```(python|text)\n(.*?)^```\n|\Z)", page, re.DOTALL | re.MULTILINE):
        if text.strip():
            found.append(("text", text.strip() + "\n"))
        if kind:
            found.append(("python" if kind == "python" else "shown", code))
    return found


def notebook(page: str) -> dict[str, Any]:
    cells: list[dict[str, Any]] = []
    for kind, text in parts(page):
        lines = text.rstrip("\n").splitlines(keepends=True)
        name = f"part-{len(cells) + 1}"
        if kind == "text":
            # Links of the book lead nowhere from a notebook that was downloaded.
            lines = [re.sub(r"\[([^\]]*)\]\((?!https:)[^)]*\)", r"\1", line) for line in lines]
            cells.append({"cell_type": "markdown", "id": name, "metadata": {}, "source": lines})
        elif kind == "python":
            cells.append({"cell_type": "code", "execution_count": None, "id": name, "metadata": {}, "outputs": [], "source": lines})
        else:
            cells[-1]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}]
    for number, cell in enumerate((cell for cell in cells if cell["cell_type"] == "code"), 1):
        cell["execution_count"] = number
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}


if __name__ == "__main__":
    print(json.dumps(notebook(PAGE.read_text(encoding="utf-8")), ensure_ascii=False, indent=1))
