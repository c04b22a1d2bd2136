//! Arrow columns as text.

use crate::{Error, Source};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// Why a column of type `kind` cannot be a key, if it cannot.
///
/// A key must have one spelling that the other side's table has too. Floats have many; bytes and nested values have
/// none.
fn objection(kind: &DataType) -> Option<&'static str> {
    use DataType::*;
    match kind {
        Utf8 | LargeUtf8 | Utf8View | Boolean => None,
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => None,
        Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(_, _) => None,
        Decimal32(_, _) | Decimal64(_, _) | Decimal128(_, _) | Decimal256(_, _) => None,
        Dictionary(_, value) => match **value {
            Utf8 | LargeUtf8 | Utf8View => None,
            _ => objection(value).or(Some("store it without a dictionary")),
        },
        Float16 | Float32 | Float64 => Some("a float has no one spelling; store it as text, an integer or a decimal"),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Some("store it as text, for example in hexadecimal"),
        List(_)
        | LargeList(_)
        | ListView(_)
        | LargeListView(_)
        | FixedSizeList(_, _)
        | Struct(_)
        | Map(_, _)
        | Union(_, _) => {
            Some("a nested value has no one spelling; store the part that identifies in a column of its own")
        }
        Duration(_) | Interval(_) => Some("store it as an integer"),
        RunEndEncoded(_, _) => Some("store it without run-end encoding"),
        Null => Some("it holds nothing but nulls"),
    }
}

/// Refuses columns that cannot be keys.
pub(crate) fn check_keys<'a>(source: &Source, fields: impl Iterator<Item = &'a Field>) -> Result<(), Error> {
    for field in fields {
        if let Some(remedy) = objection(field.data_type()) {
            return Err(Error::KeyType {
                path: source.path().to_owned(),
                column: field.name().clone(),
                kind: field.data_type().to_string(),
                remedy,
            });
        }
    }
    Ok(())
}

/// The schema of keys called `names`.
pub(crate) fn schema(names: impl Iterator<Item = String>) -> SchemaRef {
    Arc::new(Schema::new(names.map(|name| Field::new(name, DataType::Utf8, false)).collect::<Vec<_>>()))
}

/// The given columns, as keys: text, null as the empty text.
pub(crate) fn keys(schema: &SchemaRef, columns: &[ArrayRef]) -> Result<RecordBatch, ArrowError> {
    let column = |c| -> Result<ArrayRef, ArrowError> { Ok(Arc::new(filled(text(c)?))) };
    let texts = columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(schema.clone(), texts)
}

/// A column as text, its nulls kept.
pub(crate) fn text(array: &ArrayRef) -> Result<StringArray, ArrowError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = |array: &ArrayRef, to: &DataType| cast_with_options(array, to, &options);
    let array = match array.data_type() {
        // Written in UTC: the same instant is the same text whatever zone the column names, and needs no zone tables.
        DataType::Timestamp(unit, Some(_)) => &cast(array, &DataType::Timestamp(*unit, Some("+00:00".into())))?,
        _ => array,
    };
    let text = cast(array, &DataType::Utf8)?;
    text.as_any().downcast_ref::<StringArray>().cloned().ok_or_else(|| ArrowError::CastError("not text".into()))
}

/// Nulls become the empty text.
fn filled(text: StringArray) -> StringArray {
    let (offsets, values, nulls) = text.into_parts();
    let Some(nulls) = nulls.filter(|n| n.null_count() > 0) else {
        return StringArray::new(offsets, values, None);
    };
    // What stands under a null is unspecified, so it has to be left out.
    let mut bytes = Vec::with_capacity(values.len());
    let mut ends = Vec::with_capacity(offsets.len());
    ends.push(0);
    for (i, bounds) in offsets.windows(2).enumerate() {
        if nulls.is_valid(i) {
            bytes.extend_from_slice(&values[bounds[0] as usize..bounds[1] as usize]);
        }
        ends.push(bytes.len() as i32);
    }
    StringArray::new(OffsetBuffer::new(ScalarBuffer::from(ends)), bytes.into(), None)
}

/// Whether [`text`] can write every value of type `kind`.
pub(crate) fn writable(kind: &DataType) -> bool {
    match kind {
        DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null => true,
        DataType::Duration(_) | DataType::Interval(_) => true,
        kind => objection(kind).is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::*;

    fn texts(array: impl Array + 'static) -> Vec<Option<String>> {
        text(&(Arc::new(array) as ArrayRef)).unwrap().iter().map(|t| t.map(str::to_owned)).collect()
    }

    #[test]
    fn each_type_has_its_spelling() {
        let spelling = |array: &dyn Fn() -> ArrayRef, expected: &str| {
            assert_eq!(text(&array()).unwrap().value(0), expected);
        };
        spelling(&|| Arc::new(Int64Array::from(vec![-9_007_199_254_740_993])), "-9007199254740993");
        spelling(&|| Arc::new(UInt64Array::from(vec![u64::MAX])), "18446744073709551615");
        spelling(&|| Arc::new(BooleanArray::from(vec![true])), "true");
        spelling(&|| Arc::new(LargeStringArray::from(vec!["007"])), "007");
        spelling(
            &|| Arc::new(StringViewArray::from(vec!["a longer text than fits in a view"])),
            "a longer text than fits in a view",
        );
        spelling(&|| Arc::new(["x"].into_iter().collect::<DictionaryArray<Int32Type>>()), "x");
        spelling(&|| Arc::new(Date32Array::from(vec![20_574])), "2026-05-01");
        spelling(&|| Arc::new(Time32SecondArray::from(vec![34_200])), "09:30:00");
        spelling(&|| Arc::new(TimestampSecondArray::from(vec![1_777_627_800])), "2026-05-01T09:30:00");
        let decimal = || Decimal128Array::from(vec![-1_050]).with_precision_and_scale(9, 2).unwrap();
        spelling(&|| Arc::new(decimal()), "-10.50");
    }

    #[test]
    fn one_instant_is_one_text_in_every_zone() {
        for zone in ["UTC", "+02:00", "Europe/Berlin"] {
            let array = TimestampMillisecondArray::from(vec![1_777_627_800_500]).with_timezone(zone);
            assert_eq!(texts(array), [Some("2026-05-01T09:30:00.500Z".to_owned())], "{zone}");
        }
    }

    #[test]
    fn a_null_key_is_empty_whatever_stands_under_it() {
        let (offsets, values, _) = StringArray::from(vec!["a", "secret", "b"]).into_parts();
        let hidden = StringArray::new(offsets, values, Some(vec![true, false, true].into()));
        let batch = keys(&schema(["k".to_owned()].into_iter()), &[Arc::new(hidden)]).unwrap();
        let column = batch.column(0).as_any().downcast_ref::<StringArray>().unwrap();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some("a"), Some(""), Some("b")]);
    }
}
