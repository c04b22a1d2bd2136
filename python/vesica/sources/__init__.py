"""Tables that stand elsewhere, for `input=` of `vesica.run`: `pip install 'vesica[sources]'`.

Each of these gives what a library that is well kept has for its table, and no rows are read before the run reads it, batch by batch, to a file
without a name in `mine.scratch`. Where a table needs more than the arguments here, take that library itself: `input=` takes any reader of
Arrow batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["delta", "iceberg", "objects"]


def delta(table: Any, columns: Sequence[str] | None = None, *, version: int | None = None, **options: str) -> Any:
    """A Delta table, by `deltalake`: its address, or a `DeltaTable`. `version` is one that it had; the newest otherwise. `options` are the
    store's, such as `aws_region="eu-central-1"`.

    `vesica.run("alice.toml", input=vesica.sources.delta("s3://bucket/customers", ["email", "id"], version=12))`
    """
    deltalake = _library("deltalake")
    if not isinstance(table, deltalake.DeltaTable):
        table = deltalake.DeltaTable(table, version=version, storage_options=options or None)
    elif version is not None or options:
        raise TypeError("version and the store's options belong to the DeltaTable: open it with them")
    return table.to_pyarrow_dataset().scanner(columns=None if columns is None else list(columns))


def iceberg(table: Any, columns: Sequence[str] | None = None, *, snapshot: int | None = None, where: str | None = None) -> Any:
    """An Iceberg table, by `pyiceberg`: what `load_table` of a catalog gives. `snapshot` is one that it had; the newest otherwise. `where` is a
    filter of its rows, as `"country = 'CH'"`.

    `vesica.sources.iceberg(load_catalog("prod").load_table("crm.customers"), ["email", "id"])`
    """
    _library("pyiceberg")
    chosen = {} if columns is None else {"selected_fields": tuple(columns)}
    filtered = {} if where is None else {"row_filter": where}
    return table.scan(snapshot_id=snapshot, **chosen, **filtered).to_arrow_batch_reader()


def objects(address: str, columns: Sequence[str] | None = None, **options: Any) -> Any:
    """Parquet files in an object store, by `obstore`: `s3://bucket/folder`, `gs://…` or `az://…`, one file or all below a folder that
    end in `.parquet`, in the order of their names. `options` are those of the store, such as `region=` and `endpoint=`; without any, what
    the environment says. All files have the same columns. Their footers are read by this call, and a file that changes between it and the end of a
    reading is refused: call this again for the new rows.

    `vesica.sources.objects("s3://bucket/customers", ["email", "id"], region="eu-central-1")`
    """
    pa = _library("pyarrow")
    _library("obstore")
    from .._cluster import parquet, storage

    scheme, found, rest = address.partition("://")
    if not found:
        raise ValueError(f"{address}: is no address of a store; write s3://…, gs://… or az://…, and give files on this machine by their paths")
    store = storage.Objects(f"{scheme}://{rest.partition('/')[0]}", **options)

    def place(name: str) -> Any:
        return parquet.Object(store, name[len(store.address) :])

    chosen = None if columns is None else list(columns)
    table = parquet.files(address, chosen, place)
    schema = table.schema.remove_metadata()

    def groups(files: Iterator[Any]) -> Iterator[tuple[Any, int, list[int]]]:
        for file in files:
            left = list(range(file.footer.num_row_groups))
            yield from [(file, group, left) for group in left]

    def read(one: tuple[Any, int, list[int]]) -> Any:
        file, group, left = one

        def last() -> bool:
            left.pop()
            return not left

        with file.rows(last) as rows:
            return rows.read_row_group(group, columns=chosen, use_threads=False)

    def batches() -> Iterator[Any]:
        # A Dataset of Arrow's over a file system in Python reads this, too, and sometimes waits for ever if a file is gone.
        with ThreadPoolExecutor(_AHEAD) as pool:
            for rows in _ahead(pool, read, groups(_ahead(pool, lambda one: parquet.Known.again(*one, place), zip(table.paths, table.digests)))):
                yield from (rows if chosen is None else rows.select(chosen)).replace_schema_metadata().to_batches()

    return Rows(lambda: pa.RecordBatchReader.from_batches(schema, batches()))


class Rows:
    """Rows that are read anew each time that they are asked for: a reader alone would have none the second time, and say nothing."""

    def __init__(self, reader: Callable[[], Any]) -> None:
        self._reader = reader

    def to_reader(self) -> Any:
        """The rows, batch by batch, as a reader of pyarrow."""
        return self._reader()

    def to_table(self) -> Any:
        """The rows, as a table of pyarrow."""
        return self._reader().read_all()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._reader().__arrow_c_stream__(requested_schema)


#: How many row groups are read from an object store at once.
_AHEAD = 4


def _ahead(pool: ThreadPoolExecutor, do: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """What is done with each, in their order, some of them at once."""
    waiting: deque[Any] = deque()
    for item in items:
        waiting.append(pool.submit(do, item))
        if len(waiting) == _AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _library(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = name.partition(".")[0]
        raise ImportError(f"this source needs {missing}: pip install 'vesica[sources]' ({error})") from error
