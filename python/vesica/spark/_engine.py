"""Spark as the engine of a run: its tasks are functions over Arrow batches (`mapInArrow`), which Spark starts again if their executor is lost.

What goes through Spark's shuffle are sealed pieces of cut rows, in chunks of some kilobytes: a few of them for each task and part, whatever rows
there are. An error of this package's is a row of a result: raised, it would have Spark start the task three times more.
"""

from __future__ import annotations

import contextlib
import pickle
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any

import pyarrow as pa
from pyspark import InheritableThread, TaskContext

from .. import _core
from .._cluster import engine, keeper, lanes, rows
from .._cluster.rows import TOGETHER, Work
from .._errors import ConfigError, InternalError, NetworkError, VesicaError

#: What a caller may accept, by its name: executors that the driver talks to without encryption.
WITHOUT = "cluster_without_encryption"

#: Seconds between looks at the lanes.
LOOK = 0.5

#: Bytes of an Arrow batch of chunks, about. Spark counts rows and no bytes when it makes one.
BATCH = 128 << 20

#: Spark 4.1 and later take a task whose second start gives other bytes for one that gives other rows, and end the job if they need both. What is
#: sealed has fresh randomness each time.
COMPARES = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"

#: What Spark says then, and how often a DataFrame is cut before that ends the run.
MIXES, TRIES = "cannot rollback the ResultStage", 3

#: What a row of a result is.
TOLD, JOINED, FAILED = 0, 1, 2

#: A row between the two kinds of tasks: the part, who cut it, the place of the chunk, and the chunk. What is told has a part of its own.
CHUNKS = "part int, cut long, at int, chunk binary"
CHUNK = pa.schema([("part", pa.int32()), ("cut", pa.int64()), ("at", pa.int32()), ("chunk", pa.binary())])

#: A row of a result.
RESULTS = "kind int, at long, body binary"
RESULT = pa.schema([("kind", pa.int32()), ("at", pa.int64()), ("body", pa.binary())])


def check(session: Any, accept: Sequence[str]) -> None:
    """Refuses a cluster of several machines that talk in clear, unless that is accepted by its name."""
    if isinstance(accept, str) or any(name != WITHOUT for name in accept):
        raise ConfigError(f'accept: is {accept!r}; write ["{WITHOUT}"], which is all that can be accepted here, or leave it out')
    try:
        conf, master = session.sparkContext.getConf(), session.sparkContext.master
    except Exception as error:
        raise ConfigError(
            "this session has no SparkContext, so it reaches its cluster through Spark Connect: the driver would have the private key and the run's "
            f"secret on a machine that is no part of it; run this by spark-submit ({error})"
        ) from None
    # Spark 3.5 takes the option of TLS for one that it does not know, and without authentication TLS lets anybody in.
    ways = ["spark.network.crypto.enabled", *["spark.ssl.rpc.enabled"] * (int(session.version.partition(".")[0]) >= 4)]
    encrypts = all(any(conf.get(name, "false") == "true" for name in names) for names in (["spark.authenticate"], ways))
    if not (master.startswith("local") or encrypts or WITHOUT in accept):
        raise ConfigError(
            f"the executors of {master} talk with the driver in clear: who listens there hears where to ask for the run's secret; set "
            "spark.authenticate=true and spark.network.crypto.enabled=true, or, if the network is yours alone, "
            f'accept it with accept=["{WITHOUT}"]'
        )


@dataclass(frozen=True)
class Kit(keeper.Kit):
    """How a worker asks. The token travels with its tasks: whoever reads what Spark sends to its executors has it, so a cluster of several machines
    encrypts that, or is refused (`check`)."""

    given: bytes = field(repr=False)

    def token(self) -> bytes:
        """What came with the task."""
        return self.given


class Unwatched:
    """Nothing is looked at: who may join a Spark cluster shows a secret of the cluster's, where it has one."""

    def __enter__(self) -> Unwatched:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def look(self) -> None:
        return None

    def told(self) -> None:
        return None


