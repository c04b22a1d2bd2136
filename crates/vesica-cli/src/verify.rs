//! What a demo found, against a plain join of its tables: sets of lines in memory, and nothing of the engine.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// The fewest common keys of a group that a demo of groups tells.
pub const LEAST: u64 = 50;

/// The text of a file in `folder`.
fn text(folder: &Path, name: &str) -> Result<String, String> {
    let path = folder.join(name);
    std::fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// Compares the outputs of the parties `names` and `expected.csv` in `folder` with a join of their tables.
///
/// Returns the number of rows, or in words what is wrong.
pub fn demo(folder: &Path, names: &[&str]) -> Result<usize, String> {
    let read = |name: String| text(folder, &name);
    let read_all =
        |ending: &str| names.iter().map(|name| read(format!("{name}.{ending}"))).collect::<Result<Vec<_>, _>>();
    let (tables, outputs) = (read_all("csv")?, read_all("matched.csv")?);
    let [tables, outputs] = [&tables, &outputs].map(|texts| texts.iter().map(|text| lines(text)).collect::<Vec<_>>());

    let keys = tables.iter().map(|table| table.iter().map(key).collect::<HashSet<&str>>());
    let common = keys.reduce(|all, table| &all & &table).unwrap_or_default();
    for ((name, table), output) in names.iter().zip(tables).zip(&outputs) {
        let joined = sorted(table.into_iter().filter(|line| common.contains(key(line))));
        if sorted(output.iter().copied()) != joined {
            return Err(format!(
                "{name}.matched.csv has {} rows, the plain join has {} other ones",
                output.len(),
                joined.len()
            ));
        }
    }
    if !outputs.iter().all(|output| output.iter().map(key).eq(outputs[0].iter().map(key))) {
        return Err("the outputs do not line up row by row".to_owned());
    }
    let expected = read("expected.csv".to_owned())?;
    if sorted(lines(&expected).into_iter()) != sorted(outputs[0].iter().map(key)) {
        return Err("the plain join differs from expected.csv".to_owned());
    }
    Ok(outputs[0].len())
}

/// Compares the outputs of a demo of ids: each holds its party's table, row by row, and joined by ids they are the join by keys, which
/// `expected.csv` holds too.
///
/// Returns the number of common rows, or in words what is wrong.
pub fn ids(folder: &Path, names: &[&str]) -> Result<usize, String> {
    let read = |name: String| text(folder, &name);
    let mut of_all = Vec::new();
    for name in names {
        let (table, output) = (read(format!("{name}.csv"))?, read(format!("{name}.ids.csv"))?);
        let rows = lines(&output).into_iter().map(|line| line.rsplit_once(',').unwrap_or((line, "")));
        let (rows, ids): (Vec<&str>, Vec<&str>) = rows.unzip();
        if rows != lines(&table) {
            return Err(format!("{name}.ids.csv does not hold the rows of {name}.csv"));
        }
        if !ids.iter().all(|id| id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))) {
            return Err(format!("{name}.ids.csv has an id that is none"));
        }
        let keys = rows.iter().map(|row| key(row).to_owned());
        of_all.push(ids.iter().map(|id| (*id).to_owned()).zip(keys).collect::<Vec<(String, String)>>());
    }
    let [ours, theirs] = of_all.as_slice() else { return Err("ids are for two parties".to_owned()) };
    let by_id: HashMap<&String, &String> = theirs.iter().map(|(id, key)| (id, key)).collect();
    let by_key: HashSet<&String> = theirs.iter().map(|(_, key)| key).collect();
    if by_id.len() != by_key.len() {
        return Err(format!("{} has {} ids for {} keys", names[1], by_id.len(), by_key.len()));
    }
    let mut common = Vec::new();
    for (id, key) in ours {
        let of_id = by_id.get(id).copied();
        if of_id != Some(key).filter(|key| by_key.contains(key)) {
            return Err("the join by ids differs from the plain join".to_owned());
        }
        common.extend(of_id.map(String::as_str));
    }
    let expected = read("expected.csv".to_owned())?;
    let rows = common.len();
    if sorted(lines(&expected).into_iter()) != sorted(common.into_iter()) {
        return Err("the plain join differs from expected.csv".to_owned());
    }
    Ok(rows)
}

