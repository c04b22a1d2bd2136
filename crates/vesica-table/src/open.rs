use crate::csv::CsvTable;
use crate::dataset::Dataset;
use crate::format::Magic;
use crate::ipc::IpcTable;
use crate::listing::{Kind, kind};
use crate::parquet::ParquetTable;
use crate::{Error, Format, Input, Origin, Source, Table};
use std::sync::Arc;

/// Opens a table. The header or footer of each file is read and checked; no rows are. What comes through a pipe, or from a
/// program, is read to its end.
///
/// # Errors
/// All that can be known before reading rows: a missing or unreadable file, an unknown format, a bad header; files of one table
/// that do not go together; a program that fails.
pub fn open(input: &Input) -> Result<Box<dyn Table>, Error> {
    open_until(input, &|| false)
}

/// [`open`], unless `stop` says that nobody wants the table any more: it is asked several times a second while a program or a
/// pipe is waited for.
///
/// # Errors
/// Those of [`open`]; [`Error::Stopped`].
pub fn open_until(input: &Input, stop: &dyn Fn() -> bool) -> Result<Box<dyn Table>, Error> {
    match &input.origin {
        Origin::Stdin | Origin::Command(_) => of_source(Source::piped(input, stop)?, input.format),
        Origin::Path(path) => match kind(path)? {
            Kind::File => of_source(Source::open(path, input.temp.as_deref(), stop)?, input.format),
            Kind::Several => {
                Ok(Box::new(Dataset::open(&input.origin.name(), std::slice::from_ref(path), input.format)?))
            }
        },
        Origin::Paths(paths) => Ok(Box::new(Dataset::open(&input.origin.name(), paths, input.format)?)),
    }
}

/// The table in one file. Without a `format` its name says it, and of what came through a pipe its first bytes.
pub(crate) fn of_source(source: Arc<Source>, format: Option<Format>) -> Result<Box<dyn Table>, Error> {
    let mut magic = [0; 8];
    let n = source.peek(&mut magic)?;
    let found = Magic::of(&magic[..n]);
    let path = source.path().to_owned();
    let format = match format.or_else(|| Format::of(&path)) {
        Some(format) => format,
        None if source.spooled => found.format(),
        None => return Err(Error::Unnamed { path }),
    };
    let mislabelled =
        |remedy| Error::Mislabelled { path: path.clone(), named: format.name(), found: found.name(), remedy };
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
