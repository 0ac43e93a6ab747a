//! The listener that answers as a sentinel of Redis. It holds no data and asks for no credential.

use std::sync::Arc;

use anyhow::Result;

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
    assembly.tell("sentinel", format!("redis://{address}"));
    let maker = &assembly.tenants.maker;
    let mut identity = maker.identity.clone();
    if identity.tcp_port == 0 {
        // TLS alone.
        let config = &assembly.redis.config;
        identity.tcp_port = config.text_of("tls-port").parse().unwrap_or_default();
    }
    let sentinel = Sentinel {
        master_name: settings.sentinel.master_name.clone(),
        identity,
        announcement: settings.redis.announcement.clone(),
    };
    let entrance = SentinelEntrance {
        sentinel: Arc::new(sentinel),
        tls: maker.tls.clone(),
        limit: assembly.limit.clone(),
        stranger_bytes: assembly.stranger_bytes.clone(),
    };
    assembly.add("sentinel", socket, entrance);
    Ok(())
}
