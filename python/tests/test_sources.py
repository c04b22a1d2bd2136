"""Tables that stand elsewhere: a Delta table, an Iceberg table, and Parquet files in a store that speaks S3."""

from __future__ import annotations

import collections
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import vesica
import vesica.sources
from conftest import both

MANY = pa.table({"id": [f"{i:05}" for i in range(3000)], "n": range(3000), "more": ["x"] * 3000})
OTHER = pa.table({"id": ["00003", "02999", "y"]})


def matched(port: int, source: Any) -> list[int]:
    """The rows of `source` that a run finds, which has the columns id and n alone."""
    table = both(port, source, OTHER)[0].table.to_arrow()
    assert table.column_names == ["id", "n"]
    return sorted(table["n"].to_pylist())


def test_a_delta_table(tmp_path: Path, port: int) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "t", MANY)
    deltalake.write_deltalake(tmp_path / "t", MANY.slice(0, 10), mode="overwrite")
    assert matched(port, vesica.sources.delta(str(tmp_path / "t"), ["id", "n"], version=0)) == [3, 2999]
    assert matched(port, vesica.sources.delta(deltalake.DeltaTable(tmp_path / "t"), ["id", "n"])) == [3]
    with pytest.raises(TypeError, match="belong to the DeltaTable"):
        vesica.sources.delta(deltalake.DeltaTable(tmp_path / "t"), version=0)


