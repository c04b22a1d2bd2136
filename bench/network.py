"""The network between the parties: this machine's own, network namespaces with `tc`, or the relay of `cargo xtask shaped`.

The published scripts limit each side's sending rate with `tbf` and delay what it sends with `netem`, so a round trip takes twice
the delay. All ways of making a network here do the same. Namespaces with both are taken where they can be made. A kernel without
`netem` cannot delay: then `tbf` holds the rate and a relay in the namespace delays. Without namespaces a relay does both. A result
says which it was.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from . import jobs

ROOT = Path(__file__).resolve().parent.parent
SUBNET = "10.77.0"


class Loopback:
    """No network but the machine's own."""

    how = "loopback"
    # Whether this way of making a network is for delays only.
    for_delays = False

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

    for_delays = False

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


class Relays:
    """Relays before parties that listen: `cargo xtask shaped`."""

    def __init__(self, mbit: float, delay_ms: float):
        # A relay is given a round trip, which must be more than nothing.
        self.mbit, self.round_trip_ms = mbit, max(2 * delay_ms, 0.1)
        self.running: list[subprocess.Popen] = []
        self.ports: dict[int, int] = {}

    def build(self) -> None:
        call("cargo", "build", "--quiet", "--package", "xtask", cwd=ROOT)

    def before(self, host: str, port: int, within: list[str]) -> str:
        """Where a relay listens that leads to `port`: on the same host, started by `within`."""
        if port not in self.ports:
            self.ports[port] = free_port()
            xtask = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "xtask"
            ends = [f"{host}:{self.ports[port]}", f"{host}:{port}"]
            command = [*within, str(xtask), "shaped", *ends, f"{self.mbit:g}", f"{self.round_trip_ms:g}"]
            relay = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            self.running.append(relay)
            # Its first words are that it listens, or why it does not.
            told = relay.stderr.readline()
            if "->" not in told:
                raise RuntimeError(f"cargo xtask shaped: {told.strip() or 'it ended without a word'}")
        return f"{host}:{self.ports[port]}"

    def end(self) -> None:
        for relay in self.running:
            relay.kill()
            relay.wait()
            relay.stderr.close()


class Delayed(Namespaces):
    """Namespaces of a kernel without `netem`: `tbf` limits what each party sends, and a relay in the namespace of the party that listens
    delays both directions."""

    for_delays = True
    # A relay's own rate, in Mbit/s: so much that it limits nothing.
    UNLIMITED = 100_000

    def __init__(self, parties: list[str], mbit: float, delay_ms: float):
        super().__init__(parties, mbit, 0)
        self.relays = Relays(self.UNLIMITED, delay_ms)
        self.how = "network namespaces, tc tbf; delay by cargo xtask shaped"

    def __enter__(self):
        super().__enter__()
        try:
            self.relays.build()
        except (OSError, RuntimeError):
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.relays.end()
        super().__exit__()

    def dials(self, party: str, port: int) -> str:
        return self.relays.before(self.address(party), port, self.within(party))


class Relay(Loopback):
    """A relay before each party that listens, which limits and delays."""

    how = "cargo xtask shaped"

    def __init__(self, parties: list[str], mbit: float, delay_ms: float):
        self.relays = Relays(mbit, delay_ms)

    def __enter__(self):
        self.relays.build()
        return self

    def __exit__(self, *_):
        self.relays.end()

    def dials(self, party: str, port: int) -> str:
        return self.relays.before("127.0.0.1", port, [])


# What was said of networks that cannot be made: once is enough.
SAID: set[str] = set()
WAYS = {"namespaces": (Namespaces, Delayed), "relay": (Relay,)}


def make(name: str | None, parties: list[str], ways: tuple[str, ...] = tuple(WAYS)):
    """A network as a context, not yet entered: the first of `ways` that this machine allows. What it does not allow is said.

    Raises `RuntimeError` with all reasons if it allows none of them."""
    if name is None:
        return Loopback(parties)
    mbit, delay = jobs.rate_and_delay(name)
    refused = []
    for kind in (kind for way in ways for kind in WAYS[way]):
        if kind.for_delays and not delay:
            continue
        network = kind(parties, mbit, delay)
        try:
            with network:
                pass
        except (OSError, RuntimeError) as error:
            refused.append(f"{network.how}: {error}")
            continue
        for why in refused:
            if why not in SAID:
                print(f"  not possible here: {why}", file=sys.stderr, flush=True)
                SAID.add(why)
        return kind(parties, mbit, delay)
    raise RuntimeError(f"{name}: this machine allows no such network. " + "; ".join(refused))


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


def call(*command: str, cwd: Path | None = None) -> None:
    """Runs a command; anything but success is an error that quotes it."""
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr.strip() or ended.returncode}")
