//! The cost of one layer more: the row `ECHO`, and nothing outside this file. The protocol: a line
//! names a database, and each further one comes back.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use quartet_engine::{Durability, Engine};
use quartet_layer_keyvalue::{KeyValueChanges, KeyValueInvariants};
use quartet_model::LayerId;
use quartet_tenancy::{Consistency, Database, Definition, KeptCredentials, Quotas};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{Assembly, ServedLayer, ServedListener, redis};
use crate::Server;
use crate::connections::accept::{Admitting, Entrance};
use crate::connections::handoff::{Arrival, IoThread};
use crate::connections::waker::ThreadWaker;
use crate::layers::database_layer::{DatabaseLayer, LayerKind};
use crate::observability::exposition::Text;
use crate::observability::metrics;
use crate::serving::Serving;
use crate::settings::{Listen, Settings};
use crate::tenants::Tenants;

/// Stands in the key-value layer's place, so that it has rows of its own.
const ID: LayerId = LayerId::KeyValue;

const ANYWHERE: Listen = Listen::On(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)));

static LAYERS: [ServedLayer; 2] = [redis::LAYER, ECHO];

const ECHO: ServedLayer = ServedLayer {
    kind: LayerKind {
        name: "echo",
        id: ID,
        open: |opening| {
            Ok(Arc::new(Echo {
                prefix: opening.database.definition().name.clone(),
                _engine: opening.maker.engine.clone(),
            }))
        },
    },
    listener: ServedListener {
        listening: |settings| vec![settings.listening("echo", ANYWHERE)],
        measured: None,
        listen,
    },
    invariants: || Box::new(KeyValueInvariants),
    changes: || Box::new(KeyValueChanges),
};

struct Echo {
    prefix: String,
    /// A layer that outlives the server keeps this alive, and the server cannot stop.
    _engine: Arc<Engine>,
}

impl DatabaseLayer for Echo {
    fn maintain(&self, _database: &Database) -> bool {
        false
    }
}

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let (socket, address) = assembly.bind(ANYWHERE, "echo")?.expect("it is on");
    assembly.tell("echo", address.to_string());
    assembly.add("echo", socket, EchoEntrance(assembly.tenants.clone()));
    Ok(())
}

struct EchoEntrance(Arc<Tenants>);

impl Entrance for EchoEntrance {
    fn admit<'e>(&'e self, socket: TcpStream, _: SocketAddr, _: &'e Arc<ThreadWaker>) -> Admitting<'e> {
        Box::pin(async move {
            let accepted = EchoAccepted(socket.into_std()?, self.0.clone());
            Ok(Some(Box::new(accepted) as Box<dyn Arrival>))
        })
    }
}

struct EchoAccepted(std::net::TcpStream, Arc<Tenants>);

impl Arrival for EchoAccepted {
    fn start(self: Box<Self>, thread: &IoThread, tasks: &mut JoinSet<()>) {
        let mut stop = thread.stop.clone();
        tasks.spawn(thread.turns.with(async move {
            tokio::select! {
                _ = echo(self.0, self.1) => {}
                _ = stop.wait_for(|stops| *stops) => {}
            }
        }));
    }
}

async fn echo(socket: std::net::TcpStream, tenants: Arc<Tenants>) -> Option<()> {
    let mut socket = tokio::io::BufReader::new(TcpStream::from_std(socket).ok()?);
    let mut name = String::new();
    socket.read_line(&mut name).await.ok()?;
    let database = tenants.catalogue.named(name.trim())?;
    let layer: Arc<Echo> = tenants.layer(&tenants.enter(&database)?, ID).ok()?;
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let reply = format!("{}: {line}", layer.prefix);
        socket.write_all(reply.as_bytes()).await.ok()?;
    }
}

fn create(server: &Server, name: &str) {
    let definition = Definition {
        name: name.into(),
        durability: Durability::Always,
        consistency: Consistency::default(),
        eviction: false,
        quotas: Quotas::default(),
        credentials: KeptCredentials::default(),
        created_micros: 0,
        deleted: false,
    };
    server.serving.tenants.catalogue.create(definition).unwrap();
}

fn layers_open(server: &Server) -> Vec<String> {
    let mut out = Text::default();
    metrics::write(&server.serving.redis, &server.serving.tenants, true, &mut out);
    let lines = out.text.lines().filter(|line| line.starts_with("quartet_layers_open"));
    lines.map(str::to_owned).collect()
}

/// Asks for two databases over connections that stay open.
fn ask_both(address: &str) -> Vec<BufReader<std::net::TcpStream>> {
    let ask = |name: &&str| {
        let mut socket = BufReader::new(std::net::TcpStream::connect(address).unwrap());
        socket
            .get_mut()
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        socket
            .get_mut()
            .write_all(format!("{name}\nhello\n").as_bytes())
            .unwrap();
        let mut reply = String::new();
        socket.read_line(&mut reply).unwrap();
        assert_eq!(reply, format!("{name}: hello\n"));
        socket
    };
    ["first", "second"].iter().map(ask).collect()
}

#[test]
fn a_layer_more_is_a_row_more() {
    let server = Server::start_with(Settings::for_test(), &LAYERS).unwrap();
    create(&server, "first");
    create(&server, "second");
    let (name, address) = server.listeners()[0].clone();
    assert_eq!((name, server.listeners().len()), ("echo", 1));
    let open = |databases| {
        let row = |(layer, databases)| format!("quartet_layers_open{{layer=\"{layer}\"}} {databases}");
        [("redis", 0), ("echo", databases)].map(row)
    };
    assert_eq!(layers_open(&server), open(0));
    let connections = ask_both(&address);
    assert_eq!(layers_open(&server), open(2));
    // A layer that somebody holds is not made again.
    drop((ask_both(&address), connections));
    assert_eq!(layers_open(&server), open(2));
    let connections = ask_both(&address);
    // It answers an error if anything still holds the engine.
    server.shutdown(Duration::from_secs(600)).unwrap();
    drop(connections);
}

/// Each time the same sockets, and databases as they were left.
#[test]
fn layers_are_dropped_and_made_anew_over_one_engine() {
    let mut server = Server::start_with(Settings::for_test(), &LAYERS).unwrap();
    create(&server, "first");
    create(&server, "second");
    let address = server.listeners()[0].1.clone();
    for _ in 0..3 {
        let mut connections = ask_both(&address);
        let Server {
            foundation,
            serving,
            opened_version,
        } = server;
        serving.end();
        let mut rest = Vec::new();
        connections.iter_mut().for_each(|socket| {
            let _ = std::io::Read::read_to_end(socket, &mut rest);
        });
        assert!(rest.is_empty(), "connections end with their layers");
        server = Server {
            serving: Serving::begin(&foundation).unwrap(),
            foundation,
            opened_version,
        };
        assert_eq!(server.listeners()[0].1, address);
    }
    drop(ask_both(&address));
    server.shutdown(Duration::from_secs(600)).unwrap();
}
