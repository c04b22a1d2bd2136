//! Other machines than this one: what is checked, built and run for them from here.
//!
//! A Mac is only checked for: nothing is linked, so no C code is needed, and a stub stands in for its compiler. For Linux on aarch64
//! [Zig](https://ziglang.org) compiles the C code, Rust's own linker links, and `qemu-aarch64` of the package qemu-user runs the
//! result. Instructions are emulated one by one there: it says what is right and not how long it takes.

use crate::dist::{self, trial};
use crate::{Chore, root, run, say};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where our code has to compile without a warning, beside this machine.
const CHECKED: [&str; 3] = ["aarch64-apple-darwin", "x86_64-apple-darwin", ARM];

/// What is run from here under qemu.
pub const ARM: &str = "aarch64-unknown-linux-musl";

/// Crates with a back end for ARM, whose tests go through all back ends.
const KERNELS: [&str; 4] = ["vesica-cpu", "vesica-block", "vesica-ring", "vesica-curve"];

/// In place of a C compiler and of what packs its objects: makes the file that is asked for, empty.
const STUB: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case "$1" in -o) : > "$2" ;; *.a) : > "$1" ;; esac
    shift
done
"#;

/// Clippy over the workspace for each target, with no warning. What is missing is an error here, and a sentence in `ci`.
pub fn check() -> Chore {
    CHECKED
        .iter()
        .try_for_each(|target| has(target))
        .and_then(|()| CHECKED.iter().try_for_each(|target| clippy(target)))
}

/// The same for the targets that are installed.
pub fn check_what_is_there() -> Chore {
    for target in CHECKED {
        match has(target) {
            Ok(()) => clippy(target)?,
            Err(why) => say(&format!("not checked: {why}")),
        }
    }
    Ok(())
}

fn clippy(target: &str) -> Chore {
    let name = target.replace('-', "_");
    let stub = script("stub", "cc", STUB)?;
    // The path of Apple's headers is asked for on a Mac alone.
    let env = [(format!("CC_{name}"), &*stub), (format!("AR_{name}"), &*stub), ("SDKROOT".to_owned(), "/")];
    let env: Vec<(&str, &str)> = env.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    // In a folder of its own: what stubs compiled must not be linked.
    let args = ["clippy", "--workspace", "--quiet", "--target-dir", "target/check", "--target", target];
    run("cargo", &[&args[..], &["--", "-D", "warnings"]].concat(), &env)
}

/// Variables of an environment.
type Env = Vec<(String, String)>;

/// Whether Rust's standard library for a target is installed.
fn has(target: &str) -> Chore {
    let folder = crate::output("rustc", &["--print", "target-libdir", "--target", target])?;
    match Path::new(folder.trim()).is_dir() {
        true => Ok(()),
        false => Err(format!("Rust for {target} is not installed: `rustup target add {target}`")),
    }
}

/// An executable file in a folder of `target`.
fn script(folder: &str, name: &str, text: &str) -> Result<String, String> {
    let folder = root().join("target").join(folder);
    let file = folder.join(name);
    let wrong = |e| format!("{}: {e}", file.display());
    fs::create_dir_all(&folder).map_err(wrong)?;
    // Cargo compiles again what was compiled by a file that is newer.
    if fs::read_to_string(&file).ok().as_deref() != Some(text) {
        fs::write(&file, text).map_err(wrong)?;
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).map_err(wrong)?;
    file.to_str().map(str::to_owned).ok_or_else(|| "the folder of the repository has no name in Unicode".to_owned())
}

/// The command that is Zig: `zig`, or the one that `pip install ziglang` brings.
pub fn zig() -> Option<&'static str> {
    let runs = |words: &&str| {
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = Command::new(words[0]);
        let ended = command.args(&words[1..]).arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        ended.is_ok_and(|ended| ended.success())
    };
    ["zig", "python3 -m ziglang"].into_iter().find(runs)
}

/// What cargo needs in its environment to build for a target of musl by Zig.
pub fn environment(target: &str) -> Result<Env, String> {
    let zig = zig().ok_or("Zig is needed to compile C code for other machines: `pip install ziglang`")?;
    let machine = target.split('-').next().unwrap_or_default();
    let cc = script(
        "zig",
        &format!("{machine}-linux-musl-cc"),
        &format!(
            "#!/bin/sh\n# Build scripts name the target as Rust does, which Zig does not know.\nfor word in \"$@\"; do\n    shift\n    \
             case \"$word\" in --target=*) ;; *) set -- \"$@\" \"$word\" ;; esac\ndone\n\
             exec {zig} cc -target {machine}-linux-musl -fno-sanitize=undefined \"$@\"\n"
        ),
    )?;
    let ar = script("zig", &format!("{machine}-linux-musl-ar"), &format!("#!/bin/sh\nexec {zig} ar \"$@\"\n"))?;
    let [lower, upper] = [target.replace('-', "_"), target.replace('-', "_").to_uppercase()];
    Ok(vec![
        (format!("CC_{lower}"), cc),
        (format!("AR_{lower}"), ar),
        (format!("CARGO_TARGET_{upper}_LINKER"), "rust-lld".to_owned()),
    ])
}

