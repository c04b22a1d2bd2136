//! Totals by group: the columns of numbers that R brings for its bins, and the end of a job, where a group with too few common keys is told to
//! nobody. Part of `circuit`, whose letters these are, with what a job asks of it.
//!
//! A bin has v_b = 1 for each group that its key is in, and the key's numbers in that group: step 4 is done for all of these
//! columns at once, whatever groups a key is in; of very many groups, for fewer columns (`scatter`). Numbers of S's keys are added up in
//! R's groups too (`sums`): in their columns R has what it decoded for the bin. So are products of numbers of both (`products`). Then, for all
//! groups at once, or all cells of groups of both (`cells`):
//!
//! 6'. h := 1 - [count < least], in shares, as in step 6 but not opened.  Shares of h·count and of each h·sum: both have a share of the number,
//!     so each multiplies its own as in step 4, in its own direction.  If S learns, R draws a key of two words for each group, and S is to get
//!     h·key; and the other way round if S has groups and R learns.
//! 7'. Each sends these shares to whoever learns.  R -> S, if S learns: the label of each group, sealed under the group's key, unless what the
//!     groups are called is agreed on, and then nobody draws keys. Labels of S's groups go the other way.
//!     A group with fewer keys than `least` is zeros, as one without keys is, and what seals its label is not told.

use crate::cells;
use crate::gmw::{LOT, Made, Needs, Numbers, width, words};
use crate::noise::Draws;
use crate::products::{self, Carried};
pub use crate::products::{Product, Products};
use crate::scatter::Shape;
use std::ops::Range;
use vesica_block::Block;
use vesica_oprf::opprf;
use vesica_oprf::vole::Field;
use vesica_session::{Channel, Error, Found, Group, LABEL, Label, Misbehaviour, Result, SessionRng, Share, Values};
use zeroize::Zeroizing;

/// What a job asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Total {
    /// The number of common keys.
    Count,
    /// The sum of their values.
    Sum,
    /// Both in each group of R's.
    Groups(Groups),
    /// No total: each party keeps its shares of every bin.
    Shares,
}

/// What the parties agreed on.
#[derive(Clone, Debug)]
pub struct Params {
    /// Of the bins and their targets.
    pub opprf: opprf::Params,
    /// Whether this party is R.
    pub puts: bool,
    /// Whether R has values.
    pub values: bool,
    /// What is asked for.
    pub total: Total,
    /// The number of common keys below which nothing is told.
    pub least: Option<u64>,
    /// Whether this party learns.
    pub i_learn: bool,
    /// Whether the peer learns.
    pub peer_learns: bool,
    /// Keys of the party with fewer.
    pub fewer: u64,
    /// Where a job hides single keys: what this party adds to its share of each number that the total is made of, in their order.
    pub noise: Option<Draws>,
}

/// In which groups keys are counted and numbers are added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Groups {
    /// How many there are of R's, with those that no key is in.
    pub most: u32,
    /// Sums of each.
    pub sums: u32,
    /// How many of these are of S's numbers, alone or times one of R's: the last ones.
    pub of_other: u32,
    /// And of these the last ones, times one of R's.
    pub products: Products,
    /// The number of common keys below which nothing is told of a group.
    pub least: u64,
    /// Groups of R's that a key may be in.
    pub of_a_key: u32,
    /// Whether S learns, and does not know what the groups are called.
    pub labels: bool,
    /// Groups of S's, if each of R's is told with each of these.
    pub of_s: Option<GroupsOfS>,
}

/// Groups of S's, each of which is told with each of R's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupsOfS {
    /// How many there are, with those that no key is in: at most 64.
    pub most: u32,
    /// Whether R learns, and does not know what they are called.
    pub labels: bool,
}

impl Groups {
    /// How many groups S has; 0 if it has none.
    pub fn most_of_s(self) -> u32 {
        self.of_s.map_or(0, |of_s| of_s.most)
    }

