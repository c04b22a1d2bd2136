//! What a job means: complete and valid, or an error that names the field. Pure: no files, no clock, no chance.

use crate::accept::Extra;
use crate::checks::{self, check_name, distinct, memory, patience, rules, table_format, workers};
use crate::connect::{RoadPlan, gateways};
use crate::error::{SpecError, refuse};
use crate::identifiers::{self, KeyList, Match};
use crate::join::{self, Half};
use crate::key::KeyPlace;
use crate::memory::Share;
use crate::parse::nearest;
use crate::rules::Rule;
use crate::types::{Budget, Duplicates, GroupLabel, Mine, Order, OtherGroups, ProxyUrl, Shared, Spec, Sum, number};
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vesica_net::{Network, Proxy};
use vesica_params::Level;
use vesica_psi::reveals;
use vesica_session::Reveal;
use vesica_suite::{
    Choice, Cut, Grouping, OtherGrouping, Product, Products, ProtocolName, ResultKind, Seat, Sizes, Suite, Summed,
};
use vesica_types::{Party, TagLen};

/// A job whose every field is present and means something.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The document that the parties compare.
    pub shared: Shared,
    /// Every party, in the job's order.
    pub parties: Vec<Party>,
    /// This one.
    pub me: Party,
    /// The others.
    pub peers: Vec<PeerPlan>,
    /// Through which proxy peers are called.
    pub proxy: ProxyPlan,
    /// Where this party listens, if a peer is to call it.
    pub listen: Option<String>,
    /// Gateways that call here for others, and nobody else does; none if whoever calls comes by himself.
    pub gateways: Vec<Network>,
    /// The private key and certificate, and the key's own file if it has one; absent if the job is insecure.
    pub identity: Option<(PathBuf, Option<KeyPlace>)>,
    /// The parties that get the result.
    pub learners: Vec<Party>,
    /// What it says of its protocol.
    pub choice: Choice,
    /// The protocol that it chooses by that.
    pub suite: Arc<dyn Suite>,
    /// The table.
    pub input: vesica_table::Input,
    /// Its key columns: of all identifiers, where there are such.
    pub keys: Vec<String>,
    /// The identifiers that a row has, in the order of `shared.identifiers`; none if all of `keys` make up one key.
    pub lists: Vec<KeyList>,
    /// The column with values that are added up, if this party has them.
    pub value: Option<String>,
    /// What is grouped and added up, if this party has the groups, or values that are added up in them.
    pub grouped: Option<GroupedPlan>,
    /// What is done to each of the key columns; of identifiers, to the columns of each, one after the other.
    pub rules: Vec<Vec<Rule>>,
    /// Where the result goes; present exactly if this party learns it.
    pub output: Option<vesica_table::Output>,
    /// The columns that go there; all where absent.
    pub columns: Option<Vec<String>>,
    /// The order of its rows.
    pub order: Order,
    /// Whether each says by which identifiers it matched.
    pub says_how: bool,
    /// What the job says that means nothing, in sentences: told when it runs and when it is checked.
    pub notes: Vec<String>,
    /// Bytes of memory that the run may take; what is more is spilled.
    pub memory: u64,
    /// Where to; the system's temporary folder where absent.
    pub scratch: Option<PathBuf>,
    /// Units that this party is ready to work on at once.
    pub workers: u32,
    /// Links that this party asks for, for the units; 0 if it asks for none besides the first.
    pub lanes: u32,
    /// Where finished units are kept, if they are to outlive the process.
    pub resume: Option<ResumePlan>,
    /// What differentially private runs may tell all together; present exactly if this is one.
    pub budget: Option<Budget>,
    /// How long to wait for a party that is late or was lost.
    pub patience: Duration,
    /// Where the report goes.
    pub report: Option<PathBuf>,
    /// Where the trace goes.
    pub trace: Option<PathBuf>,
    /// Where the state of the run is told.
    pub metrics: Option<String>,
    /// This party's own part of the job file, without the files of its keys: for the report.
    pub mine: String,
}

/// Which columns are grouped by and added up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupedPlan {
    /// Whether the groups are those of `shared.groups.other`.
    pub other: bool,
    /// The columns that rows are grouped by; none if the groups are the other party's.
    pub by: Vec<String>,
    /// What each sum of this party's values adds up: those that are told, and then those that are factors alone.
    pub sums: Vec<Added>,
    /// Groups at most.
    pub most: u32,
    /// All of them, if the parties agreed on what they are called.
    pub labels: Vec<GroupLabel>,
    /// Groups of a key at most.
    pub of_a_key: u32,
    /// Whether sums have noise.
    pub noisy: bool,
}

/// Values that are added up, or multiplied by the other party's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Added {
    /// Their column.
    pub column: String,
    /// The most that one key may add or take.
    pub largest: Option<u64>,
    /// The most that each is multiplied by before it is added up; 1 of values that are no factors.
    pub times: u64,
}

/// Where finished units are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResumePlan {
    /// The folder.
    pub dir: PathBuf,
    /// The key that seals them.
    pub key: Option<KeyPlace>,
}

/// How to reach and recognise a peer.
#[derive(Clone, Debug)]
pub struct PeerPlan {
    /// Who.
    pub party: Party,
    /// Its address, or the command that leads to it as it is written, if this side calls.
    pub connect: Option<String>,
    /// What is said of the road there.
    pub road: RoadPlan,
    /// How its certificate is recognised; absent only in an insecure job.
    pub trust: Option<TrustPlan>,
}

/// Through which proxy others are called.
#[derive(Clone, Debug)]
pub enum ProxyPlan {
    /// What the environment names, if it names one.
    Environment,
    /// None.
    None,
    /// This one, with the file of its user and password if there is one.
    Through(Proxy, Option<PathBuf>),
}

/// How a certificate is recognised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TrustPlan {
    /// By its fingerprint, which is one of these.
    Pinned(Vec<vesica_net::Fingerprint>),
    /// By an authority's signature, from this file, and the party's name in it.
    Ca(PathBuf),
}

impl fmt::Display for TrustPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustPlan::Pinned(pins) => {
                let pins: Vec<String> = pins.iter().map(ToString::to_string).collect();
                f.write_str(&pins.join(" or "))
            }
            TrustPlan::Ca(file) => write!(f, "certified by {}", file.display()),
        }
    }
}

/// The most that `limits.answers` may be: each of so many salts costs a whole answer then.
const MOST_ANSWERS: u32 = 64;

/// The most links that units may go over.
pub const MAX_LANES: u32 = 1024;

/// The most distinct keys a party may bring.
pub const MAX_KEYS: u64 = 1 << 36;

impl Plan {
    /// The parameters of a job of these sizes: its sets, and what follows from the sizes.
    pub fn parameters(&self, sizes: &Sizes) -> Vec<String> {
        let suite = &self.suite;
        suite.sets().into_iter().map(str::to_owned).chain(suite.sized(sizes)).collect()
    }

    /// What the result of a job of these sizes will be like, where it is not simply right: sentences.
    pub fn expects(&self, sizes: &Sizes) -> Vec<String> {
        let named = |text: String, party: &Party| text.replace(&format!("{{{}}}", party.place()), party.name());
        let told = self.suite.expects(sizes).into_iter();
        told.map(|text| self.parties.iter().fold(text, named)).collect()
    }

    /// Whether this party's rows bring values, or are in groups, for a total over keys.
    pub fn adds_up(&self) -> bool {
        self.value.is_some() || self.grouped.is_some()
    }

    /// What a key's value may be at most, in absolute value, where the job says so.
    pub fn largest(&self) -> Option<u64> {
        self.shared.dp.and_then(|noise| noise.largest)
    }

    /// This party, to its protocol.
    pub fn seat(&self) -> Seat {
        Seat { place: self.me.place(), learns: self.i_learn() }
    }

    /// Whether this party gets the result.
    pub fn i_learn(&self) -> bool {
        self.learners.contains(&self.me)
    }

    /// Whether `party` gets the result.
    pub fn learns(&self, party: &Party) -> bool {
        self.learners.contains(party)
    }

    /// Whether `party` says how many identifiers a row of its table may have: only a least number of rows that nobody counts needs that.
    pub fn tells_lists(&self, party: &Party) -> bool {
        !self.lists.is_empty() && self.shared.limits.min_intersection.is_some() && !self.learns(party)
    }

    /// Whether several parties get the result, so that their outputs can line up.
    pub fn several_learn(&self) -> bool {
        self.learners.len() > 1
    }

    /// Whether every party gets the result.
    pub fn all_learn(&self) -> bool {
        self.learners.len() == self.parties.len()
    }

    /// Whether this party gets the result, and some other party does not. It writes when it has parted from the others, who would see
    /// from the clock how much there is.
    pub fn writes_apart(&self) -> bool {
        self.i_learn() && !self.all_learn()
    }

    /// Whether this party gets the result and no other does.
    pub fn learns_alone(&self) -> bool {
        self.i_learn() && self.learners.len() == 1
    }

    /// The join from this party's side.
    pub fn half(&self) -> Half {
        let half = self.shared.join.shape().half(self.me.place());
        // Outputs that do not line up have no rows of nulls.
        if self.matches_any() { Half { theirs: false, ..half } } else { half }
    }

    /// Whether rows are matched by any of several identifiers, and each learner gets its own.
    pub fn matches_any(&self) -> bool {
        self.shared.matching == Some(Match::Any)
    }

    /// Whether rows of both that agree in any of several identifiers line up.
    pub fn links(&self) -> bool {
        matches!(self.shared.matching, Some(Match::Pairs | Match::Once))
    }

    /// The names of the identifiers that this party's table has, in the job's order; none if rows have one key.
    pub fn kinds(&self) -> Vec<String> {
        let mut names: Vec<String> = self.lists.iter().map(|list| list.name.clone()).collect();
        names.dedup();
        names
    }

    /// The choice of key columns, for people: the columns, or the columns of each identifier, in quotes, so that no two choices read
    /// alike.
    pub fn keys_in_words(&self) -> Vec<String> {
        let columns = |list: &KeyList| {
            let names = list.columns.iter().filter_map(|&place| self.keys.get(place)).map(|name| format!("{name:?}"));
            format!("{} ({})", list.name, names.collect::<Vec<_>>().join(", "))
        };
        if self.lists.is_empty() { self.keys.clone() } else { self.lists.iter().map(columns).collect() }
    }

    /// Whether rows of a key are multiplied by the peer's, whose number must then be known.
    pub fn multiplies(&self) -> bool {
        let rows = self.parties.len() == 2 && self.shared.result == ResultKind::Rows && self.lists.is_empty();
        rows && self.all_learn() && self.half().pairs && self.shared.duplicates == Duplicates::Join
    }

    /// What the run tells whom.
    pub fn reveals(&self) -> Vec<Reveal> {
        let shape = self.shared.join.shape();
        let (all, several) = (self.all_learn(), !self.lists.is_empty());
        let of_the_job = [
            (several, reveals::IDENTIFIERS),
            (self.links(), reveals::LINKS),
            (self.multiplies(), reveals::MULTIPLICITY),
            (all && shape.left && !several, reveals::LEFT_UNMATCHED),
            (all && shape.right && !several, reveals::RIGHT_UNMATCHED),
            (self.shared.limits.min_intersection.is_some(), reveals::MINIMUM),
            (true, reveals::TRAFFIC),
        ];
        let told = of_the_job.into_iter().filter_map(|(told, reveal)| told.then_some(reveal));
        // What a protocol tells of keys, it tells of every identifier.
        let in_other_words = |reveal: Reveal| match reveal {
            reveals::INTERSECTION if several => reveals::INTERSECTION_OF_IDENTIFIERS,
            reveals::KEY_COUNT if several => reveals::IDENTIFIER_COUNT,
            reveals::MINIMUM if several => reveals::MINIMUM_OF_IDENTIFIERS,
            reveal => reveal,
        };
        self.suite.reveals().into_iter().chain(told).map(in_other_words).collect()
    }

