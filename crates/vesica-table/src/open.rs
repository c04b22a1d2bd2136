use crate::csv::CsvTable;
use crate::format::Magic;
use crate::ipc::IpcTable;
use crate::parquet::ParquetTable;
use crate::{Error, Format, Input, Source, Table};

/// Opens a table. The header or footer is read and checked; no rows are.
///
/// # Errors
/// All that can be known before reading rows: a missing or unreadable file, an unknown format, a bad header.
pub fn open(input: &Input) -> Result<Box<dyn Table>, Error> {
    let source = Source::open(input)?;
    let mut magic = [0; 8];
    let n = source.peek(&mut magic)?;
    let found = Magic::of(&magic[..n]);
    let format = match input.format.or_else(|| Format::of(&input.path)) {
        Some(format) => format,
        None if source.spooled => found.format(),
        None => return Err(Error::Unnamed { path: input.path.clone() }),
    };
    let mislabelled =
        |remedy| Error::Mislabelled { path: input.path.clone(), named: format.name(), found: found.name(), remedy };
    match (format, found) {
        (Format::Csv, Magic::Parquet) => Err(mislabelled("set format = \"parquet\"")),
        (Format::Csv, Magic::Ipc) => Err(mislabelled("set format = \"arrow\"")),
        (Format::Csv, Magic::Utf16) => Err(mislabelled("save it as UTF-8")),
        (Format::Csv, _) => Ok(Box::new(CsvTable::open(source)?)),
        (Format::Parquet | Format::Ipc, Magic::Gzip | Magic::Zstd) => Err(mislabelled("decompress it first")),
        (Format::Parquet, Magic::Parquet) => Ok(Box::new(ParquetTable::open(source)?)),
        (Format::Parquet, _) => Err(mislabelled("name the format that it has, or copy the file again")),
        (Format::Ipc, Magic::Parquet) => Err(mislabelled("set format = \"parquet\"")),
        (Format::Ipc, Magic::FeatherV1) => Err(mislabelled("write it again as Feather version 2")),
        (Format::Ipc, _) => Ok(Box::new(IpcTable::open(source, found == Magic::Ipc)?)),
    }
}
