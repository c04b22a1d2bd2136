"""Two parties on this machine."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import hashlib
import hmac
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import vesica


@pytest.fixture
def port() -> int:
    """A port that is free, below those that the system gives to others meanwhile, and not one of those that other tests at the same time begin with."""
    for number in range(20400 + os.getpid() % 90 * 100, 30000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", number + _taken.setdefault("next", 0)))
            except OSError:
                continue
            _taken["next"] += 1
            return probe.getsockname()[1]
    raise RuntimeError("no port is free")


_taken: dict[str, int] = {}


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What a process has in its environment that is to reach a server of S3, as such or as one of Google's; nothing where there is no such server."""
    try:
        import obstore  # noqa: F401
        from moto.server import ThreadedMotoServer
    except ImportError:
        yield {}
        return
    server = ThreadedMotoServer(port=0)
    server.start()
    server._server.app = _google(server._server.app)
    try:
        address = "http://127.0.0.1:%d" % server.get_host_and_port()[1]
        told = {"ENDPOINT": address, "ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "REGION": "us-east-1", "ALLOW_HTTP": "true"}
        key = tmp_path_factory.mktemp("google") / "key.json"
        key.write_text(json.dumps({"gcs_base_url": address, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}))
        google = {"GOOGLE_SERVICE_ACCOUNT": str(key), "GOOGLE_ALLOW_HTTP": "true"}
        yield {f"AWS_{name}": value for name, value in told.items()} | google
    finally:
        server.stop()


def _google(app: Callable[..., Any]) -> Callable[..., Any]:
    """A server of S3 that knows what a client of Google's sends in another way: who it is, and the condition that there is no object of a name. The
    rest of these requests are the same. Unlike S3, Google says so if an object is not there that is to be removed."""

    def asked(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        if environ.get("HTTP_USER_AGENT", "").startswith("object_store") and not environ.get("HTTP_AUTHORIZATION", "").startswith("AWS4"):
            environ["HTTP_AUTHORIZATION"] = "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
            if environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH") == "0":
                environ["HTTP_IF_NONE_MATCH"] = "*"
            if environ["REQUEST_METHOD"] == "DELETE":
                said: list[str] = []
                list(app({**environ, "REQUEST_METHOD": "HEAD"}, lambda status, *more: said.append(status)))
                if said[0].startswith("404"):
                    start(said[0], [("Content-Length", "0")])
                    return []
        return app(environ, start)

    return asked


@contextlib.contextmanager
def _reached(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An object store is reached by this process, and by those that it starts."""
    from vesica._cluster import storage

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    storage.opened.cache_clear()
    try:
        yield
    finally:
        storage.opened.cache_clear()


@pytest.fixture
def bucket(objects: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a folder in a bucket of S3, for this process and those that it starts."""
    pytest.importorskip("obstore")
    pytest.importorskip("moto.server")
    # What a test before this one has put is there still.
    for method, path in (("POST", "moto-api/reset"), ("PUT", "bucket")):
        urllib.request.urlopen(urllib.request.Request(f"{objects['AWS_ENDPOINT']}/{path}", method=method)).read()
    with _reached(objects, monkeypatch):
        yield "s3://bucket/vesica"


@pytest.fixture
def google(bucket: str) -> str:
    """The same one, asked as Google's are."""
    return bucket.replace("s3://", "gs://")


#: The account that Azure's emulator has, and its key, which its manual names.
AZURITE = ("devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")


@pytest.fixture(scope="session")
def azurite() -> Iterator[dict[str, str]]:
    """What a process has in its environment that is to reach Azure's emulator, which has a container; nothing where there is none."""
    program = shutil.which("azurite-blob")
    if program is None:
        yield {}
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    how = ["--disableTelemetry", "--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--blobPort", str(port)]
    with subprocess.Popen([program, *how], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            address = f"http://127.0.0.1:{port}/{AZURITE[0]}"
            until = time.monotonic() + 60
            while not _container(f"{address}/bucket"):
                assert server.poll() is None and time.monotonic() < until
                time.sleep(0.1)
            yield {
                "AZURE_STORAGE_ACCOUNT_NAME": AZURITE[0],
                "AZURE_STORAGE_ACCOUNT_KEY": AZURITE[1],
                "AZURE_STORAGE_ENDPOINT": address,
                "AZURE_ALLOW_HTTP": "true",
            }
        finally:
            server.terminate()


def _container(address: str) -> bool:
    """Makes a container, which obstore cannot do; says whether the emulator answers yet."""
    signed = {"sv": "2020-08-04", "ss": "b", "srt": "sco", "sp": "rwdlac", "se": "2099-01-01T00:00:00Z"}
    text = "\n".join([AZURITE[0], signed["sp"], signed["ss"], signed["srt"], "", signed["se"], "", "", signed["sv"], ""])
    signature = hmac.new(base64.b64decode(AZURITE[1]), text.encode(), hashlib.sha256).digest()
    query = urllib.parse.urlencode({"restype": "container", **signed, "sig": base64.b64encode(signature).decode()})
    try:
        urllib.request.urlopen(urllib.request.Request(f"{address}?{query}", data=b"", method="PUT")).read()
    except urllib.error.HTTPError:
        raise
    except OSError:
        return False
    return True


@pytest.fixture
def azure(azurite: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a folder in a container of Azure's emulator, which nothing is in."""
    pytest.importorskip("obstore")
    if not azurite:
        pytest.skip("there is no azurite-blob: npm install -g azurite")
    with _reached(azurite, monkeypatch):
        yield f"az://bucket/{os.urandom(4).hex()}"


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


class Side:
    """A process that has a cluster, and does one call after the other on it: a line of JSON each way."""

    def __init__(self, program: str, place: Path, name: str, setup: dict[str, Any], variables: dict[str, str]) -> None:
        self._log, self._from = place / f"{name}.log", 0
        with open(self._log, "a") as log:
            self.process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name(program), json.dumps(setup)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **variables},
            )
        self._answers: queue.Queue[str | None] = queue.Queue()
        #: Whether a call has no answer yet that somebody has taken.
        self.busy = False
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def call(self, **call: Any) -> None:
        """Begins a call."""
        self.busy, self._from = True, self._log.stat().st_size
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()

    @property
    def has_answered(self) -> bool:
        """Whether the call is over, or the process."""
        return not self._answers.empty()

    def answer(self, seconds: int = 600, fails: bool = False) -> dict[str, Any]:
        """Waits for what comes of the call, or if it `fails`, for the error."""
        line = self._answers.get(timeout=seconds)
        assert line is not None, self.said()[-6000:]
        self.busy, answer = False, json.loads(line)
        assert ("error" in answer) == fails, (answer, self.said()[-6000:])
        return answer

    def said(self) -> str:
        """What the process has written to its log since the call began."""
        return self._log.read_bytes()[self._from :].decode(errors="replace")

    def close(self) -> None:
        """Ends the process, and its cluster with it."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            # A call that nobody waits for any more may last.
            self.process.wait(5 if self.busy else 60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def served() -> Callable[[dict[str, Callable[..., dict[str, Any]]]], None]:
    """Is called first in a process that `Side` starts: what is printed there goes to its log. Gives what does the calls that come, by their names,
    until no more do."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def serve(calls: dict[str, Callable[..., dict[str, Any]]]) -> None:
        for line in sys.stdin:
            call = json.loads(line)
            try:
                told = calls[call.pop("do")](**call)
            except Exception as error:
                traceback.print_exc()
                told = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(told), file=answers, flush=True)

    return serve
