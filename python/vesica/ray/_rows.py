"""Rows: which there are, the keys cut and brought together by unit, and the rows that were found read back.

Ray Data reads, shuffles and writes. A row is called by its number: the file's place in the list of files, and the row's place in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy
import pyarrow as pa
import pyarrow.compute
import pyarrow.fs
import pyarrow.parquet as pq
import ray

from .. import _core
from .._errors import ConfigError, InputError, InternalError
from . import _keeper, _storage

if TYPE_CHECKING:
    from ._lanes import Work

#: The bits of a row's number that say which row of its file it is. A file may have 10^12 rows, and there may be 16 million files.
ROW_BITS = 40

#: Bytes of a partition of the shuffle. A task that reduces one takes about three times as much memory.
PARTITION = 256 << 20

#: Bytes of a row in the shuffle: unit, digest, number.
RECORD = 28

#: Bytes of a row where ids are compared: the part, and the id.
ID = 12

#: Rows of the output that are made at once. How often a row stands in the join is the other side's word, so no list is that long.
SLICE = 1 << 20

#: Units whose found files are opened by one task: some 200 MB of rows, where half of the keys match.
UNITS = 64

#: The form of packed units and of their index. It was 2 when one blob had both the keys and the rows of a unit.
FORM = 3

#: How packed units are written: a unit a row group, and nothing of the bytes themselves in a footer.
PARQUET: dict[str, Any] = {"row_group_size": 1, "compression": "none", "write_statistics": False, "use_dictionary": False}

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


@dataclass(frozen=True)
class Files:
    """Parquet files, in their order."""

    paths: list[str]
    #: The rows of each row group of each file.
    groups: list[list[int]]
    schema: pa.Schema
    #: A hash of the files' names, sizes and footers: what is compared before a run is taken up again.
    identity: bytes

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(map(sum, self.groups))


def files(paths: Paths) -> Files:
    """The files at `paths`: files, folders, or addresses that `pyarrow.fs` knows (`s3://…`), with their footers read."""
    found = list(_listed(paths))
    if not found:
        raise InputError(f"{paths}: there is no Parquet file; name files or a folder with files called *.parquet")
    if len(found) >= 1 << (63 - ROW_BITS):
        raise InputError(f"{len(found)} files are too many: at most {1 << (63 - ROW_BITS)} can be matched in one run")
    with ThreadPoolExecutor(16) as pool:
        footers = list(pool.map(_footer, found))
    schema = footers[0][0].schema.to_arrow_schema()
    hashed = hashlib.blake2b(digest_size=32)
    for path, (footer, digest) in zip(found, footers):
        if footer.schema.to_arrow_schema().remove_metadata() != schema.remove_metadata():
            raise InputError(f"{path}: has other columns than {found[0]}; all files must have the same columns, with the same types")
        hashed.update(len(path.encode()).to_bytes(8, "little") + path.encode() + digest)
    groups = [[footer.row_group(i).num_rows for i in range(footer.num_row_groups)] for footer, _ in footers]
    return Files(found, groups, schema, hashed.digest())


def _listed(paths: Paths) -> Iterator[str]:
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        name = os.fspath(path)
        if "@" in name.partition("://")[2].partition("/")[0]:
            # The address stands in Ray's object store and in errors.
            raise InputError("a path has a user or a password in its address; give them to the file system by its environment instead")
        name = name if "://" in name else os.path.abspath(name)
        system, inside = _system(name)
        info = system.get_file_info(inside)
        if info.type == pyarrow.fs.FileType.NotFound:
            raise InputError(f"{name}: there is no such file or folder")
        if info.type == pyarrow.fs.FileType.File:
            yield name
            continue
        prefix = name.partition("://")[0] + "://" if "://" in name else ""
        selector = pyarrow.fs.FileSelector(inside, recursive=True)
        inner = [one.path for one in system.get_file_info(selector) if one.type == pyarrow.fs.FileType.File]
        yield from sorted(prefix + one for one in inner if one.endswith(".parquet"))


def _system(name: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of `name`, and what it is called there. Workers find it anew: what it needs to sign in never travels."""
    if "://" in name:
        return pyarrow.fs.FileSystem.from_uri(name)
    return pyarrow.fs.LocalFileSystem(), name


def _opened(name: str) -> pq.ParquetFile:
    system, inside = _system(name)
    return pq.ParquetFile(system.open_input_file(inside))


