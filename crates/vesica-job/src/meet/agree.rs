//! The first words between parties: the same job, the sizes, and coins that nobody could choose.
//!
//! 1. Each says what it holds: `Hello` as JSON, the shared document and this party's key count in it.
//! 2. Each commits to 32 random bytes, then opens: the salt is a hash of everybody's bytes, of the job and of the parties' certificates.
//!    A party that follows the protocol has its keys by then, and has said how many they are. Which keys they are is bound by nothing: a
//!    party that deviates may choose them when it has seen the salt.
//! 3. A cluster counts its keys only when it has cut them, for which it needs the salt. Where a party is one, its hello has no count:
//!    the number of units follows from `limits.max_keys`, and each says its count behind the coins.
//!
//! The first two are [`meet`], the third is [`size`]. A run on one machine does them back to back ([`agree`]), a cluster around its
//! reading.
//!
//! A party may come only to see that the job could be run (`vesica check --peer`). The first words of [`greet`] are all that it needs. So
//! a party that came to run goes no further with it, and waits on for its run. Where all only check, they toss coins as well.
//!
//! More than two parties also tell each other a hash of all that they were shown in each step, so that nobody can show them
//! different things.

use crate::difference::{Difference, differences};
use crate::error::JobError;
use crate::meet::answers::Attempt;
use crate::seal::ledger::Ledger;
use crate::seal::record::Start;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vesica_net::Fingerprint;
use vesica_session::{Channel, Lines, Misbehaviour, SessionRng};
use vesica_spec::{MAX_KEYS, MAX_LANES, MOST_LISTS, Plan};
use vesica_suite::{Judge, ResultKind, Security, Sizes, Terms};
use vesica_types::{Coins, Party, TagLen, UnitId};

/// The longest hello: a shared document is a page of text.
const HELLO_LIMIT: usize = 1 << 20;

/// What the parties hold in common once they agree.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// The jointly tossed salt: fresh for each run, chosen by nobody.
    pub salt: [u8; 32],
    /// This party's own chance for the run: the same after a break, as long as the salt is.
    pub coins: Coins,
    /// Sizes that follow from the key counts.
    pub sizes: Sizes,
    /// The versions of the peers, in the parties' order.
    pub versions: Vec<String>,
    /// The kinds of identifiers that this party's table has, and the peer's has not.
    pub lacks: Vec<String>,
    /// As in [`Start`].
    pub lists: Vec<u32>,
    /// Units that are not to be done again, by number.
    pub done: Vec<bool>,
    /// The place of the party that has values to add up, if one has.
    pub values: Option<u8>,
    /// Links that the units go over; 0 if they go over the one on which this was agreed.
    pub lanes: u32,
}

/// When a party says how many keys it has.
#[derive(Clone, Copy, Debug)]
pub enum Counted<'a> {
    /// At once: it has so many.
    Now(u64),
    /// When it has cut them. Of the run that it would go on with it has finished these units.
    Later(&'a [bool]),
}

/// What the parties hold in common before they need to have counted their keys.
#[derive(Clone, Debug)]
pub struct Met {
    /// The jointly tossed salt, from which units follow, and this party's own chance.
    pub start: Start,
    /// As in [`Agreed`].
    pub done: Vec<bool>,
    /// As in [`Agreed`].
    pub lanes: u32,
    versions: Vec<String>,
    lacks: Vec<String>,
    values: Option<u8>,
    /// The key counts that were said at once, by place.
    told: Vec<Option<u64>>,
    /// Those that were said last, in this run or in one before it.
    before: Vec<u64>,
}

impl Agreed {
    /// What a protocol needs of it. All that is opened on one connection of the parties, or on its lanes, has these terms or copies of them.
    pub fn terms(&self) -> Terms {
        let Self { salt, sizes, values, coins, .. } = self.clone();
        Terms { salt, sizes, values, coins, judge: Judge::default() }
    }
}

/// What a party has come for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// To run the job.
    Run,
    /// To see that it could be run: `vesica check --peer`.
    Check,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hello {
    version: String,
    purpose: Purpose,
    shared: Value,
    /// None as long as they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
    key_columns: usize,
    /// Which of `shared.identifiers` this party's table has, in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<String>,
    /// How many identifiers a row of this party's table may have: two for two columns of one kind.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
    lists: u32,
    /// Of the protocol, by their ids: builds may differ in them.
    parameters: Vec<String>,
    workers: u32,
    memory: u64,
    /// Whether this party has values that are to be added up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    values: bool,
    /// Links that this party asks for.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
    lanes: u32,
    #[serde(default)]
    resume: Option<Resume>,
}

/// What all parties have said first. It goes together.
pub struct Said {
    mine: Hello,
    peers: Vec<(Party, Hello)>,
}

impl Said {
    /// Whether nobody came to run the job.
    pub fn all_check(&self) -> bool {
        let mut all = self.peers.iter().map(|(_, theirs)| theirs).chain([&self.mine]);
        all.all(|hello| hello.purpose == Purpose::Check)
    }

    /// Of each peer, in the order of the lines: how many keys it has, if it has counted them, and whether it came to run the job.
    pub fn of_peers(&self) -> impl Iterator<Item = (Option<u64>, bool)> {
        self.peers.iter().map(|(_, theirs)| (theirs.keys, theirs.purpose == Purpose::Run))
    }
}

/// The run that a party would go on with.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resume {
    /// What this party calls the run: see [`called`].
    run: String,
    /// A digit a unit: 1 if it is finished.
    done: String,
}

/// Whether a unit is never to be done again, by which parties have finished it.
///
/// Where some parties alone learn, their word is enough: they have all that there is to have of the unit. And their word must be
/// enough, for the others could ask for the unit again with other keys, and see from how the run goes on whether they are common.
pub(crate) fn settled<'a>(plan: &Plan, has: impl IntoIterator<Item = (&'a Party, bool)>) -> bool {
    has.into_iter().filter(|(party, _)| plan.learns(party)).all(|(_, has)| has)
}

impl Resume {
    /// The run of `ledger`, as the party of `plan` calls it.
    fn of(plan: &Plan, ledger: &Ledger, counted: Counted<'_>, session: &[u8; 32]) -> Option<Self> {
        let start = ledger.started()?;
        let has = |id: u32| match counted {
            Counted::Now(_) => ledger.has(UnitId(id)),
            Counted::Later(finished) => finished.get(id as usize).is_some_and(|done| *done),
        };
        let done = (0..start.sizes.units).map(|id| if has(id) { '1' } else { '0' });
        Some(Self { run: called(&start.salt, session, &plan.me), done: done.collect() })
    }
}

/// What `party` calls the run with this salt, where these are the job and the certificates of today: see [`session`].
///
/// Example: mallory's certificate is taken for bob's by alice, and for alice's by bob. She lets the two toss their coins with each other, cuts
/// the connection, and stands between them when they meet again. No coins are tossed then, so what they call the run must accuse her. Alice
/// and bob see other certificates than each other, and expect other words than they hear. They toss anew, which she cannot. A
/// certificate that was renewed is seen by both sides, and their run goes on. Who does not know the salt has no words of its own, and
/// cannot send back those that it heard, because the party is in them.
fn called(salt: &[u8; 32], session: &[u8; 32], party: &Party) -> String {
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 name of a run by one of its parties");
    hash.update(salt).update(session).update(&[party.place()]);
    hash.finalize().to_hex().to_string()
}

/// The name of the run with this salt.
pub(crate) fn name(salt: &[u8; 32]) -> String {
    let name = blake3::derive_key("vesica 2026 name of a run", salt);
    name.iter().map(|b| format!("{b:02x}")).collect()
}

/// What all parties call the run with this salt when they talk of it: `7f3a-91c4-02be`, in the log and in the report of each. It stays while
/// the run goes on after breaks and restarts. It is 48 bits of a hash of the salt and nothing else, made for this alone: it says nothing of a
/// table, leads nobody to the salt, and is none of the words by which a party shows that it knows the run (`called`). Two runs that
/// somebody joins by standing between them have two salts, and so two names.
pub(crate) fn quoted(salt: &[u8; 32]) -> String {
    let hash = blake3::derive_key("vesica 2026 what all parties call a run", salt);
    let groups: Vec<String> = hash[..6].chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect();
    groups.join("-")
}

