//! Replicas of ours: a Redis, a tool that migrates, `redis-cli --rdb`. Each is served on a thread
//! of its own, by blocking calls.
//!
//! ```text
//! +FULLRESYNC id position, then $EOF:mark records mark, or $length records    or    +CONTINUE id
//! then the stream of commands, as far as it is durable;  the replica says REPLCONF ACK position
//! ```
//!
//! A replica that takes nothing for the stall timeout, says nothing for `repl-timeout`, or lags
//! further than `client-output-buffer-limit replica` is cut off. A replica that cannot read a copy
//! of unknown length gets the length first: the copy is made twice, once to count, and empty lines
//! show meanwhile that we live. While a replica reads its copy, its own empty lines do.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quartet_layer_redis::Client;
use quartet_layer_redis::Redis;
use quartet_layer_redis::execution::image::{Broken, Image};
use quartet_layer_redis::replication::{Attachment, Follower, Given, ReplicaRequest};
use quartet_wire_resp::{Limits, Parsed, Parser};
use tokio::sync::watch;

/// Interval at which an idle thread checks for its end.
const LOOK: Duration = Duration::from_millis(100);
const WORD_LOOK: Duration = Duration::from_millis(2);
/// Time between two signs of life while a replica's copy is being prepared.
const ALIVE_MICROS: u64 = 1_000_000;
/// Upper bound on unread input of a replica. Its messages are short.
const UNREAD_BYTES_MAX: usize = 64 << 10;

pub struct Serving {
    pub layer: Arc<Redis>,
    pub client: Arc<Client>,
    pub request: ReplicaRequest,
    pub stall_timeout: Duration,
    pub stop: watch::Receiver<bool>,
}

impl Serving {
    /// Serves the replica until it goes, lags too far, or the server stops.
    pub fn run(self, socket: TcpStream) {
        let served = self.serve(&socket);
        if let Err(error) = served {
            tracing::info!(address = %self.client.address, %error, "a replica is gone");
        }
        let _ = socket.shutdown(Shutdown::Both);
    }

    fn is_over(&self) -> bool {
        *self.stop.borrow() || self.client.killed.load(Ordering::SeqCst)
    }

