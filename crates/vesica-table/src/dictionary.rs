//! Dictionaries: columns of places in a list of distinct values.

use arrow_array::builder::PrimitiveBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{Array, ArrayRef, DictionaryArray, UInt64Array, downcast_integer, make_array, new_empty_array};
use arrow_buffer::ArrowNativeType;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;
use arrow_select::take::take;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// A dictionary that grows: the places that it gave stay what they are.
pub(crate) struct Dictionary {
    key: DataType,
    rows: RowConverter,
    places: HashMap<Box<[u8]>, usize>,
    values: ArrayRef,
}

impl Dictionary {
    /// An empty one for columns of type `kind`, if that is a dictionary's type.
    pub(crate) fn new(kind: &DataType) -> Result<Option<Self>, ArrowError> {
        let DataType::Dictionary(key, value) = kind else { return Ok(None) };
        let rows = RowConverter::new(vec![SortField::new(value.as_ref().clone())])?;
        let values = new_empty_array(value);
        Ok(Some(Self { key: key.as_ref().clone(), rows, places: HashMap::new(), values }))
    }

    /// `column`, which comes with a dictionary of its own, in places of this one; new values are appended.
    pub(crate) fn unify(&mut self, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let column = column.as_any_dictionary();
        let places = self.places(column.values(), |_| true)?;
        let keys = column.normalized_keys();
        self.column((0..column.len()).map(|i| if column.keys().is_valid(i) { places[keys[i]] } else { None }))
    }

    /// `column`, which holds the values themselves, in places of this one; new values are appended.
    fn encode(&mut self, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let places = self.places(column, |i| column.is_valid(i))?;
        self.column(places.into_iter())
    }

    /// Where each of the `values` that has a place stands here; those that are new are appended.
    fn places(&mut self, values: &ArrayRef, has: impl Fn(usize) -> bool) -> Result<Vec<Option<usize>>, ArrowError> {
        let rows = self.rows.convert_columns(std::slice::from_ref(values))?;
        let mut new = Vec::new();
        let mut places = Vec::with_capacity(rows.num_rows());
        for (i, row) in rows.iter().enumerate() {
            let next = self.places.len();
            places.push(has(i).then(|| match self.places.entry(row.as_ref().into()) {
                Entry::Occupied(place) => *place.get(),
                Entry::Vacant(place) => {
                    new.push(i as u64);
                    *place.insert(next)
                }
            }));
        }
        if !new.is_empty() {
            let new = take(values, &UInt64Array::from(new), None)?;
            self.values = concat(&[&self.values, &new])?;
        }
        Ok(places)
    }

    /// A column of values at `places`.
    fn column(&self, places: impl Iterator<Item = Option<usize>>) -> Result<ArrayRef, ArrowError> {
        macro_rules! keyed {
            ($key:ty) => {
                keyed::<$key>(places, self.values.clone())
            };
        }
        downcast_integer! {
            self.key.clone() => (keyed),
            other => Err(ArrowError::SchemaError(format!("a dictionary with keys of type {other}"))),
        }
    }
}

fn keyed<K: ArrowDictionaryKeyType>(
    places: impl Iterator<Item = Option<usize>>,
    values: ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    let mut keys = PrimitiveBuilder::<K>::new();
    for place in places {
        let key = |place| K::Native::from_usize(place).ok_or(ArrowError::DictionaryKeyOverflowError);
        keys.append_option(place.map(key).transpose()?);
    }
    Ok(Arc::new(DictionaryArray::<K>::try_new(keys.finish(), values)?))
}

/// `array` as one of type `kind`, of which it differs only in that values stand where `kind` has dictionaries.
pub(crate) fn restored(array: &ArrayRef, kind: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == kind {
        return Ok(array.clone());
    }
    if let Some(mut dictionary) = Dictionary::new(kind)? {
        return dictionary.encode(array);
    }
    let data = array.to_data();
    let part = |(data, kind): (_, &DataType)| Ok(restored(&make_array(data), kind)?.to_data());
    let parts = data.child_data().iter().cloned().zip(parts(kind)).map(part).collect::<Result<_, ArrowError>>()?;
    Ok(make_array(data.into_builder().data_type(kind.clone()).child_data(parts).build()?))
}

