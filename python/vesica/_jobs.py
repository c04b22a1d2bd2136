"""Jobs: run, matched here, planned, checked; and the small commands around them."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, Union

from . import _core
from ._progress import Progress, watcher
from ._report import Finding, Intersection, Plan, Report
from ._table import ArrowTable, Table, exported, named, taken

#: A job: a file, or what stands in one as a dict.
Document = Union[str, "os.PathLike[str]", "dict[str, Any]"]
#: A table that is no object: a path, several paths, or `{"command": [program, argument, …]}`.
Files = Union[str, "os.PathLike[str]", "Sequence[str | os.PathLike[str]]", "dict[str, Any]"]
R = TypeVar("R")


def document(job: Document | None, fields: dict[str, Any]) -> tuple[str, bool]:
    """The document as a path, or as JSON: `job` itself, or `{"shared": …, "mine": …}` given by keyword."""
    if job is None:
        if not fields:
            raise TypeError("name a job file, give a dict, or the job's parts: shared={…}, mine={…}")
        job = fields
    elif fields:
        names = ", ".join(sorted(fields))
        raise TypeError(f"{names}: a job is given already; take these into it, or leave the job out")
    if isinstance(job, dict):
        return json.dumps(job, default=_plain), True
    return os.fspath(job), False


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a job holds text, numbers, lists and dicts, and no {type(value).__name__} ({value!r})")


def run(
    job: Document | None = None,
    *,
    input: ArrowTable | Files | Any | None = None,
    progress: Progress = None,
    _stop: _core.Stop | None = None,
    **fields: Any,
) -> Report:
    """Runs a job, as `vesica run` does, and waits until it is over. The interpreter is free meanwhile, and Ctrl-C stops both sides.

    `job` is a job file's path, or a dict with what stands in one; its parts may also be given by keyword (`shared=`, `mine=`).
    `input` is the table, in place of what the job names: anything that exports an Arrow stream; a LazyFrame of polars, a Dataset of
    pyarrow, a relation of DuckDB or a cursor of ADBC, which are read once, batch by batch, to a file in `mine.scratch`; or the path of a file, of a folder,
    or a pattern such as `"orders/*.parquet"`; or a list of paths; or a program that prints it, `{"command": ["psql", …]}`. Relative
    paths start at the current folder. Where the job names no `mine.output`, the rows that matched are in the report's `table`.

    >>> import pyarrow, threading, vesica
    >>> shared = dict(id="docs", parties=["alice", "bob"], protocol="rr22", learns=["alice"], insecure=True)
    >>> bob = dict(name="bob", connect={"alice": "127.0.0.1:20311"}, input=dict(keys=["no"]))
    >>> other = threading.Thread(target=vesica.run, kwargs=dict(shared=shared, mine=bob, input=pyarrow.table({"no": [2, 3]})))
    >>> other.start()
    >>> alice = dict(name="alice", listen="127.0.0.1:20311", input=dict(keys=["id"]))
    >>> report = vesica.run(shared=shared, mine=alice, input=pyarrow.table({"id": [1, 2], "name": ["ann", "ben"]}))
    >>> report.table.to_arrow().to_pylist()
    [{'id': 2, 'name': 'ben'}]
    >>> other.join()
    """
    text, is_json = document(job, fields)
    report, rows = _core.run(text, is_json, *taken(input), watcher(progress), _stop)
    return Report.from_json(report, Table(rows) if rows is not None else None)


def intersect(
    left: ArrowTable | Any,
    right: ArrowTable | Any,
    on: str | Sequence[str] | None = None,
    *,
    left_on: str | Sequence[str] | None = None,
    right_on: str | Sequence[str] | None = None,
    protocol: str = "rr22",
    how: str = "inner",
    progress: Progress = None,
    _stop: _core.Stop | None = None,
    **shared: Any,
) -> Intersection:
    """Matches two tables that are both here: two parties in two threads, and the protocol between them as it would be over a
    network. It is for trying things out and for tests; whoever may see both tables needs no protocol to join them.

    `on` names the key columns of both, or `left_on` and `right_on` those of each. Everything else of a job's `[shared]` may be given
    by keyword: `rules=`, `duplicates=`, `security=`, `mode=`, `curve=`, `limits=`, `unit=`.

    >>> import pyarrow, vesica
    >>> a = pyarrow.table({"id": ["007", "12", "9"], "x": [1, 2, 3]})
    >>> b = pyarrow.table({"id": ["9", "007"], "y": [True, None]})
    >>> r = vesica.intersect(a, b, on="id", protocol="ecdh")
    >>> sorted(zip(r.left.to_arrow()["x"].to_pylist(), r.right.to_arrow()["y"].to_pylist()))
    [(1, None), (3, True)]
    """
    names = [_names(left_on if left_on is not None else on, "left_on"), _names(right_on if right_on is not None else on, "right_on")]
    text = json.dumps(
        {
            "id": "intersect",
            "parties": ["left", "right"],
            "learns": ["left", "right"],
            "protocol": protocol,
            "join": how,
            "accept": ["left_unmatched", "right_unmatched"],
            "insecure": True,
            **shared,
        }
    )
    tables = exported(left, "left"), exported(right, "right")
    (a, rows_a), (b, rows_b) = _core.intersect(*tables, *names, text, watcher(progress), _stop)
    if rows_a is None or rows_b is None:
        raise ValueError("intersect gives rows: leave result= and learns= out, or use vesica.run for other results")
    left_table, right_table = Table(rows_a), Table(rows_b)
    return Intersection(left_table, right_table, Report.from_json(a, left_table), Report.from_json(b, right_table))


def _names(on: str | Sequence[str] | None, what: str) -> list[str]:
    if on is None:
        raise TypeError(f"name the key columns: on=, or {what}=")
    return [on] if isinstance(on, str) else list(on)


def plan(
    job: Document | None = None,
    *,
    input: ArrowTable | Files | Any | None = None,
    rows: int | None = None,
    peer_rows: int | None = None,
    **fields: Any,
) -> Plan:
    """What a job will cost, and what it will tell whom, before it runs: `vesica plan`.

    >>> import pyarrow, vesica
    >>> shared = dict(id="docs", parties=["alice", "bob"], protocol="rr22", learns=["alice"], insecure=True)
    >>> mine = dict(name="alice", listen="127.0.0.1:20312", input=dict(keys=["id"]))
    >>> plan = vesica.plan(shared=shared, mine=mine, input=pyarrow.table({"id": [1, 2]}))
    >>> [(one.name, one.to) for one in plan.reveals][0]
    ('intersection', ['alice'])
    """
    text, is_json = document(job, fields)
    files = named(input)
    given = input is not None and files is None
    if given and rows is None:
        rows = _rows(input)
    forecast, words = _core.plan(text, is_json, given, files, rows, peer_rows)
    return Plan(json.loads(forecast), words)


def _rows(table: Any) -> int:
    for name in ("num_rows", "height"):
        if isinstance(getattr(table, name, None), int):
            return getattr(table, name)
    try:
        return len(table)
    except TypeError:
        raise TypeError(f"how many rows has {type(table).__name__}? give rows=") from None


def check(
    job: Document | None = None, *, input: ArrowTable | Files | Any | None = None, peer: bool = False, **fields: Any
) -> list[Finding]:
    """Everything that can be known before a run, looked at: `vesica check`. With `peer`, also that the partner is there and holds the
    same job. The first thing that would end the run is raised. Each finding is a pair, of what was looked at and what it is like, and has
    `good`: it is false where the command has `?`, for what may still come right without anybody's doing here.

    >>> import pyarrow, vesica
    >>> shared = dict(id="docs", parties=["alice", "bob"], protocol="rr22", learns=["alice"], insecure=True)
    >>> mine = dict(name="alice", listen="127.0.0.1:20313", input=dict(keys=["id"]))
    >>> dict(vesica.check(shared=shared, mine=mine, input=pyarrow.table({"id": [1, 2, 2]})))["keys"]
    '3 rows, 2 distinct keys of id, 0 empty, 1 row that repeats a key'
    """
    text, is_json = document(job, fields)
    return [Finding(*found) for found in _core.check(text, is_json, *taken(input), peer)]


def gen(
    out: str | os.PathLike[str],
    *,
    rows: int | Sequence[int],
    overlap: int,
    columns: int = 1,
    keys: str = "id",
    format: str = "csv",
    seed: int = 0,
) -> tuple[list[Path], Path]:
    """Writes tables with a known intersection into the folder `out`: `vesica gen`. Gives their paths, and that of the common keys.

    >>> import tempfile, vesica
    >>> tables, expected = vesica.gen(tempfile.mkdtemp(), rows=100, overlap=40)
    >>> [path.name for path in tables], expected.name, len(expected.read_text().splitlines())
    (['alice.csv', 'bob.csv'], 'expected.csv', 41)
    """
    each = [rows, rows] if isinstance(rows, int) else list(rows)
    tables, expected = _core.gen(Path(out), each, overlap, columns, keys, format, seed)
    return [Path(table) for table in tables], Path(expected)


def cert(name: str, out: str | os.PathLike[str] = ".") -> str:
    """Makes an identity, `NAME.pem` and `NAME.cert.pem`, in the folder `out`: `vesica cert`. Gives the fingerprint that partners need.

    >>> import tempfile, vesica
    >>> vesica.cert("alice", tempfile.mkdtemp())[:7]
    'sha256:'
    """
    return _core.cert(name, Path(out))[2]


async def _twin(call: Callable[..., R], *args: Any, **options: Any) -> R:
    """`call` on a thread. If the task is cancelled, the work is stopped, and its end is waited for."""
    stop = _core.Stop()
    loop = asyncio.get_running_loop()
    working = loop.run_in_executor(None, functools.partial(call, *args, _stop=stop, **options))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([working])
        working.exception()
        # What came of it may hold a file, and the error that is raised would hold what came of it.
        del working
        raise


async def run_async(job: Document | None = None, **options: Any) -> Report:
    """As `run`, for `await`. Cancelling the task stops the run."""
    return await _twin(run, job, **options)


async def intersect_async(left: ArrowTable | Any, right: ArrowTable | Any, on: Any = None, **options: Any) -> Intersection:
    """As `intersect`, for `await`.

    >>> import asyncio, pyarrow, vesica
    >>> t = pyarrow.table({"id": [1, 2]})
    >>> asyncio.run(vesica.intersect_async(t, t, on="id")).left.num_rows
    2
    """
    return await _twin(intersect, left, right, on, **options)