    /// How many are counted: those of R's, or each of them with each of S's.
    pub fn cells(self) -> u32 {
        self.most.saturating_mul(self.most_of_s().max(1))
    }

    /// Whether they are so many that they go by trees.
    pub fn by_trees(self) -> bool {
        self.shape().is_some()
    }

    /// The trees of a bin, if they go by trees.
    fn shape(self) -> Option<Shape> {
        if self.of_s.is_some() {
            return None;
        }
        Shape::of(self.most, self.sums, self.of_a_key, [self.of_other, self.products.bits()])
    }

    /// How many numbers a key of R's and one of S's has: those that are added up, and then those that are factors alone.
    pub fn widths(self) -> [u32; 2] {
        let ([of_r, of_s], of_both) = (self.products.untold(), self.of_other);
        [self.sums.saturating_sub(of_both) + of_r, of_both.saturating_sub(self.products.count()) + of_s]
    }

    /// How many numbers of R's in a bin are multiplied by one of S's, for each product: that of the only group of a key; for trees those of as many
    /// groups as a key may be in; or else those of all groups, since S does not know which ones a key's are.
    fn slots(self) -> u32 {
        let by_columns = if self.of_a_key == 1 { 1 } else { self.most };
        self.shape().map_or(by_columns, |shape| shape.of_a_key)
    }

    /// How many transfers these products take for each bin.
    pub fn digits(self) -> u32 {
        self.slots().saturating_mul(self.products.bits())
    }

    /// How many groups a bin has counts of in step 4, by which S's numbers are multiplied; none if there are no such numbers.
    pub fn flags(self) -> u32 {
        let all = self.shape().map_or(self.cells(), |shape| self.of_a_key << shape.log_low);
        if self.of_other > 0 { all } else { 0 }
    }

    /// Columns of step 4, but for that of all keys.
    fn columns(self) -> usize {
        self.shape().map_or(self.most as usize * (self.sums as usize + 1), |shape| shape.columns())
    }

    /// Bytes that a party holds for a bin: both keys of each transfer of trees, and shares of step 4; and for numbers of S's both keys of each
    /// transfer of theirs, the numbers, and what their stores are made from.
    pub fn memory(self) -> u64 {
        let of_trees = self.shape().map_or(0, |shape| 32 * shape.transfers() as u64 + 8 * shape.columns() as u64);
        let of_other = if self.of_other > 0 { 300 + 16 * u64::from(self.of_other) } else { 0 };
        let of_products = 16 * u64::from(self.slots() * self.products.count());
        // Both keys of each transfer, and of the triples three bits and what makes them.
        let of_s = if self.of_s.is_some() { 200 + 40 * u64::from(self.most_of_s()) } else { 0 };
        of_trees + of_other + of_products + of_s + 33 * u64::from(self.flags() + self.digits())
    }
}

/// What a column of numbers is.
#[derive(Clone, Copy)]
enum Column {
    /// 1 for each key.
    Keys,
    /// 1 for each key of a group.
    KeysOf(u32),
    /// A number of each key of a group.
    Numbers(u32, u32),
    /// For one of the groups that a key may be in, if that has these lowest bits: 1, or the number after so many others.
    Tree(u32, u32, u32),
}

/// The numbers of this party's for the bins of a unit.
pub struct Columns<'a> {
    columns: Vec<Column>,
    values: &'a Values,
    /// Numbers of a group of this party's keys. What comes behind them is of the other's.
    own: usize,
    keys: usize,
    shape: Option<Shape>,
    /// Whether each group has a factor of its own, and not each of the groups that a key may be in, one after the other.
    slot_of_group: bool,
}

