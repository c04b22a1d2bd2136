"""Draws pages and plots from tables and kept results. The same tables and results give the same bytes.

A page is a template in `pages/` or made here. In a template a line `{{table NAME}}` becomes a table or a plot, and
`{{result SLUG FIELD UNIT}}` within a sentence becomes a measured figure. A measured figure that is typed into a template is an
error: `stray` finds it.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

from . import doubts, fits, jobs, machine, markdown, plots, results, tables

ROOT = Path(__file__).resolve().parent.parent
PAGES = Path(__file__).resolve().parent / "pages"
BOOK = ROOT / "docs" / "src" / "benchmarks"
MADE = "<!-- Drawn by `python3 -m bench draw`: edit bench/ -->\n\n"
BEGIN, END = "<!-- bench: {} -->", "<!-- bench: end -->"

# A number with a unit of time, memory or rate.
FIGURE = re.compile(r"(?<![\w.^/-])\d[\d,.]*\s?(?:s|ms|µs|ns|min|h|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB)(?:/s| a second)?(?![\w^])")


def main(args) -> int:
    """Writes every page and plot, or, with `--check`, says which are stale."""
    try:
        drawn = everything()
    except LookupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    stale = [path for path, text in drawn.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if args.check:
        for path in stale:
            print(f"stale, run `python3 -m bench draw`: {path.relative_to(ROOT)}", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(drawn[path], encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


def everything() -> dict[Path, str]:
    """Every file that is drawn, by its place."""
    kept = results.load()
    drawn = {BOOK / name: svg for name, svg in plots.all_of_them(kept).items()}
    template = (PAGES / "README.md").read_text(encoding="utf-8")
    for figure in stray(template):
        raise LookupError(f"pages/README.md: {figure!r} has no kept result behind it; write {{{{result …}}}}")
    pages = {"README.md": expand(template, kept)}
    for name in tables.names():
        if any(here(cell, table, kept) for table in [tables.load(name)] for cell in table.cells):
            pages[f"{name}.md"] = published(tables.load(name), kept)
    pages["doubts.md"] = "# Figures that cannot be true\n\n" + DOUBTS + doubts.all_of_them()
    drawn |= {BOOK / name: MADE + text for name, text in pages.items()}
    drawn[BOOK / "all.html"] = markdown.page("Vesica: benchmarks", pages, {path.name: text for path, text in drawn.items()})
    readme = ROOT / "README.md"
    drawn[readme] = within(readme.read_text(encoding="utf-8"), "speed", speed(kept) + large())
    for figure in stray(outside(drawn[readme])):
        raise LookupError(f"README.md: {figure!r} has no kept result behind it; it belongs between the marks of `bench`")
    return drawn


DOUBTS = """Our pages print figures as they were published. Some cannot be true, or contradict each other.

"""


def stray(text: str) -> list[str]:
    """Measured figures that are typed into a text: numbers with a unit, outside of code and of what a table or a plot replaces."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`|\{\{.*?\}\}|\]\([^)]*\)", "", text)
    return FIGURE.findall(text)


def outside(text: str) -> str:
    """A text without what is drawn into it."""
    return re.sub(r"<!-- bench: (?!end).*?<!-- bench: end -->", "", text, flags=re.S)


def within(text: str, name: str, drawn: str) -> str:
    """A text with what stands between its marks replaced."""
    begin = BEGIN.format(name)
    if text.count(begin) != 1:
        raise LookupError(f"README.md: no mark {begin}")
    head, rest = text.split(begin)
    _, tail = rest.split(END, 1)
    return f"{head}{begin}\n{drawn}{END}{tail}"


def expand(template: str, kept: list[results.Result]) -> str:
    """A template with its tables and figures."""

    def block(match: re.Match) -> str:
        kind, name = match[1].split(maxsplit=1)
        if kind == "noted":
            return noted(name)
        if kind == "plot":
            title = plots.TITLES[name]
            return f"![{title}]({name}.svg)\n"
        if name == "places":
            return "".join(f"- {place}: {words}\n" for place, words in results.noted()["machines"].items())
        drawn = {"runs": listed, "machines": machines, "published": contents, "retrieval": retrieval, "powers": powers}
        return drawn[name](kept)

    def figure(match: re.Match) -> str:
        slug, field, unit = match[1].split()
        found = results.best(result for result in kept if result.job.slug == slug)
        if not found:
            raise LookupError(f"no kept result of {slug}, which a page quotes")
        return amount(found.median(field), unit)

    text = re.sub(r"^\{\{((?:table|plot|noted) .*?)\}\}\n", block, template, flags=re.M)
    return re.sub(r"\{\{result (.*?)\}\}", figure, text)


