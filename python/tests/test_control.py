"""Errors by fault, progress, Ctrl-C, and an interpreter that is free."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
import vesica
from conftest import both, jobs

T = pa.table({"id": ["a", "b"]})


def test_config(port: int) -> None:
    alice, _ = jobs(port)
    alice["shared"]["protcol"] = "ecdh"
    with pytest.raises(vesica.ConfigError, match="protcol") as caught:
        vesica.run(alice, input=T)
    assert "did you mean `protocol`" in caught.value.remedy and caught.value.exit_code == 2


def test_a_wrong_field_is_named(port: int) -> None:
    with pytest.raises(vesica.ConfigError, match='rules: invalid type: string "email", expected a sequence'):
        vesica.intersect(T, T, on="id", rules="email")
    alice, _ = jobs(port)
    with pytest.raises(vesica.ConfigError, match="mine.input names no table: give it with input="):
        vesica.run(alice)


def test_a_job_file_that_is_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "j.toml").write_text('[shared]\nid = "x"\nnope = 1\n')
    with pytest.raises(vesica.ConfigError, match=r"j\.toml:3:1"):
        vesica.run(tmp_path / "j.toml")


def test_a_column_that_is_not_there(port: int) -> None:
    alice, _ = jobs(port, keys=("ID", "id"))
    with pytest.raises(vesica.ConfigError, match='the table given as input.*"ID"'):
        vesica.run(alice, input=T)


def test_input(tmp_path: Path, port: int) -> None:
    (tmp_path / "bad.csv").write_text("id,x\n1\n")
    alice, _ = jobs(port)
    alice["mine"]["input"]["path"] = tmp_path / "bad.csv"
    with pytest.raises(vesica.InputError, match="row 1"):
        vesica.check(alice)


def test_network(port: int) -> None:
    alice, _ = jobs(port)
    alice["mine"]["patience"] = "1s"
    with pytest.raises(vesica.NetworkError, match="bob did not come") as caught:
        vesica.run(alice, input=T)
    assert caught.value.fault == "network"


def test_another_job(port: int) -> None:
    alice, bob = jobs(port)
    bob["shared"] = {**bob["shared"], "duplicates": "first"}
    caught: list[BaseException] = []

    def other() -> None:
        try:
            vesica.run(bob, input=T)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(vesica.VesicaError, match="duplicates"):
        vesica.run(alice, input=T)
    thread.join()
    assert isinstance(caught[0], vesica.VesicaError) and "duplicates" in str(caught[0])


def test_a_table_in_memory_cannot_be_resumed(port: int, tmp_path: Path) -> None:
    alice, _ = jobs(port)
    alice["mine"]["resume"] = tmp_path / "kept"
    with pytest.raises(vesica.ConfigError, match="mine.resume: a table in memory"):
        vesica.run(alice, input=T)


def test_exceptions_are_a_family() -> None:
    family = {vesica.ConfigError: 2, vesica.InputError: 3, vesica.NetworkError: 4, vesica.PeerError: 5, vesica.InternalError: 70}
    for kind, code in family.items():
        assert issubclass(kind, vesica.VesicaError) and kind("x: it is so; do this").exit_code == code
        assert kind("x: it is so; do this").remedy == "do this"


def test_progress_tells_phases_and_draws(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[dict] = []
    vesica.intersect(T, T, on="id", progress=events.append)
    names = [event["name"] for event in events if event["event"] == "phase"]
    assert names.index("read") < names.index("match") and {event["event"] for event in events} >= {"phase", "phase_end"}
    vesica.intersect(T, T, on="id", progress=True)
    assert "match: " in capsys.readouterr().err
    with pytest.raises(TypeError, match="progress"):
        vesica.intersect(T, T, on="id", progress="yes")  # type: ignore[arg-type]


def test_an_exception_of_the_callers_ends_the_run() -> None:
    def fails(_: dict) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        vesica.intersect(T, T, on="id", progress=fails)


def test_ctrl_c_while_waiting(port: int) -> None:
    code = f"""
import pyarrow, sys, vesica
sys.path.insert(0, {str(Path(__file__).parent)!r})
from conftest import jobs
print("begins", flush=True)
try:
    vesica.run(jobs({port})[0], input=pyarrow.table({{"id": ["a"]}}), progress=lambda event: print(event, flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "waiting for bob" in line:
            break
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    rest, _ = process.communicate(timeout=30)
    assert rest.strip().endswith("interrupted") and process.returncode == 0 and time.monotonic() - start < 10


def test_the_interpreter_is_free(port: int) -> None:
    alice, _ = jobs(port)
    alice["mine"]["patience"] = "1s"
    turns, over = 0, threading.Event()

    def wait() -> None:
        with pytest.raises(vesica.NetworkError):
            vesica.run(alice, input=T)
        over.set()

    thread = threading.Thread(target=wait)
    thread.start()
    while not over.is_set():
        turns += 1
        time.sleep(0.005)
    thread.join()
    assert turns > 20


def test_a_task_that_is_cancelled_stops_its_run(port: int) -> None:
    async def main() -> float:
        task = asyncio.create_task(vesica.run_async(jobs(port)[0], input=T))
        await asyncio.sleep(0.3)
        task.cancel()
        start = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - start

    assert asyncio.run(main()) < 5


def test_nothing_is_left_open(port: int) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("only where /proc lists open files")
    both(port, T, T)
    vesica.intersect(T, T, on="id")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        vesica.intersect(T, T, on="id")
    end = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < end:
        time.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_ctrl_c_while_a_table_is_read() -> None:
    code = """
import pyarrow as pa, vesica
def endless():
    print("reading", flush=True)
    while True:
        yield pa.record_batch({"id": ["a"]})
table = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.string()}), endless())
try:
    vesica.intersect(table, pa.table({"id": ["a"]}), on="id")
except KeyboardInterrupt:
    print("stopped")
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stdout.readline() == "reading\n"
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=60)[0] == "stopped\n"
