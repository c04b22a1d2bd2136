//! Arrow columns as text.

use crate::Error;
use arrow_array::cast::AsArray;
use arrow_array::iterator::ArrayIter;
use arrow_array::temporal_conversions::*;
use arrow_array::types::*;
use arrow_array::{Array, ArrayAccessor, ArrayRef, RecordBatch, StringArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use arrow_select::take::take;
use std::fmt::{Arguments, Display, Write};
use std::path::Path;
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
pub(crate) fn check_keys<'a>(path: &Path, fields: impl Iterator<Item = &'a Field>) -> Result<(), Error> {
    for field in fields {
        if let Some(remedy) = objection(field.data_type()) {
            return Err(Error::KeyType {
                path: path.to_owned(),
                column: field.name().clone(),
                kind: field.data_type().to_string(),
                remedy,
            });
        }
    }
    Ok(())
}

/// How the keys of a table are spelled, a sentence for each of these columns that another table may well hold in another type, and so in another
/// spelling.
pub fn spellings(schema: &Schema, keys: &[String]) -> Vec<String> {
    let said = |name: &String| {
        let kind = schema.field_with_name(name).ok()?.data_type();
        let spelled = example(kind)?;
        Some(format!(
            "the key column {name:?} is of the type {kind}. Keys are compared as text, and {spelled}: the other side's must be spelled so too"
        ))
    };
    keys.iter().filter_map(said).collect()
}

/// How a value of a type is spelled that people may spell otherwise.
fn example(kind: &DataType) -> Option<String> {
    use DataType::*;
    match kind {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) if *scale > 0 => {
            Some(format!("its 17 is \"17.{}\"", "0".repeat(*scale as usize)))
        }
        Date64 => Some("a day is as \"2026-05-01T00:00:00\"".to_owned()),
        Timestamp(_, None) => Some("a time is as \"2026-05-01T09:30:00\", without a zone".to_owned()),
        Timestamp(_, Some(_)) => Some("a time is in UTC, as \"2026-05-01T07:30:00Z\"".to_owned()),
        Boolean => Some("its values are \"true\" and \"false\"".to_owned()),
        _ => None,
    }
}

