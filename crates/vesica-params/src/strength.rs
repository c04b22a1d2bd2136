//! How strong the sets are by published estimators, and that the pages say it.
//!
//! `strength.py`, in this crate's folder, computes the numbers anew, and `strength.txt` is what it printed.

/// log2 of the operations that attacks on a set of (ring) learning with errors take, by the lattice estimator of Albrecht, Player
/// and Scott (eprint 2015/046; github.com/malb/lattice-estimator, commit 27a581b) with its defaults, and as many samples as the attack likes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Strength {
    /// The primal attack by unique short vectors.
    pub usvp: f64,
    /// The primal attack by bounded distance decoding.
    pub bdd: f64,
    /// The same with some coefficients of the secret guessed.
    pub bdd_hybrid: f64,
    /// The same with these coefficients met in the middle.
    pub bdd_mitm_hybrid: f64,
    /// The dual attack.
    pub dual: f64,
    /// The dual attack with some coefficients guessed.
    pub dual_hybrid: f64,
}

impl Strength {
    /// The attacks' names, as the estimator has them, and what each takes.
    pub fn attacks(&self) -> [(&'static str, f64); 6] {
        let Self { usvp, bdd, bdd_hybrid, bdd_mitm_hybrid, dual, dual_hybrid } = *self;
        [
            ("usvp", usvp),
            ("bdd", bdd),
            ("bdd_hybrid", bdd_hybrid),
            ("bdd_mitm_hybrid", bdd_mitm_hybrid),
            ("dual", dual),
            ("dual_hybrid", dual_hybrid),
        ]
    }

    /// The cheapest attack.
    pub fn least(&self) -> f64 {
        self.attacks().into_iter().map(|(_, bits)| bits).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Level, curve, lpn, lwe, rlwe};
    use std::path::Path;

    fn read(path: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The lines of strength.txt that begin so, without that beginning.
    fn lines(start: &str) -> Vec<String> {
        let all = read("strength.txt");
        all.lines().filter_map(|line| line.strip_prefix(start)).map(|line| line.trim().to_owned()).collect()
    }

    /// A page has this line of a table.
    fn on_page(page: &str, row: &str) {
        let page_text = read(&format!("../../{page}"));
        assert!(page_text.contains(row), "{page} has no such line: {row}");
    }

    /// What was estimated is the set that is in use, what the set says is what was printed, and 128 bits are left by the cheapest attack.
    fn estimated(id: &str, input: &str, strength: &Strength) {
        let shown: Vec<String> = strength.attacks().iter().map(|(name, bits)| format!("{name}={bits:.1}")).collect();
        let line = format!("{input} {} least={:.1}", shown.join(" "), strength.least());
        assert_eq!(lines(&format!("lattice {id} ")), [line]);
        assert!(strength.least() >= 128.0, "{id}");
    }

    #[test]
    fn lattice_sets_are_as_estimated() {
        for (set, page) in [(lwe::SIMPLE, "simple-pir"), (lwe::PACKED, "simple-pir-without-hint")] {
            let lwe::LweSet { id, degree, flips, strength, .. } = set;
            let coins = flips / 2;
            estimated(id, &format!("n={degree} log2(q)=32.00 secret=cbd-{coins} error=cbd-{coins}"), &strength);
            on_page(
                &format!("docs/src/protocols/{page}.md"),
                &format!(
                    "| {:.1} | {:.1} | {:.1} | {:.1} |",
                    strength.usvp, strength.bdd, strength.dual, strength.dual_hybrid
                ),
            );
        }
        for set in rlwe::SETS {
            let (rlwe::RlweSet { id, n, strength, .. }, bits) = (set, set.modulus_bits());
            let coins = 2.0 * rlwe::ERROR_VARIANCE;
            estimated(id, &format!("n={n} log2(q)={bits:.2} secret=ternary error=cbd-{coins}"), strength);
            on_page(
                "docs/src/protocols/bfv-pir.md",
                &format!(
                    "| `{id}` | {:.1} | {:.1} | {:.1} | {:.1} |",
                    strength.usvp, strength.bdd, strength.dual, strength.dual_hybrid
                ),
            );
        }
        assert_eq!(lines("lattice ").len(), 2 + rlwe::SETS.len());
        let rings = rlwe::SETS.iter().map(|set| set.strength.least()).fold(f64::INFINITY, f64::min);
        on_page(
            "SECURITY.md",
            &format!("2^{:.1} operations on `simple-pir` and 2^{rings:.1} or more", lwe::SIMPLE.strength.least()),
        );
    }

    /// Decoding takes more than 128 bits at every size, and the blocks are those that the sets have there.
    #[test]
    fn noise_is_as_estimated() {
        let number = |line: &str, name: &str| -> f64 {
            let field = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            field.and_then(|field| field.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
        };
        for set in lpn::SETS.iter().chain([&lpn::BINARY]) {
            let lines = lines(&format!("noise {} ", set.id));
            assert!(lines.len() >= 3, "{}", set.id);
            for line in &lines {
                let noise = set.noise(number(line, "outputs") as usize, Level::STANDARD);
                let shown = (noise.trees as f64, libm::exp2(f64::from(noise.depth)));
                assert_eq!(shown, (number(line, "blocks"), number(line, "length")), "{}: {line}", set.id);
            }
            let least = lines.iter().map(|line| number(line, "least")).fold(f64::INFINITY, f64::min);
            assert!(least >= 128.0, "{}: {least}", set.id);
            // The fewest blocks are among the sizes.
            assert!(lines.iter().any(|line| number(line, "blocks") == set.floor as f64), "{}", set.id);
            on_page("docs/src/design/08-silent-vole.md", &format!("| `{}` | {least:.0} |", set.id));
        }
    }

    #[test]
    fn curves_are_as_computed() {
        for set in curve::SETS {
            let [less, more] = set.divisors;
            let (rho, left) = (set.rho(), set.after_answers());
            let line =
                format!("rho={rho:.1} answers=2^30 minus={less} plus={more} lost={:.1} left={left:.1}", rho - left);
            assert_eq!(lines(&format!("curve {} ", set.curve)), [line]);
            let (page, name) = (read("../../SECURITY.md"), format!("`{}`", set.curve));
            let row = format!(" | 2^{rho:.1} | {:.1} | 2^{left:.1} |", rho - left);
            assert!(page.lines().any(|line| line.contains(&name) && line.ends_with(&row)), "SECURITY.md: {name}{row}");
        }
    }
}
