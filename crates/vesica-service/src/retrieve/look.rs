//! What a retrieval will cost, before anything is prepared: every scheme side by side.

use super::epoch::{Epoch, Layout};
use super::{Retrieval, Scheme, body_bytes, has_reals, records_a_row};
use crate::error::Error;
use crate::offer::Offer;
use crate::prepare;
use crate::suite::{self, Asking, Kind};
use std::fmt::Write;
use vesica_job::numbers::{self, count, counted, size};
use vesica_net::{SystemClock, Time};
use vesica_pir::bucket::{SLOTS, TAG};
use vesica_pir::{PirError, keyword};
use vesica_spec::service::{By, Hint, ServePlan};

/// What a client and a server spend by one scheme.
struct Costs {
    kind: Kind,
    /// Records that are fetched for a row.
    each: u64,
    /// Bytes that reach a client before it asks.
    once: u64,
    /// Bytes that it keeps.
    kept: u64,
    up: u64,
    down: u64,
    /// Seconds that the server takes for a row.
    seconds: f64,
    /// Bytes of the server's memory.
    memory: u64,
    /// Queries after which the client copies the table again.
    window: Option<u64>,
    /// Whether its shape follows from how many queries are expected.
    is_shaped: bool,
}

/// The schemes side by side for `rows` rows, of which a client looks `queries` up, over a network of `mbit` megabits a second. Where the
/// document's own scheme is not the best one, that is said.
///
/// # Errors
/// If the document's scheme does not serve such a table.
pub fn in_words(
    plan: &ServePlan,
    value_bytes: Option<u32>,
    rows: u64,
    Asking { queries, mbit }: Asking,
) -> Result<String, Error> {
    let (service, own) = (&plan.service, prepare::kind(plan));
    let queries = queries.unwrap_or(service.expected_queries.into()).max(1);
    let expected = u32::try_from(queries).unwrap_or(u32::MAX);
    let offer = Offer::new(service, plan.keys.len(), value_bytes, 0, &[])?;
    let body = body_bytes(&offer);
    let speed = reading_speed();
    // What a scheme costs whose shape is that of so many expected queries.
    let costs_of = |kind: Kind, scheme: &dyn Scheme, expected: u32| {
        let (records, width) = match (service.by, scheme.filter()) {
            (By::Index, _) => (rows, body),
            (By::Key, Some(shape)) => {
                let width = keyword::TAG + body;
                (shape(rows, width as u32, expected)?.records, width)
            }
            // As full as a table of buckets is built.
            (By::Key, None) => ((rows * 20).div_ceil(SLOTS as u64 * 19).max(1), SLOTS * (TAG + body)),
        };
        let (seed, salt, sealed) = ([0; 32], [0; 32], [0; 32]);
        let epoch = Epoch::new(
            &offer,
            1,
            Layout { rows, records, width, seed, salt, sealed, expected, preset: service.preset },
        );
        Ok(costs(kind, service.by, &*scheme.retrieval(service.by, &epoch)?, &epoch, speed))
    };
    let mut all = Vec::new();
    for (kind, scheme) in suite::ALL.iter().filter_map(|(kind, suite)| Some((*kind, suite.scheme()?))) {
        // Rows of real numbers are another table, and approximate: they are compared only where the document asks for them. What looks
        // rows up by number alone is no choice for keys.
        let is_other = scheme.has_reals() || has_reals(own);
        if kind != own && (is_other || !kind.protocol.takes(service.by, service.private)) {
            continue;
        }
        match costs_of(kind, scheme, expected) {
            Err(error) if kind == own => return Err(PirError::into(error)),
            Err(_) => {}
            Ok(costs) => all.push(costs),
        }
    }
    // Seconds of one client: what it copies, and its queries, over the network and at the server.
    let seconds_of = |costs: &Costs, queries: u64| {
        let windows = costs.window.map_or(1, |window| (queries * costs.each).div_ceil(window)).max(1);
        let network =
            (costs.once * windows + queries * (costs.up + costs.down)) as f64 * 8.0 / (mbit.unwrap_or(100.0) * 1e6);
        network + queries as f64 * costs.seconds
    };
    let seconds = |costs: &Costs| seconds_of(costs, queries);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "Table: {} of {}. A client that looks up {} of them over {} Mbit/s:\n",
        counted(rows, "rows"),
        counted(body as u64, "bytes"),
        count(queries),
        mbit.unwrap_or(100.0)
    );
    let _ = writeln!(
        text,
        "  {:<11} {:<6} {:>11} {:>11} {:>11} {:>11} {:>12} {:>11} {:>10}",
        "protocol", "hint", "once", "kept", "up a row", "down a row", "server a row", "memory", "in all"
    );
    for costs in &all {
        let mark = if costs.kind == own { '*' } else { ' ' };
        let _ = writeln!(
            text,
            "{mark} {:<11} {:<6} {:>11} {:>11} {:>11} {:>11} {:>12} {:>11} {:>10}",
            costs.kind.protocol.name(),
            costs.kind.hint.map_or("", Hint::name),
            size(costs.once),
            size(costs.kept),
            size(costs.up),
            size(costs.down),
            short(costs.seconds),
            size(costs.memory),
            short(seconds(costs))
        );
    }
    let _ = writeln!(
        text,
        "\n* is the document's own choice. Once a hint or table is copied, or keys are sent. Memory is the server's. This machine reads {:.1} GB/s on one core.",
        speed / 1e9
    );
    if let Some((window, each)) = all.iter().find_map(|costs| Some((costs.window?, costs.each))) {
        let _ = writeln!(text, "With \"piano\" a client copies the table again after {} rows.", count(window / each));
    }
    let of_hint = |hint| all.iter().map(|costs| costs.kind).find(|kind| kind.hint == Some(hint));
    if let (Some(none), Some(copied)) = (of_hint(Hint::None), of_hint(Hint::Copied)) {
        // Each in the shape that is best for so many lookups.
        let pays = |queries: u32| {
            let of = |kind: Kind| Some(seconds_of(&costs_of(kind, kind.scheme().ok()?, queries).ok()?, queries.into()));
            Some(of(copied)? < of(none)?)
        };
        let _ = match first(1 << 24, |queries| pays(queries).unwrap_or(false)) {
            Some(least) => writeln!(
                text,
                "With \"simple-pir\", hint = \"copied\" takes less time than hint = \"none\" for a client that looks up {} rows of an epoch or more. hint = \"none\" assumes circular security besides.",
                count(least.into())
            ),
            None => writeln!(
                text,
                "With \"simple-pir\", hint = \"none\" takes less time here however often a client asks. It assumes circular security besides."
            ),
        };
    }
    if let Some(best) = all.iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b))) {
        let took = if best.kind == own { ", as the document does" } else { "" };
        if best.is_shaped && expected != service.expected_queries {
            let _ =
                writeln!(text, "Its shape here is that of expected_queries = {expected}, which the document must say.");
        }
        let _ = writeln!(text, "Take {}{took}: the least time for such a client.", best.kind);
    }
    Ok(text)
}

