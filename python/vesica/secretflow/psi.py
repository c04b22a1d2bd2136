"""`psi_execute`, `ub_psi_execute` and their classes, as `spu.psi` has them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeVar

from ._run import refuse, run
from .link import Context

__all__ = [
    "CheckpointConfig",
    "DpParams",
    "EcdhParams",
    "EllipticCurveType",
    "InputParams",
    "OutputParams",
    "ProgressData",
    "ProgressParams",
    "PsiExecuteConfig",
    "PsiExecuteReport",
    "PsiProtocol",
    "PsiProtocolConfig",
    "ResultJoinConfig",
    "ResultJoinType",
    "Rr22Rarams",
    "SourceType",
    "UbPsiExecuteConfig",
    "UbPsiMode",
    "UbPsiRole",
    "UbPsiServerParams",
    "parse_curve_type",
    "parse_join_type",
    "parse_protocol",
    "parse_source_type",
    "parse_ub_psi_mode",
    "parse_ub_psi_role",
    "psi_execute",
    "ub_psi_execute",
]


class PsiProtocol(IntEnum):
    """Protocols."""

    PROTOCOL_UNSPECIFIED = 0
    PROTOCOL_ECDH = 1
    PROTOCOL_KKRT = 2
    PROTOCOL_RR22 = 3
    PROTOCOL_ECDH_3PC = 4
    PROTOCOL_ECDH_NPC = 5
    PROTOCOL_KKRT_NPC = 6
    PROTOCOL_DP = 7


class EllipticCurveType(IntEnum):
    """Curves."""

    CURVE_INVALID_TYPE = 0
    CURVE_25519 = 1
    CURVE_FOURQ = 2
    CURVE_SM2 = 3
    CURVE_SECP256K1 = 4
    CURVE_25519_ELLIGATOR2 = 5


class SourceType(IntEnum):
    """Formats."""

    SOURCE_TYPE_UNSPECIFIED = 0
    SOURCE_TYPE_FILE_CSV = 1


class ResultJoinType(IntEnum):
    """Joins."""

    JOIN_TYPE_UNSPECIFIED = 0
    JOIN_TYPE_INNER_JOIN = 1
    JOIN_TYPE_LEFT_JOIN = 2
    JOIN_TYPE_RIGHT_JOIN = 3
    JOIN_TYPE_FULL_JOIN = 4
    JOIN_TYPE_DIFFERENCE = 5


class UbPsiMode(IntEnum):
    """Steps of an unbalanced intersection."""

    MODE_UNSPECIFIED = 0
    MODE_OFFLINE_GEN_CACHE = 1
    MODE_OFFLINE_TRANSFER_CACHE = 2
    MODE_OFFLINE = 3
    MODE_ONLINE = 4
    MODE_FULL = 5


class UbPsiRole(IntEnum):
    """Roles of an unbalanced intersection."""

    ROLE_UNSPECIFIED = 0
    ROLE_SERVER = 3
    ROLE_CLIENT = 4


E = TypeVar("E", bound=IntEnum)


def _parser(kind: type[E]) -> Callable[[str], E]:
    def parse(text: str) -> E:
        """The member called `text`; the first one, which means nothing, for a text that names none."""
        return kind.__members__.get(text, kind(0))

    return parse


parse_protocol = _parser(PsiProtocol)
parse_curve_type = _parser(EllipticCurveType)
parse_source_type = _parser(SourceType)
parse_join_type = _parser(ResultJoinType)
parse_ub_psi_mode = _parser(UbPsiMode)
parse_ub_psi_role = _parser(UbPsiRole)


@dataclass
class EcdhParams:
    curve: EllipticCurveType = EllipticCurveType.CURVE_INVALID_TYPE
    batch_size: int = 4096


@dataclass
class Rr22Rarams:  # the name is SecretFlow's
    low_comm_mode: bool = False


@dataclass
class DpParams:
    bob_sub_sampling: float = 0.9
    epsilon: float = 3.0


@dataclass
class PsiProtocolConfig:
    protocol: PsiProtocol = PsiProtocol.PROTOCOL_UNSPECIFIED
    receiver_rank: int = 0
    bucket_size: int = 1 << 20
    broadcast_result: bool = False
    ecdh_params: EcdhParams = field(default_factory=EcdhParams)
    rr22_params: Rr22Rarams = field(default_factory=Rr22Rarams)
    dp_params: DpParams = field(default_factory=DpParams)


@dataclass
class InputParams:
    type: SourceType = SourceType.SOURCE_TYPE_FILE_CSV
    path: str = ""
    selected_keys: list[str] = field(default_factory=list)
    keys_unique: bool = False


@dataclass
class OutputParams:
    type: SourceType = SourceType.SOURCE_TYPE_FILE_CSV
    path: str = ""
    disable_alignment: bool = False
    csv_null_rep: str = "NULL"


@dataclass
class ResultJoinConfig:
    type: ResultJoinType = ResultJoinType.JOIN_TYPE_INNER_JOIN
    left_side_rank: int = 0


@dataclass
class CheckpointConfig:
    enable: bool = False
    path: str = ""


@dataclass
class PsiExecuteConfig:
    protocol_conf: PsiProtocolConfig
    input_params: InputParams
    output_params: OutputParams
    join_conf: ResultJoinConfig = field(default_factory=ResultJoinConfig)
    checkpoint_conf: CheckpointConfig = field(default_factory=CheckpointConfig)


@dataclass
class UbPsiServerParams:
    secret_key_path: str = ""


@dataclass
class UbPsiExecuteConfig:
    mode: UbPsiMode
    role: UbPsiRole
    server_receive_result: bool = False
    client_receive_result: bool = False
    cache_path: str = ""
    input_params: InputParams = field(default_factory=InputParams)
    output_params: OutputParams = field(default_factory=OutputParams)
    server_params: UbPsiServerParams = field(default_factory=UbPsiServerParams)
    join_conf: ResultJoinConfig = field(default_factory=ResultJoinConfig)


@dataclass
class ProgressData:
    """How far a run is: of `total` phases so many are `finished` and so many `running`."""

    total: int
    finished: int
    running: int
    percentage: int
    description: str


@dataclass
class ProgressParams:
    """`hook` is called with a `ProgressData`, at most once in `interval_ms`, and at the end."""

    hook: Callable[[ProgressData], Any] | None = None
    interval_ms: int = 5000


@dataclass
class PsiExecuteReport:
    """Counts of rows and of distinct keys. An intersection's is -1 for a party that gets no result."""

    original_count: int
    intersection_count: int
    original_unique_count: int
    intersection_unique_count: int


