"""The driver: meets the other side, has the rows cut and shuffled, lets lanes match, and has the found rows written."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .. import _core
from .._errors import ConfigError, InputError, InternalError, NetworkError, PeerError, VesicaError
from .._jobs import Document, document
from .._progress import Progress, watcher
from .._report import Report
from . import _keeper, _lanes, _network, _rows, _storage

#: Seconds between looks at the lanes.
LOOK = 0.5


class Matched(NamedTuple):
    """What a run on a cluster gives."""

    #: The rows that matched, as a `ray.data.Dataset`. None for a party that does not learn.
    dataset: Any
    #: The driver's report, with the lanes' costs added up.
    report: Report


def run(
    job: Document | None = None,
    data: _rows.Paths | None = None,
    *,
    storage: str | os.PathLike[str],
    workers: int = 8,
    output: str | os.PathLike[str] | None = None,
    doors: int | None = None,
    advertise: Sequence[str] | None = None,
    accept: Sequence[str] = (),
    progress: Progress = None,
    **fields: Any,
) -> Matched:
    """Matches Parquet files with another party, on the cluster that `ray.init` joined. The other party runs the same job, on a cluster
    of its own or on one machine by `vesica run`.

    `job` is as for `vesica.run`. `data` names the files: files, folders, or addresses that `pyarrow.fs` knows; without it they are the
    job's `mine.input.path`. `storage` is a folder that the driver and every worker see under this name. `workers` lanes are worked on at
    once. The rows that matched are written to the folder `output`, or else to the job's `mine.output.path`, a file for each file of
    `data` that has any, in its order; they are what the Dataset reads.

    A party that listens has a door on each of `doors` nodes, at the ports after that of `mine.listen`. `advertise` says at which
    addresses the other party reaches the doors, if these are not those of the nodes.

    A cluster of several nodes has TLS between them (`RAY_USE_TLS=1` on each), or is refused. Where the network of the nodes belongs to this
    party alone, `accept=["cluster_without_tls"]` lets it run without.

    Where both parties learn, the rows of the two sides do not line up. Each row has a column `pair`: the same number on both sides for
    the same key.
    """
    _network.check(accept)
    text, is_json = document(job, fields)
    read, keep = _core.read_job(text, is_json, data is not None)
    spec = json.loads(read)
    if data is None and "path" not in spec["mine"]["input"]:
        raise ConfigError("mine.input: a cluster reads files and starts no program: name them in mine.input.path or in data=")
    files = _rows.files(spec["mine"]["input"]["path"] if data is None else data)
    place = output if output is not None else None if keep else spec["mine"].get("output", {}).get("path")
    return _Run(spec, _Files(files, spec, place), Path(storage), workers, doors, advertise, accept, progress).run()


def match(
    dataset: Any,
    *,
    keys: str | Sequence[str],
    id: str,
    job: Document | None = None,
    storage: str | os.PathLike[str],
    workers: int = 8,
    doors: int | None = None,
    advertise: Sequence[str] | None = None,
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
    names = [keys] if isinstance(keys, str) else list(keys)
    text, is_json = document(job, fields)
    spec = json.loads(_core.read_job(text, is_json, True)[0])
    if spec["mine"]["input"]["keys"] != names:
        said = spec["mine"]["input"]["keys"]
        raise ConfigError(f"mine.input.keys: is {said}, and keys= is {names}; name the same columns, in the same order")
    if spec["mine"].get("resume"):
        raise ConfigError("mine.resume: a Dataset cannot be recognised after a restart; write it to Parquet and use vesica.ray.run")
    source = _Dataset(dataset, names, id)
    return _Run(spec, source, Path(storage), workers, doors, advertise, accept, progress).run()


class _Files:
    """Rows of Parquet files, written back by file."""

    def __init__(self, files: _rows.Files, spec: dict[str, Any], output: str | os.PathLike[str] | None) -> None:
        self.files, self.spec = files, spec
        said = spec["mine"].get("output") or {}
        for field, right in (("format", "parquet"), ("null", None)):
            if said.get(field, right) != right:
                raise ConfigError(f"mine.output.{field}: is {said[field]!r}; a run on a cluster writes Parquet, so leave it out")
        if said.get("parts") is not None:
            raise ConfigError(
                f"mine.output.parts: is {said['parts']!r}; a run on a cluster writes a file for each file of the input, so leave it out"
            )
        self.columns: list[str] | None = said.get("columns")
        self.output = Path(output or "").absolute()
        if spec["mine"]["name"] in spec["shared"]["learns"]:
            if output is None:
                raise ConfigError("mine.output.path: is missing: name a folder for the rows that match, or give output=")
            missing = [name for name in self.columns or [] if name not in files.schema.names]
            if missing:
                raise InputError(f"{files.paths[0]}: there is no column {missing[0]!r} (mine.output.columns)")
            if "pair" in (self.columns or files.schema.names) and len(spec["shared"]["learns"]) > 1:
                raise InputError(f"{files.paths[0]}: has a column 'pair', which the output needs for its own; rename it")
            if self.output.exists() and (not self.output.is_dir() or any(self.output.iterdir())):
                # Another program's rows are never replaced, and nothing in a folder says that they are this run's.
                killed = (
                    "If it has the rows of a run that was killed at its end and is to go on by mine.resume, move them away: the run writes "
                    "them again"
                )
                raise ConfigError(f"output: {self.output}: is there already and not an empty folder; name another one, or empty it. {killed}")

    @property
    def identity(self) -> bytes:
        """What a run is about that is taken up again: the files, and the columns that are keys."""
        keys = json.dumps(self.spec["mine"]["input"]["keys"]).encode()
        return hashlib.blake2b(self.files.identity + keys, digest_size=32).digest()

    def rows(self) -> int:
        return self.files.rows

    def cut(self, run: str) -> Any:
        return _rows.from_files(self.files, run, self.spec["mine"]["input"]["keys"])

    def write(self, work: _lanes.Work, units: list[int], folder: Path, with_pair: bool) -> int:
        """Writes what these units found beside its place; says how many found rows came."""
        # Rows are in clear here, and in their place only when the run has ended well: until then they are this user's alone.
        folder.mkdir(mode=0o700, parents=True)
        found = _rows.gather(work, units, self.files, folder, self.columns, with_pair) if units else 0
        if not any(folder.glob("*.parquet")):
            names = self.columns or self.files.schema.names
            empty = self.files.schema.empty_table().select(names)
            if with_pair:
                empty = empty.append_column("pair", pa.array([], pa.uint64()))
            pq.write_table(empty, folder / "part-000000.parquet")
        return found

    def commit(self, folder: Path) -> Any:
        """Puts what was written in its place; gives it as a Dataset."""
        self.output.mkdir(parents=True, exist_ok=True)
        folder.chmod(self.output.stat().st_mode & 0o777)
        os.replace(folder, self.output)
        return ray.data.read_parquet(str(self.output))

    def discard(self, run: str) -> None:
        """Removes what was written and not put in its place."""
        shutil.rmtree(self.beside(run), ignore_errors=True)

    def written(self) -> dict[str, Any]:
        """What the report says of the output."""
        parts = list(self.output.glob("*.parquet"))
        rows = sum(pq.read_metadata(part).num_rows for part in parts)
        return {"path": str(self.output), "rows": rows, "bytes": sum(part.stat().st_size for part in parts)}

    def beside(self, run: str) -> Path:
        """Where rows are written before they are put in place."""
        return self.output.with_name(f".{self.output.name}.{run}")


class _Dataset:
    """Rows of a Dataset, called by a column of integers."""

    def __init__(self, dataset: Any, keys: list[str], id: str) -> None:
        # The run reads the rows once; what makes them may be slow or not give the same twice.
        self.dataset, self.keys, self.id = dataset.materialize(), keys, id
        schema = self.dataset.schema()
        for name in [*keys, id]:
            if schema is None or name not in schema.names:
                raise InputError(f"the Dataset has no column {name!r}")
        self.type = schema.types[schema.names.index(id)]
        if not pa.types.is_integer(self.type):
            raise InputError(f"column {id!r}: holds {self.type}; rows are called by integers")
        with _raised():
            _rows.distinct(self.dataset, id)
        self.identity = secrets.token_bytes(32)
        self.result: Any = None

    def rows(self) -> int:
        return self.dataset.count()

    def cut(self, run: str) -> Any:
        return _rows.from_dataset(self.dataset, run, self.keys, self.id)

    def write(self, work: _lanes.Work, units: list[int], folder: Path, with_pair: bool) -> int:
        id, kind = self.id, self.type

        def named(terms: _core.Terms, table: pa.Table) -> pa.Table:
            # An id below zero has passed through the lanes as the number that has its bits.
            columns = {id: table["row"].cast(pa.int64(), safe=False).cast(kind, safe=False)}
            if with_pair:
                columns["pair"] = table["pair"]
            return pa.table(columns)

        if units:
            self.result = _rows.found(work, units, named).materialize()
        else:
            columns = {id: pa.array([], kind), **({"pair": pa.array([], pa.uint64())} if with_pair else {})}
            self.result = ray.data.from_arrow(pa.table(columns))
        return self.result.count()

    def commit(self, folder: Path) -> Any:
        return self.result

    def discard(self, run: str) -> None:
        return None

    def written(self) -> None:
        return None

    def beside(self, run: str) -> Path:
        return Path(run)


class _Run:
    """A run from its start to its end, over as many links as it takes."""

    def __init__(
        self,
        spec: dict[str, Any],
        source: _Files | _Dataset,
        storage: Path,
        workers: int,
        doors: int | None,
        advertise: Sequence[str] | None,
        accept: Sequence[str],
        progress: Progress,
    ) -> None:
        if workers < 1:
            raise ConfigError(f"workers: is {workers}; name at least one")
        self.source, self.spec, self.storage = source, spec, storage.absolute()
        self.workers, self.doors, self.advertise = workers, doors, list(advertise or [])
        self.accept = accept
        self.tell = watcher(progress) or (lambda event: None)
        self.began = time.monotonic()
        self.learns = spec["mine"]["name"] in spec["shared"]["learns"]
        self.all_learn = len(spec["shared"]["learns"]) == len(spec["shared"]["parties"])
        _storage.probe(self.storage)
        mine = spec["mine"]
        # Lanes are shares that never change, so there are more of them than workers on either side: each worker has its part of the last.
        mine.setdefault("lanes", min(4 * workers, 1024))
        mine.setdefault("workers", 2 * workers)
        # The engine wants the names of files, and opens none of them.
        mine["input"].pop("command", None)
        mine["input"]["path"] = str(self.storage / "table.parquet")
        if self.learns:
            mine["output"] = {"path": str(self.storage / "rows.parquet")}
        self.meeting = _core.Meeting(json.dumps(spec), True, source.identity, watcher(progress))
        self.folder: Path | None = None
        self.keeper: Any = None
        self.name = ""
        self.costs: list[dict[str, Any]] = []
        self.lane_costs: list[str] = []
        #: Whether the meeting was stopped from this side.
        self.over = False
        #: Whether the run ends without the other side.
        self.alone = False

    def run(self) -> Matched:
        """Meets the other side as often as the link breaks, until both are done."""
        with _network.Watch(self.accept, self._refuse) as self.watch:
            return self._run()

    def _run(self) -> Matched:
        try:
            while True:
                try:
                    return self._rest(self._meet())
                except NetworkError as error:
                    if self.over or not self.meeting.reached() or not self.meeting.again(self._finished()):
                        raise
                    self.tell({"event": "note", "text": f"lost the other side, waiting for it to come back: {error}"})
        except BaseException as error:
            # The other side is told whose fault it is, if it is still there.
            with contextlib.suppress(VesicaError):
                self.meeting.abort(error.fault if isinstance(error, VesicaError) else "interrupted")
            if self.folder is not None:
                # A run that is taken up again writes its rows anew.
                self.source.discard(self.folder.name)
            # Of a run that was refused while it lasted, the rest is what followed from that.
            self.watch.told()
            raise
        finally:
            self.meeting.cancel()
            if self.keeper is not None:
                ray.kill(self.keeper)

    def _refuse(self) -> None:
        """A node has joined that is not let in. No worker there is given the secret, and what is under way ends."""
        self.over = True
        self.meeting.cancel()
        if self.keeper is not None:
            ray.kill(self.keeper)

    def _meet(self) -> _core.Start:
        """Meets the other side. If that is gone and is not needed any more, the run goes on without it."""
        if self.folder is None and (kept := self._kept()) is not None and (kept / "index").exists():
            # What cannot be read here is refused before anybody is contacted.
            _rows.Units.read(kept / "index")
        try:
            return self.meeting.meet(self._finished(), self._begun())
        except (NetworkError, PeerError):
            start = self.meeting.alone(self._finished())
            if start is None:
                raise
            self.alone = True
            return start

    def _kept(self) -> Path | None:
        """The folder of the run that the meeting would go on with: this process's, or that of one before it."""
        run = self.meeting.run()
        return None if run is None else self.storage / run

    def _finished(self) -> list[int]:
        """The units that are done on this side."""
        folder = self._kept()
        return _lanes.finished(folder) if folder is not None and (folder / "found").is_dir() else []

    def _begun(self) -> int | None:
        """How often units were begun on this side. None if there is a run whose files are lost, of which nobody can say it."""
        folder = self._kept()
        if folder is None:
            return 0
        return _lanes.begun(folder) if (folder / "begun").is_dir() else None

    def _rest(self, start: _core.Start) -> Matched:
        """The run from the meeting to its end."""
        self._enter(start)
        folder = self.folder
        assert folder is not None
        units, rows = self._units(), self.source.rows()
        self.meeting.size(units.keys, rows - units.given, rows, units.largest)
        terms = self._match()
        # A unit that is missing here is found out by the meeting, which knows whose fault that is.
        found = [terms.unit(unit, _lanes.found_file(folder, unit).read_bytes()) for unit in _lanes.finished(folder)]
        try:
            self.meeting.settle(found)
        except InputError:
            # Too few keys are common: what was found may not be looked at, by nobody.
            shutil.rmtree(folder / "found")
            raise
        matched = {unit: rows for unit, _, _, rows, _ in found}
        dataset = None
        if self.all_learn:
            self._write(terms, matched)
        self.meeting.finish()
        if self.all_learn:
            dataset = self.source.commit(self.source.beside(start.run))
        report = json.loads(self.meeting.close(self.lane_costs, _lanes.begun(folder)))
        if self.learns and not self.all_learn:
            # The other side is gone by now, and does not see from the clock how much there is.
            self._write(terms, matched)
            dataset = self.source.commit(self.source.beside(start.run))
        if self.learns:
            report["outcome"]["output"] = self.source.written()
        report["cost"] += self.costs
        self.meeting.forget()
        shutil.rmtree(folder)
        return Matched(dataset, Report.from_json(json.dumps(report)))

    def _enter(self, start: _core.Start) -> None:
        """The run's folder and its keeper, unless they are those of the run already."""
        folder = self.storage / start.run
        if self.folder == folder:
            return
        if self.keeper is not None:
            ray.kill(self.keeper)
        if self.folder is not None:
            # The other side has forgotten that run. Rows of it are in clear where they were about to be put in place.
            self.source.discard(self.folder.name)
        for inner in ("found", "begun"):
            (folder / inner).mkdir(mode=0o700, parents=True, exist_ok=True)
        _storage.sync(self.storage)
        self.folder = folder
        self.name, self.keeper = _keeper.keep(start)

    def _units(self) -> _rows.Units:
        """The packed units, which are made unless they stand in the run's folder."""
        assert self.folder is not None
        index = self.folder / "index"
        if not index.exists():
            with self._phase("shuffle", "rows", self.source.rows()):
                for old in self.folder.glob("units-*"):
                    shutil.rmtree(old)
                packed = self.folder / f"units-{secrets.token_hex(4)}"
                packed.mkdir(mode=0o700)
                rows = self.source.cut(self.name)
                if rows is not None:
                    _rows.shuffle(rows, self.name, self.source.rows(), packed)
                units = _rows.Units.index(packed)
                read, given = ray.get(self.keeper.counted.remote())
                if (read, given) != (self.source.rows(), units.given):
                    raise InternalError(
                        f"{self.source.rows()} rows: {read} were read, {given} of them have a key, and {units.given} came out of the shuffle; "
                        "a block was lost, or two rows of a Dataset have one id"
                    )
                _storage.put(index, units.to_json())
        return _rows.Units.read(index)

    def _match(self) -> _core.Terms:
        """Has the lanes match what is missing."""
        if self.alone or self.meeting.dials():
            terms = self.meeting.lanes([], self.workers)
            with self._phase("match", "units", terms.units):
                if not terms.is_whole:
                    self._dial(terms)
                self.meeting.finished()
            return terms
        group, doors, listens, told, seats = self._doors()
        try:
            terms = self.meeting.lanes(told, self.workers)
            with self._phase("match", "units", terms.units):
                if terms.is_whole:
                    self.meeting.finished()
                else:
                    self._listen(terms, doors, listens, seats)
        finally:
            for door in doors:
                ray.kill(door)
            remove_placement_group(group)
        return terms

    def _work(self, terms: _core.Terms) -> _lanes.Work:
        assert self.folder is not None
        return _lanes.Work(self.name, self.folder, terms.to_bytes(), _lanes.attempt(self.folder))

    def _dial(self, terms: _core.Terms) -> None:
        """A task a lane, in ascending order, so many at once as both sides have seats for."""
        work, lanes = self._work(terms), iter(range(terms.lanes))
        running: list[Any] = []
        self.lane_costs = []
        try:
            while True:
                while len(running) < terms.at_once and (number := next(lanes, None)) is not None:
                    running.append(_lanes.dial.remote(work, number))
                if not running:
                    return
                done, running = ray.wait(running, timeout=LOOK)
                self.lane_costs += [_result(ref) for ref in done]
                self.meeting.progress(self._step(), terms.units)
        except NetworkError as error:
            raise _lanes.grave([error, *_ended(running, LOOK)]) or error
        finally:
            for ref in running:
                ray.cancel(ref, recursive=True)
            ray.wait(running, num_returns=len(running), timeout=10) if running else None

    def _doors(self) -> tuple[Any, list[Any], list[str], list[str], int]:
        """The doors and the place that is kept for them, where each listens, what the other side is told, and the seats of each."""
        host, _, port = self.spec["mine"]["listen"].rpartition(":")
        nodes = sum(bool(node["Alive"] and node["Resources"].get("CPU", 0) >= 1) for node in ray.nodes())
        count = self.doors or max(1, min(nodes, self.workers))
        if self.advertise and len(self.advertise) not in (1, count):
            raise ConfigError(f"advertise: names {len(self.advertise)} addresses for {count} doors; name one for each, or one for all")
        # On nodes of their own, if there are so many: a door that is lost is then the only one that is.
        group = placement_group([{"CPU": 1}] * count, strategy="STRICT_SPREAD" if nodes >= count else "SPREAD")
        if not group.wait(60):
            raise ConfigError(f"doors: the cluster has no room for {count} doors of a CPU each; ask for fewer, or for more nodes")
        place = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=i) for i in range(count)]
        doors = [_lanes.Door.options(num_cpus=1, scheduling_strategy=one).remote() for one in place]
        where = ray.get([door.address.remote() for door in doors])
        # Each node has the same port, so that one balancer serves all. Doors that share a node have ports one after the other.
        ports = [int(port) + 1 + where[:i].count(address) for i, address in enumerate(where)]
        # A job that is bound to one address has its doors there, too.
        bound = host not in ("", "0.0.0.0", "[::]")
        told = self.advertise or [f"{host if bound else address}:{port}" for address, port in zip(where, ports)]
        return group, doors, [f"{host or '0.0.0.0'}:{port}" for port in ports], told, -(-self.workers // count)

    def _listen(self, terms: _core.Terms, doors: list[Any], listens: list[str], seats: int) -> None:
        """Keeps the doors open until the other side says that its lanes are finished."""
        work = self._work(terms)
        serving = [door.serve.remote(work, listen, seats) for door, listen in zip(doors, listens)]
        ended: list[BaseException | None] = []

        def wait() -> None:
            try:
                self.meeting.finished()
                ended.append(None)
            except BaseException as error:
                ended.append(error)

        waiting = Thread(target=wait, name="vesica finished", daemon=True)
        waiting.start()
        try:
            while not ended:
                done, _ = ray.wait(serving, timeout=LOOK)
                if done and (error := _lanes.grave(_ended(serving))) is not None:
                    raise error
                for ref in done:
                    _result(ref)
                    if not ended:
                        raise InternalError("a door ended before its run; please report it")
                self._step()
            if (error := ended[0]) is not None:
                raise error
        except BaseException as error:
            if not ended:
                self.over = True
                self.meeting.cancel()
            for door in doors:
                door.stop.remote(now=True)
            if isinstance(error, NetworkError):
                # All doors end now, and what went wrong at any of them is known.
                raise _lanes.grave([error, *_ended(serving, 10)]) or error
            raise
        for door in doors:
            door.stop.remote()
        self.lane_costs, failed = [], []
        for ref in serving:
            try:
                self.lane_costs += _result(ref, timeout=30)
            except VesicaError as error:
                failed.append(error)
            except (ray.exceptions.RayError, TimeoutError):
                continue  # a door that was lost meanwhile takes what its lanes cost with it
        # What the other side did wrong in a lane is not forgotten because it had the units of that lane done at another door.
        error = _lanes.grave(failed)
        if error is not None and not isinstance(error, NetworkError):
            raise error

    def _write(self, terms: _core.Terms, units: dict[int, int]) -> None:
        """Has the rows that these units found written beside their place: so many rows each. Ray is given the units without a match,
        too, so that it does not see which these are. It is given them in an order that nobody knows: the other side may wait for all of them,
        and how long several workers take would say a little of where the unit with the most rows stands. A run has one such order: from several
        groups of units that are joined together, and how many rows each has, the rows of single units would follow."""
        assert self.folder is not None
        beside = self.source.beside(self.folder.name)
        self.source.discard(self.folder.name)
        with self._phase("write", "rows", None):
            expected = sum(units.values())
            order = [unit for unit in terms.order() if unit in units] if expected else []
            came = self.source.write(self._work(terms), order, beside, self.all_learn)
        if came != expected:
            why = "a block was lost between the units and the files; the run can be ended again from what it kept"
            raise InternalError(f"{expected} rows were found, and {came} of them came to be written: {why}")

    def _step(self) -> int:
        """Tells how many units are finished, and gives that number."""
        done = ray.get(self.keeper.units.remote())
        self.tell({"event": "done", "done": done})
        return done

    @contextlib.contextmanager
    def _phase(self, name: str, of: str, total: int | None) -> Iterator[None]:
        self.watch.look()
        self.tell({"event": "phase", "name": name, "of": of, "total": total})
        began = time.monotonic()
        with _raised():
            yield
        # Also of a phase that went on until its end.
        self.watch.look()
        wall = time.monotonic() - began
        self.tell({"event": "phase_end", "name": name, "of": of, "wall_s": wall, "bytes": (0, 0)})
        if name != "match":
            cost = {"phase": name, "step": name, "began_s": began - self.began, "wall_s": wall, "cpu_s": 0.0}
            cost |= {"sent": 0, "received": 0, "rounds": 0}
            self.costs.append(cost)


def _ended(refs: list[Any], seconds: float = 0) -> list[BaseException]:
    """What has gone wrong with any of these, or does within so many seconds."""
    found: list[BaseException] = []
    for ref in ray.wait(refs, num_returns=len(refs), timeout=seconds)[0] if refs else []:
        try:
            _result(ref)
        except VesicaError as error:
            found.append(error)
        except ray.exceptions.RayError:
            continue  # a worker that was lost is no news beside a link that was
    return found


def _result(ref: Any, timeout: float | None = None) -> Any:
    with _raised():
        return ray.get(ref, timeout=timeout)


@contextlib.contextmanager
def _raised() -> Iterator[None]:
    """Raises an exception of this package's as itself, where Ray wraps what a worker raised."""
    try:
        yield
    except ray.exceptions.RayError as error:
        inner: Any = error
        for _ in range(10):
            if isinstance(inner, VesicaError) and not isinstance(inner, ray.exceptions.RayError):
                raise inner from None
            inner = getattr(inner, "cause", None) or getattr(inner, "__cause__", None)
        raise
