"""Parquet files, wherever they stand: which there are, and what they hold. A file is looked at before it is read, and behind that again.

The tables of a cluster are read by this, and those of `vesica.sources.objects`, whose store is opened with options of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Union

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from .._errors import InputError
from . import storage

#: Bytes of a hash of a file's size and footer.
HASH = 32

#: Bytes at the end of a file that most footers fit into.
MOSTLY = 64 << 10

#: How many files are a table, at most: a cluster has 23 bits for them in the number that it calls a row by.
MOST = 1 << 23

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


class Missing(InputError, FileNotFoundError):
    """A file that is not there, or not there any more."""


class File:
    """A file or folder that pyarrow knows. Workers find it anew: what it needs to sign in never travels."""

    def __init__(self, name: str) -> None:
        scheme, found, _ = name.partition("://")
        self.root = scheme + found if found else ""
        self._system, self.inside = pyarrow.fs.FileSystem.from_uri(name) if found else (pyarrow.fs.LocalFileSystem(), name)

    def state(self) -> tuple[int, int] | None:
        """The size of the file, and when it was last written to, in nanoseconds; None if no file is called so."""
        info = self._system.get_file_info(self.inside)
        return (info.size, info.mtime_ns or 0) if info.type == pyarrow.fs.FileType.File else None

    def below(self) -> list[str]:
        """The files of the folder, behind the `root`. If there is no folder, that is a `FileNotFoundError`."""
        found = self._system.get_file_info(pyarrow.fs.FileSelector(self.inside, recursive=True))
        return [one.path for one in found if one.type == pyarrow.fs.FileType.File]

    def open(self, size: int) -> pa.NativeFile:
        """The file, whose size is known."""
        return self._system.open_input_file(self.inside)


class Object:
    """The same in a store that the client of the storage reads. `pyarrow.fs` does not know `az://`, and where it finds no credentials for `gs://` it
    asks for them again and again, and says nothing."""

    def __init__(self, store: storage.Objects, inside: str) -> None:
        self.root, self.inside, self._store = f"{store.address}/", inside.strip("/"), store

    def state(self) -> tuple[int, int] | None:
        try:
            head = self._store.head(self.inside) if self.inside else None
        except FileNotFoundError:
            head = None
        return head and (head["size"], round(head["last_modified"].timestamp() * 1000) * 10**6)

    def below(self) -> list[str]:
        found = [one["path"] for one in self._store.heads(self.inside or None)]
        if not found:
            raise FileNotFoundError(self.inside)
        return found

    def open(self, size: int) -> pa.NativeFile:
        return pa.PythonFile(self._store.open(self.inside, size), mode="r")


#: What finds a file or folder by its name.
Place = Callable[[str], Union[File, Object]]


def anywhere(name: str) -> File | Object:
    """Where a cluster finds what is called so."""
    if signed := storage.signed_in(name):
        # The address stands in Ray's object store and in errors.
        raise InputError(f"a path {signed}")
    scheme, _, inside = name.partition("://")
    if scheme.lower() in ("az", "gs") and "?" not in name:
        container, _, inside = inside.strip("/").partition("/")
        return Object(storage.opened(f"{scheme.lower()}://{container}"), inside)
    return File(name)


@dataclass(frozen=True)
class Files:
    """Parquet files, in their order."""

    paths: list[str]
    #: The rows of each row group of each file.
    groups: list[list[int]]
    schema: pa.Schema
    #: Of each file a hash of its size and footer, and behind it when it was last written to: by these a task knows that it reads the file of which
    #: the driver has read the footer.
    digests: list[bytes]

    @property
    def identity(self) -> bytes:
        """A hash of the files' names, sizes, footers and times: what is compared before a run is taken up again."""
        hashed = hashlib.blake2b(digest_size=32)
        for path, digest in zip(self.paths, self.digests):
            hashed.update(len(path.encode()).to_bytes(8, "little") + path.encode() + digest)
        return hashed.digest()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(map(sum, self.groups))


