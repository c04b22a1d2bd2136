"""Runs cells: makes tables, runs both parties on this machine, compares the result with what must come out, keeps it.

A cell whose job has a kept result of the same version on the same machine is not run again, unless other work disturbed it or
`--again` is given: so a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from datetime import datetime, timezone
from pathlib import Path

from . import jobs, machine, network, results, tables

ROOT = Path(__file__).resolve().parent.parent
PEER = Path(__file__).resolve().parent / "peers" / "spu_psi.py"

# The service that clients copy a store of. The others are retrievals.
STORE = "ecdh-oprf"

# Seconds that the other parties may go on after one has failed.
GRACE = 20


class Failed(Exception):
    """A job that did not end well; the others go on."""


class Runner:
    """How things are run."""

    def __init__(self, args):
        self.vesica = str(Path(args.vesica).resolve())
        self.data = Path(args.data).resolve()
        self.repeats, self.again, self.keep_tables = args.runs, args.again, args.keep_tables
        self.ways = (args.network,) if args.network else ("namespaces", "relay")
        self.peer_python = args.peer
        self.machine = machine.describe()
        self.version = output([self.vesica, "--version"]).split()[-1]
        self.commit = output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT)
        self.folder = Path(args.results).resolve()
        self.data.mkdir(parents=True, exist_ok=True)

    def done(self, job: jobs.Job) -> bool:
        """Whether the job has a kept result of this version, on a machine that did nothing else."""
        file = results.path(job, self.machine, self.folder)
        if not file.exists():
            return False
        kept = results.Result(json.loads(file.read_text(encoding="utf-8")), file.name)
        return kept.data["version"] == self.version and not kept.busy

    def run(self, job: jobs.Job) -> None:
        """Runs a job as often as asked for and keeps the result."""
        work = {"job": self.parties, "service": self.service, "bench": self.bench, "pir": self.bench, "peer": self.peer}[job.kind]
        runs, reports, how = [], [], "loopback"
        for turn in range(self.repeats or (3 if max(job.rows) <= 1 << 20 else 1)):
            measured, reports, how = work(job)
            runs.append(measured)
            told = ", ".join(f"{key} {value}" for key, value in measured.items() if not isinstance(value, dict))
            print(f"  run {turn + 1}: {told}", flush=True)
        made_by = "spu 0.9.5" if job.kind == "peer" else f"vesica {self.version}"
        data = {
            "made_by": made_by,
            "version": self.version,
            "commit": self.commit,
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
            "network": {"asked": job.network or "LAN", "how": how},
            "runs": runs,
            "reports": reports,
        }
        print(f"  kept {results.keep(job, self.machine, data, self.folder).name}", flush=True)

    def place_of(self, job: jobs.Job) -> Path:
        """The folder for the job's tables."""
        return self.data / f"{'x'.join(map(str, job.rows))}-{job.common}"

    def tables_of(self, job: jobs.Job) -> Path:
        """The folder with the job's tables; made if need be."""
        folder = self.place_of(job)
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            rows = ",".join(map(str, job.rows))
            output([self.vesica, "gen", "--rows", rows, "--overlap", str(job.common), "--out", str(folder)])
            (folder / "made").touch()
        return folder

    def forget(self, job: jobs.Job) -> None:
        """Removes the job's tables."""
        if not self.keep_tables and job.kind in ("job", "service", "peer"):
            shutil.rmtree(self.place_of(job), ignore_errors=True)

    def identities(self, folder: Path, parties: list[str]) -> dict[str, str]:
        """Fingerprints of the parties, whose keys are made if need be."""
        for party in parties:
            if not (folder / f"{party}.pem").exists():
                print_ = output([self.vesica, "cert", party, "--out", str(folder)])
                (folder / f"{party}.print").write_text(print_, encoding="utf-8")
        return {party: (folder / f"{party}.print").read_text(encoding="utf-8") for party in parties}

    def parties(self, job: jobs.Job):
        """Two or three processes that run a job over TLS, from CSV to CSV; alice learns."""
        parties = jobs.PARTIES[: len(job.rows)]
        folder = self.tables_of(job)
        prints = self.identities(folder, parties)
        for party in job.grouped_by:
            grouped(folder, job, party)
        with network.make(job.network, parties, self.ways) as between:
            ports: dict[str, int] = {}
            for party in parties[:-1]:
                ports[party] = network.free_port()
            for party in parties:
                text = job_file(job, party, parties, prints, between, ports)
                (folder / f"{party}.toml").write_text(text, encoding="utf-8")
            commands = {}
            for party in parties:
                own = [self.vesica, "run", f"{party}.toml", "--quiet", "--report", f"{party}.json"]
                commands[party] = between.within(party) + own
            with machine.Others() as others:
                wall, used = together(commands, folder)
            how = between.how
        reports = [json.loads((folder / f"{party}.json").read_text(encoding="utf-8")) for party in parties]
        alice = reports[0]
        phases = {cost["phase"]: round(cost["wall_s"], 3) for cost in alice["cost"] if cost["phase"] == cost["step"]}
        around = sum(phases.get(phase, 0) for phase in ["read", "write"])
        if job.result:
            found, right = total(folder, job, alice["outcome"])
        else:
            found, right = compare(folder / "expected.csv", folder / "alice.out.csv")
        (folder / "alice.out.csv").unlink(missing_ok=True)
        measured = {
            "others_cores": others.cores,
            "wall_s": round(wall, 3),
            "without_tables_s": round(alice["total"]["wall_s"] - alice["total"]["waited_s"] - around, 3),
            "cpu_s": round(sum(use.ru_utime + use.ru_stime for use in used.values()), 2),
            **memory({party: [report["total"]["peak_memory"]] for party, report in zip(parties, reports)}),
            "sent": alice["total"]["sent"],
            "received": alice["total"]["received"],
            "phases": phases,
            "expected": job.common,
            "found": found,
            "right": right,
        }
        if not right and job.protocol != "dp":
            raise Failed(f"WRONG RESULT: {found} rows were found, and {job.common} are common")
        return measured, [trimmed(report) for report in reports], how

    def service(self, job: jobs.Job):
        """bob prepares a store and serves it; alice fetches it and asks for all rows of her table. Of a retrieval she copies what
        she needs as she asks, so that the report of her asking has all bytes."""
        folder = self.tables_of(job)
        prints = self.identities(folder, ["alice", "bob"])
        for old in folder.glob("store*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.rmtree(folder / "copy.cache", ignore_errors=True)
        (folder / "seal.key").write_bytes(os.urandom(32))
        (folder / "seal.key").chmod(0o600)
        with network.make(job.network, ["alice", "bob"], self.ways) as between, machine.Others() as others:
            port = network.free_port()
            # `vesica gen` makes alice's table the first one: here it is the server's.
            server, client = service_files(job, prints, between, port)
            (folder / "server.toml").write_text(server, encoding="utf-8")
            prepare, prepared = together({"bob": [self.vesica, "prepare", "server.toml"]}, folder)
            offer = (folder / "bob.log").read_text(encoding="utf-8").strip().splitlines()[-1].split()[-1]
            (folder / "client.toml").write_text(client.replace("OFFER", offer), encoding="utf-8")
            serve = between.within("bob") + [self.vesica, "serve", "server.toml"]
            log = (folder / "serve.log").open("w", encoding="utf-8")
            serving = subprocess.Popen(serve, cwd=folder, stdout=log, stderr=log)
            try:
                listening(folder / "serve.log", serving)
                steps = {"ask": ["--report", "alice.json"]}
                if job.protocol == STORE:
                    steps = {"fetch": [], **steps}
                took, clients = {"fetch": 0.0}, []
                for step, flags in steps.items():
                    command = between.within("alice") + [self.vesica, step, "client.toml", *flags]
                    took[step], used = together({"alice": command}, folder)
                    clients.append(used["alice"])
            finally:
                served, held = ended(serving)
                log.close()
            how = between.how
        if served is None:
            raise Failed(f"the server ended by itself: {(folder / 'serve.log').read_text(encoding='utf-8').strip()[-400:]}")
        report = json.loads((folder / "alice.json").read_text(encoding="utf-8"))
        found, right = compare(folder / "expected.csv", folder / "alice.out.csv")
        servers = [prepared["bob"], served]
        peaks = {"alice": [report["total"]["peak_memory"], *map(most, clients)], "bob": [held, *map(most, servers)]}
        measured = {
            "others_cores": others.cores,
            "wall_s": round(prepare + sum(took.values()), 3),
            "phases": {"prepare": round(prepare, 3)} | {step: round(seconds, 3) for step, seconds in took.items()},
            "cpu_s": round(sum(one.ru_utime + one.ru_stime for one in clients + servers), 2),
            **memory(peaks),
            "expected": job.common,
            "found": found,
            "right": right,
        }
        if job.protocol != STORE:
            measured |= {"sent": report["total"]["sent"], "received": report["total"]["received"]}
        if not right:
            raise Failed(f"WRONG RESULT: {found} rows were found, and {job.common} are common")
        return measured, [trimmed(report)], how

    def bench(self, job: jobs.Job):
        """`vesica bench`: both sides in one process, without tables and TLS."""
        what = "pir" if job.kind == "pir" else "psi"
        command = [self.vesica, "bench", what, "--protocol", job.protocol, "--rows", ",".join(map(str, job.rows))]
        if job.bytes:
            command += ["--bytes", str(job.bytes)]
        for flag in ["curve", "mode", "security", "preset"]:
            if getattr(job, flag):
                command += [f"--{flag}", getattr(job, flag)]
        if what == "psi":
            command += ["--overlap", str(job.common)]
        if job.protocol == "simple-pir":
            command += ["--hint", "copied"]
        with machine.Others() as others:
            start = time.monotonic()
            cell = json.loads(output(command))
            took = time.monotonic() - start
        quiet = {"others_cores": others.cores}
        if what == "pir":
            milliseconds = sum(cell[step] or 0 for step in ["query_ms", "answer_ms", "decode_ms"])
            # The command compares each answer with the table, and fails where one differs.
            counts = {"expected": cell["queries"], "found": cell["queries"], "right": True}
            times = {"wall_s": milliseconds / 1e3, "total_s": round(took, 3)}
            return {**quiet, **times, **cell, **counts}, [], "one process"
        named = ["wall_s", "cpu_s", "peak_memory", "expected", "found"]
        measured = quiet | {name: cell[name] for name in named}
        measured |= {"sent": cell["up_bytes"], "received": cell["down_bytes"], "right": cell["exact"]}
        return measured, [], "one process"

    def peer(self, job: jobs.Job):
        """SecretFlow's PSI on the same files, by `peers/spu_psi.py`."""
        folder = self.tables_of(job)
        files = [str(folder / f"{party}.csv") for party in jobs.PARTIES[: len(job.rows)]]
        port = str(network.free_port())
        with machine.Others() as others:
            told = output([self.peer_python, str(PEER), job.protocol, *files, "--key", "id", "--port", port], cwd=folder)
        told = json.loads(told.splitlines()[-1])
        measured = {
            "others_cores": others.cores,
            "wall_s": told["wall_s"],
            "cpu_s": told["cpu_s"],
            "peak_memory": told["peak_mib"] << 20,
            "expected": job.common,
            "found": told["matched"],
            "right": told["matched"] == job.common,
        }
        return measured, [], "loopback"


def job_file(job, party: str, parties: list[str], prints: dict[str, str], between, ports: dict[str, int]) -> str:
    """One party's job. Each party calls those before it."""
    me = parties.index(party)
    shared = ['id = "bench"', f"parties = {json.dumps(parties)}", f'protocol = "{job.protocol}"', 'learns = ["alice"]']
    shared += [f'{field} = "{getattr(job, field)}"' for field in ["curve", "mode", "security"] if getattr(job, field)]
    if job.result:
        shared.append(f'result = "{job.result}"')
    if job.groups:
        other = f', other = {{ by = ["h"], most = {job.other}, of_a_key = 1 }}' if job.other else ""
        shared.append(f'groups = {{ of = "{job.owner}", by = ["g"], most = {job.groups}, of_a_key = 1, least = 5{other} }}')
    if job.summed:
        shared.append("sums = [" + ", ".join(f'{{ name = "{name}", of = "{of}" }}' for of, name in job.summed.items()) + "]")
    accepted = (["chosen_groups", "chosen_pairs"] if job.other else []) + (["chosen_values"] if "alice" in job.summed else [])
    if accepted:
        shared.append(f"accept = {json.dumps(accepted)}")
    if len(parties) == 3 and job.protocol == "ecdh":
        shared.append('accept = ["pair_count"]')
    if len(parties) == 3 and job.result:
        shared += ['pivot = "carol"', 'accept = ["leader_and_pivot", "chosen_values"]']
    if job.protocol == "dp":
        shared.append("dp = { epsilon = 3.0 }")
    peers = ", ".join(f'{peer} = "{prints[peer]}"' for peer in parties if peer != party)
    mine = [f'name = "{party}"', 'patience = "30m"', f'tls = {{ identity = "{party}.pem", peers = {{ {peers} }} }}']
    if party in ports:
        mine.append(f'listen = "{between.listens(party, ports[party])}"')
    if me > 0:
        calls = ", ".join(f'{peer} = "{between.dials(peer, ports[peer])}"' for peer in parties[:me])
        mine.append(f"connect = {{ {calls} }}")
    file, value = grouped_name(job, party), ""
    if party == job.owner and not job.groups:
        value = ', value = "c1"'
    elif party in job.summed:
        value = f', values = {{ {job.summed[party]} = "c1" }}'
    mine.append(f'input = {{ path = "{file}.csv", keys = ["id"]{value} }}')
    if party == "alice" and job.result in (None, "groups"):
        mine.append('output = { path = "alice.out.csv" }')
    if job.protocol == "dp":
        # What noisy runs tell is added up in a file, and these tables are nobody's.
        mine.append(f'budget = {{ path = "{party}.budget.json", epsilon = 1000.0 }}')
    # What is spilled stays beside the tables: the system's temporary folder may be memory.
    mine.append('scratch = "."')
    return "[shared]\n" + "\n".join(shared) + "\n\n[mine]\n" + "\n".join(mine) + "\n"


def grouped_name(job, party: str) -> str:
    """The table of a party: one of its own if it has groups."""
    return f"{party}-{job.grouped_by[party][1]}" if party in job.grouped_by else party


def grouped(folder: Path, job, party: str) -> None:
    """Makes that table: each row is in one of the groups, and has its value if these are added up."""
    (column, most), has_values = job.grouped_by[party], party in job.summed
    with (folder / f"{party}.csv").open(encoding="utf-8") as rows, (folder / f"{grouped_name(job, party)}.csv").open("w", encoding="utf-8") as out:
        next(rows)
        out.write(f"id,{column}{',c1' if has_values else ''}\n")
        for key, value in (line.rstrip("\n").split(",")[:2] for line in rows):
            out.write(f"{key},{int(value) % most}{',' + value if has_values else ''}\n")


def total(folder: Path, job, told: dict) -> tuple[int, bool]:
    """How many keys alice was told of, and whether all that she was told is what a plain join gives."""
    with (folder / "expected.csv").open(encoding="utf-8") as rows:
        next(rows)
        common = {line.rstrip("\n") for line in rows}
    if job.result == "count":
        return told["matched"], told["matched"] == len(common)

    def values_of(party: str) -> dict[str, int]:
        with (folder / f"{party}.csv").open(encoding="utf-8") as rows:
            next(rows)
            return {key: int(value) for key, value in (line.rstrip("\n").split(",")[:2] for line in rows) if key in common}

    values = values_of(job.owner)
    if job.result == "sum":
        return len(values), told["sum"] == sum(values.values())
    of_parties = {party: values if party == job.owner else values_of(party) for party in [*job.grouped_by, *job.summed]}
    wanted: dict[tuple[str, ...], list[int]] = {}
    for key in values:
        group = tuple(str(of_parties[party][key] % most) for party, (_, most) in job.grouped_by.items())
        numbers = [1, *(of_parties[party][key] for party in job.summed)]
        wanted[group] = [one + more for one, more in zip(wanted.get(group, [0] * len(numbers)), numbers)]
    wanted = {group: numbers for group, numbers in wanted.items() if numbers[0] >= 5}
    by = len(job.grouped_by)
    with (folder / "alice.out.csv").open(encoding="utf-8") as rows:
        next(rows)
        told_rows = [line.rstrip("\n").split(",") for line in rows]
    # Beside each sum stands its mean.
    found = {tuple(row[:by]): [int(number) for number in [row[by], *row[by + 1 :: 2]]] for row in told_rows}
    return sum(numbers[0] for numbers in found.values()), found == wanted


def service_files(job, prints: dict[str, str], between, port: int) -> tuple[str, str]:
    """The documents of the server, which has the first table, and of its client."""
    service = f'[service]\nid = "bench"\nprotocol = "{job.protocol}"\n'
    service += f'curve = "{job.curve}"\n' if job.protocol == STORE else 'by = "key"\n'
    # A window of Piano is a request, and many of them are used up in a minute.
    limits = f"keys_a_day = {4 * job.rows[1]}, requests_a_minute = 100000"
    clients = f'{{ alice = {{ fingerprint = "{prints["alice"]}", {limits} }} }}'
    server = f"""{service}
[mine]
name = "bob"
listen = "{between.listens("bob", port)}"
tls = {{ identity = "bob.pem" }}
input = {{ path = "alice.csv", keys = ["id"] }}
store = "store"
secret_key = "seal.key"
clients = {clients}
"""
    client = f"""{service}offer = "OFFER"

[mine]
name = "alice"
connect = {{ bob = "{between.dials("bob", port)}" }}
tls = {{ identity = "alice.pem", peers = {{ bob = "{prints["bob"]}" }} }}
input = {{ path = "bob.csv", keys = ["id"] }}
output = {{ path = "alice.out.csv" }}
cache = "copy.cache"
"""
    return server, client


def together(commands: dict[str, list[str]], folder: Path) -> tuple[float, dict[str, resource.struct_rusage]]:
    """Runs commands side by side: seconds until the last has ended, and what each has used. What one prints is in NAME.log."""
    start = time.monotonic()
    # They are held until the end: Python waits for a process that it holds no more, and what that has used would be lost.
    running = {}
    for name, command in commands.items():
        with (folder / f"{name}.log").open("w", encoding="utf-8") as log:
            running[name] = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    used, failed = {}, []
    with ThreadPoolExecutor(len(running)) as pool:
        waiting = {pool.submit(os.wait4, process.pid, 0): name for name, process in running.items()}
        try:
            for one in as_completed(waiting):
                _, status, used[waiting[one]] = one.result()
                running[waiting[one]].returncode = status
                if status != 0:
                    failed.append(waiting[one])
                    wait(waiting, timeout=GRACE)
                    kill(waiting, running)
        except BaseException:
            kill(waiting, running)
            raise
    wall = time.monotonic() - start
    if failed:
        why = "; ".join((folder / f"{name}.log").read_text(encoding="utf-8").strip()[-400:] for name in failed)
        raise Failed(why)
    return wall, used


def ended(process: subprocess.Popen, patience: float = 60.0) -> tuple[resource.struct_rusage | None, int | None]:
    """Asks a process to end, and gives what it has used, and its most memory. Nothing if it had ended by itself. One that does not
    listen is killed."""
    if process.poll() is not None:
        return None, None
    place = Path(f"/proc/{process.pid}/status")
    told = re.search(r"^VmHWM:\s*(\d+) kB", place.read_text(encoding="utf-8") if place.exists() else "", re.M)
    process.terminate()
    end = time.monotonic() + patience
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return used, told and int(told[1]) * 1024
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.02)


