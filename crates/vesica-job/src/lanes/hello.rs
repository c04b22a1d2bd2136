//! What two sides say of their lanes: once over the first link, and at the beginning of each lane.

use crate::error::JobError;
use crate::lanes::share;
use crate::meet::agree::settled;
use crate::meet::peers::Peers;
use serde::{Deserialize, Serialize};
use vesica_net::Fingerprint;
use vesica_session::{Lines, Meter, Misbehaviour};
use vesica_spec::{MAX_LANES, Plan};
use vesica_types::UnitId;

/// The longest list of doors, in bytes.
const LIMIT: usize = 1 << 18;

/// What a side says of its lanes over the first link, before there are any.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// Where this side's doors are, as `host:port`; none if the lanes come to where the first link came, or if this side dials.
    pub doors: Vec<String>,
    /// Lanes that this side works on at once, at most.
    pub seats: u32,
    /// The fingerprint of the certificate that its lanes show, unless the job is insecure.
    pub certificate: Option<String>,
}

impl Ends {
    /// Tells the peer, and hears what it says.
    ///
    /// # Errors
    /// The peer's, if that cannot be.
    pub fn swap(&self, lines: &mut Lines) -> Result<Self, JobError> {
        let ch = lines.peer()?;
        ch.step("lanes");
        let words = serde_json::to_vec(self).expect("it is plain data");
        let theirs = ch.swap(&words, LIMIT)?;
        Self::read(&theirs, self.certificate.is_some())
            .ok_or_else(|| ch.accuse(Misbehaviour::Malformed("list of doors")).into())
    }

    fn read(words: &[u8], tls: bool) -> Option<Self> {
        let ends: Self = serde_json::from_slice(words).ok()?;
        let address = |door: &String| {
            let split = door.rsplit_once(':');
            let plain = door.len() <= 255 && door.bytes().all(|b| b.is_ascii_graphic());
            plain
                && split.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
        };
        let known = (1..=MAX_LANES).contains(&ends.seats)
            && ends.doors.len() <= MAX_LANES as usize
            && ends.doors.iter().all(address)
            && ends.certificate.is_some() == tls
            && ends.fingerprint().is_ok();
        known.then_some(ends)
    }

    /// How the lanes of this side are known.
    ///
    /// # Errors
    /// If the text is no fingerprint.
    pub fn fingerprint(&self) -> Result<Option<Fingerprint>, JobError> {
        let parse = |text: &String| {
            text.parse::<Fingerprint>().map_err(|e| JobError::Setup(format!("a lane's certificate: {e}")))
        };
        self.certificate.as_ref().map(parse).transpose()
    }
}

/// What is to be done of a lane.
pub struct Todo {
    /// The units to match, in this order.
    pub missing: Vec<UnitId>,
    /// Units that this side had not finished, and that are not to be done again: a learner has them.
    pub settled: Vec<UnitId>,
}

/// The first words of lane `number` of `lanes`, of whose units this side `has` some. Gives what they cost too.
///
/// # Errors
/// Those of [`finished`], and of the link.
pub fn first_words(
    plan: &Plan,
    (number, lanes): (u32, u32),
    units: u32,
    has: impl Fn(UnitId) -> bool,
    peers: &Peers,
) -> Result<(Todo, Meter), JobError> {
    let mine: Vec<bool> = share(number, lanes, units).map(has).collect();
    let mut lines = peers.line("lane")?;
    let done = finished(plan, &mine, &mut lines)?;
    let mut todo = Todo { missing: Vec::new(), settled: Vec::new() };
    for ((id, mine), done) in share(number, lanes, units).zip(mine).zip(done) {
        match (mine, done) {
            (_, false) => todo.missing.push(id),
            (false, true) => todo.settled.push(id),
            (true, true) => {}
        }
    }
    Ok((todo, lines.peer()?.meter()))
}

/// The first words of a lane: which units of its share are finished, `mine` here. Returns which of them are not to be done again, by
/// the rule that holds for a whole run.
///
/// # Errors
/// The peer's, if it says something else.
pub fn finished(plan: &Plan, mine: &[bool], lines: &mut Lines) -> Result<Vec<bool>, JobError> {
    let ch = lines.peer()?;
    ch.step("lane");
    let digits: Vec<u8> = mine.iter().map(|done| if *done { b'1' } else { b'0' }).collect();
    let theirs = ch.swap_exact(&digits, digits.len())?;
    if theirs.iter().any(|digit| !b"01".contains(digit)) {
        return Err(ch.accuse(Misbehaviour::Malformed("list of finished units")).into());
    }
    let peer = ch.peer().clone();
    let of_both = mine.iter().zip(&theirs).map(|(mine, theirs)| [(&plan.me, *mine), (&peer, *theirs == b'1')]);
    Ok(of_both.map(|has| settled(plan, has)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_that_cannot_be_are_refused() {
        let good = Ends { doors: vec!["a.example:7744".into(), "[::1]:1".into()], seats: 4, certificate: None };
        let read = |ends: &Ends| Ends::read(&serde_json::to_vec(ends).unwrap(), false);
        assert_eq!(read(&good), Some(good.clone()));
        let bad_door = |door: &str| Ends { doors: vec![door.into()], ..good.clone() };
        for bad in [
            bad_door("a"),
            bad_door(":7"),
            bad_door("a:0"),
            bad_door("a:65536"),
            bad_door("a\n:7"),
            bad_door(&format!("{}:7", "a".repeat(254))),
            Ends { seats: 0, ..good.clone() },
            Ends { seats: MAX_LANES + 1, ..good.clone() },
            Ends { certificate: Some("sha256:00".into()), ..good.clone() },
            Ends { doors: vec!["a:1".into(); 1025], ..good.clone() },
        ] {
            assert_eq!(read(&bad), None, "{bad:?}");
        }
        assert_eq!(Ends::read(&serde_json::to_vec(&good).unwrap(), true), None);
        for words in [&b""[..], b"{}", b"[]", &[0xff; 9]] {
            assert_eq!(Ends::read(words, false), None);
        }
    }
}
