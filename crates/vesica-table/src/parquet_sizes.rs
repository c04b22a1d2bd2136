//! What a Parquet file says of its sizes, checked before the parquet crate makes room for it. A process that asks the system for
//! too much memory is ended, and some of these lengths are so short to write that a file of a hundred bytes could ask for it.
//!
//! ```text
//! file     "PAR1" | column chunks | footer | length of the footer u32 | "PAR1"
//! chunk    pages: at most one dictionary, then data
//! page     head | body, mostly compressed
//! body     of a dictionary: values
//!          of data: repetition levels | definition levels | values, or places of values in the dictionary
//! ```
//! The footer is checked when a file is opened, the head of a page when it is read, and its body when it is decompressed.
//!
//! The format lets a few bytes stand for millions of equal values, so a file is not refused for a number of values alone. Rows are
//! read some thousands at a time, whatever stands for them. The file may hold a long text once and have it in every row, as from a
//! dictionary, or have long lists of equal values, or another long text in each row. Then fewer rows are read at a time, so that these
//! take [`FREE`] bytes or less. One list, and the lengths of a page's texts, are read whole: what these take must be in proportion to
//! the file.

use crate::parquet::corrupt;
use crate::parquet_thrift::{Bad, FILE, PAGE, number, signed, walk, wrong};
use crate::{Error, Source};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length, SerializedPageReader};
use parquet::schema::types::ColumnDescPtr;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

/// How deeply columns may be nested: the parquet crate calls itself once a level, and a thread's stack is finite.
const DEEPEST: usize = 100;

/// The longest head of a page, as other readers of the format have it. It may hold the smallest and the largest value.
const LONGEST_HEAD: u64 = 16 << 20;

/// How much of the file is read at first for a head of some fifty bytes.
const HEAD: u64 = 512;

/// Bytes in memory that a file may ask for with a few of its own: for the values of a batch where it holds a value once for many
/// rows, for a list, for the lengths of a page's texts.
const FREE: u64 = 256 << 20;

/// Bytes in memory, beyond [`FREE`], that a byte of a page may stand for in a list and in lengths. Writers reach about 400.
const PER_BYTE: u64 = 1 << 14;

/// The footer of a file. Refuses one that claims more than it can hold.
pub(crate) fn footer(source: &Source) -> Result<Vec<u8>, Error> {
    let mut tail = [0; 8];
    let end = source.bytes().saturating_sub(8);
    let whole = source.fill(&mut tail, end)?;
    let [a, b, c, d, magic @ ..] = tail;
    let at = end.checked_sub(u32::from_le_bytes([a, b, c, d]).into());
    let at = match &magic {
        b"PAR1" if whole => at.ok_or("a length at its end is larger than the file; copy it again"),
        b"PARE" if whole => Err("its footer is encrypted; write it without encryption"),
        _ => Err("it does not end as a Parquet file does, so it may have been cut; copy it again"),
    };
    let at = at.map_err(|why| corrupt(source, why))?;
    let mut footer = vec![0; (end - at) as usize];
    source.fill(&mut footer, at)?;
    // Columns that each open group still lacks, the outermost group first.
    let mut open: Vec<i64> = Vec::new();
    let mut children = 0i64;
    let checked = walk(&footer, &FILE, &mut |name, numbers| {
        let own = match name {
            "SchemaElement" => numbers[5].unwrap_or(0),
            _ => return Ok(()),
        };
        children = children.saturating_add(own.max(0));
        if children > footer.len() as i64 {
            return Err(wrong(format!("a group has {own} columns, for which the footer is too short")));
        }
        open.last_mut().into_iter().for_each(|left| *left -= 1);
        if own > 0 {
            open.push(own);
        }
        while open.last() == Some(&0) {
            open.pop();
        }
        match open.len() > DEEPEST {
            true => Err(wrong(format!("columns are nested more than {DEEPEST} levels deep"))),
            false => Ok(()),
        }
    });
    let why = match checked {
        Ok(_) => return Ok(footer),
        Err(Bad::Short) => "it ends too early".to_owned(),
        Err(Bad::Wrong(why)) => why,
    };
    Err(corrupt(source, &format!("its footer of {} bytes cannot be read: {why}; copy or write it again", footer.len())))
}

