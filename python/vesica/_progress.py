"""Progress: a bar in a terminal or notebook, or a callable of the caller's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO, Union

#: True draws a bar, a callable gets every event as a dict, None and False do nothing.
Progress = Union[bool, Callable[[dict[str, Any]], Any], None]


class Bar:
    """A line that says which phase it is and how far. In a notebook and in a terminal it is drawn over; elsewhere there is one line for
    each phase."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out if out is not None else sys.stderr
        # A notebook's stream is no terminal, and yet draws over a line after a carriage return.
        self.draws = self.out.isatty() or "ipykernel" in sys.modules
        self.name, self.of, self.total, self.done = "", "", None, 0

    def __call__(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "phase":
            self.name, self.of, self.total, self.done = event["name"], event["of"], event["total"], 0
        elif kind == "total":
            self.total = event["total"]
        elif kind == "done":
            self.done = event["done"]
        elif kind == "phase_end":
            self._line(f"{event['name']}: {event['wall_s']:.2f} s", end=True)
            return
        elif kind == "note":
            self._line(event["text"], end=True)
            return
        else:
            return
        if self.draws and self.name:
            self._line(self._now())

    def _now(self) -> str:
        if not self.total:
            return f"{self.name} {self.done:,} {self.of}" if self.done else self.name
        full = min(30, 30 * self.done // self.total)
        return f"{self.name} [{'#' * full}{'.' * (30 - full)}] {self.done:,} of {self.total:,} {self.of}"

    def _line(self, text: str, end: bool = False) -> None:
        self.out.write(f"\r\x1b[K{text}" if self.draws else text)
        if end or not self.draws:
            self.out.write("\n")
        self.out.flush()


def watcher(progress: Progress) -> Callable[[dict[str, Any]], Any] | None:
    """What is to be told of events."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return Bar()
    if callable(progress):
        return progress
    raise TypeError(f"progress is {progress!r}: give True for a bar, a callable, or leave it out")
