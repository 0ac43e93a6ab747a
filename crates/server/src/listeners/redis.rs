//! Redis: its listeners, for RESP with and without TLS, and its layers over databases.
//!
//! The layer of the default database exists even without a Redis listener: REST, metrics and the
//! operator's API use it.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Result;
use quartet_layer_redis::execution::client_eviction::ClientEviction;
use quartet_layer_redis::replication::{ClusterNode, ClusterNodes};
use quartet_layer_redis::{Redis, RedisChanges, RedisInvariants};
use quartet_model::LayerId;
use quartet_tenancy::Database;
use tokio::sync::watch;

use super::{Assembly, ServedLayer, ServedListener};
use crate::layers::kind::{DatabaseLayer, LayerKind};
use crate::layers::parts::{Nodes, OtherNode, WayOut};
use crate::process::cycles::Cycle;
use crate::redis::entrance::RespEntrance;
use crate::redis::modules::commands;
use crate::redis::opening::{RedisParts, configure};
use crate::redis::{self, Conversations, Takes};
use crate::rest::Rest;
use crate::settings::cluster::split;
use crate::tenants::Tenants;

/// Interval of checks of the connections' memory.
const CLIENT_EVICTION_CYCLE: Duration = Duration::from_millis(20);
/// Interval of the search for work that commands have left to modules.
const WORK_CYCLE: Duration = Duration::from_millis(100);

/// Time between two searches for idle buffers of connections.
const IDLE_CYCLE: Duration = Duration::from_secs(1);

pub const LAYER: ServedLayer = ServedLayer {
    kind: LayerKind {
        name: "redis",
        id: LayerId::Redis,
        open: |opening| {
            let shared = opening.parts.of_kinds.get::<RedisParts>();
            let shared = shared.expect("put there by `listen`, before any client comes in");
            let layer = shared.of_database(opening.parts, opening.database, (opening.directory)())?;
            Ok(Arc::new(layer))
        },
        invariants: || Box::new(RedisInvariants::new(&commands().modules)),
        changes: || Box::new(RedisChanges::new(&commands().modules)),
    },
    listener: ServedListener {
        listening: |settings| {
            vec![
                settings.listening("redis", settings.redis.listen),
                settings.listening("redis over TLS", settings.redis.listen_tls),
            ]
        },
        measured: None,
        listen,
    },
};

/// This server's cluster for INFO and ROLE, if it is a home.
fn cluster_of(nodes: &Weak<dyn Nodes>) -> ClusterNodes {
    let Some(nodes) = nodes.upgrade() else {
        return ClusterNodes::default();
    };
    let node = |node: OtherNode| {
        let (host, port) = split(&node.redis?)?;
        Some(ClusterNode {
            host,
            port,
            lag_records: node.lag_records,
            lag_seconds: node.lag_millis / 1000,
        })
    };
    ClusterNodes {
        records: nodes.records(),
        own: nodes.own_redis().and_then(|address| split(&address)),
        others: nodes.others().into_iter().filter_map(node).collect(),
    }
}

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let (tenants, settings) = (assembly.tenants, assembly.settings);
    let bound = assembly.bind(settings.redis.listen, "redis")?;
    // The layer reports the port to its clients.
    let port = bound.as_ref().map_or(0, |(_, address)| address.port());
    let shared = Arc::new(RedisParts::new(&tenants.parts, commands(), port));
    tenants.parts.of_kinds.put(shared.clone());
    let layer = Arc::new(shared.default(&tenants.parts, tenants.directory())?);
    if let Some(nodes) = tenants.parts.nodes.clone() {
        // A layer is made once for each term.
        let _ = layer.replication.list_nodes.set(Box::new(move || cluster_of(&nodes)));
    }
    assembly.added.lent.put(layer.clone());
    let conversations = Arc::new(Conversations::default());
    conversations.replica_of.resume(&layer);
    add_cycles(assembly, &layer);
    let ending = conversations.clone();
    assembly.added.at_stop.push(Box::new(move || {
        ending.replica_of.stop();
        shared.long_scripts.iter().for_each(|scripts| scripts.abandon());
    }));
    let is_tls_on = tenants.parts.tls.is_on();
    let entrance = |takes| RespEntrance {
        layer: layer.clone(),
        conversations: conversations.clone(),
        tenants: tenants.clone(),
        settings: settings.clone(),
        limit: assembly.limit.clone(),
        stranger_bytes: assembly.stranger_bytes.clone(),
        tls: tenants.parts.tls.clone(),
        takes,
        way_out: WayOut {
            nodes: tenants.parts.nodes.clone(),
            listener: redis::LISTENER,
        },
    };
    let (any_transport, tls_only) = (entrance(Takes::Both), entrance(Takes::TlsOnly));
    if bound.is_none() {
        // TLS clients are forwarded without TLS.
        let passed_on = Arc::new(entrance(Takes::Both));
        assembly.added.entrances.push((redis::LISTENER, passed_on));
    }
    if let Some((socket, address)) = bound {
        assembly.tell(
            "redis",
            address,
            settings.credentials.connection_string("redis", address),
        );
        if is_tls_on {
            tell_tls(assembly, &layer, address);
        }
        assembly.add("redis", socket, any_transport);
    }
    if let Some((socket, address)) = assembly.bind(settings.redis.listen_tls, "redis-tls")? {
        anyhow::ensure!(
            is_tls_on,
            "listen-redis-tls: there is no certificate; tls-certificate names it"
        );
        tell_tls(assembly, &layer, address);
        assembly.add("redis-tls", socket, tls_only);
    }
    Ok(())
}

