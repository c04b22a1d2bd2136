"""What starts tasks on the machines of a cluster: what `vesica.ray` and `vesica.spark` each have of their own.

A task may be started twice: because its machine was lost, or because it seemed to be slow. So nothing that a task does may rest on its being
the only one, and three things hold that. What a task puts into the storage is put exclusively or under a name that no other task has. What a task
gives the driver counts once: an engine gives the results of one start of each task. And a lane that is started again dials anew, with fresh
randomness, and takes turns of its own (`lanes.Turns`), so that what it sends is counted and is never said under the randomness of another one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from .. import _core

#: Cuts an item: what the driver is told of it, and a piece for each part.
Cut = Callable[[Any], "tuple[Any, Sequence[Any]]"]

#: Takes all pieces of a part.
Join = Callable[[int, Iterable[Any]], Any]


class Kit(Protocol):
    """How a worker asks for what it needs of a run. It travels with every task in clear and says nothing; two of one run are equal."""

    def __hash__(self) -> int: ...

    def ask(self, public: bytes) -> tuple[bytes, bytes]:
        """The start, sealed, and the secret, handed over to whoever has shown this public key."""

    #: The name under which the secret is handed over.
    name: str


class Watch(Protocol):
    """Looks at the cluster's network while a run lasts."""

    def look(self) -> None:
        """Raises if something has changed that a run must not go on with."""

    def told(self) -> None:
        """The same, of what was seen already."""


class Engine(Protocol):
    """Starts tasks."""

    #: What errors call the cluster.
    name: str

    #: Tasks that it works on at once, about.
    width: int

    #: Bytes of pieces that it holds in memory between cutting and joining; None if it has its own way with more.
    room: int | None

    def watch(self, accept: Sequence[str], refuse: Callable[[], Any]) -> AbstractContextManager[Watch]:
        """Watches the network between the machines for as long as it is entered."""

    def hold(self, start: _core.Start) -> Kit:
        """Lets workers ask for this start and its secret, until `release` or the next call."""

    def release(self) -> None:
        """Takes that away."""

    def exchange(self, items: Any, cut: Cut, join: Join, parts: int) -> tuple[list[Any], list[Any]]:
        """Has every item cut and every part joined; gives what was told of the items, and what came of the parts, each once. `items` is a
        list, or whatever this engine has rows in: then an item is an Arrow table."""

    def each(self, items: list[Any], do: Callable[[Any], Any]) -> list[Any]:
        """What `do` gives of each item."""

    def dial(self, work: Any, lanes: int, at_once: int, look: Callable[[], Any]) -> list[str]:
        """Has each of the lanes dialled, in ascending order and about so many at once; calls `look` about each half second. Gives what they
        cost."""

    #: What `doors` gives has `told`, the addresses that the other side is told, and `serve(work, driver)`.
    def doors(self, spec: dict[str, Any], workers: int, count: int | None, advertise: list[str]) -> AbstractContextManager[Any]:
        """Doors on machines of the cluster, for a side that listens."""


def _kit(kit: Kit) -> tuple[bytes, _core.Secret]:
    """The start, sealed, and the secret that opens it."""
    recipient = _core.Recipient()
    start, handed = kit.ask(recipient.public)
    return start, recipient.open(kit.name, handed)


@functools.lru_cache(maxsize=2)
def start(kit: Kit) -> _core.Start:
    """What rows are cut by and units packed. A process asks for it once."""
    return _core.Start.from_bytes(*_kit(kit))


@functools.lru_cache(maxsize=2)
def terms(kit: Kit, sealed: bytes) -> _core.Terms:
    """What lanes need."""
    return _core.Terms.from_bytes(sealed, _kit(kit)[1])
