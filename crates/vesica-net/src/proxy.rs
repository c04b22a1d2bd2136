//! Proxies: HTTP's CONNECT (RFC 9110, section 9.3.6) and SOCKS 5 (RFC 1928, RFC 1929), and what the environment says of them.
//!
//! A proxy is asked for a name and a port, resolves the name itself, and then carries bytes. What it answers is read up to the last
//! byte of its answer and no further, within a bound and a deadline: the first byte behind it is the peer's.

use crate::endpoint::split;
use crate::text::{beginning, printable};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use zeroize::Zeroizing;

/// The most bytes of an HTTP proxy's answer. Squid's own bound for a header is 64 KiB, and what proxies send takes less than one.
const MOST_HEAD: usize = 16 << 10;

/// What is printed of a proxy's words, in characters.
const MOST_WORDS: usize = 100;

/// The environment's variables that name a proxy, the first one that is set holds. Curl has the same order.
const NAMED_BY: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// Those that name the hosts for which none is used.
const EXEMPTED_BY: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// What a proxy speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Http,
    Socks5,
}

/// A proxy that peers are called through.
#[derive(Clone)]
pub struct Proxy {
    kind: Kind,
    /// Its host and port, as `host:port`.
    at: String,
    credentials: Option<Credentials>,
    /// What names it: a field of the job, or a variable of the environment.
    named_by: String,
}

/// Never printed.
#[derive(Clone)]
struct Credentials {
    user: Zeroizing<String>,
    password: Zeroizing<String>,
}

/// Why a proxy does not let a call through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It may be worth another try.
    Later(String),
    /// It would say the same again.
    Never(String),
}

