"""Lanes: a fixed share of a run's units each, over a link of its own.

A lane keeps nothing: what is finished stands in the storage, so to start it again is to read which units are. That a unit was found stands under
the unit's name, put exclusively, so what is answered once is never answered otherwise.

**Turns.** Each time that a unit is begun takes a turn of the run, and a run has so many of them as `limits.answers` allows. A lane takes turns
some at a time, before anything of these units is answered: the *own* turns of a stretch of its units, each of which has the unit's number, or if
another start of the lane has had those, a stretch of the turns that are common to all. Either is one small file, put exclusively and brought to
the disk, so no turn is taken twice, whoever is started how often. Turns that were taken count as begun whether they were used or not.

Example: lane 2 of 4 has the units 2, 6, 10, … and takes the turns of 2 to 62 by `own-2-0`. It breaks off in unit 10. The next start finds
`own-2-0` taken, and takes `again-0`: sixteen turns behind the last unit's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any

from .. import _core
from .._errors import NetworkError, Stopped
from .rows import Work, ended, indexed, is_whole
from .storage import Storage

#: Turns that are taken at once.
STRETCH = 16


def finished(there: Storage, run: str) -> list[int]:
    """The units that are found, in a run."""
    return sorted(int(name.removeprefix("unit-")) for name in there.names(f"{run}/found"))


def mend(there: Storage, run: str, units: Iterable[int] | None = None) -> int:
    """Removes found units that are not whole: their machine lost its power before their lane was over, and they are to be done again. Looks at
    these units, or at all; says how many it removed."""

    def look(unit: int) -> int:
        try:
            if is_whole(there.get(f"{run}/found/unit-{unit}")):
                return 0
        except FileNotFoundError:
            return 1  # another start of the lane was first
        there.remove(f"{run}/found/unit-{unit}")
        return 1

    with ThreadPoolExecutor(16) as pool:
        return sum(pool.map(look, finished(there, run) if units is None else units))


def keep(there: Storage, run: str, share: range, put: set[int]) -> None:
    """Brings all found units of a lane's share to the disk: those that this start of the lane put, and those of starts before it, whose link broke
    or whose worker was lost before they had done so. What a lost machine had not written is done again, by the lane's next start."""
    found = [unit for unit in finished(there, run) if unit in share]
    torn = mend(there, run, [unit for unit in found if unit not in put])
    if torn or len(found) < len(share):
        lost = torn + len(share) - len(found)
        raise NetworkError(f"{lost} found units of a lane were lost with the machine that had found them, and are done again")
    there.sync(f"{run}/found/unit-{unit}" for unit in found)


def forget(there: Storage, run: str) -> None:
    """Removes a run that is over. The counts go last: until then a lane that outlives it sees that it is."""
    there.remove(run, but="begun")
    there.remove(run)


def shape(there: Storage, run: str) -> tuple[int, int] | None:
    """How many units and lanes a run had when it began; None if its files are lost."""
    if not there.has(f"{run}/shape"):
        return None
    units, lanes = json.loads(there.get(f"{run}/shape"))
    return units, lanes


def attempt(there: Storage, run: str) -> int:
    """The number of a run's attempt: so many before it were closed."""
    return sum(name.startswith("closed-") for name in there.names(f"{run}/begun"))


def begun(there: Storage, run: str) -> int | None:
    """How many turns were taken in a run, in all attempts together; None if that is lost. The last attempt is closed before they are counted: a lane
    that outlives it takes none that nobody counts."""
    began = shape(there, run)
    if began is None:
        return None
    units, lanes = began
    there.put(f"{run}/begun/closed-{attempt(there, run)}", [b""])
    count = 0
    for name in there.names(f"{run}/begun"):
        kind, *of = name.split("-")
        if kind == "own":
            lane, stretch = map(int, of)
            count += len(range(lane, units, lanes)[stretch * STRETCH : (stretch + 1) * STRETCH])
        elif kind == "again":
            count += STRETCH
    return count


class Turns:
    """The turns of one start of a lane."""

    def __init__(self, work: Work, number: int, units: int, lanes: int) -> None:
        self._work, self._number, self._units = work, number, units
        self._share = range(number, units, lanes)
        #: Of each stretch of the lane's units, whether its own turns are this start's. If the run began with another number of lanes, its lanes had
        #: other units, and no start of this one has any.
        self._own: dict[int, bool] = {}
        self._as_it_began = shape(work.there(), work.run) == (units, lanes)
        self._common: list[int] = []
        self._lock = Lock()

    def take(self, unit: int) -> int:
        """The turn in which the unit is begun."""
        with self._lock:
            stretch = self._share.index(unit) // STRETCH
            if stretch not in self._own:
                self._own[stretch] = self._as_it_began and self._put(f"own-{self._number}-{stretch}")
            if self._own[stretch]:
                return unit
            if not self._common:
                there = self._work.there()
                number = sum(name.startswith("again-") for name in there.names(self._work.name("begun")))
                while not self._put(f"again-{number}"):
                    number += 1
                first = self._units + number * STRETCH
                self._common = list(range(first, first + STRETCH))
            return self._common.pop(0)

    def _put(self, name: str) -> bool:
        there, work = self._work.there(), self._work
        put = there.put(work.name("begun", name), [b""])
        # Looked for last, and beside what was just put there: either the count has these turns, or the mark is seen.
        if there.has(work.name("begun", f"closed-{work.attempt}")):
            raise Stopped("this attempt of the run is over, and its lanes begin nothing more")
        return put


