//! What the rules of `shared.rules` do to a key before it is compared.

use super::Rule;
use rlibphonenumber::enums::Region;
use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumberFormat};
use std::borrow::Cow;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

impl Rule {
    /// `text` after `rules`, one after the other.
    pub fn apply_all<'a>(rules: &[Rule], text: &'a str) -> Cow<'a, str> {
        rules.iter().fold(Cow::Borrowed(text), |text, rule| rule.apply(text))
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
            Rule::Phone(region) => Cow::Owned(phone(&text, region)),
        }
    }
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

/// The number as E.164, without its extension; nothing, if it is no number that may be dialled.
fn phone(text: &str, region: Region) -> String {
    let number = PHONE_NUMBER_UTIL.parse(text, Some(region)).ok().filter(|number| number.is_valid());
    number.map_or_else(String::new, |number| number.format_as(PhoneNumberFormat::E164).into_owned())
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
            (
                Rule::Phone(Region::CH),
                &[
                    ("079 123 45 67", "+41791234567"),
                    ("+41 (0)79 123-45-67", "+41791234567"),
                    ("0041791234567", "+41791234567"),
                    ("tel:+41-79-123-45-67;ext=3", "+41791234567"),
                    ("٠٧٩١٢٣٤٥٦٧", "+41791234567"),
                    ("+1 202-555-0173", "+12025550173"),
                    ("12345", ""),
                    ("", ""),
                    ("no number", ""),
                ],
            ),
            (Rule::Phone(Region::US), &[("(202) 555-0173", "+12025550173"), ("079 123 45 67", "")]),
        ];
        for (rule, cases) in cases {
            for (text, wanted) in *cases {
                assert_eq!(rule.apply(Cow::Borrowed(text)), *wanted, "{rule:?} of {text:?}");
            }
        }
        assert_eq!(Rule::apply_all(&[Rule::Nfkc, Rule::Trim, Rule::Lower], "\u{3000}ＡＢ "), "ab");
        assert_eq!(Rule::apply_all(&[], " A"), " A");
    }

    proptest::proptest! {
        /// A rule that is applied to its own result changes nothing, so it does not matter who applied it before.
        #[test]
        fn rules_are_idempotent(text in proptest::prop_oneof![".*", "\\+?[0-9 ()/.-]{3,20}"]) {
            for rule in Rule::PLAIN.iter().chain(&[Rule::Phone(Region::CH), Rule::Phone(Region::US)]) {
                let once = rule.apply(Cow::Borrowed(&text)).into_owned();
                proptest::prop_assert_eq!(rule.apply(Cow::Borrowed(&once)).into_owned(), once.clone(), "{:?}", rule);
            }
        }
    }
}
