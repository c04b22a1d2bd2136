use crate::{Batches, Column, Error, Facts, Form, Pieces, Table, table};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::sync::Arc;
use vesica_types::RowId;

/// Some columns of a table, in an order of their own. What is written of a CSV through it is not verbatim: fields keep
/// their text, and quotes stand only where they must.
pub struct View<'a> {
    table: &'a dyn Table,
    places: Vec<usize>,
    columns: Vec<Column>,
    schema: SchemaRef,
}

impl<'a> View<'a> {
    /// The columns of `table` called `names`, in that order.
    ///
    /// # Errors
    /// [`Error::Column`] and [`Error::Ambiguous`].
    pub fn new(table: &'a dyn Table, names: &[String]) -> Result<Self, Error> {
        let places = table::places(table.path(), table.columns(), names)?;
        let columns = places.iter().map(|&i| table.columns()[i].clone()).collect();
        let schema = table.schema().project(&places).map_err(|e| Error::Bug(e.to_string()))?;
        Ok(Self { table, places, columns, schema: Arc::new(schema) })
    }

    /// Where these columns stand in the table.
    fn of_table(&self, columns: &[usize]) -> Vec<usize> {
        columns.iter().map(|&i| self.places[i]).collect()
    }
}

impl Table for View<'_> {
    fn facts(&self) -> Facts<'_> {
        // Rows of some columns are not written byte for byte.
        Facts { columns: &self.columns, schema: &self.schema, header: None, ..self.table.facts() }
    }

    fn file_ends(&self, workers: usize) -> Result<Vec<u64>, Error> {
        self.table.file_ends(workers)
    }

    fn texts(&self, keys: &[String], values: &[String], workers: usize) -> Result<Batches, Error> {
        self.table.texts(keys, values, workers)
    }

    fn pieces(&self, columns: &[String], workers: usize) -> Result<Pieces, Error> {
        self.table.pieces(columns, workers)
    }

    fn select(
        &self,
        rows: &mut dyn Iterator<Item = Result<RowId, Error>>,
        form: Form,
        columns: &[usize],
        workers: usize,
        emit: &mut dyn FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if form != Form::Arrow {
            return Err(Error::Bug("verbatim rows of some columns".into()));
        }
        self.table.select(rows, form, &self.of_table(columns), workers, emit)
    }

    fn select_marked(
        &self,
        marked: &[u64],
        form: Form,
        columns: &[usize],
        workers: usize,
        emit: &mut dyn FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if form != Form::Arrow {
            return Err(Error::Bug("verbatim rows of some columns".into()));
        }
        self.table.select_marked(marked, form, &self.of_table(columns), workers, emit)
    }
}