/// Refuses columns that cannot be values.
pub(crate) fn check_values<'a>(path: &Path, mut fields: impl Iterator<Item = &'a Field>) -> Result<(), Error> {
    match fields.find(|field| !writable(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(Error::ValueType {
            path: path.to_owned(),
            column: field.name().clone(),
            kind: field.data_type().to_string(),
        }),
    }
}

/// The schema of keys and values called so.
pub(crate) fn schema(keys: &[String], values: &[String]) -> SchemaRef {
    let field = |may_be_null| move |name: &String| Field::new(name, DataType::Utf8, may_be_null);
    let fields = keys.iter().map(field(false)).chain(values.iter().map(field(true)));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The given columns as text. Where the schema has no nulls a null is the empty text.
pub(crate) fn texts(schema: &SchemaRef, columns: &[ArrayRef]) -> Result<RecordBatch, ArrowError> {
    let column = |(field, column): (&Arc<Field>, _)| -> Result<ArrayRef, ArrowError> {
        let text = text(column)?;
        Ok(Arc::new(if field.is_nullable() { text } else { filled(text) }))
    };
    let texts = schema.fields().iter().zip(columns).map(column).collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(schema.clone(), texts)
}

/// A column as text, its nulls kept.
///
/// The spellings are those of the crate `arrow-cast`, which the tests hold them against. They stand here because a key's
/// spelling is part of what parties agree on, and because that crate takes longer to compile than all of this one.
pub(crate) fn text(array: &ArrayRef) -> Result<StringArray, ArrowError> {
    macro_rules! integer {
        ($kind:ty) => {
            spelled(array.as_primitive::<$kind>(), |out, value| push(out, itoa::Buffer::new().format(value)))
        };
    }
    macro_rules! float {
        ($kind:ty) => {
            spelled(array.as_primitive::<$kind>(), |out, value| push(out, ryu::Buffer::new().format(value)))
        };
    }
    macro_rules! decimal {
        ($kind:ty) => {{
            let array = array.as_primitive::<$kind>();
            let (precision, scale) = (array.precision(), array.scale());
            spelled(array, |out, value| push(out, &<$kind>::format_decimal(value, precision, scale)))
        }};
    }
    // What chrono writes for debugging is ISO 8601.
    macro_rules! temporal {
        ($kind:ty, $convert:expr) => {
            spelled(array.as_primitive::<$kind>(), |out, value| match $convert(value) {
                Some(time) => print(out, format_args!("{time:?}")),
                None => Err(out_of_range(value, "temporal", array.data_type())),
            })
        };
    }
    macro_rules! timestamp {
        ($kind:ty, $zone:expr) => {{
            // Written in UTC: the same instant is the same text whatever zone the column names, and needs no zone tables.
            let (utc, kind) = match $zone {
                Some(_) => ("Z", DataType::Timestamp(<$kind>::UNIT, Some("+00:00".into()))),
                None => ("", array.data_type().clone()),
            };
            spelled(array.as_primitive::<$kind>(), |out, value| match as_datetime::<$kind>(value) {
                Some(time) => print(out, format_args!("{time:?}{utc}")),
                None => Err(out_of_range(value, "datetime", &kind)),
            })
        }};
    }
    macro_rules! duration {
        ($kind:ty, $convert:expr) => {
            spelled(array.as_primitive::<$kind>(), |out, value| match $convert(value) {
                Some(duration) => print(out, format_args!("{duration}")),
                None => push(out, "<invalid>"),
            })
        };
    }
    use DataType::*;
    use TimeUnit::*;
    match array.data_type() {
        Utf8 => Ok(array.as_string().clone()),
        LargeUtf8 => spelled(array.as_string::<i64>(), push),
        Utf8View => spelled(array.as_string_view(), push),
        Dictionary(_, _) => {
            let array = array.as_any_dictionary();
            let texts = take(&text(array.values())?, array.keys(), None)?;
            Ok(texts.as_string().clone())
        }
        Null => Ok(StringArray::new_null(array.len())),
        Boolean => spelled(array.as_boolean(), |out, value| push(out, if value { "true" } else { "false" })),
        Int8 => integer!(Int8Type),
        Int16 => integer!(Int16Type),
        Int32 => integer!(Int32Type),
        Int64 => integer!(Int64Type),
        UInt8 => integer!(UInt8Type),
        UInt16 => integer!(UInt16Type),
        UInt32 => integer!(UInt32Type),
        UInt64 => integer!(UInt64Type),
        Float16 => spelled(array.as_primitive::<Float16Type>(), |out, value| print(out, format_args!("{value}"))),
        Float32 => float!(Float32Type),
        Float64 => float!(Float64Type),
        Decimal32(_, _) => decimal!(Decimal32Type),
        Decimal64(_, _) => decimal!(Decimal64Type),
        Decimal128(_, _) => decimal!(Decimal128Type),
        Decimal256(_, _) => decimal!(Decimal256Type),
        Date32 => temporal!(Date32Type, |days| date32_to_datetime(days).map(|time| time.date())),
        Date64 => temporal!(Date64Type, date64_to_datetime),
        Time32(Second) => temporal!(Time32SecondType, time32s_to_time),
        Time32(Millisecond) => temporal!(Time32MillisecondType, time32ms_to_time),
        Time64(Microsecond) => temporal!(Time64MicrosecondType, time64us_to_time),
        Time64(Nanosecond) => temporal!(Time64NanosecondType, time64ns_to_time),
        Timestamp(Second, zone) => timestamp!(TimestampSecondType, zone),
        Timestamp(Millisecond, zone) => timestamp!(TimestampMillisecondType, zone),
        Timestamp(Microsecond, zone) => timestamp!(TimestampMicrosecondType, zone),
        Timestamp(Nanosecond, zone) => timestamp!(TimestampNanosecondType, zone),
        Duration(Second) => duration!(DurationSecondType, try_duration_s_to_duration),
        Duration(Millisecond) => duration!(DurationMillisecondType, try_duration_ms_to_duration),
        Duration(Microsecond) => duration!(DurationMicrosecondType, |v| Some(duration_us_to_duration(v))),
        Duration(Nanosecond) => duration!(DurationNanosecondType, |v| Some(duration_ns_to_duration(v))),
        Interval(IntervalUnit::YearMonth) => spelled(array.as_primitive::<IntervalYearMonthType>(), |out, months| {
            print(out, format_args!("{} years {} mons", months.div_euclid(12), months.rem_euclid(12)))
        }),
        Interval(IntervalUnit::DayTime) => spelled(array.as_primitive::<IntervalDayTimeType>(), |out, value| {
            interval(out, 0, value.days, i64::from(value.milliseconds), 3)
        }),
        Interval(IntervalUnit::MonthDayNano) => {
            spelled(array.as_primitive::<IntervalMonthDayNanoType>(), |out, value| {
                interval(out, value.months, value.days, value.nanoseconds, 9)
            })
        }
        other => Err(ArrowError::CastError(format!("{other} has no text"))),
    }
}

/// The text of each value as `write` appends it; nulls stay nulls.
fn spelled<A: ArrayAccessor>(
    array: A,
    mut write: impl FnMut(&mut String, A::Item) -> Result<(), ArrowError>,
) -> Result<StringArray, ArrowError> {
    let nulls = array.nulls().cloned();
    let mut texts = String::new();
    let mut ends = Vec::with_capacity(array.len() + 1);
    ends.push(0);
    for value in ArrayIter::new(array) {
        value.map_or(Ok(()), |value| write(&mut texts, value))?;
        ends.push(i32::try_from(texts.len()).map_err(|_| ArrowError::OffsetOverflowError(texts.len()))?);
    }
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    StringArray::try_new(ends, texts.into_bytes().into(), nulls)
}

fn push(out: &mut String, text: &str) -> Result<(), ArrowError> {
    out.push_str(text);
    Ok(())
}

fn print(out: &mut String, text: Arguments<'_>) -> Result<(), ArrowError> {
    out.write_fmt(text).map_err(|_| ArrowError::CastError("Format error".into()))
}

fn out_of_range(value: impl Display, what: &str, kind: &DataType) -> ArrowError {
    ArrowError::CastError(format!("Failed to convert {value} to {what} for {kind}"))
}

/// Appends the parts of an interval that are not zero; `clock` is in seconds with `digits` digits behind the point.
fn interval(out: &mut String, months: i32, days: i32, clock: i64, digits: usize) -> Result<(), ArrowError> {
    let unit = 10_i64.pow(digits as u32);
    let (hours, minutes, seconds) = (clock / unit / 3600, clock / unit / 60 % 60, clock / unit % 60);
    let from = out.len();
    for (count, name) in [(i64::from(months), "mons"), (days.into(), "days"), (hours, "hours"), (minutes, "mins")] {
        if count != 0 {
            print(out, format_args!("{count} {name} "))?;
        }
    }
    let (rest, sign) = (clock % (60 * unit), if clock < 0 { "-" } else { "" });
    if rest != 0 {
        print(out, format_args!("{sign}{}.{:0digits$} secs", seconds.abs(), (rest % unit).abs()))?;
    } else if out.len() > from {
        out.pop();
    } else {
        out.push_str("0 secs");
    }
    Ok(())
}

/// Nulls become the empty text.
fn filled(text: StringArray) -> StringArray {
    if text.null_count() == 0 {
        // It is as it was read: that it is UTF-8 need not be found out once more.
        return text;
    }
    let (offsets, values, nulls) = text.into_parts();
    let nulls = nulls.unwrap_or_else(|| NullBuffer::new_valid(offsets.len() - 1));
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
    use arrow_array::*;
    use arrow_buffer::i256;
    use arrow_cast::{CastOptions, cast_with_options};

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

    /// The text that the user is shown is that which keys have.
    #[test]
    fn a_column_that_others_may_spell_otherwise_is_named() {
        let decimal = Decimal128Array::from(vec![1_700]).with_precision_and_scale(10, 2).unwrap();
        let columns: [(&str, ArrayRef, Option<&str>); 8] = [
            ("decimal", Arc::new(decimal), Some("17.00")),
            ("date64", Arc::new(Date64Array::from(vec![1_777_593_600_000])), Some("2026-05-01T00:00:00")),
            ("time", Arc::new(TimestampSecondArray::from(vec![1_777_627_800])), Some("2026-05-01T09:30:00")),
            (
                "zone",
                Arc::new(TimestampMillisecondArray::from(vec![1_777_620_600_000]).with_timezone("+02:00")),
                Some("2026-05-01T07:30:00Z"),
            ),
            ("boolean", Arc::new(BooleanArray::from(vec![true])), Some("true")),
            ("date", Arc::new(Date32Array::from(vec![20_574])), None),
            ("integer", Arc::new(Int64Array::from(vec![17])), None),
            ("text", Arc::new(StringArray::from(vec!["17"])), None),
        ];
        for (name, column, shown) in columns {
            let is = text(&column).unwrap().value(0).to_owned();
            let batch = RecordBatch::try_from_iter([(name, column)]).unwrap();
            let said = spellings(&batch.schema(), &[name.to_owned(), "none".to_owned()]);
            assert_eq!(said.len(), usize::from(shown.is_some()), "{said:?}");
            if let Some(shown) = shown {
                assert!(
                    is == shown && said[0].contains(&format!("\"{shown}\"")) && said[0].contains(name),
                    "{is}: {said:?}"
                );
            }
        }
    }

    /// What the crate `arrow-cast` writes; a time that belongs to a zone in UTC.
    fn oracle(array: &ArrayRef) -> Result<StringArray, ArrowError> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let array = match array.data_type() {
            DataType::Timestamp(unit, Some(_)) => {
                &cast_with_options(array, &DataType::Timestamp(*unit, Some("+00:00".into())), &options)?
            }
            _ => array,
        };
        Ok(cast_with_options(array, &DataType::Utf8, &options)?.as_string().clone())
    }

    /// Numbers of every magnitude and both signs, and those at which something begins or ends.
    fn numbers() -> impl Iterator<Item = i64> {
        let mut state = 1_u64;
        let random = (0..6000).map(move |i| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state ^ (state >> 29)) as i64 >> (i % 64)
        });
        let powers = (0..19).map(|i| 10_i64.pow(i)).chain((0..63).map(|i| 1 << i));
        let clocks = [60_i64, 3600, 86_400, 253_402_300_800, -62_167_219_200].into_iter();
        let scaled = clocks.flat_map(|s| [1, 1000, 1_000_000, 1_000_000_000].map(|unit| s.saturating_mul(unit)));
        let near = powers.chain(scaled).flat_map(|at| [at.wrapping_sub(1), at, at.wrapping_add(1), at.wrapping_neg()]);
        near.chain([i64::MIN, i64::MAX, i32::MIN.into(), i32::MAX.into(), 0]).chain(random)
    }

    #[test]
    fn every_value_is_spelled_as_arrow_cast_spells_it() {
        fn same<K: ArrowPrimitiveType>(kind: DataType, value: impl Fn(i64) -> K::Native) {
            for number in numbers() {
                let array = PrimitiveArray::<K>::from_iter([Some(value(number)), None]).with_data_type(kind.clone());
                let array = Arc::new(array) as ArrayRef;
                let texts = [text(&array), oracle(&array)].map(|text| text.map_err(|e| e.to_string()));
                assert_eq!(texts[0], texts[1], "{number} as {kind}");
            }
        }
        macro_rules! same {
            ($($kind:ty, $value:expr;)*) => { $(same::<$kind>(<$kind>::DATA_TYPE, $value);)* };
        }
        same! {
            Int8Type, |n| n as i8; Int16Type, |n| n as i16; Int32Type, |n| n as i32; Int64Type, |n| n;
            UInt8Type, |n| n as u8; UInt16Type, |n| n as u16; UInt32Type, |n| n as u32; UInt64Type, |n| n as u64;
            Float16Type, |n| <Float16Type as ArrowPrimitiveType>::Native::from_bits(n as u16);
            Float32Type, |n| n as f32; Float32Type, |n| f32::from_bits(n as u32);
            Float64Type, |n| n as f64; Float64Type, |n| f64::from_bits(n as u64);
            Date32Type, |n| n as i32; Date64Type, |n| n;
            Time32SecondType, |n| n as i32; Time32MillisecondType, |n| n as i32;
            Time64MicrosecondType, |n| n; Time64NanosecondType, |n| n;
            DurationSecondType, |n| n; DurationMillisecondType, |n| n;
            DurationMicrosecondType, |n| n; DurationNanosecondType, |n| n;
            IntervalYearMonthType, |n| n as i32;
            IntervalDayTimeType, |n| IntervalDayTimeType::make_value((n >> 40) as i32, n as i32);
            IntervalMonthDayNanoType, |n| IntervalMonthDayNanoType::make_value((n >> 60) as i32, (n >> 50) as i32, n);
        }
        for zone in [None, Some("+00:00"), Some("-05:30")] {
            let kind = |unit| DataType::Timestamp(unit, zone.map(Into::into));
            same::<TimestampSecondType>(kind(TimeUnit::Second), |n| n);
            same::<TimestampMillisecondType>(kind(TimeUnit::Millisecond), |n| n);
            same::<TimestampMicrosecondType>(kind(TimeUnit::Microsecond), |n| n);
            same::<TimestampNanosecondType>(kind(TimeUnit::Nanosecond), |n| n);
        }
        for scale in [-3, 0, 2, 9] {
            same::<Decimal32Type>(DataType::Decimal32(9, scale), |n| n as i32);
            same::<Decimal64Type>(DataType::Decimal64(18, scale), |n| n);
            same::<Decimal128Type>(DataType::Decimal128(38, scale), |n| i128::from(n) << 50);
            same::<Decimal256Type>(DataType::Decimal256(76, scale), |n| i256::from_parts(n as u128, i128::from(n)));
        }
    }

    #[test]
    fn columns_without_numbers_are_spelled_as_arrow_cast_spells_them() {
        let words = [Some("a"), None, Some(""), Some("a longer text than fits in a view"), Some("a")];
        let arrays: [ArrayRef; 6] = [
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
            Arc::new(NullArray::new(3)),
            Arc::new(LargeStringArray::from_iter(words)),
            Arc::new(StringViewArray::from_iter(words)),
            Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>()),
            Arc::new(LargeStringArray::from_iter(words).slice(1, 3)),
        ];
        for array in arrays {
            assert_eq!(text(&array).unwrap(), oracle(&array).unwrap(), "{}", array.data_type());
        }
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
        let batch =
            super::texts(&schema(&["k".to_owned()], &["v".to_owned()]), &[Arc::new(hidden.clone()), Arc::new(hidden)])
                .unwrap();
        let column = batch.column(0).as_any().downcast_ref::<StringArray>().unwrap();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some("a"), Some(""), Some("b")]);
        // A value's null stays one.
        let column = batch.column(1).as_any().downcast_ref::<StringArray>().unwrap();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some("a"), None, Some("b")]);
    }
}