    /// Fails if the run tells something beyond the intersection that the job does not accept.
    fn accepted(&self) -> Result<(), SpecError> {
        let reveals = self.reveals();
        let told = |extra: &&Extra| reveals.iter().any(|r| r.name == extra.name());
        let told: Vec<Extra> = Extra::ALL.iter().filter(told).copied().collect();
        if told.iter().all(|extra| self.shared.accept.covers(*extra)) {
            return Ok(());
        }
        let names: Vec<String> = told.iter().map(|extra| format!("\"{}\"", extra.name())).collect();
        let what = reveals.iter().filter(|r| told.iter().any(|extra| r.name == extra.name()));
        let what: Vec<String> = what.map(|r| format!("{} ({})", r.name, r.in_words(&self.shared.parties))).collect();
        refuse(
            "shared.accept",
            format!(
                "protocol = \"{}\" with join = \"{}\"{} tells more than the intersection: {}; if all parties agree to that, write \
                 accept = [{}]",
                self.shared.protocol.name(),
                self.shared.join.name(),
                self.shared.matching.map_or(String::new(), |matching| format!(" and match = \"{}\"", matching.name())),
                what.join("; "),
                names.join(", ")
            ),
        )
    }

    /// Why the units of this job go over the first connection, if they must.
    pub fn refuses_lanes(&self) -> Option<&'static str> {
        match () {
            () if self.parties.len() > 2 => Some("lanes are for two parties, and this job has more"),
            () if self.suite.cut() == Cut::Whole => {
                Some("lanes share out the units of a job, and this one works on all keys together")
            }
            () if self.suite.cut() == Cut::Shares => Some(
                "lanes share out the units of a job, and the result of this one is of all units of one attempt together",
            ),
            () if self.suite.draws_once() => {
                Some("lanes draw chance of their own, and the noise of this job is drawn once")
            }
            () => None,
        }
    }

    /// The units of a job in which a party has at most `largest` distinct keys, when every party is ready for `workers` units at once and
    /// has `memory` bytes.
    pub fn units(&self, largest: u64, workers: u32, memory: u64) -> u32 {
        match self.shared.unit {
            None => {
                let in_flight = workers.max(1);
                let fit = Share::InFlight.of(memory) as u64 / (u64::from(in_flight) * 2 * self.suite.memory());
                vesica_params::units(largest, in_flight, fit.clamp(1 << 12, self.suite.most()))
            }
            Some(mean) => largest.div_ceil(u64::from(mean)).clamp(1, 1 << 16) as u32,
        }
    }

    /// The sizes for these numbers of distinct keys, by place, when every party is ready for `workers` units at once and has
    /// `memory` bytes.
    pub fn sizes(&self, keys: &[u64], workers: u32, memory: u64) -> Sizes {
        let largest = keys.iter().copied().max().unwrap_or(0);
        self.sizes_in(self.units(largest, workers, memory), keys, workers.max(1))
    }

    /// The sizes for these numbers of distinct keys, by place, in so many units of which `in_flight` are under way at once.
    pub fn sizes_in(&self, units: u32, keys: &[u64], in_flight: u32) -> Sizes {
        let suite = &self.suite;
        let parties = self.parties.len() as u32;
        let capacity = |&keys: &u64| vesica_params::unit_capacity(keys, units, parties, Level::STANDARD);
        let capacities: Vec<u64> = keys.iter().map(capacity).collect();
        let padded = capacities.iter().map(|capacity| capacity.saturating_mul(u64::from(units)));
        let bytes = suite.tag_bytes(&padded.collect::<Vec<_>>());
        let tag_len = TagLen::new(bytes).expect("2^44 keys a side need 16 bytes, and the limit is 2^36");
        Sizes { units, in_flight, keys: keys.to_vec(), capacities, tag_len }
    }
}

/// The plan of a job.
///
/// # Errors
/// If a field contradicts another or means nothing; names the field, its value and the remedy.
pub fn plan(spec: &Spec) -> Result<Plan, SpecError> {
    let (shared, mine) = (&spec.shared, &spec.mine);
    check_name("shared.id", &shared.id)?;
    let parties = parties(&shared.parties)?;
    let find = |field: &str, name: &str| -> Result<Party, SpecError> {
        let known: Vec<&str> = shared.parties.iter().map(String::as_str).collect();
        parties.iter().find(|p| p.name() == name).cloned().ok_or_else(|| {
            let near = nearest(name, &known).map(|n| format!("; did you mean \"{n}\"?")).unwrap_or_default();
            // With escapes: the name may stand in an invitation, which a stranger wrote.
            SpecError::field(field, format!("{name:?} is not one of shared.parties ({}){near}", known.join(", ")))
        })
    };
    let me = find("mine.name", &mine.name)?;
    mine.has_whole_paths()?;

    let learners = shared.learns.iter().map(|n| find("shared.learns", n)).collect::<Result<Vec<_>, _>>()?;
    if learners.is_empty() {
        return refuse("shared.learns", "is empty: name at least one party that gets the result");
    }
    distinct("shared.learns", &shared.learns)?;
    let i_learn = learners.contains(&me);
    let mut notes = Vec::new();
    let rows = shared.result.has_rows() || shared.result.each_has_its_own();
    match (&mine.output, i_learn && rows) {
        (None, true) => {
            return refuse(
                "mine.output",
                format!("is missing: {me} learns the result; add output = {{ path = \"…\" }}"),
            );
        }
        (Some(output), false) => {
            let why = match i_learn {
                true => format!("the result is a {} (shared.result), which stands in the report", shared.result.name()),
                false => format!("{me} is not in shared.learns and gets no result"),
            };
            notes.push(format!("mine.output: nothing is written to {}, for {why}", output.path.display()));
        }
        _ => {}
    }
    if mine.proxy.is_some() && mine.connect.is_empty() {
        notes.push("mine.proxy: no effect, for this party calls nobody (mine.connect)".to_owned());
    }
    if mine.output.as_ref().is_some_and(|output| output.path.as_os_str().is_empty()) {
        return refuse("mine.output.path", "is missing: name the file for the rows");
    }
    let output = mine.output.as_ref().filter(|_| i_learn && rows);
    if shared.unit == Some(0) {
        return refuse("shared.unit", "a unit cannot have 0 keys; give a positive number, or leave it out");
    }
    if shared.unit.is_some_and(|mean| mean > 1 << 20) {
        return refuse(
            "shared.unit",
            format!("{} keys in a unit are too many; the most is 1048576", shared.unit.unwrap_or(0)),
        );
    }

    let owner = shared.groups.as_ref().map(|groups| find("shared.groups.of", &groups.of)).transpose()?;
    // Of two parties one has the values of a sum, or they disagree when they meet: who has none knows that the other one has some.
    let values = (shared.result == ResultKind::Sum && parties.len() == 2).then(|| match mine.input.value {
        Some(_) => me.place(),
        None => 1 - me.place(),
    });
    let choice = Choice {
        protocol: shared.protocol,
        result: shared.result,
        groups: grouping(shared, owner.as_ref())?,
        sums: in_order(shared),
        values,
        mode: shared.mode,
        security: shared.security,
        curve: shared.curve,
        dp: shared.dp,
        least: shared.limits.min_intersection,
        learners: learners.iter().map(Party::place).collect(),
        parties: parties.len(),
        pivot: shared.pivot.as_ref().map(|name| find("shared.pivot", name)).transpose()?.map(|pivot| pivot.place()),
        insecure: shared.insecure,
    };
    let suite = vesica_suite::find(&choice).map_err(|refusal| SpecError::field(refusal.field, refusal.why))?;
    let memory = memory(&mine.memory)?;
    if let Some(unit) = shared.unit.filter(|_| suite.cut() != Cut::Whole) {
        // A unit of mean size, with the keys of both.
        let of_a_key = 2 * suite.memory();
        if u64::from(unit) * of_a_key > memory {
            let why = format!(
                "{unit} keys in a unit take some {} MiB with this job, and mine.memory is {} MiB: agree on {} or fewer, give more memory, or leave it \
                 out for units that fit",
                (u64::from(unit) * of_a_key) >> 20,
                memory >> 20,
                memory / of_a_key
            );
            return refuse("shared.unit", why);
        }
    }
    if let Some(groups) = choice.groups.filter(|groups| groups.costs_by_its_groups() && groups.of_a_key == groups.most)
    {
        notes.push(format!(
            "shared.groups.of_a_key: a key may be in all of the {} groups, and as many numbers are sent for each; if it is in one of them, or in few, \
             agree on that, such as of_a_key = 1, and the run sends far less",
            groups.most
        ));
    }
    if let Some(why) = join::objection(shared.join, shared.result, &parties, &learners) {
        return refuse("shared.join", why);
    }
    identifiers::check(shared, &parties, &learners)?;
    let mut order = output.map(|o| o.order).unwrap_or_default();
    if shared.matching == Some(Match::Any) {
        order = Order::Input;
    }
    if parties.len() > 2 && learners.len() > 1 && shared.duplicates == Duplicates::Join && order == Order::Aligned {
        order = Order::Input;
        notes.push(
            "mine.output.order: the rows stand in the input's order, for keys may have several rows, and those of three and more parties do \
             not line up; with shared.duplicates = \"first\" or \"error\" they do"
                .to_owned(),
        );
    }
    if shared.limits.min_intersection == Some(0) {
        return refuse(
            "shared.limits.min_intersection",
            "0 keys is no limit, because there are never fewer; leave it out",
        );
    }
    if shared.limits.min_intersection.is_some() && shared.protocol == ProtocolName::Dp {
        return refuse(
            "shared.limits.min_intersection",
            "with protocol = \"dp\" the number of keys found is noisy, and whether it is large enough would tell the other party more \
             than the job's epsilon; remove it",
        );
    }
    if shared.limits.max_keys == Some(0) {
        return refuse("shared.limits.max_keys", "0 keys leave nothing to match; leave it out for no limit");
    }
    for (field, keys) in [
        ("shared.limits.min_intersection", shared.limits.min_intersection),
        ("shared.limits.max_keys", shared.limits.max_keys),
    ] {
        if let Some(keys) = keys.filter(|&keys| keys > MAX_KEYS) {
            return refuse(field, format!("{keys} keys; a party brings 2^36 at most: give fewer, or leave it out"));
        }
    }
    if !(1..=MOST_ANSWERS).contains(&shared.limits.answers) {
        return refuse(
            "shared.limits.answers",
            format!("{} answers; give 1 to {MOST_ANSWERS}, or leave it out for 8", shared.limits.answers),
        );
    }

    let (keys, lists) = identifiers::lists(shared, mine)?;
    if let (Some(least), [learner], false) = (shared.limits.min_intersection, &*learners, lists.is_empty()) {
        let other = parties.iter().find(|party| *party != learner);
        // Who does not learn, and has one identifier a row, knows that there are as many rows of its own.
        if let Some(other) = other.filter(|other| **other != me || lists.len() > 1) {
            notes.push(format!(
                "shared.limits.min_intersection: rows of {other} are not counted, for it does not hear which match: so that {least} of them do, \
                 {least} times as many identifiers must be common as one row of {other} may have"
            ));
        }
    }
    if let Some(column) = mine.input.value.as_ref().filter(|_| !shared.result.has_values()) {
        let result = shared.result.name();
        let why = format!(
            "\"{column}\" is of use only with shared.result = \"sum\" or \"shares\", and this is \"{result}\"; remove it"
        );
        return refuse("mine.input.value", why);
    }

    // Of three and more parties one alone can have the values, and all know which.
    if let Some(owner) = suite.values().and_then(|place| parties.get(usize::from(place))) {
        let rule = format!(
            "the values of a sum of three and more parties are those of {owner}, the first of shared.parties that learns and is not the pivot"
        );
        let why = match (&mine.input.value, *owner == me) {
            (None, true) => format!("is missing: {rule}; name the column"),
            (Some(_), false) => {
                format!("{rule}; remove it, or change shared.learns or shared.parties on all sides so that it is {me}")
            }
            _ => String::new(),
        };
        if !why.is_empty() {
            return refuse("mine.input.value", why);
        }
    }

    let grouped = grouped(shared, mine, &me, owner.as_ref())?;

    let columns = output.and_then(|o| o.columns.clone());
    if columns.as_ref().is_some_and(Vec::is_empty) {
        return refuse("mine.output.columns", "is empty: name columns, or leave it out for all of them");
    }
    if columns.is_some() && matches!(shared.result, ResultKind::Shares | ResultKind::Groups) {
        let result = shared.result.name();
        return refuse("mine.output.columns", format!("a result of {result} has columns of its own; leave it out"));
    }
    let says_how = output.is_some_and(|o| o.matched.is_some());
    let half = shared.join.shape().half(me.place());
    if says_how && (shared.matching != Some(Match::Any) || !half.pairs) {
        let why = "says by which identifiers a row matched, with shared.match = \"any\" and a join of rows that match; leave it out";
        return refuse("mine.output.matched", why);
    }
    distinct("mine.output.columns", columns.as_deref().unwrap_or_default())?;
    if mine.input.day.is_some() {
        let why = "is for a service's client that keeps its answers, and a job matches whole tables; name the table in mine.input.path";
        return refuse("mine.input.added", why);
    }
    if output.is_some_and(|o| o.gained.is_some() || o.lost.is_some()) {
        let why = "compares a service's client with its last run, and a job has no last run; leave it out";
        let field = if output.is_some_and(|o| o.gained.is_some()) { "mine.output.gained" } else { "mine.output.lost" };
        return refuse(field, why);
    }
    let parts = output.and_then(|o| o.parts.as_deref()).map(checks::parts).transpose()?;
    let absent = shared.join.shape().half(me.place()).theirs && learners.len() == parties.len() && lists.is_empty();

    let plan = Plan {
        shared: shared.clone(),
        resume: resume(mine)?,
        budget: budget(shared, mine)?,
        peers: peers(spec, &parties, &me, &find)?,
        proxy: proxy(mine.proxy.as_ref(), mine.proxy_credentials.as_ref())?,
        listen: mine.listen.clone(),
        gateways: gateways(&mine.proxy_protocol, mine.listen.is_some())?,
        identity: identity(shared, mine)?,
        choice,
        suite: suite.into(),
        input: mine.input.table(mine.scratch.as_deref()),
        rules: match lists.is_empty() {
            true => rules("shared.rules", &shared.rules, keys.len())?,
            false => lists.iter().flat_map(|list| list.rules.iter().cloned()).collect(),
        },
        keys,
        lists,
        value: mine.input.value.clone(),
        grouped,
        output: output.map(|o| vesica_table::Output {
            path: o.path.clone(),
            format: o.format.map(table_format),
            null: o.null.clone().unwrap_or_else(|| if absent { "NULL".to_owned() } else { String::new() }),
            absent,
            parts,
        }),
        columns,
        order,
        says_how,
        notes,
        memory,
        scratch: mine.scratch.clone(),
        // Two for each core: one computes while the other waits for the network.
        workers: workers(mine.workers, |cores| 2 * cores.clamp(1, 32))?,
        lanes: mine.lanes.unwrap_or(0),
        patience: patience(&mine.patience)?,
        report: mine.report.clone(),
        trace: mine.trace.clone(),
        metrics: mine.metrics.clone(),
        mine: mine.without_keys(),
        parties,
        me,
        learners,
    };
    plan.accepted()?;
    lanes(mine.lanes, &plan)?;
    if let Some(parts) = parts {
        cut(&plan, parts)?;
    }
    Ok(plan)
}

