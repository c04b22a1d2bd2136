//! The download: the client copies the whole table, and reads its record at home.
//!
//! - **Reveals.** Nothing to the server: no message depends on what is looked up. The client gets every record.
//! - **Cost.** The table, once. No query, no answer.
//!
//! It stands here because it is what every scheme must beat: below a few hundred kilobytes none does.

use crate::{Pir, PirError, Records, Sizes, check_shape};
use vesica_session::SessionRng;

/// The download of a table of so many records of so many bytes each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Download {
    records: u64,
    width: usize,
}

impl Download {
    /// # Errors
    /// [`PirError::Shape`] if there is no record, or records are empty or longer than 64 KiB.
    pub fn new(records: u64, width: usize) -> Result<Self, PirError> {
        check_shape(records, width)?;
        Ok(Self { records, width })
    }
}

impl Pir for Download {
    type Store = Vec<u8>;
    type Hint = Vec<u8>;
    type Secret = u64;

    fn sizes(&self) -> Sizes {
        Sizes { hint: self.records * self.width as u64, query: 0, answer: 0 }
    }

    fn store(&self, records: &dyn Records) -> Result<Vec<u8>, PirError> {
        if (records.len(), records.width()) != (self.records, self.width) {
            return Err(PirError::Shape(format!(
                "a table of {} records of {} bytes, where {} of {} were announced",
                records.len(),
                records.width(),
                self.records,
                self.width
            )));
        }
        let mut bytes = vec![0; self.records as usize * self.width];
        bytes.chunks_exact_mut(self.width).zip(0..).for_each(|(record, index)| records.read(index, record));
        Ok(bytes)
    }

    fn hint(&self, store: &Vec<u8>) -> Result<Vec<u8>, PirError> {
        Ok(store.clone())
    }

    fn take_hint(&self, bytes: Vec<u8>) -> Result<Vec<u8>, PirError> {
        if bytes.len() as u64 != self.sizes().hint {
            return Err(PirError::Message(format!(
                "a table of {} bytes instead of {}",
                bytes.len(),
                self.sizes().hint
            )));
        }
        Ok(bytes)
    }

    fn query(&self, _: &Vec<u8>, index: u64, _: &mut SessionRng) -> Result<(u64, Vec<u8>), PirError> {
        crate::check_index(index, self.records)?;
        Ok((index, Vec::new()))
    }

    fn answer(&self, _: &Vec<u8>, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError> {
        match queries.iter().find(|query| !query.is_empty()) {
            Some(query) => {
                Err(PirError::Message(format!("a query of {} bytes to a table that is downloaded", query.len())))
            }
            None => Ok(vec![Vec::new(); queries.len()]),
        }
    }

    fn decode(&self, hint: &Vec<u8>, index: u64, answer: &[u8]) -> Result<Vec<u8>, PirError> {
        if !answer.is_empty() {
            return Err(PirError::Message(format!("an answer of {} bytes where nothing was asked", answer.len())));
        }
        Ok(hint[index as usize * self.width..][..self.width].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flat;
    use zeroize::Zeroizing;

    #[test]
    fn every_record_is_read_at_home() {
        let mut rng = SessionRng::from_seed(Zeroizing::new([1; 32]));
        for (records, width) in [(1u64, 1usize), (3, 5), (100, 64)] {
            let table: Vec<u8> = (0..records as usize * width).map(|i| i as u8).collect();
            let flat = Flat::new(&table, width).unwrap();
            let scheme = Download::new(records, width).unwrap();
            let store = scheme.store(&flat).unwrap();
            let hint = scheme.take_hint(scheme.hint(&store).unwrap()).unwrap();
            for index in 0..records {
                let (secret, query) = scheme.query(&hint, index, &mut rng).unwrap();
                let answer = scheme.answer(&store, &[&query]).unwrap().remove(0);
                assert_eq!(scheme.decode(&hint, secret, &answer).unwrap(), flat.record(index));
            }
            assert!(scheme.query(&hint, records, &mut rng).is_err());
        }
    }

    #[test]
    fn what_is_no_download_is_refused() {
        assert!(
            Download::new(0, 1).is_err()
                && Download::new(1, 0).is_err()
                && Download::new(1, crate::MOST_WIDTH + 1).is_err()
        );
        let scheme = Download::new(2, 3).unwrap();
        assert!(scheme.take_hint(vec![0; 5]).unwrap_err().to_string().contains("5 bytes"));
        assert!(scheme.answer(&vec![0; 6], &[&[], &[1]]).is_err());
        assert!(scheme.decode(&vec![0; 6], 1, &[1]).is_err());
        assert!(scheme.store(&Flat::new(&[0; 6], 2).unwrap()).unwrap_err().to_string().contains("announced"));
    }
}
