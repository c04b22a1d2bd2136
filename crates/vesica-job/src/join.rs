//! From common keys to rows of the output.

use crate::error::JobError;
use crate::keys::{KeyId, Keys};
use crate::memory::Share;
use crate::plan::Plan;
use crate::report;
use crate::spec::Order;
use crate::units::{Found, Match};
use std::path::Path;
use vesica_table::{Picks, Spill, Spilled};
use vesica_types::RowId;

/// The most rows of an output; the same as the most keys a party may bring.
const MOST: u64 = crate::plan::MAX_KEYS;

/// Parts that common keys, and rows, are sorted in.
const PARTS: usize = 256;

/// Which row of the input stands at which place of the output: this party's half of the join.
///
/// A key with m rows here and n there gives m·n rows on either side, and the same place holds the two halves of one joined
/// row: the left party's rows go round slowly, the right one's fast. Behind all pairs come the left table's rows without a
/// partner, then the right table's, in their input's order; `absent` is how many of them are the peer's, rows of nulls
/// here. Outputs that do not line up are in the order of this party's input, rows of nulls last.
///
/// # Errors
/// Those of reading and writing what is spilled; an output of an absurd size, which is also what a peer meets that lies
/// about its rows.
pub fn rows(plan: &Plan, keys: &Keys, found: &Found<'_>, absent: u64, dir: &Path) -> Result<Picks, JobError> {
    let half = plan.half();
    let (parts, pairs) = parted(keys, found, half.pairs, Share::Parted.of(plan.memory), dir)?;
    let alone = if half.mine { keys.kept() - found.rows } else { 0 };
    let total = u128::from(pairs) + u128::from(alone) + u128::from(absent);
    if total > u128::from(MOST) {
        return Err(too_many(total));
    }

    let aligned = plan.all_learn() && plan.order == Order::Aligned;
    let left = plan.me.place() == 0;
    let mut picks = Picks::new(keys.rows, Share::Picks.of(plan.memory), dir)?;
    let mut in_order = InOrder::new(keys.rows, Share::Order.of(plan.memory), dir)?;
    let mut blocks = Blocks::new(&parts, width(keys.distinct));
    keys.each(|key, mut rows| match blocks.of(key)? {
        None if half.mine => rows.try_for_each(|row| in_order.push(row, 1)),
        Some(block) if half.pairs && aligned => (0..).zip(rows).try_for_each(|(i, row)| {
            (0..block.peer_rows).try_for_each(|j| {
                let place = if left { i * block.peer_rows + j } else { j * block.rows + i };
                Ok(picks.push(RowId(row), block.base + place)?)
            })
        }),
        Some(block) if half.pairs => rows.try_for_each(|row| in_order.push(row, block.peer_rows)),
        _ => Ok(()),
    })?;
    if half.mine {
        keys.each_empty(|row| in_order.push(row, 1))?;
    }
    // The absent rows stand in front of mine only where the left table's do and I am right.
    let mine = if aligned { pairs + if left { 0 } else { absent } } else { 0 };
    let theirs = if aligned && !left { pairs } else { pairs + alone };
    in_order.place(mine, &mut picks)?;
    for place in theirs..theirs + absent {
        picks.push_absent(place)?;
    }
    Ok(picks)
}

fn too_many(total: u128) -> JobError {
    JobError::Setup(format!(
        "the join has {total} rows, because a key with m rows here and n there gives m times n; the most is {}: remove \
         duplicate keys on one side",
        report::count(MOST)
    ))
}

/// The rows of a common key in the output.
struct Block {
    /// The place of the first.
    base: u64,
    /// Rows of the key on this side, and on the other.
    rows: u64,
    peer_rows: u64,
}

