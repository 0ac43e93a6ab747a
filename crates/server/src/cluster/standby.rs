//! The sockets of a node that is not home, which forwards clients to the home. A client that
//! queries a sentinel for the home gets the answer here, and remains connected when the home
//! changes.

use std::sync::Arc;

use anyhow::Result;
use quartet_layer_redis::Identity;
use tokio::sync::watch;

use super::carrying::{Carriers, HomeCaller};
use super::forward::{ForwardEntrance, Pages, Protocol};
use crate::connections::accept::Listener;
use crate::listeners::Endpoint;
use crate::process;
use crate::process::system::random_hexadecimal;
use crate::redis::sentinel::{Sentinel, SentinelEntrance};
use crate::serving::{Foundation, Threads, certificate_cycle};
use crate::settings::{Listen, Settings};

/// The listeners of a node that is not home, and their threads.
pub struct Standby {
    threads: Threads,
    /// Never signalled: such a node has no buffers to purge.
    _purges: watch::Sender<()>,
}

impl Standby {
    /// `carriers` serve the connections, which outlive the listeners.
    pub fn begin(
        foundation: &Foundation,
        home: &Arc<HomeCaller>,
        pages: &Arc<Pages>,
        carriers: &Arc<Carriers>,
    ) -> Result<Standby> {
        let tls = foundation.tls.clone();
        let stranger_bytes = tls.stranger_bytes().clone();
        let mut listeners = Vec::new();
        for (name, protocol, listens) in passed_on(&foundation.settings) {
            let Some((socket, _)) = foundation.sockets.bind(listens.address(), name)? else {
                continue;
            };
            let entrance = ForwardEntrance {
                listener: name,
                protocol,
                home: home.clone(),
                limit: foundation.limit.clone(),
                tls: tls.clone(),
                pages: (protocol == Protocol::Http).then(|| pages.clone()),
                carriers: carriers.clone(),
            };
            listeners.push(Listener {
                name,
                socket,
                entrance: Arc::new(entrance),
            });
        }
        let sentinel = &foundation.settings.sentinel;
        if let Some((socket, _)) = foundation.sockets.bind(sentinel.listen.address(), SENTINEL)? {
            let entrance = SentinelEntrance {
                sentinel: Arc::new(sentinel_of(foundation)),
                tls,
                limit: foundation.limit.clone(),
                stranger_bytes,
            };
            listeners.push(Listener {
                name: SENTINEL,
                socket,
                entrance: Arc::new(entrance),
            });
        }
        let (mut threads, purges) = (Threads::new(), watch::Sender::new(()));
        threads.serve(listeners, foundation, &foundation.partitions, &purges)?;
        let (cycles, stopped) = (vec![certificate_cycle(&foundation.tls)], threads.stopped());
        threads.spawn("cycles", move || process::cycles::run(cycles, stopped))?;
        Ok(Standby {
            threads,
            _purges: purges,
        })
    }

    /// Accepts no more clients. Forwarded connections stay open.
    pub fn end(self) {
        self.threads.end();
    }
}

const SENTINEL: &str = "sentinel";
const REDIS_TLS: &str = "redis-tls";

fn sentinel_of(foundation: &Foundation) -> Sentinel {
    let settings = &foundation.settings;
    let identity = Identity {
        run_id: random_hexadecimal(40),
        process_id: std::process::id(),
        redis_version: settings.redis.redis_version,
        ..Identity::default()
    };
    Sentinel {
        master_name: settings.sentinel.master_name.clone(),
        identity,
        announcement: settings.redis.announcement.clone(),
        nodes: foundation.nodes.get().cloned(),
    }
}

/// The listeners that forward their clients.
fn passed_on(settings: &Settings) -> [(&'static str, Protocol, Listen); 6] {
    [
        ("redis", Protocol::Redis, settings.redis.listen),
        (REDIS_TLS, Protocol::Redis, settings.redis.listen_tls),
        ("http", Protocol::Http, settings.http.listen),
        ("dynamodb", Protocol::DynamoDb, settings.dynamodb.listen),
        ("fauna", Protocol::Fauna, settings.fauna.listen),
        ("keyvalue", Protocol::KeyValue, settings.keyvalue.listen),
    ]
}

/// The endpoint of each protocol, as for any node, home or not.
pub fn endpoints(foundation: &Foundation) -> Vec<Endpoint> {
    let settings = &foundation.settings;
    let scheme = settings.connections.tls.http_scheme();
    let endpoint = |(name, protocol, listens): (&'static str, Protocol, Listen)| {
        let (_, address) = foundation.sockets.bind(listens.address(), name).ok()??;
        // The same text as for a single server.
        let name = if name == REDIS_TLS { "rediss" } else { name };
        let text = match protocol {
            // It requires no credential.
            Protocol::Redis if name == SENTINEL => format!("redis://{address}"),
            Protocol::Redis => settings.credentials.connection_string(name, address),
            Protocol::KeyValue => settings.credentials.cluster_string(address),
            Protocol::Http | Protocol::DynamoDb | Protocol::Fauna => format!("{scheme}://{address}"),
        };
        Some(Endpoint { name, text, address })
    };
    let sentinel = (SENTINEL, Protocol::Redis, settings.sentinel.listen);
    let all = passed_on(settings).into_iter().chain([sentinel]);
    all.filter_map(endpoint).collect()
}
