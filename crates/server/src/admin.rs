//! The admin API: logical databases, as JSON over HTTP, for whoever has the root key.
//!
//! ```text
//!   GET    /admin/v1/databases                      all of them, the default one first
//!   POST   /admin/v1/databases                      makes one; answers its credentials, this once
//!   GET    /admin/v1/databases/NAME                 what is decided, and what was used
//!   PATCH  /admin/v1/databases/NAME                 changes what is given
//!   DELETE /admin/v1/databases/NAME                 deletes it and all its rows
//!   POST   /admin/v1/databases/NAME/credentials     new credentials in the place of the old
//! ```
//!
//! The root key comes as `Authorization: Bearer`; with `--dev` it is `dev`. A browser cannot send that header from a page of
//! somebody else's without being refused first, so no page can use a developer's server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use quartet_engine::Durability;
use quartet_layer_redis::Redis;
use quartet_tenancy::{CatalogueError, Consistency, Database, Definition, KeptCredentials, Quotas, Secrets};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::layers::DEFAULT_DATABASE;
use crate::settings::Credentials;
use crate::tenants::Tenants;

/// The root key of a server started with `--dev`.
const DEVELOPMENT_KEY: &str = "dev";

struct Admin {
    tenants: Arc<Tenants>,
    default: Arc<Redis>,
}

/// What PATCH takes, and POST beside the name: what is absent stays; a quota that is null ends.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Change {
    durability: Option<String>,
    consistency: Option<Consistency>,
    eviction: Option<bool>,
    quotas: Option<Map<String, Value>>,
}

/// Why a request is refused.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        answer(self.0, &json!({"error": self.1}))
    }
}

impl From<CatalogueError> for Refused {
    fn from(error: CatalogueError) -> Refused {
        let status = match error {
            CatalogueError::BadName => StatusCode::BAD_REQUEST,
            CatalogueError::Exists => StatusCode::CONFLICT,
            CatalogueError::Unknown => StatusCode::NOT_FOUND,
            CatalogueError::Full => StatusCode::INSUFFICIENT_STORAGE,
            CatalogueError::LogFailed => StatusCode::SERVICE_UNAVAILABLE,
        };
        Refused(status, error.to_string())
    }
}

fn bad(text: impl ToString) -> Refused {
    Refused(StatusCode::BAD_REQUEST, text.to_string())
}

type Answer = Result<Response, Refused>;

pub fn routes(tenants: Arc<Tenants>, default: Arc<Redis>, credentials: &Credentials) -> Router {
    let key = match credentials {
        Credentials::Key { sha256 } => *sha256,
        Credentials::None => Sha256::digest(DEVELOPMENT_KEY).into(),
    };
    let one = get(show).patch(change).delete(delete);
    Router::new()
        .route("/admin/v1/databases", get(list).post(create))
        .route("/admin/v1/databases/{name}", one)
        .route("/admin/v1/databases/{name}/credentials", post(renew_credentials))
        .layer(middleware::from_fn(move |request, next| check_key(key, request, next)))
        .with_state(Arc::new(Admin { tenants, default }))
}

async fn check_key(key: [u8; 32], request: Request, next: Next) -> Response {
    if has_key(request.headers(), key) {
        return next.run(request).await;
    }
    Refused(StatusCode::UNAUTHORIZED, "the root key is missing or wrong".into()).into_response()
}

