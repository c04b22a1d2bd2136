"""Spark in its mode local-cluster, with executors that are processes of their own, against a plain run."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'vesica[spark]'")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import vesica  # noqa: E402
from conftest import Side, bytes_of, descends, jobs, plain, start_of  # noqa: E402

java = pytest.mark.skipif(
    shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java: apt-get install openjdk-17-jre-headless"
)


def sides(place: Path, port: int, count: int, **shared: Any) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Jobs of both, of whom alice listens, and a table of each, that of bob in Parquet files."""
    shared = {"learns": ["alice", "bob"], "limits": {"max_keys": 2 * count}, **shared}
    both = dict(zip(("alice", "bob"), jobs(port, **shared)))
    made, shuffled = {}, random.Random(7)
    for name, first in (("alice", 0), ("bob", count // 2)):
        both[name]["mine"]["patience"] = "5m"
        numbers = list(range(first, first + count))
        shuffled.shuffle(numbers)
        # Some rows have no key, and some keys stand in two rows of bob's.
        keys = [None if n % 97 == 0 else f"{n // 2 * 2 if name == 'bob' and n % 50 == 1 else n:08}" for n in numbers]
        made[name] = pa.table({"id": keys, "n": numbers})
    folder = place / "bob"
    folder.mkdir()
    each = -(-count // 4)
    for i in range(4):
        pq.write_table(made["bob"].slice(i * each, each), folder / f"{i}.parquet", row_group_size=max(1, each // 3))
    return both, made


def expected(made: dict[str, pa.Table]) -> list[dict[str, Any]]:
    there = set(made["alice"]["id"].drop_null().to_pylist())
    return [row for row in made["bob"].to_pylist() if row["id"] in there]


class Cluster:
    """Bob's cluster."""

    def __init__(self, place: Path, variables: dict[str, str], memory: int = 1024) -> None:
        self._place, self._variables, self._memory = place, variables, memory
        self._side: Side | None = None

    def side(self) -> Side:
        """It begins when it is first asked for, and again after a call that nobody waits for."""
        if self._side is None or self._side.busy or self._side.process.poll() is not None:
            self.close()
            self._side = Side("spark_side.py", self._place, "spark", {"memory": self._memory}, self._variables)
        return self._side

    def start(self, place: Path, job: dict[str, Any], **more: Any) -> Side:
        """Bob's side of a run."""
        side, call = self.side(), {"job": job, "data": str(place / "bob"), "storage": str(place / "storage"), "output": str(place / "out")}
        side.call(do="match" if "ids" in more else "run", **{**call, **more})
        return side

    def close(self) -> None:
        if self._side is not None:
            self._side.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, objects: dict[str, str]) -> Iterator[Cluster]:
    """The one that the tests of this file have together, for to begin it takes longer than most of them."""
    with contextlib.closing(Cluster(tmp_path_factory.mktemp("spark"), objects)) as made:
        yield made


def out(place: Path, folder: str = "out") -> list[dict[str, Any]]:
    return pa.concat_tables(pq.read_table(part) for part in sorted((place / folder).glob("*.parquet"))).to_pylist()


@java
@pytest.mark.parametrize("kills", [False, True])
def test_spark_meets_a_plain_run(tmp_path: Path, port: int, cluster: Cluster, kills: bool) -> None:
    both, made = sides(tmp_path, port, 5_000, unit=64)
    thread, done = plain(SimpleNamespace(jobs=both, tables=made), "alice")
    side = cluster.start(tmp_path, both["bob"], keeper_port=[port + 30, port + 31])
    killed = 0
    if kills:
        # An executor that has lanes under way: Spark starts another, and the lanes again.
        found = tmp_path / "storage"
        end = time.monotonic() + 300
        while sum(1 for _ in found.glob("*/found/unit-*")) < 4:
            assert time.monotonic() < end and not side.has_answered, side.said()[-6000:]
            time.sleep(0.01)
        killed = kill_an_executor(side.process.pid)
    bob = side.answer()
    thread.join()
    assert not isinstance(done[0], BaseException), done[0]
    rows, wanted = out(tmp_path), expected(made)
    pairs = {row.pop("pair") for row in rows}
    assert {row["n"] for row in rows} == {row["n"] for row in wanted} and len(pairs) == bob["matched"]
    assert sorted(row["id"] for row in rows) == sorted(done[0].table.to_arrow()["id"].to_pylist())
    assert bob["rows"] == len(rows) and killed == kills
    # Lanes were under way on it, and Spark started them again.
    assert not kills or "Lost task" in side.said()
    assert not list((tmp_path / "storage").iterdir())


def kill_an_executor(driver: int) -> int:
    """Kills one executor of the driver's cluster; says how many that were."""
    for one in Path("/proc").glob("[0-9]*"):
        try:
            line = (one / "cmdline").read_bytes()
            if b"CoarseGrainedExecutorBackend" in line and b"local-cluster" not in line and descends(int(one.name), driver):
                os.kill(int(one.name), signal.SIGKILL)
                return 1
        except (OSError, ProcessLookupError):
            continue
    return 0


@java
def test_a_frame_is_matched_by_its_ids(tmp_path: Path, port: int, cluster: Cluster) -> None:
    both, made = sides(tmp_path, port, 3_000, learns=["bob"])
    for part in (tmp_path / "bob").glob("*.parquet"):
        table = pq.read_table(part)
        # Ids below zero.
        pq.write_table(table.set_column(1, "n", pa.array([-n for n in table["n"].to_pylist()])), part)
    thread, done = plain(SimpleNamespace(jobs=both, tables=made), "alice")
    # A folder as tables have it, and a name that is no pattern of Spark's and no URL.
    folder = "day=2026-11-27/100% [a] {b,c}?*\\d"
    bob = cluster.start(tmp_path, both["bob"], ids="n", output=str(tmp_path / folder)).answer()
    thread.join()
    assert not isinstance(done[0], BaseException), done[0]
    assert sorted(row["n"] for row in out(tmp_path, folder)) == sorted(-row["n"] for row in expected(made))
    assert bob["rows"] == len(expected(made))


@java
@pytest.mark.parametrize("ids", [{}, {"ids": "n"}])
def test_rows_are_written_to_a_bucket_and_read_from_there(
    tmp_path: Path, port: int, bucket: str, cluster: Cluster, ids: dict[str, str]
) -> None:
    """Spark itself has no client of the store."""
    from vesica._cluster import output, storage

    both, made = sides(tmp_path, port, 1_000)
    thread, done = plain(SimpleNamespace(jobs=both, tables=made), "alice")
    bob = cluster.start(tmp_path, both["bob"], output=f"{bucket}/out", **ids).answer()
    thread.join()
    assert not isinstance(done[0], BaseException), done[0]
    names = sorted(storage.opened(f"{bucket}/out").below())
    assert names[0] == "_SUCCESS" and len(names) > 1
    rows = pa.concat_tables(table for name in names[1:] for table in output.tables(f"{bucket}/out", name)).to_pylist()
    assert {row["n"] for row in rows} == {row["n"] for row in expected(made)}
    assert bob["rows"] == len(rows) and len({row["pair"] for row in rows}) == bob["matched"]
    assert bob["sum"] == sum(row["n"] for row in rows)


def test_columns_that_come_from_a_bucket_have_types_of_sparks() -> None:
    """As Spark has them that it reads from Parquet itself: a time without a zone has none. What it has no type for was found out behind the run."""
    from vesica.spark import _run

    plain = {pa.timestamp("ns"): "timestamp_ntz", pa.timestamp("us", "UTC"): "timestamp", pa.uint64(): "decimal(20,0)", pa.date64(): "date"}
    plain |= {pa.binary(4): "binary", pa.duration("ns"): "interval day to second", pa.dictionary(pa.int32(), pa.large_string()): "string"}
    schema = pa.schema([(f"c{at}", kind) for at, kind in enumerate(plain)])
    arrow, types = _run._types(schema)
    assert [field.dataType.simpleString() for field in types] == list(plain.values())
    values = pa.Table.from_arrays([pa.nulls(2, kind) for kind in plain], schema=schema)
    assert values.cast(arrow).schema == arrow
    with pytest.raises(vesica.ConfigError, match="output: column 'h': holds halffloat, for which Spark has no type; name other columns in mine.output"):
        _run._types(pa.schema([("id", pa.string()), ("h", pa.float16())]))


@java
def test_what_a_worker_refuses_is_told_once_and_as_itself(tmp_path: Path, port: int, cluster: Cluster) -> None:
    """Spark starts a task that raises three times more, and wraps what it raised."""
    both, made = sides(tmp_path, port, 1_000)
    side = cluster.start(tmp_path, both["bob"], ids="n", repeat=True)
    error = side.answer(300, fails=True)["error"]
    assert "InputError: column 'n': 500 stands in several rows, and 2 more rows repeat the number of another" in error
    assert "refused: column 'n': the DataFrame is computed by a function that does not give the same twice" in side.said()
    assert "Lost task" not in side.said()


@java
def test_an_executor_that_is_lost_in_the_shuffle_ends_no_run(tmp_path: Path, cluster: Cluster) -> None:
    """Spark 4.1 and later took the pieces of a second start for other rows, because their seals were other bytes, and ended the job."""
    side = cluster.side()
    side.call(do="exchange", folder=str(tmp_path))
    told = side.answer()
    wanted = [[n for n in range(800) if n % 8 == part] for part in range(8)]
    for name in ("list", "frame"):
        assert told[name]["rows"] == 800 and told[name]["joined"] == wanted and told[name]["killed"], name


def dialling(monkeypatch: pytest.MonkeyPatch, lane: Callable[[int], str]) -> tuple[Any, threading.Event]:
    """An engine whose jobs are calls of `lane`, and what says that they were cancelled."""
    from vesica.spark import _engine

    on, cancelled = object.__new__(_engine.Engine), threading.Event()
    on.context = SimpleNamespace(setJobGroup=lambda *of, **how: None, cancelJobGroup=lambda group: cancelled.set())
    monkeypatch.setattr(on, "each", lambda items, do: [lane(item) for item in items], raising=False)
    monkeypatch.setattr(_engine, "InheritableThread", threading.Thread)
    return on, cancelled


def test_no_more_lanes_are_dialled_than_the_other_side_has_seats_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """All were dialled at once, and knocked at its door until a seat was free."""
    under_way, most, lock, both = [0], [0], threading.Lock(), threading.Barrier(2)

    def lane(number: int) -> str:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        both.wait(60)
        with lock:
            under_way[0] -= 1
        return str(number)

    on, cancelled = dialling(monkeypatch, lane)
    assert sorted(on.dial(None, 8, 2, lambda: None)) == [str(n) for n in range(8)]
    assert most == [2] and not cancelled.is_set()


def test_what_the_other_side_did_wrong_in_a_lane_ends_the_lanes_that_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told when all lanes had ended, and so when the other side liked."""
    ended: list[bool] = []

    def lane(number: int) -> str:
        if number == 1:
            raise vesica.PeerError("alice broke the protocol")
        if number == 2:
            raise vesica.NetworkError("the link broke")
        ended.append(cancelled.wait(60))
        raise RuntimeError("the job was cancelled")

    on, cancelled = dialling(monkeypatch, lane)
    with pytest.raises(vesica.PeerError, match="alice broke the protocol"):
        on.dial(None, 3, 3, lambda: None)
    assert ended == [True]


def test_the_token_comes_with_the_task(port: int) -> None:
    from vesica._cluster import engine, keeper
    from vesica.spark._engine import Kit

    start = start_of(port, limits={"max_keys": 100})
    with contextlib.closing(keeper.Keeper(start, "127.0.0.1")) as held:
        kit = pickle.loads(pickle.dumps(Kit("127.0.0.1", held.port, held.name, held.token)))
        assert bytes_of(engine.start(kit).secret) == bytes_of(start.secret)
        assert str(held.token) not in repr(kit)


def test_executors_ask_at_a_port_that_is_named(port: int) -> None:
    from vesica._cluster import engine
    from vesica.spark._engine import Engine

    def on(**conf: str) -> Engine:
        context = SimpleNamespace(defaultParallelism=2, getConf=lambda: {f"spark.driver.{name}": of for name, of in conf.items()})
        return Engine(SimpleNamespace(sparkContext=context), [port, port + 1])

    start = start_of(port + 2, limits={"max_keys": 100})
    with socket.create_server(("127.0.0.1", port)):
        one = on(host="127.0.0.1")
        with one.watch([], lambda: None):
            kit = one.hold(start)
            assert kit.port == port + 1 and engine.start(kit).run == start.run
            # Another driver on this machine finds none, before it has met anybody.
            with pytest.raises(vesica.ConfigError, match="name a port in keeper_port that no other program has"):
                on(host="127.0.0.1").watch([], lambda: None)
            one.release()
    # As Spark writes an address of IPv6.
    assert on(host="[::1]")._addresses() == ("::1", "::1") and on(host="[::1]", bindAddress="[::]")._addresses() == ("::1", "::")


def test_a_frame_is_of_the_parts_that_the_run_has_written(tmp_path: Path) -> None:
    """It was of whatever stood in the folder."""
    from vesica._cluster import drive
    from vesica.spark import _run

    source = drive.Placed(tmp_path / "out", True, "bob")
    own = source.output.begin("a-run")
    source.told = [own.put(number, lambda path: pq.write_table(pa.table({"n": [1]}), path)) for number in (0, 7)]
    source.see("a-run")
    source.commit("a-run")
    (tmp_path / "out" / "part-000003.parquet").write_bytes(b"of somebody else")
    session = SimpleNamespace(read=SimpleNamespace(parquet=lambda *paths: paths))
    assert _run._read(session, source.output) == tuple(f"file://{tmp_path}/out/part-{n:06}.parquet" for n in (0, 7))
    (tmp_path / "out" / "part-000007.parquet").unlink()
    with pytest.raises(vesica.InputError, match="part-000007.parquet: is gone, or not the file"):
        _run._read(session, source.output)


def test_a_cluster_that_talks_in_clear_is_refused_or_accepted_by_name() -> None:
    from vesica.spark import _engine

    def session(master: str, version: str = "4.1.0", **conf: str) -> Any:
        return SimpleNamespace(version=version, sparkContext=SimpleNamespace(getConf=lambda: {name.replace("_", "."): of for name, of in conf.items()}, master=master))

    _engine.check(session("local-cluster[2,1,1024]"), [])
    _engine.check(session("yarn", spark_authenticate="true", spark_network_crypto_enabled="true"), [])
    _engine.check(session("yarn", spark_authenticate="true", spark_ssl_rpc_enabled="true"), [])
    _engine.check(session("yarn"), ["cluster_without_encryption"])
    for conf in (
        {},
        {"spark_network_crypto_enabled": "true"},
        {"spark_authenticate": "true"},
        {"spark_ssl_rpc_enabled": "true"},
        {"spark_authenticate": "true", "spark_ssl_rpc_enabled": "true", "version": "3.5.1"},
    ):
        with pytest.raises(vesica.ConfigError, match="the executors of yarn talk with the driver in clear"):
            _engine.check(session("yarn", **conf), [])
    with pytest.raises(vesica.ConfigError, match="accept: is"):
        _engine.check(session("local"), "cluster_without_encryption")
    with pytest.raises(vesica.ConfigError, match="Spark Connect"):
        _engine.check(SimpleNamespace(), [])


def test_a_side_that_listens_is_refused(port: int) -> None:
    from vesica.spark import _run

    alice, bob = jobs(port)
    with pytest.raises(vesica.ConfigError, match="mine.listen: a Spark cluster dials"):
        _run._dials(alice)
    _run._dials(bob)


def test_pieces_come_out_of_the_shuffle_as_they_went_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from vesica.spark import _engine

    monkeypatch.setattr(_engine.TaskContext, "get", staticmethod(lambda: SimpleNamespace(partitionId=lambda: 3)))

    def cut(item: int) -> tuple[int, list[bytes]]:
        if item == 9:
            raise vesica.InputError("no item")
        return item, [b"%d" % item * 10, b""]

    numbers = pa.RecordBatch.from_pydict({"id": [0, 1]})
    chunks = list(_engine._Cutting(cut, [5, 6], 2, 4)(iter([numbers])))
    in_order = sorted(chunks, key=lambda one: one.column(0)[0].as_py())
    results = list(_engine._Joining(lambda part, pieces: (part, list(pieces)), 2)(iter(reversed(in_order))))
    got = {(one.column(0)[0].as_py(), one.column(1)[0].as_py()): _engine.pickle.loads(one.column(2)[0].as_py()) for one in results}
    assert got == {(_engine.TOLD, 2): [5, 6], (_engine.JOINED, 1): (1, [b"", b""]), (_engine.JOINED, 0): (0, [b"6" * 10, b"5" * 10])}
    # A part that no memory holds is refused, and its chunks are let go.
    with monkeypatch.context() as patch:
        patch.setattr(_engine.rows, "HEAVIEST", 15)
        kinds = [one.column(0)[0].as_py() for one in _engine._Joining(lambda part, pieces: list(pieces), 2)(iter(in_order))]
    assert sorted(kinds) == [_engine.TOLD, _engine.JOINED, _engine.FAILED]
    lost = [one for one in in_order if one.column(2)[0].as_py() != 1]
    with pytest.raises(vesica.InternalError, match="a chunk of a piece was lost or came twice"):
        raise _engine.pickle.loads(next(one for one in _engine._Joining(lambda *of: None, 2)(iter(lost)) if one.column(0)[0].as_py() == _engine.FAILED).column(2)[0].as_py())
    failed = list(_engine._Cutting(cut, [9, 6], 2, 4)(iter([numbers])))[-1]
    assert isinstance(_engine.pickle.loads(failed.column(3)[0].as_py()), vesica.InputError)


@java
@pytest.mark.skipif("VESICA_LONG" not in os.environ, reason="takes minutes: set VESICA_LONG")
def test_ten_million_rows(tmp_path: Path, port: int) -> None:
    both, made = sides(tmp_path, port, int(os.environ.get("VESICA_SPARK_ROWS", "10000000")), learns=["bob"])
    thread, done = plain(SimpleNamespace(jobs=both, tables=made), "alice")
    with contextlib.closing(Cluster(tmp_path, {}, memory=3000)) as cluster:
        bob = cluster.start(tmp_path, both["bob"]).answer(3600)
    thread.join()
    print(json.dumps(bob))
    assert not isinstance(done[0], BaseException), done[0]
    assert out(tmp_path) == expected(made)
