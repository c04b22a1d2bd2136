#!/usr/bin/env python3
"""Prints the book's page about the Python package, made from its docstrings. `cargo xtask gen` keeps it at docs/src/reference/python.md.

The sources are read and not imported, so it needs no wheel and nothing but Python 3.10 or later.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "vesica"

#: The modules that programs import, and where the names stand that each of them shows.
MODULES = {
    "vesica": ["_jobs.py", "_services.py", "_table.py", "_report.py", "_errors.py"],
    "vesica.ray": ["ray/_run.py"],
    "vesica.spark": ["spark/_run.py"],
    "vesica.sources": ["sources/__init__.py"],
}

HEAD = """\
# The Python package

Generated from the docstrings, whose examples are run by the tests. [Python and Rust](../operate/python.md) says how the calls go together,
and [the notebook](../tutorials/notebook.md) shows them at work.
"""

Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def shown(module: str) -> list[str]:
    """What a module shows of itself, in its own order."""
    tree = ast.parse((PACKAGE / module.removeprefix("vesica").lstrip(".") / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(node.value) if name[0] != "_" and not name.isupper()]
    raise LookupError(f"{module} has no __all__")


def prose(node: Named) -> str:
    """A docstring, with its examples as blocks of code."""
    text = textwrap.dedent(ast.get_docstring(node) or "")
    parts: list[str] = []
    for part in re.split(r"\n\n(?=>>> )", "\n\n" + text):
        example, _, rest = part.partition("\n\n") if part.startswith(">>> ") else ("", "", part)
        if example:
            parts.append(f"```python\n{example}\n```")
        if rest.strip():
            parts.append(rest.strip())
    return "\n\n".join(parts)


def signature(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """How a function is called, an argument a line where they are many."""
    arguments = node.args
    for of in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs):
        kept = [(one, i) for i, one in enumerate(of) if one.arg not in ("self", "cls") and one.arg[0] != "_"]
        if of is arguments.kwonlyargs:
            arguments.kw_defaults = [arguments.kw_defaults[i] for _, i in kept]
        of[:] = [one for one, _ in kept]
    word = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    gives = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{word}{name}({ast.unparse(arguments)}){gives}"
    if len(line) <= 100:
        return line
    # A comma between brackets or quotes separates no arguments.
    parts = re.findall(r"(?:[^,\[(\"']|\[[^\]]*\]|\([^)]*\)|\"[^\"]*\"|'[^']*')+", ast.unparse(arguments))
    return f"{word}{name}(\n" + "".join(f"    {part.strip()},\n" for part in parts) + f"){gives}"


def members(name: str, node: ast.ClassDef) -> Iterator[str]:
    """A class: what it is, its fields, how one is made, what it does."""
    bases = ", ".join(base for base in map(ast.unparse, node.bases) if base[0] != "_")
    yield f"### {name}\n\n```python\nclass {name}{f'({bases})' if bases else ''}\n```\n\n{prose(node)}"
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_")]
    if fields:
        yield "| field | type |\n|---|---|\n" + "\n".join(
            f"| `{ast.unparse(one.target)}` | `{ast.unparse(one.annotation)}` |".replace(" | None", r" \| None") for one in fields
        )
    for one in node.body:
        if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        # A class whose objects come from calls of this package is not made by hand.
        if one.name == "__init__" and any(argument.arg == "core" for argument in one.args.args):
            continue
        if one.name == "__init__":
            yield f"```python\n{signature(name, one).split(' -> ')[0]}\n```"
        elif not one.name.startswith("_"):
            decorators = [ast.unparse(each) for each in one.decorator_list]
            head = f"{name}.{one.name}" if "property" in decorators else signature(f"{name}.{one.name}", one)
            yield f"```python\n{head}\n```\n\n{prose(one)}".rstrip()


def page() -> str:
    text = [HEAD.strip()]
    for module, files in MODULES.items():
        found: dict[str, Named] = {}
        for file in files:
            for node in ast.parse((PACKAGE / file).read_text(encoding="utf-8")).body:
                if isinstance(node, Named):
                    found.setdefault(node.name, node)
        names = shown(module)
        missing = [name for name in names if name not in found]
        if missing:
            raise LookupError(f"{module} shows what none of {files} defines: {', '.join(missing)}")
        functions = [name for name in names if not isinstance(found[name], ast.ClassDef)]
        faults = [name for name in names if name == "Stopped" or name.endswith("Error")]
        classes = [name for name in names if name not in functions and name not in faults]
        text.append(f"## {module}")
        for name in functions:
            node = found[name]
            assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            text.append(f"### {name}\n\n```python\n{signature(f'{module}.{name}', node)}\n```\n\n{prose(node)}")
        for name in classes + faults:
            node = found[name]
            assert isinstance(node, ast.ClassDef)
            text.extend(part for part in members(f"{module}.{name}", node))
    return "\n\n".join(text) + "\n"


if __name__ == "__main__":
    print(page(), end="")
