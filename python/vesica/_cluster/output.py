"""Where the rows that matched come to stand: in a folder, or below an address of an object store.

A task writes a part, whole, under a name that another start of the same task gives it too, and tells the driver of it. A folder is written beside
its place, and put there when the run has ended well. An object store knows no such step: there parts appear one by one, and the object `_SUCCESS`
says that all are there. It names them, with their rows and bytes. Names of parts end with a hash of the run and the party, so no part of another
run, or of the other side in this run, comes to be among them unseen. The driver looks for each part that it was told of before it says that all
are there: a worker may have another store or another disk under the same name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from .._errors import ConfigError, InputError
from . import storage
from .storage import to_disk

#: What says that all parts are there. As every name that begins so, readers of tables pass it over.
SUCCESS = "_SUCCESS"

#: What names of objects begin with that are put to see whether that can be done. One of a driver that was killed stays, and hurts nobody.
PROBE = "_probe-"

#: What the name of the object begins with that is there as long as tasks may put parts. A task may outlive its run: it looks for this one when it has
#: put a part, and removes that if it is gone.
BEGUN = "_begun"

#: A part: its name, its rows and its bytes.
Part = tuple[str, int, int]

#: What changes when a file is written anew: its bytes, and when it was changed. The number of a file may change by itself where a program serves the
#: folder, as that of a bucket.
Seen = tuple[int, int]


class Output(Protocol):
    """A place for parts."""

    #: Where it is.
    address: str

    def vacant(self, runs: Collection[str]) -> None:
        """Refuses a place that holds something, unless that was written by one of these runs of this job, which had no end."""

    def begin(self, run: str) -> Place:
        """Says where the parts of a run are to be put."""

    def discard(self, run: str) -> None:
        """Removes what was written of a run, unless all of it is in its place."""

    def seen(self, run: str, told: Collection[Part]) -> list[Part]:
        """The parts that were put. They are those that tasks told of, and no others may be there."""

    def commit(self, run: str, seen: list[Part]) -> None:
        """Has these parts in their place, and no others."""

    def parts(self) -> list[Part]:
        """The parts that are in their place."""

    def standing(self) -> list[Part]:
        """The same, and each is still what this run has put there: they may be asked for long behind the run."""

    def were(self) -> dict[str, Seen]:
        """What was seen of each part's file, by its name, where another run's may come to stand in its place."""


def output(given: str | os.PathLike[str], party: str) -> Output:
    """The place of this name, for the rows of this party."""
    return Objects(os.fspath(given), party) if "://" in os.fspath(given) else Folder(Path(given).absolute())


@dataclass(frozen=True)
class Place:
    """Where a run's parts are put. It travels with tasks."""

    #: A folder, or an address.
    where: str
    #: What names of the parts end with.
    of: str = ""

    def put(self, number: int, write: Callable[[Any], None]) -> Part:
        """Puts a part in its place. `write` is given a path or a file, and writes Parquet there."""
        name = f"part-{number:06}{self.of}.parquet"
        if "://" in self.where:
            # It has no name here, and is gone with this process.
            with tempfile.TemporaryFile() as file:
                write(file)
                part = name, pq.read_metadata(file).num_rows, file.seek(0, os.SEEK_END)
                self._upload(name, file)
            return part
        out = Path(self.where) / name
        beside = out.with_name(f".{name}.{secrets.token_hex(8)}")
        write(beside)
        to_disk(beside)
        part = name, pq.read_metadata(beside).num_rows, beside.stat().st_size
        os.replace(beside, out)
        return part

    def _upload(self, name: str, file: Any) -> None:
        """Puts a part below the address, if the run is under way there, and still is when that is done."""
        there: Any = storage.opened(self.where)
        begun = BEGUN + self.of
        either = "this run is over, or this worker has another store of that name"
        over = ConfigError(f"output: {self.where}/{begun}: is not there: {either}; name a place that is the same for every machine, and run again")
        try:
            if not there.has(begun):
                raise over
            there.upload(name, file)
            if not there.has(begun):
                # Either the driver has seen this part when it removed all, or this is seen here. Behind the end of a run that ended well it is the
                # part that was there, written once more.
                if not _is_named(there, name):
                    there.remove_all([name])
                raise over
        except storage.StoreError as error:
            said = f"output: {self.where}/{name}: cannot be put: {error.said}"
            raise ConfigError(f"{said}; {error.helps or 'see that this worker can put there, and run again'}") from None


def same(where: str, there: Collection[Part], told: Collection[Part]) -> None:
    """Refuses parts that are not those that tasks told of."""
    found = {name: rows for name, rows, _ in there}
    for name, rows, _ in told:
        if found.get(name) != rows:
            has = f"has {found[name]} rows" if name in found else "is not there"
            why = "name a place that is the same for this machine and every worker, and run again"
            raise ConfigError(f"output: {where}/{name}: {has}, and a worker put {rows} rows there; {why}")
    if extra := found.keys() - {name for name, _, _ in told}:
        raise ConfigError(f"output: {where}/{min(extra)}: was put by no task that was counted; remove it, and run again")


