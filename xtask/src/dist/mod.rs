//! `cargo xtask dist`: what is published, made from the sources. Needs Linux with GNU tar, gzip, coreutils and util-linux.

mod image;
mod parts;
mod paths;
pub mod trial;

use crate::{Chore, machines, output, root, say};
use parts::Parts;
use paths::Paths;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A machine that a static program is made for.
pub struct Target {
    /// As Rust calls it.
    triple: &'static str,
    /// As container images call it.
    arch: &'static str,
    /// The C compiler, where the environment names none. If it is not there, Zig is taken.
    cc: &'static str,
}

const TARGETS: [Target; 2] = [
    Target { triple: "x86_64-unknown-linux-musl", arch: "amd64", cc: "musl-gcc" },
    Target { triple: "aarch64-unknown-linux-musl", arch: "arm64", cc: "aarch64-linux-musl-gcc" },
];

/// What stands beside the program in the archive, of the files of the repository.
const PAGES: [&str; 3] = ["README.md", "CHANGELOG.md", "LICENSE"];

/// Makes everything for `triple`, or for the first target, in `target/dist`, and tries the program out.
pub fn run(triple: Option<&str>) -> Chore {
    let target = match triple {
        None => &TARGETS[0],
        Some(triple) => TARGETS.iter().find(|target| target.triple == triple).ok_or_else(|| {
            let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
            format!("{triple:?} is no target of dist; the targets are {}", known.join(", "))
        })?,
    };
    let metadata = metadata()?;
    let paths = Paths::of(&metadata, &output("rustc", &["-vV"])?)?;
    let (program, artifacts) = build(target, &paths)?;
    paths.are_not_in(&program)?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).map_err(|e| format!("Cargo.lock: {e}"))?;
    let parts = Parts::of(&artifacts, &metadata, &lock, target.triple, &output("rustc", &["--version"])?)?;
    parts.are(&linked(target)?)?;

    let dist = root().join("target/dist");
    let name = format!("vesica-{}-{}", parts.version(), target.triple);
    let folder = dist.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    fs::create_dir_all(folder.join("completions")).map_err(|e| format!("{}: {e}", folder.display()))?;
    let copy = |from: &Path, to: &str| {
        fs::copy(from, folder.join(to)).map(drop).map_err(|e| format!("{}: {e}", from.display()))
    };
    let write = |to: &str, text: &str| fs::write(folder.join(to), text).map_err(|e| format!("{to}: {e}"));
    copy(&program, "vesica")?;
    PAGES.iter().try_for_each(|page| copy(&root().join(page), page))?;
    write("LICENSES.txt", &parts.licences()?)?;
    write("sbom.cdx.json", &parts.bill())?;
    if target.triple.starts_with(std::env::consts::ARCH) {
        trial::run(&program)?;
        help(&program, &folder)?;
    } else {
        let here = machines::built(&["build", "--quiet", "--package", "vesica-cli", "--bin", "vesica"], &[])?;
        match machines::emulator() {
            Ok(_) => machines::meet(&program, &here)?,
            Err(why) => say(&format!("{name} was not tried out: {why}")),
        }
        // The manual is that of this machine's build.
        help(&here, &folder)?;
    }

    paths.are_not_in(&folder)?;

    let (archive, picture, bill) = (format!("{name}.tar.gz"), format!("{name}.oci.tar"), format!("{name}.cdx.json"));
    tar(&dist, &[&name], &dist.join(&archive), true)?;
    image::write(&folder, parts.version(), target.arch, &dist.join(&picture))?;
    fs::copy(folder.join("sbom.cdx.json"), dist.join(&bill)).map_err(|e| format!("{bill}: {e}"))?;
    let sums = dist.join(format!("{name}.sha256"));
    let all = [&archive, &picture, &bill];
    let lines: Result<Vec<String>, String> =
        all.iter().map(|file| Ok(format!("{}  {file}\n", sha256(&dist.join(file))?))).collect();
    fs::write(&sums, lines?.concat()).map_err(|e| format!("{}: {e}", sums.display()))?;
    say(&format!("{}: {}, {} and {}, with their sums in {name}.sha256", dist.display(), archive, picture, bill));
    Ok(())
}

/// The machines that a wheel is made for from here, with glibc 2.28 and later, by Zig.
const WHEELS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Makes the wheel that is published, in `target/wheels`, and reads every file in it. It is for this machine's kind and C library, or for
/// a target.
pub fn wheel(triple: Option<&str>) -> Chore {
    let paths = Paths::of(&metadata()?, &output("rustc", &["-vV"])?)?;
    let target = triple.map(|triple| match WHEELS.contains(&triple) {
        true => Ok(["--target", triple]),
        false => Err(format!("{triple:?} is no target of wheel; the targets are {}", WHEELS.join(", "))),
    });
    let target = target.transpose()?;
    let args: Vec<&str> = ["python/build.py"].into_iter().chain(target.into_iter().flatten()).collect();
    crate::run("python3", &args, &[("CARGO_ENCODED_RUSTFLAGS", &paths.flags())])?;
    let wheels = root().join("target/wheels");
    let wrong = |e| format!("{}: {e}", wheels.display());
    let files = fs::read_dir(&wheels).map_err(wrong)?.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let mut built =
        files.iter().map(|file| file.path()).filter(|file| file.extension().is_some_and(|end| end == "whl"));
    let wheel = built.next().ok_or_else(|| format!("{}: no wheel is there", wheels.display()))?;
    // A wheel is a zip archive, and what is packed cannot be searched.
    let open = root().join("target/python/open");
    if open.exists() {
        fs::remove_dir_all(&open).map_err(|e| format!("{}: {e}", open.display()))?;
    }
    let [packed, to] = [&wheel, &open].map(|path| path.display().to_string());
    crate::run("python3", &["-m", "zipfile", "--extract", &packed, &to], &[])?;
    paths.are_not_in(&open)?;
    say(&format!("{packed}: no file in it holds the name of a folder of this machine"));
    Ok(())
}

