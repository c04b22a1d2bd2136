//! Waiting for the others' runs, while some of them only check the job.
//!
//! Example: alice's run waits for bob for ten minutes. After four of them bob types `vesica check --peer`. Both see that their jobs fit, and
//! bob's check ends. alice's run goes on waiting, for the six minutes that are left. So it does if he gives up the check before he has said
//! anything, and his connection breaks.

use crate::error::JobError;
use crate::meet::peers::Peers;
use crate::tell::control::Control;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vesica_net::{Connector, Endpoint, Time};
use vesica_session::Error;
use vesica_types::Party;

/// How long a side is not to be reached after a check, so that a partner who checks without end keeps it no busier than two times a
/// second.
const PAUSE: Duration = Duration::from_millis(500);

/// The same after so many checks that they are no longer told one by one.
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// Times that are told one by one; after that, every hundredth.
const TOLD: u64 = 10;

/// How long this side has waited for the others' runs, and who was there in that time without a run.
pub struct Waiting {
    time: Arc<dyn Time>,
    began: Instant,
    patience: Duration,
    /// Who was there last and what became of that, if somebody was.
    last: Option<(Vec<Party>, &'static str)>,
    /// How often somebody was there.
    times: u64,
}

impl Waiting {
    /// Begins to wait, for as long as `patience`.
    pub fn begin(patience: Duration, time: &Arc<dyn Time>) -> Self {
        Self { time: time.clone(), began: time.now(), patience, last: None, times: 0 }
    }

    /// How long the others may still take. A check takes nothing from that and adds nothing to it.
    ///
    /// # Errors
    /// [`Error::Net`] if somebody was there, and nobody came to run before the patience was over.
    pub fn left(&self) -> Result<Duration, JobError> {
        let Some(([peer, ..], did)) = self.last.as_ref().map(|(peers, did)| (peers.as_slice(), did)) else {
            return Ok(self.patience);
        };
        let left = self.rest();
        if left.is_zero() {
            let patience = humantime::format_duration(self.patience);
            let why = format!(
                "{did}, and no run began within {patience}; check that {peer} has started its run, or raise mine.patience"
            );
            return Err(Error::Net { peer: peer.clone(), why }.into());
        }
        Ok(left)
    }

    /// Connects as [`Peers::connect`] does. When checks are no longer told one by one, their connections are not told either.
    ///
    /// # Errors
    /// Those of [`Peers::connect`].
    pub fn connect(&self, connector: &dyn Connector, endpoint: Endpoint, ctl: &Control) -> Result<Peers, JobError> {
        if self.times < TOLD {
            return Peers::connect(connector, endpoint, ctl);
        }
        Ok(Peers::of(connector.connect(endpoint, Arc::new(Quietly(ctl.clone())))?))
    }

    fn rest(&self) -> Duration {
        self.patience.saturating_sub(self.time.now().saturating_duration_since(self.began))
    }

    /// Goes on after `error` if that says that somebody only checks the job: tells so, and pauses. It is the same if a connection broke and
    /// nothing of the run `has_begun`, because a check that is given up looks like that to the others.
    ///
    /// # Errors
    /// Every other error.
    pub fn after(&mut self, error: JobError, has_begun: bool, ctl: &Control) -> Result<(), JobError> {
        let is_told = often(self.times + 1);
        let often = is_told.as_deref().unwrap_or_default();
        let (peers, did, note) = match error {
            JobError::Checked { peers, misfit } => {
                let who = peers.iter().map(Party::name).collect::<Vec<_>>().join(" and ");
                let (has, run) = if peers.len() == 1 { ("has", "its run") } else { ("have", "their runs") };
                let note = match misfit {
                    None => format!("{who} {has} checked the job{often}: it fits; still waiting for {run}"),
                    Some(misfit) => {
                        format!(
                            "{who} {has} checked the job{often}: it does not fit; still waiting for {run}. {misfit}"
                        )
                    }
                };
                (peers, "it has only checked the job", note)
            }
            error if !has_begun => {
                let (peer, why) = error.broken()?;
                let note = format!("lost {peer} before the run began{often} ({why}); still waiting for its run");
                (vec![peer], "its connection broke before the run began", note)
            }
            error => return Err(error),
        };
        self.times += 1;
        if is_told.is_some() {
            ctl.note(note);
        }
        self.last = Some((peers, did));
        let pause = if self.times <= TOLD { PAUSE } else { LONG_PAUSE };
        self.time.sleep(pause.min(self.rest()), &|| ctl.is_cancelled());
        Ok(())
    }