def named(parts: Collection[Part], names: Collection[str]) -> list[Part]:
    """The parts of these names, as they were seen before; one that was not there then has no rows."""
    before = {part[0]: part for part in parts}
    return [before.get(name, (name, 0, 0)) for name in names]


def tables(address: str, name: str, columns: list[str] | None = None, was: Seen | None = None) -> Iterator[pa.Table]:
    """The rows of a part, some at a time: at first none, for those who ask for no more than the columns. Of these all, or some by their names. What
    is opened `was` seen so, and is so when it was read, or is refused: whoever reads it may do so long behind whoever looked."""
    try:
        opened = storage.opened(address).open(name)
    except FileNotFoundError:
        raise InputError(f"{address}/{name}: {CHANGED}") from None

    def look() -> None:
        if was is not None and _seen(os.fstat(opened.fileno())) != was:
            raise InputError(f"{address}/{name}: {CHANGED}")

    with opened:
        look()
        try:
            yield from _read(pq.ParquetFile(opened), columns)
        except (pa.ArrowException, OSError):
            look()
            raise
        # Another program may have written to it meanwhile, in its place.
        look()


def _read(file: pq.ParquetFile, columns: list[str] | None) -> Iterator[pa.Table]:
    with file:
        none = file.schema_arrow.empty_table()
        yield none if columns is None else none.select(columns)
        for batch in file.iter_batches(columns=columns):
            table = pa.Table.from_batches([batch])
            yield table if columns is None else table.select(columns)


#: Why a part is refused that has come to its place, and was seen there.
CHANGED = "is gone, or not the file that this run has written; ask for the rows, and read them, before the folder is written to again"


def _seen(found: os.stat_result) -> Seen:
    return found.st_size, found.st_mtime_ns


class Folder:
    """A folder that every machine mounts under one name."""

    def __init__(self, path: Path) -> None:
        self.path, self.address = path, str(path)
        self._parts: list[Part] = []
        #: What was seen of each file when it had come to its place.
        self._were: dict[str, Seen] = {}
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            # Another program's rows are never replaced, and nothing in a folder says that they are this run's.
            killed = (
                "If it has the rows of a run that was killed at its end and is to go on by mine.resume, move them away: the run writes "
                "them again"
            )
            raise ConfigError(f"output: {path}: is there already and not an empty folder; name another one, or empty it. {killed}")

    def vacant(self, runs: Collection[str]) -> None:
        return None

    def begin(self, run: str) -> Place:
        # Rows are in clear here, and in their place only when the run has ended well: until then they are this user's alone.
        self.beside(run).mkdir(mode=0o700, parents=True)
        return Place(str(self.beside(run)))

    def discard(self, run: str) -> None:
        shutil.rmtree(self.beside(run), ignore_errors=True)

    def seen(self, run: str, told: Collection[Part]) -> list[Part]:
        folder = self.beside(run)
        parts = [(name, pq.read_metadata(folder / name).num_rows, (folder / name).stat().st_size) for name in self._names(run)]
        same(str(folder), parts, told)
        return parts

    def commit(self, run: str, seen: list[Part]) -> None:
        folder = self.beside(run)
        # A task that was killed leaves what it had begun.
        for begun in folder.glob(".*"):
            begun.unlink()
        same(str(folder), named(seen, self._names(run)), seen)
        to_disk(folder)
        self.path.mkdir(parents=True, exist_ok=True)
        folder.chmod(self.path.stat().st_mode & 0o777)
        os.replace(folder, self.path)
        to_disk(self.path.parent)
        self._parts, self._were = seen, {name: _seen(os.stat(self.path / name)) for name, _, _ in seen}

    def parts(self) -> list[Part]:
        return self._parts

    def standing(self) -> list[Part]:
        for name, was in self._were.items():
            stands = None
            with contextlib.suppress(FileNotFoundError):
                stands = _seen(os.stat(self.path / name))
            if stands != was:
                raise InputError(f"{self.path / name}: {CHANGED}")
        return self._parts

    def were(self) -> dict[str, Seen]:
        return self._were

    def _names(self, run: str) -> list[str]:
        """The names of the run's parts."""
        return sorted(part.name for part in self.beside(run).glob("*.parquet"))

    def beside(self, run: str) -> Path:
        """Where rows are written before they are put in place."""
        return self.path.with_name(f".{self.path.name}.{run}")


