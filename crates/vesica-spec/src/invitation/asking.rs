//! An invitation to ask a service: the client's document, and the client among those whom the server lets in.

use super::{
    Head, Invitation, OwnTable, Proposal, Reply, begins, in_table, input, quoted, said_by, trust, without_defaults,
    wrong,
};
use crate::Document;
use crate::error::{SpecError, refuse};
use crate::parse::document;
use crate::pins::Pins;
use crate::service::{Asks, Client, Hint, ServerSpec, Service, ServiceProtocol, default_requests};
use serde::{Deserialize, Serialize};

/// On which terms a service may be asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// The offer, as the last line of `vesica prepare` says it. It stands for everything that the server says of the service.
    pub offer: String,
    /// Keys that the client may ask for a day.
    pub keys_a_day: u64,
}

impl Terms {
    /// The most keys a day: as many as a service may answer in its lifetime.
    pub const MOST_KEYS: u64 = 1 << 48;

    pub(super) fn check(&self) -> Result<(), SpecError> {
        // A hash of SHA-256 is written as a fingerprint is.
        if !self.offer.parse::<vesica_net::Fingerprint>().is_ok_and(|hash| hash.to_string() == self.offer) {
            return Err(wrong("terms.offer", format!("{} is not sha256: and 64 hex digits", begins(&self.offer))));
        }
        if !(1..=Self::MOST_KEYS).contains(&self.keys_a_day) {
            return Err(wrong("terms.keys_a_day", format!("{} is not 1 to 2^48", self.keys_a_day)));
        }
        Ok(())
    }
}

impl Invitation {
    /// The server's document `text` with the client of the reply among `mine.clients`. Everything else stays as it is written.
    ///
    /// # Errors
    /// If the invitation is to match tables, if `text` is no server's document in TOML, or if it has that client already, and not by this
    /// reply.
    pub fn admitted(&self, text: &str, reply: &Reply) -> Result<String, SpecError> {
        let terms = self.terms()?;
        let to = &self.head.to;
        let mark = said_by(to, reply);
        let mut wanted = server(text)?;
        let print = Some(Pins::One(reply.fingerprint.to_string()));
        if let Some(known) = wanted.mine.clients.get(to) {
            if known.fingerprint == print && text.lines().any(|line| line == mark) {
                return Ok(text.to_owned());
            }
            let why = format!(
                "{to} is there already, and not by this reply. If {to} replied twice, take the first reply; else take {to} out, and \
                 invite {to} anew"
            );
            return refuse("mine.clients", why);
        }
        let (keys_a_day, requests_a_minute) = (terms.keys_a_day, default_requests());
        let client = Client { fingerprint: print, ca: None, keys_a_day, keys_at_first: 0, requests_a_minute };
        wanted.mine.clients.insert(to.clone(), client);

        let mut entry = toml_edit::InlineTable::new();
        entry.insert("fingerprint", reply.fingerprint.to_string().into());
        entry.insert("keys_a_day", i64::try_from(keys_a_day).expect("at most 2^48").into());
        let by_hand = format!("write it in yourself: clients.{} = {entry}", quoted(to));
        let failed = |why: &str| SpecError::field("mine.clients", format!("{why}; {by_hand}"));
        let mut edited: toml_edit::DocumentMut = text.parse().map_err(|_| failed("the document is not in TOML"))?;
        edited["mine"]["clients"][to.as_str()] = toml_edit::value(entry);
        let edited = edited.to_string();
        let edited = format!("{}\n{mark}\n", edited.trim_end());
        // Whatever the editor did: the document means what it meant, and the client.
        if server(&edited) != Ok(wanted) {
            return Err(failed("the document is written in a way that a client cannot be added to"));
        }
        Ok(edited)
    }

    fn terms(&self) -> Result<&Terms, SpecError> {
        match &self.proposal {
            Proposal::Ask(_, terms) => Ok(terms),
            Proposal::Match(_) => refuse("invitation", "it is to match tables, and to no service; leave --service out"),
        }
    }
}

fn server(text: &str) -> Result<ServerSpec, SpecError> {
    match document(text, false)? {
        Document::Server(spec) => Ok(*spec),
        _ => refuse("service", "this document is not a server's; name the one that `vesica serve` takes"),
    }
}

/// The document of the client.
pub(super) fn client(head: &Head, service: &Service, terms: &Terms, kept: &str, table: OwnTable<'_>) -> String {
    let Head { from, to: me, address, fingerprint, .. } = head;
    let asks = Asks {
        id: service.id.clone(),
        protocol: service.protocol,
        hint: service.hint,
        by: service.by,
        curve: service.curve,
        offer: terms.offer.clone(),
        insecure: false,
    };
    format!(
        "# {me}'s questions to the service {id} of {from}: vesica ask {me}.toml\n{kept}\n\
         # The service. The offer stands for everything that {from} says of it.\n{assumed}{asks}\n\
         # Never sent. Paths start at this file's folder.\n[mine]\nname = {name}\nconnect.{server} = {address}\n{trust}\n\
         tls.identity = {identity} # as `vesica cert {me}` makes it\n{input}\ncache = {cache} # what is fetched\n\
         output = {{ path = {output} }}\nreport = {report}\n",
        id = service.id,
        // An inviter may leave the hint out.
        assumed = match (service.protocol, service.hint) {
            (ServiceProtocol::SimplePir, None | Some(Hint::None)) =>
                "# Without a hint, what you ask for is hidden only if a key may encrypt a function of itself (circular security).\n",
            _ => "",
        },
        asks = in_table("service", &without_defaults(&asks, &["id", "protocol", "offer"])),
        name = quoted(me),
        server = quoted(from),
        address = quoted(address),
        trust = trust(from, fingerprint),
        identity = quoted(&format!("{me}.pem")),
        input = input(table, &[]),
        cache = quoted(&format!("{me}.cache")),
        output = quoted(&format!("{me}.found.csv")),
        report = quoted(&format!("{me}.report.json")),
    )
}
