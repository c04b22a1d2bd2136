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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 1000].map(|n| counted(n, "units")), ["0 units", "1 unit", "1,000 units"]);
    }

    #[test]
    fn counts_have_commas_where_they_belong() {
        assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