def most(used: resource.struct_rusage) -> int | None:
    """The most memory of a process that tells nothing of its own. None where it had less than this runner, with whose memory the
    system's count begins."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used.ru_maxrss * 1024 if used.ru_maxrss > own else None


def memory(of: dict[str, list[int | None]]) -> dict:
    """The most memory of each party's processes, and of all."""
    peaks = {party: max(peak for peak in peaks if peak) for party, peaks in of.items() if any(peaks)}
    return {"peak_memory": max(peaks.values(), default=None), "peaks": peaks}


def kill(waiting: dict, running: dict[str, subprocess.Popen]) -> None:
    """Ends those that still run."""
    for one, name in waiting.items():
        if not one.done():
            os.kill(running[name].pid, signal.SIGKILL)


def listening(log: Path, process: subprocess.Popen, patience: float = 120.0) -> None:
    """Waits until a server says where it listens."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if "listen" in log.read_text(encoding="utf-8"):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise Failed(f"the server does not listen: {log.read_text(encoding='utf-8').strip()[-400:]}")


def compare(expected: Path, found: Path) -> tuple[int, bool]:
    """How many rows were found, and whether their keys are the expected ones: by number and by a sum of keyed hashes."""
    return (ours := fingerprint(found))[0], ours == fingerprint(expected)


def fingerprint(path: Path) -> tuple[int, int]:
    """The number of rows of a CSV and the sum of the hashes of their first columns. Python draws the hash's key anew each time."""
    with path.open("rb") as file:
        next(file, None)
        count = total = 0
        for line in file:
            count += 1
            total += hash(line.rstrip(b"\r\n").split(b",", 1)[0])
    return count, total