def amount(value: float | None, unit: str) -> str:
    """A figure in a unit; nothing for none."""
    if value is None:
        return ""
    by = {"s": 1, "ms": 1e-3, "us": 1e-6, "MiB": 2**20, "MB": 1e6, "KB": 1e3, "": 1}[unit]
    return f"{digits(value / by)} {unit}".strip()


def digits(value: float) -> str:
    """Three digits, or two behind the zeros of a small number, and no exponent."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if value == 0 or abs(value) >= 0.01:
        return f"{value:.3g}"
    return f"{value:.{1 - math.floor(math.log10(abs(value)))}f}"


def size(rows: int) -> str:
    """A number of rows as people write it."""
    power = rows.bit_length() - 1
    if rows == 1 << power and rows > 1024:
        return f"2^{power}"
    zeros = len(str(rows)) - 1
    if rows == 10**zeros and zeros > 4:
        return f"10^{zeros}"
    return f"{rows:,}"


def sizes(rows: list[int]) -> str:
    """The rows of each party's table; one number where all have as many."""
    return size(rows[0]) if len(set(rows)) == 1 else " x ".join(size(one) for one in rows)


def machines(kept: list[results.Result]) -> str:
    """Where results were measured, a line each, and below what all these machines have."""
    found = [result.data["machine"] for result in kept]
    sets = [name for name in found[0]["sets"] if all(name in one["sets"] for one in found)]
    system = found[0]["system"] if len({one["system"] for one in found}) == 1 else ""
    told: dict[str, set[str]] = {}
    for result, of in zip(kept, found):
        own = machine.in_words({**of, "sets": [name for name in of["sets"] if name not in sets]}).removesuffix(f", {system}")
        told.setdefault(f"{result.letter}: {own}", set()).add(result.data["date"])
    lines = "".join(f"- {words}; {', '.join(sorted(dates))}\n" for words, dates in sorted(told.items()))
    same = ", ".join(part for part in [system, *sets] if part)
    return lines + (f"\nAll have {same}.\n" if same else "")


def row(cells: list) -> str:
    return "| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |\n"


def head(cells: list[str]) -> str:
    return row(cells) + "|" + "---|" * len(cells) + "\n"


def lean(columns: list[str], rows: list[list], most: int | None = None) -> str:
    """A table without those of its first `most` columns that say the same in every row, or nothing in the only one. What they say
    stands above it."""
    said = [{line[place] for line in rows} for place in range(len(columns))[:most]]
    same = [place for place, words in enumerate(said) if len(words) == 1 and (len(rows) > 1 or not any(words))]
    told = [f"*{columns[place]}* is {rows[0][place]}" for place in same if rows[0][place]]
    kept = [place for place in range(len(columns)) if place not in same]
    text = f"In every row {', '.join(told)}.\n\n" if told else ""
    return text + head([columns[place] for place in kept]) + "".join(row([line[place] for place in kept]) for line in rows)


def marks(result: results.Result, runs: bool = False, usual: str = results.USUAL) -> str:
    """What has to be known of a figure: other work that disturbed it, the machine if it is not the one with the letter `usual`, and how
    many runs it is the median of where these are not three."""
    known = (["busy"] if result.busy else []) + ([result.letter] if result.letter != usual else [])
    known += ["once" if len(result.runs) == 1 else f"{len(result.runs)} runs"] if runs and len(result.runs) != 3 else []
    return f" ({', '.join(known)})" if known else ""


