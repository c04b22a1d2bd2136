"""Results against what DuckDB says of the same tables: rows by several identifiers, totals by group, totals of three parties."""

from __future__ import annotations

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import vesica
from conftest import jobs

IDENTIFIERS = [{"name": "email"}, {"name": "phone"}]


def people(seed: int, rows: int, *, distinct: bool) -> pa.Table:
    """A table with a row's number, two addresses and a telephone number, any of which may be missing. Unless they are to be distinct, some stand in
    several rows, and an address in either column."""
    chance = random.Random(seed)

    def cells(letter: str, missing: float) -> list[str | None]:
        numbers = chance.sample(range(2 * rows), rows) if distinct else [chance.randrange(rows) for _ in range(rows)]
        return [None if chance.random() < missing else f"{letter}{number}" for number in numbers]

    other = [None] * rows if distinct else cells("m", 0.7)
    columns = {"nr": list(range(rows)), "mail": cells("m", 0.3), "mail2": other, "tel": cells("t", 0.3)}
    return pa.table(columns, schema=pa.schema([("nr", pa.int64()), *((name, pa.string()) for name in ["mail", "mail2", "tel"])]))


def run(port: int, tables: tuple[pa.Table, pa.Table], keys: Any, **shared: Any) -> tuple[vesica.Report, vesica.Report]:
    """Runs both sides, whose tables have these keys."""
    both = jobs(port, **shared)
    for job in both:
        job["mine"]["input"]["keys"] = keys
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(vesica.run, both[1], input=tables[1])
        return vesica.run(both[0], input=tables[0]), other.result()


def rows(report: vesica.Report) -> list[int]:
    assert report.table is not None
    numbers: list[int] = report.table.to_arrow()["nr"].to_pylist()
    return numbers


#: The keys of a table: each with its kind, and the first row that it stands in.
KEYS = """
    SELECT kind, key, min(nr) AS nr FROM (
        SELECT 'email' AS kind, mail AS key, nr FROM {0}
        UNION ALL SELECT 'email', mail2, nr FROM {0}
        UNION ALL SELECT 'phone', tel, nr FROM {0}
    ) WHERE key IS NOT NULL GROUP BY ALL
"""


@pytest.mark.parametrize("seed", range(3))
def test_rows_by_any_of_several_identifiers(port: int, seed: int) -> None:
    a, b = people(seed, 300, distinct=False), people(seed + 50, 200, distinct=False)
    keys = {"email": [["mail"], ["mail2"]], "phone": ["tel"]}
    reports = run(port, (a, b), keys, learns=["alice", "bob"], identifiers=IDENTIFIERS, match="any")
    for report, (mine, theirs) in zip(reports, [("a", "b"), ("b", "a")], strict=True):
        query = f"""
            SELECT nr FROM {mine} AS x WHERE EXISTS (
                SELECT 1 FROM {theirs} AS y
                WHERE x.mail IN (y.mail, y.mail2) OR x.mail2 IN (y.mail, y.mail2) OR x.tel = y.tel
            ) ORDER BY nr
        """
        want = [nr for (nr,) in duckdb.sql(query).fetchall()]
        assert rows(report) == want and 0 < len(want) < len(a if mine == "a" else b)


@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_rows_that_agree_in_anything(port: int, seed: int) -> None:
    a, b = people(seed, 300, distinct=False), people(seed + 50, 200, distinct=False)
    keys = {"email": [["mail"], ["mail2"]], "phone": ["tel"]}
    shared = {"identifiers": IDENTIFIERS, "match": "pairs", "duplicates": "first", "accept": ["links"]}
    found = run(port, (a, b), keys, learns=["alice", "bob"], **shared)
    # The first row with a key has it.
    query = f"SELECT DISTINCT x.nr, y.nr FROM ({KEYS.format('a')}) AS x JOIN ({KEYS.format('b')}) AS y USING (kind, key)"
    want = sorted(duckdb.sql(query).fetchall())
    assert sorted(zip(*map(rows, found), strict=True)) == want and len(want) > 20


