//! Where moments stand on a timeline: a long stretch in which everybody only waited for another party to come is cut short, so that the rest
//! can be seen.

/// Stretches shorter than this are not drawn, and nothing is cut where everything together is shorter.
pub const SHORTEST_S: f64 = 0.0005;

/// What happens from one moment to another, in seconds.
#[derive(Clone, Copy)]
pub struct Stretch {
    pub from: f64,
    pub to: f64,
    /// Whether it is only waiting for another party to come.
    pub is_meeting: bool,
}

/// A timeline.
pub struct Scale {
    first: f64,
    /// What is drawn, in seconds: what passed, without what is cut.
    width: f64,
    cuts: Vec<Stretch>,
    /// How wide each of `cuts` is drawn, in seconds.
    gap: f64,
}

impl Scale {
    /// The timeline of `all`. A stretch of nothing but meeting is cut if it is longer than everything else together; it is drawn a sixth as wide
    /// as that.
    pub fn of(all: &[Stretch]) -> Self {
        let mut moments: Vec<f64> = all.iter().flat_map(|one| [one.from, one.to]).collect();
        moments.sort_by(f64::total_cmp);
        let first = moments.first().copied().unwrap_or(0.0);
        let passed = moments.last().copied().unwrap_or(0.0) - first;
        let between =
            moments.array_windows().map(|&[from, to]| Stretch { from, to, is_meeting: only_meeting(all, from, to) });
        let meetings: Vec<Stretch> = between.filter(|one| one.is_meeting).collect();
        let busy = passed - meetings.iter().map(|one| one.to - one.from).sum::<f64>();
        let too_long = |one: &Stretch| busy >= SHORTEST_S && one.to - one.from > busy;
        let cuts: Vec<Stretch> = meetings.into_iter().filter(too_long).collect();
        let gap = busy / 6.0;
        let cut: f64 = cuts.iter().map(|one| one.to - one.from - gap).sum();
        Self { first, width: (passed - cut).max(f64::MIN_POSITIVE), cuts, gap }
    }

    /// Where `moment` stands, as a share of the width.
    pub fn place(&self, moment: f64) -> f64 {
        let lost = |one: &Stretch| (moment.clamp(one.from, one.to) - one.from) * (1.0 - self.gap / (one.to - one.from));
        (moment - self.first - self.cuts.iter().map(lost).sum::<f64>()) / self.width
    }

    /// The stretches that are cut.
    pub fn cuts(&self) -> &[Stretch] {
        &self.cuts
    }
}

/// Whether parties meet between these moments, and nobody does anything else. Nothing begins or ends between them.
fn only_meeting(all: &[Stretch], from: f64, to: f64) -> bool {
    let middle = f64::midpoint(from, to);
    let mut now = all.iter().filter(|one| one.from <= middle && middle < one.to).peekable();
    now.peek().is_some() && now.all(|one| one.is_meeting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from: f64, to: f64, is_meeting: bool) -> Stretch {
        Stretch { from, to, is_meeting }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_short_wait_is_drawn_as_long_as_it_was() {
        let scale = Scale::of(&[stretch(10.0, 11.0, false), stretch(11.0, 12.0, true), stretch(12.0, 14.0, false)]);
        assert!(scale.cuts().is_empty());
        assert!([(10.0, 0.0), (11.0, 0.25), (14.0, 1.0)].iter().all(|&(moment, at)| near(scale.place(moment), at)));
    }

    #[test]
    fn a_wait_longer_than_all_the_rest_is_cut_and_order_is_kept() {
        // bob reads and waits a hundred seconds; alice reads while he does, and both work for five.
        let all = [
            stretch(0.0, 1.0, false),
            stretch(1.0, 101.0, true),
            stretch(99.0, 100.5, false),
            stretch(100.5, 101.0, true),
            stretch(101.0, 106.0, false),
        ];
        let scale = Scale::of(&all);
        let cuts: Vec<(f64, f64)> = scale.cuts().iter().map(|one| (one.from, one.to)).collect();
        assert_eq!(cuts, [(1.0, 99.0)], "the half second in which both wait is short");
        // 1 + 1.5 + 5 s of work, the gap a sixth of that, and half a second of waiting that is drawn whole.
        let width = 7.5 + 7.5 / 6.0 + 0.5;
        assert!(near(scale.place(1.0), 1.0 / width) && near(scale.place(99.0), 2.25 / width));
        assert!(near(scale.place(0.0), 0.0) && near(scale.place(106.0), 1.0));
        let moments: Vec<f64> = (0..=1060).map(|tenth| scale.place(f64::from(tenth) / 10.0)).collect();
        assert!(moments.is_sorted());
    }

    #[test]
    fn nothing_is_cut_where_there_is_nothing_else_and_nothing_panics() {
        assert!(Scale::of(&[stretch(0.0, 9.0, true)]).cuts().is_empty());
        assert!(near(Scale::of(&[stretch(0.0, 9.0, true)]).place(9.0), 1.0));
        assert_eq!(Scale::of(&[]).place(0.0), 0.0);
        // Numbers that no run has, and a file may.
        for wild in [f64::INFINITY, f64::NAN, -1e308] {
            let scale = Scale::of(&[stretch(0.0, wild, true), stretch(wild, 1e308, false)]);
            scale.place(wild);
        }
    }
}
