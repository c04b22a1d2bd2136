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

    bgv = "Native PIR (BGV)"
    n, primes, bits = setting(bgv, "ring dimension"), setting(bgv, "primes"), setting(bgv, "bits of a prime")
    polynomial = n * primes * bits // 8
    plain = n * 2
    sent = [value(bgv, rows, "communication") for rows in [100, 1000, 10000]]
    piano = [value("Piano-PSI", rows, "communication") for rows in [100, 1000, 10000]]
    formula = [0.065 * math.sqrt(rows) for rows in [100, 1000, 10000]]
    growth = math.log10(piano[2] / piano[0]) / 2
    times = [value("Piano-PSI", rows, "time") for rows in [1000, 10000]]
    line = [0.045 * rows + 5.2 for rows in [1000, 10000]]
    parts = [
        f"""## kctsb: a query that is smaller than a ciphertext

The document gives n = {n}, {primes} primes of {bits} bits and t = {setting(bgv, "plaintext modulus")}, and says that
a query of its BGV retrieval with 100 rows moves {sent[0]:g} KB. A ciphertext at these parameters has two polynomials of {n}
coefficients, each of {primes * bits} bits. One polynomial is {n} · {primes * bits} / 8 = {polynomial:,} bytes, which is
{polynomial // 1024} KiB. The other one can be replaced by a seed. So a query is at least {polynomial / 1000:.0f} KB. An answer has two
polynomials: even with one prime left they are 2 · {n} · {bits} / 8 = {2 * n * bits // 8:,} bytes. {sent[0]:g} KB is about
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
20,000 bytes, and the {sent[2]:g} KB that the document publishes for one query is {sent[2] * 1000 / 20000:.1f} times the whole table. To download it would be
cheaper, and as private. `vesica plan` says so for such tables.""",
        """## kctsb: names

"SEAL-PIR (CKKS)" does not exist: SealPIR works over BFV. The link that the document gives for Piano, ePrint 2023/1137, is another paper;
Piano is ePrint 2023/452. Piano retrieves single records, and there is no published protocol called Piano-PSI. OT-PSI is marked as
"simplified OT (not production-ready)" by the document itself, and its intersection sizes are approximate ("~20"), where an intersection is exact.""",
        hours(),
        """## SecretFlow: two phases with one name

The second table of the whitepaper prints "offline" twice for the unbalanced protocol. The second figure must be the online phase, as the
text describes it. The whitepaper on the unbalanced protocol has its tables as pictures, and the pictures are not part of the
document: only what stands in its text is in our data.""",
    ]
    return "\n\n".join(parts) + "\n"


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
