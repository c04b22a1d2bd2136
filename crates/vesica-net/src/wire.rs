//! A connection while it is being made. The handshake, with TLS or without, has one deadline.

use crate::command::Errand;
use crate::crypt::Crypt;
use crate::gateway::announced;
use crate::hitch::Hitch;
use crate::text::beginning;
use crate::version::{MAGIC, is_ours};
use crate::{Fingerprint, tls};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, Connection, ServerConnection};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The first byte of every TLS record of a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// The first byte of a TLS alert.
const TLS_ALERT: u8 = 0x15;

/// A fatal TLS alert, `unexpected_message`: how a TLS side says to a plaintext one that it speaks TLS.
const ALERT: [u8; 7] = [TLS_ALERT, 3, 3, 0, 2, 2, 10];

/// A socket whose every operation ends by one deadline, however little the other end sends at a time.
pub(crate) struct Timed<'a> {
    pub socket: &'a TcpStream,
    pub until: Instant,
    /// Bytes sent and received so far.
    pub traffic: &'a mut (u64, u64),
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }

    fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.peek(buf).map_err(timed_out)
    }
}

/// A socket timeout reads as `WouldBlock`, which the TLS library would take for "later".
fn timed_out(e: io::Error) -> io::Error {
    if e.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { e }
}

impl Read for Timed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        let n = self.socket.read(buf).map_err(timed_out)?;
        self.traffic.1 += n as u64;
        Ok(n)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    // The TLS library tries only once to send its last words, and they may lie in several pieces.
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        let n = self.socket.write_vectored(bufs).map_err(timed_out)?;
        self.traffic.0 += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that is being made: every operation ends by the deadline.
pub(crate) struct Wire {
    pub socket: TcpStream,
    pub crypt: Crypt,
    pub until: Instant,
    /// Bytes sent and received so far.
    pub traffic: (u64, u64),
    /// The address of the peer, if it is known.
    pub address: Option<SocketAddr>,
    /// This side's certificate, once TLS has begun.
    pub ours: Option<Fingerprint>,
    /// The command whose input and output the socket is, if it is that of one.
    pub errand: Option<Arc<Errand>>,
}

impl Wire {
    /// A connection whose handshake begins now.
    pub fn new(socket: TcpStream) -> Self {
        tune(&socket);
        let address = socket.peer_addr().ok();
        Wire {
            socket,
            crypt: Crypt::Plain,
            until: Instant::now() + HANDSHAKE,
            traffic: (0, 0),
            address,
            ours: None,
            errand: None,
        }
    }

    /// The dialling side's handshake.
    pub fn dial(&mut self, tls: Option<tls::Client>) -> std::result::Result<(), Hitch> {
        let Some(tls::Client { config, ours, name }) = tls else { return Ok(()) };
        self.ours = Some(ours);
        let broken = |e: rustls::Error| Hitch::Foreign(format!("TLS cannot begin: {e}"));
        let mut conn = ClientConnection::new(config, name).map_err(broken)?;
        while conn.wants_write() {
            conn.write_tls(&mut self.timed())?;
        }
        let mut first = [0; 16];
        let n = self.timed().peek(&mut first)?;
        match first.get(..n).unwrap_or_default() {
            [] => return Err(Hitch::Cut("it closed the connection without a word".into())),
            [TLS_HANDSHAKE | TLS_ALERT, ..] => {}
            all if is_ours(all) => {
                return Err(Hitch::Foreign(
                    "it speaks plaintext (insecure = true there) where this job wants TLS; give both jobs the same"
                        .into(),
                ));
            }
            other => {
                return Err(Hitch::Foreign(format!(
                    "what answers there is not Vesica, it begins with {}; check the address",
                    beginning(other)
                )));
            }
        }
        self.handshake(conn.into())
    }

