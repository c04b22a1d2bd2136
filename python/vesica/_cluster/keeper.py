"""What must stand in no function, no object and no message of a cluster: the secret of a run. The driver holds it, and each worker asks for it once.

A worker shows a public key that it made for this, and is handed the secret sealed to that key. It shows as well that it is a worker of this cluster, by
a token; where it has that from, a cluster's `Kit` says. The connection to the driver is in clear, so the token is not sent there: a question has a MAC
of itself under it, and nobody else can show a key of their own. The answer has one, too, or who stands between could hand over another secret.

A door asks the same keeper whether it is to end. The answer waits until there is something to say.
"""

from __future__ import annotations

import errno
import hmac
import secrets
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import BoundedSemaphore, Condition, Event, Thread

from .. import _core
from .._errors import ConfigError

#: Seconds that either end waits for the other.
PATIENCE = 30

#: Seconds in which all of a question has come: who only holds the connection keeps no worker from its seat for longer.
ASKS = 5

#: Seconds after which a door that there is nothing to say to is told so, and asks again: a connection that nothing passes may be cut unseen.
WAITS = 20

#: Seconds before a question that had no answer is asked again, and how often a worker asks.
AGAIN, TRIES = 0.1, 3

#: Workers that are answered at once; doors that wait, or connections that nobody has taken yet.
AT_ONCE, DOORS = 64, 1 << 12

#: Bytes of an answer, at most.
MOST = 1 << 24

#: What a question begins with: one for the secret, with the public key behind it, and one of a door, with the attempt and what was heard of it.
SECRET, OVER = b"s", b"o"

TOKEN, ASKED, MAC = 16, 32, 32

#: What a door is told.
SOON, NOW, NOTHING = 0, 1, 2


@dataclass(frozen=True)
class Kit:
    """How a worker asks: where the driver listens. It travels with every task, and two of one run are equal."""

    host: str
    port: int
    #: What the secret is handed over under.
    name: str

    def token(self) -> bytes | None:
        """What the keeper knows workers by; None if the cluster has it no more."""
        raise NotImplementedError

    def ask(self, public: bytes) -> tuple[bytes, bytes]:
        """The start, sealed, and the secret, handed over to whoever has shown this public key."""
        token = self.token()
        if token is None:
            # Of the connection to the other side this says nothing.
            why = "the cluster's control store does not have what workers of this run are known by: the run is over, or the store was started anew"
            raise ConfigError(f"{why}; run again")
        for tries in range(TRIES, 0, -1):
            try:
                with self._connected() as link:
                    answer = _answered(link, token, SECRET + public)
                break
            except OSError as error:
                if tries == 1:
                    # Of the connection to the other side this says nothing.
                    why = f"the driver does not answer at {self.host}:{self.port}, where workers ask for what the run is sealed with"
                    raise ConfigError(f"{why}: {error}; let every machine of the cluster reach that address") from None
                time.sleep(AGAIN)
        (start,) = struct.unpack_from("<I", answer)
        return answer[4 : 4 + start], answer[4 + start :]

    def over(self, attempt: int, heard: bool | None) -> bool | None:
        """Whether the doors of this attempt are to end `now`: as soon as they are to end, and that is another word than was `heard`. None if there is
        none yet. Ask again then."""
        token = self.token()
        if token is None:
            return True
        try:
            with self._connected() as link:
                asked = struct.pack("<qB", attempt, NOTHING if heard is None else heard)
                # No answer to another question is one to this.
                told = _answered(link, token, OVER + asked + secrets.token_bytes(ASKED - len(asked)))[0]
        except OSError:
            # Also where it is refused: a wall that is set up anew does so, and who stands between can. That the run is over the token says.
            time.sleep(AGAIN)
            return None
        return None if told == NOTHING else told == NOW

    def _connected(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=PATIENCE)


#: Ports of which the driver listens at one: here at whichever the system chooses.
ANY: Sequence[int] = (0,)


def ports(given: int | Sequence[int] | None) -> Sequence[int]:
    """The ports that a caller names: one, or several."""
    if given is None:
        return ANY
    named: Sequence[int] = (given,) if isinstance(given, int) else given
    if not isinstance(named, Sequence) or not named or not all(type(port) is int and 0 < port < 1 << 16 for port in named):
        raise ConfigError(f"keeper_port: is {given!r}; write a port from 1 to 65535, or several such as range(7000, 7010), or leave it out")
    return named


