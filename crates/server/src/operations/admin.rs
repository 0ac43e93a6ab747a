//! The admin API: logical databases, as JSON over HTTP, for holders of the root key.
//!
//! ```text
//!   GET    /admin/v1/databases                      all of them, the default one first
//!   POST   /admin/v1/databases                      makes one; answers its credentials, this once
//!   GET    /admin/v1/databases/NAME                 what is decided, and what was used
//!   PATCH  /admin/v1/databases/NAME                 changes what is given
//!   DELETE /admin/v1/databases/NAME                 deletes it and all its rows
//!   POST   /admin/v1/databases/NAME/credentials     new credentials that replace the old
//!   POST   /admin/v1/databases/NAME/move            {"to": PARTITION} begins to move it (202)
//!   DELETE /admin/v1/databases/NAME/move            cancels that
//!   GET    /admin/v1/partitions                     size, load, queue and databases of each, and moves
//!   GET    /admin/v1/slow-requests                  the latest slow requests of all layers
//!   GET    /admin/v1/cluster                        the nodes of the cluster that this server is one of
//!   POST   /admin/v1/cluster/hand-over              {"to": NAME} makes that node home
//!   POST   /admin/v1/cluster/finish-upgrade        makes all nodes write the newest format
//!   POST   /admin/v1/cluster/remove                 {"node": NAME} removes a node that is gone for good
//!   POST   /admin/v1/restores                       {"name"} makes a database that admits nobody yet; answers its credentials
//!   POST   /admin/v1/restores/NAME/rows             rows of a backup, durable with the answer
//!   POST   /admin/v1/restores/NAME/finish           {"rows": NUMBER} admits its clients if all rows are there
//!   DELETE /admin/v1/restores/NAME                  ends that without the database
//!          /admin/v1/backups…                       what `quartet backup` takes (`backups`)
//!          /admin/v1/backup-targets…, …/backup-task  backups that the server takes itself (`backup_tasks`)
//! ```
//!
//! The root key is sent as `Authorization: Bearer`; with `--dev` it is `dev`, and pages of other
//! sites are refused.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use quartet_backup::read_rows;
use quartet_engine::{DatabaseCopyError, Durability, Engine, PartitionId};
use quartet_layer_redis::Redis;
use quartet_tenancy::{
    CatalogueError, Consistency, DEFAULT_DATABASE, Database, Definition, Quotas, Secrets, kept_root_key,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::http::web_pages::{self, comes_from_elsewhere};
use crate::http::{Answer, Credential, Head, HeadShows};
use crate::operations::backup_tasks::BackupTasks;
use crate::operations::backups::Backups;
use crate::operations::partitions;
use crate::settings::{Credentials, Settings};
use crate::tenants::Tenants;

/// The root key of a server started with `--dev`.
pub const DEVELOPMENT_KEY: &str = "dev";

const DATABASES: &str = "/admin/v1/databases";
const PARTITIONS: &str = "/admin/v1/partitions";
const RESTORES: &str = "/admin/v1/restores";
const SLOW_REQUESTS: &str = "/admin/v1/slow-requests";
const CLUSTER: &str = "/admin/v1/cluster";
/// Most bytes of a request's body.
const BODY_BYTES_MAX: usize = 1 << 20;

const OK: u16 = 200;
const CREATED: u16 = 201;
const ACCEPTED: u16 = 202;
const NO_CONTENT: u16 = 204;
const BAD_REQUEST: u16 = 400;
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const METHOD_NOT_ALLOWED: u16 = 405;
const CONFLICT: u16 = 409;
const PAYLOAD_TOO_LARGE: u16 = 413;
const SERVICE_UNAVAILABLE: u16 = 503;
const INSUFFICIENT_STORAGE: u16 = 507;

pub struct Admin {
    tenants: Arc<Tenants>,
    default: Arc<Redis>,
    key_sha256: [u8; 32],
    /// The key is public.
    is_development: bool,
    backups: Backups,
    backup_tasks: BackupTasks,
}

/// The fields of PATCH, and of POST beside the name: an absent one stays; a quota that is null
/// ends.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Change {
    durability: Option<String>,
    consistency: Option<Consistency>,
    eviction: Option<bool>,
    quotas: Option<Map<String, Value>>,
}