@pytest.mark.parametrize("seed", range(3))
def test_each_row_once_by_the_first_identifier_that_agrees(port: int, seed: int) -> None:
    a, b = people(seed, 300, distinct=True), people(seed + 50, 200, distinct=True)
    shared = {"identifiers": IDENTIFIERS, "match": "once", "duplicates": "error", "accept": ["links"]}
    found = run(port, (a, b), {"email": ["mail"], "phone": ["tel"]}, learns=["alice", "bob"], **shared)
    query = """
        WITH m1 AS (SELECT a.nr AS x, b.nr AS y FROM a JOIN b USING (mail)),
        m2 AS (
            SELECT a.nr AS x, b.nr AS y FROM a JOIN b USING (tel)
            WHERE a.nr NOT IN (SELECT x FROM m1) AND b.nr NOT IN (SELECT y FROM m1)
        )
        FROM m1 UNION ALL FROM m2
    """
    want = sorted(duckdb.sql(query).fetchall())
    assert sorted(zip(*map(rows, found), strict=True)) == want and len(want) > 20


#: Few groups go as columns. Many of them, of which a key is in two at most, go by trees.
@pytest.mark.parametrize(("most", "of_a_key", "least"), [(12, 12, 138), (300, 2, 2)])
def test_totals_by_group(port: int, most: int, of_a_key: int, least: int) -> None:
    chance = random.Random(most)

    def sale(row: int) -> dict[str, Any]:
        # Two rows of a customer.
        region = chance.choice(["north", "south", "west", None])
        shop = chance.randrange(most // 4 - 1) if most > 12 else row % 2
        worth = [chance.randrange(-500, 5000), chance.choice([None, 1, 2])]
        return {"id": f"c{row // 2}", "region": region, "shop": shop, "cents": worth[0], "pieces": worth[1]}

    sales = pa.Table.from_pylist([sale(row) for row in range(1200)])
    campaign = pa.table({"id": [f"c{i}" for i in range(80, 700)]})
    alice, bob = jobs(
        port,
        result="groups",
        learns=["bob"],
        accept=["small_groups"] if least < 5 else [],
        groups={"of": "alice", "by": ["region", "shop"], "most": most, "of_a_key": of_a_key, "least": least},
        sums=[{"name": "spend", "of": "alice"}, {"name": "pieces", "of": "alice"}],
    )
    alice["mine"]["input"]["values"] = {"spend": "cents"}
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(vesica.run, bob, input=campaign)
        vesica.run(alice, input=sales)
        found = other.result().table
    # What has no region is a group without a name.
    query = f"""
        SELECT COALESCE(region, ''), CAST(shop AS VARCHAR), COUNT(DISTINCT id), COALESCE(SUM(cents), 0), COALESCE(SUM(pieces), 0)
        FROM sales WHERE id IN (SELECT id FROM campaign)
        GROUP BY region, shop HAVING COUNT(DISTINCT id) >= {least}
    """

    def order(row: tuple[Any, ...]) -> str:
        return repr(row)

    want = sorted(((region, shop, keys, int(cents), int(pieces)) for region, shop, keys, cents, pieces in duckdb.sql(query).fetchall()), key=order)
    assert found is not None
    told = found.to_arrow().to_pylist()
    for row in told:
        assert row["spend_mean"] == row["spend"] / row["keys"] and row["pieces_mean"] == row["pieces"] / row["keys"]
    got = [(row["region"], str(row["shop"]), row["keys"], row["spend"], row["pieces"]) for row in told]
    assert sorted(got, key=order) == want and len(want) > 1


#: By columns and by trees: groups of alice's, and values of both or of bob alone.
@pytest.mark.parametrize(("most", "of_a_key", "of_alice"), [(8, 8, True), (200, 2, True), (200, 2, False)])
def test_totals_by_group_of_values_of_both(port: int, most: int, of_a_key: int, of_alice: bool) -> None:
    chance = random.Random(most)
    shops = 4 if most == 8 else 150
    sales = pa.Table.from_pylist([{"id": f"c{row // 2}", "shop": chance.randrange(shops), "cents": chance.randrange(-500, 5000)} for row in range(1200)])
    # Some of bob's customers stand in two rows, and some have no number.
    seen = [{"id": f"c{i}", "times": chance.choice([None, 0, 1, 7, -3])} for i in [*range(80, 700), *range(100, 300)]]
    campaign = pa.Table.from_pylist(seen, schema=pa.schema([("id", pa.string()), ("times", pa.int64())]))
    alice, bob = jobs(
        port,
        result="groups",
        learns=["alice", "bob"],
        accept=["small_groups", "chosen_groups", "chosen_values"],
        groups={"of": "alice", "by": ["shop"], "most": most, "of_a_key": of_a_key, "least": 2},
        sums=[{"name": "times", "of": "bob"}, *([{"name": "spend", "of": "alice"}] if of_alice else [])],
    )
    if of_alice:
        alice["mine"]["input"]["values"] = {"spend": "cents"}
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(vesica.run, bob, input=campaign)
        reports = [vesica.run(alice, input=sales), other.result()]
    query = """
        WITH mine AS (SELECT id, shop, SUM(cents) AS spend FROM sales GROUP BY id, shop),
             theirs AS (SELECT id, COALESCE(SUM(times), 0) AS times FROM campaign GROUP BY id)
        SELECT CAST(shop AS VARCHAR), COUNT(*), SUM(times), SUM(spend) FROM mine JOIN theirs USING (id)
        GROUP BY shop HAVING COUNT(*) >= 2
    """
    want = sorted((shop, keys, int(times), int(spend) if of_alice else None) for shop, keys, times, spend in duckdb.sql(query).fetchall())
    assert len(want) > 3
    for report in reports:
        assert report.table is not None
        told = report.table.to_arrow().to_pylist()
        assert sorted((row["shop"], row["keys"], row["times"], row.get("spend")) for row in told) == want
        assert all(row["times_mean"] == row["times"] / row["keys"] for row in told)


def test_noisy_totals_by_group_are_near_the_true_ones(port: int, tmp_path: Path) -> None:
    chance = random.Random(7)
    regions = ["north", "south", "west"]
    sales = pa.Table.from_pylist([{"id": f"c{row}", "region": regions[row % 3], "cents": chance.randrange(-500, 500)} for row in range(900)])
    campaign = pa.table({"id": [f"c{i}" for i in range(300, 1200)], "times": [i % 10 for i in range(300, 1200)]})

    def told(epsilon: float, most: float) -> list[dict[str, Any]]:
        alice, bob = jobs(
            port,
            result="groups",
            learns=["alice", "bob"],
            # "east" has no row, and is told if noise says so.
            groups={"of": "alice", "by": ["region"], "labels": ["east", *regions], "of_a_key": 1, "least": 20},
            sums=[{"name": "spend", "of": "alice", "largest": 500}, {"name": "views", "of": "bob", "largest": 10}],
            dp={"epsilon": epsilon},
            # Above 2.9 noise does not hide what groups and values were chosen for.
            accept=["chosen_groups", "chosen_values"],
        )
        alice["mine"]["input"]["values"] = {"spend": "cents"}
        bob["mine"]["input"]["values"] = {"views": "times"}
        for job in (alice, bob):
            job["mine"]["budget"] = {"path": str(tmp_path / job["mine"]["name"]), "epsilon": most}
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(vesica.run, bob, input=campaign)
            reports = [vesica.run(alice, input=sales), other.result()]
        tables = [report.table.to_arrow().to_pylist() for report in reports]
        assert tables[0] == tables[1] and [one.name for one in reports[0].revealed][0] == "group_totals_noisy"
        return tables[0]

    query = "SELECT region, COUNT(*), SUM(cents), SUM(times) FROM sales JOIN campaign USING (id) GROUP BY region"
    true = {region: [keys, int(cents), int(times)] for region, keys, cents, times in duckdb.sql(query).fetchall()}
    # Three columns share epsilon, and two parties draw: a number of keys is off by more than 9 once in 10^18.
    found = told(16.0, 17.0)
    assert {row["region"] for row in found} == set(regions)
    for row in found:
        keys, cents, times = true[row["region"]]
        assert abs(row["keys"] - keys) <= 9 and abs(row["spend"] - cents) <= 9 * 500 and abs(row["views"] - times) <= 90
        assert row["spend_mean"] == row["spend"] / row["keys"]
    # A run more costs an epsilon more, which is not there.
    with pytest.raises(vesica.ConfigError, match="of the 17 that mine.budget allows for bob 16 are spent"):
        told(2.0, 17.0)
    assert len((tmp_path / "alice").read_text().splitlines()) == 1


#: Of a key in one group, of one that may be in all, and by trees; with the factors told and without.
@pytest.mark.parametrize(("most", "of_a_key", "told"), [(8, 1, True), (8, 8, False), (256, 2, False)])
def test_products_by_group(port: int, most: int, of_a_key: int, told: bool) -> None:
    chance = random.Random(most + of_a_key)
    shops = 8 if most == 8 else 150

    def shop(row: int) -> int:
        return row // 2 % shops if of_a_key == 1 else chance.randrange(shops)

    sales = pa.Table.from_pylist([{"id": f"c{row // 2}", "shop": shop(row), "cents": chance.randrange(-500, 5000)} for row in range(1200)])
    seen = [{"id": f"c{i}", "times": chance.choice([None, 0, 1, 7, -3])} for i in [*range(80, 700), *range(100, 300)]]
    campaign = pa.Table.from_pylist(seen, schema=pa.schema([("id", pa.string()), ("times", pa.int64())]))
    factors = [{"name": "cents", "of": "alice", "largest": 10000}, {"name": "times", "of": "bob", "largest": 14}]
    alice, bob = jobs(
        port,
        result="groups",
        learns=["alice", "bob"],
        accept=["small_groups", "chosen_groups", "chosen_values", "chosen_factors"],
        groups={"of": "alice", "by": ["shop"], "most": most, "of_a_key": of_a_key, "least": 2},
        sums=[{"name": "cost", "product": ["times", "cents"]}, *(factor if told else {**factor, "told": False} for factor in factors)],
    )
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(vesica.run, bob, input=campaign)
        reports = [vesica.run(alice, input=sales), other.result()]
    query = """
        WITH mine AS (SELECT id, shop, SUM(cents) AS cents FROM sales GROUP BY id, shop),
             theirs AS (SELECT id, COALESCE(SUM(times), 0) AS times FROM campaign GROUP BY id)
        SELECT CAST(shop AS VARCHAR), COUNT(*), SUM(cents * times), SUM(cents), SUM(times) FROM mine JOIN theirs USING (id)
        GROUP BY shop HAVING COUNT(*) >= 2
    """
    found = [tuple(map(int, row)) for row in duckdb.sql(query).fetchall()]
    want = sorted(row if told else (*row[:3], None, None) for row in found)
    assert len(want) > 3
    for report in reports:
        assert report.table is not None
        rows_told = report.table.to_arrow().to_pylist()
        assert sorted((int(row["shop"]), row["keys"], row["cost"], row.get("cents"), row.get("times")) for row in rows_told) == want
        assert all(row["cost_mean"] == row["cost"] / row["keys"] for row in rows_told)


@pytest.mark.parametrize("of_a_key", [1, 3])
def test_totals_by_groups_of_both(port: int, of_a_key: int) -> None:
    chance = random.Random(of_a_key)
    sales = pa.Table.from_pylist([{"id": f"c{row // 2}", "shop": chance.randrange(7), "cents": chance.randrange(-500, 5000)} for row in range(1200)])
    # With one campaign for a customer, what the customer saw of it is added up too.
    names = ["spring", None, "autumn", "x, \"y\""]
    seen = [
        {"id": f"c{i}", "campaign": names[i % 4 if of_a_key == 1 else chance.randrange(4)], "times": chance.choice([None, 0, 1, 7, -3])}
        for i in [*range(80, 700), *range(100, 300)]
    ]
    schema = pa.schema([("id", pa.string()), ("campaign", pa.string()), ("times", pa.int64())])
    campaign = pa.Table.from_pylist(seen, schema=schema)
    alice, bob = jobs(
        port,
        result="groups",
        learns=["alice", "bob"],
        accept=["chosen_groups", "chosen_pairs", *(["chosen_values"] if of_a_key == 1 else [])],
        groups={"of": "alice", "by": ["shop"], "most": 8, "least": 12, "other": {"by": ["campaign"], "most": 5, "of_a_key": of_a_key}},
        sums=[{"name": "spend", "of": "alice"}, *([{"name": "times", "of": "bob"}] if of_a_key == 1 else [])],
    )
    alice["mine"]["input"]["values"] = {"spend": "cents"}
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(vesica.run, bob, input=campaign)
        reports = [vesica.run(alice, input=sales), other.result()]
    query = """
        WITH mine AS (SELECT id, shop, SUM(cents) AS spend FROM sales GROUP BY id, shop),
             theirs AS (SELECT id, COALESCE(campaign, '') AS campaign, COALESCE(SUM(times), 0) AS times FROM campaign GROUP BY ALL)
        SELECT CAST(shop AS VARCHAR), campaign, COUNT(*), SUM(spend), SUM(times) FROM mine JOIN theirs USING (id)
        GROUP BY shop, campaign HAVING COUNT(*) >= 12
    """
    found = [(shop, name, keys, int(spend), int(times)) for shop, name, keys, spend, times in duckdb.sql(query).fetchall()]
    want = sorted(row if of_a_key == 1 else (*row[:4], None) for row in found)
    assert len(want) > 3
    for report in reports:
        assert report.table is not None
        told = report.table.to_arrow().to_pylist()
        assert sorted((row["shop"], row["campaign"], row["keys"], row["spend"], row.get("times")) for row in told) == want


@pytest.mark.parametrize("result", ["count", "sum"])
def test_totals_of_three(port: int, result: str, tmp_path: Path) -> None:
    names = ["alice", "bob", "carol"]
    prints = {}
    for name in names:
        made = subprocess.run([sys.executable, "-m", "vesica", "cert", name], cwd=tmp_path, capture_output=True, text=True, check=True)
        prints[name] = made.stdout.split()[-1]
    chance = random.Random(result)
    stays, seen, born = (
        pa.table({"patient": [f"p{i}" for i in chance.sample(range(600), 400)], "days": [chance.randrange(90) for _ in range(400)]}) for _ in names
    )
    accept = ["leader_and_pivot"] + (["chosen_values"] if result == "sum" else [])
    shared = {"id": "three", "parties": names, "pivot": "carol", "protocol": "rr22", "result": result, "learns": ["alice", "bob"], "accept": accept}
    mine = []
    for place, name in enumerate(names):
        tls = {"identity": str(tmp_path / f"{name}.pem"), "peers": {peer: prints[peer] for peer in names if peer != name}}
        calls = {peer: f"127.0.0.1:{port + 1000 * i}" for i, peer in enumerate(names[:place])}
        table = {"keys": ["patient"], **({"value": "days"} if (result, name) == ("sum", "alice") else {})}
        contact = {"listen": f"127.0.0.1:{port + 1000 * place}"} if place < 2 else {}
        mine.append({"name": name, "tls": tls, "connect": calls, "input": table, "patience": "30s", **contact})
    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(vesica.run, {"shared": shared, "mine": mine[i]}, input=table) for i, table in [(1, seen), (2, born)]]
        reports = [vesica.run({"shared": shared, "mine": mine[0]}, input=stays), *(other.result() for other in others)]
    what = "COUNT(*)" if result == "count" else "SUM(days)"
    query = f"SELECT {what} FROM stays WHERE patient IN (SELECT patient FROM seen) AND patient IN (SELECT patient FROM born)"
    want = duckdb.sql(query).fetchall()[0][0]
    assert want > 50
    assert [getattr(report.outcome, "matched" if result == "count" else "sum") for report in reports] == [want, want, None]
