//! The page of errors by exit code, made from the types of errors: what they say, when, and whose fault they are.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Where `Fault` is, from which exit codes follow.
const FAULTS: &str = "crates/vesica-session/src/error.rs";

/// The files with errors, what each is about, and what its type of errors is called.
const FILES: [(&str, &str, &str); 6] = [
    ("the run", "crates/vesica-job/src/error.rs", "JobError"),
    ("a table", "crates/vesica-table/src/error.rs", "Error"),
    ("meeting", "crates/vesica-net/src/error.rs", "Error"),
    ("the parties", FAULTS, "Error"),
    ("a service", "crates/vesica-service/src/error.rs", "Error"),
    ("a store", "crates/vesica-store/src/error.rs", "Error"),
];

/// Where the classes of the Python package are.
const CLASSES: &str = "python/vesica/_errors.py";

const HEAD: &str = "\
# Errors by exit code

Every command ends with one of these codes, and nothing else. The code says whose fault it was, and so whether it helps to run again.

| exit code | whose fault | in Python | run the same again? |
|---|---|---|---|
| 0 | nobody's: it is done | | |
";

const BODY: &str = "
In a script, a scheduler or a Kubernetes Job: run again on 4, and give up on all others. A code above 128 that is not here is a
signal's: 137 is 128 and 9, which is how a system ends a program that took too much memory.

A message names the thing, the value and what to do. Below, `…` stands for names, numbers and paths. What a job file, a document of a service
or a configuration of SecretFlow does wrong is not listed: such a message begins with the file, the line, the column and the field, and says
what would be right (`alice.toml:4:1: shared.protocl: …`). It ends with exit code 2. Messages of damaged files and of connections go on
with the reason that the system or the library gave.

This page is generated from the types of errors.
";

/// Whether running the same command again can help, by the name of a fault.
const AGAIN: [(&str, &str); 6] = [
    ("config", "no: change the job, the command or the machine"),
    ("input", "no: mend the table, or make room"),
    ("network", "yes: with `mine.resume`, finished work is not done again"),
    ("peer", "no, unless the message says so: talk to the other party"),
    ("bug", "once; then report it"),
    ("interrupted", "as you like"),
];

/// An error: what is said of it, what it says, and whose fault it is, as far as its name alone decides that.
struct Variant {
    about: &'static str,
    doc: String,
    says: String,
    fault: Option<String>,
}

/// The page.
///
/// # Errors
/// Names a file that is not there, and what of a file was not understood.
pub fn page(root: &Path) -> Result<String, String> {
    let read = |name: &str| std::fs::read_to_string(root.join(name)).map_err(|e| format!("{name}: {e}"));
    let faults = read(FAULTS)?;
    let classes = classes(&read(CLASSES)?);
    let (codes, names) = (arms(&faults, "fn exit_code(self)", "Fault::"), words(&faults, "Fault"));
    let mut variants = Vec::new();
    for (about, file, kind) in FILES {
        variants.extend(read_file(about, kind, &read(file)?).map_err(|what| format!("{file}: {what}"))?);
    }
    let mut text = HEAD.to_owned();
    let mut sections = String::new();
    for (fault, doc) in docs(&faults, "Fault") {
        let code = codes.get(&fault).map(|code| code.split(',').next().unwrap_or_default().trim());
        let (Some(code), Some(name)) = (code, names.get(&fault)) else {
            return Err(format!("{FAULTS}: {fault} has no code or name"));
        };
        let again = AGAIN.iter().find(|(of, _)| of == name).map(|(_, again)| *again);
        let (Some(again), Some(class)) = (again, classes.get(name)) else {
            return Err(format!("nothing says what to do about the fault {name:?}, or {CLASSES} has no class for it"));
        };
        let doc = doc.trim_end_matches('.');
        let _ = writeln!(text, "| [{code}](#{code}-{name}) | `{name}`: {doc} | `vesica.{class}` | {again} |");
        let _ = write!(sections, "\n## {code}: {name}\n\n{doc}.{}\n", rows(&variants, Some(&fault)));
    }
    text += BODY;
    text += &sections;
    let _ = write!(
        text,
        "\n## 2 or 3: by what was being done\n\nReading a table is the input's fault (3), writing the result the job's (2).{}\n",
        rows(&variants, None)
    );
    let mut deeds = String::from("| it says | when |\n|---|---|\n");
    let says = arms(&faults, "for Misbehaviour {", "Misbehaviour::");
    for (deed, doc) in docs(&faults, "Misbehaviour") {
        let says = says.get(&deed).and_then(|arm| literal(arm)).map_or_else(|| "…".to_owned(), |says| shown(&says));
        let _ = writeln!(deeds, "| … broke the protocol: {} | {} |", cell(&says), cell(&doc));
    }
    let _ = write!(text, "\n## What a party can be said to have done\n\nThe exit code is 5.\n\n{deeds}");
    Ok(text)
}

