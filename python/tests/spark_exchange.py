"""An exchange on a Spark cluster that loses an executor in the midst of it: `python spark_exchange.py FOLDER`. Prints what came of it, as JSON.

What is cut has fresh randomness each time, as sealed pieces have it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import SparkSession  # noqa: E402
from vesica.spark import _engine  # noqa: E402

PARTS = 8


def cut_of(numbers: list[int]) -> tuple[int, list[bytes]]:
    return len(numbers), [b"".join(os.urandom(8) + n.to_bytes(8, "little") for n in numbers if n % PARTS == part) for part in range(PARTS)]


def join_in(folder: Path):  # noqa: ANN201
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


session = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.executor.memory", "1024m")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
session.sparkContext.setLogLevel("WARN")
on, told = _engine.Engine(session), {}
place = Path(sys.argv[1])
for name in ("list", "frame"):
    folder = place / name
    folder.mkdir()
    if name == "list":
        counts, joined = on.exchange([list(range(n, n + 100)) for n in range(0, 800, 100)], cut_of, join_in(folder), PARTS)
    else:
        frame = session.range(0, 800, 1, 8).persist()
        frame.count()
        counts, joined = on.exchange(frame, lambda table: cut_of(table["id"].to_pylist()), join_in(folder), PARTS)
    told[name] = {"rows": sum(counts), "joined": joined, "killed": (folder / "killed").exists()}
print(json.dumps(told), flush=True)
session.stop()
