"""What programs call."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import ray

from .._cluster import drive, output, rows
from .._cluster.parquet import Paths
from .._cluster.storage import Address
from .._errors import ConfigError, InputError
from .._jobs import Document
from .._progress import Progress
from .._report import Report
from . import _network
from ._engine import Engine, raised


class _Pair(NamedTuple):
    dataset: Any
    report: Report


class Matched(_Pair):
    """What a run on a cluster gives: the tuple `(dataset, report)`, whose Dataset is made when it is first asked for. Example: `matched.report` makes
    none; `matched.dataset`, `matched[0]` and `dataset, report = matched` do, and so do comparing and pickling.

    So a caller who reads the files of the output by other means does not wait for it. Whenever it is made, it reads the files that the run has written,
    and no others that have come to lie beside them.
    """

    __slots__ = ()

    #: The driver's report, with the lanes' costs added up.
    report: Report

    @property
    def dataset(self) -> Any:
        """The rows that matched, as a `ray.data.Dataset`. None for a party that does not learn."""
        return self[0]

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return tuple(map(_made, found)) if isinstance(at, slice) else _made(found)

    def __iter__(self) -> Iterator[Any]:
        return map(_made, super().__iter__())

    def __radd__(self, other: Any) -> Any:
        # A list on the left has its own way.
        return other + tuple(self) if isinstance(other, tuple) else NotImplemented

    def __repr__(self) -> str:
        return f"Matched(dataset={self[0]!r}, report={self[1]!r})"


class _Later:
    """What stands in a tuple for something that is made when it is asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.made = functools.cache(make)

    def __repr__(self) -> str:
        return repr(self.made())


def _made(one: Any) -> Any:
    return one.made() if isinstance(one, _Later) else one


def _with_all_made(name: str) -> Callable[..., Any]:
    """A method of tuples that would look at what stands in them."""

    def method(self: Matched, *given: Any) -> Any:
        return getattr(tuple(self), name)(*(tuple(one) if isinstance(one, Matched) else one for one in given))

    return functools.wraps(getattr(tuple, name))(method)


for _name in ("add", "contains", "eq", "ge", "gt", "hash", "le", "lt", "mul", "ne", "rmul"):
    setattr(Matched, f"__{_name}__", _with_all_made(f"__{_name}__"))
for _name in ("count", "index"):
    setattr(Matched, _name, _with_all_made(_name))


def run(
    job: Document | None = None,
    data: Paths | None = None,
    *,
    storage: Address,
    workers: int = 8,
    output: str | os.PathLike[str] | None = None,
    doors: int | None = None,
    advertise: Sequence[str] | None = None,
    keeper_port: int | Sequence[int] | None = None,
    accept: Sequence[str] = (),
    progress: Progress = None,
    **fields: Any,
) -> Matched:
    """Matches Parquet files with another party, on the cluster that `ray.init` joined. The other party runs the same job, on a cluster
    of its own or on one machine by `vesica run`.

    `job` is as for `vesica.run`. `data` names the files: files, folders, or addresses (`s3://…`, `gs://…`, `az://…`); without it they are the
    job's `mine.input.path`. `storage` is a folder that the driver and every worker see under this name, or the address of an object store
    (`s3://…`, `gs://…`, `az://…`). `workers` lanes are worked on at
    once. The rows that matched are written to the folder `output`, or else to the job's `mine.output.path`, a file for each file of
    `data` that has any, in its order; they are what the Dataset reads. It may be the address of an object store, too: then an object `_SUCCESS`
    names the others when all are there.

    A party that listens has a door on each of `doors` nodes, at the ports after that of `mine.listen`. `advertise` says at which
    addresses the other party reaches the doors, if these are not those of the nodes.

    Workers ask the driver for what the run is sealed with, at a port that the system chooses. `keeper_port` names a port for it, or several such as
    `range(7000, 7010)`, of which it takes the first that is free.

    A cluster of several nodes has TLS between them (`RAY_USE_TLS=1` on each), or is refused. Where the network of the nodes belongs to this
    party alone, `accept=["cluster_without_tls"]` lets it run without.

    Where both parties learn, the rows of the two sides do not line up. Each row has a column `pair`: the same number on both sides for
    the same key.
    """
    _network.check(accept)
    how = {"storage": storage, "workers": workers, "doors": doors, "advertise": advertise, "accept": accept, "progress": progress}
    one = drive.of_files(Engine(keeper_port), job, data, output, fields, how)
    _apart(one.spec, one.on, doors)
    report = one.run()
    return Matched(_Later(functools.partial(_dataset, one.source.output)) if one.learns else None, report)


