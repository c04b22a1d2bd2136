//! `vesica demo`: two parties or three on one machine, each a process, from nothing to a checked result.

mod standing;

use crate::failure::{Failure, Outcome};
use crate::flags::{Demo, GroupsOf};
use crate::verify::LEAST;
use crate::{Itself, crash, interrupt, output, progress, verify};
use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use vesica_job::JobError;
use vesica_job::identity::Identity;
use vesica_job::numbers::count;
use vesica_job::sample::{Format, Keys, PARTIES, People, Sample};

/// How long the other parties may go on after one has failed.
const GRACE: Duration = Duration::from_secs(20);

pub fn run(args: Demo, itself: &Itself) -> Outcome {
    if args.standing {
        return standing::run(args, itself);
    }
    let names = &PARTIES[..usize::from(args.parties)];
    let identities = names.iter().map(|name| identity(name)).collect::<Result<Vec<_>, _>>()?;
    let prints: Vec<String> = identities.iter().map(|i| i.fingerprint().to_string()).collect();
    let jobs = jobs(&args, names, &free_ports(names.len())?, &prints);
    for job in &jobs {
        let spec = vesica_spec::parse(job).map_err(|e| Failure::usage(e.message))?;
        vesica_spec::plan(&spec)?;
    }

    let folder = folder(args.out.as_deref())?;
    match args.any {
        true => make_identified_tables(args.rows, names, &folder)?,
        false => make_tables(args.rows, names.len(), &folder)?,
    }
    if args.groups.is_some() {
        make_grouped_tables(&folder)?;
    }
    for identity in &identities {
        identity.write(&folder).map_err(JobError::from)?;
    }
    for (name, text) in names.iter().zip(&jobs) {
        let path = folder.join(format!("{name}.toml"));
        std::fs::write(&path, text).map_err(Failure::file("cannot write", path))?;
    }

    let logs: Vec<String> = names[1..].iter().map(|name| format!("{name}: {}", log(&folder, name).display())).collect();
    output::tell(&format!("{} run; this is what alice sees ({})", names.join(" and "), logs.join(", ")));
    let words = all(&folder, names, itself)?;
    let rows = match () {
        () if args.any => verify::any(&folder, names),
        () if args.sum => verify::sum(&folder, names, owner(names)).map(|keys| vec![keys]),
        () if args.groups.is_some() => verify::groups(&folder, of_both(&args)).map(Vec::from),
        () if args.ids => verify::ids(&folder, names).map(|rows| vec![rows]),
        () => verify::demo(&folder, names).map(|rows| vec![rows]),
    };
    let rows = rows.map_err(|why| {
        Failure::new(
            crash::EXIT,
            format!("WRONG RESULT: {why}. This is a bug in Vesica; please keep {} and report it", folder.display()),
        )
    })?;
    let outputs = if names.len() == 2 { "both" } else { "all" };
    let of_each: Vec<String> = rows.iter().map(|rows| count(*rows as u64)).collect();
    let rows = of_each.join(" and ");
    let checked = match args.ids {
        false if args.any => format!(
            "the outputs hold exactly the {rows} rows of their tables whose mail address or telephone number the other table has, each once and \
             in its table's order"
        ),
        true => format!(
            "both outputs hold all rows of their tables, and joined by vesica_id they are exactly the {rows} rows of a plain join. To join \
             them was for this check alone: neither party could do that by itself"
        ),
        false if args.groups.is_some() => {
            let [groups, others, keys] = [&of_each[0], &of_each[1], &of_each[2]];
            let what = if of_both(&args) { "pairs of a region and a campaign" } else { "regions" };
            format!(
                "what alice is told of {groups} {what} is exactly what a plain join says of them, over {keys} common keys; {others} with fewer than {LEAST} \
                 are not in it, nobody is told which keys are common, and there are no rows"
            )
        }
        false if args.sum => {
            format!(
                "what alice is told is exactly the sum of a plain join, over {rows} common keys; nobody is told which they are, and there are no rows"
            )
        }
        false => format!("{outputs} outputs hold exactly the {rows} rows of a plain join, in the same order"),
    };
    output::result(&format!(
        "{words}\nChecked: {checked}.\n{}",
        closing_words(&folder, names, &outputs_of(&args, names), itself)
    ))
}

fn identity(name: &str) -> Result<Identity, Failure> {
    Ok(Identity::generate(name).map_err(JobError::from)?)
}

