"""Kept results: `results/*.json`, a file for each job on each machine.

A file holds the job, the machine, the version, how the network was made, and for each run the wall time, the CPU time of all
parties, the largest peak of memory, bytes, phases, and the expected number of common keys beside the number that was found.
`results/noted.json` has figures that were measured by hand, without a report; they name the commit that wrote them down.
"""

from __future__ import annotations

import json
import statistics
import string
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import jobs, machine

FOLDER = Path(__file__).resolve().parent / "results"
NOTED = "noted.json"

# The letter of the machine that measured most.
USUAL = "A"


@dataclass(frozen=True)
class Result:
    """A kept result."""

    data: dict
    file: str
    # The letter of its machine.
    letter: str = USUAL

    @property
    def job(self) -> jobs.Job:
        return jobs.of_data(self.data["job"])

    @property
    def runs(self) -> list[dict]:
        return self.data["runs"]

    @property
    def elsewhere(self) -> bool:
        """Whether another machine than the usual one measured it."""
        return self.letter != USUAL

    @property
    def busy(self) -> bool:
        """Whether other work had more than a quarter of a core in some run."""
        return max(run["others_cores"] for run in self.runs) > 0.25

    def median(self, what: str) -> float | None:
        """Of all runs."""
        numbers = [run[what] for run in self.runs if run.get(what) is not None]
        return statistics.median(numbers) if numbers else None

    def peak(self, *parties: str) -> float | None:
        """The most memory that these parties' processes had, added up: the median of all runs."""
        peaks = [run.get("peaks", {}) for run in self.runs]
        sums = [sum(of[party] for party in parties) for of in peaks if all(party in of for party in parties)]
        return statistics.median(sums) if sums else None

    def step(self, name: str) -> float | None:
        """Wall seconds of a step of alice, in the last run. Units that ran side by side are added up."""
        costs = self.data["reports"][0]["cost"] if self.data.get("reports") else []
        return next((cost["wall_s"] for cost in costs if cost["step"] == name), None)

    def phases(self) -> dict[str, float]:
        """Wall seconds of each phase of alice, of the run in the middle."""
        middle = sorted(self.runs, key=lambda run: run["wall_s"])[len(self.runs) // 2]
        return middle.get("phases", {})


def path(job: jobs.Job, of: dict, folder: Path = FOLDER) -> Path:
    """Where the result of a job on a machine is kept."""
    return folder / f"{job.slug}.{machine.slug(of)}.json"


def keep(job: jobs.Job, of: dict, data: dict, folder: Path = FOLDER) -> Path:
    """Writes a result: one line for each run, so that a change is seen as one."""
    folder.mkdir(exist_ok=True)
    head = {"job": job.as_data(), "machine": of, **data}
    runs = ",\n  ".join(json.dumps(run) for run in head.pop("runs"))
    reports = ",\n  ".join(json.dumps(report) for report in head.pop("reports", []))
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    lines += [f' "runs": [\n  {runs}\n ]', f' "reports": [\n  {reports}\n ]']
    place = path(job, of, folder)
    place.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return place


def load(folder: Path = FOLDER) -> list[Result]:
    """Every kept result, by file name. A is the machine that measured most, B the one that measured second most."""
    files = sorted(file for file in folder.glob("*.json") if file.name != NOTED)
    kept = [(json.loads(file.read_text(encoding="utf-8")), file.name) for file in files]
    count = Counter(machine.slug(data["machine"]) for data, _ in kept)
    letters = dict(zip(sorted(count, key=lambda slug: (-count[slug], slug)), string.ascii_uppercase))
    return [Result(data, name, letters[machine.slug(data["machine"])]) for data, name in kept]


def noted(folder: Path = FOLDER) -> dict:
    """Figures that have a source and no report."""
    return json.loads((folder / NOTED).read_text(encoding="utf-8"))


def find(all_of_them: list[Result], job: jobs.Job, first: str = USUAL) -> Result | None:
    """The result of a job, if there is one: as `best` chooses it."""
    return best((result for result in all_of_them if result.data["job"] == job.as_data()), first)


def alike(kept: list[Result]) -> list[Result]:
    """Those whose times may be compared: of the usual machine, where nothing else ran."""
    return [result for result in kept if not (result.busy or result.elsewhere)]


def best(fitting: Iterable[Result], first: str = USUAL) -> Result | None:
    """Of the results of one job: that of the machine with the letter `first`, or else the newest."""
    return max(fitting, key=lambda result: (result.letter == first, result.data["date"]), default=None)


def most(all_of_them: list[Result], wanted: set[jobs.Job]) -> str:
    """The letter of the machine that has results of most of these jobs."""
    count = Counter(result.letter for result in all_of_them if result.job in wanted)
    return min(count, key=lambda letter: (-count[letter], letter), default=USUAL)
