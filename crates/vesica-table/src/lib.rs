//! CSV, Parquet and Arrow in and out; knows nothing of protocols.
//!
//! A table is read twice. The first pass takes the key columns as text ([`Table::keys`]); the second takes the rows
//! that matched ([`Table::select`]). Between the two, row numbers are all that anybody needs. The second pass is
//! usually written as
//!
//! ```no_run
//! # use vesica_table::*; use vesica_types::RowId;
//! # fn job(found: Vec<(RowId, u64)>, memory: usize, workers: usize, dir: &std::path::Path) -> Result<(), Error> {
//! let table = open(&Input::new("alice.csv"))?;
//! // … keys, protocol, join …
//! let mut picks = Picks::new(table.rows().unwrap_or(0), memory / 4, dir)?;
//! for (row, position) in found {
//!     picks.push(row, position)?;
//! }
//! let mut sink = create(&Output::new("matched.csv"), &table.facts())?;
//! gather(&*table, picks, memory / 2, workers, dir, &mut *sink)?;
//! let written = sink.finish()?.commit()?;
//! # Ok(()) }
//! ```
//!
//! Nothing here holds a table in memory: what does not fit a budget goes to files without a name ([`Spill`],
//! [`Reorder`]), which vanish however the program ends, and whose content is masked by a key that is never written.

#![forbid(unsafe_code)]

mod collect;
mod csv;
mod dataset;
mod dictionary;
mod disk;
mod error;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod gather;
mod in_order;
mod in_turn;
mod ipc;
mod ipc_sizes;
mod listing;
mod memory;
mod ones;
mod open;
mod origin;
mod parquet;
mod parquet_sizes;
mod parquet_thrift;
mod program;
mod reorder;
mod scan;
mod sealed;
mod sink;
mod source;
mod spill;
mod spool;
mod stage;
mod table;
mod text;
mod threads;
mod under_way;
mod view;
mod widened;

pub use collect::{Collect, Rows};
pub use disk::{ReadAt, free_bytes};
pub use error::{Error, Fault, folder};
pub use format::Format;
pub use gather::{Picks, gather};
pub use in_order::InOrder;
pub use listing::place;
pub use memory::Memory;
pub use open::{open, open_until};
pub use origin::{Origin, Program, unanchor};
pub use reorder::Reorder;
pub use sink::{Output, Parts, Sink, create, create_as};
pub use source::{Input, Source};
pub use spill::{Blocks, MAX_BUCKETS, Slabs, Spill, Spilled};
pub use spool::spool;
pub use stage::{Staged, Written};
pub use table::{Batches, Column, Emit, Facts, Form, Header, Piece, Pieces, RowIds, Selection, Stored, Table};
pub use text::spellings;
pub use threads::on_threads;
pub use view::View;
pub use widened::{Beside, Widened};