    /// The listening side's handshake.
    pub fn accept(&mut self, tls: Option<tls::Server>) -> std::result::Result<(), Hitch> {
        let mut first = [0; 16];
        let n = self.timed().peek(&mut first).map_err(|e| match e.kind() {
            ErrorKind::TimedOut => Hitch::Cut("it connected and said nothing".into()),
            _ => e.into(),
        })?;
        match (first.get(..n).unwrap_or_default(), tls) {
            ([], _) => Err(Hitch::Cut("it connected and went away".into())),
            ([TLS_HANDSHAKE, ..], Some(tls::Server { config, ours })) => {
                self.ours = Some(ours);
                let conn = ServerConnection::new(config).map_err(|e| Hitch::Foreign(e.to_string()))?;
                self.handshake(conn.into())
            }
            ([TLS_HANDSHAKE, ..], None) => {
                // The beginning of our greeting is how the other end can tell what this is.
                let _ = self.timed().write_all(&MAGIC);
                Err(Hitch::Foreign("it speaks TLS where this job says insecure = true; give both jobs the same".into()))
            }
            (all, Some(_)) if is_ours(all) => {
                let _ = self.timed().write_all(&ALERT);
                Err(Hitch::Foreign(
                    "it speaks plaintext (insecure = true there) where this job wants TLS; give both jobs the same"
                        .into(),
                ))
            }
            (all, None) if is_ours(all) => Ok(()),
            (other, _) => Err(Hitch::Foreign(format!("it is not Vesica, it begins with {}", beginning(other)))),
        }
    }

    fn handshake(&mut self, mut conn: Connection) -> std::result::Result<(), Hitch> {
        while conn.is_handshaking() {
            let (read, written) = conn.complete_io(&mut self.timed())?;
            if conn.is_handshaking() && read == 0 && written == 0 {
                return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
            }
        }
        // Frames are cut and bounded before they come here, so nothing may be left over.
        conn.set_buffer_limit(None);
        self.crypt = Crypt::Tls(Box::new(conn));
        Ok(())
    }

    /// Reads what a gateway says before the first byte of the handshake: for whom it calls, if for somebody.
    pub fn announced(&mut self) -> std::result::Result<Option<SocketAddr>, Hitch> {
        announced(&mut self.timed()).map_err(Hitch::Foreign)
    }

    fn timed(&mut self) -> Timed<'_> {
        Timed { socket: &self.socket, until: self.until, traffic: &mut self.traffic }
    }

    /// Fills `buf`.
    pub fn read_exact(&mut self, mut buf: &mut [u8]) -> std::result::Result<(), Hitch> {
        let mut timed = Timed { socket: &self.socket, until: self.until, traffic: &mut self.traffic };
        let Crypt::Tls(conn) = &mut self.crypt else { return Ok(timed.read_exact(buf)?) };
        while !buf.is_empty() {
            match conn.reader().read(buf) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(n) => buf = buf.get_mut(n..).unwrap_or_default(),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if conn.read_tls(&mut timed)? == 0 {
                        return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
                    }
                    if let Err(e) = conn.process_new_packets() {
                        let _ = conn.write_tls(&mut timed);
                        return Err(io::Error::new(ErrorKind::InvalidData, e).into());
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Sends all of `buf`.
    pub fn write_all(&mut self, buf: &[u8]) -> std::result::Result<(), Hitch> {
        let mut wire = Vec::new();
        self.crypt.seal(&[IoSlice::new(buf)], &mut wire)?;
        Ok(self.timed().write_all(&wire)?)
    }

    /// Ends a connection that is not to be, so that our last words arrive: a socket that is closed with unread bytes in
    /// it takes back what it has sent.
    pub fn part(mut self) {
        self.until = self.until.min(Instant::now() + Duration::from_secs(1));
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        let mut rest = [0; 4096];
        while self.timed().read(&mut rest).is_ok_and(|n| n > 0) {}
    }

    /// The other end's certificate chain.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        match &self.crypt {
            Crypt::Tls(conn) => conn.peer_certificates().unwrap_or_default(),
            Crypt::Plain => &[],
        }
    }

    /// Whether nobody is authenticated on it.
    pub fn is_plain(&self) -> bool {
        matches!(self.crypt, Crypt::Plain)
    }

    /// The cipher suite that was agreed, and how keys were exchanged.
    pub fn cipher(&self) -> Option<String> {
        match &self.crypt {
            Crypt::Tls(conn) => {
                let group = conn.negotiated_key_exchange_group().map(|group| format!(", {:?}", group.name()));
                let suite = conn.negotiated_cipher_suite()?.suite();
                Some(format!("{suite:?}{}", group.unwrap_or_default()))
            }
            Crypt::Plain => None,
        }
    }
}

/// No delays for small messages, and a word now and then for the firewalls between. Buffer sizes are left to the kernel:
/// it grows them as the path needs, and stops doing so for whoever sets one.
fn tune(socket: &TcpStream) {
    let _ = socket.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    let _ = SockRef::from(socket).set_tcp_keepalive(&keepalive);
}