/// The body of a request to move a database.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveTo {
    to: u32,
}

/// The body of a request that ends a restore.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FinishRestore {
    rows: u64,
}

/// Why a request is refused.
struct Refused(u16, String);

impl From<CatalogueError> for Refused {
    fn from(error: CatalogueError) -> Refused {
        let status = match error {
            CatalogueError::BadName | CatalogueError::UnknownPartition(_) | CatalogueError::Default => BAD_REQUEST,
            CatalogueError::Exists
            | CatalogueError::BeingRestored
            | CatalogueError::Incomplete { .. }
            | CatalogueError::Moving
            | CatalogueError::NotMoving => CONFLICT,
            CatalogueError::Unknown => NOT_FOUND,
            CatalogueError::Full | CatalogueError::DiskFull => INSUFFICIENT_STORAGE,
            CatalogueError::LogFailed
            | CatalogueError::Unreadable
            | CatalogueError::Damaged(_)
            | CatalogueError::NoPartition { .. }
            | CatalogueError::NotThere { .. }
            | CatalogueError::OtherPartition { .. }
            | CatalogueError::LostPartition(_)
            | CatalogueError::NoHome(_)
            | CatalogueError::Stale
            | CatalogueError::Apart
            | CatalogueError::BeingDeleted
            | CatalogueError::Busy(_) => SERVICE_UNAVAILABLE,
        };
        Refused(status, error.to_string())
    }
}

impl From<DatabaseCopyError> for Refused {
    fn from(error: DatabaseCopyError) -> Refused {
        match error {
            DatabaseCopyError::UnknownLayer | DatabaseCopyError::Ahead(_) => bad(error),
            error => CatalogueError::from(error).into(),
        }
    }
}

fn bad(text: impl ToString) -> Refused {
    Refused(BAD_REQUEST, text.to_string())
}

fn conflict(error: anyhow::Error) -> Refused {
    Refused(CONFLICT, format!("{error:#}"))
}

/// The node that a request's body names.
fn node_in(body: &[u8], field: &str) -> Result<String, Refused> {
    let request: Value = serde_json::from_slice(body).map_err(bad)?;
    let name = request[field].as_str().map(str::to_owned);
    name.ok_or_else(|| bad(format!("\"{field}\" is the name of a node")))
}

/// Status and JSON of an answer.
type Shown = Result<(u16, Value), Refused>;

impl Admin {
    pub fn new(tenants: Arc<Tenants>, default: Arc<Redis>, settings: &Settings) -> Admin {
        Admin {
            backups: Backups::new(tenants.clone()),
            backup_tasks: BackupTasks::new(tenants.clone(), &settings.backups),
            tenants,
            default,
            key_sha256: key_of(&settings.credentials),
            is_development: settings.is_development(),
        }
    }

    /// True for the paths of the API.
    pub fn answers(path: &str) -> bool {
        path.starts_with("/admin/")
    }

