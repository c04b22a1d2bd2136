//! What stands between the frames and the socket: TLS records, or nothing.

use rustls::Connection;
use std::io::{self, BufRead, ErrorKind, IoSlice, Write};

/// What stands between the frames and the socket.
pub(crate) enum Crypt {
    Tls(Box<Connection>),
    Plain,
}

impl Crypt {
    /// Appends `parts`, one after the other, to `wire` as they travel.
    pub fn seal(&mut self, parts: &[IoSlice<'_>], wire: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Crypt::Plain => parts.iter().for_each(|part| wire.extend_from_slice(part)),
            Crypt::Tls(conn) => {
                let bytes: usize = parts.iter().map(|part| part.len()).sum();
                if bytes > 0 && conn.writer().write_vectored(parts)? != bytes {
                    return Err(io::Error::other("TLS took only a part of a frame"));
                }
                while conn.wants_write() {
                    conn.write_tls(wire)?;
                }
            }
        }
        Ok(())
    }

    /// Appends what `wire` brought to `plain`; says whether the other end has closed its half.
    pub fn open(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> std::result::Result<bool, rustls::Error> {
        let Crypt::Tls(conn) = self else {
            plain.extend_from_slice(wire);
            return Ok(false);
        };
        loop {
            // First what is there already: the handshake may have read further than the handshake.
            loop {
                let mut reader = conn.reader();
                match reader.fill_buf() {
                    Ok([]) => return Ok(true),
                    Ok(chunk) => {
                        plain.extend_from_slice(chunk);
                        let n = chunk.len();
                        reader.consume(n);
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => return Ok(true),
                }
            }
            if wire.is_empty() {
                return Ok(false);
            }
            conn.read_tls(&mut wire).map_err(|e| rustls::Error::General(e.to_string()))?;
            conn.process_new_packets()?;
        }
    }
}
