//! One request, one reply: finds out who asks, parses, evaluates as one transaction, writes the answer.
//!
//! A query that cannot write reads the newest durable state and never waits. One that may write runs as an optimistic
//! transaction; its reply is held back until what it wrote is durable. The transport is somebody else's business.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use quartet_engine::{Engine, Hold, RunError, Space};
use quartet_model::Version;

use crate::authorization::{Authorization, Rights};
use crate::error::{Code, Errors, Result};
use crate::evaluation::{Cost, Evaluation};
use crate::expression::{Effect, Query};
use crate::functions::authentication::token_fields;
use crate::headers::{self, RequestHeaders};
use crate::json::{self, JsonError};
use crate::parse;
use crate::render;
use crate::rows::{self, DatabaseNumber, Key, ROOT, View};
use crate::schema::Schema;
use crate::secrets::{self, Claim};
use crate::value::{Native, Ref, Target, Timestamp, Value};

/// Headers of a usual reply.
const HEADERS: usize = 16;
/// Attempts at a transaction before it is called contended.
const ATTEMPTS: u32 = 5;
/// Larger requests are refused.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// The layer over one logical database of the engine.
pub struct Fauna {
    pub engine: Arc<Engine>,
    pub space: Space,
    root_secret: RootSecret,
    random: Random,
    /// Where the ids of traces have got to.
    traces: AtomicU64,
    schemas: Mutex<HashMap<u64, Arc<Schema>>>,
    last_id: AtomicU64,
    work_left: AtomicBool,
}

/// Fills a buffer with what nobody can guess.
pub type Random = Box<dyn Fn(&mut [u8]) + Send + Sync>;

/// The secret of the root database's admin, by its hash.
pub struct RootSecret {
    pub sha256: [u8; 32],
}

impl RootSecret {
    pub fn of(secret: &str) -> RootSecret {
        RootSecret {
            sha256: secrets::hash(secret),
        }
    }
}

/// A request as the transport received it. Names of headers are in lower case.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    pub method: &'r str,
    /// With the query string.
    pub target: &'r str,
    pub headers: &'r [(&'r str, &'r str)],
    pub body: &'r [u8],
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    pub body: String,
    /// The reply may be sent once this is durable.
    pub hold: Hold,
}

/// What came of a query.
struct Outcome {
    value: Result<Value>,
    /// A document that this query made is its whole answer.
    created: bool,
    micros: u64,
    cost: Cost,
    retries: u32,
    hold: Hold,
}

/// How a query is to be run.
struct Plan<'q> {
    query: &'q Query,
    secret: &'q str,
    headers: &'q RequestHeaders<'q>,
}

impl Fauna {
    pub fn new(engine: Arc<Engine>, space: Space, root_secret: RootSecret, random: Random) -> Fauna {
        let mut seed = [0; 8];
        random(&mut seed);
        Fauna {
            engine,
            space,
            root_secret,
            random,
            traces: AtomicU64::new(u64::from_be_bytes(seed)),
            schemas: Mutex::default(),
            last_id: AtomicU64::new(0),
            work_left: AtomicBool::new(true),
        }
    }

    pub fn random(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        (self.random)(&mut bytes);
        bytes
    }

    /// Bytes for the ids of a trace: they differ, but are no secret, so they are SplitMix64 from a random start and not the
    /// system's randomness, which costs more than many a query.
    pub fn trace(&self) -> [u8; 24] {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let start = self.traces.fetch_add(STEP.wrapping_mul(3), Ordering::Relaxed);
        let mut bytes = [0; 24];
        for (index, part) in bytes.chunks_exact_mut(8).enumerate() {
            let mut mixed = start.wrapping_add(STEP.wrapping_mul(index as u64 + 1));
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            part.copy_from_slice(&(mixed ^ (mixed >> 31)).to_be_bytes());
        }
        bytes
    }

    /// Rises with time and never repeats while the clock does not go back.
    pub fn new_id(&self, now_micros: u64) -> u64 {
        let from_time = now_micros << 8;
        let next = |last: u64| Some(from_time.max(last + 1));
        let last = self.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        from_time.max(last.unwrap_or(0) + 1)
    }

    /// Says that `maintain` has something to do.
    pub fn work_is_left(&self) {
        self.work_left.store(true, Ordering::Relaxed);
    }

