//! Whether what clients copy is what the table makes of it. A client cannot see that, and a signature does not say it. Whoever has the table can
//! compute it: hints, masks and the columns that pack answers follow from the records and from public numbers of the epoch.

use super::desk::{AGAIN, Files};
use super::epoch::{Epoch, SKEW, date};
use super::make::Maker;
use super::{change, changes, desk, retrieval};
use crate::error::Error;
use crate::offer::{Offer, hex, spelled};
use crate::prepare;
use crate::prepare::reading::Reader;
use std::path::Path;
use vesica_job::numbers::{counted, size};
use vesica_job::{Checked, Control, World};
use vesica_pir::PirError;
use vesica_spec::service::{By, ServePlan};

/// Looks at the store in `folder`: at its signature, its sums, and whether what clients copy is what its records make of it. With a plan, whose
/// store that is, also whether the records are those of `mine.input`, where that can be seen without coins and keys.
///
/// # Errors
/// The first thing that is not as it should be; those of the files and the table; a store of tags, which has nothing to be computed again.
pub fn audit_store(
    folder: &Path,
    plan: Option<&ServePlan>,
    workers: usize,
    world: &World,
    ctl: &Control,
) -> Result<Checked, Error> {
    let offer = Offer::load(folder)?;
    if let Some(plan) = plan {
        prepare::agrees(plan, &offer)?;
    }
    if offer.kind().suite().scheme().is_none() {
        return Err(Error::Setup(format!(
            "{}: it is a store of \"{}\", which clients copy as it is; `vesica check` compares its sums",
            folder.display(),
            offer.protocol.name()
        )));
    }
    let epoch = Epoch::load(&offer, folder)?;
    let mut checked = Checked::default();
    checked.add("offer", format!("{} ({})", spelled(&offer.hash()), offer.kind()));
    checked.add("epoch", format!("{} of {}", epoch.spelled(), counted(epoch.rows, "rows")));
    if let (Some(key), Some((made, until))) = (offer.signer(), epoch.times()) {
        let (key, now) = (hex(&key), world.time.wall());
        let early = made > now + SKEW;
        let future = if early { ", which is to come by this machine's clock" } else { "" };
        let until_in_words = if now < until { "valid until" } else { "over since" };
        let words = format!("by the offer's key {key}, made {}{future}, {until_in_words} {}", date(made), date(until));
        checked.put("signature", words, !early && now < until);
    }
    let scheme = retrieval(&offer, &epoch)?;
    let files = Files::read(folder, &epoch, &*scheme, AGAIN)?;
    let bytes = files.table.len() + files.beside.len() + files.copy.len() + files.log.len();
    checked.add("files", format!("{} are those of the epoch", size(bytes as u64)));
    // All files have the sums of the epoch: what is wrong now was no accident of the disk.
    let lies = |error: String| Error::Damaged {
        path: folder.to_owned(),
        why: format!("{error}. It is as the epoch says, so its maker wrote it so: tell whoever asks this service"),
    };
    match scheme.recompute(&files, workers).map_err(|error| lies(error.to_string()))? {
        Some(what) => checked.add(what, "what the records and the epoch's seed make, computed again"),
        None => checked.add("copy", "the records themselves or nothing, so there is nothing to compute again"),
    }
    let shape = offer.kind().scheme()?.filter().filter(|_| offer.by() == By::Key);
    if let Some(shape) = shape {
        let (tries, log) = (files.copy.get(scheme.sizes().hint as usize..), changes::entries(&files.log));
        shape(epoch.planned, epoch.width, epoch.expected)
            .and_then(|shape| {
                changes::filter((&offer, &epoch), &shape, tries.unwrap_or_default(), &log.unwrap_or_default())
            })
            .map_err(|(PirError::Message(why) | PirError::Shape(why))| lies(why))?;
        checked.add("keys", "places as they can be; that the records are those of the table's keys is not computed");
    }
    if let Some(plan) = plan.filter(|plan| plan.input.is_some() && change::follows(&plan.service)) {
        let reader = Reader::open(plan, prepare::table(plan)?, true)?;
        let read = Maker::new(plan, None, &offer, epoch.salt(), epoch.sealed()).read(plan, &reader, ctl)?;
        if read.bodies != files.table {
            let path = folder.join(desk::table_name(epoch.number));
            let why = "its records are not the rows of mine.input as they are now; run `vesica prepare` if the table has changed since".into();
            return Err(Error::Damaged { path, why });
        }
        checked.add("records", "the rows of mine.input");
    }
    Ok(checked)
}