/// The most bytes that a compressed byte can stand for.
fn ratio(codec: Compression) -> u64 {
    match codec {
        Compression::UNCOMPRESSED => 1,
        // A copy of 64 bytes in three.
        Compression::SNAPPY => 22,
        // A byte of 255 that lengthens a copy.
        Compression::LZ4 | Compression::LZ4_RAW => 255,
        // A copy of 258 bytes in two bits.
        Compression::GZIP(_) => 1032,
        // A block of 2^17 equal bytes in four.
        Compression::ZSTD(_) => 1 << 15,
        // The crate is built without them, and says so.
        Compression::BROTLI(_) | Compression::LZO => u64::MAX,
    }
}

/// The bytes of a column chunk, for the crate to read: the head of each page is checked before the crate has it.
#[derive(Clone)]
pub(crate) struct Chunk {
    source: Arc<Source>,
    pass: Arc<Pass>,
    /// Where it ends.
    end: u64,
    ratio: u64,
}

impl Chunk {
    fn of(source: &Arc<Source>, meta: &ColumnChunkMetaData, pass: &Arc<Pass>) -> Result<Self, ParquetError> {
        let start = meta.dictionary_page_offset().unwrap_or(meta.data_page_offset());
        let len = meta.compressed_size();
        let end = u64::try_from(start).ok().and_then(|start| start.checked_add(u64::try_from(len).ok()?));
        let Some(end) = end.filter(|end| *end <= source.bytes() || len == 0) else {
            let why = format!("column {:?} is said to have {len} bytes at {start}", meta.column_path().string());
            return Err(pass.wrong(format!("{why}, which the file has not; copy it again")));
        };
        Ok(Self { source: source.clone(), pass: pass.clone(), end, ratio: ratio(meta.compression()) })
    }

    /// The head of the page at `at`.
    fn head(&self, at: u64) -> Result<Vec<u8>, ParquetError> {
        let left = self.end.saturating_sub(at).min(LONGEST_HEAD);
        let mut len = HEAD.min(left);
        loop {
            let mut bytes = vec![0; len as usize];
            self.source.read_exact_at(&mut bytes, at)?;
            let mut sizes = (0, 0);
            let walked = walk(&bytes, &PAGE, &mut |name, numbers| {
                if name == "PageHeader" {
                    sizes = (numbers[2].unwrap_or(0), numbers[3].unwrap_or(0));
                }
                Ok(())
            });
            match walked {
                Ok(head) => {
                    self.check(at, head as u64, sizes)?;
                    bytes.truncate(head);
                    return Ok(bytes);
                }
                Err(Bad::Short) if len < left => len = (8 * len).min(left),
                Err(bad) => {
                    let (why, remedy) = match bad {
                        Bad::Wrong(why) => (format!("cannot be read: {why}"), "copy it again"),
                        Bad::Short if left < LONGEST_HEAD => ("is longer than its column".into(), "copy it again"),
                        Bad::Short => (
                            format!("has more than {} MiB", LONGEST_HEAD >> 20),
                            "write it again without statistics of pages",
                        ),
                    };
                    return Err(self.pass.wrong(format!("the head of the page at {at} {why}; {remedy}")));
                }
            }
        }
    }

    /// Refuses a page that is longer than its chunk, or becomes longer than its codec can make it.
    fn check(&self, at: u64, head: u64, (plain, packed): (i64, i64)) -> Result<(), ParquetError> {
        let room = self.end.saturating_sub(at + head);
        let Some(packed) = u64::try_from(packed).ok().filter(|packed| *packed <= room) else {
            let why = format!("the page at {at} is said to have {packed} bytes, of {room} that are left");
            return Err(self.pass.wrong(format!("{why}; copy it again")));
        };
        // The crate takes an uncompressed page as it is.
        if self.ratio > 1 && u64::try_from(plain).map_or(true, |plain| plain > packed.saturating_mul(self.ratio)) {
            let why = format!("the page at {at} is said to become {plain} bytes, and has {packed}");
            return Err(self.pass.wrong(format!("{why}; copy or write the file again")));
        }
        Ok(())
    }
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.source.bytes()
    }
}

