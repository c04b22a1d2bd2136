//! Protobuf messages out of JSON, by the library's rules: a field's name in snake_case or lowerCamelCase, `null` for the
//! default, numbers and truth also as texts, enums by name or number, one element in place of a list, and a message or
//! list that is named twice added up. A name that no field has is an error with its place and the nearest name.

use super::json::{Kind, Name, Value, Wrong};
use std::collections::BTreeMap;
use vesica_spec::nearest;

/// What a field can hold. A default value is the same as none.
pub trait Read: Default {
    /// Takes `value` in, over or beside what is there.
    ///
    /// # Errors
    /// If it is of another kind.
    fn read(&mut self, value: &Value) -> Result<(), Wrong>;
}

impl Read for String {
    fn read(&mut self, value: &Value) -> Result<(), Wrong> {
        let Kind::Text(text) = &value.kind else { return Err(value.not("a text")) };
        self.clone_from(text);
        Ok(())
    }
}

impl Read for bool {
    fn read(&mut self, value: &Value) -> Result<(), Wrong> {
        *self = match &value.kind {
            Kind::Bool(bool) => *bool,
            Kind::Text(text) if text == "true" => true,
            Kind::Text(text) if text == "false" => false,
            _ => return Err(value.not("true or false")),
        };
        Ok(())
    }
}

/// A whole number that is not negative, as all are here.
impl Read for u64 {
    fn read(&mut self, value: &Value) -> Result<(), Wrong> {
        let (Kind::Number(text) | Kind::Text(text)) = &value.kind else { return Err(value.not("a number")) };
        // Whole numbers below 2^53 may also be written as 1e3 or 1000.0.
        let exact = |x: &f64| x.fract() == 0.0 && (0.0..(1u64 << 53) as f64).contains(x);
        let number = text.parse().ok().or_else(|| text.parse().ok().filter(exact).map(|x: f64| x as u64));
        *self = number.ok_or_else(|| value.not("a whole number that is not negative"))?;
        Ok(())
    }
}

impl<T: Read> Read for Option<T> {
    fn read(&mut self, value: &Value) -> Result<(), Wrong> {
        self.get_or_insert_default().read(value)
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(&mut self, value: &Value) -> Result<(), Wrong> {
        let list = match &value.kind {
            Kind::List(list) => list.as_slice(),
            _ => std::slice::from_ref(value),
        };
        for element in list {
            let mut one = T::default();
            one.read(element).map_err(|wrong| wrong.within(&format!("[{}]", self.len())))?;
            self.push(one);
        }
        Ok(())
    }
}

/// A map whose keys are texts; the last value of a key is the one.
impl<T: Read> Read for BTreeMap<String, T> {
    fn read(&mut self, value: &Value) -> Result<(), Wrong> {
        for (name, value) in value.object()? {
            let mut one = T::default();
            one.read(value).map_err(|wrong| wrong.within(&name.text))?;
            self.insert(name.text.clone(), one);
        }
        Ok(())
    }
}

/// A message of which no more is to be known than that it is there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Anything;

impl Read for Anything {
    fn read(&mut self, value: &Value) -> Result<(), Wrong> {
        value.object().map(drop)
    }
}

impl Value {
    /// The members of a message.
    pub fn object(&self) -> Result<&[(Name, Value)], Wrong> {
        match &self.kind {
            Kind::Object(members) => Ok(members),
            _ => Err(self.not("a message in braces")),
        }
    }

    /// This value is not `what` it should be. Shows no more of it than its kind: it may be a secret.
    pub fn not(&self, what: &str) -> Wrong {
        let is = match &self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "true or false",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Object(_) => "a message",
        };
        let is = if is == what { "another one" } else { is };
        Wrong::new(self.at, format!("{what} belongs here, and this is {is}"))
    }
}

impl Name {
    /// The one of `fields`, in snake_case, that this names.
    pub fn field(&self, fields: &[&'static str]) -> Result<&'static str, Wrong> {
        let found = fields.iter().find(|field| **field == self.text || camel(field) == self.text);
        found.copied().ok_or_else(|| {
            let near = nearest(&self.text, fields).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            Wrong::new(self.at, format!("SecretFlow has no such field{near}")).within(&self.text)
        })
    }
}

/// `lowerCamelCase` for `snake_case`.
fn camel(snake: &str) -> String {
    let mut words = snake.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        camel.push_str(&first.to_uppercase());
        camel.push_str(rest);
    }
    camel
}

/// A field's name without the mark of a name that is a keyword in Rust.
pub fn plain(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Reads an enum's value: one of `all`, in the order of their numbers.
pub fn choose<T: Copy>(value: &Value, all: &[(&'static str, T)]) -> Result<T, Wrong> {
    let (Kind::Text(text) | Kind::Number(text)) = &value.kind else { return Err(value.not("a name")) };
    let named = all.iter().find(|(name, _)| name == text).map(|(_, one)| *one);
    named.or_else(|| all.get(text.parse::<usize>().ok()?).map(|(_, one)| *one)).ok_or_else(|| {
        let names: Vec<&str> = all.iter().skip(1).map(|(name, _)| *name).collect();
        Wrong::new(value.at, format!("{text:?} is not one of {}", names.join(", ")))
    })
}

/// Defines a message by its fields, as a `.proto` file does.
macro_rules! message {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub struct $name {
            $($(#[$of])* pub $field: $kind,)*
        }

        impl Read for $name {
            fn read(&mut self, value: &Value) -> Result<(), Wrong> {
                for (name, value) in value.object()? {
                    let field = name.field(&[$(plain(stringify!($field))),*])?;
                    match field {
                        _ if value.kind == Kind::Null => Ok(()),
                        $(_ if field == plain(stringify!($field)) => self.$field.read(value),)*
                        _ => unreachable!("one of the names above"),
                    }
                    .map_err(|wrong| wrong.within(field))?;
                }
                Ok(())
            }
        }

        #[cfg(test)]
        impl $crate::every_field::Fields for $name {
            fn fields(path: &str, all: &mut Vec<(String, Vec<String>)>) {
                let dot = if path.is_empty() { "" } else { "." };
                $(<$kind as $crate::every_field::Fields>::fields(
                    &format!("{path}{dot}{}", plain(stringify!($field))),
                    all,
                );)*
            }
        }
    };
}

/// Defines an enum by its names, in the order of their numbers; the first is the default.
macro_rules! choice {
    ($(#[$about:meta])* $name:ident { $first:ident = $first_text:literal, $($one:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum $name {
            #[default]
            $first,
            $($one,)*
        }

        impl $name {
            const ALL: &'static [(&'static str, $name)] = &[($first_text, $name::$first), $(($text, $name::$one)),*];
        }

        /// As it stands in a configuration.
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(Self::ALL[*self as usize].0)
            }
        }

        impl Read for $name {
            fn read(&mut self, value: &Value) -> Result<(), Wrong> {
                *self = choose(value, Self::ALL)?;
                Ok(())
            }
        }

        #[cfg(test)]
        impl $crate::every_field::Fields for $name {
            fn fields(path: &str, all: &mut Vec<(String, Vec<String>)>) {
                all.push((path.to_owned(), Self::ALL.iter().map(|(name, _)| format!("{name:?}")).collect()));
            }
        }
    };
}

pub(super) use {choice, message};
