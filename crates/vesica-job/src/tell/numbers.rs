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

/// A number of bytes, in the nearest unit.
pub fn size(bytes: u64) -> String {
    bytesize::ByteSize::b(bytes).display().iec().to_string()
}

/// A time: `2.4 s`, and below a second `31 ms`, so that a small job does not take "0.0 s".
pub fn seconds(s: f64) -> String {
    let ms = s * 1000.0;
    match ms {
        ms if ms >= 9_950.0 => format!("{s:.0} s"),
        ms if ms >= 999.5 => format!("{s:.1} s"),
        ms if ms >= 0.95 => format!("{ms:.0} ms"),
        ms if ms > 0.0 => "less than 1 ms".to_owned(),
        _ => "0 ms".to_owned(),
    }
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
    fn counts_have_commas_where_they_belong() {
        assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
