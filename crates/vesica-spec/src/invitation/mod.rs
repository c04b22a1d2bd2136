//! From nothing to two documents that go together: an invitation, a reply, and six words that both sides compare.
//!
//! alice writes an [`Invitation`]: what she proposes, her address, her certificate's fingerprint. Nothing in it is secret. bob
//! makes his document of it, and a [`Reply`] of one line, which alice puts into hers. Both then hold each other's fingerprint,
//! and the six words say whether it is the right one: whoever stood between them and replaced one made the words differ.
//!
//! What is proposed is a match of two tables ([`matching`]), or that bob asks a service of alice's ([`asking`]).

mod address;
mod asking;
mod matching;

use crate::error::{SpecError, refuse};
use crate::identifiers::Identifier;
use crate::service::Service;
use crate::types::Shared;
use crate::{check_name, words};
pub use address::{host_and_port, is_every_interface};
pub use asking::Terms;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;
use vesica_net::Fingerprint;

/// What one party proposes to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Invitation {
    /// Who invites whom, and where.
    pub head: Head,
    /// To do what.
    pub proposal: Proposal,
}

/// What is proposed.
#[derive(Clone, PartialEq, Debug)]
pub enum Proposal {
    /// To match two tables: what both would agree on.
    Match(Box<Shared>),
    /// To ask a service: what it is, and on which terms.
    Ask(Service, Terms),
}

/// Who invites whom, and where.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The party that invites.
    pub from: String,
    /// The party that is invited.
    pub to: String,
    /// Where `from` can be called: `host:port`.
    pub address: String,
    /// The fingerprint of `from`'s certificate.
    pub fingerprint: String,
    /// A number that is fresh for each invitation: 32 hex digits.
    pub number: String,
}

/// An invitation as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    invitation: Head,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shared: Option<Shared>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service: Option<Service>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terms: Option<Terms>,
}

/// What the invited party answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The fingerprint of its certificate.
    pub fingerprint: Fingerprint,
    /// A number that is fresh for each reply: 32 hex digits.
    pub number: String,
}

/// A party's table, as its own document names it.
#[derive(Clone, Copy, Debug)]
pub struct OwnTable<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its key columns; where the match is by identifiers, `NAME=COLUMN` or `NAME=COLUMN,COLUMN` for each, or a column that is called as the
    /// identifier is.
    pub keys: &'a [String],
    /// Its column of values, if the match is to add some up and this table has them.
    pub value: Option<&'a str>,
}

/// The digits of a check, at the end of a reply.
const CHECK: usize = 8;