/// The same in a sentence.
pub(crate) fn told_of(salt: &[u8; 32]) -> String {
    format!("all parties call this run {}", quoted(salt))
}

/// Agrees with the peers on the job, the salt and the sizes, as [`meet`] and [`size`] do.
///
/// # Errors
/// Those of both.
pub fn agree(
    plan: &Plan,
    keys: u64,
    ledger: &mut Ledger,
    lines: &mut Lines,
    certificates: &[Option<Fingerprint>],
    rng: &mut SessionRng,
) -> Result<Agreed, JobError> {
    let met = meet(plan, Counted::Now(keys), ledger, lines, certificates, rng)?;
    size(plan, met, keys, ledger, lines)
}

/// Agrees with the peers on the job, the salt and the number of units: those of `ledger`'s run if every peer holds the same run, else
/// new ones, with which the ledger begins anew. `certificates` are those of all parties, by place, as
/// [`Peers::certificates`](crate::meet::peers::Peers::certificates) has them.
///
/// # Errors
/// Those of [`greet`], before which the ledger counts no attempt; a session error if a peer breaks the protocol.
pub fn meet(
    plan: &Plan,
    counted: Counted<'_>,
    ledger: &mut Ledger,
    lines: &mut Lines,
    certificates: &[Option<Fingerprint>],
    rng: &mut SessionRng,
) -> Result<Met, JobError> {
    let session = session(plan, certificates);
    let Said { mine, peers } = greet(plan, Purpose::Run, counted, ledger, lines, certificates)?;
    let mut told = vec![mine.keys; plan.parties.len()];
    peers.iter().for_each(|(peer, theirs)| told[usize::from(peer.place())] = theirs.keys);
    let mut lists = vec![mine.lists; plan.parties.len()];
    peers.iter().for_each(|(peer, theirs)| lists[usize::from(peer.place())] = theirs.lists);
    let counts: Option<Vec<u64>> = told.iter().copied().collect();
    let asked_for = peers.iter().map(|(_, theirs)| theirs.lanes).fold(mine.lanes, u32::max);
    let version = |theirs: &Hello| theirs.version.chars().filter(|c| c.is_ascii_graphic()).take(32).collect();
    let versions = peers.iter().map(|(_, theirs)| version(theirs)).collect();
    let lacks = |kind: &&String| peers.iter().any(|(_, theirs)| !theirs.kinds.contains(kind));
    let lacks: Vec<String> = mine.kinds.iter().filter(lacks).cloned().collect();
    let have = peers.iter().map(|(peer, theirs)| (peer, theirs.values)).chain([(&plan.me, mine.values)]);
    let asked = plan.shared.result.has_values();
    let values = have.filter(|(_, values)| asked && *values).map(|(party, _)| party.place()).next();
    let met = |start: Start, done, before| {
        let lanes = asked_for.min(start.sizes.units);
        Met { start, done, lanes, versions, lacks, values, told, before }
    };
    let mine_keys = mine.keys;
    if let (Some(start), Some(mine), Some(theirs)) = (ledger.started().cloned(), mine.resume, same_run(&peers))
        && theirs.iter().zip(&peers).all(|(theirs, (peer, _))| theirs.run == called(&start.salt, &session, peer))
    {
        let alike = |theirs: &&Resume| theirs.done.len() == mine.done.len();
        let before = |place: usize| start.sizes.keys.get(place).copied();
        let another =
            |place: usize, now: Option<u64>| before(place).zip(now).is_some_and(|(before, now)| before != now);
        // Another number of identifiers a row would move the limit while the run goes on.
        let differs = |(peer, theirs): &(Party, Hello)| {
            let place = usize::from(peer.place());
            another(place, theirs.keys) || start.lists.get(place) != Some(&theirs.lists)
        };
        let ours = another(usize::from(plan.me.place()), mine_keys);
        if ours || peers.iter().any(differs) || !theirs.iter().all(alike) {
            let other = |of: &&(Party, Hello)| {
                differs(of) || of.1.resume.as_ref().is_none_or(|theirs| theirs.done.len() != mine.done.len())
            };
            let place = peers.iter().find(other).map_or(plan.peers[0].party.place(), |(peer, _)| peer.place());
            return Err(lines.at(place)?.accuse(ANOTHER_TABLE).into());
        }
        let done = |id: usize| {
            let has = |resume: &Resume| resume.done.as_bytes()[id] == b'1';
            let peers = peers.iter().zip(&theirs).map(|((peer, _), theirs)| (peer, has(theirs)));
            settled(plan, peers.chain([(&plan.me, has(&mine))]))
        };
        let mut done: Vec<bool> = (0..mine.done.len()).map(done).collect();
        if plan.suite.cut().begins_anew() {
            // What takes all keys at once, or opens all at once, is finished as a whole or not at all.
            let whole = done.iter().all(|done| *done);
            done.fill(whole);
        }
        for (id, _) in (0..).map(UnitId).zip(&done).filter(|(_, done)| **done) {
            if !ledger.has(id) && matches!(counted, Counted::Now(_)) {
                // A learner has the unit; this side has nothing to keep of it.
                ledger.commit(id, &NOTHING, &[])?;
            }
        }
        let missing = done.iter().filter(|done| !**done).count() as u64;
        if missing > 0 && ledger.is_over() {
            return Err(JobError::Over { peer: others(plan) });
        }
        match counted {
            Counted::Now(_) => begin(plan, start.sizes.units, missing, start.sizes.in_flight.into(), ledger)?,
            Counted::Later(_) => begin_of_cluster(plan, start.sizes.units, missing, 0, ledger)?,
        }
        return Ok(met(start, done, ledger.keys().to_vec()));
    }
    // The ledger of a cluster hears of no unit: what is finished stands in files.
    let is_whole = match counted {
        Counted::Now(_) => ledger.is_whole(),
        Counted::Later(finished) => !finished.is_empty() && finished.iter().all(|done| *done),
    };
    if ledger.is_over() || (is_whole && (plan.learns_alone() || ledger.is_finished())) {
        return Err(JobError::Over { peer: others(plan) });
    }
    let before = ledger.keys().to_vec();
    if let Some(counts) = &counts {
        same_keys(plan, &before, counts)?;
    }
    let workers = peers.iter().map(|(_, theirs)| theirs.workers).fold(plan.workers, u32::min);
    let memory = peers.iter().map(|(_, theirs)| theirs.memory).fold(plan.memory, u64::min);
    let sizes = match &counts {
        Some(keys) => plan.sizes(keys, workers, memory),
        None => Sizes {
            units: plan.units(plan.shared.limits.max_keys.unwrap_or(MAX_KEYS), workers, memory),
            in_flight: workers.max(1),
            keys: Vec::new(),
            capacities: Vec::new(),
            tag_len: TagLen::new(16).expect("a digest's length"),
        },
    };
    // Before the coins: a peer that does not like the salt and drops the connection has had its attempt.
    let share = most(plan, sizes.units).div_ceil(SALTS);
    match counted {
        Counted::Now(_) => {
            begin(plan, sizes.units, sizes.units.into(), share.max(sizes.in_flight.into()), ledger)?;
        }
        Counted::Later(_) => begin_of_cluster(plan, sizes.units, sizes.units.into(), share, ledger)?,
    }
    let salt = toss(plan, &session, lines, rng)?;
    let start = Start { salt, coins: Coins::new(rng.bytes()), sizes, lists };
    ledger.start(start.clone())?;
    let done = vec![false; start.sizes.units as usize];
    Ok(met(start, done, before))
}

