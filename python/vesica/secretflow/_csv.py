"""`psi_csv`, as SecretFlow's SPU device had it until July 2025."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._run import refuse, run
from .link import Context, Desc, Trust
from .psi import (
    OF_VERSION_1,
    EcdhParams,
    InputParams,
    OutputParams,
    ProgressData,
    ProgressParams,
    PsiExecuteConfig,
    PsiProtocol,
    PsiProtocolConfig,
    Rr22Rarams,
    UbPsiExecuteConfig,
    UbPsiMode,
    UbPsiRole,
    UbPsiServerParams,
    Watching,
    balanced,
    counted,
    legacy,
    parse_curve_type,
    ub_psi_execute,
)

# Matched by configurations of version 2.
_BALANCED = {
    "ECDH_PSI_2PC": PsiProtocol.PROTOCOL_ECDH,
    "KKRT_PSI_2PC": PsiProtocol.PROTOCOL_KKRT,
    "RR22_FAST_PSI_2PC": PsiProtocol.PROTOCOL_RR22,
    "RR22_LOWCOMM_PSI_2PC": PsiProtocol.PROTOCOL_RR22,
    "PROTOCOL_ECDH": PsiProtocol.PROTOCOL_ECDH,
    "PROTOCOL_KKRT": PsiProtocol.PROTOCOL_KKRT,
    "PROTOCOL_RR22": PsiProtocol.PROTOCOL_RR22,
}

# Matched by configurations of version 1.
_LEGACY = {name: name for name in ["ECDH_PSI_3PC", "ECDH_PSI_NPC", "KKRT_PSI_NPC", "BC22_PSI_2PC"]} | {
    protocol.name: psi_type for protocol, psi_type in OF_VERSION_1.items()
}

_UNBALANCED = {
    "ECDH_OPRF_UB_PSI_2PC_OFFLINE": UbPsiMode.MODE_OFFLINE,
    "ECDH_OPRF_UB_PSI_2PC_ONLINE": UbPsiMode.MODE_ONLINE,
}


class SPU:
    """The parties of `psi_csv`. `cluster_def` and `link_desc` are SecretFlow's.

    With `party`, this process is that party, and the others call the same on their machines. Without it, all are run here, each on a
    thread, for trying things out. `identity`, `peers` and `insecure` say how the parties know each other, as for
    `vesica.secretflow.link.create_brpc`.
    """

    def __init__(
        self,
        cluster_def: dict[str, Any],
        link_desc: dict[str, Any] | None = None,
        *,
        party: str | None = None,
        identity: str | None = None,
        peers: list[str] | None = None,
        insecure: bool = False,
    ) -> None:
        nodes = sorted(cluster_def["nodes"], key=lambda node: node["party"])
        self.desc = Desc(**(link_desc or {}))
        for node in nodes:
            if node.get("tls_opts"):
                raise refuse("cluster_def.nodes.tls_opts", node["party"], "give identity= and peers= in place of SecretFlow's certificates")
            self.desc.add_party(node["party"], node["address"])
        self.names = [node["party"] for node in nodes]
        if party is not None and party not in self.names:
            raise refuse("party", party, f"cluster_def.nodes has {', '.join(self.names)}")
        self.party, self.trust = party, Trust(identity, list(peers or []), insecure)

    def psi_csv(
        self,
        key: Any,
        input_path: Any,
        output_path: Any,
        receiver: str,
        protocol: str = "KKRT_PSI_2PC",
        precheck_input: bool = True,
        sort: bool = True,
        broadcast_result: bool = True,
        bucket_size: int = 1 << 20,
        curve_type: str = "CURVE_25519",
        preprocess_path: Any = None,
        ecdh_secret_key_path: Any = None,
        dppsi_bob_sub_sampling: float = 0.9,
        dppsi_epsilon: float = 3,
        progress_callbacks: Callable[[str, ProgressData], Any] | None = None,
        callbacks_interval_ms: int = 5000,
        ic_mode: bool = False,
    ) -> list[dict[str, Any]]:
        """Matches CSV files; gives `{party, original_count, intersection_count}` for each party that this process is.

        `key`, `input_path`, `output_path`, `preprocess_path` and `ecdh_secret_key_path` are the same for all parties, or a dict with
        one for each, by name (or by anything whose `party` is the name). `precheck_input` makes keys that repeat an error.
        """
        if ic_mode:
            raise refuse("ic_mode", True, "the interconnection standard's messages are not spoken; leave it out")
        if protocol not in _BALANCED | _LEGACY | _UNBALANCED:
            known = ", ".join(_BALANCED | _LEGACY | _UNBALANCED)
            raise refuse("protocol", protocol, f"is not matched by psi_csv here; there are {known}")
        if receiver not in self.names:
            raise refuse("receiver", receiver, f"is not one of the parties, {', '.join(self.names)}")
        del dppsi_bob_sub_sampling, dppsi_epsilon  # of a protocol that is refused above

        def one(name: str) -> dict[str, Any]:
            rank = self.names.index(name)
            context = Context(self.desc, rank, self.trust)
            keys = _of(key, name, "key")
            keys = [keys] if isinstance(keys, str) else list(keys)
            input = InputParams(path=str(_of(input_path, name, "input_path")), selected_keys=keys, keys_unique=precheck_input)
            output = OutputParams(path=str(_of(output_path, name, "output_path")), disable_alignment=not sort)
            if protocol in _UNBALANCED:
                client = name == receiver
                report = ub_psi_execute(
                    UbPsiExecuteConfig(
                        mode=_UNBALANCED[protocol],
                        role=UbPsiRole.ROLE_CLIENT if client else UbPsiRole.ROLE_SERVER,
                        server_receive_result=broadcast_result,
                        client_receive_result=True,
                        # SecretFlow's is a file on one side; here each side has a folder, and both may be on one machine.
                        cache_path=f"{_of(preprocess_path, name, 'preprocess_path')}.{name}",
                        input_params=input,
                        output_params=output,
                        server_params=UbPsiServerParams("" if client else str(_of(ecdh_secret_key_path, name, "ecdh_secret_key_path") or "")),
                    ),
                    context,
                )
                return {"party": name, "original_count": report.original_count, "intersection_count": report.intersection_count}
            config = PsiExecuteConfig(
                protocol_conf=PsiProtocolConfig(
                    protocol=_BALANCED.get(protocol, PsiProtocol.PROTOCOL_UNSPECIFIED),
                    receiver_rank=self.names.index(receiver),
                    bucket_size=bucket_size,
                    broadcast_result=broadcast_result,
                    ecdh_params=EcdhParams(curve=parse_curve_type(curve_type)),
                    rr22_params=Rr22Rarams(low_comm_mode=protocol == "RR22_LOWCOMM_PSI_2PC"),
                ),
                input_params=input,
                output_params=output,
            )
            made = legacy(config, _LEGACY[protocol]) if protocol in _LEGACY else balanced(config, context)
            watching = None
            if progress_callbacks is not None:
                watching = Watching(ProgressParams(lambda data: progress_callbacks(name, data), callbacks_interval_ms))
            report, _ = run(made, context, watching)
            if watching is not None:
                watching.tell(over=True)
            counts = counted(report)
            return {"party": name, "original_count": counts.original_count, "intersection_count": counts.intersection_count}

        if self.party is not None:
            return [one(self.party)]
        with concurrent.futures.ThreadPoolExecutor(len(self.names)) as pool:
            running = [pool.submit(one, name) for name in self.names]
            return [future.result() for future in running]


def _of(value: Any, name: str, what: str) -> Any:
    """What `value` says for the party called `name`."""
    if not isinstance(value, dict):
        return value if not isinstance(value, Path) else str(value)
    for party, own in value.items():
        if name in (party, getattr(party, "party", None)):
            return own
    raise refuse(what, sorted(map(str, value)), f"says nothing for {name}; add it")


def psi_csv(
    cluster_def: dict[str, Any],
    *args: Any,
    link_desc: dict[str, Any] | None = None,
    party: str | None = None,
    identity: str | None = None,
    peers: list[str] | None = None,
    insecure: bool = False,
    **options: Any,
) -> list[dict[str, Any]]:
    """`SPU(cluster_def, link_desc, …).psi_csv(*args, **options)`."""
    spu = SPU(cluster_def, link_desc, party=party, identity=identity, peers=peers, insecure=insecure)
    return spu.psi_csv(*args, **options)