impl Invitation {
    /// Reads an invitation.
    ///
    /// # Errors
    /// What is not as an invitation should be.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        // What a stranger wrote is not shown to a terminal as it is.
        let plain = |message: &str| message.chars().filter(|c| c.is_ascii() && !c.is_ascii_control()).collect();
        let read: Written = toml::from_str(text).map_err(|e| wrong("invitation", plain(e.message())))?;
        // TOML is read with integers up to 2^64 - 1, and written with those up to 2^63 - 1. The document of the invited party is written.
        toml::Table::try_from(&read).map_err(|e| wrong("invitation", plain(&e.to_string())))?;
        let head = read.invitation;
        let Head { from, to, address, fingerprint, number } = &head;
        check_name("invitation.from", from)?;
        check_name("invitation.to", to)?;
        if from == to {
            return Err(wrong("invitation.to", format!("{to} is who invites")));
        }
        // One spelling, for the words are about the text.
        if !fingerprint.parse::<Fingerprint>().is_ok_and(|print| print.to_string() == *fingerprint) {
            return Err(wrong(
                "invitation.fingerprint",
                format!("{} is not sha256: and 64 hex digits", begins(fingerprint)),
            ));
        }
        if !is_number(number) {
            return Err(wrong("invitation.number", format!("{} is not 32 hex digits", begins(number))));
        }
        let Some((host, _)) = host_and_port(address) else {
            let why = "is not host:port, where a number of IPv4 has four decimal parts";
            return Err(wrong("invitation.address", format!("{} {why}", begins(address))));
        };
        if is_every_interface(host) {
            let why = format!(
                "{address} stands for every interface of a machine, and {to} would reach no machine but {to}'s own. Ask {from} to invite {to} \
                 anew, with --listen and the name or the number by which {to} reaches that machine"
            );
            return refuse("invitation.address", why);
        }
        let insecure = |field| wrong(field, "is true, so that the six words would protect nothing".to_owned());
        let proposal = match (read.shared, read.service, read.terms) {
            (Some(shared), None, None) => {
                if shared.parties != [from.clone(), to.clone()] {
                    let why = format!("are not {from} and {to}, who invites and who is invited");
                    return Err(wrong("shared.parties", why));
                }
                if shared.insecure {
                    return Err(insecure("shared.insecure"));
                }
                Proposal::Match(Box::new(shared))
            }
            (None, Some(service), Some(terms)) => {
                check_name("service.id", &service.id)?;
                if service.insecure {
                    return Err(insecure("service.insecure"));
                }
                terms.check()?;
                Proposal::Ask(service, terms)
            }
            _ => {
                let why = "it has neither [shared] alone, for a match, nor [service] and [terms], for a service";
                return Err(wrong("invitation", why.to_owned()));
            }
        };
        Ok(Self { head, proposal })
    }

    /// Its text, as it is sent.
    pub fn text(&self) -> String {
        let Head { from, to, .. } = &self.head;
        let what = match &self.proposal {
            Proposal::Match(_) => "match tables".to_owned(),
            Proposal::Ask(service, _) => format!("ask the service {}", service.id),
        };
        format!(
            "# {from} invites {to} to {what}. Nothing in this file is secret.\n\
             # {to} answers with: vesica accept {to}.invite --table FILE {}\n\n{}\n{}",
            self.key_flags(),
            in_table("invitation", &self.head),
            self.proposed(),
        )
    }

    /// The flags by which the invited party names its key columns.
    pub fn key_flags(&self) -> String {
        match &self.proposal {
            Proposal::Match(shared) if !shared.identifiers.is_empty() => {
                let flags = shared
                    .identifiers
                    .iter()
                    .map(|of| format!("--key {}={}", of.name, vec!["COLUMN"; of.columns().len()].join(",")));
                flags.collect::<Vec<_>>().join(" ")
            }
            _ => "--key COLUMN".to_owned(),
        }
    }

    /// What is proposed, as it is written: every field that is not what it is by default.
    pub fn proposed(&self) -> String {
        match &self.proposal {
            Proposal::Match(shared) => matching::shared_text(shared),
            Proposal::Ask(service, terms) => {
                let service = without_defaults(service, &["id", "protocol"]);
                format!("{}\n{}", in_table("service", &service), in_table("terms", terms))
            }
        }
    }

    /// What a reply is bound to.
    fn hash(&self) -> blake3::Hash {
        let (shared, service, terms) = match self.proposal.clone() {
            Proposal::Match(shared) => (Some(*shared), None, None),
            Proposal::Ask(service, terms) => (None, Some(service), Some(terms)),
        };
        let written = Written { invitation: self.head.clone(), shared, service, terms };
        let written = serde_json::to_vec(&written).expect("plain data");
        blake3::Hasher::new_derive_key("vesica 2026 invitation").update(&written).finalize()
    }

    /// The document of the party that is invited: a job, or that of a service's client. It keeps the reply and the six words.
    pub fn invited_document(&self, reply: &Reply, table: OwnTable<'_>) -> String {
        let kept = format!(
            "# What I replied to {}: {}\n# Six words: {}\n",
            self.head.from,
            self.reply_line(reply),
            self.words(reply).join(" ")
        );
        match &self.proposal {
            Proposal::Match(shared) => matching::invited_job(&self.head, shared, &kept, table),
            Proposal::Ask(service, terms) => asking::client(&self.head, service, terms, &kept, table),
        }
    }

    /// The reply as one line: who, the fingerprint, the number, and a check that it answers this very invitation.
    pub fn reply_line(&self, reply: &Reply) -> String {
        let said = format!("{}/{}/{}", self.head.to, reply.fingerprint, reply.number);
        let check = self.check(&said);
        format!("{said}/{check}")
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// If it is no reply, was changed by mistake, or answers another invitation.
    pub fn reply(&self, line: &str) -> Result<Reply, SpecError> {
        let wrong = |why: &str| {
            SpecError::field(
                "LINE",
                format!("{why}; paste the whole line that `vesica accept` printed for {}", self.head.from),
            )
        };
        let (said, check) = line.trim().rsplit_once('/').ok_or_else(|| wrong("it is not a reply"))?;
        let parts: Vec<&str> = said.split('/').collect();
        let [to, fingerprint, number] = parts[..] else { return Err(wrong("it is not a reply")) };
        if check != self.check(said) {
            return Err(wrong("it was cut or changed on its way, or it answers another invitation"));
        }
        let print: Fingerprint = fingerprint.parse().map_err(|_| wrong("it is not a reply"))?;
        if to != self.head.to || !is_number(number) || print.to_string() != fingerprint {
            return Err(wrong("it is not a reply"));
        }
        Ok(Reply { fingerprint: print, number: number.to_owned() })
    }

    /// Finds mistakes, not attacks: against those are the six words.
    fn check(&self, said: &str) -> String {
        let hash = blake3::Hasher::new_keyed(self.hash().as_bytes()).update(said.as_bytes()).finalize();
        hash.to_hex()[..CHECK].to_owned()
    }

    /// The six words that both people compare.
    pub fn words(&self, reply: &Reply) -> [&'static str; 6] {
        let answered = format!("{}/{}", reply.fingerprint, reply.number);
        words::words(&[self.hash().as_bytes(), answered.as_bytes()].concat())
    }
}

