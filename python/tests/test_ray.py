"""Two organisations with a cluster each, on this machine. The rows must be those of a plain run, whatever is killed."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import vesica  # noqa: E402
from conftest import Relay, Side, bytes_of, descends, jobs, plain, start_of  # noqa: E402

HERE = Path(__file__).resolve().parent


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


class Clusters:
    """A cluster of each party, which begins when it is asked for."""

    def __init__(self, place: Path, variables: dict[str, str]) -> None:
        self._place, self._variables = place, variables
        self._sides: dict[str, Side] = {}

    def of(self, name: str, store: int = 200 << 20) -> Side:
        """A party's cluster; another one, if it was killed or does something that nobody waits for."""
        side = self._sides.get(name)
        if side is None or side.busy or side.process.poll() is not None:
            if side is not None:
                side.close()
            token = self._place / f"{name}.token"
            token.write_text(os.urandom(32).hex())
            setup = {"cpus": 2, "store": store, "temp": f"{self._place}/{name}", "token": str(token)}
            self._sides[name] = Side("ray_side.py", self._place, name, setup, self._variables)
        return self._sides[name]

    def close(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(Side.close, self._sides.values()))


@contextlib.contextmanager
def some_clusters(variables: dict[str, str]) -> Iterator[Clusters]:
    # A folder with a short name: Ray's sockets may have names of 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="vr", dir="/tmp", ignore_cleanup_errors=True) as place:
        made = Clusters(Path(place).resolve(), variables)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def clusters(objects: dict[str, str]) -> Iterator[Clusters]:
    """Those that the tests of this file have together, for to begin one takes longer than most of them."""
    with some_clusters(objects) as made:
        yield made


@pytest.fixture
def own_clusters(objects: dict[str, str]) -> Iterator[Clusters]:
    """Clusters of one test, which kills their drivers or has larger ones."""
    with some_clusters(objects) as made:
        yield made