fn metadata() -> Result<String, String> {
    output("cargo", &["metadata", "--format-version", "1", "--locked"])
}

/// Builds the program. Gives it, and what cargo says of each crate that was compiled for the target: a line of JSON each.
fn build(target: &Target, paths: &Paths) -> Result<(PathBuf, String), String> {
    let triple = target.triple;
    let compiler = format!("CC_{}", triple.replace('-', "_"));
    let there = |cc: &str| Command::new(cc).arg("--version").output().is_ok_and(|said| said.status.success());
    let env = match std::env::var(&compiler) {
        Ok(cc) => vec![(compiler, cc)],
        Err(_) if there(target.cc) => vec![(compiler, target.cc.to_owned())],
        Err(_) => machines::environment(triple).map_err(|why| {
            format!(
                "{why}. Or a C compiler for musl, {}, which the package musl-tools brings for this machine",
                target.cc
            )
        })?,
    };
    let shown: Vec<String> = env.iter().map(|(key, value)| format!("{key}={value}")).collect();
    say(&format!("> {} cargo rustc --release --target {triple} --package vesica-cli", shown.join(" ")));
    let args = ["rustc", "--release", "--locked", "--target", triple, "--package", "vesica-cli", "--bin", "vesica"];
    let mut cargo = Command::new("cargo");
    cargo.args(args).args(["--message-format", "json-render-diagnostics", "--", "-C", "strip=symbols"]);
    cargo.envs(env).env("CARGO_ENCODED_RUSTFLAGS", paths.flags()).current_dir(root()).stderr(Stdio::inherit());
    let out = cargo.output().map_err(|e| format!("cargo: {e}"))?;
    if !out.status.success() {
        return Err(format!("the static program was not built: {}. It needs `rustup target add {triple}`", out.status));
    }
    let artifacts = String::from_utf8(out.stdout).map_err(|e| format!("cargo: {e}"))?;
    let program = machines::executable(&artifacts)?;
    Ok((program, artifacts))
}

/// The packages of the program by cargo's own account: `NAME VERSION` each.
fn linked(target: &Target) -> Result<Vec<String>, String> {
    let args = ["tree", "--locked", "--package", "vesica-cli", "--edges", "normal,no-proc-macro", "--prefix", "none"];
    let tree = output("cargo", &[&args[..], &["--target", target.triple, "--format", "{p}"]].concat())?;
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?.trim_start_matches('v')))
    };
    let mut names: Vec<String> = tree.lines().filter_map(name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Completions and manual, by `program`. A shell that is there reads its completions.
fn help(program: &Path, folder: &Path) -> Chore {
    let program = program.to_str().ok_or("the folder of the repository has no name in Unicode")?;
    for (shell, file) in [("bash", "vesica.bash"), ("zsh", "_vesica"), ("fish", "vesica.fish")] {
        let path = folder.join("completions").join(file);
        fs::write(&path, output(program, &["completions", shell])?).map_err(|e| format!("{file}: {e}"))?;
        // All three take `-n`: read, and run nothing.
        match Command::new(shell).arg("-n").arg(&path).status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("{shell} does not understand {file}: {status}")),
            Err(_) => say(&format!("{file} was not read by {shell}, which is not here")),
        }
    }
    let man = folder.join("man/man1");
    output(program, &["man", "--out", &man.to_string_lossy()]).map(drop)
}

/// An archive of `names` in `folder` in which nothing says when, where and by whom it was made.
fn tar(folder: &Path, names: &[&str], to: &Path, packed: bool) -> Chore {
    let fixed = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"];
    let mut tar = Command::new("tar");
    tar.args(fixed).arg("--mode=u=rwX,go=rX").arg("--directory").arg(folder);
    if packed {
        tar.arg("--use-compress-program=gzip -9n");
    }
    let status = tar.arg("--create").arg("--file").arg(to).args(names).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("tar: {status}")),
        Err(error) => Err(format!("tar: {error}")),
    }
}

/// The SHA-256 of a file: 64 hex digits.
fn sha256(file: &Path) -> Result<String, String> {
    let sums = output("sha256sum", &[&file.to_string_lossy()])?;
    sums.split_whitespace().next().map(str::to_owned).ok_or_else(|| format!("{}: no sum", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_says_neither_when_nor_by_whom_it_was_made() {
        let dir = std::env::temp_dir().join(format!("xtask-tar-{}", std::process::id()));
        let sums: Vec<String> = [1, 2]
            .map(|_| {
                fs::create_dir_all(dir.join("a/b")).unwrap();
                fs::write(dir.join("a/b/c"), "text").unwrap();
                fs::write(dir.join("a/a"), "").unwrap();
                tar(&dir, &["a"], &dir.join("a.tar.gz"), true).unwrap();
                let sum = sha256(&dir.join("a.tar.gz")).unwrap();
                fs::remove_dir_all(&dir).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1100));
                sum
            })
            .to_vec();
        assert_eq!(sums[0], sums[1]);
        assert_eq!(sums[0].len(), 64);
    }
}
