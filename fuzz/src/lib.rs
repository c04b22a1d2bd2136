//! What several fuzzing targets need.

pub mod protocol;
pub mod tables;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A folder of this process's own, in memory where the system has such a place: a target may write millions of files.
pub fn scratch() -> &'static Path {
    static SCRATCH: LazyLock<PathBuf> = LazyLock::new(|| {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = base.join(format!("vesica-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for scratch files");
        folder
    });
    &SCRATCH
}

/// A file in [`scratch`] that holds `bytes`, and that only this user may read, as is asked of a private key's.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let path = scratch().join(name);
    let file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(bytes)).expect("a scratch file");
    path
}

/// `bytes` as pieces, each behind its length in two bytes. The last piece may be shorter than it says.
pub fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*len))));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// The bytes whose [`pieces`] are these.
pub fn joined(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        let piece = piece.as_ref();
        bytes.extend_from_slice(&u16::try_from(piece.len()).expect("a piece of less than 64 KiB").to_le_bytes());
        bytes.extend_from_slice(piece);
    }
    bytes
}

/// The plan of one side of a job between alice and bob. It keeps a ledger in [`scratch`].
pub fn plan(name: &str, protocol: &str) -> vesica_spec::Plan {
    let text = format!(
        "[shared]\nid = \"fuzz\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"{protocol}\"\nlearns = [\"alice\", \"bob\"]\n\
         insecure = true\n\n[mine]\nname = \"{name}\"\nlisten = \"localhost:1\"\nworkers = 4\nmemory = \"1 GiB\"\n\
         input = {{ path = \"a.csv\", keys = [\"id\"] }}\noutput = {{ path = \"o.csv\" }}\nresume = \"{}\"\n",
        scratch().display()
    );
    let spec = vesica_spec::parse(&text).expect("a job");
    vesica_spec::plan(&spec).expect("a plan")
}