impl ChunkReader for Chunk {
    type T = Head;

    fn get_read(&self, start: u64) -> Result<Head, ParquetError> {
        Ok(Head { chunk: self.clone(), at: start, bytes: io::Cursor::default(), known: false })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // The length comes from the file.
        if start.checked_add(length as u64).is_none_or(|end| end > self.end) {
            let why = format!("a page has {length} bytes at {start}, which its column has not");
            return Err(self.pass.wrong(format!("{why}; copy it again")));
        }
        let mut bytes = vec![0; length];
        self.source.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// The head of a page, read when the crate begins to. The crate opens one at the body of a page too, and does not read that.
pub(crate) struct Head {
    chunk: Chunk,
    at: u64,
    bytes: io::Cursor<Vec<u8>>,
    known: bool,
}

impl Read for Head {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if !self.known {
            self.bytes = io::Cursor::new(self.chunk.head(self.at)?);
            self.known = true;
        }
        self.bytes.read(buf)
    }
}

/// A pass over some columns.
pub(crate) struct Pass {
    /// The rows that a batch of it has.
    pub(crate) rows: usize,
    columns: u64,
    ended: OnceLock<Ended>,
}

/// Why a pass was ended before the crate was done.
pub(crate) enum Ended {
    /// The file says what cannot be.
    Wrong(String),
    /// Values are so long that a batch should have no more rows than this.
    Rows(usize),
}

impl Pass {
    /// One over columns, in batches of `rows` rows at most. They are of these types, and consist of what `descrs` describe.
    pub(crate) fn over<'a>(
        source: &Source,
        rows: usize,
        kinds: impl Iterator<Item = &'a Field>,
        descrs: impl Iterator<Item = &'a ColumnDescPtr>,
    ) -> Result<Self, Error> {
        let (mut columns, mut bytes) = (0, 0u64);
        let mut add = |own: u64, name: &str| {
            bytes = bytes.saturating_add(own);
            let why = || format!("values of column {name:?} take {own} bytes each, of {FREE} at most");
            if own > FREE { Err(corrupt(source, &format!("{}; write it with other columns", why()))) } else { Ok(()) }
        };
        for field in kinds {
            add(null(field.data_type()), field.name())?;
        }
        for descr in descrs {
            add(width(descr), &descr.path().string())?;
            columns += 1;
        }
        let rows = rows.min((FREE / bytes.max(1)) as usize).max(1);
        Ok(Self { rows, columns, ended: OnceLock::new() })
    }

    /// The same in batches of `rows` rows.
    pub(crate) fn in_batches_of(&self, rows: usize) -> Self {
        Self { rows, columns: self.columns, ended: OnceLock::new() }
    }

    /// Why it was ended, if it was.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        self.ended.get()
    }

    /// Ends it. The crate hands the error on as a text, so that the reason stays here.
    fn end(&self, why: Ended) -> ParquetError {
        let _ = self.ended.set(why);
        ParquetError::General("the file was refused".into())
    }

    fn wrong(&self, why: String) -> ParquetError {
        self.end(Ended::Wrong(why))
    }

    /// Ends it if its batches are too large for a value of `bytes` bytes in every row.
    fn check(&self, bytes: u64) -> Result<(), ParquetError> {
        let most = (FREE / bytes.saturating_mul(self.columns).max(1)).max(1);
        if self.rows as u64 <= most {
            return Ok(());
        }
        // A power of two, so that there are few passes.
        Err(self.end(Ended::Rows(1 << most.ilog2())))
    }
}

/// The bytes that a null takes in memory where it takes as many as a value: in a list that always has as many values.
fn null(kind: &DataType) -> u64 {
    match kind {
        DataType::FixedSizeList(of, len) => {
            let own = of.data_type().primitive_width().unwrap_or(16) as u64;
            own.max(null(of.data_type())).saturating_mul(u64::try_from(*len).unwrap_or(0))
        }
        DataType::Struct(fields) => fields.iter().fold(0, |sum, field| null(field.data_type()).saturating_add(sum)),
        _ => 0,
    }
}