    /// True once after work was left.
    pub fn take_work(&self) -> bool {
        self.work_left.swap(false, Ordering::Relaxed)
    }

    /// The compiled schema of a database, as the view sees it.
    pub fn schema(&self, view: &mut View<'_>, database: DatabaseNumber) -> Arc<Schema> {
        let stamp = view.get(&rows::schema_stamp(database).0).unwrap_or_default();
        if let Some(known) = self.schemas.lock().get(&database.0)
            && known.stamp == stamp
        {
            return known.clone();
        }
        let schema = Arc::new(Schema::load(view, database, stamp));
        // What an open transaction has written is nobody else's.
        if rows::number_at(&schema.stamp, 0) != Timestamp::PENDING.0 {
            self.schemas.lock().insert(database.0, schema.clone());
        }
        schema
    }

    /// Answers a request. Streams are opened with `stream` instead.
    pub fn answer(&self, request: Request<'_>) -> Reply {
        let headers = RequestHeaders::new(request.headers);
        let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
        let path = headers::plain_path(path);
        let reply = match (&*path, request.method) {
            (_, "OPTIONS") => headers::preflight(&headers),
            ("/", "POST") | ("/linearized", "POST") => self.query(&headers, request.body, Effect::Write),
            ("/", "GET") => match headers::parameter(query, "q") {
                Some(text) => self.query(&headers, text.as_bytes(), Effect::Read),
                None => self.query(&headers, b"", Effect::Read),
            },
            ("/ping", "GET" | "HEAD") => ping(query),
            ("/authorized", "GET") => self.authorized(&headers),
            ("/" | "/linearized" | "/ping" | "/authorized" | "/stream", _) => {
                let errors = Errors::protocol(Code::MethodNotAllowed, "Method Not Allowed");
                let allow = if path == "/" {
                    "GET, POST"
                } else if path == "/ping" {
                    "GET, HEAD"
                } else {
                    "POST"
                };
                let mut reply = refusal(&errors, 0);
                reply.headers.push(("allow", allow.into()));
                reply
            }
            _ => refusal(&Errors::protocol(Code::NotFound, "Not Found"), 0),
        };
        headers::complete(reply, &headers, &self.trace())
    }

    /// Answers a request whose body is longer than `BODY_BYTES_MAX`.
    pub fn too_large(&self, request: Request<'_>) -> Reply {
        let headers = RequestHeaders::new(request.headers);
        let errors = Errors::protocol(Code::RequestTooLarge, "Request too large");
        headers::complete(refusal(&errors, self.engine.now_micros()), &headers, &self.trace())
    }

    fn query(&self, headers: &RequestHeaders<'_>, body: &[u8], allowed: Effect) -> Reply {
        if let Err(errors) = headers.check() {
            return refusal(&errors, self.engine.now_micros());
        }
        let Some(secret) = headers.secret() else {
            return self.unauthorized();
        };
        let parsed = parse_body(body).and_then(|json| parse::query(&json, allowed));
        let outcome = match parsed {
            Err(errors) => self.refused(&secret, errors),
            Ok(query) => {
                let plan = Plan {
                    query: &query,
                    secret: &secret,
                    headers,
                };
                match query.may_write {
                    true => self.run(&plan),
                    false => self.read(&plan),
                }
            }
        };
        self.reply(outcome, body.len())
    }

    /// A query that could not be parsed is refused only to those who may ask.
    fn refused(&self, secret: &str, errors: Errors) -> Outcome {
        let reader = self.engine.reader(self.space);
        let mut view = View::Reader(&reader);
        let value = match self.authenticate(&mut view, secret) {
            Ok(_) => Err(errors),
            Err(unauthorized) => Err(unauthorized),
        };
        Outcome {
            value,
            created: false,
            micros: reader.now_micros,
            cost: Cost::default(),
            retries: 0,
            hold: Version::ZERO,
        }
    }

