//! A partner that takes as many answers as it is given: it chooses memory and workers in each meeting, breaks off when it likes, goes on
//! with a run or forgets it. The meetings are real, and what the partner was truly answered is counted here, in keys, and not by the ledger.

use crate::error::JobError;
use crate::meet::agree::{self, Agreed, Counted, NOTHING};
use crate::seal::ledger::Ledger;
use vesica_session::{Lines, SessionRng, memory};
use vesica_spec::Plan;
use vesica_types::UnitId;
use zeroize::Zeroizing;

/// Keys of each side. A run of them has from 4 to 256 units.
const KEYS: u64 = 1 << 20;

const ANSWERS: u64 = 8;

fn plan(name: &str, shared: &str) -> Plan {
    let learns = shared.contains(&format!("\"{name}\"")) && !shared.contains("count");
    let output = if learns { "output = { path = \"o.csv\" }" } else { "" };
    let text = format!(
        "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\n{shared}\ninsecure = true\nlimits.max_keys = {KEYS}\n\
         limits.answers = {ANSWERS}\n[mine]\nname = \"{name}\"\nlisten = \"h:1\"\nworkers = 64\nmemory = \"1TB\"\n\
         input = {{ path = \"a.csv\", keys = [\"id\"] }}\n{output}\n"
    );
    vesica_spec::plan(&vesica_spec::parse(&text).unwrap()).unwrap()
}

fn rng() -> SessionRng {
    SessionRng::from_os().unwrap()
}

fn ledger() -> Ledger {
    Ledger::new(1 << 20, &std::env::temp_dir())
}

/// Alice, who answers, and what she has truly answered.
struct Game {
    alice: Plan,
    bob: Plan,
    ledger: Ledger,
    /// Keys of Bob's, padding included.
    answered: u64,
    /// The largest n of a run in which Bob was answered.
    n: u64,
    /// The last salt, and how many there were.
    salt: [u8; 32],
    salts: u64,
}

impl Game {
    fn new(shared: &str) -> Self {
        let [alice, bob] = ["alice", "bob"].map(|name| plan(name, shared));
        Self { alice, bob, ledger: ledger(), answered: 0, n: 0, salt: [0; 32], salts: 0 }
    }

    /// Bob is ready for so many units at once, and has as little memory as makes `units` of the job.
    fn says(&mut self, workers: u32, units: u32) {
        let keys = KEYS.div_ceil(units.into());
        self.bob.workers = workers;
        self.bob.memory = u64::from(workers) * 2 * self.bob.suite.memory() * keys * 4 + 16;
    }

    /// They meet: none if Alice answers nothing more. Bob remembers what is in `theirs`. Alice is a cluster if she counts `later`.
    fn meets(&mut self, theirs: &mut Ledger, later: bool) -> Option<Agreed> {
        let (a, b) = memory::pair(&self.alice.me, &self.bob.me);
        let [mut a, mut b] = [a, b].map(|end| Lines::new(vec![Box::new(end)]));
        let (alice, bob, held) = (&self.alice, &self.bob, &mut self.ledger);
        let agreed = std::thread::scope(|scope| {
            scope.spawn(move || agree::agree(bob, KEYS, theirs, &mut b, &[], &mut rng()).map(drop));
            let counted = if later { Counted::Later(&[]) } else { Counted::Now(KEYS) };
            let met = agree::meet(alice, counted, held, &mut a, &[], &mut rng());
            let agreed = met.and_then(|met| agree::size(alice, met, KEYS, held, &mut a));
            drop(a);
            agreed
        });
        let agreed = match agreed {
            Err(JobError::Answers { .. }) => return None,
            agreed => agreed.unwrap(),
        };
        // What the report would say if this were the last attempt.
        let told = self.ledger.answered(1);
        assert!(told >= self.answered, "{} keys were answered, and {told} are reported", self.answered);
        self.salts += u64::from(agreed.salt != self.salt);
        self.salt = agreed.salt;
        Some(agreed)
    }

    /// Alice works on so many units.
    fn answers(&mut self, agreed: &Agreed, units: u64) {
        self.answered += units * agreed.sizes.capacity(1);
        self.n = self.n.max(agreed.sizes.padded(1));
        let (answered, most) = (self.answered, ANSWERS * self.n);
        assert!(answered <= most, "{answered} keys were answered, and {most} are the most");
    }