/// The bytes of a value, and of a null, where all have as many; none for texts.
fn width(descr: &ColumnDescPtr) -> u64 {
    match descr.physical_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::BYTE_ARRAY => 0,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(descr.type_length()).unwrap_or(0),
    }
}

/// The pages of a column chunk, each checked before the crate decodes it.
pub(crate) struct Pages {
    pages: SerializedPageReader<Chunk>,
    descr: ColumnDescPtr,
    pass: Arc<Pass>,
    /// The longest text of the dictionary.
    longest: u64,
    list: List,
    /// What a list may take beyond [`FREE`].
    room: u64,
}

impl Pages {
    pub(crate) fn of(
        source: &Arc<Source>,
        meta: &ColumnChunkMetaData,
        rows: usize,
        pass: &Arc<Pass>,
    ) -> Result<Self, ParquetError> {
        let chunk = Arc::new(Chunk::of(source, meta, pass)?);
        let pages = SerializedPageReader::new(chunk, meta, rows, None)?;
        let descr = meta.column_descr_ptr();
        Ok(Self { pages, descr, pass: pass.clone(), longest: 0, list: List(0), room: 0 })
    }

    fn checked(&mut self, page: Option<Page>) -> Result<Option<Page>, ParquetError> {
        match &page {
            Some(Page::DictionaryPage { buf, num_values, .. }) => self.check_dictionary(buf, (*num_values).into())?,
            Some(page) => self.check_data(page)?,
            None => {}
        }
        Ok(page)
    }

    /// Refuses a dictionary that is said to have more values than its bytes can hold.
    fn check_dictionary(&mut self, values: &[u8], count: u64) -> Result<(), ParquetError> {
        let bits = match self.descr.physical_type() {
            Type::BOOLEAN => 1,
            // Each has its length before it.
            Type::BYTE_ARRAY => 8 * 4,
            // Of values without bytes there is one.
            _ => 8 * width(&self.descr).max(1),
        };
        let len = values.len() as u64;
        if count > (8 * len / bits).max(1) {
            let why = format!("a dictionary of column {:?} is said to have {count} values", self.name());
            return Err(self.pass.wrong(format!("{why} in {len} bytes; copy or write the file again")));
        }
        if self.descr.physical_type() == Type::BYTE_ARRAY {
            let mut rest = values;
            while let Some((len, next)) = rest.split_first_chunk() {
                let len = u32::from_le_bytes(*len);
                let Some(next) = next.get(len as usize..) else { break };
                self.longest = self.longest.max(len.into());
                rest = next;
            }
            self.pass.check(self.longest)?;
        }
        Ok(())
    }

    /// Refuses a page of data whose lists or lengths are far more than its bytes.
    fn check_data(&mut self, page: &Page) -> Result<(), ParquetError> {
        // What is damaged here the crate will find.
        let Some((repetitions, values)) = parts(page, &self.descr) else { return Ok(()) };
        let count = u64::from(page.num_values());
        let room = page.buffer().len() as u64 * PER_BYTE;
        if self.descr.physical_type() == Type::BYTE_ARRAY && self.descr.max_rep_level() == 0 {
            // Long texts that stand in the file row by row: each thread holds a batch of them, in which a place has 31 bits.
            let mean = page.buffer().len() as u64 / count.max(1);
            self.pass.check(mean.div_ceil(self.pass.columns.max(1)))?;
        }
        let mut longest = 1;
        if self.descr.max_rep_level() > 0 {
            longest = match repetitions {
                Some(levels) => self.list.longest(levels, bits(self.descr.max_rep_level()), count),
                // They might be one list: it has a bit of the page for each value.
                None => self.list.goes_on(count),
            };
            // Two levels of two bytes, and the value, or what says where it is and the text.
            let value = match width(&self.descr) {
                0 => 16 + self.longest,
                width => width,
            };
            let list = longest.saturating_mul(4 + value);
            self.room = self.room.saturating_add(room);
            if list > FREE.saturating_add(self.room) {
                let why = format!("a list of column {:?} takes {} MiB in memory", self.name(), list >> 20);
                return Err(self.pass.wrong(format!("{why}, and a few bytes in the file; copy or write it again")));
            }
            self.pass.check(list)?;
        }
        let parts = match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => return Ok(()),
        };
        // A length takes four bytes in memory, and a place in the result as many or twice as many.
        let most = count.min((FREE + room) / 16);
        let mut rest = values;
        for part in 0..parts {
            let Some(lengths) = Deltas::of(rest) else { return Ok(()) };
            if lengths.count > most {
                let why = format!("a page of column {:?} is said to have {} lengths", self.name(), lengths.count);
                let why = format!("{why}, of {most} at most");
                return Err(self.pass.wrong(format!("{why}; write the file again with smaller pages")));
            }
            if parts == 2 && part == 0 {
                // So many bytes each value may have of the one before it.
                let Some((end, largest)) = lengths.read() else { return Ok(()) };
                self.pass.check(largest.saturating_mul(longest))?;
                rest = &rest[end..];
            }
        }
        Ok(())
    }

    fn name(&self) -> String {
        self.descr.path().string()
    }
}

