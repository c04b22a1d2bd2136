"""Lanes: a fixed share of a run's units each, over a link of its own.

On the side that dials, a lane is a task that Ray starts again if its worker dies. On the side that listens, an actor on a node is a
door, which takes whichever lane knocks. Neither keeps anything: what is finished stands in files, so to start again is to read which.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread

import ray
from ray.util.metrics import Counter

from .. import _core
from .._errors import NetworkError, Stopped
from . import _keeper, _storage
from ._rows import Units


@dataclass(frozen=True)
class Work:
    """What every lane of an attempt is told. Nothing of it is secret: the terms are sealed."""

    #: The keeper's name.
    keeper: str
    #: The run's folder on the storage.
    folder: Path
    terms: bytes
    #: Which attempt of the run this is.
    attempt: int

    def opened(self) -> _core.Terms:
        """The terms, opened."""
        return _keeper.terms(self.keeper, self.terms)


def finished(folder: Path) -> list[int]:
    """The units whose found files stand in a run's folder."""
    return sorted(int(name.removeprefix("unit-")) for name in _storage.names(folder / "found"))


def found_file(folder: Path, unit: int) -> Path:
    """Where it is put what a unit found. That the file is there is the record that the unit is finished."""
    return folder / "found" / f"unit-{unit}"


def attempt(folder: Path) -> int:
    """The number of a run's attempt: so many before it were closed."""
    return sum(name.startswith("closed-") for name in _storage.names(folder / "begun"))


def begun(folder: Path) -> int:
    """How often units were begun in a run, in all attempts together. The last one is closed before it is counted: a lane that outlives it
    begins nothing that nobody counts."""
    _storage.put(folder / "begun" / f"closed-{attempt(folder)}", b"")
    return sum(not name.startswith("closed-") for name in _storage.names(folder / "begun"))


def _begin(work: Work, unit: int, units: int) -> int:
    """Writes down that the unit is begun, before anything of it is answered; gives the number of this beginning in the run. The first of a unit has
    the unit's number. The others have those behind all units, and each takes the next that is free: so no unit has more of what is allowed than
    another one needs, and nobody has to count what others are doing."""
    folder, turn = work.folder / "begun", unit
    if (folder / f"unit-{unit}").exists() or not _storage.put(folder / f"unit-{unit}", b""):
        turn = units + sum(name.startswith("again-") for name in _storage.names(folder))
        while (folder / f"again-{turn}").exists() or not _storage.put(folder / f"again-{turn}", b""):
            turn += 1
    # Looked for last, and beside what was just put there: either the count has this unit, or the mark is seen.
    if (folder / f"closed-{work.attempt}").exists():
        raise Stopped("this attempt of the run is over, and its lanes begin nothing more")
    return turn


def grave(errors: Iterable[BaseException | None]) -> BaseException | None:
    """Of what went wrong at the same time, what is to be told. That the link broke comes last, and before it that a lane was stopped: both
    follow from what the other side did wrong, which is not forgotten for them."""
    found = [error for error in errors if error is not None]
    return min(found, key=lambda error: (isinstance(error, NetworkError), isinstance(error, Stopped)), default=None)


@functools.cache
def _counter() -> Counter:
    """Ray shows it as `ray_vesica_units_total`."""
    return Counter("vesica_units", description="Units that Vesica finished.")