class Engine:
    """The cluster of a session."""

    name = "the Spark cluster"
    #: Executors write all that is shuffled to their disks, and read it from there.
    room = None

    def __init__(self, session: Any, keeper_port: int | Sequence[int] | None = None) -> None:
        self.session, self.context, self.ports = session, session.sparkContext, keeper.ports(keeper_port)
        self.width = max(1, self.context.defaultParallelism)
        self._keeper: keeper.Keeper | None = None

    def watch(self, accept: Sequence[str], refuse: Callable[[], Any]) -> Unwatched:
        """Nothing to watch. That this process can listen where workers are to ask is seen before the other side is met."""
        keeper.listening(self._addresses()[1], self.ports).close()
        return Unwatched()

    def hold(self, start: _core.Start) -> Kit:
        """A thread of the driver answers workers."""
        self.release()
        host, bound = self._addresses()
        self._keeper = keeper.Keeper(start, bound, self.ports)
        return Kit(host, self._keeper.port, self._keeper.name, self._keeper.token)

    def _addresses(self) -> tuple[str, str]:
        """Where workers reach this process, and where that listens. Spark has brackets around an address of IPv6."""
        conf = self.context.getConf()
        host = conf.get("spark.driver.host", "127.0.0.1")
        return host.strip("[]"), conf.get("spark.driver.bindAddress", host).strip("[]")

    def release(self) -> None:
        """Answers nobody any more."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def exchange(self, items: Any, cut: engine.Cut, join: engine.Join, parts: int) -> tuple[list[Any], list[Any]]:
        """A task an item, or a partition of a DataFrame, and tasks for the parts."""
        if isinstance(items, list):
            # An item is cut into the same rows whenever that is done: a second start may well give other bytes.
            session, tries = self.session.newSession(), 1
            session.conf.set(COMPARES, "false")
            frame = numbers(session, len(items))
        else:
            # Of a DataFrame only Spark knows whether rows that are made again are the same: it is left to compare, and all are cut anew.
            session, tries, frame = self.session, TRIES, items
        if frame is None:
            return [], [join(part, []) for part in range(parts)]
        records = int(session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch", "10000"))
        chunk = max(4096, min(1 << 20, BATCH // records if records > 0 else 0))
        cutting = _Cutting(cut, items if isinstance(items, list) else None, parts, chunk)
        while True:
            chunks = frame.mapInArrow(cutting, CHUNKS).repartition(parts, "part").sortWithinPartitions("part")
            try:
                found = self._collected(chunks.mapInArrow(_Joining(join, parts), RESULTS))
                break
            except Exception as error:
                tries -= 1
                if not tries or MIXES not in str(error):
                    raise
        joined = {row["at"]: pickle.loads(row["body"]) for row in found if row["kind"] == JOINED}
        # A part of which nothing was cut is joined of nothing: that is soon done, and done here.
        return (
            [one for row in found if row["kind"] == TOLD for one in pickle.loads(row["body"])],
            [joined[part] if part in joined else join(part, []) for part in range(parts)],
        )

    def each(self, items: list[Any], do: Callable[[Any], Any]) -> list[Any]:
        """A task an item."""
        frame = numbers(self.session, len(items))
        if frame is None:
            return []
        found = self._collected(frame.mapInArrow(_Doing(do, items), RESULTS))
        by_item = {row["at"]: pickle.loads(row["body"]) for row in found}
        return [by_item[at] for at in range(len(items))]

    def dial(self, work: Work, count: int, at_once: int, look: Callable[[], Any]) -> list[str]:
        """A job of one task a lane, in ascending order, so many at once as both sides have seats for. What goes wrong in a lane ends all of them: the
        other side may keep the rest open for as long as it likes."""
        group, numbers, lock, over = f"vesica-{secrets.token_hex(8)}", iter(range(count)), Lock(), Event()
        costs: list[str] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                self.context.setJobGroup(group, "lanes of a Vesica run", interruptOnCancel=True)
                while not over.is_set() and (number := lanes.following(numbers, lock)) is not None:
                    costs.extend(self.each([number], lanes.Dial(work, _nothing)))
            except BaseException as error:
                failed.append(error)

        threads = [InheritableThread(target=run, name="vesica lanes", daemon=True) for _ in range(min(count, max(1, at_once)))]
        for thread in threads:
            thread.start()
        try:
            while not failed and (running := [thread for thread in threads if thread.is_alive()]):
                running[0].join(LOOK)
                look()
        except NetworkError as error:
            failed.append(error)
        finally:
            if failed and all(isinstance(error, NetworkError) for error in failed):
                # What went wrong in another lane at the same time is what is told.
                over.wait(LOOK)
            errors = list(failed)
            over.set()
            end = time.monotonic() + 10
            # A job that was about to begin is of the group only when it has.
            while (running := [thread for thread in threads if thread.is_alive()]) and time.monotonic() < end:
                self.context.cancelJobGroup(group)
                running[0].join(LOOK)
        error = lanes.grave(errors)
        if error is not None:
            raise error
        return costs

    @contextlib.contextmanager
    def doors(self, spec: dict[str, Any], workers: int, count: int | None, advertise: list[str]) -> Iterator[Any]:
        """None: executors come and go, and nobody outside knows where they are."""
        raise ConfigError("mine.listen: a Spark cluster dials: write mine.connect here and mine.listen on the other side")
        yield  # pragma: no cover

    def _collected(self, frame: Any) -> list[Any]:
        found = frame.collect()
        errors = [pickle.loads(row["body"]) for row in found if row["kind"] == FAILED]
        error = lanes.grave(errors)
        if error is not None:
            raise error
        return found


def numbers(session: Any, count: int) -> Any:
    """A DataFrame of the numbers of items, each in a partition of its own; None if there is none."""
    return session.range(0, count, 1, count) if count else None


def _nothing() -> None:
    return None


def _result(kind: int, at: int, body: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([kind], pa.int32()), pa.array([at], pa.int64()), pa.array([pickle.dumps(body)], pa.binary())], schema=RESULT)


def _plain(error: VesicaError) -> VesicaError:
    """The same error without what it was raised from, which may not travel."""
    return type(error)(*error.args)


@dataclass(frozen=True)
class _Doing:
    do: Callable[[Any], Any]
    items: list[Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                try:
                    yield _result(JOINED, at, self.do(self.items[at]))
                except VesicaError as error:
                    yield _result(FAILED, at, _plain(error))


@dataclass(frozen=True)
class _Cutting:
    cut: engine.Cut
    #: None if the rows are those of the DataFrame.
    items: list[Any] | None
    parts: int
    chunk: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Of a task that is started twice Spark takes one result, so a partition's number and the item's place in it name who cut.
        who, told = TaskContext.get().partitionId() << 32, []
        try:
            for count, item in enumerate(self._items(batches)):
                one, pieces = self.cut(item)
                told.append(one)
                for part, piece in enumerate(pieces):
                    whole = memoryview(piece)
                    for at in range(0, max(1, len(whole)), self.chunk):
                        yield _chunk(part, who + count, at // self.chunk, bytes(whole[at : at + self.chunk]))
            yield _chunk(self.parts, TOLD, 0, pickle.dumps(told))
        except VesicaError as error:
            yield _chunk(self.parts, FAILED, 0, pickle.dumps(_plain(error)))

    def _items(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        if self.items is not None:
            for batch in batches:
                yield from (self.items[at] for at in batch.column(0).to_pylist())
            return
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(one.num_rows for one in held) >= TOGETHER:
                yield pa.Table.from_batches(held)
                held = []
        if held:
            yield pa.Table.from_batches(held)


def _chunk(part: int, cut: int, at: int, chunk: bytes) -> pa.RecordBatch:
    columns = [pa.array([part], pa.int32()), pa.array([cut], pa.int64()), pa.array([at], pa.int32()), pa.array([chunk], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=CHUNK)


@dataclass(frozen=True)
class _Joining:
    join: engine.Join
    parts: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part, pieces, size = -1, {}, 0
        for batch in batches:
            for of, cut, at, chunk in zip(*(column.to_pylist() for column in batch.columns)):
                if of == self.parts:
                    yield _result(cut, of, pickle.loads(chunk))
                    continue
                if of != part:
                    yield from self._joined(part, pieces, size)
                    part, pieces, size = of, {}, 0
                chunks, size = pieces.setdefault(cut, []), size + len(chunk)
                if size <= rows.HEAVIEST:
                    chunks.append((at, chunk))
        yield from self._joined(part, pieces, size)

    def _joined(self, part: int, pieces: dict[int, list[tuple[int, bytes]]], size: int) -> Iterator[pa.RecordBatch]:
        if not pieces:
            return
        try:
            rows.held(part, size)
            whole = []
            for chunks in pieces.values():
                chunks.sort()
                if [at for at, _ in chunks] != list(range(len(chunks))):
                    raise InternalError(f"part {part}: a chunk of a piece was lost or came twice; please report it")
                whole.append(b"".join(chunk for _, chunk in chunks))
            yield _result(JOINED, part, self.join(part, whole))
        except VesicaError as error:
            yield _result(FAILED, part, _plain(error))
