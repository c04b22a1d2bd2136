"""The driver: meets the other side, has the rows cut and shuffled, lets lanes match, and has the found rows written."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .. import _core
from .._errors import ConfigError, InputError, InternalError, NetworkError, PeerError, VesicaError
from .._jobs import Document, document
from .._progress import Progress, watcher
from .._report import Report
from . import lanes, output, parquet, rows
from .engine import Engine
from .storage import Address
from .storage import address as _address
from .storage import opened as _opened
from .storage import to_disk

#: Parts of the shuffle of what was found: so many, or one for each task at once, and never more than 16 bits number.
PARTS, MOST = 64, 1 << 16


def of_files(
    on: Engine,
    job: Document | None,
    data: parquet.Paths | None,
    given: str | os.PathLike[str] | None,
    fields: dict[str, Any],
    run: dict[str, Any],
) -> Run:
    """The run of a job over Parquet files."""
    text, is_json = document(job, fields)
    read, keep = _core.read_job(text, is_json, data is not None)
    spec = json.loads(read)
    if data is None and "path" not in spec["mine"]["input"]:
        raise ConfigError("mine.input: a cluster reads files and starts no program: name them in mine.input.path or in data=")
    files = parquet.files(spec["mine"]["input"]["path"] if data is None else data)
    place = given if given is not None else None if keep else spec["mine"].get("output", {}).get("path")
    return Run(spec, OfFiles(files, spec, place), on, **run)


def of_table(job: Document | None, keys: str | Sequence[str], fields: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A job over rows that the cluster has in tables of its own, and the names of the key columns."""
    names = [keys] if isinstance(keys, str) else list(keys)
    text, is_json = document(job, fields)
    spec = json.loads(_core.read_job(text, is_json, True)[0])
    said = spec["mine"]["input"]["keys"]
    if isinstance(said, dict):
        raise ConfigError(
            "shared.identifiers: several of a row are matched on one machine, and not in a cluster: name one key in mine.input.keys, or run on one machine"
        )
    if said != names:
        raise ConfigError(f"mine.input.keys: is {said}, and keys= is {names}; name the same columns, in the same order")
    return spec, names


class Placed:
    """Rows that are written, part by part, and stand in their place at the end."""

    def __init__(self, given: str | os.PathLike[str] | None, learns: bool, party: str) -> None:
        if learns and given is None:
            raise ConfigError("mine.output.path: is missing: name a folder for the rows that match, or give output=")
        self.output = output.output(given, party) if learns and given is not None else None
        #: The parts that tasks told of, since the run was last discarded, and those that were seen there.
        self.told: list[output.Part] = []
        self.there: list[output.Part] = []

    def ready(self, runs: Collection[str]) -> None:
        """Refuses, before anybody is contacted, what would end the run late. These runs of the job were begun and have not ended."""
        if self.output is not None:
            self.output.vacant(runs)

    def see(self, run: str) -> None:
        """Sees that what was written is there. A worker that mounts another disk under the same name is told while the other side is there still."""
        if self.output is not None:
            self.there = self.output.seen(run, self.told)

    def commit(self, run: str) -> None:
        """Has what was seen in its place."""
        if self.output is not None:
            self.output.commit(run, self.there)

    def discard(self, run: str) -> None:
        """Removes what was written and is not in its place."""
        self.told, self.there = [], []
        if self.output is not None:
            self.output.discard(run)

    def written(self) -> dict[str, Any] | None:
        """What the report says of the output."""
        if self.output is None:
            return None
        parts = self.output.parts()
        return {"path": self.output.address, "rows": sum(rows for _, rows, _ in parts), "bytes": sum(size for _, _, size in parts)}


