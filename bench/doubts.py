"""Published figures that cannot be true, with the arithmetic that says so. Every number is taken from the tables."""

from __future__ import annotations

import math
import re

from . import tables


def all_of_them() -> str:
    """The page's sections, as Markdown."""
    kctsb = tables.load("kctsb")

    def value(protocol: str, n: int, quantity: str, phase: str | None = None) -> float:
        for cell in kctsb.cells:
            if (cell.protocol, cell.n, cell.quantity, cell.phase) == (protocol, n, quantity, phase) and cell.value:
                return cell.value
        raise LookupError(f"{protocol}, {n}, {quantity}, {phase}")

    def setting(protocol: str, quantity: str) -> int:
        return next(int(c.value) for c in kctsb.cells if (c.protocol, c.quantity, c.n) == (protocol, quantity, None))

    def part(protocol: str, phase: str) -> float:
        """Of the comparison with SEAL-PIR, which has a section of its own."""
        cells = (cell for cell in kctsb.cells if cell.section.startswith("4.3") and cell.quantity == "time")
        return next(cell.value for cell in cells if (cell.protocol, cell.phase) == (protocol, phase))

    bgv, ckks, seal = "Native PIR (BGV)", "Native PIR (CKKS)", "SEAL-PIR (CKKS)"
    n, primes, bits = setting(bgv, "ring dimension"), setting(bgv, "primes"), setting(bgv, "bits of a prime")
    polynomial = n * primes * bits // 8
    plain = n * 2
    sent = [value(bgv, rows, "communication") for rows in [100, 1000, 10000]]
    piano = [value("Piano-PSI", rows, "communication") for rows in [100, 1000, 10000]]
    formula = [0.065 * math.sqrt(rows) for rows in [100, 1000, 10000]]
    growth = math.log10(piano[2] / piano[0]) / 2
    steps = {name: [part(name, step) for step in ["query generation", "server", "decryption"]] for name in [bgv, seal]}
    sums = {name: " + ".join(f"{step:g}" for step in of) + f" = {sum(of):.1f}" for name, of in steps.items()}
    slope, start = next(entry["line"] for entry in kctsb.growth if entry["protocol"] == bgv and "line" in entry)
    queries = {rows: value(bgv, rows, "time", "query") for rows in [100, 10000]}
    parts = [
        f"""## kctsb: a query that is smaller than a ciphertext

With n = {n}, {primes} primes of {bits} bits and t = {setting(bgv, "plaintext modulus")} a BGV query of 100 rows is said to move {sent[0]:g} KB.
One polynomial of a ciphertext is {n} · {primes * bits} / 8 = {polynomial:,} bytes; a seed can stand for the other one. So a query is at least
{polynomial / 1000:.0f} KB, and {n * bits // 8 / 1000:.0f} KB if one prime is enough for it. An answer with one prime left is 2 · {n} · {bits} / 8 =
{2 * n * bits // 8:,} bytes, and 48,128 rounded to as few bits as [ours](../protocols/bfv-pir.md). {sent[0]:g} KB is about
{n} · 2 = {plain:,} bytes, one plaintext in the clear. The {sent[1]:g} KB at 1,000 rows is less than a polynomial with a single prime. With
16 bits a record, 10,000 records are 20,000 bytes, and the {sent[2]:g} KB of one query are {sent[2] * 1000 / 20000:.1f} times the whole table.""",
        f"""## kctsb: a square root that grows like a line

The document says that its Piano-PSI moves 0.065 · √n KB, "sublinear confirmed". Its own table says:

| n | published KB | 0.065 · √n |
|---|---|---|
| 100 | {piano[0]:g} | {formula[0]:.2f} |
| 1,000 | {piano[1]:g} | {formula[1]:.2f} |
| 10,000 | {piano[2]:g} | {formula[2]:.2f} |

The exponent that fits is log({piano[2] / piano[0]:.0f}) / log(100) = {growth:.2f}: a line.""",
        f"""## kctsb: totals and formulas beside its tables

In the comparison with SEAL-PIR the steps of BGV are {sums[bgv]} ms, and its total is {part(bgv, "total"):g}; those of SEAL-PIR are
{sums[seal]} ms, and its total is {part(seal, "total"):g}. The time of SEAL-PIR's server, {steps[seal][1]:g} ms, is that of the document's own CKKS
at 1,000 rows, {value(ckks, 1000, "time", "server"):g}. The {steps[bgv][0]:g} and {steps[seal][0]:g} ms of the queries are what its tables have for whole
retrievals from 100 rows, {value(bgv, 100, "time", "query"):g} and {value(ckks, 100, "time", "query"):g}. The formula for BGV, {slope:g} · n + {start:g} ms, gives
{slope * 100 + start:g} ms at 100 rows, where the table has {queries[100]:g}, and {slope * 10000 + start:g} at 10,000, where it has {queries[10000]:g}.""",
        hours(),
        more_for_less(),
    ]
    return "\n\n".join(parts) + "\n"


def more_for_less() -> str:
    """A variant that does more and takes less time."""
    fast, malicious = "RR22_FAST_PSI_2PC", "RR22_MALICIOUS_PSI_2PC"
    seconds = {}
    for cell in tables.load("whitepaper").cells:
        if cell.network == "LAN" and cell.protocol in (fast, malicious) and cell.seconds is not None:
            seconds[cell.protocol, cell.machine, cell.n] = cell.seconds
    pairs = [(where, seconds[fast, *where], of) for (name, *where), of in seconds.items() if name == malicious]
    slower = sum(of >= less for _, less, of in pairs)
    ratios = [of / less for _, less, of in pairs]
    return f"""## SecretFlow: more work in less time

RR22 against malicious parties has the steps of the fast variant and checks besides, and sends more. In the whitepaper's LAN columns it takes
longer in {slower} of {len(pairs)} cells: {min(ratios):.2f} to {max(ratios):.2f} times as long. The document does not say why."""


def hours() -> str:
    """Seconds and hours that stand in one cell and do not agree."""
    rows = []
    for name in tables.names():
        for cell in tables.load(name).cells:
            both = re.match(r"([\d.]+) ?\(([\d.]+) ?h\)", cell.printed or "")
            if both is None:
                continue
            is_, said = float(both[1]) / 3600, float(both[2])
            # A document may round or cut at its last digit.
            last = 10 ** -len(both[2].partition(".")[2])
            if abs(is_ - said) > last:
                rows.append(f"| {cell.protocol} | {cell.machine}, {cell.network} | {both[1]} s | {both[2]} h | {is_:.2f} h |")
    return """## SecretFlow: seconds and hours that differ

In these cells seconds and hours disagree by more than their last digit. We take the seconds.

| protocol | where | seconds | hours as printed | the seconds in hours |
|---|---|---|---|---|
""" + "\n".join(rows)