class Objects:
    """Objects below an address."""

    def __init__(self, given: str, party: str) -> None:
        self.address, self.party = storage.address(given, "output"), party
        self.there = storage.opened(self.address)
        self._parts: list[Part] = []
        name = f"{PROBE}{secrets.token_hex(8)}"
        try:
            self.there.put(name, [b""])
            self.there.remove_all([name])
        except storage.StoreError as error:
            otherwise = "name a bucket in which this machine and every worker can put and delete"
            raise ConfigError(f"output: {self.address}: {error.said}; {error.helps or otherwise}") from None

    def vacant(self, runs: Collection[str]) -> None:
        own = [self._of(run) for run in runs]
        for name in self._below():
            if not any(_is_part(name, of) or name == BEGUN + of for of in own):
                last = "If these are the rows of a run that was killed at its end and is to go on by mine.resume, move them away: the run writes them again"
                raise ConfigError(f"output: {self.address}/{name}: is there already; name another prefix, or remove what is below this one. {last}")

    def begin(self, run: str) -> Place:
        # The match may have lasted for hours. Where another run has ended meanwhile, nothing comes to be among its rows.
        self._names(run)
        self.there.put(BEGUN + self._of(run), [b""])
        return Place(self.address, self._of(run))

    def discard(self, run: str) -> None:
        if self._parts:
            return
        # First: a task that puts a part from now on sees it, and what others have put is seen here.
        self._over(run)
        names = self._below()
        # Whether `_SUCCESS` was put is not known where the answer was lost. A store may put it even later, and then it stands there without its
        # parts: so readers take the parts that it names, and fail if one is not there.
        if SUCCESS in names and self._is_of(run):
            self.there.remove_all([SUCCESS])
        self.there.remove_all(name for name in names if _is_part(name, self._of(run)))

    def seen(self, run: str, told: Collection[Part]) -> list[Part]:
        def sized(name: str) -> Part:
            return name, pq.read_metadata(self.there.open(name)).num_rows, self.there.size(name)

        with ThreadPoolExecutor(16) as pool:
            parts = list(pool.map(sized, self._names(run)))
        same(self.address, parts, told)
        return parts

    def commit(self, run: str, seen: list[Part]) -> None:
        same(self.address, named(seen, self._names(run)), seen)
        said = {"run": run, "parts": [dict(zip(("name", "rows", "bytes"), part)) for part in seen]}
        # An upload that was sent twice finds its own.
        if not self.there.put(SUCCESS, [json.dumps(said).encode()]) and not self._is_of(run):
            raise ConfigError(f"output: {self.address}/{SUCCESS}: {MEANWHILE}")
        self._parts = seen
        # The rows are in their place. A mark that stays hurts nobody: readers pass it over.
        with contextlib.suppress(ConfigError):
            self._over(run)

    def parts(self) -> list[Part]:
        return self._parts

    def standing(self) -> list[Part]:
        # They have the name of their run.
        return self._parts

    def were(self) -> dict[str, Seen]:
        return {}

    def _over(self, run: str) -> None:
        """No more parts of the run may be put."""
        if self.there.has(BEGUN + self._of(run)):
            self.there.remove_all([BEGUN + self._of(run)])

    def _below(self) -> list[str]:
        """What is there, sorted, but for what another driver may have put to see whether it can."""
        return sorted(name for name in self.there.below() if not name.startswith(PROBE))

    def _names(self, run: str) -> list[str]:
        """The names of the run's parts; refuses any others."""
        names = [name for name in self._below() if name != BEGUN + self._of(run)]
        for name in names:
            if not _is_part(name, self._of(run)):
                raise ConfigError(f"output: {self.address}/{name}: {MEANWHILE}")
        return names

    def _is_of(self, run: str) -> bool:
        """Whether `_SUCCESS` names parts of this run."""
        try:
            parts = json.loads(self.there.get(SUCCESS))["parts"]
            return bool(parts) and all(_is_part(part["name"], self._of(run)) for part in parts)
        except (ValueError, KeyError, TypeError, FileNotFoundError):
            return False

    def _of(self, run: str) -> str:
        """What names of this run's parts end with. Both sides call the run by one name, and may write below one address."""
        return "-" + hashlib.blake2b(f"{run} {self.party}".encode(), digest_size=8).hexdigest()


#: Why another object than the run's own is refused.
MEANWHILE = "came to be there while the run lasted; give each run a prefix of its own"


def _is_named(there: Any, name: str) -> bool:
    """Whether `_SUCCESS` names this part: that of another run may stand there by now."""
    try:
        return any(part["name"] == name for part in json.loads(there.get(SUCCESS))["parts"])
    except (ValueError, KeyError, TypeError, FileNotFoundError):
        return False


def _is_part(name: str, of: str) -> bool:
    return re.fullmatch(rf"part-\d{{6,}}{of}\.parquet", name) is not None
