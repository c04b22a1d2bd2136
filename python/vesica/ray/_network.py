"""The network between the nodes of a cluster: whether what Ray sends there is protected."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

import ray

from .._errors import ConfigError

#: What a caller may accept, by its name: nodes that talk without TLS.
WITHOUT_TLS = "cluster_without_tls"


def check(accept: Sequence[str]) -> None:
    """Refuses a cluster of several nodes that talk without TLS, unless that is accepted by its name. The secret of a run is sealed wherever it
    travels, but Ray's own token is not, and whoever has heard that may submit work, which has everything."""
    if isinstance(accept, str) or any(name != WITHOUT_TLS for name in accept):
        raise ConfigError(f'accept: is {accept!r}; write ["{WITHOUT_TLS}"], which is all that can be accepted here, or leave it out')
    if not ray.is_initialized():
        raise ConfigError("there is no cluster: call ray.init(address=…) first")
    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    if nodes < 2 or WITHOUT_TLS in accept or has_tls(ray.get_runtime_context().gcs_address):
        return
    raise ConfigError(
        f"the {nodes} nodes of this cluster talk without TLS: who listens between them hears Ray's token, and with it can have the rows and the "
        "result; give Ray certificates and RAY_USE_TLS=1 on every node, or, if the network is yours alone, "
        f'accept it with accept=["{WITHOUT_TLS}"]'
    )


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