/// Common keys in parts of ascending keys, and the rows of the join of all of them.
fn parted(keys: &Keys, found: &Found<'_>, pairs: bool, memory: usize, dir: &Path) -> Result<(Spilled, u64), JobError> {
    let width = width(keys.distinct);
    let mut parts = Spill::new(PARTS, Match::BYTES, memory, dir)?;
    let mut total = 0u64;
    for unit in 0..found.matches.buckets() {
        for matches in found.matches.blocks(unit, 1 << 16) {
            let matches = matches?;
            let (matches, _) = matches.as_chunks::<{ Match::BYTES }>();
            for (bytes, m) in matches.iter().map(|bytes| (bytes, Match::from_bytes(bytes))) {
                parts.push((m.key.0 / width) as usize, bytes)?;
                if pairs {
                    let sum = u128::from(total) + u128::from(m.rows) * u128::from(m.peer_rows);
                    total = u64::try_from(sum).ok().filter(|&t| t <= MOST).ok_or_else(|| too_many(sum))?;
                }
            }
        }
    }
    Ok((parts.finish()?, total))
}

/// Blocks in ascending order of their keys: an order that both parties share, and that is the same in every run.
struct Blocks<'a> {
    parts: &'a Spilled,
    /// The part under way: for each key from `first` on, its rows on this side and on the other; none if it is not common.
    part: usize,
    first: u64,
    rows: Vec<[u64; 2]>,
    /// Keys in a part.
    width: u64,
    /// The place of the next block.
    base: u64,
}

impl<'a> Blocks<'a> {
    /// The blocks of the matches in `parts`, each of `width` keys.
    fn new(parts: &'a Spilled, width: u64) -> Self {
        Self { parts, part: 0, first: 0, rows: Vec::new(), width, base: 0 }
    }

    /// The block of `key`, if it is common; keys must be asked for in ascending order.
    fn of(&mut self, key: KeyId) -> Result<Option<Block>, JobError> {
        while key.0 - self.first >= self.rows.len() as u64 {
            self.first += self.rows.len() as u64;
            self.rows.clear();
            self.rows.resize(self.width as usize, [0; 2]);
            let bytes = self.parts.read(self.part)?;
            let (matches, _) = bytes.as_chunks::<{ Match::BYTES }>();
            for m in matches.iter().map(Match::from_bytes) {
                self.rows[(m.key.0 - self.first) as usize] = [m.rows, m.peer_rows];
            }
            self.part += 1;
        }
        let [rows, peer_rows] = self.rows[(key.0 - self.first) as usize];
        if rows == 0 {
            return Ok(None);
        }
        let base = self.base;
        // No overflow where pairs count; where they do not, nobody looks at a block's place.
        self.base = base.wrapping_add(rows.wrapping_mul(peer_rows));
        Ok(Some(Block { base, rows, peer_rows }))
    }
}

/// Rows that are to stand in the order of the input, pushed in any.
struct InOrder {
    spill: Spill,
    width: u64,
}

impl InOrder {
    fn new(rows: u64, memory: usize, dir: &Path) -> Result<Self, JobError> {
        Ok(Self { spill: Spill::new(PARTS, 16, memory, dir)?, width: width(rows) })
    }

    /// Takes `row`, to stand `times` times in the output.
    fn push(&mut self, row: u64, times: u64) -> Result<(), JobError> {
        let record = [row, times].map(u64::to_le_bytes);
        Ok(self.spill.push((row / self.width) as usize, record.as_flattened())?)
    }

    /// Gives the rows their places, from `place` on.
    fn place(self, mut place: u64, picks: &mut Picks) -> Result<(), JobError> {
        let spilled = self.spill.finish()?;
        for (part, first) in (0..spilled.buckets()).zip((0..).step_by(self.width as usize)) {
            let mut times_of = vec![0; self.width as usize];
            let bytes = spilled.read(part)?;
            for record in bytes.as_chunks::<16>().0 {
                let [row, times] = [0, 8].map(|at| u64::from_le_bytes(*record[at..].first_chunk().expect("two words")));
                times_of[(row - first) as usize] = times;
            }
            for (row, times) in (first..).zip(times_of) {
                for _ in 0..times {
                    picks.push(RowId(row), place)?;
                    place += 1;
                }
            }
        }
        Ok(())
    }
}

