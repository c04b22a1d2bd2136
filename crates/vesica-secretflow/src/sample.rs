//! The three tables of SecretFlow's benchmark, as its `generate_psi.py N1 N3` makes them, in no memory.

use std::path::{Path, PathBuf};
use vesica_job::sample::{BATCH, Keys, MAX_ROWS, Out, People, Shuffle, generate};
use vesica_job::{Control, JobError};

/// The tables `psi_1.csv`, `psi_2.csv` and `psi_3.csv`: a column `id` of distinct 18-digit numbers, in lines that end as
/// Python's csv module ends them. A random half of each of the last two stands in the first one too, and comes first.
#[derive(Clone, Copy, Debug)]
pub struct Benchmark {
    /// Rows of `psi_1.csv` and of `psi_2.csv`.
    pub n1: u64,
    /// Rows of `psi_3.csv`.
    pub n3: u64,
    /// Same seed, same bytes.
    pub seed: u64,
}

/// A table: random rows of the first one, then new ones.
struct Table {
    name: &'static str,
    rows: u64,
    shared: u64,
    /// The person in the first row that is new.
    new: u64,
}

impl Benchmark {
    /// Writes the tables into `folder`, which is made if need be, and returns where they are. Files appear when they are
    /// complete, and none replaces another.
    ///
    /// # Errors
    /// If a table is too large or shares more than there is, exists already or cannot be written, or `control` says stop.
    pub fn write(&self, folder: &Path, control: &Control) -> Result<Vec<PathBuf>, JobError> {
        let Self { n1, n3, seed } = *self;
        if let Some(rows) = [n1, n3].into_iter().find(|rows| *rows > MAX_ROWS) {
            return Err(JobError::Setup(format!("{rows} rows; the most is {MAX_ROWS}")));
        }
        if n3 / 2 > n1 {
            return Err(JobError::Setup(format!("half of {n3} rows cannot come from a table of {n1}")));
        }
        let (second, third) = (n1 / 2, n3 / 2);
        let tables = [
            Table { name: "psi_1.csv", rows: n1, shared: n1, new: 0 },
            Table { name: "psi_2.csv", rows: n1, shared: second, new: n1 },
            Table { name: "psi_3.csv", rows: n3, shared: third, new: n1 + (n1 - second) },
        ];
        let names = tables.iter().map(|table| table.name.to_owned()).collect();
        let people = People::new(Keys::Id, seed);
        generate(folder, names, 2 * n1 + n3, control, |index, out| {
            tables[index].write(&people, &Shuffle::new(n1, seed, 32 + index as u64), out)
        })
    }
}

impl Table {
    /// The first images of a random permutation of the first table's people are a random sample of them.
    fn write(&self, people: &People, sample: &Shuffle, out: &mut Out<'_>) -> Result<(), JobError> {
        let mut text = b"id\r\n".to_vec();
        let mut row = 0;
        loop {
            let end = self.rows.min(row + BATCH);
            for row in row..end {
                people.key(if row < self.shared { sample.at(row) } else { self.new + row - self.shared }, &mut text);
                text.extend(b"\r\n");
            }
            out.append(&text, end - row)?;
            text.clear();
            row = end;
            if row == self.rows {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn tables(n1: u64, n3: u64) -> Vec<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        let paths = Benchmark { n1, n3, seed: 3 }.write(dir.path(), &Control::new(())).unwrap();
        let read = |path: &PathBuf| {
            let text = std::fs::read_to_string(path).unwrap();
            let mut lines = text.strip_suffix("\r\n").unwrap().split("\r\n").map(str::to_owned);
            assert_eq!(lines.next().unwrap(), "id");
            lines.collect::<Vec<_>>()
        };
        paths.iter().map(read).collect()
    }

    #[test]
    fn half_of_the_second_and_third_stands_in_the_first() {
        for (n1, n3) in [(100, 10), (1001, 501), (10, 21), (0, 0)] {
            let tables = tables(n1, n3);
            assert_eq!([0, 1, 2].map(|i| tables[i].len() as u64), [n1, n1, n3]);
            assert!(tables.iter().flatten().all(|id| id.len() == 18 && !id.starts_with('0')));
            let sets: Vec<BTreeSet<&String>> = tables.iter().map(|table| table.iter().collect()).collect();
            assert!(sets.iter().zip(&tables).all(|(set, table)| set.len() == table.len()), "ids repeat");
            let common = |i: usize, j: usize| sets[i].intersection(&sets[j]).count() as u64;
            assert_eq!((common(0, 1), common(0, 2)), (n1 / 2, n3 / 2));
            assert!(common(1, 2) <= n3 / 2);
        }
        assert!(Benchmark { n1: 1, n3: 10, seed: 1 }.write(Path::new("/nowhere"), &Control::new(())).is_err());
    }
}