/// Sees that the output can be cut into such parts.
fn cut(plan: &Plan, parts: vesica_table::Parts) -> Result<(), SpecError> {
    let refuse = |why: String| refuse("mine.output.parts", why);
    if matches!(plan.shared.result, ResultKind::Shares | ResultKind::Groups) {
        return refuse(format!("a result of {} is one file; leave it out", plan.shared.result.name()));
    }
    if parts != vesica_table::Parts::Files {
        return Ok(());
    }
    let remedy = "give a size, such as \"256 MiB\"";
    if !plan.input.origin.lasts() {
        return refuse(format!(
            "\"files\" is a file for each file of the input, and {} is none; {remedy}",
            plan.input.origin.name().display()
        ));
    }
    if plan.shared.result == ResultKind::Rows && plan.several_learn() && plan.order == Order::Aligned {
        return refuse(format!(
            "\"files\" keeps rows by the files of the input, and both outputs line up row by row; {remedy}, or add order = \"input\""
        ));
    }
    if plan.output.as_ref().is_some_and(|output| output.absent) {
        let join = plan.shared.join.name();
        return refuse(format!("\"files\" has no place for the rows of nulls of a {join} join; {remedy}"));
    }
    Ok(())
}

/// The most bytes that what a group is called may take, in all of its columns, so that a label says nothing by its length.
pub const LABEL_BYTES: usize = vesica_session::LABEL;

/// The most bytes that agreed labels may take in the document, which parties send each other whole.
const MOST_LABELS: usize = 1 << 18;

/// The most columns that rows are grouped by.
const MOST_BY: usize = 16;

/// The groups that the parties agree on. `owner` has them.
fn grouping(shared: &Shared, owner: Option<&Party>) -> Result<Option<Grouping>, SpecError> {
    let (Some(groups), Some(owner)) = (&shared.groups, owner) else {
        return match shared.sums.is_empty() {
            true => Ok(None),
            false => refuse("shared.sums", "is of use only with result = \"groups\" and shared.groups; remove it"),
        };
    };
    let most = number_of("shared.groups", (&groups.by, "region"), groups.most, &groups.labels)?;
    // There is no noise for groups of both, whatever is said of these.
    if groups.of_a_key.is_none() && shared.dp.is_some() && groups.other.is_none() {
        let why = "is missing: noise hides a key in all of its groups, so with shared.dp say in how many it may be, such as of_a_key = 1";
        return refuse("shared.groups.of_a_key", why.to_owned());
    }
    let of_others = |sum: &&Sum| sum.of.as_deref().is_some_and(|of| of != owner.name());
    let other = groups.other.as_ref().map(|other| others(other, shared.sums.iter().find(of_others))).transpose()?;
    shared.sums.iter().try_for_each(|sum| added(shared, sum))?;
    let products = products(shared, owner)?;
    // The columns of the output, and the names of factors.
    let means = shared.told().map(|sum| format!("{}_mean", sum.name));
    let names = shared.sums.iter().map(|sum| sum.name.clone()).chain(means);
    let names: Vec<String> = groups.by_of_both().into_iter().chain(["keys".to_owned()]).chain(names).collect();
    if names.iter().any(|name| name.is_empty() || name.len() > 200) {
        return refuse(
            "shared.groups",
            "a column of the output has no name, or one of more than 200 bytes; give each of by and sums a short name"
                .to_owned(),
        );
    }
    distinct("shared.groups", &names).map_err(|_| {
        SpecError::field(
            "shared.groups",
            format!("the output would have two columns of one name, of these: {}; give them others in by and in shared.sums", names.join(", ").escape_debug()),
        )
    })?;
    let count = |sums: usize| u32::try_from(sums).unwrap_or(u32::MAX);
    let of_other = count(shared.told().filter(|sum| !sum.is_of(owner.name())).count());
    let (of_a_key, sums) = (groups.of_a_key.unwrap_or(most), count(shared.told().count()));
    let agreed = !groups.labels.is_empty();
    Ok(Some(Grouping {
        of: owner.place(),
        most,
        sums,
        of_other,
        products,
        least: groups.least,
        of_a_key,
        agreed,
        other,
    }))
}

/// The groups of the party that `shared.groups.of` does not name. `value` is one of its values that are added up or multiplied, if there are any.
fn others(other: &OtherGroups, value: Option<&Sum>) -> Result<OtherGrouping, SpecError> {
    let most = number_of("shared.groups.other", (&other.by, "campaign"), other.most, &other.labels)?;
    let of_a_key = other.of_a_key.unwrap_or(most);
    match value {
        _ if most > 0 && !(1..=most).contains(&of_a_key) => {
            let why = format!(
                "a key may be in {of_a_key} groups; give 1 to {most}, which is how many groups there are at most, or leave it out"
            );
            refuse("shared.groups.other.of_a_key", why)
        }
        Some(sum) if of_a_key > 1 => {
            let why = format!(
                "a key may be in {of_a_key} groups, and {:?} has one value for a key of {}: agree on of_a_key = 1, or leave the sum out",
                sum.name,
                sum.of.as_deref().unwrap_or_default()
            );
            refuse("shared.groups.other.of_a_key", why)
        }
        _ => Ok(OtherGrouping { most, agreed: !other.labels.is_empty() }),
    }
}

/// The sums as a protocol knows them.
fn in_order(shared: &Shared) -> Vec<Summed> {
    let told: Vec<&Sum> = shared.told().collect();
    let each = shared.order_of_sums().into_iter().map(|place| told[place]);
    each.map(|sum| Summed { name: sum.name.clone(), largest: sum.largest }).collect()
}

/// How many groups `field` says there are at most, of which each has a label that is like no other one, if labels are agreed on. Rows are grouped
/// by these columns, such as that one.
fn number_of(
    field: &str,
    (by, such): (&[String], &str),
    most: Option<u32>,
    labels: &[GroupLabel],
) -> Result<u32, SpecError> {
    let refuse = |of: &str, why: String| refuse(&format!("{field}.{of}"), why);
    if by.is_empty() || by.len() > MOST_BY {
        let why = format!(
            "names {} columns; name 1 to {MOST_BY} that rows are grouped by, such as by = [\"{such}\"]",
            by.len()
        );
        return refuse("by", why);
    }
    match (most, number(most, labels)) {
        (Some(most), Some(all)) if !labels.is_empty() => {
            let why = format!(
                "says {most}, and {field}.labels lists all {all} groups that there may be; leave one of them out"
            );
            return refuse("most", why);
        }
        (None, None) => {
            let why = format!(
                "is missing: say how many groups there are at most, such as most = 16, or list them in {field}.labels"
            );
            return refuse("most", why);
        }
        _ => {}
    }
    let mut known = HashSet::new();
    for GroupLabel(label) in labels {
        let why = if label.len() != by.len() {
            format!("has {} texts, and there are {} columns in {field}.by: give one for each", label.len(), by.len())
        } else if label.iter().map(|text| text.len() + 2).sum::<usize>() > LABEL_BYTES {
            format!("is longer than {LABEL_BYTES} bytes, of which each column takes two more than its text; shorten it")
        } else if !known.insert(label) {
            "is there twice; remove one".to_owned()
        } else {
            continue;
        };
        // With escapes: the label may stand in an invitation, which a stranger wrote.
        return refuse("labels", format!("{label:?} {why}"));
    }
    // In the words in which it travels, which have six bytes for some of a text's.
    let all = serde_json::to_string(labels).map_or(usize::MAX, |text| text.len());
    if all > MOST_LABELS {
        return refuse("labels", format!("takes {all} bytes, and the most is {MOST_LABELS}; shorten the labels"));
    }
    Ok(number(most, labels).unwrap_or_default())
}