impl Iterator for Pages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        self.checked(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.take_deferred_dictionary()?;
        self.checked(page)
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        self.pages.at_record_boundary()
    }
}

/// The repetition levels of a page of data, if they are in runs, and its values.
fn parts<'a>(page: &'a Page, descr: &ColumnDescPtr) -> Option<(Option<&'a [u8]>, &'a [u8])> {
    let (repetition, definition) = (descr.max_rep_level(), descr.max_def_level());
    match page {
        Page::DataPage { buf, num_values, rep_level_encoding, def_level_encoding, .. } => {
            let levels = |most: i16, encoding, buf: &'a [u8]| match encoding {
                _ if most == 0 => Some((&buf[..0], buf)),
                Encoding::RLE => {
                    let (len, rest) = buf.split_first_chunk()?;
                    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
                }
                // Without runs, as nobody writes them any more.
                _ => buf.split_at_checked((u64::from(*num_values) * u64::from(bits(most))).div_ceil(8) as usize),
            };
            let (repetitions, rest) = levels(repetition, *rep_level_encoding, buf)?;
            let (_, values) = levels(definition, *def_level_encoding, rest)?;
            Some(((*rep_level_encoding == Encoding::RLE).then_some(repetitions), values))
        }
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let (repetitions, rest) = buf.split_at_checked(*rep_levels_byte_len as usize)?;
            Some((Some(repetitions), rest.get(*def_levels_byte_len as usize..)?))
        }
        Page::DictionaryPage { .. } => None,
    }
}

/// The bits of a level of at most `most`.
fn bits(most: i16) -> u32 {
    i16::BITS - most.leading_zeros()
}

/// The values so far of the list that is being read. A level of zero begins the next one.
struct List(u64);

impl List {
    fn goes_on(&mut self, count: u64) -> u64 {
        self.0 = self.0.saturating_add(count);
        self.0
    }

    /// How long a list may be at most up to the end of these `count` levels of so many bits.
    fn longest(&mut self, mut levels: &[u8], bits: u32, count: u64) -> u64 {
        let mut longest = self.0;
        let mut left = count;
        while left > 0
            && let Ok((run, rest)) = number(levels)
            && run > 0
        {
            let packed = run & 1 == 1;
            let own = left.min(if packed { (run >> 1).saturating_mul(8) } else { run >> 1 });
            let bytes = if packed { (run >> 1).saturating_mul(bits.into()) } else { bits.div_ceil(8).into() };
            let (run, next) = rest.split_at(rest.len().min(usize::try_from(bytes).unwrap_or(usize::MAX)));
            if packed {
                for group in run.chunks(bits as usize).take(usize::try_from(own.div_ceil(8)).unwrap_or(usize::MAX)) {
                    // Wherever the list ends in it, it has seven of the eight at most, and the next list all of them.
                    if (0..8).any(|i| bits_at(group, i * bits as usize, bits as usize) == 0) {
                        longest = longest.max(self.goes_on(7));
                        self.0 = 0;
                    }
                    longest = longest.max(self.goes_on(8));
                }
            } else if run.iter().all(|byte| *byte == 0) {
                self.0 = 1;
                longest = longest.max(1);
            } else {
                longest = longest.max(self.goes_on(own));
            }
            levels = next;
            left -= own;
        }
        longest
    }
}