class OfFiles(Placed):
    """Rows of Parquet files, written back by file."""

    def __init__(self, files: parquet.Files, spec: dict[str, Any], given: str | os.PathLike[str] | None) -> None:
        self.files, self.spec = files, spec
        #: Is told what the caller may want to know.
        self.tell: Callable[[dict[str, Any]], Any] = lambda event: None
        said = spec["mine"].get("output") or {}
        for field, right in (("format", "parquet"), ("null", None)):
            if said.get(field, right) != right:
                raise ConfigError(f"mine.output.{field}: is {said[field]!r}; a run on a cluster writes Parquet, so leave it out")
        if said.get("parts") is not None:
            raise ConfigError(
                f"mine.output.parts: is {said['parts']!r}; a run on a cluster writes a file for each file of the input, so leave it out"
            )
        self.columns: list[str] | None = said.get("columns")
        learns = spec["mine"]["name"] in spec["shared"]["learns"]
        if learns and given is not None:
            missing = [name for name in self.columns or [] if name not in files.schema.names]
            if missing:
                raise InputError(f"{files.paths[0]}: there is no column {missing[0]!r} (mine.output.columns)")
            if "pair" in (self.columns or files.schema.names) and len(spec["shared"]["learns"]) > 1:
                raise InputError(f"{files.paths[0]}: has a column 'pair', which the output needs for its own; rename it")
        super().__init__(given, learns, spec["mine"]["name"])

    @property
    def identity(self) -> bytes:
        """What a run is about that is taken up again: the files, and the columns that are keys."""
        keys = json.dumps(self.spec["mine"]["input"]["keys"]).encode()
        return hashlib.blake2b(self.files.identity + keys, digest_size=32).digest()

    def rows(self) -> int:
        return self.files.rows

    def shuffle(self, on: Engine, work: rows.Work, folder: str, units: int) -> tuple[list[Any], list[Any]]:
        """Cuts the rows and packs their units; gives what was told of the rows, and where the units stand."""
        parts = rows.parts(self.rows(), rows.NEAR, on.width, units)
        cut = rows.CutFiles(work, list(dict.fromkeys(self.spec["mine"]["input"]["keys"])), parts, f"{folder}-cut")
        room = on.room
        table, aside = rows.with_room(rows.stretches(self.files, on.width), room)
        if aside:
            needs = f"{aside >> 20:,} MiB of the shuffle do not fit into {room >> 20:,} MiB that {on.name} has for it in memory"
            self.tell({"event": "note", "text": f"{needs}, and go by way of the storage: with a larger object store a run takes less time"})
        try:
            return on.exchange(table, cut, rows.Pack(work, folder, parts), parts)
        finally:
            work.there().remove(work.name(f"{folder}-cut"))

    def ready(self, runs: Collection[str]) -> None:
        super().ready(runs)
        if not runs:
            # A run that is taken up again has come through its shuffle, or will be told there.
            rows.weigh(self.files, self.spec["mine"]["input"]["keys"])

    def write(self, on: Engine, work: rows.Work, units: list[int], with_pair: bool) -> int:
        """Writes what these units found; says how many found rows came."""
        place, found = self.output.begin(work.run), 0
        if units:
            files, parts = self.files, min(len(self.files.paths), max(on.width, PARTS), MOST)
            take = rows.Take(work, files.paths, files.groups, files.digests, place, self.columns, parts)
            _, taken = on.exchange(rows.grouped(units), rows.CutFound(work, parts), take, parts)
            found = sum(rows for rows, _ in taken)
            self.told = [part for _, parts in taken for part in parts]
        if not self.told:
            names = self.columns or self.files.schema.names
            none = self.files.schema.empty_table().select(names)
            if with_pair:
                none = none.append_column("pair", pa.array([], pa.uint64()))
            self.told = [place.put(0, functools.partial(pq.write_table, none))]
        return found


