"""Rows: which there are, the keys cut and brought together by unit, and the rows that were found read back.

A row is called by its number: the file's place in the list of files, and the row's place in it. What is a class with `__call__` here is a
task: it is told all that it needs, and what is secret it asks for itself.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from .. import _core
from .._errors import ConfigError, InputError, InternalError
from . import engine, output, parquet, storage
from .parquet import Files

#: The bits of a row's number that say which row of its file it is. A file may have 10^12 rows, and there may be `parquet.MOST` files.
ROW_BITS = 40

#: Bytes of a part of the shuffle, at most, where keys are spread evenly. A task that packs one takes about three times as much memory, and to touch that
#: for the first time costs as much as to sort it. So parts are smaller, about so large, as long as they are no more than so many.
PART, SMALL, MANY = 256 << 20, 64 << 20, 128

#: Bytes of a part that no task opens. Rows of one key are in one part, so a part with a key of very many rows is larger than the others.
HEAVIEST = 4 << 30

#: Bytes of a row in the shuffle, at most: unit, digest, number. Of files it is 22, for a piece has numbers that are near each other.
RECORD, NEAR = 26, 22

#: Bytes of an id where ids are compared.
ID = 8

#: Bytes before a piece of a table that say of which rows it was cut.
MARK = 8

#: Of tables that may have a key of more rows than a part may hold, so many places are looked at before the other side is met, and so many rows at each.
LOOKS, AT_EACH = 256, 4096

#: Rows that are cut by one task, about: so many, or if there are very many, so that each worker has some tasks. A task takes 100 bytes for each.
TOGETHER, MOST, TASKS = 1 << 20, 1 << 23, 24

#: Rows of the output that are made at once. How often a row stands in the join is the other side's word, so no list is that long.
SLICE = 1 << 20

#: Bytes of the values of a row group of the output, about.
GROUP_BYTES = 32 << 20

#: What Parquet calls a codec, and what pyarrow calls it.
CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "LZ4": "lz4", "ZSTD": "zstd"}

#: Units whose found files are opened by one task, at least and at most: some 200 MB of rows, where half of the keys match.
FEW, UNITS = 8, 64

#: Bytes behind what a unit found.
END = 16

#: The form of packed units, of their index, and of what they found. It was 3 when a unit was a row group of a Parquet file, and 4 when what was found had 16
#: bytes of each key.
FORM = 5

#: What helps against a key of very many rows.
LEAVE_OUT = "leave out the rows of keys that say nothing, such as a placeholder for an address"

@dataclass(frozen=True)
class Work:
    """What every task of an attempt is told. Nothing of it is secret: the terms are sealed."""

    #: How the secret is asked for.
    kit: engine.Kit
    #: The address of the storage.
    storage: str
    #: The run's name, which its names in the storage begin with.
    run: str
    #: The terms; none before the sides have counted.
    terms: bytes = b""
    #: Which attempt of the run this is.
    attempt: int = 0

    def start(self) -> _core.Start:
        """The start, opened."""
        return engine.start(self.kit)

    def opened(self) -> _core.Terms:
        """The terms, opened."""
        return engine.terms(self.kit, self.terms)

    def there(self) -> storage.Storage:
        """The storage."""
        return storage.opened(self.storage)

    def name(self, *parts: str) -> str:
        """A name of the run in the storage."""
        return "/".join([self.run, *parts])


# Some calls of pyarrow's that are natural here import pandas, in each worker anew, for a second: `pa.table`, `pa.array` and `to_numpy`.


def imported(table: _core.Table) -> pa.Table:
    """A table of the native half."""
    return pa.RecordBatchReader.from_stream(table).read_all()


def pieces(table: pa.Table, column: str = "piece") -> list[pa.Buffer]:
    """The pieces that a column of a table holds, where they stand: a scalar of Arrow's would be a copy."""
    found: list[pa.Buffer] = []
    for chunk in table[column].chunks:
        _, offsets, data = chunk.buffers()
        ends = numpy.frombuffer(offsets, numpy.int64)[chunk.offset : chunk.offset + len(chunk) + 1].tolist()
        found += [data.slice(first, end - first) for first, end in zip(ends, ends[1:])]
    return found


def numbers_of(column: pa.ChunkedArray) -> numpy.ndarray:
    """A column of 64-bit integers without nulls, as numpy has them."""
    chunks = [numpy.frombuffer(chunk.buffers()[1], numpy.int64)[chunk.offset : chunk.offset + len(chunk)] for chunk in column.chunks if len(chunk)]
    whole = chunks[0] if len(chunks) == 1 else numpy.concatenate(chunks) if chunks else numpy.empty(0, numpy.int64)
    return whole.view(numpy.uint64) if pa.types.is_unsigned_integer(column.type) else whole


