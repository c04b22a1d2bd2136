//! A walk over the footer of a Parquet file, and over the heads of its pages, that keeps nothing but some numbers.
//!
//! Both are structures in Thrift's compact protocol:
//! ```text
//! structure   fields | 00
//! field       step to its number << 4 | type | value
//!             0 << 4 | type | its number | value
//! list        length << 4 | type | elements           or, if it has 15 and more: f << 4 | type | length | elements
//! map         length | type of keys << 4 | type of values | keys and values         or, if it is empty: 00
//! bytes       length | bytes
//! number      seven bits a byte, the lowest first; where it has a sign, 0, 1, 2, 3 stand for 0, -1, 1, -2
//! ```
//! The parquet crate reads a field that it knows as the format defines it, whatever type the file says it has, and skips a field
//! that it does not know by the type that the file says. A walk refuses a known field of another type. So both take the same
//! bytes for the same things, and what the walk has found to be small is small for the crate.

use Kind::{Bool, Byte, Bytes, Double, Int, List, Struct};

/// How deeply what the crate does not know may be nested. It gives up there too.
const DEEPEST: u8 = 64;

/// Why a walk ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The bytes end before the structure does.
    Short,
    /// It is no structure of this kind, or it says what cannot be.
    Wrong(String),
}

/// The numbers in the fields 0 to 8 of a structure, where it has them.
pub(crate) type Numbers = [Option<i64>; 9];

/// A structure of the format: its name there, and the fields that the parquet crate reads, by number.
pub(crate) struct Shape {
    name: &'static str,
    fields: &'static [(i16, Kind)],
}

/// What a field holds.
enum Kind {
    Bool,
    Byte,
    /// A number of any width, or a value of an enumeration.
    Int,
    Double,
    Bytes,
    List(&'static Kind),
    Struct(&'static Shape),
}

impl Kind {
    /// Whether `tag` is its type on the wire.
    fn has(&self, tag: u8) -> bool {
        match self {
            Bool => matches!(tag, 1 | 2),
            Byte => tag == 3,
            Int => matches!(tag, 4..=6),
            Double => tag == 7,
            Bytes => tag == 8,
            List(_) => matches!(tag, 9 | 10),
            Struct(_) => tag == 12,
        }
    }
}

const fn shape(name: &'static str, fields: &'static [(i16, Kind)]) -> Shape {
    Shape { name, fields }
}

/// A footer.
pub(crate) static FILE: Shape = shape(
    "FileMetaData",
    &[
        (1, Int),
        (2, List(&Struct(&SCHEMA_ELEMENT))),
        (3, Int),
        (4, List(&Struct(&ROW_GROUP))),
        (5, List(&Struct(&KEY_VALUE))),
        (6, Bytes),
        (7, List(&Struct(&COLUMN_ORDER))),
    ],
);
static SCHEMA_ELEMENT: Shape = shape(
    "SchemaElement",
    &[
        (1, Int),
        (2, Int),
        (3, Int),
        (4, Bytes),
        (5, Int),
        (6, Int),
        (7, Int),
        (8, Int),
        (9, Int),
        (10, Struct(&LOGICAL_TYPE)),
    ],
);
static LOGICAL_TYPE: Shape = shape(
    "LogicalType",
    &[
        (1, Struct(&EMPTY)),
        (2, Struct(&EMPTY)),
        (3, Struct(&EMPTY)),
        (4, Struct(&EMPTY)),
        (5, Struct(&DECIMAL)),
        (6, Struct(&EMPTY)),
        (7, Struct(&TIME)),
        (8, Struct(&TIME)),
        (10, Struct(&INTEGER)),
        (11, Struct(&EMPTY)),
        (12, Struct(&EMPTY)),
        (13, Struct(&EMPTY)),
        (14, Struct(&EMPTY)),
        (15, Struct(&EMPTY)),
        (16, Struct(&VARIANT)),
        (17, Struct(&GEOGRAPHY)),
        (18, Struct(&GEOGRAPHY)),
        (19, Struct(&EMPTY)),
    ],
);
static EMPTY: Shape = shape("", &[]);
static DECIMAL: Shape = shape("DecimalType", &[(1, Int), (2, Int)]);
static TIME: Shape = shape("TimeType", &[(1, Bool), (2, Struct(&TIME_UNIT))]);
static TIME_UNIT: Shape = shape("TimeUnit", &[(1, Struct(&EMPTY)), (2, Struct(&EMPTY)), (3, Struct(&EMPTY))]);
static INTEGER: Shape = shape("IntType", &[(1, Byte), (2, Bool)]);
static VARIANT: Shape = shape("VariantType", &[(1, Byte)]);
static GEOGRAPHY: Shape = shape("GeographyType", &[(1, Bytes), (2, Int)]);
static COLUMN_ORDER: Shape = shape("ColumnOrder", &[(1, Struct(&EMPTY)), (2, Struct(&EMPTY)), (3, Struct(&EMPTY))]);
static KEY_VALUE: Shape = shape("KeyValue", &[(1, Bytes), (2, Bytes)]);
static ROW_GROUP: Shape = shape(
    "RowGroup",
    &[(1, List(&Struct(&COLUMN))), (2, Int), (3, Int), (4, List(&Struct(&SORTING))), (5, Int), (7, Int)],
);
static SORTING: Shape = shape("SortingColumn", &[(1, Int), (2, Bool), (3, Bool)]);
static COLUMN: Shape =
    shape("ColumnChunk", &[(1, Bytes), (2, Int), (3, Struct(&COLUMN_META)), (4, Int), (5, Int), (6, Int), (7, Int)]);
static COLUMN_META: Shape = shape(
    "ColumnMetaData",
    &[
        (1, Int),
        (2, List(&Int)),
        (4, Int),
        (5, Int),
        (6, Int),
        (7, Int),
        (9, Int),
        (10, Int),
        (11, Int),
        (12, Struct(&STATISTICS)),
        (13, List(&Struct(&ENCODING_STATS))),
        (14, Int),
        (15, Int),
        (16, Struct(&SIZES)),
        (17, Struct(&GEOSPATIAL)),
    ],
);
static STATISTICS: Shape = shape(
    "Statistics",
    &[(1, Bytes), (2, Bytes), (3, Int), (4, Int), (5, Bytes), (6, Bytes), (7, Bool), (8, Bool), (9, Int)],
);
static ENCODING_STATS: Shape = shape("PageEncodingStats", &[(1, Int), (2, Int), (3, Int)]);
static SIZES: Shape = shape("SizeStatistics", &[(1, Int), (2, List(&Int)), (3, List(&Int))]);
static GEOSPATIAL: Shape = shape("GeospatialStatistics", &[(1, Struct(&BOX)), (2, List(&Int))]);
static BOX: Shape = shape(
    "BoundingBox",
    &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)],
);

