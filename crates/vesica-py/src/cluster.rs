//! A run of a cluster, whose rows and workers are on several machines: what its driver, its tasks and its lanes call. What is decided
//! where is in `python/vesica/ray`.

use crate::failure::Failure;
use crate::table::{NAME, Table};
use crate::work::{Tell, Told, piece, wait, work};
use crate::{backend, document};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, RecordBatch, UInt32Array, UInt64Array};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_select::concat::concat_batches;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use vesica::{Control, Fault, RunId};
use vesica_job::cluster::Cut;
use vesica_job::{JobError, cluster};

/// What goes wrong with a lane. A link that broke, or that the other side stopped, is the network's fault: the lane comes again. If the other
/// side is at fault, it says so over the link of the drivers.
fn of_lane(error: JobError) -> Failure {
    if cluster::is_a_break(&error) { Failure::network(error.to_string()) } else { error.into() }
}

/// What goes wrong between the drivers. Where the other one says that the link broke at its end, they meet again as well.
fn of_link(error: JobError) -> Failure {
    if cluster::is_lost(&error) { Failure::network(error.to_string()) } else { error.into() }
}

/// What the digests, the units and the files of a run are sealed with. It tells nobody what it is, and goes to another process under a
/// key of that process alone.
#[pyclass(frozen, module = "vesica._core")]
pub struct Secret(cluster::Secret);

#[pymethods]
impl Secret {
    /// Itself, for the `Recipient` with the public key `to`, in the run that the cluster calls `run`.
    fn hand<'py>(&self, py: Python<'py>, run: &str, to: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let handed = self.0.hand(run, to).map_err(|error| Failure::from(error).raised(py))?;
        Ok(PyBytes::new(py, &handed))
    }
}

/// Whoever is handed a secret, once.
#[pyclass(frozen, module = "vesica._core")]
pub struct Recipient(Mutex<Option<cluster::Recipient>>, [u8; 32]);

#[pymethods]
impl Recipient {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let one = cluster::Recipient::new().map_err(|error| Failure::from(error).raised(py))?;
        let public = one.public();
        Ok(Self(Mutex::new(Some(one)), public))
    }

    /// The public key that it asks with.
    #[getter]
    fn public<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.1)
    }

    /// The secret, from what `Secret.hand` gave.
    fn open(&self, py: Python<'_>, run: &str, handed: &[u8]) -> PyResult<Secret> {
        let one = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let one = one.ok_or_else(|| Failure::bug("a secret was handed over twice").raised(py))?;
        one.open(run, handed).map(Secret).map_err(|error| Failure::from(error).raised(py))
    }
}

/// What rows are cut by: the salt and the number of units.
#[pyclass(frozen, module = "vesica._core")]
pub struct Start(cluster::Start);