/// Ports that are free now, one for each party. Another program may take one before its party does; then that party says so.
fn free_ports(parties: usize) -> Result<Vec<u16>, Failure> {
    // All are held until the last is found, so that no two are the same.
    let listeners = (0..parties).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>();
    let ports = listeners.and_then(|all| all.iter().map(|one| Ok(one.local_addr()?.port())).collect());
    ports.map_err(|e| Failure::usage(format!("no free port on 127.0.0.1: {e}")))
}

/// The folder, which must be new or empty: a demo replaces nothing.
fn folder(out: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(path) = out else {
        let made = tempfile::Builder::new().prefix("vesica-demo-").tempdir();
        return Ok(made.map_err(Failure::file("cannot make a folder in", std::env::temp_dir()))?.keep());
    };
    std::fs::create_dir_all(path).map_err(Failure::file("cannot make the folder", path))?;
    if std::fs::read_dir(path).map_err(Failure::file("cannot read the folder", path))?.next().is_some() {
        return Err(Failure::usage(format!("{} is not empty; name a new folder", path.display())));
    }
    Ok(path.to_owned())
}

fn make_tables(rows: u64, parties: usize, folder: &Path) -> Outcome {
    let rows = vec![rows; parties];
    let overlap = rows[0].div_ceil(2);
    let sample = Sample { rows, overlap, columns: 2, keys: Keys::Id, format: Format::Csv, seed: 1 };
    let screen = progress::begin(progress::How::Shown);
    sample.write(folder, screen.control())?;
    Ok(())
}

/// What the regions of a demo of groups are called.
const REGIONS: [&str; 6] = ["north", "east", "south", "west", "middle", "islands"];

/// What the campaigns are called: the last one is small.
const CAMPAIGNS: [&str; 3] = ["spring", "autumn", "gala"];

/// Makes of two tables one with what campaign each key saw and how often, and one with the region of each and what it spent.
fn make_grouped_tables(folder: &Path) -> Outcome {
    for (name, header) in [("alice", "id,campaign,times"), ("bob", "id,region,cents")] {
        let path = folder.join(format!("{name}.csv"));
        let text = std::fs::read_to_string(&path).map_err(Failure::file("cannot read", &path))?;
        let mut rows = format!("{header}\n");
        for (id, numbers) in text.lines().skip(1).filter_map(|row| row.split_once(',')) {
            let number =
                |place: usize| numbers.split(',').nth(place).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            rows += &match name {
                "alice" => {
                    let campaign = if number(1) % 1000 == 0 { 2 } else { number(1) as usize % 2 };
                    format!("{id},{},{}\n", CAMPAIGNS[campaign], number(0) % 20)
                }
                // There are fewer of the later ones.
                _ => format!("{id},{},{}\n", REGIONS[(number(0) % 6).min(number(0) / 6 % 6) as usize], number(1)),
            };
        }
        std::fs::write(&path, rows).map_err(Failure::file("cannot write", path))?;
    }
    Ok(())
}

/// Tables of people of whom half are in both, with a mail address, a telephone number, or both.
fn make_identified_tables(rows: u64, names: &[&str], folder: &Path) -> Outcome {
    let [mails, phones] = [Keys::Email, Keys::Phone].map(|keys| People::new(keys, 1));
    for (place, name) in names.iter().enumerate() {
        // Alice lacks a quarter of the addresses, and another quarter of the numbers; bob other thirds.
        let (from, of) = [(0, 4), (rows / 2, 3)][place.min(1)];
        let mut text = b"mail,tel,c1\n".to_vec();
        for person in from..from + rows {
            if person % of != 1 {
                mails.key(person, &mut text);
            }
            text.push(b',');
            if person % of != 2 {
                phones.key(person, &mut text);
            }
            text.extend_from_slice(format!(",{}\n", person * 7919 % 1_000_000).as_bytes());
        }
        let path = folder.join(format!("{name}.csv"));
        std::fs::write(&path, text).map_err(Failure::file("cannot write", path))?;
    }
    Ok(())
}

