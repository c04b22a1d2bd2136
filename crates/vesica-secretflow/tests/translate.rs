//! SecretFlow's configurations: what they mean as jobs, what is refused, what is noted; and the dialect of JSON.

use proptest::prelude::*;
use std::path::Path;
use vesica_secretflow::{Client, Imported, Kind, Server, Trust, What, read};
use vesica_spec::{Accept, Connect, CurveName, Extra, Format, Join, Mode, Order, Pins, ProtocolName, Spec, SpecError};

/// The two files of SecretFlow's "PSI V2 Benchmark", byte for byte.
const SENDER: &str = include_str!("configs/sender.config");
const RECEIVER: &str = include_str!("configs/receiver.config");

/// A party of a job with the fields of SecretFlow's `examples/psi/config/*.json`; `more` goes into its `psi_config`.
fn example(role: &str, protocol: &str, more: &str) -> String {
    let upper = role.to_uppercase();
    format!(
        r#"{{
    "psi_config": {{
        "protocol_config": {{ {protocol}, "role": "ROLE_{upper}", "broadcast_result": true }},
        "input_config": {{ "type": "IO_TYPE_FILE_CSV", "path": "/tmp/{role}_input.csv" }},
        "output_config": {{ "type": "IO_TYPE_FILE_CSV", "path": "/tmp/{role}_output.csv" }},
        "keys": ["id_0", "id_1"]{more}
    }},
    "link_config": {{
        "parties": [{{ "id": "receiver", "host": "127.0.0.1:5300" }}, {{ "id": "sender", "host": "127.0.0.1:5400" }}]
    }},
    "self_link_party": "{role}"
}}"#
    )
}

/// What a file asks for, where the test knows of which kind it is.
trait Asked {
    fn spec(&self) -> Spec;
    fn server(&self) -> Server;
    fn client(&self) -> Client;
}

impl Asked for Imported {
    #[track_caller]
    fn spec(&self) -> Spec {
        let What::Job(spec) = &self.what else { panic!("{:?}", self.what) };
        (**spec).clone()
    }

    #[track_caller]
    fn server(&self) -> Server {
        let What::Server(server) = &self.what else { panic!("{:?}", self.what) };
        (**server).clone()
    }

    #[track_caller]
    fn client(&self) -> Client {
        let What::Client(client) = &self.what else { panic!("{:?}", self.what) };
        (**client).clone()
    }
}

const ECDH: &str = r#""protocol": "PROTOCOL_ECDH", "ecdh_config": { "curve": "CURVE_25519" }"#;

fn plain(role: &str) -> String {
    example(role, ECDH, "")
}

fn import(text: &str) -> Result<Imported, SpecError> {
    read(text, Kind::Launch, &Trust::AsWritten)
}

/// The job, which is also a valid one.
#[track_caller]
fn spec(text: &str) -> Spec {
    let spec = import(text).unwrap_or_else(|e| panic!("{e}\n{text}")).spec();
    vesica_spec::plan(&spec).unwrap();
    spec
}

/// `text` with `from` replaced, which must be there.
#[track_caller]
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in {text}");
    text.replace(from, to)
}

#[track_caller]
fn refused(text: &str, field: &str, words: &str) {
    let error = import(text).unwrap_err();
    assert_eq!(error.field.as_deref(), Some(field), "{error}");
    assert!(error.message.contains(words), "{error}");
}

/// The fields of the notes.
#[track_caller]
fn noted(text: &str) -> Vec<String> {
    import(text).unwrap_or_else(|e| panic!("{e}")).notes.into_iter().map(|note| note.field).collect()
}

/// Both parties hold the same shared document.
#[track_caller]
fn pair(receiver: &str, sender: &str) -> [Spec; 2] {
    let both = [spec(receiver), spec(sender)];
    assert_eq!(both[0].shared, both[1].shared);
    assert_eq!(both[0].shared.hash(), both[1].shared.hash());
    both
}

#[test]
fn the_files_of_the_benchmark_are_read_as_they_are() {
    let [receiver, sender] = [RECEIVER, SENDER];
    let [a, b] = pair(receiver, sender);
    assert_eq!((a.shared.id.as_str(), &a.shared.parties[..]), ("root", &["receiver".into(), "sender".into()][..]));
    assert_eq!((a.shared.protocol, a.shared.unit, a.shared.join), (ProtocolName::Kkrt, None, Join::Inner));
    assert_eq!((&a.shared.learns[..], a.shared.insecure), (&["receiver".to_owned()][..], true));
    assert_eq!((a.mine.name.as_str(), a.mine.listen.as_deref()), ("receiver", Some("127.0.0.1:5300")));
    assert_eq!((b.mine.name.as_str(), &b.mine.connect["receiver"]), ("sender", &Connect::from("127.0.0.1:5300")));
    assert_eq!((&a.mine.input.keys[..], a.mine.input.format), (&["id".to_owned()][..], Some(Format::Csv)));
    assert_eq!(a.mine.input.origin.name().to_str(), Some("/home/zuoxian/v2psi/datas/psi_2_1kw.csv"));
    assert_eq!(a.mine.output.unwrap().path.to_str(), Some("/home/zuoxian/v2psi/receiver/receiver_output.csv"));
    assert_eq!(a.mine.trace.unwrap().to_str(), Some("/home/zuoxian/v2psi/receiver/receiver.trace"));
    assert_eq!(b.mine.output, None);
    assert_eq!(
        noted(sender),
        [
            "link_config.enable_ssl",
            "psi_config.skip_duplicates_check",
            "psi_config.output_config",
            "psi_config.left_side"
        ]
    );
    assert_eq!(
        noted(receiver),
        [
            "link_config.enable_ssl",
            "psi_config.skip_duplicates_check",
            "psi_config.protocol_config.broadcast_result",
            "psi_config.left_side"
        ]
    );
}

#[test]
fn the_example_of_the_inner_join_is_a_job() {
    let more = r#", "debug_options": { "trace_path": "/tmp/ecdh.trace" }, "disable_alignment": true,
        "advanced_join_type": "ADVANCED_JOIN_TYPE_INNER_JOIN""#;
    let [receiver, sender] = ["receiver", "sender"].map(|role| example(role, ECDH, more));
    let [a, b] = pair(&receiver, &sender);
    assert_eq!(a.shared.learns, ["receiver", "sender"]);
    assert_eq!(a.shared.curve, CurveName::Curve25519);
    let curves = [("2", CurveName::FourQ), ("\"CURVE_SM2\"", CurveName::Sm2), ("4", CurveName::Secp256k1)];
    for (written, curve) in curves {
        assert_eq!(spec(&changed(&plain("sender"), "\"CURVE_25519\"", written)).shared.curve, curve);
    }
    assert_eq!((&a.mine.input.keys[..], b.mine.output.is_some()), (&["id_0".into(), "id_1".into()][..], true));
    assert_eq!((a.mine.output.unwrap().order, b.shared.join), (Order::Input, Join::Inner));
    assert_eq!(noted(&receiver), ["link_config.enable_ssl"]);
}

