//! What can be known of a service before it runs: `vesica check` and `vesica plan` of its documents.

use crate::error::Error;
use crate::offer::{Offer, spelled};
use crate::retrieve::epoch::{self, Epoch};
use crate::{link, prepare, retrieve, reveals, secret, values};
use std::fmt::Write;
use std::time::Instant;
use vesica_job::numbers::{count, seconds, size};
use vesica_job::report::revealed;
use vesica_job::rooms::probe;
use vesica_job::{Checked, cpu};
use vesica_net::{Endpoint, Security};
use vesica_psi::unbalanced::BATCH;
use vesica_session::SessionRng;
use vesica_spec::service::{AskPlan, ServePlan};
use vesica_store::{Shape, Store};
use vesica_types::KeyDigest;

/// Looks at everything that `vesica prepare` and `vesica serve` need.
///
/// # Errors
/// The first thing that would end them.
pub fn check_server(plan: &ServePlan) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    checked.add("service", format!("\"{}\" of {}", plan.service.id, plan.me));
    let security = link::security(plan.identity.as_ref())?;
    checked.add("identity", identity(&security));
    if let Some(input) = &plan.input {
        drop(vesica_table::open(input)?.texts(&plan.keys, &plan.service.values, 1)?);
        let (keys, values) = (list(&plan.keys), list(&plan.service.values));
        checked.add("input", format!("{}: keys {keys}, values {values}", input.origin.name().display()));
    }
    plan.seed.as_deref().map_or(Ok(()), |path| secret::raw(path, &plan.store).map(drop))?;
    if plan.secret.path.exists() {
        let open =
            secret::is_open_to_others(&plan.secret.path).map_err(Error::file("cannot read", &plan.secret.path))?;
        if open {
            let why = "other users may read it; run `chmod 600` on it";
            return Err(Error::Setup(format!("{}: {why}", plan.secret.path.display())));
        }
        secret::load(&plan.secret)?;
        checked.add("secret", format!("{} opens", plan.secret.path.display()));
    } else {
        checked.add("secret", format!("{} is made by `vesica prepare`", plan.secret.path.display()));
    }
    let name = if plan.service.protocol.is_retrieval() { epoch::NAME } else { "manifest" };
    if plan.store.join(name).exists() {
        let opened = prepare::open(plan)?;
        let (stock, of_epochs) = (&opened.stock, opened.offer.retrieval.is_some());
        let what = if of_epochs { "rows".to_owned() } else { format!("keys in {} parts", stock.parts()) };
        checked.add("store", format!("{} {what}; clients copy {}", count(stock.len()), size(stock.bytes())));
        checked.add("offer", spelled(&opened.offer.hash()));
    } else {
        checked.add("store", format!("{} is made by `vesica prepare`", plan.store.display()));
    }
    if let Some(address) = &plan.listen {
        let mut endpoint = Endpoint::new(plan.me.clone(), link::name(&plan.service.id), security);
        endpoint.listen = Some(address.clone());
        let clients = crate::serve::clients(&plan.guests)?;
        drop(endpoint.door(clients, crate::serve::limits(plan), std::sync::Arc::new(vesica_net::Quiet))?);
        checked.add("port", format!("{address} can be listened on"));
    }
    let clients = plan.guests.iter().map(|guest| format!("{} ({} keys a day)", guest.name, count(guest.keys_a_day)));
    let clients: Vec<String> = clients.collect();
    checked.add("clients", list(&clients));
    Ok(checked)
}

