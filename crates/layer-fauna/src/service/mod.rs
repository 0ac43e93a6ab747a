//! One request, one reply: identifies the caller, parses, evaluates as one transaction, writes the
//! answer.
//!
//! A query that cannot write reads the newest durable state and never waits; in a cluster, where
//! another node may show a record before it is known here to be durable, it reads the latest state
//! and waits. A query that may write runs as an optimistic transaction; its reply is held back
//! until its writes are durable. The caller provides the transport.

pub mod callers;
pub mod changes;
pub mod headers;
pub mod invariants;
pub mod maintenance;
pub mod message;
pub mod rate_limits;
pub mod replica;
pub mod shown_times;
pub mod streams;
pub mod sweep;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use quartet_engine::{Admission, Busy, Dependency, Engine, FollowingPeriod, RunError, Space};
use quartet_model::Version;

use crate::credentials::jwt::keys::KeySets;
use crate::credentials::secrets::base_hash;
use crate::credentials::{jwt, secrets};
use crate::evaluation::deadline::{Deadline, busy, not_home, unreadable};
use crate::evaluation::{Cost, out_of_memory};
use crate::language::api_version::ApiVersion;
use crate::language::error::{Code, Errors, Result};
use crate::language::expression::{Effect, Query};
use crate::language::parse;
use crate::language::render;
use crate::language::signature::SIGNATURES;
use crate::language::value::{Timestamp, Value};
use crate::service::headers::{RequestHeaders, is_stream};
use crate::service::message::{Refusal, Reply, Request, Unanswered, parse_body, refusal, refusal_in};
use crate::service::rate_limits::RateLimits;
use crate::service::shown_times::Shown;
use crate::service::sweep::Walk;
use crate::storage::documents::ID_COUNT_BITS;
use crate::storage::rows::{self, DatabaseNumber, Moment, View};
use crate::storage::schema::Schema;

/// Headers of a usual reply.
const HEADERS: usize = 16;
/// Attempts at a transaction before it is called contended.
const ATTEMPTS: u32 = 5;
/// A larger body is decoded only for authenticated callers.
const STRANGERS_BODY_BYTES_MAX: usize = 16 << 10;
/// Larger requests are refused.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// The layer over one logical database of the engine.
pub struct Fauna {
    pub engine: Arc<Engine>,
    pub space: Space,
    /// Another node is home: the layer reads this node's replica, in this period, and never writes.
    pub(crate) replica: Option<FollowingPeriod>,
    pub(crate) root_secret: RootSecret,
    /// This logical database is one of several: the secrets that are made in it name it.
    pub is_one_of_several: bool,
    /// Refuses what would make the database larger.
    pub is_full: Box<dyn Fn() -> bool + Send + Sync>,
    random: Random,
    /// The last id of a trace.
    traces: AtomicU64,
    schemas: Mutex<HashMap<u64, Arc<Schema>>>,
    last_id: AtomicU64,
    shown: Mutex<Shown>,
    work_left: AtomicBool,
    /// The keys of other issuers; how to fetch them is for the server to say.
    pub key_sets: KeySets,
    pub rate_limits: RateLimits,
    pub(crate) walk: Mutex<Walk>,
}

/// Fills a buffer with unpredictable bytes.
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

/// The result of evaluating a query, and the time that it has shown.
#[derive(Default)]
struct Done {
    cost: Cost,
    /// The latest time that it has shown, among times that need not be in the log; 0: none.
    shown_micros: u64,
}

/// The outcome of a query.
struct Outcome {
    value: Result<Value>,
    /// The version of the log that it shows: its commit, or the newest that it has looked at.
    version: Version,
    cost: Cost,
    retries: u32,
    dependency: Dependency,
}

/// The parameters of a query's execution.
struct Plan<'q> {
    query: &'q Query,
    secret: &'q str,
    headers: &'q RequestHeaders<'q>,
    deadline: Deadline,
    /// The most that it may do.
    allowed: Effect,
}

impl Fauna {
    /// Fails while something keeps the partition, and may be tried again.
    pub fn new(
        engine: Arc<Engine>,
        space: Space,
        root_secret: RootSecret,
        random: Random,
    ) -> std::result::Result<Fauna, Busy> {
        let fauna = Fauna::over(engine, space, root_secret, random);
        fauna.begin_above_shown()?;
        Ok(fauna)
    }

