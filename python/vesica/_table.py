"""Tables, in and out. Nothing here is imported before it is needed: pandas, polars and pyarrow are not dependencies."""

from __future__ import annotations

import json
import os
from typing import Any, Protocol


class ArrowTable(Protocol):
    """Anything that exports Arrow's C stream interface: tables of pyarrow and polars, frames of pandas, relations of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


def exported(table: Any, name: str = "input") -> Any:
    """`table`, if it exports an Arrow stream, or what it has that does; a frame of an older pandas as a table of pyarrow."""
    if hasattr(table, "__arrow_c_stream__"):
        return table
    if _library(table) == "polars" and hasattr(table, "collect_batches"):
        # A query that has not been made yet: its rows come as it is made, batch by batch.
        return table.collect_batches(lazy=True)
    if _library(table) == "polars" and hasattr(table, "collect"):
        raise TypeError(f"{name} is a query of a polars that does not hand it out batch by batch: take one whose LazyFrame has collect_batches, or collect() it")
    if hasattr(table, "fetch_record_batch"):
        # A cursor of ADBC, behind its execute().
        return table.fetch_record_batch()
    if hasattr(table, "scanner"):
        # A Dataset of pyarrow.
        table = table.scanner()
    if _library(table) == "pyarrow" and hasattr(table, "to_reader"):
        return table.to_reader()
    if _library(table) == "pandas" and hasattr(table, "columns"):
        import pyarrow

        return pyarrow.Table.from_pandas(table)
    kind = f"{type(table).__module__}.{type(table).__qualname__}"
    raise TypeError(
        f"{name} is a {kind}, which is no table: give one of pyarrow, pandas, polars or DuckDB, or anything else that has "
        "__arrow_c_stream__"
    )


def _library(table: Any) -> str:
    return type(table).__module__.split(".")[0]


def streams(table: Any) -> bool:
    """Whether rows of `table` come as they are read and can be read once, rather than stand in memory."""
    # A relation of DuckDB has a length, for which it counts.
    return "duckdb" in _library(table) or not any(hasattr(table, name) for name in ("num_rows", "height", "__len__"))


def named(input: Any) -> str | None:
    """Files, or a program that prints the table, as JSON; None for an object."""
    if isinstance(input, dict):
        return json.dumps(input, default=os.fspath)
    if isinstance(input, (str, os.PathLike)):
        return json.dumps({"path": os.fspath(input)})
    if isinstance(input, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in input):
        return json.dumps({"path": [os.fspath(path) for path in input]})
    return None


def taken(input: Any) -> tuple[Any, str | None, bool]:
    """What stands for a job's table: an object that exports one, or what `named` says; and whether the object is a stream."""
    files = named(input)
    if input is None or files is not None:
        return None, files, False
    table = exported(input)
    return table, None, streams(table)


class Table:
    """Rows in memory, with the columns, the types and the values that they came with.

    Any library that reads Arrow takes it as it is: `pyarrow.table(t)`, `polars.DataFrame(t)`, `duckdb.sql("FROM t")` after
    `t = table.to_arrow()`. It can be read any number of times.

    >>> import pyarrow, vesica
    >>> zips = pyarrow.table({"zip": ["00501", "94105"], "n": [1, 2]})
    >>> left = vesica.intersect(zips, zips.slice(0, 1), on="zip").left
    >>> left.num_rows, left.column_names
    (1, ['zip', 'n'])
    >>> left.to_arrow().to_pylist()
    [{'zip': '00501', 'n': 1}]
    """

    __slots__ = ("_core",)

    def __init__(self, core: Any) -> None:
        self._core = core

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._core.__arrow_c_stream__(requested_schema)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._core.num_rows

    def __len__(self) -> int:
        return self.num_rows

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self._core.columns]

    def to_arrow(self) -> Any:
        """The rows as a `pyarrow.Table`."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> Any:
        """The rows as a `polars.DataFrame`."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self, **options: Any) -> Any:
        """The rows as a `pandas.DataFrame`. `options` are those of `pyarrow.Table.to_pandas`.

        A frame of pandas that went in comes out with the same types. Of other tables, a column of integers or booleans that
        has nulls gets pandas' nullable type, for the usual one would make floats of its integers.
        """
        import pandas
        import pyarrow

        table = self.to_arrow()
        if "types_mapper" not in options and b"pandas" not in (table.schema.metadata or {}):
            kinds = {
                pyarrow.int8(): pandas.Int8Dtype(),
                pyarrow.int16(): pandas.Int16Dtype(),
                pyarrow.int32(): pandas.Int32Dtype(),
                pyarrow.int64(): pandas.Int64Dtype(),
                pyarrow.uint8(): pandas.UInt8Dtype(),
                pyarrow.uint16(): pandas.UInt16Dtype(),
                pyarrow.uint32(): pandas.UInt32Dtype(),
                pyarrow.uint64(): pandas.UInt64Dtype(),
                pyarrow.bool_(): pandas.BooleanDtype(),
            }
            with_nulls = {column.type for column in table.columns if column.null_count}
            options["types_mapper"] = {kind: kinds[kind] for kind in with_nulls if kind in kinds}.get
        return table.to_pandas(**options)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self._core.columns)
        return f"vesica.Table({self.num_rows} rows; {columns})"

    def __reduce__(self) -> Any:
        raise TypeError("a vesica.Table cannot be pickled: pickle its to_arrow()")
