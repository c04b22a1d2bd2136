"""One side's cluster, and what is done on it. `conftest.Side` starts this."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import bytes_of, served

serve = served()
setup = json.loads(sys.argv[1])
# Each side has a cluster of its own, with a token of its own: a user's clusters share one otherwise.
os.environ["RAY_AUTH_TOKEN_PATH"] = setup["token"]
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"

import ray  # noqa: E402
import vesica.ray  # noqa: E402

for last in (False, False, True):
    try:
        ray.init(
            address="local",
            num_cpus=setup["cpus"],
            _temp_dir=setup["temp"],
            object_store_memory=setup["store"],
            include_dashboard=False,
            logging_level="warning",
        )
        break
    except Exception:  # Ray gives a cluster 30 seconds to start, which a busy machine may need longer for
        if last:
            raise
        ray.shutdown()

secrets: list[tuple[bytes, bytes]] = []
asked_at: list[int] = []
hold = vesica.ray._engine.Engine.hold
vesica.ray._engine.Engine.hold = lambda self, start: (
    kit := hold(self, start),
    secrets.append((bytes_of(start.secret), self._keeper.token)),
    asked_at.append(kit.port),
)[0]
costs: list[str] = []
serves = vesica.ray._engine.Doors.serve
vesica.ray._engine.Doors.serve = lambda self, *of: (costs.extend(found := serves(self, *of)), found)[1]


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
    for path in [*store.values(), *(path for path in Path(setup["temp"]).rglob("*") if path.is_file())]:
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


def run(
    job: dict[str, Any],
    data: str,
    storage: str,
    output: str,
    ids: str | None = None,
    key: str | None = None,
    dies: bool = False,
    keeper_port: list[int] | None = None,
) -> dict[str, Any]:
    """A run of this side; with `key`, what of it stands in Ray's store and files."""
    # What is found, if looking for it works at all.
    mark = os.urandom(32)
    held = ray.put(os.urandom(200_000) + mark) if key is not None else None
    if dies:
        # The driver is killed when the other side is gone, and before it has written anything.
        vesica._cluster.drive.Run._write = lambda *args: os._exit(9)
    costs.clear()
    stranger: Path | None = None
    if ids is not None:
        dataset = ray.data.read_parquet(data)
        matched = vesica.ray.match(dataset, keys=job["mine"]["input"]["keys"], id=ids, job=job, storage=storage, workers=2, keeper_port=keeper_port)
        if matched.dataset is not None:
            matched.dataset.write_parquet(output)
    else:
        matched = vesica.ray.run(job, data, output=output, storage=storage, workers=2, keeper_port=keeper_port)
        if matched.report.outcome.matched is not None and "://" not in output:
            # What comes to lie there before anybody asks for the rows is not among them.
            part = next(Path(output).glob("*.parquet"))
            stranger = shutil.copyfile(part, part.with_name("part-999999.parquet"))
    rows, report = matched
    # How many there are is known without reading them.
    read = [] if rows is None else list(rows.select_columns(["n"]).iter_batches(batch_size=None, batch_format="pyarrow"))
    assert all(batch.column_names == ["n"] for batch in read)
    count = None if rows is None else sum(batch.num_rows for batch in read)
    assert rows is None or rows.count() == count
    if stranger is not None:
        stranger.unlink()
    phases, peer = dict(report.phases()), report.chosen.peers[0]
    told = {"matched": report.outcome.matched, "rows": count, "phases": phases}
    told |= {"begun": peer.answered // peer.unit_capacity, "units": report.chosen.units, "lanes": report.chosen.lanes, "version": peer.version}
    told |= {"page": "<svg" in report.html(), "place": str(Path(storage).parent) in report.to_json(), "costs": len(costs), "asked_at": asked_at[-1]}
    if held is not None:
        secret, token = secrets[-1]
        told["stands"] = kept({"mark": mark, "secret": secret, "token": token, "key": key.encode()})
    return told


def nodes() -> dict[str, Any]:
    """What is said of the cluster, of the same with a second node, and where that is accepted."""

    def said(**more: Any) -> str:
        try:
            vesica.ray.run({"mine": {}}, storage="none", **more)
        except vesica.ConfigError as error:
            return str(error)
        return "nothing"

    def until(count: int) -> None:
        end = time.monotonic() + 120
        while sum(node["Alive"] for node in ray.nodes()) != count:
            assert time.monotonic() < end
            time.sleep(0.1)

    def reached() -> Iterator[str]:
        """Whether the second node reaches the driver's, and whether it is said where it does not, or has another program."""
        listens, asks = vesica.ray._engine.keeper.listening, vesica.ray._engine._reaches
        vesica.ray._engine.reached()
        yield "reached"

        def walled(host: str, ports: Any) -> socket.socket:
            bound = socket.socket()
            bound.bind((host, 0))
            return bound

        vesica.ray._engine.keeper.listening = walled
        try:
            vesica.ray._engine.reached()
        except vesica.ConfigError as error:
            yield str(error)
        finally:
            vesica.ray._engine.keeper.listening = listens

        @ray.remote(num_cpus=0)
        def older(place: Any) -> None:
            raise ModuleNotFoundError("No module named 'vesica'")

        vesica.ray._engine._reaches = older
        try:
            vesica.ray._engine.reached()
        except vesica.ConfigError as error:
            yield str(error)
        finally:
            vesica.ray._engine._reaches = asks

    one = said()
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--address={ray.get_runtime_context().gcs_address}", "--num-cpus=1", f"--object-store-memory={80 << 20}", "--block"]
    with subprocess.Popen(start, stdout=sys.stderr) as second:
        try:
            until(2)
            found = [one, said(), said(accept=["cluster_without_tls"]), *reached()]
        finally:
            second.terminate()
    until(1)
    return {"said": found}


serve({"run": run, "nodes": nodes})
ray.shutdown()