def run_lane(lane: _core.Lane, work: Work, terms: _core.Terms) -> str:
    """Does what is missing of a lane's units; gives what it cost, as JSON."""
    keeper = ray.get_actor(work.keeper)
    units = Units.read(work.folder / "index")
    missing, settled = lane.missing(finished(work.folder))

    def put(unit: int, data: bytes) -> None:
        # Another copy of this worker may have been first: then its file stands, and the unit was counted.
        if _storage.put(found_file(work.folder, unit), data):
            keeper.add.remote()
            _counter().inc(1)

    for unit in settled:
        put(unit, terms.settled(unit))
    todo, lock = iter(missing), Lock()
    writes: list[Future[None]] = []

    def take_turns() -> None:
        written: Future[None] | None = None
        # Both sides begin units in the same order, so the next one is taken by whoever is free.
        while (unit := _next(todo, lock)) is not None:
            data = lane.match_unit(unit, units.load(unit), _begin(work, unit, terms.units))
            if written is not None:
                # Each turn has one file under way at most.
                written.result()
            # The other side waits for the next unit, and not for this file. It is told that the lane is finished when all are there.
            written = writer.submit(put, unit, data)
            writes.append(written)

    with ThreadPoolExecutor(terms.in_lane) as writer, ThreadPoolExecutor(terms.in_lane) as pool:
        turns = [pool.submit(take_turns) for _ in range(terms.in_lane)]
        try:
            ended, _ = wait(turns, return_when=FIRST_EXCEPTION)
        except BaseException:
            lane.cancel()
            raise
        error = grave(turn.exception() for turn in ended)
        if error is not None and not isinstance(error, NetworkError):
            lane.cancel()
        # If the link broke, the other units end by themselves.
    # What a turn waits for is among the writes, too.
    error = grave(one.exception() for one in [*turns, *writes])
    if error is not None:
        if not isinstance(error, NetworkError):
            lane.cancel()
        raise error
    return lane.close()


def _next(todo: Iterator[int], lock: Lock) -> int | None:
    with lock:
        return next(todo, None)


@ray.remote(num_cpus=1, max_retries=-1)
def dial(work: Work, number: int) -> str:
    """A lane, on the side that dials. Ray starts it again if its worker dies; it dials again by itself if its link breaks."""
    terms = work.opened()
    breaks, share = _core.Breaks(), range(number, terms.units, terms.lanes)
    while True:
        try:
            # Any door takes any lane: after a break another one is tried, for the last may be gone with its node.
            address = terms.addresses[(number + breaks.times) % len(terms.addresses)]
            return run_lane(_core.Lane.dial(terms, number, address), work, terms)
        except NetworkError:
            if not breaks.again(sum(unit in share for unit in finished(work.folder)), len(share)):
                raise
            time.sleep(0.5 * breaks.times)


@ray.remote(max_restarts=-1, max_task_retries=-1, max_concurrency=4)
class Door:
    """A door, on the side that listens: one port, and so many lanes at once as it has seats. It is the same wherever it stands, so
    Ray starts it anew if its worker or its node dies, and the lanes that it had come again."""

    def __init__(self) -> None:
        self._door: _core.Door | None = None
        self._stopped = False

    def address(self) -> str:
        """The address of the node, inside the cluster."""
        return ray.util.get_node_ip_address()

    def serve(self, work: Work, listen: str, seats: int) -> list[str]:
        """Takes lanes until it is stopped; gives what they cost."""
        terms = work.opened()
        self._door = door = _core.Door(terms, listen, seats)
        costs: list[str] = []
        failed: list[BaseException] = []

        def seat() -> None:
            try:
                while (lane := door.next()) is not None:
                    try:
                        costs.append(run_lane(lane, work, terms))
                    except NetworkError:
                        continue  # the lane comes again
            except BaseException as error:
                failed.append(error)
                # The other lanes end too: the other side would keep one of them open for as long as nobody is to hear of this.
                door.stop()
                door.cancel()

        if self._stopped:
            door.stop()
        threads = [Thread(target=seat, name=f"seat {i}", daemon=True) for i in range(seats)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        error = grave(error for error in failed if not (self._stopped and isinstance(error, Stopped)))
        if error is not None:
            raise error
        return costs

    def stop(self, now: bool = False) -> None:
        """Lets nobody in any more; `now` ends the lanes that are in, too."""
        self._stopped = True
        if self._door is not None:
            self._door.stop()
            if now:
                self._door.cancel()
