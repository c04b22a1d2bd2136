"""Two organisations with a cluster each, on this machine. The rows must be those of a plain run, whatever is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
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

    def keep(self) -> None:
        """Has both sides keep what a killed driver left."""
        for name, job in self.jobs.items():
            job["mine"] |= {"resume": str(self.place / f"{name}.resume"), "resume_key": str(self.place / f"{name}.key")}

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

    def finished(self, name: str) -> int:
        """How many units are finished on a side."""
        return len(list((self.place / f"{name}.storage").glob("*/found/unit-*")))

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

    def out(self, name: str) -> list[dict[str, Any]]:
        """The rows of a side's output, file by file."""
        parts = sorted((self.place / f"{name}.out").glob("*.parquet"))
        return pa.concat_tables(pq.read_table(part) for part in parts).to_pylist()

    def expected(self, name: str) -> list[dict[str, Any]]:
        """The rows that a join of both tables gives a side, in the order of its table."""
        other = {"alice": "bob", "bob": "alice"}[name]
        there = set(self.tables[other]["id"].drop_null().to_pylist())
        return [row for row in self.tables[name].to_pylist() if row["id"] in there]


def test_two_clusters_with_a_worker_and_a_door_killed(place: Path, port: int) -> None:
    sides = Sides(place, port, 20_000, unit=128)
    sides.start("alice")
    sides.start("bob")
    sides.wait(lambda: sides.finished("bob") >= 4)
    killed = sides.kill("bob", "dial"), sides.kill("alice", "Door")
    alice, bob = sides.end("alice"), sides.end("bob")
    assert sides.out("alice") == sides.expected("alice")
    assert alice["rows"] == len(sides.expected("alice")) and bob["rows"] is None and bob["matched"] is None
    assert killed[0] >= 1 and killed[1] == 1, "nothing was killed: the tables are too small for this machine"
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
    sides.keep()
    for job in sides.jobs.values():
        job["mine"]["patience"] = "5m"
    sides.start("alice")
    sides.start("bob")
    sides.wait(lambda: sides.finished(killed) >= 8)
    sides.running[killed].kill()
    sides.running.pop(killed).wait()
    before = sides.finished(killed)
    time.sleep(5)
    sides.start(killed)
    again = sides.end(killed)
    sides.end("bob" if killed == "alice" else "alice")
    assert before >= 8 and "shuffle" not in again["phases"], "what was shuffled before the driver was killed was shuffled again"
    a, b = sides.out("alice"), sides.out("bob")
    assert {row["pair"]: row["id"] for row in a} == {row["pair"]: row["id"] for row in b}
    assert {row["n"] for row in a} == {row["n"] for row in sides.expected("alice")}


@long
def test_a_dataset_is_matched_by_its_ids(place: Path, port: int) -> None:
    sides = Sides(place, port, 20_000)
    sides.start("bob")
    sides.start("alice", ids="n")
    sides.end("bob"), sides.end("alice")
    assert sorted(row["n"] for row in sides.out("alice")) == sorted(row["n"] for row in sides.expected("alice"))


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
