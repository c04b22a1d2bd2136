//! How another party is called: at an address, or by a command.

use crate::error::{SpecError, refuse};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::path::Path;
use vesica_net::{Network, Road};

/// How another party is called: `"host:port"`, `"exec:COMMAND"`, or a table that says more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Connect {
    /// `host:port`; or `exec:` and a command with its arguments, at spaces, which no shell reads.
    At(String),
    /// A table.
    By(Call),
}

/// How another party is called, in a table: `{ address = "host:port", sni = "…" }` or `{ exec = ["ssh", "-W", "bob:5300", "bastion"] }`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Its address: `host:port`. This or `exec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// A command, as a list of a program and its arguments: its standard input and output are the connection. It is started for each
    /// connection, without a shell, and ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<Vec<String>>,
    /// The name that TLS begins with, for gateways that route by it. Everybody on the way can read it. When absent, no name is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
}

/// What is said of a road besides its address.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RoadPlan {
    /// The program and its arguments that are the road, if it is that of a command.
    pub command: Option<Vec<String>>,
    /// The name that TLS begins with.
    pub sni: Option<String>,
}

/// What a command begins with that stands in one string.
const EXEC: &str = "exec:";

/// What a shell would read otherwise than it is written.
const FOR_SHELLS: &[char] = &['"', '\'', '\\', '`', '$', '|', '<', '>', ';', '&', '*', '(', ')', '~'];

impl Connect {
    /// Leaves of a command its program's name alone: there may be a password among the arguments.
    pub(crate) fn hide_arguments(&mut self) {
        let Ok((_, RoadPlan { command: Some(words), sni })) = self.read("mine.connect", false) else { return };
        let shown = words.into_iter().enumerate().map(|(at, word)| if at == 0 { shown(&word) } else { "…".to_owned() });
        *self = Connect::By(Call { address: None, exec: Some(shown.collect()), sni });
    }

    /// Where it leads, as messages call it, and what is said besides. `field` is where it stands.
    pub(crate) fn read(&self, field: &str, insecure: bool) -> Result<(String, RoadPlan), SpecError> {
        let refused = |why: String| refuse(field, why);
        let call = match self {
            // Of a host that is called `exec` there is a port alone.
            Connect::At(text) => match text.strip_prefix(EXEC).filter(|command| command.parse::<u16>().is_err()) {
                None => return Ok((text.clone(), RoadPlan::default())),
                Some(command) if command.contains(FOR_SHELLS) => {
                    return refused(
                        "no shell reads the command, which is cut at spaces: write it as a list, such as \
                         { exec = [\"ssh\", \"-W\", \"bob:5300\", \"bastion\"] }"
                            .to_owned(),
                    );
                }
                Some(command) => {
                    let words = command.split_whitespace().map(str::to_owned).collect();
                    Call { address: None, exec: Some(words), sni: None }
                }
            },
            Connect::By(call) => call.clone(),
        };
        if let Some(name) = &call.sni {
            if insecure {
                return refused("sni is a part of TLS, and this is without (insecure = true); take it out".to_owned());
            }
            Road::default().with_sni(name).map_err(|why| SpecError::field(&format!("{field}.sni"), why))?;
        }
        match (call.address, call.exec) {
            (Some(address), None) => Ok((address, RoadPlan { command: None, sni: call.sni })),
            (None, Some(words)) => match words.first().is_none_or(String::is_empty)
                || words.iter().any(|w| w.contains('\0'))
            {
                true => refused("the command has no name; write a program and its arguments".to_owned()),
                false => Ok((format!("{EXEC}{}", words.join(" ")), RoadPlan { command: Some(words), sni: call.sni })),
            },
            (Some(_), Some(_)) => {
                refused("has both address and exec: a command leads to the peer by itself, take one out".into())
            }
            (None, None) => refused("has neither address nor exec; write address = \"host:port\"".into()),
        }
    }
}

/// An address, and never a command: it may come from a file that somebody else wrote.
impl From<String> for Connect {
    fn from(address: String) -> Self {
        match address.starts_with(EXEC) {
            true => Connect::By(Call { address: Some(address), exec: None, sni: None }),
            false => Connect::At(address),
        }
    }
}

/// As from a [`String`].
impl From<&str> for Connect {
    fn from(address: &str) -> Self {
        address.to_owned().into()
    }
}

/// By hand, because serde's own way with alternatives forgets what was wrong.
impl<'de> Deserialize<'de> for Connect {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Connect;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"host:port\", \"exec:COMMAND\", or a table with address or exec")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Connect, E> {
                Ok(Connect::At(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Connect, A::Error> {
                Call::deserialize(MapAccessDeserializer::new(map)).map(Connect::By)
            }
        }

        from.deserialize_any(Either)
    }
}

