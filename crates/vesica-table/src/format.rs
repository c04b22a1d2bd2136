//! What a file is: by its name, and by its first bytes.

use std::path::{Path, PathBuf};

/// A file format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Text by RFC 4180 with a header, plain or compressed (`.csv`, `.csv.gz`, `.csv.zst`).
    ///
    /// Read as Python's `csv` module reads it: fields are separated by commas; a field that begins with `"` goes to the
    /// next `"` that is not doubled; a `"` elsewhere is a plain character; `\n`, `\r\n` and `\r` end a row outside
    /// quotes. A blank line is a row with an empty field if the table has one column, and no row otherwise. Only the
    /// header and the keys must be UTF-8. A row has at most 64 MiB.
    Csv,
    /// Apache Parquet (`.parquet`).
    Parquet,
    /// Arrow IPC (`.arrow`, `.feather`, `.ipc`); both the file and the stream are read, the file is written.
    Ipc,
}

vesica_types::words!(Format { Csv = "csv", Parquet = "parquet", Ipc = "arrow" });

impl Format {
    /// The format that the name of a file says, if it does.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let ends = |endings: &[&str]| endings.iter().any(|e| name.ends_with(e));
        if ends(&[".csv", ".csv.gz", ".csv.zst"]) {
            Some(Format::Csv)
        } else if ends(&[".parquet"]) {
            Some(Format::Parquet)
        } else if ends(&[".arrow", ".feather", ".ipc"]) {
            Some(Format::Ipc)
        } else {
            None
        }
    }
}

/// The name of a file, without the ending that says its format.
pub(crate) fn stem(path: &Path) -> PathBuf {
    let mut name = PathBuf::from(path.file_name().unwrap_or_default());
    if Packing::of(&name) != Packing::None {
        name.set_extension("");
    }
    if Format::of(&name).is_some() {
        name.set_extension("");
    }
    name
}

/// What the first bytes of a file say it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Magic {
    Gzip,
    Zstd,
    Parquet,
    Ipc,
    IpcStream,
    FeatherV1,
    Utf16,
    Other,
}

impl Magic {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        match bytes {
            [0x1f, 0x8b, ..] => Magic::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Magic::Zstd,
            [b'P', b'A', b'R', b'1', ..] => Magic::Parquet,
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Magic::Ipc,
            [0xff, 0xff, 0xff, 0xff, ..] => Magic::IpcStream,
            [b'F', b'E', b'A', b'1', ..] => Magic::FeatherV1,
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Magic::Utf16,
            _ => Magic::Other,
        }
    }

    pub(crate) fn format(self) -> Format {
        match self {
            Magic::Parquet => Format::Parquet,
            Magic::Ipc | Magic::IpcStream | Magic::FeatherV1 => Format::Ipc,
            Magic::Gzip | Magic::Zstd | Magic::Utf16 | Magic::Other => Format::Csv,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Magic::Gzip => "gzip",
            Magic::Zstd => "zstd",
            Magic::Parquet => "Parquet",
            Magic::Ipc | Magic::IpcStream => "Arrow IPC",
            Magic::FeatherV1 => "Feather version 1",
            Magic::Utf16 => "UTF-16 text",
            Magic::Other => "something else",
        }
    }
}

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    /// What the name of a file says.
    pub(crate) fn of(path: &Path) -> Self {
        let name = path.file_name().map(|n| n.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        if name.ends_with(".gz") {
            Packing::Gzip
        } else if name.ends_with(".zst") {
            Packing::Zstd
        } else {
            Packing::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_formats() {
        for (name, format) in [
            ("a.csv", Some(Format::Csv)),
            ("A.CSV", Some(Format::Csv)),
            ("a b;c.csv.gz", Some(Format::Csv)),
            ("a.csv.zst", Some(Format::Csv)),
            ("a.parquet", Some(Format::Parquet)),
            ("a.arrow", Some(Format::Ipc)),
            ("a.feather", Some(Format::Ipc)),
            ("a.ipc", Some(Format::Ipc)),
            ("a.txt", None),
            ("csv", None),
            ("-", None),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
    }
}