/// The program that runs those of ARM, or why there is none.
pub fn emulator() -> Result<&'static str, String> {
    let runs = |program: &&str| {
        let ended = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        ended.is_ok_and(|ended| ended.success())
    };
    let found = ["qemu-aarch64", "qemu-aarch64-static"].into_iter().find(runs);
    found.ok_or_else(|| "qemu-aarch64 is needed to run programs of ARM: `apt-get install qemu-user`".to_owned())
}

/// What building and running for ARM needs, or why something of it is not there.
pub fn arm() -> Result<(&'static str, Env), String> {
    has(ARM)?;
    Ok((emulator()?, environment(ARM)?))
}

/// A job between a party on ARM, under qemu, and one of this machine: each finds the common keys and no other.
pub fn smoke() -> Chore {
    let (_, env) = arm()?;
    let args = ["build", "--package", "vesica-cli", "--bin", "vesica"];
    let here = built(&args, &[])?;
    let there = built(&[&args[..], &["--target", ARM]].concat(), &env)?;
    meet(&there, &here)
}

/// The same between two programs that are there, the first for ARM.
pub fn meet(there: &Path, here: &Path) -> Chore {
    trial::beside(emulator()?, there, here)
}

/// The smoke test where it can be had, else a sentence.
pub fn smoke_where_it_can_run() -> Chore {
    match arm() {
        Ok(_) => smoke(),
        Err(why) => {
            say(&format!("no job between ARM and this machine was run: {why}"));
            Ok(())
        }
    }
}

/// Under qemu: the tests of the kernels on every back end of ARM, and the messages that are kept of every protocol.
pub fn test() -> Chore {
    let (qemu, mut env) = arm()?;
    env.push((format!("CARGO_TARGET_{}_RUNNER", ARM.replace('-', "_").to_uppercase()), qemu.to_owned()));
    let env: Vec<(&str, &str)> = env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let packages: Vec<&str> = KERNELS.iter().flat_map(|name| ["--package", name]).collect();
    let test = ["test", "--target", ARM];
    run("cargo", &[&test[..], &["--lib"], &packages].concat(), &env)?;
    // The other tests of that crate depend on no back end, and take minutes in an emulator.
    let codes = ["--lib", "--package", "vesica-ot", "--", "bch::", "code::", "cot::tests::the_receiver"];
    run("cargo", &[&test[..], &codes].concat(), &env)?;
    run("cargo", &[&test[..], &["--package", "vesica-psi", "--test", "all", "--", "transcripts::"]].concat(), &env)
}

/// The tests under qemu, and what is published for ARM, where these can be made; else a sentence.
pub fn everything_for_arm() -> Chore {
    if let Err(why) = arm() {
        say(&format!("nothing was tested or made for ARM: {why}"));
        return Ok(());
    }
    test()?;
    dist::run(Some(ARM))?;
    dist::wheel(Some("aarch64-unknown-linux-gnu"))
}

/// Builds a program with cargo, and gives the file that cargo says it is.
pub fn built(args: &[&str], env: &[(String, String)]) -> Result<PathBuf, String> {
    executable(&messages(args, env)?)
}

/// Runs cargo, and gives what it says of each thing that it built.
pub fn messages(args: &[&str], env: &[(String, String)]) -> Result<String, String> {
    say(&format!("> cargo {}", args.join(" ")));
    let mut cargo = Command::new("cargo");
    cargo.args(args).arg("--message-format=json-render-diagnostics").envs(env.iter().map(|(k, v)| (k, v)));
    let out = cargo.current_dir(root()).stderr(Stdio::inherit()).output().map_err(|e| format!("cargo: {e}"))?;
    if !out.status.success() {
        return Err(format!("cargo {}: {}", args.join(" "), out.status));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The program that cargo's messages name last: where it stands is cargo's to say, for the folder may be another one than `target`.
pub fn executable(messages: &str) -> Result<PathBuf, String> {
    let said = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut program = said.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.next_back().ok_or_else(|| "cargo built no program: none of its messages names one".to_owned())
}