def _footer(name: str) -> tuple[pq.FileMetaData, bytes]:
    """The footer of a file, and a hash of the file's size and footer."""
    system, inside = _system(name)
    try:
        with system.open_input_file(inside) as file:
            size = file.size()
            footer = pq.read_metadata(file)
            # The last eight bytes are the footer's length and the format's mark; a footer names places, sizes and statistics.
            tail = min(size, footer.serialized_size + 8)
            file.seek(size - tail)
            digest = hashlib.blake2b(size.to_bytes(8, "little") + file.read(tail), digest_size=32).digest()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name}: is no Parquet file that can be read: {error}") from None
    return footer, digest


def from_files(table: Files, run: str, keys: list[str]) -> Any:
    """A Dataset of cut rows of the files: unit, digest, row."""
    missing = [key for key in keys if key not in table.schema.names]
    if missing:
        raise InputError(f"{table.paths[0]}: there is no column {missing[0]!r}; it has {', '.join(table.schema.names)}")
    items = []
    for number, (path, groups) in enumerate(zip(table.paths, table.groups)):
        first = number << ROW_BITS
        for group, rows in enumerate(groups):
            if rows:
                items.append({"path": path, "group": group, "first": first})
            first += rows
    if not items:
        return None
    return ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        _cut_groups(run, keys), batch_size=None, batch_format="pyarrow"
    )


def _cut_groups(run: str, keys: list[str]) -> Callable[[pa.Table], Iterator[pa.Table]]:
    def cut_groups(items: pa.Table) -> Iterator[pa.Table]:
        for item in items.to_pylist():
            with _opened(item["path"]) as file:
                table = file.read_row_group(item["group"], columns=keys)
            rows = cut(run, table, item["first"])
            _keeper.count(run, item["first"], table.num_rows, rows.num_rows)
            yield rows

    return cut_groups


def from_dataset(dataset: Any, run: str, keys: list[str], id: str) -> Any:
    """A Dataset of cut rows of a Dataset whose rows are called by the integers in the column `id`."""

    def cut_batch(table: pa.Table) -> pa.Table:
        numbers = table[id].cast(pa.int64(), safe=False)
        rows = cut(run, table.select(keys), 0)
        if table.num_rows:
            # No two rows have one number, so the least one names the block.
            _keeper.count(run, pa.compute.min(numbers).as_py(), table.num_rows, rows.num_rows)
        return rows.set_column(2, "row", numbers.take(rows["row"]).cast(pa.uint64(), safe=False))

    columns = list(dict.fromkeys([*keys, id]))
    return dataset.select_columns(columns).map_batches(cut_batch, batch_size=None, batch_format="pyarrow")


