//! DynamoDB: its listener, and its layers over databases.

use std::sync::Arc;

use anyhow::Result;
use quartet_engine::{Engine, Space};
use quartet_layer_dynamodb::{DynamoDb, DynamoDbChanges, DynamoDbInvariants, Target, Throughput};
use quartet_model::LayerId;
use quartet_tenancy::Database;

use super::{Assembly, ServedLayer, ServedListener};
use crate::dynamodb::DynamoDbHttp;
use crate::dynamodb::buckets::{self, NamedBuckets};
use crate::http::HttpLayer;
use crate::layers::kind::{DatabaseLayer, LayerKind};
use crate::layers::parts::Parts;
use crate::observability::durations::Measured;
use crate::settings::{AccessKeys, Listening};
use crate::tenants::Tenants;
use crate::tenants::admission_control::has_no_room;

pub const LAYER: ServedLayer = ServedLayer {
    kind: LayerKind {
        name: "dynamodb",
        id: LayerId::DynamoDb,
        open: |opening| {
            let space = opening.database.space(LayerId::DynamoDb);
            let engine = opening.parts.engine_of(opening.database).clone();
            Ok(Arc::new(layer(opening.parts, engine, space)))
        },
        invariants: || Box::new(DynamoDbInvariants),
        changes: || Box::new(DynamoDbChanges::default()),
    },
    listener: ServedListener {
        listening: |settings| {
            vec![Listening {
                name: "dynamodb",
                listen: settings.dynamodb.listen,
                is_open: settings.dynamodb.access_keys == AccessKeys::Any,
            }]
        },
        measured: Some(Measured {
            layer: "dynamodb",
            operations: || Target::names().collect(),
        }),
        listen,
    },
};

/// Host and port at which clients reach the server.
struct ClientEndpoint(String);

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let (tenants, settings) = (assembly.tenants, &assembly.settings.dynamodb);
    let Some((socket, address)) = assembly.bind(settings.listen, "dynamodb")? else {
        return Ok(());
    };
    let parts = &tenants.parts;
    let scheme = assembly.settings.connections.tls.http_scheme();
    assembly.tell("dynamodb", address, format!("{scheme}://{address}"));
    parts.of_kinds.put(Arc::new(ClientEndpoint(address.to_string())));
    let mut layer = layer(parts, parts.engine.clone(), parts.default_space(LayerId::DynamoDb));
    layer.buckets = Arc::new(NamedBuckets::new(&settings.buckets, settings.bucket_bytes_max)?);
    let layer = Arc::new(DynamoDbHttp::new(layer, settings.access_keys.known(), tenants.clone()));
    if !settings.buckets.is_empty() {
        let layer = layer.clone();
        let transfers = move |stopped: &_| buckets::transfer(&layer.layer, stopped);
        assembly.added.deferred_tasks.push(("transfers", Box::new(transfers)));
    }
    let layer: Arc<dyn HttpLayer> = layer;
    assembly.added.http_layers.push((LayerId::DynamoDb, layer.clone()));
    assembly.add_http("dynamodb", socket, layer);
    Ok(())
}

/// The layer of the default database at a node that is not home.
pub fn at_replica(tenants: &Arc<Tenants>) -> DynamoDbHttp {
    let parts = &tenants.parts;
    let layer = layer(parts, parts.engine.clone(), parts.default_space(LayerId::DynamoDb));
    DynamoDbHttp::new(layer, parts.settings.dynamodb.access_keys.known(), tenants.clone())
}

fn layer(parts: &Parts, engine: Arc<Engine>, space: Space) -> DynamoDb {
    let mut layer = DynamoDb::new(engine, space);
    layer.replica = parts.replica;
    if let Some(endpoint) = parts.of_kinds.get::<ClientEndpoint>() {
        layer.endpoint.clone_from(&endpoint.0);
    }
    if parts.settings.dynamodb.throttling {
        layer.throughput = Arc::new(Throughput::limited());
    }
    layer.regions_are_separate = parts.settings.dynamodb.regions_are_separate;
    layer
}

impl DatabaseLayer for DynamoDb {
    fn maintain(&self, database: &Database) -> bool {
        DynamoDb::maintain(self);
        let has_room = has_no_room(database, &self.engine).is_none();
        has_room && self.go_on()
    }
}
