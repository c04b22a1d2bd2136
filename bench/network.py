"""The network between the parties: this machine's own, network namespaces with `tc`, or the relay of `cargo xtask shaped`.

The published scripts limit each side's sending rate with `tbf` and delay what it sends with `netem`, so a round trip takes twice
the delay. Both ways of making a network here do the same. Namespaces are taken where they can be made; a kernel without `netem`
cannot delay, and then the relay does it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

from . import jobs

ROOT = Path(__file__).resolve().parent.parent
SUBNET = "10.77.0"


class Loopback:
    """No network but the machine's own."""

    how = "loopback"

    def __init__(self, parties: list[str]):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def listens(self, party: str, port: int) -> str:
        """Where a party listens."""
        return f"127.0.0.1:{port}"

    def dials(self, party: str, port: int) -> str:
        """Where the others call that party."""
        return f"127.0.0.1:{port}"

    def within(self, party: str) -> list[str]:
        """What stands before the party's command."""
        return []


class Namespaces:
    """Each party in a network namespace of its own, all on one bridge, each with a rate and a delay for what it sends."""

    def __init__(self, parties: list[str], mbit: float, delay_ms: float):
        self.parties, self.mbit, self.delay_ms = parties, mbit, delay_ms
        self.mark = f"vb{os.getpid()}"
        self.how = "network namespaces, tc tbf" + (" and netem" if delay_ms else "")

    def name(self, party: str) -> str:
        return f"{self.mark}-{party}"

    def address(self, party: str) -> str:
        return f"{SUBNET}.{self.parties.index(party) + 1}"

    def __enter__(self):
        switch = self.name("switch")
        try:
            call("ip", "netns", "add", switch)
            call("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
            call("ip", "-n", switch, "link", "set", "br0", "up")
            for i, party in enumerate(self.parties):
                own, port = self.name(party), f"p{i}"
                call("ip", "netns", "add", own)
                call("ip", "link", "add", "e0", "netns", own, "type", "veth", "peer", "name", port, "netns", switch)
                call("ip", "-n", switch, "link", "set", port, "master", "br0", "up")
                call("ip", "-n", own, "addr", "add", f"{self.address(party)}/24", "dev", "e0")
                call("ip", "-n", own, "link", "set", "lo", "up")
                call("ip", "-n", own, "link", "set", "e0", "up")
                rate = ["rate", f"{self.mbit:g}mbit", "burst", "256kb", "latency", "800ms"]
                call("tc", "-n", own, "qdisc", "add", "dev", "e0", "root", "handle", "1:", "tbf", *rate)
                if self.delay_ms:
                    delay = ["netem", "delay", f"{self.delay_ms:g}ms", "limit", "8000"]
                    call("tc", "-n", own, "qdisc", "add", "dev", "e0", "parent", "1:1", "handle", "10:", *delay)
        except (OSError, RuntimeError):
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for party in [*self.parties, "switch"]:
            subprocess.run(["ip", "netns", "del", self.name(party)], stderr=subprocess.DEVNULL, check=False)

    def listens(self, party: str, port: int) -> str:
        return f"{self.address(party)}:{port}"

    dials = listens

    def within(self, party: str) -> list[str]:
        return ["ip", "netns", "exec", self.name(party)]


class Relay(Loopback):
    """A relay before each party that listens: `cargo xtask shaped`."""

    def __init__(self, parties: list[str], mbit: float, delay_ms: float):
        # The relay is given a round trip, which must be more than nothing.
        self.mbit, self.round_trip_ms = mbit, max(2 * delay_ms, 0.1)
        self.how = "cargo xtask shaped"
        self.running: list[subprocess.Popen] = []
        self.ports: dict[int, int] = {}

    def __enter__(self):
        call("cargo", "build", "--quiet", "--package", "xtask", cwd=ROOT)
        return self

    def __exit__(self, *_):
        for relay in self.running:
            relay.kill()
            relay.wait()

    def dials(self, party: str, port: int) -> str:
        if port not in self.ports:
            self.ports[port] = free_port()
            listen = f"127.0.0.1:{self.ports[port]}"
            target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
            xtask = str(target / "debug" / "xtask")
            command = [xtask, "shaped", listen, f"127.0.0.1:{port}", f"{self.mbit:g}", f"{self.round_trip_ms:g}"]
            self.running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            reachable(self.ports[port])
        return f"127.0.0.1:{self.ports[port]}"


def make(name: str | None, parties: list[str], ways: tuple[str, ...] = ("namespaces", "relay")):
    """A network as a context, not yet entered: the first of `ways` that this machine allows."""
    if name is None:
        return Loopback(parties)
    mbit, delay = jobs.rate_and_delay(name)
    if "namespaces" in ways:
        network = Namespaces(parties, mbit, delay)
        try:
            with network:
                pass
            return Namespaces(parties, mbit, delay)
        except (OSError, RuntimeError):
            if ways == ("namespaces",):
                raise
    return Relay(parties, mbit, delay)


# Ports that were handed out: whoever got one may not listen yet.
GIVEN: set[int] = set()


def free_port() -> int:
    """A port below the range that the system gives to callers, another one each time."""
    for port in range(20000 + os.getpid() % 5000, 32000):
        if port in GIVEN:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                GIVEN.add(port)
                return port
            except OSError:
                continue
    raise RuntimeError("no free port on 127.0.0.1 between 20000 and 32000")


def reachable(port: int, patience: float = 30.0) -> None:
    """Waits until somebody listens."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"nobody listens on 127.0.0.1:{port} after {patience:g} s")


def call(*command: str, cwd: Path | None = None) -> None:
    """Runs a command; anything but success is an error that quotes it."""
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr.strip() or ended.returncode}")