/// `array` with its values in place of a dictionary, if it has one.
pub(crate) fn flat(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) => take(dictionary.values(), dictionary.keys(), None),
        None => Ok(array.clone()),
    }
}

/// Whether there is a dictionary within `kind`, which may be one itself.
pub(crate) fn within(kind: &DataType) -> bool {
    parts(kind).into_iter().any(|part| matches!(part, DataType::Dictionary(_, _)) || within(part))
}

/// The types of the values that a value of type `kind` is made of.
fn parts(kind: &DataType) -> Vec<&DataType> {
    match kind {
        DataType::Dictionary(_, value) => vec![value],
        DataType::List(f)
        | DataType::LargeList(f)
        | DataType::ListView(f)
        | DataType::LargeListView(f)
        | DataType::FixedSizeList(f, _)
        | DataType::Map(f, _) => vec![f.data_type()],
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        DataType::Struct(fields) => fields.iter().map(|f| f.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, f)| f.data_type()).collect(),
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{FixedSizeListBuilder, ListBuilder, StringDictionaryBuilder};
    use arrow_array::types::{Int8Type, Int32Type, UInt8Type};
    use arrow_array::{Int64Array, StructArray};
    use arrow_schema::Field;

    const WORDS: [Option<&str>; 6] = [Some("red"), None, Some(""), Some("red"), Some("blue"), Some("")];

    /// `array` as it comes back from arrow-row, which puts values in the place of dictionaries.
    fn flattened(array: &ArrayRef) -> ArrayRef {
        let rows = RowConverter::new(vec![SortField::new(array.data_type().clone())]).unwrap();
        let encoded = rows.convert_columns(std::slice::from_ref(array)).unwrap();
        rows.convert_rows(&encoded).unwrap().remove(0)
    }

    #[test]
    fn dictionaries_are_restored_wherever_they_stand() {
        let mut list = ListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
        let mut pairs = FixedSizeListBuilder::new(StringDictionaryBuilder::<UInt8Type>::new(), 2);
        for (i, word) in WORDS.iter().enumerate() {
            list.values().append_option(*word);
            list.values().append_option(WORDS[i / 2]);
            list.append(i != 3);
            pairs.values().append_option(*word);
            pairs.values().append_value("blue");
            pairs.append(i != 4);
        }
        let word: ArrayRef = Arc::new(WORDS.iter().copied().collect::<DictionaryArray<Int8Type>>());
        let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..WORDS.len() as i64));
        let field = |name, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
        let pair = StructArray::from(vec![(field("w", &word), word.clone()), (field("n", &number), number)]);
        let arrays: [ArrayRef; 4] = [word, Arc::new(list.finish()), Arc::new(pairs.finish()), Arc::new(pair)];
        for array in &arrays {
            for array in [array.clone(), array.slice(2, 3), array.slice(0, 0)] {
                let flat = flattened(&array);
                assert_ne!(flat.data_type(), array.data_type());
                let again = restored(&flat, array.data_type()).unwrap();
                assert_eq!(again.data_type(), array.data_type());
                assert_eq!(&arrow_cast::cast(&again, flat.data_type()).unwrap(), &flat, "{}", array.data_type());
            }
        }
    }

    #[test]
    fn each_value_stands_in_a_dictionary_once_and_nulls_do_not() {
        let array: ArrayRef = Arc::new(WORDS.iter().copied().collect::<DictionaryArray<Int8Type>>());
        let again = restored(&flattened(&array), array.data_type()).unwrap();
        let values = again.as_any_dictionary().values().as_string::<i32>();
        assert_eq!(values.iter().collect::<Vec<_>>(), [Some("red"), Some(""), Some("blue")]);
    }

    #[test]
    fn more_values_than_keys_are_an_error() {
        let texts: ArrayRef = Arc::new((0..200).map(|i| Some(i.to_string())).collect::<arrow_array::StringArray>());
        let kind = |key| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
        assert!(matches!(restored(&texts, &kind(DataType::Int8)), Err(ArrowError::DictionaryKeyOverflowError)));
        assert_eq!(restored(&texts, &kind(DataType::UInt8)).unwrap().len(), 200);
    }
}
