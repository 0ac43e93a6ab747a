//! A toy layer: its listener, and its layers over databases. A client's first line names a
//! database, and each further line is echoed.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use quartet_engine::Engine;
use quartet_layer_keyvalue::{KeyValueChanges, KeyValueInvariants};
use quartet_model::LayerId;
use quartet_tenancy::Database;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{Assembly, ServedLayer, ServedListener};
use crate::connections::accept::{Admitting, Entrance};
use crate::connections::handoff::{Arrival, IoThread};
use crate::connections::waker::ThreadWaker;
use crate::layers::kind::{DatabaseLayer, LayerKind};
use crate::limits::connection_limit::{ConnectionLimit, Permit, Place};
use crate::observability::durations::Measured;
use crate::tenants::Tenants;

/// The toy takes the place of the key-value layer: it has no number of its own.
const ID: LayerId = LayerId::KeyValue;

pub const LAYER: ServedLayer = ServedLayer {
    kind: LayerKind {
        name: "echo",
        id: ID,
        open: |opening| {
            Ok(Arc::new(Echo {
                greeting: opening.parts.settings.echo.greeting.clone(),
                engine: opening.parts.engine_of(opening.database).clone(),
            }))
        },
        invariants: || Box::new(KeyValueInvariants),
        changes: || Box::new(KeyValueChanges),
    },
    listener: ServedListener {
        listening: |settings| vec![settings.listening("echo", settings.echo.listen)],
        measured: Some(Measured {
            layer: "echo",
            operations: || vec!["line"],
        }),
        listen,
    },
};

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let Some((socket, address)) = assembly.bind(assembly.settings.echo.listen, "echo")? else {
        return Ok(());
    };
    assembly.tell("echo", address, address.to_string());
    let entrance = EchoEntrance {
        tenants: assembly.tenants.clone(),
        limit: assembly.limit.clone(),
    };
    assembly.add("echo", socket, entrance);
    Ok(())
}

struct Echo {
    greeting: String,
    engine: Arc<Engine>,
}

impl DatabaseLayer for Echo {
    fn maintain(&self, _database: &Database) -> bool {
        false
    }
}

struct EchoEntrance {
    tenants: Arc<Tenants>,
    limit: Arc<ConnectionLimit>,
}

impl Entrance for EchoEntrance {
    fn admit<'e>(&'e self, socket: TcpStream, _: SocketAddr, _: &'e Arc<ThreadWaker>) -> Admitting<'e> {
        Box::pin(async move {
            let Some(permit) = self.limit.admit(Place::Any).await else {
                return Ok(None);
            };
            let accepted = EchoAccepted {
                socket: socket.into_std()?,
                tenants: self.tenants.clone(),
                _permit: permit,
            };
            Ok(Some(Box::new(accepted) as Box<dyn Arrival>))
        })
    }
}

struct EchoAccepted {
    socket: std::net::TcpStream,
    tenants: Arc<Tenants>,
    /// Gives the place back when the connection ends.
    _permit: Permit,
}

impl Arrival for EchoAccepted {
    fn start(self: Box<Self>, thread: &IoThread, tasks: &mut JoinSet<()>) {
        let mut stop = thread.stop.clone();
        tasks.spawn(thread.turns.with(async move {
            tokio::select! {
                _ = self.serve() => {}
                _ = stop.wait_for(|stops| *stops) => {}
            }
        }));
    }
}

impl EchoAccepted {
    /// Ends with the connection, or when no database has the name.
    async fn serve(self) -> Option<()> {
        let mut socket = BufReader::new(TcpStream::from_std(self.socket).ok()?);
        let mut name = String::new();
        socket.read_line(&mut name).await.ok()?;
        let database = self.tenants.catalogue.named(name.trim())?;
        let layer: Arc<Echo> = self.tenants.layer(&self.tenants.enter(&database).ok()??, ID).ok()?;
        loop {
            let mut line = String::new();
            if socket.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let started_micros = layer.engine.now_micros();
            let reply = format!("{}: {line}", layer.greeting);
            let micros = layer.engine.now_micros().saturating_sub(started_micros);
            let shape = || format!("{} bytes", line.len());
            self.tenants
                .parts
                .note_request("echo", 0, Some(&database), micros, shape);
            socket.get_mut().write_all(reply.as_bytes()).await.ok()?;
        }
    }
}