    /// Runs a query that writes nothing on the newest durable state.
    fn read(&self, plan: &Plan<'_>) -> Outcome {
        let reader = self.engine.reader(self.space);
        let wants_newer = plan.headers.last_seen().is_some_and(|seen| seen > reader.durable.0);
        let is_settled = reader.hold == Version::ZERO;
        let mut cost = Cost::default();
        let at = (!is_settled && !wants_newer).then_some(Timestamp(reader.durable.0));
        let value = self.evaluate(View::Reader(&reader), plan, at, &mut cost);
        Outcome {
            value,
            created: false,
            micros: match at {
                Some(at) => at.0,
                None => reader.version.0.max(reader.now_micros.saturating_sub(1)),
            },
            cost,
            retries: 0,
            hold: if wants_newer { reader.hold } else { Version::ZERO },
        }
    }

    fn run(&self, plan: &Plan<'_>) -> Outcome {
        let attempts = plan.headers.max_retries().map_or(ATTEMPTS, |retries| retries + 1);
        let (mut cost, mut tries, mut wrote) = (Cost::default(), 0, false);
        let ran = self.engine.run_versioned(self.space, attempts, |transaction| {
            tries += 1;
            cost = Cost::default();
            let value = self.evaluate(View::Transaction(transaction), plan, None, &mut cost);
            wrote = transaction.has_written();
            value
        });
        let now = self.engine.now_micros();
        let (value, micros, hold) = match ran {
            Ok((value, version, hold)) if wrote => (Ok(value), version.0, hold),
            Ok((value, version, hold)) => (Ok(value), version.0.max(now.saturating_sub(1)), hold),
            Err(RunError::Layer(errors, hold)) => (Err(errors), now, hold),
            Err(RunError::Conflict) => {
                let message = "Transaction was aborted due to detection of concurrent modification.";
                let errors = Errors::protocol(Code::ContendedTransaction, message);
                (Err(errors), now, Version::ZERO)
            }
            Err(RunError::TooLarge(hold)) => {
                let errors = Errors::protocol(Code::BadRequest, "Transaction size exceeds the limit.");
                (Err(errors), now, hold)
            }
        };
        let created = matches!(&value, Ok(Value::Document(document)) if document.ts == Timestamp::PENDING)
            && is_creation(&plan.query.root);
        Outcome {
            value,
            created,
            micros,
            cost,
            retries: tries.max(1) - 1,
            hold,
        }
    }

    fn evaluate(&self, mut view: View<'_>, plan: &Plan<'_>, at: Option<Timestamp>, cost: &mut Cost) -> Result<Value> {
        let caller = self.authenticate(&mut view, plan.secret)?;
        let mut evaluation = self.evaluation(view, &caller)?;
        evaluation.at = at;
        let value = evaluation.evaluate(&plan.query.root);
        *cost = evaluation.cost;
        value
    }

    /// Everything that is needed to evaluate for a caller.
    pub fn evaluation<'v>(&'v self, mut view: View<'v>, caller: &Caller) -> Result<Evaluation<'v>> {
        let schema = self.schema(&mut view, caller.database);
        let mut evaluation = Evaluation::new(self, view, schema, Authorization::of(Rights::Client));
        let authorization = self.authorization(&mut evaluation, caller)?;
        evaluation.authorization = authorization;
        Ok(evaluation)
    }

    fn reply(&self, outcome: Outcome, bytes_in: usize) -> Reply {
        let mut reply = match &outcome.value {
            Err(errors) => refusal(errors, outcome.micros),
            Ok(value) => Reply {
                status: if outcome.created { 201 } else { 200 },
                headers: Vec::with_capacity(HEADERS),
                body: render::resource(value, outcome.micros),
                hold: Version::ZERO,
            },
        };
        reply.hold = outcome.hold;
        let elapsed = self.engine.now_micros().saturating_sub(outcome.micros) / 1000;
        headers::metrics(
            &mut reply,
            &outcome.cost,
            outcome.micros,
            elapsed,
            bytes_in,
            outcome.retries,
        );
        reply
    }

    fn unauthorized(&self) -> Reply {
        refusal(
            &Errors::protocol(Code::Unauthorized, "Unauthorized"),
            self.engine.now_micros(),
        )
    }