/// Sees that one of `shared.sums` says what it adds up. Names are told with escapes: they may stand in an invitation, which a stranger wrote.
fn added(shared: &Shared, sum: &Sum) -> Result<(), SpecError> {
    let Sum { name, of, product, largest, told } = sum;
    // What a job expects of noise is said in sentences in which braces stand for parties.
    if name.contains(['{', '}']) {
        return refuse("shared.sums.name", format!("{name:?} has a brace in it; give the sum another name"));
    }
    match (of, product) {
        (Some(of), None) if !shared.parties.contains(of) => {
            refuse("shared.sums.of", format!("{of:?} is not one of shared.parties ({})", shared.parties.join(", ")))
        }
        (Some(_), None) if *largest == Some(0) => {
            let why = format!("0 leaves nothing to add up in {name:?}; give more, or leave it out");
            refuse("shared.sums.largest", why)
        }
        (Some(_), None) => {
            let is_factor = shared.sums.iter().flat_map(|sum| &sum.product).any(|factors| factors.contains(name));
            if *told || is_factor {
                return Ok(());
            }
            let why = format!(
                "{name:?} is not told and is a factor of no product, so that it is of no use; remove told = false, or the sum"
            );
            refuse("shared.sums.told", why)
        }
        (None, Some(_)) if largest.is_some() => {
            let why = format!(
                "bounds values of one party, and {name:?} is a product; remove it, and give its factors one each"
            );
            refuse("shared.sums.largest", why)
        }
        (None, Some(_)) if !told => {
            let why = format!("{name:?} is a product, and nothing is made of a product that is not told; remove it");
            refuse("shared.sums.told", why)
        }
        (None, Some(_)) => Ok(()),
        (None, None) => {
            let why = format!(
                "{name:?} adds up nothing: name the party whose values it adds up, such as of = {:?}, or two of shared.sums that it \
                 multiplies, such as product = [\"spend\", \"views\"]",
                shared.parties[0]
            );
            refuse("shared.sums.of", why)
        }
        (Some(_), Some(_)) => {
            let why = format!(
                "{name:?} has both of and product; remove of if it multiplies two sums, and product if it is of one party"
            );
            refuse("shared.sums.product", why)
        }
    }
}

/// The factors of a product: that of values of `owner`, who has the groups, and that of the other party's.
fn factors<'a>(shared: &'a Shared, product: &Sum, owner: &Party) -> Result<Option<[&'a Sum; 2]>, SpecError> {
    let Some(named) = &product.product else { return Ok(None) };
    let refuse = |why: String| refuse("shared.sums.product", why);
    let mut both = Vec::new();
    for name in named {
        let Some(factor) = shared.sums.iter().find(|sum| sum.name == *name && sum.of.is_some()) else {
            let names: Vec<&str> =
                shared.sums.iter().filter(|sum| sum.of.is_some()).map(|sum| sum.name.as_str()).collect();
            let near = nearest(name, &names).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            return refuse(format!(
                "{name:?} of {:?} is none of shared.sums that has values of one party: add {{ name = {name:?}, of = {:?}, largest = 1000 }}, \
                 with told = false if its own sum is not to be told{near}",
                product.name,
                owner.name()
            ));
        };
        both.push(factor);
    }
    both.sort_by_key(|factor| !factor.is_of(owner.name()));
    let [of_owner, of_other] = both[..] else { return Ok(None) };
    if !of_owner.is_of(owner.name()) || of_other.is_of(owner.name()) {
        return refuse(format!(
            "both factors of {:?} are values of {}, who can multiply them: bring the products as a column, and add that up",
            product.name,
            of_owner.of.as_deref().unwrap_or_default()
        ));
    }
    Ok(Some([of_owner, of_other]))
}

/// The products of `shared.sums`, where `owner` has the groups.
fn products(shared: &Shared, owner: &Party) -> Result<Products, SpecError> {
    let other = shared.parties.iter().find(|party| *party != owner.name()).map_or("", String::as_str);
    let values = [owner.name(), other].map(|party| shared.values_of(party));
    let mut all = Vec::new();
    for product in &shared.sums {
        let Some(factors) = factors(shared, product, owner)? else { continue };
        let mut bounds = [0; 2];
        for (bound, factor) in bounds.iter_mut().zip(factors) {
            let Some(largest) = factor.largest else {
                let why = format!(
                    "{:?} is a factor of {:?} and has none: agree on the most that the rows of a key may come to, such as largest = 100000",
                    factor.name, product.name
                );
                return refuse("shared.sums.largest", why);
            };
            *bound = largest;
        }
        if u128::from(bounds[0]) * u128::from(bounds[1]) >= 1 << 62 {
            let why = format!(
                "the factors of {:?} may be {} and {}, and a product from 2^62 on is too large to be added up; agree on smaller ones",
                product.name, bounds[0], bounds[1]
            );
            return refuse("shared.sums.largest", why);
        }
        let place = |which: usize| {
            let at = values[which].iter().position(|value| value.name == factors[which].name);
            at.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX)
        };
        // Those of the number, and one for its sign.
        let bits = 65 - bounds[0].leading_zeros();
        all.push(Product { of_r: place(0), of_s: place(1), bits: bits as u8 });
    }
    let untold = values.each_ref().map(|values| values.iter().filter(|value| !value.told).count());
    Products::new(&all, untold).ok_or_else(|| {
        SpecError::field(
            "shared.sums.product",
            format!("there are {} products, and {} are the most", all.len(), Products::MOST),
        )
    })
}

/// The columns that are grouped by and added up, if `me` has the groups, or values that are added up in them.
fn grouped(shared: &Shared, mine: &Mine, me: &Party, owner: Option<&Party>) -> Result<Option<GroupedPlan>, SpecError> {
    let (input, has) = (&mine.input, owner == Some(me));
    let own = shared.values_of(me.name());
    let names: Vec<&str> = own.iter().map(|sum| sum.name.as_str()).collect();
    let other = shared.groups.as_ref().and_then(|groups| groups.other.as_ref()).filter(|_| !has && owner.is_some());
    if !has && other.is_none() && !input.groups.is_empty() {
        let why = "is for the party of shared.groups.of alone, which this one is not; remove it, or agree on shared.groups.other";
        return refuse("mine.input.groups", why.to_owned());
    }
    if let Some(name) = input.values.keys().find(|name| !names.contains(&name.as_str())) {
        let why = match shared.sums.iter().find(|sum| sum.name == *name) {
            Some(Sum { of: Some(of), .. }) => format!("\"{name}\" adds up values of {of}, by shared.sums; remove it"),
            Some(_) => format!("\"{name}\" is a product, and has the columns of its factors; remove it"),
            None if names.is_empty() => {
                format!("names columns of values, and none of shared.sums is of {}; remove it", me.name())
            }
            None => {
                let near = nearest(name, &names).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
                format!("\"{name}\" is not the name of one of shared.sums{near}")
            }
        };
        return refuse("mine.input.values", why);
    }
    let column = |name: &String| input.values.get(name).unwrap_or(name).clone();
    let (Some(groups), Some(owner)) =
        (shared.groups.as_ref().filter(|_| has || other.is_some() || !own.is_empty()), owner)
    else {
        return Ok(None);
    };
    let products = shared.sums.iter().filter_map(|sum| factors(shared, sum, owner).transpose());
    let products = products.collect::<Result<Vec<_>, _>>()?;
    // Products are bounded by the values of the party with the groups, whatever the other one's are.
    let times = |own: &Sum| {
        let of = products.iter().filter(|[factor, _]| factor.name == own.name);
        of.filter_map(|[_, other]| other.largest).max().unwrap_or(1)
    };
    let sums =
        own.iter().map(|sum| Added { column: column(&sum.name), largest: sum.largest, times: times(sum) }).collect();
    let noisy = shared.dp.is_some();
    let (field, agreed, labels, most, of_a_key) = match other {
        None if has => ("shared.groups", &groups.by, &groups.labels, groups.number(), groups.of_a_key),
        Some(other) => ("shared.groups.other", &other.by, &other.labels, other.number(), other.of_a_key),
        // Its keys are in one group, as far as it knows.
        None => {
            let (by, labels) = (Vec::new(), Vec::new());
            return Ok(Some(GroupedPlan { other: false, by, sums, most: 1, labels, of_a_key: 1, noisy }));
        }
    };
    let by = if input.groups.is_empty() { agreed } else { &input.groups };
    if by.len() != agreed.len() {
        let why = format!(
            "names {} columns, and {field}.by {}: name a column for each of {}",
            by.len(),
            agreed.len(),
            agreed.join(", ")
        );
        return refuse("mine.input.groups", why);
    }
    let most = most.unwrap_or_default();
    let (by, labels, of_a_key) = (by.clone(), labels.clone(), of_a_key.unwrap_or(most));
    Ok(Some(GroupedPlan { other: other.is_some(), by, sums, most, labels, of_a_key, noisy }))
}

/// Refuses lanes where a job has no use for them.
fn lanes(given: Option<u32>, plan: &Plan) -> Result<(), SpecError> {
    let why = match (given, plan.refuses_lanes()) {
        (None, _) => return Ok(()),
        (Some(n), _) if !(1..=MAX_LANES).contains(&n) => {
            format!("{n} lanes; give 1 to {MAX_LANES}, or leave it out for units that go over the first connection")
        }
        (Some(_), Some(why)) => format!("{why}; remove it"),
        (Some(_), None) => return Ok(()),
    };
    refuse("mine.lanes", why)
}

fn parties(names: &[String]) -> Result<Vec<Party>, SpecError> {
    names.iter().try_for_each(|n| check_name("shared.parties", n))?;
    distinct("shared.parties", names)?;
    if names.len() < 2 || names.len() > usize::from(u8::MAX) {
        return refuse("shared.parties", format!("{} parties; name two, or more", names.len()));
    }
    Ok((0u8..).zip(names).map(|(place, name)| Party::new(place, name)).collect())
}