#[pymethods]
impl Start {
    /// What `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8], secret: &Secret) -> PyResult<Self> {
        piece(py, &Control::new(()), || Ok(Self(cluster::Start::from_bytes(bytes, &secret.0)?)))
    }

    /// Itself, sealed.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let sealed = self.0.to_bytes().map_err(|error| Failure::from(error).raised(py))?;
        Ok(PyBytes::new(py, &sealed))
    }

    /// What the run is sealed with.
    #[getter]
    fn secret(&self) -> Secret {
        Secret(self.0.secret().clone())
    }

    /// The name of the run: files of another run are of no use.
    #[getter]
    fn run(&self) -> String {
        self.0.run()
    }

    #[getter]
    fn units(&self) -> u32 {
        self.0.units()
    }

    #[getter]
    fn lanes(&self) -> u32 {
        self.0.lanes()
    }

    /// Cuts the rows of `table`, the first of which has the number `first`, into so many parts; with `numbers`, a table of one column of
    /// UInt64, each row has the number that stands there. Gives the sealed pieces as a table with the column `piece`, a row for each part,
    /// how many rows were read, and how many of them have a key.
    #[pyo3(signature = (table, first, parts, numbers=None))]
    fn cut(
        &self,
        py: Python<'_>,
        table: Bound<'_, PyAny>,
        first: u64,
        parts: u32,
        numbers: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(Table, u64, u64)> {
        let reader = backend::import(&table)?;
        let numbers = numbers.map(|numbers| backend::import(&numbers)).transpose()?;
        work(py, None, None, move |ctl| {
            let (schema, batches) = Table::batches(NAME, reader, ctl)?;
            let numbers = numbers.map(|numbers| {
                let (schema, batches) = Table::batches("the numbers of rows", numbers, ctl)?;
                concat_batches(&schema, &batches).map_err(|error| Failure::bug(error.to_string()))
            });
            let numbers = numbers.transpose()?;
            let column = numbers.as_ref().map(|numbers| {
                let column = numbers.columns().first().and_then(|column| column.as_primitive_opt::<UInt64Type>());
                column
                    .filter(|column| column.null_count() == 0)
                    .ok_or_else(|| Failure::bug("numbers of rows are UInt64"))
            });
            let numbers = column.transpose()?.map(|column| &column.values()[..]);
            let Cut { pieces, rows, given } = self.0.cut(schema, batches, (first, numbers), parts)?;
            Ok((table_of_pieces(pieces), rows, given))
        })
    }

    /// Packs the units of a part that have any row. `pieces` is a table with one column, of what each `cut` gave for this part. Gives a row for
    /// each unit: its number, its distinct keys, its rows, the keys sealed and the numbers of its rows sealed.
    fn pack(&self, py: Python<'_>, part: u32, parts: u32, pieces: Bound<'_, PyAny>) -> PyResult<Table> {
        let reader = backend::import(&pieces)?;
        work(py, None, None, move |ctl| {
            let (_, batches) = Table::batches("pieces of cut rows", reader, ctl)?;
            let units = self.0.pack(part, parts, &pieces_of(&batches)?)?.into_iter().map(|packed| {
                table_of([
                    ("unit", Arc::new(UInt32Array::from(vec![packed.unit])) as ArrayRef),
                    ("keys", Arc::new(UInt64Array::from(vec![packed.keys]))),
                    ("given", Arc::new(UInt64Array::from(vec![packed.given]))),
                    ("blob", one_of(packed.blob)),
                    ("rows", one_of(packed.rows)),
                ])
            });
            Ok(Table::many(units.collect()))
        })
    }
}

/// A column of one value, where it stands: it may be many rows.
fn one_of(piece: Vec<u8>) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths([piece.len()]);
    Arc::new(LargeBinaryArray::new(offsets, Buffer::from_vec(piece), None))
}

/// A table of one batch with these columns, which have one length.
fn table_of<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("the columns have one length")
}

/// What lanes need to know.
#[pyclass(frozen, module = "vesica._core")]
pub struct Terms(cluster::Terms);

