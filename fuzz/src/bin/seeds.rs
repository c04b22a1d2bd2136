//! Makes the seeds of every target from real honest messages and files: `cargo run --bin seeds`, in this folder.

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Int64Array, RecordBatch, StringArray,
};
use arrow_array::{TimestampMicrosecondArray, types::Int32Type};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_fuzz::protocol::{Attack, Case};
use vesica_fuzz::{joined, plan, scratch};
use vesica_net::Identity;
use vesica_net::fuzzing::{Step, honest_bodies, honest_frames, honest_greetings};
use vesica_spec::{Document, service};
use vesica_store::{Builder, Delta, Shape};
use vesica_table::{Input, Output, Picks, create, gather, open};
use vesica_types::RowId;

type Made = Result<(), Box<dyn Error>>;

fn main() -> Made {
    for (target, seeds) in [
        ("frames", frames()),
        ("greeting", honest_greetings()),
        ("certificates", certificates()?),
        ("identity", identities()?),
        ("agree", agree()),
        ("lanes", lanes()),
        ("protocols", protocols()),
        ("ledger", ledgers()),
        ("kept", kept()),
        ("spill", spills()),
        ("csv", csv()?),
        ("parquet", parquet()?),
        ("arrow", arrow()?),
        ("store", stores()?),
        ("retrieval", retrieval()),
        ("job-file", job_files()?),
        ("invitation", invitations()?),
        ("secretflow", secretflow()?),
        ("rules", rules()),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("{number:02}")), seed)?;
        }
    }
    words()
}

/// The words of documents, for the targets that read them: names of fields, and values that a field may have.
fn words() -> Made {
    let mut words = BTreeSet::new();
    for schema in ["job", "service", "client"] {
        let text = fs::read_to_string(repository(&format!("schema/{schema}.schema.json")))?;
        collect(&serde_json::from_str(&text)?, &mut words);
    }
    let lines: String = words.into_iter().map(|word| format!("\"{word}\"\n")).collect();
    for target in ["job-file", "invitation"] {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("dictionaries").join(target), &lines)?;
    }
    Ok(())
}

fn collect(schema: &Value, words: &mut BTreeSet<String>) {
    let mut add = |word: &str| {
        if !word.contains(['"', '\\']) && word.is_ascii() {
            words.insert(word.to_owned());
        }
    };
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(of)) = fields.get("properties") {
                of.keys().for_each(|name| add(name));
            }
            let values = fields.get("const").into_iter().chain(fields.get("enum").and_then(Value::as_array).into_iter().flatten());
            values.filter_map(Value::as_str).for_each(add);
            fields.values().for_each(|field| collect(field, words));
        }
        Value::Array(all) => all.iter().for_each(|one| collect(one, words)),
        _ => {}
    }
}

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn frames() -> Vec<Vec<u8>> {
    let script = |steps: &[Step<'_>]| {
        let mut script = Vec::new();
        steps.iter().for_each(|step| step.encode(&mut script));
        script
    };
    let (short, long) = (honest_frames(0, 100), honest_frames(2, 3000));
    let (first, last) = long.split_at(40);
    vec![
        script(&[Step::Open(0), Step::Write, Step::Comes(&short), Step::Receive(0, 200), Step::Close(0), Step::Write]),
        script(&[Step::Comes(first), Step::Open(2), Step::Send(2, 500), Step::Write, Step::Comes(last), Step::Goodbye]),
        script(&[
            Step::Comes(&short),
            Step::Comes(&long),
            Step::Open(2),
            Step::Receive(2, 9),
            Step::Goodbye,
            Step::Write,
        ]),
    ]
}

fn certificates() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let (_, cert) = Identity::generate("bob")?.write(scratch().join("bob"))?;
    let cert = CertificateDer::from_pem_file(cert)?;
    let mut seeds = vec![joined([&cert, &cert]), joined([&cert, &cert, &cert])];
    // Without an authority: what the target's own signs.
    let empty = || std::iter::once(Vec::new());
    seeds.extend(honest_bodies().into_iter().map(|bodies| joined(empty().chain(bodies))));
    Ok(seeds)
}

