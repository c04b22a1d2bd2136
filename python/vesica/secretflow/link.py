"""Links between parties, as `spu.libspu.link` describes them. Here a link is an address for each party: the run itself dials and listens,
over TLS if it is told whom to trust."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._errors import ConfigError

#: Fields of yacl's description that a run has a meaning for, or says that it has none.
_KNOWN = (
    "connect_retry_times",
    "connect_retry_interval_ms",
    "recv_timeout_ms",
    "http_max_payload_size",
    "http_timeout_ms",
    "throttle_window_size",
    "brpc_channel_protocol",
    "brpc_channel_connection_type",
    "enable_ssl",
    "client_ssl_opts",
    "server_ssl_opts",
    "retry_opts",
    "chunk_parallel_send_size",
)


class Desc:
    """Who the parties are and where they are.

    >>> from vesica.secretflow import link
    >>> desc = link.Desc()
    >>> desc.recv_timeout_ms = 60_000
    >>> desc.add_party("alice", "127.0.0.1:20001")
    >>> desc.config()["parties"]
    [{'id': 'alice', 'host': '127.0.0.1:20001'}]
    """

    def __init__(self, **fields: Any) -> None:
        self.id = "root"
        self._parties: list[dict[str, str]] = []
        for name, value in fields.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("id", "_parties", *_KNOWN):
            raise ConfigError(f"link.Desc.{name}: there is no such field; there are {', '.join(_KNOWN)}")
        super().__setattr__(name, value)

    def add_party(self, id: str, host: str) -> None:
        """Adds a party. Ranks are in the order of these calls."""
        self._parties.append({"id": id, "host": host})

    def config(self) -> dict[str, Any]:
        """As it stands in a launch configuration."""
        given = {name: getattr(self, name) for name in _KNOWN if name in self.__dict__}
        return {"id": self.id, "parties": list(self._parties), **given}


@dataclass(frozen=True)
class Trust:
    """How the parties know each other: by TLS with an identity that `vesica cert` made, or not at all."""

    identity: str | None = None
    peers: list[str] = field(default_factory=list)
    insecure: bool = False


class Context:
    """One party's end of a link."""

    def __init__(self, desc: Desc, rank: int, trust: Trust) -> None:
        if not 0 <= rank < len(desc._parties):
            raise ConfigError(f"rank {rank}: the link has {len(desc._parties)} parties, from 0 on; correct the rank")
        self.desc, self.rank, self.trust = desc, rank, trust

    @property
    def name(self) -> str:
        """This party's id."""
        return self.desc._parties[self.rank]["id"]

    @property
    def id(self) -> str:
        """The link's."""
        return self.desc.id

    @property
    def world_size(self) -> int:
        """How many parties there are."""
        return len(self.desc._parties)

    def barrier(self) -> None:
        """Nothing: a run waits for every party before it begins."""

    def stop_link(self) -> None:
        """Nothing: a run closes its connections."""

    def __getattr__(self, name: str) -> Any:
        if name in ("all_gather", "gather", "broadcast", "scatter", "send", "send_async", "recv", "spawn", "next_rank"):
            raise ConfigError(f"link.Context.{name}: this link carries runs, and no messages of the caller's; use a socket for these")
        raise AttributeError(name)


def create_brpc(
    desc: Desc,
    self_rank: int,
    *,
    log_details: bool = False,
    identity: str | None = None,
    peers: list[str] | None = None,
    insecure: bool = False,
) -> Context:
    """This party's end. Beside SecretFlow's arguments: `identity` is a file that `vesica cert` made, and `peers` has the fingerprint of each
    other party's certificate (`sha256:…`, or `NAME=sha256:…` where there are several). Without them, parties on other machines
    are refused, unless `insecure` says that nobody between them matters."""
    del log_details
    return Context(desc, self_rank, Trust(identity, list(peers or []), insecure))


def create_mem(desc: Desc, self_rank: int) -> Context:
    """Refused: parties that share a process are matched by `vesica.intersect`."""
    raise ConfigError("link.create_mem: parties in one process are matched by vesica.intersect; or use create_brpc on 127.0.0.1")


def create_with_channels(*_: Any, **__: Any) -> Context:
    """Refused: a transport of one's own is for the Rust crate `vesica`."""
    raise ConfigError("link.create_with_channels: a transport of your own is for the Rust crate vesica; use create_brpc")
