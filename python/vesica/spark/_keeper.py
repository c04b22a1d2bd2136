"""What must stand in no function that Spark ships: the secret of a run. The driver holds it, and each worker asks for it once.

A worker shows a public key that it made for this, and is handed the secret sealed to that key. It shows as well that it was told where to ask, by a
token that travels with the tasks. The connection to the driver is in clear, so the token is not sent there: a worker sends a MAC of its public
key under it, and nobody else can show a key of their own. Whoever reads what Spark sends to its executors has the token, too: so a cluster of
several machines encrypts that, or is refused (`_engine.check`).
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from threading import BoundedSemaphore, Event, Thread

from .. import _core
from .._errors import NetworkError

#: Seconds that either end waits for the other.
PATIENCE = 30

#: Seconds in which all of a question has come: who only holds the connection keeps no worker from its seat for longer.
ASKS = 5

#: Workers that are answered at once.
AT_ONCE = 64

#: Bytes of an answer's parts, at most.
MOST = 1 << 24

TOKEN, PUBLIC, SHOWN = 16, 32, 32


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

    def shows(self, public: bytes) -> bytes:
        """What shows that whoever made this key has the token."""
        return hmac.digest(self.token, public, "sha256")

    def ask(self, public: bytes) -> tuple[bytes, bytes]:
        """Asks the driver."""
        try:
            with socket.create_connection((self.host, self.port), timeout=PATIENCE) as link:
                link.sendall(public + self.shows(public))
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
        self._seats, self._closed = BoundedSemaphore(AT_ONCE), Event()
        Thread(target=self._listen, name="vesica keeper", daemon=True).start()

    def close(self) -> None:
        """Answers nobody any more."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        while not self._closed.is_set():
            self._seats.acquire()
            try:
                link, _ = self._listener.accept()
            except OSError:
                # A connection that ended before it was taken, or too many open files: the next one may be a worker's.
                self._seats.release()
                self._closed.wait(0.1)
                continue
            Thread(target=self._answer, args=(link,), daemon=True).start()

    def _answer(self, link: socket.socket) -> None:
        try:
            with link, suppress(OSError):
                asked = _exactly(link, PUBLIC + SHOWN, ASKS)
                link.settimeout(PATIENCE)
                public, shown = asked[:PUBLIC], asked[PUBLIC:]
                # Who has no token is told nothing, and not what was wrong.
                if hmac.compare_digest(shown, self.kit.shows(public)):
                    for piece in (self._start, self._secret.hand(self.kit.name, public)):
                        link.sendall(struct.pack("<I", len(piece)) + piece)
        finally:
            self._seats.release()


def _piece(link: socket.socket) -> bytes:
    (length,) = struct.unpack("<I", _exactly(link, 4))
    if length > MOST:
        raise OSError("its answer is none of a driver's")
    return _exactly(link, length)


def _exactly(link: socket.socket, length: int, within: float | None = None) -> bytes:
    pieces = []
    end = time.monotonic() + (within or 0)
    while length:
        if within is not None:
            link.settimeout(max(0.001, end - time.monotonic()))
        piece = link.recv(min(length, 1 << 16))
        if not piece:
            raise OSError("it ended the connection")
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)
