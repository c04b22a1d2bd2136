//! What the messages of an Arrow file say of their sizes, checked before a reader makes room for it: a reader would ask the
//! system for as much as the file says, and a process that asks for too much is ended.
//!
//! ```text
//! file      "ARROW1" | 0 0 | stream | footer | length of the footer i32 | "ARROW1"
//! stream    messages | end
//! message   ff ff ff ff | length of the head i32 | head | body
//! ```
//! Numbers are little-endian. Streams of old versions lack the four bytes before the length. The footer says where each message
//! with rows stands.

use crate::parquet::{corrupt, guarded};
use crate::{Error, Source};
use arrow_ipc::{MessageHeader, RecordBatch, root_as_footer, root_as_message};

/// The most bytes that a byte of a compressed buffer can stand for. The most is Zstandard's: a block of 2^17 equal bytes in four.
const RATIO: u64 = 1 << 15;

/// Bytes before a compressed buffer that say how long it is when it is not compressed.
const PREFIX: u64 = 8;

/// What ends a file: the length of its footer, and the format's name.
const END: u64 = 10;

/// Where a message stands.
pub(crate) struct Message {
    head: Vec<u8>,
    /// Where its body begins.
    body: u64,
}

impl Message {
    /// The message at `at` of a stream, and where the next one begins; none at the stream's end.
    pub(crate) fn in_stream(source: &Source, at: u64) -> Result<Option<(Self, u64)>, Error> {
        let mut word = [0; 4];
        let mut from = at;
        for _ in 0..2 {
            // What is missing here the reader will miss too.
            if !source.fill(&mut word, from)? {
                return Ok(None);
            }
            from += 4;
            if word != [0xff; 4] {
                break;
            }
        }
        let len = i32::from_le_bytes(word);
        if len == 0 {
            return Ok(None);
        }
        let message = Self::at(source, from, len.into())?;
        let body = message.parse(source, |message| Ok(message.bodyLength()))?;
        let end = within(source, message.body, body)?;
        Ok(Some((message, end)))
    }

    /// The message whose head has `len` bytes from `at` on.
    fn at(source: &Source, at: u64, len: i64) -> Result<Self, Error> {
        let body = within(source, at, len)?;
        let mut head = vec![0; (body - at) as usize];
        match source.fill(&mut head, at)? {
            true => Ok(Self { head, body }),
            false => Err(absurd(source)),
        }
    }

    fn parse<T>(
        &self,
        source: &Source,
        of: impl FnOnce(arrow_ipc::Message<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        guarded(source, || {
            let message = root_as_message(&self.head).map_err(|e| corrupt(source, &e.to_string()))?;
            of(message)
        })
    }

    /// Refuses a message that claims more than its bytes can hold. Says whether a reader goes on to the next one at once, as it
    /// does after a dictionary.
    pub(crate) fn check(&self, source: &Source) -> Result<bool, Error> {
        self.parse(source, |message| {
            let (batch, more) = match message.header_type() {
                MessageHeader::DictionaryBatch => (message.header_as_dictionary_batch().and_then(|d| d.data()), true),
                _ => (message.header_as_record_batch(), false),
            };
            batch.map_or(Ok(()), |batch| self.check_buffers(source, batch))?;
            Ok(more)
        })
    }

    fn check_buffers(&self, source: &Source, batch: RecordBatch<'_>) -> Result<(), Error> {
        let buffers = batch.buffers().filter(|_| batch.compression().is_some());
        for buffer in buffers.into_iter().flatten() {
            let at = within(source, self.body, buffer.offset())?;
            let end = within(source, at, buffer.length())?;
            let mut len = [0; PREFIX as usize];
            if end - at >= PREFIX && source.fill(&mut len, at)? {
                let most = (end - at).saturating_mul(RATIO);
                // -1 says that the buffer is not compressed.
                u64::try_from(i64::from_le_bytes(len).max(0))
                    .ok()
                    .filter(|len| *len <= most)
                    .ok_or_else(|| absurd(source))?;
            }
        }
        Ok(())
    }
}

/// Where the messages of a file stand that hold dictionaries, and those that hold rows.
pub(crate) struct Blocks {
    pub(crate) dictionaries: Vec<Block>,
    pub(crate) batches: Vec<Block>,
}

/// Where a message stands in a file.
pub(crate) struct Block {
    at: i64,
    head: i64,
    body: i64,
}

impl Blocks {
    /// Those of a file; none where it does not end as a file does, which its reader will say.
    pub(crate) fn of(source: &Source) -> Result<Self, Error> {
        let mut tail = [0; END as usize];
        let end = source.bytes().saturating_sub(END);
        if !source.fill(&mut tail, end)? || !tail.ends_with(b"ARROW1") {
            return Ok(Self { dictionaries: Vec::new(), batches: Vec::new() });
        }
        let [a, b, c, d, ..] = tail;
        let len = u64::try_from(i32::from_le_bytes([a, b, c, d])).ok();
        let at = len.and_then(|len| end.checked_sub(len)).ok_or_else(|| absurd(source))?;
        let mut footer = vec![0; (end - at) as usize];
        if !source.fill(&mut footer, at)? {
            return Err(absurd(source));
        }
        guarded(source, || {
            let footer = root_as_footer(&footer).map_err(|e| corrupt(source, &e.to_string()))?;
            let block = |block: &arrow_ipc::Block| Block {
                at: block.offset(),
                head: block.metaDataLength().into(),
                body: block.bodyLength(),
            };
            Ok(Self {
                dictionaries: footer.dictionaries().into_iter().flatten().map(block).collect(),
                batches: footer.recordBatches().into_iter().flatten().map(block).collect(),
            })
        })
    }
}

impl Block {
    /// Refuses a block that claims more than the file holds.
    pub(crate) fn check(&self, source: &Source) -> Result<(), Error> {
        let at = within(source, 0, self.at)?;
        let body = within(source, at, self.head)?;
        within(source, body, self.body)?;
        let mut word = [0; 4];
        // The head begins as in a stream; its length counts what stands before it.
        let marked = source.fill(&mut word, at)? && word == [0xff; 4];
        let before = if marked { 8 } else { 4 };
        let head = Message::at(source, at + before, self.head - before as i64)?;
        head.check(source).map(drop)
    }
}

/// Where `len` bytes from `at` on end, if the file has them.
fn within(source: &Source, at: u64, len: i64) -> Result<u64, Error> {
    let end = u64::try_from(len).ok().and_then(|len| at.checked_add(len));
    end.filter(|end| *end <= source.bytes()).ok_or_else(|| absurd(source))
}

fn absurd(source: &Source) -> Error {
    corrupt(source, "a length in it is larger than the file allows")
}
