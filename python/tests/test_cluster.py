"""What a cluster does for a run, on threads of this process that start everything twice. Ray and Spark have tests of their own."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import json
import os
import pickle
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import vesica
from conftest import Relay, bytes_of, jobs, plain, start_of
from vesica._cluster import drive, engine, keeper, lanes, output, parquet, rows, storage

#: What is asked for by its name, as workers ask the driver.
HELD: dict[str, Any] = {}


@dataclass(frozen=True)
class Kit:
    name: str

    def ask(self, public: bytes) -> tuple[bytes, bytes]:
        return HELD[self.name].to_bytes(), HELD[self.name].secret.hand(self.name, public)


class Killed(Exception):
    """A worker is gone."""


def together(*tasks: Callable[[], Any]) -> list[Any]:
    """What came of tasks that ran at the same time."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        return [one.result() for one in [pool.submit(task) for task in tasks]]


class Twice:
    """Starts each task twice at the same time, and each lane again when it has died. Takes the result of one, as a cluster may that has lost a
    worker or thinks that it has."""

    #: One of the three files fits.
    name, width, room = "threads", 3, 30_000

    def __init__(self) -> None:
        self.killed: list[int] = []

    def watch(self, accept: Any, refuse: Any) -> Any:
        return nullcontext(SimpleNamespace(look=lambda: None, told=lambda: None))

    def hold(self, start: Any) -> Kit:
        kit = Kit(os.urandom(8).hex())
        HELD[kit.name] = start
        return kit

    def release(self) -> None:
        HELD.clear()

    def exchange(self, items: Any, cut: Any, join: Any, parts: int) -> tuple[list[Any], list[Any]]:
        made = [together(lambda item=item: cut(item), lambda item=item: cut(item))[n % 2] for n, item in enumerate(items)]
        joined = []
        for part in range(parts):
            pieces = [pieces[part] for _, pieces in made]
            both = together(lambda: join(part, pieces), lambda: join(part, iter(reversed(pieces))))
            joined.append(both[part % 2])
        return [told for told, _ in made], joined

    def each(self, items: list[Any], do: Callable[[Any], Any]) -> list[Any]:
        return [together(lambda item=item: do(item), lambda item=item: do(item))[1] for item in items]

    def dial(self, work: Any, count: int, at_once: int, look: Callable[[], Any]) -> list[str]:
        costs = []
        for number in range(count):
            look()

            def dies(number: int = number) -> None:
                self.killed.append(number)
                raise Killed

            with contextlib.suppress(Killed):
                lanes.Dial(work, dies)(number)
            costs.append(lanes.Dial(work, lambda: None)(number))
        return costs

    @contextlib.contextmanager
    def doors(self, spec: Any, workers: int, count: Any, advertise: Any) -> Iterator[Any]:
        host, _, port = spec["mine"]["listen"].rpartition(":")
        at = f"{host}:{int(port) + 1}"

        def serve(work: Any, driver: Any) -> list[str]:
            seats, costs = lanes.Seats(), []
            thread = threading.Thread(target=lambda: costs.extend(seats.serve(work, at, workers, lambda: None)))
            thread.start()
            driver.meeting.finished()
            seats.stop()
            thread.join()
            return costs

        yield SimpleNamespace(told=[at], serve=serve)


