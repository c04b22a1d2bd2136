"""How a cost grows with the number of rows: the power of n, and the line, that come closest to measured points.

Both are found by least squares of relative errors, because sizes of 100 and of 10,000 rows are to count alike: a power by least
squares of log y on log n, and a line a * n + b by least squares of (a * n + b) / y - 1. Two sizes lie on a power whatever they
are, so it takes three to say anything. How far the worst point lies from the curve, as a factor, is told with each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Points = list[tuple[float, float]]

# From so many sizes on there is a fit.
LEAST = 3
# A curve that misses a point by a larger factor describes nothing.
FAR = 1.25


@dataclass(frozen=True)
class Power:
    """y = factor * n^exponent."""

    factor: float
    exponent: float

    def at(self, n: float) -> float:
        return self.factor * n**self.exponent


@dataclass(frozen=True)
class Line:
    """y = slope * n + start."""

    slope: float
    start: float

    def at(self, n: float) -> float:
        return self.slope * n + self.start


@dataclass(frozen=True)
class Root:
    """y = factor * sqrt(n)."""

    factor: float

    def at(self, n: float) -> float:
        return self.factor * math.sqrt(n)


def power(points: Points) -> Power | None:
    """The power that comes closest. None for too few sizes."""
    if len({n for n, _ in points}) < LEAST:
        return None
    xs, ys = [math.log(n) for n, _ in points], [math.log(y) for _, y in points]
    middle, height = sum(xs) / len(xs), sum(ys) / len(ys)
    exponent = sum((x - middle) * (y - height) for x, y in zip(xs, ys)) / sum((x - middle) ** 2 for x in xs)
    return Power(math.exp(height - exponent * middle), exponent)


def line(points: Points) -> Line | None:
    """The line that comes closest. None for too few sizes."""
    if len({n for n, _ in points}) < LEAST:
        return None
    # Each point weighs 1 / y^2, so that its error is taken relative to y.
    weigh = [(n, y, 1 / (y * y)) for n, y in points]
    w, wn, wnn = sum(w for *_, w in weigh), sum(w * n for n, _, w in weigh), sum(w * n * n for n, _, w in weigh)
    wy, wny = sum(w * y for _, y, w in weigh), sum(w * n * y for n, y, w in weigh)
    slope = (w * wny - wn * wy) / (w * wnn - wn * wn)
    return Line(slope, (wy - slope * wn) / w)


def off(curve: Power | Line | Root, points: Points) -> float:
    """The largest factor between a point and the curve: 1 if all lie on it, and infinite where the curve is not above 0."""
    ratios = [curve.at(n) / y for n, y in points]
    return max(max(ratio, 1 / ratio) if ratio > 0 else math.inf for ratio in ratios)


def times(factor: float) -> str:
    """A factor as people write it."""
    return f"{factor:.2f}×"


def exponent(points: Points) -> str:
    """The power in words, with how far off it is."""
    found = power(points)
    if found is None:
        return f"none: {len(points)} of {LEAST} sizes" if points else ""
    miss = off(found, points)
    words = f"n^{found.exponent:.2f}"
    return f"{words}, {times(miss)}" if miss <= FAR else f"none: {words} misses by {times(miss)}"


def straight(points: Points, digits: Callable[[float], str]) -> str:
    """The line in words, with how far off it is."""
    found = line(points)
    if found is None:
        return ""
    miss = off(found, points)
    if miss > FAR:
        return f"none: it misses by {times(miss)}" if math.isfinite(miss) else "none: it falls below 0"
    sign, start = ("-", -found.start) if found.start < 0 else ("+", found.start)
    return f"{digits(found.slope)} · n {sign} {digits(start)}, {times(miss)}"
