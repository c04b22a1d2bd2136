"""A service and its client, in one process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
import vesica


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
