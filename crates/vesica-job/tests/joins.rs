//! Every join, for everyone who may learn it, against SQLite: over random tables with duplicates, empty keys, and keys that
//! hold commas, quotes and line ends, written as differently as CSV allows.

use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::Path;
use vesica_job::{Control, Fault, Io, JobError, Report, run};
use vesica_spec::{Plan, load, plan};
use vesica_testkit::{Dice, port};

/// What keys are made of: near each other in every order, and hard on whoever splits lines.
const KEYS: [&str; 15] = [
    "",
    "",
    "a",
    "b",
    "John",
    "John Smith",
    "John!",
    "a,b",
    "b,c",
    "\"",
    "say \"hi\"",
    "two\nlines",
    "cr\r\nlf",
    " a",
    "é",
];

/// A table: its rows by label, as they stand in the file, and their keys.
struct Table {
    header: &'static str,
    rows: BTreeMap<String, (String, Vec<String>)>,
}

/// How large tables are.
#[derive(Clone, Copy)]
enum Size {
    /// Up to 23 rows, whose keys meet often.
    Small,
    /// Some thousands, of as many keys.
    Large,
}

impl Size {
    /// Rows of a table.
    fn rows(self, dice: &mut Dice) -> usize {
        match self {
            Size::Small => dice.below(24),
            Size::Large => 2000 + dice.below(1000),
        }
    }

    /// A column of a key of `columns`.
    fn key(self, columns: usize, dice: &mut Dice) -> String {
        let stem = KEYS[dice.below(KEYS.len())];
        match self {
            Size::Small => stem.to_owned(),
            Size::Large if dice.below(50) == 0 => String::new(),
            Size::Large => format!("{stem}{}", dice.below([200, 4][columns - 1])),
        }
    }

    /// What a job says of its units; several of them, or as many as the sizes ask for.
    fn unit(self, dice: &mut Dice) -> &'static str {
        match self {
            Size::Small => ["", "unit = 2", "unit = 5"][dice.below(3)],
            Size::Large => ["", "unit = 300", "unit = 900"][dice.below(3)],
        }
    }
}

impl Table {
    /// `name` labels the rows; the key columns `k1` and `k2` stand in another order in either party's table.
    fn random(name: &str, keys: usize, size: Size, dice: &mut Dice) -> Self {
        let rows = (0..size.rows(dice)).map(|i| {
            let label = format!("{name}{i:04}");
            let key: Vec<String> = (0..keys).map(|_| size.key(keys, dice)).collect();
            let field = |text: &str, dice: &mut Dice| {
                let needed = text.contains([',', '"', '\n', '\r']);
                if needed || dice.below(3) == 0 {
                    format!("\"{}\"", text.replace('"', "\"\""))
                } else {
                    text.to_owned()
                }
            };
            let mut fields: Vec<String> = key.iter().map(|k| field(k, dice)).collect();
            if name == "b" {
                fields.reverse();
            }
            (label.clone(), (format!("{label},{}\n", fields.join(",")), key))
        });
        let rows = rows.collect();
        let header = match (keys, name) {
            (1, _) => "row,k1\n",
            (_, "a") => "row,k1,k2\n",
            _ => "row,k2,k1\n",
        };
        Self { header, rows }
    }

    fn text(&self) -> String {
        self.rows.values().fold(self.header.to_owned(), |text, (row, _)| text + row)
    }

    /// The labels of the rows that `output` holds, each of them byte for byte this table's; `None` is a row of nulls.
    fn labels(&self, output: &str) -> Vec<Option<String>> {
        let mut rest = output.strip_prefix(self.header).unwrap_or_else(|| panic!("the header is not in {output:?}"));
        let null = vec!["NULL"; self.header.split(',').count()].join(",") + "\n";
        let mut labels = Vec::new();
        while !rest.is_empty() {
            let label = rest.split(',').next().unwrap();
            let row = self.rows.get(label).map_or(null.as_str(), |(row, _)| row);
            labels.push(self.rows.contains_key(label).then(|| label.to_owned()));
            rest = rest.strip_prefix(row).unwrap_or_else(|| panic!("{row:?} is not at the front of {rest:?}"));
        }
        labels
    }
}

