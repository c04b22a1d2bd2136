//! What reading a table and cutting its keys into units made, kept beside a ledger: a killed run that is started again
//! goes on with its units at once.
//!
//! The file is one text in sealed [`blocks`](crate::seal::blocks), whose key is derived from the ledger's secret and
//! from the run's start. So the file is of use to that run alone, and to nobody without the secret, where there is one.
//! The text is
//!
//! 1. how many rows the table has, how many distinct keys, how many rows without one, and how many that repeat a key, 8 bytes each;
//! 2. the records of the units, a bucket a unit: of each key the digest under the run's salt, and the number of its first row, as
//!    [`Reading::of_a_row`] has it; and how many rows it has, where keys repeat and all their rows take part;
//! 3. there, the records of those other rows;
//! 4. the numbers of the rows without a key.
//!
//! Each of the last three is one bucket after another, behind an index as [`Spilled::placed`] has it.
//!
//! All of it can be made again from the table, and comes out the same: a file that is not whole is never used, and not
//! missed either. So nobody waits until it is on the disk. When the machine itself stops, the table may have to be read again.

use crate::disk::Disk;
use crate::error::JobError;
use crate::input::keys::{Keys, Reading};
use crate::input::parted;
use crate::input::parted::RECORD;
use crate::seal::blocks::{BLOCK, Blocks, Writer};
use crate::seal::file;
use crate::seal::key::Secret;
use crate::seal::record::Start;
use crate::tell::control::Control;
use crate::units::cut::{COUNTED, Records, Units, are_counted};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_spec::ResumePlan;
use vesica_table::{ReadAt, Spilled};
use vesica_types::Party;

/// The kind of the file, and the number of its format.
const KIND: &[u8; 15] = b"vesica units 5\n";

/// Bytes of the file for a row; a key has five more where keys repeat.
pub const ROW: u64 = RECORD as u64;

/// Bytes of the text that say how many rows and keys the table has.
const COUNTS: usize = 32;

/// Where it is kept for the party `me`.
pub fn path(resume: &ResumePlan, me: &Party) -> PathBuf {
    resume.dir.join(format!("{me}.units"))
}

/// The file of one run.
pub struct Kept {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// What the ledger's keys are derived from.
    secret: Arc<Secret>,
    start: Start,
}

