"""A launch configuration, run."""

from __future__ import annotations

import json
import warnings
from typing import Any

from .. import _core
from .._errors import ConfigError
from .._report import Report
from .link import Context


def run(config: dict[str, Any], context: Context, watch: Any = None) -> tuple[Report | None, int]:
    """Runs what `config` asks for over the link of `context`. Gives the report, or where nobody is told a result the rows that were read."""
    config = {"link_config": context.desc.config(), "self_link_party": context.name, **config}
    trust = context.trust
    text = json.dumps(config)
    report, rows, notes = _core.secretflow_run(text, trust.identity, trust.peers, trust.insecure, watch, None)
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=4)
    return (None if report is None else Report.from_json(report)), rows


def refuse(name: str, value: Any, why: str) -> ConfigError:
    """What is raised for an argument that cannot be honoured."""
    return ConfigError(f"{name} = {value!r}: {why}")
