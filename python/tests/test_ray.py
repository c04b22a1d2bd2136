"""Two organisations with a cluster each, on this machine. The rows must be those of a plain run, whatever is killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
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
from conftest import jobs  # noqa: E402

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
        return len(list((self.place / f"{name}.storage").glob(f"*/{what}/unit-*")))

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

    source = SimpleNamespace(beside=lambda run: Path(run), write=lambda *args: 3)
    side = SimpleNamespace(folder=Path("none"), source=source, all_learn=False, _phase=lambda *args: nullcontext(), _work=lambda terms: None)
    _drive._Run._write(side, None, {0: 1, 7: 2})
    with pytest.raises(vesica.InternalError, match="4 rows were found, and 3 of them came"):
        _drive._Run._write(side, None, {0: 2, 7: 2})


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