/// What `mine.proxy_protocol` means.
pub(crate) fn gateways(texts: &[String], listen: bool) -> Result<Vec<Network>, SpecError> {
    let field = "mine.proxy_protocol";
    if !texts.is_empty() && !listen {
        return refuse(field, "is of use only where somebody calls (mine.listen): remove it");
    }
    texts.iter().map(|text| Network::parse(text).map_err(|why| SpecError::field(field, why))).collect()
}

/// What a report shows of a path or of the name of a program: of one from the root `…/NAME`.
pub(crate) fn shown(name: &str) -> String {
    match Path::new(name) {
        path if path.has_root() => {
            Path::new("…").join(path.file_name().unwrap_or_default()).to_string_lossy().into_owned()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::JOB;
    use crate::{parse, plan};

    fn planned(connect: &str, more: &str) -> Result<(Option<String>, RoadPlan), SpecError> {
        let text = JOB
            .replace("sha256:00", &format!("sha256:{}", "ab".repeat(32)))
            .replace("listen = \"127.0.0.1:5300\"", &format!("connect = {{ bob = {connect} }}"))
            .replace("[mine]", &format!("{more}\n[mine]"));
        let spec = parse(&text)?;
        assert_eq!(parse(&spec.text())?, spec);
        let peer = plan(&spec)?.peers.remove(0);
        Ok((peer.connect, peer.road))
    }

    #[test]
    fn a_party_is_called_at_an_address_or_by_a_command() {
        let ssh: Vec<String> = ["ssh", "-W", "bob:5300", "bastion"].map(String::from).into();
        let command = |words: &[String]| RoadPlan { command: Some(words.to_vec()), sni: None };
        assert_eq!(planned("\"bob:5300\"", "").unwrap(), (Some("bob:5300".into()), RoadPlan::default()));
        let text = Some("exec:ssh -W bob:5300 bastion".to_owned());
        assert_eq!(planned("\"exec:ssh -W  bob:5300 bastion\"", "").unwrap(), (text.clone(), command(&ssh)));
        assert_eq!(
            planned("{ exec = [\"ssh\", \"-W\", \"bob:5300\", \"bastion\"] }", "").unwrap(),
            (text, command(&ssh))
        );
        let odd = command(&["a program".into(), "a $b 'c'".into()]);
        assert_eq!(planned("{ exec = [\"a program\", \"a $b 'c'\"] }", "").unwrap().1, odd);
        let by_name = RoadPlan { command: None, sni: Some("psi.bob.example".into()) };
        let table = "{ address = \"gw:443\", sni = \"psi.bob.example\" }";
        assert_eq!(planned(table, "").unwrap(), (Some("gw:443".into()), by_name));
        for (connect, more, words) in [
            ("\"exec:\"", "", "the command has no name"),
            ("\"exec:ssh 'a b'\"", "", "no shell reads the command"),
            ("{ exec = [] }", "", "the command has no name"),
            ("{ exec = [\"a\"], address = \"b:1\" }", "", "has both address and exec"),
            ("{ sni = \"a.example\" }", "", "has neither address nor exec"),
            ("{ address = \"b:1\", sni = \"10.0.0.1\" }", "", "is no DNS name"),
            (table, "insecure = true", "sni is a part of TLS"),
            ("{ adress = \"b:1\" }", "", "did you mean `address`?"),
            ("7", "", "\"host:port\", \"exec:COMMAND\", or a table"),
        ] {
            let error = planned(connect, more).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_report_shows_no_arguments_of_a_command() {
        for connect in ["\"exec:tunnel --password hunter2\"", "{ exec = [\"/opt/bin/tunnel\", \"hunter2\"] }"] {
            let connect = format!("connect = {{ bob = {connect} }}");
            let mine = parse(&JOB.replace("listen = \"127.0.0.1:5300\"", &connect)).unwrap().mine;
            let shown = mine.without_keys();
            assert!(shown.contains("tunnel") && !shown.contains("hunter2") && !shown.contains("/opt"), "{shown}");
        }
    }

    /// What another program's file or an invitation calls an address starts no program of the one who takes it.
    #[test]
    fn an_address_that_is_handed_over_is_no_command() {
        for address in ["exec:touch /tmp/x:5300", "exec:5300", "bob:5300"] {
            let connect = Connect::from(address);
            assert_eq!(connect.read("mine.connect.bob", false).unwrap(), (address.to_owned(), RoadPlan::default()));
        }
        assert_eq!(planned("\"exec:5300\"", "").unwrap(), (Some("exec:5300".into()), RoadPlan::default()));
    }

    #[test]
    fn gateways_are_addresses_and_networks() {
        let list =
            |texts: &[&str], listen| gateways(&texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>(), listen);
        assert_eq!(list(&["10.0.0.7", "2001:db8::/32"], true).unwrap().len(), 2);
        assert!(list(&[], false).unwrap().is_empty());
        assert!(list(&["10.0.0.7"], false).unwrap_err().to_string().contains("mine.listen"));
        assert!(list(&["gateway.example"], true).unwrap_err().to_string().contains("neither an address nor a network"));
    }
}
