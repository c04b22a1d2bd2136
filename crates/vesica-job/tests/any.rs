//! Rows that match by any of several identifiers, against a join by hand: over random tables in which mail addresses are shared, written in
//! several ways, repeated in one row and missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use vesica_job::{Control, Fault, Io, JobError, Report, run};
use vesica_spec::{Plan, load, plan};
use vesica_testkit::{Dice, port};

/// One of so many texts, or nothing.
fn text(dice: &mut Dice, stem: &str, of: usize) -> String {
    match dice.below(4) {
        0 => String::new(),
        1 => format!(" {}{} ", stem.to_uppercase(), dice.below(of)),
        _ => format!("{stem}{}", dice.below(of)),
    }
}

const SHARED: &str = "identifiers = [{ name = \"email\", rules = [\"trim\", \"lower\"] }, { name = \"phone\", rules = [\"digits\"] }, \
                      { name = \"person\", rules = [[\"trim\", \"lower\"], []] }]\nmatch = \"any\"\n";

/// Which columns each party's table has for which identifier.
const COLUMNS: [&str; 2] = [
    "{ email = [\"mail\", \"mail2\"], phone = \"tel\", person = [[\"name\", \"born\"]] }",
    "{ phone = [\"tel\"], email = \"mail\", person = [[\"name\", \"born\"]] }",
];

/// A row: its label, and its fields in the order of [`HEADER`].
type Row = (String, [String; 5]);

const HEADER: &str = "row,mail,mail2,tel,name,born\n";

/// The table of the party at `place`, of so many rows.
fn table(place: usize, rows: usize, of: usize, dice: &mut Dice) -> Vec<Row> {
    let row = |i: usize| {
        let fields = [
            text(dice, "m", of),
            text(dice, "m", of),
            text(dice, "+41 7", of),
            text(dice, "n", of / 2 + 1),
            text(dice, "", of / 2 + 1),
        ];
        (format!("{}{i:04}", ["a", "b"][place]), fields)
    };
    (0..rows).map(row).collect()
}

fn csv(rows: &[Row]) -> String {
    rows.iter().fold(HEADER.to_owned(), |text, (label, fields)| text + &format!("{label},{}\n", fields.join(",")))
}