    fn over(engine: Arc<Engine>, space: Space, root_secret: RootSecret, random: Random) -> Fauna {
        let mut seed = [0; 8];
        random(&mut seed);
        Fauna {
            engine,
            space,
            replica: None,
            root_secret,
            is_one_of_several: false,
            is_full: Box::new(|| false),
            random,
            traces: AtomicU64::new(u64::from_be_bytes(seed)),
            schemas: Mutex::default(),
            last_id: AtomicU64::new(0),
            shown: Mutex::default(),
            work_left: AtomicBool::new(true),
            key_sets: KeySets::default(),
            rate_limits: RateLimits::default(),
            walk: Mutex::default(),
        }
    }

    /// The number that the secrets made here carry.
    pub(crate) fn elsewhere(&self) -> Option<u16> {
        self.is_one_of_several.then_some(self.space.database.0)
    }

    pub fn random(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        (self.random)(&mut bytes);
        bytes
    }

    /// Bytes for the ids of a trace: they differ, but are no secret, so they are SplitMix64 from a
    /// random start and not the system's randomness, which costs more than many a query.
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

    /// Makes new ids higher than those with a time up to `micros`.
    pub(crate) fn ids_begin_above(&self, micros: u64) {
        self.last_id.fetch_max((micros + 1) << ID_COUNT_BITS, Ordering::Relaxed);
    }

    /// Rises with time, and never repeats: what shows or keeps an id keeps the time in it as well.
    pub fn new_id(&self, now_micros: u64) -> u64 {
        let from_time = now_micros << ID_COUNT_BITS;
        let next = |last: u64| Some(from_time.max(last + 1));
        let last = self.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        from_time.max(last.unwrap_or(0) + 1)
    }

    /// Says that `maintain` has something to do.
    pub fn work_is_left(&self) {
        self.work_left.store(true, Ordering::Relaxed);
    }

    /// Returns true once after work was left.
    pub fn take_work(&self) -> bool {
        self.work_left.swap(false, Ordering::Relaxed)
    }

    /// The state as of now: the home's, or a replica's that is known to have all of the log.
    pub fn moment(&self) -> std::result::Result<Moment, Busy> {
        let reader = match self.replica {
            None if self.engine.is_home() => self.engine.reader(self.space)?,
            None => return Err(Busy),
            Some(period) => self.replica_reader(period)?,
        };
        Ok(Moment::of(reader))
    }

    /// The compiled schema of a database, as the view sees it.
    pub fn schema(&self, view: &mut View<'_>, database: DatabaseNumber) -> Arc<Schema> {
        let row = view.get_stamp(&rows::schema_stamp(database).0);
        let stamp = row.as_deref().unwrap_or_default();
        if let Some(cached) = self.schemas.lock().get(&database.0)
            && cached.stamp == stamp
        {
            return cached.clone();
        }
        let schema = Arc::new(Schema::load(view, database, stamp.to_vec()));
        // The writes of an open transaction are not shared.
        if rows::number_at(&schema.stamp, 0) != Timestamp::PENDING.0 {
            self.schemas.lock().insert(database.0, schema.clone());
        }
        schema
    }

    /// Answers a request, however long it takes. Streams are opened with `stream` instead.
    pub fn answer(&self, request: Request<'_>) -> Reply {
        self.answer_within(request, true)
    }

    /// Answers a request on a thread that others wait for. Long work is left to `stream` or
    /// `answer` on another thread.
    pub fn dispatch(&self, request: Request<'_>) -> std::result::Result<Reply, Unanswered> {
        let secret = RequestHeaders::new(request.headers).secret().unwrap_or_default();
        if is_stream(&request) {
            return Err(Unanswered::TakesLong);
        }
        if jwt::is_token(&secret) {
            if self.replica.is_some() {
                return Err(Unanswered::Busy);
            }
            let moment = self.moment()?;
            if !self.keys_are_ready(&mut View::Reader(&moment), &secret) {
                return Err(Unanswered::TakesLong);
            }
        }
        let reply = self.answer_within(request, false);
        reply.unanswered.map_or(Ok(reply), Err)
    }