def measured(result: results.Result) -> list:
    """The columns of a table of what was run here, after the protocol."""
    job = result.job
    sent, received = result.median("sent"), result.median("received")
    both = None if sent is None else f"{(sent + received) / max(job.rows):.1f}"
    walls = amount(result.median("wall_s"), "s").removesuffix(" s") + marks(result, runs=True)
    memory = amount(result.median("peak_memory"), "MiB").removesuffix(" MiB")
    cpu = None if result.median("cpu_s") is None else digits(result.median("cpu_s"))
    rows = parties(job) + (", one process" if job.kind == "bench" else "")
    return [rows, walls, cpu, memory, both]


def unlike(result: results.Result) -> str:
    """What was found, where it is not what was expected: by `dp`."""
    expected, found = result.runs[0]["expected"], sorted({run["found"] for run in result.runs})
    if found == [expected]:
        return ""
    return f"{name(result.job)}, {parties(result.job)}: {expected:,} were common, found {' or '.join(f'{one:,}' for one in found)}. "


def parties(job: jobs.Job) -> str:
    """The rows of the parties' tables, and how many parties there are if they are more than two."""
    return sizes(job.rows) + (f", {len(job.rows)} parties" if len(job.rows) > 2 and len(set(job.rows)) == 1 else "")


def origin(result: results.Result) -> str:
    """When a result was measured, and at which commit the sources were."""
    return " ".join(part for part in [result.data["date"], result.data.get("commit")] if part)


MEASURED = ["rows", "wall s, median", "CPU s, all", "peak MiB, largest", "bytes a row, both ways"]


def name(job: jobs.Job) -> str:
    """A job's protocol, as a job says it, and whose program it is."""
    result = job.in_groups or (f'`result = "{job.result}"`' if job.result else None)
    parties = f"{len(job.rows)} parties" if job.result and len(job.rows) > 2 else None
    values = f"values of {job.values}" if job.values else None
    words = f"`{job.protocol}`" + "".join(f", {word}" for word in [job.curve, job.mode, job.security, result, values, parties] if word)
    if job.kind == "peer":
        return f"SecretFlow, {job.protocol}"
    return words + (", a service" if job.kind == "service" else "")


def order(result: results.Result):
    """By protocol, with the peer's after ours, then by size."""
    job = result.job
    return (job.kind == "peer", job.protocol, job.words, job.kind, job.network or "", max(job.rows), job.rows)


NOTHING = "Nothing of this was run yet.\n"


def listed(kept: list[results.Result]) -> str:
    """A table of the intersections that were run here: each with 2^20 rows, and with the most; in one process only what parties of their
    own did not run. Plots have the other sizes, and the pages of published tables have them too, and slow networks."""
    jobs_ = {result.job: None for result in kept if result.job.kind != "pir" and result.job.network is None and max(result.job.rows) >= 1 << 16}
    apart = {job.words for job in jobs_ if job.kind == "job"}
    jobs_ = {job: None for job in jobs_ if job.kind != "bench" or job.words not in apart}
    most: dict[tuple, int] = {}
    for job in jobs_:
        most[like(job)] = max(most.get(like(job), 0), *job.rows)
    found = sorted((results.find(kept, job) for job in jobs_ if max(job.rows) in (1 << 20, most[like(job)])), key=order)
    if not found:
        return NOTHING
    table = lean(["what", *MEASURED], [[name(result.job), *measured(result)] for result in found])
    otherwise = "".join(map(unlike, found)).strip()
    return table + (f"\n{otherwise}\n" if otherwise else "")


def like(job: jobs.Job) -> tuple:
    """What jobs that differ in their sizes alone have in common."""
    return (job.kind, job.words, len(job.rows))