/// Both tables in SQLite. An empty key column is a null, which equals nothing.
fn database(tables: &[Table; 2], first: bool) -> Connection {
    let db = Connection::open_in_memory().unwrap();
    for (name, table) in ["l", "r"].iter().zip(tables) {
        db.execute_batch(&format!(
            "create table {name} (row text, k1 text, k2 text); create index {name}_keys on {name} (k1, k2)"
        ))
        .unwrap();
        let insert = format!("insert into {name} values (?, nullif(?, ''), nullif(?, ''))");
        let mut insert = db.prepare(&insert).unwrap();
        for (label, (_, key)) in &table.rows {
            insert.execute([label.as_str(), &key[0], key.get(1).map_or("x", String::as_str)]).unwrap();
        }
        if first {
            let same = format!("e.k1 = {name}.k1 and e.k2 = {name}.k2 and e.row < {name}.row");
            db.execute(&format!("delete from {name} where exists (select 1 from {name} e where {same})"), ()).unwrap();
        }
    }
    db
}

type Pairs = Vec<(Option<String>, Option<String>)>;

fn pairs(db: &Connection, sql: &str) -> Pairs {
    let mut query = db.prepare(sql).unwrap();
    let rows = query.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// The joined rows as SQL has them, where both parties learn.
fn joined(db: &Connection, join: &str) -> Pairs {
    let (kind, filter) = match join {
        "difference" => ("full", "where l.row is null or r.row is null"),
        other => (other, ""),
    };
    pairs(
        db,
        &format!("select l.row, r.row from l {kind} join r on l.k1 = r.k1 and l.k2 = r.k2 {filter} order by 1, 2"),
    )
}

/// The rows of one table that have a partner in the other, or have none.
fn half(db: &Connection, mine: &str, theirs: &str, with: bool) -> Vec<Option<String>> {
    let not = if with { "" } else { "not" };
    let partner = format!("select 1 from {theirs} where {theirs}.k1 = {mine}.k1 and {theirs}.k2 = {mine}.k2");
    let sql = format!("select row, null from {mine} where {not} exists ({partner}) order by row");
    pairs(db, &sql).into_iter().map(|(row, _)| row).collect()
}

/// Both parties' plans for the tables in `dir`. `mine` is what each side's output says beside its path.
fn plans(dir: &Path, keys: usize, shared: &str, learns: &[&str], mine: &str) -> [Plan; 2] {
    let protocol = if shared.contains("protocol =") { "" } else { "protocol = \"ecdh\"" };
    let port = port();
    let contacts = [format!("listen = \"127.0.0.1:{port}\""), format!("connect = {{ alice = \"127.0.0.1:{port}\" }}")];
    let side = |name: &str, contact: &str| {
        let output = format!("output = {{ path = \"{name}.out.csv\"{mine} }}");
        let output = if learns.contains(&name) { output } else { String::new() };
        let columns = &["k1", "k2"][..keys];
        let job = format!(
            "[shared]\nid = \"joins\"\nparties = [\"alice\", \"bob\"]\n{protocol}\ninsecure = true\n\
             learns = {learns:?}\n{shared}\n\
             [mine]\nname = \"{name}\"\n{contact}\npatience = \"60s\"\n\
             input = {{ path = \"{name}.csv\", keys = {columns:?} }}\n{output}\n"
        );
        let path = dir.join(format!("{name}.toml"));
        std::fs::write(&path, job).unwrap();
        plan(&load(&path).unwrap()).unwrap_or_else(|e| panic!("{e}"))
    };
    [side("alice", &contacts[0]), side("bob", &contacts[1])]
}

/// Runs both parties in this process.
fn both(plans: [Plan; 2]) -> [Result<Report, JobError>; 2] {
    plans
        .map(|plan| std::thread::spawn(move || run(&plan, Io::files(&plan).unwrap(), &Control::new(()))))
        .map(|thread| thread.join().unwrap())
}

/// One pair of tables, each join for everyone who may learn it, by `protocol`.
fn as_sql_says(protocol: &str, size: Size, seed: u64) {
    let dice = &mut Dice(seed);
    let keys = 1 + dice.below(2);
    let tables = ["a", "b"].map(|name| Table::random(name, keys, size, dice));
    let databases = [false, true].map(|first| database(&tables, first));
    let dir = tempfile::tempdir().unwrap();
    for (name, table) in ["alice", "bob"].iter().zip(&tables) {
        std::fs::write(dir.path().join(format!("{name}.csv")), table.text()).unwrap();
    }
    for (join, learns) in [
        ("inner", &["alice", "bob"][..]),
        ("left", &["alice", "bob"]),
        ("right", &["alice", "bob"]),
        ("full", &["alice", "bob"]),
        ("difference", &["alice", "bob"]),
        ("inner", &["alice"]),
        ("inner", &["bob"]),
        ("difference", &["alice"]),
        ("difference", &["bob"]),
        ("semi", &["alice"]),
        ("anti", &["alice"]),
    ] {
        let first = dice.below(3) == 0;
        let in_order = dice.below(3) == 0;
        let unit = size.unit(dice);
        let duplicates = if first { "first" } else { "join" };
        let shared = format!(
            "protocol = \"{protocol}\"\njoin = \"{join}\"\nduplicates = \"{duplicates}\"\naccept = \"all\"\n{unit}"
        );
        let mine = if in_order { ", order = \"input\"" } else { "" };
        let case = format!("{protocol}, seed {seed}, {join} for {learns:?}, {duplicates}, {unit}, {mine}");
        let reports = both(plans(dir.path(), keys, &shared, learns, mine));
        let reports = reports.map(|r| r.unwrap_or_else(|e| panic!("{case}: {e}")));

        let db = &databases[usize::from(first)];
        let output = |place: usize| {
            let text = std::fs::read_to_string(dir.path().join(["alice.out.csv", "bob.out.csv"][place])).unwrap();
            tables[place].labels(&text)
        };
        if let [one] = learns {
            let place = usize::from(*one == "bob");
            let (mine, theirs) = [("l", "r"), ("r", "l")][place];
            assert_eq!(output(place), half(db, mine, theirs, matches!(join, "inner" | "semi")), "{case}");
            assert_eq!(reports[1 - place].outcome.matched, None, "{case}: not even the size");
            assert!(!reports[place].revealed.iter().any(|r| r.name == "multiplicity"), "{case}");
            continue;
        }
        let (left, right, wanted) = (output(0), output(1), joined(db, join));
        if in_order {
            // Each side by itself: the input's order, nulls last.
            let nulls_last = |mut column: Vec<Option<String>>| {
                column.sort_by_key(|label| (label.is_none(), label.clone()));
                column
            };
            assert_eq!(left, nulls_last(wanted.iter().map(|(l, _)| l.clone()).collect()), "{case}");
            assert_eq!(right, nulls_last(wanted.iter().map(|(_, r)| r.clone()).collect()), "{case}");
        } else {
            assert_eq!(left.len(), right.len(), "{case}: the outputs line up");
            let mut got: Pairs = left.into_iter().zip(right).collect();
            got.sort();
            assert_eq!(got, wanted, "{case}");
        }
    }
}

#[test]
fn every_join_is_what_sql_says() {
    std::thread::scope(|scope| {
        for group in 0..4 {
            scope.spawn(move || (0..4).for_each(|i| as_sql_says("ecdh", Size::Small, 4 * i + group)));
        }
    });
}

#[test]
fn every_join_is_what_sql_says_by_every_protocol() {
    as_sql_says("rr22", Size::Small, 16);
    as_sql_says("kkrt", Size::Small, 17);
    as_sql_says("ot", Size::Small, 22);
    as_sql_says("bc22", Size::Small, 24);
}

/// Thousands of rows, in several units, with keys of one column and of two.
#[test]
fn every_join_of_larger_tables_is_what_sql_says() {
    std::thread::scope(|scope| {
        for (protocol, seed) in [("ecdh", 18), ("ecdh", 19), ("rr22", 20), ("kkrt", 21), ("ot", 23)] {
            scope.spawn(move || as_sql_says(protocol, Size::Large, seed));
        }
    });
}

#[test]
#[ignore = "takes minutes"]
fn every_join_is_what_sql_says_many_times() {
    for protocol in ["ecdh", "rr22", "kkrt", "ot"] {
        (100..200).for_each(|seed| as_sql_says(protocol, Size::Small, seed));
        (200..220).for_each(|seed| as_sql_says(protocol, Size::Large, seed));
    }
}

/// Below the minimum neither side is told more than that, and nothing stands on either disk; at it the run goes through.
#[test]
fn an_intersection_that_is_too_small_is_nobodys() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("alice.csv"), "k1\n1\n2\n3\n").unwrap();
    std::fs::write(dir.path().join("bob.csv"), "k1\n2\n3\n3\n4\n").unwrap();
    for learns in [&["alice"][..], &["bob"], &["alice", "bob"]] {
        for result in both(plans(dir.path(), 1, "limits.min_intersection = 3", learns, "")) {
            let error = result.unwrap_err();
            assert_eq!(error.fault(), Fault::Input);
            assert_eq!(
                error.to_string(),
                "fewer keys are common, or fewer rows match, than shared.limits.min_intersection asks for (3); by that agreement nobody is told more"
            );
        }
        assert!(!dir.path().join("alice.out.csv").exists() && !dir.path().join("bob.out.csv").exists());
    }
    for report in both(plans(dir.path(), 1, "limits.min_intersection = 2", &["bob"], "")) {
        assert!(report.unwrap().revealed.iter().any(|r| r.name == "minimum" && r.to == ["alice", "bob"]));
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("bob.out.csv")).unwrap(), "k1\n2\n3\n3\n");
}