class Sides:
    """Tables of two parties, and their runs."""

    def __init__(self, place: Path, port: int, clusters: Clusters, rows: int, files: int = 4, **shared: Any) -> None:
        self.place, self.clusters, self.rows = place, clusters, rows
        shared.setdefault("limits", {"max_keys": 2 * rows})
        self.jobs = dict(zip(("alice", "bob"), jobs(port, **shared)))
        for job in self.jobs.values():
            # On a busy machine one side's cluster may start half a minute after the other's.
            job["mine"]["patience"] = "3m"
        self.tables: dict[str, pa.Table] = {}
        self.running: dict[str, Side] = {}
        #: A key that both sides have, and that stands nowhere by chance.
        self.key = f"a key that is looked for {os.urandom(8).hex()}"
        shuffled = random.Random(5)
        for name, first in (("alice", 0), ("bob", rows // 2)):
            numbers = list(range(first, first + rows))
            shuffled.shuffle(numbers)
            # Some rows have no key, and some keys stand in two rows of alice's.
            keys = [None if i % 97 == 0 else f"{i // 2 * 2 if name == 'alice' and i % 50 == 1 else i:08}" for i in numbers]
            keys[-1] = self.key
            self.tables[name] = pa.table({"id": keys, "n": numbers, "of": [name] * rows})
            folder = place / name
            folder.mkdir()
            each = -(-rows // files)
            for i in range(files):
                pq.write_table(self.tables[name].slice(i * each, each), folder / f"{i}.parquet", row_group_size=max(1, each // 3))
            (place / f"{name}.key").write_bytes(os.urandom(32))
            (place / f"{name}.key").chmod(0o600)

    def keep(self, *names: str) -> None:
        """Has sides keep what a killed driver left."""
        for name in names:
            self.jobs[name]["mine"] |= {"resume": str(self.place / f"{name}.resume"), "resume_key": str(self.place / f"{name}.key")}

    def start(self, name: str, **more: Any) -> None:
        """Starts a side on its cluster."""
        side = self.running[name] = self.clusters.of(name)
        call = {"job": self.jobs[name], "data": str(self.place / name), "storage": str(self.place / f"{name}.storage")}
        side.call(do="run", **{**call, "output": str(self.place / f"{name}.out"), **more})

    def end(self, name: str, seconds: int = 600, fails: bool = False) -> dict[str, Any]:
        """Waits for a side; gives what came of it."""
        return self.running.pop(name).answer(seconds, fails)

    def finished(self, name: str) -> int:
        """How many units are finished on a side."""
        return sum(1 for _ in (self.place / f"{name}.storage").glob("*/found/unit-*"))

    def begun(self, name: str) -> int:
        """How many turns were taken on a side, by the names of their files."""
        (run,) = (path.parent for path in (self.place / f"{name}.storage").glob("*/shape"))
        units, lanes = json.loads((run / "shape").read_text())
        own = [map(int, path.name.split("-")[1:]) for path in run.glob("begun/own-*")]
        of_own = sum(len(range(lane, units, lanes)[16 * at : 16 * at + 16]) for lane, at in own)
        return of_own + 16 * sum(1 for _ in run.glob("begun/again-*"))

    def wait(self, until: Callable[[], bool], seconds: int = 300) -> None:
        """Waits until something is so, unless a side ends before."""
        end = time.monotonic() + seconds
        while not until():
            for side in self.running.values():
                assert not side.has_answered, (side.answer(), side.said()[-6000:])
            assert time.monotonic() < end
            time.sleep(0.1)

    def kill(self, name: str, worker: str) -> int:
        """Kills the workers of a side that Ray calls so; says how many."""
        killed = 0
        for one in Path("/proc").glob("[0-9]*"):
            try:
                title = (one / "cmdline").read_bytes().decode(errors="replace")
                if title.startswith(f"ray::{worker}") and descends(int(one.name), self.running[name].process.pid):
                    os.kill(int(one.name), signal.SIGKILL)
                    killed += 1
            except (OSError, ProcessLookupError):
                continue
        return killed

    def out_files(self, name: str) -> list[Path]:
        """The files of a side's output."""
        return sorted((self.place / f"{name}.out").glob("*.parquet"))

    def out(self, name: str) -> list[dict[str, Any]]:
        """The rows of a side's output, file by file."""
        return pa.concat_tables(pq.read_table(part) for part in self.out_files(name)).to_pylist()

    def expected(self, name: str) -> list[dict[str, Any]]:
        """The rows that a join of both tables gives a side, in the order of its table."""
        other = {"alice": "bob", "bob": "alice"}[name]
        there = set(self.tables[other]["id"].drop_null().to_pylist())
        return [row for row in self.tables[name].to_pylist() if row["id"] in there]


def test_two_clusters_with_a_worker_a_door_and_the_drivers_link_lost(place: Path, port: int, clusters: Clusters) -> None:
    sides, link = Sides(place, port, clusters, 20_000, unit=128), Relay(port)
    sides.jobs["bob"]["mine"]["connect"] = {"alice": link.address}
    sides.start("alice", key=sides.key)
    sides.start("bob", key=sides.key)
    sides.wait(lambda: sides.finished("bob") >= 4)
    killed = sides.kill("bob", "_dial"), sides.kill("alice", "_door")
    sides.wait(lambda: sides.finished("bob") >= 12)
    before = link.times
    link.cut()
    alice, bob = sides.end("alice"), sides.end("bob")
    assert link.times > before, "the drivers did not meet again"
    assert sides.out("alice") == sides.expected("alice")
    assert alice["rows"] == len(sides.expected("alice")) and bob["rows"] is None and bob["matched"] is None
    assert killed[0] >= 1 and killed[1] == 1, "nothing was killed: the tables are too small for this machine"
    assert alice["page"] and bob["page"]
    # A report is shown to partners, and says nowhere where on this machine anything is.
    assert not alice["place"] and not bob["place"]
    # What the object store and Ray's files hold says nothing of a key, and neither the secret nor what asks for it is among it.
    for side in (alice, bob):
        assert side["stands"]["mark"] >= 1 and side["stands"]["secret"] == side["stands"]["token"] == side["stands"]["key"] == 0
    # Nothing of the run is left on the storage.
    assert not list(place.glob("*.storage/*"))


@pytest.mark.parametrize("on_a_cluster", ["alice", "bob"])
def test_a_cluster_meets_a_plain_run(place: Path, port: int, clusters: Clusters, on_a_cluster: str) -> None:
    sides = Sides(place, port, clusters, 5_000, learns=["alice", "bob"])
    thread, done = plain(sides, "bob" if on_a_cluster == "alice" else "alice")
    # Workers are let ask at the first of these ports that is free.
    ports = list(range(port + 30, port + 40))
    with socket.create_server(("", ports[0])):
        sides.start(on_a_cluster, keeper_port=ports)
        told = sides.end(on_a_cluster)
    thread.join()
    assert told["asked_at"] in ports[1:]
    if isinstance(done[0], BaseException):
        raise done[0]
    # Each door ended when it was told to, and said what its lanes had cost.
    assert told["costs"] == (told["lanes"] if on_a_cluster == "alice" else 0)
    here = sides.out(on_a_cluster)
    pairs = [row.pop("pair") for row in here]
    # Where both learn, a row stands in the join as often as its key stands on the other side.
    assert {row["n"] for row in here} == {row["n"] for row in sides.expected(on_a_cluster)}
    assert sorted(row["id"] for row in here) == sorted(done[0].table.to_arrow()["id"].to_pylist())
    assert len({(pair, row["id"]) for pair, row in zip(pairs, here)}) == len(set(pairs))


def test_rows_are_written_to_a_bucket_and_read_from_there(place: Path, port: int, bucket: str, clusters: Clusters) -> None:
    from vesica._cluster import output, storage

    sides, address = Sides(place, port, clusters, 2_000), f"{bucket}/out"
    thread, done = plain(sides, "bob")
    sides.start("alice", output=address)
    alice = sides.end("alice")
    thread.join()
    assert not isinstance(done[0], BaseException), done[0]
    names = sorted(storage.opened(address).below())
    assert names[0] == "_SUCCESS"
    rows = pa.concat_tables(table for name in names[1:] for table in output.tables(address, name)).to_pylist()
    assert rows == sides.expected("alice") and alice["rows"] == len(rows)


def test_no_task_goes_on_when_another_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It wrote rows of a run that had failed, to a bucket from which they had been removed."""
    from vesica.ray import _engine

    done: list[str] = []
    remote = SimpleNamespace(remote=lambda *given: f"part {given[1]}", options=lambda **_: SimpleNamespace(remote=lambda *given: ["told", "0", "1"]))
    monkeypatch.setattr(_engine, "_cut", remote)
    monkeypatch.setattr(_engine, "_join", remote)

    def get(refs: list[str], timeout: Any = None) -> list[int]:
        if "part 0" in refs:
            raise vesica.InputError("t.parquet: changed while it was being read")
        return [1 for _ in refs]

    calls = {"put": lambda one: one, "get": get, "cancel": lambda ref, recursive: done.append(ref)}
    calls["wait"] = lambda refs, **how: done.append(f"waited {len(refs)}")
    monkeypatch.setattr(_engine, "ray", SimpleNamespace(exceptions=_engine.ray.exceptions, **calls))
    with pytest.raises(vesica.InputError):
        _engine.Engine().exchange(["an item"], None, None, 2)
    assert done == ["told", "part 0", "part 1", "waited 3"]


def test_what_a_run_gives_is_a_pair_whose_dataset_is_made_when_it_is_asked_for() -> None:
    """Ray takes a second or two for its first Dataset, also of a caller who wants the files alone."""
    from vesica.ray import Matched
    from vesica.ray._run import _Later

    made: list[int] = []

    def lazy() -> Matched:
        return Matched(_Later(lambda: made.append(1) or "rows"), "report")

    pair = lazy()
    assert pair.report == pair[1] == pair[-1] == "report" and pair[1:] == ("report",) and len(pair) == 2 and isinstance(pair, tuple) and not made
    dataset, report = pair
    assert (dataset, report) == (pair.dataset, pair.report) == ("rows", "report") and pair[0] == pair[-2] == "rows" and made == [1]
    plain = ("rows", "report")
    on_the_left: list[Any] = []
    on_the_left += lazy()
    assert on_the_left == [*plain]
    for same in (
        lambda: lazy() == plain and plain == lazy() and lazy() == lazy() == Matched(*plain) and not lazy() != plain and lazy() != ("others", "report"),
        lambda: hash(lazy()) == hash(plain) and "rows" in lazy() and lazy().index("rows") == 0 and lazy().count("rows") == 1,
        lambda: [*lazy()] == list(lazy()) == [*plain] and tuple(lazy()) == plain and lazy()[:] == plain and list(reversed(lazy())) == [*plain][::-1],
        lambda: lazy() + (1,) == (*plain, 1) and (1,) + lazy() == (1, *plain) and lazy() + lazy() == lazy() * 2 == 2 * lazy() == plain * 2,
        lambda: lazy() < ("s", "") and lazy() >= plain and repr(lazy()) == "Matched(dataset='rows', report='report')" and "%s, %s" % lazy() == "'rows', report",
        lambda: lazy()._replace(report=3) == ("rows", 3) and lazy()._asdict() == {"dataset": "rows", "report": "report"} == dict(zip(Matched._fields, lazy())),
    ):
        assert same()
    again = pickle.loads(pickle.dumps(lazy()))
    assert again == plain and type(again) is Matched and again.dataset == "rows"


def test_a_dataset_is_of_the_parts_that_the_run_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was of whatever stood in the folder when it was asked for."""
    import ray.data
    from vesica._cluster import drive
    from vesica.ray import _run

    source = drive.Placed(tmp_path / "out", True, "alice")
    own = source.output.begin("a-run")
    table = pa.table({"n": [1, 2], "of": ["a", "b"], "m": [3, 4]})
    source.told = [own.put(number, lambda path: pq.write_table(table, path)) for number in (0, 7, 8)]
    source.see("a-run")
    source.commit("a-run")
    pq.write_table(pa.table({"n": [2]}), tmp_path / "out" / "part-000003.parquet")
    monkeypatch.setattr(ray.data, "read_datasource", lambda source: source)
    parts, decoded = _run._dataset(source.output), []
    read = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda self, **how: decoded.append(how["columns"]) or read(self, **how))
    tasks = parts.get_read_tasks(2)
    assert [task.metadata.num_rows for task in tasks] == [2, 4] and all(task.schema == table.schema for task in tasks)
    assert pa.concat_tables(rows for task in tasks for rows in task()) == pa.concat_tables([table] * 3)
    # A Dataset that asks for some columns has these decoded alone, in the order in which it asks.
    some = parts.apply_projection({"m": "m", "n": "n"})
    decoded.clear()
    (task,) = some.get_read_tasks(1)
    assert pa.concat_tables(task()) == pa.concat_tables([table.select(["m", "n"])] * 3)
    assert decoded == [["m", "n"]] * 3 and task.schema.names == ["m", "n"]
    assert some.get_projection_map() == {"m": "m", "n": "n"} and parts.get_projection_map() is None
    (task,) = some.apply_projection({"n": "n"}).get_read_tasks(1)
    assert pa.concat_tables(task()).column_names == ["n"]
    # Of no column there are as many rows as of all: Ray joins the tables that it is given.
    for none in (parts.apply_projection({}), some.apply_projection({}), parts.apply_projection({}).apply_projection({"n": "n"})):
        (task,) = none.get_read_tasks(1)
        assert task.schema.names == [] and pa.concat_tables(task()).num_rows == 6
    tasks = parts.get_read_tasks(3)
    # Another run's rows would stand beside this run's report.
    pq.write_table(pa.table({"n": [3]}), tmp_path / "another.parquet")
    os.replace(tmp_path / "another.parquet", tmp_path / "out" / "part-000007.parquet")
    with pytest.raises(vesica.InputError, match="part-000007.parquet: is gone, or not the file"):
        _run._dataset(source.output)
    # A Dataset that was made before reads them after, on another machine.
    tasks = pickle.loads(pickle.dumps(tasks))
    assert pa.concat_tables(tasks[0]()) == table
    for gone in (False, True):
        if gone:
            (tmp_path / "out" / "part-000007.parquet").unlink()
        with pytest.raises(vesica.InputError, match="part-000007.parquet: is gone, or not the file"):
            list(tasks[1]())
    # One that is written to while it is read, in its place.
    reads = tasks[2]()
    next(reads)
    os.utime(tmp_path / "out" / "part-000008.parquet")
    with pytest.raises(vesica.InputError, match="part-000008.parquet: is gone, or not the file"):
        list(reads)


class Waits:
    """A keeper, and doors that ask it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from vesica.ray import _engine, _kit

        self.kept: dict[str, bytes] = {}
        stored(monkeypatch, self.kept)
        self.keeper = _kit.Keeper(SimpleNamespace(to_bytes=bytes, secret=None), "127.0.0.1")
        self.asked: list[tuple[int, bool | None]] = []
        #: What goes wrong with the next questions.
        self.wrong: list[Exception] = []
        over = _kit.Kit.over

        def asked(kit: Any, *given: Any) -> Any:
            self.asked.append(given)
            if self.wrong:
                raise self.wrong.pop()
            return over(kit, *given)

        monkeypatch.setattr(_kit.Kit, "over", asked)
        monkeypatch.setattr(_engine.lanes, "Seats", self.seats)

    def seats(self) -> Any:
        """A door without lanes: it serves until its lanes are ended, or fails."""
        said, over, of = [], threading.Event(), self

        class Door:
            def serve(self, work: Any, *rest: Any) -> list[str]:
                of.doors.append(said)
                if work.run == "fails":
                    raise vesica.PeerError("bob broke the protocol")
                assert over.wait(60), "nobody told this door that it is to end"
                return ["cost"]

            def stop(self, now: bool = False) -> None:
                said.append(now)
                over.set() if now else None

        return Door()

    doors: list[list[bool]]

    def open(self, run: str = "a-run") -> tuple[list[bool], Any]:
        """A door of attempt 3 in a thread: what it was told, and what comes of it."""
        from vesica.ray import _engine

        self.doors = []
        work = SimpleNamespace(kit=self.keeper.kit, attempt=3, run=run)
        done = ThreadPoolExecutor(1).submit(_engine._door._function, "here:1", work, 1)
        self.until(lambda: self.doors)
        return self.doors[0], done

    @staticmethod
    def until(so: Callable[[], Any]) -> None:
        end = time.monotonic() + 30
        while not so():
            assert time.monotonic() < end
            time.sleep(0.005)


def stored(monkeypatch: pytest.MonkeyPatch, kept: dict[str, bytes]) -> None:
    """Makes this the control store of a cluster, as Ray's calls have it."""
    from vesica.ray import _kit

    monkeypatch.setattr(_kit, "_internal_kv_get", lambda name, namespace: kept.get(name))
    monkeypatch.setattr(_kit, "_internal_kv_put", lambda name, value, namespace: kept.update({name: value}))
    monkeypatch.setattr(_kit, "_internal_kv_del", lambda name, namespace: kept.pop(name))


def test_a_ray_without_what_is_used_of_it_is_refused_when_it_is_imported() -> None:
    code = """if True:
        import ray.experimental.internal_kv as kv
        del kv._internal_kv_get
        try:
            import vesica.ray
        except ImportError as error:
            print(error)"""
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    found = re.fullmatch(r"vesica\.ray was written for Ray 2\.60, and Ray (\S+) does not have .*_internal_kv_get.*; pip install 'ray\[data\]==2\.60\.\*'", said.strip())
    assert found, said


def test_a_door_asks_once_and_is_told_when_it_is_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each asked ten times a second, of a process that answered each time. Only tests that take minutes would have seen one that is not told."""
    on = Waits(monkeypatch)
    said, done = on.open()
    # Another attempt's doors are told, and this one waits on.
    on.keeper.end(2, True)
    time.sleep(0.5)
    assert said == [] and on.asked == [(3, None)]
    on.keeper.end(3, False)
    on.until(lambda: said)
    on.until(lambda: len(on.asked) == 2)
    assert said == [False] and not done.done() and on.asked[1:] == [(3, False)]
    on.keeper.end(3, True)
    assert done.result(30) == ["cost"] and said[:2] == [False, True]
    # That lanes end now is not taken back, and a door that comes late hears it at once.
    on.keeper.end(3, False)
    on.asked.clear()
    said, done = on.open()
    assert done.result(30) == ["cost"] and said[0] is True and on.asked == [(3, None)]


def test_a_door_that_hears_nothing_asks_again_and_ends_with_the_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    from vesica._cluster import keeper

    on = Waits(monkeypatch)
    on.wrong = [RuntimeError("the control store does not answer")]
    # A connection that nothing passes for long may be cut, and nobody told.
    monkeypatch.setattr(keeper, "WAITS", 0.1)
    said, done = on.open()
    on.until(lambda: len(on.asked) >= 4)
    assert said == [] and set(on.asked) == {(3, None)}
    # One that fails by itself waits for nobody.
    with pytest.raises(vesica.PeerError):
        on.open(run="fails")[1].result(30)
    on.keeper.close()
    assert done.result(30) == ["cost"] and said[0] is True and not on.kept
    said, done = on.open()
    assert done.result(30) == ["cost"] and said[0] is True


long = pytest.mark.skipif("VESICA_LONG" not in os.environ, reason="takes minutes: set VESICA_LONG")


@long
@pytest.mark.parametrize("killed", ["alice", "bob"])
def test_a_driver_is_killed_and_started_again(place: Path, port: int, own_clusters: Clusters, killed: str) -> None:
    sides = Sides(place, port, own_clusters, 100_000, unit=128, learns=["alice", "bob"])
    sides.keep("alice", "bob")
    for job in sides.jobs.values():
        job["mine"]["patience"] = "5m"
    sides.start("alice")
    sides.start("bob")
    sides.wait(lambda: sides.finished(killed) >= 100)
    side = sides.running.pop(killed)
    side.process.kill()
    side.process.wait()
    time.sleep(5)
    before, begun = sides.finished(killed), sides.begun(killed)
    sides.start(killed)
    again = sides.end(killed)
    sides.end("bob" if killed == "alice" else "alice")
    assert "shuffle" not in again["phases"], "what was shuffled before the driver was killed was shuffled again"
    # Turns are taken again for those that were missing on either side, sixteen at a time by each lane, and for no unit that was finished. The report
    # adds the share of a salt, an eighth.
    missing, salt = again["units"] - before, -(-again["units"] // 8)
    assert before >= 100 and again["begun"] <= begun + missing + salt + 20 + 16 * again["lanes"], (again, before, begun)
    a, b = sides.out("alice"), sides.out("bob")
    assert {row["pair"]: row["id"] for row in a} == {row["pair"]: row["id"] for row in b}
    assert {row["n"] for row in a} == {row["n"] for row in sides.expected("alice")}


@long
def test_a_driver_that_is_killed_before_it_has_written_needs_nobody(place: Path, port: int, own_clusters: Clusters) -> None:
    sides = Sides(place, port, own_clusters, 5_000)
    sides.keep("alice")
    sides.jobs["alice"]["mine"]["patience"] = "10s"
    thread, done = plain(sides, "bob")
    sides.start("alice", dies=True)
    sides.running.pop("alice").process.wait(300)
    thread.join()
    assert done[0].outcome.matched is None and not sides.out_files("alice")
    # Bob is gone. All that alice needs stands in her files.
    sides.start("alice")
    alice = sides.end("alice")
    assert alice["version"] == "not met again" and alice["matched"] is not None
    assert sides.out("alice") == sides.expected("alice")
    assert not list(place.glob("alice.storage/*")) and not list(place.glob("alice.resume/*.ledger"))


def test_ports_that_the_other_side_comes_to_are_none_for_workers(port: int) -> None:
    """A door on the driver's node would have found its port taken, when the other side had been met."""
    from vesica.ray import _engine, _run

    alice, bob = jobs(port)
    for named, doors in ((port, None), ([port + 9, port + 1], None), (port + 3, 3)):
        with pytest.raises(vesica.ConfigError, match=f"keeper_port: has {port}|keeper_port: has {port + 1}|keeper_port: has {port + 3}"):
            _run._apart(alice, _engine.Engine(named), doors)
        _run._apart(bob, _engine.Engine(named), doors)
    for named, doors in ((None, None), (port - 1, None), (port + 2, None), (port + 4, 3)):
        _run._apart(alice, _engine.Engine(named), doors)


def test_what_a_task_refuses_while_ids_are_written_is_told_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told when Ray looked at the table, in a page of Ray's own words."""
    import ray.data
    from vesica.ray import _engine, _run

    class Raised(_engine.ray.exceptions.RayError):
        """As Ray has it what a worker raised."""

        cause = vesica.InputError("a unit was lost")

    def refs(tables: list[Any]) -> None:
        raise Raised

    monkeypatch.setattr(ray.data, "from_arrow_refs", refs)
    source = object.__new__(_run._OfDataset)
    source.id, source.type = "n", pa.int64()
    with pytest.raises(vesica.InputError, match="^a unit was lost$") as raised:
        source.write(SimpleNamespace(there=lambda *of: ["a table"]), None, [0], False)
    assert not isinstance(raised.value, _engine.ray.exceptions.RayError)


@long
def test_a_dataset_is_matched_by_its_ids(place: Path, port: int, clusters: Clusters) -> None:
    sides = Sides(place, port, clusters, 20_000)
    # Ids beyond what a signed number holds.
    for part in (place / "alice").glob("*.parquet"):
        table = pq.read_table(part)
        large = pa.array([2**63 + n for n in table["n"].to_pylist()], pa.uint64())
        pq.write_table(table.set_column(1, "n", large), part)
    sides.start("bob")
    sides.start("alice", ids="n")
    sides.end("bob"), sides.end("alice")
    assert sorted(row["n"] for row in sides.out("alice")) == sorted(2**63 + row["n"] for row in sides.expected("alice"))


def test_ids_that_are_not_unique_are_refused_before_anybody_is_met(place: Path, port: int, clusters: Clusters) -> None:
    sides = Sides(place, port, clusters, 1_000)
    part = next((place / "alice").glob("*.parquet"))
    table = pq.read_table(part)
    # Three rows get the number of the first one, whatever their keys.
    numbers = table["n"].to_pylist()
    numbers[1] = numbers[100] = numbers[-1] = numbers[0]
    pq.write_table(table.set_column(1, "n", pa.array(numbers)), part)
    sides.start("alice", ids="n")
    said = f"InputError: column 'n': {numbers[0]} stands in several rows, and 2 more rows repeat the number of another"
    assert said in sides.end("alice", fails=True)["error"]


def test_what_travels_with_a_task_opens_nothing(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray writes what tasks are given to its disks."""
    from vesica._cluster import engine
    from vesica.ray import _kit

    kept: dict[str, bytes] = {}
    stored(monkeypatch, kept)
    start = start_of(port, limits={"max_keys": 100})
    keeper = _kit.Keeper(start, "127.0.0.1")
    kit = pickle.loads(pickle.dumps(keeper.kit))
    assert kit == keeper.kit and hash(kit) == hash(keeper.kit) and kept == {kit.name: keeper.token}
    assert keeper.token not in pickle.dumps(kit) and keeper.token.hex() not in repr(kit)
    assert bytes_of(engine.start(kit).secret) == bytes_of(start.secret), "a worker that the control store answers has it"
    kept[kit.name] = bytes(16)
    with pytest.raises(vesica.ConfigError, match="the driver does not answer"):
        kit.ask(vesica._core.Recipient().public)
    keeper.close()
    # It was a NetworkError, for which the driver went to meet the other side anew.
    with pytest.raises(vesica.ConfigError, match="the run is over, or the store was started anew; run again"):
        kit.ask(vesica._core.Recipient().public)
    assert kit.over(0, None) is True
    with pytest.raises(TypeError):
        pickle.dumps(start.secret)
    # Where nodes are told of an address that is not this machine's own.
    keeper = _kit.Keeper(start, "203.0.113.1")
    with socket.create_connection(("127.0.0.1", keeper.port)):
        keeper.close()


def test_a_keeper_that_cannot_begin_leaves_nobody_listening(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from vesica._cluster import keeper
    from vesica.ray import _kit

    start, listens, create = start_of(port, limits={"max_keys": 100}), [], socket.create_server

    def put(*what: Any, **more: Any) -> None:
        raise RuntimeError("the control store does not answer")

    monkeypatch.setattr(_kit, "_internal_kv_put", put)
    monkeypatch.setattr(keeper.socket, "create_server", lambda *at, **how: listens.append(create(*at, **how)) or listens[-1])
    with pytest.raises(RuntimeError, match="the control store does not answer"):
        _kit.Keeper(start, "127.0.0.1")
    assert [one.fileno() for one in listens] == [-1]

    def none(at: tuple[str, int], **how: Any) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(keeper.socket, "create_server", none)
    with pytest.raises(vesica.ConfigError, match="the driver cannot listen at 127.0.0.1, .*Too many open files; see that"):
        _kit.Keeper(start, "127.0.0.1")


def test_nodes_that_talk_without_tls_are_refused_or_accepted_by_name(
    place: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who listens between nodes hears Ray's token, and then is a worker like any other."""
    import vesica.ray
    from vesica.ray import _network

    here = SimpleNamespace(nodes=[{"Alive": True}], tls=False, client=False)
    context = SimpleNamespace(gcs_address="10.0.0.1:6379")
    client = SimpleNamespace(client=SimpleNamespace(ray=SimpleNamespace(is_connected=lambda: here.client)))
    ray = SimpleNamespace(
        is_initialized=lambda: True, nodes=lambda: here.nodes, get_runtime_context=lambda: context, util=client
    )
    monkeypatch.setattr(_network, "ray", ray)
    monkeypatch.setattr(_network, "has_tls", lambda address: here.tls)
    monkeypatch.setenv("RAY_USE_TLS", "1")  # says nothing of a cluster that was there before

    def runs(**more: Any) -> None:
        # A job that is refused as soon as it is read: nothing is needed of a cluster for that.
        for call in (vesica.ray.run, lambda *args, **more: vesica.ray.match(None, keys="id", id="n", **more)):
            with pytest.raises(vesica.ConfigError, match="missing field `name`"):
                call(job={"mine": {}}, storage=place, **more)

    runs()
    here.nodes = [{"Alive": True}, {"Alive": False}]
    runs()
    here.nodes = [{"Alive": True}, {"Alive": True}]
    for call in (vesica.ray.run, lambda **more: vesica.ray.match(None, keys="id", id="n", **more)):
        with pytest.raises(vesica.ConfigError, match='the 2 nodes of this cluster talk without TLS: .*RAY_USE_TLS=1.*cluster_without_tls'):
            call(job={"mine": {}}, storage=place)
        for name in ("cluster_without_tls", ["cluster"]):
            with pytest.raises(vesica.ConfigError, match="accept: is"):
                call(job={"mine": {}}, storage=place, accept=name)
    runs(accept=["cluster_without_tls"])
    here.tls = True
    runs()
    # A process that is in no cluster itself is refused whatever is accepted.
    here.client = True
    for call in (vesica.ray.run, lambda **more: vesica.ray.match(None, keys="id", id="n", **more)):
        with pytest.raises(vesica.ConfigError, match=r"through Ray Client \(ray://…\).*ray job submit"):
            call(job={"mine": {}}, storage=place, accept=["cluster_without_tls"])


@pytest.mark.parametrize("how", ["stays", "leaves", "in the last moment"])
def test_a_node_that_joins_while_a_run_lasts_is_refused(how: str, place: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was looked at when the next phase began, so what a node did that joined in the last one, or left before the next, nobody heard of."""
    from vesica._cluster import drive
    from vesica.ray import _engine, _network

    nodes = [{"NodeID": "a", "Alive": True}, {"NodeID": "b", "Alive": False}]
    tls, closed, cancelled = [False], [], threading.Event()
    ray = SimpleNamespace(
        nodes=lambda: [dict(node) for node in nodes],
        get_runtime_context=lambda: SimpleNamespace(gcs_address="10.0.0.1:6379"),
    )
    for module in (_network, _engine):
        monkeypatch.setattr(module, "ray", SimpleNamespace(**vars(ray)))
    monkeypatch.setattr(_engine, "reached", lambda ports: None)
    monkeypatch.setattr(_network, "has_tls", lambda address: tls[0])
    monkeypatch.setattr(_network, "LOOK", 60 if how == "in the last moment" else 0.01)
    pq.write_table(pa.table({"id": ["a"], "n": [1]}), place / "t.parquet")
    spec, _ = jobs(port)

    def run(accept: list[str]) -> Any:
        """A driver that does nothing but wait in a phase, in which a node joins."""
        side = object.__new__(drive.Run)
        side.on = _engine.Engine()
        side.on._keeper = SimpleNamespace(close=lambda: closed.append("keeper"))
        side.accept, side.over, side.name, side.tell = accept, False, None, lambda event: None
        side.began, side.costs = 0.0, []
        side.meeting = SimpleNamespace(abort=lambda fault: None, cancel=cancelled.set, reached=lambda: True, again=lambda done: False)
        side._meet = lambda: None

        def rest(start: Any) -> str:
            with side._phase("shuffle", "rows", 1):
                nodes.append({"NodeID": "c", "Alive": how != "leaves"})
                if how != "in the last moment" and not accept and not tls[0]:
                    assert cancelled.wait(60), "nobody looks at the nodes"
                    raise vesica.NetworkError("the workers have no keeper any more")
            return "matched"

        side._rest = rest
        try:
            return drive.Run.run(side)
        finally:
            del nodes[2:]

    with pytest.raises(vesica.ConfigError, match="the 2 nodes that this cluster has had since the run began talk without TLS"):
        run([])
    assert closed == ["keeper"], "by the watch, and not once more in the end"
    assert run(["cluster_without_tls"]) == "matched"
    tls[0] = True
    assert run([]) == "matched"
    # While the job was read and its storage was tried: after the first look, and before the watch.
    tls[0] = False
    nodes.append({"NodeID": "c", "Alive": True})
    with pytest.raises(vesica.ConfigError, match="the 2 nodes of this cluster talk without TLS"):
        run([])


def test_a_cluster_of_two_nodes_is_refused_without_tls(clusters: Clusters) -> None:
    side = clusters.of("alice")
    side.call(do="nodes")
    one, two, accepted, reached, walled, older = side.answer(300)["said"]
    # A job without a name is what is wrong with the others.
    assert one == accepted == "mine: missing field `name`" and two.startswith("the 2 nodes of this cluster talk without TLS: ")
    # A wall between the nodes that lets pass what is Ray's was found out when the other side had been met.
    assert reached == "reached"
    assert re.fullmatch(r"the node at \S+ does not reach the driver's at \S+:\d+, .*refused; let every node reach that address, .*", walled), walled
    # A node without this program, or with another version, was taken for one that is gone.
    assert re.fullmatch(r"the node at \S+ does not run Vesica as this process does: .*No module named 'vesica'; install the same version .*", older), older


def test_it_is_seen_whether_a_control_store_has_tls(place: Path) -> None:
    from vesica.ray import _network

    vesica.cert("ray", place)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "ray.pem")
    # As Ray's, it wants a certificate of who comes.
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = "127.0.0.1:%d" % listener.getsockname()[1]

        def once(secure: bool) -> bool:
            def serve() -> None:
                link, _ = listener.accept()
                with link, contextlib.suppress(OSError):
                    if secure:
                        context.wrap_socket(link, server_side=True).close()
                    else:
                        link.sendall(b"\0\0\x06\x04\0\0\0\0\0")  # as HTTP/2 begins
                        link.recv(1 << 16)

            thread = threading.Thread(target=serve)
            thread.start()
            found = _network.has_tls(address)
            thread.join()
            return found

        assert once(True)
        assert not once(False)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert once(True)
    assert not _network.has_tls(address), "nobody is there"


@pytest.mark.parametrize("finished", [None, vesica.NetworkError("the link broke")])
def test_all_doors_are_looked_at(finished: Exception | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side had the units of a lane in which it had cheated done again at another door, and then said that all lanes were done, or broke
    the link: what the first door had to say was not asked for."""
    from vesica.ray import _engine

    exceptions, told = _engine.ray.exceptions, []

    class Raised(exceptions.RayError):
        """As Ray has it what a worker raised."""

        cause = vesica.PeerError("bob broke the protocol")

    def get(ref: str, timeout: float | None = None) -> list[str]:
        if ref == "cheated":
            raise Raised
        return ["cost"]

    def wait(refs: list[str], num_returns: int = 1, timeout: float = 0) -> tuple[list[str], list[str]]:
        # No door has ended as long as none was told to.
        return (refs, []) if told else ([], refs)

    monkeypatch.setattr(_engine, "ray", SimpleNamespace(get=get, wait=wait, exceptions=exceptions))

    keeper = SimpleNamespace(end=lambda *over: told.append(over))

    def finish() -> None:
        if finished is not None:
            raise finished

    driver = SimpleNamespace(meeting=SimpleNamespace(finished=finish, cancel=lambda: None), _step=lambda run: 0)
    doors = _engine.Doors([lambda *args: "honest", lambda *args: "cheated"], ["a", "b"], 1, keeper)
    with pytest.raises(vesica.PeerError, match="bob broke the protocol"):
        doors.serve(SimpleNamespace(run="a-run", attempt=3), driver)
    assert told == [(3, finished is not None)]


@long
def test_the_tutorial_gives_what_its_page_shows(tmp_path: Path, port: int) -> None:
    page = (HERE.parents[1] / "docs" / "src" / "tutorials" / "cluster.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    typed = "set -eu\n" + "".join(block for kind, block in blocks if kind == "sh").replace(":5300", f":{port}")
    # The programs of this environment come first, and workers are not behind whatever else the machine does.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    more = {"PATH": path, "RAY_worker_niceness": "0"}
    # Both drivers are ended with the shell that started them.
    with subprocess.Popen(
        ["bash", "-c", typed], cwd=tmp_path, env=os.environ | more, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as shell:
        try:
            printed, _ = shell.communicate(timeout=900)
        except BaseException:
            os.killpg(shell.pid, signal.SIGTERM)
            raise
    assert shell.returncode == 0, (tmp_path / "alice" / "log.txt").read_text()[-4000:]
    shown = [line for kind, block in blocks if kind == "text" for line in block.splitlines()]
    assert shown and printed.splitlines()[-len(shown) :] == shown


@long
def test_ten_million_rows(place: Path, port: int, own_clusters: Clusters) -> None:
    rows = int(os.environ.get("VESICA_RAY_ROWS", "10000000"))
    sides = Sides(place, port, own_clusters, rows, files=8)
    for job in sides.jobs.values():
        job["mine"]["patience"] = "30m"
    for name in ("alice", "bob"):
        own_clusters.of(name, store=1 << 30)
        sides.start(name)
    alice = sides.end("alice", 3600)
    sides.end("bob", 600)
    print(json.dumps(alice))
    assert sides.out("alice") == sides.expected("alice")
