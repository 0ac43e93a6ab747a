//! The listener that answers as a sentinel of Redis. It holds no data and requires no credential.

use std::sync::Arc;

use anyhow::Result;
use quartet_layer_redis::Redis;

use super::{Assembly, ServedListener};
use crate::redis::sentinel::{Sentinel, SentinelEntrance};
use crate::settings::Listening;

pub const LISTENER: ServedListener = ServedListener {
    listening: |settings| {
        vec![Listening {
            name: "sentinel",
            listen: settings.sentinel.listen,
            is_open: false,
        }]
    },
    measured: None,
    listen,
};

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let settings = assembly.settings;
    let Some((socket, address)) = assembly.bind(settings.sentinel.listen, "sentinel")? else {
        return Ok(());
    };
    assembly.tell("sentinel", address, format!("redis://{address}"));
    let redis: Arc<Redis> = assembly.added.lent.get().expect("its row is the first");
    let parts = &assembly.tenants.parts;
    let mut identity = redis.process.identity.clone();
    if identity.tcp_port == 0 {
        // TLS alone.
        identity.tcp_port = redis.config.text_of("tls-port").parse().unwrap_or_default();
    }
    let sentinel = Sentinel {
        master_name: settings.sentinel.master_name.clone(),
        identity,
        announcement: settings.redis.announcement.clone(),
        nodes: parts.nodes.clone(),
    };
    let entrance = SentinelEntrance {
        sentinel: Arc::new(sentinel),
        tls: parts.tls.clone(),
        limit: assembly.limit.clone(),
        stranger_bytes: assembly.stranger_bytes.clone(),
    };
    assembly.add("sentinel", socket, entrance);
    Ok(())
}
