"""Plots as SVG text: lines with their names at their ends, and stacked bars. Readable on light and on dark paper."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 76, 190, 60, 56

# Twelve colours, each legible on both papers; the order keeps neighbours apart.
COLOURS = ["#2f7ed8", "#d9622b", "#3a9d5d", "#b0489a", "#8a6d1f", "#1b9aaa", "#c9364a", "#6f62c9", "#6b7f2a", "#5c7080", "#c77f00", "#008577"]

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px }
.small { font-size: 12px; fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
.paper { fill: #ffffff }
.mark { fill: #24292f }
.leader { stroke: #8c959f; stroke-width: 1; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #30363d } .paper { fill: #0d1117 } .mark { fill: #e6edf3 }
}
"""


@dataclass
class Series:
    """A line: its name, its points, and points that were measured where the line itself is computed."""

    name: str
    points: list[tuple[float, float]]
    computed: bool = False
    dots: list[tuple[float, float]] = field(default_factory=list)


class Axis:
    """A logarithmic axis between two numbers, on a stretch of pixels."""

    def __init__(self, low: float, high: float, start: float, end: float):
        self.low, self.high = math.log10(low), math.log10(high)
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        part = (math.log10(value) - self.low) / ((self.high - self.low) or 1)
        return self.start + part * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Powers of ten; with their double and their half of ten where there are few."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        steps = [1] if self.high - self.low > 3 else [1, 2, 5]
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
    if not xs:
        return frame(title, [f'<text x="{LEFT}" y="{HEIGHT / 2}" class="small">Not measured yet.</text>'], note)
    across = Axis(min(xs) / 1.15, max(xs) * 1.15, LEFT, WIDTH - RIGHT)
    up = Axis(min(ys) / 1.4, max(ys) * 1.4, HEIGHT - BOTTOM, TOP)
    parts = []
    for tick in across.ticks():
        at = across.at(tick)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text class="small" x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{number(tick)}</text>')
    for tick in up.ticks():
        at = up.at(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="small" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    parts.append(f'<text class="small" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 22}" text-anchor="middle">{escape(x)}</text>')
    parts.append(f'<text class="small" x="{LEFT}" y="{TOP - 12}">{escape(y)}</text>')
    ends = []
    for place, one in enumerate(series):
        colour = COLOURS[place % len(COLOURS)]
        drawn = [(across.at(px), up.at(py)) for px, py in sorted(one.points)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in drawn)
        dash = ' stroke-dasharray="5 4"' if one.computed else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        dots = one.dots if one.computed else one.points
        for px, py in dots:
            parts.append(f'<circle cx="{across.at(px):.1f}" cy="{up.at(py):.1f}" r="3.5" fill="{colour}"/>')
        ends.append((drawn[-1], one.name, colour))
    for (px, py), name, colour, at in apart(ends):
        start = WIDTH - RIGHT + 16
        parts.append(f'<path class="leader" d="M{px + 5:.1f} {py:.1f} L{start - 3} {at:.1f}"/>')
        parts.append(f'<text x="{start}" y="{at + 4:.1f}" style="fill: {colour}; font-weight: 600">{escape(name)}</text>')
    return frame(title, parts, note)


def apart(ends: list, gap: float = 17) -> list:
    """Heights for the names at the ends of lines, so that none covers another."""
    ordered = sorted(ends, key=lambda end: end[0][1])
    heights: list[float] = []
    for (_, py), _, _ in ordered:
        heights.append(max(py, heights[-1] + gap) if heights else py)
    over = max(0.0, heights[-1] - (HEIGHT - BOTTOM)) if heights else 0.0
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
    kinds = list(dict.fromkeys(kind for _, parts in rows for kind in parts))
    colour = {kind: COLOURS[place % len(COLOURS)] for place, kind in enumerate(kinds)}
    left, high, top = 190, 30, 92
    height = top + high * len(rows) + 40
    most = max((sum(parts.values()) for _, parts in rows), default=0) or 1
    scale = (WIDTH - left - 80) / most
    parts_drawn, at = [], left
    for kind in kinds:
        parts_drawn.append(f'<rect x="{at}" y="{top - 34}" width="12" height="12" rx="2" fill="{colour[kind]}"/>')
        parts_drawn.append(f'<text class="small" x="{at + 17}" y="{top - 24}">{escape(kind)}</text>')
        at += 32 + 7 * len(kind)
    if mark:
        parts_drawn.append(f'<rect class="mark" x="{at}" y="{top - 37}" width="3" height="18"/>')
        parts_drawn.append(f'<text class="small" x="{at + 9}" y="{top - 24}">{escape(mark)}</text>')
    for place, (name, parts) in enumerate(rows):
        y, at = top + high * place, float(left)
        parts_drawn.append(f'<text x="{left - 10}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        for kind, value in parts.items():
            parts_drawn.append(f'<rect x="{at:.1f}" y="{y}" width="{value * scale:.1f}" height="20" fill="{colour[kind]}"/>')
            at += value * scale
        if name in marks:
            parts_drawn.append(f'<rect class="mark" x="{left + marks[name] * scale - 1.5:.1f}" y="{y - 3}" width="3" height="26"/>')
        parts_drawn.append(f'<text class="small" x="{at + 6:.1f}" y="{y + 15}">{sum(parts.values()):.3g} {escape(unit)}</text>')
    if not rows:
        parts_drawn.append(f'<text x="{left}" y="{top}" class="small">Not measured yet.</text>')
    return frame(title, parts_drawn, note, height)


def frame(title: str, parts: list[str], note: str, height: float = HEIGHT) -> str:
    """The paper, the title, and a line below it."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">'
    words = [f'<text class="title" x="16" y="24">{escape(title)}</text>']
    if note:
        words.append(f'<text class="small" x="16" y="{height - 2:g}" dy="-4" style="font-size: 11px">{escape(note)}</text>')
    paper = f'<rect class="paper" width="{WIDTH}" height="{height:g}"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", paper, *words, *parts, "</svg>"]) + "\n"
