"""What must not stand in Ray's object store: the secret of a run. An actor holds it, and each worker asks for it once.

What a function that Ray Data ships refers to, and what its constructor is given, stands in the object store in clear. What an actor's
constructor is given stands in the cluster's control store, which may be a database. So the actor is made without arguments and is
told the secret by a call, whose small arguments and results go from process to process.
"""

from __future__ import annotations

import functools
import secrets
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .. import _core


@ray.remote(num_cpus=0, max_restarts=0)
class Keeper:
    """Holds a run's secret, and counts: what was cut, so that no row gets lost unseen, and finished units for the driver's progress."""

    def __init__(self) -> None:
        self._kit = (b"", b"")
        self._units = 0
        self._parts: dict[int, tuple[int, int]] = {}

    def hold(self, start: bytes, secret: bytes) -> None:
        """Takes the start, which is sealed, and the secret."""
        self._kit = (start, secret)

    def kit(self) -> tuple[bytes, bytes]:
        """Gives both."""
        return self._kit

    def count(self, part: int, rows: int, given: int) -> None:
        """A part of the table was read: so many rows, of which so many have a key. A part that is read again counts once."""
        self._parts[part] = (rows, given)

    def counted(self) -> tuple[int, int]:
        """How many rows were read in all, and how many have a key."""
        return sum(rows for rows, _ in self._parts.values()), sum(given for _, given in self._parts.values())

    def add(self) -> None:
        """A unit was finished."""
        self._units += 1

    def units(self) -> int:
        """How many units were finished."""
        return self._units


def keep(start: bytes, secret: bytes) -> tuple[str, Any]:
    """A keeper of these, on this machine, and its name. It ends with the driver."""
    name = f"vesica-{secrets.token_hex(16)}"
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    keeper = Keeper.options(name=name, scheduling_strategy=here).remote()
    ray.get(keeper.hold.remote(start, secret))
    return name, keeper


def count(run: str, part: int, rows: int, given: int) -> None:
    """Tells the keeper called `run` what was read of a part of the table."""
    ray.get(ray.get_actor(run).count.remote(part, rows, given))


@functools.lru_cache(maxsize=2)
def start(run: str) -> _core.Start:
    """What rows are cut by and units packed, from the keeper called `run`."""
    sealed, secret = ray.get(ray.get_actor(run).kit.remote())
    return _core.Start.from_bytes(sealed, _core.Secret(secret))


@functools.lru_cache(maxsize=2)
def terms(run: str, sealed: bytes) -> _core.Terms:
    """What lanes need, opened with what the keeper called `run` holds."""
    _, secret = ray.get(ray.get_actor(run).kit.remote())
    return _core.Terms.from_bytes(sealed, _core.Secret(secret))