/// The identifiers of a row, by the rules of [`SHARED`].
fn identifiers(place: usize, [mail, mail2, tel, name, born]: &[String; 5]) -> BTreeSet<(&'static str, String)> {
    let lower = |text: &str| text.trim().to_lowercase();
    let mut all = vec![("email", lower(mail)), ("phone", tel.chars().filter(char::is_ascii_digit).collect())];
    if place == 0 {
        all.push(("email", lower(mail2)));
    }
    if !lower(name).is_empty() && !born.is_empty() {
        all.push(("person", format!("{}|{born}", lower(name))));
    }
    all.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

/// The labels of the rows of one party that match, or do not, in the order of its table.
fn wanted(place: usize, tables: &[Vec<Row>; 2], first: bool, with: bool, without: bool) -> Vec<String> {
    let of = |place: usize| tables[place].iter().map(move |(label, fields)| (label, identifiers(place, fields)));
    let theirs: BTreeSet<_> = of(1 - place).flat_map(|(_, all)| all).collect();
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for (label, all) in of(place) {
        let own: BTreeSet<_> = all.iter().filter(|one| seen.insert((*one).clone()) || !first).collect();
        let matches = own.iter().any(|one| theirs.contains(*one));
        let takes_part = !own.is_empty() || all.is_empty();
        if matches && with || !matches && takes_part && without {
            rows.push(label.clone());
        }
    }
    rows
}

/// Both parties' plans for the tables in `dir`.
fn plans(dir: &Path, shared: &str, columns: [&str; 2], learns: &[&str], mine: &str) -> [Result<Plan, String>; 2] {
    let protocol = if shared.contains("protocol =") { "" } else { "protocol = \"ecdh\"" };
    let port = port();
    let contacts = [format!("listen = \"127.0.0.1:{port}\""), format!("connect = {{ alice = \"127.0.0.1:{port}\" }}")];
    let side = |place: usize| {
        let name = ["alice", "bob"][place];
        let output =
            if learns.contains(&name) { format!("output = {{ path = \"{name}.out.csv\" }}") } else { String::new() };
        let job = format!(
            "[shared]\nid = \"any\"\nparties = [\"alice\", \"bob\"]\n{protocol}\ninsecure = true\nlearns = {learns:?}\n{shared}\n\
             [mine]\nname = \"{name}\"\n{}\npatience = \"60s\"\ninput = {{ path = \"{name}.csv\", keys = {} }}\n{output}\n{mine}\n",
            contacts[place], columns[place]
        );
        let path = dir.join(format!("{name}.toml"));
        std::fs::write(&path, job).unwrap();
        load(&path).and_then(|spec| plan(&spec)).map_err(|error| error.to_string())
    };
    [side(0), side(1)]
}

/// Runs both parties in this process.
fn both(plans: [Result<Plan, String>; 2]) -> [Result<Report, JobError>; 2] {
    plans
        .map(|plan| plan.unwrap_or_else(|error| panic!("{error}")))
        .map(|plan| std::thread::spawn(move || run(&plan, Io::files(&plan).unwrap(), &Control::new(()))))
        .map(|thread| thread.join().unwrap())
}

/// The labels in the output of the party at `place`; its rows are this table's, byte for byte.
fn labels(dir: &Path, place: usize, table: &[Row]) -> Vec<String> {
    let name = ["alice", "bob"][place];
    let text = std::fs::read_to_string(dir.join(format!("{name}.out.csv"))).unwrap();
    let rows: BTreeMap<&str, String> =
        table.iter().map(|(label, fields)| (label.as_str(), format!("{label},{}", fields.join(",")))).collect();
    let rest = text.strip_prefix(HEADER).unwrap();
    let label = |line: &str| {
        let label = line.split(',').next().unwrap();
        assert_eq!(rows[label], line);
        label.to_owned()
    };
    rest.lines().map(label).collect()
}

const KIND_NAMES: [&str; 3] = ["email", "phone", "person"];

/// The pairs of rows that agree in a kind, where each identifier belongs to the first row that has it.
fn agreeing(tables: &[Vec<Row>; 2], kind: &str) -> BTreeSet<(String, String)> {
    let owned = [0, 1].map(|place| {
        let mut of: BTreeMap<(&str, String), &str> = BTreeMap::new();
        for (label, fields) in &tables[place] {
            identifiers(place, fields).into_iter().for_each(|one| _ = of.entry(one).or_insert(label));
        }
        of
    });
    let common = owned[0].iter().filter(|((of, _), _)| *of == kind);
    common.filter_map(|(one, left)| Some(((*left).to_owned(), (*owned[1].get(one)?).to_owned()))).collect()
}

/// Those that agree in any kind.
fn in_anything(tables: &[Vec<Row>; 2]) -> BTreeSet<(String, String)> {
    KIND_NAMES.iter().flat_map(|kind| agreeing(tables, kind)).collect()
}

/// The pairs of rows that agree in something: in `once` every row once at most, by the first kind first. Of several pairs that agree in one
/// kind and share a row, the run takes one or another; so it is seen that its choice is one that could be made.
fn lined_up(matching: &str, tables: &[Vec<Row>; 2], got: &[(String, String)], case: &str) {
    let all = in_anything(tables);
    let edges = |kind: &str| agreeing(tables, kind);
    let set: BTreeSet<(String, String)> = got.iter().cloned().collect();
    assert_eq!(set.len(), got.len(), "{case}: a pair stands there once");
    if matching == "pairs" {
        assert_eq!(set, all, "{case}");
        return;
    }
    assert!(set.is_subset(&all), "{case}");
    let mut left_over = set;
    let (mut lefts, mut rights) = (BTreeSet::new(), BTreeSet::new());
    for kind in KIND_NAMES {
        // What agrees in this kind and has no row of an earlier one is a largest choice among these: no further pair could be added.
        let taken: Vec<_> = left_over.iter().filter(|pair| edges(kind).contains(*pair)).cloned().collect();
        for pair in taken {
            assert!(
                lefts.insert(pair.0.clone()) && rights.insert(pair.1.clone()),
                "{case}: {pair:?} has a row that was taken"
            );
            left_over.remove(&pair);
        }
        for (left, right) in edges(kind) {
            assert!(
                lefts.contains(&left) || rights.contains(&right),
                "{case}: {left} and {right} agree in {kind} and are both alone"
            );
        }
    }
    assert!(left_over.is_empty(), "{case}");
}

/// What each side's rows are where they stand in the order of its table: of `pairs` those of each pair, of `once` each once, and so
/// many that no pair is left over.
fn halves(matching: &str, tables: &[Vec<Row>; 2], got: [&[String]; 2], case: &str) {
    let all = in_anything(tables);
    for (place, got) in got.into_iter().enumerate() {
        let mut wanted: Vec<&String> = all.iter().map(|pair| [&pair.0, &pair.1][place]).collect();
        wanted.sort_unstable();
        if matching == "pairs" {
            assert_eq!(got.iter().collect::<Vec<_>>(), wanted, "{case}");
            continue;
        }
        assert!(got.array_windows().all(|[a, b]| a < b), "{case}: a row stands there once");
        assert!(got.iter().all(|row| wanted.binary_search(&row).is_ok()), "{case}: each agrees with one in something");
    }
    // No pair of rows that agree is left over.
    let [lefts, rights] = got;
    assert!(all.iter().all(|(left, right)| lefts.contains(left) || rights.contains(right)), "{case}");
}

#[test]
fn rows_of_both_line_up_by_identifiers() {
    std::thread::scope(|scope| {
        for seed in 0..8 {
            scope.spawn(move || {
                let dice = &mut Dice(300 + seed);
                let of = [2, 8, 30, 400][dice.below(4)];
                let sizes = [dice.below(60), dice.below(60)];
                let tables = [0, 1].map(|place| table(place, sizes[place], of, dice));
                let dir = tempfile::tempdir().unwrap();
                for (name, table) in ["alice", "bob"].iter().zip(&tables) {
                    std::fs::write(dir.path().join(format!("{name}.csv")), csv(table)).unwrap();
                }
                for (protocol, matching, order) in [
                    ("ecdh", "pairs", false),
                    ("ecdh", "once", false),
                    ("rr22", "once", false),
                    ("ecdh", "pairs", true),
                    ("ecdh", "once", true),
                ] {
                    let unit = ["", "unit = 2", "unit = 300"][dice.below(3)];
                    let mine = ["", "lanes = 2", "resume = \"resume\""][dice.below(3)];
                    let case = format!("seed {seed}: {matching} by {protocol}, {unit}, {mine}");
                    let shared = format!(
                        "protocol = \"{protocol}\"\nduplicates = \"first\"\naccept = [\"links\"]\n{unit}\n{}",
                        SHARED.replace("\"any\"", &format!("{matching:?}"))
                    );
                    let mut both_plans = plans(dir.path(), &shared, COLUMNS, &["alice", "bob"], mine);
                    if order {
                        both_plans.iter_mut().flatten().for_each(|plan| plan.order = vesica_spec::Order::Input);
                    }
                    for (place, report) in both(both_plans).into_iter().enumerate() {
                        let report = report.unwrap_or_else(|error| panic!("{case}: {error}"));
                        let matching = wanted(place, &tables, true, true, false).len() as u64;
                        assert_eq!(report.outcome.matched_rows, Some(matching), "{case}");
                        assert!(report.revealed.iter().any(|told| told.name == "links"));
                    }
                    let [left, right] = [0, 1].map(|place| labels(dir.path(), place, &tables[place]));
                    assert_eq!(left.len(), right.len(), "{case}");
                    if order {
                        assert!(left.is_sorted() && right.is_sorted(), "{case}");
                        halves(matching, &tables, [&left, &right], &case);
                    } else {
                        let got: Vec<(String, String)> = left.into_iter().zip(right).collect();
                        lined_up(matching, &tables, &got, &case);
                    }
                }
            });
        }
    });
}

/// Nobody says which of its rows have what is common before it is known that there is enough; and a memory that is too small for what could
/// be common is found before anything is matched.
#[test]
fn links_are_told_last_and_fit_into_memory() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "mail,tel\na,1\nb,2\n", "mail,tel\na,1\nb,2\n");
    let kinds = KINDS.replace("any", "pairs");
    let shared = |least: u64| {
        format!("duplicates = \"error\"\naccept = [\"links\"]\nlimits.min_intersection = {least}\n{kinds}")
    };
    for result in both(plans(dir.path(), &shared(3), TWO, &["alice", "bob"], "")) {
        assert!(matches!(result.unwrap_err(), JobError::TooSmall { least: 3, .. }));
    }
    for result in both(plans(dir.path(), &shared(2), TWO, &["alice", "bob"], "")) {
        let report = result.unwrap();
        let at = |name: &str| report.cost.iter().position(|step| step.phase == name && step.began_s.is_some()).unwrap();
        assert!(at("compare") < at("settle") && at("settle") < at("link") && at("link") < at("write"));
    }
    let small = plans(dir.path(), &shared(2), TWO, &["alice", "bob"], "")
        .map(|plan| plan.map(|plan| Plan { memory: 600, ..plan }));
    for result in both(small) {
        let said = result.unwrap_err().to_string();
        assert!(said.contains("mine.memory"), "{said}");
    }
}

