//! SecretFlow's launch configuration: the messages of `psi/proto/entry.proto`, `psi_v2.proto`, `psi.proto` and yacl's `link.proto`,
//! field by field, with the names that older versions had.

use super::json::{Kind, Value, Wrong};
use super::message::{Anything, Read, choice, choose, message, plain};

message! {
    /// What SecretFlow's `main --config` reads.
    LaunchConfig {
        link_config: LinkConfig,
        self_link_party: String,
        legacy_psi_config: Option<LegacyConfig>,
        psi_config: Option<PsiConfig>,
        ub_psi_config: Option<UbPsiConfig>,
        apsi_sender_config: Option<Anything>,
        apsi_receiver_config: Option<Anything>,
        dk_pir_sender_config: Option<Anything>,
        dk_pir_receiver_config: Option<Anything>,
        /// Until July 2024.
        pir_config: Option<Anything>,
    }
}

message! {
    /// yacl's `ContextDescProto`: who the parties are, where they are, and how to talk to them.
    LinkConfig {
        id: String,
        parties: Vec<LinkParty>,
        connect_retry_times: u64,
        connect_retry_interval_ms: u64,
        recv_timeout_ms: u64,
        http_max_payload_size: u64,
        http_timeout_ms: u64,
        throttle_window_size: u64,
        brpc_channel_protocol: String,
        brpc_channel_connection_type: String,
        enable_ssl: bool,
        client_ssl_opts: SslOptions,
        server_ssl_opts: SslOptions,
        retry_opts: Option<RetryOptions>,
        chunk_parallel_send_size: u64,
    }
}

message! {
    /// A party and its address.
    LinkParty {
        id: String,
        host: String,
    }
}

message! {
    /// A certificate, and how the other side's is verified; depth 0 is not at all.
    SslOptions {
        certificate_path: String,
        private_key_path: String,
        verify_depth: u64,
        ca_file_path: String,
    }
}

message! {
    /// When a request is sent again.
    RetryOptions {
        max_retry: u64,
        retry_interval_ms: u64,
        retry_interval_incr_ms: u64,
        max_retry_interval_ms: u64,
        error_codes: Vec<u64>,
        http_codes: Vec<u64>,
        aggressive_retry: bool,
    }
}

message! {
    /// A balanced intersection (version 2 of the interface).
    PsiConfig {
        protocol_config: ProtocolConfig,
        input_config: IoConfig,
        output_config: IoConfig,
        /// In early versions; the launch configuration's own now.
        link_config: LinkConfig,
        /// In early versions; the launch configuration's own now.
        self_link_party: String,
        keys: Vec<String>,
        debug_options: DebugOptions,
        /// Until May 2025.
        skip_duplicates_check: Option<bool>,
        /// Until December 2023.
        check_duplicates: Option<bool>,
        /// Until December 2023.
        sort_output: Option<bool>,
        disable_alignment: bool,
        recovery_config: RecoveryConfig,
        advanced_join_type: JoinType,
        left_side: Role,
        check_hash_digest: bool,
        input_attr: InputAttr,
        output_attr: OutputAttr,
        intersection_threshold: u64,
        count_path: String,
    }
}

message! {
    /// An unbalanced intersection: the server has the large table, the client the small one.
    UbPsiConfig {
        mode: UbMode,
        role: Role,
        input_config: IoConfig,
        keys: Vec<String>,
        server_secret_key_path: String,
        cache_path: String,
        /// In early versions; `server_secret_key_path` now.
        server_secret_key_config: IoConfig,
        /// In early versions; `cache_path` now.
        cache_config: IoConfig,
        server_get_result: bool,
        client_get_result: bool,
        disable_alignment: bool,
        output_config: IoConfig,
        debug_options: DebugOptions,
        advanced_join_type: JoinType,
        left_side: Role,
        input_attr: InputAttr,
        output_attr: OutputAttr,
        intersection_threshold: u64,
        count_path: String,
    }
}

message! {
    /// An intersection as version 1 of the interface has it: `BucketPsiConfig` of `psi/proto/psi.proto`.
    LegacyConfig {
        psi_type: PsiType,
        receiver_rank: u64,
        broadcast_result: bool,
        input_params: InputParams,
        output_params: OutputParams,
        curve_type: Curve,
        bucket_size: u64,
        preprocess_path: String,
        ecdh_secret_key_path: String,
        dppsi_params: Option<Anything>,
    }
}

message! {
    /// The table.
    InputParams {
        path: String,
        select_fields: Vec<String>,
        precheck: bool,
    }
}

message! {
    /// The result.
    OutputParams {
        path: String,
        need_sort: bool,
    }
}