    /// Changes wait for the log, so this must run on a thread where it blocks no other request.
    pub fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        if let HeadShows::Answer(refusal) = self.judge_head(head) {
            return refusal;
        }
        if Backups::answers(head.path()) {
            let mut answer = self.backups.answer(head, body.unwrap_or_default());
            answer.credential = Credential::Right;
            return answer;
        }
        if BackupTasks::answers(head.path()) {
            let mut answer = self.backup_tasks.answer(head, body.unwrap_or_default());
            answer.credential = Credential::Right;
            return answer;
        }
        let mut answer = match self.run(head, body) {
            Ok((NO_CONTENT, _)) => Answer::settled(NO_CONTENT, ""),
            Ok((status, value)) => whole(status, &value),
            Err(Refused(status, text)) => whole(status, &json!({ "error": text })),
        };
        answer.credential = Credential::Right;
        answer.is_of_the_node = head.path().starts_with(CLUSTER);
        answer
    }

    pub fn judge_head(&self, head: &Head<'_>) -> HeadShows {
        if self.is_development && comes_from_elsewhere(head) {
            return HeadShows::Answer(whole(FORBIDDEN, &json!({ "error": web_pages::REFUSAL })));
        }
        if has_key(head, self.key_sha256) {
            return HeadShows::Credential;
        }
        let mut refusal = whole(UNAUTHORIZED, &json!({ "error": "the root key is missing or wrong" }));
        refusal.credential = Credential::Wrong;
        HeadShows::Answer(refusal)
    }

    /// The request shows the root key.
    pub fn is_operators(&self, head: &Head<'_>) -> bool {
        matches!(self.judge_head(head), HeadShows::Credential)
    }

    fn run(&self, head: &Head<'_>, body: Option<&[u8]>) -> Shown {
        let is_short = |body: &&[u8]| body.len() <= BODY_BYTES_MAX || head.path().starts_with(RESTORES);
        let body = body.filter(is_short);
        let body = body.ok_or_else(|| Refused(PAYLOAD_TOO_LARGE, "the body is too large".into()))?;
        let unknown = || Refused(NOT_FOUND, "there is no such path".into());
        let described = match head.path() {
            PARTITIONS => Some(partitions::describe(&self.tenants)),
            SLOW_REQUESTS => Some(self.tenants.parts.slow_requests.described()),
            _ => None,
        };
        if let Some(described) = described {
            return match head.method {
                "GET" => Ok((OK, described)),
                _ => Err(Refused(METHOD_NOT_ALLOWED, "method not allowed".into())),
            };
        }
        if let Some(path) = head.path().strip_prefix(CLUSTER) {
            return self.cluster(head.method, path, body);
        }
        if let Some(path) = head.path().strip_prefix(RESTORES) {
            return self.restore(head.method, path, body);
        }
        let rest = head.path().strip_prefix(DATABASES).ok_or_else(unknown)?;
        let segments: Vec<&str> = rest.split('/').skip(1).collect();
        match (head.method, &segments[..]) {
            _ if !rest.is_empty() && !rest.starts_with('/') => Err(unknown()),
            ("GET", []) => Ok((OK, self.list())),
            ("POST", []) => self.create(body),
            ("GET", [name]) => self.find(name),
            ("PATCH", [name]) => self.change(name, body),
            ("DELETE", [name]) => self.delete(name),
            ("POST", [name, "credentials"]) => self.renew_credentials(name),
            ("POST", [name, "move"]) => self.begin_move(name, body),
            ("DELETE", [name, "move"]) => self.cancel_move(name),
            (_, [] | [_] | [_, "credentials" | "move"]) => {
                Err(Refused(METHOD_NOT_ALLOWED, "method not allowed".into()))
            }
            _ => Err(unknown()),
        }
    }

    /// The nodes of the cluster that this server is one of.
    fn cluster(&self, method: &str, path: &str, body: &[u8]) -> Shown {
        let nodes = self.tenants.parts.nodes.as_ref().and_then(Weak::upgrade);
        let nodes = nodes.ok_or_else(|| Refused(NOT_FOUND, "this server is no node of a cluster".into()))?;
        match (method, path) {
            ("GET", "") => return Ok((OK, nodes.describe())),
            ("POST", "/hand-over") => nodes.hand_over(&node_in(body, "to")?).map_err(conflict)?,
            ("POST", "/finish-upgrade") => {
                let format = nodes.finish_upgrade().map_err(conflict)?;
                return Ok((OK, json!({ "format": format })));
            }
            ("POST", "/remove") => nodes.remove(&node_in(body, "node")?).map_err(conflict)?,
            _ => return Err(Refused(NOT_FOUND, "there is no such path".into())),
        }
        Ok((NO_CONTENT, Value::Null))
    }

    fn list(&self) -> Value {
        let databases = self.tenants.catalogue.list();
        let databases = databases.iter().filter(|database| !database.is_closed());
        let mut all = vec![self.show_default()];
        all.extend(databases.map(|database| self.show(database)));
        json!({ "databases": all })
    }

    fn find(&self, name: &str) -> Shown {
        if name == "default" {
            return Ok((OK, self.show_default()));
        }
        let database = self.tenants.catalogue.named(name);
        let database = database.filter(|database| !database.is_closed());
        Ok((OK, self.show(&*database.ok_or(CatalogueError::Unknown)?)))
    }

    /// A database of a backup becomes another database of the running server, while its clients
    /// continue. Until the last request it counts as deleted: a crash, another home, or two minutes
    /// without rows remove all of it, and its sender starts again.
    fn restore(&self, method: &str, path: &str, body: &[u8]) -> Shown {
        let catalogue = &self.tenants.catalogue;
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match (method, &segments[..]) {
            ("POST", []) => {
                let (database, secrets) = catalogue.begin_restore(self.definition_in(body)?)?;
                return Ok((CREATED, self.show_with(&database, &secrets)));
            }
            ("POST", [name, "rows"]) => {
                let rows = read_rows(body).map_err(bad)?;
                catalogue.restore(name, |engine, id| engine.put_rows(id, rows).map_err(Refused::from))?;
            }
            ("POST", [name, "finish"]) => {
                let finish: FinishRestore = serde_json::from_slice(body).map_err(bad)?;
                return Ok((OK, self.show(&*catalogue.end_restore(name, finish.rows)?)));
            }
            ("DELETE", [name]) => catalogue.cancel_restore(name)?,
            _ => return Err(Refused(NOT_FOUND, "there is no such path".into())),
        }
        Ok((NO_CONTENT, Value::Null))
    }

    fn create(&self, body: &[u8]) -> Shown {
        let (database, secrets) = self.tenants.catalogue.create(self.definition_in(body)?)?;
        Ok((CREATED, self.show_with(&database, &secrets)))
    }

    fn definition_in(&self, body: &[u8]) -> Result<Definition, Refused> {
        let mut change: Map<String, Value> = serde_json::from_slice(body).map_err(bad)?;
        let Some(Value::String(name)) = change.remove("name") else {
            return Err(bad("a database needs a name"));
        };
        let change: Change = serde_json::from_value(Value::Object(change)).map_err(bad)?;
        let mut definition = Definition::new(name, self.default.space.durability);
        change.apply(&mut definition)?;
        Ok(definition)
    }

    fn change(&self, name: &str, body: &[u8]) -> Shown {
        let change: Change = serde_json::from_slice(body).map_err(bad)?;
        let present = self.tenants.catalogue.named(name).ok_or(CatalogueError::Unknown)?;
        let mut checked = Definition::clone(&present.definition());
        change.apply(&mut checked)?;
        let database = self.tenants.change(name, move |definition| {
            definition.durability = checked.durability;
            definition.consistency = checked.consistency;
            definition.eviction = checked.eviction;
            definition.quotas = checked.quotas.clone();
        })?;
        Ok((OK, self.show(&database)))
    }

    fn delete(&self, name: &str) -> Shown {
        self.tenants.delete(name)?;
        Ok((NO_CONTENT, Value::Null))
    }

    fn begin_move(&self, name: &str, body: &[u8]) -> Shown {
        let target: MoveTo = serde_json::from_slice(body).map_err(bad)?;
        let started = self.tenants.begin_move(name, PartitionId(target.to));
        if let Err(CatalogueError::Apart) = started {
            let nodes = self.tenants.parts.nodes.as_ref().and_then(Weak::upgrade);
            nodes.inspect(|nodes| nodes.gather());
        }
        let status = match started? {
            true => ACCEPTED,
            false => OK,
        };
        Ok((
            status,
            json!({ "database": name, "to": target.to, "is_there": status == OK }),
        ))
    }

    fn cancel_move(&self, name: &str) -> Shown {
        self.tenants.cancel_move(name)?;
        Ok((NO_CONTENT, Value::Null))
    }

    fn renew_credentials(&self, name: &str) -> Shown {
        let (database, secrets) = self.tenants.catalogue.renew_credentials(name)?;
        self.tenants.close_layers(&database);
        Ok((OK, self.show_with(&database, &secrets)))
    }
}

