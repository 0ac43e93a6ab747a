//! Sentinel's protocol, for clients that query a sentinel for the server's address. A single server
//! names itself, a node of a cluster the home, and the other nodes as its replicas.
//!
//! No credential is needed, as with a Redis Sentinel without a password: the only information is an
//! address. The commands are those of clients
//! (<https://redis.io/docs/latest/develop/reference/sentinel-clients/>) and those for an operator's
//! inspection. Subscribers receive `+switch-master` after a change of home, and no other message: a
//! node's failure is not reported. In a cluster a connection outlives the terms of its node.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use quartet_layer_redis::command::glob;
use quartet_layer_redis::{Announcement, Identity};
use quartet_wire_resp::{Args, Arguments, Limits, Parsed, Protocol, Reply, parse};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::connections::accept::{Admitting, Entrance};
use crate::connections::handoff::{Arrival, IoThread};
use crate::connections::tls::{Speaks, Tls, TlsEntrance, Transport};
use crate::connections::waker::ThreadWaker;
use crate::layers::parts::Nodes;
use crate::limits::connection_limit::{ConnectionLimit, Permit, Place};
use crate::limits::transfer_deadline::Pace;
use crate::limits::unauthenticated_input::{StrangerBytes, StrangerInput};
use crate::settings::cluster::split;

/// Most bytes of requests that have arrived and are not answered.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Answers beyond this are sent before the next request is looked at.
const OUTPUT_BYTES: usize = 64 << 10;
/// Most channels of one connection.
const CHANNELS_MAX: usize = 64;
/// How slowly answers may be taken.
const PACE: Pace = Pace {
    timeout: std::time::Duration::from_secs(10),
    bytes_per_second: 16 << 10,
};

/// The facts that clients get.
pub struct Sentinel {
    pub master_name: String,
    pub identity: Identity,
    /// The address of the server; for absent parts, the address at which the client has reached the
    /// sentinel.
    pub announcement: Announcement,
    /// The cluster that the server is a node of, if it is one.
    pub nodes: Option<Weak<dyn Nodes>>,
}

impl Sentinel {
    fn nodes(&self) -> Option<Arc<dyn Nodes>> {
        self.nodes.as_ref().and_then(Weak::upgrade)
    }

    /// The nodes beside the home, in the order of their addresses.
    fn replicas(&self) -> Vec<(String, u16)> {
        let Some(nodes) = self.nodes() else {
            return Vec::new();
        };
        let home = nodes.redis_home().borrow().clone();
        let nodes_with_redis = nodes.others().into_iter().filter_map(|node| node.redis);
        let mut all: Vec<String> = nodes_with_redis
            .chain(nodes.own_redis())
            .filter(|node| Some(node) != home.as_ref())
            .collect();
        all.sort();
        all.iter().filter_map(|address| split(address)).collect()
    }

    /// The sentinels of the other nodes.
    fn others(&self) -> Vec<(String, u16)> {
        let others = self.nodes().map(|nodes| nodes.others()).unwrap_or_default();
        let sentinels = others.into_iter().filter_map(|node| node.sentinel);
        sentinels.filter_map(|address| split(&address)).collect()
    }
}

/// The way to a sentinel.
pub struct SentinelEntrance {
    pub sentinel: Arc<Sentinel>,
    pub tls: Arc<Tls>,
    pub limit: Arc<ConnectionLimit>,
    pub stranger_bytes: Arc<StrangerBytes>,
}

/// A connection on its way to its I/O thread.
struct SentinelAccepted {
    socket: std::net::TcpStream,
    tls: Option<TlsEntrance>,
    input: StrangerInput,
    /// Given back when the connection ends.
    _permit: Permit,
    evicted: Arc<Notify>,
    sentinel: Arc<Sentinel>,
}

impl Entrance for SentinelEntrance {
    fn admit<'e>(&'e self, socket: TcpStream, peer: SocketAddr, _thread_waker: &'e Arc<ThreadWaker>) -> Admitting<'e> {
        Box::pin(async move {
            let Some(permit) = self.limit.admit(Place::Any).await else {
                return Ok(None);
            };
            socket.set_nodelay(true)?;
            let evicted = Arc::new(Notify::new());
            let notified = evicted.clone();
            permit.is_of_stranger(move || notified.notify_one());
            let accepted = SentinelAccepted {
                socket: socket.into_std()?,
                tls: self.tls.entrance(Speaks::Other, peer.ip()),
                input: self.stranger_bytes.input(peer.ip()),
                _permit: permit,
                evicted,
                sentinel: self.sentinel.clone(),
            };
            Ok(Some(Box::new(accepted) as Box<dyn Arrival>))
        })
    }
}