/// Keys, or rows, in a part, if there are `n`.
fn width(n: u64) -> u64 {
    n.div_ceil(PARTS as u64).max(1)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::ledger::{Ledger, Start};
    use crate::local::{self, Local};
    use crate::units::Units;
    use crate::{plan, spec};
    use std::io::Write;
    use std::process::Command;
    use vesica_types::UnitId;

    /// The memory that the job promises to keep to.
    const MEMORY: u64 = 64 << 20;

    /// Peak memory of this process, in bytes.
    fn peak() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// All of a run but the protocol, over as many rows as the environment says: read, cut into units, find every key
    /// common, join, write in another order.
    #[test]
    #[ignore = "started by other tests"]
    fn child_joins_in_little_memory() {
        // By itself, in a process with others, there is nothing to measure.
        let Ok(rows) = std::env::var("ROWS") else { return };
        let rows: u64 = rows.parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut file = std::io::BufWriter::new(std::fs::File::create(dir.path().join("a.csv")).unwrap());
        file.write_all(b"id,v\n").unwrap();
        (0..rows).for_each(|i| writeln!(file, "{},some more text", i * 1_000_003 % rows).unwrap());
        drop(file);
        let job = format!(
            "[shared]\nid = \"j\"\nparties = [\"a\", \"b\"]\nprotocol = \"ecdh\"\nlearns = [\"a\", \"b\"]\ninsecure = true\n\
             [mine]\nname = \"a\"\nlisten = \"127.0.0.1:0\"\nmemory = \"64 MiB\"\ninput = {{ path = \"{0}/a.csv\", keys = [\"id\"] }}\n\
             output = {{ path = \"{0}/out.csv\" }}\nscratch = \"{0}\"\n",
            dir.path().display()
        );
        let plan = plan::plan(&spec::parse(&job).unwrap()).unwrap();
        let before = peak();
        let mut local: Local = local::open(&plan).unwrap();
        let keys = Keys::extract(&*local.table, &plan, &local.scratch, &Control::new(())).unwrap();
        assert_eq!((keys.rows, keys.distinct), (rows, rows));
        let sizes = plan.sizes(rows, rows, (2, 2), (MEMORY, MEMORY));
        let units = Units::partition(&keys, &[1; 32], sizes, plan.memory, &local.scratch).unwrap();
        let mut ledger = Ledger::new(plan.memory, &local.scratch);
        ledger.start(Start { salt: [1; 32], sizes, keys: (rows, rows) }).unwrap();
        for id in (0..sizes.units).map(UnitId) {
            let (_, found) = units.unit(id).unwrap();
            let found = found.into_iter().map(|(key, rows)| Match { key, rows, peer_rows: 1 });
            ledger.commit(id, &[0; 32], &found.collect::<Vec<_>>()).unwrap();
        }
        drop(units);
        let found = ledger.found().unwrap();
        let picks = super::rows(&plan, &keys, &found, 0, &local.scratch).unwrap();
        let sink = local.fresh_sink(&plan).unwrap().unwrap();
        let written = local.write(&plan, picks, rows, sink).unwrap().commit().unwrap();
        assert_eq!(written.rows, rows);
        let names = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 2, "the input and the output, and nothing that was spilled");
        let grown = peak() - before;
        writeln!(std::io::stdout(), "{rows} rows in {} MiB", grown >> 20).unwrap();
        assert!(grown < MEMORY + (100 << 20), "{} MiB", grown >> 20);
    }

    #[test]
    #[ignore = "takes a minute"]
    fn the_memory_is_kept() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "join::tests::child_joins_in_little_memory"])
            .env("ROWS", "10000000")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && said.contains(" rows in "),
            "{said}\n{}",
            String::from_utf8_lossy(&child.stderr)
        );
    }
}
