//! A session: the parties have met, and say to each other all that is no unit. Every kind of run goes through it: a run over one link, one
//! over lanes, and one of a cluster, whose driver is called step by step.
//!
//! 1. [`Session::meet`]: they connect, and agree on the run.
//! 2. [`Session::lanes`], where units go over links of their own: where these are met, how many at once, and how they are known. When all
//!    are over, [`Session::end_lanes`].
//! 3. [`Session::finish`]: what was found was compared and settled, and all have done what they are to. They say goodbye: [`Session::part`].
//!
//! A link that breaks in one of these is the end of the session, and the parties meet again, as often as
//! [`Breaks`](crate::meet::breaks::Breaks) allows.

use crate::error::JobError;
use crate::lanes::hello::Ends;
use crate::lanes::links::Certificates;
use crate::meet::peers::Peers;
use crate::meet::wait::Waiting;
use crate::seal::ledger::Ledger;
use crate::tell::control::Control;
use std::sync::Arc;
use std::time::Duration;
use vesica_net::{Endpoint, Identity};
use vesica_session::{Lines, Misbehaviour};
use vesica_spec::Plan;

/// What the side that dials says when both sides have finished every lane.
pub const LANES_DONE: &[u8; 18] = b"all lanes are done";

/// How long a side that is done stays within reach of a peer that may not be, at most. The peer notices within ten seconds
/// that the connection broke, and then dials or listens at once.
pub const STAY: Duration = Duration::from_secs(30);

/// A party's last word.
pub const DONE: [u8; 32] = *b"this side has done what it is to";

/// Parties that have met.
pub struct Session {
    /// The links on which they have.
    pub peers: Arc<Peers>,
    /// The line for all that is no unit.
    pub control: Lines,
}

/// Where lanes are met, and how.
pub struct Places {
    /// Where this side dials; nowhere if it has doors.
    pub addresses: Vec<String>,
    /// Lanes that are worked on at once: the smaller of what both sides said.
    pub at_once: u32,
    /// How they are known.
    pub certificates: Certificates,
}

impl Session {
    /// Has the parties `connect` and `agree`. Where that ends before the run has begun, because somebody only checks the job or a link broke,
    /// it is done again as long as `waiting` has patience; but not over links that the caller brought, which cannot be made again. `reached`
    /// says in the end whether the parties were there.
    ///
    /// # Errors
    /// Those of both.
    pub fn meet<T>(
        endpoint: &Endpoint,
        waiting: &mut Waiting,
        reached: &mut bool,
        ledger: &mut Ledger,
        ctl: &Control,
        mut connect: impl FnMut(&Waiting, Endpoint) -> Result<Peers, JobError>,
        mut agree: impl FnMut(&Peers, &mut Lines, &mut Ledger) -> Result<T, JobError>,
    ) -> Result<(Self, T), JobError> {
        loop {
            *reached = false;
            let endpoint = Endpoint { patience: waiting.left()?, ..endpoint.clone() };
            let carried = endpoint.carried;
            let peers = connect(waiting, endpoint).map_err(|error| waiting.absent(error))?;
            *reached = true;
            let attempts = ledger.answers().attempts;
            let met = peers.line("control").map_err(JobError::from).and_then(|mut control| {
                let met = agree(&peers, &mut control, ledger)?;
                Ok((control, met))
            });
            match met.inspect_err(|error| peers.leave(error)) {
                Ok((control, met)) => return Ok((Self { peers: Arc::new(peers), control }, met)),
                Err(error) if carried => return Err(error),
                Err(error) => waiting.after(error, ledger.answers().attempts > attempts, ctl)?,
            }
        }
    }

    /// Does a step, and tells the peers if it was the end of the session.
    ///
    /// # Errors
    /// Those of the step.
    pub fn told<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T, JobError>) -> Result<T, JobError> {
        step(self).inspect_err(|error| {
            self.control = Lines::new(Vec::new());
            self.peers.leave(error);
        })
    }

    /// Says where this side's `doors` are, how many lanes it works on at once, and what they show, which is `mine`; hears the same.
    ///
    /// # Errors
    /// Those of the link, and of the peer.
    pub fn lanes(
        &mut self,
        plan: &Plan,
        doors: &[String],
        seats: u32,
        mine: Option<Identity>,
    ) -> Result<Places, JobError> {
        let certificate = mine.as_ref().map(|identity| identity.fingerprint().to_string());
        let theirs = Ends { doors: doors.to_vec(), seats, certificate }.swap(&mut self.control)?;
        let shown = theirs.fingerprint()?;
        if shown.is_some() && shown == mine.as_ref().map(Identity::fingerprint) {
            let fault = "the certificate that it names for its lanes is this side's own";
            return Err(self.control.peer()?.accuse(Misbehaviour::Contradiction(fault)).into());
        }
        let certificates = Certificates { mine, theirs: shown };
        let addresses = match &plan.peers[0].connect {
            Some(address) if theirs.doors.is_empty() => vec![address.clone()],
            Some(_) => theirs.doors,
            None => Vec::new(),
        };
        Ok(Places { addresses, at_once: seats.min(theirs.seats), certificates })
    }

    /// Every lane is over. The side that dials says so, and the other one hears it.
    ///
    /// # Errors
    /// Those of the link, and of the peer.
    pub fn end_lanes(&mut self, plan: &Plan) -> Result<(), JobError> {
        let ch = self.control.peer()?;
        if plan.peers[0].connect.is_some() {
            return Ok(ch.send(LANES_DONE)?);
        }
        match ch.recv_exact(LANES_DONE.len())? == LANES_DONE {
            true => Ok(()),
            false => Err(ch.accuse(Misbehaviour::Malformed("end of the lanes")).into()),
        }
    }

    /// The other side has said that every lane is over, and a unit is missing.
    pub fn too_early(&mut self) -> JobError {
        let fault = Misbehaviour::Contradiction("it says that all lanes are done, and they are not");
        self.control.peer().map_or_else(JobError::from, |ch| ch.accuse(fault).into())
    }

    /// All say that they are done.
    ///
    /// # Errors
    /// Those of the links, and of the peers.
    pub fn finish(&mut self) -> Result<(), JobError> {
        for ch in self.control.all() {
            ch.step("finish");
            ch.send(&DONE)?;
        }
        for ch in self.control.all() {
            if ch.recv_exact(DONE.len())? != DONE {
                let fault = Misbehaviour::Contradiction("it was to say that it is done, and said something else");
                return Err(ch.accuse(fault).into());
            }
        }
        Ok(())
    }

    /// Says goodbye, which those do who are done. Whose goodbye does not come may still lack this side's last word.
    ///
    /// # Errors
    /// Those of [`Peers::close`].
    pub fn part(&mut self) -> Result<(), JobError> {
        self.control = Lines::new(Vec::new());
        Ok(self.peers.close()?)
    }
}