def match(
    dataset: Any,
    *,
    keys: str | Sequence[str],
    id: str,
    job: Document | None = None,
    storage: Address,
    workers: int = 8,
    doors: int | None = None,
    advertise: Sequence[str] | None = None,
    keeper_port: int | Sequence[int] | None = None,
    accept: Sequence[str] = (),
    progress: Progress = None,
    **fields: Any,
) -> Matched:
    """Matches a Dataset with another party by its columns `keys`. Blocks of a Dataset have no lasting order, so rows are called by the
    column `id`: integers, of which no two are the same. Gives a Dataset of the ids of the rows that matched, for a join, and where both
    parties learn the column `pair`, which is the same number on both sides for the same key.

    The other arguments are those of `run`. `mine.resume` is refused, because a Dataset cannot be recognised after a restart.
    """
    _network.check(accept)
    spec, names = drive.of_table(job, keys, fields)
    if spec["mine"].get("resume"):
        raise ConfigError("mine.resume: a Dataset cannot be recognised after a restart; write it to Parquet and use vesica.ray.run")
    on = Engine(keeper_port)
    _apart(spec, on, doors)
    one = drive.Run(
        spec,
        _OfDataset(on, dataset, names, id),
        on,
        storage=storage,
        workers=workers,
        doors=doors,
        advertise=advertise,
        accept=accept,
        progress=progress,
    )
    report = one.run()
    return Matched(one.source.result, report)


def _apart(spec: dict[str, Any], on: Engine, doors: int | None) -> None:
    """Refuses ports for workers that the driver has for the other side, or a door on its node: that would be found out when the other side was met."""
    listen = str(spec["mine"].get("listen") or "").rpartition(":")[2]
    # What is no port is refused by the job's own check.
    if listen.isdecimal():
        first = int(listen)
        both = next((port for port in on.ports if first <= port <= first + (doors or 1)), None)
        if both is not None:
            why = f"the other side comes to {first} (mine.listen) and the ports behind it"
            raise ConfigError(f"keeper_port: has {both}, and {why}; name another one")


def _dataset(place: output.Output) -> Any:
    """The Dataset of the parts that are in their place."""
    # Only who calls for a Dataset waits for what makes them.
    import ray.data

    from ._parts import Parts

    return ray.data.read_datasource(Parts(place))


class _OfDataset:
    """Rows of a Dataset, called by a column of integers."""

    #: What comes of them is a Dataset, and written by nobody.
    output = None

    def __init__(self, on: Engine, dataset: Any, keys: list[str], id: str) -> None:
        # The run reads the rows twice; what makes them may be slow or not give the same then.
        dataset = dataset.materialize()
        self.keys, self.id, self._rows = keys, id, dataset.count()
        schema = dataset.schema()
        for name in [*keys, id]:
            if schema is None or name not in schema.names:
                raise InputError(f"the Dataset has no column {name!r}")
        self.type = schema.types[schema.names.index(id)]
        if not pa.types.is_integer(self.type):
            raise InputError(f"column {id!r}: holds {self.type}; rows are called by integers")
        #: Tasks are given the blocks where they stand.
        self.blocks = dataset.to_arrow_refs()
        self._seen = rows.distinct(on, self.blocks, self._rows, keys, id)
        self.identity = secrets.token_bytes(32)
        self.result: Any = None

    def rows(self) -> int:
        return self._rows

    def shuffle(self, on: Engine, work: rows.Work, folder: str, units: int) -> tuple[list[Any], list[Any]]:
        parts = rows.parts(self._rows, rows.RECORD, on.width, units)
        return rows.cut_and_packed(on, self.blocks, rows.CutTable(work, self.keys, self.id, parts, self._seen), folder)

    def write(self, on: Engine, work: rows.Work, units: list[int], with_pair: bool) -> int:
        import ray.data

        groups = rows.grouped(units)
        ids = rows.Ids(work, self.id, self.type, with_pair)
        tables = on.there(groups, ids) or [ray.put(ids.none())]
        with raised():
            # What went wrong in a task is heard when its table is looked at.
            self.result = ray.data.from_arrow_refs(tables)
            return int(self.result.count())

    def ready(self, runs: Collection[str]) -> None:
        return None

    def see(self, run: str) -> None:
        return None

    def commit(self, run: str) -> None:
        return None

    def discard(self, run: str) -> None:
        return None

    def written(self) -> None:
        return None