impl<'a> Columns<'a> {
    /// The columns of these groups, or of values in all if there are any, and of keys that are `counted`. `values` are of so many keys.
    ///
    /// # Errors
    /// A bug if values are of a key or of a group that is not there.
    pub fn new(
        (groups, puts): (Option<Groups>, bool),
        sum: bool,
        counted: bool,
        values: &'a Values,
        keys: usize,
    ) -> Result<Self> {
        let most = groups.map_or(1, |groups| if puts { groups.most } else { groups.most_of_s().max(1) });
        // All are looked at, whatever they are, so that one bit depends on them: it is 0 unless this program has a bug.
        let entries = values.entries();
        let lost = entries.iter().fold(false, |lost, &(key, group)| lost | (key as usize >= keys) | (group >= most));
        let shape = groups.and_then(Groups::shape);
        let of_a_key = groups.filter(|_| puts).map_or(entries.len(), |groups| groups.of_a_key as usize);
        let further = entries.iter().skip(of_a_key);
        let lost = further.zip(entries).fold(lost, |lost, (entry, before)| lost | (entry.0 == before.0));
        let own = groups.map_or(1, |groups| groups.sums.saturating_sub(groups.of_other) as usize);
        if lost {
            return Err(Error::Bug("values of a key or a group that is not there".into()));
        }
        let of_group = |group, sums| {
            std::iter::once(Column::KeysOf(group)).chain((0..sums).map(move |number| Column::Numbers(group, number)))
        };
        let mut columns: Vec<Column> = match groups {
            Some(_) if shape.is_some() => {
                let each = shape.into_iter().flat_map(Shape::each);
                each.map(|[nth, low, which]| Column::Tree(nth, low, which)).collect()
            }
            Some(Groups { most, sums, .. }) => (0..most).flat_map(|group| of_group(group, sums)).collect(),
            None if sum => vec![Column::Numbers(0, 0)],
            None => Vec::new(),
        };
        columns.extend(counted.then_some(Column::Keys));
        let slot_of_group = shape.is_none() && groups.is_some_and(|groups| groups.of_a_key > 1);
        Ok(Self { columns, values, own, keys, shape, slot_of_group })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// The same where `bins` has the place of each bin's key: entries in the order of bins, so that a column is written from its beginning to its
    /// end.
    pub fn in_bins(&self, bins: impl Iterator<Item = Option<usize>>) -> InBins<'_> {
        let entries = self.values.entries();
        let mut starts = vec![0; self.keys + 1];
        entries.iter().for_each(|&(key, _)| starts[key as usize + 1] += 1);
        (0..self.keys).for_each(|key| starts[key + 1] += starts[key]);
        let (mut sorted, mut full, mut ends) = (Vec::with_capacity(entries.len()), Vec::new(), vec![0]);
        for (bin, key) in (0..).zip(bins) {
            let of_key = key.map_or(0..0, |key| starts[key]..starts[key + 1]);
            sorted.extend((0..).zip(of_key).map(|(nth, entry)| InBin {
                bin,
                nth,
                group: entries[entry].1,
                entry: entry as u32,
            }));
            full.push(u64::from(key.is_some()));
            ends.push(sorted.len());
        }
        InBins { columns: self, entries: sorted, ends, full }
    }
}

/// Columns whose bins are known.
pub struct InBins<'a> {
    columns: &'a Columns<'a>,
    entries: Vec<InBin>,
    /// How many entries there are in so many bins.
    ends: Vec<usize>,
    /// 1 where a bin has a key.
    full: Vec<u64>,
}

/// An entry of a party's values, and the bin that its key is in.
struct InBin {
    bin: u32,
    /// How many entries its key has before it.
    nth: u32,
    group: u32,
    entry: u32,
}

