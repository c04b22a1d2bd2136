//! What each key of this party's brings to the groups that its rows are in, held in memory.

use crate::error::JobError;
use crate::input::keys::Keys;
use crate::input::values::{Rows, number};
use crate::tell::control::{Control, Event};
use crate::tell::numbers::size;
use arrow_array::cast::AsArray;
use arrow_array::{Array, StringArray};
use std::collections::HashMap;
use vesica_session::{Error, LABEL, Label, SessionRng, Values};
use vesica_spec::{Added, GroupLabel, GroupedPlan, Share};
use vesica_table::Table;

/// What names the columns that rows are grouped by, in a job.
const BY: &str = "mine.input.groups";

/// And those that are added up.
const VALUES: &str = "mine.input.values";

/// The most groups of a table's rows, those without a key included.
const IN_TABLE: usize = 1 << 16;

/// What keys bring to groups.
pub struct ByGroup {
    /// By row, if it is a key's first: where the key's entries begin.
    starts: Vec<u64>,
    /// And how many it has; none for another row.
    counts: Vec<u32>,
    entries: Entries,
    /// What the groups are called, by their numbers, and blanks where there is none.
    labels: Vec<Label>,
    /// Sums of a group.
    width: usize,
}

/// One entry after the other: a key's in ascending order of groups.
#[derive(Default)]
struct Entries {
    groups: Vec<u32>,
    /// As many of each as there are sums.
    numbers: Vec<u64>,
}

impl ByGroup {
    /// Bytes of memory of a row: once by row while it is read, and once by key, with the places of keys.
    pub fn of_a_row(plan: &GroupedPlan) -> u64 {
        2 * (4 + 8 * plan.sums.len() as u64) + 12
    }