fn identities() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let (both, cert) = Identity::generate("alice")?.write(scratch().join("alice"))?;
    let (both, cert) = (fs::read(both)?, fs::read(cert)?);
    Ok(vec![[both.as_slice(), &cert].concat(), both, cert])
}

fn agree() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (which, protocol) in [(0, "ecdh"), (1, "rr22")] {
        let (alice, bob) = (plan("alice", protocol), plan("bob", protocol));
        for resumed in [false, true] {
            let mut words = fuzzed_words(&alice, &bob, resumed);
            // The commitment is left to the target, which makes the one that belongs to the coins.
            words.insert(1, Vec::new());
            seeds.push([&[which], joined(&words).as_slice()].concat());
        }
    }
    seeds
}

/// The hello, and any coins.
fn fuzzed_words(alice: &vesica_spec::Plan, bob: &vesica_spec::Plan, resumed: bool) -> Vec<Vec<u8>> {
    let words = vesica_job::fuzzing::honest_words(alice, bob, resumed, scratch());
    words.into_iter().take(1).chain([vec![6; 64]]).collect()
}

fn lanes() -> Vec<Vec<u8>> {
    let doors = [&[][..], &["alice.example:5301", "[::1]:5301"]];
    let seed = |(how, doors): (u8, &&[&str])| {
        let words = [vesica_job::fuzzing::honest_doors(how == 1, doors), b"0110".to_vec(), b"0011".to_vec()];
        [&[how], joined(&words).as_slice()].concat()
    };
    (0..2).flat_map(|how| doors.iter().map(move |doors| (how, doors))).map(seed).collect()
}

/// Every protocol with honest peers, and some with one that is not.
fn protocols() -> Vec<Vec<u8>> {
    let attacks = [
        Attack::encode(0, 9, 40, &[1]),
        Attack::encode(1, 2, 30, &[]),
        Attack::encode(2, 0, 7, &[0xff; 16]),
        Attack::encode(3, 5, 0, &[0]),
    ];
    let honest = Case::all().map(|case| case.encode().to_vec());
    let spoiled = Case::all().step_by(3).zip(attacks.iter().cycle());
    honest.chain(spoiled.map(|(case, attack)| [&case.encode(), attack.as_slice()].concat())).collect()
}

fn ledgers() -> Vec<Vec<u8>> {
    let records = vesica_job::fuzzing::honest_records(&plan("alice", "ecdh"));
    let torn = records.iter().cloned().chain([vec![40, 0, 0, 0, 1, 2, 3]]);
    let front = [&b"vesica ledger 9\n"[..], &[8; 32], &[0; 4], &[9; 32], &[29, 0, 0, 0], &[3; 29]].concat();
    vec![
        [&[0], joined(&records).as_slice()].concat(),
        [&[2], joined(torn).as_slice()].concat(),
        [&[1], joined([front]).as_slice()].concat(),
    ]
}

fn kept() -> Vec<Vec<u8>> {
    let raw = [&b"vesica units 3\n\n"[..], &[8; 60]].concat();
    vec![[&[0], vesica_job::fuzzing::honest_text().as_slice()].concat(), [&[3], raw.as_slice()].concat()]
}

fn spills() -> Vec<Vec<u8>> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    vec![
        [&[1, 7, 0], words(&[24, 40, 56]).as_slice(), &[1; 32]].concat(),
        [&[2, 0, 4][..], &[9; 4], words(&[36, 36, 39, 50]).as_slice(), &[2; 14]].concat(),
    ]
}

const TEXT: &str = "id,name,\"a, b\"\n1,Ana,x\n2,\"Bo \"\"B\"\"\nlast\",\r\n\n3,\u{00e9}t\u{00e9},z\r4,,\n";

/// The table of [`TEXT`], as a sink writes it to a file of this name.
fn written(name: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let table = open(&Input::new(vesica_fuzz::file("text.csv", TEXT.as_bytes())))?;
    let path = scratch().join(name);
    let mut picks = Picks::new(4, 1 << 20, scratch())?;
    (0..4).try_for_each(|row| picks.push(RowId(row), row))?;
    let mut sink = create(&Output::new(&path), &table.facts())?;
    gather(&*table, picks, 1 << 20, 1, scratch(), &mut *sink)?;
    sink.finish()?.commit()?;
    Ok(fs::read(path)?)
}

