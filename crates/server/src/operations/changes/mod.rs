//! The change feed: what was committed, in order and without gaps, from any version that the log
//! still has.
//!
//! ```text
//!   GET /v1/changes?from=VERSION&layer=redis,dynamodb&prefix=TEXT&database=NAME
//!   GET /v1/changes?partition=NUMBER
//! ```
//!
//! A token of a logical database reads that database's feed, also a read-only token; the root key
//! reads any feed, and all databases of a partition at once: versions of two partitions are not one
//! order, so there is no feed of both. `docs/changes.md` describes the events. Each feed has a
//! thread that reads the log (`feed`), and a bounded buffer between that and its connection: a slow
//! reader blocks the thread, and must start again when the log is no longer kept.

mod feed;
mod text;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use quartet_engine::{Engine, LogReadError, PartitionId};
use quartet_layer_redis::access::acl::password_hash;
use quartet_model::{DatabaseId, Version};
use quartet_tenancy::{Access, DEFAULT_DATABASE, Database};
use quartet_wire_rest::request::query_value;
use serde_json::json;

use self::feed::{Feed, FeedOptions, FeedRange};
use crate::http::web_pages::{self, comes_from_elsewhere};
use crate::http::{Answer, Credential, Follower, Head, HeadShows, Headers, ResponseStream, Wake};
use crate::layers::kind::LayerKind;
use crate::operations::admin::Admin;
use crate::rest::token_of;
use crate::settings::RestTokens;
use crate::tenants::Tenants;

pub const PATH: &str = "/v1/changes";

/// Feeds at a time, of one database and in all: each has a thread.
const FEEDS_OF_ONE_MAX: usize = 8;
const FEEDS_MAX: usize = 64;

const BAD_REQUEST: u16 = 400;
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const METHOD_NOT_ALLOWED: u16 = 405;
const CONFLICT: u16 = 409;
const GONE: u16 = 410;
const TOO_MANY_REQUESTS: u16 = 429;
const SERVICE_UNAVAILABLE: u16 = 503;

/// The database whose changes are sent; `None`: all of them.
type Scope = Option<DatabaseId>;

pub struct Changes {
    tenants: Arc<Tenants>,
    /// For the default database.
    given: RestTokens,
    /// Requires no credentials.
    is_open: bool,
    places: Arc<Places>,
}

/// The number of feeds.
#[derive(Default)]
pub struct Places {
    taken: Mutex<HashMap<Scope, usize>>,
    given_back: Condvar,
}

/// One of them.
pub struct Place {
    places: Arc<Places>,
    scope: Scope,
}

impl Places {
    fn take(self: &Arc<Places>, scope: Scope) -> Option<Place> {
        let mut taken = self.taken.lock();
        let all: usize = taken.values().sum();
        let own = taken.entry(scope).or_default();
        if all >= FEEDS_MAX || *own >= FEEDS_OF_ONE_MAX {
            return None;
        }
        *own += 1;
        let places = self.clone();
        Some(Place { places, scope })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.places.taken.lock();
        if let Some(count) = places.get_mut(&self.scope) {
            *count -= 1;
            if *count == 0 {
                places.remove(&self.scope);
            }
        }
        self.places.given_back.notify_all();
    }
}

/// The connections are closed by now, so the threads of their feeds end. They use the engine, which
/// is about to be closed.
impl Drop for Changes {
    fn drop(&mut self) {
        let mut places = self.places.taken.lock();
        while !places.is_empty() {
            self.places.given_back.wait(&mut places);
        }
    }
}

/// A part of a log, for one feed.
struct Stretch {
    engine: Arc<Engine>,
    /// `None`: from the newest version on.
    from: Option<Version>,
    /// The feed ends there.
    until: Option<Version>,
}

/// The caller.
enum Caller {
    Operator,
    Of(DatabaseId),
}

fn refusal(status: u16, text: impl Into<String>) -> Answer {
    let mut answer = Answer::settled(status, json!({ "error": text.into() }).to_string());
    answer.headers.push(("content-type", "application/json".into()));
    answer.credential = match status {
        UNAUTHORIZED => Credential::Wrong,
        _ => Credential::Right,
    };
    answer
}

impl Changes {
    pub fn new(tenants: Arc<Tenants>, configured: RestTokens, is_open: bool) -> Changes {
        Changes {
            tenants,
            given: configured,
            is_open,
            places: Arc::default(),
        }
    }

    pub fn judge_head(&self, head: &Head<'_>, admin: &Admin) -> HeadShows {
        match self.caller(head, admin) {
            Ok(_) => HeadShows::Credential,
            Err(refusal) => HeadShows::Answer(refusal),
        }
    }

