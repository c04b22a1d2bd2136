"""One side of a run on a cluster of its own: `python ray_side.py CALL.json`. The last line that it prints is what came of it, as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

call = json.loads(Path(sys.argv[1]).read_text())
# Each side has a cluster of its own, with a token of its own: a user's clusters share one otherwise.
os.environ["RAY_AUTH_TOKEN_PATH"] = call["token"]
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"

import ray  # noqa: E402
import vesica.ray  # noqa: E402
from conftest import bytes_of  # noqa: E402

for last in (False, False, True):
    try:
        ray.init(
            address="local",
            num_cpus=call["cpus"],
            _temp_dir=call["temp"],
            object_store_memory=call["store"],
            include_dashboard=False,
            logging_level="warning",
        )
        break
    except Exception:  # Ray gives a cluster 30 seconds to start, which a busy machine may need longer for
        if last:
            raise
        ray.shutdown()


def kept(marks: dict[str, bytes]) -> dict[str, int]:
    """In how many pieces of the object store and of the session's files each mark stands."""
    store = {}
    for handle in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if "plasma" in os.readlink(handle):
                store[os.stat(handle).st_ino] = handle
        except OSError:
            continue
    counts = dict.fromkeys(marks, 0)
    for path in [*store.values(), *(path for path in Path(call["temp"]).rglob("*") if path.is_file())]:
        try:
            with open(path, "rb") as file:
                before = b""
                while piece := file.read(16 << 20):
                    for name, mark in marks.items():
                        counts[name] += mark in before + piece
                    before = piece[-64:]
        except OSError:
            continue
    return counts


secrets: list[bytes] = []
keep = vesica.ray._keeper.keep
vesica.ray._keeper.keep = lambda start, keeper: (secrets.append(bytes_of(start.secret)), keep(start, keeper))[1]
# What is found, if looking for it works at all.
mark = os.urandom(32)
held = ray.put(os.urandom(200_000) + mark)

if "dies" in call:
    # The driver is killed when the other side is gone, and before it has written anything.
    vesica._cluster.drive.Run._write = lambda *args: os._exit(9)

options = {"storage": call["storage"], "workers": call["workers"], **call.get("options", {})}
if "ids" in call:
    dataset = ray.data.read_parquet(call["data"])
    rows, report = vesica.ray.match(dataset, keys=call["job"]["mine"]["input"]["keys"], id=call["ids"], job=call["job"], **options)
    if rows is not None:
        rows.write_parquet(call["output"])
else:
    rows, report = vesica.ray.run(call["job"], call["data"], output=call["output"], **options)
matched = None if rows is None else rows.count()
phases = dict(report.phases())
stands = kept({"mark": mark, "secret": secrets[0], "key": call["key"].encode()})
peer = report.chosen.peers[0]
begun = peer.answered // peer.unit_capacity
told = {"matched": report.outcome.matched, "rows": matched, "phases": phases, "stands": stands, "begun": begun}
told |= {"units": report.chosen.units, "lanes": report.chosen.lanes, "version": peer.version, "page": "<svg" in report.html()}
told["place"] = str(Path(call["storage"]).parent) in report.to_json()
print(json.dumps(told), flush=True)
ray.shutdown()