#: The phases of a run, in their order.
_PHASES = ("read", "connect", "agree", "partition", "match", "compare", "settle", "write", "finish", "close")


class Watching:
    """Turns events into calls of a hook."""

    def __init__(self, params: ProgressParams) -> None:
        self.params, self.at, self.done, self.total = params, 0, 0, None
        self.name = _PHASES[0]
        self.told: float | None = None

    def __call__(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "phase" and event["name"] in _PHASES:
            self.name, self.done, self.total = event["name"], 0, event["total"]
            self.at = _PHASES.index(self.name)
        elif kind == "total":
            self.total = event["total"]
        elif kind == "done":
            self.done = event["done"]
        now = time.monotonic()
        if self.told is None or now - self.told >= self.params.interval_ms / 1000:
            self.tell()
            self.told = now

    def tell(self, over: bool = False) -> None:
        """Calls the hook."""
        if self.params.hook is None:
            return
        n = len(_PHASES)
        if over:
            return self.params.hook(ProgressData(n, n, 0, 100, "done"))
        part = min(1.0, self.done / self.total) if self.total else 0.0
        self.params.hook(ProgressData(n, self.at, 1, int(100 * (self.at + part) / n), self.name))


def psi_execute(
    config: PsiExecuteConfig, lctx: Context, progress_params: ProgressParams | None = None
) -> PsiExecuteReport:
    """A balanced intersection."""
    psi_type = OF_VERSION_1.get(config.protocol_conf.protocol)
    made = balanced(config, lctx) if psi_type is None else legacy(config, psi_type)
    watching = Watching(progress_params or ProgressParams())
    report, _ = run(made, lctx, watching if watching.params.hook else None)
    watching.tell(over=True)
    assert report is not None
    return counted(report)


def counted(report: Any) -> PsiExecuteReport:
    """The four counts of a report."""
    o = report.outcome
    matched = -1 if o.matched_rows is None else o.matched_rows
    unique = -1 if o.matched is None else o.matched
    return PsiExecuteReport(o.rows, matched, o.keys, unique)


def balanced(config: PsiExecuteConfig, lctx: Context) -> dict[str, Any]:
    """The launch configuration of an intersection of two tables."""
    conf, join = config.protocol_conf, config.join_conf
    name = PsiProtocol(conf.protocol).name
    if name == "PROTOCOL_DP":
        raise refuse("protocol_conf.protocol", name, "the noise of dp counts against a budget, which only a job file names: protocol = \"dp\"")
    protocol: dict[str, Any] = {
        "protocol": name,
        "role": "ROLE_RECEIVER" if lctx.rank == conf.receiver_rank else "ROLE_SENDER",
        "broadcast_result": conf.broadcast_result,
    }
    if name == "PROTOCOL_ECDH":
        curve = EllipticCurveType(conf.ecdh_params.curve).name
        protocol["ecdh_config"] = {"curve": curve, "batch_size": conf.ecdh_params.batch_size}
    elif name == "PROTOCOL_KKRT":
        protocol["kkrt_config"] = {"bucket_size": conf.bucket_size}
    elif name == "PROTOCOL_RR22":
        protocol["rr22_config"] = {"bucket_size": conf.bucket_size, "low_comm_mode": conf.rr22_params.low_comm_mode}
    return {
        "psi_config": {
            "protocol_config": protocol,
            "keys": list(config.input_params.selected_keys),
            **_tables(config.input_params, config.output_params),
            "recovery_config": {"enabled": config.checkpoint_conf.enable, "folder": config.checkpoint_conf.path},
            "check_hash_digest": True,
            **_join(join, "ROLE_RECEIVER" if join.left_side_rank == conf.receiver_rank else "ROLE_SENDER"),
        }
    }


# What only version 1 of SecretFlow's configurations has, by its name there: protocols of three and more parties.
OF_VERSION_1 = {
    PsiProtocol.PROTOCOL_ECDH_3PC: "ECDH_PSI_3PC",
    PsiProtocol.PROTOCOL_ECDH_NPC: "ECDH_PSI_NPC",
    PsiProtocol.PROTOCOL_KKRT_NPC: "KKRT_PSI_NPC",
}


def legacy(config: PsiExecuteConfig, psi_type: str) -> dict[str, Any]:
    """The launch configuration, in version 1, of an intersection of `psi_type`."""
    conf = config.protocol_conf
    if config.join_conf.type not in (ResultJoinType.JOIN_TYPE_INNER_JOIN, ResultJoinType.JOIN_TYPE_UNSPECIFIED):
        raise refuse("join_conf.type", config.join_conf.type.name, f"{psi_type} gives an inner join")
    if config.checkpoint_conf.enable:
        raise refuse("checkpoint_conf.enable", True, f"with {psi_type} the mine.resume of a job file does that")
    # The others need no curve, and would warn of one.
    curve = {"curve_type": EllipticCurveType(conf.ecdh_params.curve).name} if psi_type == "ECDH_PSI_3PC" else {}
    return {
        "legacy_psi_config": {
            "psi_type": psi_type,
            "receiver_rank": conf.receiver_rank,
            "broadcast_result": conf.broadcast_result,
            **curve,
            "input_params": {
                "path": config.input_params.path,
                "select_fields": list(config.input_params.selected_keys),
                "precheck": False,
            },
            "output_params": {"path": config.output_params.path, "need_sort": not config.output_params.disable_alignment},
        }
    }


def _tables(input: InputParams, output: OutputParams) -> dict[str, Any]:
    for name, params in (("input_params.type", input), ("output_params.type", output)):
        if params.type != SourceType.SOURCE_TYPE_FILE_CSV:
            raise refuse(name, params.type, "SecretFlow's interface has CSV only; vesica.run reads and writes all formats")
    return {
        "input_config": {"type": "IO_TYPE_FILE_CSV", "path": input.path},
        "input_attr": {"keys_unique": input.keys_unique},
        "output_config": {"type": "IO_TYPE_FILE_CSV", "path": output.path},
        "output_attr": {"csv_null_rep": output.csv_null_rep},
        "disable_alignment": output.disable_alignment,
    }


def _join(join: ResultJoinConfig, left: str) -> dict[str, Any]:
    name = ResultJoinType(join.type).name.removeprefix("JOIN_TYPE_")
    if name in ("INNER_JOIN", "UNSPECIFIED"):
        return {"advanced_join_type": "ADVANCED_JOIN_TYPE_" + name}
    return {"advanced_join_type": "ADVANCED_JOIN_TYPE_" + name, "left_side": left}


def ub_psi_execute(config: UbPsiExecuteConfig, lctx: Context) -> PsiExecuteReport:
    """An unbalanced intersection, or one step of it."""
    server = config.role == UbPsiRole.ROLE_SERVER
    left = "ROLE_SERVER" if (config.join_conf.left_side_rank == lctx.rank) == server else "ROLE_CLIENT"
    made: dict[str, Any] = {
        "mode": UbPsiMode(config.mode).name,
        "role": UbPsiRole(config.role).name,
        "cache_path": config.cache_path,
        "server_get_result": config.server_receive_result,
        "client_get_result": config.client_receive_result,
        "keys": list(config.input_params.selected_keys),
        **_tables(config.input_params, config.output_params),
        **_join(config.join_conf, left),
    }
    if config.server_params.secret_key_path:
        made["server_secret_key_path"] = config.server_params.secret_key_path
    report, rows = run({"ub_psi_config": made}, lctx)
    return PsiExecuteReport(rows, -1, 0, 0) if report is None else counted(report)