/// One pair of tables, each join for everyone who may learn it.
fn as_by_hand(protocol: &str, tables: &[Vec<Row>; 2], dice: &mut Dice) {
    let dir = tempfile::tempdir().unwrap();
    for (name, table) in ["alice", "bob"].iter().zip(tables) {
        std::fs::write(dir.path().join(format!("{name}.csv")), csv(table)).unwrap();
    }
    for (join, learns) in [
        ("inner", &["alice", "bob"][..]),
        ("inner", &["alice"]),
        ("inner", &["bob"]),
        ("difference", &["alice", "bob"]),
        ("difference", &["bob"]),
        ("semi", &["alice"]),
        ("anti", &["alice"]),
    ] {
        // A row that gave an identifier up would stand among those that do not match.
        let first = dice.below(3) == 0 && matches!(join, "inner" | "semi");
        let duplicates = if first { "first" } else { "join" };
        let unit = ["", "unit = 2", "unit = 300"][dice.below(3)];
        let minimum = ["", "limits.min_intersection = 1"][dice.below(2)];
        let mine = ["", "lanes = 2", "resume = \"resume\"", "workers = 1"][dice.below(4)];
        let shared = format!(
            "protocol = \"{protocol}\"\njoin = \"{join}\"\nduplicates = \"{duplicates}\"\n{unit}\n{minimum}\n{SHARED}"
        );
        let case = format!("{protocol}, {join} for {learns:?}, {duplicates}, {unit}, {minimum}, {mine}");
        let (with, without) = (matches!(join, "inner" | "semi"), matches!(join, "difference" | "anti"));
        let matching = [0, 1].map(|place| wanted(place, tables, first, true, false).len() as u64);
        let [alices, bobs]: [BTreeSet<_>; 2] =
            [0, 1].map(|place| tables[place].iter().flat_map(|(_, fields)| identifiers(place, fields)).collect());
        // So many identifiers a row has who does not learn, whose rows nobody counts.
        let unheard = [4, 3].into_iter().zip(["alice", "bob"]).find(|(_, name)| !learns.contains(name));
        let people = alices.intersection(&bobs).count() / unheard.map_or(1, |(lists, _)| lists);
        let reports = both(plans(dir.path(), &shared, COLUMNS, learns, mine));
        for (place, report) in reports.into_iter().enumerate() {
            if !minimum.is_empty() && (matching.contains(&0) || people == 0) {
                let error = report.err().unwrap_or_else(|| panic!("{case}: too few"));
                assert!(matches!(error, JobError::TooSmall { least: 1, .. }), "{case}: {error}");
                continue;
            }
            let report = report.unwrap_or_else(|error| panic!("{case}: {error}"));
            let all: BTreeSet<_> = tables[place].iter().flat_map(|(_, fields)| identifiers(place, fields)).collect();
            assert_eq!(report.outcome.keys, all.len() as u64, "{case}");
            assert!(
                !report
                    .revealed
                    .iter()
                    .any(|told| matches!(&*told.name, "multiplicity" | "left_unmatched" | "right_unmatched"))
            );
            if !learns.contains(&["alice", "bob"][place]) {
                assert_eq!(
                    (report.outcome.matched, report.outcome.matched_rows),
                    (None, None),
                    "{case}: not even the size"
                );
                continue;
            }
            assert_eq!(report.outcome.matched_rows, Some(matching[place]), "{case}");
            assert_eq!(
                labels(dir.path(), place, &tables[place]),
                wanted(place, tables, first, with, without),
                "{case}"
            );
        }
        assert!(
            !dir.path().join("resume").exists()
                || std::fs::read_dir(dir.path().join("resume")).unwrap().next().is_none()
        );
    }
}