impl Arrival for SentinelAccepted {
    fn start(self: Box<Self>, thread: &IoThread, tasks: &mut JoinSet<()>) {
        // At a node of a cluster the layers end with their term, and subscribers stay: a change of
        // home is what they wait for.
        if let Some(nodes) = self.sentinel.nodes() {
            let lasting = watch::Sender::new(false);
            nodes.outlive_terms(Box::pin(async move { serve(*self, lasting.subscribe()).await }));
            return;
        }
        let serving = serve(*self, thread.stop.clone());
        tasks.spawn(thread.turns.with(serving));
    }
}

/// Serves a connection until either side closes it, or its place is needed.
async fn serve(accepted: SentinelAccepted, mut stop: watch::Receiver<bool>) {
    let evicted = accepted.evicted.clone();
    tokio::select! {
        _ = serve_admitted(accepted) => {}
        () = evicted.notified() => {}
        _ = stop.wait_for(|stops| *stops) => {}
    }
}

async fn serve_admitted(accepted: SentinelAccepted) -> io::Result<()> {
    let socket = TcpStream::from_std(accepted.socket)?;
    let connection = Connection {
        here: socket.local_addr()?,
        sentinel: accepted.sentinel,
        protocol: Protocol::Resp2,
        channels: Vec::new(),
    };
    match Transport::open(socket, accepted.tls).await? {
        Transport::Clear(socket) => connection.run(socket, accepted.input).await,
        Transport::Encrypted(stream) => connection.run(stream, accepted.input).await,
    }
}

struct Connection {
    sentinel: Arc<Sentinel>,
    /// The address at which the client has reached us.
    here: SocketAddr,
    protocol: Protocol,
    /// Its subscriptions: the kind's first letter, and the name.
    channels: Vec<(u8, Vec<u8>)>,
}

impl Connection {
    async fn run(
        mut self,
        mut socket: impl AsyncRead + AsyncWrite + Unpin,
        mut stranger_input: StrangerInput,
    ) -> io::Result<()> {
        let (mut input, mut output) = (Vec::new(), Vec::new());
        let mut home = self.sentinel.nodes().map(|nodes| nodes.redis_home());
        let mut master = home.as_mut().and_then(|home| home.borrow_and_update().clone());
        loop {
            let read = tokio::select! {
                read = socket.read_buf(&mut input) => read?,
                next = next_home(&mut home) => {
                    if let Some(old) = master.replace(next.clone()) {
                        self.switched(&old, &next, &mut output);
                        PACE.write_all(&mut socket, &output).await?;
                        output.clear();
                    }
                    continue;
                }
            };
            if read == 0 {
                return Ok(());
            }
            let mut goes_on = true;
            // Small questions have long answers: they are sent before there are too many.
            while goes_on {
                goes_on = self.answer_all(&mut input, &mut output);
                if output.is_empty() {
                    break;
                }
                PACE.write_all(&mut socket, &output).await?;
                output.clear();
            }
            if !goes_on || input.len() > INPUT_BYTES_MAX || !stranger_input.set(input.len()) {
                return Ok(());
            }
        }
    }

    /// Notifies subscribers of a new master: as Redis's sentinels do, by name, old and new address.
    fn switched(&self, old: &str, new: &str, output: &mut Vec<u8>) {
        const CHANNEL: &[u8] = b"+switch-master";
        let (Some((old_host, old_port)), Some((new_host, new_port))) = (split(old), split(new)) else {
            return;
        };
        let name = &self.sentinel.master_name;
        let message = format!("{name} {old_host} {old_port} {new_host} {new_port}");
        let mut reply = Reply::new(output, self.protocol);
        for (kind, channel) in &self.channels {
            let is_pattern = *kind == b'p';
            match is_pattern {
                true if glob::matches(channel, CHANNEL) => {
                    reply.push(4);
                    reply.bulk(b"pmessage");
                    reply.bulk(channel);
                }
                false if channel == CHANNEL => {
                    reply.push(3);
                    reply.bulk(b"message");
                }
                _ => continue,
            }
            reply.bulk(CHANNEL);
            reply.bulk(message.as_bytes());
        }
    }

