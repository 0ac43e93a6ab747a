//! Redis: its listeners, for RESP with and without TLS, and its layers over databases.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Result;
use quartet_layer_redis::{Redis, RedisChanges, RedisInvariants};
use quartet_model::LayerId;
use quartet_tenancy::Database;

use super::{Assembly, ServedLayer, ServedListener};
use crate::layers::database_layer::{DatabaseLayer, LayerKind};
use crate::layers::maker::configure;
use crate::redis::{self, RespEntrance, Takes};

pub const LAYER: ServedLayer = ServedLayer {
    kind: LayerKind {
        name: "redis",
        id: LayerId::Redis,
        open: |opening| {
            let layer = opening.maker.redis_of(opening.database, (opening.directory)())?;
            Ok(Arc::new(layer))
        },
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
    invariants: || Box::new(RedisInvariants),
    changes: || Box::new(RedisChanges::default()),
};

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let layer = assembly.redis.clone();
    assembly.maintained.push(Box::new(move || layer.expire_due()));
    let is_tls_on = assembly.tenants.maker.tls.is_on();
    if let Some((socket, address)) = assembly.bind(assembly.settings.redis.listen, "redis")? {
        assembly.tell("redis", assembly.settings.connection_string("redis", address));
        if is_tls_on {
            tell_tls(assembly, address);
        }
        assembly.add("redis", socket, entrance(assembly, Takes::Both));
    }
    if let Some((socket, address)) = assembly.bind(assembly.settings.redis.listen_tls, "redis-tls")? {
        anyhow::ensure!(
            is_tls_on,
            "listen-redis-tls: there is no certificate; tls-certificate names it"
        );
        tell_tls(assembly, address);
        assembly.add("redis-tls", socket, entrance(assembly, Takes::TlsOnly));
    }
    Ok(())
}

fn tell_tls(assembly: &mut Assembly<'_>, address: std::net::SocketAddr) {
    assembly.tell("rediss", assembly.settings.connection_string("rediss", address));
    let config = &assembly.redis.config;
    config.start_with("tls-port", address.port().to_string());
}

fn entrance(assembly: &Assembly<'_>, takes: Takes) -> RespEntrance {
    RespEntrance {
        layer: assembly.redis.clone(),
        tenants: assembly.tenants.clone(),
        settings: assembly.settings.clone(),
        limit: assembly.limit.clone(),
        stranger_bytes: assembly.stranger_bytes.clone(),
        tls: assembly.tenants.maker.tls.clone(),
        takes,
    }
}

impl DatabaseLayer for Redis {
    fn maintain(&self, _database: &Database) -> bool {
        self.expire_due();
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