    fn authorized(&self, headers: &RequestHeaders<'_>) -> Reply {
        let reader = self.engine.reader(self.space);
        let mut view = View::Reader(&reader);
        let secret = headers.secret().unwrap_or_default();
        match self.authenticate(&mut view, &secret) {
            Ok(_) => Reply {
                status: 200,
                headers: vec![("x-txn-time", reader.version.0.to_string().into())],
                body: "{\"resource\":true}".into(),
                hold: Version::ZERO,
            },
            Err(_) => self.unauthorized(),
        }
    }
}

/// Who asks, as far as the secret alone tells.
#[derive(Clone, Debug)]
pub struct Caller {
    pub database: DatabaseNumber,
    grant: Grant,
}

#[derive(Clone, Debug)]
enum Grant {
    /// The role of a key, and the key if it lives in the database it opens.
    Role(Value, Option<Ref>),
    Token(u64),
    /// A document in whose name an admin or a server asks.
    Document(Ref),
}

fn unauthorized() -> Errors {
    Errors::protocol(Code::Unauthorized, "Unauthorized")
}

impl Fauna {
    /// `SECRET`, `SECRET:role`, `SECRET:database/path:role`.
    pub fn authenticate(&self, view: &mut View<'_>, text: &str) -> Result<Caller> {
        let (secret, suffix) = text
            .split_once(':')
            .map_or((text, None), |(secret, suffix)| (secret, Some(suffix)));
        let caller = self.caller(view, secret).ok_or_else(unauthorized)?;
        if !self.is_registered(view, caller.database) {
            return Err(unauthorized());
        }
        match suffix {
            None | Some("") => Ok(caller),
            Some(suffix) => self.suffixed(view, caller, suffix),
        }
    }

    fn caller(&self, view: &mut View<'_>, secret: &str) -> Option<Caller> {
        if secrets::hash(secret) == self.root_secret.sha256 {
            return Some(Caller {
                database: ROOT,
                grant: Grant::Role(Value::string("admin"), None),
            });
        }
        match secrets::claim(secret)? {
            Claim::Key(id) => {
                let row = view.get(&Key::global(b'K').number(id).0)?;
                if *row.get(16..48)? != secrets::hash(secret) || !self.is_alive(view, &row, Native::Keys, id) {
                    return None;
                }
                let (home, database) = (rows::number_at(&row, 0), rows::number_at(&row, 8));
                let role = crate::codec::Decoder::new(row.get(48..)?, &crate::definitions::NoNames).value()?;
                let own = (home == database).then(|| Ref::new(Target::Numbered(Native::Keys, id as i64)));
                Some(Caller {
                    database: DatabaseNumber(database),
                    grant: Grant::Role(role, own),
                })
            }
            Claim::Token(id) => {
                let row = view.get(&Key::global(b'T').number(id).0)?;
                if *row.get(8..40)? != secrets::hash(secret) || !self.is_alive(view, &row, Native::Tokens, id) {
                    return None;
                }
                Some(Caller {
                    database: DatabaseNumber(rows::number_at(&row, 0)),
                    grant: Grant::Token(id),
                })
            }
        }
    }

    /// The document of a key or a token is there and has not expired.
    fn is_alive(&self, view: &mut View<'_>, row: &[u8], native: Native, id: u64) -> bool {
        let home = DatabaseNumber(rows::number_at(row, 0));
        let document = view.get(&rows::document(home, native as u64, id).0);
        let now = view.now_micros();
        document.is_some_and(|row| !crate::indexes::is_expired(&row, now))
    }

    /// A database is there if it and all above it are.
    fn is_registered(&self, view: &mut View<'_>, database: DatabaseNumber) -> bool {
        let mut number = database.0;
        while number != ROOT.0 {
            match view.get(&Key::global(b'R').number(number).0) {
                Some(row) => number = rows::number_at(&row, 0),
                None => return false,
            }
        }
        true
    }

    /// Another database, another role. Only an admin may ask for that; a server for one of its documents.
    fn suffixed(&self, view: &mut View<'_>, caller: Caller, suffix: &str) -> Result<Caller> {
        let Grant::Role(Value::String(own), _) = &caller.grant else {
            return Err(unauthorized());
        };
        let (path, role) = suffix
            .split_once(':')
            .map_or((None, suffix), |(path, role)| (Some(path), role));
        let asks_for_document = role.starts_with("@doc/") || role.starts_with("collections/");
        if &**own != "admin" && !(&**own == "server" && path.is_none() && asks_for_document) {
            return Err(unauthorized());
        }
        let mut database = caller.database;
        for name in path.unwrap_or("").split('/').filter(|name| !name.is_empty()) {
            let row = view.get(&rows::name(database, Native::Databases as u8, name).0);
            database = DatabaseNumber(rows::number_at(&row.ok_or_else(unauthorized)?, 0));
        }
        let schema = self.schema(view, database);
        Ok(Caller {
            database,
            grant: suffix_grant(&schema, role).ok_or_else(unauthorized)?,
        })
    }