/// Looks at everything that `vesica fetch` and `vesica ask` need, but for the server.
///
/// # Errors
/// The first thing that would end them.
pub fn check_client(plan: &AskPlan) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    checked.add("service", format!("\"{}\" of {}, at {}", plan.id, plan.server, plan.address));
    let endpoint = link::endpoint(plan)?;
    checked.add("identity", identity(&endpoint.security));
    if plan.input.is_some() || plan.output.is_some() {
        let io = crate::ask::files(plan)?;
        crate::ask::local(plan, &io)?;
        let table = io.table;
        let columns: Vec<String> = table.columns().iter().map(|c| format!("{} ({})", c.name, c.kind)).collect();
        checked.add("input", format!("{}: {}", table.path().display(), columns.join(", ")));
    }
    plan.report.as_deref().map_or(Ok(()), |path| probe("mine.report", path))?;
    match Offer::load(&plan.cache) {
        Ok(offer) if plan.offer.is_none_or(|pinned| offer.hash() == pinned) && offer.retrieval.is_some() => {
            let epoch = Epoch::load(&offer, &plan.cache)?;
            checked.add("cache", format!("{}: {} rows", epoch.spelled(), count(epoch.rows)));
        }
        Ok(offer) if plan.offer.is_none_or(|pinned| offer.hash() == pinned) => {
            let store = Store::open(&plan.cache)?;
            checked.add("cache", format!("{} keys, {}", count(store.len()), size(store.manifest().bytes())));
        }
        Ok(_) => checked.add("cache", "of another offer: it will be fetched anew".to_owned()),
        Err(_) => checked.add("cache", "nothing is fetched yet".to_owned()),
    }
    Ok(checked)
}