/// Says what this party holds, hears what the others hold, and sees that it goes together. Nothing is tossed or counted yet.
///
/// # Errors
/// [`JobError::Disagree`] with every differing field. [`JobError::Checked`] if this party came to run and another one only to check,
/// whether what that one holds goes together with the rest or not. A session error if a peer breaks the protocol.
pub fn greet(
    plan: &Plan,
    purpose: Purpose,
    counted: Counted<'_>,
    ledger: &Ledger,
    lines: &mut Lines,
    certificates: &[Option<Fingerprint>],
) -> Result<Said, JobError> {
    let mine = hello(plan, purpose, counted, ledger, &session(plan, certificates));
    let words = serde_json::to_vec(&mine).expect("a hello is plain data");
    // Before its words, the certificate of each party: a party may show another one to each of two others.
    let certificate = |place: usize| {
        let certificate = certificates.get(place).copied().flatten();
        certificate.map_or(Vec::new(), |certificate| certificate.as_bytes().to_vec())
    };
    let mut heard: Vec<Vec<u8>> = (0..plan.parties.len()).map(certificate).collect();
    for ch in lines.all() {
        ch.step("agree");
        ch.send(&words)?;
    }
    let mut peers: Vec<(Party, Hello)> = Vec::with_capacity(plan.peers.len());
    for ch in lines.all() {
        let words = ch.recv(HELLO_LIMIT)?;
        let hello = serde_json::from_slice(&words).map_err(|_| ch.accuse(Misbehaviour::Malformed("hello")))?;
        heard[usize::from(ch.peer().place())].extend(words);
        peers.push((ch.peer().clone(), hello));
    }
    heard[usize::from(plan.me.place())].extend(words);
    let each = peers.iter().zip(lines.all());
    let examined: Vec<Result<(), JobError>> =
        each.map(|((peer, theirs), ch)| examine(plan, &mine, peer, theirs, &mut **ch)).collect();
    // A party that shows another job to one of the others is no party with another job: so this is seen first.
    shown_alike("first words or certificates", &heard, lines).map_err(|error| match error {
        JobError::ShownApart { what, others, differ, .. } => {
            let seen = examined.iter().find_map(|examined| examined.as_ref().err()).map(ToString::to_string);
            JobError::ShownApart { what, others, differ, seen }
        }
        error => error,
    })?;
    let is_mine =
        |error: &JobError| matches!(error, JobError::TooManyKeys { party, .. } if *party == plan.me.to_string());
    let mut misfit = None;
    for ((_, theirs), examined) in peers.iter().zip(examined) {
        match examined {
            // Nothing is done with what a party holds that only checks. It sees the same, and may mend its job. But if this side's own keys are
            // too many, there is no run to wait for.
            Err(error)
                if purpose == Purpose::Run
                    && theirs.purpose == Purpose::Check
                    && error.both_see()
                    && !is_mine(&error) =>
            {
                misfit.get_or_insert(error.to_string());
            }
            examined => examined?,
        }
    }
    let check = peers.iter().filter(|(_, theirs)| theirs.purpose == Purpose::Check);
    let check: Vec<Party> = check.map(|(peer, _)| peer.clone()).collect();
    match purpose == Purpose::Run && !check.is_empty() {
        true => Err(JobError::Checked { peers: check, misfit }),
        false => Ok(Said { mine, peers }),
    }
}

/// Agrees with the peers on the sizes: this party has `keys` distinct keys. Says something only where somebody had not counted when
/// the parties met.
///
/// # Errors
/// [`JobError::TooManyKeys`], [`JobError::OtherKeys`]; a session error if a peer breaks the protocol.
pub fn size(plan: &Plan, met: Met, keys: u64, ledger: &mut Ledger, lines: &mut Lines) -> Result<Agreed, JobError> {
    let Met { mut start, done, lanes, versions, lacks, values, told, before } = met;
    let by_place = match told.iter().copied().collect::<Option<Vec<u64>>>() {
        Some(told) => told,
        None => {
            let mut by_place = vec![keys; plan.parties.len()];
            lines.all().try_for_each(|ch| ch.send(&keys.to_le_bytes()))?;
            for ch in lines.all() {
                let place = usize::from(ch.peer().place());
                let theirs = u64::from_le_bytes(ch.recv_exact(8)?.try_into().expect("it has 8 bytes"));
                // Its first count was said before the salt was known. A second one could be chosen by the salt.
                if told[place].is_some_and(|first| first != theirs) {
                    let fault = "it says another number of keys behind the coins than in its first words";
                    return Err(ch.accuse(Misbehaviour::Contradiction(fault)).into());
                }
                by_place[place] = theirs;
            }
            by_place
        }
    };
    // What was said at once was examined then. Both sides see the same here.
    let limit = plan.shared.limits.max_keys.unwrap_or(MAX_KEYS).min(MAX_KEYS);
    for (party, &keys) in plan.parties.iter().zip(&by_place) {
        if keys > limit {
            return Err(JobError::TooManyKeys { party: party.to_string(), keys, most: limit });
        }
    }
    if start.sizes.keys.is_empty() {
        same_keys(plan, &before, &by_place)?;
        start.sizes = plan.sizes_in(start.sizes.units, &by_place, start.sizes.in_flight);
        ledger.start(start.clone())?;
    } else if start.sizes.keys != by_place {
        return Err(lines.peer()?.accuse(ANOTHER_TABLE).into());
    }
    let Start { salt, coins, sizes, lists } = start;
    Ok(Agreed { salt, coins, sizes, versions, lacks, lists, done, values, lanes })
}

/// What a peer did that goes on with a run, and not with its table.
const ANOTHER_TABLE: Misbehaviour = Misbehaviour::Contradiction(
    "it goes on with this run, but says another number of keys, of identifiers in a row or of units than when the run began",
);

/// Sees that the peers have as many keys as `before`, where that is known of a run that they have forgotten.
fn same_keys(plan: &Plan, before: &[u64], now: &[u64]) -> Result<(), JobError> {
    for peer in &plan.peers {
        let place = usize::from(peer.party.place());
        if let (Some(&before), Some(&now)) = (before.get(place), now.get(place))
            && before != now
        {
            return Err(JobError::OtherKeys { peer: peer.party.to_string(), before, now });
        }
    }
    Ok(())
}

/// Why no party of this job may count its keys after the coins are tossed, if none may, and what to do: the field, and words.
pub fn refuses_late_counts(plan: &Plan) -> Option<(&'static str, String)> {
    if let Some(why) = plan.refuses_lanes() {
        return Some(("shared.protocol", format!("{why}: run on one machine")));
    }
    if !plan.lists.is_empty() {
        let why = "several of a row are matched on one machine, and not in a cluster: name one key in mine.input.keys, or run on one machine";
        return Some(("shared.identifiers", why.to_owned()));
    }
    if plan.shared.limits.max_keys.is_none() {
        let why =
            "is missing: where a party counts its keys after they are cut, the number of units follows from this limit";
        return Some(("shared.limits.max_keys", why.to_owned()));
    }
    if plan.shared.security == Security::Malicious {
        let why = "a party that may deviate says its number of keys before the coins are tossed; take \"semi-honest\", or run on one \
                   machine";
        return Some(("shared.security", why.to_owned()));
    }
    None
}