def distinct(dataset: Any, id: str) -> None:
    """Sees that no two rows of a Dataset have one number in the column `id`. Equal numbers are brought together by a shuffle of their own."""
    parts = max(1, -(-dataset.count() * ID // PARTITION))

    def by_part(table: pa.Table) -> pa.Table:
        numbers = table[id].cast(pa.int64(), safe=False)
        if numbers.null_count:
            raise InputError(f"column {id!r}: has a null; every row needs a number of its own")
        part = (numbers.to_numpy().view(numpy.uint64) % numpy.uint64(parts)).astype(numpy.int32)
        return pa.table({"part": part, "id": numbers})

    def repeats(part: pa.Table) -> pa.Table:
        numbers = numpy.sort(part["id"].to_numpy())
        same = numbers[1:][numbers[1:] == numbers[:-1]]
        return pa.table({"id": same[:1], "rows": pa.array([len(same)] if len(same) else [], pa.int64())})

    numbers = dataset.select_columns([id]).map_batches(by_part, batch_size=None, batch_format="pyarrow")
    found = numbers.groupby("part", num_partitions=parts).map_groups(repeats, batch_format="pyarrow").take_all()
    if found:
        first, others = min(one["id"] for one in found), sum(one["rows"] for one in found) - 1
        more = f", and {others} more rows repeat the number of another" if others else ""
        raise InputError(f"column {id!r}: {first} stands in several rows{more}; rows are called by it, so give each a number of its own")


def cut(run: str, table: pa.Table, first: int) -> pa.Table:
    """The rows of `table` that have a key, with their sealed digests and hidden units; its first row has the number `first`."""
    return pa.table(_keeper.start(run).cut(table, first))


def shuffle(rows: Any, run: str, count: int, folder: Path) -> None:
    """Brings the rows of each unit together and writes them to `folder`, a unit a row group: keys and row numbers in columns of their own."""
    partitions = max(1, -(-count * RECORD // PARTITION))
    packed = rows.groupby("unit", num_partitions=partitions).map_groups(_pack(run), batch_format="pyarrow")
    packed.write_parquet(str(folder), **PARQUET)


def _pack(run: str) -> Callable[[pa.Table], pa.Table]:
    def pack(rows: pa.Table) -> pa.Table:
        unit, keys, blob, numbers = _keeper.start(run).pack(rows["unit"][0].as_py(), rows)
        return pa.table(
            {
                "unit": pa.array([unit], pa.uint32()),
                "keys": pa.array([keys], pa.uint64()),
                "given": pa.array([rows.num_rows], pa.uint64()),
                "blob": pa.array([blob], pa.large_binary()),
                "rows": pa.array([numbers], pa.large_binary()),
            }
        )

    return pack


@dataclass(frozen=True)
class Units:
    """The packed units of a run, on the storage."""

    #: The file and the row group of each unit that has any row.
    places: dict[int, tuple[str, int]]
    #: Distinct keys in all, and the unit that has the most with their number.
    keys: int
    largest: tuple[int, int]
    #: The rows that have a key, whether they take part or not.
    given: int

    @classmethod
    def index(cls, folder: Path) -> Units:
        """Reads which unit stands where, and brings the files to the disk: Ray has written them, and does not. Once the index is there nothing
        makes them again, and the rows in them are read first when the other side is gone."""
        places: dict[int, tuple[str, int]] = {}
        keys, given, largest = 0, 0, (0, 0)
        for path in sorted(folder.glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                table = file.read(columns=["unit", "keys", "given"])
            for group, unit in enumerate(table["unit"].to_pylist()):
                if unit in places:
                    raise InternalError(f"{path}: holds unit {unit}, which another file holds too; please report it")
                places[unit] = (str(path), group)
            each = list(zip(table["unit"].to_pylist(), table["keys"].to_pylist()))
            keys += sum(number for _, number in each)
            largest = max([largest, *each], key=lambda one: one[1])
            given += sum(table["given"].to_pylist())
            _storage.sync(path)
        _storage.sync(folder)
        return cls(places, keys, largest, given)

    def to_json(self) -> bytes:
        """As it is kept, so that no lane reads all footers again."""
        return json.dumps([FORM, list(self.places.items()), self.keys, self.largest, self.given]).encode()

    @classmethod
    def read(cls, path: Path) -> Units:
        """What `to_json` gave, in the folder of a run."""
        form, *index = json.loads(path.read_bytes())
        if form != FORM:
            raise ConfigError(
                f"{path.parent}: was left by a run of another version of Vesica, which packed its units in another form than this one's, {FORM}: "
                "end the run with that version, or remove this folder and what mine.resume keeps of the run, and begin it anew"
            )
        places, keys, largest, given = index
        return cls({unit: (file, group) for unit, (file, group) in places}, keys, tuple(largest), given)

    def load(self, unit: int) -> bytes | None:
        """The keys of a packed unit; None if it has no row. Nothing else of the unit is read, so how long it takes follows from how many
        keys there are."""
        if unit not in self.places:
            return None
        path, group = self.places[unit]
        with pq.ParquetFile(path) as file:
            return _read(file, group, "blob")

    def rows(self, units: Iterable[int]) -> Iterator[bytes | None]:
        """The numbers of the rows of each of these packed units; None for one that has none. Each file is opened once: its footer has all of its
        units."""
        with contextlib.ExitStack() as stack:
            files: dict[str, pq.ParquetFile] = {}
            for unit in units:
                path, group = self.places.get(unit, (None, 0))
                if path is not None and path not in files:
                    files[path] = stack.enter_context(pq.ParquetFile(path))
                yield None if path is None else _read(files[path], group, "rows")


def _read(file: pq.ParquetFile, group: int, column: str) -> bytes:
    return file.read_row_group(group, columns=[column])[column][0].as_buffer().to_pybytes()


def found(work: Work, units: list[int], turn: Callable[[_core.Terms, pa.Table], pa.Table]) -> Any:
    """A Dataset of what `turn` makes of found rows, which have the columns row, pair and times."""

    def open_found(units: pa.Table) -> pa.Table:
        terms, numbers = work.opened(), units["unit"].to_pylist()
        kept = ((work.folder / "found" / f"unit-{unit}").read_bytes() for unit in numbers)
        rows = Units.read(work.folder / "index").rows(numbers)
        return turn(terms, pa.concat_tables([pa.table(terms.rows(*unit)) for unit in zip(numbers, kept, rows)]))

    items = ray.data.from_items([{"unit": unit} for unit in units], override_num_blocks=-(-len(units) // UNITS))
    return items.map_batches(open_found, batch_size=None, batch_format="pyarrow")


def gather(work: Work, units: list[int], table: Files, folder: Path, columns: list[str] | None, with_pair: bool) -> int:
    """Writes the found rows of each file, in the file's order, to a file of their own in `folder`; says how many found rows that were."""
    paths, groups = table.paths, table.groups

    def by_file(terms: _core.Terms, found: pa.Table) -> pa.Table:
        # Which rows matched is the result, and a pair says what unit its row is in: both are sealed again before Ray sees them.
        found = found.sort_by("row")
        numbers = (found["row"].to_numpy() >> numpy.uint64(ROW_BITS)).astype(numpy.int32)
        files, firsts = numpy.unique(numbers, return_index=True)
        ends = [*firsts[1:], len(numbers)]
        blobs = [terms.seal_rows(found.slice(first, end - first)) for first, end in zip(firsts, ends)]
        return pa.table({"file": pa.array(files, pa.int32()), "rows": pa.array(blobs, pa.binary())})

    def take(found: pa.Table) -> pa.Table:
        terms, number = work.opened(), found["file"][0].as_py()
        rows = pa.concat_tables([pa.table(terms.open_rows(blob.as_py())) for blob in found["rows"]]).sort_by("row")
        if numpy.any(rows["row"].to_numpy() >> numpy.uint64(ROW_BITS) != number):
            raise InternalError(f"{paths[number]}: rows of another file came for it; what Ray keeps was changed, or please report it")
        out = folder / f"part-{number:06}.parquet"
        take_rows(paths[number], groups[number], rows, columns, with_pair, out)
        return pa.table({"file": pa.array([number], pa.int32()), "rows": pa.array([rows.num_rows], pa.int64())})

    done = found(work, units, by_file).groupby("file", num_partitions=min(len(paths), 64))
    written = done.map_groups(take, batch_format="pyarrow").materialize()
    return sum(sum(batch["rows"].to_pylist()) for batch in written.iter_batches(batch_format="pyarrow"))


def take_rows(path: str, groups: list[int], found: pa.Table, columns: list[str] | None, with_pair: bool, out: Path) -> None:
    """Writes the found rows, which are sorted, of the file `path` to `out`, each as often as it stands in the join. Only the row groups that
    hold one are read."""
    places = found["row"].to_numpy() & numpy.uint64((1 << ROW_BITS) - 1)
    pairs = found["pair"].to_numpy()
    # The place in the output behind the last copy of each found row.
    behind = numpy.cumsum(found["times"].to_numpy().astype(numpy.int64))
    starts = numpy.cumsum([0, *groups]).astype(numpy.uint64)
    ends = numpy.searchsorted(places, starts)
    beside = out.with_name(f".{out.name}.{secrets.token_hex(8)}")
    with _opened(path) as file, contextlib.ExitStack() as stack:
        writer = None
        for group in range(len(groups)):
            low, high = int(ends[group]), int(ends[group + 1])
            if low == high:
                continue
            table = file.read_row_group(group, columns=columns)
            if columns is not None:
                table = table.select(columns)
            last = int(behind[high - 1])
            for at in range(int(behind[low - 1]) if low else 0, last, SLICE):
                # Which found row each of the next rows of the output is a copy of.
                of = numpy.searchsorted(behind, numpy.arange(at, min(at + SLICE, last)), side="right")
                rows = table.take(pa.array(places[of] - starts[group]))
                if with_pair:
                    rows = rows.append_column("pair", pa.array(pairs[of], pa.uint64()))
                writer = writer or stack.enter_context(pq.ParquetWriter(beside, rows.schema))
                writer.write_table(rows)
    os.replace(beside, out)
