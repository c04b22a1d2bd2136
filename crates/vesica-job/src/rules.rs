//! What the rules of `shared.rules` do to a key before it is compared.
//!
//! A rule's id says which version of it, and of Unicode, a program has. The ids are part of what the parties compare, so
//! keys are never brought into two different forms.

use crate::spec::Rule;
use std::borrow::Cow;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

impl Rule {
    /// Every rule.
    pub const ALL: &'static [Rule] = &[Rule::Trim, Rule::Lower, Rule::Nfkc, Rule::Email, Rule::Digits];

    /// As it stands in a job.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Trim => "trim",
            Rule::Lower => "lower",
            Rule::Nfkc => "nfkc",
            Rule::Email => "email",
            Rule::Digits => "digits",
        }
    }

    /// Its name, its version, and the version of Unicode that it goes by.
    pub fn id(self) -> String {
        let (name, (a, b, c)) = (self.name(), char::UNICODE_VERSION);
        match self {
            Rule::Trim | Rule::Lower | Rule::Email => format!("{name}-v1-unicode-{a}.{b}.{c}"),
            Rule::Nfkc => {
                let (a, b, c) = unicode_normalization::UNICODE_VERSION;
                format!("{name}-v1-unicode-{a}.{b}.{c}")
            }
            Rule::Digits => format!("{name}-v1"),
        }
    }

    fn apply(self, text: Cow<'_, str>) -> Cow<'_, str> {
        match self {
            Rule::Trim if text.trim().len() == text.len() => text,
            Rule::Trim => Cow::Owned(text.trim().to_owned()),
            Rule::Lower if text.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) => text,
            Rule::Lower => Cow::Owned(text.to_lowercase()),
            Rule::Nfkc if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes => text,
            Rule::Nfkc => Cow::Owned(text.nfkc().collect()),
            Rule::Email => email(text),
            Rule::Digits if text.bytes().all(|b| b.is_ascii_digit()) => text,
            Rule::Digits => Cow::Owned(text.chars().filter(char::is_ascii_digit).collect()),
        }
    }
}

/// `text` after `rules`, one after the other.
pub fn apply<'a>(rules: &[Rule], text: &'a str) -> Cow<'a, str> {
    rules.iter().fold(Cow::Borrowed(text), |text, rule| rule.apply(text))
}

/// The address without spaces around it and in lower case; at Gmail, where they mean nothing, without dots and without what
/// follows a plus. Nothing, if it is no address. (The rules of UID2, which Google's and others' customer matching share.)
fn email(text: Cow<'_, str>) -> Cow<'_, str> {
    let text = Rule::Lower.apply(Rule::Trim.apply(text));
    let Some((local, domain)) = text.rsplit_once('@') else { return Cow::Borrowed("") };
    if local.is_empty() || domain.is_empty() || text.contains(char::is_whitespace) {
        return Cow::Borrowed("");
    }
    if !matches!(domain, "gmail.com" | "googlemail.com") {
        return text;
    }
    let local: String = local.chars().take_while(|c| *c != '+').filter(|c| *c != '.').collect();
    Cow::Owned(if local.is_empty() { local } else { local + "@gmail.com" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_does_what_it_says() {
        let cases: &[(Rule, &[(&str, &str)])] = &[
            (Rule::Trim, &[("", ""), (" a b\t", "a b"), ("\u{3000}x\u{a0}\r\n", "x"), ("x", "x")]),
            (Rule::Lower, &[("ABC-ß", "abc-ß"), ("ÄÖ", "äö"), ("ΣΑΣ", "σας"), ("İ", "i\u{307}"), ("a1", "a1")]),
            (Rule::Nfkc, &[("e\u{301}", "é"), ("ﬁ", "fi"), ("１２", "12"), ("é", "é"), ("\u{212b}", "\u{c5}")]),
            (Rule::Digits, &[("+41 (0)79 123-45-67", "410791234567"), ("none", ""), ("007", "007"), ("１２", "")]),
            (
                Rule::Email,
                &[
                    (" Ana.Silva@Example.ORG ", "ana.silva@example.org"),
                    ("A.n.a+news@GMail.com", "ana@gmail.com"),
                    ("ana@googlemail.com", "ana@gmail.com"),
                    ("ana+news@example.org", "ana+news@example.org"),
                    ("+news@gmail.com", ""),
                    ("no address", ""),
                    ("@example.org", ""),
                    ("ana@", ""),
                    ("ana silva@example.org", ""),
                    ("\"a@b\"@example.org", "\"a@b\"@example.org"),
                ],
            ),
        ];
        for (rule, cases) in cases {
            for (text, wanted) in *cases {
                assert_eq!(rule.apply(Cow::Borrowed(text)), *wanted, "{rule:?} of {text:?}");
            }
        }
        assert_eq!(apply(&[Rule::Nfkc, Rule::Trim, Rule::Lower], "\u{3000}ＡＢ "), "ab");
        assert_eq!(apply(&[], " A"), " A");
    }

    #[test]
    fn ids_are_names_with_versions() {
        assert_eq!(Rule::Digits.id(), "digits-v1");
        assert!(Rule::ALL.iter().all(|rule| rule.id().starts_with(&format!("{}-v1", rule.name()))));
    }

    proptest::proptest! {
        /// A rule that is applied to its own result changes nothing, so it does not matter who applied it before.
        #[test]
        fn rules_are_idempotent(text: String) {
            for rule in Rule::ALL {
                let once = rule.apply(Cow::Borrowed(&text)).into_owned();
                proptest::prop_assert_eq!(rule.apply(Cow::Borrowed(&once)).into_owned(), once.clone(), "{:?}", rule);
            }
        }
    }
}
