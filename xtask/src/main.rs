//! Every chore of the repository: `cargo xtask CHORE`.

mod abreast;
mod book;
mod built;
mod circles;
mod claims;
mod defects;
mod deny;
mod dist;
mod documents;
mod errors;
mod fuzz;
mod headers;
mod inlined;
mod journey;
mod layers;
mod machines;
mod reference;
mod secrets;
mod shaped;
mod traces;

use abreast::Task;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use vesica_cpu::Backend;

const HELP: &str = "\
cargo xtask CHORE

  ci [--long]    all checks and all tests; --long adds the ones that take minutes
  test           all tests, on every instruction set that this CPU has
  layers         the crates' dependencies against xtask/layers.toml, and where `unsafe` stands
  circles        the files of each crate: none leads back to itself through those that it names, but those in xtask/circles.toml
  deny           the crates that we depend on against deny.toml: licences, bans, sources
  once           nothing is compiled twice because only tests ask for one of its features; and every file of tests is part of a test
  headers        the headers of the protocol files
  claims         the tables of SECURITY.md: every claim names tests, and they are there
  journey        the map, the journey and the glossary: the files and functions that they name are there
  book           the book and the pages beside it: every link leads to a page or file that is there, and to a heading that it has; and
                 the book is rendered to target/book, where mdBook is installed
  bench          the pages of benchmarks: as their kept results draw them; and the tests of what runs and draws them
  gen [--check]  write (or compare) what is generated: schemas, the references of commands, errors, protocols and
                 Python, the notebook
  dist [TARGET]  what is published, in target/dist: an archive with a static program, a container image, a list of parts, sums;
                 needs `rustup target add x86_64-unknown-linux-musl` and musl-gcc; for aarch64-unknown-linux-musl, Zig
  wheel [TARGET] the wheel that is published, for this machine's kind or for TARGET, in target/wheels: python/build.py makes it, and no
                 file in it holds the name of a folder of whoever builds
  check-targets  our code compiles without a warning for Macs and for Linux on ARM; needs `rustup target add` for each
  arm            a job between a party on ARM, under qemu, and one of this machine: both find the common keys. Needs Zig, qemu-user and
                 `rustup target add aarch64-unknown-linux-musl`
  arm test       under qemu: the tests of the kernels on every back end of ARM, and the kept messages of every protocol
  fuzz [TARGET...] [SECONDS [AT-ONCE]]
                 fuzz decoders, or all of them, each for so many seconds (60) and so many at a time (1), and print what came of it;
                 needs nightly Rust and cargo-fuzz
  secrets [CASE…]
                 no branch and no address depends on a secret but where xtask/secrets.toml says so: each kernel under Valgrind, on the
                 back ends that it knows
  secrets arm [CASE…]
                 the same on ARM: under qemu each kernel takes the same instructions and addresses for five secrets; prints how many
                 instructions. Needs what `arm` needs, of qemu 7 or 8
  secrets time [CASE…]
                 no time depends on a secret: on the best back end of this CPU, 20 seconds a kernel; wants a quiet machine
  sim [--kind KIND] [SEED [COUNT]] [--long]
                 runs of two parties on virtual time, network and disk, broken as a seed says: 1,000 seeds from 0, or COUNT from SEED; one
                 seed alone is told in words; --long goes on until ten fail; KIND is honest, greedy, power, liar, rollback, service or three
  sim defects    puts each defect of crates/vesica-sim/defects into a copy of the code, and says which seed finds it
  inlined        each instruction of vectors stands in the kernels of the command as it is installed, and is no call; needs nm of binutils
  shaped LISTEN TARGET MBIT MS
                 relay TCP connections over a network of that rate each way and that round trip, to measure jobs on
";

/// A chore's result: what went wrong, in words.
type Chore = Result<(), String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["ci"] => ci(false),
        ["ci", "--long"] => ci(true),
        ["test"] => test(false),
        ["layers"] => layers::check(&root()),
        ["circles"] => circles::check(&root()),
        ["deny"] => deny::check(&root()),
        ["once"] => built::once(&root()),
        ["headers"] => headers::check(&root()),
        ["claims"] => claims::check(&root()),
        ["journey"] => journey::check(&root()),
        ["book"] => book::check(&root()),
        ["bench"] => bench(),
        ["gen"] => reference::generate(&root(), false),
        ["dist"] => dist::run(None),
        ["dist", target] => dist::run(Some(target)),
        ["wheel"] => dist::wheel(None),
        ["wheel", target] => dist::wheel(Some(target)),
        ["check-targets"] => machines::check(),
        ["arm"] => machines::smoke(),
        ["arm", "test"] => machines::test(),
        ["fuzz", which @ ..] => fuzz::run(which),
        ["secrets", "arm", cases @ ..] => traces::compare(cases),
        ["secrets", "time", cases @ ..] => secrets::time(&root(), cases),
        ["secrets", cases @ ..] => secrets::watch(&root(), cases),
        ["inlined"] => inlined::check(),
        ["sim", "defects"] => defects::find(),
        ["sim", asked @ ..] => simulate(asked),
        ["shaped", listen, target, mbit, round_trip] => shaped::relay(listen, target, mbit, round_trip),
        ["gen", "--check"] => reference::generate(&root(), true),
        _ => Err(HELP.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&why);
            ExitCode::FAILURE
        }
    }
}

