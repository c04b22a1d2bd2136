"""What must not stand in Ray's object store, nor travel in clear: the secret of a run. An actor holds it, and each worker asks for it once.

What a function that Ray Data ships refers to, and what its constructor is given, stands in the object store in clear. What an actor's
constructor is given stands in the cluster's control store, which may be a database. Arguments and results of calls go from process to
process, which is from node to node, and in clear unless Ray has TLS. So whoever needs the secret shows a public key that it made for
this, and is handed the secret sealed to that key: the actor by the driver, a worker by the actor. Nothing says who asks, so this protects
from who listens, and not from who may submit work.
"""

from __future__ import annotations

import functools
import secrets
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .. import _core
from .._errors import InternalError


@ray.remote(num_cpus=0, max_restarts=0)
class Keeper:
    """Holds a run's secret, and counts: what was cut, so that no row gets lost unseen, and finished units for the driver's progress."""

    def __init__(self) -> None:
        self._recipient = _core.Recipient()
        self._held: tuple[str, bytes, _core.Secret] | None = None
        self._units = 0
        self._parts: dict[int, tuple[int, int]] = {}

    def public(self) -> bytes:
        """The public key that the driver hands the secret to."""
        return self._recipient.public

    def hold(self, run: str, start: bytes, handed: bytes) -> None:
        """Takes its own name, the start, which is sealed, and the secret, which is handed over."""
        self._held = (run, start, self._recipient.open(run, handed))

    def kit(self, public: bytes) -> tuple[bytes, bytes]:
        """Gives the start, and hands the secret to whoever asks with this public key."""
        if self._held is None:
            raise InternalError("the keeper of a run was asked before it had anything; please report it")
        run, start, secret = self._held
        return start, secret.hand(run, public)

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


def keep(start: _core.Start) -> tuple[str, Any]:
    """A keeper of a run's start and secret, on this machine, and its name. It ends with the driver."""
    name = f"vesica-{secrets.token_hex(16)}"
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    keeper = Keeper.options(name=name, scheduling_strategy=here).remote()
    ray.get(keeper.hold.remote(name, start.to_bytes(), start.secret.hand(name, ray.get(keeper.public.remote()))))
    return name, keeper


def count(run: str, part: int, rows: int, given: int) -> None:
    """Tells the keeper called `run` what was read of a part of the table."""
    ray.get(ray.get_actor(run).count.remote(part, rows, given))


def _kit(run: str) -> tuple[bytes, _core.Secret]:
    """The start, sealed, and the secret that opens it."""
    recipient = _core.Recipient()
    start, handed = ray.get(ray.get_actor(run).kit.remote(recipient.public))
    return start, recipient.open(run, handed)


@functools.lru_cache(maxsize=2)
def start(run: str) -> _core.Start:
    """What rows are cut by and units packed, from the keeper called `run`."""
    return _core.Start.from_bytes(*_kit(run))


@functools.lru_cache(maxsize=2)
def terms(run: str, sealed: bytes) -> _core.Terms:
    """What lanes need, opened with what the keeper called `run` holds."""
    return _core.Terms.from_bytes(sealed, _kit(run)[1])
