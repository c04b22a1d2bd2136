"""A service: one party prepares a list and serves it, many ask."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _core
from ._errors import VesicaError
from ._jobs import Document, _twin, document
from ._progress import Progress, watcher
from ._report import Report
from ._table import ArrowTable, Table, exported


@dataclass(frozen=True)
class Prepared:
    """What a service made of its table. Clients pin `offer`."""

    keys: int
    parts: int
    bytes: int
    rows: int
    empty: int
    added: int
    replaced: int
    removed: int
    absent: int
    sealed: bool
    offer_changed: bool
    offer: str


class Service:
    """The side that prepares and serves: what `vesica prepare` and `vesica serve` do with the same document.

    `with vesica.Service("server.toml").prepare().serve() as server:` serves until the block is left.
    """

    def __init__(self, job: Document | None = None, **fields: Any) -> None:
        self._document = document(job, fields)
        self._stop: _core.Stop | None = None
        self._thread: threading.Thread | None = None
        self._failed: BaseException | None = None
        #: What the last `prepare` made.
        self.prepared: Prepared | None = None

    def prepare(
        self,
        *,
        rotate: bool = False,
        append: str | os.PathLike[str] | None = None,
        remove: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Service:
        """Makes the store from the table. `append` and `remove` name tables of keys to add and to take away; `rotate` takes a new key."""
        made = _core.prepare(*self._document, rotate, append, remove, watcher(progress))
        self.prepared = Prepared(**json.loads(made))
        return self

    def serve(self, *, wait: bool = False, progress: Progress = None) -> Service:
        """Serves on a thread of its own, and returns when the port is open. With `wait`, serves until Ctrl-C instead."""
        if self._thread is not None:
            raise RuntimeError("this service is serving already; close it first")
        stop, told = _core.Stop(), watcher(progress)
        if wait:
            _core.serve(*self._document, stop, told)
            return self
        ready = threading.Event()

        def watch(event: dict[str, Any]) -> None:
            if event["event"] == "note" and event["text"].startswith("listening on "):
                ready.set()
            if told is not None:
                told(event)

        def serving() -> None:
            try:
                _core.serve(*self._document, stop, watch)
            except BaseException as error:  # told to whoever closes the service
                self._failed = error
            finally:
                ready.set()

        self._stop, self._failed = stop, None
        self._thread = threading.Thread(target=serving, name="vesica serve", daemon=True)
        self._thread.start()
        while not ready.wait(0.1):
            pass
        if self._failed is not None:
            self.close()
        return self

    def close(self) -> None:
        """Stops serving. What went wrong meanwhile is raised."""
        if self._thread is None or self._stop is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        failed, self._failed = self._failed, None
        if failed is not None and not (isinstance(failed, VesicaError) and failed.fault == "interrupted"):
            raise failed

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Client:
    """The side that asks: what `vesica fetch` and `vesica ask` do with the same document."""

    def __init__(self, job: Document | None = None, **fields: Any) -> None:
        self._document = document(job, fields)

    def fetch(self, *, progress: Progress = None) -> int:
        """Copies what the cache lacks; gives how many keys or rows can be looked up."""
        return _core.fetch(*self._document, watcher(progress), None)

    def ask(self, input: ArrowTable | Any | None = None, *, progress: Progress = None) -> Report:
        """Asks for the keys of `input`, or of the document's `mine.input`. Where the document names no `mine.output`, the rows that were
        found, with their values, are in the report's `table`."""
        report, asked = self._ask(input, progress=progress)
        # Last of all: a run of a caller that gave up is not over, and the next one tells what it would have told.
        asked.end()
        return report

    async def ask_async(self, input: ArrowTable | Any | None = None, **options: Any) -> Report:
        """As `ask`, for `await`. Cancelling the task stops it."""
        report, asked = await _twin(self._ask, input, **options)
        # A task that was cancelled up to now does not come here, and one that is cancelled later has the report.
        asked.end()
        return report

    def _ask(
        self, input: ArrowTable | Any | None, *, progress: Progress = None, _stop: _core.Stop | None = None
    ) -> tuple[Report, _core.Asked]:
        """The report, and what is to be ended when the caller has it."""
        table = None if input is None else exported(input)
        report, rows, asked = _core.ask(*self._document, table, watcher(progress), _stop)
        return Report.from_json(report, Table(rows) if rows is not None else None), asked

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None
