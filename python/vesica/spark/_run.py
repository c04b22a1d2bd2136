"""What programs call."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from .._cluster import drive, output, rows
from .._cluster.parquet import Paths
from .._cluster.storage import Address
from .._errors import ConfigError, InputError
from .._jobs import Document
from .._progress import Progress
from .._report import Report
from . import _engine


class Matched(NamedTuple):
    """What a run on a cluster gives."""

    #: The rows that matched, as a `pyspark.sql.DataFrame`. None for a party that does not learn.
    frame: Any
    #: The driver's report, with the lanes' costs added up.
    report: Report


def run(
    job: Document | None = None,
    data: Paths | None = None,
    *,
    session: Any = None,
    storage: Address,
    workers: int = 8,
    output: str | os.PathLike[str] | None = None,
    keeper_port: int | Sequence[int] | None = None,
    accept: Sequence[str] = (),
    progress: Progress = None,
    **fields: Any,
) -> Matched:
    """Matches Parquet files with another party, on the cluster of a Spark session. The other party runs the same job, on a cluster of its own or
    on one machine by `vesica run`, and listens: this side dials.

    `session` is the active one if it is left out. The other arguments are those of `vesica.ray.run`. The rows that matched are written to the
    folder `output`, a file for each file of `data` that has any, in its order, or below the address of an object store; they are what the DataFrame
    reads.

    A cluster of several machines encrypts what its driver sends (`spark.authenticate` and `spark.network.crypto.enabled`), or is refused. Where that
    network belongs to this party alone, `accept=["cluster_without_encryption"]` lets it run without.
    """
    session = _session(session)
    _engine.check(session, accept)
    how = {"storage": storage, "workers": workers, "accept": accept, "progress": progress}
    one = drive.of_files(_engine.Engine(session, keeper_port), job, data, output, fields, how)
    _dials(one.spec)
    if one.learns and "://" in one.source.output.address:
        # What Spark has no type for is refused now, and not when the run has ended.
        _types(one.source.files.schema if one.source.columns is None else pa.schema([one.source.files.schema.field(name) for name in one.source.columns]))
    report = one.run()
    return Matched(_read(session, one.source.output) if one.learns else None, report)


def match(
    frame: Any,
    *,
    keys: str | Sequence[str],
    id: str,
    output: str | os.PathLike[str] | None = None,
    job: Document | None = None,
    storage: Address,
    workers: int = 8,
    keeper_port: int | Sequence[int] | None = None,
    accept: Sequence[str] = (),
    progress: Progress = None,
    **fields: Any,
) -> Matched:
    """Matches a DataFrame with another party by its columns `keys`. Its rows are called by the column `id`: integers, of which no two are the
    same. The ids of the rows that matched are written to the folder `output` as Parquet, and are what the DataFrame that is given back reads, for a
    join. Where both parties learn it has the column `pair`, too, which is the same number on both sides for the same key.

    The other arguments are those of `run`. `mine.resume` is refused, because a DataFrame cannot be recognised after a restart.
    """
    session = frame.sparkSession
    _engine.check(session, accept)
    spec, names = drive.of_table(job, keys, fields)
    _dials(spec)
    if spec["mine"].get("resume"):
        raise ConfigError("mine.resume: a DataFrame cannot be recognised after a restart; write it to Parquet and use vesica.spark.run")
    on = _engine.Engine(session, keeper_port)
    with contextlib.closing(_OfFrame(on, frame, names, id, spec, output)) as source:
        source.count()
        one = drive.Run(spec, source, on, storage=storage, workers=workers, accept=accept, progress=progress)
        report = one.run()
    return Matched(_read(session, source.output) if one.learns else None, report)


def _read(session: Any, place: output.Output) -> Any:
    # Whatever else has come to lie there is not of this run.
    names = [name for name, _, _ in place.standing()]
    if "://" not in place.address:
        # A name for Spark is a pattern, and no URL: `%20` is three characters of it.
        return session.read.parquet(*(re.sub(r"([\\*?{}\[\]])", r"\\\1", f"file://{place.address}/{name}") for name in names))
    # By what wrote them: Spark has a client of a store only where somebody has given it one, by another name for each.
    plain, types = _types(next(output.tables(place.address, names[0])).schema)
    return _engine.numbers(session, len(names)).mapInArrow(_ReadParts(place.address, names, plain), types)


def _types(schema: pa.Schema) -> tuple[pa.Schema, Any]:
    """The types that columns are given to Spark in, as Arrow and as Spark has them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    fields = []
    for field in schema:
        fields.append(pa.field(field.name, _plain(field.type)))
        try:
            from_arrow_schema(pa.schema(fields[-1:]), prefer_timestamp_ntz=True)
        except Exception as error:
            why = "name other columns in mine.output.columns, or write to a folder"
            raise ConfigError(f"output: column {field.name!r}: holds {field.type}, for which Spark has no type; {why} ({error})") from None
    # As Spark reads Parquet: a time without a zone is that of a clock on the wall, in whatever zone the session is.
    return pa.schema(fields), from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of Spark's that takes all values of this one, as its own reader of Parquet has it."""
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if types.is_large_binary(kind) or str(kind) == "binary_view":
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_duration(kind):
        return pa.duration("us")
    if types.is_date64(kind):
        return pa.date32()
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}
    return wider.get(kind, kind)