def trimmed(report: dict) -> dict:
    """A report without what names files or identities of this machine."""
    if report.get("outcome", {}).get("output"):
        report["outcome"]["output"].pop("path", None)
    for peer in report.get("chosen", {}).get("peers", []):
        peer.pop("fingerprint", None)
    if "chosen" in report and "tls" in report["chosen"]:
        report["chosen"]["tls"] = report["chosen"]["tls"].split(",")[0]
    report.pop("revealed", None)
    # What the job said stands in the cell; this party's part of it names files and fingerprints.
    for part in ("shared", "mine"):
        report.get("job", {}).pop(part, None)
    return report


def output(command: list[str], cwd: Path | None = None) -> str:
    """What a command prints; anything but success is an error that quotes it."""
    try:
        ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}; build it with `cargo build --release -p vesica-cli`") from error
    if ended.returncode != 0:
        raise Failed(f"{Path(command[0]).name} {' '.join(command[1:3])}: {ended.stderr.strip()[-400:]}")
    return ended.stdout.strip()


def wanted(args) -> list[jobs.Job]:
    """The jobs of the cells that are asked for, each once, the smallest first."""
    found: dict[jobs.Job, None] = {}
    if args.table == "house":
        all_of_them = [(job.slug, job) for entry in tables.house() for job in jobs.of_house(entry, args.scale)]
    else:
        table = tables.load(args.table)
        all_of_them = [(cell.name, jobs.of_cell(table, cell, args.scale)) for cell in table.cells]
    for name, job in all_of_them:
        if job is None or max(job.rows) > args.most:
            continue
        if args.only is None or any(fnmatch.fnmatch(one.lower(), args.only.lower()) for one in [name, job.slug]):
            found[job] = None
    return sorted(found, key=lambda job: (max(job.rows), job.rows, job.slug))