#[test]
fn rows_match_by_any_identifier_as_by_hand() {
    std::thread::scope(|scope| {
        for seed in 0..6 {
            scope.spawn(move || {
                let dice = &mut Dice(seed);
                let of = [2, 8, 30][dice.below(3)];
                let sizes = [dice.below(24), dice.below(24)];
                let tables = [0, 1].map(|place| table(place, sizes[place], of, dice));
                as_by_hand("ecdh", &tables, dice);
            });
        }
    });
}

#[test]
fn every_protocol_by_units_matches_by_any_identifier() {
    std::thread::scope(|scope| {
        for (seed, protocol) in ["rr22", "kkrt", "ot", "bc22", "ecdh-oprf"].into_iter().enumerate() {
            scope.spawn(move || {
                let dice = &mut Dice(100 + seed as u64);
                let tables = [0, 1].map(|place| table(place, 900, 400, dice));
                as_by_hand(protocol, &tables, dice);
            });
        }
    });
}

/// Tables that have nothing, nothing in common, all in common, and one row.
#[test]
fn tables_at_the_edges_match_as_by_hand() {
    let dice = &mut Dice(7);
    let fields = |fields: [&str; 5]| fields.map(str::to_owned);
    let one = vec![("a0000".to_owned(), fields(["x", "X ", "1", "n", "2"]))];
    let other = vec![("b0000".to_owned(), fields(["y", "x", "", "N ", "2"]))];
    let none = vec![("b0000".to_owned(), fields(["1", "", "x", "n", ""]))];
    let many =
        |label: &str| (0..9).map(|i| (format!("{label}{i:04}"), fields(["x", "", "5", "", ""]))).collect::<Vec<_>>();
    for tables in
        [[Vec::new(), Vec::new()], [one.clone(), Vec::new()], [one.clone(), other], [one, none], [many("a"), many("b")]]
    {
        as_by_hand("ecdh", &tables, dice);
    }
}

