//! FaunaDB: its listener, and its layers over databases.

use std::sync::Arc;

use anyhow::Result;
use quartet_layer_fauna::{Fauna, FaunaChanges, FaunaInvariants};
use quartet_model::LayerId;
use quartet_tenancy::Database;

use super::{Assembly, ServedLayer, ServedListener};
use crate::fauna::{self, FaunaHttp};
use crate::http::HttpLayer;
use crate::layers::database_layer::{DatabaseLayer, LayerKind};
use crate::observability::durations::Measured;

pub const LAYER: ServedLayer = ServedLayer {
    kind: LayerKind {
        name: "fauna",
        id: LayerId::Fauna,
        open: |opening| Ok(Arc::new(opening.maker.fauna_of(opening.database)?)),
    },
    listener: ServedListener {
        listening: |settings| vec![settings.listening("fauna", settings.fauna.listen)],
        measured: Some(Measured {
            layer: "fauna",
            operations: || fauna::OPERATIONS.to_vec(),
        }),
        listen,
    },
    invariants: || Box::new(FaunaInvariants),
    changes: || Box::new(FaunaChanges::default()),
};

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let Some((socket, address)) = assembly.bind(assembly.settings.fauna.listen, "fauna")? else {
        return Ok(());
    };
    let maker = &assembly.tenants.maker;
    assembly.tell("fauna", format!("{}://{address}", maker.tls.http_scheme()));
    let layer: Arc<dyn HttpLayer> = Arc::new(FaunaHttp::new(maker.default_fauna()?, assembly.tenants.clone()));
    assembly.http_layers.push((LayerId::Fauna, layer.clone()));
    assembly.add_http("fauna", socket, layer);
    Ok(())
}

impl DatabaseLayer for Fauna {
    fn maintain(&self, _database: &Database) -> bool {
        fauna::maintain(self)
    }
}