fn csv() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let seed = |how: u8, text: &[u8]| [&[how], text].concat();
    Ok(vec![
        seed(0, TEXT.as_bytes()),
        seed(0xc3, TEXT.as_bytes()),
        seed(0xd2, &[b"\xef\xbb\xbf", TEXT.repeat(4).as_bytes()].concat()),
        seed(0, b"id\n\n\xff\n\"unclosed"),
        seed(1, &written("seed.csv.gz")?),
        seed(2, &written("seed.csv.zst")?),
    ])
}

/// Columns of most kinds that can be keys.
fn batch() -> Result<RecordBatch, Box<dyn Error>> {
    let dictionary: DictionaryArray<Int32Type> = ["x", "y", "x", "z", "x"].into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(StringArray::from(vec![Some("a"), None, Some("ccc"), Some(""), Some("e")]))),
        ("int", Arc::new(Int64Array::from(vec![1, -2, i64::MAX, 4, 5]))),
        ("flag", Arc::new(BooleanArray::from(vec![true, false, true, true, false]))),
        ("day", Arc::new(Date32Array::from(vec![0, 20_000, -1, 1, 2]))),
        ("time", Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 2, 3, 4]).with_timezone("+02:00"))),
        ("money", Arc::new(Decimal128Array::from(vec![100, -5, 0, 7, 12]).with_precision_and_scale(12, 2)?)),
        ("kind", Arc::new(dictionary)),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn parquet() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let kinds =
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default()), Compression::LZ4_RAW];
    let mut seeds = Vec::new();
    for (i, compression) in kinds.into_iter().enumerate() {
        let properties = WriterProperties::builder().set_compression(compression).set_dictionary_enabled(i % 2 == 0);
        let properties = properties.set_max_row_group_row_count(Some(3)).set_write_batch_size(2).build();
        let (batch, mut out) = (batch()?, Vec::new());
        let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        writer.close()?;
        seeds.push(out);
    }
    seeds.push(written("seed.parquet")?);
    Ok(seeds)
}

fn arrow() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let (batch, mut stream, mut file) = (batch()?, Vec::new(), Vec::new());
    let mut writer = StreamWriter::try_new(&mut stream, &batch.schema())?;
    writer.write(&batch)?;
    writer.finish()?;
    let options = IpcWriteOptions::default().try_with_compression(Some(arrow_ipc::CompressionType::ZSTD))?;
    let mut writer = FileWriter::try_new_with_options(&mut file, &batch.schema(), options)?;
    writer.write(&batch)?;
    writer.write(&batch.slice(1, 3))?;
    writer.finish()?;
    drop(writer);
    Ok(vec![stream, file, written("seed.arrow")?])
}

/// A store of tags, and one with values and a part that was added: each file, under a checksum that is kept and one that is made.
fn stores() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut seeds = Vec::new();
    for (name, value) in [("tags", None), ("values", Some(4))] {
        let folder = scratch().join(name);
        let mut builder = Builder::new(&folder, Shape { lifetime: 1 << 10, value }, 1 << 20, scratch())?;
        let mut batch = builder.sealer().batch();
        for i in 0..20u8 {
            let text = value.map(|_| [i]);
            batch.add(&[i; 32], text.as_ref().map(|text| &text[..]), u64::from(i))?;
        }
        builder.push(&batch)?;
        builder.finish([9; 32], 1)?;
        let mut delta = Delta::new(&folder, 1 << 20, scratch())?;
        delta.remove(&[3; 32])?;
        let manifest = delta.finish(1)?.manifest;
        let text = manifest.encode();
        seeds.extend([0, 1].map(|how| [&[how][..], &text].concat()));
        for part in manifest.parts {
            let bytes = fs::read(folder.join(part.file_name()))?;
            seeds.extend([2, 3].map(|how| [&[how][..], &bytes].concat()));
        }
    }
    seeds.push([&[4][..], &3u32.to_le_bytes(), b"abc\0\0"].concat());
    Ok(seeds)
}

