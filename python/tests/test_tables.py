"""Tables of every library, in and out, with every type."""

from __future__ import annotations

import datetime as dt
import decimal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import vesica
from conftest import both, jobs

D = decimal.Decimal
ROWS = pa.table(
    {
        "id": ["007", "0", "é", "a,b\n\"c\""],
        "int": pa.array([1, None, -3, 4], pa.int64()),
        "small": pa.array([1, 2, 3, None], pa.int8()),
        "big": pa.array([2**64 - 1, 0, None, 1], pa.uint64()),
        "float": pa.array([1.5, float("nan"), None, -0.0]),
        "bool": [True, None, False, True],
        "decimal": pa.array([D("1.10"), None, D("-2.00"), D("0.01")], pa.decimal128(10, 2)),
        "date": pa.array([dt.date(2026, 5, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        "when": pa.array([dt.datetime(2026, 5, 1, 9, 30), None, None, None], pa.timestamp("us", "Europe/Zurich")),
        "time": pa.array([dt.time(1, 2, 3), None, None, None], pa.time64("us")),
        "binary": [b"\x00\xff", None, b"", b"x"],
        "list": pa.array([[1, 2], [], None, [3]], pa.list_(pa.int32())),
        "struct": pa.array([{"a": 1}, None, {"a": None}, {"a": 4}], pa.struct({"a": pa.int64()})),
        "category": pa.array(["x", "y", "x", None]).dictionary_encode(),
        "view": pa.array(["a", None, "c", "d"], pa.string_view()),
    }
)
OTHER = pa.table({"id": ["é", "007", "a,b\n\"c\"", "000"]})


def by_id(table: pa.Table) -> pa.Table:
    # Not every type of Arrow can be sorted along.
    order = sorted(range(len(table)), key=table["id"].to_pylist().__getitem__)
    return pa.concat_tables([table.slice(i, 1) for i in order]).combine_chunks()


def test_types_and_values_are_kept() -> None:
    got = vesica.intersect(ROWS, OTHER, on="id").left.to_arrow()
    assert got.schema.equals(ROWS.schema)
    want = by_id(pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(2, 2)]))
    assert by_id(got).drop(["category", "float"]) == want.drop(["category", "float"])
    assert by_id(got)["category"].to_pylist() == want["category"].to_pylist()
    assert by_id(got)["float"].to_pylist()[0] == 1.5


@pytest.mark.parametrize("kind", ["int", "date", "decimal", "bool", "view", "category"])
def test_keys_of_every_type_that_has_one_spelling(kind: str) -> None:
    column = ROWS[kind]
    distinct = {str(value) for value in column.to_pylist() if value is not None}
    r = vesica.intersect(pa.table({"k": column}), pa.table({"k": column}), on="k", duplicates="first")
    assert r.left.num_rows == len(distinct)


@pytest.mark.parametrize("kind", ["float", "binary", "list", "struct"])
def test_a_key_without_one_spelling_is_refused(kind: str) -> None:
    with pytest.raises(vesica.ConfigError, match=f'the left table: column "{kind}"') as caught:
        vesica.intersect(ROWS, OTHER.rename_columns([kind]), on=kind)
    assert caught.value.remedy


def test_an_integer_meets_its_text() -> None:
    r = vesica.intersect(pa.table({"k": [1, 2, 3]}), pa.table({"k": ["2", "02", "3"]}), on="k")
    assert sorted(r.left.to_arrow()["k"].to_pylist()) == [2, 3]


def test_pandas() -> None:
    frame = pd.DataFrame(
        {
            "zip": ["00501", "94105", "10001"],
            "n": pd.array([1, None, 3], dtype="Int64"),
            "f": [0.5, None, 2.0],
            "c": pd.Categorical(["u", "v", "u"]),
            "t": pd.to_datetime(["2026-01-01", "2026-02-02", None]),
        },
        index=[10, 20, 30],
    )
    got = vesica.intersect(frame, pd.DataFrame({"zip": ["94105", "00501", "501"]}), on="zip").left.to_pandas()
    want = frame[frame["zip"].isin(["94105", "00501"])]
    # Rows that line up come in an order of the run's, and categories in that of the rows.
    got["c"] = got["c"].cat.reorder_categories(["u", "v"])
    pd.testing.assert_frame_equal(got.sort_values("zip")[list(frame)], want.sort_values("zip"), check_index_type=False)


def test_integers_with_nulls_stay_integers_in_pandas() -> None:
    table = pa.table({"id": ["a", "b"], "n": pa.array([2**60 + 1, None])})
    frame = vesica.intersect(table, table, on="id").left.to_pandas()
    assert frame["n"].dtype == pd.Int64Dtype() and frame["n"].max() == 2**60 + 1


def test_polars() -> None:
    frame = pl.DataFrame(
        {"id": ["007", "b", "c"], "n": [1, None, 3], "s": [["x"], [], None], "c": pl.Series(["u", "v", "u"], dtype=pl.Categorical)}
    )
    got = vesica.intersect(frame, pl.DataFrame({"id": ["c", "007"]}), on="id").left.to_polars()
    assert got.sort("id")["id"].to_list() == ["007", "c"] and got.schema["n"] == frame.schema["n"]
    assert got.sort("id").drop("c").equals(frame.filter(pl.col("id") != "b").sort("id").drop("c"))


def test_duckdb() -> None:
    with duckdb.connect() as db:
        a = db.sql("SELECT printf('%05d', i) AS id, i::DECIMAL(9, 2) AS price FROM range(10000) t(i)")
        b = db.sql("SELECT printf('%05d', 3 * i) AS id FROM range(10000) t(i)")
        matched = vesica.intersect(a, b, on="id").left.to_arrow()
        assert db.execute("SELECT count(*), sum(price) FROM matched").fetchone() == (3334, D(sum(range(0, 10000, 3))))


class Cursor:
    """A cursor of ADBC behind its execute()."""

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(MANY.schema, MANY.to_batches(1000))


MANY = pa.table({"id": [f"{i:05}" for i in range(10_000)], "n": range(10_000)})


def streams(folder: Path) -> dict[str, Callable[[], Any]]:
    """MANY, as each library has it that does not hold it in memory."""
    folder.mkdir()
    for i in range(4):
        pq.write_table(MANY.slice(2500 * i, 2500), folder / f"{i}.parquet")
    return {
        "polars": lambda: pl.scan_parquet(folder / "*.parquet").select("id", "n").filter(pl.col("n") >= 0),
        "dataset": lambda: pyarrow.dataset.dataset(folder),
        "scanner": lambda: pyarrow.dataset.dataset(folder).scanner(columns=["id", "n"]),
        "reader": lambda: pa.RecordBatchReader.from_batches(MANY.schema, iter(MANY.to_batches(1000))),
        "duckdb": lambda: duckdb.sql(f"select id, n from '{folder}/*.parquet'"),
        "adbc": Cursor,
    }


@pytest.mark.parametrize("kind", ["polars", "dataset", "scanner", "reader", "duckdb", "adbc"])
def test_what_does_not_stand_in_memory_is_read_once_and_kept_beside_the_run(kind: str, tmp_path: Path, port: int) -> None:
    made, asked = streams(tmp_path / "in")[kind], 0

    class Once:
        """What there is of a stream: its batches, and how often they were asked for."""

        def __init__(self) -> None:
            self.inner = vesica._table.exported(made())

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            nonlocal asked
            asked += 1
            return self.inner.__arrow_c_stream__(requested_schema)

    assert vesica._table.taken(made())[2], "it is a stream"
    alice, _ = both(port, made(), pa.table({"id": ["00003", "09999", "x"]}))
    assert sorted(alice.table.to_arrow()["n"].to_pylist()) == [3, 9999]
    both(port, Once(), pa.table({"id": ["00003"]}))
    assert asked == 1


def test_what_stands_in_memory_is_no_stream() -> None:
    for table in (MANY, pl.DataFrame(MANY), MANY.to_pandas(), MANY.to_batches()[0], vesica.intersect(MANY, MANY, on="id").left):
        given, files, is_stream = vesica._table.taken(table)
        assert given is table and files is None and not is_stream


def test_a_stream_that_cannot_be_read_to_its_end_ends_the_run(port: int, tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield MANY.to_batches()[0]
        raise ValueError("the database went away")

    reader = pa.RecordBatchReader.from_batches(MANY.schema, batches())
    job = jobs(port)[0]
    with pytest.raises(vesica.InputError, match="the table given as input: .*the database went away"):
        vesica.run(job, input=reader)
    # What would be read again after a restart, and what is not counted for a plan.
    job["mine"] |= {"resume": str(tmp_path / "resume"), "output": {"path": str(tmp_path / "out.csv")}}
    with pytest.raises(vesica.ConfigError, match="mine.resume: a stream cannot be read again after a restart"):
        vesica.run(job, input=pl.LazyFrame({"id": ["a"]}))
    del job["mine"]["resume"]
    with pytest.raises(TypeError, match="how many rows has LazyFrame"):
        vesica.plan(job, input=pl.LazyFrame({"id": ["a"]}))
    assert vesica.plan(job, input=pl.LazyFrame({"id": ["a"]}), rows=5)
    findings = dict(vesica.check(job, input=pl.LazyFrame({"id": ["a", "b", "b"]})))
    assert findings["keys"].startswith("3 rows, 2 distinct keys")


def test_a_folder_of_parts(port: int, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    streams(folder)
    job, other = jobs(port)
    job["mine"]["output"] = {"path": str(tmp_path / "out"), "parts": "files"}
    thread = threading.Thread(target=vesica.run, args=(other,), kwargs={"input": MANY.slice(4990, 20)})
    thread.start()
    report = vesica.run(job, input=folder)
    thread.join()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["000001-1.parquet", "000002-2.parquet"]
    assert pq.read_table(tmp_path / "out")["n"].to_pylist() == list(range(4990, 5010))
    assert Path(report.outcome.output.path) == tmp_path / "out" and report.outcome.output.rows == 20
    with pytest.raises(vesica.ConfigError, match="is a folder that is not empty"):
        vesica.run(job, input=folder)


def test_what_is_no_table_is_named() -> None:
    with pytest.raises(TypeError, match="right is a builtins.dict"):
        vesica.intersect(OTHER, {"id": [1]}, on="id")


def test_a_row_that_is_null_as_a_whole_is_refused() -> None:
    # A column of structs comes as a table does. What stands under a null is no value.
    rows = pa.StructArray.from_arrays([pa.array(["a", "b"])], ["id"], mask=pa.array([False, True]))
    with pytest.raises(vesica.InputError, match="the left table: .*1 of its rows are null as a whole"):
        vesica.intersect(pa.chunked_array([rows]), pa.table({"id": ["b"]}), on="id")
    whole = pa.StructArray.from_arrays([pa.array(["a", "b", "c"])], ["id"]).slice(1)
    assert vesica.intersect(pa.chunked_array([whole]), pa.table({"id": ["a", "c"]}), on="id").left.to_arrow()["id"].to_pylist() == ["c"]


def test_a_column_is_no_table() -> None:
    with pytest.raises(TypeError, match="is no table: it holds Utf8, and no columns"):
        vesica.intersect(pa.chunked_array([["a", "b"]]), OTHER, on="id")


def test_text_that_is_not_utf8_is_refused_by_column() -> None:
    # pyarrow does not look at what it reads from a Parquet file, and gives such columns.
    buffers = [None, pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"ok\xff\xfe")]
    broken = pa.table({"id": pa.array(["a", "b"]), "text": pa.Array.from_buffers(pa.string(), 2, buffers)})
    with pytest.raises(vesica.InputError, match="the right table: .*column text: .*UTF8"):
        vesica.intersect(pa.table({"id": ["a"]}), broken, on="id")