#[pymethods]
impl Terms {
    /// What `to_bytes` gave.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8], secret: &Secret) -> PyResult<Self> {
        piece(py, &Control::new(()), || Ok(Self(cluster::Terms::from_bytes(bytes, &secret.0)?)))
    }

    /// Itself, sealed.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let sealed = self.0.to_bytes().map_err(|error| Failure::from(error).raised(py))?;
        Ok(PyBytes::new(py, &sealed))
    }

    #[getter]
    fn units(&self) -> u32 {
        self.0.units()
    }

    #[getter]
    fn lanes(&self) -> u32 {
        self.0.lanes()
    }

    /// Bytes of what is kept of a unit that `unit` needs: those at its beginning.
    #[getter]
    fn head(&self) -> usize {
        cluster::HEAD
    }

    /// Lanes at once.
    #[getter]
    fn at_once(&self) -> u32 {
        self.0.at_once()
    }

    /// Units of a lane at once.
    #[getter]
    fn in_lane(&self) -> u32 {
        self.0.in_lane()
    }

    /// Where the other side's doors are.
    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.0.addresses().to_vec()
    }

    /// Whether everything was finished when the parties met, so that there is nothing for lanes to do.
    #[getter]
    fn is_whole(&self) -> bool {
        self.0.is_whole()
    }

    /// Every unit, in the order in which they are to be joined: one order in each run.
    fn order(&self) -> Vec<u32> {
        self.0.order()
    }

    /// What is kept of a unit that the other side's word has settled.
    fn settled<'py>(&self, py: Python<'py>, unit: u32) -> PyResult<Bound<'py, PyBytes>> {
        let kept = self.0.keep(unit, &cluster::Matched::default());
        Ok(PyBytes::new(py, &kept.map_err(|error| Failure::from(error).raised(py))?))
    }

    /// What `settle` wants to know of a unit, of which `kept` is what was kept: its number, digest, keys, rows and rows of the join.
    fn unit(&self, py: Python<'_>, unit: u32, kept: &[u8]) -> PyResult<OfUnit> {
        let (unit, _) = self.0.kept(unit, kept).map_err(|error| Failure::from(error).raised(py))?;
        Ok((unit.id, unit.digest, unit.keys, unit.rows, unit.times))
    }

    /// The rows that a unit found: `row`, `pair` and `times`. `packed` are the numbers of its rows as `pack` gave them, or None if it
    /// has none.
    #[pyo3(signature = (unit, kept, packed))]
    fn rows(&self, py: Python<'_>, unit: u32, kept: &[u8], packed: Option<&[u8]>) -> PyResult<Table> {
        piece(py, &Control::new(()), || Ok(Table::one(self.0.rows(unit, self.0.kept(unit, kept)?.1, packed)?)))
    }

    /// Adds the rows that a unit found, as for `rows`, to what is on the way to the files.
    #[pyo3(signature = (to, unit, kept, packed))]
    fn take(
        &self,
        py: Python<'_>,
        to: Bound<'_, Taking>,
        unit: u32,
        kept: &[u8],
        packed: Option<&[u8]>,
    ) -> PyResult<()> {
        let to = &to.get().0;
        piece(py, &Control::new(()), || {
            let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
            let to = to.as_mut().ok_or_else(|| Failure::bug("rows were added behind the last ones"))?;
            Ok(self.0.take(to, unit, self.0.kept(unit, kept)?.1, packed)?)
        })
    }

    /// What is on the way to the files: the sealed pieces as a table with the column `piece`, a row for each part, and how many rows these are.
    fn seal_rows(&self, py: Python<'_>, rows: Bound<'_, Taking>) -> PyResult<(Table, u64)> {
        let rows = &rows.get().0;
        piece(py, &Control::new(()), || {
            let rows = rows.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (pieces, count) = self.0.seal_rows(rows.ok_or_else(|| Failure::bug("rows were sealed twice"))?)?;
            Ok((table_of_pieces(pieces), count))
        })
    }

    /// The rows of a part: `row` and, where both parties learn, `pair` and `times`. `pieces` is a table with one column, of what each `seal_rows`
    /// gave for this part.
    fn open_rows(&self, py: Python<'_>, pieces: Bound<'_, PyAny>) -> PyResult<Table> {
        let reader = backend::import(&pieces)?;
        work(py, None, None, move |ctl| {
            let (_, batches) = Table::batches("found rows", reader, ctl)?;
            Ok(Table::one(self.0.open_rows(&pieces_of(&batches)?)?))
        })
    }
}

/// Found rows on the way to their files, for so many parts: part n has every file whose number is n modulo the parts.
#[pyclass(frozen, module = "vesica._core")]
pub struct Taking(Mutex<Option<cluster::Taking>>);

#[pymethods]
impl Taking {
    #[new]
    fn new(parts: u32) -> Self {
        Self(Mutex::new(Some(cluster::Taking::new(parts))))
    }
}

/// Pieces as a table with the column `piece`, a row for each.
fn table_of_pieces(pieces: Vec<Vec<u8>>) -> Table {
    Table::many(pieces.into_iter().map(|piece| table_of([("piece", one_of(piece))])).collect())
}

