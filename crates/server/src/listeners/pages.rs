//! The HTTP listener: the console, and after it health, metrics, the admin API, change feeds and
//! REST.

use std::sync::Arc;

use anyhow::Result;
use quartet_layer_redis::Redis;
use quartet_model::LayerId;

use super::{Assembly, ServedListener};
use crate::console::{Console, KeyValuePages, Layers};
use crate::observability::durations::Measured;
use crate::operations::pages::HttpPages;
use crate::rest;

pub const LISTENER: ServedListener = ServedListener {
    listening: |settings| vec![settings.listening("http", settings.http.listen)],
    measured: Some(Measured {
        layer: "rest",
        operations: || rest::OPERATIONS.to_vec(),
    }),
    listen,
};

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let settings = assembly.settings;
    let Some((socket, address)) = assembly.bind(settings.http.listen, "http")? else {
        return Ok(());
    };
    let url = format!("{}://{address}", settings.connections.tls.http_scheme());
    assembly.tell(
        "rest",
        address,
        settings.http.rest_variables(&settings.credentials, &url),
    );
    assembly.tell("console", address, format!("{url}/"));
    assembly.tell("http", address, url);
    let redis: Option<Arc<Redis>> = assembly.added.lent.get();
    let pages = HttpPages::new(
        redis.expect("its row is the first"),
        assembly.tenants.clone(),
        settings,
        assembly.stopped.clone(),
    );
    let layers = Layers {
        pages: Arc::new(pages),
        fauna: assembly.http_layer(LayerId::Fauna),
        dynamodb: assembly.http_layer(LayerId::DynamoDb),
        keyvalue: assembly.added.lent.get().map(KeyValuePages),
    };
    let endpoints = assembly.added.endpoints.iter();
    let endpoints = endpoints.map(|endpoint| (endpoint.name, endpoint.text.clone()));
    let console = Console::new(
        layers,
        assembly.tenants.clone(),
        settings,
        endpoints.collect(),
        address.port(),
    );
    assembly.add_http("http", socket, Arc::new(console));
    Ok(())
}