/// The table of those variants whose fault is this one, or, without one, is not decided by their name.
fn rows(variants: &[Variant], fault: Option<&str>) -> String {
    let mut text = String::from("\n\n| about | it says | when |\n|---|---|---|\n");
    let empty = text.len();
    for v in variants.iter().filter(|v| v.fault.as_deref() == fault) {
        let _ = writeln!(text, "| {} | {} | {} |", v.about, cell(&v.says), cell(&v.doc));
    }
    if text.len() == empty { String::new() } else { text.trim_end().to_owned() }
}

/// The errors of a file. Those that only hold an error of another file are left out.
fn read_file(about: &'static str, kind: &str, text: &str) -> Result<Vec<Variant>, String> {
    let faults = arms(text, "fn fault(&self)", &format!("{kind}::"));
    let says = arms(text, &format!("impl fmt::Display for {kind} {{"), &format!("{kind}::"));
    let attributes = attributes(text, kind);
    let mut all = Vec::new();
    for (name, doc) in docs(text, kind) {
        let arm = faults.get(&name).ok_or_else(|| format!("{kind}::{name} has no fault"))?;
        let fault = match arm.strip_prefix("Fault::") {
            Some(fault) => Some(fault.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()),
            None if arm.starts_with("*fault") => None,
            None => continue,
        };
        let says = attributes.get(&name).or(says.get(&name));
        let says = says.and_then(|text| literal(text)).map_or_else(|| "…".to_owned(), |says| shown(&says));
        all.push(Variant { about, doc, says, fault });
    }
    if all.is_empty() { Err(format!("no {kind} was found")) } else { Ok(all) }
}

/// The words of an enum's variants, as `words!` lists them.
fn words(text: &str, kind: &str) -> BTreeMap<String, String> {
    let list = text.split_once(&format!("words!(\n    {kind} {{\n")).map_or("", |(_, list)| list);
    let pairs = list.lines().map_while(|line| line.trim().strip_suffix(',')?.split_once(" = "));
    pairs.map(|(name, word)| (name.to_owned(), word.trim_matches('"').to_owned())).collect()
}

/// The lines of an enum, which stand four spaces deep.
fn body<'a>(text: &'a str, kind: &str) -> impl Iterator<Item = &'a str> {
    let after = text.split_once(&format!("pub enum {kind} {{\n")).map_or("", |(_, after)| after);
    after.lines().take_while(|line| *line != "}")
}

/// The name of the variant that a line of an enum begins.
fn variant(line: &str) -> Option<&str> {
    let line = line.strip_prefix("    ").filter(|line| line.starts_with(char::is_uppercase))?;
    line.split(|c: char| !c.is_alphanumeric()).next()
}

/// The variants of an enum, in its order, each with the comment above it.
fn docs(text: &str, kind: &str) -> Vec<(String, String)> {
    let (mut all, mut doc) = (Vec::new(), Vec::new());
    for line in body(text, kind) {
        if let Some(comment) = line.strip_prefix("    /// ") {
            doc.push(comment);
        } else if let Some(name) = variant(line) {
            all.push((name.to_owned(), std::mem::take(&mut doc).join(" ")));
        }
    }
    all
}

