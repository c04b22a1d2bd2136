//! The report in SecretFlow's form.

use vesica_job::Report;

/// The line that SecretFlow's `main` logs at the end, without its time stamp: `PsiResultReport` as protobuf writes it,
/// with 64-bit numbers as texts, zeros left out, and -1 where this party gets no result.
pub fn report(report: &Report) -> String {
    let o = &report.outcome;
    let fields = [
        ("original_count", signed(o.rows)),
        ("intersection_count", o.matched_rows.map_or(-1, signed)),
        ("original_key_count", signed(o.keys)),
        ("intersection_key_count", o.matched.map_or(0, signed)),
    ];
    line(&fields)
}

/// The same where a step tells nobody a result: of `rows` rows that were read.
pub fn report_without_result(rows: u64) -> String {
    line(&[("original_count", signed(rows)), ("intersection_count", -1)])
}

fn line(fields: &[(&str, i64)]) -> String {
    let members: Vec<String> =
        fields.iter().filter(|(_, n)| *n != 0).map(|(name, n)| format!("\"{name}\":\"{n}\"")).collect();
    format!("Report: {{{}}}\n", members.join(","))
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