    fn serve(&self, socket: &TcpStream) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(Some(self.stall_timeout))?;
        let Some((follower, image)) = self.attach() else {
            return (&mut &*socket).write_all(b"-ERR max number of replicas reached\r\n");
        };
        let served = self.serve_follower(socket, &follower, image);
        self.layer.replication.detach(&follower, self.layer.engine.now_micros());
        served
    }

    /// From here on the stream holds what happens. The image is of the same moment.
    fn attach(&self) -> Option<(Arc<Follower>, Option<Image>)> {
        let mut partition = self.layer.engine.partition();
        let id = &self.layer.process.identity.run_id;
        let from = self.request.position.as_ref().filter(|(requested, _)| requested == id);
        let replica = Attachment {
            client: self.client.id,
            host: self.client.address.rsplit_once(':').map_or("", |(host, _)| host).into(),
            port: self.request.port,
            now_micros: self.layer.engine.now_micros(),
        };
        let (bytes_kept, bytes_max) = self.layer.config.backlog_limits();
        let from = from.and_then(|(_, next)| next.checked_sub(1));
        let (follower, goes_on) = self.layer.replication.attach(replica, from, bytes_kept, bytes_max)?;
        self.client.is_replica.store(true, Ordering::Relaxed);
        let served = &self.layer.replication.served;
        match (goes_on, &self.request.position) {
            (true, _) => served.partial.fetch_add(1, Ordering::Relaxed),
            (false, None) => served.full.fetch_add(1, Ordering::Relaxed),
            (false, Some(_)) => {
                served.partial_refused.fetch_add(1, Ordering::Relaxed);
                served.full.fetch_add(1, Ordering::Relaxed)
            }
        };
        self.layer.decide_on_changes();
        let image = (!goes_on).then(|| self.layer.image(&mut partition));
        Some((follower, image))
    }

    fn serve_follower(&self, socket: &TcpStream, follower: &Arc<Follower>, image: Option<Image>) -> io::Result<()> {
        let id = &self.layer.process.identity.run_id;
        match image {
            None => (&mut &*socket).write_all(format!("+CONTINUE {id}\r\n").as_bytes())?,
            Some(image) => {
                self.send_image(socket, image, follower.acknowledged.load(Ordering::Relaxed))?;
                if self.request.only_records {
                    // A client of only the records closes the connection at their end.
                    let mut byte = [0; 1];
                    socket.set_read_timeout(Some(self.stall_timeout))?;
                    return (&mut &*socket).read(&mut byte).map(drop);
                }
            }
        }
        follower
            .heard_micros
            .store(self.layer.engine.now_micros(), Ordering::Relaxed);
        self.listen(socket, follower)?;
        if self.request.takes_mark && !follower.is_online.load(Ordering::Relaxed) {
            self.await_word(follower)?;
        }
        follower.is_online.store(true, Ordering::Relaxed);
        while !self.is_over() {
            self.check_heard(follower)?;
            match self.layer.replication.give(follower, LOOK) {
                Given::Nothing => {}
                Given::Lost => return Err(io::Error::other("it lags further than the backlog")),
                Given::Bytes(bytes, dependency) => {
                    if !self.layer.engine.wait_durable(dependency) {
                        return Err(io::Error::other("the log failed"));
                    }
                    (&mut &*socket).write_all(&bytes)?;
                }
            }
        }
        Ok(())
    }

    /// A replica searches for the mark at the end of its received bytes, so nothing may follow
    /// before it confirms the mark.
    fn await_word(&self, follower: &Follower) -> io::Result<()> {
        while !follower.has_spoken.load(Ordering::Relaxed) {
            self.go_on()?;
            self.check_heard(follower)?;
            std::thread::sleep(WORD_LOOK);
        }
        Ok(())
    }

    /// A replica says each second how far it is; one that has lost its machine says nothing, and
    /// its connection need not break.
    fn check_heard(&self, follower: &Follower) -> io::Result<()> {
        let timeout_seconds: u64 = self.layer.config.text_of("repl-timeout").parse().unwrap_or(60);
        let heard_micros = follower.heard_micros.load(Ordering::Relaxed);
        let silent_micros = self.layer.engine.now_micros().saturating_sub(heard_micros);
        match silent_micros > timeout_seconds * 1_000_000 {
            true => Err(io::Error::other("it has said nothing for repl-timeout")),
            false => Ok(()),
        }
    }

    fn send_image(&self, socket: &TcpStream, mut image: Image, position: u64) -> io::Result<()> {
        let id = &self.layer.process.identity.run_id;
        if !self.layer.engine.wait_durable(image.dependency()) {
            return Err(io::Error::other("the log failed"));
        }
        let mut out = Vec::new();
        if !self.request.is_old {
            out.extend_from_slice(format!("+FULLRESYNC {id} {position}\r\n").as_bytes());
            (&mut &*socket).write_all(&out)?;
            out.clear();
        }
        let about = (!self.request.only_records).then_some((id.as_str(), position));
        match self.request.takes_mark {
            true => out.extend_from_slice(format!("$EOF:{id}\r\n").as_bytes()),
            false => {
                let mut told_micros = self.layer.engine.now_micros();
                let mut count_on = |_: &[u8]| {
                    self.go_on()?;
                    let now_micros = self.layer.engine.now_micros();
                    if now_micros >= told_micros + ALIVE_MICROS {
                        told_micros = now_micros;
                        (&mut &*socket).write_all(b"\n")?;
                    }
                    Ok(())
                };
                let counted = image.write(about, &mut count_on).map_err(told)?;
                out.extend_from_slice(format!("${}\r\n", counted.bytes).as_bytes());
            }
        }
        (&mut &*socket).write_all(&out)?;
        let written = image.write(about, &mut |part| {
            self.go_on()?;
            (&mut &*socket).write_all(part)
        });
        written.map_err(told)?;
        if self.request.takes_mark {
            (&mut &*socket).write_all(id.as_bytes())?;
        }
        Ok(())
    }

    fn go_on(&self) -> io::Result<()> {
        match self.is_over() {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }

    /// Reads what the replica says, on one more thread, which ends with the connection.
    fn listen(&self, socket: &TcpStream, follower: &Arc<Follower>) -> io::Result<()> {
        let (mut socket, follower, layer) = (socket.try_clone()?, follower.clone(), self.layer.clone());
        let listening = std::thread::Builder::new().name("replica".into());
        listening.spawn(move || {
            let (mut parser, mut unread) = (Parser::new(), Vec::new());
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = socket.read(&mut buffer) {
                follower
                    .heard_micros
                    .store(layer.engine.now_micros(), Ordering::Relaxed);
                unread.extend_from_slice(&buffer[..count]);
                if !note_positions(&mut parser, &mut unread, &follower, layer.engine.now_micros()) {
                    break;
                }
            }
            let _ = socket.shutdown(Shutdown::Both);
        })?;
        Ok(())
    }
}

fn told(broken: Broken<io::Error>) -> io::Error {
    match broken {
        Broken::Unreadable => io::Error::other("the disk did not give back what is stored"),
        Broken::Taker(error) => error,
    }
}

/// Takes each `REPLCONF ACK position`, with `FACK position` after it from a replica that writes to
/// its disk (<https://redis.io/docs/latest/commands/waitaof/>). False if the replica says something
/// else altogether.
fn note_positions(parser: &mut Parser, unread: &mut Vec<u8>, follower: &Follower, now_micros: u64) -> bool {
    let limits = Limits {
        bulk_bytes_max: UNREAD_BYTES_MAX,
        elements_max: 16,
        ..Limits::default()
    };
    loop {
        match parser.parse(unread, &limits) {
            Ok(Parsed::Request { consumed }) => {
                let arguments = parser.arguments(unread);
                let is_position = arguments.len() >= 3 && arguments[1].eq_ignore_ascii_case(b"ack");
                let position = std::str::from_utf8(arguments.get(2).unwrap_or_default());
                if let (true, Some(position)) = (is_position, position.ok().and_then(|text| text.parse().ok())) {
                    follower.has_spoken.store(true, Ordering::Relaxed);
                    follower.acknowledged.fetch_max(position, Ordering::Relaxed);
                    let has_disk = arguments.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"fack"));
                    let on_disk = std::str::from_utf8(arguments.get(4).unwrap_or_default()).ok();
                    if let (true, Some(on_disk)) = (has_disk, on_disk.and_then(|text| text.parse().ok())) {
                        follower.on_disk.fetch_max(on_disk, Ordering::Relaxed);
                    }
                    follower.acknowledged_micros.store(now_micros, Ordering::Relaxed);
                }
                unread.drain(..consumed);
            }
            Ok(Parsed::Nothing { consumed }) => drop(unread.drain(..consumed)),
            Ok(Parsed::Incomplete { .. }) => return unread.len() < UNREAD_BYTES_MAX,
            Err(_) => return false,
        }
    }
}
