"""Jobs: in memory, from files, over two processes, and by `intersect`."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
import vesica
from conftest import both, jobs

A = pa.table({"id": ["007", "12", "9", None, "12"], "x": [1, 2, 3, 4, 5]})
B = pa.table({"id": ["9", "007", "44"], "y": [True, None, False]})


def test_who_learns_gets_rows_and_the_other_none(port: int) -> None:
    alice, bob = both(port, A, B)
    assert alice.table is not None and alice.table.to_arrow().to_pylist() == [{"id": "007", "x": 1}, {"id": "9", "x": 3}]
    assert bob.table is None and bob.outcome.matched is None
    assert alice.outcome.matched == 2 and alice.outcome.empty == 1 and alice.chosen.peers[0].name == "bob"


def test_a_report_as_a_file_has_no_path_of_this_machine(port: int, tmp_path: Path) -> None:
    alice, bob = jobs(port)
    place = str(tmp_path / "out.csv")
    alice["mine"] |= {"output": {"path": place}, "scratch": str(tmp_path)}
    with ThreadPoolExecutor() as other:
        there = other.submit(vesica.run, bob, input=B)
        report = vesica.run(alice, input=A)
        there.result()
    assert report.outcome.output.path == place
    assert str(tmp_path) not in report.to_json()
    assert vesica.Report.from_json(report.to_json()).outcome.output.path == "out.csv"


def test_both_learn_and_line_up(port: int) -> None:
    alice, bob = both(port, A, B, learns=["alice", "bob"])
    assert alice.table.to_arrow()["id"] == bob.table.to_arrow()["id"]


def test_a_count_is_in_the_report(port: int) -> None:
    alice, bob = both(port, A, B, protocol="ecdh", result="count")
    assert (alice.table, alice.outcome.matched, bob.outcome.matched) == (None, 2, None)


def test_totals_by_group_are_a_table(port: int) -> None:
    n = 400
    sales = pa.table({"id": [f"c{i // 2}" for i in range(n)], "region": ["north", "south", "west", "south"] * (n // 4), "cents": list(range(n))})
    campaign = pa.table({"id": [f"c{i}" for i in range(50, 300)]})
    shared = {
        "groups": {"of": "alice", "by": ["region"], "most": 8, "least": 80},
        "sums": [{"name": "spend", "of": "alice"}],
    }
    alice, bob = jobs(port, protocol="rr22", result="groups", learns=["bob"], **shared)
    alice["mine"]["input"]["values"] = {"spend": "cents"}
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(vesica.run, bob, input=campaign)
        assert vesica.run(alice, input=sales).outcome.groups is None
        report = other.result()
    # What a database says of the same tables.
    want: dict[str, tuple[set[str], int]] = {}
    seen = set(campaign["id"].to_pylist())
    for row in sales.to_pylist():
        if row["id"] in seen:
            keys, spend = want.setdefault(row["region"], (set(), 0))
            want[row["region"]] = (keys | {row["id"]}, spend + row["cents"])
    told = [
        {"region": region, "keys": len(keys), "spend": spend, "spend_mean": spend / len(keys)}
        for region, (keys, spend) in sorted(want.items())
        if len(keys) >= 80
    ]
    assert len(told) == 1 and report.table.to_arrow().to_pylist() == told
    assert [(g.by, g.keys, g.sums) for g in report.outcome.groups.groups] == [([t["region"]], t["keys"], [t["spend"]]) for t in told]


def test_ids_join_both_tables_and_tell_neither_side_what_is_common(port: int) -> None:
    alice, bob = both(port, A, B, protocol="rr22", result="ids", learns=["alice", "bob"])
    a, b = (side.table.to_arrow().to_pylist() for side in (alice, bob))
    assert [{k: row[k] for k in ("id", "x")} for row in a] == A.to_pylist()
    assert [{k: row[k] for k in ("id", "y")} for row in b] == B.to_pylist()
    by_id = {row["vesica_id"]: row["id"] for row in b}
    assert [by_id.get(row["vesica_id"]) for row in a] == ["007", None, "9", None, None]
    ids = [row["vesica_id"] for row in a]
    assert ids[3] is None and ids[1] == ids[4] and all(len(id) == 32 for id in ids if id is not None)
    assert alice.outcome.matched is None and alice.outcome.attempt == bob.outcome.attempt is not None


def test_two_processes_with_job_files(port: int, tmp_path: Path) -> None:
    for name, table, job in zip(("alice", "bob"), (A, B), jobs(port, learns=["alice", "bob"])):
        pyarrow.csv.write_csv(table, tmp_path / f"{name}.csv")
        job["mine"]["input"]["path"] = f"{name}.csv"
        job["mine"]["output"] = {"path": f"{name}.out.csv"}
        (tmp_path / f"{name}.json").write_text(json.dumps(job))
    code = "import sys, vesica; print(vesica.run(sys.argv[1]).outcome.output.rows)"
    running = [subprocess.Popen([sys.executable, "-c", code, tmp_path / f"{n}.json"], stdout=-1, text=True) for n in ("alice", "bob")]
    assert [process.communicate(timeout=60)[0].strip() for process in running] == ["2", "2"]
    first = [(tmp_path / f"{name}.out.csv").read_text().splitlines()[1:] for name in ("alice", "bob")]
    assert [line.split(",")[0] for line in first[0]] == [line.split(",")[0] for line in first[1]]


@pytest.mark.parametrize("protocol", ["rr22", "ecdh", "kkrt", "mini-psi", "ot"])
def test_intersect(protocol: str) -> None:
    n = 5000
    a = pa.table({"k": [f"{i:06}" for i in range(n)], "a": list(range(n))})
    b = pa.table({"key": [f"{i:06}" for i in range(0, 2 * n, 2)], "b": list(range(n))})
    if protocol == "mini-psi":  # it has one learner
        with pytest.raises(vesica.ConfigError, match="mini-psi"):
            vesica.intersect(a, b, left_on="k", right_on="key", protocol=protocol)
        return
    r = vesica.intersect(a, b, left_on="k", right_on="key", protocol=protocol)
    left, right = r.left.to_arrow(), r.right.to_arrow()
    assert left["k"] == right["key"] and len(r.left) == n // 2
    assert [2 * v for v in right["b"].to_pylist()] == left["a"].to_pylist()


def test_intersect_joins_as_sql_does() -> None:
    r = vesica.intersect(A, B, on="id", how="full")
    left, right = r.left.to_arrow().to_pylist(), r.right.to_arrow().to_pylist()
    assert len(left) == len(right) == 6
    pairs = [(a["id"], b["id"]) for a, b in zip(left, right)]
    assert pairs.count(("007", "007")) == 1 and pairs.count((None, "44")) == 1 and pairs.count(("12", None)) == 2


def test_a_table_of_nothing() -> None:
    r = vesica.intersect(A.slice(0, 0), B, on="id")
    assert r.left.num_rows == 0 and r.left.column_names == ["id", "x"]


def test_a_table_is_read_again_and_again_and_not_pickled() -> None:
    table = vesica.intersect(A, B, on="id").left
    assert pa.table(table) == pa.table(table) and table.num_rows == 2
    with pytest.raises(TypeError, match="to_arrow"):
        pickle.dumps(table)


def test_a_stream_from_python_is_read_while_the_interpreter_is_busy() -> None:
    def batches():
        for i in range(20):
            yield pa.record_batch({"id": [str(j) for j in range(100 * i, 100 * i + 100)]})

    reader = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.string()}), batches())
    assert vesica.intersect(reader, B, on="id").left.num_rows == 2


def test_plan_and_check_without_a_file(port: int) -> None:
    alice, _ = jobs(port)
    plan = vesica.plan(alice, input=A, peer_rows=1_000_000)
    assert plan.forecast["parties"][1]["rows"] == 1_000_000 and "rr22" in str(plan)
    findings = vesica.check(alice, input=A)
    assert dict(findings)["keys"].startswith("5 rows, 3 distinct keys")
    assert all(finding.good for finding in findings) and str(findings[0]).startswith("ok  job          ")


def test_async(port: int) -> None:
    alice, bob = jobs(port)

    async def main() -> tuple[vesica.Report, vesica.Report]:
        return await asyncio.gather(vesica.run_async(alice, input=A), vesica.run_async(bob, input=B))

    assert asyncio.run(main())[0].table.num_rows == 2


def test_cert_and_tls(port: int, tmp_path: Path) -> None:
    pins = {name: vesica.cert(name, tmp_path) for name in ("alice", "bob")}
    done = []
    for job, name, other in zip(jobs(port, insecure=False), ("alice", "bob"), ("bob", "alice")):
        job["mine"]["tls"] = {"identity": tmp_path / f"{name}.pem", "peers": {other: pins[other]}}
        done.append(job)

    async def main():
        return await asyncio.gather(vesica.run_async(done[0], input=A), vesica.run_async(done[1], input=B))

    report = asyncio.run(main())[0]
    assert report.chosen.tls.startswith("TLS 1.3") and report.table.num_rows == 2


def test_a_table_may_be_files_or_what_a_program_prints(port: int, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    pyarrow.csv.write_csv(A.slice(0, 2), tmp_path / "a" / "1.csv")
    pyarrow.csv.write_csv(A.slice(2), tmp_path / "a" / "2.csv")
    pyarrow.csv.write_csv(B, tmp_path / "b.csv")
    program = {"command": [sys.executable, "-c", f"print(open({str(tmp_path / 'b.csv')!r}).read(), end='')"]}
    for files in (tmp_path / "a", str(tmp_path / "a" / "*.csv"), [tmp_path / "a" / "2.csv", str(tmp_path / "a" / "1.csv")]):
        alice, _ = both(port, files, program)
        assert alice.table.to_arrow()["id"].to_pylist() == ["007", "9"]
    job, _ = jobs(port)
    assert dict(vesica.check(job, input=tmp_path / "a"))["keys"].startswith("5 rows")
    assert vesica.plan(job, input=tmp_path / "a") and vesica.plan(job, input=program, rows=10)
    with pytest.raises(vesica.InputError, match="failed with exit code 3 and said: no rows today"):
        vesica.run(job, input={"command": [sys.executable, "-c", "import sys; print('id'); print('no rows today', file=sys.stderr); sys.exit(3)"]})
    for wrong, why in (([], "empty list"), ({"command": []}, "names no program"), ({"paths": "x"}, "unknown field")):
        with pytest.raises(vesica.ConfigError, match=why):
            vesica.run(job, input=wrong)
    with pytest.raises(TypeError, match="which is no table"):
        vesica.run(job, input=7)
