//! DynamoDB: its listener, and its layers over databases.

use std::sync::Arc;

use anyhow::Result;
use quartet_layer_dynamodb::{DynamoDb, DynamoDbChanges, DynamoDbInvariants, Target};
use quartet_model::LayerId;
use quartet_tenancy::Database;

use super::{Assembly, ServedLayer, ServedListener};
use crate::dynamodb::DynamoDbHttp;
use crate::dynamodb::buckets::{self, NamedBuckets};
use crate::http::HttpLayer;
use crate::layers::database_layer::{DatabaseLayer, LayerKind};
use crate::observability::durations::Measured;
use crate::settings::{AccessKeys, Listening};
use crate::tenants::admission_control::has_no_room;

pub const LAYER: ServedLayer = ServedLayer {
    kind: LayerKind {
        name: "dynamodb",
        id: LayerId::DynamoDb,
        open: |opening| {
            let layer = opening.maker.dynamodb(opening.database.space(LayerId::DynamoDb));
            Ok(Arc::new(layer))
        },
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
    invariants: || Box::new(DynamoDbInvariants),
    changes: || Box::new(DynamoDbChanges::default()),
};

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let Some((socket, address)) = assembly.bind(assembly.settings.dynamodb.listen, "dynamodb")? else {
        return Ok(());
    };
    let maker = &assembly.tenants.maker;
    assembly.tell("dynamodb", format!("{}://{address}", maker.tls.http_scheme()));
    maker.dynamodb_endpoint.get_or_init(|| address.to_string());
    let mut layer = maker.dynamodb(maker.default_space(LayerId::DynamoDb));
    let settings = &assembly.settings.dynamodb;
    layer.buckets = Arc::new(NamedBuckets::new(&settings.buckets, settings.bucket_bytes_max)?);
    let layer = Arc::new(DynamoDbHttp::new(
        layer,
        settings.access_keys.known(),
        assembly.tenants.clone(),
    ));
    if !settings.buckets.is_empty() {
        let layer = layer.clone();
        let transfers = move |stopped: &_| buckets::transfer(&layer.layer, stopped);
        assembly.deferred_tasks.push(("transfers", Box::new(transfers)));
    }
    let layer: Arc<dyn HttpLayer> = layer;
    assembly.http_layers.push((LayerId::DynamoDb, layer.clone()));
    assembly.add_http("dynamodb", socket, layer);
    Ok(())
}

impl DatabaseLayer for DynamoDb {
    fn maintain(&self, database: &Database) -> bool {
        DynamoDb::maintain(self);
        let has_room = has_no_room(database, &self.engine).is_none();
        has_room && self.go_on()
    }
}
