use crate::{Batches, Column, Emit, Error, Facts, Form, Pieces, RowIds, Selection, Table, table};
use arrow_schema::SchemaRef;
use std::sync::Arc;

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

    /// Where the columns that are taken stand in the table.
    fn of_table(&self, selection: &Selection<'_>) -> Result<Vec<usize>, Error> {
        if selection.form != Form::Arrow {
            return Err(Error::Bug("verbatim rows of some columns".into()));
        }
        Ok(selection.columns.iter().map(|&i| self.places[i]).collect())
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

    fn select(&self, rows: &mut RowIds<'_>, selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        let columns = self.of_table(&selection)?;
        self.table.select(rows, Selection { columns: &columns, ..selection }, emit)
    }

    fn select_marked(&self, marked: &[u64], selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        let columns = self.of_table(&selection)?;
        self.table.select_marked(marked, Selection { columns: &columns, ..selection }, emit)
    }
}