#[test]
#[ignore = "takes minutes"]
fn rows_match_by_any_identifier_as_by_hand_many_times() {
    for seed in 1000..1100 {
        let dice = &mut Dice(seed);
        let (of, sizes) = ([2, 8, 30, 400][dice.below(4)], [dice.below(300), dice.below(300)]);
        let tables = [0, 1].map(|place| table(place, sizes[place], of, dice));
        as_by_hand(["ecdh", "rr22"][dice.below(2)], &tables, dice);
    }
}

fn write(dir: &Path, alice: &str, bob: &str) {
    std::fs::write(dir.join("alice.csv"), alice).unwrap();
    std::fs::write(dir.join("bob.csv"), bob).unwrap();
}

const TWO: [&str; 2] = ["{ email = \"mail\", phone = \"tel\" }"; 2];

const KINDS: &str = "identifiers = [{ name = \"email\" }, { name = \"phone\" }]\nmatch = \"any\"\n";

/// A least number is one of people: neither many identifiers of few rows nor many rows of few identifiers are enough.
#[test]
fn a_least_number_is_of_rows_and_of_keys() {
    let dir = tempfile::tempdir().unwrap();
    for (table, people) in
        [("mail,tel\na,1\nb,2\n", 2), ("mail,tel\na,\na,\na,\na,\n", 1), ("mail,tel\na,\n,2\n,2\n", 2)]
    {
        for (alice, bob) in [(table, "mail,tel\na,1\nb,2\n"), ("mail,tel\na,1\nb,2\n", table)] {
            write(dir.path(), alice, bob);
            for learns in [&["alice"][..], &["bob"], &["alice", "bob"]] {
                // Rows of who does not learn are not counted: keys stand for them, two of which may be of one row.
                let keys = match table.lines().any(|line| line == "a,1") {
                    true => 4,
                    false => people,
                };
                let people = if learns.len() == 1 { people.min(keys / 2) } else { people };
                for (asked, enough) in [(people, true), (people + 1, false)] {
                    if asked == 0 {
                        continue;
                    }
                    let shared = format!("limits.min_intersection = {asked}\n{KINDS}");
                    for result in both(plans(dir.path(), &shared, TWO, learns, "")) {
                        match result {
                            Ok(_) => assert!(enough, "{table:?} for {learns:?}: {asked}"),
                            Err(error) => {
                                assert!(!enough && matches!(error, JobError::TooSmall { .. }), "{table:?}: {error}")
                            }
                        }
                    }
                    let outputs = ["alice.out.csv", "bob.out.csv"].map(|name| dir.path().join(name));
                    assert_eq!(
                        outputs.iter().filter(|path| path.exists()).count(),
                        if enough { learns.len() } else { 0 }
                    );
                    outputs.iter().for_each(|path| _ = std::fs::remove_file(path));
                }
            }
        }
    }
}

