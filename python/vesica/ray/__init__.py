"""Tables that one machine cannot hold, on a cluster of Ray: `pip install 'vesica[ray]'`.

Each organisation has its own cluster, its own data and its own workers. The organisations meet through Vesica's links. Tasks cut the table and
pack its units, lanes match these, and tasks write the rows that matched.

`vesica.ray.run(job, paths, storage=…)` matches Parquet files, and `vesica.ray.match(dataset, keys=…, id=…, job=…, storage=…)` a
Dataset.
"""

try:
    import ray as _ray  # noqa: F401
except ImportError as error:
    raise ImportError(f"vesica.ray needs Ray: pip install 'vesica[ray]' ({error})") from error

from ._run import Matched, match, run

__all__ = ["Matched", "match", "run"]