/// Honest messages of retrieval, behind the number of the function that takes them.
fn retrieval() -> Vec<Vec<u8>> {
    let targets = ["question", "offer", "epoch", "changes", "values", "simple", "filter", "piano", "rlwe", "buckets", "packed"];
    let seeds = vesica_service::fuzzing::seeds().into_iter().chain(vesica_pir::fuzzing::seeds());
    let numbered = seeds.map(|(name, bytes)| {
        let number = targets.iter().position(|target| *target == name).expect("a target has this name");
        [&[number as u8][..], &bytes].concat()
    });
    numbered.collect()
}

fn job_files() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let long = r#"
        [shared]
        id = "acme-globex"
        parties = ["alice", "bob"]
        protocol = "rr22"
        mode = "low-comm"
        security = "semi-honest"
        learns = ["alice", "bob"]
        join = "full"
        duplicates = "first"
        rules = [["trim", "nfkc"], ["phone:CH"]]
        accept = ["left_unmatched", "right_unmatched"]
        limits = { min_intersection = 10 }
        unit = 5000

        [mine]
        name = "bob"
        connect = { alice = "alice.example:5300" }
        tls = { identity = "bob.pem", key = "bob.key", ca = "roots.pem" }
        input = { path = "clients.csv.gz", keys = ["id", "phone"], format = "csv" }
        output = { path = "out.parquet", columns = ["id"], null = "-", order = "input" }
        memory = "512 MiB"
        scratch = "/tmp"
        workers = 3
        report = "report.json"
        trace = "trace.json"
        resume = "resume"
        resume_key = "key"
        patience = "1h 30m"
    "#;
    let spec = vesica_spec::parse(long)?;
    vesica_spec::plan(&spec)?;
    let short = plan_text();
    let dp = short.replace("curve = \"fourq\"", "dp = { epsilon = 3.0 }").replace("\"ecdh\"", "\"dp\"");
    let dp = dp.replace("listen =", "budget = { path = \"budget.json\", epsilon = 12.0 }\nlisten =");
    let mut seeds = vec![long.to_owned(), serde_json::to_string_pretty(&spec)?, short, dp];
    seeds.extend(SERVICES.map(|service| format!("{service}{SERVER}")));
    seeds.extend(ASKS.map(|service| format!("{service}{CLIENT}")));
    for seed in &seeds[2..] {
        match vesica_spec::document(seed, false)? {
            Document::Job(spec) => drop(vesica_spec::plan(&spec)?),
            Document::Server(spec) => drop(service::plan_serve(&spec)?),
            Document::Client(spec) => drop(service::plan_ask_any(&spec)?),
        }
    }
    Ok(seeds.into_iter().map(String::into_bytes).collect())
}

const SERVICES: [&str; 2] = [
    "[service]\nid = \"list\"\nprotocol = \"ecdh-oprf\"\ncurve = \"p256\"\nvalues = [\"name\"]\nverifiable = true\n",
    "[service]\nid = \"list\"\nprotocol = \"simple-pir\"\nby = \"key\"\nprivate = \"client\"\naccept = [\"all_rows\"]\n\
     values = [\"name\"]\nvalue_bytes = 20\nrules = [\"trim\"]\n",
];

const ASKS: [&str; 2] = [
    "[service]\nid = \"list\"\nprotocol = \"ecdh-oprf\"\ncurve = \"p256\"\n",
    "[service]\nid = \"list\"\nprotocol = \"simple-pir\"\nby = \"key\"\n",
];

const SERVER: &str = "[mine]\nname = \"bob\"\nlisten = \"0.0.0.0:5400\"\ntls = { identity = \"bob.pem\" }\nstore = \"list.store\"\n\
                      input = { path = \"list.parquet\", keys = [\"id\"] }\nsecret_key = \"seal.key\"\nmetrics = \"127.0.0.1:9400\"\n\
                      clients = { alice = { ca = \"roots.pem\", keys_a_day = 1000, requests_a_minute = 3 } }\n";

