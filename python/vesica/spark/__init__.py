"""Tables of a Spark cluster: `pip install 'vesica[spark]'`.

Each organisation has its own cluster, its own data and its own workers. This side's executors dial the other party's doors, or its one machine, so
none of them needs a port of its own.

`vesica.spark.run(job, paths, storage=…)` matches Parquet files, and `vesica.spark.match(frame, keys=…, id=…, job=…, storage=…)` a
DataFrame.
"""

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise ImportError(f"vesica.spark needs Spark: pip install 'vesica[spark]' ({error})") from error

from ._run import Matched, match, run

__all__ = ["Matched", "match", "run"]