    /// Checks a request without its body: `Ok(true)` for a valid secret, `Ok(false)` for one that
    /// cannot be checked yet: a token of an issuer with missing keys, or any while the partition is
    /// locked. `Err` refuses all others.
    pub fn judge_head(&self, request: Request<'_>) -> std::result::Result<bool, Reply> {
        let headers = RequestHeaders::new(request.headers);
        let secret = headers.secret().unwrap_or_default();
        let Ok(moment) = self.moment() else {
            return Ok(false);
        };
        let mut view = View::Reader(&moment);
        if jwt::is_token(&secret) && !self.keys_are_ready(&mut view, &secret) {
            return Ok(false);
        }
        match self.authenticate(&mut view, &secret) {
            Ok(_) => Ok(true),
            Err(_) if moment.reader.is_unreadable() => Ok(false),
            Err(_) => Err(headers::complete(
                self.unauthorized(moment.dependency()),
                &headers,
                &self.trace(),
            )),
        }
    }

    /// Refuses a query with a wrong secret, before its body is decoded. `None`: it must be
    /// answered.
    pub fn refuse_stranger(&self, request: Request<'_>) -> Option<Reply> {
        let path = request.target.split('?').next().unwrap_or_default();
        let is_query = matches!(
            (&*headers::plain_path(path), request.method),
            ("/" | "/linearized", "POST") | ("/", "GET") | ("/stream", "POST")
        );
        if !is_query || RequestHeaders::new(request.headers).check().is_err() {
            return None;
        }
        self.judge_head(request).err()
    }

    fn answer_within(&self, request: Request<'_>, may_take_long: bool) -> Reply {
        let headers = RequestHeaders::new(request.headers);
        let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
        let path = headers::plain_path(path);
        let reply = match (&*path, request.method) {
            (_, "OPTIONS") if headers.get("origin").is_some() => headers::preflight(&headers),
            ("/", "POST") | ("/linearized", "POST") => self.query(&headers, request.body, Effect::Write, may_take_long),
            ("/", "GET") => match headers::parameter(query, "q") {
                Some(text) => self.query(&headers, text.as_bytes(), Effect::Read, may_take_long),
                None => self.query(&headers, b"", Effect::Read, may_take_long),
            },
            ("/ping", "GET" | "HEAD") => ping(query),
            ("/authorized", "GET") => self.authorized(&headers),
            ("/" | "/linearized" | "/ping" | "/authorized" | "/stream", _) => {
                let allow = match &*path {
                    "/" => "GET, POST",
                    "/ping" | "/authorized" => "GET",
                    _ => "POST",
                };
                let message = format!("Allowed methods are {allow}.");
                let errors = Errors::protocol(Code::MethodNotAllowed, message);
                let mut reply = refusal(&errors);
                reply.headers.push(("allow", allow.into()));
                reply
            }
            (path, _) if is_of_later_language(path) => refusal_of_later_language(),
            _ => refusal(&Errors::protocol(Code::NotFound, "Not Found")),
        };
        headers::complete(reply, &headers, &self.trace())
    }

    /// Answers a request that is not to be run.
    pub fn refuse(&self, request: Request<'_>, why: Refusal) -> Reply {
        let headers = RequestHeaders::new(request.headers);
        let errors = match why {
            Refusal::TooLarge => Errors::protocol(Code::RequestTooLarge, "Request too large"),
            Refusal::TooMany(text) => Errors::protocol(Code::TooManyRequests, text),
            Refusal::Busy => busy(),
            Refusal::NoMemory => out_of_memory(),
        };
        headers::complete(refusal(&errors), &headers, &self.trace())
    }

