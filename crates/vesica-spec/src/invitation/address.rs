//! The address at which the party that is invited calls the other one.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV6};

/// The longest `host:port`: a name of DNS has at most 253 characters.
const LONGEST: usize = 260;

/// The host and the port of `host:port`, if `address` is one, in characters that show what they are. A number of IPv6 stands in brackets
/// there, perhaps with the number of a network card behind a `%`. It comes back without both.
pub fn host_and_port(address: &str) -> Option<(&str, u16)> {
    if address.len() > LONGEST || !address.chars().all(|c| c.is_ascii_graphic()) {
        return None;
    }
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let host = match host.strip_prefix('[') {
        Some(host) => {
            address.parse::<SocketAddrV6>().ok()?;
            host.split(['%', ']']).next()
        }
        // Without brackets nobody could say where a number of IPv6 ends and the port begins.
        None => Some(host).filter(|host| !host.is_empty() && !host.contains([':', ']']) && !is_old_number(host)),
    };
    Some((host?, port))
}

/// Whether `host` is a number of IPv4 in a form that only some systems still take: fewer than four parts, as `0`, or parts that are not
/// decimal, as `0x7f.1` or `0177.1`. Anything else is a name, also one that ends in a number, as the names of containers may.
fn is_old_number(host: &str) -> bool {
    let parts: Vec<&str> = host.trim_end_matches('.').split('.').collect();
    parts.len() <= 4 && parts.into_iter().all(is_part_of_a_number) && host.parse::<Ipv4Addr>().is_err()
}

/// Whether this is a number of 32 bits as C writes it: decimal, octal behind `0`, or hexadecimal behind `0x`. Some systems take `0x` alone
/// for zero.
fn is_part_of_a_number(part: &str) -> bool {
    let is_number = |digits: &str, radix| !digits.starts_with('+') && u32::from_str_radix(digits, radix).is_ok();
    match part.strip_prefix("0x").or_else(|| part.strip_prefix("0X")) {
        Some(digits) => digits.is_empty() || is_number(digits, 16),
        None => is_number(part, if part.starts_with('0') { 8 } else { 10 }),
    }
}

/// Whether `host` stands for every interface of a machine. One can listen there. Whoever calls it reaches their own machine.
pub fn is_every_interface(host: &str) -> bool {
    host == "*" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (address, host) in [
            ("alice.example:5300", "alice.example"),
            ("192.0.2.1:5300", "192.0.2.1"),
            ("[2001:db8::1]:5300", "2001:db8::1"),
            ("[::1]:5300", "::1"),
            ("[fe80::1%2]:5300", "fe80::1"),
            ("[::%2]:5300", "::"),
            ("0.0.0.0:5300", "0.0.0.0"),
            ("10.alice.example:5300", "10.alice.example"),
            ("0x.example:5300", "0x.example"),
            ("alice7:5300", "alice7"),
            ("node.1:5300", "node.1"),
            ("alice.0x1f:5300", "alice.0x1f"),
            ("123456789012:5300", "123456789012"),
            ("1.2.3.4.5:5300", "1.2.3.4.5"),
        ] {
            assert_eq!(host_and_port(address), Some((host, 5300)));
        }
        for address in [
            "",
            ":5300",
            "alice.example",
            "alice.example:",
            "alice.example:0",
            "alice.example:65536",
            "alice example:5300",
            "alice\u{202e}.example:5300",
            "2001:db8::1:5300",
            "[2001:db8::1]",
            "[2001:db8::1:5300",
            "2001:db8::1]:5300",
            "[alice.example]:5300",
            "[192.0.2.1]:5300",
            "[]:5300",
            "[%2]:5300",
            "[fe80::1%]:5300",
            // A name of a network card cannot be called.
            "[fe80::1%eth0]:5300",
            "0:5300",
            "0.0:5300",
            "0x0:5300",
            "0X0.0:5300",
            "00.0.0.0:5300",
            "0.0.0.0.:5300",
            "127.1:5300",
            "0x7f000001:5300",
            "2130706433:5300",
            "017700000001:5300",
        ] {
            assert_eq!(host_and_port(address), None, "{address}");
        }
        assert_eq!(host_and_port(&format!("{}:1", "a".repeat(LONGEST))), None);
    }

    #[test]
    fn every_interface_is_nobody_in_particular() {
        for host in ["0.0.0.0", "::", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0", "*"] {
            assert!(is_every_interface(host), "{host}");
        }
        for host in ["127.0.0.1", "::1", "192.0.2.1", "2001:db8::1", "alice.example", "localhost"] {
            assert!(!is_every_interface(host), "{host}");
        }
    }
}