    fn caller(&self, head: &Head<'_>, admin: &Admin) -> Result<Caller, Answer> {
        if head.method != "GET" {
            return Err(refusal(METHOD_NOT_ALLOWED, "a feed is requested with GET"));
        }
        if self.is_open && comes_from_elsewhere(head) {
            return Err(refusal(FORBIDDEN, web_pages::REFUSAL));
        }
        if admin.is_operators(head) {
            return Ok(Caller::Operator);
        }
        let Some(token) = token_of(head) else {
            // As over REST: with --dev and no configured token, no token is required.
            return match self.is_open && self.given.standard.is_none() {
                true => Ok(Caller::Of(DEFAULT_DATABASE)),
                false => Err(refusal(UNAUTHORIZED, "a token is missing")),
            };
        };
        let hash = Some(password_hash(token.as_bytes()));
        if hash == self.given.standard || hash == self.given.read_only {
            return Ok(Caller::Of(DEFAULT_DATABASE));
        }
        match self.tenants.catalogue.by_secret(token.as_bytes()) {
            Some((database, Access::Full | Access::ReadOnly)) => Ok(Caller::Of(database.id)),
            Some((_, Access::Fauna)) | None => Err(refusal(UNAUTHORIZED, "the token is wrong")),
        }
    }

    /// The partition of the database whose token requests its own feed, if another node is its
    /// home.
    pub fn elsewhere(&self, head: &Head<'_>, admin: &Admin) -> Option<PartitionId> {
        if !self.tenants.is_apart() {
            return None;
        }
        match self.caller(head, admin).ok()? {
            Caller::Of(id) => self.tenants.elsewhere(&*self.tenants.catalogue.numbered(id)?),
            Caller::Operator => None,
        }
    }

    /// Starts a feed, or returns the reason for its refusal. Reads from the disk.
    pub fn follow(&self, head: &Head<'_>, admin: &Admin, wake: Wake) -> ResponseStream {
        let caller = self.caller(head, admin)?;
        let (wishes, from) = self.wishes(head, &caller)?;
        let Stretch { engine, from, until } = self.stretch(head, wishes.scope, from)?;
        let place = self.places.take(wishes.scope);
        let place = place.ok_or_else(|| refusal(TOO_MANY_REQUESTS, "there are as many feeds as there may be"))?;
        let newest = engine.durable();
        if from.is_some_and(|from| from > newest) {
            let text = format!(
                "version {} is not reached: the newest is {}; the data are not those of this feed",
                from.unwrap_or_default().0,
                newest.0
            );
            return Err(refusal(CONFLICT, text));
        }
        let from = from.unwrap_or(newest);
        let reader = engine.read_log_after(from);
        let reader = reader.map_err(|error| not_readable(&engine, &error))?;
        let kind = if wishes.is_event_stream {
            "text/event-stream"
        } else {
            "application/x-ndjson"
        };
        let headers: Headers = vec![("content-type", kind.into()), ("cache-control", "no-cache".into())];
        let range = FeedRange { from, until };
        let feed = Feed::start(engine, self.tenants.clone(), reader, wishes, range, place, wake);
        let feed = feed.map_err(|_| refusal(SERVICE_UNAVAILABLE, "no thread can be started"))?;
        Ok((200, headers, Box::new(feed) as Box<dyn Follower>))
    }

    /// The log that has the changes. If a database was moved, the previous partition has its
    /// changes up to the move, and a feed that continues after them reads the present partition.
    fn stretch(&self, head: &Head<'_>, scope: Scope, from: Option<Version>) -> Result<Stretch, Answer> {
        let partitions = &self.tenants.parts.partitions;
        let database = scope.and_then(|id| self.tenants.catalogue.numbered(id));
        let moved = database.as_ref().and_then(|database| database.definition().moved);
        if let (Some(moved), Some(from)) = (moved, from) {
            let engine = partitions.engine(PartitionId(moved.from)).clone();
            if from.0 < moved.since {
                let oldest = LogReadError::TooOld {
                    oldest: engine.durable_sequence(),
                };
                return Err(not_readable(&engine, &oldest));
            }
            if from.0 < moved.left {
                return Ok(Stretch {
                    engine,
                    from: Some(from),
                    until: Some(Version(moved.left)),
                });
            }
        }
        let arrived = moved.map(|moved| Version(moved.arrived));
        Ok(Stretch {
            engine: self.engine_of(head, scope, database.as_deref())?,
            from: from.map(|from| from.max(arrived.unwrap_or_default())),
            until: None,
        })
    }

