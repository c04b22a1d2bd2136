//! The page of a service's two documents, made from their schemas.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;

const HEAD: &str = "\
# The documents of a service

Who serves a list or a table has a document for `vesica prepare` and `vesica serve`, and each client has one for `vesica fetch` and `vesica ask`.
Between two of them, `vesica invite --service` names the client in the server's document, and `vesica accept` writes the client's. [A
service](../operate/service.md) and [Retrieving rows](../operate/retrieval.md) explain how they are used. This page is generated from their
schemas, which `vesica schema service` and `vesica schema client` print.

A field without a default and without the word *needed* may be left out.
";

/// The page, from the schema of the server's document and that of a client's.
///
/// # Errors
/// If one of them is no schema.
pub fn page(server: &str, client: &str) -> Result<String, String> {
    let mut text = HEAD.to_owned();
    for (title, schema) in [("The server's", server), ("A client's", client)] {
        let schema: Value = serde_json::from_str(schema).map_err(|e| format!("a schema: {e}"))?;
        let _ = write!(text, "\n## {title}\n");
        let mut document = Document { schema: &schema, seen: BTreeSet::new(), text: &mut text };
        for part in ["service", "mine"] {
            document.section(&format!("[{part}]"), name(&schema["properties"][part]["$ref"]))?;
        }
    }
    Ok(text)
}

struct Document<'a> {
    schema: &'a Value,
    /// Parts that have a section.
    seen: BTreeSet<&'a str>,
    text: &'a mut String,
}

impl<'a> Document<'a> {
    /// Writes a section of the fields of a part, and those of the parts that its fields have.
    fn section(&mut self, title: &str, part: &'a str) -> Result<(), String> {
        let part = &self.schema["$defs"][part];
        let fields = part["properties"].as_object().ok_or_else(|| format!("{title}: a part without fields"))?;
        let needed: BTreeSet<&str> =
            part["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let _ = write!(self.text, "\n### {title}\n\n| field | what it is | default |\n|---|---|---|\n");
        let (mut first, last): (Vec<_>, Vec<_>) = fields.iter().partition(|(name, _)| needed.contains(name.as_str()));
        first.extend(last);
        let mut below = Vec::new();
        for (field, what) in first {
            let default = match &what["default"] {
                _ if needed.contains(field.as_str()) => "needed".to_owned(),
                Value::Null => String::new(),
                value => format!("`{value}`"),
            };
            let mut said = plain(&what["description"]);
            let mut refs = Vec::new();
            self.refs(what, &mut refs);
            for of in refs {
                let def = &self.schema["$defs"][of];
                if def["properties"].is_object() {
                    let is_map = what["additionalProperties"].is_object();
                    let title =
                        format!("{}.{field}{}]", title.trim_end_matches(']'), if is_map { ".NAME" } else { "" });
                    below.push((title, of));
                } else if let Some(words) = def["oneOf"].as_array() {
                    let words =
                        words.iter().map(|word| format!("`{}`: {}", word["const"], plain(&word["description"])));
                    said = format!("{said} {}", words.collect::<Vec<_>>().join(" "));
                }
            }
            let _ = writeln!(self.text, "| `{field}` | {said} | {default} |");
        }
        for (title, of) in below {
            if self.seen.insert(of) {
                self.section(&title, of)?;
            }
        }
        Ok(())
    }

    /// The parts and words that a field may have, also by way of others.
    fn refs(&self, what: &'a Value, out: &mut Vec<&'a str>) {
        match what {
            Value::Object(fields) => {
                for (key, value) in fields {
                    if key != "$ref" {
                        self.refs(value, out);
                    } else if !out.contains(&name(value)) {
                        let def = &self.schema["$defs"][name(value)];
                        out.push(name(value));
                        if !def["properties"].is_object() {
                            self.refs(def, out);
                        }
                    }
                }
            }
            Value::Array(all) => all.iter().for_each(|value| self.refs(value, out)),
            _ => {}
        }
    }
}

/// What a reference names.
fn name(reference: &Value) -> &str {
    reference.as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default()
}

/// A description in a cell of a table.
fn plain(words: &Value) -> String {
    // A bar would end the cell.
    words.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ").replace('|', r"\|")
}