/// The pieces in the only column of these batches, where they stand.
fn pieces_of(batches: &[RecordBatch]) -> Result<Vec<&[u8]>, Failure> {
    let columns = batches.iter().map(|batch| {
        let column = batch.columns().first().and_then(|column| column.as_binary_opt::<i64>());
        column.ok_or_else(|| Failure::bug("pieces are LargeBinary"))
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(columns.iter().flat_map(|column| column.iter().flatten()).collect())
}

/// A unit's number, digest, keys, rows and rows of the join.
type OfUnit = (u32, [u8; 32], u64, u64, u64);

/// A job as it is understood, as JSON, and whether it names no file for the rows. With a table `given`, it needs to name no file to read.
#[pyfunction]
pub fn read_job(py: Python<'_>, document: &str, is_json: bool, given: bool) -> PyResult<(String, bool)> {
    let meant = document::job(document, is_json, given, None).map_err(|failure| failure.raised(py))?;
    let spec = serde_json::to_string(&meant.spec).map_err(|error| Failure::bug(error.to_string()).raised(py))?;
    Ok((spec, meant.keep))
}

/// The driver's part: it meets the other side, and says what has to be said once for the whole run.
#[pyclass(frozen, module = "vesica._core")]
pub struct Meeting {
    meeting: Mutex<Option<cluster::Meeting>>,
    ctl: Control,
    told: Mutex<Receiver<Told>>,
    over: Sender<Told>,
    watch: Option<Py<PyAny>>,
}

impl Meeting {
    /// What one thread does at a time. A call that waits on another thread is told so.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut cluster::Meeting) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let watch = self.watch.as_ref().map(|watch| watch.bind(py));
        wait(py, &self.ctl, (self.over.clone(), &self.told), watch, None, || match self.held()?.as_mut() {
            Some(meeting) => work(meeting),
            None => Err(Failure::bug("a call of a meeting that is closed")),
        })
    }

    fn held(&self) -> Result<MutexGuard<'_, Option<cluster::Meeting>>, Failure> {
        self.meeting.try_lock().map_err(|_| Failure::bug("two calls of a meeting at once"))
    }
}

#[pymethods]
impl Meeting {
    /// `storage` are 32 bytes that name the input. Nobody is contacted.
    #[new]
    #[pyo3(signature = (document, is_json, storage, watch=None))]
    fn new(
        py: Python<'_>,
        document: String,
        is_json: bool,
        storage: &[u8],
        watch: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (over, told) = channel();
        let ctl = match &watch {
            Some(_) => Control::new(Tell(Mutex::new(over.clone()))),
            None => Control::new(()),
        };
        let ctl = RunId::drawn().into_iter().fold(ctl, Control::called);
        let meeting = piece(py, &ctl, || {
            let spec = document::job(&document, is_json, true, None)?.spec;
            let storage: Result<[u8; 32], _> = storage.try_into();
            let storage = storage.map_err(|_| Failure::bug("the input's name has another length than 32 bytes"))?;
            Ok(cluster::Meeting::open(&spec, storage, ctl.clone())?)
        })?;
        Ok(Self { meeting: Mutex::new(Some(meeting)), ctl, told: Mutex::new(told), over, watch })
    }