fn identity(security: &Security) -> String {
    match security {
        Security::Tls { identity } => {
            let until = identity.expires().map(|day| format!(", valid until {day}")).unwrap_or_default();
            format!("{}{until}", identity.fingerprint())
        }
        Security::Insecure => "none: insecure = true, anyone between the parties can read and forge".to_owned(),
    }
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// Keys that are evaluated to see how long one takes.
const SAMPLE: usize = 2048;

/// What `vesica prepare` and `vesica serve` will take, and what they tell whom.
///
/// # Errors
/// Faults of the table.
pub fn plan_server(
    plan: &ServePlan,
    rows: Option<u64>,
    queries: Option<u64>,
    mbit: Option<f64>,
) -> Result<String, Error> {
    let table = vesica_table::open(prepare::table(plan)?)?;
    let batches = table.texts(&plan.keys, &plan.service.values, 1)?;
    let (mut read, mut longest) = (0u64, 0);
    for batch in batches {
        let batch = batch?;
        read += batch.num_rows() as u64;
        for row in 0..batch.num_rows() {
            longest = longest.max(values::encoded_bytes(
                prepare::texts(&batch, plan.keys.len()).iter().map(|c| prepare::text(c, row)),
            ));
        }
        if read >= 100_000 {
            break;
        }
    }
    let all = table.rows().unwrap_or_else(|| {
        let (whole, part) = (table.bytes().unwrap_or(0), table.bytes_read().max(1));
        (u128::from(read) * u128::from(whole) / u128::from(part)).max(read.into()) as u64
    });
    let rows = rows.unwrap_or(all);
    let value = (!plan.service.values.is_empty()).then(|| plan.service.value_bytes.unwrap_or(longest as u32));
    let names = [plan.me.name().to_owned(), "each client".to_owned()];
    if plan.service.protocol.is_retrieval() {
        let (by, private) = (plan.service.by.name(), plan.service.private.name());
        let mut text = format!(
            "Service \"{}\" of {}: {} by {by}, private = \"{private}\", {} rows.\n",
            plan.service.id,
            plan.me,
            plan.service.protocol.name(),
            count(rows)
        );
        text += &retrieve::look::in_words(plan, value, rows, queries, mbit)?;
        let reveals = retrieve::reveals::of(plan.service.protocol, plan.service.private);
        told(&mut text, &revealed(&reveals, &names, &names[1..]));
        return Ok(text);
    }
    if queries.is_some() || mbit.is_some() {
        let why =
            "--queries and --mbit are for services that retrieve; \"ecdh-oprf\" takes one element each way for a key";
        return Err(Error::Setup(why.into()));
    }
    let shape = Shape { lifetime: plan.service.lifetime_keys, value };
    let each = seconds_a_key(plan)?;
    let bits = 2 + shape.tag_bits(rows.next_power_of_two()).saturating_sub(rows.max(1).ilog2());
    let bytes = rows * u64::from(bits) / 8 + value.map_or(0, |value| rows * (u64::from(value) + 20));
    let mut text = String::new();
    let _ = writeln!(
        text,
        "Service \"{}\" of {}: {} on {}.",
        plan.service.id,
        plan.me,
        plan.service.protocol.name(),
        plan.service.curve.name()
    );
    let _ = writeln!(
        text,
        "Prepare: {} rows in about {} on {} threads ({:.1} µs a key, measured here with {}), and a store of about {} ({bits} bits a tag{}).",
        count(rows),
        seconds(each * rows as f64 / plan.workers as f64),
        plan.workers,
        each * 1e6,
        cpu::Backend::chosen().name(),
        size(bytes),
        value.map_or(String::new(), |value| format!(", values padded to {value} bytes"))
    );
    let _ = writeln!(
        text,
        "Serve: about {} keys a second; clients may ask for {} keys in all before the key is to be rotated, and each guess at a key \
         counts.",
        count((plan.workers as f64 / each) as u64),
        count(plan.service.lifetime_keys)
    );
    told(&mut text, &revealed(&reveals::of_asking(!plan.service.values.is_empty()), &names, &names[1..]));
    Ok(text)
}

/// What `vesica ask` will take, and what it tells whom.
///
/// # Errors
/// Faults of the table.
pub fn plan_client(plan: &AskPlan, rows: Option<u64>) -> Result<String, Error> {
    let rows = match (rows, &plan.input) {
        (Some(rows), _) => rows,
        (None, None) => 0,
        (None, Some((input, keys))) => {
            let table = vesica_table::open(input)?;
            let mut rows = 0;
            for batch in table.keys(keys, 1)? {
                rows += batch?.num_rows() as u64;
            }
            rows
        }
    };
    let offer = Offer::load(&plan.cache).ok();
    let offer = offer.filter(|offer| plan.offer.is_none_or(|pinned| offer.hash() == pinned));
    let mut text = String::new();
    let _ = writeln!(text, "Service \"{}\" of {}, at {}.", plan.id, plan.server, plan.address);
    match &offer {
        None => {
            let _ = writeln!(
                text,
                "Nothing is fetched yet: `vesica fetch` copies the store, and says then how large it is."
            );
        }
        Some(offer) if offer.retrieval.is_some() => {
            let epoch = Epoch::load(offer, &plan.cache)?;
            let _ = writeln!(text, "Fetched: {}, {} rows.", epoch.spelled(), count(epoch.rows));
        }
        Some(offer) => {
            let store = Store::open(&plan.cache)?;
            let _ = writeln!(
                text,
                "Fetched: {} keys, {}, values: {}.",
                count(store.len()),
                size(store.manifest().bytes()),
                list(&offer.values)
            );
        }
    }
    let names = [plan.server.name().to_owned(), plan.me.name().to_owned()];
    if plan.protocol.is_retrieval() {
        let batch = count(plan.batch);
        let _ = writeln!(text, "Ask: {} rows at most; the server sees a multiple of {batch}.", count(rows));
        let private = offer.as_ref().and_then(|offer| offer.retrieval).map(|retrieval| retrieval.private);
        let reveals = retrieve::reveals::of(plan.protocol, private.unwrap_or_default());
        told(&mut text, &revealed(&reveals, &names, &names[1..]));
        return Ok(text);
    }
    let element = 33;
    let _ = writeln!(
        text,
        "Ask: {} rows at most {} each way, in batches of {}.",
        count(rows),
        size(rows * element),
        count(BATCH as u64)
    );
    let values = offer.is_none_or(|offer| !offer.values.is_empty());
    told(&mut text, &revealed(&reveals::of_asking(values), &names, &names[1..]));
    Ok(text)
}

fn told(text: &mut String, revealed: &[vesica_job::report::Revealed]) {
    let _ = writeln!(text, "\nWho learns what:");
    for r in revealed {
        let _ = writeln!(text, "  {}: {}", r.to.join(" and "), r.what);
    }
}

/// Seconds of one thread that the function takes at one key, measured.
fn seconds_a_key(plan: &ServePlan) -> Result<f64, Error> {
    let function = secret::Root::new(&plan.service, secret::fresh()?).function()?;
    let mut rng =
        SessionRng::from_os().map_err(|e| Error::Setup(format!("the system has no randomness to give: {e}")))?;
    let keys: Vec<KeyDigest> = (0..SAMPLE).map(|_| KeyDigest(rng.bytes())).collect();
    let once = || {
        let (start, mut outputs) = (Instant::now(), Vec::with_capacity(SAMPLE));
        function.eval(&keys, &mut outputs);
        start.elapsed().as_secs_f64() / SAMPLE as f64
    };
    once();
    Ok((0..3).map(|_| once()).fold(f64::INFINITY, f64::min))
}
