"""Two organisations with a cluster each, on this machine. The rows must be those of a plain run, whatever is killed."""

from __future__ import annotations

import ast
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
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import vesica  # noqa: E402
from conftest import bytes_of, jobs  # noqa: E402

HERE = Path(__file__).resolve().parent

#: A key that both sides have, and that stands nowhere by chance.
KEY = "a key that is looked for"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder with a short name besides: Ray's sockets may have names of 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="vr", dir="/tmp", ignore_cleanup_errors=True) as short:
        (tmp_path / "ray").symlink_to(short)
        yield tmp_path


class Sides:
    """Tables of two parties, and their runs."""

    def __init__(self, place: Path, port: int, rows: int, files: int = 4, **shared: Any) -> None:
        self.place, self.rows = place, rows
        shared.setdefault("limits", {"max_keys": 2 * rows})
        self.jobs = dict(zip(("alice", "bob"), jobs(port, **shared)))
        self.tables: dict[str, pa.Table] = {}
        self.running: dict[str, subprocess.Popen[str]] = {}
        shuffled = random.Random(5)
        for name, first in (("alice", 0), ("bob", rows // 2)):
            numbers = list(range(first, first + rows))
            shuffled.shuffle(numbers)
            # Some rows have no key, and some keys stand in two rows of alice's.
            keys = [None if i % 97 == 0 else f"{i // 2 * 2 if name == 'alice' and i % 50 == 1 else i:08}" for i in numbers]
            keys[-1] = KEY
            self.tables[name] = pa.table({"id": keys, "n": numbers, "of": [name] * rows})
            folder = place / name
            folder.mkdir()
            each = -(-rows // files)
            for i in range(files):
                pq.write_table(self.tables[name].slice(i * each, each), folder / f"{i}.parquet", row_group_size=max(1, each // 3))
            (place / f"{name}.key").write_bytes(os.urandom(32))
            (place / f"{name}.key").chmod(0o600)
            (place / f"{name}.token").write_text(os.urandom(32).hex())

    def keep(self, *names: str) -> None:
        """Has sides keep what a killed driver left."""
        for name in names:
            self.jobs[name]["mine"] |= {"resume": str(self.place / f"{name}.resume"), "resume_key": str(self.place / f"{name}.key")}

    def start(self, name: str, **more: Any) -> None:
        """Starts a side on a cluster."""
        call = {
            "job": self.jobs[name],
            "data": str(self.place / name),
            "storage": str(self.place / f"{name}.storage"),
            "output": str(self.place / f"{name}.out"),
            "workers": 2,
            "cpus": 3,
            "store": 200 << 20,
            "temp": os.path.realpath(self.place / "ray") + f"/{name}",
            "key": KEY,
            "token": str(self.place / f"{name}.token"),
            **more,
        }
        path = self.place / f"{name}.call.json"
        path.write_text(json.dumps(call))
        log = open(self.place / f"{name}.log", "a")
        self.running[name] = subprocess.Popen(
            [sys.executable, HERE / "ray_side.py", path], stdout=subprocess.PIPE, stderr=log, text=True
        )

    def end(self, name: str, seconds: int = 600) -> dict[str, Any]:
        """Waits for a side; gives what came of it."""
        out, _ = self.running[name].communicate(timeout=seconds)
        log = (self.place / f"{name}.log").read_text()[-4000:]
        assert self.running[name].returncode == 0, f"{name}: {log}"
        return json.loads(out.splitlines()[-1])

    def finished(self, name: str, what: str = "found") -> int:
        """How many units are finished on a side, or were begun."""
        files = (self.place / f"{name}.storage").glob(f"*/{what}/[ua]*-*")
        return sum(1 for _ in files)

    def wait(self, until: Callable[[], bool], seconds: int = 300) -> None:
        """Waits until something is so, unless a side ends before."""
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end and all(one.poll() is None for one in self.running.values())
            time.sleep(0.1)

    def kill(self, name: str, worker: str) -> int:
        """Kills the workers of a side that Ray calls so; says how many."""
        killed = 0
        for one in Path("/proc").glob("[0-9]*"):
            try:
                title = (one / "cmdline").read_bytes().decode(errors="replace")
                if title.startswith(f"ray::{worker}") and self._of(int(one.name), self.running[name].pid):
                    os.kill(int(one.name), signal.SIGKILL)
                    killed += 1
            except (OSError, ProcessLookupError):
                continue
        return killed

    @staticmethod
    def _of(pid: int, ancestor: int) -> bool:
        while pid > 1:
            if pid == ancestor:
                return True
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return False

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


class Cut:
    """Passes connections on to a port, until they are cut."""

    def __init__(self, to: int) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.to, self.ends, self.times = to, [], 0
        threading.Thread(target=self._take, daemon=True).start()

    @property
    def address(self) -> str:
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def _take(self) -> None:
        while True:
            here, _ = self.listener.accept()
            try:
                there = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                here.close()
                continue
            for end in (here, there):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.ends += [here, there]
            self.times += 1
            for a, b in ((here, there), (there, here)):
                threading.Thread(target=self._pass, args=(a, b), daemon=True).start()

    @staticmethod
    def _pass(a: socket.socket, b: socket.socket) -> None:
        try:
            while piece := a.recv(1 << 16):
                b.sendall(piece)
        except OSError:
            pass
        for end in (a, b):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Cuts every connection that there is."""
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_two_clusters_with_a_worker_a_door_and_the_drivers_link_lost(place: Path, port: int) -> None:
    sides, link = Sides(place, port, 20_000, unit=128), Cut(port)
    # On a busy machine one side's cluster may start half a minute after the other's.
    sides.jobs["alice"]["mine"]["patience"] = sides.jobs["bob"]["mine"]["patience"] = "3m"
    sides.jobs["bob"]["mine"]["connect"] = {"alice": link.address}
    sides.start("alice")
    sides.start("bob")
    sides.wait(lambda: sides.finished("bob") >= 4)
    killed = sides.kill("bob", "dial"), sides.kill("alice", "Door")
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
    # What the object store and Ray's files hold says nothing of a key, and the secret is not among it.
    for side in (alice, bob):
        assert side["stands"]["mark"] >= 1 and side["stands"]["secret"] == 0 and side["stands"]["key"] == 0
    # Nothing of the run is left on the storage.
    assert not list(place.glob("*.storage/*"))


def plain(sides: Sides, name: str) -> tuple[threading.Thread, list[Any]]:
    """A plain run of a side, in this process."""
    done: list[Any] = []

    def run() -> None:
        try:
            done.append(vesica.run(sides.jobs[name], input=sides.tables[name]))
        except BaseException as error:
            done.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, done


@pytest.mark.parametrize("on_a_cluster", ["alice", "bob"])
def test_a_cluster_meets_a_plain_run(place: Path, port: int, on_a_cluster: str) -> None:
    sides = Sides(place, port, 5_000, learns=["alice", "bob"])
    other = "bob" if on_a_cluster == "alice" else "alice"
    sides.jobs[other]["mine"]["patience"] = sides.jobs[on_a_cluster]["mine"]["patience"] = "3m"
    thread, done = plain(sides, other)
    sides.start(on_a_cluster)
    sides.end(on_a_cluster)
    thread.join()
    if isinstance(done[0], BaseException):
        raise done[0]
    here = sides.out(on_a_cluster)
    pairs = [row.pop("pair") for row in here]
    # Where both learn, a row stands in the join as often as its key stands on the other side.
    assert {row["n"] for row in here} == {row["n"] for row in sides.expected(on_a_cluster)}
    assert sorted(row["id"] for row in here) == sorted(done[0].table.to_arrow()["id"].to_pylist())
    assert len({(pair, row["id"]) for pair, row in zip(pairs, here)}) == len(set(pairs))


long = pytest.mark.skipif("VESICA_LONG" not in os.environ, reason="takes minutes: set VESICA_LONG")


@long
@pytest.mark.parametrize("killed", ["alice", "bob"])
def test_a_driver_is_killed_and_started_again(place: Path, port: int, killed: str) -> None:
    sides = Sides(place, port, 100_000, unit=128, learns=["alice", "bob"])
    sides.keep("alice", "bob")
    for job in sides.jobs.values():
        job["mine"]["patience"] = "5m"
    sides.start("alice")
    sides.start("bob")
    sides.wait(lambda: sides.finished(killed) >= 100)
    sides.running[killed].kill()
    sides.running.pop(killed).wait()
    time.sleep(5)
    before, begun = sides.finished(killed), sides.finished(killed, "begun")
    sides.start(killed)
    again = sides.end(killed)
    sides.end("bob" if killed == "alice" else "alice")
    assert "shuffle" not in again["phases"], "what was shuffled before the driver was killed was shuffled again"
    # Begun again are those that were under way on either side, and no unit that was finished. The report adds the share of a salt, an eighth.
    missing, salt = again["units"] - before, -(-again["units"] // 8)
    assert before >= 100 and again["begun"] <= begun + missing + salt + 20, (again, before, begun)
    a, b = sides.out("alice"), sides.out("bob")
    assert {row["pair"]: row["id"] for row in a} == {row["pair"]: row["id"] for row in b}
    assert {row["n"] for row in a} == {row["n"] for row in sides.expected("alice")}


@long
def test_a_driver_that_is_killed_before_it_has_written_needs_nobody(place: Path, port: int) -> None:
    sides = Sides(place, port, 5_000)
    sides.keep("alice")
    sides.jobs["alice"]["mine"]["patience"], sides.jobs["bob"]["mine"]["patience"] = "10s", "3m"
    thread, done = plain(sides, "bob")
    sides.start("alice", dies=True)
    sides.running.pop("alice").wait(300)
    thread.join()
    assert done[0].outcome.matched is None and not sides.out_files("alice")
    # Bob is gone. All that alice needs stands in her files.
    sides.start("alice")
    alice = sides.end("alice")
    assert alice["version"] == "not met again" and alice["matched"] is not None
    assert sides.out("alice") == sides.expected("alice")
    assert not list(place.glob("alice.storage/*")) and not list(place.glob("alice.resume/*.ledger"))


@long
def test_a_dataset_is_matched_by_its_ids(place: Path, port: int) -> None:
    sides = Sides(place, port, 20_000)
    for job in sides.jobs.values():
        job["mine"]["patience"] = "3m"
    # Ids beyond what a signed number holds.
    for part in (place / "alice").glob("*.parquet"):
        table = pq.read_table(part)
        large = pa.array([2**63 + n for n in table["n"].to_pylist()], pa.uint64())
        pq.write_table(table.set_column(1, "n", large), part)
    sides.start("bob")
    sides.start("alice", ids="n")
    sides.end("bob"), sides.end("alice")
    assert sorted(row["n"] for row in sides.out("alice")) == sorted(2**63 + row["n"] for row in sides.expected("alice"))


def test_ids_that_are_not_unique_are_refused_before_anybody_is_met(place: Path, port: int) -> None:
    sides = Sides(place, port, 1_000)
    part = next((place / "alice").glob("*.parquet"))
    table = pq.read_table(part)
    # Three rows get the number of the first one, whatever their keys.
    numbers = table["n"].to_pylist()
    numbers[1] = numbers[100] = numbers[-1] = numbers[0]
    pq.write_table(table.set_column(1, "n", pa.array(numbers)), part)
    sides.start("alice", ids="n")
    assert sides.running["alice"].wait(300) == 1
    said = f"InputError: column 'n': {numbers[0]} stands in several rows, and 2 more rows repeat the number of another"
    assert said in (place / "alice.log").read_text()


def test_rows_stand_as_often_as_the_join_has_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vesica.ray import _rows

    monkeypatch.setattr(_rows, "SLICE", 7)
    table = pa.table({"id": [f"k{i}" for i in range(20)], "n": range(20)})
    pq.write_table(table, place / "t.parquet", row_group_size=6)
    times = {0: 3, 5: 1, 6: 20, 13: 0, 19: 2}
    first = 4 << _rows.ROW_BITS
    found = {"row": [first + row for row in times], "pair": [100 + row for row in times], "times": list(times.values())}
    found = pa.table(found, schema=pa.schema([(name, pa.uint64()) for name in found]))
    _rows.take_rows(str(place / "t.parquet"), [6, 6, 6, 2], found, ["n"], True, place / "out.parquet")
    expected = [{"n": row, "pair": 100 + row} for row, of in times.items() for _ in range(of)]
    assert pq.read_table(place / "out.parquet").to_pylist() == expected


def test_a_row_that_is_lost_before_it_is_written_is_missed() -> None:
    from vesica.ray import _drive

    source = SimpleNamespace(beside=lambda run: Path(run), discard=lambda run: None, write=lambda *args: 3)
    side = SimpleNamespace(folder=Path("none"), source=source, all_learn=False, _phase=lambda *args: nullcontext(), _work=lambda terms: None)
    terms = SimpleNamespace(order=lambda: list(range(8)))
    _drive._Run._write(side, terms, {0: 1, 7: 2})
    with pytest.raises(vesica.InternalError, match="4 rows were found, and 3 of them came"):
        _drive._Run._write(side, terms, {0: 2, 7: 2})


def test_ray_is_not_shown_which_units_have_a_match() -> None:
    from vesica.ray import _drive

    given: list[list[int]] = []

    def write(work: Any, units: list[int], *rest: Any) -> int:
        given.append(units)
        return 2 if units else 0

    source = SimpleNamespace(beside=lambda run: Path(run), discard=lambda run: None, write=write)
    side = SimpleNamespace(folder=Path("none"), source=source, all_learn=False, _phase=lambda *args: nullcontext(), _work=lambda terms: None)
    terms = SimpleNamespace(order=lambda: [5, 7, 0, 1, 3])
    _drive._Run._write(side, terms, {0: 0, 3: 2, 7: 0})
    # As after an end that failed. In another order the tasks would have other units, and sums of rows could be subtracted.
    _drive._Run._write(side, terms, {7: 0, 3: 2, 0: 0})
    _drive._Run._write(side, terms, {0: 0, 3: 0, 7: 0})
    assert given == [[7, 0, 3], [7, 0, 3], []]


class Listener:
    """Ray as who listens between two nodes has it: arguments and results of calls pass by."""

    def __init__(self) -> None:
        self.actors: dict[str, Any] = {}
        self.heard = b""

    def options(self, name: str, **more: Any) -> Any:
        def made() -> Any:
            self.actors[name] = self.original.__ray_metadata__.modified_class()
            return self.get_actor(name)

        return SimpleNamespace(remote=made)

    def get_actor(self, name: str) -> Any:
        listener, actor = self, self.actors[name]

        class Handle:
            def __getattr__(self, method: str) -> Any:
                return SimpleNamespace(remote=lambda *args: listener.passes(args, getattr(actor, method)(*args)))

        return Handle()

    def passes(self, args: Any, result: Any) -> Any:
        self.heard += pickle.dumps(args) + pickle.dumps(result)
        return result

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from vesica.ray import _keeper

        self.original = _keeper.Keeper
        context = SimpleNamespace(get_node_id=lambda: "ab" * 28)
        ray = SimpleNamespace(get=lambda value: value, get_actor=self.get_actor, get_runtime_context=lambda: context)
        monkeypatch.setattr(_keeper, "ray", ray)
        monkeypatch.setattr(_keeper, "Keeper", self)


def start_of(port: int, **shared: Any) -> Any:
    """The start of a run of alice's cluster, in this process. Bob's run ends when it has met her."""
    alice, bob = jobs(port, **shared)
    alice["mine"] |= {"lanes": 1, "input": {"path": "a.parquet", "keys": ["id"]}, "output": {"path": "b.parquet"}}
    meeting = vesica._core.Meeting(json.dumps(alice), True, bytes(32))
    thread, done = plain(SimpleNamespace(jobs={"bob": bob}, tables={"bob": pa.table({"id": ["a"]})}), "bob")
    start = meeting.meet([], 0)
    meeting.abort("input")
    thread.join()
    assert isinstance(done[0], vesica.PeerError)
    return start


def test_who_listens_to_the_keeper_has_no_secret(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper gave the secret in clear: whoever heard one answer opened the digests, the units and the key of the lanes."""
    from vesica.ray import _keeper

    start = start_of(port, limits={"max_keys": 100})
    secret, listener = bytes_of(start.secret), Listener()
    assert secret == bytes_of(start.secret) and len(set(secret)) > 8
    listener.install(monkeypatch)
    name, keeper = _keeper.keep(start)
    assert _keeper.start(name).run == start.run
    assert bytes_of(_keeper.start(name).secret) == secret, "the worker has it"
    # And who asks for what it hears has not what opens it.
    keeper.kit.remote(vesica._core.Recipient().public)
    assert start.to_bytes()[:16] in listener.heard and secret not in listener.heard
    sealed, handed = listener.actors[name].kit(vesica._core.Recipient().public)
    with pytest.raises(vesica.ConfigError, match="the secret of the run cannot be opened"):
        vesica._core.Recipient().open(name, handed)
    with pytest.raises(TypeError):
        pickle.dumps(start.secret)


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
    import vesica.ray
    from vesica.ray import _drive, _network

    nodes = [{"NodeID": "a", "Alive": True}, {"NodeID": "b", "Alive": False}]
    tls, killed, cancelled = [False], [], threading.Event()
    ray = SimpleNamespace(
        nodes=lambda: [dict(node) for node in nodes],
        get_runtime_context=lambda: SimpleNamespace(gcs_address="10.0.0.1:6379"),
        kill=killed.append,
    )
    for module in (_network, _drive):
        monkeypatch.setattr(module, "ray", SimpleNamespace(**vars(ray), exceptions=vesica.ray._drive.ray.exceptions))
    monkeypatch.setattr(_network, "has_tls", lambda address: tls[0])
    monkeypatch.setattr(_network, "LOOK", 60 if how == "in the last moment" else 0.01)
    pq.write_table(pa.table({"id": ["a"], "n": [1]}), place / "t.parquet")
    spec, _ = jobs(port)

    def run(accept: list[str]) -> Any:
        """A driver that does nothing but wait in a phase, in which a node joins."""
        side = object.__new__(_drive._Run)
        side.accept, side.over, side.folder, side.keeper, side.tell = accept, False, None, "keeper", lambda event: None
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
            return _drive._Run.run(side)
        finally:
            del nodes[2:]

    with pytest.raises(vesica.ConfigError, match="the 2 nodes that this cluster has had since the run began talk without TLS"):
        run([])
    assert killed.count("keeper") == 2, "once by the watch, and once in the end"
    assert run(["cluster_without_tls"]) == "matched"
    tls[0] = True
    assert run([]) == "matched"
    # While the job was read and its storage was tried: after the first look, and before the watch.
    tls[0] = False
    nodes.append({"NodeID": "c", "Alive": True})
    with pytest.raises(vesica.ConfigError, match="the 2 nodes of this cluster talk without TLS"):
        run([])


def test_a_cluster_of_two_nodes_is_refused_without_tls() -> None:
    code = """if True:
        import ray, vesica.ray
        from ray.cluster_utils import Cluster
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        ray.init(address=cluster.address, logging_level="error")
        def said(**more):
            try:
                vesica.ray.run({"mine": {}}, storage="none", **more)
            except vesica.ConfigError as error:
                return str(error)
        print([said(), cluster.add_node(num_cpus=1) and said(), said(accept=["cluster_without_tls"])])
        ray.shutdown()
        cluster.shutdown()"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-4000:]
    one, two, accepted = ast.literal_eval(ended.stdout.splitlines()[-1])
    # A job without a name is what is wrong with the others.
    assert one == accepted == "mine: missing field `name`" and two.startswith("the 2 nodes of this cluster talk without TLS: ")


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


class FakeLane:
    """A lane of three units whose matching is a function of this test."""

    def __init__(self, match: Callable[[int], bytes]) -> None:
        self.match, self.said = match, []

    def missing(self, done: list[int]) -> tuple[list[int], list[int]]:
        return [0, 1, 2], []

    def match_unit(self, unit: int, blob: bytes | None, turn: int) -> bytes:
        return self.match(unit)

    def cancel(self) -> None:
        self.said.append("cancel")

    def close(self) -> str:
        self.said.append("close")
        return "{}"


def lane_work(place: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The work of a lane in a folder, without a cluster."""
    from vesica.ray import _lanes, _rows

    for inner in ("found", "begun"):
        (place / inner).mkdir()
    (place / "index").write_bytes(_rows.Units({}, 0, (0, 0), 0).to_json())
    keeper = SimpleNamespace(add=SimpleNamespace(remote=lambda: None))
    monkeypatch.setattr(_lanes, "ray", SimpleNamespace(get_actor=lambda name: keeper))
    monkeypatch.setattr(_lanes, "_counter", lambda: SimpleNamespace(inc=lambda n: None))
    return _lanes.Work("keeper", place, b"", _lanes.attempt(place))


def test_what_the_other_side_did_wrong_is_told_where_its_link_breaks_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It broke the link when it was found out, and was taken for a bad line, up to five times."""
    from vesica.ray import _lanes

    work, broke = lane_work(place, monkeypatch), threading.Event()

    def match(unit: int) -> bytes:
        if unit == 0:
            broke.set()
            raise vesica.NetworkError("the link broke")
        assert broke.wait(60)
        time.sleep(0.2)  # so that who waits for the first error has it
        raise vesica.PeerError("bob broke the protocol")

    with pytest.raises(vesica.PeerError, match="bob broke the protocol"):
        _lanes.run_lane(FakeLane(match), work, SimpleNamespace(in_lane=2, units=3))
    peer, link, stopped = vesica.PeerError("p"), vesica.NetworkError("n"), vesica.Stopped("s")
    assert _lanes.grave([link, None, stopped, peer]) is peer and _lanes.grave([link, stopped]) is stopped
    assert _lanes.grave([None, link]) is link and _lanes.grave([None]) is None


def test_a_door_tells_what_the_other_side_did_wrong_while_that_keeps_another_lane(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The door waited for its other lanes, and so for as long as the other side liked."""
    from vesica.ray import _lanes

    class FakeDoor:
        def __init__(self, terms: Any, listen: str, seats: int) -> None:
            self.lanes, self.ended = iter(["cheats", "is kept"]), threading.Event()

        def next(self) -> str | None:
            return next(self.lanes, None)

        def stop(self) -> None:
            pass

        def cancel(self) -> None:
            self.ended.set()

    def lane(lane: str, work: Any, terms: Any) -> str:
        if lane == "cheats":
            raise vesica.PeerError("bob broke the protocol")
        ended.append(door._door.ended.wait(30))
        raise vesica.Stopped("the run was stopped")

    ended: list[bool] = []
    monkeypatch.setattr(_lanes, "_core", SimpleNamespace(Door=FakeDoor))
    monkeypatch.setattr(_lanes, "run_lane", lane)
    door = _lanes.Door.__ray_metadata__.modified_class()
    with pytest.raises(vesica.PeerError, match="bob broke the protocol"):
        door.serve(SimpleNamespace(opened=lambda: None), "here:1", 2)
    assert ended == [True], "the other lane was ended here, and not when the other side liked"


@pytest.mark.parametrize("finished", [None, vesica.NetworkError("the link broke")])
def test_all_doors_are_looked_at(finished: Exception | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side had the units of a lane in which it had cheated done again at another door, and then said that all lanes were done, or broke
    the link: what the first door had to say was not asked for."""
    from vesica.ray import _drive

    exceptions, told = _drive.ray.exceptions, []

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

    monkeypatch.setattr(_drive, "ray", SimpleNamespace(get=get, wait=wait, exceptions=exceptions))

    def door(name: str) -> Any:
        return SimpleNamespace(
            serve=SimpleNamespace(remote=lambda *args: name), stop=SimpleNamespace(remote=lambda **more: told.append(name))
        )

    def finish() -> None:
        if finished is not None:
            raise finished

    side = SimpleNamespace(_work=lambda terms: None, meeting=SimpleNamespace(finished=finish), _step=lambda: 0)
    with pytest.raises(vesica.PeerError, match="bob broke the protocol"):
        _drive._Run._listen(side, None, [door("honest"), door("cheated")], ["a", "b"], 1)
    assert told == ["honest", "cheated"]


class Counted:
    """A file that counts what is read of it."""

    def __init__(self, path: Any) -> None:
        self.file, self.bytes = open(path, "rb"), 0

    def read(self, size: int = -1) -> bytes:
        piece = self.file.read(size)
        self.bytes += len(piece)
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_what_is_read_before_a_units_first_message_rests_on_its_keys_alone(
    place: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit had all rows of its keys, and one with a key of very many rows was read, opened and sealed for longer: after some runs with other
    salts the other side knew the key."""
    from vesica.ray import _keeper, _rows

    run = start_of(port, limits={"max_keys": 8_000}, unit=1000)
    monkeypatch.setattr(_keeper, "start", lambda name: run)

    def packed(name: str, of_key: Callable[[int], int]) -> _rows.Units:
        # What Ray does: the rows of a unit together, and a unit a row group.
        keys = [f"key {key}" for key in range(4000) for _ in range(of_key(key))]
        cut = _rows.cut("run", pa.table({"id": keys}), 0)
        units = [_rows._pack("run")(cut.filter(pa.compute.equal(cut["unit"], unit))) for unit in cut["unit"].unique()]
        folder = place / name
        folder.mkdir()
        table = pa.concat_tables(units).sort_by("unit")
        pq.write_table(table, folder / "0.parquet", **_rows.PARQUET)
        index = place / f"{name}.index"
        index.write_bytes(_rows.Units.index(folder).to_json())
        return _rows.Units.read(index)

    def read(load: Callable[[], list[bytes | None]]) -> list[int]:
        counted: list[Counted] = []

        class File(pq.ParquetFile):
            def __init__(self, path: str) -> None:
                counted.append(Counted(path))
                super().__init__(counted[-1])

        with monkeypatch.context() as patch:
            patch.setattr(_rows.pq, "ParquetFile", File)
            loaded = load()
        for one in counted:
            one.file.close()
        assert len(loaded) == run.units and all(loaded)
        assert sum(one.bytes for one in counted) >= sum(len(piece or b"") for piece in loaded)
        return [one.bytes for one in counted]

    tables = {
        "alone": packed("alone", lambda key: 1),
        "heavy": packed("heavy", lambda key: 20_001 if key == 17 else 1),
        "alike": packed("alike", lambda key: 11 if key < 2000 else 1),
    }
    keys = {name: [len(units.load(unit) or b"") for unit in range(run.units)] for name, units in tables.items()}
    assert keys["alone"] == keys["heavy"] == keys["alike"] and len(set(keys["alone"])) > 1
    before = {name: read(lambda: [units.load(unit) for unit in range(run.units)]) for name, units in tables.items()}
    assert len(before["alone"]) == run.units and before["alone"] == before["heavy"] == before["alike"]
    rows = {name: read(lambda: list(units.rows(range(run.units)))) for name, units in tables.items()}
    assert rows["heavy"][0] - rows["alone"][0] >= 8 * 20_000, "and the rows wait until the units are joined"
    assert [len(opened) for opened in rows.values()] == [1, 1, 1], "the units of a file are read from it by one opening"
    assert list(tables["alone"].rows([run.units])) == [None]


def test_a_lane_is_given_no_row_numbers(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rows a key has must not be read where the other side waits."""
    from vesica.ray import _lanes

    class FakeUnits:
        def load(self, unit: int) -> bytes:
            return b"keys %d" % unit

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"a lane asked packed units for {name}")

    work, given = lane_work(place, monkeypatch), []
    monkeypatch.setattr(_lanes, "Units", SimpleNamespace(read=lambda path: FakeUnits()))
    lane = FakeLane(lambda unit: b"found")
    lane.match_unit = lambda unit, blob, turn: (given.append(blob), b"found")[1]
    _lanes.run_lane(lane, work, SimpleNamespace(in_lane=1, units=3))
    assert given == [b"keys 0", b"keys 1", b"keys 2"] and _lanes.finished(place) == [0, 1, 2]


def test_packed_units_are_on_the_disk_before_their_index(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows in them are read first when the other side is gone, and a machine that lost its power had an index of files without bytes."""
    from vesica.ray import _drive, _storage

    synced: list[str] = []
    monkeypatch.setattr(_storage.os, "fsync", lambda handle: synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name))
    empty = {name: pa.array([], kind) for name, kind in {"unit": pa.uint32(), "keys": pa.uint64(), "given": pa.uint64()}.items()}

    def shuffle(rows: Any, run: str, count: int, folder: Path) -> None:
        for name in ("a", "b"):
            pq.write_table(pa.table(empty), folder / f"{name}.parquet")

    monkeypatch.setattr(_drive._rows, "shuffle", shuffle)
    monkeypatch.setattr(_drive, "ray", SimpleNamespace(get=lambda counted: counted))
    keeper = SimpleNamespace(counted=SimpleNamespace(remote=lambda: (3, 0)))
    source = SimpleNamespace(rows=lambda: 3, cut=lambda run: [])
    side = SimpleNamespace(folder=place, name="run", source=source, keeper=keeper, _phase=lambda *args: nullcontext())
    assert _drive._Run._units(side).given == 0
    (packed,) = place.glob("units-*")
    before = synced[: next(at for at, name in enumerate(synced) if name.startswith(".index."))]
    assert before == ["a.parquet", "b.parquet", packed.name] and synced[-1] == place.name


def test_an_index_of_another_version_is_refused(place: Path) -> None:
    """It was refused when the other side had been met, and the error named a file within the folder that is to be removed."""
    from vesica.ray import _drive, _rows

    folder = place / "a-run"
    folder.mkdir()
    (folder / "index").write_bytes(b"[[[0, [\"units/0.parquet\", 0]]], 7, [0, 7], 9]")
    met: list[Any] = []
    meeting = SimpleNamespace(run=lambda: "a-run", meet=lambda *said: met.append(said))
    side = object.__new__(_drive._Run)
    side.meeting, side.storage, side.folder = meeting, place, None
    with pytest.raises(vesica.ConfigError, match=f"{folder}: was left by a run of another version of Vesica, .*remove this folder.*mine.resume"):
        side._meet()
    assert not met
    (folder / "index").write_bytes(_rows.Units({}, 0, (0, 0), 0).to_json())
    side._meet()
    assert met == [([], None)]


def test_the_next_unit_does_not_wait_for_the_file_of_the_last(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side saw from when a unit began how long the file of the unit before it had taken, and so how much had matched."""
    from vesica.ray import _lanes, _storage

    work, began, put = lane_work(place, monkeypatch), threading.Event(), _storage.put
    lane = FakeLane(lambda unit: (began.set() if unit == 1 else None, b"found")[1])

    def slow(path: Path, data: bytes) -> bool:
        if path.name == "unit-0" and data:
            assert began.wait(60), "unit 1 waits for the file of unit 0"
        assert not lane.said, "the lane was closed before its files were there"
        return put(path, data)

    monkeypatch.setattr(_storage, "put", slow)
    _lanes.run_lane(lane, work, SimpleNamespace(in_lane=1, units=3))
    assert lane.said == ["close"] and _lanes.finished(place) == [0, 1, 2]


def test_a_file_that_cannot_be_written_ends_its_lane(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vesica.ray import _lanes, _storage

    work, put = lane_work(place, monkeypatch), _storage.put

    def full(path: Path, data: bytes) -> bool:
        if path.name == "unit-2" and data:
            raise vesica.ConfigError("the disk is full")
        return put(path, data)

    monkeypatch.setattr(_storage, "put", full)
    lane = FakeLane(lambda unit: b"found")
    with pytest.raises(vesica.ConfigError, match="the disk is full"):
        _lanes.run_lane(lane, work, SimpleNamespace(in_lane=1, units=3))
    assert set(lane.said) == {"cancel"} and _lanes.finished(place) == [0, 1]


def test_a_lane_that_outlives_its_attempt_begins_nothing_that_nobody_counts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side kept a lane open over the break of the drivers' link, and had units answered that the next run did not know of."""
    from vesica.ray import _lanes

    old = lane_work(place, monkeypatch)
    # Three units: what is begun again has a number behind theirs.
    assert [_lanes._begin(old, unit, 3) for unit in (0, 0)] == [0, 3]
    assert _lanes.begun(place) == 2
    lane = FakeLane(lambda unit: b"found")
    with pytest.raises(vesica.Stopped, match="this attempt of the run is over"):
        _lanes.run_lane(lane, old, SimpleNamespace(in_lane=1, units=3))
    assert set(lane.said) == {"cancel"} and _lanes.finished(place) == []
    new = _lanes.Work("keeper", place, b"", _lanes.attempt(place))
    _lanes.run_lane(FakeLane(lambda unit: b"found"), new, SimpleNamespace(in_lane=1, units=3))
    # Two that were answered, one that was not, three more.
    assert _lanes.begun(place) == 6 and _lanes.attempt(place) == 2


def test_what_is_allowed_is_common_to_all_units(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each unit had a share of it, and a unit whose lane broke three times ended a run whose other units had theirs left."""
    from vesica.ray import _lanes

    work = lane_work(place, monkeypatch)
    assert [_lanes._begin(work, unit, 3) for unit in (2, 2, 0, 2, 2)] == [2, 3, 0, 4, 5]
    # Whoever comes at the same moment gets the next number, and unit 1 still has its own.
    gone, names = [], _lanes._storage.names
    monkeypatch.setattr(_lanes._storage, "names", lambda folder: gone or names(folder))
    gone.append("again-3")
    assert _lanes._begin(work, 0, 3) == 6 and _lanes._begin(work, 1, 3) == 1
    gone.clear()
    assert _lanes.begun(place) == 7


def test_rows_that_are_not_in_their_place_are_nobody_elses_and_do_not_stay(
    place: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed end the joined rows stood beside the output, for every user of the machine."""
    from vesica.ray import _drive, _rows

    pq.write_table(pa.table({"id": ["a"], "n": [1]}), place / "t.parquet")
    spec, _ = jobs(port)
    source = _drive._Files(_rows.files(place / "t.parquet"), spec, place / "out")

    def write() -> Path:
        beside = source.beside("a-run")
        source.write(None, [], beside, False)
        assert beside.stat().st_mode & 0o777 == 0o700 and list(beside.iterdir())
        return beside

    def fails(start: Any) -> Any:
        write()
        raise vesica.PeerError("bob found another result")

    meeting = SimpleNamespace(abort=lambda fault: None, cancel=lambda: None)
    watch = SimpleNamespace(told=lambda: None)
    side = SimpleNamespace(_meet=lambda: None, _rest=fails, meeting=meeting, folder=place / "a-run", source=source, keeper=None, watch=watch)
    with pytest.raises(vesica.PeerError):
        _drive._Run._run(side)
    assert not source.beside("a-run").exists() and not source.output.exists()

    beside, usual = write(), place / "usual"
    usual.mkdir()
    monkeypatch.setattr(_drive, "ray", SimpleNamespace(data=SimpleNamespace(read_parquet=str)))
    assert source.commit(beside) == str(place / "out")
    assert source.output.stat().st_mode == usual.stat().st_mode and len(list(source.output.iterdir())) == 1


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
def test_ten_million_rows(place: Path, port: int) -> None:
    rows = int(os.environ.get("VESICA_RAY_ROWS", "10000000"))
    sides = Sides(place, port, rows, files=8)
    for job in sides.jobs.values():
        job["mine"]["patience"] = "30m"
    sides.start("alice", store=1 << 30)
    sides.start("bob", store=1 << 30)
    alice = sides.end("alice", 3600)
    sides.end("bob", 600)
    print(json.dumps(alice))
    assert sides.out("alice") == sides.expected("alice")
