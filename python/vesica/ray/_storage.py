"""The folder that all workers see. What is put there is put once: the first file stands."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from .._errors import ConfigError


def put(path: Path, data: bytes) -> bool:
    """Puts a file in place, whole and on the disk, unless one of its name is there. Says whether it was this one.

    A worker that was given up may still live, so two may finish the same unit. What is answered once is never answered otherwise:
    making a second name for a file fails if that name exists, on every file system that workers on several machines can share.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with open(beside, "xb") as file:
        os.chmod(beside, 0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError as error:
        why = f"the storage cannot put a file in place exclusively ({error.strerror}); name a folder on NFS, CephFS, Lustre or a local disk"
        raise ConfigError(f"{path.parent}: {why}") from None
    finally:
        os.unlink(beside)
    sync(path.parent)
    return True


def sync(path: Path) -> None:
    """Brings a file to the disk, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def names(folder: Path) -> list[str]:
    """The files in `folder` that are whole, sorted."""
    return sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))


def probe(folder: Path) -> None:
    """Makes the folder, readable by this user alone, and finds out whether a file can be put in place there exclusively."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = folder / f"probe-{secrets.token_hex(8)}"
        first, second = put(name, b""), put(name, b"")
        name.unlink()
    except OSError as error:
        raise ConfigError(f"storage: {folder}: {error.strerror}; name a folder that this machine and every worker can write to") from None
    if not first or second:
        raise ConfigError(f"storage: {folder}: a second file of the same name replaced the first; name a folder on NFS or a local disk")
