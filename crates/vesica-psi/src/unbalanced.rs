//! One side has a long list and prepares it once; many others ask which of their few keys are in it (unbalanced PSI).
//!
//! [RA18] Resende, Aranha, "Faster unbalanced private set intersection", FC 2018; the function is that of RFC 9497 (2HashDH, [JKK14]
//! Jarecki, Kiayias, Krawczyk, ASIACRYPT 2014). One-more gap Diffie-Hellman in the random-oracle model. With proofs, against servers
//! that deviate too.
//!
//!   k, K   the server's scalar, k·G          `function`    F    the function of RFC 9497     Output
//!   Y      the server's list, once a store   store         T    { tag(F(k, y)) : y in Y }    store
//!   X      the client's keys, a batch        keys          r    the client's, a batch        blinded
//!
//! 0. S, once: T, and for each y its value sealed under a key from F(k, y).   S -> C: T and the sealed values; C has pinned K.
//! 1. C -> S: { r·H(x) }, x in X.   S -> C: { k·r·H(x) }, and a proof for the batch if the function is verifiable.
//! 2. C: F(k, x) for x in X; what of it is in T was found, and opens its value.
//!
//! Reveals: key_count to the server, list_size, list_changes and intersection to the client.   Rounds: 1 a batch, two batches on their way.
//! Bytes: ELEMENT a key each way, and PROOF a batch; once, 62 bits and more an entry and its value, sealed.
//! S sees elements that look random, by decisional Diffie-Hellman, and how many they are: see design/13. C learns F at no more
//! points than it sent elements; every other tag and value looks random to it. The number of elements is what limits a client that
//! deviates: each is a guess at Y. A server that deviates can leave out and put in entries as it likes: its list is its own. What it
//! answers wrongly matches nothing, and C's errors depend on what was sent alone; nothing that C does after step 1 is seen by S.
//! Differs from the paper: no one-way filter with a false-positive rate of its own, but tags long enough for all queries of a key's
//! lifetime; the function is the RFC's, whose inputs are hashed into the output; values.

use vesica_oprf::function::{BadAnswer, ClientFunction, Output, ServerFunction};
use vesica_session::{Channel, Misbehaviour, Result, SessionRng};
use vesica_types::KeyDigest;

/// Keys of a batch, at most: some milliseconds of arithmetic, and a message of a hundred kilobytes.
pub const BATCH: usize = 4096;

/// C's side: gives the outputs for `keys`, which are distinct, batch by batch and in order to `each`.
///
/// # Errors
/// Those of the channel and of `each`; the server's if it breaks the protocol.
pub fn ask(
    function: &dyn ClientFunction,
    keys: &[KeyDigest],
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
    mut each: impl FnMut(&[KeyDigest], Vec<Output>) -> Result<()>,
) -> Result<()> {
    // 1. -> { r·H(x) }: the next batch is on its way while the server works on this one.
    let send = |keys: &[KeyDigest], ch: &mut dyn Channel, rng: &mut SessionRng| {
        ch.step("blind");
        let mut wire = Vec::with_capacity(keys.len() * function.element_bytes());
        let blinded = function.blind(keys, rng, &mut wire);
        ch.send(&wire).map(|()| blinded)
    };
    let mut batches = keys.chunks(BATCH);
    let mut now = batches.next().map(|keys| Ok((keys, send(keys, ch, rng)?))).transpose()?;
    while let Some((keys, blinded)) = now {
        let next = batches.next().map(|keys| Ok((keys, send(keys, ch, rng)?))).transpose()?;
        // 1. <- { k·r·H(x) }, proof
        ch.step("answer");
        let evaluated = ch.recv_exact(keys.len() * function.element_bytes())?;
        let proof = function.proof_bytes().map(|bytes| ch.recv_exact(bytes)).transpose()?;
        // 2. F(k, x)
        ch.step("unblind");
        let outputs = blinded.finalize(&evaluated, proof.as_deref(), &rng.bytes()).map_err(|bad| {
            ch.accuse(match bad {
                BadAnswer::Element(bad) => Misbehaviour::Element { index: bad.index, why: bad.why },
                BadAnswer::Presence => {
                    Misbehaviour::Contradiction("it sent a proof where none is due, or none where one is")
                }
                BadAnswer::Proof => {
                    Misbehaviour::Contradiction("its proof fails: the answer is not by the key of its offer")
                }
            })
        })?;
        each(keys, outputs)?;
        now = next;
    }
    Ok(())
}

/// S's side: answers for so many keys, which the client asked leave for, and for not one more. `turn` is called for each batch that
/// came, and what it returns is held while the batch is worked on.
///
/// # Errors
/// Those of the channel; the client's if it breaks the protocol.
pub fn answer<T>(
    function: &dyn ServerFunction,
    keys: u64,
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
    turn: impl Fn() -> T,
) -> Result<()> {
    let mut left = keys;
    while left > 0 {
        let batch = left.min(BATCH as u64) as usize;
        left -= batch as u64;
        // 1. <- { r·H(x) }
        let blinded = ch.recv_exact(batch * function.element_bytes())?;
        let turn = turn();
        // 1. -> { k·r·H(x) }, proof: nothing is computed on elements that are not of the group
        ch.step("evaluate");
        let mut evaluated = Vec::with_capacity(blinded.len());
        function
            .evaluate(&blinded, &rng.bytes(), &mut evaluated)
            .map_err(|bad| ch.accuse(Misbehaviour::Element { index: bad.index, why: bad.why }))?;
        let proof = function.proof_bytes().map(|_| {
            ch.step("prove");
            function.prove(&blinded, &evaluated, rng)
        });
        drop(turn);
        ch.send(&evaluated)?;
        if let Some(proof) = proof {
            ch.send(&proof)?;
        }
    }
    Ok(())
}