const CLIENT: &str = "offer = \"sha256:5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a\"\n\
                      [mine]\nname = \"alice\"\nconnect = { bob = \"bob.example:5400\" }\ntls = { identity = \"alice.pem\", ca = \"roots.pem\" }\n\
                      input = { path = \"mine.csv\", keys = [\"id\"] }\noutput = { path = \"found.csv\" }\ncache = \"list.cache\"\n";

/// An invitation to match, and one to each service; with a reply's number, and with a line that is none.
fn invitations() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let hash = format!("sha256:{}", "5a".repeat(32));
    let number = "0123456789abcdef".repeat(2);
    let head = format!(
        "[invitation]\nfrom = \"alice\"\nto = \"bob\"\naddress = \"alice.example:5300\"\nfingerprint = \"{hash}\"\nnumber = \"{number}\"\n"
    );
    let shared = "[shared]\nid = \"match\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"rr22\"\nlearns = [\"alice\"]\n\
                  limits = { min_intersection = 5 }\nrules = [\"email\"]\n";
    let terms = format!("[terms]\nkeys_a_day = 1000\noffer = \"{hash}\"\n");
    let match_ = std::iter::once(format!("{head}{shared}"));
    let letters: Vec<String> = match_.chain(SERVICES.map(|service| format!("{head}{service}{terms}"))).collect();
    letters.iter().try_for_each(|letter| vesica_spec::Invitation::parse(letter).map(drop))?;
    let line = format!("bob/{hash}/{number}/01234567");
    Ok(letters.iter().zip([&number, &line].into_iter().cycle()).map(|(letter, line)| format!("{letter}\0{line}").into()).collect())
}

fn plan_text() -> String {
    let pin = format!("sha256:{}", "5a".repeat(32));
    format!(
        "[shared]\nid = \"j\"\nparties = [\"a\", \"b\"]\nprotocol = \"ecdh\"\ncurve = \"fourq\"\nlearns = [\"a\"]\nrules = [\"email\"]\n\
         [mine]\nname = \"a\"\nlisten = \"0.0.0.0:5300\"\ntls = {{ identity = \"a.pem\", peers = {{ b = \"{pin}\" }} }}\n\
         input = {{ path = \"-\", keys = [\"id\"], format = \"csv\" }}\noutput = {{ path = \"o.csv\" }}\n"
    )
}

fn secretflow() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let configs = repository("crates/vesica-secretflow/tests/configs");
    let (receiver, sender) =
        (fs::read_to_string(configs.join("receiver.config"))?, fs::read_to_string(configs.join("sender.config"))?);
    let psi = |role: &str| {
        serde_json::json!({
            "psi_config": {
                "protocol_config": { "protocol": "PROTOCOL_ECDH", "role": role, "broadcast_result": true, "ecdh_config": { "curve": "CURVE_25519" } },
                "input_config": { "type": "IO_TYPE_FILE_CSV", "path": "/in.csv" },
                "output_config": { "type": "IO_TYPE_FILE_CSV", "path": "/out.csv" },
                "keys": ["id0", "id1"],
                "recovery_config": { "enabled": true, "folder": "/recovery" },
            },
            "link_config": { "recv_timeout_ms": 180000 },
        })
    };
    let party = |name: &str, at: &str| serde_json::json!({ "name": name, "services": [{ "portName": "psi", "endpoints": [at] }] });
    let task = serde_json::json!({
        "task_id": "task-1",
        "task_input_config": serde_json::json!({ "sf_psi_config_map": { "bob": psi("ROLE_SENDER"), "alice": psi("ROLE_RECEIVER") } }).to_string(),
        "task_cluster_def": serde_json::json!({ "parties": [party("bob", "1.2.3.5:1235"), party("alice", "1.2.3.4:1234")], "self_party_idx": 0 }).to_string(),
        "allocated_ports": r#"{ "ports": [{ "name": "psi", "port": 4321 },] }"#,
    });
    Ok(vec![receiver.into(), sender.into(), task.to_string().into()])
}

fn rules() -> Vec<Vec<u8>> {
    [
        "+41 (0)79 123-45-67",
        " A.n.a+news@GMail.com ",
        "tel:+41-79-123-45-67;ext=3",
        "(202) 555-0173",
        "\u{3000}\u{ff21}\u{ff22} e\u{301}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
