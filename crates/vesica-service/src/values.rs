//! The values of a row as one text of bytes: for each column its length and its text; and what a row is looked up by that has a number and no key.

/// What stands for row `index` in the place of the digest of a key.
pub fn digest_of_index(index: u64) -> [u8; 32] {
    blake3::derive_key("vesica 2026 number of a row", &index.to_le_bytes())
}

/// Bytes of a column's length. A null has length 0, a text the number of its bytes and one more.
const LENGTH: usize = 4;

/// Appends the values of a row.
pub fn encode<'a>(values: impl Iterator<Item = Option<&'a str>>, out: &mut Vec<u8>) {
    for value in values {
        let length = value.map_or(0, |text| text.len() as u32 + 1);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(value.unwrap_or_default().as_bytes());
    }
}

/// Bytes that [`encode`] appends.
pub fn encoded_bytes<'a>(values: impl Iterator<Item = Option<&'a str>>) -> usize {
    values.map(|value| LENGTH + value.map_or(0, str::len)).sum()
}

/// The values of `columns` columns; none if these are no such values. The server put them there for whoever holds the key, so nothing may
/// fail by them.
pub fn decode(mut bytes: &[u8], columns: usize) -> Option<Vec<Option<String>>> {
    let mut values = Vec::with_capacity(columns);
    for _ in 0..columns {
        let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let (text, rest) = rest.split_at_checked(length.saturating_sub(1))?;
        let text = std::str::from_utf8(text).ok()?;
        values.push((length > 0).then(|| text.to_owned()));
        bytes = rest;
    }
    bytes.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_are_read_as_they_are_written(values in prop::collection::vec(prop::option::of(".{0,20}"), 0..5)) {
            let texts = || values.iter().map(Option::as_deref);
            let mut bytes = Vec::new();
            encode(texts(), &mut bytes);
            prop_assert_eq!(bytes.len(), encoded_bytes(texts()));
            prop_assert_eq!(decode(&bytes, values.len()).unwrap(), values.clone());
            prop_assert!(decode(&bytes, values.len() + 1).is_none());
            prop_assert!(values.is_empty() || decode(&bytes, values.len() - 1).is_none());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), columns in 0..4usize) {
            let _ = decode(&bytes, columns);
        }
    }
}