/// What each side is told of the other's rows without a partner is in both reports, by name.
#[test]
fn a_left_join_says_what_it_reveals() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("alice.csv"), "k1,v\n1,x\n2,y\n,z\n").unwrap();
    std::fs::write(dir.path().join("bob.csv"), "w,k1\np,2\nq,9\n").unwrap();
    let shared = "join = \"left\"\naccept = [\"left_unmatched\"]";
    for report in both(plans(dir.path(), 1, shared, &["alice", "bob"], ", columns = [\"k1\"], null = \"-\"")) {
        let report = report.unwrap();
        let told: Vec<_> = report.revealed.iter().filter(|r| r.name.ends_with("unmatched")).collect();
        assert_eq!((told.len(), &told[0].to), (1, &vec!["bob".to_owned()]));
    }
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!((read("alice.out.csv"), read("bob.out.csv")), ("k1\n2\n1\n\"\"\n".into(), "k1\n2\n-\n-\n".into()));
}

/// Before the other party is waited for, which here never comes.
#[test]
fn a_repeated_key_is_an_error_where_the_job_says_so() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("alice.csv"), "k1,v\n1,x\n,y\n,z\n2,w\n").unwrap();
    std::fs::write(dir.path().join("bob.csv"), "k1\n2\n3\n2\n3\n").unwrap();
    let [_, bob] = plans(dir.path(), 1, "duplicates = \"error\"", &["alice"], "");
    let error = run(&bob, Io::files(&bob).unwrap(), &Control::new(())).unwrap_err();
    assert_eq!(error.fault(), Fault::Input);
    let words =
        "bob.csv: row 3 repeats the key of an earlier row, as does 1 more row, and shared.duplicates is \"error\"";
    assert!(error.to_string().ends_with(words), "{error}");
}
