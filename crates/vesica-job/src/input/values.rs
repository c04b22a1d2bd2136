//! A number for each key of this party's, held in memory: the value that a sum adds up.

use crate::error::JobError;
use crate::input::groups::ByGroup;
use crate::input::keys::Keys;
use crate::tell::control::{Control, Event};
use crate::tell::numbers::size;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use vesica_session::{Label, SessionRng, Values};
use vesica_spec::{Plan, Share};
use vesica_table::Table;

/// What this party's keys bring to a total.
pub enum Brought {
    /// A number each.
    ByKey(ByKey),
    /// Numbers in each of some groups.
    ByGroup(ByGroup),
}

impl Brought {
    /// What the keys of `table` bring, if the job has values or groups of this party's. `by_key` gives the rows that take part.
    ///
    /// # Errors
    /// Those of [`ByKey::values`] and [`ByGroup::read`].
    pub fn read(
        plan: &Plan,
        table: &dyn Table,
        keys: &Keys,
        by_key: impl FnOnce(Rows<'_>) -> Result<(), JobError>,
        rng: &mut SessionRng,
        ctl: &Control,
    ) -> Result<Option<Self>, JobError> {
        Ok(match (&plan.value, &plan.grouped) {
            (Some(column), _) => {
                let values = ByKey::values(column, plan.largest(), table, keys, by_key, plan.memory, ctl)?;
                Some(Self::ByKey(values))
            }
            (None, Some(grouped)) => {
                Some(Self::ByGroup(ByGroup::read(grouped, table, keys, by_key, plan.memory, rng, ctl)?))
            }
            (None, None) => None,
        })
    }

    /// Bytes of memory of a row of this party's table.
    pub fn of_a_row(plan: &Plan) -> u64 {
        match (&plan.value, &plan.grouped) {
            (Some(_), _) => ByKey::OF_A_ROW,
            (None, Some(grouped)) => ByGroup::of_a_row(grouped),
            (None, None) => 0,
        }
    }

    /// What the keys of a unit bring whose first rows these are; nothing if one of the rows is not a key's first.
    ///
    /// # Errors
    /// None but a bug.
    pub fn of(&self, rows: &[u64]) -> Result<Option<Values>, JobError> {
        match self {
            Self::ByKey(values) => {
                Ok(rows.iter().map(|row| values.of(*row)).collect::<Option<Vec<_>>>().map(Into::into))
            }
            Self::ByGroup(groups) => groups.of(rows),
        }
    }

    /// What the groups are called, if there are any.
    pub fn labels(&self) -> &[Label] {
        match self {
            Self::ByKey(_) => &[],
            Self::ByGroup(groups) => groups.labels(),
        }
    }
}

/// What names the column of values, in a job.
const FIELD: &str = "mine.input.value";

/// A number for each key, by the number of the key's first row.
pub struct ByKey(Vec<i64>);

/// Gives rows key by key, and whether each is its key's first.
pub type Rows<'a> = &'a mut dyn FnMut(bool, u64) -> Result<(), JobError>;

impl ByKey {
    /// Bytes of memory of a row.
    const OF_A_ROW: u64 = 8;

    /// The value of each key of `table`, whose keys are `keys`: what the rows that have it and take part add up to in `column`, modulo 2^64.
    /// `by_key` gives these rows.
    ///
    /// # Errors
    /// [`JobError::Value`] with the row, for what is no number, and for a key whose value is beyond ±`largest` if there is such a bound; [`JobError::Overflow`] if some of the values may add up to what is no number of 64 bits with a sign;
    /// [`JobError::Setup`] if they do not fit into their share of `memory`; [`vesica_table::Error::Changed`] if the table has other rows than
    /// it had; those of reading and of `by_key`; being cancelled.
    pub fn values(
        column: &str,
        largest: Option<u64>,
        table: &dyn Table,
        keys: &Keys,
        by_key: impl FnOnce(Rows<'_>) -> Result<(), JobError>,
        memory: u64,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let path = || table.path().to_owned();
        let need = keys.rows.saturating_mul(Self::OF_A_ROW);
        if need > Share::Joining.of(memory) as u64 {
            let (rows, need) = (keys.rows, size(need.saturating_mul(4)));
            let why = format!("the values of {rows} rows do not fit into mine.memory: give {need} or more");
            return Err(JobError::Setup(why));
        }
        let mut values: Vec<i64> = Vec::with_capacity(keys.rows as usize);
        for batch in table.keys(&[column.to_owned()], 1)? {
            ctl.check()?;
            let batch = batch?;
            let texts = batch.column(0).as_string::<i32>();
            for place in 0..texts.len() {
                let row = values.len() as u64 + 1;
                let wrong = |why| JobError::Value { path: path(), row, column: column.to_owned(), field: FIELD, why };
                let text = if texts.is_null(place) { "" } else { texts.value(place) };
                values.push(number(text).map_err(wrong)?);
            }
            ctl.event(Event::Done(values.len() as u64));
        }
        if values.len() as u64 != keys.rows {
            let what = format!("it had {} rows, and has {}", keys.rows, values.len());
            return Err(vesica_table::Error::Changed { path: path(), what }.into());
        }
        // What the rows of a key come to stands in the place of its first row's value.
        let (mut total, mut key) = (0u128, None);
        let within = |value: i64, row: usize| match largest {
            Some(largest) if value.unsigned_abs() > largest => Err(JobError::Value {
                path: path(),
                row: row as u64 + 1,
                column: column.to_owned(),
                field: FIELD,
                why: "one of a key whose rows come to more than shared.dp.largest allows; agree on a larger number, or lower the values",
            }),
            _ => Ok(()),
        };
        by_key(&mut |first, row| {
            let row = row as usize;
            let value = values.get(row).copied().unwrap_or(0);
            total += u128::from(value.unsigned_abs());
            if first {
                key.map_or(Ok(()), |key: usize| within(values.get(key).copied().unwrap_or(0), key))?;
                key = Some(row);
            } else if let Some(sum) = key.and_then(|key| values.get_mut(key)) {
                *sum = sum.wrapping_add(value);
            }
            Ok(())
        })?;
        key.map_or(Ok(()), |key| within(values.get(key).copied().unwrap_or(0), key))?;
        // Then every sum of some of them is one, whatever is common; and with noise too, which is less than 2^62 where there is any.
        let bits = if largest.is_some() { 62 } else { 63 };
        if total >> bits != 0 {
            return Err(JobError::Overflow {
                path: path(),
                column: column.to_owned(),
                field: FIELD,
                bits,
                times: None,
            });
        }
        Ok(Self(values))
    }

    /// The number of the key whose first row this is, if there is such a row.
    pub fn of(&self, row: u64) -> Option<u64> {
        self.0.get(row as usize).map(|value| *value as u64)
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
