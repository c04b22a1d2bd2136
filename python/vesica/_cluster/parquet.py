"""Parquet files, wherever they stand: which there are, and what they hold. A file is looked at before it is read, and behind that again.

The tables of a cluster are read by this, and those of `vesica.sources.objects`, which has a store opened with options of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, Union

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


class Place(Protocol):
    """Where a file stands, or a folder. What is not there is a `FileNotFoundError`."""

    def state(self) -> tuple[int, int] | None:
        """The size of the file, and when it was last written to, in nanoseconds; None if no file is called so."""

    def below(self) -> list[tuple[str, str]]:
        """All files of the folder: their names, and what of these stands behind the folder's."""

    def open(self, size: int) -> pa.NativeFile:
        """The file, to be read, which has this size."""


class File:
    """A place that pyarrow knows: on this machine, or by an address. Workers find it anew: what it needs to sign in never travels."""

    def __init__(self, name: str) -> None:
        scheme, found, _ = name.partition("://")
        self._scheme = scheme + found if found else ""
        self._system, self._inside = pyarrow.fs.FileSystem.from_uri(name) if found else (pyarrow.fs.LocalFileSystem(), name)

    def state(self) -> tuple[int, int] | None:
        info = self._system.get_file_info(self._inside)
        return (info.size, info.mtime_ns or 0) if info.type == pyarrow.fs.FileType.File else None

    def below(self) -> list[tuple[str, str]]:
        found = self._system.get_file_info(pyarrow.fs.FileSelector(self._inside, recursive=True))
        return [(self._scheme + one.path, one.path[len(self._inside) :]) for one in found if one.type == pyarrow.fs.FileType.File]

    def open(self, size: int) -> pa.NativeFile:
        return self._system.open_input_file(self._inside)


class Object:
    """A place in a store that the client of the storage reads. `pyarrow.fs` does not know `az://`, and where it finds no credentials for `gs://` it
    asks for them again and again, and says nothing."""

    def __init__(self, store: storage.Objects, inside: str) -> None:
        self._store, self._inside = store, inside.strip("/")

    def state(self) -> tuple[int, int] | None:
        if not self._inside:
            return None
        try:
            head = self._store.head(self._inside)
        except FileNotFoundError:
            return None
        changed = head["last_modified"]
        return head["size"], int(changed.timestamp()) * 10**9 + changed.microsecond * 1000

    def below(self) -> list[tuple[str, str]]:
        found = [one["path"] for one in self._store.heads(self._inside or None)]
        if not found:
            raise FileNotFoundError(f"{self._store.address}/{self._inside}")
        return [(f"{self._store.address}/{path}", path[len(self._inside) :]) for path in found]

    def open(self, size: int) -> pa.NativeFile:
        return pa.PythonFile(self._store.open(self._inside, size), mode="r")


def anywhere(name: str) -> Place:
    """Where a cluster looks for what is called so."""
    if signed := storage.signed_in(name):
        # The address stands in Ray's object store and in errors.
        raise InputError(f"a path {signed}")
    scheme, _, inside = name.partition("://")
    if scheme.lower() in ("az", "gs") and "?" not in name:
        container, _, inside = inside.strip("/").partition("/")
        return Object(storage.opened(f"{scheme.lower()}://{container}"), inside)
    return File(name)


#: What finds a place by its name.
Places = Callable[[str], Place]


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


def files(paths: Paths, columns: Sequence[str] | None = None, places: Places = anywhere) -> Files:
    """The files at `paths`: files, folders, or addresses: `gs://…`, `az://…`, and those that `pyarrow.fs` knows (`s3://…`). Their footers are read, and
    all must have the same columns, or the same of those that are named."""
    found = list(_listed(paths, places))
    if not found:
        raise Missing(f"{paths}: there is no Parquet file; name one, or a folder with files called *.parquet")
    if len(found) >= MOST:
        raise InputError(f"{len(found)} files are too many: a table has fewer than {MOST}; write larger files")

    def told(name: str) -> tuple[pa.Schema, list[int], bytes]:
        # Footers of very many files are not held at once.
        file = Opened.found(name, places)
        return file.schema(columns), [file.footer.row_group(i).num_rows for i in range(file.footer.num_row_groups)], file.digest

    with ThreadPoolExecutor(16) as pool:
        schemas, groups, digests = map(list, zip(*pool.map(told, found)))
    for path, schema in zip(found, schemas):
        if schema != schemas[0]:
            here, there = _columns(schema, schemas[0]), _columns(schemas[0], schema)
            differ = f"{here or 'nothing'} where that has {there or 'nothing'}" if here or there else "in another order"
            raise InputError(f"{path}: has other columns than {found[0]}: {differ}; all files must have the same columns, with the same types")
    return Files(found, groups, schemas[0], digests)


