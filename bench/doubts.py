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
    times = [value("Piano-PSI", rows, "time") for rows in [1000, 10000]]
    line = [0.045 * rows + 5.2 for rows in [1000, 10000]]
    steps = {name: [part(name, step) for step in ["query generation", "server", "decryption"]] for name in [bgv, seal]}
    sums = {name: " + ".join(f"{step:g}" for step in of) + f" = {sum(of):.1f}" for name, of in steps.items()}
    slope, start = next(entry["line"] for entry in kctsb.growth if entry["protocol"] == bgv and "line" in entry)
    queries = {rows: value(bgv, rows, "time", "query") for rows in [100, 10000]}
    parts = [
        f"""## kctsb: a query that is smaller than a ciphertext

The document gives n = {n}, {primes} primes of {bits} bits and t = {setting(bgv, "plaintext modulus")}, and says that
a query of its BGV retrieval with 100 rows moves {sent[0]:g} KB. A ciphertext has two polynomials of {n}
coefficients, each of {primes * bits} bits. One polynomial is {n} · {primes * bits} / 8 = {polynomial:,} bytes, which is
{polynomial // 1024} KiB. The other one can be replaced by a seed. So a query is at least {polynomial / 1000:.0f} KB, and {n * bits // 8 / 1000:.0f} KB if one prime is enough for it. An answer has two
polynomials: with one prime left they are 2 · {n} · {bits} / 8 = {2 * n * bits // 8:,} bytes, and 48,128 rounded to as few bits as
[ours](../protocols/bfv-pir.md). {sent[0]:g} KB is about
{n} · 2 = {plain:,} bytes, which is one plaintext in the clear. The {sent[1]:g} KB at 1,000 rows is below a single polynomial with a
single prime, {n * bits // 8:,} bytes.""",
        f"""## kctsb: a square root that grows like a line

The document says that the communication of its Piano-PSI grows like √n, "sublinear confirmed", by 0.065 · √n KB. Its own table says:

| n | published KB | 0.065 · √n |
|---|---|---|
| 100 | {piano[0]:g} | {formula[0]:.2f} |
| 1,000 | {piano[1]:g} | {formula[1]:.2f} |
| 10,000 | {piano[2]:g} | {formula[2]:.2f} |

From 100 to 10,000 rows the bytes grow by {piano[2] / piano[0]:.0f}, and √n by 10. The exponent that fits is
log({piano[2] / piano[0]:.0f}) / log(100) = {growth:.2f}: a line. The formula is {piano[2] / formula[2]:.0f} times below the table at 10,000 rows.
For the time the document gives 0.045 · n + 5.2 ms: {line[0]:.1f} and {line[1]:.1f} ms at 1,000 and 10,000 rows, where its table has
{times[0]:g} and {times[1]:g}.""",
        f"""## kctsb: more bytes than the table has

The size of a record is given nowhere. With t = {setting(bgv, "plaintext modulus")} a slot holds 16 bits. If that is a record, 10,000 records are
20,000 bytes, and the {sent[2]:g} KB that the document publishes for one query is {sent[2] * 1000 / 20000:.1f} times the whole table.""",
        f"""## kctsb: totals that are not the sums of their parts

In the comparison with SEAL-PIR the steps of BGV are {sums[bgv]} ms, and its total is {part(bgv, "total"):g}. Those of SEAL-PIR are
{sums[seal]} ms, and its total is {part(seal, "total"):g}. The comparison gives {steps[bgv][2]:g} ms for the decryption and {steps[bgv][0]:g} ms more for
the query, where the table of BGV gives {value(bgv, 1000, "time", "client"):g} ms for both. The
{steps[seal][1]:g} ms of SEAL-PIR's server are the {value(ckks, 1000, "time", "server"):g} ms of the document's own CKKS at 1,000 rows. The {steps[bgv][0]:g} and
{steps[seal][0]:g} ms of the queries are what its tables give for a whole retrieval from 100 rows, {value(bgv, 100, "time", "query"):g} and
{value(ckks, 100, "time", "query"):g}.

The formula for BGV, {slope:g} · n + {start:g} ms, gives {slope * 100 + start:g} ms at 100 rows, where the table has {queries[100]:g}, and {slope * 10000 + start:g} ms
at 10,000, where it has {queries[10000]:g}.""",
        """## kctsb: names

"SEAL-PIR (CKKS)" does not exist: SealPIR works over BFV. The link that the document gives for Piano, ePrint 2023/1137, is another paper;
Piano is ePrint 2023/452, and there is no published protocol called Piano-PSI. The
sizes of its intersections are approximate ("~20"). OT-PSI is marked as "simplified OT (not
production-ready)"; its section says "using IKNP OT Extension", and the list of what is done has "Full IKNP OT Extension" open.""",
        hours(),
        more_for_less(),
        """## SecretFlow: two phases with one name

The second table of the whitepaper prints "offline" twice for the unbalanced protocol. The second must be the online phase, as the
text describes it.""",
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
    rows = "".join(f"| {machine} | {n:,} | {less:,.0f} | {of:,.0f} | {of / less:.2f} |\n" for (machine, n), less, of in pairs)
    slower = sum(of >= less for _, less, of in pairs)
    return f"""## SecretFlow: more work in less time

RR22 against malicious parties has the steps of the fast variant, and checks besides. The whitepaper's columns with 100 Mbit/s show that it
sends more, too: there it is the slower one. In the LAN columns it takes longer in {slower} of {len(pairs)} cells. The document does not say why.

| machine | rows | fast, s | malicious, s | malicious / fast |
|---|---|---|---|---|
{rows.rstrip()}"""


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

Some cells for 10^9 rows have seconds and hours. Here they disagree by more than their last digit. We take the seconds.

| protocol | where | seconds | hours as printed | the seconds in hours |
|---|---|---|---|---|
""" + "\n".join(rows)