    /// Answers whole requests, until there is enough to be sent. False: the connection ends.
    fn answer_all(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> bool {
        let (mut args, mut consumed, mut goes_on) = (Args::new(), 0, true);
        while goes_on && output.len() < OUTPUT_BYTES {
            match parse(&input[consumed..], &Limits::unauthenticated(), &mut args) {
                Ok(Parsed::Request { consumed: bytes }) => {
                    let arguments = args.of(&input[consumed..]);
                    goes_on = self.answer(arguments, output);
                    consumed += bytes;
                }
                Ok(Parsed::Nothing { consumed: bytes }) => consumed += bytes,
                Ok(Parsed::Incomplete { .. }) => break,
                Err(error) => {
                    Reply::new(output, self.protocol).error(format!("ERR {error}"));
                    goes_on = false;
                }
            }
        }
        input.drain(..consumed);
        goes_on
    }

    fn answer(&mut self, arguments: Arguments<'_>, output: &mut Vec<u8>) -> bool {
        let name = arguments[0].to_ascii_lowercase();
        let mut reply = Reply::new(output, self.protocol);
        match name.as_slice() {
            b"ping" => self.pong(arguments, &mut reply),
            b"echo" => reply.bulk(arguments.get(1).unwrap_or_default()),
            b"auth" if arguments.len() == 2 => reply.error(NO_PASSWORD),
            b"auth" | b"client" | b"select" => reply.ok(),
            b"command" => reply.array(0),
            b"hello" => self.greet(arguments, &mut reply),
            b"info" => reply.verbatim(b"txt", self.info().as_bytes()),
            b"role" => self.role(&mut reply),
            b"sentinel" => self.sentinel(arguments, &mut reply),
            b"subscribe" | b"psubscribe" | b"unsubscribe" | b"punsubscribe" => {
                self.subscribe(&name, arguments, &mut reply)
            }
            b"reset" => {
                self.channels.clear();
                self.protocol = Protocol::Resp2;
                reply.simple("RESET");
            }
            b"quit" => {
                reply.ok();
                return false;
            }
            _ => reply.error(format!("ERR unknown command '{}'", shown(&name))),
        }
        true
    }

    fn pong(&self, arguments: Arguments<'_>, reply: &mut Reply<'_>) {
        let message = arguments.get(1);
        if !self.channels.is_empty() && self.protocol == Protocol::Resp2 {
            reply.array(2);
            reply.bulk(b"pong");
            return reply.bulk(message.unwrap_or_default());
        }
        match message {
            Some(text) => reply.bulk(text),
            None => reply.simple("PONG"),
        }
    }

    fn greet(&mut self, arguments: Arguments<'_>, reply: &mut Reply<'_>) {
        self.protocol = match arguments.get(1) {
            None => self.protocol,
            Some(b"2") => Protocol::Resp2,
            Some(b"3") => Protocol::Resp3,
            Some(_) => return reply.error("NOPROTO unsupported protocol version"),
        };
        reply.set_protocol(self.protocol);
        reply.map(6);
        for (name, value) in [
            ("server", "redis"),
            ("version", self.sentinel.identity.redis_version.text()),
            ("mode", "sentinel"),
            ("role", "sentinel"),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"proto");
        reply.integer(if self.protocol == Protocol::Resp3 { 3 } else { 2 });
        reply.bulk(b"modules");
        reply.array(0);
    }

    fn role(&self, reply: &mut Reply<'_>) {
        reply.array(2);
        reply.bulk(b"sentinel");
        reply.array(1);
        reply.bulk(self.sentinel.master_name.as_bytes());
    }

    fn subscribe(&mut self, name: &[u8], arguments: Arguments<'_>, reply: &mut Reply<'_>) {
        let kind = if name.starts_with(b"p") { b'p' } else { b's' };
        let subscribes = matches!(name, b"subscribe" | b"psubscribe");
        if subscribes && self.channels.len() + arguments.len() > CHANNELS_MAX {
            return reply.error("ERR too many channels");
        }
        let named: Vec<Vec<u8>> = arguments.iter().skip(1).map(<[u8]>::to_vec).collect();
        let named = match named.is_empty() && !subscribes {
            true => self.of_kind(kind),
            false => named,
        };
        for channel in &named {
            self.channels.retain(|(other, name)| (*other, name) != (kind, channel));
            if subscribes {
                self.channels.push((kind, channel.clone()));
            }
            reply.push(3);
            reply.bulk(name);
            reply.bulk(channel);
            reply.integer(self.channels.len() as i64);
        }
        if named.is_empty() {
            reply.push(3);
            reply.bulk(name);
            reply.null();
            reply.integer(self.channels.len() as i64);
        }
    }

    fn of_kind(&self, kind: u8) -> Vec<Vec<u8>> {
        let subscribed = self.channels.iter().filter(|(other, _)| *other == kind);
        subscribed.map(|(_, name)| name.clone()).collect()
    }

    fn sentinel(&self, arguments: Arguments<'_>, reply: &mut Reply<'_>) {
        let Some(subcommand) = arguments.get(1) else {
            return reply.error("ERR wrong number of arguments for 'sentinel' command");
        };
        let subcommand = subcommand.to_ascii_lowercase();
        let is_master = arguments.get(2) == Some(self.sentinel.master_name.as_bytes());
        match subcommand.as_slice() {
            b"masters" => {
                reply.array(1);
                self.master(reply);
            }
            b"myid" => reply.bulk(self.sentinel.identity.run_id.as_bytes()),
            b"pending-scripts" => reply.array(0),
            b"reset" => reply.integer(0),
            b"flushconfig" => reply.ok(),
            b"is-master-down-by-addr" => {
                reply.array(3);
                reply.integer(0);
                reply.bulk(b"*");
                reply.integer(0);
            }
            b"get-master-addr-by-name" if is_master && self.announced().is_some() => self.address(reply),
            b"get-master-addr-by-name" => reply.null_array(),
            b"master" | b"sentinels" | b"replicas" | b"slaves" | b"ckquorum" | b"failover" if !is_master => {
                reply.error("ERR No such master with that name")
            }
            b"master" => self.master(reply),
            b"sentinels" => {
                let sentinels = self.sentinel.others();
                reply.array(sentinels.len());
                for (host, port) in &sentinels {
                    describe("sentinel", host, *port, reply);
                }
            }
            b"replicas" | b"slaves" => {
                let replicas = self.sentinel.replicas();
                reply.array(replicas.len());
                for (host, port) in &replicas {
                    describe("slave", host, *port, reply);
                }
            }
            b"ckquorum" => {
                reply.simple("OK 1 usable Sentinels. Quorum and failover authorization can be reached");
            }
            b"failover" => reply.error("NOGOODSLAVE No suitable replica to promote"),
            _ => reply.error(format!(
                "ERR unknown subcommand '{}'. Try SENTINEL HELP.",
                shown(&subcommand)
            )),
        }
    }

    /// The address of the master; `None`: no home is known yet.
    fn announced(&self) -> Option<(String, u16)> {
        if self.sentinel.nodes.is_some() {
            let home = self.sentinel.nodes()?.redis_home().borrow().clone();
            return split(&home?);
        }
        let announcement = &self.sentinel.announcement;
        let host = announcement.host.clone().unwrap_or_else(|| self.here.ip().to_string());
        Some((host, announcement.port.unwrap_or(self.sentinel.identity.tcp_port)))
    }

    fn address(&self, reply: &mut Reply<'_>) {
        let (host, port) = self.announced().unwrap_or_default();
        reply.array(2);
        reply.bulk(host.as_bytes());
        reply.bulk(port.to_string().as_bytes());
    }

    fn master(&self, reply: &mut Reply<'_>) {
        let is_known = self.announced().is_some();
        let (host, port) = self.announced().unwrap_or_default();
        let port = port.to_string();
        let replicas = self.sentinel.replicas().len().to_string();
        let sentinels = self.sentinel.others().len().to_string();
        let fields = [
            ("name", self.sentinel.master_name.as_str()),
            ("ip", &host),
            ("port", &port),
            ("runid", &self.sentinel.identity.run_id),
            ("flags", if is_known { "master" } else { "s_down,master" }),
            ("link-pending-commands", "0"),
            ("link-refcount", "1"),
            ("last-ping-sent", "0"),
            ("last-ok-ping-reply", "0"),
            ("last-ping-reply", "0"),
            ("down-after-milliseconds", "30000"),
            ("info-refresh", "0"),
            ("role-reported", "master"),
            ("role-reported-time", "0"),
            ("config-epoch", "0"),
            ("num-slaves", &replicas),
            ("num-other-sentinels", &sentinels),
            ("quorum", "1"),
            ("failover-timeout", "180000"),
            ("parallel-syncs", "1"),
        ];
        reply.map(fields.len());
        for (name, value) in fields {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }

    fn info(&self) -> String {
        let (host, port) = self.announced().unwrap_or_default();
        let (replicas, sentinels) = (self.sentinel.replicas().len(), self.sentinel.others().len() + 1);
        let Identity { run_id, process_id, .. } = &self.sentinel.identity;
        let redis_version = self.sentinel.identity.redis_version.text();
        let name = &self.sentinel.master_name;
        format!(
            "# Server\r\nredis_version:{redis_version}\r\nredis_mode:sentinel\r\nrun_id:{run_id}\r\nprocess_id:{process_id}\r\n\
             tcp_port:{}\r\n\r\n# Sentinel\r\nsentinel_masters:1\r\nsentinel_tilt:0\r\nsentinel_tilt_since_seconds:-1\r\n\
             sentinel_running_scripts:0\r\nsentinel_scripts_queue_length:0\r\nsentinel_simulate_failure_flags:0\r\n\
             master0:name={name},status=ok,address={host}:{port},slaves={replicas},sentinels={sentinels}\r\n",
            self.here.port()
        )
    }
}

/// Another node, with the fields that clients look at.
fn describe(kind: &str, host: &str, port: u16, reply: &mut Reply<'_>) {
    let port = port.to_string();
    let name = format!("{host}:{port}");
    let fields = [
        ("name", name.as_str()),
        ("ip", host),
        ("port", &port),
        ("runid", ""),
        ("flags", kind),
        ("master-link-status", "ok"),
    ];
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

/// Completes when another node has become home.
async fn next_home(home: &mut Option<watch::Receiver<Option<String>>>) -> String {
    while let Some(previous) = home {
        if previous.changed().await.is_err() {
            break;
        }
        if let Some(next) = previous.borrow_and_update().clone() {
            return next;
        }
    }
    std::future::pending().await
}

/// As much of a peer's word as an error repeats.
fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned()
}

const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. \
                           Are you sure your configuration is correct?";

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection {
            sentinel: Arc::new(Sentinel {
                master_name: "mymaster".into(),
                identity: Identity {
                    tcp_port: 6379,
                    ..Identity::default()
                },
                announcement: Announcement::default(),
                nodes: None,
            }),
            here: "192.0.2.1:26379".parse().unwrap(),
            protocol: Protocol::Resp2,
            channels: Vec::new(),
        }
    }