message! {
    /// The protocol.
    ProtocolConfig {
        protocol: Protocol,
        role: Role,
        broadcast_result: bool,
        ecdh_config: EcdhConfig,
        kkrt_config: BucketConfig,
        rr22_config: Rr22Config,
    }
}

message! {
    /// ECDH.
    EcdhConfig {
        curve: Curve,
        batch_size: u64,
    }
}

message! {
    /// KKRT.
    BucketConfig {
        bucket_size: u64,
    }
}

message! {
    /// RR22.
    Rr22Config {
        bucket_size: u64,
        low_comm_mode: bool,
    }
}

message! {
    /// A file.
    IoConfig {
        r#type: IoType,
        path: String,
    }
}

message! {
    /// Logs and traces.
    DebugOptions {
        logging_level: String,
        trace_path: String,
    }
}

message! {
    /// Checkpoints.
    RecoveryConfig {
        enabled: bool,
        folder: String,
    }
}

message! {
    /// What is known of the input.
    InputAttr {
        keys_unique: bool,
    }
}

message! {
    /// What the output looks like.
    OutputAttr {
        csv_null_rep: String,
    }
}

choice! {
    /// A protocol.
    Protocol {
        Unspecified = "PROTOCOL_UNSPECIFIED",
        Ecdh = "PROTOCOL_ECDH",
        Kkrt = "PROTOCOL_KKRT",
        Rr22 = "PROTOCOL_RR22",
    }
}

choice! {
    /// The steps of an unbalanced intersection.
    UbMode {
        Unspecified = "MODE_UNSPECIFIED",
        GenCache = "MODE_OFFLINE_GEN_CACHE",
        TransferCache = "MODE_OFFLINE_TRANSFER_CACHE",
        Offline = "MODE_OFFLINE",
        Online = "MODE_ONLINE",
        Full = "MODE_FULL",
    }
}

choice! {
    /// A protocol of version 1.
    PsiType {
        Invalid = "INVALID_PSI_TYPE",
        Ecdh = "ECDH_PSI_2PC",
        Kkrt = "KKRT_PSI_2PC",
        Bc22 = "BC22_PSI_2PC",
        EcdhOfThree = "ECDH_PSI_3PC",
        EcdhOfMany = "ECDH_PSI_NPC",
        KkrtOfMany = "KKRT_PSI_NPC",
        UnbalancedCache = "ECDH_OPRF_UB_PSI_2PC_GEN_CACHE",
        UnbalancedTransfer = "ECDH_OPRF_UB_PSI_2PC_TRANSFER_CACHE",
        UnbalancedOffline = "ECDH_OPRF_UB_PSI_2PC_OFFLINE",
        UnbalancedOnline = "ECDH_OPRF_UB_PSI_2PC_ONLINE",
        UnbalancedShuffle = "ECDH_OPRF_UB_PSI_2PC_SHUFFLE_ONLINE",
        DifferentiallyPrivate = "DP_PSI_2PC",
        Rr22Fast = "RR22_FAST_PSI_2PC",
        Rr22LowComm = "RR22_LOWCOMM_PSI_2PC",
        Rr22Malicious = "RR22_MALICIOUS_PSI_2PC",
    }
}

choice! {
    /// A party's role.
    Role {
        Unspecified = "ROLE_UNSPECIFIED",
        Receiver = "ROLE_RECEIVER",
        Sender = "ROLE_SENDER",
        Server = "ROLE_SERVER",
        Client = "ROLE_CLIENT",
    }
}

choice! {
    /// A curve.
    Curve {
        Invalid = "CURVE_INVALID_TYPE",
        Curve25519 = "CURVE_25519",
        FourQ = "CURVE_FOURQ",
        Sm2 = "CURVE_SM2",
        Secp256k1 = "CURVE_SECP256K1",
        Elligator2 = "CURVE_25519_ELLIGATOR2",
    }
}

choice! {
    /// What a file is.
    IoType {
        Unspecified = "IO_TYPE_UNSPECIFIED",
        Csv = "IO_TYPE_FILE_CSV",
    }
}

choice! {
    /// What the output holds.
    JoinType {
        Unspecified = "ADVANCED_JOIN_TYPE_UNSPECIFIED",
        Inner = "ADVANCED_JOIN_TYPE_INNER_JOIN",
        Left = "ADVANCED_JOIN_TYPE_LEFT_JOIN",
        Right = "ADVANCED_JOIN_TYPE_RIGHT_JOIN",
        Full = "ADVANCED_JOIN_TYPE_FULL_JOIN",
        Difference = "ADVANCED_JOIN_TYPE_DIFFERENCE",
    }
}
