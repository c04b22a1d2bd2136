"""Tables that stand elsewhere: a Delta table, an Iceberg table, and Parquet files in a store that speaks S3."""

from __future__ import annotations

from collections.abc import Iterator
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
    yield options
    server.stop()


def test_files_in_an_object_store(tmp_path: Path, port: int, store: dict[str, Any]) -> None:
    import urllib.request

    import obstore

    urllib.request.urlopen(urllib.request.Request(f"{store['endpoint']}/bucket", method="PUT")).read()
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
    with pytest.raises(FileNotFoundError, match="s3://bucket/nothing: there is no Parquet file"):
        vesica.sources.objects("s3://bucket/nothing", **store)
    with pytest.raises(ValueError, match="customers: is no address of a store"):
        vesica.sources.objects("customers")
    with pytest.raises(FileNotFoundError, match="s3://bucket/nothing.parquet: is not there"):
        vesica.sources.objects("s3://bucket/nothing.parquet", **store)
    with pytest.raises(vesica.ConfigError, match="s3://nothing/customers: cannot be listed: .*NoSuchBucket.*; name a bucket or container"):
        vesica.sources.objects("s3://nothing/customers", **store)
    with pytest.raises(vesica.ConfigError, match="no://bucket: cannot be opened: .*no://bucket"):
        vesica.sources.objects("no://bucket/customers", **store)
    # What goes wrong later is told by whoever reads.
    for _ in range(20):
        gone = vesica.sources.objects("s3://bucket/customers", ["id", "n"], **store)
        obstore.delete(bucket, "customers/1.parquet")
        with pytest.raises(FileNotFoundError, match="customers/1.parquet: is not there"):
            gone.to_table()
        obstore.put(bucket, "customers/1.parquet", (tmp_path / "part.parquet").read_bytes())
    pq.write_table(MANY.rename_columns(["id", "m", "more"]), tmp_path / "part.parquet")
    obstore.put(bucket, "customers/1.parquet", (tmp_path / "part.parquet").read_bytes())
    with pytest.raises(vesica.InputError, match="customers/1.parquet: has other columns than customers/0.parquet"):
        vesica.sources.objects("s3://bucket/customers", **store).to_table()


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
