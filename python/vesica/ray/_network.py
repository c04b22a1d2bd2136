"""The network between the nodes of a cluster: whether what Ray sends there is protected."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from typing import Any

import ray
import ray.util.client

from .._errors import ConfigError

#: What a caller may accept, by its name: nodes that talk without TLS.
WITHOUT_TLS = "cluster_without_tls"

#: Seconds between looks at the nodes.
LOOK = 0.5


def check(accept: Sequence[str]) -> None:
    """Refuses a cluster of several nodes that talk without TLS, unless that is accepted by its name. The secret of a run is sealed wherever it
    travels, but Ray's own token is not, and whoever has heard that may submit work, which has everything."""
    if isinstance(accept, str) or any(name != WITHOUT_TLS for name in accept):
        raise ConfigError(f'accept: is {accept!r}; write ["{WITHOUT_TLS}"], which is all that can be accepted here, or leave it out')
    if is_client():
        raise ConfigError(
            "this process reaches the cluster through Ray Client (ray://…): the driver would have the private key and the run's secret on a machine "
            "that is no node, behind a connection that Vesica knows nothing of; run it on a node of the cluster, with "
            'ray.init(address="auto") there or by `ray job submit`'
        )
    if not ray.is_initialized():
        raise ConfigError("there is no cluster: call ray.init(address=…) first")
    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    if nodes < 2 or WITHOUT_TLS in accept or _has_tls():
        return
    raise ConfigError(_without_tls(f"the {nodes} nodes of this cluster"))


def is_client() -> bool:
    """Whether this process is no part of a cluster, and has its calls made by a proxy there."""
    return bool(ray.util.client.ray.is_connected())


def _has_tls() -> bool:
    return has_tls(ray.get_runtime_context().gcs_address)


def _without_tls(nodes: str) -> str:
    return (
        f"{nodes} talk without TLS: who listens between them hears Ray's token, and with it can have the rows and the "
        "result; give Ray certificates and RAY_USE_TLS=1 on every node, or, if the network is yours alone, "
        f'accept it with accept=["{WITHOUT_TLS}"]'
    )


class Watch:
    """Looks for nodes that join a cluster while a run lasts, and refuses them as they are refused before a run. `refuse` is called once when there is
    one, from any thread: it takes away what a worker there would need."""

    def __init__(self, accept: Sequence[str], refuse: Callable[[], Any]) -> None:
        self._refuse = refuse
        self._let_in = WITHOUT_TLS in accept
        # A node that is gone again stays on Ray's list.
        self._known = {node["NodeID"] for node in ray.nodes()}
        self._nodes = sum(bool(node["Alive"]) for node in ray.nodes())
        self._joined = 0
        self._lock, self._over = Lock(), Event()
        self._thread = Thread(target=self._run, name="vesica nodes", daemon=True)

    def __enter__(self) -> Watch:
        if not self._let_in:
            # One that joined between the look before the run and the beginning of this watch is among those that it knows.
            if self._nodes > 1 and not _has_tls():
                raise ConfigError(_without_tls(f"the {self._nodes} nodes of this cluster"))
            self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Raises if a node has joined since the run began, whether it is still there or not."""
        self._look()
        self.told()

    def told(self) -> None:
        """The same, of a node that was seen already."""
        if self._joined:
            raise ConfigError(_without_tls(f"the {self._nodes + self._joined} nodes that this cluster has had since the run began"))

    def _look(self) -> None:
        with self._lock:
            if not self._joined and not self._let_in:
                joined = len({node["NodeID"] for node in ray.nodes()} - self._known)
                self._let_in = joined > 0 and _has_tls()
                if joined and not self._let_in:
                    self._joined = joined
                    self._refuse()

    def _run(self) -> None:
        while not self._over.wait(LOOK):
            # If the cluster does not answer, the run has found that out too.
            with contextlib.suppress(Exception):
                self._look()


def has_tls(address: str) -> bool:
    """Whether a cluster whose control store is at `address` has TLS: no node joins it otherwise. The store itself is asked, for what stands in
    RAY_USE_TLS here may have been set after this process joined."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    # Whom to trust is Ray's business: here it matters only whether there is TLS at all.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=10) as link:
            with context.wrap_socket(link, do_handshake_on_connect=False) as secure:
                return _shows_a_certificate(secure)
    except OSError:
        return False


def _shows_a_certificate(link: ssl.SSLSocket) -> bool:
    """Whether the other end answers a handshake with a certificate. It may end the handshake behind it, for we show none."""
    try:
        link.do_handshake()
    except ssl.SSLError as error:
        # An alert is said by who speaks TLS; what is no TLS at all fails otherwise.
        return "ALERT" in (error.reason or "")
    return link.getpeercert(binary_form=True) is not None
