//! What can be known of a service before it runs: `vesica check` and `vesica plan` of its documents.

use crate::client::day::Texts;
use crate::client::kept::{self, Past};
use crate::client::local::{self, files, removed};
use crate::client::talk::padded;
use crate::error::Error;
use crate::found;
use crate::messages::ELEMENT;
use crate::offer::{Offer, spelled};
use crate::prepare::reading;
use crate::prepare::secret;
use crate::retrieve::epoch::date;
use crate::suite::{self, Asking, Kind};
use crate::{link, prepare};
use std::fmt::Write;
use vesica_job::numbers::{count, counted, size};
use vesica_job::report::revealed;
use vesica_job::rooms::{Clock, probe};
use vesica_job::{Checked, Control, World};
use vesica_net::{Endpoint, Security};
use vesica_spec::service::{AskPlan, Private, ServePlan};
use vesica_store::Store;

/// Looks at everything that `vesica prepare` and `vesica serve` need.
///
/// # Errors
/// The first thing that would end them.
pub fn check_server(plan: &ServePlan, ctl: &Control) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    checked.add("service", format!("\"{}\" of {}", plan.service.id, plan.me));
    let security = link::security(plan.identity.as_ref(), ctl)?;
    checked.add("identity", identity(&security));
    if let Some(input) = &plan.input {
        drop(vesica_table::open(input)?.texts(&plan.keys, &plan.service.values, 1)?);
        let (keys, values) = (list(&plan.keys), list(&plan.service.values));
        checked.add("input", format!("{}: keys {keys}, values {values}", input.origin.name().display()));
    }
    plan.seed.as_deref().map_or(Ok(()), |path| secret::raw(path, &plan.store).map(drop))?;
    secret::given(&plan.secret, ctl)?;
    if plan.secret.path.exists() {
        secret::check_mode(&plan.secret.path)?;
        secret::load(&plan.secret, secret::Use::Function, ctl)?;
        checked.add("secret", format!("{} opens", plan.secret.path.display()));
    } else {
        checked.add("secret", format!("{} is made by `vesica prepare`", plan.secret.path.display()));
    }
    let suite = prepare::kind(plan).suite();
    if plan.store.join(suite.document()).exists() {
        let opened = prepare::open(plan, ctl)?;
        let (stock, what) = (&opened.stock, suite.counts());
        let parts = counted(stock.parts(), "parts");
        checked
            .add("store", format!("{} in {parts}; clients copy {}", counted(stock.rows(), what), size(stock.bytes())));
        checked.add("offer", spelled(&opened.offer.hash()));
        if let Some(until) = opened.stock.until() {
            let is_valid = World::default().time.wall() < until;
            checked.put("valid", format!("clients take it until {}", date(until)), is_valid);
        }
    } else {
        checked.add("store", format!("{} is made by `vesica prepare`", plan.store.display()));
    }
    if let Some(address) = &plan.listen {
        let mut endpoint = Endpoint::new(plan.me.clone(), link::name(&plan.service.id), security);
        endpoint.listen = Some(address.clone());
        let clients = crate::server::serve::clients(&plan.guests)?;
        drop(endpoint.door(clients, crate::server::serve::limits(plan), std::sync::Arc::new(vesica_net::Quiet))?);
        checked.add("port", format!("{address} can be listened on"));
    }
    let clients = plan.guests.iter().map(|guest| {
        let first = match guest.keys_at_first {
            0 => String::new(),
            keys => format!(", and {} once", count(keys)),
        };
        format!("{} ({} a day{first})", guest.name, counted(guest.keys_a_day, "keys"))
    });
    let clients: Vec<String> = clients.collect();
    checked.add("clients", list(&clients));
    Ok(checked)
}

