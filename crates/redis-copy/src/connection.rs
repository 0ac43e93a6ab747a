//! A connection to a Redis server, and what a target is.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quartet_wire_resp::{Value, decode, encode_command};

use crate::address::Address;
use crate::error::{Error, Result};
use crate::tls::Secured;

/// Takes requests and answers each, in order.
pub trait Target {
    /// Replies may be waited for later, so that several requests are in flight. A caller that sends
    /// more than [`IN_FLIGHT_BYTES_MAX`] of requests without taking a reply may wait indefinitely.
    fn send(&mut self, requests: &[u8]) -> Result<()>;

    fn receive(&mut self) -> Result<Value>;

    /// One request, one reply.
    fn call(&mut self, words: &[&[u8]]) -> Result<Value> {
        let mut request = Vec::new();
        encode_command(words, &mut request);
        self.send(&request)?;
        self.receive()
    }
}

/// Bytes that may be sent before the first reply is taken.
pub const IN_FLIGHT_BYTES_MAX: usize = 8 << 20;
const READ_BYTES: usize = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence of the other side. A request may wait for a disk.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Polling interval of the stop flag during a wait.
const STOP_LOOK: Duration = Duration::from_millis(200);

pub struct Connection {
    socket: TcpStream,
    secured: Option<Secured>,
    input: Vec<u8>,
    /// Bytes of `input` that are done with.
    start: usize,
    /// Bytes sent that the socket has perhaps not taken yet.
    output: Vec<u8>,
    /// Longest silence of the other side.
    patience: Duration,
    /// Set to end a wait.
    stop: Option<Arc<AtomicBool>>,
}

