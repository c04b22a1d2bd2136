"""One side's Spark cluster, of two executors that are processes of their own, and what is done on it. `conftest.Side` starts this."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import served

serve = served()
setup = json.loads(sys.argv[1])
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

import vesica.spark  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from vesica.spark import _engine  # noqa: E402

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

session = (
    SparkSession.builder.master(f"local-cluster[2,1,{setup['memory']}]")
    .config("spark.executor.memory", f"{setup['memory']}m")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "4")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.speculation", "true")
    # A lost executor's pieces are asked for thrice, and a task waits for the executor that has its rows: not for seconds each time.
    .config("spark.shuffle.io.retryWait", "200ms")
    .config("spark.locality.wait", "200ms")
    # What runs for seconds is not worth the better compiler.
    .config("spark.driver.extraJavaOptions", QUICK)
    .config("spark.executor.extraJavaOptions", QUICK)
    .getOrCreate()
)
session.sparkContext.setLogLevel("WARN")


def told(matched: vesica.spark.Matched, began: float) -> dict[str, Any]:
    """What came of a run."""
    (rows, report), wall = matched, time.monotonic() - began
    of_rows = {"rows": None, "sum": None} if rows is None else {"rows": rows.count(), "sum": rows.agg({"n": "sum"}).first()[0]}
    return {**of_rows, "matched": report.outcome.matched, "phases": dict(report.phases()), "wall_s": wall}


def run(job: dict[str, Any], data: str, storage: str, output: str, keeper_port: list[int] | None = None) -> dict[str, Any]:
    """Matches the files."""
    began = time.monotonic()
    return told(vesica.spark.run(job, data, session=session, storage=storage, output=output, workers=2, keeper_port=keeper_port), began)


def match(job: dict[str, Any], data: str, storage: str, output: str, ids: str, repeat: bool = False) -> dict[str, Any]:
    """Matches the same as a DataFrame. If ids `repeat`, first one with a function of Spark's that does not give the same twice."""
    began, frame = time.monotonic(), session.read.parquet(data)
    how = {"keys": job["mine"]["input"]["keys"], "id": ids, "job": job, "storage": storage, "output": output, "workers": 2}
    if repeat:
        try:
            vesica.spark.match(frame.withColumn("n", F.monotonically_increasing_id()), **how)
        except vesica.InputError as error:
            print(f"refused: {error}", file=sys.stderr)
        # Three rows get the number of another.
        frame = frame.withColumn("n", F.when(F.col("n").isin(501, 502, 503), 500).otherwise(F.col("n")))
    return told(vesica.spark.match(frame, **how), began)


PARTS = 8


def cut_of(numbers: list[int]) -> tuple[int, list[bytes]]:
    """Of fresh randomness each time, as sealed pieces have it."""
    return len(numbers), [b"".join(os.urandom(8) + n.to_bytes(8, "little") for n in numbers if n % PARTS == part) for part in range(PARTS)]


def join_in(folder: Path) -> Callable[[int, list[bytes]], list[int]]:
    """Joins pieces, and kills its executor once, in the midst of it."""

    def join(part: int, pieces: list[bytes]) -> list[int]:
        (folder / f"joined-{part}-{os.getpid()}").touch()
        if len({one.name.split("-")[1] for one in folder.glob("joined-*")}) > 2:
            try:
                (folder / "killed").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                pid = os.getpid()
                while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                os.kill(pid, signal.SIGKILL)
        return sorted(int.from_bytes(piece[at + 8 : at + 16], "little") for piece in pieces for at in range(0, len(piece), 16))

    return join


def exchange(folder: str) -> dict[str, Any]:
    """An exchange of a list and one of a DataFrame, each of which loses an executor in the midst of it."""
    on, found = _engine.Engine(session), {}
    for name in ("list", "frame"):
        place = Path(folder) / name
        place.mkdir()
        if name == "list":
            counts, joined = on.exchange([list(range(n, n + 100)) for n in range(0, 800, 100)], cut_of, join_in(place), PARTS)
        else:
            frame = session.range(0, 800, 1, 8).persist()
            frame.count()
            counts, joined = on.exchange(frame, lambda table: cut_of(table["id"].to_pylist()), join_in(place), PARTS)
        found[name] = {"rows": sum(counts), "joined": joined, "killed": (place / "killed").exists()}
    return found


serve({"run": run, "match": match, "exchange": exchange})
session.stop()