    fn authorization(&self, evaluation: &mut Evaluation<'_>, caller: &Caller) -> Result<Authorization> {
        match &caller.grant {
            Grant::Role(role, key) => {
                let rights = crate::functions::rights_of(evaluation, role);
                Ok(Authorization {
                    token: key.clone().map(Value::Ref),
                    ..Authorization::of(rights)
                })
            }
            Grant::Token(id) => {
                let fields = token_fields(evaluation, *id).ok_or_else(unauthorized)?;
                let Some(Value::Ref(identity)) = fields.get("instance") else {
                    return Err(unauthorized());
                };
                let token = Value::Ref(Ref::new(Target::Numbered(Native::Tokens, *id as i64)));
                let authorization = identity_authorization(evaluation, identity.clone())?;
                Ok(Authorization {
                    token: Some(token),
                    ..authorization
                })
            }
            Grant::Document(identity) => identity_authorization(evaluation, identity.clone()),
        }
    }
}

/// The rights of a document: those of the roles whose membership covers it.
fn identity_authorization(evaluation: &mut Evaluation<'_>, identity: Ref) -> Result<Authorization> {
    let place = evaluation.resolve(&identity).map_err(|_| unauthorized())?;
    evaluation.live(&place).ok_or_else(unauthorized)?;
    evaluation.authorization.identity = Some(identity.clone());
    let roles = evaluation.roles_of(&identity);
    Ok(Authorization {
        reads_itself: roles.is_empty(),
        rights: Rights::Roles(roles),
        identity: Some(identity),
        token: None,
    })
}

fn suffix_grant(schema: &Schema, role: &str) -> Option<Grant> {
    if let Some(name) = role.strip_prefix("@role/") {
        schema.role(name)?;
        return Some(Grant::Role(Value::named(Native::Roles, name), None));
    }
    let document = role.strip_prefix("@doc/").or_else(|| role.strip_prefix("collections/"));
    let Some(document) = document else {
        return Some(Grant::Role(Value::string(role), None));
    };
    let (collection, id) = document.split_once('/')?;
    schema.collection(collection)?;
    Some(Grant::Document(Ref::new(Target::Document(
        collection.into(),
        parse::parse_id(id)?,
    ))))
}

fn is_creation(root: &crate::expression::Expression) -> bool {
    match root {
        crate::expression::Expression::Call(function, _) => {
            let name = function.parameters[0].key;
            name.starts_with("create") || name == "login"
        }
        _ => false,
    }
}

pub fn parse_body(body: &[u8]) -> Result<json::Json> {
    json::parse(body).map_err(|error| {
        let message = match error {
            JsonError::Empty => "No query provided.",
            JsonError::Invalid => "Request body is not valid JSON.",
            JsonError::TooDeep => "Request body JSON exceeds nesting limit.",
        };
        Errors::new(Code::InvalidExpression, message)
    })
}

pub fn refusal(errors: &Errors, micros: u64) -> Reply {
    Reply {
        status: errors.status(),
        headers: Vec::new(),
        body: render::errors(errors, micros),
        hold: Version::ZERO,
    }
}

fn ping(query: &str) -> Reply {
    let scope = headers::parameter(query, "scope")
        .unwrap_or_else(|| "write".into())
        .to_lowercase();
    let known = ["node", "read", "local", "write", "global", "all"].contains(&scope.as_str());
    if !known {
        let errors = Errors::protocol(Code::InvalidUrlParameter, format!("Invalid scope '{scope}'"));
        return refusal(&errors, 0);
    }
    Reply {
        status: 200,
        headers: Vec::new(),
        body: format!("{{\"resource\":\"Scope {scope} is OK\"}}"),
        hold: Version::ZERO,
    }
}