    /// Whether this side dials its lanes, rather than has doors for them.
    fn dials(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |meeting| Ok(meeting.dials()))
    }

    /// Whether the other party was there when it was last to be met.
    fn reached(&self) -> bool {
        self.meeting.try_lock().is_ok_and(|meeting| meeting.as_ref().is_some_and(cluster::Meeting::reached))
    }

    /// After a link that broke, with these units finished on this side: whether the sides may meet again.
    fn again(&self, py: Python<'_>, finished: Vec<u32>) -> PyResult<bool> {
        self.with(py, |meeting| Ok(meeting.again(&finished)))
    }

    /// Names the run that this side would go on with, if it has one.
    fn run(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, |meeting| Ok(meeting.run()))
    }

    /// Meets the other side, for the first time or once more. `finished` are the units that are done on this side, and `begun` is how often
    /// units were begun here, in all attempts together, or None if that is not known.
    #[pyo3(signature = (finished, begun))]
    fn meet(&self, py: Python<'_>, finished: Vec<u32>, begun: Option<u64>) -> PyResult<Start> {
        self.with(py, |meeting| Ok(Start(meeting.meet(&finished, begun).map_err(of_link)?)))
    }

    /// The run, to be ended without the other side, after `meet` found that gone. None if the other side is needed for anything.
    fn alone(&self, py: Python<'_>, finished: Vec<u32>) -> PyResult<Option<Start>> {
        self.with(py, |meeting| Ok(meeting.alone(&finished).map(Start)))
    }

    /// Tells what was counted, and waits until the other side has counted too. `largest` is the unit with the most keys, and their
    /// number.
    fn size(&self, py: Python<'_>, keys: u64, empty: u64, rows: u64, largest: (u32, u64)) -> PyResult<()> {
        self.with(py, |meeting| meeting.size(keys, empty, rows, largest).map_err(of_link))
    }

    /// Tells where this side's doors are and how many lanes it works on at once; gives what lanes need.
    fn lanes(&self, py: Python<'_>, doors: Vec<String>, seats: u32) -> PyResult<Terms> {
        self.with(py, |meeting| Ok(Terms(meeting.lanes(&doors, seats).map_err(of_link)?)))
    }

    /// Tells the other side how many units are finished. Raises what broke the link, if anything did.
    fn progress(&self, py: Python<'_>, done: u64, total: u64) -> PyResult<()> {
        self.with(py, |meeting| {
            meeting.progress("match", done, Some(total));
            meeting.lost().map_or(Ok(()), |error| Err(of_link(error)))
        })
    }

    /// All lanes of this side are finished, or on the side with the doors: waits for that word.
    fn finished(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |meeting| meeting.finished().map_err(of_link))
    }

    /// Compares what the units found: what `Terms.unit` gave of each. If it raises, nothing that was found may be looked at; it raises an
    /// InputError if that is so for good.
    fn settle(&self, py: Python<'_>, units: Vec<OfUnit>) -> PyResult<()> {
        let unit = |(id, digest, keys, rows, times)| cluster::Unit { id, digest, keys, rows, times };
        let units: Vec<_> = units.into_iter().map(unit).collect();
        self.with(py, |meeting| meeting.settle(&units).map_err(of_link))
    }

    /// Says that this side is done, and hears the same.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |meeting| meeting.finish().map_err(of_link))
    }

    /// Tells the other side that this one stops, and whose fault it is.
    fn abort(&self, py: Python<'_>, fault: &str) -> PyResult<()> {
        let fault = match fault {
            "config" => Fault::Config,
            "input" => Fault::Input,
            "network" => Fault::Network,
            "peer" => Fault::Peer,
            "interrupted" => Fault::Interrupted,
            _ => Fault::Bug,
        };
        self.with(py, |meeting| {
            meeting.abort(fault);
            Ok(())
        })
    }

    /// Says goodbye; gives the report as JSON. `lanes` are the costs that closed lanes gave, and `begun` is how often units were begun, in
    /// all attempts together.
    fn close(&self, py: Python<'_>, lanes: Vec<String>, begun: u64) -> PyResult<String> {
        self.with(py, |meeting| Ok(meeting.close(&lanes, begun)?.to_json()))
    }

    /// Forgets the run, whose result is in its place.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, &self.ctl, (self.over.clone(), &self.told), None, None, || match self.held()?.take() {
            Some(meeting) => Ok(meeting.forget()?),
            None => Err(Failure::bug("a run was forgotten twice")),
        })
    }

    /// Stops whatever is under way, for good.
    fn cancel(&self) {
        self.ctl.cancel();
    }
}

/// Breaks of a lane's link in a row: since more of its units were finished than ever before.
#[pyclass(frozen, module = "vesica._core")]
pub struct Breaks(Mutex<cluster::Breaks>);

#[pymethods]
impl Breaks {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// The link broke, and `units` of `of` are finished. Whether it may be made again.
    fn again(&self, units: u64, of: u32) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).again(units, of)
    }

    /// How many there were in a row.
    #[getter]
    fn times(&self) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).times()
    }
}

/// A link of one of a run's lanes, and the units on it.
#[pyclass(frozen, module = "vesica._core")]
pub struct Lane {
    /// None once it is closed.
    lane: RwLock<Option<cluster::Lane>>,
    number: u32,
    terms: cluster::Terms,
    ctl: Control,
}

impl Lane {
    fn of(lane: cluster::Lane, terms: cluster::Terms, ctl: Control) -> Self {
        Self { number: lane.number(), lane: RwLock::new(Some(lane)), terms, ctl }
    }
}