fn ci(long: bool) -> Chore {
    run("cargo", &["fmt", "--all", "--check"], &[])?;
    // What Python's tests need is downloaded while cargo compiles.
    let prepare = Command::new("python3").args(["python/build.py", "--prepare"]).current_dir(root()).spawn();
    let mut prepare = prepare.map_err(|e| format!("python3: {e}"))?;
    layers::check(&root())?;
    circles::check(&root())?;
    deny::check(&root())?;
    built::once(&root())?;
    headers::check(&root())?;
    claims::check(&root())?;
    journey::check(&root())?;
    book::check(&root())?;
    run("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], &[])?;
    built::all()?;
    reference::generate(&root(), true)?;
    test(long)?;
    simulate(&["0", SEEDS])?;
    bench()?;
    // A wheel of what was just built, tested in virtual environments of its own.
    match prepare.wait() {
        Ok(ended) if ended.success() => run("python3", &["python/build.py", "--offline", "--test"], &[])?,
        ended => return Err(format!("python/build.py --prepare: {ended:?}")),
    }
    if !long {
        return Ok(());
    }
    deny::advisories_where_it_is_there()?;
    inlined::check()?;
    secrets::watch(&root(), &[])?;
    secrets::time(&root(), &[])?;
    traces::compare_where_it_can_run()?;
    // Compiles all that we depend on once more for each target, which takes minutes the first time.
    machines::check_what_is_there()?;
    machines::smoke_where_it_can_run()?;
    machines::everything_for_arm()?;
    dist::run(None)?;
    dist::wheel(None)?;
    defects::find()?;
    fuzz::run(&[])
}

/// Seeds that every check plays.
const SEEDS: &str = "1000";

/// Plays seeds of the simulator.
fn simulate(asked: &[&str]) -> Chore {
    let program = built::program("vesica-sim", "vesica-sim")?;
    run(&program.display().to_string(), asked, &[])
}

/// Needs Python 3.11 or later, and the command as it is shipped.
fn bench() -> Chore {
    let vesica = built::program("vesica-cli", "vesica")?.display().to_string();
    run("python3", &["-m", "unittest", "--quiet", "bench.tests"], &[("VESICA", &vesica)])
}

/// The whole suite on the best instruction set, then what depends on the set on each of the others, and what is in the documentation.
fn test(long: bool) -> Chore {
    let mut tasks: Vec<Task> = built::tests(None)?.into_iter().map(|test| Task::test(test.0, test.1)).collect();
    // The last one is the best, on which all of them ran.
    for cpu in Backend::available().iter().rev().skip(1) {
        // The kernels' own tests go through every instruction set by themselves, at all lengths, and `transcripts` holds the
        // messages of every protocol to the same bytes on each. So what another set could change is a kernel as a protocol
        // calls it: every protocol finds on each what a plain join does. The rest depends on bytes, which are the same.
        let which = ["transcripts", "_join", "_ideal_functionality", "_plain_count", "unbalanced"];
        for (program, folder) in built::tests(Some("vesica-psi"))? {
            tasks.push(Task::test(program, folder).only(&which).on(cpu.name()));
        }
    }
    tasks.push(Task::cargo(&["test", "--workspace", "--doc", "--no-fail-fast", "--quiet"]));
    abreast::run(tasks)?;
    if long {
        run("cargo", &["test", "--release", "--workspace", "--", "--ignored"], &[])?;
    }
    Ok(())
}

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Runs a program in the workspace's folder; anything but success is an error.
fn run(program: &str, args: &[&str], env: &[(&str, &str)]) -> Chore {
    let shown: Vec<String> = env.iter().map(|(k, v)| format!("{k}={v}")).chain([program.to_owned()]).collect();
    let shown = format!("{} {}", shown.join(" "), args.join(" "));
    say(&format!("> {shown}"));
    let status = Command::new(program).args(args).envs(env.iter().copied()).current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

/// Runs a program in the workspace's folder and returns what it printed on standard output.
fn output(program: &str, args: &[&str]) -> Result<String, String> {
    let out = Command::new(program).args(args).current_dir(root()).output().map_err(|e| format!("{program}: {e}"))?;
    if !out.status.success() {
        return Err(format!("{program} {}: {}\n{}", args.join(" "), out.status, String::from_utf8_lossy(&out.stderr)));
    }
    String::from_utf8(out.stdout).map_err(|e| format!("{program}: {e}"))
}

#[expect(clippy::print_stderr, reason = "this is a command's output")]
fn say(text: &str) {
    eprintln!("{text}");
}
