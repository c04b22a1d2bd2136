"""What must stand in no function that Spark ships: the secret of a run. The driver holds it, and each worker asks for it once.

A worker shows a public key that it made for this, and is handed the secret sealed to that key. It shows as well that it was told where to ask, by a
token that travels with the tasks. Whoever reads what Spark sends to its executors has that too: so a cluster of several machines encrypts it, or is
refused (`_engine.check`).
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from threading import BoundedSemaphore, Thread

from .. import _core
from .._errors import NetworkError

#: Seconds that either end waits for the other.
PATIENCE = 30

#: Workers that are answered at once.
AT_ONCE = 64

#: Bytes of an answer's parts, at most.
MOST = 1 << 24

TOKEN, PUBLIC = 16, 32


@dataclass(frozen=True)
class Kit:
    """How a worker asks: where the driver listens, and the token."""

    host: str
    port: int
    token: bytes

    @property
    def name(self) -> str:
        """What the secret is handed over under."""
        return self.token.hex()

    def ask(self, public: bytes) -> tuple[bytes, bytes]:
        """Asks the driver."""
        try:
            with socket.create_connection((self.host, self.port), timeout=PATIENCE) as link:
                link.sendall(self.token + public)
                return _piece(link), _piece(link)
        except OSError as error:
            why = f"the driver does not answer at {self.host}:{self.port}, where workers ask for what the run is sealed with"
            raise NetworkError(f"{why}: {error}; spark.driver.host has to be an address that executors reach") from None


class Keeper:
    """Answers workers until it is closed."""

    def __init__(self, start: _core.Start, host: str, bound: str) -> None:
        self._start, self._secret = start.to_bytes(), start.secret
        self._listener = socket.create_server((bound, 0), backlog=AT_ONCE)
        self.kit = Kit(host, self._listener.getsockname()[1], secrets.token_bytes(TOKEN))
        self._seats = BoundedSemaphore(AT_ONCE)
        Thread(target=self._listen, name="vesica keeper", daemon=True).start()

    def close(self) -> None:
        """Answers nobody any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        while True:
            self._seats.acquire()
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._answer, args=(link,), daemon=True).start()

    def _answer(self, link: socket.socket) -> None:
        try:
            with link, suppress(OSError):
                link.settimeout(PATIENCE)
                asked = _exactly(link, TOKEN + PUBLIC)
                # Who has no token is told nothing, and not what was wrong.
                if hmac.compare_digest(asked[:TOKEN], self.kit.token):
                    for piece in (self._start, self._secret.hand(self.kit.name, asked[TOKEN:])):
                        link.sendall(struct.pack("<I", len(piece)) + piece)
        finally:
            self._seats.release()


def _piece(link: socket.socket) -> bytes:
    (length,) = struct.unpack("<I", _exactly(link, 4))
    if length > MOST:
        raise OSError("its answer is none of a driver's")
    return _exactly(link, length)


def _exactly(link: socket.socket, length: int) -> bytes:
    pieces = []
    while length:
        piece = link.recv(min(length, 1 << 16))
        if not piece:
            raise OSError("it ended the connection")
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)
