//! The road to a peer that is called: straight to its address, through a proxy, or by a command of this machine. This is the one place where
//! connections are dialled.

use crate::command::Errand;
use crate::endpoint::split;
use crate::proxy::{Environment, Proxy, Refusal};
use crate::text::printable;
use crate::wire::Timed;
use rustls::pki_types::ServerName;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long one address is given to answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// How long a proxy is given at most to reach the peer and to say so. It may have several addresses to try, and give each of them seconds.
const PROXY: Duration = Duration::from_secs(20);

/// How long a command is watched that is only tried out: one that cannot reach its peer has mostly ended by then.
const COMMAND_TRIED: Duration = Duration::from_secs(2);

/// How a peer is reached that is called.
#[derive(Clone, Default, Debug)]
pub struct Road {
    way: Way,
    /// The name that TLS begins with, in clear, for gateways that route by it; none if it says no name.
    sni: Option<String>,
}

#[derive(Clone, Debug)]
enum Way {
    /// Straight to the address; the variable of the environment that says so against a proxy, if one does.
    Direct(Option<&'static str>),
    Proxy(Proxy),
    /// The standard input and output of this program with these arguments.
    Command(Vec<String>),
}

impl Default for Way {
    fn default() -> Self {
        Way::Direct(None)
    }
}

/// What is said of proxies where an address is called.
#[derive(Clone, Default, Debug)]
pub enum Proxies {
    /// What the environment says.
    #[default]
    Environment,
    /// None, whatever the environment says.
    None,
    /// This one.
    Through(Proxy),
}

impl Road {
    /// The road to `address`, which is written `host:port`. With a proxy of the caller's, or one of the environment's, the road leads through
    /// that, unless the environment's list of hosts without one has the host. A host that is this machine itself is looked for
    /// through a proxy of the caller's only.
    ///
    /// # Errors
    /// If the environment names a proxy that cannot be used.
    pub fn to(address: &str, proxies: &Proxies, environment: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        // An address that cannot be read is refused when the endpoint is looked at.
        let (host, port) = split(address).unwrap_or((address, 0));
        let (proxy, exempt) = match proxies {
            Proxies::None => (None, None),
            Proxies::Environment => {
                let environment = Environment::of(environment)?;
                let (proxy, exempt) = environment.proxy(host, port);
                (proxy.cloned(), exempt)
            }
            Proxies::Through(proxy) => {
                // The variables that name a proxy are not asked, so that they may say what they like.
                let exempt = |name: &str| environment(name).filter(|_| name.eq_ignore_ascii_case("no_proxy"));
                (Some(proxy.clone()), Environment::of(exempt)?.exempts(host, port))
            }
        };
        let way = match (proxy, exempt) {
            (Some(_), Some(variable)) => Way::Direct(Some(variable)),
            (Some(proxy), None) => Way::Proxy(proxy),
            (None, _) => Way::Direct(None),
        };
        Ok(Self { way, sni: None })
    }

    /// The road that the command `words` is: a program and its arguments, which no shell reads. It is started for each connection, and its
    /// standard input and output are that.
    pub fn by(words: Vec<String>) -> Self {
        Self { way: Way::Command(words), sni: None }
    }

    /// The same road, on which TLS begins with `name` (Server Name Indication, RFC 6066, section 3). Everybody on the way can read it.
    ///
    /// # Errors
    /// If it is no DNS name.
    pub fn with_sni(self, name: &str) -> Result<Self, String> {
        match ServerName::try_from(name) {
            Ok(ServerName::DnsName(_)) => Ok(Self { sni: Some(name.to_owned()), ..self }),
            _ => Err(format!("\"{}\" is no DNS name; write it as \"psi.bob.example\"", printable(name, 100))),
        }
    }

    /// The name that TLS begins with.
    pub(crate) fn sni(&self) -> Option<&str> {
        self.sni.as_deref()
    }

    /// Whether it leads to an address, which a command's does not.
    pub(crate) fn has_address(&self) -> bool {
        !matches!(self.way, Way::Command(_))
    }

    /// What is to be said of the road besides the address, such as `through the proxy http://proxy:3128 (HTTPS_PROXY)`.
    pub fn in_words(&self) -> Option<String> {
        let way = match &self.way {
            Way::Direct(None) | Way::Command(_) => None,
            Way::Direct(Some(variable)) => {
                Some(format!("not through a proxy, for the environment's {variable} has it"))
            }
            Way::Proxy(proxy) => Some(format!("through {proxy}")),
        };
        let sni = self.sni.as_ref().map(|name| format!("with the name {name} in clear (sni)"));
        let all: Vec<String> = way.into_iter().chain(sni).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Goes the road to `address` and gives what is at its end, without a word to that. An address has a few seconds to answer, and a proxy
    /// has them to reach the peer, at most `limit`.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) fn open(&self, address: &str, limit: Duration) -> Result<Opened, Unreached> {
        let proxy = match &self.way {
            Way::Direct(_) => {
                let socket = reach(address, Station::Peer, ANSWER)?;
                let at = socket.peer_addr().ok();
                return Ok(Opened { socket, at, errand: None });
            }
            Way::Command(words) => {
                let (socket, errand) = Errand::start(words).map_err(|e| {
                    let name = printable(words.first().map_or("", String::as_str), 100);
                    Unreached::Barred(format!("the command \"{name}\" cannot be started: {e}; correct mine.connect"))
                })?;
                return Ok(Opened { socket, at: None, errand: Some(errand) });
            }
            Way::Proxy(proxy) => proxy,
        };
        let (host, port) = split(address).map_err(Unreached::Barred)?;
        let socket = reach(proxy.at(), Station::Proxy(proxy.to_string()), ANSWER)?;
        let mut traffic = (0, 0);
        let mut timed = Timed { socket: &socket, until: Instant::now() + limit.min(PROXY), traffic: &mut traffic };
        proxy.ask(&mut timed, host, port).map_err(|refusal| match refusal {
            Refusal::Later(why) => Unreached::Later(why),
            Refusal::Never(why) => Unreached::Barred(why),
        })?;
        Ok(Opened { socket, at: None, errand: None })
    }