    /// The engine whose log has the newest changes.
    fn engine_of(&self, head: &Head<'_>, scope: Scope, database: Option<&Database>) -> Result<Arc<Engine>, Answer> {
        let partitions = &self.tenants.parts.partitions;
        if scope.is_some() || partitions.count() == 1 {
            let engine = database.map_or(partitions.first(), |database| partitions.engine(database.partition()));
            return Ok(engine.clone());
        }
        let named = query_value(head.query(), "partition").ok().flatten();
        let named = named.and_then(|number| String::from_utf8(number).ok()?.parse().ok());
        let named = named.map(PartitionId).filter(|id| partitions.has(*id));
        let text = format!(
            "name a database, or by `partition` one of the {} partitions: versions of two are not one order",
            partitions.count()
        );
        named
            .map(|id| partitions.engine(id).clone())
            .ok_or_else(|| refusal(BAD_REQUEST, text))
    }

    fn wishes(&self, head: &Head<'_>, caller: &Caller) -> Result<(FeedOptions, Option<Version>), Answer> {
        let bad = |text: &str| refusal(BAD_REQUEST, text);
        let value = |name: &str| query_value(head.query(), name).map_err(|_| bad("the query cannot be read"));
        let is_event_stream = head
            .header("accept")
            .is_some_and(|kinds| kinds.contains("text/event-stream"));
        let last_event = head.header("last-event-id").filter(|_| is_event_stream);
        let from = match last_event {
            Some(id) => Some(id.trim().to_owned()),
            None => value("from")?.map(|from| String::from_utf8_lossy(&from).into_owned()),
        };
        let from = from.map(|from| from.parse().map(Version));
        let from = from
            .transpose()
            .map_err(|_| bad("`from` is the version of a change, a number"))?;
        let layers = value("layer")?
            .map(|names| layers_named(&names, &self.tenants.kinds))
            .transpose()
            .map_err(|names| bad(&format!("`layer` is some of {names}")))?;
        let database = value("database")?.map(|name| String::from_utf8_lossy(&name).into_owned());
        let wishes = FeedOptions {
            scope: self.scope(caller, database.as_deref())?,
            layers: layers.unwrap_or_else(|| self.tenants.kinds.clone()),
            prefix: value("prefix")?.unwrap_or_default(),
            is_event_stream,
        };
        Ok((wishes, from))
    }

    fn scope(&self, caller: &Caller, database: Option<&str>) -> Result<Scope, Answer> {
        let named = |name: &str| match name {
            "default" => Some(DEFAULT_DATABASE),
            name => self.tenants.catalogue.named(name).map(|database| database.id),
        };
        match (caller, database) {
            (Caller::Operator, None) => Ok(None),
            (Caller::Operator, Some(name)) => {
                let id = named(name).ok_or_else(|| refusal(NOT_FOUND, "there is no such database"))?;
                Ok(Some(id))
            }
            (Caller::Of(own), None) => Ok(Some(*own)),
            (Caller::Of(own), Some(name)) if named(name) == Some(*own) => Ok(Some(*own)),
            (Caller::Of(_), Some(_)) => Err(refusal(FORBIDDEN, "the token is of another database")),
        }
    }
}

fn not_readable(engine: &Engine, error: &LogReadError) -> Answer {
    match error {
        LogReadError::TooOld { .. } => {
            let newest = engine.durable().0;
            let way_out = "connect without `from`, store the version of the first line, read the present data, and continue from that version";
            let body = json!({ "error": "too old: the log is not kept from that version on", "newest": newest, "way_out": way_out });
            let mut answer = Answer::settled(GONE, body.to_string());
            answer.headers.push(("content-type", "application/json".into()));
            answer.credential = Credential::Right;
            answer
        }
        LogReadError::Beyond { .. } => refusal(CONFLICT, "that version is not reached"),
        LogReadError::Unreadable(error) => {
            tracing::error!(%error, "the log could not be read for a feed");
            refusal(SERVICE_UNAVAILABLE, "the log cannot be read, see the server's log")
        }
    }
}

/// The error is the names of all layers.
fn layers_named(names: &[u8], kinds: &[LayerKind]) -> Result<Vec<LayerKind>, String> {
    let names = String::from_utf8_lossy(names);
    let named = names
        .split(',')
        .map(|name| kinds.iter().find(|kind| kind.name == name.trim()).copied());
    named.collect::<Option<Vec<LayerKind>>>().ok_or_else(|| {
        let all: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        all.join(", ")
    })
}