def tables(place: Path, count: int) -> dict[str, pa.Table]:
    """A table of each side, that of alice in three files. One key of hers has as many rows as a third of all."""
    made = {}
    for name, first in (("alice", 0), ("bob", count // 2)):
        numbers = range(first, first + count)
        keys = [None if n % 97 == 0 else "often" if name == "alice" and n % 3 == 0 else f"{n:06}" for n in numbers]
        keys[-1] = "often"
        made[name] = pa.table({"id": keys, "n": list(numbers)})
        folder = place / name
        folder.mkdir()
        each = -(-count // 3)
        for i in range(3):
            pq.write_table(made[name].slice(i * each, each), folder / f"{i}.parquet", row_group_size=each // 3)
    return made


def expected(made: dict[str, pa.Table], name: str) -> list[dict[str, Any]]:
    there = set(made[{"alice": "bob", "bob": "alice"}[name]]["id"].drop_null().to_pylist())
    return [row for row in made[name].to_pylist() if row["id"] in there]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_whatever_is_started_twice_is_counted_once_and_never_said_twice(
    name: str, place: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tables(place, 3_000)
    both = dict(zip(("alice", "bob"), jobs(port, learns=["alice", "bob"], limits={"max_keys": 6_000}, unit=100)))
    other = "bob" if name == "alice" else "alice"
    taken: list[tuple[int, int]] = []
    take = lanes.Turns.take
    monkeypatch.setattr(lanes.Turns, "take", lambda self, unit: (taken.append((unit, take(self, unit))), taken[-1][1])[1])
    monkeypatch.setattr(lanes, "STRETCH", 4)
    thread, done = plain(SimpleNamespace(jobs=both, tables=made), other)
    on = Twice()
    how = {"storage": place / "storage", "workers": 2}
    one = drive.of_files(on, both[name], str(place / name), place / "out", {}, how)
    counted: list[int] = []
    close = one.meeting.close
    one.meeting = SimpleNamespace(
        **{call: getattr(one.meeting, call) for call in dir(one.meeting) if call[0] != "_" and call != "close"},
        close=lambda costs, begun: (counted.append(begun), close(costs, begun))[1],
    )
    report = one.run()
    thread.join()
    assert not isinstance(done[0], BaseException), done[0]
    parts = sorted((place / "out").iterdir())
    out = pa.concat_tables(pq.read_table(part) for part in parts).to_pylist()
    pairs = {row.pop("pair") for row in out}
    wanted = expected(made, name)
    assert {row["n"] for row in out} == {row["n"] for row in wanted} and report.outcome.matched == len(pairs)
    # In the order of the files, each row as often as its key stands on the other side.
    assert sorted(row["id"] for row in out) == sorted(done[0].table.to_arrow()["id"].to_pylist())
    assert [row["n"] for row in out] == sorted(row["n"] for row in out)
    # No turn was had twice, and none that nobody counted.
    turns = [turn for _, turn in taken]
    assert len(set(turns)) == len(turns) and {unit for unit, _ in taken} == set(range(report.chosen.units))
    assert counted[0] >= len(turns)
    if name == "bob":
        assert on.killed and len(turns) > report.chosen.units, "no lane was started again"
    assert not list((place / "storage").iterdir())


def test_a_run_that_finds_too_few_is_forgotten(place: Path, port: int) -> None:
    """Else the next night's run, with other files, would be refused for its ledger."""
    made = tables(place, 300)
    both = dict(zip(("alice", "bob"), jobs(port, learns=["alice", "bob"], limits={"max_keys": 600, "min_intersection": 250}, unit=100)))
    (place / "key").write_bytes(os.urandom(32))
    (place / "key").chmod(0o600)
    both["alice"]["mine"] |= {"resume": str(place / "resume"), "resume_key": str(place / "key")}
    thread, done = plain(SimpleNamespace(jobs=both, tables=made), "bob")
    one = drive.of_files(Twice(), both["alice"], str(place / "alice"), place / "out", {}, {"storage": place / "storage", "workers": 2})
    with pytest.raises(vesica.InputError, match=r"asks for \(250\)"):
        one.run()
    thread.join()
    assert isinstance(done[0], vesica.InputError), done[0]
    assert not [*(place / "storage").iterdir(), *(place / "resume").iterdir()]
    assert not (place / "out").exists() or not list((place / "out").iterdir())


def test_pieces_stand_where_they_were_made(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start_of(port, limits={"max_keys": 8_000}, unit=1000)
    table = pa.table({"id": [f"key {n}" for n in range(1000)]})
    cut, read, given = run.cut(table, 7 << 40, 2)
    pieces = rows.pieces(pa.table(cut))
    assert (read, given, len(pieces)) == (1000, 1000, 2)
    again = rows.of_pieces(pieces)
    assert [piece.address for piece in rows.pieces(again)] == [piece.address for piece in pieces]
    units = [pa.table(run.pack(part, 2, rows.of_pieces([pieces[part]]))) for part in range(2)]
    assert sum(sum(unit["keys"].to_pylist()) for unit in units) == 1000
    with monkeypatch.context() as patch:
        patch.setattr(rows, "HEAVIEST", 1 << 12)
        with pytest.raises(vesica.InputError, match="part 1 of the shuffle has 0 MiB, some .* rows, and a task opens 0 MiB at most: a key stands"):
            rows.Pack(rows.Work(Kit("none"), "/nowhere", "run"), "units", 2)(1, iter(pieces))
    with pytest.raises(vesica.ConfigError, match="a piece of cut rows cannot be opened"):
        run.pack(1, 2, rows.of_pieces([pieces[0]]))
    assert pa.table(run.pack(0, 2, rows.of_pieces([]))).num_rows == 0


def test_a_table_is_cut_in_stretches_of_its_files() -> None:
    table = parquet.Files(["a", "b", "c"], [[3, 0, 5], [0], [2]], pa.schema([]), [b"of a", b"of b", b"of c"])
    of = [(one.path, one.groups, one.first, one.digest) for one in rows.stretches(table, 1)]
    assert of == [("a", [0, 1, 2], 0, b"of a"), ("c", [0], 2 << rows.ROW_BITS, b"of c")]
    large = parquet.Files(["a"], [[rows.TOGETHER, 5, rows.TOGETHER]], pa.schema([]), [b""])
    of = [(one.groups, one.first) for one in rows.stretches(large, 1)]
    assert of == [([0], 0), ([1], rows.TOGETHER), ([2], rows.TOGETHER + 5)]


def test_parts_are_small_as_long_as_they_are_few() -> None:
    of = lambda count, width: rows.parts(count, rows.NEAR, width, 1 << 16)
    assert [of(count, 2) for count in (1, 10**6, 10**7, 10**8)] == [2, 2, 4, 34]
    # At most 256 MiB each, one for each task at once, and no more than there are units.
    assert of(10**10, 2) == 820 and of(10**9, 256) == 256 and rows.parts(10**10, rows.NEAR, 2, 100) == 100
    assert rows.parts(0, rows.NEAR, 0, 1 << 16) == 1


def test_what_does_not_fit_goes_by_way_of_the_storage() -> None:
    table = [rows.Stretch("a", [0], n, b"", size) for n, size in enumerate([10, 5, 30, 4])]
    of = lambda room: [one.aside for one in rows.with_room(table, room)[0]]
    assert of(None) == of(49 * rows.NEAR) == [False] * 4
    assert of(19 * rows.NEAR) == [False, False, True, False] and rows.with_room(table, 19 * rows.NEAR)[1] == 30 * rows.NEAR
    assert of(0) == [True] * 4


def test_ids_that_are_others_when_they_are_read_again_are_refused(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were found to be distinct in one pass, and rows were called by what the next one read."""
    run = start_of(port, limits={"max_keys": 100})
    monkeypatch.setattr(engine, "start", lambda kit: run)
    ids = [-3, 0, 1 << 40, 7]
    blocks = [pa.table({"id": ["a", "b"], "n": ids[:2]}), pa.table({"id": ["c", None], "n": ids[2:]})]
    seen = rows.distinct(Twice(), blocks, 4, ["id"], "n")
    cut = rows.CutTable(rows.Work(Kit("none"), "/", "run"), ["id"], "n", 1, seen)
    told = [cut(table)[0] for table in reversed(blocks)]
    rows.same(told, seen, "n")
    assert [one[:2] for one in told] == [(2, 1), (2, 2)]
    other = blocks[0].set_column(1, "n", pa.array([-3, 1]))
    with pytest.raises(vesica.InputError, match="column 'n': had other numbers when it was read again"):
        rows.same([cut(other)[0], told[0]], seen, "n")
    with pytest.raises(vesica.InputError, match="5 rows were counted, and 4 read"):
        rows.distinct(Twice(), blocks, 5, ["id"], "n")
    # The same numbers and keys, in other rows: as those of a `row_number` over equal rows.
    with pytest.raises(vesica.InputError, match="column 'n': its numbers called rows with other keys"):
        rows.same([cut(blocks[0].set_column(0, "id", pa.array(["b", "a"])))[0], told[0]], seen, "n")


def test_rows_that_are_made_again_in_the_midst_of_the_shuffle_are_refused(place: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker was lost, its rows were made again with other keys, and parts had pieces of both: a row stood in two units, or in none."""
    run = start_of(port, limits={"max_keys": 8_000}, unit=1000)
    monkeypatch.setattr(engine, "start", lambda kit: run)
    first = pa.table({"id": [f"key {n}" for n in range(400)], "n": range(400)})
    other = first.set_column(0, "id", pa.array([f"key {n}" for n in range(1, 401)]))
    seen = rows.distinct(Twice(), [first], 400, ["id"], "n")
    cut = rows.CutTable(rows.Work(Kit("none"), str(place), "run"), ["id"], "n", 4, seen)

    def on(again: pa.Table, both: bool = False) -> Any:
        def exchange(items: Any, cut: Any, join: Any, parts: int) -> Any:
            told, pieces = cut(first)
            behind = cut(again)[1]
            of = [[pieces[part], behind[part]] if both else [pieces[part] if part < 2 else behind[part]] for part in range(parts)]
            return [told], [join(part, cut) for part, cut in enumerate(of)]

        return SimpleNamespace(exchange=exchange)

    told, packed = rows.cut_and_packed(on(first), [first], cut, "units")
    assert told[0][:2] == (400, 400) and sum(place[-1] for part in packed for place in part) == 400
    with pytest.raises(vesica.InputError, match="column 'n': some rows were made again while the table was being read"):
        rows.cut_and_packed(on(other), [first], cut, "again")
    # A part with a row of both readings, which has that row twice.
    with pytest.raises(vesica.InputError, match="column 'n': some rows were made again while the table was being read"):
        rows.cut_and_packed(on(first, both=True), [first], cut, "twice")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_keys_are_told_apart_by_all_of_their_bytes(kind: pa.DataType) -> None:
    def reference(key: bytes) -> int:
        found = len(key)
        for at in range(0, len(key), 8):
            found = (found ^ int.from_bytes(key[at : at + 8], "little")) * 0xD6E8FEB86659FD93 % (1 << 64)
            found ^= found >> 32
        return found

    shuffled = random.Random(3)
    keys = ["", "a" * 300, *("".join(shuffled.choices("ab\0é", k=shuffled.randrange(30))) for _ in range(200))]
    column = pa.array([*keys, None], pa.string()).cast(kind)
    found = rows._hashed(column, "id").tolist()
    assert found[:-1] == [reference(key.encode()) for key in keys] and found[-1] == rows.NULL
    # Wherever a column is cut into chunks.
    assert rows._hashed(column.slice(7, 90), "id").tolist() == found[7:97]
    assert [rows._hashed(column.slice(at, 1), "id")[0] for at in range(len(keys))] == found[:-1]


def test_keys_of_every_kind_are_told_apart() -> None:
    for kind in (pa.int8(), pa.uint64(), pa.date32(), pa.timestamp("us"), pa.decimal128(20, 2), pa.bool_()):
        values = [0, 1, None, 1, 0] if kind == pa.bool_() else [7, 9, None, 9, 7]
        whole = pa.array(values, pa.int32()).cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32()).cast(kind)
        found = rows._hashed(whole, "id").tolist()
        assert found[0] == found[4] and found[1] == found[3] and len(set(found)) == 3
        assert rows._hashed(whole.slice(1), "id").tolist() == found[1:]
    # A null may stand in a dictionary itself.
    for column in (pa.array(["x", None]).dictionary_encode(null_encoding="encode"), pa.array(["x", None]).dictionary_encode()):
        assert rows._hashed(column, "id").tolist() == rows._hashed(pa.array(["x", None]), "id").tolist()
    table = pa.table({"a": ["x", "y"], "b": ["y", "x"]})
    assert len({*rows.keys_of(table, ["a", "b"]).tolist(), *rows.keys_of(table, ["b"]).tolist()}) == 4
    with pytest.raises(vesica.InputError, match="column 'id': holds double, which can be no key"):
        rows._hashed(pa.array([1.5]), "id")


def test_nobody_who_reads_hashes_of_rows_finds_their_keys_by_trying_all() -> None:
    """A block may have one row. Its id stands in the shuffle in clear, and what is added up of it followed from that and the key alone."""
    told: list[Any] = []

    class Reads(Twice):
        def exchange(self, items: Any, cut: Any, join: Any, parts: int) -> Any:
            told.append([cut(item)[0] for item in items])
            return super().exchange(items, cut, join, parts)

    blocks = [pa.table({"id": [f"+49 30 {n:04}"], "n": [n]}) for n in range(40)]
    first, second = (rows.distinct(Reads(), blocks, 40, ["id"], "n") for _ in range(2))
    assert first.ids == second.ids and first.rows != second.rows and not {one[2] for one in told[0]} & {one[2] for one in told[1]}
    every = [rows.CutIds("n", ["id"], 1, 1, salt)(blocks[7])[0] for salt in (first.salt, (0, 0), (first.salt[0], 0))]
    assert every[0][2] == told[0][7][2] and len({one[2] for one in every}) == len({one[3] for one in every}) == 3
    # Under one salt keys are equal where they were.
    two = pa.table({"id": ["x", "y", "x"], "n": [1, 2, 3]})
    looked = dict(zip(*(memoryview(one).cast("Q").tolist() for one in (lambda told: (told[4], told[3]))(rows.CutIds("n", ["id"], 1, 1, first.salt)(two)[0]))))
    assert looked[1] == looked[3] != looked[2]


def test_a_row_group_that_begins_with_a_key_is_not_all_of_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups in the order of their keys, as a cluster writes them: the first rows of each have a placeholder, and it was taken for every row's."""
    monkeypatch.setattr(rows, "HEAVIEST", 400 * rows.RECORD)
    monkeypatch.setattr(rows, "AT_EACH", 10)
    for name, often, refused in (("few", 20, False), ("many", 80, True)):
        keys = [key for group in range(10) for key in ["0000"] * often + [f"{group}{n:03}" for n in range(often, 100)]]
        pq.write_table(pa.table({"id": keys}), place / f"{name}.parquet", row_group_size=100)
        with pytest.raises(vesica.InputError, match="some 800 of 1,000 rows have the key of row .* of .*many.parquet") if refused else nullcontext():
            rows.weigh(parquet.files(place / f"{name}.parquet"), ["id"])


def test_several_identifiers_of_a_row_are_refused_before_anybody_is_met(place: Path, port: int) -> None:
    tables(place, 30)
    alice, _ = jobs(port, protocol="rr22", identifiers=[{"name": "email"}], match="any", limits={"max_keys": 100})
    alice["mine"]["input"]["keys"] = {"email": "id"}
    how: dict[str, Any] = {"storage": str(place / "storage"), "workers": 3, "doors": None, "advertise": None, "accept": (), "progress": None}
    with pytest.raises(vesica.ConfigError, match="shared.identifiers.*not in a cluster.*run on one machine"):
        drive.of_files(Twice(), alice, str(place / "alice"), str(place / "out"), {}, how)
    # Of rows that a cluster has in a table of its own, the columns are named a second time.
    with pytest.raises(vesica.ConfigError, match="shared.identifiers.*not in a cluster.*run on one machine"):
        drive.of_table(alice, ["id"], {})


def test_a_key_of_too_many_rows_is_refused_before_anybody_is_met(place: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was found when a part was packed, and the other side had cut and packed its table by then."""
    monkeypatch.setattr(rows, "HEAVIEST", 400 * rows.RECORD)
    keys = [None if n % 3 == 0 else " " if n % 3 == 1 else f"{n}" for n in range(900)]
    heavy = [*keys, *["often"] * 500]
    shuffled = random.Random(5)
    shuffled.shuffle(heavy)

    def refused(keys: list[str | None]) -> str | None:
        for old in place.glob("*.parquet"):
            old.unlink()
        table = pa.table({"id": keys, "n": range(len(keys))})
        pq.write_table(table.slice(0, 300), place / "0.parquet", row_group_size=50)
        pq.write_table(table.slice(300), place / "1.parquet", row_group_size=50)
        found = []
        for look in (
            lambda: rows.weigh(parquet.files(place), ["id"]),
            lambda: rows.distinct(Twice(), [table.slice(0, 500), table.slice(500)], len(keys), ["id"], "n"),
        ):
            try:
                look()
            except vesica.InputError as error:
                found.append(str(error))
        assert len(found) in (0, 2)
        assert not found or keys[int(found[1].partition("whose n is ")[2].partition(":")[0])] == "often"
        return found[0] if found else None

    # Rows without a key are in no part.
    assert refused(keys) is None and refused([*keys, *["often"] * 300]) is None
    said = refused(heavy)
    assert said is not None and " of 1,400 rows have the key of row " in said and "a task opens 0 MiB at most; leave out the rows" in said
    at, _, path = said.partition("have the key of row ")[2].partition(": one part")[0].partition(" of ")
    assert heavy[int(at) - 1 + (300 if path.endswith("1.parquet") else 0)] == "often"
    monkeypatch.undo()
    # Of what no key can make too large nothing is read.
    monkeypatch.setattr(rows, "some", None)
    rows.weigh(parquet.files(place), ["id"])


def test_rows_stand_as_often_as_the_join_has_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "SLICE", 7)
    table = pa.table({"id": [f"k{i}" for i in range(20)], "n": range(20)})
    pq.write_table(table, place / "t.parquet", row_group_size=6)
    times = {0: 3, 5: 1, 6: 20, 13: 0, 19: 2}
    first = 4 << rows.ROW_BITS
    found = {"row": [first + row for row in times], "pair": [100 + row for row in times], "times": list(times.values())}
    found = [numpy.array(column, numpy.uint64) for column in found.values()]
    files = parquet.files(place / "t.parquet")
    file = files.paths[0], files.groups[0], files.digests[0]
    rows.take_rows(*file, found, ["n"], str(place / "out.parquet"))
    expected = [{"n": row, "pair": 100 + row} for row, of in times.items() for _ in range(of)]
    assert pq.read_table(place / "out.parquet").to_pylist() == expected
    rows.take_rows(*file, found[:1], ["n"], str(place / "once.parquet"))
    assert pq.read_table(place / "once.parquet").to_pylist() == [{"n": row} for row in times]


def test_a_file_that_changes_during_a_run_is_refused(place: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows were called by their place in a file, and in another file of its name other rows have these places."""
    run = start_of(port, limits={"max_keys": 100})
    monkeypatch.setattr(engine, "start", lambda kit: run)
    path, cut = place / "t.parquet", rows.CutFiles(rows.Work(Kit("none"), str(place), "run"), ["id"], 1, "cut")

    def write(*keys: str) -> None:
        pq.write_table(pa.table({"id": list(keys)}), place / "new.parquet")
        os.replace(place / "new.parquet", path)

    write("a", "b")
    files = parquet.files(path)
    (stretch,) = rows.stretches(files, 1)
    assert cut(stretch)[0] == (2, 2)
    found = [numpy.ones(1, numpy.uint64)]
    (place / "out").mkdir()

    def take() -> None:
        write = functools.partial(rows.take_rows, str(path), files.groups[0], files.digests[0], found, None)
        output.Place(str(place / "out")).put(7, write)

    take()
    out = place / "out" / "part-000007.parquet"
    assert pq.read_table(out).to_pylist() == [{"id": "b"}]
    out.unlink()
    # As many rows, in groups of the same number.
    write("b", "c")
    for read in (lambda: cut(stretch), take):
        with pytest.raises(vesica.InputError, match="t.parquet: changed while it was being read"):
            read()
    # With the size and the footer that were there: what a row group holds in plain bytes is in no statistics of it.
    def plainly(*keys: str) -> bytes:
        pq.write_table(pa.table({"id": list(keys)}), place / "new.parquet", use_dictionary=False, write_statistics=False, compression="none")
        os.replace(place / "new.parquet", path)
        return path.read_bytes()

    one, other = plainly("a", "b"), plainly("c", "d")
    assert len(one) == len(other) and one != other
    plainly("a", "b")
    again = parquet.files(path)
    (stretch,) = rows.stretches(again, 1)
    assert cut(stretch)[0] == (2, 2)
    when = path.stat().st_mtime_ns
    plainly("c", "d")
    os.utime(path, ns=(when, when + 1))
    with pytest.raises(vesica.InputError, match="changed while it was being read, or since its footer was first read .its size and its footer stayed"):
        cut(stretch)
    assert parquet.files(path).identity != again.identity
    os.utime(path, ns=(when, when))
    assert cut(stretch)[0] == (2, 2), "a time that was set back is not seen, as the page says"
    # And between the look and the reading.
    write("a", "b")
    read_row_groups, read_row_group = pq.ParquetFile.read_row_groups, pq.ParquetFile.read_row_group
    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", lambda self, *of, **how: (read_row_groups(self, *of, **how), write("c", "d"))[0])
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda self, *of, **how: (read_row_group(self, *of, **how), write("c", "d"))[0])
    for read in (lambda: cut(rows.stretches(files, 1)[0]), take):
        write("a", "b")
        files = parquet.files(path)
        with pytest.raises(vesica.InputError, match="t.parquet: changed while it was being read"):
            read()
        assert parquet.files(path).digests != files.digests, "it was changed while it was read"
    assert not out.exists()


def test_a_row_that_is_lost_before_it_is_written_is_missed() -> None:
    source = SimpleNamespace(discard=lambda run: None, see=lambda run: None, write=lambda *args: 3)
    side = SimpleNamespace(source=source, on=None, all_learn=False, _phase=lambda *args: nullcontext())
    terms, work = SimpleNamespace(order=lambda: list(range(8))), SimpleNamespace(run="none")
    drive.Run._write(side, work, terms, {0: 1, 7: 2})
    with pytest.raises(vesica.InternalError, match="4 rows were found, and 3 of them came"):
        drive.Run._write(side, work, terms, {0: 2, 7: 2})


@pytest.mark.parametrize("both_learn", [False, True])
def test_a_row_that_was_found_and_is_not_written_is_missed(place: Path, monkeypatch: pytest.MonkeyPatch, both_learn: bool) -> None:
    """The driver adds up rows that were found, and a part was told with as many as it has: nobody compared the two."""
    pq.write_table(pa.table({"n": list(range(8))}), place / "t.parquet")
    files = parquet.files(place / "t.parquet")
    found = {"row": [5, 2, 3]} | ({"pair": [7, 8, 9], "times": [1, 3, 1]} if both_learn else {})
    opened = pa.table({name: pa.array(of, pa.uint64()) for name, of in found.items()})
    work = SimpleNamespace(opened=lambda: SimpleNamespace(open_rows=lambda pieces: opened))
    take = rows.Take(work, files.paths, files.groups, files.digests, output.Place(str(place)), None, 1)
    ((part,),) = [take(0, [])[1]]
    assert part[1] == (5 if both_learn else 3)
    write = rows.take_rows
    monkeypatch.setattr(rows, "take_rows", lambda path, groups, digest, of, *rest: write(path, groups, digest, [one[:-1] for one in of], *rest))
    with pytest.raises(vesica.InternalError, match=f"t.parquet: {part[1]} of its rows were found, and {part[1] - 1} written"):
        take(0, [])


def test_a_part_that_is_missing_is_missed_while_the_other_side_is_there(place: Path, port: int) -> None:
    """The other side ended well, and this one failed behind it: without `mine.resume` both had to match everything again."""
    pq.write_table(pa.table({"id": ["a"], "n": [1]}), place / "t.parquet")
    source, work = drive.OfFiles(parquet.files(place / "t.parquet"), jobs(port)[0], place / "out"), rows.Work(Kit("none"), str(place), "a-run")

    def elsewhere(on: Any, work: Any, units: list[int], with_pair: bool) -> int:
        own = source.output.begin(work.run)
        source.told = [own.put(0, functools.partial(pq.write_table, pa.table({"n": [1]})))]
        # The worker has another disk under the output's name.
        (Path(own.where) / source.told[0][0]).unlink()
        return 1

    source.write = elsewhere
    side = SimpleNamespace(source=source, on=None, all_learn=True, _phase=lambda *args: nullcontext())
    terms = SimpleNamespace(order=lambda: [0])
    # Only behind `_write` the other side is told that this one is done.
    with pytest.raises(vesica.ConfigError, match="part-000000.parquet: is not there, and a worker put 1 rows there"):
        drive.Run._write(side, work, terms, {0: 1})


def test_no_task_is_shown_which_units_have_a_match() -> None:
    given: list[list[int]] = []

    def write(on: Any, work: Any, units: list[int], *rest: Any) -> int:
        given.append(units)
        return 2 if units else 0

    source = SimpleNamespace(discard=lambda run: None, see=lambda run: None, write=write)
    side = SimpleNamespace(source=source, on=None, all_learn=False, _phase=lambda *args: nullcontext())
    terms, work = SimpleNamespace(order=lambda: [5, 7, 0, 1, 3]), SimpleNamespace(run="none")
    drive.Run._write(side, work, terms, {0: 0, 3: 2, 7: 0})
    # As after an end that failed. In another order the tasks would have other units, and sums of rows could be subtracted.
    drive.Run._write(side, work, terms, {7: 0, 3: 2, 0: 0})
    drive.Run._write(side, work, terms, {0: 0, 3: 0, 7: 0})
    assert given == [[7, 0, 3], [7, 0, 3], []]


class FakeLane:
    """A lane of three units whose matching is a function of this test."""

    number = 0

    def __init__(self, match: Callable[[int], bytes]) -> None:
        self.match, self.said = match, []

    def missing(self, done: list[int]) -> tuple[list[int], list[int]]:
        return [0, 1, 2], []

    def match_unit(self, unit: int, blob: bytes | None, turn: int) -> bytes:
        return self.match(unit)

    def cancel(self) -> None:
        self.said.append("cancel")

    def let_go(self) -> None:
        self.gone = True

    def close(self) -> str:
        self.said.append("close")
        return "{}"


def lane_work(place: Path, units: int = 3, count: int = 1) -> rows.Work:
    """The work of a lane in a folder, without a cluster."""
    there = storage.opened(str(place))
    there.put("run/shape", [json.dumps([units, count]).encode()])
    there.put("run/index", [rows.Units("units", {}, 0, (0, 0), 0).to_json()])
    return rows.Work(Kit("none"), str(place), "run", b"", lanes.attempt(there, "run"))


def run_lane(lane: Any, work: rows.Work, in_lane: int = 1) -> str:
    return lanes.run_lane(lane, work, SimpleNamespace(in_lane=in_lane, units=3, lanes=1), lambda: None)


#: Where a lane may end before its time: each is a call of the lane, or of what it works with.
STAGES = ["indexed", "mend", "missing", "put settled", "take", "load", "match_unit", "put", "tell", "keep", "close"]


def fails_at(stage: str, lane: Any, patch: pytest.MonkeyPatch) -> tuple[Any, Callable[[], None]]:
    """The lane, which will end at this stage, and what it tells of its units."""

    def fails(*args: Any) -> Any:
        raise Killed(stage)

    calls = {call: getattr(lane, call) for call in ("missing", "match_unit", "cancel", "let_go", "close")}
    if stage in calls:
        calls[stage] = fails
    elif stage in ("indexed", "mend", "keep"):
        patch.setattr(lanes, stage, fails)
    elif stage in ("take", "load"):
        patch.setattr(lanes.Turns if stage == "take" else rows.Units, stage, fails)
    elif stage != "tell":
        put = storage.Folder.put
        patch.setattr(storage.Folder, "put", lambda self, name, *of, **how: fails() if "/found/" in name else put(self, name, *of, **how))
    if stage == "put settled":
        # As if the other side's word had settled every unit that is missing.
        calls["missing"] = lambda done: ([], lane.missing(done)[0])
    return SimpleNamespace(number=lane.number, **calls), fails if stage == "tell" else lambda: None


def test_a_lane_that_ends_by_an_exception_has_no_link_any_more(place: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception held the lane until garbage was collected. The other side waited for it as long, and told its next start to come later."""
    made = tables(place, 3_000)
    both = dict(zip(("alice", "bob"), jobs(port, limits={"max_keys": 6_000}, unit=100)))
    ended: list[tuple[str, BaseException]] = []

    class Ends(Twice):
        def dial(self, work: Any, count: int, at_once: int, look: Callable[[], Any]) -> list[str]:
            assert count >= len(STAGES)
            terms, costs = work.opened(), []
            door = Relay(int(terms.addresses[0].rpartition(":")[2]))
            for number in range(count):
                look()
                for stage in STAGES[number : number + 1]:
                    with monkeypatch.context() as patch, pytest.raises(Killed) as told:
                        lane, tell = fails_at(stage, lanes._core.Lane.dial(terms, number, door.address), patch)
                        lanes.run_lane(lane, work, terms, tell)
                    # What is raised has the frames of its way, and these the lane.
                    ended.append((stage, told.value))
                    end = time.monotonic() + 10
                    while door.callers:
                        assert time.monotonic() < end, f"a lane that ended at {stage!r} has a link still"
                        time.sleep(0.01)
                costs.append(lanes.Dial(work, lambda: None)(number))
            return costs

    thread, done = plain(SimpleNamespace(jobs=both, tables=made), "alice")
    gc.disable()
    try:
        one = drive.of_files(Ends(), both["bob"], str(place / "bob"), None, {}, {"storage": place / "storage", "workers": 3})
        one.run()
    finally:
        gc.enable()
        thread.join()
    assert [stage for stage, _ in ended] == STAGES
    assert not isinstance(done[0], BaseException), done[0]
    assert sorted(done[0].table.to_arrow()["n"].to_pylist()) == [row["n"] for row in expected(made, "alice")]


def test_what_the_other_side_did_wrong_is_told_where_its_link_breaks_too(place: Path) -> None:
    """It broke the link when it was found out, and was taken for a bad line, up to five times."""
    work, broke = lane_work(place), threading.Event()

    def match(unit: int) -> bytes:
        if unit == 0:
            broke.set()
            raise vesica.NetworkError("the link broke")
        assert broke.wait(60)
        time.sleep(0.2)  # so that who waits for the first error has it
        raise vesica.PeerError("bob broke the protocol")

    with pytest.raises(vesica.PeerError, match="bob broke the protocol"):
        run_lane(FakeLane(match), work, 2)
    peer, link, stopped = vesica.PeerError("p"), vesica.NetworkError("n"), vesica.Stopped("s")
    assert lanes.grave([link, None, stopped, peer]) is peer and lanes.grave([link, stopped]) is stopped
    assert lanes.grave([None, link]) is link and lanes.grave([None]) is None


def test_a_door_tells_what_the_other_side_did_wrong_while_that_keeps_another_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """The door waited for its other lanes, and so for as long as the other side liked."""

    class FakeDoor:
        def __init__(self, terms: Any, listen: str, seats: int) -> None:
            self.lanes, self.ended = iter(["cheats", "is kept"]), threading.Event()

        def next(self) -> str | None:
            return next(self.lanes, None)

        def stop(self) -> None:
            pass

        def cancel(self) -> None:
            self.ended.set()

    def lane(lane: str, work: Any, terms: Any, tell: Any) -> str:
        if lane == "cheats":
            raise vesica.PeerError("bob broke the protocol")
        ended.append(door._door.ended.wait(30))
        raise vesica.Stopped("the run was stopped")

    ended: list[bool] = []
    monkeypatch.setattr(lanes, "_core", SimpleNamespace(Door=FakeDoor))
    monkeypatch.setattr(lanes, "run_lane", lane)
    door = lanes.Seats()
    with pytest.raises(vesica.PeerError, match="bob broke the protocol"):
        door.serve(SimpleNamespace(opened=lambda: None), "here:1", 2, lambda: None)
    assert ended == [True], "the other lane was ended here, and not when the other side liked"


def test_what_is_read_before_a_units_first_message_rests_on_its_keys_alone(
    place: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit had all rows of its keys, and one with a key of very many rows was read, opened and sealed for longer: after some runs with other
    salts the other side knew the key."""
    run = start_of(port, limits={"max_keys": 8_000}, unit=1000)
    monkeypatch.setattr(engine, "start", lambda kit: run)

    def packed(name: str, of_key: Callable[[int], int]) -> tuple[rows.Work, rows.Units]:
        keys = [f"key {key}" for key in range(4000) for _ in range(of_key(key))]
        work = rows.Work(Kit("none"), str(place), name)
        cut, _, _ = run.cut(pa.table({"id": keys}), 0, 3)
        parts = [rows.Pack(work, "units", 3)(part, [piece]) for part, piece in enumerate(rows.pieces(pa.table(cut)))]
        return work, rows.Units.of("units", (unit for part in parts for unit in part))

    def read(of: Callable[[int], bytes | None]) -> list[tuple[int, int]]:
        asked: list[tuple[int, int]] = []
        pread = os.pread
        with monkeypatch.context() as patch:
            patch.setattr(storage.os, "pread", lambda handle, size, at: (asked.append((size, at)), pread(handle, size, at))[1])
            loaded = [of(unit) for unit in range(run.units)]
        assert all(loaded) and [size for size, _ in asked] == [len(one or b"") for one in loaded]
        return asked

    made = {
        "alone": packed("alone", lambda key: 1),
        "heavy": packed("heavy", lambda key: 20_001 if key == 17 else 1),
        "alike": packed("alike", lambda key: 11 if key < 2000 else 1),
    }
    # Where they stand is the same, too.
    keys = {name: read(lambda unit: units.load(work, unit)) for name, (work, units) in made.items()}
    assert keys["alone"] == keys["heavy"] == keys["alike"] and len({size for size, _ in keys["alone"]}) > 1
    of_rows = {name: sum(size for size, _ in read(lambda unit: units.rows(work, unit))) for name, (work, units) in made.items()}
    assert of_rows["heavy"] - of_rows["alone"] == 8 * 20_000, "and the rows wait until the units are joined"
    work, units = made["alone"]
    assert units.rows(work, run.units) is None and units.load(work, run.units) is None


def test_a_lane_is_given_no_row_numbers(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rows a key has must not be read where the other side waits."""

    class FakeUnits:
        def load(self, work: Any, unit: int) -> bytes:
            return b"keys %d" % unit

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"a lane asked packed units for {name}")

    work, given = lane_work(place), []
    monkeypatch.setattr(lanes, "indexed", lambda work: FakeUnits())
    lane = FakeLane(lambda unit: b"found")
    lane.match_unit = lambda unit, blob, turn: (given.append(blob), b"found")[1]
    run_lane(lane, work)
    assert given == [b"keys 0", b"keys 1", b"keys 2"] and lanes.finished(work.there(), "run") == [0, 1, 2]


def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is brought to the disk from now on."""
    names: list[str] = []
    monkeypatch.setattr(storage.os, "fsync", lambda handle: names.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name))
    return names


def test_packed_units_are_on_the_disk_before_their_index(place: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows in them are read first when the other side is gone, and a machine that lost its power had an index of files without bytes."""
    run = start_of(port, limits={"max_keys": 100})
    monkeypatch.setattr(engine, "start", lambda kit: run)
    pq.write_table(pa.table({"id": ["a", "b"]}), place / "t.parquet")
    source = object.__new__(drive.OfFiles)
    source.files, source.spec = parquet.files(place / "t.parquet"), {"mine": {"input": {"keys": ["id"]}}}
    there = storage.opened(str(place))
    source.tell = lambda event: None
    side = SimpleNamespace(source=source, on=Twice(), there=there, address=str(place), _phase=lambda *args: nullcontext())
    names = synced(monkeypatch)
    assert drive.Run._units(side, rows.Work(Kit("none"), str(place), "run"), run.units).given == 2
    index = next(at for at, name in enumerate(names) if name.startswith(".index."))
    assert any(name.startswith(".part-0-") for name in names[:index]) and names[index - 1].startswith("units-")
    assert names[-1] == "run"


def test_a_lane_brings_what_it_found_to_the_disk_before_its_goodbye(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not unit by unit. Its turns are there before anything is answered."""
    work, said = lane_work(place), []
    names = synced(monkeypatch)
    lane = FakeLane(lambda unit: (said.append(list(names)), b"found")[1])
    lane.close = lambda: (said.append(list(names)), "{}")[1]
    run_lane(lane, work)
    first, *_, last = said
    assert len(first) == 2 and first[0].startswith(".own-0-0.") and first[1] == "begun"
    assert sorted(last[2:]) == ["found", "unit-0", "unit-1", "unit-2"] and said[:3] == [first] * 3


def test_what_an_earlier_start_of_a_lane_found_is_on_the_disk_before_its_goodbye(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start that said goodbye synced what it had put itself, and the other side forgot a run whose other units were in no disk yet."""
    work = lane_work(place)

    def breaks(unit: int) -> bytes:
        if unit == 2:
            raise vesica.NetworkError("the link broke")
        return b"found"

    with pytest.raises(vesica.NetworkError):
        run_lane(FakeLane(breaks), work)
    assert lanes.finished(work.there(), "run") == [0, 1]
    # One of them is torn, which only a driver that was started anew looked for.
    (place / "run" / "found" / "unit-0").write_bytes(b"\0" * 21)
    lane, names = FakeLane(lambda unit: b"found"), synced(monkeypatch)
    lane.missing = lambda done: (lane.said.append(done), ([unit for unit in range(3) if unit not in done], []))[1]
    lane.close = lambda: (lane.said.append(sorted(name for name in names if name.startswith("unit-"))), "{}")[1]
    run_lane(lane, work)
    assert lane.said == [[1], ["unit-0", "unit-1", "unit-2"]]


def test_a_lane_does_not_say_goodbye_over_units_that_are_lost(place: Path) -> None:
    for spoil in (lambda path: path.write_bytes(b""), lambda path: path.unlink()):
        work = lane_work(place)
        (place / "run" / "found").mkdir(exist_ok=True)
        work.there().put("run/found/unit-1", rows.ended(b"found"))
        lane = FakeLane(lambda unit: (spoil(place / "run" / "found" / "unit-1") if unit == 2 else None, b"found")[1])
        lane.missing = lambda done: ([unit for unit in range(3) if unit not in done], [])
        with pytest.raises(vesica.NetworkError, match="1 found units of a lane were lost"):
            run_lane(lane, work)
        assert not lane.said and lanes.finished(work.there(), "run") == [0, 2]
        work.there().remove("run")


def test_a_run_that_was_forgotten_keeps_its_counts_and_nothing_else(place: Path) -> None:
    work = lane_work(place)
    there, old = work.there(), lanes.Turns(work, 0, 3, 1)
    old.take(0)
    lanes.begun(there, "run")
    there.remove("run", but="begun")
    assert [one.name for one in (place / "run").iterdir()] == ["begun"]
    with pytest.raises(vesica.Stopped):
        lanes.Turns(work, 0, 3, 1).take(1)
    lanes.forget(there, "run")
    assert not list(place.iterdir())


def test_files_of_runs_that_the_other_side_forgot_do_not_stay(place: Path) -> None:
    there, discarded = storage.opened(str(place)), []
    for run in ("kept", "met"):
        for name in ("index", "found/unit-0", "begun/own-0-0"):
            there.put(f"{run}/{name}", [b""])
    side = object.__new__(drive.Run)
    side.there, side.address, side.on, side.source = there, str(place), Twice(), SimpleNamespace(discard=discarded.append)
    side.work, side.name, side.begun, side.forgotten = None, "kept", drive.Begun({}), []
    side.watch = SimpleNamespace(look=lambda: None, told=lambda: None)
    for run in ("kept", "met", "new"):
        side._enter(SimpleNamespace(run=run, units=1, lanes=1))
        assert there.has(f"{run}/shape")
    assert side.forgotten == discarded == ["kept", "met"]
    assert [[one.name for one in (place / run).iterdir()] for run in ("kept", "met", "new")] == [["begun"], ["begun"], ["shape"]]


#: A driver on the threads of a process of its own, which is killed where its second argument says: `python -c DRIVER CALL.json WHERE`.
DRIVER = """if True:
    import json, os, sys
    from pathlib import Path
    call = json.loads(Path(sys.argv[1]).read_text())
    sys.path.insert(0, call["tests"])
    from test_cluster import Twice, drive
    enter = drive.Run._enter
    if sys.argv[2] == "matching":
        drive.Run._match = lambda self, work: os._exit(9)
    if sys.argv[2] == "entering":
        # The ledger has the new run by now, and nothing but this process knows the old one.
        drive.Run._enter = lambda self, start: os._exit(9 if self.name not in (None, start.run) else 1)
    print(drive.of_files(Twice(), call["job"], call["data"], call["out"], {}, {"storage": call["storage"], "workers": 2}).run().outcome.matched)
"""


def test_a_driver_that_is_killed_with_a_forgotten_run_leaves_nothing_of_it(place: Path, port: int) -> None:
    """It knew that run from its ledger, and when it was started again the ledger had the next one: the files of the first stayed for ever."""
    made = tables(place, 600)
    both = dict(zip(("alice", "bob"), jobs(port, limits={"max_keys": 1_200}, unit=100)))
    (place / "key").write_bytes(os.urandom(32))
    (place / "key").chmod(0o600)
    both["alice"]["mine"] |= {"resume": str(place / "resume"), "resume_key": str(place / "key"), "patience": "1m"}
    both["bob"]["mine"]["patience"] = "2s"
    call = {"job": both["alice"], "tests": str(Path(__file__).parent)}
    call |= {name: str(place / of) for name, of in (("data", "alice"), ("out", "out"), ("storage", "storage"))}
    (place / "call.json").write_text(json.dumps(call))

    def driver(where: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", DRIVER, place / "call.json", where], stdout=subprocess.PIPE, text=True)

    def met(where: str) -> tuple[int, str, Any]:
        """Both sides' run: how alice's driver ended, what it said, and what came of bob's."""
        with driver(where) as side:
            # He keeps nothing, so each time he has forgotten the run.
            while True:
                thread, done = plain(SimpleNamespace(jobs=both, tables=made), "bob")
                thread.join()
                if side.poll() is not None or not isinstance(done[0], vesica.NetworkError):
                    break
            said, _ = side.communicate(timeout=120)
        return side.returncode, said, done[0]

    assert met("matching")[0] == 9
    (first,) = (path.parent for path in (place / "storage").glob("*/index"))
    (place / f".out.{first.name}").mkdir()
    assert met("entering")[0] == 9
    assert (first / "index").exists() and [one.name for one in (place / "storage").iterdir()] == [first.name]
    code, said, of_bob = met("nowhere")
    assert code == 0 and not isinstance(of_bob, BaseException), of_bob
    out = pa.concat_tables(pq.read_table(part) for part in sorted((place / "out").iterdir())).to_pylist()
    assert out == expected(made, "alice") and int(said) == len({row["id"] for row in out})
    assert not list((place / "storage").iterdir()) and not list((place / "resume").glob("alice.*")) and not list(place.glob(".out.*"))


def test_names_of_runs_that_were_torn_are_no_names(place: Path) -> None:
    begun = drive.Begun({"resume": str(place / "resume"), "name": "alice"})
    assert begun.runs() == []
    begun.add("0" * 64), begun.add("1" * 64), begun.add("0" * 64)
    with open(place / "resume" / "alice.runs", "a") as file:
        file.write("\n" + "2" * 63)
    begun.add("3" * 64)
    assert begun.runs() == ["0" * 64, "1" * 64, "3" * 64]
    begun.clear()
    assert begun.runs() == [] and drive.Begun({}).runs() == []


def test_a_found_unit_that_is_not_whole_is_done_again(place: Path) -> None:
    work = lane_work(place)
    run_lane(FakeLane(lambda unit: b"found %d" % unit), work)
    (place / "run" / "found" / "unit-0").write_bytes(b"")
    (place / "run" / "found" / "unit-2").write_bytes(b"\0" * 23)
    lanes.mend(work.there(), "run")
    assert lanes.finished(work.there(), "run") == [1]
    assert not rows.is_whole(b"") and rows.is_whole(b"".join(rows.ended(b"")))


def test_an_index_of_another_version_is_refused(place: Path) -> None:
    """It was refused when the other side had been met, and the error named a file within the folder that is to be removed."""
    there = storage.opened(str(place))
    there.put("a-run/index", [b'[3, [[0, ["units/0.parquet", 0]]], 7, [0, 7], 9]'])
    met: list[Any] = []
    meeting = SimpleNamespace(run=lambda: "a-run", meet=lambda *said: met.append(said))
    side = object.__new__(drive.Run)
    side.meeting, side.there, side.address, side.name, side.ready = meeting, there, str(place), None, False
    side.begun, side.on, side.source = drive.Begun({}), None, SimpleNamespace(ready=lambda runs: None)
    why = f"{place}/a-run: was left by a run of another version of Vesica, .*remove this.*mine.resume"
    with pytest.raises(vesica.ConfigError, match=why):
        side._meet()
    assert not met
    there.remove("a-run/index")
    there.put("a-run/index", [rows.Units("units", {}, 0, (0, 0), 0).to_json()])
    # How much was begun is not known of a run whose shape is lost.
    side._meet()
    assert met == [([], None)]


def test_the_next_unit_does_not_wait_for_the_file_of_the_last(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side saw from when a unit began how long the file of the unit before it had taken, and so how much had matched."""
    work, began, put = lane_work(place), threading.Event(), storage.Folder.put
    lane = FakeLane(lambda unit: (began.set() if unit == 1 else None, b"found")[1])

    def slow(self: Any, name: str, pieces: Any, durable: bool = True) -> bool:
        if name.endswith("found/unit-0"):
            assert began.wait(60), "unit 1 waits for the file of unit 0"
        assert not lane.said, "the lane was closed before its files were there"
        return put(self, name, pieces, durable)

    monkeypatch.setattr(storage.Folder, "put", slow)
    run_lane(lane, work)
    assert lane.said == ["close"] and lanes.finished(work.there(), "run") == [0, 1, 2]


def test_a_file_that_cannot_be_written_ends_its_lane(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, put = lane_work(place), storage.Folder.put

    def full(self: Any, name: str, pieces: Any, durable: bool = True) -> bool:
        if name.endswith("found/unit-2"):
            raise vesica.ConfigError("the disk is full")
        return put(self, name, pieces, durable)

    monkeypatch.setattr(storage.Folder, "put", full)
    lane = FakeLane(lambda unit: b"found")
    with pytest.raises(vesica.ConfigError, match="the disk is full"):
        run_lane(lane, work)
    assert set(lane.said) == {"cancel"} and lanes.finished(work.there(), "run") == [0, 1]


def test_a_lane_that_outlives_its_attempt_begins_nothing_that_nobody_counts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side kept a lane open over the break of the drivers' link, and had units answered that the next run did not know of."""
    monkeypatch.setattr(lanes, "STRETCH", 2)
    old = lane_work(place)
    there = old.there()
    # Three units: the first two have one stretch of own turns. What is begun again has a number behind theirs.
    turns = [lanes.Turns(old, 0, 3, 1) for _ in range(2)]
    assert [one.take(unit) for unit in (0, 1) for one in turns] == [0, 3, 1, 4]
    assert lanes.begun(there, "run") == 4
    # What it has taken already is counted. It takes no more.
    lane = FakeLane(lambda unit: b"found")
    with pytest.raises(vesica.Stopped, match="this attempt of the run is over"):
        run_lane(lane, old)
    assert set(lane.said) == {"cancel"} and lanes.finished(there, "run") == []
    with pytest.raises(vesica.Stopped):
        turns[0].take(2)
    new = rows.Work(old.kit, old.storage, "run", b"", lanes.attempt(there, "run"))
    run_lane(FakeLane(lambda unit: b"found"), new)
    # Four that were had, two that the lane had no use for any more, one own and two common ones of another lane's, and two stretches more.
    turns = [one.name for one in (place / "run" / "begun").iterdir() if one.name[0] != "c"]
    assert lanes.begun(there, "run") == 3 + 2 * sum(name.startswith("again") for name in turns) and lanes.attempt(there, "run") == 2


def test_turns_are_had_once_whoever_takes_them_when(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each unit had a share of what is allowed, and a unit whose lane broke three times ended a run whose other units had theirs left."""
    monkeypatch.setattr(lanes, "STRETCH", 4)
    work = lane_work(place, 10, 2)
    both = [lanes.Turns(work, number, 10, 2) for number in (0, 1, 0, 0, 1)]
    had: list[int] = []
    lock, go = threading.Lock(), threading.Barrier(len(both))

    def take(turns: lanes.Turns, first: int) -> None:
        go.wait()
        for unit in range(first, 10, 2):
            turn = turns.take(unit)
            assert turn == unit or turn >= 10
            with lock:
                had.append(turn)

    threads = [threading.Thread(target=take, args=(turns, turns._number)) for turns in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(had) == 25 and len(set(had)) == 25 and set(range(10)) <= set(had)
    assert lanes.begun(work.there(), "run") >= 25


def test_lanes_of_another_number_than_the_runs_have_no_own_turns(place: Path) -> None:
    """Their lanes have other units, so a stretch of one and a stretch of the other may have a unit in common."""
    work = lane_work(place, 10, 2)
    assert lanes.Turns(work, 1, 10, 2).take(3) == 3
    assert lanes.Turns(work, 0, 10, 3).take(3) == 10 and lanes.Turns(work, 1, 10, 3).take(4) == 26
    assert lanes.begun(work.there(), "run") == 5 + 2 * 16
    work.there().remove("run/shape")
    assert lanes.begun(work.there(), "run") is None


def test_rows_that_are_not_in_their_place_are_nobody_elses_and_do_not_stay(place: Path, port: int) -> None:
    """After a failed end the joined rows stood beside the output, for every user of the machine."""
    pq.write_table(pa.table({"id": ["a"], "n": [1]}), place / "t.parquet")
    spec, _ = jobs(port)
    source = drive.OfFiles(parquet.files(place / "t.parquet"), spec, place / "out")
    work = rows.Work(Kit("none"), str(place), "a-run")

    def write() -> Path:
        source.write(None, work, [], False)
        beside = source.output.beside("a-run")
        assert beside.stat().st_mode & 0o777 == 0o700 and list(beside.iterdir())
        return beside

    def fails(start: Any) -> Any:
        write()
        raise vesica.PeerError("bob found another result")

    meeting = SimpleNamespace(abort=lambda fault: None, cancel=lambda: None)
    watch = SimpleNamespace(told=lambda: None)
    side = SimpleNamespace(_meet=lambda: None, _rest=fails, meeting=meeting, name="a-run", source=source, on=Twice(), watch=watch)
    with pytest.raises(vesica.PeerError):
        drive.Run._run(side)
    assert not source.output.beside("a-run").exists() and not (place / "out").exists()

    beside, usual = write(), place / "usual"
    usual.mkdir()
    # As a task leaves it that was killed.
    (beside / ".part-000000.parquet.00").write_bytes(b"half a row")
    source.see("a-run")
    source.commit("a-run")
    out = place / "out"
    assert out.stat().st_mode == usual.stat().st_mode and [one.name for one in out.iterdir()] == ["part-000000.parquet"]
    assert source.written() == {"path": str(out), "rows": 0, "bytes": (out / "part-000000.parquet").stat().st_size} and not beside.exists()


def test_the_first_of_a_name_stands_in_a_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_stands(storage.Folder(place / "a" / "folder"))
    assert (place / "a" / "folder").stat().st_mode & 0o777 == 0o700
    assert not [path for path in (place / "a" / "folder").rglob(".*")]

    def link(*args: Any) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(storage.os, "link", link)
    with pytest.raises(vesica.ConfigError, match="cannot put a file in place exclusively .not permitted.; name a folder on NFS"):
        storage.Folder(place / "another").probe()


def test_the_first_of_a_name_stands_in_a_bucket(bucket: str) -> None:
    there = storage.Objects(storage.address(bucket + "/"))
    first_stands(there)
    with pytest.raises(vesica.ConfigError, match="has a user or a password in its address"):
        storage.address("s3://me:secret@bucket/vesica")

    class Forgets(storage.Objects):
        """A store that takes every object."""

        def put(self, name: str, pieces: Any, durable: bool = True) -> bool:
            self._obstore.put(self._store, name, b"".join(pieces))
            return True

    with pytest.raises(vesica.ConfigError, match="a second object of the same name replaced the first"):
        Forgets(bucket).probe()
    with pytest.raises(vesica.ConfigError, match="name a bucket that this machine and every worker can write to"):
        storage.Objects("s3://nothing/vesica").probe()


@pytest.fixture(params=["google", "azure"])
def another(request: pytest.FixtureRequest) -> str:
    """A place in a store of Google's, and in one of Azure's."""
    return request.getfixturevalue(request.param)


def test_the_first_of_a_name_stands_in_another_store(another: str) -> None:
    there = storage.opened(another)
    first_stands(there)
    # What somebody else has removed meanwhile is gone, and no error; the others are removed.
    names = [f"n{i}" for i in range(7)]
    for name in names[::2]:
        there.put(name, [b"x"])
    there.remove_all(names)
    there.remove_all(names)
    assert not list(there.below())
    with io.BytesIO(os.urandom(9 << 20)) as large:
        there.upload("large", large)
    assert there.size("large") == 9 << 20
    there.remove("large")


def test_a_run_has_its_state_and_its_rows_in_another_store(another: str, place: Path, port: int) -> None:
    made, out = tables(place, 1_500), f"{another}/out"
    both = dict(zip(("alice", "bob"), jobs(port, limits={"max_keys": 3_000}, unit=100)))
    thread, done = plain(SimpleNamespace(jobs=both, tables=made), "bob")
    one = drive.of_files(Twice(), both["alice"], str(place / "alice"), out, {}, {"storage": f"{another}/storage", "workers": 2})
    one.run()
    thread.join()
    assert not isinstance(done[0], BaseException), done[0]
    there = storage.opened(out)
    names = [part["name"] for part in json.loads(there.get("_SUCCESS"))["parts"]]
    assert sorted(there.below()) == sorted([*names, "_SUCCESS"]) and not storage.opened(f"{another}/storage").names("")
    assert pa.concat_tables(table for name in names for table in output.tables(out, name)).to_pylist() == expected(made, "alice")


def test_a_table_is_read_from_another_store(another: str, tmp_path: Path) -> None:
    for i, name in enumerate(("b/2.parquet", "b/1.parquet", "other/3.parquet", "b/_temporary/4.parquet", "b/.5.parquet")):
        pq.write_table(pa.table({"n": list(range(10 * i, 10 * i + 10))}), tmp_path / "t.parquet", row_group_size=4)
        with open(tmp_path / "t.parquet", "rb") as file:
            storage.opened(another).upload(name, file)
    storage.opened(another).put("b/_SUCCESS", [b""])
    found = parquet.files(f"{another}/b/")
    assert found.paths == [f"{another}/b/1.parquet", f"{another}/b/2.parquet"] and found.groups == [[4, 4, 2]] * 2
    assert parquet.files([f"{another}/b/2.parquet"]).digests == found.digests[1:]
    with parquet.opened(found.paths[0], found.digests[0]) as file:
        assert file.read_row_group(1)["n"].to_pylist() == [14, 15, 16, 17]
    time.sleep(1.1)  # the store knows whole seconds
    with open(tmp_path / "t.parquet", "rb") as file:
        storage.opened(another).upload("b/1.parquet", file)
    with pytest.raises(vesica.InputError, match="b/1.parquet: changed while"), parquet.opened(found.paths[0], found.digests[0]):
        pass
    with pytest.raises(vesica.InputError, match="nothing: there is no such file or folder"):
        parquet.files(f"{another}/nothing")
    nothing = another.partition("://")[0] + "://nothing"
    with pytest.raises(vesica.ConfigError, match=f"{nothing}: cannot be listed: .*(ContainerNotFound|NoSuchBucket).*; name a bucket or container"):
        parquet.files(nothing)


@pytest.mark.parametrize(
    ("address", "variables", "told"),
    [
        ("az://bucket/p", {}, "nothing to sign in with was found: set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or"),
        ("az://bucket/p", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCOUNT_KEY": "!"}, "Invalid Access Key.*; see that AZURE_STORAGE_ACCOUNT_NAME"),
        ("gs://bucket/p", {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere/key"}, "/nowhere/key.*; see that GOOGLE_APPLICATION_CREDENTIALS, the path of a key"),
        ("abfss://p@a.dfs.core.windows.net/b", {}, "has an account in its address; write az://container/folder"),
    ],
)
def test_what_a_store_is_not_opened_with_is_named(address: str, variables: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    for name in list(os.environ):
        if name.startswith(("AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(vesica.ConfigError, match=told):
        storage.Objects(storage.address(address))


def test_who_may_not_is_told_what_signs_in() -> None:
    asked = "Error performing GET http://169.254.169.254/computeMetadata/v1/token in 3s"
    for scheme, signs in storage.SIGNS.items():
        nothing = f"nothing to sign in with was found: set {signs} in the environment of this process, and of every worker of a cluster, and run again"
        assert storage.helps(f"{scheme}://b", asked) == nothing
        refused = storage.helps(f"{scheme}://b", "Error performing PUT https://b in 3s - Server returned non-2xx status code: 403 Forbidden:")
        assert refused == f"see that {signs} in the environment of this process, or of a cluster's worker, are right and allow that, and run again"
        assert storage.helps(f"{scheme}://b", "Error performing PUT https://b in 3s - 404 Not Found") is None


def test_a_wrong_key_is_named(azure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")
    with pytest.raises(vesica.ConfigError, match=f"storage: {azure}: .*403 Forbidden.*; see that AZURE_STORAGE_ACCOUNT_NAME"):
        storage.Objects(azure).probe()
    with pytest.raises(vesica.ConfigError, match=f"output: {azure}: .*403 Forbidden.*; see that AZURE_STORAGE_ACCOUNT_NAME"):
        output.Objects(azure, "alice")


def test_an_object_that_was_put_again_is_known_by_its_time(bucket: str) -> None:
    host = os.environ["AWS_ENDPOINT"].partition("://")[2]
    name, there = f"{bucket}/t.parquet?endpoint_override={host}&scheme=http&region=us-east-1", storage.opened(bucket)

    def put(*keys: str) -> None:
        with io.BytesIO() as file:
            pq.write_table(pa.table({"id": list(keys)}), file, use_dictionary=False, write_statistics=False, compression="none")
            there.upload("t.parquet", file)

    put("a", "b")
    first, again = parquet.files(name), parquet.files(name)
    assert first.identity == again.identity and first.groups == [[2]]
    with parquet.opened(name, first.digests[0]) as file:
        assert file.read()["id"].to_pylist() == ["a", "b"]
    time.sleep(1.1)  # the store knows whole seconds
    put("c", "d")
    other = parquet.files(name)
    assert other.digests[0][: parquet.HASH] == first.digests[0][: parquet.HASH] and other.identity != first.identity
    with pytest.raises(vesica.InputError, match="its size and its footer stayed"), parquet.opened(name, first.digests[0]):
        pass


def test_a_run_keeps_its_state_in_a_bucket(bucket: str, place: Path, port: int) -> None:
    made = tables(place, 1_500)
    both = dict(zip(("alice", "bob"), jobs(port, limits={"max_keys": 3_000}, unit=100)))
    thread, done = plain(SimpleNamespace(jobs=both, tables=made), "bob")
    one = drive.of_files(Twice(), both["alice"], str(place / "alice"), place / "out", {}, {"storage": bucket, "workers": 2})
    report = one.run()
    thread.join()
    assert not isinstance(done[0], BaseException), done[0]
    out = pa.concat_tables(pq.read_table(part) for part in sorted((place / "out").iterdir())).to_pylist()
    assert out == expected(made, "alice") and report.outcome.matched
    assert not storage.opened(bucket).names("")


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_rows_are_written_below_an_address(name: str, bucket: str, place: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part whole, by whoever of two starts, and what says that all are there at the end."""
    made, out = tables(place, 1_500), "s3://bucket/matched/2026"
    both = dict(zip(("alice", "bob"), jobs(port, learns=["alice", "bob"], limits={"max_keys": 3_000}, unit=100)))
    other = "bob" if name == "alice" else "alice"
    there = storage.opened(out)
    seen: list[tuple[str, set[str]]] = []
    upload, run = storage.Objects.upload, {}
    monkeypatch.setattr(storage.Objects, "upload", lambda self, of, file: (upload(self, of, file), seen.append((of, set(there.below()))))[0])
    thread, done = plain(SimpleNamespace(jobs=both, tables=made), other)
    one = drive.of_files(Twice(), both[name], str(place / name), out + "/", {}, {"storage": place / "storage", "workers": 2})
    commit = one.source.commit
    monkeypatch.setattr(one.source, "commit", lambda of: (run.update(name=of, ends=one.source.output._of(of)), commit(of))[1])
    report = one.run()
    thread.join()
    assert not isinstance(done[0], BaseException), done[0]
    parts = {of for of, _ in seen}
    assert len(seen) == 2 * len(parts) and all("_SUCCESS" not in below for _, below in seen)
    assert parts <= {f"part-{n:06}{run['ends']}.parquet" for n in range(3)}
    assert sorted(there.below()) == sorted([*parts, "_SUCCESS"])
    told = json.loads(there.get("_SUCCESS"))
    read = [pa.concat_tables(output.tables(out, of["name"])) for of in told["parts"]]
    assert [table.num_rows for table in read] == [of["rows"] for of in told["parts"]] and {of["name"] for of in told["parts"]} == parts
    rows_of = pa.concat_tables(read).to_pylist()
    pairs = {row.pop("pair") for row in rows_of}
    assert {row["n"] for row in rows_of} == {row["n"] for row in expected(made, name)} and len(pairs) == report.outcome.matched
    assert report.outcome.output.rows == len(rows_of) and report.outcome.output.bytes == sum(of["bytes"] for of in told["parts"])
    assert not list((place / "storage").iterdir())
    # What is in its place stays there, and nobody writes among it.
    one.source.discard(run["name"])
    assert set(there.below()) == {*parts, "_SUCCESS"}
    again = drive.Placed(out, True, name)
    with pytest.raises(vesica.ConfigError, match="matched/2026/_SUCCESS: is there already; name another prefix"):
        again.ready([run["name"]])


def test_parts_of_a_run_that_has_not_ended_are_this_runs_to_write(bucket: str, tmp_path: Path, port: int) -> None:
    place, path, none = "s3://bucket/out", tmp_path, pa.table({"id": pa.array([], pa.int64())})
    there = storage.opened(place)
    source, runs = drive.Placed(place, True, "alice"), ["a" * 64, "b" * 64]
    assert list(there.below()) == [], "what was tried was removed"
    ends = [source.output._of(run) for run in runs]
    for end in ends:
        there.put(output.BEGUN + end, [b""])
    told = [output.Place(place, end).put(3, functools.partial(pq.write_table, none)) for end in ends]
    assert sorted(there.below()) == sorted([*(f"part-000003{end}.parquet" for end in ends), *(f"_begun{end}" for end in ends)])
    source.ready(runs)
    with pytest.raises(vesica.ConfigError, match=f"out/_begun{ends[1]}: is there already"):
        drive.Placed(place, True, "alice").ready(runs[:1])
    # Nor is the other side's, which calls the run by the same name.
    with pytest.raises(vesica.ConfigError, match="is there already"):
        drive.Placed(place, True, "bob").ready(runs)
    for late in (source.output.begin, source.see, source.commit):
        with pytest.raises(vesica.ConfigError, match="came to be there while the run lasted"):
            late(runs[0])
    source.discard(runs[1])
    assert source.output.begin(runs[0]) == output.Place(place, ends[0])
    source.told = told[:1]
    # As of a driver that was killed, or that begins now and will be refused.
    there.put("_probe-0123456789abcdef", [b""])
    source.ready(runs)
    source.see(runs[0])
    source.commit(runs[0])
    there.remove("_probe-0123456789abcdef")
    assert sorted(there.below()) == ["_SUCCESS", f"part-000003{ends[0]}.parquet"] and source.written()["rows"] == 0
    own = output.Place(place, ends[0])
    # A task that fails puts nothing.
    def fails(file: Any) -> None:
        file.write(b"half a part")
        raise vesica.InputError("t.parquet: changed while it was being read")

    with pytest.raises(vesica.InputError):
        own.put(4, fails)
    assert len(list(there.below())) == 2
    # A part that is sent in several pieces.
    there.put(output.BEGUN + ends[0], [b""])
    large = pa.table({"id": pa.array([os.urandom(17 << 20)])})
    name, count, size = own.put(5, functools.partial(pq.write_table, large))
    assert count == 1 and size == len(there.get(name)) > 17 << 20 and name == f"part-000005{ends[0]}.parquet"
    pq.write_table(pa.table({"id": ["a"]}), path / "t.parquet")
    for out, at in (("s3://bucket/new", "s3://bucket/new/storage"), (str(path / "new"), path / "new" / "storage")):
        with pytest.raises(vesica.ConfigError, match="storage: .*new/storage: is below the output, .*new; name another place"):
            drive.of_files(Twice(), jobs(port)[0], str(path), out, {}, {"storage": at, "workers": 2})
    with pytest.raises(vesica.ConfigError, match="output: has a user or a password in its address"):
        drive.Placed("s3://me:secret@bucket/out", True, "alice")
    with pytest.raises(vesica.ConfigError, match="name a bucket in which this machine and every worker can put and delete"):
        drive.Placed("s3://nothing/out", True, "alice")
    with pytest.raises(vesica.ConfigError, match="output: s3://nothing/out/_begun-a: is not there: .* or this worker has another store of that name; name a place"):
        output.Place("s3://nothing/out", "-a").put(4, functools.partial(pq.write_table, none))
    lost = OSError("Error performing PUT https://a.example/b/c?sv=2026&sig=S%3D in 3s - 403: <Code>No</Code>\n\nDebug source:\nuri: https://a.example/b/c?sig=S")
    assert storage.why(lost) == "Error performing PUT https://a.example/b/c in 3s - 403: <Code>No</Code>"
    for body, left in (
        ('<?xml version="1.0"?><Error xmlns="a"><Code>No</Code><Token xmlns="b">SECRET</Token></Error>', "<Code>No</Code>"),
        ("<Error><Message>not now</Message><s3:Token>SECRET</s3:Token></Error>", "<Message>not now</Message>"),
        ("<Code>No</Code><Token>SECRET<b>x</b></Token>", "<Code>No</Code>"),
        ("<Code>No</Code><Token><![CDATA[SECRET]]></Token>", "<Code>No</Code>"),
        ("<Token>SEC<!-- c -->RET</Token><Code>No</Code>", "<Code>No</Code>"),
        ("<Error Token='SECRET'><Code>No</Code></Error>", "<Code>No</Code>"),
        ('<Code>No</Code><Token a="SECRET', "<Code>No</Code>"),
        ("<Code>No</Code><CanonicalRequest>GET x-amz-security-token:SECR", "<Code>No</Code>"),
        ("<Code>No</Code><Token>SECRET</Tok", "<Code>No</Code>"),
        ("<Code>No</Code><Token>SECRET<", "<Code>No</Code>"),
        ("a plain answer: 1 < 2", "a plain answer: 1 < 2"),
    ):
        assert storage.why(OSError(f"403: {body}")) == f"403: {left}"
    with pytest.raises(FileNotFoundError, match="s3://bucket/out/nothing: is not there$"):
        there.get("nothing")
    for given, what in (("memory:///x", "output"), (f"file://{path}/x", "output"), ("memory:///x", "storage")):
        with pytest.raises(vesica.ConfigError, match=f"{what}: {given}: is no object store that several machines see; name a folder"):
            storage.address(given, what)


def test_a_task_that_outlives_its_run_leaves_no_part(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver gives up waiting for a task, and removes what was put. Then the task puts its part."""
    place, run = "s3://bucket/out", "a" * 64
    there, some = storage.opened(place), functools.partial(pq.write_table, pa.table({"n": [1]}))
    source, upload = drive.Placed(place, True, "alice"), storage.Objects.upload
    own = source.output.begin(run)

    def put_while(driver: Callable[[str], None]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(storage.Objects, "upload", lambda self, name, file: (driver(run), upload(self, name, file)))
            with pytest.raises(vesica.ConfigError, match=f"output: s3://bucket/out/_begun{own.of}: is not there: this run is over"):
                own.put(0, some)

    own.put(1, some)
    put_while(source.discard)
    assert list(there.below()) == []
    put_while(source.discard)
    assert list(there.below()) == []

    def discarded_and_another_ends(run: str) -> None:
        source.discard(run)
        there.put(output.SUCCESS, [json.dumps({"run": "b", "parts": [{"name": "part-000000-b.parquet"}]}).encode()])

    own = source.output.begin(run)
    put_while(discarded_and_another_ends)
    assert list(there.below()) == [output.SUCCESS]
    there.remove_all([output.SUCCESS])
    # What was put and told of is put once more by another start of the task: it stays where it is.
    own = source.output.begin(run)
    source.told = [own.put(0, some)]
    source.see(run)
    put_while(source.commit)
    assert sorted(there.below()) == ["_SUCCESS", f"part-000000{own.of}.parquet"]


def test_what_a_store_refuses_is_told_with_the_object_and_a_remedy(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there, end = storage.opened(bucket), "-a"
    there.put(output.BEGUN + end, [b""])

    def fails(*args: Any, **more: Any) -> Any:
        raise OSError("Error performing PUT https://a.example/b?sig=S in 3s - 403: <Code>No</Code>\n\nDebug source:\nuri: https://a.example/b?sig=S")

    head, why = there._obstore.head, "Error performing PUT https://a.example/b in 3s - 403: <Code>No</Code>"
    broken = SimpleNamespace(head=head, put=fails, get=fails, get_range=fails, list=fails, delete=fails)
    monkeypatch.setattr(there, "_obstore", broken)
    remedy = "; see that this machine reaches the store and may do that there, and run again"
    for ask, done in (
        (lambda: there.put("run/shape", [b""]), "run/shape: cannot be put"),
        (lambda: there.get("run/index"), "run/index: cannot be read"),
        (lambda: there.read("run/index", 3, 4), "run/index: cannot be read"),
        (lambda: there.names("run/found"), "run/found: cannot be listed"),
        (lambda: there.remove_all(["run/a", "run/b"]), "run/a: cannot be removed"),
    ):
        with pytest.raises(vesica.ConfigError) as told:
            ask()
        assert str(told.value) == f"{bucket}/{done}: {why}{remedy}" and pickle.loads(pickle.dumps(told.value)).said == why
    with pytest.raises(vesica.ConfigError) as told:
        list(there.below())
    assert str(told.value) == f"{bucket}: cannot be listed: {why}{remedy}"
    with pytest.raises(vesica.ConfigError) as told:
        output.Place(bucket, end).put(4, functools.partial(pq.write_table, pa.table({"n": [1]})))
    assert str(told.value) == f"output: {bucket}/part-000004-a.parquet: cannot be put: {why}; see that this worker can put there, and run again"
    with pytest.raises(vesica.ConfigError, match="nowhere: cannot be opened"):
        storage.Objects("nowhere")


def test_no_part_is_missed_unseen(bucket: str, tmp_path: Path) -> None:
    """A worker may have another store or another disk of the same name: the driver listed what was there, and said that it was all."""
    some = functools.partial(pq.write_table, pa.table({"n": [1, 2]}))
    for given in ("s3://bucket/out", str(tmp_path / "out")):
        source = drive.Placed(given, True, "alice")
        own = source.output.begin("a" * 64)
        source.told = [own.put(0, some), own.put(1, some)]
        third = output.Place(own.where, own.of).put(2, some)
        with pytest.raises(vesica.ConfigError, match="part-000002.*: was put by no task that was counted; remove it"):
            source.see("a" * 64)
        source.told.append(third)
        own.put(2, functools.partial(pq.write_table, pa.table({"n": [1]})))
        with pytest.raises(vesica.ConfigError, match="part-000002.*: has 1 rows, and a worker put 2 rows there"):
            source.see("a" * 64)

        def remove(part: output.Part) -> None:
            if "://" in given:
                source.output.there.remove_all([part[0]])
            else:
                (Path(own.where) / part[0]).unlink()

        remove(third)
        missing = "part-000002.*: is not there, and a worker put 2 rows there; name a place that is the same"
        with pytest.raises(vesica.ConfigError, match=missing):
            source.see("a" * 64)
        own.put(2, some)
        source.see("a" * 64)
        # What comes or goes behind that is seen at the end.
        remove(third)
        with pytest.raises(vesica.ConfigError, match=missing):
            source.commit("a" * 64)
        own.put(2, some)
        more = own.put(3, some)
        with pytest.raises(vesica.ConfigError, match="part-000003.*: was put by no task that was counted; remove it"):
            source.commit("a" * 64)
        remove(more)
        assert source.written()["rows"] == 0
        source.commit("a" * 64)
        assert source.written()["rows"] == 6


def test_what_says_that_all_parts_are_there_never_stands_without_them(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, run = "s3://bucket/out", "a" * 64
    there, some = storage.opened(place), functools.partial(pq.write_table, pa.table({"n": [1]}))

    def written() -> drive.Placed:
        source = drive.Placed(place, True, "alice")
        source.told = [source.output.begin(run).put(0, some)]
        source.see(run)
        return source

    put = storage.Objects.put
    with monkeypatch.context() as patch:
        # The store has it, and its answer is lost.
        def lost(self: Any, name: str, pieces: Any, durable: bool = True) -> bool:
            put(self, name, pieces)
            if name == "_SUCCESS":
                raise OSError("connection reset")
            return True

        patch.setattr(storage.Objects, "put", lost)
        source = written()
        with pytest.raises(OSError):
            source.commit(run)
        assert "_SUCCESS" in there.below()
        source.discard(run)
        assert list(there.below()) == []
        # The client sends it again, and is told that it is there.
        patch.setattr(storage.Objects, "put", lambda self, name, pieces, durable=True: put(self, name, pieces) and (name != "_SUCCESS" or put(self, name, pieces)))
        source = written()
        source.commit(run)
        assert source.written()["rows"] == 1 and len(list(there.below())) == 2
    # Another run's is no sign of this one's, and stays.
    other = drive.Placed(place, True, "alice")
    other.discard("b" * 64)
    assert len(list(there.below())) == 2
    for kept in (b"", b"[]", b'{"parts": []}', b'{"parts": [{"name": 5}]}'):
        there.remove_all(["_SUCCESS"])
        there.put("_SUCCESS", [kept])
        other.discard("b" * 64)
        assert "_SUCCESS" in there.below()


def first_stands(there: storage.Storage) -> None:
    there.probe()
    assert there.put("run/found/unit-7", [b"the ", b"first"]) and not there.put("run/found/unit-7", [b"another"])
    assert there.get("run/found/unit-7") == b"the first"
    assert there.read("run/found/unit-7", 4, 3) == b"fir" and there.read("run/found/unit-7", 6, 99) == b"rst"
    assert there.put("run/found/unit-10", [b""], durable=False)
    there.sync(["run/found/unit-10"])
    assert there.names("run/found") == ["unit-10", "unit-7"] and there.names("run/begun") == []
    assert there.has("run/found/unit-10") and not there.has("run/found/unit-1") and not there.has("run/found/unit-11")
    there.remove("run/found/unit-7")
    assert there.names("run/found") == ["unit-10"] and there.read("run/found/unit-10", 0, 3) == there.read("run/found/unit-10", 3, 3) == b""
    with pytest.raises(FileNotFoundError):
        there.read("run/found/unit-7", 0, 3)
    there.put("run/index", [b""])
    there.remove("run", but="found")
    assert there.names("run/found") == ["unit-10"] and not there.has("run/index")
    there.remove("run")
    assert there.names("run/found") == []


def test_no_worker_imports_pandas(place: Path) -> None:
    """It takes a worker a second, and there are many."""
    code = """if True:
        import sys, numpy, pyarrow as pa, pyarrow.parquet as pq
        from pathlib import Path
        from vesica._cluster import lanes, parquet, rows
        numbers = rows.of_numbers(numpy.arange(9, dtype=numpy.uint64))
        pq.write_table(pa.Table.from_arrays([numbers], ["n"]), "t.parquet", row_group_size=4)
        found = rows.imported(pa.Table.from_arrays([numbers] * 3, ["row", "pair", "times"]))
        of = [rows.numbers_of(column) for column in found.columns]
        rows.take_rows("t.parquet", [4, 4, 1], parquet.files("t.parquet").digests[0], of, None, Path("out.parquet"))
        cut = rows.CutIds("n", ["pair", "k"], 2, 1, (3, 4))(found.rename_columns(["n", "pair", "k"]).set_column(2, "k", found["times"].cast(pa.string())))[1]
        rows.Repeats()(0, rows.pieces(rows.of_pieces(cut)))
        rows.numbers_of(found.take(rows.of_numbers(numpy.array([2, 1])))["row"])
        assert not {"pandas", "pyarrow.dataset"} & set(sys.modules), sorted(sys.modules)"""
    subprocess.run([sys.executable, "-c", code], cwd=place, check=True)


@dataclass(frozen=True)
class Asks(keeper.Kit):
    """A kit that is told its token."""

    told: bytes

    def token(self) -> bytes:
        return self.told


class Gone(keeper.Kit):
    """A kit of a run that is over."""

    def token(self) -> None:
        return None


@contextlib.contextmanager
def keeping(start: Any) -> Iterator[tuple[keeper.Keeper, Asks]]:
    """A keeper of this start, and how it is asked."""
    with contextlib.closing(keeper.Keeper(start, "127.0.0.1")) as made:
        yield made, Asks("127.0.0.1", made.port, made.name, made.token)


def heard_of(kit: keeper.Kit, answer: bytes = b"") -> list[bytes]:
    """What a worker sends to whoever listens where its driver was, and is given this answer."""
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listens:

        def listen() -> None:
            for _ in range(keeper.TRIES):
                link, _ = listens.accept()
                with link:
                    sent.append(link.recv(1 << 16))
                    link.sendall(answer)

        thread = threading.Thread(target=listen)
        thread.start()
        sent.append(vesica._core.Recipient().public)
        with pytest.raises(vesica.ConfigError, match="the driver does not answer at 127.0.0.1"):
            Asks("127.0.0.1", listens.getsockname()[1], kit.name, kit.token()).ask(sent[0])
        thread.join()
    # A worker that asks again says the same.
    return list(dict.fromkeys(sent))


def test_who_asks_the_driver_without_its_token_is_told_nothing(port: int) -> None:
    start = start_of(port, limits={"max_keys": 100})
    with keeping(start) as (held, kit):
        assert engine.start(kit).run == start.run
        assert bytes_of(engine.start(kit).secret) == bytes_of(start.secret)
        with pytest.raises(vesica.ConfigError, match="the driver does not answer at 127.0.0.1"):
            Asks(kit.host, kit.port, kit.name, bytes(16)).ask(vesica._core.Recipient().public)

        def answers(asked: bytes) -> bytes:
            heard = []
            with socket.create_connection((kit.host, kit.port)) as link:
                link.sendall(asked)
                while piece := link.recv(1 << 16):
                    heard.append(piece)
            return b"".join(heard)

        # What a worker sends, to whoever listens: the token is not in it, and with another key it is worth nothing.
        public, sent = heard_of(kit)
        assert sent[1:33] == public and len(sent) == 65 and held.token not in sent
        other = vesica._core.Recipient().public
        assert answers(b"s" + other + sent[33:]) == answers(b"o" + sent[1:]) == answers(held.token + public + bytes(17)) == b""
        answer = answers(sent)
        assert bytes_of(start.secret) not in answer and start.to_bytes()[:16] in answer
        # And who opens it has to be who asked.
        length = 4 + 4 + len(start.to_bytes())
        with pytest.raises(vesica.ConfigError, match="the secret of the run cannot be opened"):
            vesica._core.Recipient().open(kit.name, answer[length:-32])
        # An answer to another question is not this one's: it would be another secret. Nor is one that was cut, or says that it is long.
        for told in (answer, answer[:-1], answer[:-1] + bytes([answer[-1] ^ 1]), b"\xff" * 64, bytes(64)):
            heard_of(kit, told)
    with pytest.raises(vesica.ConfigError, match="let every machine of the cluster reach that address"):
        kit.ask(vesica._core.Recipient().public)


def test_who_holds_the_drivers_port_keeps_no_worker_from_it(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte in each half minute kept a seat, and an error of one connection ended the listening for all."""
    monkeypatch.setattr(keeper, "ASKS", 0.5)
    monkeypatch.setattr(keeper, "AT_ONCE", 1)
    accept, fails = socket.socket.accept, [OSError(24, "too many open files")]
    monkeypatch.setattr(keeper.socket.socket, "accept", lambda self: accept(self) if not fails else (_ for _ in ()).throw(fails.pop()))
    start, over = start_of(port, limits={"max_keys": 100}), threading.Event()
    with keeping(start) as (held, kit), socket.create_connection((kit.host, kit.port)) as link:

        def drips() -> None:
            with contextlib.suppress(OSError):
                while not over.wait(0.1):
                    link.sendall(b".")

        thread = threading.Thread(target=drips)
        thread.start()
        assert engine.start(kit).run == start.run and not fails
        over.set()
        thread.join()


def test_who_is_no_driver_and_says_little_keeps_no_task(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte gave it half a minute more, and an answer may have sixteen million."""
    monkeypatch.setattr(keeper, "PATIENCE", 0.5)
    monkeypatch.setattr(keeper, "TRIES", 1)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listens:

        def drips() -> None:
            with listens.accept()[0] as link, contextlib.suppress(OSError):
                link.sendall((1 << 20).to_bytes(4, "little"))
                while not over.wait(0.05):
                    link.sendall(b".")

        thread = threading.Thread(target=drips)
        thread.start()
        began = time.monotonic()
        with pytest.raises(vesica.ConfigError, match="the driver does not answer at 127.0.0.1:[0-9]+, .*: timed out; let every machine"):
            Asks("127.0.0.1", listens.getsockname()[1], "a-run", bytes(16)).ask(bytes(32))
        assert time.monotonic() - began < 20
        over.set()
        thread.join()


def test_a_driver_without_threads_answers_when_it_has_some_again(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that listens ended, and with it the run: nobody was answered any more."""
    starts, fails = threading.Thread.start, [1, 1]

    def started(thread: threading.Thread) -> None:
        if fails and getattr(thread, "_target", None) == held._answer:
            fails.pop()
            raise RuntimeError("can't start new thread")
        starts(thread)

    start = start_of(port, limits={"max_keys": 100})
    with keeping(start) as (held, kit):
        monkeypatch.setattr(keeper.Thread, "start", started)
        assert engine.start(kit).run == start.run and not fails


def test_a_question_that_comes_when_the_run_is_over_has_no_answer(port: int) -> None:
    """A worker on a node that is not let in may have begun to ask before."""
    start = start_of(port, limits={"max_keys": 100})
    with keeping(start) as (held, kit):
        public, sent = heard_of(kit)
        with socket.create_connection((kit.host, kit.port)) as link:
            link.sendall(sent[:40])
            end = time.monotonic() + 30
            while held._seats._value > keeper.AT_ONCE - 2:
                # One seat is of who listens, and one of this connection.
                assert time.monotonic() < end
                time.sleep(0.01)
            held.close()
            with contextlib.suppress(OSError):
                link.sendall(sent[40:])
                assert link.recv(1 << 16) == b""


def test_doors_that_wait_keep_no_worker_from_the_driver(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "AT_ONCE", 1)
    monkeypatch.setattr(keeper, "DOORS", 2)
    start = start_of(port, limits={"max_keys": 100})
    with keeping(start) as (held, kit), ThreadPoolExecutor(4) as pool:
        doors = [pool.submit(kit.over, 0, None) for _ in range(2)]
        end = time.monotonic() + 30
        while held._doors._value:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert engine.start(kit).run == start.run
        # One more than there may be is told nothing, and asks again.
        assert kit.over(0, None) is None and not any(one.done() for one in doors)
        held.end(0, False)
        assert [one.result(30) for one in doors] == [False, False] and kit.over(0, None) is False
        last = pool.submit(kit.over, 0, False)
        time.sleep(0.2)
        held.end(0, True)
        assert last.result(30) is True
        held.end(0, False)
        assert kit.over(0, None) is True
        waits = pool.submit(kit.over, 1, None)
        time.sleep(0.2)
        held.close()
        # A wall that is set up anew refuses, too: only that there is no token any more says that there is no run.
        assert waits.result(30) is None and kit.over(1, None) is None
        assert Gone(kit.host, kit.port, kit.name).over(1, None) is True


def test_what_a_door_was_told_once_is_told_to_no_other_question(port: int) -> None:
    """Who stood between could keep doors open by what these had heard before: two questions of one door were the same."""
    start = start_of(port, limits={"max_keys": 100})
    with keeping(start) as (held, kit), socket.create_server(("127.0.0.1", 0)) as listens:
        heard: list[bytes] = []

        def between() -> None:
            for _ in range(2):
                with listens.accept()[0] as link:
                    asked = link.recv(1 << 16)
                    with socket.create_connection((kit.host, kit.port)) as on:
                        on.sendall(asked)
                        pieces = []
                        while piece := on.recv(1 << 16):
                            pieces.append(piece)
                    heard.append(b"".join(pieces))
                    link.sendall(heard[0])

        thread = threading.Thread(target=between)
        thread.start()
        door = Asks("127.0.0.1", listens.getsockname()[1], kit.name, kit.token())
        held.end(0, False)
        assert door.over(0, None) is False
        held.end(0, True)
        assert door.over(0, None) is None and kit.over(0, None) is True
        thread.join()
        assert [len(one) for one in heard] == [37, 37] and heard[0] != heard[1]


def test_who_has_heard_doors_ask_has_none_of_their_places(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a door had asked had a place each time that it came again, and a thread and a file of the driver's, for as long as a door waits."""
    monkeypatch.setattr(keeper, "DOORS", 1)
    start = start_of(port, limits={"max_keys": 100})
    with keeping(start) as (held, kit):
        asked = keeper.OVER + keeper.struct.pack("<qB", 0, keeper.NOTHING) + os.urandom(23)
        asked += keeper._mac(held.token, b"asks", asked)

        def answer(link: socket.socket) -> bytes:
            return b"".join(iter(lambda: link.recv(1 << 16), b""))

        with socket.create_connection((kit.host, kit.port), timeout=30) as door:
            door.sendall(asked)
            end = time.monotonic() + 30
            while held._doors._value:
                assert time.monotonic() < end
                time.sleep(0.01)
            held.end(0, False)
            assert len(answer(door)) == 37
        for _ in range(3):
            with socket.create_connection((kit.host, kit.port), timeout=30) as link:
                link.sendall(asked)
                assert answer(link) == b""
        assert held._doors._value == 1 and kit.over(0, None) is False


def test_a_driver_listens_at_a_port_that_is_named(port: int) -> None:
    for wrong in (0, -1, 1 << 16, True, "7000", 7.5, [], [7000, "7001"], range(65530, 65540), range(9, 9), {7000}):
        with pytest.raises(vesica.ConfigError, match="keeper_port: is .*; write a port from 1 to 65535, or several such as"):
            keeper.ports(wrong)
    assert keeper.ports(None) is keeper.ANY and list(keeper.ports(port)) == [port]
    both = keeper.ports([port, port + 1])
    with socket.create_server(("127.0.0.1", port)):
        with keeper.listening("127.0.0.1", both) as listens:
            assert listens.getsockname() == ("127.0.0.1", port + 1)
            # Where all are taken it listens nowhere else: another program would be asked.
            with pytest.raises(vesica.ConfigError, match="listen at 127.0.0.1, .*; name a port in keeper_port that no other program has, and run again"):
                keeper.listening("127.0.0.1", both)
    # An address of no machine's.
    with keeper.listening("203.0.113.1", [port]) as listens:
        assert listens.getsockname() == ("0.0.0.0", port)
    start = start_of(port + 2, limits={"max_keys": 100})
    # A run that begins anew, as where the other side has forgotten it, has the same port.
    for _ in range(2):
        with contextlib.closing(keeper.Keeper(start, "127.0.0.1", [port])) as held:
            assert held.port == port and engine.start(Asks("127.0.0.1", port, held.name, held.token)).run == start.run


def test_who_joined_while_the_other_side_was_awaited_is_told_nothing(place: Path, port: int) -> None:
    """Who may be told was looked at behind the telling: a node that had joined could ask until then."""
    spec, start = jobs(port, limits={"max_keys": 100})[0], start_of(port, limits={"max_keys": 100})
    pq.write_table(pa.table({"id": ["a"]}), place / "t.parquet")
    source = drive.OfFiles(parquet.files(place / "t.parquet"), spec, place / "out")
    side, held = drive.Run({**spec, "mine": {**spec["mine"]}}, source, Twice(), storage=place / "storage", workers=1), []
    side.on.hold = held.append

    def refuse() -> None:
        raise vesica.ConfigError("the 2 nodes talk without TLS")

    side.watch = SimpleNamespace(look=refuse, told=lambda: None)
    with pytest.raises(vesica.ConfigError, match="the 2 nodes"):
        side._enter(start)
    assert not held
    # One that was seen behind that look had the keeper closed before there was one, and it stayed.
    side.name, side.watch = None, SimpleNamespace(look=lambda: None, told=refuse)
    with pytest.raises(vesica.ConfigError, match="the 2 nodes"):
        side._enter(start)
    assert held == [start] and side.work is None
