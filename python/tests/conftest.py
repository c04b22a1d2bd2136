"""Two parties on this machine."""

from __future__ import annotations

import contextlib
import ctypes
import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import vesica


@pytest.fixture
def port() -> int:
    """A port that is free, below those that the system gives to others meanwhile."""
    for number in range(20400, 30000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", number + _taken.setdefault("next", 0)))
            except OSError:
                continue
            _taken["next"] += 1
            return probe.getsockname()[1]
    raise RuntimeError("no port is free")


_taken: dict[str, int] = {}


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a folder in a bucket of S3, for this process and those that it starts."""
    pytest.importorskip("obstore")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    from vesica._cluster import storage

    server.start()
    try:
        address = "http://127.0.0.1:%d" % server.get_host_and_port()[1]
        told = {"ENDPOINT": address, "ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "REGION": "us-east-1", "ALLOW_HTTP": "true"}
        for name, value in told.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        # What a server before this one held is there still.
        for method, path in (("POST", "moto-api/reset"), ("PUT", "bucket")):
            urllib.request.urlopen(urllib.request.Request(f"{address}/{path}", method=method)).read()
        storage.opened.cache_clear()
        yield "s3://bucket/vesica"
    finally:
        storage.opened.cache_clear()
        server.stop()


def jobs(port: int, *, keys: tuple[str, str] = ("id", "id"), **shared: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """alice's job and bob's."""
    both = {"id": "a-test", "parties": ["alice", "bob"], "protocol": "rr22", "learns": ["alice"], "insecure": True, **shared}
    alice = {"name": "alice", "listen": f"127.0.0.1:{port}", "input": {"keys": [keys[0]]}, "patience": "20s"}
    bob = {"name": "bob", "connect": {"alice": f"127.0.0.1:{port}"}, "input": {"keys": [keys[1]]}, "patience": "20s"}
    return {"shared": both, "mine": alice}, {"shared": both, "mine": bob}


def bytes_of(secret: Any) -> bytes:
    """What a secret is: it says it to nobody, so it is read where it stands, behind what every object begins with."""
    return ctypes.string_at(id(secret) + object.__basicsize__, 32)


def both(port: int, a: Any, b: Any, **options: Any) -> tuple[vesica.Report, vesica.Report]:
    """Runs both sides; gives both reports."""
    alice, bob = jobs(port, **options)
    other: list[Any] = []

    def second() -> None:
        try:
            other.append(vesica.run(bob, input=b))
        except BaseException as error:
            other.append(error)

    thread = threading.Thread(target=second)
    thread.start()
    try:
        first = vesica.run(alice, input=a)
    finally:
        thread.join()
    if isinstance(other[0], BaseException):
        raise other[0]
    return first, other[0]


def plain(sides: Any, name: str) -> tuple[threading.Thread, list[Any]]:
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


def start_of(port: int, **shared: Any) -> Any:
    """The start of a run of alice's cluster, in this process. Bob's run ends when it has met her."""
    import pyarrow

    alice, bob = jobs(port, **shared)
    alice["mine"] |= {"lanes": 1, "input": {"path": "a.parquet", "keys": ["id"]}, "output": {"path": "b.parquet"}}
    meeting = vesica._core.Meeting(json.dumps(alice), True, bytes(32))
    thread, done = plain(SimpleNamespace(jobs={"bob": bob}, tables={"bob": pyarrow.table({"id": ["a"]})}), "bob")
    start = meeting.meet([], 0)
    meeting.abort("input")
    thread.join()
    assert isinstance(done[0], vesica.PeerError)
    return start


class Relay:
    """Passes connections on to a port, until they are cut."""

    def __init__(self, to: int) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.to, self.ends, self.times = to, [], 0
        #: Callers that have not closed their connection.
        self.callers: set[socket.socket] = set()
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
            self.callers.add(here)
            self.times += 1
            for a, b in ((here, there), (there, here)):
                threading.Thread(target=self._pass, args=(a, b), daemon=True).start()

    def _pass(self, a: socket.socket, b: socket.socket) -> None:
        # A connection that was reset has ended, too.
        with contextlib.suppress(OSError):
            while piece := a.recv(1 << 16):
                # If the other end is gone, this one hears of it on the way back.
                with contextlib.suppress(OSError):
                    b.sendall(piece)
        self.callers.discard(a)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """Cuts every connection that there is."""
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def descends(pid: int, ancestor: int) -> bool:
    """Whether a process is another one, or was started by it or by its children."""
    while pid > 1:
        if pid == ancestor:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False
