"""Reports as dataclasses, with a view for notebooks. Their fields are those of `schema/report.schema.json`."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeVar

from . import _core
from ._table import Table

T = TypeVar("T")


def _of(kind: type[T], values: dict[str, Any]) -> T:
    """`kind` with those of `values` that it has: a newer engine may tell more."""
    return kind(**{f.name: values[f.name] for f in dataclasses.fields(kind) if f.name in values})  # type: ignore[arg-type]


class Finding(tuple[str, str]):
    """What `check` looked at, and what it is like. As text it is a line of the command's."""

    #: Whether it is as it should be. What is not would end a run as it is now.
    good: bool

    def __new__(cls, what: str, found: str, good: bool = True) -> Finding:
        self = super().__new__(cls, (what, found))
        self.good = good
        return self

    def __str__(self) -> str:
        return f"{'ok' if self.good else '?':<3} {self[0]:<12} {self[1]}"


@dataclass(frozen=True)
class JobId:
    """Names the run."""

    id: str
    shared_hash: str
    party: str
    parties: list[str]
    run: str | None = None
    called: str | None = None


@dataclass(frozen=True)
class Written:
    """An output."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class LeftOut:
    """Rows that were asked of a service and count as not found, although nothing says that they are not there."""

    name: str
    rows: int
    first: list[int]
    why: str


@dataclass(frozen=True)
class GroupTotal:
    """What the common keys come to in one group."""

    by: list[str]
    keys: int
    sums: list[int]


@dataclass(frozen=True)
class Groups:
    """Totals by group: `groups` has those with `least` common keys or more, `by` and `sums` name their columns."""

    by: list[str]
    sums: list[str]
    least: int
    groups: list[GroupTotal]


@dataclass(frozen=True)
class Changes:
    """How a client's run differs from the run before, with `mine.kept`. Counts are of distinct keys; `since` is None in the first run."""

    run: int
    kept: int
    asked: int
    gained: int
    lost: int
    since: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What came out. `matched` and `matched_rows` are None for a party that does not learn."""

    rows: int
    keys: int
    empty: int
    duplicates: int
    matched: int | None = None
    matched_rows: int | None = None
    #: The sum of the values of common keys, where that is the result.
    sum: int | None = None
    #: The totals of each group, where these are the result.
    groups: Groups | None = None
    output: Written | None = None
    attempt: str | None = None
    left_out: list[LeftOut] = field(default_factory=list)
    #: What changed since the run before, where a client keeps what a service answered.
    changes: Changes | None = None


@dataclass(frozen=True)
class Revealed:
    """One thing that the run told somebody."""

    name: str
    to: list[str]
    what: str


@dataclass(frozen=True)
class Peer:
    """Another party, as it was recognised."""

    name: str
    keys: int
    fingerprint: str | None = None
    unit_capacity: int = 0
    attempts: int = 0
    answered: int = 0
    version: str = ""


@dataclass(frozen=True)
class Chosen:
    """What was chosen, by the job or from the sizes."""

    protocol: str
    security: str
    join: str
    tls: str
    cpu: str
    cut: str
    units: int
    in_flight: int
    unit_capacity: int
    tag_bytes: int
    wire_version: int
    curve: str | None = None
    rules: list[list[str]] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    expects: list[str] = field(default_factory=list)
    lanes: int = 0
    peers: list[Peer] = field(default_factory=list)


@dataclass(frozen=True)
class StepCost:
    """The cost of one step. Steps of units in flight at once overlap, so that their times add up to more than the clock's.

    A phase as a whole is listed too, with all bytes that went while it lasted, framing and encryption included. So
    whoever adds up bytes takes either the phases or their steps: together they count twice.
    """

    phase: str
    step: str
    wall_s: float
    cpu_s: float
    sent: int
    received: int
    rounds: int


@dataclass(frozen=True)
class TotalCost:
    """Totals of the cost."""

    wall_s: float
    waited_s: float
    cpu_s: float
    sent: int
    received: int
    peak_memory: int


@dataclass(frozen=True)
class Host:
    """Where it ran."""

    version: str
    os: str
    cores: int
    cpu_available: list[str]


@dataclass(frozen=True)
class Report:
    """What happened in a run, and its rows.

    >>> import pyarrow, vesica
    >>> a, b = pyarrow.table({"id": [1, 2, 3]}), pyarrow.table({"id": [3, 4]})
    >>> report = vesica.intersect(a, b, on="id").left_report
    >>> report.outcome.rows, report.outcome.matched, report.chosen.protocol
    (3, 1, 'rr22')
    >>> report.html().startswith("<!doctype html>")
    True
    """

    job: JobId
    outcome: Outcome
    revealed: list[Revealed]
    chosen: Chosen
    cost: list[StepCost]
    total: TotalCost
    host: Host
    #: The rows that matched, where this party learns them and they are not in a file.
    table: Table | None = field(default=None, repr=False, compare=False)
    _json: str = field(default="", repr=False, compare=False)

    @classmethod
    def from_json(cls, text: str, table: Table | None = None) -> Report:
        """The report in a file that `mine.report` or `--report` wrote."""
        read = json.loads(text)
        outcome = dict(read["outcome"])
        if outcome.get("output"):
            outcome["output"] = _of(Written, outcome["output"])
        if outcome.get("groups"):
            groups = dict(outcome["groups"])
            groups["groups"] = [_of(GroupTotal, one) for one in groups["groups"]]
            outcome["groups"] = _of(Groups, groups)
        outcome["left_out"] = [_of(LeftOut, one) for one in outcome.get("left_out", [])]
        if outcome.get("changes"):
            outcome["changes"] = _of(Changes, outcome["changes"])
        chosen = dict(read["chosen"])
        chosen["peers"] = [_of(Peer, peer) for peer in chosen["peers"]]
        return cls(
            job=_of(JobId, read["job"]),
            outcome=_of(Outcome, outcome),
            revealed=[_of(Revealed, one) for one in read["revealed"]],
            chosen=_of(Chosen, chosen),
            cost=[_of(StepCost, one) for one in read["cost"]],
            total=_of(TotalCost, read["total"]),
            host=_of(Host, read["host"]),
            table=table,
            _json=text,
        )

    def to_json(self) -> str:
        """The report as the command would write it: partners show it to each other, so of an output whose path starts at the root it has the
        file's name alone."""
        return _core.report_file(self._json)

    def phases(self) -> list[tuple[str, float]]:
        """Phases with their seconds by the clock, in the order in which they came."""
        return [(one.phase, one.wall_s) for one in self.cost if one.phase == one.step]

    def html(self) -> str:
        """The page that `vesica report --html` makes: one file that needs no network and runs no script."""
        return _core.page(self._json)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, where nothing that stands in it can touch the notebook."""
        return f'<iframe sandbox srcdoc="{escape(self.html())}" style="width:100%;height:40em;border:0"></iframe>'


@dataclass(frozen=True)
class Plan:
    """What a job will cost and tell whom. `forecast` has what `vesica plan --json` prints; printed, it is what the command prints."""

    forecast: dict[str, Any] = field(repr=False)
    words: str = field(repr=False)

    @property
    def reveals(self) -> list[Revealed]:
        """What the run will tell whom."""
        return [_of(Revealed, one) for one in self.forecast["reveals"]]

    def __str__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.words)}</pre>"


@dataclass(frozen=True)
class Intersection:
    """Both sides of a match of two tables that are both here. `left` and `right` line up: row i of one has the key of row i of the
    other, in inner joins."""

    left: Table
    right: Table
    left_report: Report = field(repr=False)
    right_report: Report = field(repr=False)

    def _repr_html_(self) -> str:
        return self.left_report._repr_html_()
