//! A number for each key of this party's, held in memory: the value that a sum adds up, or the first of its rows.

use crate::error::JobError;
use crate::input::groups::ByGroup;
use crate::input::keys::{KeyId, Keys, PARTS};
use crate::tell::control::{Control, Event};
use crate::tell::numbers::size;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use vesica_session::{Label, Values};
use vesica_spec::Share;
use vesica_table::Table;

/// What this party's keys bring to a total.
pub enum Brought {
    /// A number each.
    ByKey(ByKey),
    /// Numbers in each of some groups.
    ByGroup(ByGroup),
}

impl Brought {
    /// What these keys of a unit bring.
    ///
    /// # Errors
    /// None but a bug.
    pub fn of(&self, keys: impl Iterator<Item = KeyId>) -> Result<Values, JobError> {
        match self {
            Brought::ByKey(values) => Ok(keys.map(|key| values.of(key)).collect::<Vec<_>>().into()),
            Brought::ByGroup(groups) => groups.values(keys),
        }
    }

    /// What the groups are called, if there are any.
    pub fn labels(&self) -> &[Label] {
        match self {
            Brought::ByKey(_) => &[],
            Brought::ByGroup(groups) => groups.labels(),
        }
    }
}

/// A number for each key.
pub struct ByKey(Vec<Vec<u64>>);

impl ByKey {
    /// The value of each key of `table`, whose keys are `keys`: what the rows that have it and take part add up to in `column`, modulo 2^64.
    ///
    /// # Errors
    /// [`JobError::Value`] with the row, for what is no number, and for a key whose value is beyond ±`largest` if there is such a bound; [`JobError::Overflow`] if some of the values may add up to what is no number of 64 bits with a sign;
    /// [`JobError::Setup`] if they do not fit into their share of `memory`; those of reading; being cancelled.
    pub fn values(
        column: &str,
        largest: Option<u64>,
        table: &dyn Table,
        keys: &Keys,
        memory: u64,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let path = || table.path().to_owned();
        // Once by row while they are read, and once by key.
        let need = keys.rows.saturating_add(keys.distinct).saturating_mul(8);
        if need > Share::Joining.of(memory) as u64 {
            let (rows, need) = (keys.rows, size(need.saturating_mul(4)));
            let why = format!("the values of {rows} rows do not fit into mine.memory: give {need} or more");
            return Err(JobError::Setup(why));
        }
        let mut by_row: Vec<i64> = Vec::with_capacity(keys.rows as usize);
        for batch in table.keys(&[column.to_owned()], 1)? {
            ctl.check()?;
            let batch = batch?;
            let texts = batch.column(0).as_string::<i32>();
            for place in 0..texts.len() {
                let row = by_row.len() as u64 + 1;
                let wrong = |why| JobError::Value { path: path(), row, column: column.to_owned(), why };
                let text = if texts.is_null(place) { "" } else { texts.value(place) };
                by_row.push(number(text).map_err(wrong)?);
            }
            ctl.event(Event::Done(by_row.len() as u64));
        }
        let (mut by_key, mut total) = (Vec::with_capacity(PARTS), 0u128);
        let within = |value: Option<&u64>, row: u64| match (value, largest) {
            (Some(&value), Some(largest)) if (value as i64).unsigned_abs() > largest => Err(JobError::Value {
                path: path(),
                row: row + 1,
                column: column.to_owned(),
                why: "one of a key whose rows come to more than shared.dp.largest allows; agree on a larger number, or lower the values",
            }),
            _ => Ok(()),
        };
        for part in 0..PARTS {
            let (mut of_part, mut first_row): (Vec<u64>, u64) = (Vec::new(), 0);
            keys.each(part, |first, row| {
                let value = by_row.get(row as usize).copied().unwrap_or(0);
                total += u128::from(value.unsigned_abs());
                if first {
                    within(of_part.last(), first_row)?;
                    first_row = row;
                    of_part.push(0);
                }
                if let Some(sum) = of_part.last_mut() {
                    *sum = sum.wrapping_add(value as u64);
                }
                Ok(())
            })?;
            within(of_part.last(), first_row)?;
            by_key.push(of_part);
        }
        // Then every sum of some of them is one, whatever is common; and with noise too, which is less than 2^62 where there is any.
        let most = if largest.is_some() { i64::MAX >> 1 } else { i64::MAX };
        if total > most as u128 {
            return Err(JobError::Overflow { path: path(), column: column.to_owned() });
        }
        Ok(Self(by_key))
    }

    /// The first row of each key, from 1.
    ///
    /// # Errors
    /// [`JobError::Setup`] if these do not fit into their share of `memory`; those of reading.
    pub fn first_rows(keys: &Keys, memory: u64) -> Result<Self, JobError> {
        let need = keys.distinct.saturating_mul(8);
        if need > Share::Output.of(memory) as u64 {
            let (keys, need) = (keys.distinct, size(need.saturating_mul(4)));
            return Err(JobError::Setup(format!(
                "the rows of {keys} keys do not fit into mine.memory: give {need} or more"
            )));
        }
        let part = |part| {
            let mut rows = Vec::new();
            keys.each(part, |first, row| {
                rows.extend(first.then_some(row + 1));
                Ok(())
            })?;
            Ok(rows)
        };
        Ok(Self((0..PARTS).map(part).collect::<Result<_, JobError>>()?))
    }

    /// The number of a key.
    pub fn of(&self, key: KeyId) -> u64 {
        self.0[key.part()][key.place()]
    }
}

/// The number that a field holds; an empty one holds none and adds nothing.
///
/// # Errors
/// What it is instead, and what to do.
pub fn number(text: &str) -> Result<i64, &'static str> {
    match text {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            "no whole number from -2^63 to 2^63 - 1, such as 1250 or -3; give amounts in a unit in which they are whole, such as cents"
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_values_and_nothing_else_is() {
        for (text, value) in [("", 0), ("0", 0), ("-17", -17), ("+4", 4), ("9223372036854775807", i64::MAX)] {
            assert_eq!(number(text), Ok(value));
        }
        for text in ["1.5", "1,000", " 7", "7 ", "x", "-", "9223372036854775808", "1e3", "0x10", "\u{0661}"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