def asked_in_vain(args) -> str:
    """Why there is nothing to run, and the remedy."""
    which = f" whose name fits {args.only!r}" if args.only else ""
    names = f"`python3 -m bench run {args.table} --dry` shows the names of its jobs"
    return f"the table {args.table} has no job of at most {args.most:,.10g} rows a party{which}; {names}"


def main(args) -> int:
    """Runs what is asked for. Gives 1 if a job failed."""
    try:
        runner = Runner(args)
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    todo = wanted(args)
    if not todo:
        print(f"error: {asked_in_vain(args)}", file=sys.stderr)
        return 2
    # Whoever stops this stops what it started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if args.peer:
        todo = [one for job in todo for one in [job, job.peer] if one is not None]
    failed = []
    for place, job in enumerate(todo):
        if runner.done(job) and not runner.again:
            print(f"{job.slug}: kept already", flush=True)
            continue
        print(f"{job.slug} ({place + 1} of {len(todo)})", flush=True)
        try:
            if not args.dry:
                runner.run(job)
        except (Failed, RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            failed.append(job.slug)
            print(f"  FAILED: {error}", file=sys.stderr, flush=True)
        later = todo[place + 1 :]
        if not args.dry and not any((one.rows, one.common) == (job.rows, job.common) for one in later):
            runner.forget(job)
    if failed:
        print(f"{len(failed)} of {len(todo)} jobs failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