def files(paths: Paths, columns: Sequence[str] | None = None, place: Place = anywhere) -> Files:
    """The files at `paths`: files, folders, or addresses: `gs://…`, `az://…`, and those that `pyarrow.fs` knows (`s3://…`). Their footers are read.
    `columns` are those that count, if not all do."""
    found = list(_listed(paths, place))
    if not found:
        raise Missing(f"{paths}: there is no Parquet file; name one, or a folder with files called *.parquet")
    if len(found) >= MOST:
        raise InputError(f"{len(found)} files are too many: a table has fewer than {MOST}; write larger files")

    def told(name: str) -> tuple[pa.Schema, list[int], bytes]:
        # Footers of very many files are not held at once.
        file = Known.now(name, place)
        has = file.footer.schema.to_arrow_schema()
        for column in columns or ():
            if column not in has.names:
                raise InputError(f"{name}: has no column {column!r}; its columns are {', '.join(map(repr, has.names))}")
        groups = [file.footer.row_group(i).num_rows for i in range(file.footer.num_row_groups)]
        return has if columns is None else pa.schema([has.field(column) for column in columns]), groups, file.digest

    with ThreadPoolExecutor(16) as pool:
        schemas, groups, digests = map(list, zip(*pool.map(told, found)))
    for path, schema in zip(found, schemas):
        if schema != schemas[0]:
            ours, theirs = _but(schema, schemas[0]), _but(schemas[0], schema)
            differ = f"{ours or 'nothing'} where that has {theirs or 'nothing'}" if ours or theirs else "they are in another order"
            raise InputError(f"{path}: has other columns than {found[0]}: {differ}; all files must have the same columns, with the same types")
    return Files(found, groups, schemas[0], digests)


def _but(schema: pa.Schema, other: pa.Schema) -> str:
    """The first columns that another file does not have."""
    return ", ".join([f"{of.name!r} ({of.type}{'' if of.nullable else ' not null'})" for of in schema if of not in set(other)][:5])


def _listed(paths: Paths, place: Place) -> Iterator[str]:
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        name = os.fspath(path)
        name = name if "://" in name else os.path.abspath(name)
        there, refused = place(name), None
        try:
            if there.state():
                yield name
                continue
        except storage.StoreError as error:
            # Who may read what is in a folder may not always ask for an object that is called as the folder is.
            if not storage.REFUSED.search(error.said):
                raise
            refused = error
        try:
            below = there.below()
        except FileNotFoundError:
            raise refused or Missing(f"{name}: there is no such file or folder; name a Parquet file, or a folder with files called *.parquet") from None
        # As for a run on one machine, names that begin with a dot or a line are no data.
        hidden = (any(part[:1] in (".", "_") for part in one[len(there.inside) :].strip("/").split("/")) for one in below)
        yield from sorted(there.root + one for one, left in zip(below, hidden) if one.endswith(".parquet") and not left)


@dataclass(frozen=True)
class Known:
    """A file whose footer was read."""

    name: str
    place: Place
    size: int
    footer: pq.FileMetaData
    digest: bytes

    @classmethod
    def now(cls, name: str, place: Place = anywhere) -> Known:
        """The file that has this name."""
        there = place(name)
        try:
            # Rows of a fixed width may be written anew with the footer that was there. Object stores know seconds only.
            state = there.state()
            if state is None:
                raise FileNotFoundError(name)
            size, changed = state
            with there.open(size) as file:
                end = file.read_at(min(size, MOSTLY), max(0, size - MOSTLY))
                if end[-4:] == b"PAR1":
                    # The last eight bytes are the footer's length and this mark; a footer names places, sizes and statistics.
                    tail = min(size, int.from_bytes(end[-8:-4], "little") + 8)
                    end = end[-tail:] if tail <= len(end) else file.read_at(tail, size - tail)
            footer = pq.read_metadata(pa.BufferReader(end))
        except FileNotFoundError:
            raise Missing(f"{name}: is not there, or no longer; see that it stays, and that each machine that reads it finds it by this name") from None
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{name}: is no Parquet file that can be read: {error}") from None
        digest = hashlib.blake2b(size.to_bytes(8, "little") + end, digest_size=HASH).digest()
        return cls(name, place, size, footer, digest + changed.to_bytes(8, "little", signed=True))

    @classmethod
    def again(cls, name: str, digest: bytes, place: Place = anywhere) -> Known:
        """The same, which is refused if it had another digest before."""
        now = cls.now(name, place)
        if now.digest == digest:
            return now
        why = ""
        if now.digest[:HASH] == digest[:HASH]:
            why = " (its size and its footer stayed, and the time of its last change moved: where machines have copies of it, give these one time, cp -p)"
        told = f"{name}: changed while it was being read, or since its footer was first read{why}"
        raise InputError(f"{told}; open the table anew and run again when nothing writes to it")

    @contextlib.contextmanager
    def rows(self, last: Callable[[], bool] = lambda: True) -> Iterator[pq.ParquetFile]:
        """Its rows, behind whose `last` reading it is looked at. Several threads may have it open."""
        try:
            with self.place(self.name).open(self.size) as file, pq.ParquetFile(file, metadata=self.footer) as rows:
                yield rows
        except (pa.ArrowException, OSError):
            # What was read may be pieces of two files.
            Known.again(self.name, self.digest, self.place)
            raise
        if last():
            Known.again(self.name, self.digest, self.place)


def opened(name: str, digest: bytes) -> Any:
    """A file, of which the driver found this digest: it is looked at before anything is read, and behind that again."""
    return Known.again(name, digest).rows()