/// The job files, as a person would write them. Each party calls those before it, and is called by those after it.
fn jobs(args: &Demo, names: &[&str], ports: &[u16], prints: &[String]) -> Vec<String> {
    let line = |text: &str, why: &str| format!("{text:<33} # {why}\n");
    let chosen = match args.ids {
        true => "protocol = \"rr22\"\nresult = \"ids\"\n".to_owned(),
        false if args.groups.is_some() => {
            let (other, reveals, what) = match of_both(args) {
                true => (
                    ", other = { by = [\"campaign\"], most = 4, of_a_key = 1 }",
                    "\"chosen_groups\", \"chosen_pairs\", \"chosen_values\"",
                    "campaigns and numbers of views",
                ),
                false => ("", "\"chosen_values\"", "numbers of views"),
            };
            format!(
                "protocol = \"rr22\"\nresult = \"groups\"\ngroups = {{ of = \"bob\", by = [\"region\"], most = 8, of_a_key = 1, least = {LEAST}{other} }}\n\
                 sums = [\n  {{ name = \"spend\", of = \"bob\", largest = 1000000 }},\n  {{ name = \"views\", of = \"alice\", largest = 20 }},\n]\n{}",
                line(
                    &format!("accept = [{reveals}]"),
                    &format!("alice could choose {what} that name keys: `vesica plan` says how")
                )
            )
        }
        false if args.sum => "protocol = \"rr22\"\nresult = \"sum\"\n".to_owned(),
        false if args.any => format!(
            "protocol = {:?}\ncurve = {:?}\nmatch = \"any\"\nidentifiers = [\n  {{ name = \"email\", rules = [\"email\"] }},\n  {{ name = \"phone\", \
             rules = [\"digits\"] }},\n]\n",
            args.protocol, args.curve
        ),
        false => format!("protocol = {:?}\ncurve = {:?}\njoin = \"inner\"\n", args.protocol, args.curve),
    };
    let keys = if args.any { "{ email = \"mail\", phone = \"tel\" }" } else { "[\"id\"]" };
    let all = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let learners = if args.sum || args.groups.is_some() { "\"alice\"" } else { &all };
    let both = if names.len() == 2 { "both" } else { "all" };
    // What three parties must know with `ecdh`, and what makes their outputs line up.
    let of_three = match names.len() {
        2 => String::new(),
        _ if args.sum => {
            let accept = "accept = [\"leader_and_pivot\", \"chosen_values\"]\n".to_owned();
            line("pivot = \"carol\"", "does not collude with alice") + &accept
        }
        _ => {
            let accept = match args.protocol.as_str() {
                "ecdh" => line(
                    "accept = [\"pair_count\"]",
                    "one learns how many keys two have in common: `vesica plan` says who",
                ),
                _ => String::new(),
            };
            accept
                + &line("duplicates = \"error\"", "each key stands in one row of a table, so that the outputs line up")
        }
    };
    let job = |me: usize| {
        let name = names[me];
        let peers: Vec<usize> = (0..names.len()).filter(|peer| *peer != me).collect();
        let others: Vec<String> = peers.iter().map(|&peer| format!("{}.toml", names[peer])).collect();
        let mut contact = String::new();
        if let Some(callers) = names.get(me + 1..).filter(|callers| !callers.is_empty()) {
            let call = if callers.len() == 1 { "calls" } else { "call" };
            let why = format!("{} {call} here; 0.0.0.0 to be called by other machines", callers.join(" and "));
            contact += &line(&format!("listen = \"127.0.0.1:{}\"", ports[me]), &why);
        }
        for (peer, port) in names.iter().zip(ports).take(me) {
            contact += &format!("connect.{peer} = \"127.0.0.1:{port}\"\n");
        }
        let value = match name {
            _ if args.sum && me == owner(names) => ", value = \"c1\"",
            "alice" if args.groups.is_some() => ", values = { views = \"times\" }",
            _ if args.groups.is_some() => ", values = { spend = \"cents\" }",
            _ => "",
        };
        let output = outputs_of(args, &[name]).into_iter().map(|file| format!("output = {{ path = \"{file}\" }}\n"));
        let output: String = output.collect();
        let trust = |&peer: &usize| format!("tls.peers.{} = \"{}\"\n", names[peer], prints[peer]);
        format!(
            r#"# {name}'s side of a demo; see also {others}. Start them in any order: vesica run {name}.toml

{shared}id = "demo"
parties = [{all}]
{chosen}{learns}{of_three}
{mine}name = "{name}"
{contact}{identity}{trust}input = {{ path = "{name}.csv", keys = {keys}{value} }}
{output}report = "{name}.report.json"
"#,
            others = others.join(" and "),
            shared = line("[shared]", &format!("the same for {both}, and compared before any data moves")),
            learns = line(&format!("learns = [{learners}]"), "who gets the result"),
            mine = line("[mine]", "never sent; paths start at this file's folder"),
            identity = line(&format!("tls.identity = \"{name}.pem\""), &format!("as `vesica cert {name}` makes it")),
            trust = peers.iter().map(trust).collect::<String>(),
        )
    };
    (0..names.len()).map(job).collect()
}