/// Compares what alice is told in a demo of a sum with a plain join, of which the values are in the table of the party at `owner`.
///
/// Returns the number of common keys, or in words what is wrong.
pub fn sum(folder: &Path, names: &[&str], owner: usize) -> Result<usize, String> {
    let tables = names.iter().map(|name| text(folder, &format!("{name}.csv"))).collect::<Result<Vec<_>, _>>()?;
    let tables: Vec<Vec<&str>> = tables.iter().map(|table| lines(table)).collect();
    let keys = tables.iter().map(|table| table.iter().map(key).collect::<HashSet<&str>>());
    let common = keys.reduce(|all, table| &all & &table).unwrap_or_default();
    let values = tables[owner].iter().filter(|line| common.contains(key(line))).map(|line| line.split(',').nth(1));
    let joined: Option<i64> = values.map(|value| value?.parse::<i64>().ok()).sum();
    let joined = joined.ok_or_else(|| format!("{}.csv has a value that is no number", names[owner]))?;
    for name in names {
        let report: serde_json::Value =
            serde_json::from_str(&text(folder, &format!("{name}.report.json"))?).map_err(|e| e.to_string())?;
        let (told, want) = (report["outcome"]["sum"].as_i64(), (*name == "alice").then_some(joined));
        if told != want {
            return Err(format!("{name} is told {told:?}, and the plain join says {want:?}"));
        }
    }
    let expected = text(folder, "expected.csv")?;
    if sorted(lines(&expected).into_iter()) != sorted(common.iter().copied()) {
        return Err("the plain join differs from expected.csv".to_owned());
    }
    Ok(common.len())
}

/// Compares what alice is told in a demo of groups with a plain join: of each region, or of each with each campaign if groups are of `both`, with as many
/// common keys as the demo says at least how many these are, what they spent by bob's table, and what they saw by alice's.
///
/// Returns the number of groups that are told, of those that are left out, and of all common keys, or in words what is wrong.
pub fn groups(folder: &Path, both: bool) -> Result<[usize; 3], String> {
    let read = |name: &str| text(folder, name);
    let (ours, theirs, told) = (read("alice.csv")?, read("bob.csv")?, read("alice.groups.csv")?);
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let number = |text: &String| text.parse::<i64>().map_err(|_| format!("{text} is no number"));
    let seen: HashMap<String, (String, i64)> = lines(&ours)
        .into_iter()
        .map(fields)
        .map(|row| Ok((row[0].clone(), (row[1].clone(), number(&row[2])?))))
        .collect::<Result<_, String>>()?;
    let by = if both { 2 } else { 1 };
    let mut groups: BTreeMap<Vec<String>, [i64; 3]> = BTreeMap::new();
    let mut common = Vec::new();
    for row in lines(&theirs).into_iter().map(fields) {
        let Some((campaign, views)) = seen.get(&row[0]) else { continue };
        let cents = number(&row[2])?;
        let group = groups.entry([&row[1], campaign][..by].iter().map(|name| (*name).clone()).collect()).or_default();
        *group = [group[0] + 1, group[1] + cents, group[2] + views];
        common.push(row[0].clone());
    }
    let all = groups.len();
    let wanted: Vec<String> = groups
        .into_iter()
        .filter(|(_, [keys, ..])| *keys >= LEAST as i64)
        .map(|(group, [keys, cents, views])| format!("{},{keys},{cents},{views}", group.join(",")))
        .collect();
    // Behind each sum stands its mean.
    let without_means = |row: Vec<String>| {
        let kept = row.into_iter().zip(0..).filter(|(_, at)| *at < by + 2 || *at == by + 3);
        kept.map(|(field, _)| field).collect::<Vec<_>>().join(",")
    };
    let said: Vec<String> = lines(&told).into_iter().map(fields).map(without_means).collect();
    if said != wanted {
        return Err(format!(
            "alice.groups.csv has {} rows, the plain join has {} other ones",
            said.len(),
            wanted.len()
        ));
    }
    let expected = read("expected.csv")?;
    if sorted(lines(&expected).into_iter()) != sorted(common.iter().map(String::as_str)) {
        return Err("the plain join differs from expected.csv".to_owned());
    }
    Ok([said.len(), all - said.len(), common.len()])
}

