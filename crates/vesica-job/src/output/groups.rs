//! The output of a job whose result is totals by group: a row for each group that is told.

use crate::error::JobError;
use crate::input::groups::decode;
use crate::io::Io;
use crate::units::found::GroupTotal;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;
use vesica_session::{Channel, Error, Group, Misbehaviour};
use vesica_spec::{Plan, Shared};
use vesica_table::{Facts, Memory, Selection, Sink, Staged, Table};
use vesica_types::RowId;

/// The groups that were told, in the order of what they are called, whatever their numbers.
///
/// # Errors
/// The peer's fault, if it is none of them.
pub fn named(groups: &[Group], plan: &Plan, ch: &mut dyn Channel) -> Result<Vec<GroupTotal>, JobError> {
    let of = plan.shared.groups.as_ref();
    let columns = of.map_or(0, |groups| groups.by.len());
    let of_other = of.and_then(|groups| groups.other.as_ref()).map_or(0, |other| other.by.len());
    let order = plan.shared.order_of_sums();
    let one = |Group { label, other, keys, sums, .. }: &Group| {
        let mut by = decode(label, columns)?;
        if let Some(other) = other {
            by.extend(decode(other, of_other)?);
        }
        let mut in_order = vec![0; sums.len()];
        order.iter().zip(sums).for_each(|(&place, &sum)| in_order[place] = sum);
        Some(GroupTotal { by, keys: *keys, sums: in_order })
    };
    let all: Option<Vec<GroupTotal>> = groups.iter().map(one).collect();
    let mut all = all.ok_or_else(|| ch.accuse(Misbehaviour::Malformed("label of a group")))?;
    all.sort();
    if all.windows(2).any(|two| two[0].by == two[1].by) {
        return Err(ch.accuse(Misbehaviour::Contradiction("it gave two groups one label")).into());
    }
    Ok(all)
}

/// The names of the columns: what is grouped by, the number of keys, and each sum with its mean.
pub fn columns(shared: &Shared) -> Vec<String> {
    let by = shared.groups.iter().flat_map(|groups| groups.by_of_both());
    let sums = shared.told().flat_map(|sum| [sum.name.clone(), format!("{}_mean", sum.name)]);
    by.chain(["keys".to_owned()]).chain(sums).collect()
}

/// The table of these groups.
fn table(plan: &Plan, groups: &[GroupTotal]) -> Result<Memory, JobError> {
    let by = plan.shared.groups.as_ref().map_or(0, |groups| groups.by_of_both().len());
    let mut columns: Vec<ArrayRef> = (0..by)
        .map(|column| {
            let texts = groups.iter().map(|group| group.by.get(column).map_or("", String::as_str));
            Arc::new(StringArray::from_iter_values(texts)) as ArrayRef
        })
        .collect();
    columns.push(Arc::new(UInt64Array::from_iter_values(groups.iter().map(|group| group.keys))));
    for sum in 0..plan.shared.told().count() {
        let sums = groups.iter().map(|group| group.sums.get(sum).copied().unwrap_or_default());
        columns.push(Arc::new(Int64Array::from_iter_values(sums)));
        let means = groups.iter().map(|group| group.means().nth(sum).unwrap_or_default());
        columns.push(Arc::new(Float64Array::from_iter_values(means)));
    }
    let names = self::columns(&plan.shared);
    let fields: Vec<Field> = names
        .iter()
        .zip(&columns)
        .map(|(name, column)| Field::new(name, DataType::clone(column.data_type()), false))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns)
        .map_err(|error| Error::Bug(format!("rows of groups: {error}")))?;
    Ok(Memory::new("the totals by group", schema, vec![batch])?)
}

/// A place for these groups: opened before contact, without any, to see that there is one, and again when they are known.
///
/// # Errors
/// Those of opening it.
pub fn sink(plan: &Plan, io: &Io, groups: &[GroupTotal]) -> Result<Option<Box<dyn Sink>>, JobError> {
    let Some(target) = &io.target else { return Ok(None) };
    // Rows of another kind than the input's, whose place must not be the input's.
    let (rows, input) = (table(plan, groups)?, io.table.facts());
    Ok(Some(target.sink(&Facts { path: input.path, source: input.source, ..rows.facts() })?))
}

/// Writes the groups beside their place.
///
/// # Errors
/// Those of opening it and of writing.
pub fn stage(plan: &Plan, io: &Io, groups: &[GroupTotal]) -> Result<Option<Staged>, JobError> {
    let Some(mut sink) = sink(plan, io, groups)? else { return Ok(None) };
    let rows = table(plan, groups)?;
    let mut all = (0..groups.len() as u64).map(|row| Ok(RowId(row)));
    let columns: Vec<usize> = (0..rows.columns().len()).collect();
    let selection = Selection { form: sink.form(), columns: &columns, workers: 1 };
    rows.select(&mut all, selection, &mut |batch| sink.write(&batch))?;
    Ok(Some(sink.finish()?))
}