/// Returns true if the request shows the root key, as a node knows that that has no service for
/// operators.
pub fn shows_root_key(head: &Head<'_>, settings: &Settings, first: &Engine) -> bool {
    if settings.is_development() && comes_from_elsewhere(head) {
        return false;
    }
    let key = match &settings.credentials {
        Credentials::Kept => kept_root_key(first).ok().flatten().map(|hash| hash.0),
        authorization => Some(key_of(authorization)),
    };
    key.is_some_and(|key| has_key(head, key))
}

fn key_of(credentials: &Credentials) -> [u8; 32] {
    let root_key = credentials.root_key();
    root_key.unwrap_or_else(|| Sha256::digest(DEVELOPMENT_KEY).into())
}

/// Hashes are compared, so how much of a guess is right does not show in the time.
fn has_key(head: &Head<'_>, key_sha256: [u8; 32]) -> bool {
    let authorization = head.header("authorization");
    let token = authorization
        .and_then(|authorization| authorization.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token.is_some_and(|(_, token)| <[u8; 32]>::from(Sha256::digest(token.trim())) == key_sha256)
}

impl Change {
    fn apply(self, definition: &mut Definition) -> Result<(), Refused> {
        if let Some(durability) = self.durability {
            let parsed = Durability::parse(&durability);
            definition.durability = parsed.ok_or_else(|| bad("durability is always, interval or none"))?;
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
        let engine = self.tenants.parts.engine_of(database);
        let usage = self.tenants.catalogue.usage_of(database, engine.now_micros());
        let usage = usage.unwrap_or_default();
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
            "partition": database.partition().0,
            "usage": usage,
        })
    }

    fn show_with(&self, database: &Database, secrets: &Secrets) -> Value {
        let mut description = self.show(database);
        description["credentials"] = serde_json::to_value(secrets).expect("texts are JSON");
        description
    }

    /// The default database is not metered: its figures are those of INFO.
    fn show_default(&self) -> Value {
        let statistics = &self.default.observation.statistics;
        json!({
            "name": "default",
            "id": DEFAULT_DATABASE.0,
            "durability": self.default.space.durability.name(),
            "consistency": Consistency::default().name(),
            "eviction": false,
            "quotas": {},
            "partition": 0,
            "usage": {
                "commands": statistics.commands_processed(),
                "bytes_in": statistics.bytes_read.load(Ordering::Relaxed),
                "bytes_out": statistics.bytes_written.load(Ordering::Relaxed),
                "stored_bytes": self.tenants.parts.engine.stored_bytes(DEFAULT_DATABASE),
                "connections": self.default.connections.clients.count(),
            },
        })
    }
}

fn whole(status: u16, body: &Value) -> Answer {
    let mut answer = Answer::settled(status, format!("{body}\n"));
    answer.headers.push(("content-type", "application/json".into()));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Header;

    fn asking<'r>(headers: &'r [Header<'r>]) -> Head<'r> {
        Head {
            method: "GET",
            target: DATABASES,
            headers,
        }
    }

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
            let headers = [Header {
                name: "Authorization",
                value: header.as_bytes(),
            }];
            assert_eq!(has_key(&asking(&headers), key), opens, "{header}");
        }
        assert!(!has_key(&asking(&[]), key));
    }
}
