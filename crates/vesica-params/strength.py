"""How strong the parameter sets of this crate are, by published estimators: prints strength.txt, a line for each set.

    python3 crates/vesica-params/strength.py curves noise                              # no packages needed; some minutes
    PYTHONPATH=LATTICE_ESTIMATOR python3 crates/vesica-params/strength.py lattice      # an hour

`lattice` calls the lattice estimator of Albrecht and others (github.com/malb/lattice-estimator, commit 27a581b), of which
LATTICE_ESTIMATOR is a checkout. It runs on SageMath, or on PyPI's `passagemath-standard-no-symbolics==10.8.*` with
`passagemath-symbolics==10.8.*` and `scipy`. All other numbers are computed here, by the formulas of the papers that are named.

A test of the crate (src/strength.rs) holds strength.txt against the sets, and the pages of docs/ against strength.txt.
"""

import sys
from math import floor, gcd, inf, isqrt, lgamma, log, log2, pi

# id, n, primes of q, secret, error. `cbd-b` is the centred binomial distribution of 2·b coins, which has variance b/2.
LATTICE = [
    ("simple-pir-rlwe-1024-cbd256-v2", 1024, [2**32], "cbd-256", "cbd-256"),
    ("simple-pir-rlwe-2048-cbd4-packed-v1", 2048, [2**32], "cbd-2", "cbd-2"),
    ("rlwe-2048x1-v1", 2048, [1125899904679937], "ternary", "cbd-21"),
    ("rlwe-4096x1-v1", 4096, [1125899903991809, 1125899904679937], "ternary", "cbd-21"),
    (
        "rlwe-8192x3-v1",
        8192,
        [1125889168998401, 1125874136383489, 1125818300956673, 1125899904679937],
        "ternary",
        "cbd-21",
    ),
    (
        "ckks-8192x3-v1",
        8192,
        [1125899903991809, 1125899903827969, 1125899903795201, 1125899904679937],
        "ternary",
        "cbd-21",
    ),
]
# The attacks that the estimator computes by default, less two that are far from the others: Arora-Ge and BKW.
ATTACKS = ["usvp", "bdd", "bdd_hybrid", "bdd_mitm_hybrid", "dual", "dual_hybrid"]

# id, and the noise (outputs, blocks, log2 of a block's length) at the sizes that are the hardest to defend and at larger ones.
NOISE = [
    ("lpn-ec7x24-scaled-v3", "large", [(8192, 512, 5), (8960, 280, 6), (176000, 344, 10), (1 << 20, 512, 12)]),
    ("lpn-ec21x24-scaled-v3", "large", [(8192, 256, 6), (12800, 200, 7), (1 << 20, 256, 13)]),
    ("lpn-ec7x24-binary-v1", "two", [(8192, 256, 6), (1 << 16, 256, 9), (1 << 19, 256, 12)]),
]

# The curve, and the order of its group.
CURVES = [
    ("curve25519", 2**252 + 27742317777372353535851937790883648493),
    ("ristretto255", 2**252 + 27742317777372353535851937790883648493),
    ("fourq", 73846995687063900142583536357581573884798075859800097461294096333596429543),
    ("sm2", 0xFFFFFFFEFFFFFFFFFFFFFFFFFFFFFFFF7203DF6B21C6052B53BBF40939D54123),
    ("secp256k1", 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141),
    ("p256", 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551),
]
# Answers under one key: the default of `service.lifetime_keys`.
ANSWERS = 1 << 30


def lattice():
    from estimator import LWE, ND

    def distribution(name):
        return ND.Uniform(-1, 1) if name == "ternary" else ND.CenteredBinomial(int(name.removeprefix("cbd-")))

    for name, n, primes, secret, error in LATTICE:
        q = 1
        for prime in primes:
            q *= prime
        # As many samples as the attack likes.
        params = LWE.Parameters(n=n, q=q, Xs=distribution(secret), Xe=distribution(error))
        found = LWE.estimate(params, deny_list=("arora-gb", "bkw"), quiet=True)
        bits = {attack: float(log2(found[attack]["rop"])) for attack in ATTACKS if attack in found}
        shown = " ".join(f"{attack}={bits[attack]:.1f}" for attack in ATTACKS if attack in bits)
        show(f"lattice {name} n={n} log2(q)={log2(q):.2f} secret={secret} error={error} {shown}", bits)


