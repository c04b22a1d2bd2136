"""What all machines of a cluster see: files of a folder, or objects. What is put is put once: the first one stands."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Union

from .._errors import ConfigError

#: Where a storage is: a folder, or the address of objects, such as `s3://bucket/prefix`.
Address = Union[str, "os.PathLike[str]"]


class Storage(Protocol):
    """Bytes by names such as `RUN/found/unit-7`."""

    def put(self, name: str, pieces: Sequence[Any], durable: bool = True) -> bool:
        """Puts bytes in place, whole, unless something of that name is there. Says whether it was these. If they are `durable`, they are on the
        disk when this returns; if not, when `sync` does.

        A worker that was given up may still live, so two may finish the same unit. What is answered once is never answered otherwise."""

    def sync(self, names: Iterable[str]) -> None:
        """Brings to the disk what was put under these names."""

    def get(self, name: str) -> bytes:
        """The bytes of that name."""

    def read(self, name: str, start: int, length: int) -> bytes:
        """So many bytes from `start` on, or fewer if there are no more."""

    def has(self, name: str) -> bool:
        """Whether something of that name is there."""

    def names(self, prefix: str) -> list[str]:
        """What is behind the last `/` of the names `prefix/…`, sorted."""

    def remove(self, prefix: str, but: str | None = None) -> None:
        """Removes what is called `prefix` or `prefix/…`, except `prefix/BUT/…`."""

    def probe(self) -> None:
        """Finds out whether bytes can be put exclusively."""


@functools.lru_cache(maxsize=8)
def opened(address: str) -> Storage:
    """The storage at this address."""
    return Objects(address) if "://" in address else Folder(Path(address))


def address(given: Address, what: str = "storage") -> str:
    """The address of a storage, or of what else stands there, as it is told to workers."""
    name = os.fspath(given)
    if signed := signed_in(name):
        raise ConfigError(f"{what}: {signed}")
    scheme = name.partition("://")[0].lower()
    if "://" in name and scheme in ("file", "memory"):
        # Each worker would have one of its own.
        raise ConfigError(f"{what}: {name}: is no object store that several machines see; name a folder by its path, or an s3://, gs:// or az:// address")
    return name.rstrip("/") if "://" in name else os.path.abspath(name)


def signed_in(name: str) -> str | None:
    """Why an address is refused that has more than a place in it."""
    scheme, _, rest = name.partition("://")
    if "@" not in rest.partition("/")[0]:
        return None
    if scheme.lower() in ("abfs", "abfss"):
        return "has an account in its address; write az://container/folder, and name the account in AZURE_STORAGE_ACCOUNT_NAME"
    return "has a user or a password in its address; give them to the object store by its environment instead"


#: What clients of object stores sign in with, by the beginning of the address: what they find in the environment of their process.
SIGNS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, the path of a key file,",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY,",
}

#: A client that finds nothing to sign in with asks the machine it runs on, at these addresses. On Azure it does not know whom to ask for.
_NOTHING = re.compile(r"//(169\.254\.169\.254|metadata\.google\.internal)/|Account must be specified")

#: What an answer says where there is no bucket, or on Azure no container, of that name.
_NOWHERE = re.compile(r"NoSuchBucket|ContainerNotFound")

#: What an answer says to someone who may not.
REFUSED = re.compile(r"\b(401 Unauthorized|403 Forbidden)\b")


def helps(address: str, said: str, opened: bool = False) -> str | None:
    """What helps where a client of an object store says that it cannot sign in, or may not. When it is `opened`, nothing else has gone wrong yet."""
    signs = SIGNS.get(address.partition("://")[0].lower())
    if signs is None:
        return None
    if _NOTHING.search(said):
        return f"nothing to sign in with was found: set {signs} in the environment of this process, and of every worker of a cluster, and run again"
    if opened or REFUSED.search(said):
        return f"see that {signs} in the environment of this process, or of a cluster's worker, are right and allow that, and run again"
    return None


class StoreError(ConfigError):
    """An object store that does not do what it is asked."""

    #: What its client says of that.
    said: str = ""

    #: What helps, where that can be seen from what was said.
    helps: str | None = None


def why(error: Exception) -> str:
    """What a client of an object store says of an error, on a line. Behind that it has the request; what may be signed in an address is left out."""
    said = str(error).partition("\n\nDebug source")[0]
    # Of what the store answers only these two: others may have an id, a signature or a token.
    if answer := re.search(r"<[A-Za-z?!]", said):
        told = re.findall(r"<(Code|Message)(?:\s[^<>]*)?>([^<]*)</\1>", said[answer.start() :])
        said = said[: answer.start()] + "".join(f"<{name}>{text}</{name}>" for name, text in told)
    return " ".join(re.sub(r"\?[^\s\"<>]*", "", said).split())


class Folder:
    """A folder on a file system that every machine mounts under the same name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, name: str) -> Any:
        """A file, to be read."""
        return open(self.path / name, "rb")

    def put(self, name: str, pieces: Sequence[Any], durable: bool = True) -> bool:
        path = self.path / name
        beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            file = open(beside, "xb")
        except FileNotFoundError:
            # Folders that are made on the way have the mode of the last one: all of them are this user's alone.
            for folder in [*reversed(path.parent.relative_to(self.path).parents), path.parent.relative_to(self.path)]:
                (self.path / folder).mkdir(mode=0o700, exist_ok=True)
            file = open(beside, "xb")
        try:
            with file:
                os.chmod(beside, 0o600)
                for piece in pieces:
                    file.write(piece)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            # To make a second name for a file fails if that name exists, on every file system that machines can share.
            os.link(beside, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
                raise
            why = f"the storage cannot put a file in place exclusively ({error.strerror}); name a folder on NFS, CephFS, Lustre or a local disk"
            raise ConfigError(f"{path.parent}: {why}") from None
        finally:
            os.unlink(beside)
        if durable:
            to_disk(path.parent)
        return True

    def sync(self, names: Iterable[str]) -> None:
        folders = set()
        for name in names:
            to_disk(self.path / name)
            folders.add((self.path / name).parent)
        for folder in folders:
            to_disk(folder)

    def get(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def read(self, name: str, start: int, length: int) -> bytes:
        handle = os.open(self.path / name, os.O_RDONLY)
        try:
            pieces = []
            while length and (piece := os.pread(handle, length, start)):
                pieces.append(piece)
                start, length = start + len(piece), length - len(piece)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        finally:
            os.close(handle)

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def names(self, prefix: str) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self.path / prefix) if not entry.name.startswith("."))
        except FileNotFoundError:
            return []

    def remove(self, prefix: str, but: str | None = None) -> None:
        path = self.path / prefix
        if path.is_dir() and but is not None:
            for entry in os.scandir(path):
                if entry.name != but:
                    self.remove(f"{prefix}/{entry.name}")
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def probe(self) -> None:
        name = f"probe-{secrets.token_hex(8)}"
        try:
            # Readable by this user alone.
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            first, second = self.put(name, [b""]), self.put(name, [b""])
            (self.path / name).unlink()
        except OSError as error:
            why = f"{error.strerror}; name a folder that this machine and every worker can write to"
            raise ConfigError(f"storage: {self.path}: {why}") from None
        if not first or second:
            why = "a second file of the same name replaced the first; name a folder on NFS or a local disk"
            raise ConfigError(f"storage: {self.path}: {why}")