def grave(errors: Iterable[BaseException | None]) -> BaseException | None:
    """Of what went wrong at the same time, what is to be told. That the link broke comes last, and before it that a lane was stopped: both
    follow from what the other side did wrong, which is not forgotten for them."""
    found = [error for error in errors if error is not None]
    return min(found, key=lambda error: (isinstance(error, NetworkError), isinstance(error, Stopped)), default=None)


def run_lane(lane: _core.Lane, work: Work, terms: _core.Terms, tell: Callable[[], Any]) -> str:
    """Does what is missing of a lane's units; gives what it cost, as JSON. Calls `tell` for each unit that is finished. Whatever goes wrong, the lane
    has no link behind this: an exception may hold the lane until Python collects garbage, and the other side would wait for it as long."""
    try:
        return _finish(lane, work, terms, tell)
    except BaseException as error:
        # If the link broke, the lane comes again. Anything else ends the run.
        if not isinstance(error, NetworkError):
            lane.cancel()
        raise
    finally:
        lane.let_go()


def _finish(lane: _core.Lane, work: Work, terms: _core.Terms, tell: Callable[[], Any]) -> str:
    there, units = work.there(), indexed(work)
    share = range(lane.number, terms.units, terms.lanes)
    # Units of an earlier start of this lane may be torn, and then they are not finished.
    mend(there, work.run, [unit for unit in finished(there, work.run) if unit in share])
    missing, settled = lane.missing(finished(there, work.run))
    turns = Turns(work, lane.number, terms.units, terms.lanes)
    mine: set[int] = set()

    def put(unit: int, data: bytes) -> None:
        # Another start of this lane may have been first: then its file stands, and the unit was counted.
        if there.put(work.name("found", f"unit-{unit}"), ended(data), durable=False):
            mine.add(unit)
            tell()

    for unit in settled:
        put(unit, terms.settled(unit))
    todo, lock = iter(missing), Lock()
    writes: list[Future[None]] = []

    def take_turns() -> None:
        written: Future[None] | None = None
        # Both sides begin units in the same order, so the next one is taken by whoever is free.
        while (unit := following(todo, lock)) is not None:
            data = lane.match_unit(unit, units.load(work, unit), turns.take(unit))
            if written is not None:
                # Each thread has one file under way at most.
                written.result()
            # The other side waits for the next unit, and not for this file. It is told that the lane is finished when all are there.
            written = writer.submit(put, unit, data)
            writes.append(written)

    with ThreadPoolExecutor(terms.in_lane) as writer, ThreadPoolExecutor(terms.in_lane) as pool:
        threads = [pool.submit(take_turns) for _ in range(terms.in_lane)]
        try:
            over, _ = wait(threads, return_when=FIRST_EXCEPTION)
        except BaseException:
            lane.cancel()
            raise
        error = grave(thread.exception() for thread in over)
        if error is not None and not isinstance(error, NetworkError):
            lane.cancel()
        # If the link broke, the other units end by themselves.
    # What a thread waits for is among the writes, too.
    error = grave(one.exception() for one in [*threads, *writes])
    if error is not None:
        raise error
    # Until now a unit whose file is lost with its machine is done again. Behind the goodbye the other side may forget the run.
    keep(there, work.run, share, mine)
    return lane.close()


def following(todo: Iterator[int], lock: Lock) -> int | None:
    """The next number, for one of several threads."""
    with lock:
        return next(todo, None)


@dataclass(frozen=True)
class Dial:
    """A lane, on the side that dials. It dials again by itself if its link breaks."""

    work: Work
    tell: Callable[[], Any]

    def __call__(self, number: int) -> str:
        work, terms = self.work, self.work.opened()
        breaks, share = _core.Breaks(), range(number, terms.units, terms.lanes)
        while True:
            try:
                # Any door takes any lane: after a break another one is tried, for the last may be gone with its node.
                address = terms.addresses[(number + breaks.times) % len(terms.addresses)]
                return run_lane(_core.Lane.dial(terms, number, address), work, terms, self.tell)
            except NetworkError:
                if not breaks.again(sum(unit in share for unit in finished(work.there(), work.run)), len(share)):
                    raise
                time.sleep(0.5 * breaks.times)


class Seats:
    """A door, on the side that listens: one port, and so many lanes at once as it has seats."""

    def __init__(self) -> None:
        self._door: _core.Door | None = None
        self._stopped = False

    def serve(self, work: Work, listen: str, seats: int, tell: Callable[[], Any]) -> list[str]:
        """Takes lanes until it is stopped; gives what they cost."""
        terms = work.opened()
        self._door = door = _core.Door(terms, listen, seats)
        costs: list[str] = []
        failed: list[BaseException] = []

        def seat() -> None:
            try:
                while (lane := door.next()) is not None:
                    try:
                        costs.append(run_lane(lane, work, terms, tell))
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