    fn check(connection: &mut Connection, request: &str, answer: &str) {
        let (mut input, mut output) = (format!("{request}\r\n").into_bytes(), Vec::new());
        assert!(connection.answer_all(&mut input, &mut output));
        assert_eq!(String::from_utf8_lossy(&output), answer, "{request}");
    }

    #[test]
    fn it_names_the_address_that_the_client_has_reached() {
        let mut connection = connection();
        let expected = "*2\r\n$9\r\n192.0.2.1\r\n$4\r\n6379\r\n";
        check(&mut connection, "SENTINEL get-master-addr-by-name mymaster", expected);
        check(&mut connection, "SENTINEL GET-MASTER-ADDR-BY-NAME other", "*-1\r\n");
        check(
            &mut connection,
            "SENTINEL master other",
            "-ERR No such master with that name\r\n",
        );
        check(&mut connection, "SENTINEL slaves mymaster", "*0\r\n");
    }

    #[test]
    fn subscribers_are_notified_of_another_master() {
        let mut connection = connection();
        let mut heard = |request: &str| {
            let (mut input, mut output) = (format!("{request}\r\n").into_bytes(), Vec::new());
            connection.answer_all(&mut input, &mut output);
            output.clear();
            connection.switched("10.0.0.1:6379", "[fd00::2]:6380", &mut output);
            String::from_utf8(output).unwrap()
        };
        assert_eq!(heard("SUBSCRIBE +sdown"), "");
        let message = "$14\r\n+switch-master\r\n$35\r\nmymaster 10.0.0.1 6379 fd00::2 6380\r\n";
        let message_by_name = format!("*3\r\n$7\r\nmessage\r\n{message}");
        assert_eq!(heard("SUBSCRIBE +switch-master"), message_by_name);
        let message_by_pattern = format!("*4\r\n$8\r\npmessage\r\n$8\r\n+switch*\r\n{message}");
        assert_eq!(
            heard("PSUBSCRIBE +switch*"),
            format!("{message_by_name}{message_by_pattern}")
        );
    }

    #[test]
    fn subscriptions_are_counted_by_kind_and_name() {
        let mut connection = connection();
        check(
            &mut connection,
            "SUBSCRIBE a",
            "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
        );
        check(
            &mut connection,
            "PSUBSCRIBE a",
            "*3\r\n$10\r\npsubscribe\r\n$1\r\na\r\n:2\r\n",
        );
        check(&mut connection, "PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
        check(
            &mut connection,
            "PUNSUBSCRIBE",
            "*3\r\n$12\r\npunsubscribe\r\n$1\r\na\r\n:1\r\n",
        );
        check(
            &mut connection,
            "UNSUBSCRIBE a",
            "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n",
        );
        check(&mut connection, "PING", "+PONG\r\n");
    }
}