/// Compares the outputs of a demo of identifiers: each holds the rows of its party's table whose mail address or telephone number stands in the
/// other table, once and in the table's order.
///
/// Returns the number of rows of each, or in words what is wrong.
pub fn any(folder: &Path, names: &[&str]) -> Result<Vec<usize>, String> {
    let read = |name: String| text(folder, &name);
    let tables = names.iter().map(|name| read(format!("{name}.csv"))).collect::<Result<Vec<_>, _>>()?;
    let field = |line: &str, at: usize| line.split(',').nth(at).unwrap_or_default().to_lowercase();
    let has = |table: &str, at: usize| -> HashSet<String> {
        lines(table).into_iter().map(|line| field(line, at)).filter(|text| !text.is_empty()).collect()
    };
    let mut rows = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let others = tables.iter().enumerate().filter(|(other, _)| *other != place);
        let others: Vec<[HashSet<String>; 2]> = others.map(|(_, table)| [0, 1].map(|at| has(table, at))).collect();
        let matches = |line: &&str| others.iter().all(|of| (0..2).any(|at| of[at].contains(&field(line, at))));
        let joined: Vec<&str> = lines(&tables[place]).into_iter().filter(matches).collect();
        let output = read(format!("{name}.matched.csv"))?;
        if lines(&output) != joined {
            let found = lines(&output).len();
            return Err(format!("{name}.matched.csv has {found} rows, the plain join has {} other ones", joined.len()));
        }
        rows.push(joined.len());
    }
    Ok(rows)
}

/// The rows of a sample: its fields hold neither quotes nor newlines.
/// What changes on a day of a standing match, as files.
pub struct Changed {
    /// Rows that the list has more, and rows that it has no more.
    pub more: String,
    pub gone: String,
    /// Both tables afterwards.
    pub list: String,
    pub table: String,
}

/// A day on which so many rows come and go in the list `bob.csv` and in the table `alice.csv`: keys of alice's that were not on the list come there, and
/// keys of hers that were go; and alice gets rows for keys of the list, and loses others.
pub fn change(folder: &Path, rows: usize) -> Result<Changed, String> {
    let (table, list) = (text(folder, "alice.csv")?, text(folder, "bob.csv")?);
    let (ours, theirs) = (lines(&table), lines(&list));
    let [mine, listed] = [&ours, &theirs].map(|lines| lines.iter().map(key).collect::<HashSet<&str>>());
    let is_common = |line: &&&str| listed.contains(key(line)) && mine.contains(key(line));
    let some = |lines: &[&'_ str], is_common_too: bool, skip: usize| -> Vec<String> {
        let chosen = lines.iter().filter(|line| is_common(line) == is_common_too).skip(skip).take(rows);
        chosen.map(|line| (*line).to_owned()).collect()
    };
    let (more, gone) = (some(&ours, false, 0), some(&ours, true, 0));
    // Others of hers than those: on the list, and not on it.
    let left: Vec<String> = [some(&ours, true, rows), some(&ours, false, rows)].concat();
    let come = some(&theirs, false, 0);
    let header = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    fn file<'a>(header: &str, rows: impl Iterator<Item = &'a String>) -> String {
        format!("{header}\n{}", rows.map(|line| format!("{line}\n")).collect::<String>())
    }
    fn keys(lines: &[String]) -> HashSet<&str> {
        lines.iter().map(|line| line.split(',').next().unwrap_or(line)).collect()
    }
    let without = |lines: &[&'_ str], keys: HashSet<&str>| -> Vec<String> {
        lines.iter().filter(|line| !keys.contains(key(line))).map(|line| (*line).to_owned()).collect()
    };
    let (stay, listed_still) = (without(&ours, keys(&left)), without(&theirs, keys(&gone)));
    let (of_table, of_list) = (header(&table), header(&list));
    Ok(Changed {
        list: file(&of_list, listed_still.iter().chain(&more)),
        table: file(&of_table, stay.iter().chain(&come)),
        more: file(&of_list, more.iter()),
        gone: file(&of_list, gone.iter()),
    })
}