/// Numbers in the encoding that holds differences.
///
/// ```text
/// numbers   values a block | parts a block | how many in all | the first | blocks
/// block     the least difference | bits of each part | parts: what each difference has beyond the least, in so many bits
/// ```
struct Deltas<'a> {
    bytes: &'a [u8],
    /// The bytes of the blocks, and what may follow.
    blocks: &'a [u8],
    parts: u64,
    /// Values of a part.
    values: u64,
    count: u64,
    first: i64,
}

impl<'a> Deltas<'a> {
    /// Those that `bytes` begin with, if they do.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (block, rest) = number(bytes).ok()?;
        let (parts, rest) = number(rest).ok()?;
        let (count, rest) = number(rest).ok()?;
        let (first, blocks) = number(rest).ok()?;
        let values = block.checked_div(parts).filter(|values| *values > 0)?;
        Some(Self { bytes, blocks, parts, values, count, first: signed(first) })
    }

    /// Where they end, and the largest of them; none if they do not all stand there. They are computed as the crate does, modulo
    /// 2^32.
    fn read(&self) -> Option<(usize, u64)> {
        let mut rest = self.blocks;
        let mut last = self.first as i32;
        // The crate takes a negative length for a very large one.
        let mut largest = last as u32;
        let mut left = self.count.saturating_sub(1);
        while left > 0 {
            let (least, after) = number(rest).ok()?;
            let least = signed(least) as i32;
            let (widths, mut after) = after.split_at_checked(usize::try_from(self.parts).ok()?)?;
            for width in widths {
                // A part that has no values has no bytes, whatever its width.
                if left == 0 {
                    break;
                }
                let width = usize::from(*width);
                let own = left.min(self.values) as usize;
                let bytes = self.values.checked_mul(width as u64)? / 8;
                let (part, next) = after.split_at_checked(usize::try_from(bytes).ok()?)?;
                if width > 32 {
                    return None;
                }
                // Where there is nothing to add, all are as the one before.
                for i in 0..if (width, least) == (0, 0) { 0 } else { own } {
                    last = last.wrapping_add(least).wrapping_add(bits_at(part, i * width, width) as i32);
                    largest = largest.max(last as u32);
                }
                left -= own as u64;
                after = next;
            }
            rest = after;
        }
        Some((self.bytes.len() - rest.len(), largest.into()))
    }
}