impl InBins<'_> {
    /// Writes the numbers of a column for some bins. It is the same work for each column, however many keys are in its group. `theirs` has what R has
    /// of the numbers that are not its own.
    pub fn numbers(&self, column: usize, bins: Range<usize>, theirs: &Carried, out: &mut [u64]) {
        let Columns { columns, values, own, shape, .. } = self.columns;
        // A number of this party's keys, or what it has of one of the other's for a flag.
        let of = |entry: &InBin, which: u32, flag: u32| match (which as usize).checked_sub(*own) {
            None => values.numbers(entry.entry as usize)[which as usize],
            Some(which) => theirs.of(which, flag as usize)[entry.bin as usize],
        };
        match columns[column] {
            Column::Keys => out.copy_from_slice(&self.full[bins]),
            Column::KeysOf(group) => self.of(bins, out, |entry| entry.group == group, |_| 1),
            Column::Numbers(group, which) => {
                self.of(bins, out, |entry| entry.group == group, |entry| of(entry, which, group));
            }
            Column::Tree(nth, low, which) => {
                let log_low = shape.map_or(0, |shape| shape.log_low);
                let is_in = |entry: &InBin| (entry.nth == nth) & (entry.group & ((1 << log_low) - 1) == low);
                match which.checked_sub(1) {
                    None => self.of(bins, out, is_in, |_| 1),
                    Some(which) => self.of(bins, out, is_in, |entry| of(entry, which, nth << log_low | low)),
                }
            }
        }
    }

    /// Writes a number of this party's, by which one of the other's is multiplied, of each bin: that of a group, or of one of the groups that its key
    /// may be in after the other.
    pub fn factor(&self, slot: usize, which: usize, out: &mut [u64]) {
        let Columns { values, slot_of_group, .. } = self.columns;
        let is_in = |entry: &InBin| (if *slot_of_group { entry.group } else { entry.nth }) as usize == slot;
        self.of(0..out.len(), out, is_in, |entry| values.numbers(entry.entry as usize)[which]);
    }

    /// Writes the number of the entry that `is_in`, of each of some bins.
    fn of(&self, bins: Range<usize>, out: &mut [u64], is_in: impl Fn(&InBin) -> bool, number: impl Fn(&InBin) -> u64) {
        out.fill(0);
        for entry in &self.entries[self.ends[bins.start]..self.ends[bins.end]] {
            // Or the compiler makes a branch of it.
            let is_in = std::hint::black_box(u64::from(is_in(entry)));
            out[entry.bin as usize - bins.start] |= number(entry) & is_in.wrapping_neg();
        }
    }

    /// For trees: what is left of each bin's group without its lowest bits, for one of the groups that its key may be in after the other. A key that is
    /// in fewer has 0.
    pub fn places(&self) -> Vec<u8> {
        let Some(shape) = self.columns.shape else { return Vec::new() };
        let bins = self.full.len();
        let mut places = vec![0; bins * shape.of_a_key as usize];
        for entry in &self.entries {
            places[entry.nth as usize * bins + entry.bin as usize] = (entry.group >> shape.log_low) as u8;
        }
        places
    }
}

