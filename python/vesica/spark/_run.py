"""What programs call."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from .._cluster import drive, rows
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
    folder `output`, a file for each file of `data` that has any, in its order; they are what the DataFrame reads.

    A cluster of several machines encrypts what its driver sends (`spark.authenticate` and `spark.network.crypto.enabled`), or is refused. Where that
    network belongs to this party alone, `accept=["cluster_without_encryption"]` lets it run without.
    """
    session = _session(session)
    _engine.check(session, accept)
    how = {"storage": storage, "workers": workers, "accept": accept, "progress": progress}
    one = drive.of_files(_engine.Engine(session), job, data, output, fields, how)
    _dials(one.spec)
    report = one.run()
    return Matched(session.read.parquet(one.source.output.as_uri()) if one.learns else None, report)


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
    return Matched(session.read.parquet(source.output.as_uri()) if one.learns else None, report)


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
    """Writes the ids that some units found to a file of their own; tells how many there are."""

    ids: rows.Ids
    folder: str

    def __call__(self, group: tuple[int, list[int]]) -> int:
        number, units = group
        found = self.ids(units)
        if found.num_rows:
            out = Path(self.folder) / f"part-{number:06}.parquet"
            beside = out.with_name(f".{out.name}.{secrets.token_hex(8)}")
            pq.write_table(found, beside)
            with open(beside, "rb") as written:
                os.fsync(written.fileno())
            os.replace(beside, out)
        return found.num_rows


class _OfFrame(drive.Placed):
    """Rows of a DataFrame, called by a column of integers."""

    def __init__(
        self, on: _engine.Engine, frame: Any, keys: list[str], id: str, spec: dict[str, Any], output: str | os.PathLike[str] | None
    ) -> None:
        super().__init__(output, spec["mine"]["name"] in spec["shared"]["learns"])
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
        self._sum = rows.distinct(self.on, self.frame, self._rows, self.id)

    def close(self) -> None:
        """Lets the rows go that Spark has kept."""
        self.frame.unpersist()

    def rows(self) -> int:
        return self._rows

    def shuffle(self, on: _engine.Engine, work: rows.Work, folder: str, units: int) -> tuple[list[Any], list[Any]]:
        parts = rows.parts(self._rows, rows.RECORD, on.width, units)
        told, packed = on.exchange(self.frame, rows.CutTable(work, self.keys, self.id, parts), rows.Pack(work, folder, parts), parts)
        rows.same(told, self._sum, self.id)
        return told, packed

    def write(self, on: _engine.Engine, work: rows.Work, units: list[int], folder: Path, with_pair: bool) -> int:
        folder.mkdir(mode=0o700, parents=True)
        ids = rows.Ids(work, self.id, self.type, with_pair)
        groups = [units[at : at + rows.UNITS] for at in range(0, len(units), rows.UNITS)]
        found = sum(on.each(list(enumerate(groups)), _WriteIds(ids, str(folder))))
        if not found:
            drive.write_empty(ids.none(), folder)
        return found