class Objects:
    """Objects below an address that `obstore` knows: `s3://`, `gs://`, `az://`. The store itself refuses a second object of one name, by the
    condition `If-None-Match: *` (S3 since 2024-08, Azure) or `ifGenerationMatch=0` (Google). What it has taken is durable."""

    def __init__(self, address: str, **options: Any) -> None:
        try:
            import obstore
            import obstore.store
        except ImportError as error:
            raise ConfigError(f"{address}: needs obstore: pip install 'vesica[sources]' ({error})") from None
        self.address, self._obstore = address, obstore
        with self._asked("opened"):
            self._store = obstore.store.from_url(address, **options)

    @contextlib.contextmanager
    def _asked(self, done: str, name: str | None = None) -> Iterator[None]:
        """Has what goes wrong say which object cannot be read, or what else is `done`, and what helps. That one is not there that is to be read is told
        by whoever asks for it."""
        try:
            yield
        except ConfigError:
            raise
        except Exception as error:
            if done == "read" and isinstance(error, FileNotFoundError):
                # Its own words are twenty lines, with the request.
                raise FileNotFoundError(f"{self.address}/{name}: is not there") from None
            what = self.address if name is None else f"{self.address}/{name}"
            said = why(error)
            remedy = helps(self.address, said, done == "opened")
            otherwise = "see that this machine reaches the store and may do that there, and run again"
            if _NOWHERE.search(said):
                otherwise = "name a bucket or container that is there, and run again"
            told = StoreError(f"{what}: cannot be {done}: {said}; {remedy or otherwise}")
            told.said, told.helps = said, remedy
            raise told from None

    def put(self, name: str, pieces: Sequence[Any], durable: bool = True) -> bool:
        from obstore.exceptions import AlreadyExistsError

        # An upload in several parts knows no condition.
        whole = bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
        with self._asked("put", name):
            try:
                self._obstore.put(self._store, name, whole, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def sync(self, names: Iterable[str]) -> None:
        return None

    def get(self, name: str) -> bytes:
        with self._asked("read", name):
            return bytes(self._obstore.get(self._store, name).bytes())

    def read(self, name: str, start: int, length: int) -> bytes:
        if not length:
            return b""
        from obstore.exceptions import GenericError

        with self._asked("read", name):
            try:
                return bytes(self._obstore.get_range(self._store, name, start=start, length=length))
            except GenericError:
                # A store refuses a range that begins behind the end, in words of its own.
                if start >= self.size(name):
                    return b""
                raise

    def has(self, name: str) -> bool:
        try:
            self.size(name)
        except FileNotFoundError:
            return False
        return True

    def upload(self, name: str, file: Any) -> None:
        """Puts what stands in a file, however large it is, whole and in the place of what had this name."""
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        # An upload in pieces has at most 10,000 of them, and its object appears when the last one is there.
        with self._asked("put", name):
            self._obstore.put(self._store, name, file, chunk_size=max(8 << 20, size // 9_000 + 1), max_concurrency=4)

    def open(self, name: str, size: int | None = None) -> Any:
        """An object, to be read as a file. The store is asked for its size if that is not known."""
        return io.BufferedReader(_Opened(self, name, self.size(name) if size is None else size), 1 << 20)

    def size(self, name: str) -> int:
        """How many bytes an object has."""
        return int(self.head(name)["size"])

    def head(self, name: str) -> Any:
        """What the store says of an object: its `path`, `size` and `last_modified`."""
        with self._asked("read", name):
            return self._obstore.head(self._store, name)

    def heads(self, prefix: str | None = None) -> Iterator[Any]:
        """What it says of all, or of those that are called `prefix/…`."""
        with self._asked("listed", prefix):
            for batch in self._obstore.list(self._store, prefix=prefix):
                yield from batch

    def below(self) -> Iterator[str]:
        """The names of all objects."""
        return (one["path"] for one in self.heads())

    def remove_all(self, names: Iterable[str]) -> None:
        """Removes these objects. S3 says nothing of one that is gone already; Google and Azure do, and it is no error there either."""
        if names := list(names):
            with self._asked("removed", names[0]):
                try:
                    self._obstore.delete(self._store, names)
                except FileNotFoundError:
                    # Those behind it may be there still.
                    for name in names:
                        with contextlib.suppress(FileNotFoundError):
                            self._obstore.delete(self._store, name)

    def _list(self, prefix: str) -> list[str]:
        return [one["path"] for one in self.heads(prefix)]

    def names(self, prefix: str) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self._list(prefix))

    def remove(self, prefix: str, but: str | None = None) -> None:
        paths = self._list(prefix) or [prefix] * self.has(prefix)
        if but is not None:
            paths = [path for path in paths if not path.startswith(f"{prefix}/{but}/")]
        self.remove_all(paths)

    def probe(self) -> None:
        name = f"probe-{secrets.token_hex(8)}"
        try:
            first, second = self.put(name, [b"first"]), self.put(name, [b"second"])
            stands = self.get(name)
            self.remove_all([name])
        except StoreError as error:
            otherwise = "name a bucket that this machine and every worker can write to"
            raise ConfigError(f"storage: {self.address}: {error.said}; {error.helps or otherwise}") from None
        if not first or second or stands != b"first":
            needs = "the store must know the condition If-None-Match, as S3, Google and Azure do"
            raise ConfigError(f"storage: {self.address}: a second object of the same name replaced the first; {needs}")


class _Opened(io.RawIOBase):
    """An object as Python has files that are read: what obstore opens has no `closed`, which Arrow asks for."""

    def __init__(self, there: Objects, name: str, size: int) -> None:
        self._there, self._name, self._size, self._at = there, name, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        found = self._there.read(self._name, self._at, max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def to_disk(path: Path) -> None:
    """Brings a file to the disk, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
