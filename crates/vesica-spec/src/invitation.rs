//! From nothing to two job files: an invitation, a reply, and six words that both sides compare.
//!
//! alice writes an [`Invitation`]: what she proposes, her address, her certificate's fingerprint. Nothing in it is secret. bob
//! makes his job of it, and a [`Reply`] of one line, which alice puts into hers. Both then hold each other's fingerprint, and the
//! six words say whether it is the right one: whoever stood between them and replaced one made the words differ.

use crate::error::SpecError;
use crate::types::Shared;
use crate::{check_name, words};
use serde::{Deserialize, Serialize};
use std::path::Path;
use vesica_net::Fingerprint;

/// What one party proposes to another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitation {
    /// Who invites whom, and where.
    pub invitation: Head,
    /// What both would agree on.
    pub shared: Shared,
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

/// What the invited party answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The fingerprint of its certificate.
    pub fingerprint: Fingerprint,
    /// A number that is fresh for each reply: 32 hex digits.
    pub number: String,
}

/// A party's table, as its own job names it.
#[derive(Clone, Copy, Debug)]
pub struct OwnTable<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its key columns.
    pub keys: &'a [String],
}

impl Invitation {
    /// Reads an invitation.
    ///
    /// # Errors
    /// What is not as an invitation should be.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let wrong = |field: &str, why: String| {
            SpecError::field(field, format!("{why}; ask for the invitation again, as `vesica invite` wrote it"))
        };
        // What a stranger wrote is not shown to a terminal as it is.
        let plain = |message: &str| message.chars().filter(|c| c.is_ascii() && !c.is_ascii_control()).collect();
        let read: Self = toml::from_str(text).map_err(|e| wrong("invitation", plain(e.message())))?;
        let Head { from, to, address, fingerprint, number } = &read.invitation;
        check_name("invitation.from", from)?;
        check_name("invitation.to", to)?;
        if read.shared.parties != [from.clone(), to.clone()] {
            return Err(wrong("shared.parties", format!("are not {from} and {to}, who invites and who is invited")));
        }
        fingerprint.parse::<Fingerprint>().map_err(|why| wrong("invitation.fingerprint", why))?;
        if !is_number(number) {
            return Err(wrong("invitation.number", format!("{number:?} is not 32 hex digits")));
        }
        if read.shared.insecure {
            return Err(wrong("shared.insecure", "is true, so that the six words would protect nothing".to_owned()));
        }
        if !address.chars().all(|c| c.is_ascii_graphic()) || !address.contains(':') {
            return Err(wrong("invitation.address", format!("{address:?} is not host:port")));
        }
        Ok(read)
    }

    /// Its text, as it is sent.
    pub fn text(&self) -> String {
        let Head { from, to, .. } = &self.invitation;
        format!(
            "# {from} invites {to} to match tables. Nothing in this file is secret.\n\
             # {to} answers with: vesica accept {to}.invite --table FILE --key COLUMN\n\n{}\n{}",
            in_table("invitation", &self.invitation),
            self.shared_text(),
        )
    }

    /// `[shared]` without what is the default anyway.
    fn shared_text(&self) -> String {
        let value = |shared: &Shared| toml::Table::try_from(shared).expect("plain data");
        let mut all = value(&self.shared);
        let needed = ["id", "parties", "protocol", "learns"];
        let mut least = all.clone();
        least.retain(|field, _| needed.contains(&field));
        let defaults: Shared = least.try_into().expect("what has no default is there");
        let defaults = value(&defaults);
        all.retain(|field, given| needed.contains(&field) || defaults.get(field) != Some(given));
        in_table("shared", &all)
    }

    /// What a reply is bound to.
    fn hash(&self) -> blake3::Hash {
        let shared = serde_json::to_vec(&(&self.invitation, &self.shared)).expect("plain data");
        blake3::Hasher::new_derive_key("vesica 2026 invitation").update(&shared).finalize()
    }

    /// The job of the party that invites, without the fingerprint of the other, which [`Invitation::confirmed`] writes.
    pub fn inviting_job(&self, listen: &str, table: OwnTable<'_>) -> String {
        let Head { from, to, .. } = &self.invitation;
        let contact = format!("listen = {} # {to} calls here\n{}\n", quoted(listen), waiting(to));
        self.job(from, to, &contact, table)
    }

    /// The job of the party that is invited.
    pub fn invited_job(&self, table: OwnTable<'_>) -> String {
        let Head { from, to, address, fingerprint, .. } = &self.invitation;
        let contact = format!("connect.{} = {}\n{}\n", quoted(from), quoted(address), trust(from, fingerprint));
        self.job(to, from, &contact, table)
    }

    fn job(&self, me: &str, other: &str, contact: &str, table: OwnTable<'_>) -> String {
        let keys: Vec<String> = table.keys.iter().map(|key| quoted(key)).collect();
        let learns = self.shared.learns.iter().any(|name| name == me);
        let rows = learns && self.shared.result == crate::ResultKind::Rows;
        let output = if rows {
            format!("output = {{ path = {} }}\n", quoted(&format!("{me}.matched.csv")))
        } else {
            String::new()
        };
        format!(
            "# {me}'s side of a match with {other}. Run it while {other} runs theirs: vesica run {me}.toml\n\n\
             # The same for both, and compared before any data moves.\n{shared}\n\
             # Never sent. Paths start at this file's folder.\n[mine]\nname = {name}\n{contact}\
             tls.identity = {identity} # as `vesica cert {me}` makes it\n\
             input = {{ path = {path}, keys = [{keys}] }}\n{output}report = {report}\n",
            shared = self.shared_text(),
            name = quoted(me),
            identity = quoted(&format!("{me}.pem")),
            path = quoted(&table.path.to_string_lossy()),
            keys = keys.join(", "),
            report = quoted(&format!("{me}.report.json")),
        )
    }

    /// The reply as one line: who, the fingerprint, the number, and a check that it answers this very invitation.
    pub fn reply_line(&self, reply: &Reply) -> String {
        let said = format!("{}/{}/{}", self.invitation.to, reply.fingerprint, reply.number);
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
                format!("{why}; paste the whole line that `vesica accept` printed for {}", self.invitation.from),
            )
        };
        let (said, check) = line.trim().rsplit_once('/').ok_or_else(|| wrong("it is not a reply"))?;
        let parts: Vec<&str> = said.split('/').collect();
        let [to, fingerprint, number] = parts[..] else { return Err(wrong("it is not a reply")) };
        if check != self.check(said) {
            return Err(wrong("it was cut or changed on its way, or it answers another invitation"));
        }
        if to != self.invitation.to || !is_number(number) {
            return Err(wrong("it is not a reply"));
        }
        Ok(Reply { fingerprint: fingerprint.parse().map_err(|why: String| wrong(&why))?, number: number.to_owned() })
    }

    /// Finds mistakes, not attacks: against those are the six words.
    fn check(&self, said: &str) -> String {
        let hash = blake3::Hasher::new_keyed(self.hash().as_bytes()).update(said.as_bytes()).finalize();
        hash.to_hex()[..8].to_owned()
    }

    /// The six words that both people compare.
    pub fn words(&self, reply: &Reply) -> [&'static str; 6] {
        let answered = format!("{}/{}", reply.fingerprint, reply.number);
        words::words(&[self.hash().as_bytes(), answered.as_bytes()].concat())
    }

    /// The job of the party that invites, with the fingerprint of the reply.
    ///
    /// # Errors
    /// If the job waits for no reply, or holds another fingerprint already.
    pub fn confirmed(&self, job: &str, reply: &Reply) -> Result<String, SpecError> {
        let to = &self.invitation.to;
        let line = trust(to, &reply.fingerprint.to_string());
        if job.lines().any(|old| old == line) {
            return Ok(job.to_owned());
        }
        if !job.lines().any(|old| old == waiting(to)) {
            return Err(SpecError::field(
                "mine.tls.peers",
                format!("the job does not wait for a reply of {to}; to trust this one, write into [mine]: {line}"),
            ));
        }
        Ok(job.replacen(&waiting(to), &line, 1))
    }
}