/// Redis over REST at a node that is not home.
pub fn at_replica(tenants: &Arc<Tenants>) -> Result<Rest> {
    let parts = &tenants.parts;
    let shared = Arc::new(RedisParts::new(parts, commands(), 0));
    parts.of_kinds.put(shared.clone());
    let layer = Arc::new(shared.at_replica(parts, tenants.directory())?);
    // Only what a home does in the background ends by it.
    let stop = watch::channel(false).1;
    Ok(Rest::new(
        layer,
        tenants.clone(),
        parts.settings.http.rest_tokens.clone(),
        stop,
    ))
}

fn tell_tls(assembly: &mut Assembly<'_>, layer: &Redis, address: SocketAddr) {
    let text = assembly.settings.credentials.connection_string("rediss", address);
    assembly.tell("rediss", address, text);
    layer.config.start_with("tls-port", address.port().to_string());
}

fn add_cycles(assembly: &mut Assembly<'_>, layer: &Arc<Redis>) {
    let expiring = layer.clone();
    assembly.maintain(move || expiring.expire_due());
    let (evicting, tenants) = (layer.clone(), assembly.tenants.clone());
    let mut eviction = ClientEviction::default();
    let eviction = Cycle::new("client eviction", CLIENT_EVICTION_CYCLE, move || {
        let mut layers = vec![evicting.clone()];
        layers.extend(tenants.redis_layers());
        eviction.run(&evicting, &layers);
    });
    let idle = layer.clone();
    let tidying = Cycle::new("idle connections", IDLE_CYCLE, move || redis::tidy(&idle));
    let working = layer.clone();
    let working = Cycle::with_rest("work of modules", WORK_CYCLE, move || working.work_of_modules());
    assembly.added.cycles.extend([eviction, tidying, working]);
}

impl DatabaseLayer for Redis {
    fn maintain(&self, _database: &Database) -> bool {
        self.expire_due();
        self.work_of_modules();
        false
    }

    fn tidy(&self) {
        redis::tidy(self);
        self.save();
    }

    fn configure(&self, database: &Database) {
        configure(self, database);
    }

    fn connections(&self) -> usize {
        self.connections.clients.count()
    }

    fn wake_connections(&self) {
        self.connections.clients.wake_all();
    }

    fn hold(&self, is_held: bool) {
        self.connections.is_held.store(is_held, Ordering::SeqCst);
    }

    /// The others follow with their next request.
    fn leave(&self) {
        let clients = self.connections.clients.list();
        let bound = clients.iter().filter(|client| client.is_bound());
        bound.for_each(|client| client.kill());
    }

    fn close_connections(&self) {
        self.connections.clients.list().iter().for_each(|client| client.kill());
    }

    fn is_written_by_holders(&self) -> bool {
        true
    }

    /// Users that changed are written down.
    fn save(&self) {
        if self.access.users.is_changed.load(Ordering::SeqCst)
            && let Err(error) = self.save_users()
        {
            tracing::warn!(error, "saving the users of a database");
        }
    }
}