/// Sees that `theirs` and this side's hello go together.
fn examine(plan: &Plan, mine: &Hello, peer: &Party, theirs: &Hello, ch: &mut dyn Channel) -> Result<(), JobError> {
    let both = |mine: Value, theirs: Value| ((plan.me.to_string(), Some(mine)), (peer.to_string(), Some(theirs)));
    let mut differences = differences(&plan.me, &mine.shared, peer, &theirs.shared);
    if theirs.key_columns != mine.key_columns {
        // Their names are each party's own, but keys of another number of columns could never be equal.
        let (mine, theirs) = both(mine.key_columns.into(), theirs.key_columns.into());
        differences.push(Difference { field: "the number of mine.input.keys".into(), mine, theirs });
    }
    if differences.is_empty() {
        let known: Vec<&str> = plan.shared.identifiers.iter().map(|of| of.name.as_str()).collect();
        // Each kind that a table has is in one column of it at least.
        let lists = if plan.tells_lists(peer) { theirs.kinds.len()..=MOST_LISTS } else { 0..=0 };
        let possible = in_order_of(&known, &theirs.kinds) && theirs.kinds.is_empty() == known.is_empty();
        if !possible || !lists.contains(&(theirs.lists as usize)) {
            return Err(ch.accuse(Misbehaviour::Malformed("hello")).into());
        }
        if !known.is_empty() && !theirs.kinds.iter().any(|kind| mine.kinds.contains(kind)) {
            let (mine, theirs) = both(mine.kinds.clone().into(), theirs.kinds.clone().into());
            differences.push(Difference {
                field: "the identifiers in mine.input.keys, of which none is common".into(),
                mine,
                theirs,
            });
        }
    }
    if differences.is_empty() && theirs.parameters != mine.parameters {
        // Another build. Most differences would show in the sizes of messages, but not all of them.
        let (mine, theirs) = both(mine.parameters.clone().into(), theirs.parameters.clone().into());
        let field = "the parameter sets of their versions of Vesica".into();
        differences.push(Difference { field, mine, theirs });
    }
    if !differences.is_empty() {
        return Err(JobError::Disagree { peer: peer.to_string(), differences });
    }
    // A sum is of the values of one party, and shares of those of one or of nobody.
    let (sum, both) = (plan.shared.result == ResultKind::Sum, theirs.values && mine.values);
    if let Some(owner) = plan.suite.values() {
        // Its program refuses a job that says something else.
        if theirs.values != (peer.place() == owner) {
            let fault = "it says that it has values, or none, where all know whose values are added up";
            return Err(ch.accuse(Misbehaviour::Contradiction(fault)).into());
        }
    } else if both || sum && !theirs.values && !mine.values {
        return Err(JobError::Values { peer: peer.to_string(), both: mine.values });
    }
    if theirs.keys.is_none() && refuses_late_counts(plan).is_some() {
        let fault = "it has not counted its keys, and in this job they are counted before the coins are tossed";
        return Err(ch.accuse(Misbehaviour::Contradiction(fault)).into());
    }
    if theirs.lanes > MAX_LANES || (theirs.lanes > 0 && plan.refuses_lanes().is_some()) {
        return Err(ch.accuse(Misbehaviour::Contradiction("it asks for lanes that this job cannot have")).into());
    }
    if theirs.keys.is_some_and(|keys| keys > MAX_KEYS) {
        return Err(ch.accuse(Misbehaviour::Contradiction("it claims more keys than Vesica takes")).into());
    }
    for (party, keys) in [(&plan.me, mine.keys), (peer, theirs.keys)] {
        if let (Some(keys), Some(most)) = (keys, plan.shared.limits.max_keys)
            && keys > most
        {
            return Err(JobError::TooManyKeys { party: party.to_string(), keys, most });
        }
    }
    Ok(())
}

/// Whether all of `names` are among those that are `known`, in their order and once.
fn in_order_of(known: &[&str], names: &[String]) -> bool {
    let mut known = known.iter();
    names.iter().all(|name| known.any(|of| of == name))
}

/// Sees that all parties were shown the same `words`, each by its place. Two parties need not ask: what one was shown is what
/// the other said.
///
/// # Errors
/// [`JobError::ShownApart`]: a party that was shown something else, by its own word, may be the one that was deceived, so nobody
/// is accused.
fn shown_alike(what: &'static str, words: &[Vec<u8>], lines: &mut Lines) -> Result<(), JobError> {
    if words.len() == 2 {
        return Ok(());
    }
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 words of all parties");
    words.iter().for_each(|words| _ = hash.update(&(words.len() as u64).to_le_bytes()).update(words));
    let shown = hash.finalize();
    lines.all().try_for_each(|ch| ch.send(shown.as_bytes()))?;
    let (mut others, mut differ) = (Vec::new(), Vec::new());
    for ch in lines.all() {
        let same = ch.recv_exact(32)? == shown.as_bytes();
        others.push(ch.peer().to_string());
        if !same {
            differ.push(ch.peer().to_string());
        }
    }
    if differ.is_empty() { Ok(()) } else { Err(JobError::ShownApart { what, others, differ, seen: None }) }
}

/// The runs that the peers would go on with, if each of them has one.
fn same_run(peers: &[(Party, Hello)]) -> Option<Vec<&Resume>> {
    peers.iter().map(|(_, theirs)| theirs.resume.as_ref()).collect()
}

/// The peers' names, for sentences.
fn others(plan: &Plan) -> String {
    plan.peers.iter().map(|peer| peer.party.name()).collect::<Vec<_>>().join(" and ")
}

/// What this party says first.
pub(crate) fn hello(plan: &Plan, purpose: Purpose, counted: Counted<'_>, ledger: &Ledger, session: &[u8; 32]) -> Hello {
    Hello {
        version: env!("CARGO_PKG_VERSION").into(),
        purpose,
        shared: plan.shared.canonical(),
        keys: match counted {
            Counted::Now(keys) => Some(keys),
            Counted::Later(_) => None,
        },
        // Of identifiers, the shared part says of how many columns each is.
        key_columns: if plan.lists.is_empty() { plan.keys.len() } else { 0 },
        kinds: plan.kinds(),
        lists: if plan.tells_lists(&plan.me) { plan.lists.len() as u32 } else { 0 },
        parameters: plan.suite.sets().into_iter().map(str::to_owned).collect(),
        workers: plan.workers,
        memory: plan.memory,
        values: plan.value.is_some(),
        lanes: plan.lanes,
        resume: Resume::of(plan, ledger, counted, session),
    }
}

/// The digest of a unit of which this side learns nothing.
pub(crate) const NOTHING: [u8; 32] = [0; 32];

/// Salts that are tossed for a job at most. A peer that opens its coins last can see the salt, drop the connection and try again:
/// by 64 salts it gains six of the forty bits that chance protects. So each salt costs it this part of all that is answered.
const SALTS: u64 = 64;

/// Begins an attempt at `missing` units of which `at_once` are under way at once, if the peers may still be answered for all
/// of them.
pub(crate) fn begin(plan: &Plan, units: u32, missing: u64, at_once: u64, ledger: &mut Ledger) -> Result<(), JobError> {
    let at_once = if plan.suite.cut().begins_anew() { missing } else { at_once };
    may_answer(plan, units, missing, ledger)?;
    ledger.attempt(Attempt { of: units, missing, at_once })
}

/// The same for a cluster, which says at the next meeting how many units it began. Should it not be able to say that, all that it may begin
/// until then counts.
fn begin_of_cluster(plan: &Plan, units: u32, missing: u64, at_once: u64, ledger: &mut Ledger) -> Result<(), JobError> {
    may_answer(plan, units, missing, ledger)?;
    let left = if missing > 0 { most(plan, units).saturating_sub(ledger.answers().at_most(units)) } else { 0 };
    ledger.attempt(Attempt { of: units, missing: left, at_once })
}

/// Sees that the peers may still be answered for all of `missing`.
fn may_answer(plan: &Plan, units: u32, missing: u64, ledger: &Ledger) -> Result<(), JobError> {
    if missing > 0 && ledger.answers().at_most(units).saturating_add(missing) > most(plan, units) {
        return Err(JobError::Answers { peer: others(plan), limit: plan.shared.limits.answers });
    }
    Ok(())
}

/// Units that may be answered in a whole job that is cut into so many.
pub(crate) fn most(plan: &Plan, units: u32) -> u64 {
    u64::from(units).saturating_mul(plan.shared.limits.answers.into())
}

/// Names the job and who takes part in it: a hash of the shared document and of the parties' certificates.
///
/// It binds the salt to them. Example: mallory has agreed on a job with alice, in which she is "bob", and on the same job with bob, in which
/// she is "alice". Both have pinned her certificate, and she passes on to each what the other one says. Then alice hashes her own certificate
/// and mallory's here, and bob hashes mallory's and his own. So alice refuses the coins that bob committed to, and bob refuses hers. If
/// mallory tosses coins of her own with each of them, they have different salts, and keys under different salts have nothing in common.
///
/// TLS has seen to it that whoever shows a certificate has its private key. So two parties whose hashes are equal are at the two ends of one
/// connection, without anybody between them. A secret of each connection (RFC 8446, section 7.5) would bind as much. But of more than two
/// parties none has a secret of the connection between two others, while each has seen all certificates. And a run outlives its connections.
/// Without TLS nobody is known by anything, and there is nothing to bind.
///
/// A gateway that ends TLS and has a certificate in a party's name is such a party in the middle, also if it is meant well.
pub(crate) fn session(plan: &Plan, certificates: &[Option<Fingerprint>]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 job and its parties");
    hash.update(&plan.shared.hash());
    for (place, certificate) in (0u8..).zip(certificates) {
        if let Some(certificate) = certificate {
            hash.update(&[place]).update(certificate.as_bytes());
        }
    }
    *hash.finalize().as_bytes()
}

