//! The key-value layer: its listener, and its layers over databases.

use std::sync::Arc;

use anyhow::Result;
use quartet_layer_keyvalue::{KeyValue, KeyValueChanges, KeyValueInvariants};
use quartet_model::LayerId;
use quartet_tenancy::Database;

use super::{Assembly, ServedLayer, ServedListener};
use crate::keyvalue::{KeyValueEndpoint, KeyValueEntrance, OPERATIONS};
use crate::layers::database_layer::{DatabaseLayer, LayerKind};
use crate::observability::durations::Measured;

pub const LAYER: ServedLayer = ServedLayer {
    kind: LayerKind {
        name: "keyvalue",
        id: LayerId::KeyValue,
        open: |opening| {
            let layer = opening.maker.keyvalue(opening.database.space(LayerId::KeyValue));
            Ok(Arc::new(layer))
        },
    },
    listener: ServedListener {
        listening: |settings| vec![settings.listening("keyvalue", settings.keyvalue.listen)],
        measured: Some(Measured {
            layer: "keyvalue",
            operations: || OPERATIONS.to_vec(),
        }),
        listen,
    },
    invariants: || Box::new(KeyValueInvariants),
    changes: || Box::new(KeyValueChanges),
};

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let Some((socket, address)) = assembly.bind(assembly.settings.keyvalue.listen, "keyvalue")? else {
        return Ok(());
    };
    assembly.keyvalue_address = Some(address);
    assembly.tell("keyvalue", assembly.settings.cluster_string(address));
    let endpoint = Arc::new(KeyValueEndpoint::new(assembly.tenants.clone()));
    let entrance = KeyValueEntrance {
        database_login: endpoint.clone(),
        tls: assembly.tenants.maker.tls.clone(),
        limit: assembly.limit.clone(),
    };
    assembly.add("keyvalue", socket, entrance);
    assembly.keyvalue = Some(endpoint.clone());
    assembly.maintained.push(Box::new(move || endpoint.maintain()));
    Ok(())
}

impl DatabaseLayer for KeyValue {
    fn maintain(&self, _database: &Database) -> bool {
        KeyValue::maintain(self);
        false
    }
}
