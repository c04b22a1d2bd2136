"""Plots as SVG text: lines with their names at their ends, and stacked bars. Readable on light and on dark paper.

A telephone shows a plot at 330 pixels, which is two thirds of its own width. So no text is smaller than 13 units, which are
9 pixels there, and what does not fit into a line goes into the next.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from html import escape

# In units. Where there is room, a unit is SHOWN / WIDTH pixels.
WIDTH, SHOWN = 480, 600
LEFT, PLOT = 50, 360
EDGE = 12

# Twelve colours, each legible on both papers; the order keeps neighbours apart. Lines beyond the twelfth have square dots.
COLOURS = ["#2f7ed8", "#d9622b", "#3a9d5d", "#b0489a", "#8a6d1f", "#1b9aaa", "#c9364a", "#6f62c9", "#6b7f2a", "#5c7080", "#c77f00", "#008577"]

STYLE = """
text { font: 14px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 16px }
.small { font-size: 13px; fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
.paper { fill: #ffffff }
.mark { fill: #24292f }
.leader { stroke: #afb8c1; stroke-width: 1; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #30363d } .paper { fill: #0d1117 } .mark { fill: #e6edf3 }
.leader { stroke: #57606a }
}
"""


@dataclass
class Series:
    """A line: its name, its points, and points that were measured where the line itself is computed."""

    name: str
    points: list[tuple[float, float]]
    computed: bool = False
    dots: list[tuple[float, float]] = field(default_factory=list)
    # Its place among the colours; that in its plot if there is none.
    place: int | None = None


class Axis:
    """A logarithmic axis between two numbers, on a stretch of pixels."""

    def __init__(self, low: float, high: float, start: float, end: float):
        self.low, self.high = math.log10(low), math.log10(high)
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        part = (math.log10(value) - self.low) / ((self.high - self.low) or 1)
        return self.start + part * (self.end - self.start)

    def ticks(self, room: float) -> list[float]:
        """Powers of ten, and as many numbers between two of them as can stand `room` apart."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        decade = abs(self.end - self.start) / ((self.high - self.low) or 1)
        steps = [1, 2, 5] if decade * math.log10(2) >= room else [1, 3] if decade * math.log10(3) >= room else [1]
        ticks = [step * 10.0**power for power in powers for step in steps]
        return [tick for tick in ticks if self.low - 1e-9 <= math.log10(tick) <= self.high + 1e-9]


def number(value: float) -> str:
    """A tick's label: 0.5, 200, 20k, 5M."""
    for step, letter in [(1e9, "G"), (1e6, "M"), (1e3, "k")]:
        if value >= step * 0.999:
            return f"{value / step:.10g}{letter}"
    return f"{value:.10g}"


def lines(title: str, x: str, y: str, series: list[Series], note: str = "") -> str:
    """A log-log plot, a line for each series, named at its right end."""
    series = [one for one in series if one.points]
    xs = [px for one in series for px, _ in one.points + one.dots]
    ys = [py for one in series for _, py in one.points + one.dots]
    paper = Paper(title)
    if not xs:
        paper.text("Not measured yet.", EDGE, 24)
        return paper.closed(note)
    paper.text(y, EDGE, 18)
    top, bottom = paper.room(PLOT)
    right = WIDTH - EDGE - wide(max((one.name for one in series), key=wide))
    end = right - 24
    across = Axis(min(xs) / 1.15, max(xs) * 1.15, LEFT, end)
    up = Axis(min(ys) / 1.4, max(ys) * 1.4, bottom, top)
    for tick in across.ticks(38):
        at = across.at(tick)
        paper.add(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{bottom}"/>')
        paper.add(f'<text class="small" x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{number(tick)}</text>')
    for tick in up.ticks(17):
        at = up.at(tick)
        paper.add(f'<line class="grid" x1="{LEFT}" x2="{end:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
        paper.add(f'<text class="small" x="{LEFT - 6}" y="{at + 5:.1f}" text-anchor="end">{number(tick)}</text>')
    paper.add(f'<text class="small" x="{(LEFT + end) / 2:.1f}" y="{bottom + 38}" text-anchor="middle">{escape(x)}</text>')
    paper.room(44)
    ends = []
    for order, one in enumerate(series):
        place = order if one.place is None else one.place
        colour = COLOURS[place % len(COLOURS)]
        drawn = [(across.at(px), up.at(py)) for px, py in sorted(one.points)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in drawn)
        dash = ' stroke-dasharray="5 4"' if one.computed else ""
        paper.add(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        for px, py in one.dots if one.computed else one.points:
            paper.add(dot(across.at(px), up.at(py), colour, place >= len(COLOURS)))
        ends.append((drawn[-1], one.name, colour))
    for (px, py), name, colour, at in apart(ends, top, bottom):
        paper.add(f'<path class="leader" d="M{px + 5:.1f} {py:.1f} L{right - 4:.1f} {at:.1f}"/>')
        paper.add(f'<text x="{right:.1f}" y="{at + 5:.1f}" style="fill: {colour}; font-weight: 600">{escape(name)}</text>')
    return paper.closed(note)


def wide(name: str) -> float:
    """Units that a name takes at most, in the type of names."""
    return 8.8 * len(name)


def dot(x: float, y: float, colour: str, square: bool) -> str:
    """A point that was measured."""
    if square:
        return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{colour}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'


def apart(ends: list, top: float, bottom: float, gap: float = 18) -> list:
    """Heights for the names at the ends of lines, between `top` and `bottom`, so that none covers another."""
    ordered = sorted(ends, key=lambda end: end[0][1])
    gap = min(gap, (bottom - top) / max(1, len(ordered) - 1))
    heights: list[float] = []
    for (_, py), _, _ in ordered:
        heights.append(max(py, heights[-1] + gap) if heights else max(py, top))
    over = max(0.0, heights[-1] - bottom) if heights else 0.0
    for place in reversed(range(len(heights))):
        limit = heights[place + 1] - gap if place + 1 < len(heights) else heights[place] - over
        heights[place] = min(heights[place], limit)
    return [(point, name, colour, at) for (point, name, colour), at in zip(ordered, heights)]


def bars(
    title: str,
    unit: str,
    rows: list[tuple[str, dict[str, float]]],
    note: str = "",
    marks: dict[str, float] | None = None,
    mark: str = "",
) -> str:
    """Stacked horizontal bars. Parts have the same colour in every row and are named above. A row in `marks` has a tick there, and
    `mark` says what the tick is."""
    marks = marks or {}
    paper = Paper(title)
    if not rows:
        paper.text("Not measured yet.", EDGE, 24)
        return paper.closed(note)
    kinds = list(dict.fromkeys(kind for _, parts in rows for kind in parts))
    colour = {kind: COLOURS[place % len(COLOURS)] for place, kind in enumerate(kinds)}
    paper.key([(kind, colour[kind]) for kind in kinds] + ([(mark, None)] if mark else []))
    left, high = EDGE + wide(max((name for name, _ in rows), key=wide)), 30
    sums = [f"{sum(parts.values()):.3g} {unit}" for _, parts in rows]
    widest = WIDTH - left - 14 - 7 * max(len(one) for one in sums)
    scale = widest / (max(sum(parts.values()) for _, parts in rows) or 1)
    for (name, parts), total in zip(rows, sums):
        y, _ = paper.room(high)
        at = float(left)
        paper.add(f'<text x="{left - 8:.1f}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        for kind, value in parts.items():
            paper.add(f'<rect x="{at:.1f}" y="{y}" width="{value * scale:.1f}" height="20" fill="{colour[kind]}"/>')
            at += value * scale
        if name in marks:
            paper.add(f'<rect class="mark" x="{left + marks[name] * scale - 1.5:.1f}" y="{y - 3}" width="3" height="26"/>')
        paper.add(f'<text class="small" x="{at + 6:.1f}" y="{y + 15}">{escape(total)}</text>')
    return paper.closed(note)


class Paper:
    """What is drawn, from top to bottom: the title first, and a note last."""

    def __init__(self, title: str):
        self.title, self.parts, self.used = title, [], 8
        self.words(title, "title", 22, 50)
        self.room(4)

    def add(self, part: str) -> None:
        self.parts.append(part)

    def room(self, height: float) -> tuple[float, float]:
        """Takes so much of the paper. Gives where that begins and where it ends."""
        self.used += height
        return self.used - height, self.used

    def text(self, words: str, x: float, height: float) -> None:
        """A line of small text."""
        _, bottom = self.room(height)
        self.add(f'<text class="small" x="{x}" y="{bottom - 5}">{escape(words)}</text>')

    def words(self, words: str, kind: str, height: float, most: int) -> None:
        """Text in lines of at most so many letters."""
        for line in textwrap.wrap(words, most):
            _, bottom = self.room(height)
            self.add(f'<text class="{kind}" x="{EDGE}" y="{bottom - 5}">{escape(line)}</text>')

    def key(self, entries: list[tuple[str, str | None]]) -> None:
        """What each colour means, and what a tick means, which has none: as many in a line as fit."""
        x, (y, _) = float(EDGE), self.room(24)
        for words, colour in entries:
            wide = 17 + 7 * len(words)
            if x > EDGE and x + wide > WIDTH - EDGE:
                x, (y, _) = float(EDGE), self.room(24)
            shape = f'class="mark" width="3" height="18" y="{y}"' if colour is None else f'fill="{colour}" width="12" height="12" rx="2" y="{y + 3}"'
            self.add(f'<rect x="{x:.1f}" {shape}/>')
            self.add(f'<text class="small" x="{x + 17:.1f}" y="{y + 14}">{escape(words)}</text>')
            x += wide + 16
        self.room(8)

    def closed(self, note: str) -> str:
        """The picture, with the note below it."""
        self.words(note, "small", 18, 66)
        self.room(10)
        size = f'viewBox="0 0 {WIDTH} {self.used:g}" width="{SHOWN}" height="{self.used * SHOWN / WIDTH:g}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.title)}">'
        paper = f'<rect class="paper" width="{WIDTH}" height="{self.used:g}"/>'
        return "\n".join([head, f"<style>{STYLE}</style>", paper, *self.parts, "</svg>"]) + "\n"