def show(line, bits):
    print(f"{line} least={min(bits.values()):.1f}", flush=True)


def choose(n, k):
    """log2 of n over k, also between integers."""
    if k < 0 or k > n:
        return -inf
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2)


def noise():
    """Costs of telling G·e from random: e has N = blocks·length places, of which k = N - outputs are free.

    Of the noise of a large field nothing is known but its blocks; over GF(2) each block has exactly one 1, which is an equation
    more a block. Codes are taken for random ones: what is known of the structure of ours is in the linear tests of lpn.rs.
    """
    for name, field, sizes in NOISE:
        for outputs, blocks, depth in sizes:
            size = blocks << depth
            args = (size, size - outputs, blocks, 1 << depth)
            two = field == "two"
            bits = {
                "gauss": gauss(*args),
                "statistical": statistical(*args, two),
                "permutation": permutation(*args, two),
                "algebraic": algebraic(*args, two),
                "hybrid": hybrid(*args, two),
            }
            if two:
                bits |= {"enumeration": enumeration(*args), "representation": representation(*args)}
            shown = " ".join(f"{attack}={cost:.1f}" for attack, cost in bits.items())
            show(f"noise {name} outputs={outputs} blocks={blocks} length={1 << depth} {shown}", bits)


def gauss(size, k, blocks, length):
    """Pooled Gauss: k places without noise are guessed. Liu, Wang, Yang, Yu, eprint 2022/712, section 5."""
    return choose(size, blocks) - choose(size - k, blocks) + 2.8 * log2(min(k, size - k))


def statistical(size, k, blocks, length, two):
    """Statistical decoding 2.0 with generic parity checks, of weight k + 1 - s after s places are guessed: the same paper."""
    guessed = floor(gauss(size, k, blocks, length) / (1 if two else 64))
    k -= guessed
    if two:
        return log2(k + 1) + 2 * blocks * log2((size - blocks + 1) / (size - k - blocks))
    return log2(k + 1) + 2 * (choose(size, blocks) - choose(size - k - 1, blocks))


def permutation(size, k, blocks, length, two):
    """Regular ISD by permutations: the guess is spread over the blocks. Esser, Santini, eprint 2023/1568."""
    k -= blocks if two else 0
    return 2 * log2(size - k) + log2(size) - blocks * log2(1 - k / size)


def enumeration(size, k, blocks, length):
    """Regular ISD by enumeration over GF(2): p blocks may have noise in the guess. The same paper."""
    k, half, best = k - blocks, blocks / 2, inf
    for p in range(0, 60, 2):
        for more in range(1, 400):
            v = (k + more) / blocks
            if v >= length:
                break
            chance = 2 * choose(half, p / 2) + p * log2(v / length) + (blocks - p) * log2(1 - v / length)
            one = choose(half, p / 2) + log2(v) * p / 2
            best = min(best, log2(size) + max(2 * log2(size - k), 1 + one, 2 * one - more) - chance)
    return best


def representation(size, k, blocks, length):
    """Regular ISD by representations, two levels, over GF(2): the same paper."""
    k, half, best = k - blocks, blocks / 2, inf
    for p in range(0, 60, 4):
        for extra in range(0, 40, 2):
            part = p / 2 + extra
            merged = max(0, floor(2 * (choose(p / 2, p / 4) + choose(half - p / 2, extra / 2))))
            for more in range(1, 600):
                v = (k + more) / blocks
                if v >= length:
                    break
                one = choose(half, part / 2) + log2(v) * part / 2
                two = 2 * one - merged
                last = 2 * two - (more - merged)
                chance = 2 * choose(half, p / 2) + p * log2(v / length) + (blocks - p) * log2(1 - v / length)
                best = min(best, log2(size) + max(2 * log2(size - k), 2 + one, 1 + two, last) - chance)
    return best


MOST_DEGREE = 40


