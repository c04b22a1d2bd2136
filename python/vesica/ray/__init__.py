"""Tables that one machine cannot hold, on a cluster of Ray: `pip install 'vesica[ray]'`.

Each organisation has its own cluster, its own data and its own workers. The organisations meet through Vesica's links. Tasks cut the table and
pack its units, lanes match these, and tasks write the rows that matched.

`vesica.ray.run(job, paths, storage=…)` matches Parquet files, and `vesica.ray.match(dataset, keys=…, id=…, job=…, storage=…)` a
Dataset.
"""

try:
    import ray as _ray
except ImportError as error:
    raise ImportError(f"vesica.ray needs Ray: pip install 'vesica[ray]' ({error})") from error

try:
    from ._run import Matched, match, run
except ImportError as error:
    if (error.name or "").partition(".")[0] != "ray":
        raise
    # Some of what is used Ray promises nobody: its control store, for one. That is found out here, and not when the other side was met.
    raise ImportError(
        f"vesica.ray was written for Ray 2.60, and Ray {_ray.__version__} does not have what it uses of it: {error}; pip install 'ray[data]==2.60.*'"
    ) from error

__all__ = ["Matched", "match", "run"]