/// What a day of a standing match was.
pub struct Day {
    /// The keys of alice's table, and those that were found.
    pub keys: HashSet<String>,
    pub found: HashSet<String>,
    pub asked: u64,
    pub gained: u64,
    pub lost: u64,
}

/// Compares what alice is told on a day of a standing match with a plain join of the day's tables, and with the keys that were asked for and found `before`.
///
/// Returns what the day was, or in words what is wrong.
pub fn standing(folder: &Path, (asked, before): (&HashSet<String>, &HashSet<String>)) -> Result<Day, String> {
    let read = |name: &str| text(folder, name);
    let (table, list) = (read("alice.csv")?, read("bob.csv")?);
    let values: HashMap<&str, &str> =
        lines(&list).into_iter().filter_map(|line| Some((line.split(',').next()?, line.split(',').nth(1)?))).collect();
    let keys: Vec<&str> = lines(&table).iter().map(key).collect();
    let found: Vec<&str> = keys.iter().copied().filter(|key| values.contains_key(key)).collect();
    let with_values = |keys: &mut dyn Iterator<Item = &&str>| -> Vec<String> {
        keys.map(|key| format!("{key},{}", values.get(key).copied().unwrap_or_default())).collect()
    };
    let gained = with_values(&mut found.iter().filter(|key| !before.contains(**key)));
    let is_lost = |key: &&&str| before.contains(**key) && !values.contains_key(*key);
    let lost: Vec<String> = keys.iter().filter(is_lost).map(|key| (*key).to_owned()).collect();
    for (name, want) in [("matched.csv", &with_values(&mut found.iter())), ("gained.csv", &gained), ("lost.csv", &lost)]
    {
        let has = read(name)?;
        if lines(&has) != *want {
            return Err(format!("{name} has {} rows, and {} other ones are expected", lines(&has).len(), want.len()));
        }
    }
    let report: serde_json::Value = serde_json::from_str(&read("alice.report.json")?).map_err(|e| e.to_string())?;
    let new = keys.iter().filter(|key| !asked.contains(**key)).count() as u64;
    let told = report["outcome"]["changes"]["asked"].as_u64();
    if told != Some(new) {
        return Err(format!("{told:?} keys were asked for, and {new} are new"));
    }
    let [keys, found] = [&keys, &found].map(|keys| keys.iter().map(|key| (*key).to_owned()).collect());
    Ok(Day { keys, found, asked: new, gained: gained.len() as u64, lost: lost.len() as u64 })
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().skip(1).collect()
}

fn key<'a>(line: &&'a str) -> &'a str {
    line.split(',').next().unwrap_or(line)
}

