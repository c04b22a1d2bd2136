"""The plots of the benchmark book, from kept results."""

from __future__ import annotations

import tomllib

from . import fits, jobs, machine, results, svg, tables

TITLES = {
    "time": "Time against rows, both parties on one machine",
    "bytes": "Bytes against rows, both directions",
    "phases": "Where the time goes, 2^20 rows a side",
    "bandwidth": "Which protocol at which bandwidth, 2^20 rows a side",
    "limit": "What privacy costs, and the limit of the arithmetic: CPU a row, both parties",
    "piano": "Piano: bytes against records of 8 bytes, and the power of n that fits",
}
STANDARD = 1 << 20


def own(kept: list[results.Result]) -> dict[str, list[results.Result]]:
    """Results of jobs of `house.toml`, by protocol and in the order of that file."""
    found: dict[str, list[results.Result]] = {}
    for entry in tables.house():
        if "kind" in entry or "result" in entry:
            continue
        for job in jobs.of_house(entry):
            result = results.find(kept, job)
            if result:
                found.setdefault(label(job), []).append(result)
    return found


def label(job: jobs.Job) -> str:
    """A short name."""
    return " ".join(word for word in [job.protocol, job.curve, job.mode, job.security] if word).replace("malicious", "mal.")


def all_of_them(kept: list[results.Result]) -> dict[str, str]:
    """Every plot, by file name. What other work disturbed or another machine measured is left out: a plot has no place to say so."""
    kept = results.alike(kept)
    found = own(kept)
    lines_of = {name: [(result.job.rows[0], result) for result in of] for name, of in found.items()}

    def series(what) -> list[svg.Series]:
        return [svg.Series(name, [(n, what(result)) for n, result in points]) for name, points in lines_of.items()]

    time = series(lambda result: result.median("wall_s"))
    traffic = series(lambda result: result.median("sent") + result.median("received"))
    drawn = {
        "time": svg.lines(TITLES["time"], "rows of each party", "seconds of wall, CSV to CSV over TLS", time),
        "bytes": svg.lines(TITLES["bytes"], "rows of each party", "bytes, both directions", traffic),
        "phases": phases(found),
        "bandwidth": bandwidth(found, kept),
        "limit": limit(kept),
        "piano": piano(kept),
    }
    return {f"{name}.svg": text for name, text in drawn.items()}


def at(found: dict[str, list[results.Result]], rows: int) -> list[tuple[str, results.Result]]:
    """The result of each protocol at a size."""
    pairs = [(name, result) for name, of in found.items() for result in of]
    return [(name, result) for name, result in pairs if result.job.rows[0] == rows]


def phases(found) -> str:
    """Wall seconds of alice, phase by phase."""
    rows = []
    for name, result in at(found, STANDARD):
        told = result.phases()
        parts = {kind: told.get(kind, 0.0) for kind in ["read", "partition", "match", "write"]}
        parts["other"] = max(0.0, sum(told.values()) - sum(parts.values()))
        rows.append((name, parts))
    rows.sort(key=lambda one: sum(one[1].values()))
    return svg.bars(TITLES["phases"], "s", rows, "Wall time of the party that learns; its waiting is a part of the phase in which it waits.")


def bandwidth(found, kept) -> str:
    """Computed lines: what was measured without a limit, and the time that the bytes of the busier direction take. Dots are measured."""
    series = []
    for name, result in at(found, STANDARD):
        wall, busier = result.median("wall_s"), max(result.median("sent"), result.median("received"))
        rates = [10 * 10 ** (step / 12) for step in range(37)]
        dots = []
        for other in kept:
            one, net = other.job, other.job.network
            if net and (one.kind, one.words, one.rows) == (result.job.kind, result.job.words, result.job.rows):
                dots.append((jobs.rate_and_delay(net)[0], other.median("wall_s")))
        line = [(rate, wall + busier * 8 / (rate * 1e6)) for rate in rates]
        # As in the other plots, where there are more lines.
        series.append(svg.Series(name, line, computed=True, dots=dots, place=list(found).index(name)))
    note = "Dashed lines are computed: the measured time without a limit, plus the busier direction's bytes at that rate."
    note += " Dots are measured." if any(one.dots for one in series) else ""
    return svg.lines(TITLES["bandwidth"], "Mbit/s each way", "seconds of wall", series, note)


def piano(kept: list[results.Result]) -> str:
    """What a client of Piano sends for a record, and what it keeps: dots are measured, lines are the powers that come closest."""
    found = [result for result in kept if (result.job.kind, result.job.protocol, result.job.bytes) == ("pir", "piano", 8)]
    series = []
    for name, field in [("query", "up_bytes"), ("window", "hint_bytes")]:
        dots = sorted((result.job.rows[0], result.median(field)) for result in found)
        power = fits.power(dots)
        if power:
            ends = [(n, power.at(n)) for n, _ in (dots[0], dots[-1])]
            series.append(svg.Series(f"{name}: n^{power.exponent:.2f}", ends, computed=True, dots=dots))
    note = "Query: what the client sends for a record. Window: what it keeps. A query has some √n offsets of some log n / 2 bits, so it "
    note += "grows by a little more than √n, whose power is 0.50. Dots are measured; lines by least squares of the logarithms."
    return svg.lines(TITLES["piano"], "records", "bytes", series, note)


def limit(kept: list[results.Result]) -> str:
    """CPU a row of intersections in memory: what salted hashes take, which protect nothing, and what the protocol adds. A tick shows
    what the sender's multiplications take at least, two for a row, where the curve's instructions were counted."""
    memory = [result for result in kept if result.job.kind == "bench" and result.job.rows == (STANDARD // 8,) * 2]
    plain = next((result for result in memory if result.job.protocol == "hash"), None)
    limits = tomllib.loads((tables.HERE / "limits.toml").read_text(encoding="utf-8"))
    rows, ticks = [], {}
    for result in memory:
        name, of = label(result.job), limits["machines"].get(machine.slug(result.data["machine"]))
        own_cpu = result.median("cpu_s") / result.job.rows[0] * 1e6
        base = min(own_cpu, plain.median("cpu_s") / plain.job.rows[0] * 1e6) if plain else 0.0
        rows.append((name, {"what salted hashes take": base, "what privacy adds": own_cpu - base}))
        counts = limits["curves"].get(result.job.curve)
        if of and counts and result.job.protocol == "ecdh":
            cycles = max(counts["all"] / of["all_a_cycle"], counts["multiply_adds"] / of["multiply_adds_a_cycle"]) / 8
            ticks[name] = 2 * cycles / (of["ghz"] * 1e3)
    rows.sort(key=lambda one: sum(one[1].values()))
    note = f"vesica bench psi, {STANDARD // 8:,} rows a side, no tables, no TLS. Salted hashes hide nothing that can be guessed."
    return svg.bars(TITLES["limit"], "µs a row", rows, note, ticks, "least time of two multiplications")