#[pymethods]
impl Lane {
    /// Dials one of the other side's doors; waits while it is told to come later.
    #[staticmethod]
    fn dial(py: Python<'_>, terms: Bound<'_, Terms>, number: u32, address: &str) -> PyResult<Self> {
        let (terms, ctl) = (&terms.get().0, Control::new(()));
        let lane = piece(py, &ctl, || cluster::Lane::dial(terms, number, address, ctl.clone()).map_err(of_lane))?;
        Ok(Self::of(lane, terms.clone(), ctl))
    }

    #[getter]
    fn number(&self) -> u32 {
        self.number
    }

    /// What is to be done, ascending, where `done` is finished here; and what the other side's word alone has settled.
    fn missing(&self, py: Python<'_>, done: Vec<u32>) -> PyResult<(Vec<u32>, Vec<u32>)> {
        let missing = piece(py, &self.ctl, || {
            let mut lane = self.lane.write().unwrap_or_else(PoisonError::into_inner);
            let lane = lane.as_mut().ok_or_else(|| Failure::bug("a call of a lane that is closed"))?;
            lane.missing(&done).map_err(of_lane)
        })?;
        Ok((missing.units, missing.settled))
    }

    /// Matches a unit, from any thread. `blob` are the keys that `pack` gave, or None if no row is in the unit; `turn` is the number of this
    /// beginning in the run: the unit's own at first, and else the lowest that no beginning has, from the number of units on. Gives what is to
    /// be kept, sealed.
    #[pyo3(signature = (unit, blob, turn))]
    fn match_unit<'py>(
        &self,
        py: Python<'py>,
        unit: u32,
        blob: Option<Bound<'py, PyBytes>>,
        turn: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let blob = blob.as_ref().map(|blob| blob.as_bytes());
        let kept = piece(py, &self.ctl, || {
            let lane = self.lane.read().unwrap_or_else(PoisonError::into_inner);
            let lane = lane.as_ref().ok_or_else(|| Failure::bug("a call of a lane that is closed"))?;
            Ok(self.terms.keep(unit, &lane.match_unit(unit, blob, turn).map_err(of_lane)?)?)
        })?;
        Ok(PyBytes::new(py, &kept))
    }

    /// Ends the lane when the other side has finished it too; gives what it cost, as JSON.
    fn close(&self, py: Python<'_>) -> PyResult<String> {
        piece(py, &self.ctl, || {
            let lane = self.lane.write().unwrap_or_else(PoisonError::into_inner).take();
            lane.ok_or_else(|| Failure::bug("a lane was closed twice"))?.close().map_err(of_lane)
        })
    }

    /// Stops whatever is under way, for good. On the side with the doors that is the door, too.
    fn cancel(&self) {
        self.ctl.cancel();
    }

    /// Lets go of the lane's link, unless `close` has, when no other call is under way. An exception may hold this object until garbage is collected, and
    /// until then the other side would wait for a lane that seems to be there.
    fn let_go(&self, py: Python<'_>) {
        py.detach(|| drop(self.lane.write().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

/// Where lanes of the other side come in.
#[pyclass(frozen, module = "vesica._core")]
pub struct Door {
    door: cluster::Door,
    terms: cluster::Terms,
    ctl: Control,
}

#[pymethods]
impl Door {
    /// Listens at `listen`, for `seats` lanes at once.
    #[new]
    fn new(py: Python<'_>, terms: Bound<'_, Terms>, listen: &str, seats: u32) -> PyResult<Self> {
        let (terms, ctl) = (&terms.get().0, Control::new(()));
        let door = piece(py, &ctl, || Ok(cluster::Door::open(terms, listen, seats, ctl.clone())?))?;
        Ok(Self { door, terms: terms.clone(), ctl })
    }

    /// The next lane that comes, on any number of threads; None once the door was stopped.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Lane>> {
        let lane = piece(py, &self.ctl, || Ok(self.door.next()?))?;
        Ok(lane.map(|lane| Lane::of(lane, self.terms.clone(), self.ctl.clone())))
    }

    /// Lets nobody in any more.
    fn stop(&self) {
        self.door.stop();
    }

    /// Stops whatever is under way behind the door, for good.
    fn cancel(&self) {
        self.ctl.cancel();
    }
}