/// The `width` bits, 32 at most, from bit `at` of `bytes` on; zeros beyond the end.
fn bits_at(bytes: &[u8], at: usize, width: usize) -> u64 {
    let bytes = bytes.get(at / 8..).unwrap_or_default();
    let word = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        word
    });
    u64::from_le_bytes(word) >> (at % 8) & ((1 << width) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(mut number: u64, bytes: &mut Vec<u8>) {
        while number > 0x7f {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    }

    fn zigzag(number: i32) -> u64 {
        u64::from((number << 1 ^ number >> 31) as u32)
    }

    /// `numbers` as differences, in blocks of 128 and parts of 32.
    fn deltas(numbers: &[i32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let first = numbers.first().copied().unwrap_or(0);
        [128, 4, numbers.len() as u64, zigzag(first)].into_iter().for_each(|number| write(number, &mut bytes));
        let steps: Vec<i32> = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        for block in steps.chunks(128) {
            let least = block.iter().copied().min().unwrap();
            write(zigzag(least), &mut bytes);
            let beyond = |step: &i32| step.wrapping_sub(least) as u32;
            let parts: Vec<Vec<u32>> = block.chunks(32).map(|part| part.iter().map(beyond).collect()).collect();
            let width = |part: &Vec<u32>| 32 - part.iter().fold(0, |all, beyond| all | beyond).leading_zeros();
            // What stands for a part without values says nothing.
            bytes.extend((0..4).map(|i| parts.get(i).map_or(77, |part| width(part) as u8)));
            for part in &parts {
                let mut packed = vec![0u8; 4 * width(part) as usize];
                for (i, beyond) in part.iter().enumerate() {
                    for bit in (0..width(part) as usize).filter(|bit| beyond >> bit & 1 == 1) {
                        let at = i * width(part) as usize + bit;
                        packed[at / 8] |= 1 << (at % 8);
                    }
                }
                bytes.extend(packed);
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn the_end_and_the_largest_of_differences_are_found(
            numbers in prop_oneof![
                proptest::collection::vec(0..20i32, 0..400),
                proptest::collection::vec(0..i32::MAX, 0..400),
                (0..i32::MAX, 0..400usize).prop_map(|(number, count)| vec![number; count]),
            ],
            more in proptest::collection::vec(any::<u8>(), 0..9),
        ) {
            let own = deltas(&numbers);
            let bytes = [&own[..], &more].concat();
            let found = Deltas::of(&bytes).unwrap();
            prop_assert_eq!(found.count, numbers.len() as u64);
            prop_assert_eq!(found.read(), Some((own.len(), numbers.iter().copied().max().unwrap_or(0) as u64)));
            // Cut, they are not all there.
            if numbers.len() > 1 {
                prop_assert_eq!(Deltas::of(&own[..own.len() - 1]).and_then(|found| found.read()), None);
            }
        }

        #[test]
        fn any_bytes_are_differences_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let found = Deltas::of(&bytes).filter(|found| found.count < 1 << 20);
            prop_assert!(found.and_then(|found| found.read()).is_none_or(|(end, _)| end <= bytes.len()));
            prop_assert!(List(0).longest(&bytes, 3, 1000) < 2000);
        }
    }

    #[test]
    fn a_negative_length_counts_as_the_crate_counts_it() {
        let found = deltas(&[1, -1]);
        assert_eq!(Deltas::of(&found).unwrap().read().unwrap().1, u64::from(u32::MAX));
    }

    #[test]
    fn the_longest_list_is_found_over_runs_and_pages() {
        // Three zeros, of which the last begins a list; 100 ones; 16 packed levels, of the first eight of which one begins a list.
        let levels = [0x06, 0, 0xc8, 0x01, 1, 0x05, 0b1101_1111, 0xff];
        let mut list = List(0);
        assert_eq!(list.longest(&levels, 1, 119), 1 + 100 + 7);
        assert_eq!(list.0, 16);
        // The list goes on in the next page.
        assert_eq!(list.longest(&[0xc8, 0x01, 1], 1, 100), 116);
        assert_eq!(list.longest(&[0x03, 0], 1, 8), 123);
        assert_eq!(list.0, 8);
        // No more levels than the page has, or than there are.
        let run = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2];
        assert_eq!(List(0).longest(&run, 2, 1000), 1000);
        assert_eq!(List(0).longest(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0xff], 1, 1000), 8);
        assert_eq!(List(0).longest(&[0x07, 0xff, 0xff, 0xff], 1, 9), 16);
        // Levels of two bits: 3 1 2 1 3 3 3 3, and then a list begins.
        assert_eq!(List(0).longest(&[0x05, 0b0110_0111, 0xff, 0, 0], 2, 16), 15);
    }

    #[test]
    fn batches_shrink_by_powers_of_two_down_to_a_row() {
        let pass = |rows| Pass { rows, columns: 2, ended: OnceLock::new() };
        let after = |rows, bytes| {
            let pass = pass(rows);
            match (pass.check(bytes), pass.ended()) {
                (Ok(()), None) => rows,
                (Err(_), Some(Ended::Rows(fewer))) => *fewer,
                _ => panic!("another end"),
            }
        };
        assert_eq!(after(8192, 0), 8192);
        assert_eq!(after(8192, 16 << 10), 8192);
        assert_eq!(after(8192, (16 << 10) + 1), 4096);
        assert_eq!(after(100, 1 << 20), 100);
        assert_eq!(after(200, 1 << 20), 128);
        assert_eq!(after(200, u64::MAX), 1);
        assert_eq!(after(1, u64::MAX), 1);
    }
}