def _columns(schema: pa.Schema, other: pa.Schema) -> str:
    """Some columns of a schema that another one does not have."""
    theirs = set(other)
    own = [f"{field.name!r} ({field.type}{'' if field.nullable else ', without nulls'})" for field in schema if field not in theirs]
    return ", ".join(own[:3]) + (f" and {len(own) - 3} more" if len(own) > 3 else "")


def _listed(paths: Paths, places: Places) -> Iterator[str]:
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        name = os.fspath(path)
        name = name if "://" in name else os.path.abspath(name)
        place, refused = places(name), None
        try:
            if place.state():
                yield name
                continue
        except storage.StoreError as error:
            # Who may read what is in a folder may not always ask for an object that is called as the folder is.
            if not storage.REFUSED.search(error.said):
                raise
            refused = error
        try:
            below = place.below()
        except FileNotFoundError:
            raise refused or Missing(f"{name}: there is no such file or folder; name a Parquet file, or a folder with files called *.parquet") from None
        # As for a run on one machine, names that begin with a dot or a line are no data.
        yield from sorted(one for one, own in below if one.endswith(".parquet") and not any(part[:1] in (".", "_") for part in own.strip("/").split("/")))


@dataclass(frozen=True)
class Opened:
    """A file whose footer was read."""

    name: str
    places: Places
    size: int
    footer: pq.FileMetaData
    #: A hash of the size and the footer, and behind it when the file was last written to.
    digest: bytes

    @classmethod
    def found(cls, name: str, places: Places = anywhere) -> Opened:
        """The file of this name."""
        place = places(name)
        try:
            # Rows of a fixed width may be written anew with the footer that was there. Object stores know seconds only.
            state = place.state()
            if state is None:
                raise FileNotFoundError(name)
            size, changed = state
            with place.open(size) as file:
                end = file.read_at(min(size, MOSTLY), max(0, size - MOSTLY))
                if end[-4:] == b"PAR1":
                    # The last eight bytes are the footer's length and this mark; a footer names places, sizes and statistics.
                    tail = min(size, int.from_bytes(end[-8:-4], "little") + 8)
                    end = end[-tail:] if tail <= len(end) else file.read_at(tail, size - tail)
            footer = pq.read_metadata(pa.BufferReader(end))
            digest = hashlib.blake2b(size.to_bytes(8, "little") + end, digest_size=HASH).digest()
        except FileNotFoundError:
            raise Missing(f"{name}: is not there, or no longer; see that it stays, and that each machine that reads it finds it by this name") from None
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{name}: is no Parquet file that can be read: {error}") from None
        return cls(name, places, size, footer, digest + changed.to_bytes(8, "little", signed=True))

    @classmethod
    def known(cls, name: str, digest: bytes, places: Places = anywhere) -> Opened:
        """The file of this name, which is refused if it is not the one of this digest any more."""
        now = cls.found(name, places)
        if now.digest == digest:
            return now
        why = ""
        if now.digest[:HASH] == digest[:HASH]:
            why = " (its size and its footer stayed, and the time of its last change moved: where machines have copies of it, give these one time, cp -p)"
        told = f"{name}: changed while it was being read, or since its footer was first read{why}"
        raise InputError(f"{told}; open the table anew and run again when nothing writes to it")

    def look(self) -> None:
        """Refuses the file if it is another one meanwhile."""
        Opened.known(self.name, self.digest, self.places)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Its columns, or of these the ones that are named."""
        has = self.footer.schema.to_arrow_schema()
        for name in columns or ():
            if name not in has.names:
                raise InputError(f"{self.name}: has no column {name!r}; its columns are {', '.join(map(repr, has.names))}")
        return has if columns is None else pa.schema([has.field(name) for name in columns])

    @contextlib.contextmanager
    def reader(self) -> Iterator[pq.ParquetFile]:
        """Its rows. Several threads may each have a reader. Whoever is the last one to be done has to `look`."""
        try:
            with self.places(self.name).open(self.size) as file, pq.ParquetFile(file, metadata=self.footer) as rows:
                yield rows
        except (pa.ArrowException, OSError):
            # What was read may be pieces of two files.
            self.look()
            raise


@contextlib.contextmanager
def opened(name: str, digest: bytes) -> Iterator[pq.ParquetFile]:
    """A file, of which the driver found this digest: it is looked at before anything is read, and behind that again."""
    file = Opened.known(name, digest)
    with file.reader() as rows:
        yield rows
    file.look()