fn sorted<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut lines: Vec<&str> = lines.collect();
    lines.sort_unstable();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: [(&str, &str); 7] = [
        ("alice.csv", "id,c1\n1,a\n2,b\n3,c\n"),
        ("bob.csv", "id,c1\n9,x\n3,y\n2,z\n"),
        ("carol.csv", "id,c1\n3,C\n2,B\n1,A\n9,X\n"),
        ("expected.csv", "id\n3\n2\n"),
        ("alice.matched.csv", "id,c1\n3,c\n2,b\n"),
        ("bob.matched.csv", "id,c1\n3,y\n2,z\n"),
        ("carol.matched.csv", "id,c1\n3,C\n2,B\n"),
    ];

    fn with(change: Option<(&str, &str)>, parties: &[&str]) -> Result<usize, String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in RIGHT.into_iter().chain(change) {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        demo(dir.path(), parties)
    }

    #[test]
    fn a_right_result_passes_and_every_wrong_one_is_caught() {
        let three = ["alice", "bob", "carol"];
        for parties in [&three[..2], &three] {
            assert_eq!(with(None, parties), Ok(2));
            for wrong in [
                ("alice.matched.csv", "id,c1\n3,c\n"),           // a row lost
                ("alice.matched.csv", "id,c1\n3,c\n2,b\n2,b\n"), // a row twice
                ("alice.matched.csv", "id,c1\n3,c\n1,a\n"),      // a wrong row
                ("bob.matched.csv", "id,c1\n3,y\n2,y\n"),        // a changed field
                ("bob.matched.csv", "id,c1\n2,z\n3,y\n"),        // not lined up
                ("expected.csv", "id\n3\n1\n"),                  // the generator is wrong
            ] {
                assert!(with(Some(wrong), parties).is_err(), "{wrong:?}");
            }
        }
        for wrong in ["id,c1\n3,C\n2,B\n1,A\n", "id,c1\n3,C\n2,B\n9,X\n", "id,c1\n2,B\n3,C\n", "id,c1\n3,C\n"] {
            assert!(with(Some(("carol.matched.csv", wrong)), &three).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_right_sum_passes_and_every_wrong_one_is_caught() {
        let report = |sum: &str| format!("{{\"outcome\": {{\"sum\": {sum}}}}}");
        let with = |change: Option<(&str, String)>| {
            let dir = tempfile::tempdir().unwrap();
            let files = [
                ("alice.csv", "id,c1\n1,10\n2,20\n3,-50\n".to_owned()),
                ("bob.csv", "id,c1\n9,7\n3,7\n2,7\n".to_owned()),
                ("carol.csv", "id,c1\n3,1\n2,1\n1,1\n".to_owned()),
                ("expected.csv", "id\n3\n2\n".to_owned()),
                ("alice.report.json", report("-30")),
                ("bob.report.json", report("null")),
                ("carol.report.json", report("null")),
            ];
            for (name, text) in files.into_iter().chain(change) {
                std::fs::write(dir.path().join(name), text).unwrap();
            }
            sum(dir.path(), &["alice", "bob", "carol"], 0)
        };
        assert_eq!(with(None), Ok(2));
        for wrong in [
            ("alice.report.json", report("-29")),                 // another sum
            ("alice.report.json", report("null")),                // none
            ("carol.report.json", report("-30")),                 // told to who does not learn
            ("alice.csv", "id,c1\n1,10\n2,\n3,-50\n".to_owned()), // no number
            ("expected.csv", "id\n3\n1\n".to_owned()),            // the generator is wrong
        ] {
            assert!(with(Some(wrong.clone())).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn right_groups_pass_and_every_wrong_one_is_caught() {
        let rows = |from: usize, to: usize, row: &dyn Fn(usize) -> String| (from..to).map(row).collect::<String>();
        let campaign = |i: usize| if i < 105 { "spring" } else { "autumn" };
        let alice = format!("id,campaign,times\n{}", rows(0, 150, &|i| format!("k{i},{},{}\n", campaign(i), i % 7)));
        let region = |i: usize| if i < 110 { "north" } else { "south" };
        let bob = format!("id,region,cents\n{}", rows(50, 200, &|i| format!("k{i},{},{}\n", region(i), 10 * i)));
        let expected = format!("id\n{}", rows(50, 150, &|i| format!("k{i}\n")));
        // Of the common keys 60 are of the north, of which 55 saw the first campaign, and 40 of the south.
        for (both, by, name, last, others) in
            [(false, "region", "north", 110, 1), (true, "region,campaign", "north,spring", 105, 2)]
        {
            let (cents, views): (usize, usize) = ((50..last).map(|i| 10 * i).sum(), (50..last).map(|i| i % 7).sum());
            let header = format!("{by},keys,spend,spend_mean,views,views_mean\n");
            let told = |keys, cents, views| format!("{header}{name},{keys},{cents},1.0,{views},1.0\n");
            let with = |change: Option<(&str, String)>| {
                let dir = tempfile::tempdir().unwrap();
                let files = [
                    ("alice.csv", alice.clone()),
                    ("bob.csv", bob.clone()),
                    ("expected.csv", expected.clone()),
                    ("alice.groups.csv", told(last - 50, cents, views)),
                ];
                for (name, text) in files.into_iter().chain(change) {
                    std::fs::write(dir.path().join(name), text).unwrap();
                }
                groups(dir.path(), both)
            };
            assert_eq!(with(None), Ok([1, others, 100]));
            let small = name.replace("north", "south");
            for wrong in [
                told(last - 49, cents, views),
                told(last - 50, cents + 1, views),
                told(last - 50, cents, views + 1),
                header.clone(),
                format!("{}{small},40,0,0.0,0,0.0\n", told(last - 50, cents, views)), // a small group is told
                told(last - 50, cents, views).replace("north", "south"),
            ] {
                assert!(with(Some(("alice.groups.csv", wrong.clone()))).is_err(), "{wrong}");
            }
            assert!(with(Some(("expected.csv", "id\nk50\n".to_owned()))).is_err());
        }
    }

    #[test]
    fn rows_by_any_identifier_pass_and_every_wrong_one_is_caught() {
        const TABLES: [(&str, &str); 4] = [
            ("alice.csv", "mail,tel,c1\na,1,x\nb,,y\n,3,z\n,,u\n"),
            ("bob.csv", "mail,tel,c1\nA,9,p\nc,3,q\n,,r\nb,3,s\n"),
            ("alice.matched.csv", "mail,tel,c1\na,1,x\nb,,y\n,3,z\n"),
            ("bob.matched.csv", "mail,tel,c1\nA,9,p\nc,3,q\nb,3,s\n"),
        ];
        let with = |change: Option<(&str, &str)>| {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in TABLES.into_iter().chain(change) {
                std::fs::write(dir.path().join(name), text).unwrap();
            }
            any(dir.path(), &["alice", "bob"])
        };
        assert_eq!(with(None), Ok(vec![3, 3]));
        for wrong in ["a,1,x\nb,,y\n", "a,1,x\n,3,z\nb,,y\n", "a,1,x\nb,,y\n,3,z\n,,u\n", "a,1,x\na,1,x\nb,,y\n,3,z\n"]
        {
            assert!(with(Some(("alice.matched.csv", &format!("mail,tel,c1\n{wrong}")))).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn right_ids_pass_and_every_wrong_one_is_caught() {
        let id = |digit: char| digit.to_string().repeat(32);
        let ids = |change: Option<(&str, String)>| {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in RIGHT {
                std::fs::write(dir.path().join(name), text).unwrap();
            }
            let alice = format!("id,c1,vesica_id\n1,a,{}\n2,b,{}\n3,c,{}\n", id('1'), id('2'), id('3'));
            let bob = format!("id,c1,vesica_id\n9,x,{}\n3,y,{}\n2,z,{}\n", id('9'), id('3'), id('2'));
            for (name, text) in [("alice.ids.csv", alice), ("bob.ids.csv", bob)].into_iter().chain(change) {
                std::fs::write(dir.path().join(name), text).unwrap();
            }
            super::ids(dir.path(), &["alice", "bob"])
        };
        assert_eq!(ids(None), Ok(2));
        let bob = |x, y, z| format!("id,c1,vesica_id\n9,x,{x}\n3,y,{y}\n2,z,{z}\n");
        for wrong in [
            bob(id('9'), id('3'), id('4')), // a common key of another id
            bob(id('1'), id('3'), id('2')), // another key of the same id
            bob(id('9'), id('3'), id('g')), // no id
            bob(id('2'), id('3'), id('2')), // two keys of one id
            format!("id,c1,vesica_id\n3,y,{}\n9,x,{}\n2,z,{}\n", id('3'), id('9'), id('2')), // another order
        ] {
            assert!(ids(Some(("bob.ids.csv", wrong.clone()))).is_err(), "{wrong}");
        }
        assert!(ids(Some(("expected.csv", "id\n3\n1\n".to_owned()))).is_err());
    }
}