/// The line of a job that trusts a party.
fn trust(name: &str, fingerprint: &str) -> String {
    format!("tls.peers.{} = {}", quoted(name), quoted(fingerprint))
}

/// The line in its place until the party has replied.
fn waiting(name: &str) -> String {
    format!("# `vesica confirm` writes here whom to trust as {name}, from {name}'s reply.")
}

/// `value` as the table `name` of a document.
pub(crate) fn in_table(name: &str, value: &impl Serialize) -> String {
    let mut table = toml::Table::new();
    table.insert(name.to_owned(), toml::Value::try_from(value).expect("plain data"));
    toml::to_string(&table).expect("plain data")
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn is_number(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, plan};

    fn print(digit: char) -> Fingerprint {
        format!("sha256:{}", String::from(digit).repeat(64)).parse().unwrap()
    }

    fn invitation() -> Invitation {
        let shared = "id = \"match\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"rr22\"\nlearns = [\"alice\"]\n\
                      limits = { min_intersection = 5 }";
        Invitation {
            invitation: Head {
                from: "alice".into(),
                to: "bob".into(),
                address: "alice.example:5300".into(),
                fingerprint: print('a').to_string(),
                number: "0123456789abcdef".repeat(2),
            },
            shared: toml::from_str(shared).unwrap(),
        }
    }

    fn reply() -> Reply {
        Reply { fingerprint: print('b'), number: "1".repeat(32) }
    }

    fn keys() -> Vec<String> {
        vec!["id".into(), "odd \"name\"".into()]
    }

    #[test]
    fn an_invitation_is_read_as_it_is_written_and_says_nothing_that_is_the_default() {
        let invitation = invitation();
        let text = invitation.text();
        assert_eq!(Invitation::parse(&text), Ok(invitation));
        assert!(text.contains("min_intersection = 5") && !text.contains("insecure"), "{text}");
    }

    #[test]
    fn both_jobs_agree_and_trust_each_other() {
        let (invitation, keys) = (invitation(), keys());
        let table = OwnTable { path: Path::new("my \"table\".csv"), keys: &keys };
        let alice = invitation.inviting_job("0.0.0.0:5300", table);
        assert!(plan(&parse(&alice).unwrap()).is_err(), "whom to trust is not known yet");
        let alice = parse(&invitation.confirmed(&alice, &reply()).unwrap()).unwrap();
        let bob = parse(&invitation.invited_job(table)).unwrap();
        for job in [&alice, &bob] {
            assert_eq!(job.shared, invitation.shared);
            assert_eq!((&job.mine.input.path, &job.mine.input.keys), (&"my \"table\".csv".into(), &keys));
            plan(job).unwrap();
        }
        assert_eq!(alice.mine.tls.unwrap().peers["bob"], print('b').to_string());
        assert_eq!(bob.mine.tls.unwrap().peers["alice"], print('a').to_string());
        assert_eq!((alice.mine.output.is_some(), bob.mine.output.is_some()), (true, false));
    }

    #[test]
    fn a_job_that_trusts_one_is_not_made_to_trust_another() {
        let (invitation, keys) = (invitation(), keys());
        let job = invitation.inviting_job("0.0.0.0:5300", OwnTable { path: Path::new("t.csv"), keys: &keys });
        let job = invitation.confirmed(&job, &reply()).unwrap();
        assert_eq!(invitation.confirmed(&job, &reply()).as_ref(), Ok(&job), "again is the same");
        let other = Reply { fingerprint: print('c'), ..reply() };
        assert!(
            invitation.confirmed(&job, &other).unwrap_err().to_string().contains("does not wait for a reply of bob")
        );
    }

    #[test]
    fn a_reply_is_read_as_it_is_written_and_never_otherwise() {
        let invitation = invitation();
        let line = invitation.reply_line(&reply());
        assert_eq!(invitation.reply(&format!(" {line}\n")), Ok(reply()));
        for place in 0..line.len() {
            let mut changed = line.clone().into_bytes();
            changed[place] ^= 1;
            assert!(invitation.reply(&String::from_utf8(changed).unwrap()).is_err(), "place {place}");
            assert!(invitation.reply(&line[..place]).is_err(), "cut at {place}");
        }
        let mut other = invitation.clone();
        other.shared.id = "another".into();
        assert!(other.reply(&line).unwrap_err().to_string().contains("answers another invitation"));
    }

    /// mallory passes the invitation on with a certificate of their own, and the reply too. Both people hold mallory's
    /// fingerprint then, and read different words to each other.
    #[test]
    fn who_stands_between_makes_the_words_differ() {
        let invitation = invitation();
        let honest = invitation.words(&reply());
        assert_eq!(honest, Invitation::parse(&invitation.text()).unwrap().words(&reply()));
        let mut forged = invitation.clone();
        forged.invitation.fingerprint = print('f').to_string();
        // What bob reads, what alice reads after mallory's reply in bob's name.
        let bob = forged.words(&reply());
        let mallory = Reply { fingerprint: print('f'), number: reply().number };
        let line = invitation.reply_line(&mallory);
        let alice = invitation.words(&invitation.reply(&line).unwrap());
        assert!(alice != bob && alice != honest && bob != honest);
        // The proposal is in the words too: a changed one is heard.
        let mut forged = invitation.clone();
        forged.shared.learns = vec!["bob".into()];
        assert_ne!(forged.words(&reply()), honest);
    }

    #[test]
    fn what_is_no_invitation_is_refused() {
        let text = invitation().text();
        let cases = [
            ("[invitation]", "[letter]", "invitation"),
            ("to = \"bob\"", "to = \"b b\"", "invitation.to"),
            ("to = \"bob\"", "to = \"carol\"", "shared.parties"),
            ("sha256:aa", "sha256:xa", "invitation.fingerprint"),
            ("0123456789abcdef", "0123", "invitation.number"),
            ("alice.example:5300", "alice.example", "invitation.address"),
            ("alice.example:5300", "alice\u{202e}.example:5300", "invitation.address"),
            ("[shared]", "[shared]\ninsecure = true", "shared.insecure"),
        ];
        for (from, to, field) in cases {
            let error = Invitation::parse(&text.replace(from, to)).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
    }
}