/// The outputs of these parties.
fn outputs_of(args: &Demo, names: &[&str]) -> Vec<String> {
    let ending = match args.ids {
        _ if args.sum => return Vec::new(),
        true => "ids.csv",
        false if args.groups.is_some() => "groups.csv",
        false => "matched.csv",
    };
    let learns = |name: &&&str| args.groups.is_none() || **name == "alice";
    names.iter().filter(learns).map(|name| format!("{name}.{ending}")).collect()
}

/// Whether both parties have groups.
fn of_both(args: &Demo) -> bool {
    args.groups == Some(GroupsOf::Both)
}

/// Whose values a sum adds up: of two parties those of the one that is not told it, and of three the leader's.
fn owner(names: &[&str]) -> usize {
    usize::from(names.len() == 2)
}

/// Where a party's standard error goes; alice's is seen.
fn log(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// Runs the parties and returns what alice says at the end.
fn all(folder: &Path, names: &[&str], itself: &Itself) -> Result<String, Failure> {
    let mut children = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let stderr = match place {
            0 => Stdio::inherit(),
            _ => File::create(log(folder, name)).map_err(Failure::file("cannot write", log(folder, name)))?.into(),
        };
        children.push(start(itself, folder, name, stderr)?);
    }
    let ids: Vec<_> = children.iter().map(|child| nix::unistd::Pid::from_raw(child.id() as i32)).collect();
    interrupt::on_signal(move || {
        // They stand in groups of their own, so that they hear Ctrl-C once, from here.
        for id in &ids {
            let _ = nix::sys::signal::kill(*id, nix::sys::signal::Signal::SIGINT);
        }
    })?;

    let ends = wait(&mut children).map_err(Failure::file("cannot wait for", "the parties"))?;
    if ends.iter().all(ExitStatus::success) {
        let mut words = String::new();
        let out = children[0].stdout.take().expect("it was piped");
        out.take(1 << 20).read_to_string(&mut words).map_err(Failure::file("cannot read", "alice's report"))?;
        return Ok(words);
    }
    let codes: Vec<u8> = ends.into_iter().map(code).collect();
    let how = |(name, code): (&&str, &u8)| format!("{name} with {code}");
    let last = |name: &&str| {
        let told = std::fs::read_to_string(log(folder, name)).unwrap_or_default();
        format!("; {name}'s last words: {}", told.lines().last().unwrap_or("nothing").trim_start_matches("error: "))
    };
    Err(Failure::new(
        blame(&codes),
        format!(
            "{} ended with exit code {}, {}{}",
            names[0],
            codes[0],
            names.iter().zip(&codes).skip(1).map(how).collect::<Vec<_>>().join(", "),
            names.iter().skip(1).map(last).collect::<String>()
        ),
    ))
}