def series(factors):
    """Coefficients of the product of (1 + a·z)^e for the pairs (a, e), up to MOST_DEGREE."""
    out = [1]
    # y' = y·Σ e·a/(1 + a·z), so i·y_i = Σ_j y_(i-j)·Σ e·a·(-a)^(j-1).
    sums = [sum(e * a * (-a) ** (j - 1) for a, e in factors) for j in range(1, MOST_DEGREE + 1)]
    for i in range(1, MOST_DEGREE + 1):
        out.append(sum(out[i - j] * sums[j - 1] for j in range(1, i + 1)) // i)
    return out


def algebraic(size, k, blocks, length, two):
    """Quadratic equations of regular noise, with m places of f blocks guessed. Briaud, Oygarden, EUROCRYPT 2023, eprint 2023/176.

    They, and Liu and others, stop at degree 4; here all degrees up to 40 are tried, for 24 values each of f and m, and 24 each around the
    best of these.
    """
    best, at = inf, (blocks // 2, length // 2)
    for reach in (1.0, 1 / 12):
        parts = [reach * (i / 24 - 0.5) for i in range(25)]
        for f in sorted({min(blocks, max(0, round(at[0] + part * blocks))) for part in parts}):
            for m in sorted({min(length - 1, max(0, round(at[1] + part * length))) for part in parts}):
                cost = algebraic_at(size, k, blocks, length, two, f, m, best)
                if cost < best:
                    best, nearest = cost, (f, m)
        at = nearest
    return best


def algebraic_at(size, k, blocks, length, two, f, m, best):
    """The cost for these f and m, if it is below `best`."""
    guess = -f * log2(1 - m / length)
    if f * m > k or guess >= best:
        return inf
    inside = [(length - m - 1, f), (length - 1, blocks - f)]
    left = series([*inside, (1, -(size - k - 1)) if two else (-1, size - k - blocks)])
    degree = next((d for d in range(2, MOST_DEGREE + 1) if left[d] < 1), None)
    if degree is None:
        return inf
    monomials = sum(series(inside if two else [*inside, (-1, -(blocks - 1))])[1 : degree + 1])
    return 2 * log2(monomials) + log2(3 * (k + 1 - f * m)) + guess


def hybrid(size, k, blocks, length, two):
    """Places guessed in nearly all blocks, and quadratic equations solved by linearisation: eprint 2025/1284.

    u + 1 places are guessed in f blocks, u in the others, and q blocks are guessed as a whole.
    """
    best = inf
    known = blocks if two else 0
    own = length - 1 if two else length
    for u in sorted({round((length - 2) * i / 256) for i in range(256)}):
        for q in range(blocks):
            miss = -log2(1 - u / length)
            guess_blocks = q * log2(length)
            if max(guess_blocks, (blocks - q) * miss) >= best:
                break
            step = -log2(1 - (u + 1) / length) - miss
            for f in range(blocks - q):
                guess = (blocks - q) * miss + f * step
                if guess >= best:
                    break
                left = k - known - (u + 1) * f - (blocks - f - q) * u
                lines = (size - k) // own
                rest = size - k - lines * (own - u - 1)
                first = max(1, rest * (size - k) * (rest + left))
                if left <= 0:
                    best = min(best, guess + log2(first))
                    continue
                free = left - own * q
                solved = linearised(length, blocks - q, f, u, q, left, free, own * q, two)
                if solved is not None:
                    second, third = solved
                    best = min(best, guess + max(log2(first), second, third + guess_blocks))
    return best


def linearised(length, plain, f, u, q, left, free, whole, two):
    """log2 of what linearisation takes once, and for each guess of whole blocks; None if there are too few equations."""
    if free < 0:
        return None
    if two:
        equations = (plain - f) * (length - u - 2) * (length - u - 1) / 2 + f * (length - u - 2) * (length - u - 3) / 2
        if free == 0:
            return 0, 0
        if free > (2 * equations) ** 0.5 - 2:
            return None
        second = 4 * log2(free) + 2 * log2(left) - 3 - log2(max(log2(max(free**2 / 2, 2)), 1))
        third = 1.25 * (2 * free**2 * whole + free * whole**2) + (2.5 * free) ** 3 / log2(max(2.5 * free, 2))
        return max(0, second), log2(max(1, third))
    equations = (plain - f) * (length - u) * (length - u - 1) / 2 + f * (length - u - 2) * (length - u - 1) / 2
    rest = free + 2 * q + q * free + q * (q - 1) // 2
    if equations - free * (free + 1) // 2 < 2.5 * rest:
        return None
    third = 2.8 * log2(max(1, 2.5 * rest))
    linear = 2.5 * rest * (free + 2 * whole + whole * free + whole * (whole - 1) // 2)
    return 2.8 * log2(left * (left + 1) // 2 + left), max(third, log2(max(1, linear)))


def curves():
    """What answers under one key take from a group of order p: with d | p - 1 answers a key is found in sqrt(p/d) + sqrt(d)
    steps, and with 2·d, where d | p + 1, in sqrt(p/d) + d. Brown, Gallant, eprint 2004/306; Cheon, EUROCRYPT 2006. `minus` and `plus`
    are the greatest such divisors. `rho` is Pollard's rho without any answers, sqrt(pi·p/(2·m)): m points cost no more than one to look at,
    2 by negation, and 6 where y^2 = x^3 + b (Wiener, Zuccherato, SAC 1998; Duursma, Gaudry, Morain, ASIACRYPT 1999)."""
    for name, p in CURVES:
        costs = {}
        for sign in (-1, 1):
            most = ANSWERS if sign < 0 else ANSWERS // 2
            divisors = [1]
            for prime in small_factors(p + sign):
                divisors = sorted({*divisors, *(d * prime for d in divisors if d * prime <= most)})
            costs[sign] = max(divisors)
        lost = {sign: log2(d) / 2 for sign, d in costs.items()}
        sign = max(lost, key=lost.get)
        # The second terms are far below the first ones.
        assert isqrt(costs[-1]) << 40 < isqrt(p // costs[-1]) and costs[1] << 40 < isqrt(p // costs[1])
        rho = log2(p * pi / (2 * (6 if name == "secp256k1" else 2))) / 2
        shown = f"minus={costs[-1]} plus={costs[1]} lost={lost[sign]:.1f} left={rho - lost[sign]:.1f}"
        print(f"curve {name} rho={rho:.1f} answers=2^{log2(ANSWERS):.0f} {shown}", flush=True)


def small_factors(m):
    """Prime factors of m up to 2^30, with multiplicity; misses one with probability 2^-180."""
    found, waiting = [], []
    for prime in range(2, 1 << 12):
        while m % prime == 0:
            found.append(prime)
            m //= prime
    waiting.append(m)
    start = 2
    while waiting:
        m = waiting.pop()
        if m == 1:
            continue
        if m < 1 << 24 or is_prime(m):
            found.append(m)
            continue
        part, start = rho(m, start), start + 1
        if part is None:
            # No factor up to 2^30.
            continue
        waiting += [part, m // part]
    return [prime for prime in found if prime <= 1 << 30]


def rho(m, start):
    """A factor of a composite m, or None if it has none up to 2^30. Pollard's rho; 2^19 steps are 12 times what is expected."""
    x = y = start
    for _ in range(1 << 11):
        saved, product = (x, y), 1
        for _ in range(1 << 8):
            x = (x * x + start) % m
            y = (y * y + start) % m
            y = (y * y + start) % m
            product = product * (x - y) % m
        if gcd(product, m) == 1:
            continue
        x, y = saved
        while True:
            x = (x * x + start) % m
            y = (y * y + start) % m
            y = (y * y + start) % m
            part = gcd(x - y, m)
            if part == m:
                return rho(m, start + 1000)
            if part > 1:
                return part
    return None


def is_prime(m):
    odd, twos = m - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        if m % base == 0:
            return m == base
        power = pow(base, odd, m)
        if power in (1, m - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % m
            if power == m - 1:
                break
        else:
            return False
    return True


if __name__ == "__main__":
    tables = {"curves": curves, "lattice": lattice, "noise": noise}
    if not sys.argv[1:] or not all(name in tables for name in sys.argv[1:]):
        sys.exit(f"usage: strength.py {'|'.join(tables)} ...")
    for name in sys.argv[1:]:
        tables[name]()