/// Hashes are compared, so how much of a guess is right does not show in the time.
fn has_key(headers: &HeaderMap, key: [u8; 32]) -> bool {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = given
        .and_then(|given| given.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token.is_some_and(|(_, token)| <[u8; 32]>::from(Sha256::digest(token.trim())) == key)
}

async fn list(State(admin): State<Arc<Admin>>) -> Response {
    let others = admin.tenants.catalogue.list();
    let others = others.iter().filter(|database| !database.is_closed());
    let mut all = vec![admin.show_default()];
    all.extend(others.map(|database| admin.show(database)));
    answer(StatusCode::OK, &json!({ "databases": all }))
}

async fn show(State(admin): State<Arc<Admin>>, Path(name): Path<String>) -> Answer {
    if name == "default" {
        return Ok(answer(StatusCode::OK, &admin.show_default()));
    }
    let database = admin
        .tenants
        .catalogue
        .named(&name)
        .filter(|database| !database.is_closed());
    let database = database.ok_or(CatalogueError::Unknown)?;
    Ok(answer(StatusCode::OK, &admin.show(&database)))
}

async fn create(State(admin): State<Arc<Admin>>, body: Bytes) -> Answer {
    let mut wanted: Map<String, Value> = serde_json::from_slice(&body).map_err(bad)?;
    let Some(Value::String(name)) = wanted.remove("name") else {
        return Err(bad("a database needs a name"));
    };
    let wanted: Change = serde_json::from_value(Value::Object(wanted)).map_err(bad)?;
    let mut definition = Definition {
        name,
        durability: admin.default.space.durability,
        consistency: Consistency::default(),
        eviction: false,
        quotas: Quotas::default(),
        credentials: KeptCredentials::default(),
        created_micros: 0,
        deleted: false,
    };
    wanted.apply(&mut definition)?;
    in_background(move || {
        let (database, secrets) = admin.tenants.catalogue.create(definition)?;
        Ok(answer(StatusCode::CREATED, &admin.show_with(&database, &secrets)))
    })
    .await
}

async fn change(State(admin): State<Arc<Admin>>, Path(name): Path<String>, body: Bytes) -> Answer {
    let wanted: Change = serde_json::from_slice(&body).map_err(bad)?;
    in_background(move || {
        let present = admin.tenants.catalogue.named(&name).ok_or(CatalogueError::Unknown)?;
        let mut checked = Definition::clone(&present.definition());
        wanted.apply(&mut checked)?;
        let database = admin.tenants.change(&name, move |definition| {
            definition.durability = checked.durability;
            definition.consistency = checked.consistency;
            definition.eviction = checked.eviction;
            definition.quotas = checked.quotas;
        })?;
        Ok(answer(StatusCode::OK, &admin.show(&database)))
    })
    .await
}

async fn delete(State(admin): State<Arc<Admin>>, Path(name): Path<String>) -> Answer {
    in_background(move || {
        admin.tenants.delete(&name)?;
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

async fn renew_credentials(State(admin): State<Arc<Admin>>, Path(name): Path<String>) -> Answer {
    in_background(move || {
        let (database, secrets) = admin.tenants.catalogue.renew_credentials(&name)?;
        admin.tenants.close_layers(&database);
        Ok(answer(StatusCode::OK, &admin.show_with(&database, &secrets)))
    })
    .await
}

/// Changes wait for the log, on a thread where that keeps nobody else.
async fn in_background(work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())))
}

impl Change {
    fn apply(self, definition: &mut Definition) -> Result<(), Refused> {
        if let Some(durability) = self.durability {
            let known = Durability::parse(&durability);
            definition.durability = known.ok_or_else(|| bad("durability is always, interval or none"))?;
        }
        definition.consistency = self.consistency.unwrap_or(definition.consistency);
        definition.eviction = self.eviction.unwrap_or(definition.eviction);
        if let Some(changed) = self.quotas {
            definition.quotas = merged(&definition.quotas, changed)?;
        }
        if definition.eviction && definition.quotas.stored_bytes.is_none() {
            return Err(bad("eviction needs the quota stored_bytes"));
        }
        Ok(())
    }
}

fn merged(quotas: &Quotas, changed: Map<String, Value>) -> Result<Quotas, Refused> {
    let Ok(Value::Object(mut all)) = serde_json::to_value(quotas) else {
        unreachable!("quotas are an object");
    };
    all.extend(changed);
    serde_json::from_value(Value::Object(all)).map_err(|error| bad(format!("quotas: {error}")))
}

impl Admin {
    fn show(&self, database: &Database) -> Value {
        let definition = database.definition();
        let engine = &self.tenants.maker.engine;
        let usage = database.meter.usage(engine.now_micros());
        let mut usage = serde_json::to_value(usage).expect("numbers are JSON");
        usage["stored_bytes"] = engine.stored_bytes(database.id).into();
        usage["connections"] = self.tenants.connections_of(database.id).into();
        json!({
            "name": definition.name,
            "id": database.id.0,
            "durability": definition.durability.name(),
            "consistency": definition.consistency.name(),
            "eviction": definition.eviction,
            "quotas": definition.quotas,
            "access_keys": definition.credentials.access_keys.keys().collect::<Vec<_>>(),
            "created_micros": definition.created_micros,
            "usage": usage,
        })
    }

    fn show_with(&self, database: &Database, secrets: &Secrets) -> Value {
        let mut shown = self.show(database);
        shown["credentials"] = serde_json::to_value(secrets).expect("texts are JSON");
        shown
    }

    /// Nobody meters the default database: what is known of it is what INFO shows.
    fn show_default(&self) -> Value {
        let statistics = &self.default.statistics;
        json!({
            "name": "default",
            "id": DEFAULT_DATABASE.0,
            "durability": self.default.space.durability.name(),
            "consistency": Consistency::default().name(),
            "eviction": false,
            "quotas": {},
            "usage": {
                "commands": statistics.commands_processed.load(Ordering::Relaxed),
                "bytes_in": statistics.bytes_read.load(Ordering::Relaxed),
                "bytes_out": statistics.bytes_written.load(Ordering::Relaxed),
                "stored_bytes": self.tenants.maker.engine.stored_bytes(DEFAULT_DATABASE),
                "connections": self.default.clients.count(),
            },
        })
    }
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let text = format!("{body}\n");
    (status, [(CONTENT_TYPE, "application/json")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_is_null_ends_and_one_that_is_unknown_is_refused() {
        let quotas = Quotas {
            connections: Some(5),
            stored_bytes: Some(7),
            ..Quotas::default()
        };
        let change = |text: &str| merged(&quotas, serde_json::from_str(text).unwrap());
        let changed = change(r#"{"connections": null, "request_bytes": 9}"#).ok().unwrap();
        assert_eq!(
            (changed.connections, changed.stored_bytes, changed.request_bytes),
            (None, Some(7), Some(9))
        );
        assert!(change(r#"{"conections": 1}"#).is_err());
        assert!(change(r#"{"connections": -1}"#).is_err());
    }

    #[test]
    fn only_the_key_opens() {
        let key = Sha256::digest("sesame").into();
        for (header, opens) in [
            ("Bearer sesame", true),
            ("bearer  sesame", true),
            ("Bearer sesam", false),
            ("Basic sesame", false),
            ("sesame", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, header.parse().unwrap())]);
            assert_eq!(has_key(&headers, key), opens, "{header}");
        }
        assert!(!has_key(&HeaderMap::new(), key));
    }
}