fn start(itself: &Itself, folder: &Path, name: &str, log: Stdio) -> Result<Child, Failure> {
    let [program, before @ ..] = itself else {
        return Err(Failure::usage("the system does not say where this program stands, so it cannot start itself"));
    };
    Command::new(program)
        .args(before)
        .arg("run")
        .arg(folder.join(format!("{name}.toml")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(Failure::file("cannot start", program))
}

/// Waits for all. Where one fails, the others are given a moment to notice and are then ended.
fn wait(children: &mut [Child]) -> std::io::Result<Vec<ExitStatus>> {
    let mut failed_at: Option<Instant> = None;
    loop {
        let ends = children.iter_mut().map(Child::try_wait).collect::<std::io::Result<Vec<_>>>()?;
        if let Some(ends) = ends.iter().copied().collect() {
            return Ok(ends);
        }
        if ends.iter().flatten().any(|status| !status.success()) {
            let since = *failed_at.get_or_insert_with(Instant::now);
            if since.elapsed() > GRACE {
                children.iter_mut().try_for_each(Child::kill)?;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process's exit code; one that was ended by a signal counts as interrupted.
fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(interrupt::EXIT)
}

/// The code that says most: 5 only says that it was another one.
fn blame(codes: &[u8]) -> u8 {
    let said = codes.iter().copied().find(|code| ![0, 5].contains(code));
    said.or(codes.iter().copied().max()).unwrap_or(0)
}

/// What a person may do next. Where an interpreter runs this program, as with the Python package, that stands in the commands.
fn closing_words(folder: &Path, names: &[&str], outputs: &[String], itself: &Itself) -> String {
    let typed = typed(itself);
    let of_all = |ending: &str| names.iter().map(|name| format!("{name}.{ending}")).collect::<Vec<_>>().join(", ");
    let files = [of_all("csv"), of_all("toml"), of_all("pem"), outputs.join(", "), of_all("report.json")];
    let width = of_all("report.json").len();
    let whats = ["the tables", "the jobs", "the identities", "the outputs", "the reports"];
    let lines = files.into_iter().zip(whats).filter(|(files, _)| !files.is_empty());
    let expected = [("expected.csv".to_owned(), "the common keys")];
    let expected = expected.into_iter().filter(|(name, _)| folder.join(name).exists());
    let lines = lines.into_iter().chain(expected);
    let lines: String = lines.map(|(files, what)| format!("  {files:width$}   {what}\n")).collect();
    let command = |name: &&str| {
        let job = folder.join(format!("{name}.toml")).display().to_string();
        format!("  {typed} run {}\n", quoted(&job))
    };
    format!(
        "\nEverything is in {}:\n{lines}\nTo do it by hand, in {} terminals:\n{}",
        folder.display(),
        if names.len() == 2 { "two" } else { "three" },
        names.iter().map(command).collect::<String>()
    )
}

/// What a person types to start this program.
fn typed(itself: &Itself) -> String {
    let typed: Vec<String> = match itself {
        [] | [_] => {
            let name = std::env::args().next().filter(|name| name.contains('/'));
            vec![name.unwrap_or_else(|| "vesica".to_owned())]
        }
        words => words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    typed.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// As a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_to_type_start_this_program_again() {
        let itself: Vec<_> = ["/v/my env/python3", "-m", "vesica"].map(Into::into).into();
        let outputs = ["alice.matched.csv".to_owned()];
        let words = closing_words(Path::new("/d"), &["alice", "bob"], &outputs, &itself);
        assert!(words.contains("\n  '/v/my env/python3' -m vesica run /d/alice.toml\n"), "{words}");
        let words = closing_words(Path::new("/d"), &["alice", "bob"], &outputs, &itself[..1]);
        assert!(words.contains(" run /d/bob.toml\n") && !words.contains("my env"), "{words}");
    }

    #[test]
    fn the_jobs_go_together() {
        for (parties, protocol, flag) in [
            (2, "ecdh", ""),
            (2, "ecdh", "ids"),
            (2, "rr22", "any"),
            (2, "ecdh", "sum"),
            (2, "ecdh", "groups"),
            (2, "ecdh", "groups of both"),
            (3, "ecdh", ""),
            (3, "rr22", ""),
            (3, "ecdh", "sum"),
        ] {
            let [ids, any, sum] = ["ids", "any", "sum"].map(|name| name == flag);
            let groups = match flag {
                "groups" => Some(GroupsOf::One),
                "groups of both" => Some(GroupsOf::Both),
                _ => None,
            };
            let (protocol, curve) = (protocol.into(), "curve25519".into());
            let args = Demo { parties, ids, any, sum, groups, standing: false, rows: 1, protocol, curve, out: None };
            let names = &PARTIES[..usize::from(parties)];
            let prints: Vec<String> = ["a", "b", "c"].map(|digit| format!("sha256:{}", digit.repeat(64))).into();
            let jobs = jobs(&args, names, &[5300, 5301, 5302], &prints);
            let specs: Vec<_> = jobs.iter().map(|text| vesica_spec::parse(text).unwrap()).collect();
            for (me, spec) in specs.iter().enumerate() {
                vesica_spec::plan(spec).unwrap();
                assert_eq!(spec.shared, specs[0].shared);
                assert_eq!((spec.mine.listen.is_some(), spec.mine.connect.len()), (me + 1 < names.len(), me));
                for (name, print) in names.iter().zip(&prints).filter(|(name, _)| **name != spec.mine.name) {
                    assert_eq!(spec.mine.tls.as_ref().unwrap().peers[*name], vesica_spec::Pins::from(print.as_str()));
                }
            }
        }
    }

    #[test]
    fn the_one_at_fault_is_blamed() {
        let codes: [&[u8]; 6] = [&[5, 3], &[4, 5], &[5, 0], &[130, 5], &[5, 5, 2], &[0, 5, 0]];
        assert_eq!(codes.map(blame), [3, 4, 5, 130, 2, 5]);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(["a/b.toml", "a b", "it's"].map(quoted), ["a/b.toml", "'a b'", r"'it'\''s'"]);
    }
}