    /// Why a peer did not come, said with the whole patience and with what this side has seen of that peer.
    pub fn absent(&self, error: JobError) -> JobError {
        use vesica_net::Error::Absent;
        match (error, &self.last) {
            (JobError::Net(Absent { peer, address, why, .. }), Some((peers, did))) => {
                let why = if peers.contains(&peer) { format!("{did}; since then: {why}") } else { why };
                JobError::Net(Absent { peer, address, waited: self.patience, why })
            }
            (error, _) => error,
        }
    }
}

/// Passes on what the network says, without what it says each time that somebody comes.
struct Quietly(Control);

impl vesica_net::Control for Quietly {
    fn event(&self, event: &vesica_net::Event) {
        use vesica_net::Event::{Connected, Expiring, IdleList, Listening};
        if !matches!(event, Connected { .. } | Expiring { .. } | IdleList { .. } | Listening { .. }) {
            self.0.note(event.to_string());
        }
    }

    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// What is added to what is told, if it is told: the how many-th time it is, where those before it were not told.
fn often(times: u64) -> Option<String> {
    match times {
        ..=TOLD => Some(String::new()),
        _ if times.is_multiple_of(100) => Some(format!(", the {times}th time in this wait")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tell::control::{Event, Watch};
    use crate::world::World;
    use std::sync::{Arc, Mutex};
    use vesica_session::Fault;

    /// Keeps the notes.
    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<Vec<String>>>);

    impl Watch for Notes {
        fn event(&self, event: Event) {
            if let Event::Note(note) = event {
                self.0.lock().unwrap().push(note);
            }
        }
    }

    /// The patience is over, so that no check makes a pause.
    #[test]
    fn ten_checks_are_told_and_then_every_hundredth() {
        let notes = Notes::default();
        let (ctl, mut waiting) = (Control::new(notes.clone()), Waiting::begin(Duration::ZERO, &World::default().time));
        for _ in 0..250 {
            let peers = vec![Party::new(1, "bob")];
            waiting.after(JobError::Checked { peers, misfit: None }, false, &ctl).unwrap();
        }
        let notes = notes.0.lock().unwrap();
        assert_eq!(notes.len(), 12);
        assert_eq!(notes[9], "bob has checked the job: it fits; still waiting for its run");
        assert!(notes[11].starts_with("bob has checked the job, the 200th time in this wait: it fits"), "{notes:?}");
        assert!(waiting.left().unwrap_err().to_string().contains("it has only checked the job"));
    }

    #[test]
    fn connections_of_checks_are_not_told_without_end() {
        let notes = Notes::default();
        let quietly = Quietly(Control::new(notes.clone()));
        let tell = |event: vesica_net::Event| vesica_net::Control::event(&quietly, &event);
        tell(vesica_net::Event::Listening { at: ([127, 0, 0, 1], 1).into() });
        tell(vesica_net::Event::Strangers { count: 100 });
        assert_eq!(*notes.0.lock().unwrap(), ["refused 100 connections so far"]);
    }

    /// So a check that is given up between its connections and its first words neither ends a run nor makes it wait longer.
    #[test]
    fn a_connection_that_breaks_before_the_run_begins_renews_no_patience() {
        let patience = Duration::from_secs(60);
        let (ctl, mut waiting) = (Control::new(()), Waiting::begin(patience, &World::default().time));
        let stopped = |fault| {
            let why = "it only checked the job".to_owned();
            JobError::from(Error::Stopped { peer: Party::new(2, "carol"), fault, why })
        };
        let began = Instant::now();
        waiting.after(stopped(Fault::Network), false, &ctl).unwrap();
        assert!(began.elapsed() >= PAUSE && waiting.left().unwrap() <= patience - PAUSE);
        // One that breaks later is counted as such, and whoever was interrupted in its run has ended it.
        waiting.after(stopped(Fault::Network), true, &ctl).unwrap_err();
        waiting.after(stopped(Fault::Interrupted), false, &ctl).unwrap_err();
    }
}