/// Where one party learns, nobody counts rows of the other. So as many times more identifiers are common as a row there may have, and a note
/// says so to both: alice's two rows, with two identifiers each, are no three.
#[test]
fn a_least_number_is_of_people_where_one_party_learns_too() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "mail,tel\na,1\nb,2\n", "mail,tel\na,\nb,\n,1\n,2\n");
    let shared = |least: u64| format!("limits.min_intersection = {least}\n{KINDS}");
    for (least, enough) in [(2, true), (3, false)] {
        let plans = plans(dir.path(), &shared(least), TWO, &["bob"], "");
        assert!(
            plans.iter().flatten().all(|plan| plan.notes.iter().any(|note| note.contains("rows of alice are not")))
        );
        assert!(both(plans).iter().all(|result| result.is_ok() == enough), "{least}");
    }
    for result in both(plans(dir.path(), &shared(3), TWO, &["alice", "bob"], "")) {
        assert!(matches!(result.unwrap_err(), JobError::TooSmall { least: 3, .. }), "alice has two rows");
    }
    // Three columns of alice's, one of which is empty everywhere, are three identifiers a row.
    write(dir.path(), "mail,more,tel\na,,1\nb,,2\n", "mail,tel\na,\nb,\n,1\n,2\n");
    let three = ["{ email = [\"mail\", \"more\"], phone = \"tel\" }", TWO[1]];
    for (least, enough) in [(1, true), (2, false)] {
        assert!(
            both(plans(dir.path(), &shared(least), three, &["bob"], "")).iter().all(|result| result.is_ok() == enough)
        );
    }
}

/// What goes over the wire follows from how many distinct identifiers there are: not from whose they are, nor of which kind.
#[test]
fn the_wire_says_how_many_identifiers_there_are_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let bob = "mail,tel\na,1\nb,2\nc,3\n";
    let mut seen = Vec::new();
    for alice in [
        "mail,tel\na,1\nb,2\nc,3\n",
        "mail,tel\na,\nb,\nc,\nd,\ne,\nf,\n",
        "mail,tel\nx,1\ny,\nz,\nu,\n,2\n,2\n,2\nu,2\n,\n",
    ] {
        write(dir.path(), alice, bob);
        for learns in [&["alice"][..], &["bob"], &["alice", "bob"]] {
            let reports = both(plans(dir.path(), &format!("limits.min_intersection = 1\n{KINDS}"), TWO, learns, ""));
            let bytes = reports.map(|report| {
                let cost = report.unwrap().cost;
                // Of the messages alone: what phases sum up ends where one side is a little ahead.
                let steps = cost.into_iter().filter(|step| step.began_s.is_none());
                steps.map(|step| (step.phase, step.step, step.sent, step.received)).collect::<Vec<_>>()
            });
            seen.push((learns.to_vec(), bytes));
        }
    }
    for (learns, bytes) in &seen {
        let (_, first) = seen.iter().find(|(of, _)| of == learns).unwrap();
        assert!(!first[0].is_empty());
        assert_eq!(bytes, first, "{learns:?}");
    }
}

