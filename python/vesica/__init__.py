"""Private set intersection: two organisations match their tables, and neither shows its table.

>>> import pyarrow, vesica
>>> a = pyarrow.table({"id": [1, 2, 3]})
>>> b = pyarrow.table({"id": [2, 3, 4]})
>>> r = vesica.intersect(a, b, on="id")
>>> r.left.to_arrow() == r.right.to_arrow()
True
>>> sorted(r.left.to_arrow()["id"].to_pylist())
[2, 3]
"""

from ._core import WIRE_VERSION, __version__
from ._errors import ConfigError, InputError, InternalError, NetworkError, PeerError, Stopped, VesicaError
from ._jobs import cert, check, gen, intersect, intersect_async, plan, run, run_async
from ._report import Finding, Intersection, Plan, Report
from ._services import Client, Prepared, Service
from ._table import Table

__all__ = [
    "WIRE_VERSION",
    "Client",
    "ConfigError",
    "Finding",
    "InputError",
    "InternalError",
    "Intersection",
    "NetworkError",
    "PeerError",
    "Plan",
    "Prepared",
    "Report",
    "Service",
    "Stopped",
    "Table",
    "VesicaError",
    "__version__",
    "cert",
    "check",
    "gen",
    "intersect",
    "intersect_async",
    "plan",
    "run",
    "run_async",
]