@dataclass(frozen=True)
class _ReadParts:
    """Reads parts of an output that stands in an object store."""

    address: str
    names: list[str]
    schema: pa.Schema

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for table in output.tables(self.address, self.names[number]):
                    yield from table.cast(self.schema).to_batches()


def _session(session: Any) -> Any:
    from pyspark.sql import SparkSession

    session = session or SparkSession.getActiveSession()
    if session is None:
        raise ConfigError("session: there is no active Spark session; make one, or give session=")
    return session


def _dials(spec: dict[str, Any]) -> None:
    if spec["mine"].get("listen"):
        raise ConfigError("mine.listen: a Spark cluster dials: write mine.connect here and mine.listen on the other side")


@dataclass(frozen=True)
class _WriteIds:
    """Writes the ids that some units found to a part of their own, and tells of it."""

    ids: rows.Ids
    place: output.Place

    def __call__(self, group: tuple[int, list[int]]) -> output.Part | None:
        number, units = group
        found = self.ids(units)
        return self.place.put(number, functools.partial(pq.write_table, found)) if found.num_rows else None


class _OfFrame(drive.Placed):
    """Rows of a DataFrame, called by a column of integers."""

    def __init__(
        self, on: _engine.Engine, frame: Any, keys: list[str], id: str, spec: dict[str, Any], given: str | os.PathLike[str] | None
    ) -> None:
        super().__init__(given, spec["mine"]["name"] in spec["shared"]["learns"], spec["mine"]["name"])
        missing = [name for name in [*keys, id] if name not in frame.columns]
        if missing:
            raise InputError(f"the DataFrame has no column {missing[0]!r}")
        types = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
        kind = dict(frame.dtypes)[id]
        if kind not in types:
            raise InputError(f"column {id!r}: holds {kind}; rows are called by integers")
        if not frame._jdf.queryExecution().analyzed().deterministic():
            made = "the DataFrame is computed by a function that does not give the same twice, such as monotonically_increasing_id() or rand()"
            raise InputError(f"column {id!r}: {made}, and its rows are read more than once; write it to a table, and match that")
        # The run reads the rows more than once, and what makes them may be slow.
        self.on, self.frame = on, frame.select(*dict.fromkeys([*keys, id])).persist()
        self.keys, self.id, self.type = keys, id, types[kind]
        self.identity = secrets.token_bytes(32)

    def count(self) -> None:
        """Sees how many rows there are, and that each has an id of its own."""
        self._rows = self.frame.count()
        self._seen = rows.distinct(self.on, self.frame, self._rows, self.keys, self.id)

    def close(self) -> None:
        """Lets the rows go that Spark has kept."""
        self.frame.unpersist()

    def rows(self) -> int:
        return self._rows

    def shuffle(self, on: _engine.Engine, work: rows.Work, folder: str, units: int) -> tuple[list[Any], list[Any]]:
        parts = rows.parts(self._rows, rows.RECORD, on.width, units)
        return rows.cut_and_packed(on, self.frame, rows.CutTable(work, self.keys, self.id, parts, self._seen), folder)

    def write(self, on: _engine.Engine, work: rows.Work, units: list[int], with_pair: bool) -> int:
        place = self.output.begin(work.run)
        ids = rows.Ids(work, self.id, self.type, with_pair)
        groups = rows.grouped(units)
        self.told = [part for part in on.each(list(enumerate(groups)), _WriteIds(ids, place)) if part is not None]
        found = sum(rows for _, rows, _ in self.told)
        if not found:
            self.told = [place.put(0, functools.partial(pq.write_table, ids.none()))]
        return found
