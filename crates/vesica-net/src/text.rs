//! What a peer wrote, made fit to print.

pub use vesica_program::printable;

/// The beginning of something that is not ours, as text in quotes.
pub(crate) fn beginning(bytes: &[u8]) -> String {
    format!("\"{}\"", printable(&String::from_utf8_lossy(bytes), 16))
}

/// A date (UTC) from seconds since 1970, as `2036-01-31`.
pub(crate) fn date(seconds: u64) -> String {
    // Howard Hinnant's civil_from_days: years that begin in March, in eras of 400 years.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let dom = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{dom:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_writes_stays_on_its_line() {
        assert_eq!(beginning(b"GET / HTTP/1.1\r\n\xff"), "\"GET / HTTP/1.1??…\"");
    }

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_798_675_200), "2026-12-31");
        assert_eq!(date(4_102_444_800), "2100-01-01");
    }
}
