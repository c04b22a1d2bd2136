//! From keys to what the server's function makes of them: the client's side of the questions for keys.

use crate::error::Error;
use crate::messages::{Counter, MOST_LANES, MOST_REFUSALS};
use crate::refusal::{Pace, Remedy, remedy};
use std::sync::atomic::{AtomicU64, Ordering};
use vesica_job::rooms::scope;
use vesica_job::{Control, Event, World};
use vesica_oprf::function::ClientFunction;
use vesica_psi::unbalanced::{self, BATCH};
use vesica_spec::service::AskPlan;
use vesica_types::KeyDigest;

/// Keys of a request whose answers are kept when all of them are there. The server has counted them before it answers, so a client that is killed
/// meanwhile has asked for so many in vain. Tests have small tables.
pub const KEPT_AT_ONCE: u64 = if cfg!(test) { 16 } else { 1 << 20 };

/// Asks for the function at each want, and at random keys up to `lookups`; on how many lanes at most. A request has up to `most` keys, and `each`
/// gets the keys of each and the function at them when it is answered. If that is [`KEPT_AT_ONCE`], answers are kept: then what is left of an
/// allowance is asked for before a run ends at its end, for else a client whose next request is larger than that would never get on.
///
/// # Errors
/// Those of the lines and of `each`; the server's, if it refuses or breaks the protocol.
pub fn evaluate(
    (plan, world): (&AskPlan, &World),
    function: &dyn ClientFunction,
    (wants, lookups, most): (impl ExactSizeIterator<Item = [u8; 32]>, u64, u64),
    counter: &mut Counter<'_>,
    mut each: impl FnMut(&[KeyDigest], &[[u8; 32]]) -> Result<(), Error>,
    ctl: &Control,
) -> Result<u64, Error> {
    let (mut rng, time, keeps) = (world.rng()?, &*world.time, most == KEPT_AT_ONCE);
    let more = lookups as usize - wants.len();
    let fillers = std::iter::repeat_with(|| rng.bytes()).take(more);
    let mut keys = wants.chain(fillers).map(KeyDigest);
    let (mut most_lanes, done) = (0, AtomicU64::new(0));
    // Parts of an allowance are whole batches: when the run goes on, as many made-up keys are missing as would have been.
    let batch = if keeps { plan.batch.min(most) } else { 1 };
    let full = (most - most % batch) as usize;
    let (mut part, mut most, mut refusals, mut pace) = (Vec::new(), full, 0, Pace::new(time.now()));
    loop {
        // Each request but the last has as many keys as there may be, or as are left.
        part.extend(keys.by_ref().take(most.saturating_sub(part.len())));
        if part.is_empty() {
            return Ok(most_lanes);
        }
        let asked = &part[..part.len().min(most)];
        let lanes = (asked.len() as u64).div_ceil(BATCH as u64).min(plan.workers as u64).min(MOST_LANES);
        most_lanes = lanes.max(most_lanes);
        let wait = pace.left(time.now());
        if !wait.is_zero() {
            time.sleep(wait, &|| ctl.is_cancelled());
            ctl.check()?;
        }
        let begun = time.now();
        let error = match request(function, asked, lanes, counter, (&done, world), ctl) {
            Ok(answers) => {
                each(asked, &answers)?;
                let answered = asked.len();
                part.drain(..answered);
                pace.granted(begun);
                // Another day may have begun.
                most = full;
                continue;
            }
            Err(error) => error,
        };
        refusals += 1;
        let remedy = match &error {
            // With one more the server would end the connection.
            Error::Refused { why, .. } if keeps && refusals + 1 < MOST_REFUSALS => remedy(why),
            _ => None,
        };
        match remedy {
            Some(Remedy::Fewer(left)) if (batch..asked.len() as u64).contains(&left) => {
                most = (left - left % batch) as usize
            }
            Some(Remedy::Fewer(left)) if batch > 1 && left < batch => return Err(too_few(error, batch)),
            Some(Remedy::Wait(span)) => pace.refused(time.now(), span),
            _ => return Err(error),
        }
    }
}

/// What is said where less is left of an allowance than the least that is asked for at a time.
fn too_few(refused: Error, batch: u64) -> Error {
    let Error::Refused { server, why } = refused else { return refused };
    let why = format!(
        "{why}; a request has whole batches of mine.batch = {batch}, so it takes that many at least: wait for the next day, and if the service allows \
         no more than that on any day, take a smaller mine.batch"
    );
    Error::Refused { server, why }
}

/// One request: the function at some keys.
///
/// # Errors
/// Those of the lines; the server's, if it breaks the protocol.
pub fn request(
    function: &dyn ClientFunction,
    asked: &[KeyDigest],
    lanes: u64,
    counter: &mut Counter<'_>,
    (done, world): (&AtomicU64, &World),
    ctl: &Control,
) -> Result<Vec<[u8; 32]>, Error> {
    let lines = counter.ask(asked.len() as u64, lanes)?;
    let mut answers: Vec<Result<Vec<[u8; 32]>, Error>> = lines.iter().map(|_| Ok(Vec::new())).collect();
    scope(&*world.turns, |threads| {
        for ((mut line, share), answer) in lines.into_iter().zip(&mut answers) {
            let asked = &asked[share.start as usize..share.end as usize];
            let mut on_a_lane = move || -> Result<Vec<[u8; 32]>, Error> {
                let (mut rng, mut all) = (world.rng()?, Vec::with_capacity(asked.len()));
                unbalanced::ask(function, asked, &mut *line, &mut rng, |_, outputs| {
                    ctl.check()?;
                    let n = outputs.len() as u64;
                    all.extend(outputs.into_iter().map(|output| output.0));
                    ctl.event(Event::Done(done.fetch_add(n, Ordering::Relaxed) + n));
                    Ok(())
                })?;
                Ok(all)
            };
            threads.spawn(move || *answer = on_a_lane());
        }
    });
    let mut all = Vec::with_capacity(asked.len());
    answers.into_iter().try_for_each(|answer| answer.map(|outputs| all.extend(outputs)))?;
    Ok(all)
}