class Begun:
    """The names of the runs of a job that have something in the storage, in a file beside what `mine.resume` keeps. A driver that is killed when the
    other side has forgotten its run knows that run no more: the ledger has the next one by then. Without `mine.resume` nothing is kept: who may still
    be at work on those runs, nobody would know."""

    def __init__(self, mine: dict[str, Any]) -> None:
        self._path = Path(mine["resume"]) / f"{mine['name']}.runs" if mine.get("resume") else None

    def runs(self) -> list[str]:
        """Those names. The ledger is locked for this driver."""
        if self._path is None or not self._path.exists():
            return []
        # The last one may be torn.
        return list(dict.fromkeys(re.findall(r"^[0-9a-f]{64}$", self._path.read_text(errors="replace"), re.MULTILINE)))

    def add(self, run: str) -> None:
        """One more, which nothing was put into the storage for."""
        if self._path is None:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self._path, "a") as file:
            file.write(f"\n{run}\n")
            file.flush()
            os.fsync(file.fileno())
        to_disk(self._path.parent)

    def clear(self) -> None:
        """They are gone."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class Run:
    """A run from its start to its end, over as many links as it takes."""

    def __init__(
        self,
        spec: dict[str, Any],
        source: Any,
        on: Engine,
        *,
        storage: Address,
        workers: int,
        doors: int | None = None,
        advertise: Sequence[str] | None = None,
        accept: Sequence[str] = (),
        progress: Progress = None,
    ) -> None:
        if workers < 1:
            raise ConfigError(f"workers: is {workers}; name at least one")
        self.source, self.spec, self.on = source, spec, on
        self.address = _address(storage)
        if source.output is not None and f"{self.address}/".startswith(f"{source.output.address}/"):
            raise ConfigError(f"storage: {self.address}: is below the output, {source.output.address}; name another place for one of them")
        self.there = _opened(self.address)
        self.workers, self.doors, self.advertise = workers, doors, list(advertise or [])
        self.accept = accept
        told = watcher(progress)
        self.tell = told if told is not None else lambda event: None
        if isinstance(source, OfFiles):
            source.tell = self.tell
        self.began = time.monotonic()
        self.learns = spec["mine"]["name"] in spec["shared"]["learns"]
        self.all_learn = len(spec["shared"]["learns"]) == len(spec["shared"]["parties"])
        self.there.probe()
        mine = spec["mine"]
        # Lanes are shares that never change, so there are more of them than workers on either side: each worker has its part of the last.
        mine.setdefault("lanes", min(4 * workers, 1024))
        mine.setdefault("workers", 2 * workers)
        # The engine wants the names of files, and opens none of them.
        mine["input"].pop("command", None)
        mine["input"]["path"] = "table.parquet"
        if self.learns:
            mine["output"] = {"path": "rows.parquet"}
        self.meeting = _core.Meeting(json.dumps(spec), True, source.identity, watcher(progress))
        #: Whether all that can be refused before the other side is met was looked at.
        self.ready = False
        #: The run that the sides met for, in the storage, or the one that was kept when this driver was started.
        self.name: str | None = None
        self.work: rows.Work | None = None
        #: The runs of this job of which something may stand in the storage, and those of them that the other side has forgotten.
        self.begun = Begun(mine)
        self.forgotten: list[str] = []
        self.costs: list[dict[str, Any]] = []
        self.lane_costs: list[str] = []
        #: Units that were finished when they were last counted, and when they are to be counted again.
        self.done, self.next_look = 0, 0.0
        #: Whether the meeting was stopped from this side.
        self.over = False
        #: Whether the run ends without the other side.
        self.alone = False

    def run(self) -> Report:
        """Meets the other side as often as the link breaks, until both are done."""
        with self.on.watch(self.accept, self._refuse) as self.watch:
            return self._run()

    def _run(self) -> Report:
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
            if self.name is not None:
                # A run that is taken up again writes its rows anew.
                try:
                    self.source.discard(self.name)
                except Exception as other:
                    # What went wrong before it is what is told.
                    self.tell({"event": "note", "text": f"what was written of the output could not be removed: {other}"})
            # Of a run that was refused while it lasted, the rest is what followed from that.
            self.watch.told()
            raise
        finally:
            self.meeting.cancel()
            self.on.release()

    def _refuse(self) -> None:
        """A machine has joined that is not let in. No worker there is given the secret, and what is under way ends."""
        self.over = True
        self.meeting.cancel()
        self.on.release()

    def _meet(self) -> _core.Start:
        """Meets the other side. If that is gone and is not needed any more, the run goes on without it."""
        if not self.ready:
            # What cannot be read or written here is refused before anybody is contacted.
            kept, begun = self.meeting.run(), self.begun.runs()
            self.source.ready({*begun, *([kept] if kept is not None else [])})
            if kept is not None:
                if self.there.has(f"{kept}/index"):
                    rows.Units.from_json(self.there.get(f"{kept}/index"), f"{self.address}/{kept}")
                lanes.mend(self.there, kept)
            self.name = kept
            for run in begun:
                if run != kept:
                    self._let_go(run)
            self.ready = True
        try:
            return self.meeting.meet(self._finished(), self._begun())
        except (NetworkError, PeerError):
            start = self.meeting.alone(self._finished())
            if start is None:
                raise
            self.alone = True
            return start

    def _finished(self) -> list[int]:
        """The units that are done on this side, of the run that the meeting would go on with."""
        run = self.meeting.run()
        return [] if run is None else lanes.finished(self.there, run)

    def _begun(self) -> int | None:
        """How often units were begun on this side. None if there is a run whose files are lost, of which nobody can say it."""
        run = self.meeting.run()
        return 0 if run is None else lanes.begun(self.there, run)

    def _rest(self, start: _core.Start) -> Report:
        """The run from the meeting to its end."""
        work = self._enter(start)
        units, count = self._units(work, start.units), self.source.rows()
        self.meeting.size(units.keys, count - units.given, count, units.largest)
        terms, work = self._match(work)

        # A unit that is missing here is found out by the meeting, which knows whose fault that is.
        def head(unit: int) -> tuple[int, bytes, int, int, int]:
            return terms.unit(unit, self.there.read(work.name("found", f"unit-{unit}"), 0, terms.head))

        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(head, lanes.finished(self.there, work.run)))
        try:
            self.meeting.settle(found)
        except InputError:
            # Too few keys are common: what was found may not be looked at, by nobody. And the run is over: the next one is another.
            self.there.remove(work.name("found"))
            self.meeting.abort("input")
            self._end(work.run)
            raise
        matched = {unit: of_unit for unit, _, _, of_unit, _ in found}
        if self.all_learn:
            self._write(work, terms, matched)
        self.meeting.finish()
        if self.all_learn:
            self.source.commit(work.run)
        report = json.loads(self.meeting.close(self.lane_costs, lanes.begun(self.there, work.run) or 0))
        if self.learns and not self.all_learn:
            # The other side is gone by now, and does not see from the clock how much there is.
            self._write(work, terms, matched)
            self.source.commit(work.run)
        if self.learns:
            report["outcome"]["output"] = self.source.written()
        report["cost"] += self.costs
        self._end(work.run)
        return Report.from_json(json.dumps(report))

    def _end(self, run: str) -> None:
        """Forgets a run that is over, and those that the other side has forgotten."""
        self.meeting.forget()
        for one in [*self.forgotten, run]:
            lanes.forget(self.there, one)
        self.begun.clear()

    def _enter(self, start: _core.Start) -> rows.Work:
        """What tasks are told of the run, which begins unless it is this one already."""
        if self.work is None or self.name != start.run:
            if self.name is not None and self.name != start.run:
                self._let_go(self.name)
            self.begun.add(start.run)
            self.there.put(f"{start.run}/shape", [json.dumps([start.units, start.lanes]).encode()])
            self.name = start.run
            # Whoever joined while the other side was awaited asks for nothing.
            self.watch.look()
            kit = self.on.hold(start)
            # And who was seen to join between these two lines: what was to be taken away then was not there yet.
            self.watch.told()
            self.work = rows.Work(kit, self.address, start.run)
        return self.work

    def _let_go(self, run: str) -> None:
        """The other side has forgotten this run, or this side has. Rows of it are in clear where they were about to be put in place."""
        self.source.discard(run)
        # What was begun in it stays counted, and closed to its lanes, until this side is done.
        self.there.remove(run, but="begun")
        self.forgotten.append(run)

    def _units(self, work: rows.Work, units: int) -> rows.Units:
        """The packed units, which are made unless they are there."""
        if not self.there.has(work.name("index")):
            count = self.source.rows()
            with self._phase("shuffle", "rows", count):
                folder = f"units-{secrets.token_hex(4)}"
                told, packed = self.source.shuffle(self.on, work, folder, units)
                made = rows.Units.of(folder, (place for part in packed for place in part))
                read, given = (sum(one[which] for one in told) for which in (0, 1))
                if (read, given) != (count, made.given):
                    raise InternalError(
                        f"{count} rows: {read} were read, {given} of them have a key, and {made.given} came out of the shuffle; a piece was lost"
                    )
                self.there.put(work.name("index"), [made.to_json()])
        return rows.Units.from_json(self.there.get(work.name("index")), f"{self.address}/{work.run}")

    def _match(self, work: rows.Work) -> tuple[_core.Terms, rows.Work]:
        """Has the lanes match what is missing."""

        def told(terms: _core.Terms) -> rows.Work:
            return replace(work, terms=terms.to_bytes(), attempt=lanes.attempt(self.there, work.run))

        if self.alone or self.meeting.dials():
            terms = self.meeting.lanes([], self.workers)
            with self._phase("match", "units", terms.units):
                if not terms.is_whole:
                    self.lane_costs = []

                    def look() -> None:
                        self.meeting.progress(self._step(work.run), terms.units)

                    self.lane_costs = self.on.dial(told(terms), terms.lanes, terms.at_once, look)
                self.meeting.finished()
            return terms, told(terms)
        with self.on.doors(self.spec, self.workers, self.doors, self.advertise) as doors:
            terms = self.meeting.lanes(doors.told, self.workers)
            with self._phase("match", "units", terms.units):
                if terms.is_whole:
                    self.meeting.finished()
                else:
                    self.lane_costs = doors.serve(told(terms), self)
        return terms, told(terms)

    def _write(self, work: rows.Work, terms: _core.Terms, units: dict[int, int]) -> None:
        """Has the rows that these units found written beside their place: so many rows each. Tasks are given the units without a match,
        too, so that nobody who sees them sees which these are. They are given in an order that nobody knows: the other side may wait for all of
        them, and how long several workers take would say a little of where the unit with the most rows stands. A run has one such order: from
        several groups of units that are joined together, and how many rows each has, the rows of single units would follow."""
        self.source.discard(work.run)
        with self._phase("write", "rows", None):
            expected = sum(units.values())
            order = [unit for unit in terms.order() if unit in units] if expected else []
            came = self.source.write(self.on, work, order, self.all_learn)
        if came != expected:
            why = "a piece was lost between the units and the files; the run can be ended again from what it kept"
            raise InternalError(f"{expected} rows were found, and {came} of them came to be written: {why}")
        # Parts are listed as they were written: how long it takes goes by how many they are.
        self.source.see(work.run)

    def _step(self, run: str) -> int:
        """Tells how many units are finished, and gives that number. To count is not what the run spends its time on, however slow the storage is."""
        began = time.monotonic()
        if began >= self.next_look:
            self.done = len(self.there.names(f"{run}/found"))
            self.tell({"event": "done", "done": self.done})
            self.next_look = began + 20 * (time.monotonic() - began)
        return self.done

    @contextlib.contextmanager
    def _phase(self, name: str, of: str, total: int | None) -> Iterator[None]:
        self.watch.look()
        self.tell({"event": "phase", "name": name, "of": of, "total": total})
        began = time.monotonic()
        yield
        # Also of a phase that went on until its end.
        self.watch.look()
        wall = time.monotonic() - began
        self.tell({"event": "phase_end", "name": name, "of": of, "wall_s": wall, "bytes": (0, 0)})
        if name != "match":
            cost = {"phase": name, "step": name, "began_s": began - self.began, "wall_s": wall, "cpu_s": 0.0}
            cost |= {"sent": 0, "received": 0, "rounds": 0}
            self.costs.append(cost)