#[test]
fn the_examples_of_recovery_resume() {
    let [receiver, sender] = ["receiver", "sender"].map(|role| {
        let more = format!(r#", "recovery_config": {{ "enabled": true, "folder": "/tmp/{role}_cache" }}"#);
        example(role, ECDH, &more)
    });
    let [a, b] = pair(&receiver, &sender);
    assert_eq!(
        (a.mine.resume.unwrap().to_str(), b.mine.resume.unwrap().to_str()),
        (Some("/tmp/receiver_cache"), Some("/tmp/sender_cache"))
    );
    refused(&changed(&sender, "/tmp/sender_cache", ""), "psi_config.recovery_config.folder", "is missing");
    let off = changed(&sender, "\"enabled\": true", "\"enabled\": false");
    assert_eq!((spec(&off).mine.resume, &noted(&off)[1][..]), (None, "psi_config.recovery_config.folder"));
}

#[test]
fn the_examples_of_rr22_are_jobs() {
    let rr22 = |more: &str| format!(r#""protocol": "PROTOCOL_RR22"{more}"#);
    let plainly = spec(&example("sender", &rr22(""), ""));
    assert_eq!((plainly.shared.protocol, plainly.shared.unit), (ProtocolName::Rr22, None));
    let low = spec(&example("sender", &rr22(r#", "rr22_config": { "low_comm_mode": true }"#), "")).shared;
    assert_eq!((plainly.shared.mode, low.mode), (Mode::Fast, Mode::LowComm));
    for (size, unit) in [("1000000", 1_000_000), ("\"4096\"", 4096), ("4294967296", 1 << 20)] {
        let bucket = rr22(&format!(r#", "rr22_config": {{ "bucket_size": {size} }}"#));
        let [a, _] = pair(&example("receiver", &bucket, ""), &example("sender", &bucket, ""));
        assert_eq!(a.shared.unit, Some(unit));
    }
    let huge = example("receiver", &rr22(r#", "rr22_config": { "bucket_size": 4294967296 }"#), "");
    assert_eq!(noted(&huge)[1], "psi_config.protocol_config.rr22_config.bucket_size");
}

#[test]
fn the_examples_of_kkrt_are_jobs() {
    let kkrt = r#""protocol": "PROTOCOL_KKRT", "kkrt_config": { "bucket_size": 4096 }"#;
    let more = r#", "disable_alignment": true, "recovery_config": { "enabled": true, "folder": "/tmp/kkrt_cache" }"#;
    let [a, _] = pair(&example("receiver", kkrt, more), &example("sender", kkrt, more));
    assert_eq!((a.shared.protocol, a.shared.unit), (ProtocolName::Kkrt, Some(4096)));
    assert_eq!(spec(&example("receiver", r#""protocol": 2"#, "")).shared.unit, None);
}

/// The left side becomes the first of the parties, whoever that is; what the join tells is accepted with it.
#[test]
fn joins_have_sides() {
    for (name, join, accept) in [
        ("LEFT_JOIN", Join::Left, vec![Extra::LeftUnmatched]),
        ("RIGHT_JOIN", Join::Right, vec![Extra::RightUnmatched]),
        ("FULL_JOIN", Join::Full, vec![Extra::LeftUnmatched, Extra::RightUnmatched]),
        ("DIFFERENCE", Join::Difference, vec![Extra::LeftUnmatched, Extra::RightUnmatched]),
    ] {
        for (left, order) in [("RECEIVER", ["receiver", "sender"]), ("SENDER", ["sender", "receiver"])] {
            let more = format!(
                r#", "advanced_join_type": "ADVANCED_JOIN_TYPE_{name}", "left_side": "ROLE_{left}", "output_attr": {{ "csv_null_rep": "NA" }}"#
            );
            let [a, b] = pair(&example("receiver", ECDH, &more), &example("sender", ECDH, &more));
            assert_eq!((a.shared.join, &a.shared.parties[..]), (join, &order.map(str::to_owned)[..]));
            assert_eq!(a.shared.accept, Accept::Named(accept.clone()));
            // A party whose whole table is kept, and the other's not, has no rows of nulls.
            let whole = accept.len() == 1 && (join == Join::Left) == (left == "RECEIVER");
            let null = (!whole).then_some("NA");
            assert_eq!((a.mine.output.unwrap().null.as_deref(), b.mine.connect.len()), (null, 1));
            let text = example("receiver", ECDH, &more);
            assert_eq!(noted(&text).contains(&"psi_config.output_attr.csv_null_rep".to_owned()), whole);
            let alone = changed(&text, "\"broadcast_result\": true", "broadcast_result: false");
            let alone = changed(&alone, "\"keys\"", "disable_alignment: true, \"keys\"");
            if join == Join::Difference {
                let job = spec(&alone);
                assert_eq!(job.shared.accept, Accept::Named(vec![]));
                let output = job.mine.output.unwrap();
                assert_eq!((output.null, output.order), (None, Order::Aligned));
                let fields = ["disable_alignment", "left_side", "output_attr.csv_null_rep"];
                assert_eq!(noted(&alone)[1..], fields.map(|field| format!("psi_config.{field}")));
            } else {
                refused(&alone, "psi_config.advanced_join_type", name);
            }
        }
    }
}

/// The other examples, each with what stands in its way.
#[test]
fn what_is_not_here_is_refused_by_name() {
    let threshold = r#", "intersection_threshold": 50, "count_path": "/tmp/count.csv""#;
    refused(&example("receiver", ECDH, threshold), "psi_config.intersection_threshold", "no more than 50 common keys");
    refused(&example("receiver", ECDH, threshold), "psi_config.intersection_threshold", "limits.min_intersection");
    for kind in ["apsi_sender_config", "dk_pir_receiver_config", "pir_config"] {
        let text = format!(r#"{{ "{kind}": {{ "mode": "MODE_FULL", "keys": ["id"] }}, "self_link_party": "server" }}"#);
        refused(&text, kind, "is not translated");
        refused(
            &changed(&plain("sender"), "\"link_config\"", &format!("\"{kind}\": {{}}, \"link_config\"")),
            kind,
            "one run",
        );
    }
    refused("{}", "psi_config", "is missing");
    let both = changed(&plain("sender"), "\"link_config\"", "\"legacy_psi_config\": {}, \"link_config\"");
    refused(&both, "legacy_psi_config", "one run");
}

/// `ECDH_PSI_3PC` as SecretFlow's documentation of `BucketPsiConfig` has it, for three parties.
fn of_three(own: &str, more: &str) -> String {
    format!(
        r#"{{
    "legacy_psi_config": {{
        "psi_type": "ECDH_PSI_3PC", "receiver_rank": 1, "broadcast_result": true,
        "input_params": {{ "path": "/data/{own}.csv", "select_fields": ["c1", "c2"] }},
        "output_params": {{ "path": "/data/{own}.out.csv" }},
        "curve_type": "CURVE_FOURQ"{more}
    }},
    "link_config": {{
        "parties": [
            {{ "id": "alice", "host": "127.0.0.1:5300" }},
            {{ "id": "bob", "host": "127.0.0.1:5400" }},
            {{ "id": "carol", "host": "127.0.0.1:5500" }}
        ]
    }},
    "self_link_party": "{own}"
}}"#
    )
}

const ALL: [&str; 3] = ["alice", "bob", "carol"];

#[test]
fn three_files_of_version_1_are_one_job() {
    let specs = ALL.map(|own| spec(&of_three(own, "")));
    assert!(specs.iter().all(|spec| spec.shared == specs[0].shared && spec.shared.hash() == specs[0].shared.hash()));
    let shared = &specs[0].shared;
    // The receiver, then those that SecretFlow calls the calculator and the partner.
    assert_eq!(
        (&shared.parties[..], &shared.learns),
        (&["bob", "carol", "alice"].map(str::to_owned)[..], &shared.parties)
    );
    assert_eq!((shared.protocol, shared.curve, shared.join), (ProtocolName::Ecdh, CurveName::FourQ, Join::Inner));
    assert_eq!((&shared.accept, shared.insecure), (&Accept::Named(vec![Extra::PairCount]), true));
    for (place, (own, spec)) in ALL.iter().zip(&specs).enumerate() {
        let mine = &spec.mine;
        assert_eq!((&mine.name[..], mine.input.origin.name().to_str()), (*own, Some(&format!("/data/{own}.csv")[..])));
        assert_eq!((&mine.input.keys[..], mine.input.format), (&["c1".into(), "c2".into()][..], Some(Format::Csv)));
        let output = mine.output.as_ref().unwrap();
        assert_eq!((output.path.to_str(), output.order), (Some(&format!("/data/{own}.out.csv")[..]), Order::Input));
        // Each is called by those after it.
        let listen = [Some("127.0.0.1:5300"), Some("127.0.0.1:5400"), None][place];
        assert_eq!((mine.listen.as_deref(), mine.connect.len()), (listen, place));
        assert_eq!(mine.connect.get("alice"), (place > 0).then_some(&Connect::from("127.0.0.1:5300")));
        assert_eq!(mine.connect.get("bob"), (place > 1).then_some(&Connect::from("127.0.0.1:5400")));
    }
    let imported = import(&of_three("alice", "")).unwrap();
    let fields: Vec<&str> = imported.notes.iter().map(|note| &note.field[..]).collect();
    assert_eq!(fields, ["legacy_psi_config.psi_type", "link_config.enable_ssl"]);
    let told = "carol learns how many keys it and alice have in common, as with SecretFlow, where bob learns it too";
    assert!(imported.notes[0].what.starts_with(told), "{}", imported.notes[0]);
}

/// Who is told how many keys two have in common is the same as with SecretFlow, whoever is the receiver.
#[test]
fn the_one_after_the_receiver_is_told_the_pair_count() {
    for (rank, (receiver, after)) in [("alice", "bob"), ("bob", "carol"), ("carol", "alice")].into_iter().enumerate() {
        for broadcast in [true, false] {
            for own in ALL {
                let text = changed(&of_three(own, ""), "\"receiver_rank\": 1", &format!("\"receiver_rank\": {rank}"));
                let text = changed(&text, "true", &broadcast.to_string());
                let plan = vesica_spec::plan(&spec(&text)).unwrap();
                let place = plan.parties.iter().position(|party| party.name() == after).unwrap();
                let told =
                    plan.reveals().iter().find(|one| one.name == "pair_count").map(|one| format!("{:?}", one.to));
                assert_eq!(told, Some(format!("Place({place})")));
                assert_eq!(plan.i_learn(), broadcast || own == receiver);
                assert_eq!(plan.output.is_some(), plan.i_learn());
                let said = noted(&text).contains(&"legacy_psi_config.output_params".to_owned());
                assert_eq!(said, !plan.i_learn());
            }
        }
    }
}

/// `BC22_PSI_2PC`, which version 2 does not have.
#[test]
fn two_files_of_bc22_are_one_job() {
    let of_two = |own: &str| {
        let two = changed(&of_three(own, ""), "5400\" },", "5400\" }");
        let two = changed(&two, "{ \"id\": \"carol\", \"host\": \"127.0.0.1:5500\" }", "");
        changed(&two, "ECDH_PSI_3PC", "BC22_PSI_2PC")
    };
    let [a, b] = ["alice", "bob"].map(|own| spec(&of_two(own)));
    assert_eq!((&a.shared, a.shared.hash()), (&b.shared, b.shared.hash()));
    assert_eq!(a.shared.parties, ["bob", "alice"]);
    assert_eq!((a.shared.protocol, &a.shared.learns, a.shared.unit), (ProtocolName::Bc22, &a.shared.parties, None));
    assert_eq!((a.shared.curve, &a.shared.accept), (CurveName::default(), &Accept::Named(vec![])));
    assert_eq!(vesica_spec::plan(&a).unwrap().parties.len(), 2);
    let imported = import(&of_two("alice")).unwrap();
    let fields: Vec<&str> = imported.notes.iter().map(|note| &note.field[..]).collect();
    assert_eq!(fields, ["legacy_psi_config.psi_type", "link_config.enable_ssl", "legacy_psi_config.curve_type"]);
    assert!(
        imported.notes[0].what.contains("128 bits") && imported.notes[0].what.contains("61"),
        "{}",
        imported.notes[0]
    );
    let one = spec(&changed(&of_two("alice"), "true", "false"));
    assert_eq!((&one.shared.learns[..], one.mine.output), (&["bob".to_owned()][..], None));
    let rank = changed(&of_two("alice"), "\"receiver_rank\": 1", "\"receiver_rank\": 2");
    refused(&rank, "legacy_psi_config.receiver_rank", "from 0 to 1");
    refused(&changed(&of_three("alice", ""), "ECDH_PSI_3PC", "BC22_PSI_2PC"), "link_config.parties", "is for two");
}

/// Chains of intersections of two parties become one intersection of all, in which nobody learns what two have in common.
#[test]
fn many_parties_of_version_1_are_one_job_without_a_leak() {
    for psi_type in ["ECDH_PSI_NPC", "KKRT_PSI_NPC"] {
        let of = |own: &str| {
            let text = changed(&of_three(own, ""), "ECDH_PSI_3PC", psi_type);
            let dave = "{ \"id\": \"carol\", \"host\": \"127.0.0.1:5500\" }, { \"id\": \"dave\", \"host\": \"127.0.0.1:5600\" }";
            changed(&text, "{ \"id\": \"carol\", \"host\": \"127.0.0.1:5500\" }", dave)
        };
        refused(&of("alice"), "link_config.enable_ssl", "--identity");
        let plain = read(&of("alice"), Kind::Launch, &Trust::Insecure).unwrap_err();
        assert_eq!(plain.field.as_deref(), Some("--insecure"), "{plain}");
        let tls = Trust::Tls { identity: "me.pem".into(), peers: vec!["authorities.pem".to_owned()] };
        let imported = |own: &str| read(&of(own), Kind::Launch, &tls).unwrap();
        let specs = ["alice", "bob", "carol", "dave"].map(|own| imported(own).spec());
        assert!(specs.iter().all(|spec| spec.shared == specs[0].shared));
        let shared = &specs[0].shared;
        assert_eq!((shared.protocol, shared.pivot.as_deref()), (ProtocolName::Rr22, None));
        assert_eq!((&shared.accept, shared.parties.len()), (&Accept::Named(Vec::new()), 4));
        let plan = vesica_spec::plan(&specs[3]).unwrap();
        assert!(plan.reveals().iter().all(|told| told.name != "pair_count"));
        let said: Vec<String> = imported("alice").notes.into_iter().map(|note| note.field).collect();
        assert!(["psi_type", "curve_type"].iter().all(|field| said.contains(&format!("legacy_psi_config.{field}"))));
    }
}

#[test]
fn what_version_1_asks_for_and_cannot_get_is_refused_by_name() {
    for (from, to, field, words) in [
        ("ECDH_PSI_3PC", "ECDH_PSI_2PC", "psi_type", "write the same as a psi_config"),
        ("\"ECDH_PSI_3PC\"", "12", "psi_type", "DP_PSI_2PC: of version 1"),
        ("\"psi_type\": \"ECDH_PSI_3PC\",", "", "psi_type", "is missing"),
        ("\"ECDH_PSI_3PC\"", "16", "psi_type", "RR22_MALICIOUS_PSI_2PC"),
        ("\"receiver_rank\": 1", "\"receiver_rank\": 3", "receiver_rank", "from 0 to 2"),
        ("/data/alice.csv", "", "input_params.path", "is missing"),
        ("/data/alice.out.csv", "", "output_params.path", "is missing"),
        ("[\"c1\", \"c2\"]", "[]", "input_params.select_fields", "columns"),
        ("[\"c1\", \"c2\"]", "[\"c\", \"c\"]", "input_params.select_fields", "twice"),
        ("\"select_fields\"", "\"selected_fields\"", "input_params.selected_fields", "select_fields"),
    ] {
        refused(&changed(&of_three("alice", ""), from, to), &format!("legacy_psi_config.{field}"), words);
    }
    let two = changed(&of_three("alice", ""), "{ \"id\": \"carol\", \"host\": \"127.0.0.1:5500\" }", "");
    refused(&two, "link_config.parties", "2 parties; psi_type ECDH_PSI_3PC is for three");
    let twice = changed(&of_three("alice", ""), "\"id\": \"carol\"", "\"id\": \"bob\"");
    refused(&twice, "link_config.parties", "twice");
    refused(&changed(&of_three("alice", ""), "127.0.0.1:5500", "10.1.2.3:5500"), "link_config.enable_ssl", "--trust");
}

#[test]
fn what_has_no_meaning_in_version_1_is_noted() {
    let plainly = spec(&of_three("carol", ""));
    for (from, to, field) in [
        ("\"select_fields\"", "\"precheck\": true, \"select_fields\"", "input_params.precheck"),
        (".out.csv\"", ".out.csv\", \"need_sort\": true", "output_params.need_sort"),
        ("\"psi_type\"", "\"bucket_size\": 1048576, \"psi_type\"", "bucket_size"),
        ("\"psi_type\"", "\"preprocess_path\": \"x\", \"psi_type\"", "preprocess_path"),
        ("\"psi_type\"", "\"ecdhSecretKeyPath\": \"x\", \"psi_type\"", "ecdh_secret_key_path"),
        ("\"psi_type\"", "\"dppsi_params\": { \"epsilon\": 3.0 }, \"psi_type\"", "dppsi_params"),
    ] {
        let text = changed(&of_three("carol", ""), from, to);
        assert_eq!((&noted(&text)[1..2], &spec(&text)), (&["link_config.enable_ssl".to_owned()][..], &plainly), "{to}");
        assert_eq!(noted(&text)[2..], [format!("legacy_psi_config.{field}")]);
    }
    let no_curve = spec(&changed(&of_three("carol", ""), "\"curve_type\": \"CURVE_FOURQ\"", "\"bucket_size\": 0"));
    assert_eq!(no_curve.shared.curve, CurveName::Curve25519);
}

/// With three parties a fingerprint says whose it is.
#[test]
fn each_of_two_others_has_a_fingerprint_of_its_own() {
    let far = changed(&of_three("bob", ""), "127.0.0.1", "10.1.2.3");
    let [a, c] = ["ab", "cd"].map(|byte| format!("sha256:{}", byte.repeat(32)));
    let with = |trust: &[String]| {
        let tls = Trust::Tls { identity: "bob.pem".into(), peers: trust.to_vec() };
        read(&far, Kind::Launch, &tls)
    };
    let imported = with(&[format!("carol={c}"), format!("alice={a}")]).unwrap();
    let peers = imported.spec().mine.tls.unwrap().peers;
    assert_eq!((peers.len(), &peers["alice"], &peers["carol"]), (2, &Pins::from(a.as_str()), &Pins::from(c.as_str())));
    vesica_spec::plan(&imported.spec()).unwrap();
    assert_eq!(with(&["authorities.pem".to_owned()]).unwrap().spec().mine.tls.unwrap().peers.len(), 0);
    for (trust, words) in [
        (vec![a.clone()], "write --trust alice=sha256:… --trust carol=sha256:…"),
        (vec![format!("alice={a}")], "says nothing of carol"),
        (vec![format!("alice={a}"), format!("dave={c}")], "dave="),
        (vec![format!("alice={a}"), format!("alice={c}"), format!("carol={c}")], "two fingerprints"),
        (vec!["x.pem".into(), format!("carol={c}")], "one file of authorities"),
    ] {
        let error = with(&trust).unwrap_err();
        assert!(error.field.as_deref() == Some("--trust") && error.message.contains(words), "{error}");
    }
    let two = Trust::Tls { identity: "me.pem".into(), peers: vec![format!("receiver={a}")] };
    let spec = read(&plain("sender"), Kind::Launch, &two).unwrap().spec();
    assert_eq!(spec.mine.tls.unwrap().peers["receiver"], Pins::from(a));
}

/// Each field that makes no sense is named, and said what would.
#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let parties = "psi_config.protocol_config";
    for (from, to, field, words) in [
        ("ROLE_RECEIVER", "ROLE_SERVER", format!("{parties}.role"), "ROLE_SENDER"),
        ("\"role\": \"ROLE_RECEIVER\",", "", format!("{parties}.role"), "ROLE_UNSPECIFIED"),
        ("\"protocol\": \"PROTOCOL_ECDH\",", "", format!("{parties}.protocol"), "is missing"),
        ("CURVE_25519", "CURVE_INVALID_TYPE", format!("{parties}.ecdh_config.curve"), "CURVE_25519"),
        ("[\"id_0\", \"id_1\"]", "[]", "psi_config.keys".into(), "columns"),
        ("[\"id_0\", \"id_1\"]", "[\"id\", \"id\"]", "psi_config.keys".into(), "twice"),
        ("\"/tmp/receiver_input.csv\"", "null", "psi_config.input_config.path".into(), "is missing"),
        ("\"/tmp/receiver_output.csv\"", "\"\"", "psi_config.output_config.path".into(), "is missing"),
        ("IO_TYPE_FILE_CSV", "IO_TYPE_UNSPECIFIED", "psi_config.input_config.type".into(), "IO_TYPE_FILE_CSV"),
        ("\"self_link_party\": \"receiver\"", "", "self_link_party".into(), "which of"),
        ("\"self_link_party\": \"receiver\"", "self_link_party: 'carol'", "self_link_party".into(), "sender"),
        ("{ \"id\": \"sender\"", "{ \"id\": \"receiver\"", "link_config.parties".into(), "twice"),
        ("{ \"id\": \"sender\"", "{ \"id\": \"a b\"", "link_config.parties".into(), "\"a b\""),
        (
            "\"parties\": [",
            "\"parties\": [{ \"id\": \"carol\", \"host\": \"\" },",
            "link_config.parties".into(),
            "3 parties",
        ),
        ("\"parties\": [", "\"id\": \"a/b\", \"parties\": [", "link_config.id".into(), "a/b"),
        ("127.0.0.1:5300", "127.0.0.1", "link_config.parties.host".into(), "no port"),
        ("127.0.0.1:5300", ":5300", "link_config.parties.host".into(), "no port"),
        ("127.0.0.1:5300", "127.0.0.1:99999", "link_config.parties.host".into(), "no port"),
        ("127.0.0.1:5400", "sender.example:5400", "link_config.enable_ssl".into(), "--insecure"),
    ] {
        refused(&changed(&plain("receiver"), from, to), &field, words);
    }
    let left = r#", "advanced_join_type": 2"#;
    refused(&example("receiver", ECDH, left), "psi_config.left_side", "ROLE_UNSPECIFIED");
}

/// What the parser itself refuses, with its place.
#[test]
fn errors_of_form_have_a_place_and_a_field() {
    let text = changed(&plain("receiver"), "\"keys\"", "\n\"keyz\"");
    let error = import(&text).unwrap_err();
    let words = error.to_string();
    assert_eq!(error.place, Some((7, 1)), "{words}");
    assert!(
        words.starts_with("line 7, column 1: psi_config.keyz: ") && words.ends_with("did you mean `keys`?"),
        "{words}"
    );
    for (from, to, field, words) in [
        ("PROTOCOL_ECDH", "PROTOCOL_ECHD", "psi_config.protocol_config.protocol", "PROTOCOL_ECDH, PROTOCOL_KKRT"),
        ("\"PROTOCOL_ECDH\"", "7", "psi_config.protocol_config.protocol", "\"7\" is not one of"),
        ("true", "1", "psi_config.protocol_config.broadcast_result", "true or false"),
        ("[\"id_0\", \"id_1\"]", "[\"id_0\", 1]", "psi_config.keys[1]", "a text belongs here, and this is a number"),
        ("\"127.0.0.1:5400\"", "5400", "link_config.parties[1].host", "a text"),
        ("\"parties\"", "\"recvTimeoutMs\": -1, \"parties\"", "link_config.recv_timeout_ms", "not negative"),
        ("\"parties\"", "\"recvTimeoutMs\": 1.5, \"parties\"", "link_config.recv_timeout_ms", "whole"),
        ("\"parties\"", "\"recv_timeout\": 1, \"parties\"", "link_config.recv_timeout", "recv_timeout_ms"),
        ("\"receiver\"\n}", "\"receiver\", \"psi_config\": []\n}", "psi_config", "a message"),
    ] {
        refused(&changed(&plain("receiver"), from, to), field, words);
    }
    for broken in ["", "{", "{]", "[]", "{\"psi_config\" {}}", "{psi_config: {}} x"] {
        assert!(import(broken).unwrap_err().place.is_some(), "{broken}");
    }
}

/// One job, written as variously as the protobuf library allows.
#[test]
fn every_way_to_write_a_field_means_the_same() {
    let plainly = spec(&plain("receiver"));
    for (from, to) in [
        ("psi_config", "psiConfig"),
        ("\"protocol_config\"", "protocolConfig"),
        ("\"self_link_party\": \"receiver\"", "'selfLinkParty': 'receiver',"),
        ("\"PROTOCOL_ECDH\"", "1"),
        ("\"PROTOCOL_ECDH\"", "\"1\""),
        ("\"broadcast_result\": true", "\"broadcastResult\": \"true\""),
        ("\"CURVE_25519\"", "5"),
        ("\"CURVE_25519\"", "\"CURVE_25519_ELLIGATOR2\""),
        ("[\"id_0\", \"id_1\"]", "\"id_0\", \"keys\": [\"id_1\",]"),
        ("\"keys\":", "\"recovery_config\": null, \"left_side\": null, \"keys\":"),
        ("\"keys\":", "\"intersection_threshold\": \"0\", \"check_hash_digest\": false, \"keys\":"),
        ("\"keys\":", "\"recovery_config\": { \"enabled\": false }, \"keys\":"),
        ("\"keys\":", "\"input_config\": { \"type\": 1 }, // and the path from above\n \"keys\":"),
        ("\"broadcast_result\": true", "\"broadcast_result\": false, broadcast_result: true"),
        ("\"parties\":", "\"connect_retry_times\": 0, \"recv_timeout_ms\": \"0\", \"parties\":"),
        ("127.0.0.1:5300", "http://127.0.0.1:5300/"),
    ] {
        assert_eq!(spec(&changed(&plain("receiver"), from, to)), plainly, "{to}");
    }
    // The link and the party stood in psi_config once.
    let inside = plain("receiver").replace("\n    },\n    \"link_config\"", ",\n \"link_config\"");
    assert_eq!(spec(&format!("{inside}}}")), plainly);
}

#[test]
fn the_inline_json_of_the_readme_is_read() {
    let text = r#"{"psi_config":{"protocol_config":{"protocol":"PROTOCOL_RR22","role":"ROLE_RECEIVER","broadcast_result":true},"input_config":{"type":"IO_TYPE_FILE_CSV","path":"/root/receiver/receiver_input.csv"},"output_config":{"type":"IO_TYPE_FILE_CSV","path":"/root/receiver/receiver_output.csv"},"keys":["id0","id1"],"debug_options":{"trace_path":"/root/receiver/receiver.trace"}},"self_link_party":"receiver","link_config":{"parties":[{"id":"receiver","host":"127.0.0.1:5300"},{"id":"sender","host":"127.0.0.1:5400"}]}}"#;
    let spec = spec(text);
    assert_eq!(
        (spec.shared.protocol, &spec.shared.learns[..]),
        (ProtocolName::Rr22, &["receiver".into(), "sender".into()][..])
    );
    assert_eq!(noted(text), ["link_config.enable_ssl"]);
}

/// A field that has no meaning here is told of by its name, and nothing else is.
#[test]
fn what_has_no_meaning_is_noted() {
    let always = "link_config.enable_ssl".to_owned();
    for (json, field) in [
        ("\"skip_duplicates_check\": true", "skip_duplicates_check"),
        ("\"check_duplicates\": false", "check_duplicates"),
        ("\"sort_output\": true", "sort_output"),
        ("\"input_attr\": { \"keys_unique\": true }", "input_attr.keys_unique"),
        ("\"check_hash_digest\": true", "check_hash_digest"),
        ("\"left_side\": \"ROLE_SENDER\"", "left_side"),
        ("\"output_attr\": { \"csv_null_rep\": \"NA\" }", "output_attr.csv_null_rep"),
        ("\"count_path\": \"/tmp/c.csv\"", "count_path"),
        ("\"debug_options\": { \"logging_level\": \"debug\" }", "debug_options.logging_level"),
    ] {
        let text = example("receiver", ECDH, &format!(", {json}"));
        assert_eq!(noted(&text), [always.clone(), format!("psi_config.{field}")]);
    }
    for (json, field) in [
        ("\"recv_timeout_ms\": 180000", "recv_timeout_ms"),
        ("\"http_max_payload_size\": 1", "http_max_payload_size"),
        ("\"http_timeout_ms\": 120000", "http_timeout_ms"),
        ("\"throttle_window_size\": 1", "throttle_window_size"),
        ("\"brpc_channel_protocol\": \"http\"", "brpc_channel_protocol"),
        ("\"brpc_channel_connection_type\": \"pooled\"", "brpc_channel_connection_type"),
        ("\"retry_opts\": { \"max_retry\": 5, \"error_codes\": [1] }", "retry_opts"),
        ("\"chunk_parallel_send_size\": 8", "chunk_parallel_send_size"),
    ] {
        let text = changed(&plain("receiver"), "\"parties\":", &format!("{json}, \"parties\":"));
        assert_eq!(noted(&text), [always.clone(), format!("link_config.{field}")]);
    }
    let batch = ECDH.replace("\" }", "\", \"batch_size\": 4096 }");
    let note = "psi_config.protocol_config.ecdh_config.batch_size".to_owned();
    assert_eq!(noted(&example("sender", &batch, "")), [always, note]);
}

/// What belongs to another protocol than the chosen one, and what stood in psi_config in early versions and stands outside.
#[test]
fn what_another_field_overrules_is_noted() {
    let configs = [
        ("ECDH", "\"ecdh_config\": { \"curve\": \"CURVE_SM2\" }", "ecdh_config"),
        ("KKRT", "\"kkrt_config\": { \"bucket_size\": 5 }", "kkrt_config"),
        ("RR22", "\"rr22_config\": { \"low_comm_mode\": true, \"bucket_size\": 5 }", "rr22_config"),
    ];
    for (owner, config, field) in configs {
        for chosen in ["ECDH", "KKRT", "RR22"] {
            let curve = if chosen == "ECDH" { ", \"ecdh_config\": { \"curve\": 1 }" } else { "" };
            let plainly = format!("\"protocol\": \"PROTOCOL_{chosen}\"{curve}");
            let text = example("sender", &format!("{plainly}, {config}"), "");
            let told = noted(&text).contains(&format!("psi_config.protocol_config.{field}"));
            assert_eq!(told, owner != chosen, "{text}");
            assert_eq!(spec(&text) == spec(&example("sender", &plainly, "")), owner != chosen, "{text}");
        }
    }
    let inner = r#", "link_config": { "parties": [{ "id": "q", "host": "h:1" }] }, "self_link_party": "q""#;
    assert_eq!(noted(&example("sender", ECDH, inner))[1..], ["psi_config.link_config", "psi_config.self_link_party"]);
    assert_eq!(spec(&example("sender", ECDH, inner)), spec(&plain("sender")));
}

#[test]
fn the_time_to_connect_is_the_patience() {
    let patience =
        |link: &str| spec(&changed(&plain("sender"), "\"parties\":", &format!("{link} \"parties\":"))).mine.patience;
    assert_eq!(patience(""), "10m");
    assert_eq!(patience("\"connect_retry_times\": 180,"), "180000ms");
    assert_eq!(patience("\"connectRetryTimes\": 60, \"connectRetryIntervalMs\": 500,"), "30000ms");
    assert_eq!(patience("\"connect_retry_interval_ms\": 1,"), "1000ms");
    assert_eq!(patience("\"connect_retry_times\": 18446744073709551615,"), "604800000ms");
    let clamped = changed(&plain("sender"), "\"parties\":", "\"connect_retry_interval_ms\": 1, \"parties\":");
    assert_eq!(noted(&clamped)[1..], ["link_config.connect_retry_interval_ms"]);
}

/// TLS: a safe equal, or a refusal that names the flags.
#[test]
fn certificates_are_taken_where_they_prove_something() {
    let with =
        |ssl: &str| changed(&plain("sender"), "\"parties\":", &format!("\"enable_ssl\": true, {ssl} \"parties\":"));
    let own = r#""server_ssl_opts": { "certificate_path": "me.pem", "private_key_path": "me.key" },"#;
    let peer = r#""client_ssl_opts": { "verify_depth": 1, "ca_file_path": "ca.pem" },"#;
    let both = with(&format!("{own}{peer}"));
    let tls = spec(&both).mine.tls.unwrap();
    assert_eq!(tls.key.unwrap().file(), Some(Path::new("me.key")));
    assert_eq!((tls.identity.to_str(), tls.ca.unwrap().to_str(), tls.peers.len()), (Some("me.pem"), Some("ca.pem"), 0));
    assert!(noted(&both).is_empty());
    for (text, field) in [
        (with(peer), "server_ssl_opts.certificate_path"),
        (with(own), "client_ssl_opts.verify_depth"),
        (changed(&both, "\"verify_depth\": 1", "\"verify_depth\": 0"), "client_ssl_opts.verify_depth"),
        (changed(&both, "me.key", ""), "server_ssl_opts.private_key_path"),
        (changed(&both, "ca.pem", ""), "client_ssl_opts.ca_file_path"),
    ] {
        refused(&text, &format!("link_config.{field}"), "--identity");
    }
    // Of two that differ one is taken, and none without TLS.
    let other = r#""server_ssl_opts": { "certificate_path": "me.pem", "private_key_path": "me.key", "ca_file_path": "x", "verify_depth": 3 },"#;
    let fields = ["server_ssl_opts.ca_file_path", "server_ssl_opts.verify_depth"].map(|f| format!("link_config.{f}"));
    assert_eq!(noted(&with(&format!("{other}{peer}"))), fields);
    let off = changed(&both, "\"enable_ssl\": true", "\"enable_ssl\": false");
    assert_eq!(noted(&off), ["enable_ssl", "server_ssl_opts", "client_ssl_opts"].map(|f| format!("link_config.{f}")));

    let far = changed(&plain("sender"), "127.0.0.1:5300", "receiver.example:5300");
    let pin = format!("sha256:{}", "ab".repeat(32));
    let trust = |peer: &str| Trust::Tls { identity: "sender.pem".into(), peers: vec![peer.to_owned()] };
    let pinned = read(&far, Kind::Launch, &trust(&pin)).unwrap();
    assert_eq!(pinned.spec().mine.tls.as_ref().unwrap().peers["receiver"], Pins::from(pin));
    assert!(!pinned.spec().shared.insecure && pinned.notes.is_empty());
    vesica_spec::plan(&pinned.spec()).unwrap();
    let signed = read(&far, Kind::Launch, &trust("authorities.pem")).unwrap().spec().mine.tls.unwrap();
    assert_eq!((signed.ca.unwrap().to_str(), signed.peers.len()), (Some("authorities.pem"), 0));
    assert!(read(&far, Kind::Launch, &Trust::Insecure).unwrap().spec().shared.insecure);
    let over = read(&both, Kind::Launch, &Trust::Insecure).unwrap();
    assert!(over.spec().shared.insecure && over.notes[0].field == "link_config.enable_ssl");
}

/// A task file as Kuscia writes it for `own`: configurations in camelCase, in JSON inside JSON.
fn task(own: usize) -> String {
    let config = |role: &str| {
        serde_json::json!({
            "psi_config": {
                "protocolConfig": {
                    "protocol": "PROTOCOL_ECDH", "ecdhConfig": { "curve": "CURVE_25519" },
                    "role": role, "broadcastResult": true
                },
                "inputConfig": { "type": "IO_TYPE_FILE_CSV", "path": format!("/tmp/{role}.csv") },
                "outputConfig": { "type": "IO_TYPE_FILE_CSV", "path": format!("/tmp/{role}.out.csv") },
                "keys": ["id0", "id1"],
                "debugOptions": { "tracePath": "/tmp/receiver.trace" }
            },
            "linkConfig": { "recv_timeout_ms": 180000, "http_timeout_ms": 120000 }
        })
    };
    let party = |name: &str, endpoint: &str| serde_json::json!({ "name": name, "services": [{ "portName": "psi", "endpoints": [endpoint] }] });
    serde_json::json!({
        "task_id": "task_id_1234",
        "task_input_config": serde_json::json!({
            "sf_psi_config_map": { "bob": config("ROLE_SENDER"), "alice": config("ROLE_RECEIVER") }
        }).to_string(),
        "task_cluster_def": serde_json::json!({
            "parties": [party("bob", "1.2.3.5:1235"), party("alice", "1.2.3.4:1234")], "self_party_idx": own
        }).to_string(),
        "allocated_ports": r#"{ "ports": [{ "name": "psi", "port": 4321 },] }"#,
    })
    .to_string()
}

#[test]
fn a_task_of_kuscia_is_a_job() {
    let import = |text: &str| read(text, Kind::Kuscia, &Trust::Insecure);
    let [bob, alice] = [0, 1].map(|own| import(&task(own)).unwrap());
    assert_eq!(alice.spec().shared, bob.spec().shared);
    let shared = &alice.spec().shared;
    assert_eq!((shared.id.as_str(), &shared.parties[..]), ("task_id_1234", &["alice".into(), "bob".into()][..]));
    let (a, b) = (alice.spec().mine, bob.spec().mine.clone());
    assert_eq!((a.name.as_str(), a.listen.as_deref(), a.connect.len()), ("alice", Some("0.0.0.0:4321"), 0));
    assert_eq!((b.name.as_str(), b.listen, &b.connect["alice"]), ("bob", None, &Connect::from("1.2.3.4:1234")));
    let notes: Vec<&str> = alice.notes.iter().map(|note| note.field.as_str()).collect();
    assert_eq!(notes, ["link_config.recv_timeout_ms", "link_config.http_timeout_ms"]);

    let named = changed(&task(0), r#"\"linkConfig\":{"#, r#"\"selfLinkParty\":\"x\",\"linkConfig\":{\"id\":\"y\","#);
    let named = import(&named).unwrap();
    assert_eq!((named.spec(), &named.notes[0].field[..]), (bob.spec().clone(), "link_config.id"));
    assert_eq!(named.notes[1].field, "self_link_party");

    let more = import(&changed(&task(0), "\"task_id\":", "\"extra\":1,\"task_id\":")).unwrap();
    assert_eq!((more.spec(), &more.notes[0].field[..]), (bob.spec(), "extra"));
    for (from, to, field) in [
        (r#"\"self_party_idx\":0"#, r#"\"self_party_idx\":2"#, "task_cluster_def"),
        (r#"\"bob\":"#, r#"\"carol\":"#, "task_input_config.sf_psi_config_map"),
        (
            r#"\"recv_timeout_ms\":180000"#,
            r#"\"parties\":[{}]"#,
            "task_input_config.sf_psi_config_map.bob.link_config.parties",
        ),
        (r#"{ \"name\": \"psi\", \"port\": 4321 },"#, "", "allocated_ports.ports"),
        (r#"[\"1.2.3.4:1234\"]"#, "[]", "task_cluster_def.parties"),
        (r#"\"keys\""#, r#"\"keyz\""#, "task_input_config.sf_psi_config_map.alice.psi_config.keyz"),
    ] {
        let error = import(&changed(&task(0), from, to)).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
    assert!(import("{}").is_err() && import("[]").is_err());
}

#[test]
fn a_task_of_kuscia_for_three_is_a_job() {
    let config = |own: &str| {
        serde_json::json!({ "legacyPsiConfig": {
            "psiType": "ECDH_PSI_3PC", "receiverRank": 2,
            "inputParams": { "path": format!("/tmp/{own}.csv"), "selectFields": ["id"] },
            "outputParams": { "path": format!("/tmp/{own}.out.csv") }
        }})
    };
    let party = |name: &str, port: u16| serde_json::json!({ "name": name, "services": [{ "endpoints": [format!("1.2.3.4:{port}")] }] });
    let specs = [0, 1, 2].map(|own| {
        let task = serde_json::json!({
            "task_id": "of-three",
            "task_input_config": { "sf_psi_config_map": { "bob": config("bob"), "carol": config("carol"), "alice": config("alice") } },
            "task_cluster_def": { "parties": [party("carol", 3), party("alice", 1), party("bob", 2)], "self_party_idx": own },
            "allocated_ports": { "ports": [{ "name": "psi", "port": 4321 }] },
        });
        read(&task.to_string(), Kind::Kuscia, &Trust::Insecure).unwrap().spec()
    });
    // The parties' names give their ranks.
    let [carol, alice, bob] = specs;
    assert!(alice.shared == bob.shared && bob.shared == carol.shared);
    assert_eq!(
        (&alice.shared.parties[..], &alice.shared.learns[..]),
        (&["carol", "alice", "bob"].map(str::to_owned)[..], &["carol".to_owned()][..])
    );
    assert_eq!(
        (alice.mine.listen.as_deref(), bob.mine.listen.as_deref(), carol.mine.listen),
        (Some("0.0.0.0:4321"), Some("0.0.0.0:4321"), None)
    );
    assert_eq!(
        (&bob.mine.connect["alice"], &carol.mine.connect["bob"], carol.mine.connect.len()),
        (&Connect::from("1.2.3.4:1"), &Connect::from("1.2.3.4:2"), 2)
    );
}

/// What is written as a job file means what was imported.
#[test]
fn an_imported_job_can_be_written_and_read_again() {
    for text in [plain("receiver"), plain("sender")] {
        let spec = spec(&text);
        assert_eq!(vesica_spec::parse(&spec.text()).unwrap(), spec);
    }
    let tls = Trust::Tls { identity: "me.pem".into(), peers: vec!["sha256:00".into()] };
    let spec = read(&plain("sender"), Kind::Launch, &tls).unwrap().spec();
    assert_eq!(vesica_spec::parse(&spec.text()).unwrap(), spec);
}

proptest! {
    /// A valid text with a piece of it cut out, doubled or overwritten is a job or an error, and neither a panic nor a hang.
    #[test]
    fn a_damaged_file_is_a_job_or_an_error(at in 0..1000usize, len in 0..60usize, with in "[\\[\\]{}:,'\"\\\\/*a-z0-9 ]{0,8}") {
        let whole = plain("receiver");
        let (start, end) = (at.min(whole.len()), (at + len).min(whole.len()));
        for text in [format!("{}{with}{}", &whole[..start], &whole[end..]), format!("{}{with}{}", &whole[..end], &whole[start..])] {
            for kind in [Kind::Launch, Kind::Kuscia] {
                if let Ok(imported) = read(&text, kind, &Trust::AsWritten) {
                    match imported.what {
                        What::Job(spec) => drop(vesica_spec::plan(&spec)),
                        What::Server(server) => drop(server.plan()),
                        What::Client(client) => drop(client.plan()),
                    }
                }
            }
        }
    }
}

/// A file of an unbalanced intersection, with the fields of SecretFlow's examples.
fn unbalanced(mode: &str, role: &str, more: &str) -> String {
    let me = role.to_lowercase();
    format!(
        r#"{{
    "ub_psi_config": {{
        "mode": "MODE_{mode}",
        "role": "ROLE_{role}",
        "input_config": {{ "type": "IO_TYPE_FILE_CSV", "path": "/tmp/{me}.csv" }},
        "keys": ["id"],
        "cache_path": "/tmp/{me}_cache"{more}
    }},
    "link_config": {{
        "parties": [{{ "id": "client", "host": "127.0.0.1:5300" }}, {{ "id": "server", "host": "http://127.0.0.1:5400" }}]
    }},
    "self_link_party": "{me}"
}}"#
    )
}

const RESULT: &str =
    r#", "client_get_result": true, "output_config": { "type": "IO_TYPE_FILE_CSV", "path": "/tmp/out.csv" }"#;

#[test]
fn each_mode_has_its_steps() {
    for (mode, server, client) in [
        ("OFFLINE_TRANSFER_CACHE", (false, true), (true, false)),
        ("OFFLINE", (true, true), (true, false)),
        ("ONLINE", (false, true), (false, true)),
        ("FULL", (true, true), (true, true)),
    ] {
        let served = import(&unbalanced(mode, "SERVER", RESULT)).unwrap().server();
        assert_eq!((served.prepares, served.serves), server, "{mode}");
        let plan = served.plan().unwrap();
        assert_eq!(plan.input.is_some(), server.0, "{mode}");
        assert!(plan.once && plan.listen.as_deref() == Some("127.0.0.1:5400"), "{mode}");
        assert_eq!(plan.guests.iter().map(|guest| guest.name.as_str()).collect::<Vec<_>>(), ["client"]);
        let asked = import(&unbalanced(mode, "CLIENT", RESULT)).unwrap().client();
        assert_eq!((asked.fetches, asked.asks), client, "{mode}");
        let plan = asked.plan().unwrap();
        assert_eq!((plan.input.is_some(), plan.output.is_some(), plan.offer), (client.1, client.1, None), "{mode}");
        assert_eq!((plan.server.name(), plan.address.as_str()), ("server", "127.0.0.1:5400"));
        assert_eq!((plan.id, plan.curve), (served.spec.service.id, CurveName::FourQ));
    }
    let text = unbalanced("OFFLINE_GEN_CACHE", "SERVER", "");
    let (alone, _) = text.split_once(",\n    \"link_config\"").unwrap();
    let made = import(&format!("{alone}}}")).unwrap();
    assert!(made.server().prepares && !made.server().serves && made.notes.is_empty(), "{made:?}");
    made.server().plan().unwrap();
    assert_eq!(noted(&text), ["link_config", "self_link_party"]);
    refused(&unbalanced("OFFLINE_GEN_CACHE", "CLIENT", ""), "ub_psi_config.mode", "no part in it");
}

#[test]
fn early_names_of_an_unbalanced_intersection_are_read() {
    let more = r#", "server_secret_key_config": { "path": "key.bin" }"#;
    let text = unbalanced("FULL", "SERVER", &format!("{RESULT}{more}"));
    let early =
        import(&changed(&text, r#""cache_path": "/tmp/server_cache""#, r#"cacheConfig: { path: "old" }"#)).unwrap();
    assert_eq!(early.server().seed.unwrap().to_str(), Some("key.bin"));
    assert_eq!(early.server().spec.mine.store.to_str(), Some("old/store"));
    let both = changed(&text, "\"cache_path\"", "\"cache_config\": { \"path\": \"old\" }, \"cache_path\"");
    let both = import(&changed(&both, "\"mode\"", "\"server_secret_key_path\": \"new.bin\", \"mode\"")).unwrap();
    assert_eq!(both.server().spec.mine.store.to_str(), Some("/tmp/server_cache/store"));
    assert_eq!(both.server().seed.unwrap().to_str(), Some("new.bin"));
    let fields: Vec<&str> = both.notes.iter().map(|note| note.field.as_str()).collect();
    for field in ["ub_psi_config.cache_config.path", "ub_psi_config.server_secret_key_config.path"] {
        assert!(fields.contains(&field), "{fields:?}");
    }
}

#[test]
fn what_an_unbalanced_intersection_cannot_do_is_refused_by_name() {
    let full = |more: &str| unbalanced("FULL", "CLIENT", &format!("{RESULT}{more}"));
    for (more, field, words) in [
        (r#", "server_get_result": true"#, "server_get_result", "broadcast_result"),
        (r#", "client_get_result": false"#, "client_get_result", "write true"),
        (r#", "advanced_join_type": 2"#, "advanced_join_type", "ADVANCED_JOIN_TYPE_LEFT_JOIN"),
        (r#", "intersection_threshold": 9"#, "intersection_threshold", "no more than 9"),
        (r#", "mode": 0"#, "mode", "MODE_FULL"),
        (r#", "role": 1"#, "role", "ROLE_SERVER"),
        (r#", "cache_path": "", "#, "cache_path", "folder"),
        (r#", "output_config": { "path": "" }"#, "output_config.path", "is missing"),
    ] {
        refused(&full(more), &format!("ub_psi_config.{field}"), words);
    }
    let three = r#"{ "legacy_psi_config": { "psi_type": "ECDH_OPRF_UB_PSI_2PC_ONLINE" } }"#;
    refused(three, "legacy_psi_config.psi_type", "ub_psi_config");
    let far = changed(&full(""), "127.0.0.1:5300", "10.1.2.3:5300");
    refused(&far, "link_config.enable_ssl", "--identity");
}

/// The client's certificate is known by what the command line or the file says.
#[test]
fn a_server_knows_its_client() {
    let text = changed(&unbalanced("FULL", "SERVER", RESULT), "127.0.0.1:5300", "10.1.2.3:5300");
    let trust = |peer: &str| Trust::Tls { identity: "server.pem".into(), peers: vec![peer.to_owned()] };
    let pin = format!("sha256:{}", "ab".repeat(32));
    let pinned = read(&text, Kind::Launch, &trust(&pin)).unwrap().server();
    assert_eq!(pinned.spec.mine.clients["client"].fingerprint, Some(Pins::from(pin)));
    assert!(!pinned.spec.service.insecure && pinned.plan().unwrap().identity.is_some());
    let signed = read(&text, Kind::Launch, &trust("authorities.pem")).unwrap().server();
    assert!(signed.spec.mine.clients["client"].ca.is_some() && signed.plan().is_ok());
    assert!(read(&text, Kind::Launch, &Trust::Insecure).unwrap().server().spec.service.insecure);
}
