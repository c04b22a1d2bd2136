//! The PROXY protocol, versions 1 and 2 (HAProxy's `proxy-protocol.txt`): how a gateway says for whom it calls. Its header stands before the first
//! byte of TLS.

use crate::text::beginning;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest header of version 1, its end of line included (section 2.1).
const MOST_LINE: usize = 107;

/// What every header of version 2 begins with (section 2.2).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The most bytes behind the front of a header of version 2. The addresses take 36, and gateways say some hundred bytes more of TLS.
const MOST_MORE: usize = 4096;

/// Reads a gateway's header to its end, and no byte further. Gives the address for which it calls; none if it calls for itself, as to see
/// whether somebody listens, or does not know.
///
/// # Errors
/// In words, if there is no such header or it is not written as it should be.
pub(crate) fn announced(stream: &mut impl Read) -> Result<Option<SocketAddr>, String> {
    let mut first = [0];
    stream.read_exact(&mut first).map_err(|e| cut(&e))?;
    match first {
        [b'P'] => line(stream),
        [b'\r'] => binary(stream),
        other => Err(format!("it sends no header of the PROXY protocol, it begins with {}", beginning(&other))),
    }
}

fn cut(e: &io::Error) -> String {
    match e.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            "it did not finish its header of the PROXY protocol in time".into()
        }
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
            "it went away before its header of the PROXY protocol was complete".into()
        }
        _ => e.to_string(),
    }
}

