"""What must not stand in Ray's object store, nor travel in clear: the secret of a run. An actor holds it, and each worker asks for it once.

What a function that Ray ships refers to, and what it is given, stands in the object store in clear. What an actor's
constructor is given stands in the cluster's control store, which may be a database. Arguments and results of calls go from process to
process, which is from node to node, and in clear unless Ray has TLS. So whoever needs the secret shows a public key that it made for
this, and is handed the secret sealed to that key: the actor by the driver, a worker by the actor. Nothing says who asks, so this protects
from who listens, and not from who may submit work.
"""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .. import _core
from .._errors import InternalError


#: Calls that wait at once: one of each door.
WAITING = 1 << 16


@ray.remote(num_cpus=0, max_restarts=0, max_concurrency=WAITING)
class Keeper:
    """Holds a run's secret. Its calls take turns in one event loop: none may block."""

    def __init__(self) -> None:
        self._recipient = _core.Recipient()
        self._held: tuple[bytes, _core.Secret] | None = None
        #: Of attempts whose doors are to end, whether they end now, and who waits for that.
        self._over: dict[int, bool] = {}
        self._told = asyncio.Condition()

    def public(self) -> bytes:
        """The public key that the driver hands the secret to."""
        return self._recipient.public

    def hold(self, run: str, start: bytes, handed: bytes) -> None:
        """Takes the start, which is sealed, and the secret, which is handed over under the keeper's own name."""
        self._held = (start, self._recipient.open(run, handed))

    def kit(self, run: str, public: bytes) -> tuple[bytes, bytes]:
        """Gives the start, and hands the secret to whoever asks with this public key."""
        if self._held is None:
            raise InternalError("the keeper of a run was asked before it had anything; please report it")
        start, secret = self._held
        return start, secret.hand(run, public)

    async def end(self, attempt: int, now: bool) -> None:
        """The doors of this attempt are to let nobody in any more; `now`, the lanes that are in end too."""
        async with self._told:
            self._over[attempt] = now or self._over.get(attempt, False)
            self._told.notify_all()

    async def over(self, attempt: int, heard: bool | None) -> bool:
        """Whether the doors of this attempt are to end `now`: as soon as they are to end, and that is another word than was `heard`."""
        async with self._told:
            await self._told.wait_for(lambda: self._over.get(attempt, heard) != heard)
            return self._over[attempt]


@dataclass(frozen=True)
class Kit:
    """How a worker asks: the keeper's name."""

    name: str

    def ask(self, public: bytes) -> tuple[bytes, bytes]:
        """Asks the keeper."""

        def asked() -> tuple[bytes, bytes]:
            return ray.get(ray.get_actor(self.name).kit.remote(self.name, public))

        # While the first thread of a task waits, Ray gives its CPU to another task, and starts a worker for that: a second or two of a core.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asked).result()


@dataclass(frozen=True)
class Started:
    """A keeper that has nothing yet, and may still be starting. It ends with the driver."""

    name: str
    actor: Any
    #: Its public key, when it has started.
    public: Any


def started() -> Started:
    """A keeper on this machine. Who calls this does not wait for its worker."""
    name = f"vesica-{secrets.token_hex(16)}"
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = Keeper.options(name=name, scheduling_strategy=here).remote()
    return Started(name, actor, actor.public.remote())


def keep(start: _core.Start, keeper: Started) -> Kit:
    """Hands a run's start and secret to the keeper; gives how that is asked."""
    handed = start.secret.hand(keeper.name, ray.get(keeper.public))
    ray.get(keeper.actor.hold.remote(keeper.name, start.to_bytes(), handed))
    return Kit(keeper.name)