    /// What `table`, whose keys are `keys`, brings to the groups that `plan` names. `by_key` gives the rows that take part. The groups have
    /// the numbers of the labels that were agreed on, or get some at random, so that a number says nothing.
    ///
    /// # Errors
    /// [`JobError::Value`] with the row, for what is no number, a group too many or one that was not agreed on, a label that is too long, and a key that is in more groups or brings
    /// more than the job allows; [`JobError::Overflow`] if some of the values may add up to what is no number of 64 bits with a sign;
    /// [`JobError::Setup`] if all that does not fit into its share of `memory`; [`vesica_table::Error::Changed`] if the table has other rows than
    /// it had; those of reading and of `by_key`; being cancelled.
    pub fn read(
        plan: &GroupedPlan,
        table: &dyn Table,
        keys: &Keys,
        by_key: impl FnOnce(Rows<'_>) -> Result<(), JobError>,
        memory: u64,
        rng: &mut SessionRng,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let width = plan.sums.len();
        let wrong = |row: u64, (field, column): (&'static str, &str), why| JobError::Value {
            path: table.path().to_owned(),
            row: row + 1,
            column: column.to_owned(),
            field,
            why,
        };
        let need = keys.rows.saturating_mul(Self::of_a_row(plan));
        if need > Share::Joining.of(memory) as u64 {
            let (rows, need) = (keys.rows, size(need.saturating_mul(4)));
            let why = format!("the groups and values of {rows} rows do not fit into mine.memory: give {need} or more");
            return Err(JobError::Setup(why));
        }
        let mut in_table = Vec::new();
        let mut group_of: Vec<u32> = Vec::with_capacity(keys.rows as usize);
        let mut values: Vec<i64> = Vec::with_capacity(keys.rows as usize * width);
        let columns = Columns::of(plan);
        let mut known = HashMap::new();
        for batch in table.keys(&columns.names, 1)? {
            ctl.check()?;
            let batch = batch?;
            let texts: Vec<&StringArray> = batch.columns().iter().map(|column| column.as_string::<i32>()).collect();
            let text = |column: usize, place: usize| match texts[column].is_null(place) {
                true => "",
                false => texts[column].value(place),
            };
            for place in 0..batch.num_rows() {
                let row = group_of.len() as u64;
                let long = "together with the other columns of its group longer than 256 bytes, of which each column takes two more than its text";
                let label = encode(columns.by.iter().map(|&column| text(column, place)))
                    .ok_or_else(|| wrong(row, (BY, &plan.by[0]), long))?;
                let group = match known.get(&label) {
                    Some(&group) => group,
                    None if in_table.len() == IN_TABLE => {
                        let why = "one of more than 65536 groups of the table; group by columns with fewer values";
                        return Err(wrong(row, (BY, &plan.by[0]), why));
                    }
                    None => {
                        in_table.push(label);
                        known.insert(label, in_table.len() as u32 - 1);
                        in_table.len() as u32 - 1
                    }
                };
                group_of.push(group);
                for (&column, added) in columns.sums.iter().zip(&plan.sums) {
                    let wrong = |why| wrong(row, (VALUES, &added.column), why);
                    values.push(number(text(column, place)).map_err(wrong)?);
                }
            }
            ctl.event(Event::Done(group_of.len() as u64));
        }
        if group_of.len() as u64 != keys.rows {
            let what = format!("it had {} rows, and has {}", keys.rows, group_of.len());
            return Err(vesica_table::Error::Changed { path: table.path().to_owned(), what }.into());
        }
        // By key, with the numbers that were agreed on, or with some that say nothing.
        let mut labels = encoded(&plan.labels)?;
        let agreed: HashMap<Label, u32> = labels.iter().copied().zip(0..).collect();
        let numbers = if agreed.is_empty() { shuffled(plan.most, rng) } else { Vec::new() };
        labels.resize(plan.most as usize, [0; LABEL]);
        let (mut used, mut number_of) = (0, vec![None; in_table.len()]);
        let mut totals = vec![0u128; width];
        let mut of_key = OfKey { plan, first_row: 0, groups: Vec::new(), numbers: Vec::new() };
        let (mut starts, mut counts) = (vec![0; group_of.len()], vec![0; group_of.len()]);
        let mut entries = Entries::default();
        let mut end = |of_key: &mut OfKey<'_>| -> Result<(), JobError> {
            if of_key.groups.is_empty() {
                return Ok(());
            }
            let row = of_key.first_row as usize;
            (starts[row], counts[row]) = (entries.groups.len() as u64, of_key.groups.len() as u32);
            of_key.end(&mut entries, &wrong)
        };
        by_key(&mut |first, row| {
            if first {
                end(&mut of_key)?;
                of_key.first_row = row;
            }
            let Some(&in_table_at) = group_of.get(row as usize) else { return Ok(()) };
            let group = match number_of[in_table_at as usize] {
                Some(group) => group,
                None if !agreed.is_empty() => {
                    let Some(&group) = agreed.get(&in_table[in_table_at as usize]) else {
                        let why = match plan.other {
                            true => {
                                "of a group that shared.groups.other.labels does not list; agree on that group too, or leave the row out"
                            }
                            false => {
                                "of a group that shared.groups.labels does not list; agree on that group too, or leave the row out"
                            }
                        };
                        return Err(wrong(row, (BY, &plan.by[0]), why));
                    };
                    number_of[in_table_at as usize] = Some(group);
                    group
                }
                None => {
                    let Some(&group) = numbers.get(used) else {
                        let why = match plan.other {
                            true => {
                                "of one group more than shared.groups.other.most allows; agree on a larger number, or group by fewer values"
                            }
                            false => {
                                "of one group more than shared.groups.most allows; agree on a larger number, or group by fewer values"
                            }
                        };
                        return Err(wrong(row, (BY, &plan.by[0]), why));
                    };
                    used += 1;
                    number_of[in_table_at as usize] = Some(group);
                    labels[group as usize] = in_table[in_table_at as usize];
                    group
                }
            };
            let values = &values[row as usize * width..][..width];
            totals.iter_mut().zip(values).for_each(|(total, value)| *total += u128::from(value.unsigned_abs()));
            of_key.add(group, values);
            Ok(())
        })?;
        end(&mut of_key)?;
        // Then every sum of some of them is one, whatever is common, and of products whatever they are multiplied by; and with noise too, which is
        // less than 2^62 where there is any.
        let bits = if plan.noisy { 62 } else { 63 };
        let too_large = |&(total, added): &(&u128, &Added)| {
            total.checked_mul(added.times.into()).is_none_or(|most| most >> bits != 0)
        };
        if let Some((_, Added { column, times, .. })) = totals.iter().zip(&plan.sums).find(too_large) {
            let (path, column, times) = (table.path().to_owned(), column.clone(), (*times > 1).then_some(*times));
            return Err(JobError::Overflow { path, column, field: VALUES, bits, times });
        }
        Ok(Self { starts, counts, entries, labels, width })
    }

