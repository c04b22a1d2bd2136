"""Where the rows that matched come to stand: in a folder, or below an address of an object store.

A task writes a part, whole, under a name that another start of the same task gives it too. A folder is written beside its place, and put there
when the run has ended well. An object store knows no such step: there parts appear one by one, and the object `_SUCCESS` says that all are there.
It names them, with their rows and bytes. Parts have the run's name in theirs, so no part of another run comes to be among them unseen.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from .._errors import ConfigError
from . import storage
from .storage import to_disk

#: What says that all parts are there. As every name that begins so, readers of tables pass it over.
SUCCESS = "_SUCCESS"

#: Letters of a run's name in the names of its parts.
OF_RUN = 16


class Output(Protocol):
    """A place for parts."""

    #: Where it is.
    address: str

    def vacant(self, runs: Collection[str]) -> None:
        """Refuses a place that holds something, unless that was written by one of these runs of this job, which had no end."""

    def begin(self, run: str) -> str:
        """Says where `put` is to put the parts of a run."""

    def discard(self, run: str) -> None:
        """Removes what was written of a run, unless all of it is in its place."""

    def commit(self, run: str) -> None:
        """Has all parts in their place."""

    def parts(self) -> list[tuple[str, int, int]]:
        """The names of the parts, and the rows and bytes of each."""


def output(given: str | os.PathLike[str]) -> Output:
    """The place of this name."""
    return Objects(os.fspath(given)) if "://" in os.fspath(given) else Folder(Path(given).absolute())


def put(place: str, run: str, number: int, write: Callable[[Any], None]) -> None:
    """Puts a part in its place. `write` is given a path or a file, and writes Parquet there."""
    if "://" in place:
        # It has no name here, and is gone with this process.
        with tempfile.TemporaryFile() as file:
            write(file)
            storage.opened(place).upload(named(run, number), file)
        return
    out = Path(place) / f"part-{number:06}.parquet"
    beside = out.with_name(f".{out.name}.{secrets.token_hex(8)}")
    write(beside)
    to_disk(beside)
    os.replace(beside, out)


def named(run: str, number: int) -> str:
    """The object of a part."""
    return f"part-{number:06}-{run[:OF_RUN]}.parquet"


def tables(address: str, name: str) -> Iterator[pa.Table]:
    """The rows of a part in an object store, some at a time: at first none, for those who ask for no more than the columns."""
    with pq.ParquetFile(storage.opened(address).open(name)) as file:
        yield file.schema_arrow.empty_table()
        for batch in file.iter_batches():
            yield pa.Table.from_batches([batch])


class Folder:
    """A folder that every machine mounts under one name."""

    def __init__(self, path: Path) -> None:
        self.path, self.address = path, str(path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            # Another program's rows are never replaced, and nothing in a folder says that they are this run's.
            killed = (
                "If it has the rows of a run that was killed at its end and is to go on by mine.resume, move them away: the run writes "
                "them again"
            )
            raise ConfigError(f"output: {path}: is there already and not an empty folder; name another one, or empty it. {killed}")

    def vacant(self, runs: Collection[str]) -> None:
        return None

    def begin(self, run: str) -> str:
        # Rows are in clear here, and in their place only when the run has ended well: until then they are this user's alone.
        self.beside(run).mkdir(mode=0o700, parents=True)
        return str(self.beside(run))

    def discard(self, run: str) -> None:
        shutil.rmtree(self.beside(run), ignore_errors=True)

    def commit(self, run: str) -> None:
        folder = self.beside(run)
        # A task that was killed leaves what it had begun.
        for begun in folder.glob(".*"):
            begun.unlink()
        to_disk(folder)
        self.path.mkdir(parents=True, exist_ok=True)
        folder.chmod(self.path.stat().st_mode & 0o777)
        os.replace(folder, self.path)
        to_disk(self.path.parent)

    def parts(self) -> list[tuple[str, int, int]]:
        return [(part.name, pq.read_metadata(part).num_rows, part.stat().st_size) for part in sorted(self.path.glob("*.parquet"))]

    def beside(self, run: str) -> Path:
        """Where rows are written before they are put in place."""
        return self.path.with_name(f".{self.path.name}.{run}")


class Objects:
    """Objects below an address."""

    def __init__(self, given: str) -> None:
        self.address = storage.address(given, "output")
        self.there = storage.opened(self.address)
        self._parts: list[tuple[str, int, int]] = []
        name = f"_probe-{secrets.token_hex(8)}"
        try:
            self.there.put(name, [b""])
            self.there.remove(name)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"output: {self.address}: {error}; name a bucket in which this machine and every worker can put and delete") from None

    def vacant(self, runs: Collection[str]) -> None:
        own = {run[:OF_RUN] for run in runs}
        for name in self.there.below():
            part = re.fullmatch(r"part-\d{6,}-([0-9a-f]+)\.parquet", name)
            if part is None or part[1] not in own:
                last = "If these are the rows of a run that was killed at its end and is to go on by mine.resume, move them away: the run writes them again"
                raise ConfigError(f"output: {self.address}/{name}: is there already; name another prefix, or remove what is below this one. {last}")

    def begin(self, run: str) -> str:
        return self.address

    def discard(self, run: str) -> None:
        if not self._parts:
            self.there.remove_all(name for name in self.there.below() if name.endswith(f"-{run[:OF_RUN]}.parquet"))

    def commit(self, run: str) -> None:
        names = sorted(self.there.below())
        for name in names:
            if not name.endswith(f"-{run[:OF_RUN]}.parquet"):
                raise ConfigError(f"output: {self.address}/{name}: came to be there while the run lasted; give each run a prefix of its own")

        def sized(name: str) -> tuple[str, int, int]:
            return name, pq.read_metadata(self.there.open(name)).num_rows, self.there.size(name)

        with ThreadPoolExecutor(16) as pool:
            parts = list(pool.map(sized, names))
        told = {"run": run, "parts": [dict(zip(("name", "rows", "bytes"), part)) for part in parts]}
        if not self.there.put(SUCCESS, [json.dumps(told).encode()]):
            raise ConfigError(f"output: {self.address}/{SUCCESS}: came to be there while the run lasted; give each run a prefix of its own")
        self._parts = parts

    def parts(self) -> list[tuple[str, int, int]]:
        return self._parts