/// What stands before a page.
pub(crate) static PAGE: Shape = shape(
    "PageHeader",
    &[
        (1, Int),
        (2, Int),
        (3, Int),
        (4, Int),
        (5, Struct(&DATA_PAGE)),
        (6, Struct(&EMPTY)),
        (7, Struct(&DICTIONARY_PAGE)),
        (8, Struct(&DATA_PAGE_V2)),
    ],
);
static DATA_PAGE: Shape = shape("DataPageHeader", &[(1, Int), (2, Int), (3, Int), (4, Int)]);
static DICTIONARY_PAGE: Shape = shape("DictionaryPageHeader", &[(1, Int), (2, Int), (3, Bool)]);
static DATA_PAGE_V2: Shape =
    shape("DataPageHeaderV2", &[(1, Int), (2, Int), (3, Int), (4, Int), (5, Int), (6, Int), (7, Bool)]);

/// Walks the structure that `bytes` begin with, and says how long it is. At the end of each structure that the crate knows,
/// `seen` is told its name and its numbers, and may end the walk.
pub(crate) fn walk(
    bytes: &[u8],
    shape: &'static Shape,
    seen: &mut dyn FnMut(&'static str, &Numbers) -> Result<(), Bad>,
) -> Result<usize, Bad> {
    let mut walk = Walk { rest: bytes, flags: bytes.len(), seen };
    walk.structure(Some(shape), DEEPEST)?;
    Ok(bytes.len() - walk.rest.len())
}

struct Walk<'a> {
    rest: &'a [u8],
    /// How many truth values may still come in lists that the crate does not know. Each takes a byte, but the crate counts through
    /// such lists without taking any.
    flags: usize,
    seen: &'a mut dyn FnMut(&'static str, &Numbers) -> Result<(), Bad>,
}