impl Reply {
    /// Whether `line` has the four parts of a reply, and the digits of the last one, the check. Nothing that comes behind them belongs to
    /// the reply.
    pub fn is_whole(line: &str) -> bool {
        line.split('/').nth(3).is_some_and(|check| check.len() >= CHECK)
    }
}

fn wrong(field: &str, why: String) -> SpecError {
    SpecError::field(field, format!("{why}; ask for the invitation again, as `vesica invite` wrote it"))
}

/// The beginning of what a stranger wrote, in quotes and without characters that a terminal obeys.
fn begins(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}

/// What says that a document was confirmed by this reply. Another reply, even of the same identity, is then refused: else the
/// words of a later one could be the ones that are compared.
fn said_by(to: &str, reply: &Reply) -> String {
    format!("# {to} was confirmed by reply {}.", reply.number)
}

/// `value` as a table, without the fields that have their defaults. Those that are `needed` have none.
fn without_defaults<T: Serialize + DeserializeOwned>(value: &T, needed: &[&str]) -> toml::Table {
    let table = |value: &T| toml::Table::try_from(value).expect("plain data");
    let mut all = table(value);
    let mut least = all.clone();
    least.retain(|field, _| needed.contains(&field));
    let defaults: T = least.try_into().expect("what has no default is there");
    let defaults = table(&defaults);
    all.retain(|field, given| needed.contains(&field) || defaults.get(field) != Some(given));
    all
}

/// `value` as the table `name` of a document.
pub(crate) fn in_table(name: &str, value: &impl Serialize) -> String {
    let mut table = toml::Table::new();
    table.insert(name.to_owned(), toml::Value::try_from(value).expect("plain data"));
    toml::to_string(&table).expect("plain data")
}

/// The line of a document that trusts a party.
fn trust(name: &str, fingerprint: &str) -> String {
    format!("tls.peers.{} = {}", quoted(name), quoted(fingerprint))
}