/// The variants of an enum, each with its attribute `error`.
fn attributes(text: &str, kind: &str) -> BTreeMap<String, String> {
    let (mut all, mut attribute, mut open) = (BTreeMap::new(), String::new(), false);
    for line in body(text, kind) {
        if line.starts_with("    #[error(") {
            (attribute, open) = (String::new(), true);
        }
        if open {
            attribute += line;
            attribute.push('\n');
            open = !line.ends_with(")]");
        } else if let Some(name) = variant(line).filter(|_| !attribute.is_empty()) {
            all.insert(name.to_owned(), std::mem::take(&mut attribute));
        }
    }
    all
}

/// The arms of the first match behind `begin`: what stands behind the arrow, by each name that stands with `prefix` before it.
fn arms(text: &str, begin: &str, prefix: &str) -> BTreeMap<String, String> {
    let after = text.split_once(begin).map_or("", |(_, after)| after);
    let function = after.split("\n    }\n").next().unwrap_or_default();
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let parts: Vec<&str> = function.split("=>").collect();
    for two in parts.windows(2) {
        // The part before the arrow begins with what stands behind the arrow before it.
        for name in two[0].split(prefix).skip(1) {
            let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
            all.insert(name, two[1].trim_start().to_owned());
        }
    }
    all
}

/// The first text in quotes.
fn literal(code: &str) -> Option<String> {
    let (_, rest) = code.split_once('"')?;
    let (mut text, mut chars) = (String::new(), rest.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => return Some(text),
            '\\' => match chars.next()? {
                // A line goes on in the next one.
                '\n' => chars = chars.as_str().trim_start().chars(),
                escaped => text.push(escaped),
            },
            c => text.push(c),
        }
    }
    None
}

/// A format with `…` for all that it is given.
fn shown(format: &str) -> String {
    let (mut text, mut depth) = (String::new(), 0);
    for c in format.chars() {
        match c {
            '{' => {
                depth += 1;
                text.push('…');
            }
            '}' => depth -= 1,
            c if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text
}

/// A text as a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', r"\|").replace('<', "&lt;").replace("[`", "`").replace("`]", "`")
}

/// The Python classes by the faults that they stand for.
fn classes(text: &str) -> BTreeMap<String, String> {
    let (mut all, mut class) = (BTreeMap::new(), "");
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("class ") {
            class = name.split('(').next().unwrap_or_default();
        } else if let Some(fault) = line.trim().strip_prefix("fault, exit_code = ").and_then(literal) {
            all.insert(fault, class.to_owned());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
pub enum Error {
    /// A file
    /// that is gone.
    #[error(
        \"{} is \\\"gone\\\": \\
         {why}; make it\", show(path)
    )]
    Gone { why: String },
    /// Either.
    #[error(\"either\")]
    Either {
        /// A field.
        fault: Fault,
    },
    /// Another.
    #[error(transparent)]
    Other(#[from] x::Error),
}

impl Error {
    pub fn fault(&self) -> Fault {
        match self {
            Error::Gone { .. }
            | Error::Never => Fault::Input,
            Error::Either { fault, .. } => *fault,
            Error::Other(error) => error.fault(),
        }
    }
}
";

    #[test]
    fn errors_are_read_with_what_they_say_and_whose_fault_they_are() {
        let all = read_file("it", "Error", CODE).unwrap();
        let told: Vec<_> = all.iter().map(|v| (v.says.as_str(), v.doc.as_str(), v.fault.as_deref())).collect();
        let gone = ("… is \"gone\": …; make it", "A file that is gone.", Some("Input"));
        assert_eq!(told, [gone, ("either", "Either.", None)]);
    }

    #[test]
    fn an_error_without_a_fault_is_named() {
        let code = CODE.replace("Error::Gone { .. }\n            | ", "");
        assert_eq!(read_file("it", "Error", &code).err().as_deref(), Some("Error::Gone has no fault"));
        assert!(read_file("it", "Nothing", CODE).is_err());
    }

    #[test]
    fn classes_of_python_are_found() {
        let text = "class A(E):\n    \"\"\"a\"\"\"\n\n    fault, exit_code = \"config\", 2\n";
        assert_eq!(classes(text), BTreeMap::from([("config".to_owned(), "A".to_owned())]));
    }
}