#[test]
fn each_row_says_by_what_it_matched() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "mail,tel\na,1\nb,\n,3\nd,4\n", "mail,tel\na,3\nb,1\n");
    for learns in [&["alice"][..], &["alice", "bob"]] {
        let mut both_plans = plans(dir.path(), KINDS, TWO, learns, "");
        both_plans[0].as_mut().unwrap().says_how = true;
        for report in both(both_plans) {
            report.unwrap();
        }
        let written = std::fs::read_to_string(dir.path().join("alice.out.csv")).unwrap();
        assert_eq!(written, "mail,tel,vesica_match\na,1,email+phone\nb,,email\n,3,phone\n");
    }
    let matched = |shared: &str, to: &str| {
        let [_, _] = plans(dir.path(), shared, TWO, &["alice"], "");
        let path = dir.path().join("alice.toml");
        let text = std::fs::read_to_string(&path)
            .unwrap()
            .replace("alice.out.csv\"", &format!("alice.out.csv\", matched = \"{to}\""));
        std::fs::write(&path, text).unwrap();
        load(&path).and_then(|spec| plan(&spec))
    };
    assert!(matched(KINDS, "how").unwrap().says_how);
    assert_eq!(
        matched(&format!("join = \"anti\"\n{KINDS}"), "how").unwrap_err().field.as_deref(),
        Some("mine.output.matched")
    );
    assert!(matched(KINDS, "why").unwrap_err().to_string().contains("how"));
}

/// A partner with other kinds is refused before anything is matched, and both see both lists.
#[test]
fn other_kinds_are_refused_with_both_lists() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "mail,tel\na,1\n", "mail,tel\na,1\n");
    let [alice, _] = plans(dir.path(), KINDS, TWO, &["alice"], "");
    let more = format!("{}match = \"any\"\n", "identifiers = [{ name = \"email\" }, { name = \"person\" }]\n");
    let [_, bob] = plans(dir.path(), &more, ["{ email = \"mail\" }"; 2], &["alice"], "");
    let (alice, bob) = (alice.unwrap(), bob.unwrap());
    // They meet where alice listens.
    let bob =
        Plan { peers: vec![vesica_spec::PeerPlan { connect: alice.listen.clone(), ..bob.peers[0].clone() }], ..bob };
    for error in both([Ok(alice), Ok(bob)]).map(|result| result.err().unwrap()) {
        let said = error.to_string();
        assert_eq!(error.fault(), Fault::Config, "{said}");
        assert!(said.contains("shared.identifiers") && said.contains("phone") && said.contains("person"), "{said}");
    }
    let columns = ["{ email = \"mail\" }", "{ phone = \"tel\" }"];
    for error in both(plans(dir.path(), KINDS, columns, &["alice"], "")).map(|result| result.err().unwrap()) {
        let said = error.to_string();
        assert_eq!(error.fault(), Fault::Config, "{said}");
        assert!(
            said.contains("[\"email\"]") && said.contains("[\"phone\"]") && said.contains("none is common"),
            "{said}"
        );
    }
}

/// What a row has twice is no repetition, what two rows have is one.
#[test]
fn repetitions_are_those_of_other_rows() {
    let dir = tempfile::tempdir().unwrap();
    let columns = ["{ email = [\"mail\", \"mail2\"] }"; 2];
    let shared = format!("duplicates = \"error\"\n{KINDS}");
    write(dir.path(), "mail,mail2\na,a\nb,\n", "mail,mail2\nb,c\n");
    for result in both(plans(dir.path(), &shared, columns, &["alice"], "")) {
        result.unwrap();
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("alice.out.csv")).unwrap(), "mail,mail2\nb,\n");
    write(dir.path(), "mail,mail2\na,a\nb,c\nd,a\n", "mail,mail2\nb,c\n");
    let [plan, _] = plans(dir.path(), &shared, columns, &["alice"], "");
    let plan = plan.unwrap();
    let error = run(&plan, Io::files(&plan).unwrap(), &Control::new(())).unwrap_err();
    assert!(error.to_string().contains("row 3 repeats an identifier of an earlier row"), "{error}");
}
