"""What is run here for a published cell: a job of two or three processes, a service, or `vesica bench`."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from . import tables

PARTIES = ["alice", "bob", "carol"]

# What `peers/spu_psi.py` calls the protocol and curve, or protocol and mode, of a job.
PEERS = {
    ("ecdh", "curve25519"): "ecdh-25519",
    ("ecdh", "fourq"): "ecdh-fourq",
    ("ecdh", "sm2"): "ecdh-sm2",
    ("ecdh", "secp256k1"): "ecdh-secp256k1",
    ("kkrt", None): "kkrt",
    ("rr22", None): "rr22-fast",
    ("rr22", "low-comm"): "rr22-low-comm",
    ("dp", "curve25519"): "dp",
}
OF_THREE = {("ecdh", "curve25519"): "ecdh3-25519", ("ecdh", "fourq"): "ecdh3-fourq"}


@dataclass(frozen=True)
class Job:
    """One thing to measure. Rows are alice's, bob's and, of three, carol's; of a service, the server's and the client's."""

    kind: str
    protocol: str
    rows: tuple[int, ...]
    common: int
    curve: str | None = None
    mode: str | None = None
    security: str | None = None
    network: str | None = None
    bytes: int | None = None
    preset: str | None = None
    #: What alice is told in the place of rows: "count", "sum" or "groups", and in how many groups.
    result: str | None = None
    groups: int | None = None
    #: In how many groups alice's own rows are, if each of bob's groups is told with each of these.
    other: int | None = None
    #: What is added up in each group: "one" for values of the party with the groups, "both" for values of each party.
    values: str | None = None

    @property
    def words(self) -> str:
        """The protocol and what was chosen of it."""
        words = [self.protocol, self.curve, self.mode, self.security, self.preset]
        words += [self.in_groups or self.result, f"values of {self.values}" if self.values else None]
        return " ".join(word for word in words if word)

    @property
    def in_groups(self) -> str | None:
        """How many groups there are: of bob's, or of bob's and of alice's."""
        return f"{self.groups}x{self.other} groups" if self.other else f"{self.groups} groups" if self.groups else None

    @property
    def grouped_by(self) -> dict[str, tuple[str, int]]:
        """For each party with groups the column that has a row's group, and how many groups there are."""
        found = {self.owner: ("g", self.groups), "alice": ("h", self.other)}
        return {party: (column, most) for party, (column, most) in found.items() if most}

    @property
    def summed(self) -> dict[str, str]:
        """For each party whose values are added up in groups what the sum is called."""
        names = {None: [], "one": ["spend"], "both": ["spend", "views"]}[self.values]
        return dict(zip([self.owner, "alice"], names))

    @property
    def owner(self) -> str | None:
        """Who has what is added up: of two parties the one that is not told it, of three the leader."""
        has = self.result in ("sum", "groups")
        return ("bob" if len(self.rows) == 2 else "alice") if has else None

    @property
    def slug(self) -> str:
        """A name for its file."""
        kind = {"job": "", "bench": "memory.", "service": "service.", "pir": "pir.", "peer": "spu."}[self.kind]
        words = self.words.replace(" ", "-")
        sizes = "x".join(str(n) for n in self.rows)
        width = f".{self.bytes}B" if self.bytes else ""
        network = f".{re.sub('[^a-z0-9]+', '-', self.network.lower())}" if self.network else ""
        return f"{kind}{words}.{sizes}{width}{network}"

    @property
    def peer(self) -> Job | None:
        """The same work by the peer, where the peer does it. It has no slow network here."""
        known = OF_THREE if len(self.rows) == 3 else PEERS
        name = known.get((self.protocol, self.curve or self.mode))
        if self.kind != "job" or name is None or self.security or self.network or self.result:
            return None
        return Job("peer", name, self.rows, self.common)

    def as_data(self) -> dict:
        """For a kept result."""
        data = {key: value for key, value in dataclasses.asdict(self).items() if value is not None}
        return {**data, "rows": list(self.rows)}


def of_data(data: dict) -> Job:
    """The job of a kept result."""
    return Job(**{**data, "rows": tuple(data["rows"])})


def network(name: str | None) -> str | None:
    """A network as it is asked for; None for this machine's own, which is what a LAN is here."""
    return None if name in (None, "LAN") else name


def rate_and_delay(name: str) -> tuple[float, float]:
    """Megabits a second each way, and the milliseconds by which each side delays what it sends."""
    match = re.fullmatch(r"(\d+)Mbps(?:/(\d+)ms)?", name)
    if match is None:
        raise ValueError(f"{name!r} is no network; write LAN, 100Mbps or 100Mbps/10ms")
    return float(match[1]), float(match[2] or 0)


def of_cell(table: tables.Table, cell: tables.Cell, scale: float = 1.0) -> Job | None:
    """What is run for a cell, with so much of its rows. None for a cell that is no measurement."""
    ours = table.ours.get(cell.protocol)
    if ours is None or cell.n is None:
        return None
    kind = ours.get("kind", "job")
    # In one process there is no telling whose memory it is, and no report of steps.
    whole = cell.quantity != "memory" and cell.phase not in ours.get("steps", {})
    if ours.get("bench") and network(cell.network) is None and whole:
        kind = "bench"

    def scaled(rows: int) -> int:
        return max(1, round(rows * scale))

    chosen = {key: ours.get(key) for key in ["curve", "mode", "security"]}
    if kind == "pir":
        return Job(kind, ours["protocol"], (scaled(cell.n),), 0, bytes=ours["bytes"])
    rows = [scaled(cell.n), scaled(cell.m or cell.n)]
    if ours.get("parties") == 3:
        rows.append(scaled(cell.l or cell.m or cell.n))
    common = scaled(cell.common) if cell.common else min(rows) // 2
    return Job(kind, ours["protocol"], tuple(rows), common, **chosen, network=network(cell.network))


def of_house(entry: dict, scale: float = 1.0) -> list[Job]:
    """The jobs of an entry of `house.toml`: one for each of its sizes."""
    entry = dict(entry)
    sizes, count = entry.pop("rows"), entry.pop("parties", 2)
    jobs = []
    for size in sizes:
        n = max(1, round(size * scale))
        if entry.get("kind") == "pir":
            jobs.append(Job(**entry, rows=(n,), common=0))
        else:
            jobs.append(Job(**{"kind": "job", **entry}, rows=(n,) * count, common=n // 2))
    return jobs