/// Version 1: `PROXY TCP4 192.0.2.7 198.51.100.1 4711 5300`, with CR and LF at its end.
fn line(stream: &mut impl Read) -> Result<Option<SocketAddr>, String> {
    let mut text = vec![b'P'];
    while !text.ends_with(b"\r\n") {
        if text.len() == MOST_LINE {
            return Err(format!("its header of the PROXY protocol has no end within {MOST_LINE} bytes"));
        }
        let mut byte = [0];
        stream.read_exact(&mut byte).map_err(|e| cut(&e))?;
        text.extend(byte);
    }
    let wrong = || format!("its header of the PROXY protocol is written wrongly, it begins with {}", beginning(&text));
    let words: Vec<&str> = str::from_utf8(&text).map_err(|_| wrong())?.trim_end_matches("\r\n").split(' ').collect();
    match words.as_slice() {
        ["PROXY", "UNKNOWN", ..] => Ok(None),
        ["PROXY", kind @ ("TCP4" | "TCP6"), from, to, port, to_port] => {
            let ip = |text: &str| text.parse::<IpAddr>().ok().filter(|ip| ip.is_ipv4() == (*kind == "TCP4"));
            // As digits alone: `parse` would take a sign.
            let number =
                |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u16>().ok()).flatten();
            match (ip(from), ip(to), number(port), number(to_port)) {
                (Some(ip), Some(_), Some(port), Some(_)) => Ok(Some((ip, port).into())),
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

/// Version 2: the signature, the version and the command, the family, a length, and addresses.
fn binary(stream: &mut impl Read) -> Result<Option<SocketAddr>, String> {
    let mut front = [0; 16];
    front[0] = b'\r';
    let [_, rest @ ..] = &mut front;
    stream.read_exact(rest).map_err(|e| cut(&e))?;
    let [signature @ .., command, family, high, low] = front;
    if signature != SIGNATURE {
        return Err(format!("it sends no header of the PROXY protocol, it begins with {}", beginning(&front)));
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > MOST_MORE {
        return Err(format!("its header of the PROXY protocol is of {length} bytes, and {MOST_MORE} is the most here"));
    }
    let mut more = vec![0; length];
    stream.read_exact(&mut more).map_err(|e| cut(&e))?;
    let short = || format!("its header of the PROXY protocol is too short for its addresses: {length} bytes");
    let port = |bytes: &[u8; 2]| u16::from_be_bytes(*bytes);
    match (command, family) {
        // LOCAL.
        (0x20, _) => Ok(None),
        // PROXY, over TCP.
        (0x21, 0x11) => {
            let (addresses, _) = more.split_first_chunk::<12>().ok_or_else(short)?;
            let [a, b, c, d, _, _, _, _, p, q, _, _] = *addresses;
            Ok(Some((Ipv4Addr::new(a, b, c, d), port(&[p, q])).into()))
        }
        (0x21, 0x21) => {
            let (from, rest) = more.split_first_chunk::<16>().ok_or_else(short)?;
            let (ports, _) = rest.get(16..).and_then(|rest| rest.split_first_chunk::<4>()).ok_or_else(short)?;
            let [p, q, _, _] = *ports;
            Ok(Some((Ipv6Addr::from(*from), port(&[p, q])).into()))
        }
        // PROXY, for something else than an address of TCP.
        (0x21, 0x00) => Ok(None),
        _ => Err(format!(
            "its header of the PROXY protocol has command {command:#04x} and family {family:#04x}, not those of TCP"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of `bytes` with more behind them, and how many bytes were read.
    fn read(bytes: &[u8]) -> (Result<Option<SocketAddr>, String>, usize) {
        let all = [bytes, b"\x16\x03\x01"].concat();
        let mut stream = io::Cursor::new(&all);
        let read = announced(&mut stream);
        (read, stream.position() as usize)
    }

    fn version_2(command: u8, family: u8, more: &[u8]) -> Vec<u8> {
        let length = (more.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, more].concat()
    }

    #[test]
    fn both_versions_are_read_to_their_last_byte() {
        let v4 = [&[192, 0, 2, 7, 198, 51, 100, 1][..], &4711u16.to_be_bytes(), &5300u16.to_be_bytes()].concat();
        let (from, to) = ("2001:db8::7".parse::<Ipv6Addr>().unwrap(), "2001:db8::1".parse::<Ipv6Addr>().unwrap());
        let v6 = [&from.octets()[..], &to.octets(), &4711u16.to_be_bytes(), &5300u16.to_be_bytes()].concat();
        let longer = [&v4[..], b"\x01\x00\x06vesica"].concat();
        for (header, from) in [
            (b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 5300\r\n".to_vec(), Some("192.0.2.7:4711")),
            (b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 5300\r\n".to_vec(), Some("[2001:db8::7]:4711")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN whatever it says\r\n".to_vec(), None),
            (version_2(0x21, 0x11, &v4), Some("192.0.2.7:4711")),
            (version_2(0x21, 0x11, &longer), Some("192.0.2.7:4711")),
            (version_2(0x21, 0x21, &v6), Some("[2001:db8::7]:4711")),
            (version_2(0x20, 0x00, &[]), None),
            (version_2(0x21, 0x00, &[]), None),
        ] {
            let from = from.map(|from| from.parse().unwrap());
            assert_eq!(read(&header), (Ok(from), header.len()), "{header:?}");
            // Cut anywhere, it is refused.
            for end in 0..header.len() {
                let cut = announced(&mut io::Cursor::new(&header[..end]));
                assert!(cut.is_err(), "{end} bytes of {header:?}: {cut:?}");
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let endless = [&b"PROXY TCP4 "[..], &[b'1'; 5000]].concat();
        for (bytes, why) in [
            (&b"\x16\x03\x01"[..], "sends no header of the PROXY protocol"),
            (b"PROXY TCP4 192.0.2.7 198.51.100.1 4711\r\n", "written wrongly"),
            (b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 99999\r\n", "written wrongly"),
            (b"PROXY TCP4 192.0.2.7 198.51.100.1 +11 5300\r\n", "written wrongly"),
            (b"PROXY TCP4 2001:db8::7 2001:db8::1 4711 5300\r\n", "written wrongly"),
            (b"PROXY TCP4 192.0.2.7  198.51.100.1 4711 5300\r\n", "written wrongly"),
            (b"PROXY \xff\r\n", "written wrongly"),
            (b"POST / HTTP/1.1\r\n", "written wrongly"),
            (&endless, "no end within 107 bytes"),
            (b"\r\n\r\nGET / HTTP/1.1\r\n", "sends no header"),
            (&version_2(0x21, 0x11, &[0; 11]), "too short"),
            (&version_2(0x21, 0x21, &[0; 35]), "too short"),
            (&version_2(0x21, 0x12, &[0; 12]), "family 0x12"),
            (&version_2(0x11, 0x11, &[0; 12]), "command 0x11"),
            (&version_2(0x21, 0x11, &[0; 4097]), "4096 is the most"),
        ] {
            let (refused, at) = read(bytes);
            let words = refused.unwrap_err();
            assert!(words.contains(why) && !words.contains(char::is_control), "{why}: {words}");
            assert!(at <= MOST_LINE.max(16 + MOST_MORE), "{at} bytes were read");
        }
    }
}
