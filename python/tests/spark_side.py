"""One side of a run on a Spark cluster of its own: `python spark_side.py CALL.json`. The last line that it prints is what came of it, as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

call = json.loads(Path(sys.argv[1]).read_text())
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import SparkSession  # noqa: E402
import vesica.spark  # noqa: E402

memory = call.get("memory", 1024)
session = (
    SparkSession.builder.master(f"local-cluster[2,1,{memory}]")
    .config("spark.executor.memory", f"{memory}m")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "4")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.speculation", "true")
    .getOrCreate()
)
session.sparkContext.setLogLevel("WARN")
began = time.monotonic()
options = {"storage": call["storage"], "output": call["output"], "workers": 2}
if "ids" in call:
    frame = session.read.parquet(call["data"])
    if "repeat" in call:
        from pyspark.sql import functions as F

        keys = call["job"]["mine"]["input"]["keys"]
        try:
            vesica.spark.match(frame.withColumn("n", F.monotonically_increasing_id()), keys=keys, id="n", job=call["job"], **options)
        except vesica.InputError as error:
            print(f"refused: {error}", file=sys.stderr)
        # Three rows get the number of another.
        frame = frame.withColumn("n", F.when(F.col("n").isin(501, 502, 503), 500).otherwise(F.col("n")))
    rows, report = vesica.spark.match(frame, keys=call["job"]["mine"]["input"]["keys"], id=call["ids"], job=call["job"], **options)
else:
    rows, report = vesica.spark.run(call["job"], call["data"], session=session, **options)
wall = time.monotonic() - began
told = {"rows": None if rows is None else rows.count(), "sum": None if rows is None else rows.agg({"n": "sum"}).first()[0], "matched": report.outcome.matched, "phases": dict(report.phases()), "wall_s": wall}
print(json.dumps(told), flush=True)
session.stop()