    fn query(&self, headers: &RequestHeaders<'_>, body: &[u8], allowed: Effect, may_take_long: bool) -> Reply {
        if let Err(errors) = headers.check() {
            return refusal(&errors);
        }
        let Some(secret) = headers.secret() else {
            return self.unauthorized(Version::ZERO);
        };
        let started = self.engine.now_micros();
        let credential = self.rate_limits.are_set().then(|| base_hash(&secret));
        if let Some(credential) = &credential
            && let Err(errors) = self.rate_limits.check(credential, started)
        {
            let mut reply = refusal(&errors);
            let exceeded = self.rate_limits.exceeded(credential);
            reply.headers = vec![("x-rate-limited-ops", exceeded.into()), ("retry-after", "1".into())];
            return reply;
        }
        if may_take_long
            && jwt::is_token(&secret)
            && let Ok(moment) = self.moment()
        {
            self.make_keys_ready(&mut View::Reader(&moment), &secret);
        }
        let mut outcome = match self.parse(&secret, headers, body) {
            Err(errors) => self.refused(&secret, errors),
            Ok(query) if self.is_for_home(&query) => self.outcome_of_busy(),
            Ok(query) if query.may_write && !is_deletion(&query.root) && (self.is_full)() => {
                let message = "The database's storage quota is exceeded: delete something first.";
                self.refused(&secret, Errors::protocol(Code::TooManyRequests, message))
            }
            Ok(query) => match self.admission(&query, may_take_long) {
                Admission::Refused => {
                    let message = "The server is out of memory: delete something first, or try again later.";
                    self.refused(&secret, Errors::protocol(Code::Unavailable, message))
                }
                Admission::Later => self.outcome_of_busy(),
                Admission::Now => {
                    let plan = Plan {
                        query: &query,
                        secret: &secret,
                        headers,
                        deadline: Deadline::new(may_take_long, started, headers.query_timeout_ms()),
                        allowed,
                    };
                    match query.may_write && allowed == Effect::Write {
                        true => self.run(&plan),
                        false => self.read(&plan),
                    }
                }
            },
        };
        let operations = outcome.cost.operations();
        if outcome.value.is_err() {
            outcome.cost.report_failure();
        }
        let reply = self.reply(outcome, started, body.len(), headers.api_version());
        // A request that is restarted is charged then.
        if let Some(credential) = &credential
            && reply.unanswered.is_none()
            && reply.status != 401
        {
            self.rate_limits
                .charge(credential, &operations, self.engine.now_micros());
        }
        reply
    }

    /// A small body may be untrusted: its evaluation checks the credential. A large one is decoded
    /// only for authenticated callers.
    fn parse(&self, secret: &str, headers: &RequestHeaders<'_>, body: &[u8]) -> Result<Query> {
        if body.len() > STRANGERS_BODY_BYTES_MAX {
            let moment = self.moment().map_err(|Busy| busy())?;
            let authenticated = self.authenticate(&mut View::Reader(&moment), secret);
            if moment.reader.is_unreadable() {
                return Err(unreadable());
            }
            authenticated?;
        }
        parse_body(body).and_then(|json| parse::query(&json, headers.api_version()))
    }

    /// Returns whether the query may start, regarding memory and disk: queries that read or delete
    /// always may.
    fn admission(&self, query: &Query, may_take_long: bool) -> Admission {
        match (query.may_write && !is_deletion(&query.root), may_take_long) {
            (false, _) => Admission::Now,
            (true, true) => self.engine.wait_for_room(),
            (true, false) => self.engine.admission(),
        }
    }

    /// A query with a parse error gets that error only for authenticated callers.
    fn refused(&self, secret: &str, errors: Errors) -> Outcome {
        let Ok(moment) = self.moment() else {
            return self.outcome_of_busy();
        };
        let mut view = View::Reader(&moment);
        let errors = match self.authenticate(&mut view, secret) {
            _ if moment.reader.is_unreadable() => unreadable(),
            Ok(_) => errors,
            Err(unauthorized) => unauthorized,
        };
        Outcome {
            dependency: moment.dependency(),
            ..Outcome::failed(errors, moment.reader.durable)
        }
    }

    fn outcome_of_busy(&self) -> Outcome {
        Outcome::failed(busy(), self.engine.durable())
    }

    /// Runs a query that writes nothing on the newest durable state; or on the latest, and holds
    /// the answer back, if the caller has seen something newer, it looks at something newer that
    /// has no history, or another node may have shown something newer.
    fn read(&self, plan: &Plan<'_>) -> Outcome {
        let Ok(moment) = self.moment() else {
            return self.outcome_of_busy();
        };
        let reader = &moment.reader;
        let wants_newer = plan.headers.last_seen().is_some_and(|seen| seen > reader.durable.0);
        let is_settled = reader.dependency == Version::ZERO;
        let mut done = Done::default();
        let takes_durable = !is_settled && !wants_newer && !self.engine.is_replicated();
        let mut at = takes_durable.then_some(Timestamp(reader.durable.0));
        let mut value = self.evaluate(View::Reader(&moment), plan, at, &mut done);
        if at.is_some() && moment.is_ahead() {
            at = None;
            value = self.evaluate(View::Reader(&moment), plan, at, &mut done);
        }
        if reader.is_unreadable() {
            value = Err(unreadable());
        }
        if self.replica.is_some() && done.shown_micros > reader.version.0 {
            return self.outcome_of_busy();
        }
        let (version, dependency) = match at {
            Some(_) => (reader.durable, Version::ZERO),
            None => (reader.version, reader.dependency),
        };
        let outcome = Outcome {
            value,
            version,
            cost: done.cost,
            retries: 0,
            dependency,
        };
        self.keeping_shown(outcome, done.shown_micros)
    }

