"""Scripts for SecretFlow, with other imports."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import vesica
import vesica.secretflow as sf
from vesica.secretflow import link, psi

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def tables(folder: Path) -> None:
    (folder / "alice.csv").write_text("id,x\n" + "".join(f"{i},{i}\n" for i in range(100)))
    (folder / "bob.csv").write_text("id\n" + "".join(f"{2 * i}\n" for i in range(100)))


def cluster(port: int) -> dict:
    return {
        "nodes": [
            {"party": "alice", "address": f"127.0.0.1:{port}", "listen_address": f"0.0.0.0:{port}"},
            {"party": "bob", "address": f"127.0.0.1:{port + 1000}"},
        ]
    }


@pytest.mark.parametrize("protocol", ["ECDH_PSI_2PC", "KKRT_PSI_2PC", "PROTOCOL_RR22", "RR22_LOWCOMM_PSI_2PC"])
def test_psi_csv_as_the_benchmarks_call_it(tmp_path: Path, port: int, protocol: str) -> None:
    tables(tmp_path)
    spu = sf.SPU(cluster(port), {"recv_timeout_ms": 3600000})
    told: list[str] = []
    reports = spu.psi_csv(
        key={"alice": ["id"], "bob": ["id"]},
        input_path={"alice": tmp_path / "alice.csv", "bob": tmp_path / "bob.csv"},
        output_path={"alice": tmp_path / "out.csv", "bob": tmp_path / "out.bob.csv"},
        receiver="alice",
        protocol=protocol,
        precheck_input=False,
        sort=False,
        broadcast_result=False,
        progress_callbacks=lambda party, data: told.append(f"{party} {data.percentage}"),
        callbacks_interval_ms=1,
    )
    assert reports == [
        {"party": "alice", "original_count": 100, "intersection_count": 50},
        {"party": "bob", "original_count": 100, "intersection_count": -1},
    ]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 51 and not (tmp_path / "out.bob.csv").exists()
    assert {"alice 100", "bob 100"} <= set(told)


@pytest.mark.parametrize("protocol", ["BC22_PSI_2PC", "KKRT_PSI_NPC", "PROTOCOL_ECDH_NPC"])
def test_psi_csv_of_two_parties_by_what_only_version_1_has(tmp_path: Path, port: int, protocol: str) -> None:
    tables(tmp_path)
    reports = sf.SPU(cluster(port)).psi_csv(
        key="id",
        input_path={"alice": tmp_path / "alice.csv", "bob": tmp_path / "bob.csv"},
        output_path={"alice": tmp_path / "none.csv", "bob": tmp_path / "out.csv"},
        receiver="bob",
        protocol=protocol,
        broadcast_result=False,
    )
    assert [(report["party"], report["intersection_count"]) for report in reports] == [("alice", -1), ("bob", 50)]
    assert sorted(map(int, (tmp_path / "out.csv").read_text().split()[1:])) == list(range(0, 100, 2))


def test_psi_csv_of_three_parties(tmp_path: Path, port: int) -> None:
    tables(tmp_path)
    (tmp_path / "carol.csv").write_text("id\n" + "".join(f"{3 * i}\n" for i in range(100)))
    names = ["alice", "bob", "carol"]
    three = {"nodes": [{"party": name, "address": f"127.0.0.1:{port + 1000 * place}"} for place, name in enumerate(names)]}
    reports = sf.SPU(three).psi_csv(
        key="id",
        input_path={name: tmp_path / f"{name}.csv" for name in names},
        output_path={name: tmp_path / f"{name}.out.csv" for name in names},
        receiver="carol",
        protocol="ECDH_PSI_3PC",
        curve_type="CURVE_FOURQ",
    )
    assert [report["intersection_count"] for report in reports] == [17, 17, 17]
    for name in names:
        rows = (tmp_path / f"{name}.out.csv").read_text().splitlines()[1:]
        assert [int(row.split(",")[0]) for row in rows] == list(range(0, 100, 6)), name
    # Between three parties the protocol of many needs TLS, on one machine too.
    with pytest.raises(vesica.ConfigError, match="(?i)identity|tls"):
        sf.SPU(three, party="alice").psi_csv("id", tmp_path / "alice.csv", tmp_path / "o.csv", "alice", "KKRT_PSI_NPC")


def test_psi_csv_unbalanced_in_two_steps(tmp_path: Path, port: int) -> None:
    tables(tmp_path)
    (tmp_path / "secret.bin").write_bytes(bytes.fromhex("000102030405060708090a0b0c0d0e0ff0e0d0c0b0a090807060504030201000"))
    (tmp_path / "secret.bin").chmod(0o600)
    spu = sf.SPU(cluster(port))

    def step(name: str) -> list[dict]:
        return spu.psi_csv(
            key="id",
            input_path={"alice": tmp_path / "alice.csv", "bob": tmp_path / "bob.csv"},
            output_path={"alice": tmp_path / "out.csv", "bob": tmp_path / "none.csv"},
            receiver="alice",
            protocol=f"ECDH_OPRF_UB_PSI_2PC_{name}",
            precheck_input=False,
            sort=False,
            broadcast_result=False,
            curve_type="CURVE_FOURQ",
            preprocess_path=tmp_path / "offline",
            ecdh_secret_key_path=tmp_path / "secret.bin",
        )

    assert [report["intersection_count"] for report in step("OFFLINE")] == [-1, -1]
    assert step("ONLINE")[0]["intersection_count"] == 50


def test_psi_execute(tmp_path: Path, port: int) -> None:
    tables(tmp_path)
    got: dict[int, psi.PsiExecuteReport] = {}
    progress: list[psi.ProgressData] = []

    def party(rank: int) -> None:
        desc = link.Desc()
        desc.recv_timeout_ms = 3600 * 1000
        for i in range(2):
            desc.add_party(f"p{i}", f"127.0.0.1:{port + 1000 * i}")
        config = psi.PsiExecuteConfig(
            protocol_conf=psi.PsiProtocolConfig(
                protocol=psi.PsiProtocol.PROTOCOL_ECDH,
                receiver_rank=0,
                broadcast_result=True,
                ecdh_params=psi.EcdhParams(curve=psi.EllipticCurveType.CURVE_25519),
            ),
            input_params=psi.InputParams(path=str(tmp_path / ("alice.csv", "bob.csv")[rank]), selected_keys=["id"], keys_unique=True),
            output_params=psi.OutputParams(path=str(tmp_path / f"{rank}.csv")),
        )
        lctx = link.create_brpc(desc, rank)
        params = psi.ProgressParams(hook=progress.append, interval_ms=1) if rank == 0 else psi.ProgressParams()
        got[rank] = psi.psi_execute(config, lctx, params)
        lctx.stop_link()

    threads = [threading.Thread(target=party, args=(rank,)) for rank in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert got == {rank: psi.PsiExecuteReport(100, 50, 100, 50) for rank in range(2)}
    assert progress[-1].percentage == 100 and [p.percentage for p in progress] == sorted(p.percentage for p in progress)


def test_what_cannot_be_honoured_is_named(tmp_path: Path, port: int) -> None:
    tables(tmp_path)
    spu = sf.SPU(cluster(port), party="alice")
    paths = dict(key="id", input_path=tmp_path / "alice.csv", output_path=tmp_path / "o.csv", receiver="alice")
    for option, name in [
        ({"ic_mode": True}, "ic_mode"),
        ({"protocol": "RR22_MALICIOUS_PSI_2PC"}, "RR22_MALICIOUS_PSI_2PC"),
        ({"protocol": "DP_PSI_2PC"}, "DP_PSI_2PC"),
        ({"receiver": "carol"}, "carol"),
        ({"input_path": {"bob": "b.csv"}}, "input_path"),
    ]:
        with pytest.raises(vesica.ConfigError, match=name):
            spu.psi_csv(**{**paths, **option})
    conf = psi.PsiProtocolConfig(protocol=psi.PsiProtocol.PROTOCOL_DP)
    desc = link.Desc()
    [desc.add_party(f"p{i}", f"127.0.0.1:{port + i}") for i in range(2)]
    with pytest.raises(vesica.ConfigError, match="PROTOCOL_DP"):
        psi.psi_execute(psi.PsiExecuteConfig(conf, psi.InputParams(), psi.OutputParams()), link.create_brpc(desc, 0))
    with pytest.raises(vesica.ConfigError, match="no such field"):
        desc.recv_timeout = 1
    with pytest.raises(vesica.ConfigError, match="create_mem"):
        link.create_mem(desc, 0)
    with pytest.raises(vesica.ConfigError, match="send"):
        link.create_brpc(desc, 0).send("x", 1)


def test_parties_on_other_machines_need_trust(tmp_path: Path) -> None:
    tables(tmp_path)
    far = {"nodes": [{"party": "alice", "address": "192.0.2.1:5300"}, {"party": "bob", "address": "192.0.2.2:5300"}]}
    with pytest.raises(vesica.ConfigError, match="(?i)tls|trust|insecure"):
        sf.SPU(far, party="alice").psi_csv("id", tmp_path / "alice.csv", tmp_path / "o.csv", "alice")


def test_names_that_mean_nothing_parse_as_such() -> None:
    assert psi.parse_protocol("PROTOCOL_RR22") == 3 and psi.parse_protocol("nonsense") == psi.PsiProtocol.PROTOCOL_UNSPECIFIED
    assert psi.parse_ub_psi_role("ROLE_CLIENT") == 4
