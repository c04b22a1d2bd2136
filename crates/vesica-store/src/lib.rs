//! The store of a service: one side prepares it, many ask.
//!
//! A server evaluates an oblivious function at each of its keys. The store holds a short *tag* of each output, and a value that
//! only the output opens. It is a folder of a manifest and of parts, and it is what clients download: no key and no value can be
//! read from it by whoever has no output. This crate knows nothing of curves and of connections.
//!
//! ```
//! # use vesica_store::*;
//! # fn main() -> Result<()> {
//! # let (dir, scratch) = (tempfile::tempdir().unwrap(), std::env::temp_dir());
//! # let (folder, output) = (dir.path(), [7; 32]);
//! let shape = Shape { lifetime: 1 << 20, value: Some(100) };
//! let mut builder = Builder::new(folder, shape, 64 << 20, &scratch)?;
//! let mut batch = builder.sealer().batch(); // on any thread
//! batch.add(&output, Some(b"Ada Lovelace,0.93"), 0)?;
//! builder.push(&batch)?;
//! builder.finish([0; 32], 2)?; // the hash of the offer, and threads
//!
//! let store = Store::open(folder)?;
//! let found = store.find(&output)?.expect("it was pushed");
//! assert_eq!(found.value(&output).as_deref(), Some(&b"Ada Lovelace,0.93"[..]));
//! # Ok(()) }
//! ```
//!
//! [`Delta`] adds a part to a store, [`Incoming`] copies one over a connection. The format, and what it tells whoever holds
//! the files, is in `docs/src/design/14-store.md`.

mod backend;
mod builder;
mod chunks;
mod elias_fano;
mod error;
mod folder;
mod fresh;
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod incoming;
mod manifest;
mod part;
mod region;
mod shape;
mod store;
mod tag;
mod value;

pub use builder::{Batch, Builder, Built, Delta, Sealer};
pub use chunks::CHUNK;
pub use error::{Error, Result};
pub use folder::{FolderLock, lock_folder};
pub use fresh::Fresh;
pub use incoming::{Incoming, IncomingPart};
pub use manifest::{Limits, MOST_MANIFEST_BYTES, MOST_PARTS, Manifest, Part};
pub use shape::{MOST_LIFETIME, MOST_TAGS, MOST_VALUE, Shape};
pub use store::{Found, Says, Store};
pub use tag::head;
pub use value::{open as open_value, seal as seal_value, sealed_bytes};