    fn run(&self, plan: &Plan<'_>) -> Outcome {
        let attempts = plan.headers.max_retries().map_or(ATTEMPTS, |retries| retries + 1);
        let (mut done, mut tries, mut wrote) = (Done::default(), 0, false);
        let ran = self.engine.run_versioned(self.space, attempts, |transaction| {
            tries += 1;
            done = Done::default();
            if is_deletion(&plan.query.root) {
                transaction.deletes();
            }
            let value = self.evaluate(View::Transaction(transaction), plan, None, &mut done);
            transaction.land_above(done.shown_micros);
            wrote = transaction.has_written();
            value
        });
        let (value, version, dependency) = match ran {
            Ok((value, version, dependency)) => (Ok(value), version, dependency),
            Err(error) => {
                let (errors, dependency) = errors_of(error);
                (Err(errors), self.engine.durable(), dependency)
            }
        };
        // Its writes land above everything that it has shown.
        let is_kept = wrote && value.is_ok();
        let outcome = Outcome {
            value,
            version,
            cost: done.cost,
            retries: tries.max(1) - 1,
            dependency,
        };
        match is_kept {
            true => outcome,
            false => self.keeping_shown(outcome, done.shown_micros),
        }
    }

    /// Returns the outcome of a query that has committed nothing: it is sent once the time it has
    /// shown is kept.
    fn keeping_shown(&self, outcome: Outcome, shown_micros: u64) -> Outcome {
        let (value, dependency) = match self.keep_shown(shown_micros, outcome.version) {
            Ok(dependency) => (outcome.value, dependency),
            Err(error) => {
                let (errors, dependency) = errors_of(error);
                (Err(errors), dependency)
            }
        };
        Outcome {
            value,
            dependency: outcome.dependency.max(dependency),
            ..outcome
        }
    }

    fn evaluate(&self, mut view: View<'_>, plan: &Plan<'_>, at: Option<Timestamp>, done: &mut Done) -> Result<Value> {
        let caller = self.authenticate(&mut view, plan.secret)?;
        let mut evaluation = self.evaluation(view, &caller, plan.deadline, at)?;
        evaluation.version = plan.headers.api_version();
        if plan.allowed < Effect::Write {
            (evaluation.allowed, evaluation.allowed_in) = (plan.allowed, "get requests");
        }
        let value = evaluation.evaluate(&plan.query.root);
        *done = Done {
            cost: evaluation.cost,
            shown_micros: evaluation.shown_micros,
        };
        match evaluation.interrupted.take() {
            Some(errors) => Err(errors),
            None => value,
        }
    }

    fn reply(&self, outcome: Outcome, started: u64, bytes_in: usize, version: ApiVersion) -> Reply {
        let mut reply = match &outcome.value {
            Err(errors) => refusal_in(errors, outcome.version.0, version),
            Ok(value) => Reply {
                status: if is_new(value) { 201 } else { 200 },
                headers: Vec::with_capacity(HEADERS),
                body: render::resource(value, outcome.version.0, version),
                dependency: Version::ZERO,
                duration_micros: 0,
                unanswered: None,
            },
        };
        reply.dependency = outcome.dependency;
        reply.unanswered = outcome.value.err().and_then(|errors| unanswered(&errors));
        let now = self.engine.now_micros();
        reply.duration_micros = now.saturating_sub(started);
        let elapsed = reply.duration_micros / 1000;
        headers::metrics(
            &mut reply,
            &outcome.cost,
            outcome.version,
            elapsed,
            bytes_in,
            outcome.retries,
        );
        reply
    }