fn peers(
    spec: &Spec,
    parties: &[Party],
    me: &Party,
    find: &dyn Fn(&str, &str) -> Result<Party, SpecError>,
) -> Result<Vec<PeerPlan>, SpecError> {
    let mine = &spec.mine;
    for caller in mine.connect.keys() {
        if find("mine.connect", caller)? == *me {
            return refuse("mine.connect", format!("\"{caller}\" is this party itself"));
        }
    }
    let peers: Vec<&Party> = parties.iter().filter(|p| *p != me).collect();
    let awaited: Vec<&str> = peers.iter().map(|p| p.name()).filter(|n| !mine.connect.contains_key(*n)).collect();
    match (&mine.listen, awaited.as_slice()) {
        (None, [one, ..]) => {
            return refuse(
                "mine.listen",
                format!(
                    "is missing, and {one} is not in mine.connect: write listen = \"0.0.0.0:5300\" to be called by {one}, or connect = {{ {one} = \"host:port\" }} to call"
                ),
            );
        }
        (Some(_), []) => {
            return refuse(
                "mine.listen",
                "this party calls every other one (mine.connect), so nobody would call here: remove mine.listen, or the party that is to call from \
                 mine.connect",
            );
        }
        _ => {}
    }
    let called = |party: &Party| match mine.connect.get(party.name()) {
        None => Ok((None, RoadPlan::default())),
        Some(connect) => {
            let (address, road) = connect.read(&format!("mine.connect.{party}"), spec.shared.insecure)?;
            Ok::<_, SpecError>((Some(address), road))
        }
    };
    if spec.shared.insecure {
        let peer = |party: &Party| {
            let (connect, road) = called(party)?;
            Ok(PeerPlan { party: party.clone(), connect, road, trust: None })
        };
        return peers.into_iter().map(peer).collect();
    }
    let tls = mine.tls.as_ref().ok_or_else(|| {
        SpecError::field(
            "mine.tls",
            format!("is missing: make an identity with `vesica cert {me} --out DIR` and write tls = {{ identity = \"{me}.pem\", peers = {{ … = \"sha256:…\" }} }}"),
        )
    })?;
    for pinned in tls.peers.keys() {
        find("mine.tls.peers", pinned)?;
    }
    if tls.ca.is_some() && !tls.peers.is_empty() {
        return refuse(
            "mine.tls",
            "has both peers and ca: recognise certificates by fingerprint or by authority, not both",
        );
    }
    peers
        .into_iter()
        .map(|party| {
            let field = format!("mine.tls.peers.{party}");
            let trust = match (&tls.ca, tls.peers.get(party.name())) {
                (Some(ca), _) => TrustPlan::Ca(ca.clone()),
                (None, Some(pins)) => TrustPlan::Pinned(pins.read(&field)?),
                (None, None) => {
                    return refuse(
                        &field,
                        format!(
                            "is missing: if you invited {party}, `vesica confirm` writes it from {party}'s reply; else ask {party} for the \
                             fingerprint that `vesica cert` printed, and write peers = {{ {party} = \"sha256:…\" }}"
                        ),
                    );
                }
            };
            let (connect, road) = called(party)?;
            Ok(PeerPlan { party: party.clone(), connect, road, trust: Some(trust) })
        })
        .collect()
}

/// The files of this party's certificate and private key, if there is TLS.
fn identity(shared: &Shared, mine: &Mine) -> Result<Option<(PathBuf, Option<KeyPlace>)>, SpecError> {
    let tls = mine.tls.as_ref().filter(|_| !shared.insecure);
    tls.map(|tls| Ok((tls.identity.clone(), key(tls.key.as_ref(), "mine.tls.key")?))).transpose()
}

/// Where the key of `field` is.
pub(crate) fn key(place: Option<&KeyPlace>, field: &str) -> Result<Option<KeyPlace>, SpecError> {
    place.map(|place| place.read(field)).transpose()
}

/// What `mine.proxy` and `mine.proxy_credentials` mean.
pub(crate) fn proxy(url: Option<&ProxyUrl>, credentials: Option<&PathBuf>) -> Result<ProxyPlan, SpecError> {
    match (url.map(|url| url.0.as_str()), credentials) {
        (None | Some(ProxyUrl::NONE), Some(_)) => {
            refuse("mine.proxy_credentials", "is of use only with a proxy in mine.proxy: add it")
        }
        (None, None) => Ok(ProxyPlan::Environment),
        (Some(ProxyUrl::NONE), None) => Ok(ProxyPlan::None),
        (Some(url), credentials) => match Proxy::parse(url, "mine.proxy") {
            Err(why) => refuse("mine.proxy", why),
            Ok(proxy) if proxy.has_credentials() && credentials.is_some() => refuse(
                "mine.proxy_credentials",
                "the user and the password stand in mine.proxy too: take them out of one of the two",
            ),
            Ok(proxy) => Ok(ProxyPlan::Through(proxy, credentials.cloned())),
        },
    }
}

fn budget(shared: &Shared, mine: &Mine) -> Result<Option<Budget>, SpecError> {
    match (&mine.budget, shared.dp.is_some()) {
        (Some(_), false) => refuse(
            "mine.budget",
            "is of use only with shared.dp, and without it there is no noise that could average out; remove it",
        ),
        (None, true) => refuse(
            "mine.budget",
            "is missing: noise that is drawn anew in many runs averages out, so what they tell is added up for each party; name a file and \
             the most that it may come to, such as budget = { path = \"budget.json\", epsilon = 12.0 }",
        ),
        (Some(budget), true) if !(budget.epsilon > 0.0 && budget.epsilon.is_finite()) => {
            refuse("mine.budget.epsilon", format!("{} is no budget; give a positive number", budget.epsilon))
        }
        (budget, _) => Ok(budget.clone()),
    }
}

