"""What programs call."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from .._cluster import drive, output, rows
from .._cluster.rows import Paths
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
    one = drive.of_files(_engine.Engine(session), job, data, output, fields, how)
    _dials(one.spec)
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
    on = _engine.Engine(session)
    with contextlib.closing(_OfFrame(on, frame, names, id, spec, output)) as source:
        source.count()
        one = drive.Run(spec, source, on, storage=storage, workers=workers, accept=accept, progress=progress)
        report = one.run()
    return Matched(_read(session, source.output) if one.learns else None, report)


def _read(session: Any, place: output.Output) -> Any:
    if "://" not in place.address:
        return session.read.parquet(Path(place.address).as_uri())
    # By what wrote them: Spark has a client of a store only where somebody has given it one, by another name for each.
    from pyspark.sql.pandas.types import from_arrow_schema

    names = [name for name, _, _ in place.parts()]
    plain = pa.schema([(field.name, _plain(field.type)) for field in next(output.tables(place.address, names[0])).schema])
    return _engine.numbers(session, len(names)).mapInArrow(_ReadParts(place.address, names, plain), from_arrow_schema(plain))


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
    """Writes the ids that some units found to a part of their own; tells how many there are."""

    ids: rows.Ids
    place: str

    def __call__(self, group: tuple[int, list[int]]) -> int:
        number, units = group
        found = self.ids(units)
        if found.num_rows:
            output.put(self.place, self.ids.work.run, number, functools.partial(pq.write_table, found))
        return found.num_rows


class _OfFrame(drive.Placed):
    """Rows of a DataFrame, called by a column of integers."""

    def __init__(
        self, on: _engine.Engine, frame: Any, keys: list[str], id: str, spec: dict[str, Any], given: str | os.PathLike[str] | None
    ) -> None:
        super().__init__(given, spec["mine"]["name"] in spec["shared"]["learns"])
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
        return rows.cut_and_packed(on, self.frame, rows.CutTable(work, self.keys, self.id, parts), folder, self._seen)

    def write(self, on: _engine.Engine, work: rows.Work, units: list[int], with_pair: bool) -> int:
        place = self.output.begin(work.run)
        ids = rows.Ids(work, self.id, self.type, with_pair)
        groups = [units[at : at + rows.UNITS] for at in range(0, len(units), rows.UNITS)]
        found = sum(on.each(list(enumerate(groups)), _WriteIds(ids, place)))
        if not found:
            output.put(place, work.run, 0, functools.partial(pq.write_table, ids.none()))
        return found