impl Params {
    /// The numbers that a bin has.
    pub(crate) fn columns<'a>(&self, values: &'a Values, keys: usize) -> Result<Columns<'a>> {
        let (entries, width) = (values.entries().len(), values.width());
        let [of_r, of_s] = self.groups().map_or([0; 2], |groups| groups.widths().map(|width| width as usize));
        // Whatever a party has, the job is the same for both.
        let makes_sense = self.groups().is_none_or(|Groups { sums, of_other, products, .. }| {
            let is_there = |product: &Product| usize::from(product.of_r) < of_r && usize::from(product.of_s) < of_s;
            sums >= of_other && of_other >= products.count() && products.each().iter().all(is_there)
        });
        let wrong = match self.groups() {
            _ if !makes_sense => true,
            Some(Groups { products, .. }) if self.puts => {
                let fits = |all, entry| all & products.fit(values.numbers(entry));
                entries > 0 && width != of_r || !(0..entries).fold(true, fits)
            }
            // Each key of S's has numbers once, if these are added up. It may be in several groups if not.
            Some(groups) => {
                let others = (0..).zip(values.entries()).fold(false, |others, (key, entry)| others | (entry.0 != key));
                let brings = of_s > 0 || groups.of_s.is_some();
                of_s > 0 && (others || entries != keys) || brings && entries > 0 && width != of_s
            }
            None => false,
        };
        if wrong || self.groups_of_s() > 0 && self.least.is_some() {
            return Err(Error::Bug("numbers for keys are not those that are added up, or are too large".into()));
        }
        Columns::new((self.groups(), self.puts), self.values, self.counts(), values, keys)
    }

    /// How many sums have parts of both parties.
    pub(crate) fn of_other(&self) -> usize {
        self.groups().map_or(0, |groups| groups.of_other as usize)
    }

    /// How many numbers each key of S's has.
    pub(crate) fn numbers_of_s(&self) -> usize {
        self.groups().map_or(0, |groups| groups.widths()[1] as usize)
    }

    /// How many groups S has; 0 if it has none.
    pub(crate) fn groups_of_s(&self) -> u32 {
        self.groups().map_or(0, Groups::most_of_s)
    }

    /// What S's keys carry.
    pub(crate) fn carries(&self) -> opprf::Carries {
        opprf::Carries { numbers: self.numbers_of_s(), bits: self.groups_of_s() }
    }

    /// Flags that columns are multiplied by: one of each bin, or of each of S's groups those of all bins.
    pub(crate) fn places(&self) -> usize {
        let bins = self.opprf.bins as usize;
        64 * words(bins) * (self.groups_of_s().max(1) as usize - 1) + bins
    }

    /// What a unit needs with so many pads from R to S. Those from S to R are for products, for numbers of which both have a part, and for trees.
    pub(crate) fn needs(&self, pads: usize) -> Needs {
        let bins = self.opprf.bins as usize;
        let digits = self.groups().map_or(0, |groups| groups.digits() as usize);
        let of_trees = self.trees().map_or(0, |(shape, _)| bins * shape.transfers());
        let of_bins = Needs::of_targets(bins, self.opprf.bits as usize, pads);
        let words_of_s = cells::products(self.groups_of_s(), bins);
        Needs {
            back: 64 * words(bins) * (self.flags() + digits) + of_trees,
            words: of_bins.words + words_of_s,
            ..of_bins
        }
    }

    /// Columns of step 4.
    fn width(&self) -> usize {
        self.groups().map_or(usize::from(self.values), Groups::columns) + usize::from(self.counts())
    }

    /// Bytes of memory that a unit takes of this party at most, where R and S have so many keys in it and `window` bytes may be on their way over a line.
    /// All that steps 1 to 5 hold is added up, as if it were there at once.
    ///
    /// With R's keys grow the bins: transfers, triples, what is multiplied, and the messages about these. With S's grow the stores and what they are solved
    /// from.
    pub fn memory<B: Field>(&self, [of_r, of_s]: [u64; 2], window: u64) -> u64 {
        let (bins, row, block) = (u64::from(self.opprf.bins), self.row(), Block::BYTES as u64);
        let (place, groups) = (usize::from(!self.puts), self.groups());
        let needs = self.needs(if self.width() > 0 { self.places() } else { 0 });
        let made = needs.memory()[place] + self.opprf.memory::<B>([of_r, of_s], self.carries())[place];
        let [flags, digits] = [self.flags() as u64, groups.map_or(0, |groups| u64::from(groups.digits()))];
        // Each use of the transfers from S but the last one copies those that are left.
        let uses = [flags > 0, digits > 0, self.trees().is_some()].into_iter().filter(|is_there| *is_there).count();
        let left = if uses > 1 { block * needs.back as u64 * if self.puts { 1 } else { 2 } } else { 0 };
        // The entries of this party's keys and their numbers. R has them in the order of bins besides, and S its keys with fillers.
        let numbers = groups.map_or(u64::from(self.values), |groups| u64::from(groups.widths()[place]));
        let brings = self.numbers_of_s() > 0 || self.groups_of_s() > 0;
        let own = match self.puts {
            true => (32 + 8 * numbers) * of_r + 32 * bins,
            false => (16 + if brings { 8 + 8 * numbers } else { 0 }) * of_s,
        };
        // f; for each of S's groups both factors, what is opened of them with its copy on the way, and the product; bits that numbers are multiplied by.
        let bits = 8 * row * (2 + 12 * u64::from(self.groups_of_s()) + flags + digits);
        let products = 512 * row * groups.map_or(0, |groups| u64::from(groups.slots() * groups.products.count()));
        let of_trees = self.trees().map_or(0, |(shape, _)| 8 * shape.columns() as u64 + 3 * u64::from(shape.of_a_key));
        let of_shares = if self.total == Total::Shares { 8 + size_of::<Share>() as u64 } else { 0 };
        let held = bits + products + (of_trees + of_shares) * bins;
        // Of the longest columns two numbers of a lot, and the bits that they answer.
        let longest = (self.places() as u64).max(64 * row * flags.max(digits));
        let message = 2 * 8 * longest.min(LOT as u64) + longest / 8;
        made + left + own + held + message + self.at_once().min(window)
    }

    /// Words of a bit for each bin.
    fn row(&self) -> u64 {
        words(self.opprf.bins as usize) as u64
    }

    /// The most bytes that a party sends in a unit before it has to hear from the other one: all stores, bits about what is compared, or numbers.
    fn at_once(&self) -> u64 {
        let (carries, bins) = (self.carries(), u64::from(self.opprf.bins));
        let slot = u64::from(self.opprf.bits.div_ceil(8) + carries.bits.div_ceil(8)) + 8 * carries.numbers as u64;
        let compared = width(self.opprf.bits as usize) as u64 * u64::from(self.opprf.bits);
        let numbers = self.flags() * self.of_other() + self.groups().map_or(0, |groups| groups.digits() as usize);
        let of_a_tree = |shape: Shape| 32 * u64::from(shape.depth) + 8 * shape.numbers() as u64;
        let trees = self.trees().map_or(0, |(shape, _)| u64::from(shape.of_a_key) * of_a_tree(shape));
        let each = [
            slot * self.opprf.shape.slots() as u64,
            8 * compared * self.row(),
            8 * (self.width() * self.places()) as u64,
            8 * 64 * self.row() * numbers as u64,
            trees * bins,
        ];
        each.into_iter().fold(0, u64::max)
    }

    /// What both have of the numbers that are added up and are not R's alone, from what they have of S's: products of these and R's are made.
    pub(crate) fn multiply(
        &self,
        in_bins: &InBins<'_>,
        carried: Vec<Zeroizing<Vec<u64>>>,
        made: &mut Made,
        ch: &mut dyn Channel,
    ) -> Result<Carried> {
        let Some(groups) = self.groups() else { return Ok(Carried::default()) };
        let factor = |slot, which, out: &mut [u64]| in_bins.factor(slot, which, out);
        let factor: Option<products::Factor<'_>> = if self.puts { Some(&factor) } else { None };
        let flags = self.flags() / groups.most_of_s().max(1) as usize;
        let sizes = (self.opprf.bins as usize, [groups.slots() as usize, flags]);
        products::multiply(&groups.products, sizes, factor, carried, made, ch)
    }

    /// How many times numbers of which both have a part are multiplied for each bin.
    pub(crate) fn flags(&self) -> usize {
        self.groups().map_or(0, |groups| groups.flags() as usize)
    }

    /// Whether all keys are counted.
    pub(crate) fn counts(&self) -> bool {
        self.total == Total::Count || self.least.is_some()
    }

    /// The groups, if the job has some.
    pub(crate) fn groups(&self) -> Option<Groups> {
        if let Total::Groups(groups) = self.total { Some(groups) } else { None }
    }

    /// The trees of each bin, if there are as many groups as these are for, and how many there are.
    pub(crate) fn trees(&self) -> Option<(Shape, usize)> {
        self.groups().and_then(|groups| groups.shape().map(|shape| (shape, groups.most as usize)))
    }

    /// The numbers that a total is made of.
    pub(crate) fn numbers(&self) -> usize {
        let of_groups = self.groups().map(|groups| groups.cells() as usize * (groups.sums as usize + 1));
        of_groups.unwrap_or(usize::from(self.values)) + usize::from(self.counts())
    }

    /// What a total is that is told.
    ///
    /// # Errors
    /// What is wrong with the share that made it.
    pub(crate) fn told(&self, total: u64) -> std::result::Result<Found, Misbehaviour> {
        match self.total {
            Total::Sum => Ok(Found::Sum(total as i64)),
            // With noise, a number that no count can be is told as the nearest that one can.
            _ if self.noise.is_some() => Ok(Found::Count((total as i64).clamp(0, self.fewer as i64) as u64)),
            _ if total <= self.fewer => Ok(Found::Count(total)),
            _ => Err(Misbehaviour::Contradiction("by its share, more keys are common than there are")),
        }
    }

    /// This party's share of by how much a count exceeds `least`, of its share of the count.
    pub(crate) fn above(&self, count: u64, least: u64) -> u64 {
        // No job has 2^62 keys, so that a larger limit means the same and the difference is a number with a sign.
        if self.puts { count.wrapping_sub(least.min(1 << 62)) } else { count }
    }

    /// A label under a key that is used once, or what it is without.
    fn seal(&self, key: [u64; 2], label: &Label) -> Label {
        let mut stream = blake3::Hasher::new_derive_key("vesica 2026 label of a group");
        stream.update(&self.opprf.session).update(&bytes(&key));
        let mut sealed = [0; LABEL];
        stream.finalize_xof().fill(&mut sealed);
        sealed.iter_mut().zip(label).for_each(|(sealed, byte)| *sealed ^= byte);
        sealed
    }
}