fn resume(mine: &Mine) -> Result<Option<ResumePlan>, SpecError> {
    match (&mine.resume, &mine.resume_key) {
        (None, Some(_)) => refuse("mine.resume_key", "is of use only with mine.resume: add it"),
        (Some(_), _) if !mine.input.origin.lasts() => {
            let name = mine.input.origin.name();
            let why = "cannot be read again after a restart: put the table into a file, or remove mine.resume";
            refuse("mine.resume", format!("{} {why}", name.display()))
        }
        (dir, place) => {
            let key = key(place.as_ref(), "mine.resume_key")?;
            Ok(dir.clone().map(|dir| ResumePlan { dir, key }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    const JOB: &str = r#"
[shared]
id = "acme-globex"
parties = ["alice", "bob"]
protocol = "ecdh"
learns = ["alice"]

[mine]
name = "alice"
listen = "127.0.0.1:5300"
tls = { identity = "alice.pem", peers = { bob = "sha256:PIN" } }
input = { path = "alice.csv", keys = ["id"] }
output = { path = "out.csv" }
"#;

    fn job() -> String {
        JOB.replace("PIN", &"ab".repeat(32))
    }

    fn refused(from: &str, to: &str) -> SpecError {
        let text = job().replace(from, to);
        assert_ne!(text, job(), "{from}");
        plan(&parse(&text).unwrap()).unwrap_err()
    }

    #[test]
    fn a_valid_job_has_a_plan() {
        let plan = plan(&parse(&job()).unwrap()).unwrap();
        assert_eq!((plan.me.name(), plan.peers[0].party.name(), plan.i_learn()), ("alice", "bob", true));
        assert_eq!(plan.memory, 2 << 30);
        assert_eq!(plan.memory, crate::USUAL_MEMORY);
        assert_eq!(plan.patience, Duration::from_secs(600));
    }

    /// What the pivot could do with the leader is accepted by its name, and not by "all".
    #[test]
    fn a_pivot_is_a_party_and_accepted_by_name() {
        let of_three = |more: &str| {
            let pins = format!("carol = \"sha256:{}\"", "cd".repeat(32));
            let text = job()
                .replace("[\"alice\", \"bob\"]", "[\"alice\", \"bob\", \"carol\"]")
                .replace("\"ecdh\"", "\"rr22\"")
                .replace("peers = { ", &format!("peers = {{ {pins}, "))
                .replace("[mine]", &format!("{more}\n[mine]"));
            plan(&parse(&text).unwrap())
        };
        assert_eq!(of_three("").unwrap().choice.pivot, None);
        for accept in ["", "accept = \"all\""] {
            let error = of_three(&format!("pivot = \"carol\"\n{accept}")).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("shared.accept"));
            assert!(error.to_string().contains("accept = [\"leader_and_pivot\"]"), "{error}");
        }
        let plan = of_three("pivot = \"carol\"\naccept = [\"leader_and_pivot\"]").unwrap();
        assert_eq!(plan.choice.pivot, Some(2));
        let error = of_three("insecure = true").unwrap_err();
        assert_eq!(error.field.as_deref(), Some("shared.insecure"));
        assert!(error.to_string().contains("mine.tls"), "{error}");
        for (pivot, words) in [("dave", "is not one of shared.parties"), ("alice", "does not learn")] {
            let error = of_three(&format!("pivot = \"{pivot}\"")).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("shared.pivot"));
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    /// Every field that can contradict another is refused by name, with a remedy.
    #[test]
    fn what_contradicts_is_refused_by_name() {
        let cases = [
            ("id = \"acme-globex\"", "id = \"a b\"", "shared.id"),
            ("[\"alice\", \"bob\"]", "[\"alice\", \"alice\"]", "shared.parties"),
            ("[\"alice\", \"bob\"]", "[\"alice\"]", "shared.parties"),
            ("[\"alice\", \"bob\"]", "[\"alice\", \"bob\", \"carol\"]", "mine.tls.peers.carol"),
            ("learns = [\"alice\"]", "learns = []", "shared.learns"),
            ("learns = [\"alice\"]", "learns = [\"alcie\"]", "shared.learns"),
            ("learns = [\"alice\"]", "learns = [\"alice\", \"alice\"]", "shared.learns"),
            ("output = { path = \"out.csv\" }", "", "mine.output"),
            ("learns = [\"alice\"]", "learns = [\"alice\"]\nunit = 0", "shared.unit"),
            ("learns = [\"alice\"]", "learns = [\"alice\"]\nunit = 4000000", "shared.unit"),
            ("name = \"alice\"", "name = \"alise\"", "mine.name"),
            ("listen = \"127.0.0.1:5300\"", "", "mine.listen"),
            ("listen = \"127.0.0.1:5300\"", "listen = \"h:1\"\nconnect = { bob = \"h:1\" }", "mine.listen"),
            ("listen = \"127.0.0.1:5300\"", "connect = { alice = \"h:1\" }", "mine.connect"),
            ("listen = \"127.0.0.1:5300\"", "connect = { eve = \"h:1\" }", "mine.connect"),
            ("peers = { bob", "peers = { bobb", "mine.tls.peers"),
            ("peers = { bob", "ca = \"ca.pem\", peers = { bob", "mine.tls"),
            ("sha256:", "sha1:", "mine.tls.peers.bob"),
            ("learns = [\"alice\"]", "learns = [\"alice\"]\njoin = \"left\"", "shared.join"),
            ("learns = [\"alice\"]", "learns = [\"alice\", \"bob\"]\njoin = \"full\"", "shared.accept"),
            (
                "learns = [\"alice\"]",
                "learns = [\"alice\"]\nlimits.min_intersection = 0",
                "shared.limits.min_intersection",
            ),
            // More than 2^63 - 1, which TOML reads and does not write: the report writes the shared document.
            (
                "learns = [\"alice\"]",
                "learns = [\"alice\"]\nlimits.min_intersection = 9223372036854775808",
                "shared.limits.min_intersection",
            ),
            (
                "learns = [\"alice\"]",
                "learns = [\"alice\"]\nlimits.max_keys = 18446744073709551615",
                "shared.limits.max_keys",
            ),
            ("learns = [\"alice\"]", "learns = [\"\\u001b[2J\"]", "shared.learns"),
            ("\"out.csv\"", "\"out.csv\", columns = []", "mine.output.columns"),
            ("\"out.csv\"", "\"out.csv\", columns = [\"a\", \"a\"]", "mine.output.columns"),
            ("learns = [\"alice\"]", "learns = [\"alice\"]\nrules = [[\"trim\"], []]", "shared.rules"),
            ("keys = [\"id\"]", "keys = []", "mine.input.keys"),
            ("keys = [\"id\"]", "keys = [\"id\", \"id\"]", "mine.input.keys"),
            ("name = \"alice\"", "name = \"alice\"\nmemory = \"lots\"", "mine.memory"),
            ("name = \"alice\"", "name = \"alice\"\nmemory = \"1 MiB\"", "mine.memory"),
            ("name = \"alice\"", "name = \"alice\"\nworkers = 0", "mine.workers"),
            ("name = \"alice\"", "name = \"alice\"\nlanes = 0", "mine.lanes"),
            ("name = \"alice\"", "name = \"alice\"\npatience = \"soon\"", "mine.patience"),
            ("name = \"alice\"", "name = \"alice\"\npatience = \"0s\"", "mine.patience"),
        ];
        for (from, to, field) in cases {
            let error = refused(from, to);
            assert_eq!(error.field.as_deref(), Some(field), "{to}: {error}");
            assert!(!error.to_string().contains('\u{1b}'), "a terminal would obey {to}");
        }
        let text = job().lines().filter(|l| !l.starts_with("tls")).collect::<Vec<_>>().join("\n");
        assert_eq!(plan(&parse(&text).unwrap()).unwrap_err().field.as_deref(), Some("mine.tls"));
        let insecure = text.replace("[mine]", "insecure = true\n[mine]");
        assert!(plan(&parse(&insecure).unwrap()).is_ok());
    }

    /// A job that tells more than the intersection says so itself, or is refused with what to write.
    #[test]
    fn what_goes_beyond_the_intersection_must_be_accepted() {
        let job = |join: &str, accept: &str| {
            let shared = format!("learns = [\"alice\", \"bob\"]\njoin = \"{join}\"\naccept = {accept}");
            plan(&parse(&job().replace("learns = [\"alice\"]", &shared)).unwrap())
        };
        for (join, needed) in [
            ("inner", vec![]),
            ("left", vec!["left_unmatched"]),
            ("right", vec!["right_unmatched"]),
            ("full", vec!["left_unmatched", "right_unmatched"]),
            ("difference", vec!["left_unmatched", "right_unmatched"]),
        ] {
            let list = format!("{needed:?}");
            let told: Vec<&str> = job(join, &list).unwrap().reveals().iter().map(|r| r.name).collect();
            assert!(needed.iter().all(|n| told.contains(n)), "{join}: {told:?}");
            assert_eq!(told.contains(&"multiplicity"), join != "difference", "{join}");
            job(join, "\"all\"").unwrap();
            if !needed.is_empty() {
                let error = job(join, "[]").unwrap_err();
                assert!(error.message.ends_with(&format!("write accept = {list}")), "{error}");
                assert!(job(join, &format!("{:?}", &needed[1..])).is_err());
            }
        }
    }

    #[test]
    fn an_output_of_a_party_that_does_not_learn_is_noted_and_left_out() {
        let plan = plan(&parse(&job().replace("learns = [\"alice\"]", "learns = [\"bob\"]")).unwrap()).unwrap();
        assert!(plan.output.is_none() && plan.columns.is_none());
        assert!(plan.notes[0].starts_with("mine.output: nothing is written to out.csv"), "{:?}", plan.notes);
    }

    #[test]
    fn salted_hashes_are_accepted_by_name_or_not_at_all() {
        let with = |accept: &str| {
            let text = job().replace("protocol = \"ecdh\"", &format!("protocol = \"hash\"\naccept = {accept}"));
            plan(&parse(&text).unwrap()).map(|plan| plan.reveals().iter().any(|r| r.name == "guessable_keys"))
        };
        assert!(with("[\"guessable_keys\"]").unwrap());
        for accept in ["[]", "\"all\""] {
            let error = with(accept).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("shared.accept"), "{error}");
            assert!(error.message.contains("every key of the other party that can be guessed"), "{error}");
        }
    }

    /// Many groups cost much where a key may be in all of them, and both are told so.
    #[test]
    fn many_groups_without_a_bound_on_those_of_a_key_are_noted() {
        for (most, of_a_key, noted) in [(1024, "", true), (1024, ", of_a_key = 1", false), (9, "", false)] {
            let groups = format!("groups = {{ of = \"bob\", by = [\"region\"], most = {most}{of_a_key} }}");
            let shared = format!("protocol = \"rr22\"\nresult = \"groups\"\n{groups}");
            let plan = plan(&parse(&job().replace("protocol = \"ecdh\"", &shared)).unwrap()).unwrap();
            let told = plan.notes.iter().any(|note| note.starts_with("shared.groups.of_a_key: a key may be in all of"));
            assert_eq!(told, noted, "{:?}", plan.notes);
        }
    }

    /// The party with the groups has columns for them, called as they are agreed on where it says nothing else; the other has none.
    #[test]
    fn groups_are_columns_of_one_party() {
        let with = |owner: &str, input: &str| {
            let groups = format!("groups = {{ of = \"{owner}\", by = [\"region\", \"age\"], most = 9 }}");
            let sums = format!(
                "sums = [{{ name = \"spend\", of = \"{owner}\" }}, {{ name = \"n\", of = \"{owner}\", largest = 7 }}]"
            );
            let text = job()
                .replace(
                    "protocol = \"ecdh\"",
                    &format!(
                        "protocol = \"rr22\"\nresult = \"groups\"\naccept = [\"chosen_groups\"]\n{groups}\n{sums}"
                    ),
                )
                .replace("keys = [\"id\"]", &format!("keys = [\"id\"]{input}"));
            plan(&parse(&text).unwrap())
        };
        let plan = with("alice", ", values = { spend = \"cents\" }").unwrap();
        let added = |column: &str, largest| Added { column: column.to_owned(), largest, times: 1 };
        let sums = vec![added("cents", None), added("n", Some(7))];
        let by = vec!["region".to_owned(), "age".to_owned()];
        let grouped = GroupedPlan { other: false, by, sums, most: 9, labels: vec![], of_a_key: 9, noisy: false };
        assert_eq!(plan.grouped, Some(grouped));
        let products = Products::NONE;
        let grouping = Grouping {
            of: 0,
            most: 9,
            sums: 2,
            of_other: 0,
            products,
            least: 50,
            of_a_key: 9,
            agreed: false,
            other: None,
        };
        assert_eq!(plan.choice.groups, Some(grouping));
        assert!(plan.output.is_some());
        let plan = with("alice", ", groups = [\"r\", \"a\"]").unwrap();
        assert_eq!(plan.grouped.unwrap().by, ["r", "a"]);
        assert_eq!(with("bob", "").unwrap().grouped, None);
        for (owner, input, field) in [
            ("bob", ", groups = [\"r\", \"a\"]", "mine.input.groups"),
            ("bob", ", values = { spend = \"cents\" }", "mine.input.values"),
            ("alice", ", groups = [\"r\"]", "mine.input.groups"),
            ("alice", ", values = { spent = \"cents\" }", "mine.input.values"),
            ("carol", "", "shared.groups.of"),
        ] {
            assert_eq!(with(owner, input).unwrap_err().field.as_deref(), Some(field), "{owner} {input}");
        }
    }

    /// Values are of either party, or of both: each has the columns of its own.
    #[test]
    fn values_by_group_are_of_both_parties() {
        let with = |owner: &str, sums: &[(&str, &str)], input: &str| {
            let sums: Vec<String> =
                sums.iter().map(|(name, of)| format!("{{ name = \"{name}\", of = \"{of}\" }}")).collect();
            let groups = format!("groups = {{ of = \"{owner}\", by = [\"region\"], most = 9 }}");
            let accept = "accept = [\"chosen_groups\", \"chosen_values\"]";
            let shared =
                format!("protocol = \"rr22\"\nresult = \"groups\"\n{accept}\n{groups}\nsums = [{}]", sums.join(", "));
            let text = job()
                .replace("protocol = \"ecdh\"", &shared)
                .replace("keys = [\"id\"]", &format!("keys = [\"id\"]{input}"));
            plan(&parse(&text).unwrap())
        };
        let both = [("views", "bob"), ("spend", "alice"), ("clicks", "bob")];
        let plan = with("bob", &both, ", values = { spend = \"cents\" }").unwrap();
        let sums = vec![Added { column: "cents".to_owned(), largest: None, times: 1 }];
        let grouped = |by, most| {
            let sums = sums.clone();
            GroupedPlan { other: false, by, sums, most, labels: vec![], of_a_key: most, noisy: false }
        };
        assert_eq!(plan.grouped, Some(grouped(vec![], 1)));
        assert!(plan.adds_up());
        let products = Products::NONE;
        let grouping = Grouping {
            of: 1,
            most: 9,
            sums: 3,
            of_other: 1,
            products,
            least: 50,
            of_a_key: 9,
            agreed: false,
            other: None,
        };
        assert_eq!(plan.choice.groups, Some(grouping));
        let plan = with("alice", &both, ", values = { spend = \"cents\" }").unwrap();
        let by = vec!["region".to_owned()];
        assert_eq!(plan.grouped, Some(grouped(by, 9)));
        assert_eq!(plan.choice.groups, Some(Grouping { of: 0, of_other: 2, ..grouping }));
        let plan = with("bob", &both[..1], "").unwrap();
        assert!(plan.grouped.is_none() && !plan.adds_up());
        for (sums, input, why) in [
            (&both[..], ", values = { views = \"v\" }", "values of bob"),
            (&both[..], ", values = { spent = \"v\" }", "did you mean \"spend\""),
            (&both[..1], ", values = { n = \"v\" }", "none of shared.sums"),
        ] {
            let error = with("bob", sums, input).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("mine.input.values"));
            assert!(error.message.contains(why), "{error}");
        }
    }

    /// All groups that there may be, in the place of their number: of one column as texts, of several as lists.
    #[test]
    fn labels_are_agreed_on_in_the_place_of_a_number() {
        let with = |groups: &str, more: &str| {
            let groups = format!("groups = {{ of = \"bob\", {groups} }}");
            let shared = format!("protocol = \"rr22\"\nresult = \"groups\"\n{groups}\n{more}");
            let text = job().replace("protocol = \"ecdh\"", &shared);
            let text = if more.contains("dp =") {
                text.replace("[mine]", "[mine]\nbudget = { path = \"b\", epsilon = 3.0 }")
            } else {
                text
            };
            let spec = parse(&text).unwrap();
            assert_eq!(parse(&spec.text()).unwrap(), spec, "it is read as it was written");
            plan(&spec)
        };
        let one = with("by = [\"region\"], labels = [\"north\", [\"south\"], \"\"]", "").unwrap();
        assert_eq!(one.choice.groups.map(|of| (of.most, of.of_a_key, of.agreed)), Some((3, 3, true)));
        assert_eq!(one.shared.canonical()["groups"]["labels"], serde_json::json!(["north", "south", ""]));
        let two = with("by = [\"region\", \"age\"], labels = [[\"north\", \"20\"], [\"north\", \"30\"]]", "").unwrap();
        let texts: Vec<_> = two.shared.groups.unwrap().labels.into_iter().map(|GroupLabel(texts)| texts).collect();
        assert_eq!(texts, [["north", "20"], ["north", "30"]]);
        let noise = "dp = { epsilon = 1.0 }\nsums = [{ name = \"spend\", of = \"bob\", largest = 9 }]";
        let noisy = with("by = [\"region\"], labels = [\"north\"], of_a_key = 1", noise).unwrap();
        assert!(noisy.reveals().iter().any(|reveal| reveal.name == "group_totals_noisy"));
        let (long, many) = ("x".repeat(255), (0..1025).map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join(", "));
        let wide = (0..1000).map(|i| format!("\"{i}{}\"", "\\u0001".repeat(200))).collect::<Vec<_>>().join(", ");
        for (groups, more, field, why) in [
            ("by = [\"r\"]", "", "shared.groups.most", "is missing"),
            ("by = [\"r\"], most = 1, labels = [\"a\"]", "", "shared.groups.most", "lists all 1 groups"),
            (
                "by = [\"r\", \"a\"], labels = [\"a\"]",
                "",
                "shared.groups.labels",
                "has 1 texts, and there are 2 columns",
            ),
            ("by = [\"r\"], labels = [[]]", "", "shared.groups.labels", "has 0 texts"),
            ("by = [\"r\"], labels = [\"a\", [\"a\"]]", "", "shared.groups.labels", "is there twice"),
            (&format!("by = [\"r\"], labels = [\"{long}\"]"), "", "shared.groups.labels", "longer than 256 bytes"),
            (&format!("by = [\"r\"], labels = [{many}]"), "", "shared.groups.labels", "give 1 to 1024 groups"),
            (&format!("by = [\"r\"], labels = [{wide}]"), "", "shared.groups.labels", "the most is 262144"),
            ("by = [\"r\"], labels = [\"a\"], of_a_key = 2", "", "shared.groups.of_a_key", "give 1 to 1"),
            ("by = [\"r\"], labels = [\"a\"]", noise, "shared.groups.of_a_key", "is missing"),
            ("by = [\"r\"], most = 1, of_a_key = 1", noise, "shared.groups.labels", "is missing"),
            (
                "by = [\"r\"], labels = [\"a\"], of_a_key = 1",
                "dp = { epsilon = 1.0 }\nsums = [{ name = \"spend\", of = \"bob\" }]",
                "shared.sums.largest",
                "is missing for \"spend\"",
            ),
            // It would read as a party's name in what the job expects.
            (
                "by = [\"r\"], labels = [\"a\"]",
                "sums = [{ name = \"of {1}\", of = \"bob\" }]",
                "shared.sums.name",
                "has a brace in it",
            ),
        ] {
            let error = with(groups, more).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
            assert!(error.message.contains(why), "{error}");
        }
        // A text or a list of texts, and nothing else.
        let text = job().replace(
            "protocol = \"ecdh\"",
            "protocol = \"rr22\"\ngroups = { of = \"bob\", by = [\"r\"], labels = [7] }",
        );
        assert!(parse(&text).unwrap_err().message.contains("a text or a list of texts"));
    }

    /// A unit that is agreed on may be large where it fits into memory. What each key takes depends on what is asked for.
    #[test]
    fn a_unit_that_does_not_fit_into_memory_is_refused() {
        let groups = |most: u32| {
            format!(
                "result = \"groups\"\nunit = 1048576\naccept = [\"chosen_values\"]\ngroups = {{ of = \"bob\", by = [\"region\"], most = {most} }}\nsums = [{{ \
                 name = \"n\", of = \"alice\" }}]"
            )
        };
        for (shared, memory, fits) in [
            ("unit = 1048576", "2 GiB", true),
            ("unit = 1048576", "64 MiB", false),
            ("unit = 4096", "64 MiB", true),
            (&groups(1), "3 GiB", true),
            (&groups(128), "2 GiB", false),
            (&groups(128), "32 GiB", true),
        ] {
            let text = job()
                .replace("protocol = \"ecdh\"", &format!("protocol = \"rr22\"\n{shared}"))
                .replace("[mine]", &format!("[mine]\nmemory = \"{memory}\""));
            match plan(&parse(&text).unwrap()) {
                Ok(_) => assert!(fits, "{shared} {memory}"),
                Err(error) => {
                    assert_eq!((error.field.as_deref(), fits), (Some("shared.unit"), false), "{error}");
                    assert!(error.message.contains("mine.memory is") && error.message.contains("or fewer"), "{error}");
                }
            }
        }
    }

    /// Alice's part of a job by group with these sums.
    fn multiplied(owner: &str, sums: &str) -> Result<Plan, SpecError> {
        let accept = "accept = [\"chosen_groups\", \"chosen_values\", \"chosen_factors\"]";
        let groups = format!("groups = {{ of = \"{owner}\", by = [\"region\"], most = 9, of_a_key = 1 }}");
        let shared = format!("protocol = \"rr22\"\nresult = \"groups\"\n{accept}\n{groups}\nsums = [{sums}]");
        plan(&parse(&job().replace("protocol = \"ecdh\"", &shared))?)
    }

    /// A product has a value of each party, in any order; these are told as sums of their own or not.
    #[test]
    fn products_are_of_a_value_of_each_party() {
        const PRICE: &str = "{ name = \"price\", of = \"bob\", largest = 99999, told = false }";
        const VIEWS: &str = "{ name = \"views\", of = \"alice\", largest = 1000 }";
        const CLICKS: &str = "{ name = \"clicks\", of = \"alice\", largest = 8, told = false }";
        let product =
            |name: &str, one: &str, other: &str| format!("{{ name = \"{name}\", product = [\"{one}\", \"{other}\"] }}");
        let both = [product("reach", "views", "price"), product("bought", "price", "clicks")];
        let sums = [CLICKS, &both[0], PRICE, &both[1], VIEWS].join(", ");
        let job = multiplied("bob", &sums).unwrap();
        // 99999 has 17 bits, and its sign is one more. Alice's that is told comes first.
        let all = [(0, 0), (0, 1)].map(|(of_r, of_s)| Product { of_r, of_s, bits: 18 });
        let products = Products::new(&all, [1, 1]).unwrap();
        let want = Grouping {
            of: 1,
            most: 9,
            sums: 3,
            of_other: 3,
            products,
            least: 50,
            of_a_key: 1,
            agreed: false,
            other: None,
        };
        assert_eq!(job.choice.groups, Some(want));
        let added = |column: &str, largest| Added { column: column.to_owned(), largest: Some(largest), times: 1 };
        assert_eq!(job.grouped.unwrap().sums, [added("views", 1000), added("clicks", 8)]);
        let names: Vec<&str> = job.shared.told().map(|sum| sum.name.as_str()).collect();
        assert_eq!(names, ["reach", "bought", "views"]);
        // Where the groups are alice's, her table bounds the products: by the most that bob's factor may be. 1000 has ten bits, and 8 has four.
        let job = multiplied("alice", &sums).unwrap();
        let times = |column, largest| Added { times: 99999, ..added(column, largest) };
        assert_eq!(job.grouped.unwrap().sums, [times("views", 1000), times("clicks", 8)]);
        let all = [(0, 11), (1, 5)].map(|(of_r, bits)| Product { of_r, of_s: 0, bits });
        assert_eq!(job.choice.groups.unwrap().products, Products::new(&all, [1, 1]).unwrap());
        let reach = &both[0];
        for (sums, field, words) in [
            ("{ name = \"n\" }".to_owned(), "shared.sums.of", "product = ["),
            (
                format!("{VIEWS}, {PRICE}, {{ name = \"n\", of = \"bob\", product = [\"views\", \"price\"] }}"),
                "shared.sums.product",
                "both",
            ),
            (format!("{VIEWS}, {PRICE}"), "shared.sums.told", "factor of no product"),
            (
                format!("{VIEWS}, {PRICE}, {}", reach.replace(" }", ", largest = 9 }")),
                "shared.sums.largest",
                "is a product",
            ),
            (format!("{VIEWS}, {PRICE}, {}", reach.replace(" }", ", told = false }")), "shared.sums.told", "not told"),
            (format!("{VIEWS}, {reach}"), "shared.sums.product", "name = \"price\""),
            (
                format!("{VIEWS}, {PRICE}, {}", product("n", "view", "price")),
                "shared.sums.product",
                "did you mean \"views\"",
            ),
            (
                format!("{VIEWS}, {PRICE}, {reach}, {}", product("n", "reach", "price")),
                "shared.sums.product",
                "values of one party",
            ),
            (
                format!("{VIEWS}, {CLICKS}, {}", product("n", "views", "clicks")),
                "shared.sums.product",
                "values of alice",
            ),
            (
                format!("{VIEWS}, {}, {reach}", PRICE.replace(", largest = 99999", "")),
                "shared.sums.largest",
                "\"price\" is a factor",
            ),
            (
                format!("{VIEWS}, {}, {reach}", PRICE.replace("99999", "4611686018427388")),
                "shared.sums.largest",
                "2^62",
            ),
            (
                format!(
                    "{VIEWS}, {PRICE}, {}",
                    (0..9).map(|i| product(&format!("n{i}"), "views", "price")).collect::<Vec<_>>().join(", ")
                ),
                "shared.sums.product",
                "8 are the most",
            ),
            (format!("{VIEWS}, {PRICE}, {}", product("price", "views", "price")), "shared.groups", "two columns"),
        ] {
            let error = multiplied("bob", &sums).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{sums}: {error}");
            assert!(error.message.contains(words), "{error}");
        }
    }

    /// Groups of both parties: each has columns for its own, and what cannot be is refused by name.
    #[test]
    fn groups_of_both_parties_are_columns_of_each() {
        let with = |owner: &str, other: &str, sums: &str, input: &str| {
            let accept = "accept = [\"chosen_groups\", \"chosen_pairs\", \"chosen_values\"]";
            let groups = format!("groups = {{ of = \"{owner}\", by = [\"region\"], most = 9, other = {{ {other} }} }}");
            let shared = format!("protocol = \"rr22\"\nresult = \"groups\"\n{accept}\n{groups}\nsums = [{sums}]");
            let text = job()
                .replace("protocol = \"ecdh\"", &shared)
                .replace("keys = [\"id\"]", &format!("keys = [\"id\"]{input}"));
            plan(&parse(&text).unwrap())
        };
        const OTHER: &str = "by = [\"campaign\"], most = 4";
        const VIEWS: &str = "{ name = \"views\", of = \"alice\" }";
        let grouped = |plan: &Plan| plan.grouped.clone().unwrap();
        let job = with("bob", OTHER, "", ", groups = [\"c\"]").unwrap();
        let by = vec!["c".to_owned()];
        let want = GroupedPlan { other: true, by, sums: vec![], most: 4, labels: vec![], of_a_key: 4, noisy: false };
        assert_eq!(grouped(&job), want);
        let groups = job.choice.groups.unwrap();
        assert_eq!((groups.of, groups.most, groups.other), (1, 9, Some(OtherGrouping { most: 4, agreed: false })));
        assert_eq!(job.shared.groups.unwrap().by_of_both(), ["region", "campaign"]);
        let job = with("bob", "by = [\"campaign\"], labels = [\"spring\", \"\"]", "", "").unwrap();
        let other = OtherGrouping { most: 2, agreed: true };
        assert_eq!((grouped(&job).labels.len(), job.choice.groups.unwrap().other), (2, Some(other)));
        assert!(!job.choice.groups.unwrap().agreed);
        let job = grouped(&with("bob", &format!("{OTHER}, of_a_key = 1"), VIEWS, "").unwrap());
        assert_eq!((job.by, job.sums.len(), job.of_a_key), (vec!["campaign".to_owned()], 1, 1));
        let job = grouped(&with("alice", OTHER, "", "").unwrap());
        assert_eq!((job.other, job.by), (false, vec!["region".to_owned()]));
        for (other, sums, input, field, words) in [
            ("by = [], most = 4", "", "", "shared.groups.other.by", "such as by = [\"campaign\"]"),
            ("by = [\"c\"]", "", "", "shared.groups.other.most", "shared.groups.other.labels"),
            ("by = [\"c\"], most = 0", "", "", "shared.groups.other.most", "1 to 16"),
            ("by = [\"c\"], most = 17", "", "", "shared.groups.other.most", "with more groups"),
            ("by = [\"c\"], labels = [\"a\", \"a\"]", "", "", "shared.groups.other.labels", "twice"),
            ("by = [\"c\"], most = 4, of_a_key = 5", "", "", "shared.groups.other.of_a_key", "1 to 4"),
            (OTHER, VIEWS, "", "shared.groups.other.of_a_key", "of_a_key = 1"),
            ("by = [\"region\"], most = 4", "", "", "shared.groups", "two columns"),
            (OTHER, "", ", groups = [\"a\", \"b\"]", "mine.input.groups", "shared.groups.other.by 1"),
        ] {
            let error = with("bob", other, sums, input).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{other}: {error}");
            assert!(error.message.contains(words), "{error}");
        }
    }

    /// A job that matches by any of several identifiers, with `more` in its shared part and these columns.
    fn by_identifiers(more: &str, columns: &str) -> Result<Plan, SpecError> {
        let identifiers = "identifiers = [{ name = \"email\", rules = [\"email\"] }, { name = \"person\", rules = [[], [\"digits\"]] }]";
        let text = job()
            .replace("learns = [\"alice\"]", &format!("{identifiers}\nmatch = \"any\"\nlearns = [\"alice\"]\n{more}"))
            .replace("keys = [\"id\"]", &format!("keys = {columns}"));
        plan(&parse(&text).unwrap())
    }

    #[test]
    fn identifiers_are_lists_of_columns_by_name() {
        let plan = by_identifiers("", "{ person = [[\"name\", \"born\"]], email = [\"mail\", \"name\"] }").unwrap();
        assert_eq!(plan.keys, ["mail", "name", "born"]);
        let lists: Vec<_> =
            plan.lists.iter().map(|list| (list.kind, &*list.name, &list.columns[..], list.rules.len())).collect();
        assert_eq!(lists, [(0, "email", &[0][..], 1), (0, "email", &[1], 1), (1, "person", &[1, 2], 2)]);
        assert_eq!(plan.keys_in_words(), [r#"email ("mail")"#, r#"email ("name")"#, r#"person ("name", "born")"#]);
        assert_eq!(
            (plan.kinds(), plan.order, plan.multiplies()),
            (vec!["email".into(), "person".into()], Order::Input, false)
        );
        let told: Vec<_> = plan.reveals().into_iter().map(|reveal| reveal.what).collect();
        let words = [reveals::INTERSECTION_OF_IDENTIFIERS, reveals::IDENTIFIER_COUNT, reveals::IDENTIFIERS]
            .map(|reveal| reveal.what);
        assert!(words.iter().all(|what| told.contains(what)) && !told.contains(&reveals::KEY_COUNT.what), "{told:?}");
        let least = by_identifiers("limits.min_intersection = 9", "{ email = \"mail\" }").unwrap();
        assert!(
            least.reveals().contains(&reveals::MINIMUM_OF_IDENTIFIERS) && !least.reveals().contains(&reveals::MINIMUM)
        );
        assert!(least.notes.iter().any(|note| note.contains("rows of bob are not counted")), "{:?}", least.notes);
        // The text of a job is read as it was written, and other rules of an identifier are another job.
        let spec = parse(
            &job()
                .replace("keys = [\"id\"]", "keys = { email = [\"mail\", \"name\"], person = [[\"name\", \"born\"]] }"),
        )
        .unwrap();
        assert_eq!(parse(&spec.text()).unwrap(), spec);
        let ids = plan.shared.canonical()["identifiers"][0]["rules"].clone();
        assert_eq!(ids, serde_json::json!([plan.rules[0][0].id()]), "which version of a rule it is");
    }

    #[test]
    fn what_identifiers_cannot_do_is_refused_by_name() {
        const MAIL: &str = "{ email = \"mail\" }";
        for (more, columns, field, words) in [
            ("result = \"count\"", MAIL, "shared.result", "would count several times"),
            ("join = \"left\"", MAIL, "shared.join", ""),
            ("join = \"anti\"\nduplicates = \"first\"", MAIL, "shared.duplicates", "an earlier row has that too"),
            ("rules = [\"lower\"]", MAIL, "shared.rules", "rules of its own"),
            ("", "[\"id\"]", "mine.input.keys", "keys = { email = \"COLUMN\" }"),
            ("", "{ mail = \"mail\" }", "mine.input.keys", "did you mean \"email\"?"),
            ("", "{ email = [] }", "mine.input.keys", "names no column"),
            ("", "{ email = [[\"a\", \"b\"]] }", "mine.input.keys", "email has one column"),
            ("", "{ person = [\"a\", \"b\"] }", "mine.input.keys", "write person = [[\"A\", \"B\"]]"),
            ("", "{ email = [\"a\", \"a\"] }", "mine.input.keys", "twice"),
        ] {
            let error = by_identifiers(more, columns).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{more} {columns}: {error}");
            assert!(error.to_string().contains(words), "{error}");
        }
        let refused = |from: &str, to: &str| {
            let text = job().replace(
                "learns = [\"alice\"]",
                "identifiers = [{ name = \"email\" }]\nmatch = \"any\"\nlearns = [\"alice\"]",
            );
            let text = text.replace("keys = [\"id\"]", "keys = { email = \"mail\" }").replace(from, to);
            plan(&parse(&text).unwrap()).unwrap_err().field.unwrap()
        };
        for matching in ["match = \"pairs\"", "match = \"once\""] {
            assert_eq!(refused("match = \"any\"", matching), "shared.learns");
            let both = |more: &str| {
                let text = job().replace(
                    "learns = [\"alice\"]",
                    &format!(
                        "identifiers = [{{ name = \"email\" }}]\n{matching}\nlearns = [\"alice\", \"bob\"]\n{more}"
                    ),
                );
                plan(&parse(&text.replace("keys = [\"id\"]", "keys = { email = \"mail\" }")).unwrap())
            };
            assert_eq!(both("").unwrap_err().field.as_deref(), Some("shared.duplicates"));
            let first = "duplicates = \"first\"\n";
            // What is told of rows is accepted by its name, and not by "all".
            for accept in ["", "accept = \"all\""] {
                let error = both(&format!("{first}{accept}")).unwrap_err();
                assert!(error.to_string().contains("accept = [\"links\"]"), "{error}");
            }
            let accepted = format!("{first}accept = [\"links\"]");
            assert!(both(&accepted).unwrap().reveals().contains(&reveals::LINKS));
            assert_eq!(
                both(&format!("{accepted}\njoin = \"semi\"")).unwrap_err().field.as_deref(),
                Some("shared.join")
            );
        }
        assert_eq!(refused("match = \"any\"", ""), "shared.match");
        assert_eq!(refused("[{ name = \"email\" }]", "[]"), "shared.match");
        assert_eq!(refused("{ name = \"email\" }", "{ name = \"email\" }, { name = \"email\" }"), "shared.identifiers");
        assert_eq!(refused("{ name = \"email\" }", "{ name = \"e mail\" }"), "shared.identifiers.name");
        let many: Vec<String> = (0..9).map(|i| format!("{{ name = \"k{i}\" }}")).collect();
        assert_eq!(refused("{ name = \"email\" }", &many.join(", ")), "shared.identifiers");
        let of_three = format!("carol = \"sha256:{}\", bob", "cd".repeat(32));
        let three = |text: &str| {
            text.replace("[\"alice\", \"bob\"]", "[\"alice\", \"bob\", \"carol\"]")
                .replace("{ bob", &format!("{{ {of_three}"))
        };
        let text = job().replace(
            "learns = [\"alice\"]",
            "identifiers = [{ name = \"email\" }]\nmatch = \"any\"\nlearns = [\"alice\"]",
        );
        let error = plan(&parse(&three(&text)).unwrap()).unwrap_err();
        assert!(
            error.field.as_deref() == Some("shared.identifiers") && error.to_string().contains("two parties"),
            "{error}"
        );
        // What is made up of no columns would be the same in all rows.
        let mut spec = parse(&text.replace("keys = [\"id\"]", "keys = { email = \"mail\" }")).unwrap();
        spec.shared.identifiers[0].rules = crate::rules::Rules::Each(Vec::new());
        spec.mine.input.identifiers.insert("email".into(), vec![Vec::new()]);
        let error = plan(&spec).unwrap_err();
        assert!(
            error.field.as_deref() == Some("shared.identifiers") && error.to_string().contains("no column"),
            "{error}"
        );
        // Without identifiers there are no columns by name.
        let error =
            plan(&parse(&job().replace("keys = [\"id\"]", "keys = { email = \"mail\" }")).unwrap()).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("mine.input.keys"));
    }

    #[test]
    fn every_extra_is_a_reveal() {
        for extra in Extra::ALL {
            let told = [
                reveals::LEFT_UNMATCHED,
                reveals::RIGHT_UNMATCHED,
                reveals::GUESSABLE_KEYS,
                reveals::pair_count(0),
                reveals::count_sampled(0),
                reveals::leader_and_pivot(0, 1),
                reveals::SMALL_GROUPS,
                reveals::chosen_groups(0),
                reveals::chosen_pairs(0),
                reveals::chosen_values(0),
                reveals::chosen_values_by_group(0),
                reveals::chosen_values_by_pair(0),
                reveals::chosen_factors(0),
                reveals::LINKS,
            ];
            assert!(told.iter().any(|r| r.name == extra.name()));
        }
    }

    /// Units in flight fit into a quarter of the memory, however many there are at once.
    #[test]
    fn units_in_flight_fit_in_memory() {
        let plan = plan(&parse(&job()).unwrap()).unwrap();
        for (memory, workers) in [(64 << 20, 2), (256 << 20, 16), (2 << 30, 64)] {
            let sizes = plan.sizes(&[100_000_000; 2], workers, memory);
            let taken = sizes.capacities.iter().sum::<u64>() * u64::from(sizes.in_flight) * plan.suite.memory();
            assert!(taken < memory / 3, "{taken} of {memory}");
        }
    }

    /// Whoever has more keys: units, and the length of tags, do not depend on the order of the parties.
    #[test]
    fn sizes_do_not_depend_on_places() {
        for protocol in ["ecdh", "rr22", "kkrt", "bc22"] {
            let text = job().replace("\"ecdh\"", &format!("\"{protocol}\""));
            let plan = plan(&parse(&text).unwrap()).unwrap();
            for (n, m) in [(0, 0), (0, 1), (1, 2), (100, 5_000_000), (1 << 20, 1 << 21), (3, 1 << 30)] {
                let (a, b) = (plan.sizes(&[n, m], 2, 1 << 30), plan.sizes(&[m, n], 2, 1 << 30));
                assert_eq!((a.capacity(0), a.capacity(1)), (b.capacity(1), b.capacity(0)), "{protocol} {n} {m}");
                assert_eq!((a.units, a.in_flight, a.tag_len), (b.units, b.in_flight, b.tag_len), "{protocol} {n} {m}");
            }
        }
    }
}