impl Proxy {
    /// The proxy that is written as `url`: `http://host:port` or `socks5://host:port`, with `user:password@` before the host if it wants
    /// that. Without a port, 80 and 1080 are meant. `named_by` is what errors call the place where it is written.
    ///
    /// # Errors
    /// What is wrong with it, in words that do not repeat the user and the password.
    pub fn parse(url: &str, named_by: &str) -> Result<Self, String> {
        const FORMS: &str = "write \"http://host:port\" or \"socks5://host:port\"";
        let url = url.trim();
        // Without a scheme it is HTTP: so the variables of the environment are read elsewhere too.
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let (kind, usual) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Kind::Http, 80),
            "socks5" | "socks5h" | "socks" => (Kind::Socks5, 1080),
            "https" => {
                return Err(format!(
                    "the way to a proxy over TLS (https://) is not spoken here, and what goes through the proxy is encrypted in any \
                     case; {FORMS}"
                ));
            }
            // Whatever this is, it may hold a password.
            _ => return Err(format!("that is no kind of proxy that is known here; {FORMS}")),
        };
        let (rest, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if path.contains('@') {
            // The beginning of the password would be taken for a port, called and printed.
            return Err("there is a /, ? or # before an @; in a user and a password write all but letters and digits as % and two hex \
                        digits"
                .into());
        }
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, rest),
        };
        let has_port = place.rsplit_once(':').is_some_and(|(host, port)| {
            !port.contains(']') && (!host.contains(':') || host.starts_with('[')) && !host.is_empty()
        });
        let at = if has_port { place.to_owned() } else { format!("{place}:{usual}") };
        split(&at).and_then(|(host, _)| sendable(host)).map_err(|why| match url.contains('@') {
            // What stands before the `@` may have been taken for a part of the address.
            true => format!(
                "it cannot be read; {FORMS}, with user:password@ before the host, in which all but letters and digits is written as % \
                 and two hex digits"
            ),
            false => format!("{why}; {FORMS}"),
        })?;
        let proxy = Self { kind, at, credentials: None, named_by: named_by.to_owned() };
        match credentials {
            None => Ok(proxy),
            Some(credentials) => {
                let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
                let decoded =
                    |text| decoded(text).ok_or("the user or the password has a % that two hex digits do not follow");
                proxy.known_as(decoded(user)?, decoded(password)?)
            }
        }
    }

    /// The same proxy with these credentials: `user:password`, on one line.
    ///
    /// # Errors
    /// If they cannot be sent; in words that do not repeat them.
    pub fn with_credentials(self, line: &str) -> Result<Self, String> {
        let line = line.trim_end_matches(['\r', '\n']);
        let (user, password) = line.split_once(':').ok_or("it has no colon; write user:password on its first line")?;
        self.known_as(user.to_owned().into(), password.to_owned().into())
    }

    fn known_as(self, user: Zeroizing<String>, password: Zeroizing<String>) -> Result<Self, String> {
        if user.is_empty() || user.len() > 255 || password.len() > 255 {
            return Err("a user is of 1 to 255 bytes, and a password of 255 at most".into());
        }
        if [&user, &password].iter().any(|text| text.chars().any(char::is_control)) {
            return Err("there is a control character in the user or in the password".into());
        }
        if self.kind == Kind::Http && user.contains(':') {
            return Err("a user of an HTTP proxy has no colon in its name (RFC 7617)".into());
        }
        Ok(Self { credentials: Some(Credentials { user, password }), ..self })
    }

    /// Whether it is asked with a user and a password.
    pub fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }

    /// `url` as it may be shown: without a user and a password.
    pub fn shown(url: &str) -> String {
        Self::parse(url, "").map_or_else(|_| "…".to_owned(), |proxy| proxy.url())
    }

    /// Where it is, as `host:port`.
    pub(crate) fn at(&self) -> &str {
        &self.at
    }

    fn url(&self) -> String {
        let scheme = match self.kind {
            Kind::Http => "http",
            Kind::Socks5 => "socks5",
        };
        format!("{scheme}://{}", self.at)
    }

    /// Has the proxy connect to `host`, which it resolves, and to `port` there. After that `stream` leads to them.
    pub(crate) fn ask(&self, stream: &mut (impl Read + Write), host: &str, port: u16) -> Result<(), Refusal> {
        sendable(host).map_err(Refusal::Never)?;
        match self.kind {
            Kind::Http => self.ask_http(stream, host, port),
            Kind::Socks5 => self.ask_socks(stream, host, port),
        }
    }

    fn ask_http(&self, stream: &mut (impl Read + Write), host: &str, port: u16) -> Result<(), Refusal> {
        // Of one size from the start, so that no copy of the password stays behind when it grows.
        let mut ask = Zeroizing::new(String::with_capacity(2048));
        ask.push_str(&format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n"));
        if let Some(Credentials { user, password }) = &self.credentials {
            let pair = Zeroizing::new([user.as_bytes(), b":", password.as_bytes()].concat());
            ask.push_str("Proxy-Authorization: Basic ");
            BASE64_STANDARD.encode_string(&*pair, &mut ask);
            ask.push_str("\r\n");
        }
        ask.push_str("\r\n");
        stream.write_all(ask.as_bytes()).map_err(|e| self.broken(&e))?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
            if head.len() == MOST_HEAD {
                return Err(Refusal::Never(format!(
                    "{self} answers with a header that has no end within {MOST_HEAD} bytes"
                )));
            }
            head.push(self.next(stream)?);
            if head.len() == 5 && head != b"HTTP/" {
                let began = beginning(&head);
                return Err(Refusal::Never(format!("{self} does not speak HTTP, its answer begins with {began}")));
            }
        }
        let head = String::from_utf8_lossy(&head);
        let line = head.lines().next().unwrap_or_default();
        let (_, answer) = line.split_once(' ').unwrap_or_default();
        let status = answer.get(..3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let said = printable(answer, MOST_WORDS);
        match status.and_then(|digits| digits.parse::<u16>().ok()) {
            Some(200..=299) => Ok(()),
            // Proxies have no one number for a host that does not answer yet: 500, 502, 503 and 504 are all in use.
            Some(429 | 500..=599) => Err(Refusal::Later(format!("{self} answers \"{said}\" of {host}:{port}"))),
            // tinyproxy answers 401 where the password is wrong, and 407 where there is none.
            Some(401 | 407) => Err(Refusal::Never(self.locked(&said))),
            Some(_) => Err(Refusal::Never(format!(
                "{self} does not let calls to {host}:{port} through, it answers \"{said}\"; ask those who run it, or name another one \
                 in mine.proxy"
            ))),
            None => {
                let said = printable(line, MOST_WORDS);
                Err(Refusal::Never(format!("{self} answers \"{said}\", which has no status of HTTP")))
            }
        }
    }

    fn ask_socks(&self, stream: &mut (impl Read + Write), host: &str, port: u16) -> Result<(), Refusal> {
        const VERSION: u8 = 5;
        let methods: &[u8] = if self.credentials.is_some() { &[VERSION, 2, 0, 2] } else { &[VERSION, 1, 0] };
        stream.write_all(methods).map_err(|e| self.broken(&e))?;
        let foreign = |bytes: &[u8]| {
            let began = beginning(bytes);
            Refusal::Never(format!("{self} does not speak SOCKS 5, its answer begins with {began}"))
        };
        match (self.bytes::<2>(stream)?, &self.credentials) {
            ([VERSION, 0], _) => {}
            ([VERSION, 2], Some(Credentials { user, password })) => {
                // RFC 1929.
                let mut ask = Zeroizing::new(Vec::with_capacity(3 + 255 + 255));
                for (mark, text) in [(Some(1), user), (None, password)] {
                    ask.extend(mark);
                    ask.push(text.len() as u8);
                    ask.extend_from_slice(text.as_bytes());
                }
                stream.write_all(&ask).map_err(|e| self.broken(&e))?;
                match self.bytes::<2>(stream)? {
                    [_, 0] => {}
                    [_, code] => return Err(Refusal::Never(self.locked(&format!("status {code}")))),
                }
            }
            ([VERSION, 0xff | 2], _) => return Err(Refusal::Never(self.locked("no acceptable method"))),
            (other, _) => return Err(foreign(&other)),
        }
        let mut ask = vec![VERSION, 1, 0];
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) => {
                ask.push(1);
                ask.extend(ip.octets());
            }
            Ok(IpAddr::V6(ip)) => {
                ask.push(4);
                ask.extend(ip.octets());
            }
            Err(_) => {
                ask.extend([3, bare.len() as u8]);
                ask.extend(bare.bytes());
            }
        }
        ask.extend(port.to_be_bytes());
        stream.write_all(&ask).map_err(|e| self.broken(&e))?;
        let [version, reply, _, kind] = self.bytes::<4>(stream)?;
        if version != VERSION {
            return Err(foreign(&[version, reply]));
        }
        let of = format!("{host}:{port}");
        let later = |why: &str| Err(Refusal::Later(format!("{self} answers that {why}")));
        match reply {
            0 => {}
            1 => return later(&format!("it cannot reach {of} (general failure)")),
            3 => return later(&format!("there is no route to the network of {of}")),
            4 => return later(&format!("there is no route to {of}, or its name does not resolve there")),
            5 => return later(&format!("{of} refuses: nobody listens there yet")),
            6 => return later(&format!("{of} is too far away (TTL expired)")),
            2 => {
                return Err(Refusal::Never(format!(
                    "{self} does not let calls to {of} through; ask those who run it, or name another one in mine.proxy"
                )));
            }
            code => return Err(Refusal::Never(format!("{self} refuses {of} with code {code} of SOCKS 5"))),
        }
        // The address at which the proxy itself stands on that side, which nobody here needs.
        match kind {
            1 => drop(self.bytes::<6>(stream)?),
            4 => drop(self.bytes::<18>(stream)?),
            3 => {
                let [len] = self.bytes::<1>(stream)?;
                for _ in 0..u16::from(len) + 2 {
                    self.next(stream)?;
                }
            }
            _ => return Err(foreign(&[version, reply, 0, kind])),
        }
        Ok(())
    }

    fn locked(&self, said: &str) -> String {
        match self.credentials {
            Some(_) => {
                format!("{self} does not accept the user and the password that it was given, it answers \"{said}\"")
            }
            None => format!(
                "{self} wants a user and a password, it answers \"{said}\"; write them as user:password in a file and name that in \
                 mine.proxy_credentials"
            ),
        }
    }

    fn next(&self, stream: &mut impl Read) -> Result<u8, Refusal> {
        self.bytes::<1>(stream).map(|[byte]| byte)
    }

    fn bytes<const N: usize>(&self, stream: &mut impl Read) -> Result<[u8; N], Refusal> {
        let mut bytes = [0; N];
        stream.read_exact(&mut bytes).map_err(|e| self.broken(&e))?;
        Ok(bytes)
    }

    fn broken(&self, e: &io::Error) -> Refusal {
        Refusal::Later(match e.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => format!("{self} does not answer in time"),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                format!("{self} closed the connection before its answer was complete")
            }
            _ => format!("{self}: {e}"),
        })
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy {} ({})", self.url(), self.named_by)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Proxy {
    /// Whether it is the same place, whoever names it and whatever the password is.
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.at) == (other.kind, &other.at)
    }
}

