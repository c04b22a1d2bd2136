"""Where workers have the token from that the keeper knows them by: from the cluster's control store, by the name that travels with their tasks.

What a function that Ray ships refers to, and what it is given, stands in the object store, which Ray writes to disks: the token does not. The control
store answers who has Ray's own token, and so may submit work, and nobody else. It has this one for as long as the run lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put

from .. import _core
from .._cluster import keeper

#: What is kept there under a name of its own.
SPACE = "vesica"


@dataclass(frozen=True)
class Kit(keeper.Kit):
    """How a worker asks."""

    def token(self) -> bytes | None:
        """Asks the control store."""
        found: bytes | None = _internal_kv_get(self.name, namespace=SPACE)
        return found


class Keeper(keeper.Keeper):
    """Answers workers of this cluster."""

    def __init__(self, start: _core.Start, host: str, named: Sequence[int] = keeper.ANY) -> None:
        super().__init__(start, host, named)
        try:
            _internal_kv_put(self.name, self.token, namespace=SPACE)
        except BaseException:
            # Nobody else knows this keeper yet.
            self.close()
            raise
        self.kit = Kit(host, self.port, self.name)

    def close(self) -> None:
        """Answers nobody any more."""
        super().close()
        # Where the cluster is gone, so is the token, and what went wrong before is what is told.
        with suppress(Exception):
            _internal_kv_del(self.name, namespace=SPACE)