    /// What the groups are called.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// What the keys of a unit bring whose first rows these are: entries of a key's place and a group, and the numbers of each. Nothing if
    /// one of the rows is not a key's first.
    ///
    /// # Errors
    /// None but a bug.
    pub fn of(&self, rows: &[u64]) -> Result<Option<Values>, JobError> {
        let (mut entries, mut numbers) = (Vec::new(), Vec::new());
        for (place, &row) in (0..).zip(rows) {
            let count = self.counts.get(row as usize).copied().unwrap_or(0) as usize;
            if count == 0 {
                return Ok(None);
            }
            let from = self.starts[row as usize] as usize;
            entries.extend(self.entries.groups[from..from + count].iter().map(|&group| (place, group)));
            numbers.extend_from_slice(&self.entries.numbers[from * self.width..(from + count) * self.width]);
        }
        Ok(Some(Values::new(self.width, entries, numbers)?))
    }
}

/// The columns that are read, each once.
struct Columns {
    names: Vec<String>,
    /// The places of those that are grouped by.
    by: Vec<usize>,
    /// And of those that are added up.
    sums: Vec<usize>,
}

impl Columns {
    fn of(plan: &GroupedPlan) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut place = |name: &String| {
            names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            })
        };
        let by = plan.by.iter().map(&mut place).collect();
        let sums = plan.sums.iter().map(|added| place(&added.column)).collect();
        Self { names, by, sums }
    }
}

/// Every column that is grouped by or added up, once.
pub fn columns(plan: &GroupedPlan) -> Vec<String> {
    Columns::of(plan).names
}

/// What a key's rows come to.
struct OfKey<'a> {
    plan: &'a GroupedPlan,
    first_row: u64,
    groups: Vec<u32>,
    numbers: Vec<i64>,
}

impl OfKey<'_> {
    fn add(&mut self, group: u32, values: &[i64]) {
        match self.groups.iter().position(|&known| known == group) {
            // No sum of them is beyond 64 bits, as will be seen at the end.
            Some(at) => self.numbers[at * values.len()..]
                .iter_mut()
                .zip(values)
                .for_each(|(sum, value)| *sum = sum.wrapping_add(*value)),
            None => {
                self.groups.push(group);
                self.numbers.extend_from_slice(values);
            }
        }
    }

    /// The key has no more rows: what it brings goes to `entries`, if it keeps within the bounds.
    fn end(
        &mut self,
        entries: &mut Entries,
        wrong: &impl Fn(u64, (&'static str, &str), &'static str) -> JobError,
    ) -> Result<(), JobError> {
        if self.groups.len() > self.plan.of_a_key as usize {
            let why = match self.plan.other {
                true => {
                    "one of a key that is in more groups than shared.groups.other.of_a_key allows; agree on a larger number, or leave rows out"
                }
                false => {
                    "one of a key that is in more groups than shared.groups.of_a_key allows; agree on a larger number, or leave rows out"
                }
            };
            return Err(wrong(self.first_row, (BY, &self.plan.by[0]), why));
        }
        let width = self.plan.sums.len();
        for (place, Added { column, largest, .. }) in self.plan.sums.iter().enumerate() {
            let of_sum = self.numbers.iter().skip(place).step_by(width.max(1));
            let all: u128 = of_sum.map(|number| u128::from(number.unsigned_abs())).sum();
            if largest.is_some_and(|largest| all > largest.into()) {
                let why = "one of a key whose rows come to more than the largest of shared.sums allows; agree on a larger number, or lower the values";
                return Err(wrong(self.first_row, (VALUES, column), why));
            }
        }
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_unstable_by_key(|&at| self.groups[at]);
        for at in order {
            entries.groups.push(self.groups[at]);
            entries.numbers.extend(self.numbers[at * width..][..width].iter().map(|number| *number as u64));
        }
        self.groups.clear();
        self.numbers.clear();
        Ok(())
    }
}