def test_an_iceberg_table(tmp_path: Path, port: int) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = catalogs.SqlCatalog("here", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("crm")
    table = catalog.create_table("crm.customers", schema=MANY.schema)
    table.append(MANY.slice(0, 1000))
    first = table.current_snapshot().snapshot_id
    table.append(MANY.slice(1000, 2000))
    assert matched(port, vesica.sources.iceberg(table, ["id", "n"])) == [3, 2999]
    assert matched(port, vesica.sources.iceberg(table, ["id", "n"], snapshot=first)) == [3]
    assert matched(port, vesica.sources.iceberg(table, ["id", "n"], where="n > 5")) == [2999]


@pytest.fixture
def store() -> Iterator[dict[str, Any]]:
    """A server on this machine that speaks S3, with a bucket."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    pytest.importorskip("obstore")
    server.start()
    _, port = server.get_host_and_port()
    options = {
        "endpoint": f"http://127.0.0.1:{port}",
        "access_key_id": "a",
        "secret_access_key": "b",
        "region": "us-east-1",
        "client_options": {"allow_http": True},
    }
    urllib.request.urlopen(urllib.request.Request(f"{options['endpoint']}/bucket", method="PUT")).read()
    yield options
    server.stop()


def test_files_in_an_object_store(tmp_path: Path, port: int, store: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore

    bucket = obstore.store.from_url("s3://bucket", **store)
    for i in range(3):
        pq.write_table(MANY.slice(1000 * i, 1000), tmp_path / "part.parquet")
        obstore.put(bucket, f"customers/{i}.parquet", (tmp_path / "part.parquet").read_bytes())
    obstore.put(bucket, "customers/_SUCCESS", b"")
    obstore.put(bucket, "customers/_temporary/9.parquet", b"half")
    assert matched(port, vesica.sources.objects("s3://bucket/customers", ["id", "n"], **store)) == [3, 2999]
    one = vesica.sources.objects("s3://bucket/customers/0.parquet", ["id", "n"], **store)
    # As often as they are asked for.
    for _ in range(2):
        assert matched(port, one) == [3]
    assert one.to_table().equals(one.to_reader().read_all())
    with pytest.raises(FileNotFoundError, match="s3://bucket/nothing: there is no such file or folder; name a Parquet file"):
        vesica.sources.objects("s3://bucket/nothing", **store)
    with pytest.raises(ValueError, match="customers: is no address of a store"):
        vesica.sources.objects("customers")
    with pytest.raises(FileNotFoundError, match="s3://bucket/nothing.parquet: there is no such file or folder"):
        vesica.sources.objects("s3://bucket/nothing.parquet", **store)
    with pytest.raises(vesica.ConfigError, match="s3://nothing/customers: cannot be listed: .*NoSuchBucket.*; name a bucket or container"):
        vesica.sources.objects("s3://nothing/customers", **store)
    with pytest.raises(vesica.ConfigError, match="no://bucket: cannot be opened: .*no://bucket"):
        vesica.sources.objects("no://bucket/customers", **store)
    # A key may be for what is in a folder alone: S3 answers so where it may not list the bucket.
    head = obstore.head

    def refused(of: Any, name: str) -> Any:
        if name in ("customers", "nothing"):
            raise RuntimeError("Error performing HEAD http://store in 3s - Server returned non-2xx status code: 403 Forbidden: ")
        return head(of, name)

    with monkeypatch.context() as patch:
        patch.setattr(obstore, "head", refused)
        assert vesica.sources.objects("s3://bucket/customers", **store).to_table().num_rows == 3000
        with pytest.raises(vesica.ConfigError, match="s3://bucket/nothing: cannot be read: .*403 Forbidden:; see that AWS_ACCESS_KEY_ID"):
            vesica.sources.objects("s3://bucket/nothing", **store)
    # What goes wrong later is told by whoever reads.
    for _ in range(20):
        gone = vesica.sources.objects("s3://bucket/customers", ["id", "n"], **store)
        obstore.delete(bucket, "customers/1.parquet")
        with pytest.raises(FileNotFoundError, match="customers/1.parquet: is not there"):
            gone.to_table()
        obstore.put(bucket, "customers/1.parquet", (tmp_path / "part.parquet").read_bytes())
    pq.write_table(MANY.rename_columns(["id", "m", "more"]), tmp_path / "part.parquet")
    obstore.put(bucket, "customers/1.parquet", (tmp_path / "part.parquet").read_bytes())
    with pytest.raises(vesica.InputError, match="customers/1.parquet: has other columns than s3://bucket/customers/0.parquet: 'm' .int64. where that has 'n' .int64.; all"):
        vesica.sources.objects("s3://bucket/customers", **store).to_table()
    with pytest.raises(vesica.InputError, match="customers/1.parquet: has no column 'n'; its columns are 'id', 'm', 'more'"):
        vesica.sources.objects("s3://bucket/customers", ["id", "n"], **store)
    # Only the columns that are named have to be the same, and their order in the files is none of theirs.
    assert vesica.sources.objects("s3://bucket/customers", ["more", "id"], **store).to_table().column_names == ["more", "id"]
    pq.write_table(MANY.select(["n", "id", "more"]), tmp_path / "part.parquet")
    obstore.put(bucket, "customers/1.parquet", (tmp_path / "part.parquet").read_bytes())
    with pytest.raises(vesica.InputError, match="customers/1.parquet: has other columns than .*/0.parquet: they are in another order"):
        vesica.sources.objects("s3://bucket/customers", **store)
    obstore.put(bucket, "customers/1.parquet", b"no table")
    with pytest.raises(vesica.InputError, match="s3://bucket/customers/1.parquet: is no Parquet file that can be read"):
        vesica.sources.objects("s3://bucket/customers", **store)


@pytest.fixture
def put(tmp_path: Path, store: dict[str, Any]) -> Callable[..., None]:
    """Puts a Parquet file of these ids into the bucket, in row groups of two rows. What it is written with leaves no trace of them in its footer."""
    import obstore

    bucket = obstore.store.from_url("s3://bucket", **store)

    def put(name: str, *ids: str) -> None:
        plainly = {"use_dictionary": False, "write_statistics": False, "compression": "none"}
        pq.write_table(pa.table({"id": list(ids)}), tmp_path / "put.parquet", row_group_size=2, **plainly)
        obstore.put(bucket, name, (tmp_path / "put.parquet").read_bytes())

    return put


def test_an_object_that_is_replaced_is_refused(store: dict[str, Any], put: Callable[..., None], port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows were read with the footer of another one, or some of them from each."""
    first, other = ("a", "b", "c", "d"), ("e", "f", "g")
    changed = "s3://bucket/t/1.parquet: changed while it was being read, or since its footer was first read"
    remedy = "; open the table anew and run again when nothing writes to it"

    def opened() -> Any:
        put("t/0.parquet", "x", "y")
        put("t/1.parquet", *first)
        return vesica.sources.objects("s3://bucket/t", **store)

    table = opened()
    assert table.to_table()["id"].to_pylist() == ["x", "y", *first]
    # Between two readings.
    put("t/1.parquet", *other)
    with pytest.raises(vesica.InputError, match=changed + remedy):
        table.to_table()
    table = vesica.sources.objects("s3://bucket/t", **store)
    assert table.to_table()["id"].to_pylist() == ["x", "y", *other]
    # As many rows in as many bytes, and the footer that was there.
    table = opened()
    time.sleep(1.1)  # the store knows whole seconds
    put("t/1.parquet", "h", "i", "j", "k")
    with pytest.raises(vesica.InputError, match=f"{changed} .its size and its footer stayed.*{remedy}"):
        table.to_table()
    # Before its rows are read, between two of its row groups, and behind the last one.
    read, reads = pq.ParquetFile.read_row_group, []
    for begun in (True, False):
        for last in (False, True):

            def between(self: Any, group: int, **how: Any) -> Any:
                here = self.metadata.num_rows == len(first) and group == int(last)
                if here and begun:
                    put("t/1.parquet", *other)
                found = read(self, group, **how)
                if here and not begun:
                    put("t/1.parquet", *other)
                reads.append(here)
                return found

            table = opened()
            with monkeypatch.context() as patch:
                patch.setattr(pq.ParquetFile, "read_row_group", between)
                with pytest.raises(vesica.InputError, match=changed + remedy):
                    table.to_table()
    assert any(reads)
    # And so a run ends.
    table = opened()
    put("t/1.parquet", *other)
    with pytest.raises(vesica.InputError, match="changed while it was being read"):
        both(port, table, OTHER)


def test_an_object_that_goes_while_it_is_read_is_missed(store: dict[str, Any], put: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore

    bucket, read = obstore.store.from_url("s3://bucket", **store), pq.ParquetFile.read_row_group

    def gone(self: Any, group: int, **how: Any) -> Any:
        found = read(self, group, **how)
        obstore.delete(bucket, "t/0.parquet")
        return found

    put("t/0.parquet", "a", "b", "c")
    table = vesica.sources.objects("s3://bucket/t", **store)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", gone)
    with pytest.raises(FileNotFoundError, match="s3://bucket/t/0.parquet: is not there, or no longer; see that it stays") as told:
        table.to_table()
    assert isinstance(told.value, vesica.InputError)


def test_a_store_is_asked_once_for_a_size_however_many_row_groups_there_are(
    store: dict[str, Any], put: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked for each row group, and by a cluster five times for a file."""
    from vesica._cluster import parquet, storage

    put("t/0.parquet", "a")
    put("t/1.parquet", *map(str, range(40)))
    head, asked = storage.Objects.head, collections.Counter[str]()

    def counted(self: Any, name: str) -> Any:
        asked[name] += 1
        return head(self, name)

    monkeypatch.setattr(storage.Objects, "head", counted)
    table = vesica.sources.objects("s3://bucket/t", **store)
    assert asked == {"t": 1, "t/0.parquet": 1, "t/1.parquet": 1}
    # Once by each look: before its rows are read, and behind that.
    for _ in range(2):
        asked.clear()
        assert table.to_table().num_rows == 41
        assert asked == {"t/0.parquet": 2, "t/1.parquet": 2}
    there = storage.Objects("s3://bucket", **store)
    monkeypatch.setattr(storage, "opened", lambda address: there)
    name = "gs://bucket/t/1.parquet"
    digest = parquet.Known.now(name).digest
    asked.clear()
    with parquet.opened(name, digest) as file:
        assert [file.read_row_group(group).num_rows for group in range(20)] == [2] * 20
    assert asked == {"t/1.parquet": 2}


def test_files_in_other_stores(tmp_path: Path, port: int, request: pytest.FixtureRequest) -> None:
    obstore = pytest.importorskip("obstore")

    for name in ("google", "azure"):
        try:
            address = request.getfixturevalue(name)
        except pytest.skip.Exception:
            continue
        there = obstore.store.from_url(address)
        for i in range(3):
            pq.write_table(MANY.slice(1000 * i, 1000), tmp_path / "part.parquet", row_group_size=300)
            obstore.put(there, f"customers/{i}.parquet", (tmp_path / "part.parquet").read_bytes())
        assert matched(port, vesica.sources.objects(f"{address}/customers", ["id", "n"])) == [3, 2999]