def retrieval(kept: list[results.Result]) -> str:
    """What `vesica bench pir` measured, but for what stands on the page of a published table, and for what other work disturbed."""
    drawn = {job for table in map(tables.load, tables.names()) for cell in table.cells if (job := jobs.of_cell(table, cell))}
    found = sorted((result for result in kept if result.job.kind == "pir" and result.job not in drawn and not result.busy), key=order)
    if not found:
        return NOTHING
    columns = ["scheme", "records", "bytes each", "prepare s", "client keeps KB", "up KB", "down KB", "client ms", "server ms", "GB/s", "right answers"]
    columns += ["measured"]
    lines = []
    for result in found:
        run = sorted(result.runs, key=lambda run: run["answer_ms"])[len(result.runs) // 2]
        client = digits(run["query_ms"] + run["decode_ms"])
        gb = None if run.get("gb_a_second") is None else digits(run["gb_a_second"])
        kb = [digits(run[field] / 1e3) for field in ["hint_bytes", "up_bytes", "down_bytes"]]
        checked = f"{run['found']} of {run['expected']}"
        label, answer = scheme(result.job) + marks(result), digits(run["answer_ms"])
        lines.append([label, size(run["rows"]), run["bytes"], digits(run["prepare_s"]), *kb, client, answer, gb, checked, origin(result)])
    return lean(columns, lines)


def scheme(job: jobs.Job) -> str:
    """A retrieval, as a service says it, and its rings where they are not the usual ones."""
    return f"`{job.protocol}`" + (f', `preset = "{job.preset}"`' if job.preset else "")


def powers(kept: list[results.Result]) -> str:
    """The powers by which a retrieval's costs grow with the records, where a scheme was run at enough sizes."""
    found: dict[tuple, list[results.Result]] = {}
    for result in sorted((result for result in results.alike(kept) if result.job.kind == "pir"), key=order):
        found.setdefault((scheme(result.job), result.job.bytes), []).append(result)
    fields = {"bytes kept": ["hint_bytes"], "bytes up": ["up_bytes"], "client's time": RETRIEVAL["client"], "server's time": ["answer_ms"]}
    rows = ""
    for (label, width), same in found.items():
        if len(same) < fits.LEAST:
            continue
        points = [[(one.job.rows[0], total(one, names)) for one in same] for names in fields.values()]
        ran = ", ".join(size(one.job.rows[0]) for one in same)
        rows += row([label, width, ran, *[fits.exponent(of) if all(y for _, y in of) else None for of in points]])
    if not rows:
        return f"No scheme was run at {fits.LEAST} sizes yet.\n"
    return head(["scheme", "bytes each", "records", *fields]) + rows


def speed(kept: list[results.Result]) -> str:
    """The table of the README: 2^20 rows a side, beside SecretFlow where it was run too. What other work disturbed or another machine
    measured is left out."""
    kept = results.alike(kept)
    found = []
    for entry in tables.house():
        if "kind" in entry or 1 << 20 not in entry["rows"]:
            continue
        job = next(job for job in jobs.of_house(entry) if job.rows[0] == 1 << 20)
        ours = results.find(kept, job)
        if ours is not None:
            found.append((job, ours, results.find(kept, job.peer) if job.peer else None))
    if not found:
        return f"\n{NOTHING}\n"
    columns, beside_them = ["", "wall, CPU of both, peak memory of one", "bytes a row, both ways"], any(theirs for *_, theirs in found)
    if beside_them:
        columns += ["SecretFlow", "its wall time divided by ours"]
    text = head(columns)
    for job, ours, theirs in found:
        ratio = digits(theirs.median("wall_s") / ours.median("wall_s")) if theirs else None
        both = digits((ours.median("sent") + ours.median("received")) / job.rows[0])
        text += row([name(job), three(ours), both, three(theirs) if theirs else None, ratio][: len(columns)])
    dates = ", ".join(sorted({ours.data["date"] for _, ours, _ in found}))
    places = "; ".join(sorted({machine.in_words(ours.data["machine"]) for _, ours, _ in found}))
    text += f"\nMeasured on {places}, {dates}. Medians of three runs.\n"
    if beside_them:
        text += PEER
    return f"\n{text}\n"


def large() -> str:
    """The largest table that was matched, beside the whitepaper: for the README."""
    entry = next(entry for entry in results.noted()["entries"] if entry["name"] == "sixteen")
    which, wall, _, theirs, ratio = entry["rows"][-1]
    text = f"{which} rows a side, {entry['date']}, on {results.noted()['machines'][entry['machine']]}, both parties on it: {wall} s.\n"
    text += f"SecretFlow's whitepaper prints {theirs} s for two machines of 32 cores, {ratio} times as long.\n"
    two = next(entry for entry in results.noted()["entries"] if entry["name"] == "two-billion")
    text += f"On 2 cores, with 8 GiB a party and 42 GB of scratch in all: {two['rows'][0][1]} s.\n"
    return f"{text}\n"


PEER = """SecretFlow is its wheel `spu` 0.9.5, by turns on the same files, without TLS, and on Curve25519 by a hash that leaks a bit of every key.
Its `dp` leaves a tenth of the common rows out, and ours adds rows: the two are not the same work.
"""


def three(result: results.Result) -> str:
    wall, cpu = amount(result.median("wall_s"), "s"), amount(result.median("cpu_s"), "s")
    return f"{wall}, {cpu}, {amount(result.median('peak_memory'), 'MiB')}{marks(result)}"


def contents(kept: list[results.Result]) -> str:
    """The published tables, with how much of each was run here. One that has a page names its document there."""
    text = head(["table", "published cells", "with a result here of the same size"])
    for one in tables.names():
        table = tables.load(one)
        have = sum(here(cell, table, kept) is not None for cell in table.cells)
        text += row([f"[{table.title}]({one}.md)" if have else f"{table.title}: {table.document}", len(table.cells), have])
    return text


def noted(which: str) -> str:
    """Figures without a report, with what is known of them."""
    entry = next(entry for entry in results.noted()["entries"] if entry["name"] == which)
    text = f"**{entry['title']}.** {entry['date']}, {entry['machine']}, {entry['source']}. {entry['about']}".rstrip() + "\n\n"
    return text + head(entry["columns"]) + "".join(row(cells) for cells in entry["rows"])


def here(
    cell: tables.Cell, table: tables.Table, kept: list[results.Result], first: str = results.USUAL
) -> tuple[float, results.Result] | None:
    """What was measured here for a published cell, in its unit, if need be not by the machine `first`. None if its job was not run, or
    measures nothing like it."""
    job = jobs.of_cell(table, cell)
    result = results.find(kept, job, first) if job else None
    value = None if result is None else comparable(cell, result, table.ours[cell.protocol].get("steps", {}))
    return None if value is None else (value, result)


def comparable(cell: tables.Cell, result: results.Result, steps: dict[str, str]) -> float | None:
    """A result's figure for what a cell is about, in the cell's unit. `steps` says which of our steps a phase of the document is."""
    figure = None
    if cell.unit in tables.SECONDS:
        figure = result.step(steps[cell.phase]) if cell.phase in steps else seconds(cell, result)
    elif cell.unit in tables.BYTES:
        figure = traffic(cell, result) if cell.quantity == "communication" else memory(cell, result)
    elif cell.quantity == "intersection size":
        figure = result.median("found")
    elif cell.quantity == "precision" and all(run["right"] for run in result.runs):
        figure = DECIMALS
    return None if figure is None else figure / (tables.SECONDS | tables.BYTES).get(cell.unit, 1)


# `vesica bench pir` fails where a number of CKKS is off by more than half of a unit of this decimal.
DECIMALS = 7

# What a retrieval's times are, in milliseconds; its "query" is the whole of a retrieval.
RETRIEVAL = {
    "query": ["query_ms", "answer_ms", "decode_ms"],
    "total": ["query_ms", "answer_ms", "decode_ms"],
    "server": ["answer_ms"],
    "client": ["query_ms", "decode_ms"],
    "query generation": ["query_ms"],
    "decryption": ["decode_ms"],
}


def seconds(cell: tables.Cell, result: results.Result) -> float | None:
    """Of a cell that is a time."""
    if cell.quantity == "time without loading data":
        # The set-up is not told apart here, and is a part of what stands beside "online".
        return None if cell.phase == "offline" else result.median("without_tables_s") or result.median("wall_s")
    if cell.quantity != "time":
        return None
    if result.job.kind == "pir":
        if cell.phase == "setup":
            return result.median("prepare_s")
        return total(result, RETRIEVAL.get(cell.phase, []), 1e-3)
    if cell.phase is None:
        return result.median("wall_s")
    if result.job.kind == "service":
        phases = result.phases()
        return phases["prepare"] + phases["fetch"] if cell.phase == "offline" else phases["ask"]
    return None


def traffic(cell: tables.Cell, result: results.Result) -> float | None:
    """Bytes of both directions."""
    return total(result, ["up_bytes", "down_bytes"] if result.job.kind == "pir" else ["sent", "received"])


def memory(cell: tables.Cell, result: results.Result) -> float | None:
    """Bytes of memory: of a retrieval by what they are for, else by whose they are. alice, who learns, is the client."""
    if cell.quantity != "memory":
        return None
    if result.job.kind == "pir":
        fields = {"total": "peak_memory", "database": "store_bytes", "keys": "keys_bytes", "query": "up_bytes"}
        return result.median(fields[cell.phase])
    return result.peak(*{"client": ["alice"], "server": ["bob"], "total": ["alice", "bob"]}[cell.phase])


def total(result: results.Result, fields: list[str], unit: float = 1) -> float | None:
    """The sum of the medians of some fields; None if there are none, or one is missing."""
    medians = [result.median(field) for field in fields]
    return sum(medians) * unit if medians and None not in medians else None


def growth(table: tables.Table, known: list, first: str) -> str:
    """How costs grow with the rows: by the document's formula, by its own figures, and here, by the machine `first`."""
    if not table.growth:
        return ""
    rows = ""
    for entry in table.growth:
        wanted = (entry["protocol"], entry["quantity"], entry.get("phase"))
        theirs, ours, unit = [], [], ""
        for cell, found in zip(table.cells, known):
            if (cell.protocol, cell.quantity, cell.phase) != wanted or cell.n is None or cell.value is None:
                continue
            unit = cell.unit
            theirs.append((cell.n, cell.value))
            # Other work and other machines change times, and neither bytes nor results.
            fits_in = found and not (unit in tables.SECONDS and (found[1].busy or found[1].letter != first))
            ours += [(cell.n, found[0])] if fits_in else []
        least = entry.get("from", 0)
        claimed = [(n, value) for n, value in theirs if n >= least]
        claim, miss = entry.get("says"), None
        if "line" in entry:
            slope, start = entry["line"]
            claim, miss = f"{slope:g} · n + {start:g}", fits.off(fits.Line(slope, start), claimed)
        elif "root" in entry:
            claim, miss = f"{entry['root']:g} · √n", fits.off(fits.Root(entry["root"]), claimed)
        if least:
            claim += f", from {least:,} rows"
        what = ", ".join(part for part in wanted[1:] if part)
        straight = fits.straight(ours, digits)
        factor = None if miss is None else fits.times(miss)
        rows += row([entry["protocol"], what, unit, claim, factor, fits.exponent(theirs), fits.exponent(ours), straight])
    columns = ["protocol", "what", "unit", "the document's formula", "which misses its own table by"]
    columns += ["power of n, its table", "power of n, here", "line, here"]
    return f"## How these grow, computed\n\n{FITS}\n" + head(columns) + rows + "\n"


FITS = """Powers of n are found as for [retrieval](README.md#retrieval), and lines by least squares of relative errors, without times that
other work disturbed or another machine measured.
"""


def published(table: tables.Table, kept: list[results.Result]) -> str:
    """The page of a published table: theirs beside ours. The machine `first`, which measured most of ours, is named once."""
    wanted = [job for cell in table.cells if (job := jobs.of_cell(table, cell))]
    first = results.most(kept, set(wanted))
    known = [here(cell, table, kept, first) for cell in table.cells]
    text = f"# {table.title}\n\nFrom: {table.document}. {table.note}\n\n"
    theirs_ = {cell.machine for cell in table.cells}
    text += "[How to read this](README.md)."
    text += f" Theirs: {theirs_.pop() or 'no machine named'}." if len(theirs_) == 1 else ""
    text += "" if first == results.USUAL else f" Ours: machine {first}."
    text += " Every figure: {}, in {}.".format(*same) if (same := alike(table, known)) else ""
    text += "\n\n"
    return (text + beside(table, known, first) + growth(table, known, first)).rstrip("\n") + "\n"


def alike(table: tables.Table, known: list) -> tuple[str, str] | None:
    """What all published cells are that stand beside a result, and their unit, if these are the same everywhere."""
    found = {(cell.quantity, cell.unit) for cell, one in zip(table.cells, known) if one}
    return found.pop() if len(found) == 1 else None


def beside(table: tables.Table, known: list, first: str) -> str:
    """The published cells: a column for each of their machines, and one for here. Protocols that the document ran on different machines
    have tables of their own."""
    columns = list(dict.fromkeys(cell.machine for cell in table.cells))
    lines: dict[tuple, dict] = {}
    ran: dict[tuple, dict] = {}
    same = alike(table, known)
    for cell, found in zip(table.cells, known):
        what = ", ".join(part for part in [None if same else cell.quantity, cell.phase] if part)
        of = [n for n in [cell.n, cell.m, cell.l] if n is not None]
        rows = sizes(of) if of else ""
        line = lines.setdefault((cell.section, cell.protocol, cell.network or "", rows, what), {"unit": cell.unit, "here": ""})
        line[cell.machine] = shown(cell) + ("" if cell.unit == line["unit"] else f" {cell.unit}")
        ran.setdefault((cell.section, cell.protocol), {})[cell.machine] = None
        if found and cell.unit == line["unit"]:
            # Other work and other machines change times, and neither bytes nor results.
            disturbed = marks(found[1], usual=first) if cell.unit in tables.SECONDS else ""
            line["here"] = f"**{digits(found[0])}**{disturbed}"
    text = ""
    for section in dict.fromkeys(key[0] for key in lines):
        of = {key[1:]: line for key, line in lines.items() if key[0] == section}
        # What was measured at no size compares nothing, and is in the document.
        run = {(key[0], key[1], key[3]) for key, line in of.items() if line["here"]}
        of = {key: line for key, line in of.items() if line["here"] or key[2] and (key[0], key[1], key[3]) in run and len(columns) == 1}
        if not of:
            continue
        text += f"## {section}\n\n"
        for there in dict.fromkeys(tuple(ran[section, key[0]]) for key in of):
            part = {key: line for key, line in of.items() if tuple(ran[section, key[0]]) == there}
            text += side_by_side(part, there, len(columns) > 1, section, same is not None) + "\n"
    return text


def side_by_side(of: dict[tuple, dict], there: tuple, several: bool, section: str, alone: bool) -> str:
    """A table of published cells of the machines `there`, beside ours. Where these are one machine, the heads do not name it: what stands
    above the table does, if the document has `several`, and else the page. A protocol that the `section` is about is not named again,
    nor a unit that stands `alone` on the page."""
    one = len(there) == 1
    named = there if one and several else ()
    keys = [*["machine" for _ in named], *KEYS, "unit"]
    heads = ["theirs"] if one else [name or "no machine named" for name in there]
    if len({key[0] for key in of}) == 1 and next(iter(of))[0].rstrip(")") in section:
        keys.remove("protocol")
    lines: dict[tuple, dict[str, list]] = {}
    for (protocol, network, rows, what), line in of.items():
        if line["here"] or one:
            protocols = [protocol] if "protocol" in keys else []
            figures = [*[line.get(machine) for machine in there], line["here"]]
            unit = "" if alone else line["unit"]
            lines.setdefault((*named, *protocols, network, what, unit), {})[rows] = figures
    ran = list(dict.fromkeys(rows for found in lines.values() for rows in found))
    gaps = len(lines) * len(ran) - sum(map(len, lines.values()))
    # A column for each figure of each size, unless that makes a table too wide or too empty.
    if 1 < len(ran) <= MOST // (len(heads) + 1) and gaps * 10 < len(lines) * len(ran) and all(ran):
        names = [key for key in keys if key != "rows"]
        figures = [word for rows in ran for word in (f"{rows}: {heads[0]}", *heads[1:], "here")]
        nothing = [""] * (len(heads) + 1)
        cells = [[*key, *[word for rows in ran for word in found.get(rows, nothing)]] for key, found in lines.items()]
        return lean([*names, *figures], cells, len(names))
    cells = [[*key[:-2], rows, *key[-2:], *figures] for key, found in lines.items() for rows, figures in found.items() if figures[-1]]
    return lean([*keys, *heads, "here"], cells, len(keys))


# The most columns of figures of a table whose sizes stand side by side.
MOST = 12
KEYS = ["protocol", "network", "rows", "what"]


def shown(cell: tables.Cell) -> str:
    """A published figure, as the document prints it where it prints more than a number."""
    return cell.printed if cell.printed else f"{cell.value:,.10g}"