/// Looks at everything that `vesica fetch` and `vesica ask` need, but for the server.
///
/// # Errors
/// The first thing that would end them.
pub fn check_client(plan: &AskPlan, ctl: &Control) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    let (road, resolves) = vesica_job::rooms::tried(&plan.server, &plan.address, (&plan.proxy, &plan.road), false)?;
    checked.put("service", format!("\"{}\" of {}, at {}{road}", plan.id, plan.server, plan.address), resolves);
    let endpoint = link::endpoint(plan, ctl)?;
    checked.add("identity", identity(&endpoint.security));
    if plan.input.is_some() || plan.output.is_some() {
        let io = files(plan)?;
        let (removed, table) = (local::check(plan, &io)?, io.table);
        let columns: Vec<String> = table.columns().iter().map(|c| format!("{} ({})", c.name, c.kind)).collect();
        let removed = removed.map_or_else(String::new, |table| format!("; removed: {}", table.path().display()));
        checked.add("input", format!("{}: {}{removed}", table.path().display(), columns.join(", ")));
    }
    plan.report.as_deref().map_or(Ok(()), |path| probe("mine.report", path))?;
    if let Some(past) = Past::look(plan, &World::default(), ctl)? {
        checked.add("kept", past.in_words());
    }
    match Offer::load(&plan.cache) {
        Ok(offer) if plan.offer.is_none_or(|pinned| offer.hash() == pinned) => {
            let (cached, until) = offer.kind().suite().cached(&offer, &plan.cache)?;
            match until.filter(|until| World::default().time.wall() >= *until) {
                None => checked.add("cache", cached),
                Some(until) => {
                    let over =
                        format!("{cached}; its time is over since {}, and it takes a newer one to ask", date(until));
                    checked.put("cache", over, false);
                }
            }
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

/// Words as a list.
pub fn list(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

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
        longest = longest.max(reading::longest_in(&batch, plan.keys.len()));
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
    let (plan, asked) = (&prepare::settled(plan)?, Asking { queries, mbit });
    let kind = prepare::kind(plan);
    let mut text = format!("Service \"{}\" of {}: {kind}", plan.service.id, plan.me);
    text += &kind.suite().forecast(plan, value, rows, asked)?;
    let names = [plan.me.name().to_owned(), "each client".to_owned()];
    told(&mut text, &revealed(&suite::reveals_of(&plan.service), &names, &names[1..]));
    Ok(text)
}

/// What `vesica ask` will take, and what it tells whom.
///
/// # Errors
/// Faults of the table.
pub fn plan_client(plan: &AskPlan, rows: Option<u64>) -> Result<String, Error> {
    let mut rows = match (rows, &plan.input) {
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
    let suite = Kind::of(plan.protocol, plan.hint).suite();
    let _ = match &offer {
        None => {
            writeln!(text, "Nothing is fetched yet: `vesica fetch` copies the store, and says then how large it is.")
        }
        Some(offer) => writeln!(text, "Fetched: {}.", suite.cached(offer, &plan.cache)?.0),
    };
    let ctl = Control::new(());
    match Past::look(plan, &World::default(), &ctl)? {
        None => text += &suite.forecast_asking(plan, rows),
        Some(past) => {
            let mut texts = 0;
            let new = match &plan.input {
                Some((input, _)) if past.has_answers() => {
                    let (table, removed) = (vesica_table::open(input)?, removed(plan)?);
                    let tables = (&*table, removed.as_deref());
                    let mut clock = Clock::start(&ctl);
                    let (_, wants, known) = local::read_first(plan, tables, Some(&past), &mut clock, &ctl)?;
                    rows = wants.rows;
                    texts = known.as_ref().and_then(|known| known.texts.as_ref()).map_or(0, Texts::bytes);
                    known.map_or(0, |known| known.new.len())
                }
                _ => rows as usize,
            };
            let new = padded(new, plan.batch);
            let list = Store::open(&plan.cache).map_or(rows, |store| store.len());
            let _ = writeln!(text, "Kept: {}.", past.in_words());
            let _ = writeln!(
                text,
                "Memory: about {} for the keys and what is kept of them, and up to {} more for what is found.",
                size(texts + kept::MEMORY * rows),
                size(found::HIT * rows)
            );
            text += &suite.forecast_asking(plan, new);
            text += &instead(plan, (rows, list), 2 * ELEMENT * new)?;
        }
    }
    let names = [plan.server.name().to_owned(), plan.me.name().to_owned()];
    // Before an offer is known, values are expected.
    let reveals = offer.as_ref().map_or_else(|| suite.reveals(Private::default(), true), suite::reveals);
    told(&mut text, &revealed(&reveals, &names, &names[1..]));
    Ok(text)
}

/// What a job over both tables, of so many rows, would send in the place of `asking` bytes.
fn instead(plan: &AskPlan, (rows, list): (u64, u64), asking: u64) -> Result<String, Error> {
    let job = format!(
        "[shared]\nid = \"instead\"\nparties = [\"client\", \"server\"]\nprotocol = \"rr22\"\nlearns = [\"client\"]\ninsecure = true\n\
         [mine]\nname = \"client\"\nlisten = \"host:1\"\ninput = {{ path = \"none.csv\", keys = [\"id\"] }}\n\
         output = {{ path = \"none.out.csv\" }}\nworkers = {}\n",
        plan.workers
    );
    let job = vesica_spec::plan(&vesica_spec::parse(&job)?)?;
    let forecast = vesica_job::forecast(&job, Some(rows), Some(list))?;
    let whole = forecast.parties.iter().map(|party| party.sent).sum::<u64>();
    let words = if whole < asking { "which is less: run such a job this time" } else { "which is more" };
    Ok(format!("Instead: a job with protocol = \"rr22\" over both tables sends about {}, {words}.\n", size(whole)))
}

fn told(text: &mut String, revealed: &[vesica_job::report::Revealed]) {
    let _ = writeln!(text, "\nWho learns what:");
    for r in revealed {
        let _ = writeln!(text, "  {}: {}", r.to.join(" and "), r.what);
    }
}