impl Connection {
    /// Connects and authenticates. Errors are [`Error::Link`], or [`Error::Source`] if a peer
    /// rejects the other's certificate.
    pub fn open(address: &Address) -> Result<Connection> {
        let failed = |error: io::Error| Error::Link(format!("connecting to {address}: {error}"));
        let places = (address.host.as_str(), address.port)
            .to_socket_addrs()
            .map_err(failed)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name leads nowhere");
        for place in places {
            match TcpStream::connect_timeout(&place, CONNECT_TIMEOUT) {
                Ok(socket) => return Connection::new(socket, address),
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Connects to the target. Errors are [`Error::Target`].
    pub fn open_target(address: &Address) -> Result<Connection> {
        Connection::open(address).map_err(|error| match error {
            Error::Link(text) | Error::Source(text) => Error::Target(text),
            error => error,
        })
    }

    fn new(mut socket: TcpStream, address: &Address) -> Result<Connection> {
        let set = |socket: &TcpStream| -> io::Result<()> {
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
            socket.set_write_timeout(Some(SILENCE_MAX))
        };
        set(&socket).map_err(link)?;
        let secured = match &address.tls {
            Some(tls) => {
                let failed = |error: io::Error| {
                    let text = format!("TLS with {address}: {error}");
                    match error.kind() {
                        // Not trusted, or files that cannot be used: to try again changes nothing.
                        io::ErrorKind::InvalidData | io::ErrorKind::Other => Error::Source(text),
                        _ => Error::Link(text),
                    }
                };
                Some(tls.secure(&mut socket, &address.host).map_err(failed)?)
            }
            None => None,
        };
        socket.set_read_timeout(Some(STOP_LOOK)).map_err(link)?;
        let mut connection = Connection {
            socket,
            secured,
            input: Vec::new(),
            start: 0,
            output: Vec::new(),
            patience: SILENCE_MAX,
            stop: None,
        };
        if let Some(password) = &address.password {
            let user = address.user.as_deref().map(str::as_bytes);
            let words: Vec<&[u8]> = [b"AUTH".as_slice()]
                .into_iter()
                .chain(user)
                .chain([password.as_bytes()])
                .collect();
            if let Value::Error(text) = connection.call(&words)? {
                return Err(Error::Source(format!(
                    "{address} refuses the credential: {}",
                    String::from_utf8_lossy(&text)
                )));
            }
        }
        Ok(connection)
    }

    /// Waiting for the other side ends when the flag is set.
    pub fn ends_with(&mut self, stop: Option<Arc<AtomicBool>>) {
        self.stop = stop;
    }

    /// Reads more from the socket, waiting for at most `timeout`. Returns false if no bytes
    /// arrived.
    pub fn read_more(&mut self, timeout: Duration) -> Result<bool> {
        self.socket.set_read_timeout(Some(timeout)).map_err(link)?;
        self.patience = timeout;
        let read = self.fill();
        self.patience = SILENCE_MAX;
        self.socket.set_read_timeout(Some(STOP_LOOK)).map_err(link)?;
        read
    }

    /// Returns false on a timeout.
    fn fill(&mut self) -> Result<bool> {
        if self.start > 0 && self.start == self.input.len() {
            (self.start, _) = (0, self.input.clear());
        } else if self.start >= self.input.len() / 2 && self.start > READ_BYTES {
            self.input.drain(..self.start);
            self.start = 0;
        }
        // Reads up to the size of the buffered input, so that a caller that rescans the whole does
        // so rarely.
        let unread = self.input.len() - self.start;
        let old = self.input.len();
        self.input.resize(old + unread.clamp(READ_BYTES, 16 << 20), 0);
        let started = Instant::now();
        let read = loop {
            let room = &mut self.input[old..];
            let read = match &mut self.secured {
                Some(secured) => secured.read(&mut self.socket, room),
                None => self.socket.read(room),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) && started.elapsed() < self.patience => {
                    if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                        break Err(io::ErrorKind::ConnectionAborted.into());
                    }
                }
                read => break read,
            }
        };
        self.input.truncate(old + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(Error::Link("the connection was closed".into())),
            Ok(_) => Ok(true),
            Err(error) if is_timeout(&error) => Ok(false),
            Err(error) => Err(link(error)),
        }
    }

    /// Bytes received that are not consumed yet.
    pub fn unread(&self) -> &[u8] {
        &self.input[self.start..]
    }

    pub fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// A line without its end. Empty lines, which a busy server sends to show that it lives, are
    /// passed over.
    pub fn line(&mut self) -> Result<Vec<u8>> {
        const LINE_BYTES_MAX: usize = 64 << 10;
        loop {
            if let Some(end) = self.unread().iter().position(|&byte| byte == b'\n') {
                let line = self.unread()[..end].trim_ascii_end().to_vec();
                self.consume(end + 1);
                if !line.is_empty() {
                    return Ok(line);
                }
            } else if self.unread().len() > LINE_BYTES_MAX || !self.fill()? {
                return Err(Error::Link("no answer".into()));
            }
        }
    }
}

/// Bytes that follow, as a reader sees them.
impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.unread().is_empty() {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return Err(io::ErrorKind::TimedOut.into()),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        let count = self.unread().len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.unread()[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl Target for Connection {
    /// Never blocks on a socket whose peer waits for our reads: bytes that it does not accept
    /// immediately are sent while replies are received.
    fn send(&mut self, requests: &[u8]) -> Result<()> {
        self.output.extend_from_slice(requests);
        self.write_some()
    }

    fn receive(&mut self) -> Result<Value> {
        loop {
            match decode(self.unread()) {
                Ok(Some((value, consumed))) => {
                    self.consume(consumed);
                    return Ok(value);
                }
                Ok(None) if self.output.is_empty() => {
                    if !self.fill()? {
                        return Err(Error::Link("no answer".into()));
                    }
                }
                Ok(None) => {
                    self.write_some()?;
                    if !self.output.is_empty() {
                        self.read_more(Duration::from_millis(5))?;
                    }
                }
                Err(error) => return Err(Error::Link(error.to_string())),
            }
        }
    }
}

impl Connection {
    fn write_some(&mut self) -> Result<()> {
        self.socket.set_nonblocking(true).map_err(link)?;
        let mut sent = 0;
        let outcome = loop {
            let written = match &mut self.secured {
                Some(secured) => secured.write(&mut self.socket, &self.output[sent..]),
                None => self.socket.write(&self.output[sent..]),
            };
            match written {
                Ok(0) if sent < self.output.len() => break Ok(()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(link(error)),
            }
            if sent == self.output.len() {
                break Ok(());
            }
        };
        self.output.drain(..sent);
        self.socket.set_nonblocking(false).map_err(link)?;
        outcome
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn link(error: io::Error) -> Error {
    Error::Link(error.to_string())
}

/// The text of an error reply.
pub fn error_text(value: &Value) -> Option<String> {
    match value {
        Value::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

/// The text of a reply, empty if it has none.
pub fn text(value: &Value) -> String {
    match value {
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => {
            String::from_utf8_lossy(text).into_owned()
        }
        _ => String::new(),
    }
}

impl Connection {
    /// Prepends bytes to the unread input, which a caller has read too far.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        let unread = self.unread().to_vec();
        self.input = [bytes, unread].concat();
        self.start = 0;
    }
}
