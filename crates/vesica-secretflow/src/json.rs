//! JSON as the protobuf library reads it by default: trailing commas, names and texts in single quotes, bare names, raw
//! control characters in texts, `\U` for `\u` (its "legacy syntax", on in `JsonStringToMessage`). Comments are skipped
//! too, which the library does not do.
//!
//! Every value knows where it stands. What a text costs is bounded by its length: at most [`MAX_TEXT`] bytes, at most
//! [`MAX_DEPTH`] values deep.

/// The longest text that is read; real ones have a few kilobytes.
pub const MAX_TEXT: usize = 16 << 20;

/// How deep values may stand in each other, as in the protobuf library.
pub const MAX_DEPTH: usize = 100;

/// A value and the byte at which it starts.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    pub at: usize,
    pub kind: Kind,
}

/// What a value is.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    Null,
    Bool(bool),
    /// As it is written: fields of 64 bits are not to be rounded.
    Number(String),
    Text(String),
    List(Vec<Value>),
    /// In the order of the text; names may repeat.
    Object(Vec<(Name, Value)>),
}

/// The name of a member and the byte at which it starts.
#[derive(Clone, PartialEq, Debug)]
pub struct Name {
    pub at: usize,
    pub text: String,
}

/// What is wrong with a text, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// The byte.
    pub at: usize,
    /// The field, as far as it is known: `psi_config.keys[1]`.
    pub field: String,
    /// In words.
    pub message: String,
}

impl Wrong {
    pub fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, field: String::new(), message: message.into() }
    }

    /// The same error, found inside `outer`, which is a name or `[index]`.
    pub fn within(mut self, outer: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{outer}{dot}{}", self.field);
        self
    }
}

