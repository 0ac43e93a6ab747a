//! FaunaDB: its listener, and its layers over databases.

use std::sync::Arc;

use anyhow::Result;
use quartet_engine::{Busy, Engine, Space};
use quartet_layer_fauna::{Fauna, FaunaChanges, FaunaInvariants, Fetch, RateLimits, RootSecret};
use quartet_model::LayerId;
use quartet_tenancy::Database;

use super::{Assembly, ServedLayer, ServedListener};
use crate::fauna::{self, FaunaHttp, issuer_keys};
use crate::http::HttpLayer;
use crate::layers::kind::{DatabaseLayer, LayerKind};
use crate::layers::parts::Parts;
use crate::observability::durations::Measured;
use crate::process::system;
use crate::settings::DEVELOPMENT_SECRET;
use crate::tenants::Tenants;
use crate::tenants::admission_control::has_no_room;

pub const LAYER: ServedLayer = ServedLayer {
    kind: LayerKind {
        name: "fauna",
        id: LayerId::Fauna,
        open: |opening| Ok(Arc::new(layer_of(opening.parts, opening.database)?)),
        invariants: || Box::new(FaunaInvariants),
        changes: || Box::new(FaunaChanges::default()),
    },
    listener: ServedListener {
        listening: |settings| vec![settings.listening("fauna", settings.fauna.listen)],
        measured: Some(Measured {
            layer: "fauna",
            operations: || fauna::OPERATIONS.to_vec(),
        }),
        listen,
    },
};

/// Fetches keys of issuers: one for all databases, as it keeps its connections and knows which
/// issuers to trust.
struct IssuerKeys(Fetch);

fn listen(assembly: &mut Assembly<'_>) -> Result<()> {
    let (tenants, settings) = (assembly.tenants, assembly.settings);
    let fetch = issuer_keys::fetch(settings.fauna.issuer_roots.as_deref())?;
    let Some((socket, address)) = assembly.bind(settings.fauna.listen, "fauna")? else {
        return Ok(());
    };
    let parts = &tenants.parts;
    parts.of_kinds.put(Arc::new(IssuerKeys(fetch)));
    let scheme = settings.connections.tls.http_scheme();
    assembly.tell("fauna", address, format!("{scheme}://{address}"));
    let layer = default_layer(parts)?;
    let layer: Arc<dyn HttpLayer> = Arc::new(FaunaHttp::new(layer, tenants.clone()));
    assembly.added.http_layers.push((LayerId::Fauna, layer.clone()));
    assembly.add_http("fauna", socket, layer);
    Ok(())
}

/// The layer of the default database at a node that is not home.
pub fn at_replica(tenants: &Arc<Tenants>) -> Result<FaunaHttp, Busy> {
    Ok(FaunaHttp::new(default_layer(&tenants.parts)?, tenants.clone()))
}

fn default_layer(parts: &Parts) -> Result<Fauna, Busy> {
    let root_key = parts.settings.credentials.root_key();
    let root = root_key.map_or_else(|| RootSecret::of(DEVELOPMENT_SECRET), |sha256| RootSecret { sha256 });
    layer(parts, parts.engine.clone(), parts.default_space(LayerId::Fauna), root)
}

fn layer_of(parts: &Parts, database: &Arc<Database>) -> Result<Fauna, Busy> {
    let root = RootSecret {
        sha256: database.definition().credentials.fauna_key.0,
    };
    let engine = parts.engine_of(database).clone();
    let mut layer = layer(parts, engine.clone(), database.space(LayerId::Fauna), root)?;
    layer.is_one_of_several = true;
    let database = database.clone();
    layer.is_full = Box::new(move || has_no_room(&database, &engine).is_some());
    Ok(layer)
}

fn layer(parts: &Parts, engine: Arc<Engine>, space: Space, root: RootSecret) -> Result<Fauna, Busy> {
    let random = Box::new(system::fill_random);
    let mut layer = match parts.replica {
        None => Fauna::new(engine, space, root, random)?,
        Some(period) => Fauna::at_replica(engine, space, root, random, period),
    };
    if let Some(keys) = parts.of_kinds.get::<IssuerKeys>() {
        layer.key_sets.fetch = Some(Box::new(move |uri| (keys.0)(uri)));
    }
    layer.rate_limits = RateLimits::new(parts.settings.fauna.rate_limits);
    Ok(layer)
}

impl DatabaseLayer for Fauna {
    fn maintain(&self, _database: &Database) -> bool {
        fauna::maintain(self)
    }
}
