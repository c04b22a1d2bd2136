"""Exceptions, one for each side that can be at fault."""

from __future__ import annotations


class VesicaError(Exception):
    """What every exception of this package is.

    >>> import vesica
    >>> try:
    ...     vesica.run({"shared": {}, "mine": {}})
    ... except vesica.VesicaError as error:
    ...     type(error).__name__, error.fault, error.exit_code
    ('ConfigError', 'config', 2)
    """

    #: Whose fault it is, in one word, as reports have it.
    fault: str = "bug"
    #: What the command would have ended with.
    exit_code: int = 70

    @property
    def remedy(self) -> str:
        """What to do about it: the last part of the message, which may be all of it."""
        message = str(self)
        for mark in ("; ", ": "):
            head, found, tail = message.rpartition(mark)
            if found and head and tail:
                return tail
        return message


class ConfigError(VesicaError):
    """The job asks for what cannot be."""

    fault, exit_code = "config", 2


class InputError(VesicaError):
    """The data is at fault: a table that cannot be read, or not be a key."""

    fault, exit_code = "input", 3


class NetworkError(VesicaError):
    """The connection is at fault. Running again may help."""

    fault, exit_code = "network", 4


class PeerError(VesicaError):
    """Another party is at fault: it runs another job, is somebody else, or broke the protocol."""

    fault, exit_code = "peer", 5


class InternalError(VesicaError):
    """This package is at fault. Please report it."""

    fault, exit_code = "bug", 70


class Stopped(VesicaError):
    """The run was stopped from this side."""

    fault, exit_code = "interrupted", 130