impl Walk<'_> {
    fn structure(&mut self, shape: Option<&'static Shape>, depth: u8) -> Result<(), Bad> {
        let mut numbers = Numbers::default();
        let mut id = 0i16;
        loop {
            let head = self.byte()?;
            let tag = head & 0xf;
            if tag == 0 {
                break;
            }
            id = match head >> 4 {
                0 => signed(self.number()?) as i16,
                step => id.wrapping_add(step.into()),
            };
            let kind = shape.and_then(|shape| shape.fields.iter().find(|field| field.0 == id)).map(|field| &field.1);
            let number = self.value(tag, kind, depth)?;
            if let (Some(Int), Some(slot)) = (kind, usize::try_from(id).ok().and_then(|id| numbers.get_mut(id))) {
                *slot = Some(number);
            }
        }
        shape.map_or(Ok(()), |shape| (self.seen)(shape.name, &numbers))
    }

    /// Walks a value, which is returned if it is a number.
    fn value(&mut self, tag: u8, kind: Option<&'static Kind>, depth: u8) -> Result<i64, Bad> {
        if kind.is_some_and(|kind| !kind.has(tag)) {
            return Err(wrong("a field in it has a type that the format does not give it"));
        }
        // What is known is nested as deeply as the format says, and no deeper.
        let deeper = match kind {
            Some(_) => depth,
            None => depth.checked_sub(1).ok_or_else(|| wrong("it is nested too deeply"))?,
        };
        match tag {
            1 | 2 => {}
            3 => self.skip(1)?,
            4..=6 => return Ok(signed(self.number()?)),
            7 => self.skip(8)?,
            8 => {
                let len = self.number()?;
                self.skip(len)?;
            }
            9 | 10 => {
                let head = self.byte()?;
                let len = match head >> 4 {
                    15 => self.number()?,
                    len => len.into(),
                };
                let elements = match kind {
                    Some(List(elements)) => Some(*elements),
                    _ => None,
                };
                // Some writers give an empty list no type.
                if head != 0 {
                    self.elements(len, &[(head & 0xf, elements)], deeper)?;
                }
            }
            11 => {
                let len = self.number()?;
                if len > 0 {
                    let tags = self.byte()?;
                    self.elements(len, &[(tags >> 4, None), (tags & 0xf, None)], deeper)?;
                }
            }
            12 => {
                let shape = match kind {
                    Some(Struct(shape)) => Some(*shape),
                    _ => None,
                };
                self.structure(shape, deeper)?;
            }
            13 => self.skip(16)?,
            _ => return Err(wrong("a field in it has a type that does not exist")),
        }
        Ok(0)
    }

    /// Walks `len` elements of a list, or entries of a map.
    fn elements(&mut self, len: u64, of: &[(u8, Option<&'static Kind>)], depth: u8) -> Result<(), Bad> {
        if of.iter().all(|(tag, _)| matches!(tag, 1 | 2)) {
            let left = usize::try_from(len).ok().and_then(|len| self.flags.checked_sub(len));
            self.flags = left.ok_or_else(|| wrong("a list in it has more elements than bytes"))?;
            return Ok(());
        }
        for _ in 0..len {
            for (tag, kind) in of {
                self.value(*tag, *kind, depth)?;
            }
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, Bad> {
        let (first, rest) = self.rest.split_first().ok_or(Bad::Short)?;
        self.rest = rest;
        Ok(*first)
    }

    fn skip(&mut self, len: u64) -> Result<(), Bad> {
        let len = usize::try_from(len).map_err(|_| Bad::Short)?;
        self.rest = self.rest.get(len..).ok_or(Bad::Short)?;
        Ok(())
    }

    fn number(&mut self) -> Result<u64, Bad> {
        let (number, rest) = number(self.rest)?;
        self.rest = rest;
        Ok(number)
    }
}

/// The number that `bytes` begin with, and what follows it.
pub(crate) fn number(bytes: &[u8]) -> Result<(u64, &[u8]), Bad> {
    let mut number = 0;
    for (i, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if *byte < 0x80 {
            return Ok((number, &bytes[i + 1..]));
        }
    }
    Err(if bytes.len() < 10 { Bad::Short } else { wrong("a number in it has more than ten bytes") })
}

/// The signed number that `number` stands for.
pub(crate) fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

pub(crate) fn wrong(why: impl Into<String>) -> Bad {
    Bad::Wrong(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use std::sync::Arc;

    fn walked(bytes: &[u8]) -> Result<usize, Bad> {
        walk(bytes, &FILE, &mut |_, _| Ok(()))
    }

    fn refused(bytes: &[u8], told: &str) {
        match walked(bytes) {
            Err(Bad::Wrong(why)) => assert!(why.contains(told), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_footer_is_walked_to_its_end() {
        let columns: [(&str, ArrayRef); 2] = [
            ("number", Arc::new(Int64Array::from(vec![1, 2, 3]))),
            ("text", Arc::new(StringArray::from(vec![Some("a"), None, Some("ccc")]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let (file, end) = file.split_last_chunk::<8>().unwrap();
        let len = u32::from_le_bytes(*end.first_chunk().unwrap()) as usize;
        let footer = &file[file.len() - len..];
        let mut names = Vec::new();
        let walked = walk(footer, &FILE, &mut |name, numbers| {
            names.push(name);
            if name == "FileMetaData" {
                assert_eq!(numbers[3], Some(3));
            }
            Ok(())
        });
        assert_eq!(walked, Ok(len));
        assert_eq!(names.iter().filter(|name| **name == "SchemaElement").count(), 3);
        assert_eq!(names.iter().filter(|name| **name == "ColumnMetaData").count(), 2);
        assert_eq!(names.last(), Some(&"FileMetaData"));
        for cut in 0..len {
            assert_eq!(walk(&footer[..cut], &FILE, &mut |_, _| Ok(())), Err(Bad::Short), "{cut}");
        }
    }

    #[test]
    fn what_nobody_knows_is_passed_over_by_its_type() {
        // The fields 20 and on: two truth values, a byte, numbers of two bytes, 8 bytes, a text, a list, a set, maps, a structure,
        // 16 bytes; then one whose number stands behind its type, and lists without elements.
        let fields: [&[u8]; 14] = [
            &[0x01, 40],
            &[0x12],
            &[0x13, 9],
            &[0x14, 0x80, 1],
            &[0x17, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x18, 2, b'a', b'b'],
            &[0x19, 0x25, 1, 2],
            &[0x1a, 0x13, 0xff],
            &[0x1b, 0],
            &[0x1b, 1, 0x58, 4, 1, b'x'],
            &[0x1c, 0x15, 2, 0],
            &[0x1d, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
            &[0x05, 100, 7],
            &[0x19, 0],
        ];
        let mut bytes = fields.concat();
        bytes.push(0);
        assert_eq!(walked(&bytes), Ok(bytes.len()));
    }

    #[test]
    fn the_walk_takes_what_the_crate_takes() {
        // The number of rows, as a number of two and of eight bytes, and as a text.
        assert_eq!(walked(&[0x34, 2, 0]), Ok(3));
        assert_eq!(walked(&[0x36, 2, 0]), Ok(3));
        refused(&[0x38, 1, b'3', 0], "a type that the format does not give it");
        // Columns that are numbers, and the order of columns that is a truth value.
        refused(&[0x29, 0x15, 2, 0], "a type that the format does not give it");
        refused(&[0x79, 0x1c, 0x11, 0, 0], "a type that the format does not give it");
        refused(&[0xfe, 0], "a type that does not exist");
        refused(&[0x16, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0], "more than ten bytes");
    }

    #[test]
    fn a_walk_takes_no_longer_than_its_bytes_are_long() {
        // Lists of truth values, of which the crate takes no bytes: one that is too long, and many.
        refused(&[0xf9, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0], "more elements than bytes");
        let list = [0xf1, 100];
        let many = [&[0xf9, 0xf9, 100][..], &list.repeat(100)].concat();
        refused(&many, "more elements than bytes");
        assert_eq!(walked(&[0xf9, 0x21, 0]), Ok(3));
        // Other lists end where the bytes do.
        assert_eq!(walked(&[0xf9, 0xf3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]), Err(Bad::Short));
        // Lists in lists: as deep as the crate goes, and deeper.
        let nested = |depth: usize| [&[0xf9][..], &[0x19].repeat(depth), &[0, 0]].concat();
        assert_eq!(walked(&nested(60)), Ok(63));
        refused(&nested(70), "nested too deeply");
    }
}
