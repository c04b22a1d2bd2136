use std::fmt;
use std::sync::Arc;

/// A party's place in the job's list of parties, and its name.
///
/// The place orders the parties the same way for everyone; the name is what people read in reports and errors.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Party {
    place: u8,
    name: Arc<str>,
}

impl Party {
    /// The party called `name` at `place` (from 0) of the job's list.
    pub fn new(place: u8, name: &str) -> Self {
        Self { place, name: name.into() }
    }

    /// Place in the job's list of parties, from 0.
    pub fn place(&self) -> u8 {
        self.place
    }

    /// The name in the job's list of parties.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.place)
    }
}