/// The first number from 1 to `most` for which something holds that goes on to hold, by halves.
fn first(most: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut below, mut from) = (0, most);
    if !holds(most) {
        return None;
    }
    while from - below > 1 {
        let middle = below + (from - below) / 2;
        if holds(middle) { from = middle } else { below = middle }
    }
    Some(from)
}

fn costs(kind: Kind, by: By, scheme: &dyn Retrieval, epoch: &Epoch, speed: f64) -> Costs {
    let (sizes, each, copied) = (scheme.sizes(), records_a_row(kind, by), scheme.copied());
    let super::Costs { kept, seconds, memory, window, .. } =
        scheme.costs(epoch.records * u64::from(epoch.width), speed);
    let memory = memory + if scheme.has_hint() { copied } else { 0 };
    let (up, down) = (each * sizes.query as u64, each * sizes.answer as u64);
    // A client sends its keys once, as it copies a hint once.
    let once = copied + scheme.keys_bytes() as u64;
    let (seconds, is_shaped) = (seconds * each as f64, scheme.has_hint());
    Costs { kind, each, once, kept, up, down, seconds, memory, window, is_shaped }
}

/// A time in a column: of small tables a row takes the server microseconds.
fn short(s: f64) -> String {
    if s < 0.000_999_5 { format!("{:.0} µs", (s * 1e6).ceil()) } else { numbers::seconds(s) }
}

/// Bytes a second that one core reads from memory, measured on 64 MiB.
fn reading_speed() -> f64 {
    let words = vec![1u64; 8 << 20];
    let once = || {
        let start = SystemClock.now();
        let sum = words.iter().fold(0u64, |sum, word| sum ^ word);
        std::hint::black_box(sum);
        (words.len() * 8) as f64 / SystemClock.since(start).as_secs_f64()
    };
    (0..3).map(|_| once()).fold(1.0, f64::max)
}