/// The line of a document with the party's own table.
fn input(table: OwnTable<'_>, identifiers: &[Identifier]) -> String {
    let list = |columns: &[&str]| format!("[{}]", columns.iter().map(|key| quoted(key)).collect::<Vec<_>>().join(", "));
    let keys = if identifiers.is_empty() {
        list(&table.keys.iter().map(String::as_str).collect::<Vec<_>>())
    } else {
        let mut by_name: Vec<(&str, Vec<String>)> = Vec::new();
        for key in table.keys {
            let (name, columns) = key.split_once('=').unwrap_or((key, key));
            let several = identifiers.iter().any(|of| of.name == name && of.columns().len() > 1);
            let columns = if several { list(&columns.split(',').collect::<Vec<_>>()) } else { quoted(columns) };
            match by_name.iter_mut().find(|(known, _)| *known == name) {
                Some((_, of_name)) => of_name.push(columns),
                None => by_name.push((name, vec![columns])),
            }
        }
        let by_name = by_name.iter().map(|(name, lists)| format!("{} = [{}]", quoted(name), lists.join(", ")));
        format!("{{ {} }}", by_name.collect::<Vec<_>>().join(", "))
    };
    let value = table.value.map_or(String::new(), |column| format!(", value = {}", quoted(column)));
    format!("input = {{ path = {}, keys = {keys}{value} }}", quoted(&table.path.to_string_lossy()))
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Lower case only, so that a number has one spelling.
fn is_number(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Origin, Pins, document, parse, plan};

    fn print(digit: char) -> Fingerprint {
        format!("sha256:{}", String::from(digit).repeat(64)).parse().unwrap()
    }

    fn invitation() -> Invitation {
        let shared = "id = \"match\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"rr22\"\nlearns = [\"alice\"]\n\
                      limits = { min_intersection = 5 }";
        Invitation {
            head: Head {
                from: "alice".into(),
                to: "bob".into(),
                address: "alice.example:5300".into(),
                fingerprint: print('a').to_string(),
                number: "0123456789abcdef".repeat(2),
            },
            proposal: Proposal::Match(toml::from_str(shared).unwrap()),
        }
    }

    fn service() -> Invitation {
        let proposal =
            "[service]\nid = \"list\"\nprotocol = \"ecdh-oprf\"\nvalues = [\"name\"]\n[terms]\nkeys_a_day = 1000\n";
        let offer = format!("offer = \"sha256:{}\"\n", "0".repeat(64));
        let text = format!("{}\n{proposal}{offer}", in_table("invitation", &invitation().head));
        Invitation::parse(&text).unwrap()
    }

    fn reply() -> Reply {
        Reply { fingerprint: print('b'), number: "1".repeat(32) }
    }

    fn keys() -> Vec<String> {
        vec!["id".into(), "odd \"name\"".into()]
    }

    #[test]
    fn key_columns_are_given_by_identifier() {
        let mut invitation = invitation();
        let Proposal::Match(shared) = &mut invitation.proposal else { panic!("a match") };
        let identifier =
            |name: &str, rules: &str| Identifier { name: name.into(), rules: serde_json::from_str(rules).unwrap() };
        shared.identifiers = vec![identifier("email", "[\"email\"]"), identifier("person", "[[], [\"digits\"]]")];
        shared.matching = Some(crate::Match::Any);
        let invitation = Invitation::parse(&invitation.text()).unwrap();
        assert_eq!(invitation.key_flags(), "--key email=COLUMN --key person=COLUMN,COLUMN");
        assert!(
            invitation.text().contains("--table FILE --key email=COLUMN --key person=COLUMN,COLUMN\n"),
            "{}",
            invitation.text()
        );
        let keys = ["email=a,b", "email", "person=name,born"].map(str::to_owned);
        let table = OwnTable { path: Path::new("t.csv"), keys: &keys, value: None };
        let reply = Reply { fingerprint: print('c'), number: "00".repeat(16) };
        let job = parse(&invitation.invited_document(&reply, table)).unwrap();
        let lists = |lists: &[&[&str]]| {
            lists.iter().map(|of| of.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert_eq!(job.mine.input.identifiers["email"], lists(&[&["a,b"], &["email"]]));
        assert_eq!(job.mine.input.identifiers["person"], lists(&[&["name", "born"]]));
        plan(&job).unwrap();
    }

    #[test]
    fn an_invitation_is_read_as_it_is_written_and_says_nothing_that_is_the_default() {
        for invitation in [invitation(), service()] {
            let text = invitation.text();
            assert!(text.contains(&invitation.proposed()) && !text.contains("insecure"), "{text}");
            assert_eq!(Invitation::parse(&text), Ok(invitation));
        }
        assert!(invitation().proposed().contains("min_intersection = 5"));
        assert!(!service().proposed().contains("curve") && service().proposed().contains("values = [\"name\"]"));
    }

    #[test]
    fn both_jobs_agree_and_trust_each_other() {
        let (invitation, keys) = (invitation(), keys());
        let table = OwnTable { path: Path::new("my \"table\".csv"), keys: &keys, value: None };
        let alice = invitation.inviting_job("0.0.0.0:5300", table).unwrap();
        assert!(plan(&parse(&alice).unwrap()).is_err(), "whom to trust is not known yet");
        let alice = parse(&invitation.confirmed(&alice, &reply()).unwrap()).unwrap();
        let bob = invitation.invited_document(&reply(), table);
        assert!(bob.contains(&invitation.words(&reply()).join(" ")), "the words can be looked up later: {bob}");
        let bob = parse(&bob).unwrap();
        for job in [&alice, &bob] {
            assert_eq!(Ok(&job.shared), invitation.shared());
            assert_eq!((&job.mine.input.origin, &job.mine.input.keys), (&Origin::of("my \"table\".csv"), &keys));
            plan(job).unwrap();
        }
        assert_eq!(alice.mine.tls.unwrap().peers["bob"], Pins::from(print('b').to_string()));
        assert_eq!(bob.mine.tls.unwrap().peers["alice"], Pins::from(print('a').to_string()));
        assert_eq!((alice.mine.output.is_some(), bob.mine.output.is_some()), (true, false));
    }

    #[test]
    fn a_job_that_was_confirmed_by_one_reply_takes_no_other() {
        let (invitation, keys) = (invitation(), keys());
        let table = OwnTable { path: Path::new("t.csv"), keys: &keys, value: None };
        let job = invitation.inviting_job("0.0.0.0:5300", table).unwrap();
        let job = invitation.confirmed(&job, &reply()).unwrap();
        assert_eq!(invitation.confirmed(&job, &reply()).as_ref(), Ok(&job), "again is the same");
        // Another certificate; and the same one with another number, whose words would be others.
        for other in [Reply { fingerprint: print('c'), ..reply() }, Reply { number: "2".repeat(32), ..reply() }] {
            let error = invitation.confirmed(&job, &other).unwrap_err().to_string();
            assert!(error.contains("waits for no reply of bob"), "{error}");
        }
        // A letter that was put in the place of alice's, with a number that she did not draw.
        let mut replaced = invitation.clone();
        replaced.head.number = "9".repeat(32);
        assert_eq!(replaced.confirmed(&job, &reply()).unwrap_err().field.as_deref(), Some("invitation.number"));
        assert!(service().confirmed(&job, &reply()).unwrap_err().to_string().contains("--service FILE"));
        assert!(service().inviting_job("h:1", table).is_err());
    }

    #[test]
    fn a_reply_is_read_as_it_is_written_and_never_otherwise() {
        let invitation = invitation();
        let line = invitation.reply_line(&reply());
        assert_eq!(invitation.reply(&format!(" {line}\n")), Ok(reply()));
        assert!(Reply::is_whole(&line));
        for place in 0..line.len() {
            let mut changed = line.clone().into_bytes();
            changed[place] ^= 1;
            assert!(invitation.reply(&String::from_utf8(changed).unwrap()).is_err(), "place {place}");
            assert!(invitation.reply(&line[..place]).is_err(), "cut at {place}");
            assert!(!Reply::is_whole(&line[..place]), "cut at {place}");
        }
        let mut other = invitation.clone();
        other.head.number = "9".repeat(32);
        assert!(other.reply(&line).unwrap_err().to_string().contains("answers another invitation"));
    }

    /// mallory passes the invitation on with a certificate of their own, and the reply too. Both people hold mallory's
    /// fingerprint then, and read different words to each other.
    #[test]
    fn who_stands_between_makes_the_words_differ() {
        for invitation in [invitation(), service()] {
            let honest = invitation.words(&reply());
            assert_eq!(honest, Invitation::parse(&invitation.text()).unwrap().words(&reply()));
            let mut forged = invitation.clone();
            forged.head.fingerprint = print('f').to_string();
            // What bob reads, what alice reads after mallory's reply in bob's name.
            let bob = forged.words(&reply());
            let mallory = Reply { fingerprint: print('f'), number: reply().number };
            let line = invitation.reply_line(&mallory);
            let alice = invitation.words(&invitation.reply(&line).unwrap());
            assert!(alice != bob && alice != honest && bob != honest);
            // Whatever else was changed on the way is heard too: who can be called where, and what is proposed.
            let changes: [fn(&mut Invitation); 3] = [
                |forged| forged.head.address = "mallory.example:5300".into(),
                |forged| match &mut forged.proposal {
                    Proposal::Match(shared) => shared.learns = vec!["bob".into()],
                    Proposal::Ask(service, _) => service.values = vec![],
                },
                |forged| match &mut forged.proposal {
                    Proposal::Match(shared) => shared.limits.min_intersection = None,
                    Proposal::Ask(_, terms) => terms.offer = print('f').to_string(),
                },
            ];
            for change in changes {
                let mut forged = invitation.clone();
                change(&mut forged);
                assert_ne!(forged, invitation);
                assert_ne!(forged.words(&reply()), honest);
            }
        }
    }

    #[test]
    fn what_is_no_invitation_is_refused() {
        let text = invitation().text();
        let cases = [
            ("[invitation]", "[letter]", "invitation"),
            ("to = \"bob\"", "to = \"b b\"", "invitation.to"),
            ("to = \"bob\"", "to = \"carol\"", "shared.parties"),
            ("sha256:aa", "sha256:xa", "invitation.fingerprint"),
            ("sha256:aa", "sha256:AA", "invitation.fingerprint"),
            ("sha256:aa", " sha256:aa", "invitation.fingerprint"),
            ("0123456789abcdef", "0123", "invitation.number"),
            ("0123456789abcdef", "0123456789ABCDEF", "invitation.number"),
            ("to = \"bob\"", "to = \"alice\"", "invitation.to"),
            ("to = \"bob\"", "to = \"-bob\"", "invitation.to"),
            ("from = \"alice\"", "from = \".alice\"", "invitation.from"),
            ("alice.example:5300", "alice.example:0", "invitation.address"),
            ("alice.example:5300", ":5300", "invitation.address"),
            ("[shared]", "[service]\nid = \"a\"\nprotocol = \"piano\"\n[shared]", "invitation"),
            ("alice.example:5300", "alice.example", "invitation.address"),
            ("alice.example:5300", "alice\u{202e}.example:5300", "invitation.address"),
            ("alice.example:5300", "0.0.0.0:5300", "invitation.address"),
            ("[shared]", "[shared]\ninsecure = true", "shared.insecure"),
            ("min_intersection = 5", "min_intersection = 9223372036854775808", "invitation"),
            ("min_intersection = 5", "max_keys = 18446744073709551615", "invitation"),
        ];
        for (from, to, field) in cases {
            assert!(text.contains(from), "{from} is not in {text}");
            let error = Invitation::parse(&text.replace(from, to)).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
    }

    #[test]
    fn what_is_no_invitation_to_a_service_is_refused() {
        let text = service().text();
        let cases = [
            ("[terms]", "[conditions]", "invitation"),
            ("id = \"list\"", "id = \"../list\"", "service.id"),
            ("id = \"list\"", "id = \"list\"\ninsecure = true", "service.insecure"),
            ("sha256:00", "sha256:0x", "terms.offer"),
            ("alice.example:5300", "[::]:5300", "invitation.address"),
            ("keys_a_day = 1000", "keys_a_day = 0", "terms.keys_a_day"),
            ("keys_a_day = 1000", "keys_a_day = 300000000000000", "terms.keys_a_day"),
            ("id = \"list\"", "id = \"list\"\nlifetime_keys = 9223372036854775808", "invitation"),
        ];
        for (from, to, field) in cases {
            assert!(text.contains(from), "{from} is not in {text}");
            let error = Invitation::parse(&text.replace(from, to)).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
        let without = text.split("[terms]").next().unwrap();
        assert_eq!(Invitation::parse(without).unwrap_err().field.as_deref(), Some("invitation"));
    }

    #[test]
    fn a_client_gets_its_document_and_the_server_its_client() {
        let (invitation, keys) = (service(), vec!["id".to_owned()]);
        let table = OwnTable { path: Path::new("mine.csv"), keys: &keys, value: None };
        let text = invitation.invited_document(&reply(), table);
        let Document::Client(spec) = document(&text, false).unwrap() else { panic!("{text}") };
        let plan = crate::service::plan_ask(&spec).unwrap();
        assert_eq!((plan.server.name(), plan.me.name(), plan.address.as_str()), ("alice", "bob", "alice.example:5300"));
        assert_eq!((plan.offer, plan.trust), (Some([0; 32]), Some(crate::plan::TrustPlan::Pinned(vec![print('a')]))));
        assert!(text.contains(&invitation.words(&reply()).join(" ")));

        // However the clients of the server's document are written: what stands there stays.
        let head = "# ours\n[service]\nid = \"list\" # the list\nprotocol = \"ecdh-oprf\"\nvalues = [\"name\"]\n\n";
        let mine =
            "[mine]\nname = \"alice\"\nlisten = \"0.0.0.0:5300\"\nstore = \"list.store\"\ntls.identity = \"a.pem\"\n";
        let pin = print('d');
        let (entry, field) =
            (format!("{{ fingerprint = \"{pin}\", keys_a_day = 5 }}"), format!("fingerprint = \"{pin}\""));
        let clients = [
            String::new(),
            "clients = {}\n".to_owned(),
            format!("clients = {{ dave = {entry} }} # who may ask\n"),
            format!("clients.dave = {entry}\n"),
            format!("[mine.clients]\ndave = {entry}\n"),
            format!("[mine.clients.dave]\n{field}\nkeys_a_day = 5\n"),
        ];
        for clients in clients {
            let before = format!("{head}{mine}{clients}");
            let after = invitation.admitted(&before, &reply()).unwrap();
            let Document::Server(spec) = document(&after, false).unwrap() else { panic!("{after}") };
            let guests = crate::service::plan_serve(&spec).unwrap().guests;
            let bob = guests.iter().find(|guest| guest.name == "bob").expect("bob may ask");
            assert_eq!((bob.keys_a_day, &bob.trust), (1000, &Some(crate::plan::TrustPlan::Pinned(vec![print('b')]))));
            assert_eq!(guests.iter().any(|guest| guest.name == "dave"), clients.contains("dave"));
            assert!(after.starts_with(head) && after.contains("# who may ask") == clients.contains("# who may ask"));
            assert_eq!(invitation.admitted(&after, &reply()).as_ref(), Ok(&after), "again is the same");
            for other in [Reply { fingerprint: print('c'), ..reply() }, Reply { number: "2".repeat(32), ..reply() }] {
                let error = invitation.admitted(&after, &other).unwrap_err().to_string();
                assert!(error.contains("bob is there already"), "{error}");
            }
        }
        assert!(self::invitation().admitted(head, &reply()).unwrap_err().to_string().contains("--service"));
        let job = "[shared]\nid = \"a\"\n";
        assert!(invitation.admitted(job, &reply()).is_err());
    }
}
