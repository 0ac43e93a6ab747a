//! The key-value layer: its listener, and its layers over databases.

use std::sync::Arc;

use anyhow::Result;
use quartet_engine::{Engine, Space};
use quartet_layer_keyvalue::{KeyValue, KeyValueChanges, KeyValueInvariants};
use quartet_model::LayerId;
use quartet_tenancy::Database;

use super::{Assembly, ServedLayer, ServedListener};
use crate::keyvalue::{KeyValueEndpoint, KeyValueEntrance, OPERATIONS};
use crate::layers::kind::{DatabaseLayer, LayerKind};
use crate::layers::parts::{Parts, WayOut};
use crate::observability::durations::Measured;
use crate::process::system;

pub const LAYER: ServedLayer = ServedLayer {
    kind: LayerKind {
        name: "keyvalue",
        id: LayerId::KeyValue,
        open: |opening| {
            let space = opening.database.space(LayerId::KeyValue);
            let engine = opening.parts.engine_of(opening.database).clone();
            Ok(Arc::new(layer(opening.parts, engine, space)))
        },
        invariants: || Box::new(KeyValueInvariants),
        changes: || Box::new(KeyValueChanges),
    },
    listener: ServedListener {
        listening: |settings| vec![settings.listening("keyvalue", settings.keyvalue.listen)],
        measured: Some(Measured {
            layer: "keyvalue",
            operations: || OPERATIONS.to_vec(),
        }),
        listen,
    },
};

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let (tenants, settings) = (assembly.tenants, assembly.settings);
    let Some((socket, address)) = assembly.bind(settings.keyvalue.listen, "keyvalue")? else {
        return Ok(());
    };
    assembly.tell("keyvalue", address, settings.credentials.cluster_string(address));
    let parts = &tenants.parts;
    let layer = layer(parts, parts.engine.clone(), parts.default_space(LayerId::KeyValue));
    let endpoint = Arc::new(KeyValueEndpoint::new(layer, tenants.clone()));
    let entrance = KeyValueEntrance {
        database_login: endpoint.clone(),
        tls: parts.tls.clone(),
        limit: assembly.limit.clone(),
        way_out: WayOut {
            nodes: parts.nodes.clone(),
            listener: "keyvalue",
        },
    };
    assembly.add("keyvalue", socket, entrance);
    // The console reads rows by it.
    assembly.added.lent.put(endpoint.clone());
    assembly.maintain(move || endpoint.maintain());
    Ok(())
}

fn layer(parts: &Parts, engine: Arc<Engine>, space: Space) -> KeyValue {
    let mut instance = [0; 8];
    system::fill_random(&mut instance);
    let instance = u64::from_le_bytes(instance);
    KeyValue::new(engine, space, parts.settings.keyvalue.limits, instance)
}

impl DatabaseLayer for KeyValue {
    fn maintain(&self, _database: &Database) -> bool {
        KeyValue::maintain(self);
        false
    }
}