def of_numbers(values: numpy.ndarray) -> pa.Array:
    """The way back."""
    kind = pa.uint64() if values.dtype == numpy.uint64 else pa.int64()
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(numpy.ascontiguousarray(values))])


def of_pieces(buffers: Iterable[Any]) -> pa.Table:
    """Pieces as a table, where they stand: a chunk for each."""

    def chunk(buffer: Any) -> pa.Array:
        data = pa.py_buffer(buffer)
        offsets = pa.py_buffer(numpy.array([0, data.size], numpy.int64))
        return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, data])

    return pa.Table.from_arrays([pa.chunked_array([chunk(buffer) for buffer in buffers], pa.large_binary())], ["piece"])


def parts(rows: int, record: int, width: int, most: int) -> int:
    """How many parts so many rows are shuffled in: one for each task at once, or some for each if these would be too large."""
    size, width = rows * record, max(1, width)
    each = max(-(-size // (PART * width)), min(-(-size // (SMALL * width)), MANY // width))
    return max(1, min(most, max(1, each) * width))


def held(part: int, size: int) -> None:
    """Refuses a part of so many bytes that a task would need more memory than it has, and an engine start it again and again."""
    if size > HEAVIEST:
        raise InputError(
            f"part {part} of the shuffle has {size >> 20:,} MiB, some {size // RECORD:,} rows, and a task opens {HEAVIEST >> 20:,} MiB at most: a key "
            f"stands in very many rows; {LEAVE_OUT}"
        )


@dataclass(frozen=True)
class Stretch:
    """Row groups of a file, one behind the other, and the number of their first row."""

    path: str
    groups: list[int]
    first: int
    #: That of the file.
    digest: bytes
    #: How many rows these are.
    rows: int
    #: Whether its pieces go by way of the storage.
    aside: bool = False


def stretches(table: Files, width: int) -> list[Stretch]:
    """The table in stretches, for so many tasks at once."""
    together = max(TOGETHER, min(MOST, table.rows // max(TASKS, 4 * width)))
    found: list[Stretch] = []
    for number, (path, groups, digest) in enumerate(zip(table.paths, table.groups, table.digests)):
        at, taken, size = number << ROW_BITS, [], 0
        for group, rows in enumerate(groups):
            if taken and size + rows > together:
                found.append(Stretch(path, taken, at, digest, size))
                at, taken, size = at + size, [], 0
            taken, size = [*taken, group], size + rows
        if size:
            found.append(Stretch(path, taken, at, digest, size))
    return found


def with_room(table: list[Stretch], room: int | None) -> tuple[list[Stretch], int]:
    """These stretches, of which as many go by way of the storage as do not fit into so many bytes, and how many bytes go there. An engine that has to
    make room for one more piece writes all that it holds to its disk, and reads it again."""
    if room is None:
        return table, 0
    there, aside = 0, 0
    found = []
    for one in table:
        size = one.rows * NEAR
        fits = there + size <= room
        there, aside = there + size * fits, aside + size * (not fits)
        found.append(replace(one, aside=not fits))
    return found, aside


@dataclass(frozen=True)
class Aside:
    """A piece that stands in the storage."""

    name: str
    start: int
    size: int


@dataclass(frozen=True)
class CutFiles:
    """Cuts a stretch of a file. Tells how many rows it has, and how many of these have a key."""

    work: Work
    keys: list[str]
    parts: int
    #: Where in the run pieces stand that go by way of the storage.
    folder: str

    def __call__(self, stretch: Stretch) -> tuple[tuple[int, int], Sequence[pa.Buffer | Aside]]:
        start = self.work.start()
        with parquet.opened(stretch.path, stretch.digest) as file:
            table = file.read_row_groups(stretch.groups, columns=self.keys)
        cut, rows, given = start.cut(table, stretch.first, self.parts)
        del table
        made = pieces(imported(cut))
        if not stretch.aside:
            return (rows, given), made
        # A task that is started twice writes two files. Nobody reads them when the units are packed, so nothing waits for the disk.
        name = self.work.name(self.folder, f"cut-{secrets.token_hex(8)}")
        self.work.there().put(name, made, durable=False)
        ends = numpy.cumsum([piece.size for piece in made]).tolist()
        return (rows, given), [Aside(name, end - piece.size, piece.size) for end, piece in zip(ends, made)]


#: Two words that hashes of rows are made under. They travel with the tasks, and not beside the hashes, which a cluster writes to its disks.
Salt = tuple[int, int]


@dataclass(frozen=True)
class Seen:
    """What a table was seen to hold: the sums of `rows_of`, modulo 2^64, and what its hashes were made under."""

    ids: int
    rows: int
    salt: Salt


@dataclass(frozen=True)
class CutTable:
    """The same of a table whose rows are called by the integers in a column. Tells the sums of `rows_of`, too. Before each piece stands the second
    one: a table that is made again after a worker was lost may have other rows, and then some parts have pieces of these and some of the first."""

    work: Work
    keys: list[str]
    id: str
    parts: int
    seen: Seen

    def __call__(self, table: pa.Table) -> tuple[tuple[int, int, int, int], list[pa.Buffer]]:
        # An id below zero passes as the number that has its bits.
        numbers = pa.Table.from_arrays([table[self.id].cast(pa.int64(), safe=False).cast(pa.uint64(), safe=False)], ["id"])
        cut, rows, given = self.work.start().cut(table.select(list(dict.fromkeys(self.keys))), 0, self.parts, numbers)
        ids, whole = rows_of(numbers_of(numbers["id"]), table, self.keys, self.seen.salt)
        mark = added(whole).to_bytes(MARK, "little")
        return (rows, given, added(ids), added(whole)), [pa.py_buffer(b"".join([mark, piece])) for piece in pieces(imported(cut))]


def cut_and_packed(on: engine.Engine, blocks: Any, cut: CutTable, folder: str) -> tuple[list[Any], list[list[Place]]]:
    """Cuts and packs the rows of a table that `distinct` has seen: what was told of its blocks, and where the units of each part stand."""
    told, packed = on.exchange(blocks, cut, PackTable(cut.work, folder, cut.parts, cut.seen.rows), cut.parts)
    same(told, cut.seen, cut.id)
    if any(marks != cut.seen.rows for marks, _ in packed):
        raise InputError(
            f"column {cut.id!r}: some rows were made again while the table was being read, and had other numbers or other keys then; {WRITE_IT}"
        )
    return told, [places for _, places in packed]


#: A packed unit: its number, its file, where its keys begin there and how long they are, the same of its rows, distinct keys, rows with a key.
Place = tuple[int, str, int, int, int, int, int, int]


@dataclass(frozen=True)
class Pack:
    """Packs the units of a part into a file: the keys of all units, and behind them the numbers of the rows of all."""

    work: Work
    folder: str
    parts: int

    def __call__(self, part: int, cut: Iterable[Any]) -> list[Place]:
        cut = [piece if isinstance(piece, Aside) else pa.py_buffer(piece) for piece in cut]
        held(part, sum(piece.size for piece in cut))
        there = self.work.there()
        cut = [there.read(piece.name, piece.start, piece.size) if isinstance(piece, Aside) else piece for piece in cut]
        packed = imported(self.work.start().pack(part, self.parts, of_pieces(cut)))
        del cut
        if not packed.num_rows:
            return []
        # A task that is started twice writes two files, and one of them is told of.
        name = f"part-{part}-{secrets.token_hex(8)}"
        blobs, rows = (pieces(packed, column) for column in ("blob", "rows"))
        places: list[Place] = []
        at, behind = 0, sum(blob.size for blob in blobs)
        columns = (packed[column].to_pylist() for column in ("unit", "keys", "given"))
        for unit, keys, given, blob, numbers in zip(*columns, blobs, rows):
            places.append((unit, name, at, blob.size, behind, numbers.size, keys, given))
            at, behind = at + blob.size, behind + numbers.size
        # Once the index is there nothing makes this file again, and the rows in it are read first when the other side is gone.
        there.put(self.work.name(self.folder, name), [*blobs, *rows])
        return places


@dataclass(frozen=True)
class PackTable(Pack):
    """The same of pieces that `CutTable` made. Tells the sum of what stands before these, too; where that is not what the first reading `seen` has, some
    rows may be there twice, and nothing is packed."""

    seen: int

    def __call__(self, part: int, cut: Iterable[Any]) -> tuple[int, list[Place]]:
        cut = [pa.py_buffer(piece) for piece in cut]
        marks = sum(int.from_bytes(memoryview(piece)[:MARK], "little") for piece in cut) % (1 << 64)
        if marks != self.seen:
            return marks, []
        return marks, super().__call__(part, (piece.slice(MARK) for piece in cut))


@dataclass(frozen=True)
class Units:
    """The packed units of a run, on the storage."""

    #: The folder of their files, in the run.
    folder: str
    #: Of each unit that has any row: its file, where its keys stand in it and how long they are, and the same of its rows.
    places: dict[int, tuple[str, int, int, int, int]]
    #: Distinct keys in all, and the unit that has the most with their number.
    keys: int
    largest: tuple[int, int]
    #: The rows that have a key, whether they take part or not.
    given: int

    @classmethod
    def of(cls, folder: str, packed: Iterable[Place]) -> Units:
        """Those of these places."""
        places: dict[int, tuple[str, int, int, int, int]] = {}
        keys, given, largest = 0, 0, (0, 0)
        for unit, *place, of_unit, rows in packed:
            if unit in places:
                raise InternalError(f"{folder}: holds unit {unit} twice; please report it")
            places[unit] = tuple(place)
            keys, given = keys + of_unit, given + rows
            largest = max(largest, (unit, of_unit), key=lambda one: one[1])
        return cls(folder, places, keys, largest, given)

    def to_json(self) -> bytes:
        """As it is kept."""
        return json.dumps([FORM, self.folder, list(self.places.items()), self.keys, self.largest, self.given]).encode()

    @classmethod
    def from_json(cls, kept: bytes, where: str) -> Units:
        """What `to_json` gave, of a run that is kept at `where`."""
        form, *index = json.loads(kept)
        if form != FORM:
            raise ConfigError(
                f"{where}: was left by a run of another version of Vesica, which packed its units in another form than this one's, {FORM}: "
                "end the run with that version, or remove this and what mine.resume keeps of the run, and begin it anew"
            )
        folder, places, keys, largest, given = index
        return cls(folder, {unit: tuple(place) for unit, place in places}, keys, tuple(largest), given)

    def load(self, work: Work, unit: int) -> bytes | None:
        """The keys of a packed unit; None if it has no row. Nothing else of the unit is read, so how long it takes follows from how many
        keys there are."""
        return self._read(work, unit, 0)

    def rows(self, work: Work, unit: int) -> bytes | None:
        """The numbers of the rows of a packed unit; None if it has none."""
        return self._read(work, unit, 2)

    def _read(self, work: Work, unit: int, which: int) -> bytes | None:
        if unit not in self.places:
            return None
        file, *spans = self.places[unit]
        return work.there().read(work.name(self.folder, file), *spans[which : which + 2])


def ended(data: bytes) -> list[bytes]:
    """What a unit found, with a hash behind it: it is not brought to the disk at once, and may be in pieces if its machine loses its power."""
    return [data, hashlib.blake2b(data, digest_size=END).digest()]


def is_whole(kept: bytes) -> bool:
    """Whether these are bytes that `ended` gave."""
    return len(kept) >= END and ended(kept[:-END])[1] == kept[-END:]


@functools.lru_cache(maxsize=2)
def index(work: Work) -> Units:
    """The packed units of a run. A process reads the index once."""
    return Units.from_json(work.there().get(work.name("index")), work.run)


def indexed(work: Work) -> Units:
    """The same, of a run that may be at any attempt."""
    return index(replace(work, terms=b"", attempt=0))


def grouped(units: list[int]) -> list[list[int]]:
    """Units that one task opens together. These follow from the units alone: in an end that is tried again on more machines, others would be together,
    and how many rows both have could be subtracted."""
    each = max(FEW, min(UNITS, -(-len(units) // 4)))
    # All of them have nearly as many: of a last one with a single unit it would be seen how much that one found.
    count = -(-len(units) // each)
    ends = [len(units) * at // count for at in range(count + 1)] if count else []
    return [units[low:high] for low, high in zip(ends, ends[1:])]


def opened(work: Work, units: list[int]) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Of each of these units its number, what was kept of it, and the numbers of its rows: what opens its found rows."""
    there, packed = work.there(), indexed(work)
    for unit in units:
        yield unit, there.get(work.name("found", f"unit-{unit}"))[:-END], packed.rows(work, unit)


@dataclass(frozen=True)
class CutFound:
    """Cuts found rows by their files: part n has every file whose number is n modulo the parts. Tells how many there are."""

    work: Work
    parts: int

    def __call__(self, units: list[int]) -> tuple[int, list[pa.Buffer]]:
        # Which rows matched is the result, and a pair says what unit its row is in: both are sealed again before anything carries them.
        terms, found = self.work.opened(), _core.Taking(self.parts)
        for unit in opened(self.work, units):
            terms.take(found, *unit)
        sealed, count = terms.seal_rows(found)
        return count, pieces(imported(sealed))


@dataclass(frozen=True)
class Take:
    """Writes the found rows of each file of a part, in the file's order, to a file of their own; tells how many found rows there were, and of these files."""

    work: Work
    paths: list[str]
    groups: list[list[int]]
    digests: list[bytes]
    #: Where the files come to stand.
    place: output.Place
    columns: list[str] | None
    parts: int

    def __call__(self, part: int, pieces: Iterable[Any]) -> tuple[int, list[output.Part]]:
        written = []
        rows = imported(self.work.opened().open_rows(of_pieces(pieces)))
        # The numbers, and where all learn the pairs and how often each row is there.
        columns = [numbers_of(column) for column in rows.columns]
        count = rows.num_rows
        del rows
        if len(columns) == 1:
            # To sort numbers takes an eighth of finding their order.
            columns[0] = numpy.sort(columns[0])
        else:
            order = numpy.argsort(columns[0])
            for at, column in enumerate(columns):
                columns[at] = column[order]
            del order
        if bool((columns[0][1:] == columns[0][:-1]).any()):
            raise InternalError(f"a row of part {part} was found twice; please report it")
        numbers = columns[0] >> numpy.uint64(ROW_BITS)
        firsts = [0, *(numpy.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), count] if count else []
        for first, end in zip(firsts, firsts[1:]):
            number = int(numbers[first])
            if number % self.parts != part or number >= len(self.paths):
                raise InternalError(f"rows of file {number} came to part {part}; what was kept was changed, or please report it")
            file = self.paths[number], self.groups[number], self.digests[number]
            of_file = [column[first:end] for column in columns]
            put = self.place.put(number, functools.partial(take_rows, *file, of_file, self.columns))
            # The driver counts found rows, and not what came of them.
            expected = int(of_file[2].sum()) if len(of_file) > 1 else end - first
            if put[1] != expected:
                raise InternalError(f"{self.paths[number]}: {expected} of its rows were found, and {put[1]} written; please report it")
            written.append(put)
        return count, written


@dataclass(frozen=True)
class Ids:
    """The ids of found rows, each as often as it was found, and the pairs if they are asked for."""

    work: Work
    id: str
    type: pa.DataType
    with_pair: bool

    def __call__(self, units: list[int]) -> pa.Table:
        terms = self.work.opened()
        return self._of(pa.concat_tables(imported(terms.rows(*unit)) for unit in opened(self.work, units)))

    def none(self) -> pa.Table:
        """What comes of no unit."""
        return self._of(pa.schema([(name, pa.uint64()) for name in ("row", "pair", "times")]).empty_table())

    def _of(self, found: pa.Table) -> pa.Table:
        # An id below zero has passed through the lanes as the number that has its bits.
        columns = {self.id: found["row"].cast(pa.int64(), safe=False).cast(self.type, safe=False)}
        if self.with_pair:
            columns["pair"] = found["pair"]
        return pa.Table.from_arrays(list(columns.values()), list(columns))


@dataclass(frozen=True)
class CutIds:
    """Cuts the integers in a column, so that equal ones come to one part. They are in clear: rows are whoever carries them has them from. Tells the
    sums of `rows_of`, and if it is asked to look at one of so many rows, what `some` gives of these, with their ids."""

    id: str
    keys: list[str]
    parts: int
    every: int
    salt: Salt

    def __call__(self, table: pa.Table) -> tuple[tuple[int, int, int, bytes, bytes], list[pa.Buffer]]:
        column = table[self.id].cast(pa.int64(), safe=False)
        if column.null_count:
            raise InputError(f"column {self.id!r}: has a null; every row needs a number of its own")
        numbers = numbers_of(column)
        ids, whole = rows_of(numbers.view(numpy.uint64), table, self.keys, self.salt)
        # Which rows are looked at follows from their ids, however they are cut into blocks.
        at = numpy.flatnonzero(ids % numpy.uint64(self.every) == 0) if self.every else numpy.empty(0, numpy.int64)
        looked, at = some(table, self.keys, at)
        told = len(numbers), added(ids), added(whole), salted(looked, self.salt).tobytes(), numbers[at].tobytes()
        numbers = numpy.sort(numbers)
        # Stretches of ids may be in one block, or every other one: any bits of them may be even.
        of = (numbers.view(numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15) >> numpy.uint64(32)) % numpy.uint64(self.parts)
        return told, [pa.py_buffer(numbers[of == part].tobytes()) for part in range(self.parts)]


@dataclass(frozen=True)
class Repeats:
    """The least integer of a part that stands there several times, and how many more integers are among the others; None if each stands once."""

    def __call__(self, part: int, pieces: Iterable[Any]) -> tuple[int, int] | None:
        numbers = numpy.sort(numpy.concatenate([numpy.frombuffer(piece, numpy.int64) for piece in pieces] or [numpy.empty(0, numpy.int64)]))
        same = numbers[1:][numbers[1:] == numbers[:-1]]
        return (int(same[0]), len(same)) if len(same) else None


#: What stands for a null among hashed values. An empty text has 0.
NULL = numpy.uint64(0x243F6A8885A308D3)


def mixed(numbers: numpy.ndarray) -> numpy.ndarray:
    """Numbers of 64 bits, mixed by SplitMix64 (Steele, Lea, Flood 2014): others for others, and few of their bits alike."""
    z = numbers + numpy.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> numpy.uint64(shift)
        z *= numpy.uint64(factor)
    z ^= z >> numpy.uint64(31)
    return z


def _next(found: numpy.ndarray, word: numpy.ndarray) -> numpy.ndarray:
    """What was found of the words before, and one more: a step that can be undone, so two values that differ in one word stay apart."""
    found = found ^ word
    found *= numpy.uint64(0xD6E8FEB86659FD93)
    found ^= found >> numpy.uint64(32)
    return found


def added(numbers: numpy.ndarray) -> int:
    """The sum of mixed numbers, modulo 2^64: in whatever order they stand, another one for others."""
    return int(numbers.sum(dtype=numpy.uint64))


def salted(numbers: numpy.ndarray, salt: Salt) -> numpy.ndarray:
    """Numbers that say nothing of these to who does not have the salt: who tries all telephone numbers finds none. Two rounds of an Even-Mansour
    cipher of 64 bits, over a permutation that is no cipher's: it is not for who sees many of these numbers with what they were made of."""
    return mixed(mixed(numbers ^ numpy.uint64(salt[0])) ^ numpy.uint64(salt[1]))


def rows_of(ids: numpy.ndarray, table: pa.Table, keys: list[str], salt: Salt) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Of each row of a table a number that follows from its id, and one that follows from its id and its keys. By their sums it is seen whether two
    passes had the same rows. A block may have one row: a sum of its hash without a salt would tell who tries all keys which one it has."""
    ids = mixed(ids)
    return ids, salted(ids ^ keys_of(table, keys), salt)


def keys_of(table: pa.Table, keys: list[str]) -> numpy.ndarray:
    """Of each row a number that follows from its keys."""
    found = numpy.zeros(table.num_rows, numpy.uint64)
    for name in dict.fromkeys(keys):
        chunks = [_hashed(chunk, name) for chunk in table[name].chunks if len(chunk)]
        found ^= chunks[0] if len(chunks) == 1 else numpy.concatenate([*chunks, found[:0]])
        found = mixed(found)
    return found


def _hashed(chunk: pa.Array, name: str) -> numpy.ndarray:
    """Of each value of a column of keys a number that follows from it. Eight bytes of all values are mixed at once."""
    types = pa.types
    if types.is_dictionary(chunk.type):
        # A null may stand in the dictionary, too.
        chunk = chunk.dictionary_decode()
    valid = chunk.is_valid().cast(pa.uint8()) if chunk.null_count else None
    if types.is_boolean(chunk.type):
        chunk = chunk.cast(pa.uint8())
    if str(chunk.type) == "string_view":
        chunk = chunk.cast(pa.large_string())
    kind, count = chunk.type, len(chunk)
    if types.is_string(kind) or types.is_large_string(kind):
        _, offsets, buffer = chunk.buffers()
        ends = numpy.frombuffer(offsets, numpy.int32 if types.is_string(kind) else numpy.int64)[chunk.offset : chunk.offset + count + 1]
        starts, left = ends[:-1].astype(numpy.int64), numpy.diff(ends).astype(numpy.int64)
    elif types.is_integer(kind) or types.is_temporal(kind) or types.is_decimal(kind):
        width, buffer = kind.bit_width // 8, chunk.buffers()[1]
        starts, left = (chunk.offset + numpy.arange(count)) * width, numpy.full(count, width, numpy.int64)
    else:
        raise InputError(f"column {name!r}: holds {kind}, which can be no key; store it as text, an integer or a decimal")
    data = numpy.frombuffer(buffer, numpy.uint8) if buffer is not None and buffer.size else numpy.empty(0, numpy.uint8)
    if len(data) < 8:
        data = numpy.concatenate([data, numpy.zeros(8, numpy.uint8)])
    # The eight bytes that begin at each byte.
    words = numpy.ndarray(len(data) - 7, "<u8", data.data, strides=(1,))
    found, active = left.astype(numpy.uint64), None
    while True:
        if active is not None or not left.all():
            # Of most columns nearly all values end in the same round.
            rest = numpy.flatnonzero(left > 0)
            active = rest if active is None else active[rest]
            starts, left = starts[rest], left[rest]
        if not len(left):
            break
        # The last values end with the buffer.
        first = numpy.minimum(starts, len(words) - 1)
        word = words[first]
        word >>= ((starts - first) << 3).astype(numpy.uint64)
        if int(left.min()) < 8:
            short = numpy.maximum(8 - left, 0).astype(numpy.uint64) * numpy.uint64(8)
            word = word << short >> short
        if active is None:
            found = _next(found, word)
        else:
            found[active] = _next(found[active], word)
        starts, left = starts + 8, numpy.maximum(left - 8, 0)
    if valid is not None:
        found[numpy.frombuffer(valid.buffers()[1], numpy.uint8)[valid.offset : valid.offset + count] == 0] = NULL
    return found


#: What `keys_of` has of a column's empty text and of a null.
NOTHING = mixed(numpy.array([0, NULL], numpy.uint64))

#: What to do with a table whose rows are not the same twice.
WRITE_IT = "write the table to files, and match these"


def same(told: Iterable[tuple[int, int, int, int]], seen: Seen, id: str) -> None:
    """Sees that the rows that `CutTable` told of are those that `distinct` has seen."""
    told = list(told)
    ids, whole = (sum(one[which] for one in told) % (1 << 64) for which in (2, 3))
    if ids != seen.ids:
        raise InputError(f"column {id!r}: had other numbers when it was read again; {WRITE_IT}")
    if whole != seen.rows:
        raise InputError(f"column {id!r}: its numbers called rows with other keys when they were read again; {WRITE_IT}")


def distinct(on: engine.Engine, blocks: Any, rows: int, keys: list[str], id: str) -> Seen:
    """Sees that no two rows have one number in the column `id`, and gives the sums of all rows by `rows_of`, under a salt of this table. Equal numbers are brought together by a
    shuffle of their own."""
    many = parts(rows, ID, on.width, 1 << 16)
    every = max(1, rows // (LOOKS * AT_EACH)) if may_be_heavy(rows) else 0
    salt = secrets.randbits(64), secrets.randbits(64)
    told, joined = on.exchange(blocks, CutIds(id, keys, many, every, salt), Repeats(), many)
    found = [one for one in joined if one is not None]
    if found:
        first, others = min(least for least, _ in found), sum(times for _, times in found) - 1
        more = f", and {others} more rows repeat the number of another" if others else ""
        raise InputError(f"column {id!r}: {first} stands in several rows{more}; rows are called by it, so give each a number of its own")
    read = sum(one[0] for one in told)
    if read != rows:
        raise InputError(f"column {id!r}: {rows} rows were counted, and {read} read; {WRITE_IT}")
    if every:
        hashes, ids = (numpy.concatenate([numpy.frombuffer(one[which], kind) for one in told]) for which, kind in ((3, numpy.uint64), (4, numpy.int64)))
        at = heaviest(hashes, numpy.full(len(hashes), every), 0)
        if at is not None:
            raise too_heavy(rows, int((hashes == hashes[at]).sum()) * every, f"the row whose {id} is {ids[at]}")
    return Seen(*(sum(one[which] for one in told) % (1 << 64) for which in (1, 2)), salt)


def some(table: pa.Table, keys: list[str], at: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Of the rows at these places numbers that follow from their keys, and the places. Rows without a key are left out: they come to no part."""
    names = list(dict.fromkeys(keys))
    table = table.select(names).take(of_numbers(at))
    given = numpy.ones(len(at), bool)
    for name in names:
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if str(column.type) == "string_view":
            column = column.cast(pa.large_string())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            # As `shared.rules` may have it: blanks are no key.
            import pyarrow.compute

            column = pyarrow.compute.utf8_trim_whitespace(column)
        given &= ~numpy.isin(keys_of(pa.Table.from_arrays([column], [name]), [name]), NOTHING)
    return keys_of(table, names)[given], at[given]


def may_be_heavy(rows: int) -> bool:
    """Whether one key of so many rows could make a part that no task opens."""
    return rows * RECORD > HEAVIEST


def heaviest(looked: numpy.ndarray, stand_for: numpy.ndarray, doubt: float) -> int | None:
    """Where the key stands that most rows have, if it has more of them than a part may hold. `looked` has numbers that follow from the keys of some
    rows, each of which stands for so many rows, and `doubt` is how many rows that may be off."""
    if not len(looked):
        return None
    _, first, of = numpy.unique(looked, return_index=True, return_inverse=True)
    counts = numpy.bincount(of, weights=stand_for)
    most = int(counts.argmax())
    return int(first[most]) if (counts[most] - doubt) * RECORD > HEAVIEST else None


def too_heavy(rows: int, count: int, called: str) -> InputError:
    """What is told of a table in which so many rows have one key."""
    return InputError(
        f"some {count:,} of {rows:,} rows have the key of {called}: one part of the shuffle would have {count * RECORD >> 20:,} MiB, and a task opens "
        f"{HEAVIEST >> 20:,} MiB at most; {LEAVE_OUT}"
    )


def weigh(table: Files, keys: list[str]) -> None:
    """Refuses files in which, by what is seen at some places, a key has more rows than a part may: before the other side is met, and its work lost.
    The driver looks by itself, because hashes of keys are not for who reads what a cluster keeps."""
    if not may_be_heavy(table.rows):
        return
    groups = [(at, group, rows) for at, of in enumerate(table.groups) for group, rows in enumerate(of)]
    begins = numpy.cumsum([0, *(rows for _, _, rows in groups)])
    # Places are as far apart everywhere, and each stands for as many rows.
    apart = -(-table.rows // LOOKS)
    chosen = numpy.searchsorted(begins, numpy.arange(apart // 2, table.rows, apart), side="right") - 1
    names = list(dict.fromkeys(keys))

    def look(one: int) -> tuple[numpy.ndarray, numpy.ndarray, int]:
        at, group, _ = groups[one]
        with parquet.opened(table.paths[at], table.digests[at]) as file:
            first = next(file.iter_batches(AT_EACH, row_groups=[group], columns=names))
        return *some(pa.Table.from_batches([first]), names, numpy.arange(first.num_rows)), first.num_rows

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(look, chosen.tolist()))
    behind = numpy.cumsum([len(hashes) for hashes, _, _ in found])
    stand_for = numpy.concatenate([numpy.full(len(hashes), apart / rows) for hashes, _, rows in found])

    def called(at: int) -> str:
        of = int(numpy.searchsorted(behind, at, side="right"))
        place, group, _ = groups[chosen[of]]
        row = sum(table.groups[place][:group]) + int(found[of][1][at - (int(behind[of - 1]) if of else 0)])
        return f"row {row + 1:,} of {table.paths[place]}"

    hashes = numpy.concatenate([hashes for hashes, _, _ in found])
    # Where rows stand in the order of their keys, one place more or less may fall on a key.
    suspect = heaviest(hashes, stand_for, apart)
    if suspect is None:
        return

    def share(one: int) -> float:
        at, group, rows = groups[one]
        with parquet.opened(table.paths[at], table.digests[at]) as file:
            batches = (pa.Table.from_batches([batch]) for batch in file.iter_batches(row_groups=[group], columns=names))
            return sum(int((keys_of(batch, names) == hashes[suspect]).sum()) for batch in batches) / rows

    # A row group may be in the order of its keys, and then the first rows say nothing of the others.
    once = sorted(set(chosen.tolist()))
    with ThreadPoolExecutor(16) as pool:
        shares = dict(zip(once, pool.map(share, once)))
    count = sum(shares[one] for one in chosen.tolist()) * apart
    if (count - apart) * RECORD > HEAVIEST:
        raise too_heavy(table.rows, int(count), called(suspect))


def stored(footer: pq.FileMetaData) -> dict[str, Any]:
    """How the columns of a file are stored, as `ParquetWriter` is told it: rows like these are written in the same way, as a run on one machine does.
    To look for a dictionary where there is none takes longer than to write the values."""
    codecs: dict[str, str] = {}
    with_dictionary: list[str] = []
    for at in range(footer.num_columns):
        chunks = [footer.row_group(group).column(at) for group in range(footer.num_row_groups)]
        codecs[chunks[0].path_in_schema] = CODECS.get(chunks[0].compression, "zstd")
        if 2 * sum(chunk.has_dictionary_page for chunk in chunks) > len(chunks):
            with_dictionary.append(chunks[0].path_in_schema)
    # One codec is said in a word: a column that is called otherwise in what is written, as nested ones of other writers are, would have none.
    compression = codecs | {"pair": "zstd"} if len(set(codecs.values())) > 1 else next(iter(codecs.values()))
    return {"compression": compression, "use_dictionary": with_dictionary}


def take_rows(path: str, groups: list[int], digest: bytes, found: Sequence[numpy.ndarray], columns: list[str] | None, out: Any) -> None:
    """Writes the found rows of the file `path` to `out`, a path or a file. `found` are their numbers, which ascend, and if each stands there as often
    as in the join, and with its pair, the pairs and how often that is. Only the row groups that hold one are read."""
    rows, *joined = found
    places = rows & numpy.uint64((1 << ROW_BITS) - 1)
    starts = numpy.cumsum([0, *groups]).astype(numpy.uint64)
    ends = numpy.searchsorted(places, starts)
    with parquet.opened(path, digest) as file, contextlib.ExitStack() as stack:
        writer = None
        waiting: list[pa.Table] = []

        def write() -> None:
            nonlocal writer
            whole = pa.concat_tables(waiting)
            waiting.clear()
            writer = writer or stack.enter_context(pq.ParquetWriter(out, whole.schema, **stored(file.metadata)))
            writer.write_table(whole, row_group_size=SLICE)

        for group in range(len(groups)):
            low, high = int(ends[group]), int(ends[group + 1])
            if low == high:
                continue
            table = file.read_row_group(group, columns=columns)
            if columns is not None:
                table = table.select(columns)
            pairs, times = (column[low:high] for column in joined) if joined else (None, None)
            for of in copies(high - low, times):
                rows_of = places[low:high][of] - starts[group]
                # Where every row of a group was found, as where two tables are nearly the same, they stand there already.
                whole = len(rows_of) == table.num_rows and isinstance(of, slice)
                taken = table if whole else table.take(of_numbers(rows_of))
                if pairs is not None:
                    taken = taken.append_column("pair", of_numbers(pairs[of]))
                waiting.append(taken)
                if sum(one.nbytes for one in waiting) >= GROUP_BYTES or sum(one.num_rows for one in waiting) >= SLICE:
                    write()
        if waiting:
            write()


def copies(count: int, times: numpy.ndarray | None) -> Iterator[Any]:
    """Which of so many found rows the next rows of the output are a copy of, for one slice of the output after another."""
    if times is None or bool((times == 1).all()):
        yield from (slice(at, at + SLICE) for at in range(0, count, SLICE))
        return
    behind = numpy.cumsum(times.astype(numpy.int64))
    for at in range(0, int(behind[-1]), SLICE):
        yield numpy.searchsorted(behind, numpy.arange(at, min(at + SLICE, int(behind[-1]))), side="right")
