"""Ray as the engine of a run: its tasks, which Ray starts again if their worker dies.

Doors are tasks, too. A worker that has had a task is never given an actor, and the other way round, so a door that is an actor begins with a worker of
its own, which takes a second or two of a core to start, and ends with it. As a task it has one that has cut rows, and that will write them.
"""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import ray
from ray.util.metrics import Counter
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from .. import _core
from .._cluster import engine, keeper, lanes
from .._cluster.rows import Work
from .._errors import ConfigError, InternalError, NetworkError, VesicaError
from . import _network
from ._kit import Keeper, Kit

#: The share of a store that pieces may take.
ROOM = 0.7

#: Seconds between looks at the lanes.
LOOK = 0.5


class Engine:
    """The cluster that this process has joined."""

    name = "the Ray cluster"

    def __init__(self, keeper_port: int | Sequence[int] | None = None) -> None:
        self.ports = keeper.ports(keeper_port)
        self._keeper: Keeper | None = None

    @functools.cached_property
    def width(self) -> int:
        """The CPUs of all nodes."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    @property
    def room(self) -> int:
        """Most of what is free in the stores of all nodes. Behind four fifths of a store Ray writes all that is in it to disk, and reads it again."""
        return int(ray.available_resources().get("object_store_memory", 0) * ROOM)

    def watch(self, accept: Sequence[str], refuse: Callable[[], Any]) -> _network.Watch:
        """Looks for nodes that join. Those that are there reach this one, which is seen before the other side is met."""
        reached(self.ports)
        return _network.Watch(accept, refuse)

    def hold(self, start: _core.Start) -> Kit:
        """Threads of the driver answer workers. An actor would begin with a worker of its own, as a door would. If the driver ends, Ray ends the run's
        tasks, so nobody is left who could ask."""
        self.release()
        here = ray.get_runtime_context().get_node_id()
        self._keeper = Keeper(start, addresses()[here], self.ports)
        return self._keeper.kit

    def release(self) -> None:
        """Answers nobody any more."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()

    def exchange(self, items: Any, cut: engine.Cut, join: engine.Join, parts: int) -> tuple[list[Any], list[Any]]:
        """A task an item, whose pieces stay where it was, and a task a part, which reads them in place."""
        shared = ray.put(cut)
        made = [_cut.options(num_returns=parts + 1).remote(shared, item) for item in items]
        joined = [_join.remote(join, part, *[of[part + 1] for of in made]) for part in range(parts)]
        told = [of[0] for of in made]
        # Pieces are let go as soon as the last task that reads them is over.
        del made
        try:
            return _results(told), _results(joined)
        except BaseException:
            # Others go on, and may write rows of a run that has failed, behind whoever removes these.
            _stop([*told, *joined])
            raise

    def each(self, items: list[Any], do: Callable[[Any], Any]) -> list[Any]:
        """A task an item."""
        return _results(self.there(items, do))

    def there(self, items: list[Any], do: Callable[[Any], Any]) -> list[Any]:
        """The same, and what comes of each stays where it was made."""
        made = [_do.remote(do, item) for item in items]
        with raised():
            ray.wait(made, num_returns=len(made), fetch_local=False) if made else None
        return made

    def dial(self, work: Work, count: int, at_once: int, look: Callable[[], Any]) -> list[str]:
        """A task a lane, in ascending order, so many at once as both sides have seats for."""
        numbers = iter(range(count))
        running: list[Any] = []
        costs: list[str] = []
        try:
            while True:
                while len(running) < at_once and (number := next(numbers, None)) is not None:
                    running.append(_dial.remote(work, number))
                if not running:
                    return costs
                done, running = ray.wait(running, timeout=LOOK)
                costs += _results(done)
                look()
        except NetworkError as error:
            raise lanes.grave([error, *_ended(running, LOOK)]) or error
        finally:
            _stop(running)

    @contextlib.contextmanager
    def doors(self, spec: dict[str, Any], workers: int, count: int | None, advertise: list[str]) -> Iterator[Doors]:
        """Tasks, on nodes of their own as far as there are so many."""
        host, _, port = spec["mine"]["listen"].rpartition(":")
        nodes = sum(bool(node["Alive"] and node["Resources"].get("CPU", 0) >= 1) for node in ray.nodes())
        count = count or max(1, min(nodes, workers))
        if advertise and len(advertise) not in (1, count):
            raise ConfigError(f"advertise: names {len(advertise)} addresses for {count} doors; name one for each, or one for all")
        # On nodes of their own, if there are so many: a door that is lost is then the only one that is.
        group = placement_group([{"CPU": 1}] * count, strategy="STRICT_SPREAD" if nodes >= count else "SPREAD")
        try:
            if not group.wait(60):
                raise ConfigError(f"doors: the cluster has no room for {count} doors of a CPU each; ask for fewer, or for more nodes")
            place = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=i) for i in range(count)]
            nodes_of = placement_group_table(group)["bundles_to_node_id"]
            at = addresses()
            where = [at[nodes_of[i]] for i in range(count)]
            # Each node has the same port, so that one balancer serves all. Doors that share a node have ports one after the other.
            ports = [int(port) + 1 + where[:i].count(address) for i, address in enumerate(where)]
            # A job that is bound to one address has its doors there, too.
            bound = host not in ("", "0.0.0.0", "[::]")
            told = advertise or [f"{host if bound else address}:{port}" for address, port in zip(where, ports)]
            opens = [functools.partial(_door.options(scheduling_strategy=one).remote, f"{host or '0.0.0.0'}:{port}") for one, port in zip(place, ports)]
            yield Doors(opens, told, -(-workers // count), self._keeper)
        finally:
            # With it end doors that have not heard that they are to.
            remove_placement_group(group)


@dataclass(frozen=True)
class Doors:
    """The doors of a run."""

    #: Begin the task of each.
    opens: list[Callable[[Work, int], Any]]
    #: What the other side is told.
    told: list[str]
    #: The seats of each.
    seats: int
    #: Whom they ask whether they are to end.
    keeper: Keeper

    def serve(self, work: Work, driver: Any) -> list[str]:
        """Keeps the doors open until the other side says that its lanes are finished; gives what these cost."""
        serving = [opens(work, self.seats) for opens in self.opens]
        ended: list[BaseException | None] = []

        def wait() -> None:
            try:
                driver.meeting.finished()
                ended.append(None)
            except BaseException as error:
                ended.append(error)

        waiting = Thread(target=wait, name="vesica finished", daemon=True)
        waiting.start()
        try:
            while not ended:
                waiting.join(LOOK)
                done, _ = ray.wait(serving, timeout=0)
                if done and (error := lanes.grave(_ended(serving))) is not None:
                    raise error
                for ref in done:
                    _result(ref)
                    if not ended:
                        raise InternalError("a door ended before its run; run again, and report it if it comes again")
                driver._step(work.run)
            if (error := ended[0]) is not None:
                raise error
        except BaseException as error:
            if not ended:
                driver.over = True
                driver.meeting.cancel()
            self.keeper.end(work.attempt, True)
            if isinstance(error, NetworkError):
                # All doors end now, and what went wrong at any of them is known.
                raise lanes.grave([error, *_ended(serving, 10)]) or error
            raise
        self.keeper.end(work.attempt, False)
        costs: list[str] = []
        failed = []
        for ref in serving:
            try:
                costs += _result(ref, timeout=30)
            except VesicaError as error:
                failed.append(error)
            except (ray.exceptions.RayError, TimeoutError):
                continue  # a door that was lost meanwhile takes what its lanes cost with it
        # What the other side did wrong in a lane is not forgotten because it had the units of that lane done at another door.
        error = lanes.grave(failed)
        if error is not None and not isinstance(error, NetworkError):
            raise error
        return costs


def reached(ports: Sequence[int] = keeper.ANY) -> None:
    """Refuses a cluster of which a node does not reach this one, where its workers are to ask for the secret: a wall between nodes may let pass what is
    Ray's and nothing else. On each node this begins the worker that cuts rows later. Where all of these ports are taken, that is refused too."""
    here, at = ray.get_runtime_context().get_node_id(), addresses()
    others = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1 and node["NodeID"] != here]
    with keeper.listening(at[here], ports) as listens:
        place = at[here], listens.getsockname()[1]
        asked = {_reaches.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(place): node for node in others}
        # Of a node that says nothing, the run will hear.
        for ref in ray.wait(list(asked), num_returns=len(asked), timeout=60)[0] if asked else []:
            try:
                said = _result(ref)
            except ray.exceptions.RayTaskError as error:
                # What is wrong with the way it says itself: this is wrong with the program.
                said = str(error.cause).strip().rpartition("\n")[2]
                why = f"the node at {at[asked[ref]]} does not run Vesica as this process does: {said}"
                raise ConfigError(f"{why}; install the same version of Vesica on every node") from None
            except ray.exceptions.RayError:
                continue  # it is gone, and its tasks go elsewhere
            if said is not None:
                why = f"the node at {at[asked[ref]]} does not reach the driver's at {place[0]}:{place[1]}, where workers ask for what the run is sealed with"
                each = "each port that its system may choose (net.ipv4.ip_local_port_range), or name one or some in keeper_port"
                more = f"let every node reach that address, at {each if ports is keeper.ANY else 'all that keeper_port names'}"
                raise ConfigError(f"{why}: {said}; {more}")


def addresses() -> dict[str, str]:
    """Where each node is."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}


@functools.cache
def _counter() -> Counter:
    """Ray shows it as `ray_vesica_units_total`."""
    return Counter("vesica_units", description="Units that Vesica finished.")


def tell() -> None:
    """Counts a unit that was finished."""
    _counter().inc(1)


@ray.remote(num_cpus=0, max_retries=0)
def _reaches(place: tuple[str, int]) -> str | None:
    """What is wrong with the way to this place."""
    try:
        with socket.create_connection(place, timeout=10):
            return None
    except OSError as error:
        return str(error)


@ray.remote(num_cpus=1, max_retries=-1)
def _cut(cut: engine.Cut, item: Any) -> list[Any]:
    told, pieces = cut(item)
    return [told, *pieces]


@ray.remote(num_cpus=1, max_retries=-1)
def _join(join: engine.Join, part: int, *pieces: Any) -> Any:
    return join(part, pieces)


@ray.remote(num_cpus=1, max_retries=-1)
def _do(do: Callable[[Any], Any], item: Any) -> Any:
    return do(item)


@ray.remote(num_cpus=1, max_retries=-1)
def _dial(work: Work, number: int) -> str:
    return lanes.Dial(work, tell)(number)


@ray.remote(num_cpus=1, max_retries=-1)
def _door(listen: str, work: Work, seats: int) -> list[str]:
    """Takes lanes until the keeper says that the attempt is over; gives what they cost. A door is the same wherever it stands, so Ray starts it anew if its
    worker or its node dies, and the lanes that it had come again."""
    door, ended = lanes.Seats(), Event()

    def hear() -> None:
        heard: bool | None = None
        while not heard and not ended.is_set():
            try:
                word = work.kit.over(work.attempt, heard)
            except Exception:  # Whatever it is, it is asked again: a door that hears nothing would stay open.
                ended.wait(LOOK)
                continue
            if word is not None:
                heard = word
                door.stop(now=heard)

    # If the door ends before, nobody waits for what the keeper may still say.
    Thread(target=hear, name="vesica over", daemon=True).start()
    try:
        return door.serve(work, listen, seats, tell)
    finally:
        # Where this task was cancelled, too. The port is free for the next attempt.
        door.stop(now=True)
        ended.set()


def _results(refs: list[Any]) -> list[Any]:
    with raised():
        return ray.get(refs)


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


def _stop(refs: list[Any]) -> None:
    """Ends tasks, and waits some seconds until they have."""
    for ref in refs:
        ray.cancel(ref, recursive=True)
    ray.wait(refs, num_returns=len(refs), timeout=10, fetch_local=False) if refs else None


def _result(ref: Any, timeout: float | None = None) -> Any:
    with raised():
        return ray.get(ref, timeout=timeout)


@contextlib.contextmanager
def raised() -> Iterator[None]:
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
