"""A service and its client, in one process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
import vesica
from vesica import _core


def documents(folder: Path, port: int) -> tuple[dict, dict]:
    """The server's document and the client's."""
    pins = {name: vesica.cert(name, folder) for name in ("bob", "alice")}
    rows = pa.table({"no": [f"{i:04}" for i in range(500)], "risk": [str(i % 5) for i in range(500)]})
    pyarrow.csv.write_csv(rows, folder / "list.csv")
    server = {
        "service": {"id": "a-list", "protocol": "ecdh-oprf", "values": ["risk"]},
        "mine": {
            "name": "bob",
            "listen": f"127.0.0.1:{port}",
            "input": {"path": folder / "list.csv", "keys": ["no"]},
            "store": folder / "store",
            "tls": {"identity": folder / "bob.pem"},
            "clients": {"alice": {"fingerprint": pins["alice"], "keys_a_day": 10000}},
        },
    }
    client = {
        "service": {"id": "a-list", "protocol": "ecdh-oprf", "offer": "of the service, once it is prepared"},
        "mine": {
            "name": "alice",
            "connect": {"bob": f"127.0.0.1:{port}"},
            "input": {"keys": ["id"]},
            "cache": folder / "cache",
            "tls": {"identity": folder / "alice.pem", "peers": {"bob": pins["bob"]}},
            "patience": "20s",
        },
    }
    return server, client


def test_prepare_serve_ask(tmp_path: Path, port: int) -> None:
    server, client = documents(tmp_path, port)
    asked = pa.table({"id": ["0007", "7", "0499", "x"], "n": [1, 2, 3, 4]})
    with vesica.Service(server).prepare().serve() as service:
        assert service.prepared.keys == 500
        client["service"]["offer"] = service.prepared.offer
        with vesica.Client(client) as alice:
            assert alice.fetch() == 500
            report = alice.ask(asked)
    assert report.table.to_arrow().to_pylist() == [{"id": "0007", "n": 1, "risk": "2"}, {"id": "0499", "n": 3, "risk": "4"}]
    assert report.outcome.matched == 2


def keeps(folder: Path, client: dict) -> pa.Table:
    """Has the client keep its answers, and gives its table."""
    (folder / "seal.key").write_bytes(bytes(range(32)))
    (folder / "seal.key").chmod(0o600)
    client["mine"]["kept"] = {"path": folder / "bob.kept", "key": folder / "seal.key"}
    return pa.table({"id": ["0007", "9999", "0008"]})


def is_told(client: dict, asked: pa.Table) -> None:
    """The first run is told to whoever asks next."""
    for run in (1, 2):
        report = vesica.Client(client).ask(asked)
        assert report.outcome.changes.run == run
        assert report.outcome.changes.gained == (2 if run == 1 else 0)
        assert report.table.to_arrow().column("id").to_pylist() == ["0007", "0008"]


def test_the_day_of_a_caller_that_gives_up_is_told_again(tmp_path: Path, port: int) -> None:
    server, client = documents(tmp_path, port)
    asked = keeps(tmp_path, client)

    def gives_up(event: dict) -> None:
        if event["event"] == "phase_end" and event["name"] == "write":
            # By now the work may be over, and the rows are not with the caller yet.
            time.sleep(0.3)
            raise RuntimeError("enough")

    with vesica.Service(server).prepare() as service:
        client["service"]["offer"] = service.prepared.offer
        service.serve()
        with pytest.raises(RuntimeError, match="enough"):
            vesica.Client(client).ask(asked, progress=gives_up)
        is_told(client, asked)


def test_the_day_of_a_task_that_is_cancelled_when_the_work_is_over_is_told_again(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client = documents(tmp_path, port)
    asked = keeps(tmp_path, client)
    ask = _core.ask

    async def cancelled() -> None:
        loop = asyncio.get_running_loop()

        def late(*args: Any) -> Any:
            done = ask(*args)
            # The rows are on the thread of the work, and the task has not got them.
            loop.call_soon_threadsafe(task.cancel)
            return done

        monkeypatch.setattr(_core, "ask", late)
        task = asyncio.ensure_future(vesica.Client(client).ask_async(asked))
        with pytest.raises(asyncio.CancelledError):
            await task

    with vesica.Service(server).prepare() as service:
        client["service"]["offer"] = service.prepared.offer
        service.serve()
        asyncio.run(cancelled())
        monkeypatch.setattr(_core, "ask", ask)
        is_told(client, asked)


def test_a_second_server_of_a_store_is_refused_at_once(tmp_path: Path, port: int) -> None:
    server, _ = documents(tmp_path, port)
    with vesica.Service(server).prepare().serve():
        with pytest.raises(vesica.ConfigError, match="another server uses this file"):
            vesica.Service(server).serve()


def test_documents_of_other_kinds_are_told_where_they_belong(tmp_path: Path, port: int) -> None:
    server, client = documents(tmp_path, port)
    client["mine"]["input"]["path"] = "x.csv"
    client["mine"]["output"] = {"path": "y.csv"}
    with pytest.raises(vesica.ConfigError, match="vesica.Service"):
        vesica.run(server)
    with pytest.raises(vesica.ConfigError, match="vesica.Client"):
        vesica.Service(client).prepare()