    /// Goes the road to `address` and hangs up. Gives what was found there, in words.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn try_out(&self, address: &str) -> Result<String, Unreached> {
        let Opened { socket, at, errand } = self.open(address, PROXY)?;
        match (errand, at) {
            (Some(errand), _) => match errand.ends_within(ANSWER.min(COMMAND_TRIED)) {
                Some(ended) => Err(Unreached::Later(ended)),
                None => {
                    drop(socket);
                    Ok(format!("{errand} runs, and whether it leads to the peer shows when they speak"))
                }
            },
            (None, Some(at)) => Ok(format!("somebody listens there ({})", at.ip())),
            (None, None) => Ok("somebody listens there".to_owned()),
        }
    }
}

/// The end of a road.
pub(crate) struct Opened {
    pub socket: TcpStream,
    /// The peer's address, if it is the one at the other end of the socket.
    pub at: Option<SocketAddr>,
    /// The command whose input and output the socket is, if it is that of one.
    pub errand: Option<Errand>,
}

/// What a host name or an address is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Station {
    /// The peer.
    Peer,
    /// A proxy, as messages call it.
    Proxy(String),
}

/// Why a road led nowhere.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unreached {
    /// The host name does not resolve.
    Unknown {
        /// Whose.
        of: Station,
        /// The resolver's words.
        why: String,
    },
    /// No address answers.
    Silent {
        /// Whose.
        of: Station,
        /// The one that was tried last.
        at: SocketAddr,
        /// How long it was given.
        limit: Duration,
        /// What came of it.
        error: io::Error,
    },
    /// There is no way to the peer now: what a proxy said.
    Later(String),
    /// There is no way, and trying again is pointless: what a proxy said.
    Barred(String),
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreached::Unknown { of: Station::Peer, why } => write!(f, "the host name does not resolve: {why}"),
            Unreached::Unknown { of: Station::Proxy(proxy), why } => {
                write!(f, "the host name of {proxy} does not resolve: {why}")
            }
            Unreached::Silent { of, at, limit, error } => {
                if let Station::Proxy(proxy) = of {
                    write!(f, "{proxy}: ")?;
                }
                match error.kind() {
                    ErrorKind::ConnectionRefused => {
                        let yet = if *of == Station::Peer { " yet" } else { "" };
                        write!(f, "connection refused: nobody listens on {at}{yet}")
                    }
                    ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                        let limit = limit.as_secs();
                        write!(f, "no answer from {at} within {limit} s: a firewall, or a wrong address")
                    }
                    ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => write!(f, "no route to {at}"),
                    _ => write!(f, "{at}: {error}"),
                }
            }
            Unreached::Later(why) | Unreached::Barred(why) => f.write_str(why),
        }
    }
}

/// Opens a socket to the first address of `host:port` that answers within `limit`.
fn reach(address: &str, of: Station, limit: Duration) -> Result<TcpStream, Unreached> {
    let all: Vec<SocketAddr> = match address.to_socket_addrs() {
        Ok(all) => all.collect(),
        Err(e) => return Err(Unreached::Unknown { of, why: lookup_words(&e) }),
    };
    let mut last = None;
    for at in all {
        match TcpStream::connect_timeout(&at, limit) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some((at, error)),
        }
    }
    Err(match last {
        Some((at, error)) => Unreached::Silent { of, at, limit, error },
        None => Unreached::Unknown { of, why: "it has no address".into() },
    })
}

/// The resolver's words, without the standard library's preface.
fn lookup_words(e: &io::Error) -> String {
    let words = e.to_string();
    words.strip_prefix("failed to lookup address information: ").map_or(words.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a job says comes before what the environment says, and a list of exceptions holds for both.
    #[test]
    fn which_road_a_call_takes() {
        let environment = |name: &str| match name {
            "HTTPS_PROXY" => Some("http://web:3128".to_owned()),
            "NO_PROXY" => Some(".internal".to_owned()),
            _ => None,
        };
        let words = |address: &str, proxies: &Proxies| Road::to(address, proxies, environment).unwrap().in_words();
        let given = Proxies::Through(Proxy::parse("socks5://gate", "mine.proxy").unwrap());
        let through = |words: Option<String>| words.unwrap_or_default();
        assert_eq!(through(words("bob:1", &Proxies::Environment)), "through the proxy http://web:3128 (HTTPS_PROXY)");
        assert_eq!(through(words("bob:1", &given)), "through the proxy socks5://gate:1080 (mine.proxy)");
        assert_eq!(words("bob:1", &Proxies::None), None);
        for proxies in [&Proxies::Environment, &given] {
            assert!(through(words("bob.internal:1", proxies)).contains("not through a proxy"));
        }
        assert_eq!(words("127.0.0.1:1", &Proxies::Environment), None);
        assert!(through(words("127.0.0.1:1", &given)).starts_with("through"));

        let odd = |name: &str| (name == "ALL_PROXY").then(|| "https://x".to_owned());
        assert!(Road::to("bob:1", &Proxies::Environment, odd).unwrap_err().contains("ALL_PROXY"));
        assert!(Road::to("bob:1", &given, odd).is_ok() && Road::to("bob:1", &Proxies::None, odd).is_ok());
    }
}
