/// The length of a comparison tag, in bytes: 1 to 16. Chosen by `vesica_params::tag_bytes`, never by hand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TagLen(u8);

impl TagLen {
    /// A length of `bytes`, or `None` outside 1..=16.
    pub fn new(bytes: usize) -> Option<Self> {
        (1..=16).contains(&bytes).then_some(Self(bytes as u8))
    }

    /// The length in bytes.
    pub fn bytes(self) -> usize {
        usize::from(self.0)
    }
}

/// A list of tags of one length, in one flat buffer: what the parties compare at the end of a protocol.
#[derive(Clone, PartialEq, Eq)]
pub struct Tags {
    len: TagLen,
    bytes: Vec<u8>,
}

impl Tags {
    /// An empty list of tags of `len` bytes each, with room for `n`.
    pub fn with_capacity(len: TagLen, n: usize) -> Self {
        Self { len, bytes: Vec::with_capacity(n * len.bytes()) }
    }

    /// The list held by `bytes`, or `None` if that is not a whole number of tags.
    pub fn from_bytes(len: TagLen, bytes: Vec<u8>) -> Option<Self> {
        bytes.len().is_multiple_of(len.bytes()).then_some(Self { len, bytes })
    }

    /// Appends the first bytes of `hash` as a tag.
    ///
    /// # Panics
    /// If `hash` is shorter than a tag.
    pub fn push(&mut self, hash: &[u8]) {
        self.bytes.extend_from_slice(&hash[..self.len.bytes()]);
    }

    /// The tags in order.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, u8> {
        self.bytes.chunks_exact(self.len.bytes())
    }

    /// The tags in order, as numbers; they compare as the bytes do.
    pub fn words(&self) -> impl Iterator<Item = u128> + '_ {
        self.iter().map(|tag| {
            let mut word = [0; 16];
            word[..tag.len()].copy_from_slice(tag);
            u128::from_be_bytes(word)
        })
    }

    /// The number of tags.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.len.bytes()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The tags one after the other, as they travel.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Tags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tags({} of {} bytes)", self.len(), self.len.bytes())
    }
}