def listening(host: str, named: Sequence[int] = ANY) -> socket.socket:
    """Listens at the first of these ports that is free, at this address, or if that is not one of this machine's own, at all of them."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    why = None
    for at in (host, ""):
        for port in named:
            try:
                return socket.create_server((at, port), family=family, backlog=DOORS)
            except OSError as error:
                why = error
                if error.errno == errno.EADDRNOTAVAIL:
                    break
        # A port that another program has at this address is not to be had by listening at all of them.
        if why is None or why.errno != errno.EADDRNOTAVAIL:
            break
    ways = "see that this process may listen there" if named is ANY else "name a port in keeper_port that no other program has"
    raise ConfigError(f"the driver cannot listen at {host}, where workers are to ask for what the run is sealed with: {why}; {ways}, and run again")


class Keeper:
    """Answers workers until it is closed."""

    def __init__(self, start: _core.Start, host: str, named: Sequence[int] = ANY) -> None:
        """Listens at this address, at one of these ports."""
        self._start, self._secret = start.to_bytes(), start.secret
        self._listener = listening(host, named)
        self.port = self._listener.getsockname()[1]
        self.name, self.token = secrets.token_hex(16), secrets.token_bytes(TOKEN)
        self._seats, self._doors, self._closed = BoundedSemaphore(AT_ONCE), BoundedSemaphore(DOORS), Event()
        #: Of attempts whose doors are to end, whether they end now, and who waits for that.
        self._over: dict[int, bool] = {}
        #: What doors have asked. Each question is another one, so one that comes again is from somebody who has heard it.
        self._asked: set[bytes] = set()
        self._told = Condition()
        Thread(target=self._listen, name="vesica keeper", daemon=True).start()

    def end(self, attempt: int, now: bool) -> None:
        """The doors of this attempt are to let nobody in any more; `now`, the lanes that are in end too."""
        with self._told:
            self._over[attempt] = now or self._over.get(attempt, False)
            self._told.notify_all()

    def close(self) -> None:
        """Answers nobody any more."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._told:
            self._told.notify_all()

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
            try:
                Thread(target=self._answer, args=(link,), daemon=True).start()
            except RuntimeError:
                # The system has no thread to give: who asks comes again, and there may be one then.
                link.close()
                self._seats.release()
                self._closed.wait(0.1)

    def _answer(self, link: socket.socket) -> None:
        with link, suppress(OSError):
            try:
                question = self._question(link)
                if question[:1] == SECRET:
                    handed = self._secret.hand(self.name, question[1:])
                    self._tell(link, question, struct.pack("<I", len(self._start)) + self._start + handed)
                    return
            finally:
                self._seats.release()
            if self._is_new(question) and self._doors.acquire(blocking=False):
                try:
                    attempt, heard = struct.unpack_from("<qB", question, 1)
                    self._tell(link, question, bytes([self._word(attempt, heard)]))
                finally:
                    self._doors.release()

    def _question(self, link: socket.socket) -> bytes:
        asked = _exactly(link, 1 + ASKED + MAC, time.monotonic() + ASKS)
        link.settimeout(PATIENCE)
        # Who has no token is told nothing, and not what was wrong. Nor is anybody whose question came when there is no run any more.
        if not hmac.compare_digest(asked[-MAC:], _mac(self.token, b"asks", asked[:-MAC])) or self._closed.is_set():
            raise OSError("it is no worker")
        return asked[:-MAC]

    def _is_new(self, question: bytes) -> bool:
        """Whether nobody has asked this before: whoever listens on the network could have all places of doors by what these have said."""
        with self._told:
            before = len(self._asked)
            self._asked.add(question)
            return len(self._asked) > before

    def _tell(self, link: socket.socket, question: bytes, answer: bytes) -> None:
        link.sendall(struct.pack("<I", len(answer)) + answer + _mac(self.token, b"told", question + answer))

    def _word(self, attempt: int, heard: int) -> int:
        """What a door is told that has heard this much."""
        with self._told:
            self._told.wait_for(lambda: self._closed.is_set() or self._over.get(attempt, heard) != heard, WAITS)
            if self._closed.is_set():
                raise OSError("there is no run any more")
            word = self._over.get(attempt, heard)
        return NOTHING if word == heard else int(word)


def _answered(link: socket.socket, token: bytes, question: bytes) -> bytes:
    link.sendall(question + _mac(token, b"asks", question))
    # All of it, or who is no driver and says little keeps a task for hours.
    end = time.monotonic() + PATIENCE
    (length,) = struct.unpack("<I", _exactly(link, 4, end))
    if not 0 < length <= MOST:
        raise OSError("its answer is none of a driver's")
    answer = _exactly(link, length, end)
    if not hmac.compare_digest(_exactly(link, MAC, end), _mac(token, b"told", question + answer)):
        raise OSError("its answer is not by the driver")
    return answer


def _mac(token: bytes, of: bytes, what: bytes) -> bytes:
    return hmac.digest(token, of + what, "sha256")


def _exactly(link: socket.socket, length: int, end: float) -> bytes:
    """So many bytes, if they come until then."""
    pieces = []
    while length:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        link.settimeout(left)
        piece = link.recv(min(length, 1 << 16))
        if not piece:
            raise OSError("it ended the connection")
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)