impl Kept {
    /// The file at `path` of `disk`, of the run that began with `start`, whose ledger's keys are derived from `secret`.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf, secret: Arc<Secret>, start: Start) -> Self {
        Self { disk, path, secret, start }
    }

    /// Whether there is a file.
    pub fn exists(&self) -> bool {
        self.disk.has(&self.path)
    }

    /// Removes the file, if there is one.
    ///
    /// # Errors
    /// Those of removing it.
    pub fn remove(&self) -> Result<(), JobError> {
        file::remove(&*self.disk, &self.path)
    }

    /// Writes the file, which survives this process.
    ///
    /// # Errors
    /// Those of writing, and of reading what was spilled; being cancelled.
    pub fn save(&self, keys: &Keys, units: &Units, ctl: &Control) -> Result<(), JobError> {
        let mut out = self.writer(ctl)?;
        out.write([keys.rows, keys.distinct, keys.empty, keys.duplicates].map(u64::to_le_bytes).as_flattened())?;
        let (firsts, others, empties) = units.records();
        for spilled in [Some(firsts), others, Some(empties)].into_iter().flatten() {
            let buckets = 0..spilled.buckets();
            index(&mut out, spilled.record_bytes(), buckets.clone().map(|bucket| spilled.len(bucket)))?;
            for bucket in buckets {
                let (mut blocks, mut block) = (spilled.blocks(bucket, BLOCK / RECORD), Vec::new());
                while blocks.next_into(&mut block)? {
                    out.write(&block)?;
                }
            }
        }
        out.leave()
    }

    /// A new file, of which only the front is written.
    ///
    /// # Errors
    /// Those of writing.
    pub fn writer<'a>(&'a self, ctl: &'a Control) -> Result<Writer<'a>, JobError> {
        Writer::create(&*self.disk, &self.path, KIND, &self.secret, &self.start.encode(), ctl)
    }

    /// What the file holds, if it is whole: of the party at `place` and its table at `input`, which reads units as `how` says and has room
    /// in `dir`.
    ///
    /// # Errors
    /// [`vesica_session::Error::Cancelled`].
    pub fn load(
        &self,
        place: u8,
        how: &Reading<'_>,
        input: &Path,
        dir: &Path,
        ctl: &Control,
    ) -> Result<Option<(Keys, Units)>, JobError> {
        match self.blocks() {
            Some(blocks) if blocks.are_whole(ctl)? => Ok(self.parts(blocks, place, how, input, dir)),
            _ => Ok(None),
        }
    }

    /// The blocks of the file, unread.
    fn blocks(&self) -> Option<Blocks> {
        Blocks::open(&*self.disk, &self.path, KIND, &self.secret, &self.start.encode())
    }

    /// The keys and units in `blocks`; none if they do not add up.
    fn parts(&self, blocks: Blocks, place: u8, how: &Reading<'_>, input: &Path, dir: &Path) -> Option<(Keys, Units)> {
        let (mut counts, mut at, end) = ([0; COUNTS], COUNTS as u64, blocks.text_len());
        blocks.read_exact_at(&mut counts, 0).ok()?;
        let [rows, distinct, empty, duplicates] = std::array::from_fn(|i| u64::from_le_bytes(counts.as_chunks().0[i]));
        // Every other row has a key, and some have several.
        let least = rows.checked_sub(empty)?;
        let most = least.checked_mul(how.of_a_row())?;
        distinct.checked_add(duplicates).filter(|entries| (least..=most).contains(entries))?;
        let keys = Keys { rows, distinct, empty, duplicates, ruled: None };
        let (units, counted) = (self.start.sizes.units as usize, are_counted(&keys, how.duplicates));
        let file: Arc<dyn ReadAt> = Arc::new(blocks);
        let mut next = |buckets, record| {
            let spilled = Spilled::placed(file.clone(), &self.path, at, buckets, record).ok()?;
            at += 8 * (buckets as u64 + 1) + spilled.disk_bytes();
            Some(spilled)
        };
        let firsts = next(units, if counted { COUNTED } else { RECORD })?;
        let others = if counted { Some(next(units, RECORD)?) } else { None };
        let empties = next(1, parted::ROW)?;
        let apart = others.as_ref().map_or(duplicates, Spilled::total);
        if at != end || [firsts.total(), apart, empties.total()] != [distinct, duplicates, empty] {
            return None;
        }
        let records = Records { firsts, others, empties };
        Some((keys, Units::new(self.start.sizes.clone(), place, how, records, input, dir)))
    }

    /// The salt that the units were cut with.
    pub fn salt(&self) -> [u8; 32] {
        self.start.salt
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes the index of buckets that are to follow, of so many records of `record` bytes.
fn index(
    out: &mut Writer<'_>,
    record: usize,
    buckets: impl IntoIterator<Item = usize, IntoIter: ExactSizeIterator>,
) -> Result<(), JobError> {
    let buckets = buckets.into_iter();
    let mut bound = out.taken() + 8 * (buckets.len() as u64 + 1);
    out.write(&bound.to_le_bytes())?;
    buckets.into_iter().try_for_each(|records| {
        bound += (records * record) as u64;
        out.write(&bound.to_le_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::key::{Front, Given, TAG};
    use crate::seal::ledger::Ledger;
    use crate::world::World;
    use std::fs;
    use vesica_session::Error;
    use vesica_spec::Plan;
    use vesica_types::{Coins, UnitId};

    const ROWS: u64 = 12_000;

    /// A job over a table with keys in several rows, and rows without one.
    fn job(dir: &Path, mine: &str) -> Plan {
        let key = |i: u64| if i % 50 == 7 { String::new() } else { (i * i % 10_007).to_string() };
        let rows: String = (0..ROWS).map(|i| format!("{},row {i}\n", key(i))).collect();
        fs::write(dir.join("a.csv"), format!("id,v\n{rows}")).unwrap();
        let text = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"ecdh\"\nlearns = [\"alice\"]\ninsecure = true\nunit = 300\n\
             [mine]\nname = \"alice\"\nlisten = \"h:1\"\ninput = {{ path = \"{0}/a.csv\", keys = [\"id\"] }}\n\
             output = {{ path = \"{0}/o.csv\" }}\nresume = \"{0}/resume\"\n{mine}\n",
            dir.display()
        );
        vesica_spec::plan(&vesica_spec::parse(&text).unwrap()).unwrap()
    }

    /// What reading and cutting make, and the file of it.
    fn made(plan: &Plan) -> (Keys, Units, Kept) {
        let temp = std::env::temp_dir();
        let table = vesica_table::open(&plan.input).unwrap();
        let ctl = Control::new(());
        let keys = Keys::count(&*table, plan, &temp, &ctl).unwrap();
        let sizes = plan.sizes(&[keys.distinct, 100], 1, 1 << 30);
        let units = Units::cut(&*table, plan, &keys, None, &[7; 32], sizes.clone(), 0, &temp, &ctl).unwrap();
        let mut ledger = Ledger::open(plan, &temp, &World::default().disk, &Control::new(())).unwrap();
        ledger.identify(&blake3::hash(b"")).unwrap();
        ledger.start(Start { salt: [7; 32], coins: Coins::new([0; 32]), sizes, lists: vec![0; 2] }).unwrap();
        let kept = ledger.kept().unwrap();
        kept.save(&keys, &units, &ctl).unwrap();
        (keys, units, kept)
    }

    const HOW: Reading<'_> = Reading {
        keys: &[],
        rules: &[],
        lists: &[],
        duplicates: vesica_spec::Duplicates::Join,
        memory: 1 << 30,
        workers: 2,
        slabs: None,
    };

    fn load(kept: &Kept) -> Option<(Keys, Units)> {
        kept.load(0, &HOW, Path::new("a.csv"), &std::env::temp_dir(), &Control::new(())).unwrap()
    }

    /// The rows of each unit, and whether each begins a key; and those without a key.
    fn rows(units: &Units) -> (Vec<(UnitId, bool, u64)>, Vec<u64>) {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for id in (0..units.sizes.units).map(UnitId) {
            units
                .each(id, |first, row| {
                    with.push((id, first, row));
                    Ok(())
                })
                .unwrap();
        }
        units
            .each_empty(|row| {
                without.push(row);
                Ok(())
            })
            .unwrap();
        without.sort_unstable();
        (with, without)
    }

    #[test]
    fn what_is_saved_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let (keys, units, kept) = made(&job(dir.path(), ""));
        let (keys_again, units_again) = load(&kept).unwrap();
        assert_eq!(keys_again, Keys { ruled: None, ..keys });
        assert!(keys.duplicates > 1000 && keys.empty == ROWS / 50, "there is something to keep");
        assert_eq!(rows(&units_again), rows(&units));
        assert!(units.sizes.units > 4);
        for id in (0..units.sizes.units).map(UnitId) {
            let (a, b) = (units.unit(id).unwrap(), units_again.unit(id).unwrap());
            assert_eq!((a.0.keys, a.1), (b.0.keys, b.1));
        }
        kept.remove().unwrap();
        kept.remove().unwrap();
        assert!(!kept.exists() && load(&kept).is_none());
    }

    #[test]
    fn identifiers_are_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut plan = job(dir.path(), "");
        let list = |kind, name: &str, place| vesica_spec::KeyList {
            kind,
            name: name.into(),
            columns: vec![place],
            rules: vec![Vec::new()],
        };
        plan.keys = vec!["id".into(), "v".into()];
        plan.lists = vec![list(0, "id", 0), list(1, "v", 1)];
        let (keys, units, kept) = made(&plan);
        assert!(keys.distinct > ROWS && keys.empty == 0, "{keys:?}");
        let (keys_again, units_again) =
            kept.load(0, &(&plan).into(), Path::new("a.csv"), dir.path(), &Control::new(())).unwrap().unwrap();
        assert_eq!(keys_again, Keys { ruled: None, ..keys });
        assert_eq!(rows(&units_again), rows(&units));
        assert!(load(&kept).is_none(), "more keys than rows");
    }

    #[test]
    fn a_file_that_is_not_whole_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let (.., kept) = made(&job(dir.path(), ""));
        let whole = fs::read(kept.path()).unwrap();
        let is_used = |bytes: &[u8]| {
            fs::write(kept.path(), bytes).unwrap();
            load(&kept).is_some()
        };
        let mut bytes = whole.clone();
        bytes[whole.len() / 2] ^= 1;
        assert!(!is_used(&bytes), "another byte");
        // Every block that is left is as it was sealed, and the text ends too early.
        let block = BLOCK + TAG;
        assert!(whole.len() > Front::BYTES + 3 * block, "several blocks");
        for blocks in 0..3 {
            assert!(!is_used(&whole[..Front::BYTES + blocks * block]), "cut behind {blocks} blocks");
        }
        bytes.copy_from_slice(&whole);
        bytes[..15].copy_from_slice(b"vesica units 3\n");
        assert!(!is_used(&bytes), "another format");
        assert!(is_used(&whole));
    }

    /// Each of the counts in front of the units follows from the others or from the units.
    #[test]
    fn counts_that_do_not_add_up_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let (.., kept) = made(&job(dir.path(), ""));
        let blocks = kept.blocks().unwrap();
        let mut text = vec![0; blocks.text_len() as usize];
        blocks.read_exact_at(&mut text, 0).unwrap();
        let mut is_used_with = |count: usize, more: u64| {
            let words = text.as_chunks_mut().0;
            words[count] = (u64::from_le_bytes(words[count]) + more).to_le_bytes();
            let ctl = Control::new(());
            let mut out = kept.writer(&ctl).unwrap();
            out.write(&text).and_then(|()| out.finish()).unwrap();
            let words = text.as_chunks_mut().0;
            words[count] = (u64::from_le_bytes(words[count]) - more).to_le_bytes();
            load(&kept).is_some()
        };
        assert!(is_used_with(0, 0));
        for count in 0..COUNTS / 8 {
            assert!(!is_used_with(count, 1), "count {count}");
        }
    }

    #[test]
    fn a_file_is_of_use_to_its_run_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (.., mut kept) = made(&job(dir.path(), ""));
        kept.start.salt[0] ^= 1;
        assert!(load(&kept).is_none(), "another run of the same ledger");
        kept.start.salt[0] ^= 1;
        kept.secret = Arc::new(Given::Nothing.secret(&[1; 32]));
        assert!(load(&kept).is_none(), "another ledger");
    }

    #[test]
    fn saving_and_loading_are_stopped_like_all_else() {
        let dir = tempfile::tempdir().unwrap();
        let (keys, units, kept) = made(&job(dir.path(), ""));
        let ctl = Control::new(());
        ctl.cancel();
        assert!(matches!(
            kept.load(0, &HOW, Path::new("a.csv"), dir.path(), &ctl),
            Err(JobError::Session(Error::Cancelled))
        ));
        assert!(matches!(kept.save(&keys, &units, &ctl), Err(JobError::Session(Error::Cancelled))));
    }

    /// Without a secret whoever has the folder can read the file; keys stand in it as salted digests even then.
    #[test]
    fn no_digest_without_salt_is_kept_and_a_sealed_file_shows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        crate::rooms::replace_privately(&dir.path().join("key"), &[3; 32]).unwrap();
        for mine in ["", &format!("resume_key = \"{}/key\"", dir.path().display())] {
            let (_, units, kept) = made(&job(dir.path(), mine));
            let (unit, _) = units.unit(UnitId(0)).unwrap();
            let raw = fs::read(kept.path()).unwrap();
            let blocks = kept.blocks().unwrap();
            let mut text = vec![0; blocks.text_len() as usize];
            blocks.read_exact_at(&mut text, 0).unwrap();
            let holds = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
            assert!(holds(&text, &unit.keys[0].0) && !holds(&raw, &unit.keys[0].0));
            let encoded = [&[1][..], &1u64.to_le_bytes(), b"4"].concat();
            let salt = blake3::derive_key("vesica 2026 salted key", &[7; 32]);
            let salted = blake3::keyed_hash(&salt, &encoded);
            assert!(holds(&text, &salted.as_bytes()[..16]), "the digest is that of a key in the table");
            let domain = blake3::derive_key("vesica 2026 key", &[]);
            assert!(!holds(&text, &blake3::keyed_hash(&domain, &encoded).as_bytes()[..8]));
            fs::remove_dir_all(dir.path().join("resume")).unwrap();
        }
    }
}
