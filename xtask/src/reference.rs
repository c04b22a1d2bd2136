//! What is generated and checked in: the schemas, the references of services, commands, errors and Python, the protocol
//! table, the notebook.

use crate::{Chore, built, documents, errors, headers, output};
use std::fmt::Write;
use std::path::Path;

/// What stands above the table of protocols.
const PROTOCOLS: &str = "\
# Protocols

A row for each protocol file in `crates/vesica-psi/src/`, generated from its header. A job names a protocol by another word. Example: in
a job with `protocol = \"ecdh\"` where alice alone learns, the file is `oprf`, with a Diffie-Hellman function.

| the job says | file |
|---|---|
| `protocol = \"ecdh\"`, two parties, one learns | `oprf` |
| `protocol = \"ecdh\"`, two parties, both learn | `ecdh` |
| `protocol = \"ecdh\"`, three parties | `ecdh3` |
| `protocol = \"rr22\"`, three to sixteen parties | `kmprt17` |
| `protocol = \"rr22\"`, three to sixteen parties and a `pivot` | `nty21` |
| the same with `result = \"count\"` or `\"sum\"` | `tally` |
| `protocol = \"ecdh\"`, `result = \"count\"` | `count` |
| `protocol = \"ecdh-oprf\"`, `\"rr22\"`, `\"kkrt\"`, `\"ot\"`, `\"mini-psi\"` or `\"bc22\"` | `oprf` |
| `protocol = \"rr22\"`, `result = \"count\"`, `\"sum\"`, `\"groups\"` or `\"shares\"` | `circuit` |
| `protocol = \"rr22\"`, `result = \"ids\"` | `ids` |
| `protocol = \"dp\"` | `dp` |
| `protocol = \"hash\"` | `hash` |
| a service with `protocol = \"ecdh-oprf\"` | `unbalanced` |

Below, n and m are numbers of keys, L is the length of a tag in bits, and WIRE the length of an element of the group in bytes. OPRF stands
for the rounds and the bytes of the oblivious function. A message from one party to the other is half a round.

| file | what it is | reveals | rounds | bytes |
|---|---|---|---|---|
";

/// Writes every generated file, or fails with those that are stale.
pub fn generate(root: &Path, check: bool) -> Chore {
    let mut stale = Vec::new();
    let program = built::program("vesica-cli", "vesica")?.display().to_string();
    for (name, text) in [
        ("schema/job.schema.json", output(&program, &["schema", "job"])?),
        ("schema/service.schema.json", output(&program, &["schema", "service"])?),
        ("schema/client.schema.json", output(&program, &["schema", "client"])?),
        ("schema/report.schema.json", output(&program, &["schema", "report"])?),
        (
            "docs/src/reference/service.md",
            documents::page(&output(&program, &["schema", "service"])?, &output(&program, &["schema", "client"])?)?,
        ),
        ("docs/src/reference/cli.md", command(&program)?),
        ("docs/src/reference/protocols.md", protocols(root)?),
        ("docs/src/reference/errors.md", errors::page(root)?),
        ("docs/src/reference/python.md", output("python3", &["python/reference.py"])?),
        ("docs/src/tutorials/notebook.ipynb", output("python3", &["python/notebook.py"])?),
    ] {
        let path = root.join(name);
        if check && std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        } else if check {
            stale.push(name);
        } else {
            std::fs::write(&path, text).map_err(|e| format!("{name}: {e}"))?;
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(format!("stale, run `cargo xtask gen`: {}", stale.join(", "))) }
}

fn command(program: &str) -> Result<String, String> {
    let top = output(program, &["--help"])?;
    let commands = top.lines().skip_while(|l| *l != "Commands:").skip(1).map_while(|l| {
        let name = l.strip_prefix("  ")?.split_whitespace().next()?;
        Some(name.to_owned())
    });
    let mut text = format!("# The command line\n\nGenerated from the program's own help.\n\n```text\n{top}```\n");
    for name in commands.filter(|name| name != "help") {
        let help = output(program, &[&name, "--help"])?;
        let _ = write!(text, "\n## vesica {name}\n\n```text\n{help}```\n");
    }
    Ok(text)
}

fn protocols(root: &Path) -> Result<String, String> {
    let mut text = PROTOCOLS.to_owned();
    for h in headers::all(root)? {
        // A bar would end the table's cell.
        let cell = |text: &str| text.replace('|', r"\|");
        let [title, reveals, rounds, bytes] = [&h.title, &h.reveals, &h.rounds, &h.bytes].map(|text| cell(text));
        let _ = writeln!(text, "| `{}` | {title} | {reveals} | {rounds} | {bytes} |", h.name);
    }
    Ok(text)
}