/// Steps 6' and 7'. `totals` are this party's shares of the number of keys and of the sums of one group, then of the next one: of groups of both,
/// R's with S's first one come first. `labels` are what R's groups are called and what S's are, if this party knows it.
///
/// # Errors
/// Those of the channel; the peer's if it breaks the protocol, or its shares give what no group has.
pub fn open(
    params: &Params,
    groups: Groups,
    made: Made,
    totals: &[u64],
    labels: [&[Label]; 2],
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<Found> {
    let mut made = made;
    let (cells, width, of_s) = (groups.cells() as usize, groups.sums as usize + 1, groups.of_s.unwrap_or_default());
    // Of R and of S: how many groups there are, and whether what they are called is told under keys.
    let (most, under_keys) = ([groups.most, of_s.most].map(|most| most as usize), [groups.labels, of_s.labels]);
    let [own, other] = if params.puts { [0, 1] } else { [1, 0] };
    // Who knows what they are called: who has them, and where that is agreed on the other one too.
    if [own, other]
        .iter()
        .any(|&of| (of == own || params.i_learn && !under_keys[of]) && most[of] > 0 && labels[of].len() != most[of])
    {
        return Err(Error::Bug("there is not a label for each group".into()));
    }
    let called = |of: usize, cell: usize| labels[of][if of == 0 { cell % most[0] } else { cell / most[0] }];
    // 6'. h
    let above: Vec<u64> = totals.chunks_exact(width).map(|group| params.above(group[0], groups.least)).collect();
    let mut told = vec![0u64; cells.div_ceil(64)];
    for (cell, less) in made.negative(&above, ch)?.into_iter().enumerate() {
        told[cell / 64] |= u64::from(less ^ params.puts) << (cell % 64);
    }
    // h times R's share of each number, and its keys;  h times S's
    let of_keys = under_keys.map(|told| if told { 2 * cells } else { 0 });
    let mut keys = Zeroizing::new(vec![0u64; of_keys[own]]);
    keys.iter_mut().for_each(|word| *word = u64::from_le_bytes(rng.bytes()));
    let numbers = |column: usize, part: Range<usize>, out: &mut [u64]| {
        out.iter_mut().zip(part).for_each(|(number, cell)| match column.checked_sub(width) {
            None => *number = totals[cell * width + column],
            Some(word) => *number = keys[2 * cell + word],
        });
    };
    let numbers: Numbers<'_> = &numbers;
    let (mut mine, mut mine_of_keys) =
        (vec![0u64; cells * width], of_keys.map(|words| Zeroizing::new(vec![0u64; words])));
    for of in [0, 1] {
        let columns = if under_keys[of] { width + 2 } else { width };
        made.times(&told, columns, cells, (of == own).then_some(numbers), ch, |column, start, shares| {
            for (cell, &share) in (start..).zip(shares) {
                let sum = match column.checked_sub(width) {
                    None => &mut mine[cell * width + column],
                    Some(word) => &mut mine_of_keys[of][2 * cell + word],
                };
                *sum = sum.wrapping_add(share);
            }
        })?;
    }
    // 7'. -> and <- shares;  -> and <- labels
    if params.peer_learns {
        ch.send(&bytes(mine.iter().chain(&*mine_of_keys[own])))?;
        if under_keys[own] {
            let sealed = (0..).zip(keys.as_chunks().0).map(|(cell, key)| params.seal(*key, &called(own, cell)));
            ch.send(sealed.collect::<Vec<_>>().as_flattened())?;
        }
    }
    if !params.i_learn {
        return Ok(Found::Nothing);
    }
    let theirs = ch.recv_exact(8 * (mine.len() + of_keys[other]))?;
    let mut all = theirs.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    mine.iter_mut().zip(&mut all).for_each(|(mine, theirs)| *mine = mine.wrapping_add(theirs));
    mine_of_keys[other].iter_mut().zip(all).for_each(|(mine, theirs)| *mine = mine.wrapping_add(theirs));
    let sealed = if under_keys[other] { ch.recv_exact(cells * LABEL)? } else { Vec::new() };
    let sealed = sealed.as_chunks().0.iter().zip(mine_of_keys[other].as_chunks().0);
    let opened: Vec<Label> = sealed.map(|(label, key)| params.seal(*key, label)).collect();
    let label = |of: usize, cell: usize| match of == other && under_keys[of] {
        true => opened[cell],
        false => called(of, cell),
    };
    let mut found = Vec::new();
    for (cell, group) in mine.chunks_exact(width).enumerate() {
        let (keys, sums) = (group[0], &group[1..]);
        if keys == 0 && sums.iter().all(|sum| *sum == 0) {
            continue;
        }
        // With noise there may seem to be any number of keys that is not negative.
        if keys < groups.least || keys > if params.noise.is_some() { i64::MAX as u64 } else { params.fewer } {
            let why = "by its shares, a group has a number of common keys that none can have";
            return Err(ch.accuse(Misbehaviour::Contradiction(why)));
        }
        // And as of a count, more than there can be is told as the most that can be.
        let keys = keys.min(params.fewer.max(groups.least));
        let sums = sums.iter().map(|sum| *sum as i64).collect();
        let of_s = groups.of_s.map(|_| label(1, cell));
        found.push(Group { number: cell as u32, label: label(0, cell), other: of_s, keys, sums });
    }
    Ok(Found::Groups(found))
}

/// The bytes of words.
fn bytes<'a>(words: impl IntoIterator<Item = &'a u64>) -> Vec<u8> {
    words.into_iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory is said of as many columns as there are, with and without trees.
    #[test]
    fn columns_are_as_many_as_are_made() {
        let of_s = Some(GroupsOfS { most: 4, labels: false });
        let (none, values) = (Products::NONE, Values::default());
        for (most, sums, of_a_key, of_s) in
            [(1, 0, 1, None), (5, 2, 5, None), (64, 1, 1, None), (1024, 0, 1, None), (16, 1, 2, of_s)]
        {
            let of = Groups { most, sums, of_other: 0, products: none, least: 5, of_a_key, labels: false, of_s };
            for counted in [false, true] {
                let made = Columns::new((Some(of), true), true, counted, &values, 0).unwrap();
                assert_eq!(made.len(), of.columns() + usize::from(counted), "{of:?}");
            }
        }
    }
}