/// Tosses coins with the peers: commit, then open (Blum 1981, with a hash commitment hidden by a random nonce). Before anybody
/// opens, all see that they hold the same commitments. Both the commitments and the salt are bound to `session`.
///
/// # Errors
/// [`JobError::ShownApart`]; a session error if a peer breaks the protocol.
pub fn toss(plan: &Plan, session: &[u8; 32], lines: &mut Lines, rng: &mut SessionRng) -> Result<[u8; 32], JobError> {
    let opening: [u8; 64] = rng.bytes(); // coins, then nonce
    let mine = commitment(session, &plan.me, &opening);
    let mut committed = vec![mine.to_vec(); plan.parties.len()];
    lines.all().try_for_each(|ch| ch.send(&mine))?;
    for ch in lines.all() {
        committed[usize::from(ch.peer().place())] = ch.recv_exact(32)?;
    }
    shown_alike("commitments to coins", &committed, lines)?;
    let mut opened = vec![opening.to_vec(); plan.parties.len()];
    lines.all().try_for_each(|ch| ch.send(&opening))?;
    for ch in lines.all() {
        let place = usize::from(ch.peer().place());
        opened[place] = ch.recv_exact(64)?;
        if commitment(session, ch.peer(), &opened[place]) != committed[place].as_slice() {
            let fault = "its coins are not those that it committed to, or it passes on what a party with another certificate says, or a gateway \
                         between the parties ends TLS";
            return Err(ch.accuse(Misbehaviour::Contradiction(fault)).into());
        }
    }
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 job salt");
    hash.update(session);
    opened.iter().for_each(|coins| _ = hash.update(coins));
    Ok(*hash.finalize().as_bytes())
}