impl Eq for Proxy {}

/// Refuses a host that could end a line of HTTP, or that has no place in a request of SOCKS.
fn sendable(host: &str) -> Result<(), String> {
    match host.is_empty() || host.len() > 255 || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Err(format!("\"{}\" is no host name that a proxy could be asked for", printable(host, MOST_WORDS))),
        false => Ok(()),
    }
}

/// `text` with `%41` read as `A`; none if it is not written so.
fn decoded(text: &str) -> Option<Zeroizing<String>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes.to_vec()).ok().map(Zeroizing::new)
}

/// What the environment says of proxies.
#[derive(Clone, Default, Debug)]
pub struct Environment {
    proxy: Option<Proxy>,
    /// The variable that says for which hosts none is used, and what it says.
    exempt: Option<(&'static str, String)>,
}

impl Environment {
    /// What the variables say that `look` gives the values of.
    ///
    /// # Errors
    /// If a variable names a proxy that cannot be used, in words that do not repeat its user and its password.
    pub fn of(look: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &&'static str| look(name).filter(|text| !text.trim().is_empty()).map(|text| (*name, text));
        let proxy = NAMED_BY.iter().find_map(set);
        let proxy = proxy.map(|(name, url)| {
            Proxy::parse(&url, name)
                .map_err(|why| format!("the environment's {name}: {why}; mine.proxy = \"none\" in the job ignores it"))
        });
        Ok(Self { proxy: proxy.transpose()?, exempt: EXEMPTED_BY.iter().find_map(set) })
    }

