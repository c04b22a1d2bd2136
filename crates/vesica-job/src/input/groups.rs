//! What each key of this party's brings to the groups that its rows are in, held in memory.

use crate::error::JobError;
use crate::input::keys::{KeyId, Keys, PARTS};
use crate::input::values::number;
use crate::tell::control::{Control, Event};
use crate::tell::numbers::size;
use arrow_array::cast::AsArray;
use arrow_array::{Array, StringArray};
use std::collections::HashMap;
use vesica_session::{LABEL, Label, SessionRng, Values};
use vesica_spec::{GroupedPlan, Share};
use vesica_table::Table;

/// The most groups of a table's rows, those without a key included.
const IN_TABLE: usize = 1 << 16;

/// What keys bring to groups.
pub struct ByGroup {
    parts: Vec<Part>,
    /// What the groups are called, by their numbers, and blanks where there is none.
    labels: Vec<Label>,
    /// Sums of a group.
    width: usize,
}

/// The keys of a part.
#[derive(Default)]
struct Part {
    /// Where each key's entries begin.
    starts: Vec<u32>,
    /// The groups of one key after the other.
    groups: Vec<u32>,
    /// The numbers of one entry after the other.
    numbers: Vec<u64>,
}

impl ByGroup {
    /// What `table`, whose keys are `keys`, brings to the groups that `plan` names. The groups get their numbers at random, so that a number
    /// says nothing.
    ///
    /// # Errors
    /// [`JobError::Value`] with the row, for what is no number, a group too many, a label that is too long, and a key that is in more groups or brings
    /// more than the job allows; [`JobError::Overflow`] if some of the values may add up to what is no number of 64 bits with a sign;
    /// [`JobError::Setup`] if all that does not fit into its share of `memory`; those of reading; being cancelled.
    pub fn read(
        plan: &GroupedPlan,
        table: &dyn Table,
        keys: &Keys,
        memory: u64,
        rng: &mut SessionRng,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let width = plan.sums.len();
        let wrong = |row: u64, column: &str, why| JobError::Value {
            path: table.path().to_owned(),
            row: row + 1,
            column: column.to_owned(),
            why,
        };
        // Once by row while they are read, and once by key.
        let need = keys.rows.saturating_mul(2 * (4 + 8 * width as u64)).saturating_add(keys.distinct.saturating_mul(4));
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
                    .ok_or_else(|| wrong(row, &plan.by[0], long))?;
                let group = match known.get(&label) {
                    Some(&group) => group,
                    None if in_table.len() == IN_TABLE => {
                        let why = "one of more than 65536 groups of the table; group by columns with fewer values";
                        return Err(wrong(row, &plan.by[0], why));
                    }
                    None => {
                        in_table.push(label);
                        known.insert(label, in_table.len() as u32 - 1);
                        in_table.len() as u32 - 1
                    }
                };
                group_of.push(group);
                for (&column, (name, _)) in columns.sums.iter().zip(&plan.sums) {
                    values.push(number(text(column, place)).map_err(|why| wrong(row, name, why))?);
                }
            }
            ctl.event(Event::Done(group_of.len() as u64));
        }
        // By key, with the groups' numbers in the table.
        let mut used = Vec::new();
        let mut number_of: Vec<Option<u32>> = vec![None; in_table.len()];
        let mut totals = vec![0u128; width];
        let mut of_key = OfKey { plan, first_row: 0, groups: Vec::new(), numbers: Vec::new() };
        let mut parts = Vec::with_capacity(PARTS);
        for part in 0..PARTS {
            let mut of_part = Part::default();
            keys.each(part, |first, row| {
                if first {
                    of_key.end(&mut of_part, &wrong)?;
                    of_key.first_row = row;
                    of_part.starts.push(of_part.groups.len() as u32);
                }
                let Some(&in_table) = group_of.get(row as usize) else { return Ok(()) };
                let group = match number_of[in_table as usize] {
                    Some(group) => group,
                    None if used.len() == plan.most as usize => {
                        let why = "of one group more than shared.groups.most allows; agree on a larger number, or group by fewer values";
                        return Err(wrong(row, &plan.by[0], why));
                    }
                    None => {
                        used.push(in_table);
                        number_of[in_table as usize] = Some(used.len() as u32 - 1);
                        used.len() as u32 - 1
                    }
                };
                let values = &values[row as usize * width..][..width];
                totals.iter_mut().zip(values).for_each(|(total, value)| *total += u128::from(value.unsigned_abs()));
                of_key.add(group, values);
                Ok(())
            })?;
            of_key.end(&mut of_part, &wrong)?;
            of_part.starts.push(of_part.groups.len() as u32);
            parts.push(of_part);
        }
        // Then every sum of some of them is one, whatever is common.
        if let Some((_, (column, _))) = totals.iter().zip(&plan.sums).find(|(total, _)| **total > i64::MAX as u128) {
            return Err(JobError::Overflow { path: table.path().to_owned(), column: column.clone() });
        }
        let numbers = shuffled(plan.most, rng);
        let mut labels = vec![[0; LABEL]; plan.most as usize];
        used.iter().zip(&numbers).for_each(|(&group, &to)| labels[to as usize] = in_table[group as usize]);
        parts.iter_mut().flat_map(|part| &mut part.groups).for_each(|group| *group = numbers[*group as usize]);
        Ok(Self { parts, labels, width })
    }

    /// What the groups are called.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// What keys bring, in this order: entries of a key's place and a group, and the numbers of each.
    ///
    /// # Errors
    /// None but a bug.
    pub fn values(&self, keys: impl Iterator<Item = KeyId>) -> Result<Values, JobError> {
        let (mut entries, mut numbers) = (Vec::new(), Vec::new());
        for (place, key) in (0..).zip(keys) {
            let part = &self.parts[key.part()];
            let [from, to] = [0, 1].map(|next| part.starts[key.place() + next] as usize);
            entries.extend(part.groups[from..to].iter().map(|&group| (place, group)));
            numbers.extend_from_slice(&part.numbers[from * self.width..to * self.width]);
        }
        Ok(Values::new(self.width, entries, numbers)?)
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
        let sums = plan.sums.iter().map(|(column, _)| place(column)).collect();
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

    /// The key has no more rows: it goes to its part, if it keeps within the bounds.
    fn end(&mut self, part: &mut Part, wrong: &impl Fn(u64, &str, &'static str) -> JobError) -> Result<(), JobError> {
        if self.groups.len() > self.plan.of_a_key as usize {
            let why = "one of a key that is in more groups than shared.groups.of_a_key allows; agree on a larger number, or leave rows out";
            return Err(wrong(self.first_row, &self.plan.by[0], why));
        }
        let width = self.plan.sums.len();
        for (place, (column, largest)) in self.plan.sums.iter().enumerate() {
            let of_sum = self.numbers.iter().skip(place).step_by(width.max(1));
            let all: u128 = of_sum.map(|number| u128::from(number.unsigned_abs())).sum();
            if largest.is_some_and(|largest| all > largest.into()) {
                let why = "one of a key whose rows come to more than the largest of shared.sums allows; agree on a larger number, or lower the values";
                return Err(wrong(self.first_row, column, why));
            }
        }
        part.groups.append(&mut self.groups);
        part.numbers.extend(self.numbers.drain(..).map(|number| number as u64));
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
            assert!(
                texts.len() == 1 || decode(&label, texts.len() - 1).is_none() || texts.iter().all(|t| t.is_empty())
            );
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