/// The numbers from 0 to `most` in a random order.
fn shuffled(most: u32, rng: &mut SessionRng) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..most).collect();
    for last in (1..numbers.len()).rev() {
        // Of 2^64 values a few more give some places than others: a difference of less than 2^-54.
        let place = u64::from_le_bytes(rng.bytes()) % (last as u64 + 1);
        numbers.swap(last, place as usize);
    }
    numbers
}

/// What a group is called, in the bytes that travel: of each column the length and the text, then zeros; none if that is too long.
fn encode<'a>(texts: impl Iterator<Item = &'a str>) -> Option<Label> {
    let (mut label, mut end) = ([0; LABEL], 0);
    for text in texts {
        let length = u16::try_from(text.len()).ok()?.to_le_bytes();
        for bytes in [&length[..], text.as_bytes()] {
            label.get_mut(end..end + bytes.len())?.copy_from_slice(bytes);
            end += bytes.len();
        }
    }
    Some(label)
}

/// What agreed groups are called, in the bytes that stand for it.
///
/// # Errors
/// A bug if one is too long, which a plan has none of.
pub fn encoded(labels: &[GroupLabel]) -> Result<Vec<Label>, JobError> {
    let one = |GroupLabel(texts): &GroupLabel| encode(texts.iter().map(String::as_str));
    let all: Option<Vec<Label>> = labels.iter().map(one).collect();
    all.ok_or_else(|| Error::Bug("a label that was agreed on is too long".into()).into())
}

/// What a group is called, in so many columns; none for bytes that no group of so many columns has.
pub fn decode(label: &Label, columns: usize) -> Option<Vec<String>> {
    let (mut texts, mut rest) = (Vec::with_capacity(columns), &label[..]);
    for _ in 0..columns {
        let (length, after) = rest.split_first_chunk()?;
        let (text, after) = after.split_at_checked(u16::from_le_bytes(*length).into())?;
        texts.push(std::str::from_utf8(text).ok()?.to_owned());
        rest = after;
    }
    rest.iter().all(|byte| *byte == 0).then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    #[test]
    fn labels_are_what_they_were() {
        let columns = |texts: &[&str]| encode(texts.iter().copied());
        let long = "x".repeat(250);
        for texts in [&["north", "30-39"][..], &["", ""], &["Zürich"], &[&long, ""], &["a,b\n\"c\"", "", "d"]] {
            let label = columns(texts).unwrap();
            assert_eq!(decode(&label, texts.len()).unwrap(), texts);
            assert!(texts.len() == 1 || decode(&label, texts.len() - 1).is_none() || texts.last() == Some(&""));
        }
        assert!(columns(&[&long, "abc"]).is_none() && columns(&[&"y".repeat(70_000)]).is_none());
        // Not UTF-8, longer than the label, and something behind the end.
        let mut label = columns(&["abc"]).unwrap();
        label[3] = 0xff;
        assert!(decode(&label, 1).is_none());
        label = columns(&["abc"]).unwrap();
        label[1] = 1;
        assert!(decode(&label, 1).is_none());
        label = columns(&["abc"]).unwrap();
        label[200] = 1;
        assert!(decode(&label, 1).is_none());
    }

    #[test]
    fn numbers_are_all_given_once_and_in_any_order() {
        let mut first = std::collections::BTreeSet::new();
        for seed in 0..60 {
            let mut numbers = shuffled(10, &mut SessionRng::from_seed(Zeroizing::new([seed; 32])));
            first.insert(numbers[0]);
            numbers.sort_unstable();
            assert_eq!(numbers, (0..10).collect::<Vec<u32>>());
        }
        assert!(first.len() > 8, "{first:?}");
        assert_eq!(shuffled(1, &mut SessionRng::from_seed(Zeroizing::new([1; 32]))), [0]);
    }
}