/// Reads a text that holds one value.
///
/// # Errors
/// The first place that cannot be read.
pub fn parse(text: &str) -> Result<Value, Wrong> {
    if text.len() > MAX_TEXT {
        return Err(Wrong::new(0, format!("{} bytes are too many; the most is {MAX_TEXT}", text.len())));
    }
    let mut parser = Parser { text, at: 0 };
    parser.eat('\u{feff}');
    let value = parser.value(MAX_DEPTH)?;
    parser.space()?;
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.wrong("something stands after the end of the configuration")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let there = self.peek() == Some(c);
        if there {
            self.at += c.len_utf8();
        }
        there
    }

    /// Takes as many characters as `belongs` holds for.
    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let word = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn wrong(&self, message: &str) -> Wrong {
        Wrong::new(self.at, message)
    }

    /// Skips white space and comments.
    fn space(&mut self) -> Result<(), Wrong> {
        loop {
            self.word(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
            if self.rest().starts_with("//") {
                self.word(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                let end = self.rest().find("*/").ok_or_else(|| self.wrong("this comment does not end"))?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Wrong> {
        self.space()?;
        let at = self.at;
        if depth == 0 {
            return Err(self.wrong("values stand more than 100 deep in each other"));
        }
        let kind = match self.peek() {
            None => return Err(self.wrong("the text ends where a value is missing")),
            Some('{') => Kind::Object(self.members(depth - 1)?),
            Some('[') => Kind::List(self.elements(depth - 1)?),
            Some('"' | '\'') => Kind::Text(self.quoted()?),
            Some(c) if c == '-' || c.is_ascii_digit() => Kind::Number(self.number()?),
            Some(_) => match self.word(|c| c.is_alphanumeric() || c == '_') {
                "true" => Kind::Bool(true),
                "false" => Kind::Bool(false),
                "null" => Kind::Null,
                "" => return Err(self.wrong("a value is missing here")),
                word => return Err(Wrong::new(at, format!("`{word}` is no value; texts stand in quotes"))),
            },
        };
        Ok(Value { at, kind })
    }

    fn elements(&mut self, depth: usize) -> Result<Vec<Value>, Wrong> {
        self.listed('[', ']', |parser| parser.value(depth))
    }

    fn members(&mut self, depth: usize) -> Result<Vec<(Name, Value)>, Wrong> {
        self.listed('{', '}', |parser| {
            let at = parser.at;
            let text = match parser.peek() {
                Some('"' | '\'') => parser.quoted()?,
                _ => match parser.word(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$')) {
                    "" => return Err(parser.wrong("a name is missing here")),
                    bare => bare.to_owned(),
                },
            };
            parser.space()?;
            if !parser.eat(':') {
                return Err(parser.wrong("`:` is missing after the name"));
            }
            Ok((Name { at, text }, parser.value(depth)?))
        })
    }

    /// What stands between `open` and `close`, with commas between and perhaps one at the end.
    fn listed<T>(
        &mut self,
        open: char,
        close: char,
        one: impl Fn(&mut Self) -> Result<T, Wrong>,
    ) -> Result<Vec<T>, Wrong> {
        self.eat(open);
        let mut all = Vec::new();
        loop {
            self.space()?;
            if self.eat(close) {
                return Ok(all);
            }
            all.push(one(self)?);
            self.space()?;
            if !self.eat(',') && self.peek() != Some(close) {
                return Err(self.wrong(&format!("`,` or `{close}` is missing here")));
            }
        }
    }

    fn quoted(&mut self) -> Result<String, Wrong> {
        let start = self.at;
        let quote = self.next().expect("the caller saw a quote");
        let mut text = String::new();
        loop {
            text.push_str(self.word(|c| c != quote && c != '\\'));
            match self.next() {
                None => return Err(Wrong::new(start, "this text does not end")),
                Some('\\') => text.push(self.escape()?),
                Some(_) => return Ok(text),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Wrong> {
        let at = self.at;
        Ok(match self.next() {
            Some(c @ ('"' | '\'' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u' | 'U') => {
                let mut units = vec![self.hex()?];
                if (0xd800..0xdc00).contains(&units[0]) && self.rest().starts_with(r"\u") {
                    self.at += 2;
                    units.push(self.hex()?);
                }
                let one = char::decode_utf16(units).next().expect("one unit or two");
                one.map_err(|_| Wrong::new(at, "half of a surrogate pair is no character"))?
            }
            _ => return Err(Wrong::new(at, "no escape begins like this; a backslash is written twice")),
        })
    }

    fn hex(&mut self) -> Result<u16, Wrong> {
        let digits = self.rest().get(..4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(|| self.wrong("four hexadecimal digits are missing here"))?;
        self.at += 4;
        Ok(u16::from_str_radix(digits, 16).expect("four digits"))
    }

    /// A number in serde_json's grammar, which is JSON's.
    fn number(&mut self) -> Result<String, Wrong> {
        let at = self.at;
        let number = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        if serde_json::from_str::<serde_json::Number>(number).is_err() {
            return Err(Wrong::new(at, format!("`{number}` is no number")));
        }
        Ok(number.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As serde_json sees it, where it can: numbers as they are written, the last of equal names.
    fn plain(value: &Value) -> serde_json::Value {
        match &value.kind {
            Kind::Null => serde_json::Value::Null,
            Kind::Bool(bool) => (*bool).into(),
            Kind::Number(number) => serde_json::from_str(number).unwrap(),
            Kind::Text(text) => text.as_str().into(),
            Kind::List(list) => list.iter().map(plain).collect(),
            Kind::Object(members) => members.iter().map(|(name, value)| (name.text.clone(), plain(value))).collect(),
        }
    }

    #[track_caller]
    fn means(text: &str, json: &str) {
        let expected: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(plain(&parse(text).unwrap()), expected, "{text}");
    }

    #[test]
    fn what_the_protobuf_library_reads_is_read() {
        means(r#"{"a": [1, "x",], "b": {},}"#, r#"{"a": [1, "x"], "b": {}}"#);
        means("{'a': 'it\"s', b_1: true, $c: null}", r#"{"a": "it\"s", "b_1": true, "$c": null}"#);
        means("\u{feff}[-1, 2.5e3 , 18446744073709551615]", "[-1, 2.5e3, 18446744073709551615]");
        means("'a\tb\nc'", r#""a\tb\nc""#);
        means(r#""\u00e9\U00e9 \ud83d\ude00\\\/\'""#, r#""éé 😀\\/'""#);
        means("// why\n[1, /* not 2, */ 3] // end", "[1, 3]");
        means(r#"["// no comment, /* nor here */,]", ]"#, r#"["// no comment, /* nor here */,]"]"#);
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        for (text, at, words) in [
            ("", 0, "missing"),
            ("{\"a\": }", 6, "a value is missing"),
            ("{\"a\" 1}", 5, "`:`"),
            ("{\"a\": 1 \"b\": 2}", 8, "`,` or `}`"),
            ("[1 2]", 3, "`,` or `]`"),
            ("[,]", 1, "a value is missing"),
            ("{,}", 1, "a name is missing"),
            ("[1", 2, "`,` or `]`"),
            ("{\"a\": yes}", 6, "`yes` is no value"),
            ("\"abc", 0, "does not end"),
            ("/* abc", 0, "does not end"),
            (r#""\x""#, 2, "backslash"),
            (r#""\u12g4""#, 3, "hexadecimal"),
            (r#""\ud800""#, 2, "surrogate"),
            ("01", 0, "no number"),
            ("1.", 0, "no number"),
            ("{} {}", 3, "after the end"),
        ] {
            let wrong = parse(text).unwrap_err();
            assert_eq!(wrong.at, at, "{text}: {wrong:?}");
            assert!(wrong.message.contains(words), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse(&deep(MAX_DEPTH)).is_ok());
        assert!(parse(&deep(MAX_DEPTH + 1)).unwrap_err().message.contains("100 deep"));
        assert!(parse(&"[{a:".repeat(1 << 20)).is_err());
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            "\\PC*".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::btree_map("\\PC{0,8}", inner, 0..5).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn strict_json_means_the_same(json in any_json()) {
            prop_assert_eq!(plain(&parse(&json.to_string()).unwrap()), json.clone());
            prop_assert_eq!(plain(&parse(&serde_json::to_string_pretty(&json).unwrap()).unwrap()), json);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", json in "[\\[\\]{}:,'\"\\\\/*u0-9a-f. \n]*") {
            let _ = (parse(&text), parse(&json));
        }
    }
}