    /// Of the missing units of `agreed`, `finished` become done on both sides, and as many others as can be under way are lost with the
    /// connection, when they were answered.
    fn breaks(&mut self, agreed: &Agreed, theirs: &mut Ledger, finished: u32) {
        let missing: Vec<u32> = (0..).zip(&agreed.done).filter(|(_, done)| !**done).map(|(id, _)| id).collect();
        let finished = missing.len().min(finished as usize);
        for &id in &missing[..finished] {
            self.ledger.commit(UnitId(id), &NOTHING, &[]).unwrap();
            theirs.commit(UnitId(id), &NOTHING, &[]).unwrap();
        }
        let lost = (missing.len() - finished).min(agreed.sizes.in_flight as usize);
        self.answers(agreed, (finished + lost) as u64);
    }
}

/// Numbers of units, each a little larger than the one before it.
fn ever_more() -> impl Iterator<Item = u32> {
    (4..40).chain((40..=256).step_by(9))
}

const BOTH: &str = "protocol = \"ecdh\"\nlearns = [\"alice\", \"bob\"]";

/// Runs that are forgotten when some of their units are finished, each of a few more units than the one before it. When a unit of one run
/// counted like a unit of another, whatever their sizes, such a partner was answered 37 times over in place of 8.
#[test]
fn runs_of_ever_more_units_bring_no_more_answers() {
    for (part, least) in [(1, 6), (2, 4), (10, 0)] {
        let mut game = Game::new(BOTH);
        for units in ever_more() {
            game.says(1, units);
            loop {
                let mut theirs = ledger();
                let Some(agreed) = game.meets(&mut theirs, false) else { break };
                assert_eq!(agreed.sizes.units, units);
                game.breaks(&agreed, &mut theirs, (units / part).min(units - 1));
            }
        }
        assert!(game.salts <= 64, "{} salts", game.salts);
        // An honest partner with a bad network gets nearly all that is allowed.
        assert!(game.answered >= least * game.n, "only {} of {}", game.answered, ANSWERS * game.n);
    }
}

/// Any mixture: numbers of units that grow, any numbers of workers, salts that are dropped, breaks after any number of finished units, and
/// runs that are gone on with or forgotten.
#[test]
fn no_mixture_of_breaks_brings_more_answers() {
    for shared in [BOTH, "protocol = \"rr22\"\nlearns = [\"bob\"]"] {
        for seed in 0..6 {
            let (mut game, mut random) = (Game::new(shared), SessionRng::from_seed(Zeroizing::new([seed; 32])));
            let mut below = |most: u32| u32::from_le_bytes(random.bytes()) % most;
            let (mut theirs, mut refused) = (ledger(), 0);
            while refused < 50 {
                // Whenever Alice has had enough of it, a little more.
                game.says(1 + below(8), 4 + refused * 5 + below(3));
                if theirs.is_whole() || below(3) == 0 {
                    theirs = ledger();
                }
                let Some(agreed) = game.meets(&mut theirs, false) else {
                    (theirs, refused) = (ledger(), refused + 1);
                    continue;
                };
                // Or Bob does not like the salt.
                if below(5) > 0 {
                    let finished = below(agreed.sizes.units + 1);
                    game.breaks(&agreed, &mut theirs, finished);
                }
            }
            assert!(game.salts <= 64, "{} salts", game.salts);
        }
    }
}

/// What takes all keys at once has all its units under way: each start costs a whole answer, whatever number of units it is said to have.
#[test]
fn counts_are_begun_eight_times_whatever_is_said() {
    for protocol in ["ecdh", "rr22"] {
        let mut game = Game::new(&format!("protocol = \"{protocol}\"\nresult = \"count\"\nlearns = [\"bob\"]"));
        for units in ever_more() {
            game.says(1, units);
            while game.meets(&mut ledger(), false).is_some() {}
        }
        assert_eq!(game.salts, ANSWERS, "{protocol}");
    }
}

/// A cluster says what it has begun. Bob has a part of each run begun, and forgets it.
#[test]
fn a_clusters_runs_of_ever_more_units_bring_no_more_answers() {
    for (part, least) in [(1, 6), (2, 5), (10, 0)] {
        let (mut game, mut begun) = (Game::new("protocol = \"ecdh\"\nlearns = [\"bob\"]"), 0);
        for units in ever_more().chain([5, 100, 7]) {
            game.says(1, units);
            loop {
                game.ledger.begun(Some(begun)).unwrap();
                let Some(agreed) = game.meets(&mut ledger(), true) else { break };
                assert_eq!(agreed.sizes.units, units);
                // As `Meeting::lanes` tells the workers.
                let allowed = game.ledger.answers().allowed(agree::most(&game.alice, units));
                begun = allowed.min((units / part).into());
                game.answers(&agreed, begun);
            }
        }
        assert!(game.answered >= least * game.n, "only {} of {}", game.answered, ANSWERS * game.n);
    }
}