/// The commitment names its party, so that a peer cannot send ours back as its own, and the [`session`], so that it cannot pass on
/// those of a party of another one.
pub(crate) fn commitment(session: &[u8; 32], party: &Party, opening: &[u8]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 coin commitment");
    hash.update(session).update(&[party.place()]).update(opening);
    *hash.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_session::{Fault, memory};

    fn job(name: &str, shared: &str) -> Plan {
        let text = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"ecdh\"\nlearns = [\"alice\", \"bob\"]\n{shared}\n\
             [mine]\nname = \"{name}\"\nlisten = \"h:1\"\ninput = {{ path = \"a.csv\", keys = [\"id\"] }}\noutput = {{ path = \"o.csv\" }}\n"
        );
        vesica_spec::plan(&vesica_spec::parse(&text).unwrap()).unwrap()
    }

    fn ledger() -> Ledger {
        Ledger::new(1 << 20, &std::env::temp_dir())
    }

    fn rng(seed: u8) -> SessionRng {
        SessionRng::from_seed(zeroize::Zeroizing::new([seed; 32]))
    }

    fn pair(a: &Party, b: &Party) -> (Lines, Lines) {
        let (a, b) = memory::pair(a, b);
        (Lines::new(vec![Box::new(a)]), Lines::new(vec![Box::new(b)]))
    }

    fn meet(alice: &Plan, bob: &Plan, keys: (u64, u64)) -> (Result<Agreed, JobError>, Result<Agreed, JobError>) {
        let (mut a, mut b) = pair(&alice.me, &bob.me);
        std::thread::scope(|scope| {
            let b = scope.spawn(move || agree(bob, keys.1, &mut ledger(), &mut b, &[], &mut rng(2)));
            (agree(alice, keys.0, &mut ledger(), &mut a, &[], &mut rng(1)), b.join().unwrap())
        })
    }

    /// The certificates of alice, bob and mallory.
    fn certificates() -> [Option<Fingerprint>; 3] {
        ["a", "b", "c"].map(|digit| Some(format!("sha256:{}", digit.repeat(64)).parse().unwrap()))
    }

    /// Passes on what each of two says, a message of each in turn, until one of them says nothing more. Returns how many there were of each.
    /// An echo gives each of them the name of its run back that it said itself.
    fn relay(mut to_alice: impl Channel, mut to_bob: impl Channel, echo: bool) -> usize {
        let mut passed = 0;
        loop {
            let (Ok(mut of_alice), Ok(mut of_bob)) = (to_alice.recv(HELLO_LIMIT), to_bob.recv(HELLO_LIMIT)) else {
                return passed;
            };
            if echo && passed == 0 {
                let read = |words: &[u8]| serde_json::from_slice::<Hello>(words).unwrap();
                let [mut alices, mut bobs] = [&of_alice, &of_bob].map(|words| read(words));
                let (Some(of_a), Some(of_b)) = (&mut alices.resume, &mut bobs.resume) else { panic!("no run goes on") };
                std::mem::swap(&mut of_a.run, &mut of_b.run);
                [of_alice, of_bob] = [alices, bobs].map(|words| serde_json::to_vec(&words).unwrap());
            }
            // Who has what it needs may be gone by now.
            let _ = to_alice.send(&of_bob);
            let _ = to_bob.send(&of_alice);
            passed += 1;
        }
    }

    /// How alice and bob end if mallory is between them, where these are the certificates that each of them has seen, and how many messages
    /// of each of them she has passed on.
    fn joined(alices: &[Option<Fingerprint>], bobs: &[Option<Fingerprint>]) -> ([Result<Agreed, JobError>; 2], usize) {
        joined_again(&mut [ledger(), ledger()], alices, bobs, false)
    }

    /// The same where the two hold these ledgers.
    fn joined_again(
        ledgers: &mut [Ledger; 2],
        alices: &[Option<Fingerprint>],
        bobs: &[Option<Fingerprint>],
        echo: bool,
    ) -> ([Result<Agreed, JobError>; 2], usize) {
        let [alices_ledger, bobs_ledger] = ledgers;
        let (alice, bob) = (job("alice", "insecure = true"), job("bob", "insecure = true"));
        let (a, to_alice) = memory::pair(&alice.me, &bob.me);
        let (to_bob, b) = memory::pair(&alice.me, &bob.me);
        std::thread::scope(|scope| {
            let mallory = scope.spawn(move || relay(to_alice, to_bob, echo));
            let run = |plan: Plan, ledger: &mut Ledger, end: memory::Memory, seen: &[Option<Fingerprint>], seed| {
                let mut lines = Lines::new(vec![Box::new(end)]);
                agree(&plan, 10, ledger, &mut lines, seen, &mut rng(seed))
            };
            let bob = scope.spawn(move || run(bob, bobs_ledger, b, bobs, 2));
            let alice = run(alice, alices_ledger, a, alices, 1);
            ([alice, bob.join().unwrap()], mallory.join().unwrap())
        })
    }

    /// Both have pinned mallory's certificate. Alice takes her for bob, and bob takes her for alice.
    #[test]
    fn who_joins_two_runs_is_found_out_before_there_is_a_salt() {
        let [a, b, m] = certificates();
        let (ended, passed) = joined(&[a, m], &[m, b]);
        for (ended, peer) in ended.into_iter().zip(["bob", "alice"]) {
            let error = ended.unwrap_err();
            assert_eq!(error.fault(), Fault::Peer);
            let said =
                format!("{peer} broke the protocol: its coins are not those that it committed to, or it passes on");
            assert!(error.to_string().starts_with(&said), "{error}");
        }
        // First words, commitments and openings.
        assert_eq!(passed, 3);
        // That is due to the certificates: if mallory could show each of them the other one's, as TLS does not let her, they would not see it.
        let ([alice, bob], _) = joined(&[a, b], &[a, b]);
        assert_eq!(alice.unwrap().salt, bob.unwrap().salt);
    }

    /// Mallory lets the two toss with each other, cuts their connection, and stands between them when they meet again. She passed on what
    /// they said inside TLS, so how many keys matched in each unit.
    #[test]
    fn who_gets_between_two_that_meet_again_is_found_out() {
        let [a, b, m] = certificates();
        let mut ledgers = [ledger(), ledger()];
        let salt = |ended: [Result<Agreed, JobError>; 2]| {
            let [alice, bob] = ended.map(|agreed| agreed.unwrap().salt);
            assert_eq!(alice, bob);
            alice
        };
        let first = salt(joined_again(&mut ledgers, &[a, b], &[a, b], false).0);
        for echo in [false, true] {
            let (ended, passed) = joined_again(&mut ledgers, &[a, m], &[m, b], echo);
            for ended in ended {
                let error = ended.unwrap_err().to_string();
                assert!(error.contains("passes on what a party with another certificate says"), "{error}");
            }
            assert_eq!(passed, 3);
        }
        // The run that had begun goes on, also if bob has renewed his certificate.
        assert_eq!(salt(joined_again(&mut ledgers, &[a, b], &[a, b], false).0), first);
        assert_eq!(salt(joined_again(&mut ledgers, &[a, m], &[a, m], false).0), first);
    }

    /// Mallory may also toss with each of them. Even if all coins are the same in both runs, the salts are not.
    #[test]
    fn the_same_coins_between_other_certificates_make_another_salt() {
        let (alice, bob) = (job("alice", "insecure = true"), job("bob", "insecure = true"));
        let [a, b, m] = certificates();
        let salt = |seen: &[Option<Fingerprint>]| {
            let session = session(&alice, seen);
            let (mut ours, mut theirs) = pair(&alice.me, &bob.me);
            std::thread::scope(|scope| {
                let other = scope.spawn(|| toss(&bob, &session, &mut theirs, &mut rng(2)).unwrap());
                let salt = toss(&alice, &session, &mut ours, &mut rng(1)).unwrap();
                assert_eq!(salt, other.join().unwrap());
                salt
            })
        };
        assert_eq!(salt(&[a, b]), salt(&[a, b]));
        let salts = [salt(&[a, m]), salt(&[m, b]), salt(&[a, b]), salt(&[b, a]), salt(&[a, None]), salt(&[])];
        assert!(salts.iter().enumerate().all(|(i, salt)| !salts[..i].contains(salt)), "{salts:?}");
    }

    #[test]
    fn what_all_call_a_run_is_short_and_is_no_word_of_a_party() {
        let name = quoted(&[1; 32]);
        assert_eq!((name.len(), name.matches('-').count()), (14, 2));
        assert!(name.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{name}");
        assert_ne!(name, quoted(&[2; 32]));
        // Nothing that is said or shown elsewhere begins as it does.
        let digits = name.replace('-', "");
        assert!(!super::name(&[1; 32]).starts_with(&digits));
        let called = ["alice", "bob"].map(|me| called(&[1; 32], &[3; 32], &Party::new(u8::from(me == "bob"), me)));
        assert!(called.iter().all(|words| !words.starts_with(&digits)));
    }

    #[test]
    fn both_sides_get_one_salt_and_matching_sizes() {
        let (a, b) = meet(&job("alice", "insecure = true"), &job("bob", "insecure = true"), (1000, 5_000_000));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a.salt, b.salt);
        assert_eq!(a.sizes.keys, [1000, 5_000_000]);
        assert_eq!(a.sizes, b.sizes);
    }

    /// Bob only checks. Where his job fits, he hears so; where it does not, both hear it. Either way Alice has begun nothing and counted no
    /// attempt.
    #[test]
    fn who_only_checks_costs_a_run_no_attempt() {
        let alice = job("alice", "insecure = true\nunit = 7");
        for unit in [7, 8] {
            let bob = job("bob", &format!("insecure = true\nunit = {unit}"));
            let (mut a, mut b) = pair(&alice.me, &bob.me);
            let mut held = ledger();
            let (run, check) = std::thread::scope(|scope| {
                let check = scope.spawn(|| greet(&bob, Purpose::Check, Counted::Now(20), &ledger(), &mut b, &[]));
                (agree(&alice, 10, &mut held, &mut a, &[], &mut rng(1)), check.join().unwrap())
            });
            assert!(held.started().is_none());
            assert_eq!((held.answers().attempts, held.answers().at_most(1)), (0, 0));
            let Err(JobError::Checked { peers, misfit }) = run else { panic!("alice did not hear that bob checks") };
            assert_eq!(peers, std::slice::from_ref(&bob.me));
            match (unit, check) {
                (7, Ok(said)) => {
                    assert_eq!(misfit, None);
                    assert!(!said.all_check() && said.of_peers().eq([(Some(10_u64), true)]));
                }
                (_, Err(JobError::Disagree { .. })) => assert!(misfit.unwrap().contains("shared.unit: 7 for alice")),
                (_, check) => panic!("unit = {unit}: bob's check ended well: {}", check.is_ok()),
            }
        }
    }

    /// Whoever brings too many keys: if that is who checks, it may come again with fewer.
    #[test]
    fn a_run_with_too_many_keys_of_its_own_ends_when_it_is_checked() {
        let limit = "insecure = true\nlimits.max_keys = 15";
        let (alice, bob) = (job("alice", limit), job("bob", limit));
        for (alices, bobs) in [(20, 10), (10, 20)] {
            let (mut a, mut b) = pair(&alice.me, &bob.me);
            let (run, check) = std::thread::scope(|scope| {
                let check =
                    scope.spawn(|| greet(&bob, Purpose::Check, Counted::Now(bobs), &ledger(), &mut b, &[]).map(drop));
                (agree(&alice, alices, &mut ledger(), &mut a, &[], &mut rng(1)), check.join().unwrap())
            });
            let (run, check) = (run.unwrap_err(), check.unwrap_err());
            assert!(matches!(check, JobError::TooManyKeys { keys: 20, .. }), "{check}");
            match alices {
                20 => assert!(matches!(&run, JobError::TooManyKeys { party, .. } if party == "alice"), "{run}"),
                _ => assert!(matches!(run, JobError::Checked { misfit: Some(_), .. }), "{run}"),
            }
        }
    }

    /// The job of a cluster: only Alice learns.
    fn of_cluster(name: &str) -> Plan {
        let text = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"ecdh\"\nlearns = [\"alice\"]\ninsecure = true\n\
             unit = 7\nlimits.max_keys = 100\n[mine]\nname = \"{name}\"\nlisten = \"h:1\"\n\
             input = {{ path = \"a.csv\", keys = [\"id\"] }}\noutput = {{ path = \"o.csv\" }}\n"
        );
        vesica_spec::plan(&vesica_spec::parse(&text).unwrap()).unwrap()
    }

    /// Alice is a cluster, and counts behind the coins. Bob counted at once, and could choose another number when he has seen the salt.
    #[test]
    fn who_has_counted_says_the_same_number_behind_the_coins() {
        let (alice, bob) = (of_cluster("alice"), of_cluster("bob"));
        for (second, refused) in [(20, false), (21, true)] {
            let (mut a, mut b) = pair(&alice.me, &bob.me);
            let sized = std::thread::scope(|scope| {
                scope.spawn(|| {
                    super::meet(&bob, Counted::Now(20), &mut ledger(), &mut b, &[], &mut rng(2)).unwrap();
                    let b = b.peer().unwrap();
                    b.send(&u64::to_le_bytes(second)).unwrap();
                    b.recv_exact(8).unwrap();
                });
                let (mut ledger, later) = (ledger(), Counted::Later(&[]));
                let met = super::meet(&alice, later, &mut ledger, &mut a, &[], &mut rng(1)).unwrap();
                size(&alice, met, 10, &mut ledger, &mut a)
            });
            match sized {
                Ok(agreed) => assert!(!refused && agreed.sizes.keys == [10, 20]),
                Err(error) => {
                    assert!(refused && error.fault() == Fault::Peer, "{error}");
                    let said = "bob broke the protocol: it says another number of keys behind the coins";
                    assert!(error.to_string().starts_with(said), "{error}");
                }
            }
        }
    }

    /// Its ledger hears of no unit, so what it has is told here. A new run costs a salt's share until its units are counted.
    #[test]
    fn a_cluster_that_alone_learns_and_has_everything_begins_no_other_run() {
        let (alice, bob) = (of_cluster("alice"), of_cluster("bob"));
        let tag_len = TagLen::new(9).unwrap();
        let sizes = Sizes { units: 2, in_flight: 1, keys: vec![10, 20], capacities: vec![10, 20], tag_len };
        for (finished, is_over) in [([true, true], true), ([true, false], false)] {
            let mut held = ledger();
            held.start(Start { salt: [7; 32], coins: Coins::new([0; 32]), sizes: sizes.clone(), lists: vec![0; 2] })
                .unwrap();
            let (mut a, mut b) = pair(&alice.me, &bob.me);
            let met = std::thread::scope(|scope| {
                // Bob has forgotten the run.
                scope.spawn(|| drop(agree(&bob, 20, &mut ledger(), &mut b, &[], &mut rng(2))));
                let later = Counted::Later(&finished);
                let met = super::meet(&alice, later, &mut held, &mut a, &[], &mut rng(1));
                drop(a);
                met
            });
            assert_eq!(matches!(met, Err(JobError::Over { .. })), is_over);
            let of = held.started().map_or(1, |start| start.sizes.units);
            assert_eq!(held.answers().at_most(of), if is_over { 0 } else { 2 });
        }
    }

    #[test]
    fn every_difference_is_named_with_both_values_on_both_sides() {
        let (a, b) = meet(&job("alice", "insecure = true\nunit = 7"), &job("bob", "insecure = true\nunit = 8"), (1, 1));
        let (a, b) = (a.unwrap_err(), b.unwrap_err());
        assert_eq!((a.fault(), b.fault()), (Fault::Config, Fault::Config));
        assert!(a.to_string().contains("shared.unit: 7 for alice, 8 for bob"), "{a}");
        assert!(b.to_string().contains("shared.unit: 8 for bob, 7 for alice"), "{b}");
    }

    #[test]
    fn other_parameter_sets_are_refused_on_sight() {
        let alice = job("alice", "insecure = true");
        let (a, mut b) = memory::pair(&alice.me, &alice.peers[0].party);
        let mut a = Lines::new(vec![Box::new(a)]);
        let older = std::thread::spawn(move || {
            let mut hello: Value = serde_json::from_slice(&b.recv(HELLO_LIMIT).unwrap()).unwrap();
            assert_eq!(hello["parameters"], serde_json::json!(["curve25519-xmd-sha512-ell2-nu-v1"]));
            hello["parameters"] = serde_json::json!(["curve25519-v0"]);
            b.send(&serde_json::to_vec(&hello).unwrap()).unwrap();
        });
        let error = agree(&alice, 1, &mut ledger(), &mut a, &[], &mut rng(1)).unwrap_err();
        older.join().unwrap();
        assert_eq!(error.fault(), Fault::Config);
        let said = "Vesica: [\"curve25519-xmd-sha512-ell2-nu-v1\"] for alice, [\"curve25519-v0\"] for bob";
        assert!(error.to_string().contains(said), "{error}");
    }

    #[test]
    fn coins_other_than_those_committed_to_are_refused() {
        let alice = job("alice", "insecure = true");
        let (a, mut b) = memory::pair(&alice.me, &alice.peers[0].party);
        let mut a = Lines::new(vec![Box::new(a)]);
        let hello = std::thread::spawn(move || {
            let theirs = b.recv(HELLO_LIMIT).unwrap();
            b.send(&theirs).unwrap();
            b.recv(32).unwrap();
            b.send(&[7; 32]).unwrap();
            b.recv(64).unwrap();
            b.send(&[7; 64]).unwrap();
            b.recv(1).unwrap_err();
        });
        let error = agree(&alice, 1, &mut ledger(), &mut a, &[], &mut rng(1)).unwrap_err();
        drop(a);
        hello.join().unwrap();
        assert_eq!(error.fault(), Fault::Peer);
        assert!(error.to_string().contains("coins"), "{error}");
    }

    /// Our own commitment and opening sent back must not pass: the salt would be the peer's to choose.
    #[test]
    fn coins_sent_back_are_refused() {
        let alice = job("alice", "insecure = true");
        let (a, mut b) = memory::pair(&alice.me, &alice.peers[0].party);
        let mut a = Lines::new(vec![Box::new(a)]);
        let mirror = std::thread::spawn(move || {
            while let Ok(msg) = b.recv(HELLO_LIMIT) {
                if b.send(&msg).is_err() {
                    break;
                }
            }
        });
        let error = agree(&alice, 1, &mut ledger(), &mut a, &[], &mut rng(1)).unwrap_err();
        drop(a);
        mirror.join().unwrap();
        assert!(error.to_string().contains("coins"), "{error}");
    }

    #[test]
    fn a_hello_that_is_none_is_the_peers_fault() {
        let alice = job("alice", "insecure = true");
        for hello in [&b""[..], b"{}", b"[1,2", &[0xff; 100]] {
            let (a, mut b) = memory::pair(&alice.me, &alice.peers[0].party);
            let mut a = Lines::new(vec![Box::new(a)]);
            b.send(hello).unwrap();
            let error = agree(&alice, 1, &mut ledger(), &mut a, &[], &mut rng(1)).unwrap_err();
            assert_eq!(error.to_string(), "bob broke the protocol: a hello that cannot be understood");
        }
    }

    const THREE: [&str; 3] = ["alice", "bob", "carol"];

    /// A job by two kinds of identifiers: a row of alice's has three, and one of bob's two.
    fn by_identifiers(name: &str) -> Plan {
        let keys =
            if name == "alice" { "email = [\"m\", \"n\"], phone = \"t\"" } else { "email = \"m\", phone = \"t\"" };
        let output = if name == "alice" { "output = { path = \"o.csv\" }" } else { "" };
        let text = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"ecdh\"\nlearns = [\"alice\"]\n\
             insecure = true\nmatch = \"any\"\nlimits = {{ min_intersection = 3 }}\nidentifiers = [{{ name = \"email\" }}, {{ name = \"phone\" }}]\n[mine]\nname = \"{name}\"\n\
             listen = \"h:1\"\ninput = {{ path = \"a.csv\", keys = {{ {keys} }} }}\n{output}\n"
        );
        vesica_spec::plan(&vesica_spec::parse(&text).unwrap()).unwrap()
    }

    /// How many identifiers a row may have is said first by a party that does not learn, stays for the run, and is a number that can be.
    #[test]
    fn a_party_says_how_many_identifiers_a_row_may_have_and_stays_with_it() {
        let (alice, bob) = (by_identifiers("alice"), by_identifiers("bob"));
        let mut held = ledger();
        // What bob's first words say of his rows, and why he is refused.
        for (says, why) in [
            (Some(2), None),
            (Some(2), None),
            (Some(3), Some("another number of keys")),
            (Some(1), Some("hello")),
            (Some(33), Some("hello")),
            (None, Some("hello")),
        ] {
            let (a, mut b) = memory::pair(&alice.me, &bob.me);
            let mut a = Lines::new(vec![Box::new(a)]);
            let resume = held.started().map(|start| Resume {
                run: called(&start.salt, &session(&bob, &[]), &bob.me),
                done: "0".repeat(start.sizes.units as usize),
            });
            let ended = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut hello = hello(&bob, Purpose::Run, Counted::Now(20), &ledger(), &session(&bob, &[]));
                    hello.lists = says.unwrap_or(0);
                    hello.resume = resume;
                    let goes_on = hello.resume.is_some();
                    b.recv(HELLO_LIMIT).unwrap();
                    b.send(&serde_json::to_vec(&hello).unwrap()).unwrap();
                    let opening = [5; 64];
                    if !goes_on {
                        b.send(&commitment(&session(&bob, &[]), &bob.me, &opening)).unwrap();
                        b.recv_exact(32).unwrap();
                        b.send(&opening).unwrap();
                        b.recv_exact(64).unwrap();
                    }
                });
                agree(&alice, 10, &mut held, &mut a, &[], &mut rng(1))
            });
            match (why, ended) {
                (None, Ok(agreed)) => assert_eq!(agreed.lists, [0, 2]),
                (Some(why), Err(error)) => {
                    assert_eq!(error.fault(), Fault::Peer);
                    let error = error.to_string();
                    assert!(error.starts_with("bob broke the protocol") && error.contains(why), "{error}");
                }
                (why, ended) => panic!("{says:?}: {why:?}, and the run began: {}", ended.is_ok()),
            }
        }
    }

    fn of_three(name: &str) -> Plan {
        let text = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\", \"carol\"]\nprotocol = \"ecdh\"\nlearns = [\"alice\"]\n\
             accept = [\"pair_count\"]\ninsecure = true\n[mine]\nname = \"{name}\"\nlisten = \"h:1\"\n\
             input = {{ path = \"a.csv\", keys = [\"id\"] }}\noutput = {{ path = \"o.csv\" }}\n"
        );
        vesica_spec::plan(&vesica_spec::parse(&text).unwrap()).unwrap()
    }

    /// What Alice and Bob agree on, where Carol is played by hand: her lines go to Alice and to Bob.
    fn with_carol(carol: impl FnOnce(&Plan, Lines) + Send) -> [Result<Agreed, JobError>; 2] {
        with_carol_as([&[], &[]], carol)
    }

    /// The same, where these are the certificates that Alice and Bob have seen.
    fn with_carol_as(
        certificates: [&[Option<Fingerprint>]; 2],
        carol: impl FnOnce(&Plan, Lines) + Send,
    ) -> [Result<Agreed, JobError>; 2] {
        let plans = THREE.map(of_three);
        let parties: Vec<Party> = plans.iter().map(|plan| plan.me.clone()).collect();
        let mut lines = memory::mesh(&parties);
        let hers = lines.pop().unwrap();
        std::thread::scope(|scope| {
            let plan = &plans[2];
            scope.spawn(move || carol(plan, hers));
            let others = plans.iter().zip(lines).zip(1u8..).map(|((plan, mut lines), seed)| {
                let keys = u64::from(seed) * 100;
                let seen = certificates[usize::from(seed) - 1];
                scope.spawn(move || agree(plan, keys, &mut ledger(), &mut lines, seen, &mut rng(seed)))
            });
            let others: Vec<_> = others.collect();
            let ended: Vec<_> = others.into_iter().map(|other| other.join().unwrap()).collect();
            ended.try_into().map_err(|_| "two others").unwrap()
        })
    }

    #[test]
    fn three_parties_get_one_salt_and_the_same_sizes() {
        let (sender, carols) = std::sync::mpsc::channel();
        let [alice, bob] = with_carol(move |plan, mut lines| {
            let agreed = agree(plan, 300, &mut ledger(), &mut lines, &[], &mut rng(3));
            sender.send(agreed.unwrap()).unwrap();
        });
        let carol = carols.recv().unwrap();
        for agreed in [alice.unwrap(), bob.unwrap()] {
            assert_eq!((agreed.salt, &agreed.sizes), (carol.salt, &carol.sizes));
            assert_eq!(agreed.sizes.keys, [100, 200, 300]);
        }
    }

    /// Carol is not the same to Alice and to Bob. None of the two takes the other for the one who did that.
    #[test]
    fn who_shows_two_parties_different_certificates_is_found_out() {
        let [alice, bob, carol] = certificates();
        let other = Some(format!("sha256:{}", "d".repeat(64)).parse().unwrap());
        let ended = with_carol_as([&[alice, bob, carol], &[alice, bob, other]], |plan, mut lines| {
            let seen = [alice, bob, carol];
            drop(agree(plan, 300, &mut ledger(), &mut lines, &seen, &mut rng(3)));
        });
        let [alice, bob] = nobody_is_blamed(ended);
        assert!(alice.ends_with("bob was shown other first words or certificates than this side"), "{alice}");
        assert!(bob.contains("alice and carol was shown other first words or certificates"), "{bob}");
    }

    fn says(plan: &Plan, keys: u64) -> Vec<u8> {
        serde_json::to_vec(&hello(plan, Purpose::Run, Counted::Now(keys), &ledger(), &session(plan, &[]))).unwrap()
    }

    /// Alice and Bob each see that somebody showed them different things, and do not take each other for it.
    fn nobody_is_blamed(ended: [Result<Agreed, JobError>; 2]) -> [String; 2] {
        let told = ended.map(Result::unwrap_err).map(|error| {
            assert_eq!(error.fault(), Fault::Peer);
            assert!(matches!(error, JobError::ShownApart { .. }), "{error}");
            error.to_string()
        });
        assert!(
            told[0].starts_with("bob or carol broke the protocol, one of them: it showed different parties"),
            "{}",
            told[0]
        );
        assert!(
            told[1].starts_with("alice or carol broke the protocol, one of them: it showed different"),
            "{}",
            told[1]
        );
        told
    }

    /// Without that, Alice would leave over a job that Bob never saw, and Bob would take her for the one who broke off.
    #[test]
    fn who_shows_another_job_to_one_of_two_is_found_out() {
        let ended = with_carol(|plan, mut lines| {
            let mut other = plan.clone();
            other.shared.unit = Some(7);
            lines.at(0).unwrap().send(&says(&other, 300)).unwrap();
            lines.at(1).unwrap().send(&says(plan, 300)).unwrap();
            for place in [0, 1] {
                let ch = lines.at(place).unwrap();
                ch.recv(HELLO_LIMIT).unwrap();
                let echo = ch.recv(32).unwrap();
                let _ = ch.send(&echo);
            }
        });
        let [alice, bob] = nobody_is_blamed(ended);
        let said = "bob was shown other first words or certificates than this side. What this side was shown";
        assert!(alice.contains(said), "{alice}");
        assert!(alice.contains("carol holds a different job") && alice.contains("shared.unit"), "{alice}");
        assert!(bob.ends_with("alice was shown other first words or certificates than this side"), "{bob}");
    }

    /// Alice and Bob would run with other sizes; each sees it from what the other one heard, before any coins.
    #[test]
    fn who_tells_two_parties_different_things_is_found_out() {
        let ended = with_carol(|plan, mut lines| {
            lines.at(0).unwrap().send(&says(plan, 300)).unwrap();
            lines.at(1).unwrap().send(&says(plan, 301)).unwrap();
            for place in [0, 1] {
                let ch = lines.at(place).unwrap();
                ch.recv(HELLO_LIMIT).unwrap();
                // Whatever she says that she heard, Alice and Bob ask each other too.
                ch.recv(32).unwrap();
                let _ = ch.send(&[0; 32]);
            }
        });
        nobody_is_blamed(ended);
    }

    /// Two salts for one run would make an empty result that nobody could tell from a true one.
    #[test]
    fn who_commits_to_two_different_coins_is_found_out() {
        let ended = with_carol(|plan, mut lines| {
            let words = says(plan, 300);
            let mut heard = vec![Vec::new(), Vec::new(), words.clone()];
            for place in [0, 1] {
                let ch = lines.at(place).unwrap();
                ch.send(&words).unwrap();
                heard[usize::from(place)] = ch.recv(HELLO_LIMIT).unwrap();
            }
            shown_alike("first words", &heard, &mut lines).unwrap();
            for place in [0, 1] {
                lines.at(place).unwrap().send(&commitment(&session(plan, &[]), &plan.me, &[place; 64])).unwrap();
            }
            for place in [0, 1] {
                let ch = lines.at(place).unwrap();
                ch.recv(32).unwrap();
                let echo = ch.recv(32).unwrap();
                let _ = ch.send(&echo);
            }
        });
        nobody_is_blamed(ended);
    }
}
