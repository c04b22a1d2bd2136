//! Numbers as people read them.

/// A count with thousands apart.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 unit`, `2 units`: so many of what `many` is the plural of, which ends in s.
pub fn counted(n: u64, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { many.trim_end_matches('s') } else { many })
}

/// `1 row has`, `2 rows have`: so many with these words, which are for `one` or for `many`.
pub fn worded(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A number of bytes, in the nearest unit.
pub fn size(bytes: u64) -> String {
    bytesize::ByteSize::b(bytes).display().iec().to_string()
}

/// A time: `2.4 s`, from two minutes on `23 min 44 s` and `2 h 5 min`, and below a second `31 ms`, so that a small job does not take "0.0 s".
pub fn seconds(s: f64) -> String {
    let (ms, whole) = (s * 1000.0, s.round() as u64);
    match ms {
        _ if whole >= 7200 => format!("{} h {} min", count(whole / 3600), whole / 60 % 60),
        _ if whole >= 120 => format!("{} min {} s", whole / 60, whole % 60),
        ms if ms >= 9_950.0 => format!("{s:.0} s"),
        ms if ms >= 999.5 => format!("{s:.1} s"),
        ms if ms >= 0.95 => format!("{ms:.0} ms"),
        ms if ms > 0.0 => "less than 1 ms".to_owned(),
        _ => "0 ms".to_owned(),
    }
}

/// `about 31 ms`, where these are the words of [`seconds`]; what is less than something is not about it.
pub fn about(words: &str) -> String {
    if words.starts_with("less than") { words.to_owned() } else { format!("about {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 1000].map(|n| counted(n, "units")), ["0 units", "1 unit", "1,000 units"]);
    }

    #[test]
    fn a_short_time_is_no_zero() {
        let shown = [0.0, 0.0004, 0.00096, 0.0312, 0.9994, 0.9996, 2.44, 9.94, 9.96].map(seconds);
        assert_eq!(shown, ["0 ms", "less than 1 ms", "1 ms", "31 ms", "999 ms", "1.0 s", "2.4 s", "9.9 s", "10 s"]);
    }

    #[test]
    fn a_long_time_is_in_minutes_and_hours() {
        let shown = [119.4, 119.6, 1424.0, 7199.6, 36_061.0].map(seconds);
        assert_eq!(shown, ["119 s", "2 min 0 s", "23 min 44 s", "2 h 0 min", "10 h 1 min"]);
    }

    #[test]
    fn counts_have_commas_where_they_belong() {
        assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
