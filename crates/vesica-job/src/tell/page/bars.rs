//! Bars: one line a name, drawn as parts of the longest.

/// Lines of stacked bars.
pub struct Bars {
    /// What the parts are called.
    pub parts: Vec<String>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One line.
pub struct Line {
    pub name: String,
    /// What is said of it.
    pub told: String,
    /// What is drawn.
    pub spans: Vec<Span>,
}

/// A piece of a line.
pub struct Span {
    /// Where it begins, as a share of the whole width.
    pub at: f64,
    /// How long it is, as such a share.
    pub wide: f64,
    /// Which of the bars' parts it is.
    pub part: usize,
    /// What stands in it; mostly nothing.
    pub says: String,
}

impl Span {
    /// A piece in which nothing stands.
    pub fn plain(at: f64, wide: f64, part: usize) -> Self {
        Self { at, wide, part, says: String::new() }
    }
}

impl Bars {
    /// Lines of values that stand one behind the other; `say` writes a sum.
    pub fn stacked<const N: usize>(
        parts: [&str; N],
        rows: Vec<(String, Vec<f64>)>,
        say: impl Fn(f64) -> String,
    ) -> Self {
        let most = rows.iter().map(|(_, values)| values.iter().sum::<f64>()).fold(f64::MIN_POSITIVE, f64::max);
        let line = |(name, values): (String, Vec<f64>)| {
            let mut at = 0.0;
            let spans = values.iter().enumerate().map(|(part, value)| {
                let span = Span::plain(at / most, value / most, part);
                at += value;
                span
            });
            let spans = spans.collect();
            let told = values.iter().zip(parts).map(|(value, part)| format!("{} {part}", say(*value)));
            Line { name, told: told.collect::<Vec<_>>().join(", "), spans }
        };
        Self { parts: parts.map(str::to_owned).to_vec(), lines: rows.into_iter().map(line).collect() }
    }
}