    fn unauthorized(&self, dependency: Dependency) -> Reply {
        let errors = Errors::protocol(Code::Unauthorized, "Unauthorized");
        Reply {
            dependency,
            ..refusal(&errors)
        }
    }

    fn authorized(&self, headers: &RequestHeaders<'_>) -> Reply {
        let Ok(moment) = self.moment() else {
            let started = self.engine.now_micros();
            return self.reply(self.outcome_of_busy(), started, 0, ApiVersion::V4);
        };
        let secret = headers.secret().unwrap_or_default();
        match self.authenticate(&mut View::Reader(&moment), &secret) {
            Ok(_) => Reply {
                status: 200,
                headers: vec![("x-txn-time", moment.reader.version.0.to_string().into())],
                body: "{\"resource\":true}".into(),
                dependency: moment.dependency(),
                duration_micros: 0,
                unanswered: None,
            },
            Err(_) if moment.reader.is_unreadable() => refusal(&unreadable()),
            Err(_) => self.unauthorized(moment.dependency()),
        }
    }
}

impl Outcome {
    /// The outcome of a query that was not run.
    fn failed(errors: Errors, version: Version) -> Outcome {
        Outcome {
            value: Err(errors),
            version,
            cost: Cost::default(),
            retries: 0,
            dependency: Version::ZERO,
        }
    }
}

/// Returns the answer of a transaction that was not committed, and its dependency.
fn errors_of(error: RunError<Errors>) -> (Errors, Dependency) {
    match error {
        RunError::Layer(errors, dependency) => (errors, dependency),
        RunError::Conflict => {
            let message = "Transaction was aborted due to detection of concurrent modification.";
            (Errors::protocol(Code::ContendedTransaction, message), Version::ZERO)
        }
        RunError::DiskFull(dependency) => {
            let message = "The disk is full: writes are refused until there is room. Deletions and reads go on.";
            (Errors::protocol(Code::Unavailable, message), dependency)
        }
        RunError::Unreadable(dependency) => (unreadable(), dependency),
        RunError::NotHome => (not_home(), Version::ZERO),
        RunError::Busy => (busy(), Version::ZERO),
        RunError::TooLarge(dependency) => {
            let errors = Errors::protocol(Code::BadRequest, "Transaction size exceeds the limit.");
            (errors, dependency)
        }
    }
}

fn unanswered(errors: &Errors) -> Option<Unanswered> {
    match errors.0.first()?.code {
        Code::TakesLong => Some(Unanswered::TakesLong),
        Code::Busy => Some(Unanswered::Busy),
        _ => None,
    }
}

/// Returns true if the answer is the version created by this query, at any position in it.
fn is_new(value: &Value) -> bool {
    matches!(value, Value::Document(document) if document.is_new)
}

/// Returns true if the query deletes a document: it makes room, or adds little.
fn is_deletion(root: &crate::language::expression::Expression) -> bool {
    matches!(root, crate::language::expression::Expression::Call(function, _) if SIGNATURES[*function].parameters[0].key == "delete")
}

/// Paths that clients of FQL v10 ask.
fn is_of_later_language(path: &str) -> bool {
    ["/query/", "/stream/", "/feed/", "/schema/"]
        .iter()
        .any(|prefix| path.starts_with(prefix))
}

/// A refusal in the form of FQL v10, whose clients show its code and its message.
fn refusal_of_later_language() -> Reply {
    let message =
        "FQL v10 is not served here: this server speaks FQL v4, for drivers such as npm and PyPI `faunadb` 4.";
    Reply {
        status: 400,
        headers: Vec::new(),
        body: format!(
            "{{\"error\":{{\"code\":\"invalid_request\",\"message\":\"{message}\"}},\"summary\":\"{message}\"}}"
        ),
        dependency: Version::ZERO,
        duration_micros: 0,
        unanswered: None,
    }
}

fn ping(query: &str) -> Reply {
    let scope = match headers::parameter(query, "scope").as_deref() {
        None | Some("write" | "global") => "write",
        Some("read" | "local") => "read",
        Some("all") => "all",
        Some(_) => "node",
    };
    Reply {
        status: 200,
        headers: Vec::new(),
        body: format!("{{\"resource\":\"Scope {scope} is OK\"}}"),
        dependency: Version::ZERO,
        duration_micros: 0,
        unanswered: None,
    }
}