    /// The proxy that it names for `host` and `port`, and the variable that says to use none. A host that is this machine itself is not
    /// looked for behind a proxy.
    pub(crate) fn proxy(&self, host: &str, port: u16) -> (Option<&Proxy>, Option<&'static str>) {
        match &self.proxy {
            Some(_) if is_here(host) => (None, None),
            proxy => (proxy.as_ref(), self.exempts(host, port)),
        }
    }

    /// The variable that says to use no proxy for `host` and `port`, if one does.
    pub(crate) fn exempts(&self, host: &str, port: u16) -> Option<&'static str> {
        let (name, list) = self.exempt.as_ref()?;
        let listed = list.split([',', ' ', '\t']).any(|entry| exempts(entry.trim(), host, port));
        listed.then_some(*name)
    }
}

/// Whether `host` is this machine itself.
fn is_here(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether an entry of NO_PROXY speaks of `host` and `port`: `*`, a domain with all that is in it, an address, or a network such as
/// `10.0.0.0/8`; each may have a port.
fn exempts(entry: &str, host: &str, port: u16) -> bool {
    if entry.is_empty() || entry == "*" {
        return entry == "*";
    }
    let bare =
        |text: &str| text.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    let host = bare(host);
    let (entry, of_port) = match entry.rsplit_once(':') {
        Some((name, digits)) if !name.contains(':') || name.ends_with(']') => match digits.parse::<u16>() {
            Ok(of_port) => (name, Some(of_port)),
            Err(_) => return false,
        },
        _ => (entry, None),
    };
    if of_port.is_some_and(|of_port| of_port != port) {
        return false;
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Network::parse(&bare(entry)).is_ok_and(|network| network.holds(ip));
    }
    let domain = bare(entry.trim_start_matches('*').trim_start_matches('.'));
    let inside = host.strip_suffix(domain.as_str()).is_some_and(|front| front.is_empty() || front.ends_with('.'));
    !domain.is_empty() && inside
}

/// The addresses that begin with the same bits as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    /// A network that is written as `10.0.0.0/8`, or an address that is alone.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            let shown = printable(text, MOST_WORDS);
            format!("\"{shown}\" is neither an address nor a network; write it as \"10.0.0.7\" or \"10.0.0.0/8\"")
        };
        let (first, bits) = text.split_once('/').map_or((text, None), |(first, bits)| (first, Some(bits)));
        let first: IpAddr = first.parse().map_err(|_| wrong())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse::<u8>().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { first, bits })
    }

    /// Whether `ip` is in it. An IPv4 address that is written as an IPv6 one is that IPv4 address.
    pub fn holds(&self, ip: IpAddr) -> bool {
        let same = |ours: u128, theirs: u128, width: u8| {
            let dropped = u32::from(width - self.bits);
            ours.checked_shr(dropped).unwrap_or(0) == theirs.checked_shr(dropped).unwrap_or(0)
        };
        match (self.first, ip.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => same(ours.to_bits().into(), theirs.to_bits().into(), 32),
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => same(ours.to_bits(), theirs.to_bits(), 128),
            _ => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A proxy that answers `answer`, whatever it is told, and keeps what that was.
    struct Scripted {
        answer: Cursor<Vec<u8>>,
        told: Vec<u8>,
    }

    impl Read for Scripted {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.answer.read(buf)
        }
    }

    impl Write for Scripted {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.told.write(buf)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn scripted(answer: &[u8]) -> Scripted {
        Scripted { answer: Cursor::new(answer.to_vec()), told: Vec::new() }
    }

    /// What comes of asking `url` for bob, what it was told, and how many bytes of its answer were left.
    fn asked(url: &str, answer: &[u8]) -> (Result<(), Refusal>, Vec<u8>, usize) {
        let mut stream = scripted(answer);
        let asked = Proxy::parse(url, "mine.proxy").unwrap().ask(&mut stream, "bob.example", 5300);
        let left = answer.len() - stream.answer.position() as usize;
        (asked, stream.told, left)
    }

    fn words(refusal: &Refusal) -> &str {
        match refusal {
            Refusal::Later(why) | Refusal::Never(why) => why,
        }
    }

    #[test]
    fn an_http_proxy_is_asked_for_the_name() {
        let answer = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nPEER";
        let (came, told, left) = asked("http://al%40ice:pa%3ass@proxy:3128", answer);
        assert_eq!((came, left), (Ok(()), 4));
        let told = String::from_utf8(told).unwrap();
        let basic = BASE64_STANDARD.encode("al@ice:pa:ss");
        assert_eq!(
            told,
            format!(
                "CONNECT bob.example:5300 HTTP/1.1\r\nHost: bob.example:5300\r\nProxy-Authorization: Basic {basic}\r\n\r\n"
            )
        );
        assert!(!String::from_utf8(asked("proxy:3128", answer).1).unwrap().contains("Authorization"));
    }

    #[test]
    fn a_socks_proxy_is_asked_for_the_name_and_an_address_as_an_address() {
        let ipv4 = [5, 0, 5, 0, 0, 1, 1, 2, 3, 4, 0, 80, b'P'];
        let (came, told, left) = asked("socks5://proxy", &ipv4);
        assert_eq!((came, left), (Ok(()), 1));
        assert_eq!(told, [&[5, 1, 0, 5, 1, 0, 3, 11][..], b"bob.example", &5300u16.to_be_bytes()].concat());

        let named = [&[5, 2, 1, 0, 5, 0, 0, 3, 5][..], b"proxy\x00\x50P"].concat();
        let (came, told, left) = asked("socks5h://alice:secret@proxy:1", &named);
        assert_eq!((came, left), (Ok(()), 1));
        assert!(told.starts_with(b"\x05\x02\x00\x02\x01\x05alice\x06secret\x05\x01\x00\x03\x0bbob.example"));

        for (host, bytes) in [("192.0.2.7", &b"\x01\xc0\x00\x02\x07"[..]), ("[2001:db8::1]", b"\x04\x20\x01\x0d\xb8")] {
            let mut stream = scripted(&ipv4);
            Proxy::parse("socks5://proxy", "").unwrap().ask(&mut stream, host, 1).unwrap();
            assert!(stream.told[6..].starts_with(bytes), "{host}");
        }
    }

    /// What a proxy answers that lets nobody through, and whether it is worth another try.
    #[test]
    fn a_refusal_says_which_proxy_and_what_it_said() {
        let http = [
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", true, "answers \"502 Bad Gateway\" of bob.example:5300"),
            ("HTTP/1.0 500 Unable to connect\r\n\r\n<html>", true, "500 Unable to connect"),
            ("HTTP/1.1 403 Filtered\x1b[2J\r\n\r\n", false, "answers \"403 Filtered?[2J\"; ask those who run it"),
            ("HTTP/1.1 407 Auth\r\n\r\n", false, "wants a user and a password"),
            ("HTTP/1.1 301 Moved\r\n\r\n", false, "301 Moved"),
            ("HTTP/1.1 twohundred\r\n\r\n", false, "which has no status of HTTP"),
            ("HTTP/1.1\n\n", false, "no status"),
            ("HTTP/1.1 20\n\n", false, "no status"),
            ("SSH-2.0-OpenSSH\r\n", false, "does not speak HTTP, its answer begins with \"SSH-2\""),
            ("HTTP/1.1 200 OK\r\nVia:", true, "closed the connection before its answer was complete"),
            ("", true, "closed the connection"),
        ];
        for (answer, later, said) in http {
            let refusal = asked("http://proxy:3128", answer.as_bytes()).0.unwrap_err();
            assert_eq!(matches!(refusal, Refusal::Later(_)), later, "{answer}");
            let words = words(&refusal);
            assert!(words.starts_with("the proxy http://proxy:3128 (mine.proxy)") && words.contains(said), "{words}");
            assert!(!words.contains('\u{1b}'), "{words}");
        }
        let socks: [(&[u8], bool, &str); 9] = [
            (&[5, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0], true, "bob.example:5300 refuses"),
            (&[5, 0, 5, 4, 0, 1, 0, 0, 0, 0, 0, 0], true, "no route to bob.example:5300"),
            (&[5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0], false, "does not let calls to bob.example:5300 through"),
            (&[5, 0, 5, 99, 0, 1], false, "code 99"),
            (&[5, 0xff], false, "wants a user and a password"),
            (&[5, 2], false, "wants a user and a password"),
            (b"HTTP/1.1 400", false, "does not speak SOCKS 5, its answer begins with \"HT\""),
            (&[5, 0, 5, 0, 0, 9], false, "does not speak SOCKS 5"),
            (&[5, 0, 5], true, "closed the connection before its answer was complete"),
        ];
        for (answer, later, said) in socks {
            let refusal = asked("socks5://proxy", answer).0.unwrap_err();
            assert_eq!(matches!(refusal, Refusal::Later(_)), later, "{answer:?}");
            let words = words(&refusal);
            assert!(words.starts_with("the proxy socks5://proxy:1080 (mine.proxy)") && words.contains(said), "{words}");
        }
    }

    /// A proxy cannot make this side read on and on.
    #[test]
    fn a_header_without_end_is_not_read_to_its_end() {
        struct Endless(u64);
        impl Read for Endless {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                let front = b"HTTP/1.1 200 OK\r\nX: ";
                for byte in &mut *buf {
                    *byte = front.get(self.0 as usize).copied().unwrap_or(b'x');
                    self.0 += 1;
                }
                Ok(buf.len())
            }
        }
        impl Write for Endless {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                Ok(buf.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut endless = Endless(0);
        let refusal = Proxy::parse("proxy:1", "").unwrap().ask(&mut endless, "bob", 1).unwrap_err();
        assert!(words(&refusal).contains("no end within 16384 bytes"), "{refusal:?}");
        assert_eq!(endless.0, MOST_HEAD as u64);
    }

    #[test]
    fn a_password_is_in_no_error_and_in_no_text() {
        let secret = "hunter2";
        for url in [
            "https://alice:hunter2@proxy:1",
            "ftp://alice:hunter2@proxy:1",
            "alice:hunter2://proxy:1",
            "http://alice:hunter2%zz@proxy:1",
            "http://alice:hunter2@proxy:port",
            "http://alice:hunter2@:1",
            "http://:hunter2@proxy:1",
            "http://alice:hunter2@pro xy:1",
            "http://alice:hunter2/@proxy:1",
            "http://alice:12345/hunter2@proxy:1",
        ] {
            let why = Proxy::parse(url, "mine.proxy").unwrap_err();
            assert!(!why.contains(secret), "{why}");
            assert_eq!(Proxy::shown(url), "…");
        }
        let proxy = Proxy::parse("socks5://alice:hunter2@proxy:1", "ALL_PROXY").unwrap();
        assert_eq!(format!("{proxy:?} {proxy}"), ["the proxy socks5://proxy:1 (ALL_PROXY)"; 2].join(" "));
        assert_eq!(Proxy::shown("http://alice:hunter2@proxy"), "http://proxy:80");
        for answer in [&[5, 2, 1, 1][..], &[5, 0xff]] {
            let refusal = proxy.ask(&mut scripted(answer), "bob", 1).unwrap_err();
            assert!(!words(&refusal).contains(secret) && words(&refusal).contains("does not accept"), "{refusal:?}");
        }
        let plain = Proxy::parse("http://proxy:1", "mine.proxy").unwrap();
        for line in ["hunter2", ":hunter2", "a\u{7}:hunter2", &format!("a:hunter2{}", "x".repeat(255))] {
            assert!(!plain.clone().with_credentials(line).unwrap_err().contains(secret));
        }
        let refused = b"HTTP/1.1 407 who are you\r\n\r\n";
        let known = plain.with_credentials("alice:hunter2\n").unwrap();
        let refusal = known.ask(&mut scripted(refused), "bob", 1).unwrap_err();
        assert!(words(&refusal).contains("does not accept") && !words(&refusal).contains(secret), "{refusal:?}");
    }

    #[test]
    fn a_host_that_is_none_is_not_sent() {
        for host in ["", "a b", "a\r\nX: y", "ü", &"a".repeat(256)] {
            for url in ["http://proxy:1", "socks5://proxy"] {
                let mut stream = scripted(b"");
                assert!(matches!(Proxy::parse(url, "").unwrap().ask(&mut stream, host, 1), Err(Refusal::Never(_))));
                assert!(stream.told.is_empty());
            }
        }
    }

    #[test]
    fn the_environment_is_read_as_other_programs_read_it() {
        let env = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
            Environment::of(move |name| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()))
        };
        assert_eq!(env(&[]).unwrap().proxy("bob", 1), (None, None));
        let both = env(&[("ALL_PROXY", "socks5://all:1"), ("HTTPS_PROXY", "web:3128")]).unwrap();
        let (proxy, exempt) = both.proxy("bob", 1);
        assert_eq!(proxy.unwrap().to_string(), "the proxy http://web:3128 (HTTPS_PROXY)");
        assert_eq!(exempt, None);
        for here in ["localhost", "127.0.0.1", "[::1]"] {
            assert_eq!(both.proxy(here, 1).0, None, "{here}");
        }
        let empty = env(&[("HTTPS_PROXY", " "), ("all_proxy", "socks5://all")]).unwrap();
        assert_eq!(empty.proxy("bob", 1).0.unwrap().to_string(), "the proxy socks5://all:1080 (all_proxy)");
        let why = env(&[("HTTPS_PROXY", "https://alice:hunter2@proxy")]).unwrap_err();
        assert!(
            why.contains("HTTPS_PROXY") && why.contains("mine.proxy = \"none\"") && !why.contains("hunter2"),
            "{why}"
        );

        let list = "internal.example, .corp,*.dev  10.0.0.0/8,192.0.2.7,[2001:db8::1],bob.example:5300";
        let some = env(&[("HTTPS_PROXY", "web:3128"), ("NO_PROXY", list)]).unwrap();
        for (host, port, exempt) in [
            ("internal.example", 1, true),
            ("a.Internal.Example.", 1, true),
            ("notinternal.example", 1, false),
            ("x.corp", 1, true),
            ("corp", 1, true),
            ("x.dev", 1, true),
            ("10.200.0.1", 1, true),
            ("11.0.0.1", 1, false),
            ("192.0.2.7", 1, true),
            ("192.0.2.70", 1, false),
            ("[2001:db8::1]", 1, true),
            ("bob.example", 5300, true),
            ("bob.example", 5301, false),
        ] {
            assert_eq!(some.exempts(host, port).is_some(), exempt, "{host}:{port}");
        }
        assert_eq!(env(&[("no_proxy", "*")]).unwrap().exempts("bob", 1), Some("no_proxy"));
    }

    #[test]
    fn networks() {
        let holds = |network: &str, ip: &str| Network::parse(network).unwrap().holds(ip.parse().unwrap());
        assert!(holds("10.0.0.0/8", "10.1.2.3") && !holds("10.0.0.0/8", "11.1.2.3"));
        assert!(holds("0.0.0.0/0", "200.1.2.3") && holds("::/0", "2001:db8::1") && !holds("::/0", "10.0.0.1"));
        assert!(holds("10.0.0.7", "::ffff:10.0.0.7") && holds("2001:db8::/32", "2001:db8:5::1"));
        for wrong in ["10.0.0.0/33", "10.0.0", "", "x", "10.0.0.0/", "::/129"] {
            assert!(Network::parse(wrong).is_err(), "{wrong}");
        }
    }
}
