//! Redis over REST: the routing of requests, authentication, and the headers of the answers.
//!
//! `docs/rest.md` describes the protocol; `quartet-wire-rest` has its bytes.

mod events;
mod execution;
mod tokens;

pub use self::tokens::token_of;

use std::sync::Arc;
use std::time::Duration;

use quartet_engine::{Dependency, Memory, PartitionId, Reserved};
use quartet_layer_redis::access::acl::User;
use quartet_layer_redis::command::table::Table;
use quartet_layer_redis::{CommandMemory, Next, Redis};
use quartet_tenancy::Database;
use quartet_wire_resp::reply::UNCOUNTED_BYTES;
use quartet_wire_rest::reply::{OUT_OF_MEMORY, write_text};
use quartet_wire_rest::{Commands, Encoding, Json, commands_of_body, write_result, write_results, write_transaction};
use tokio::sync::watch;

use self::events::Events;
use self::execution::{BUSY, Execution, ExecutionStart, Sessions, are_read_at_replicas};
use self::tokens::{LoginError, Tokens};
use crate::http::body::{Body, JsonCost};
use crate::http::compression::{self, Unreadable};
use crate::http::elsewhere::Elsewhere;
use crate::http::{Answer, Credential, Dispatch, Follower, Head, HeadShows, Headers, ResponseStream, Wake};
use crate::observability::slow_requests::LayerOperation;
use crate::observability::telemetry::spans::{Described, named};
use crate::settings::RestTokens;
use crate::tenants::Tenants;
use crate::tenants::turns::FairShare;

/// Most bytes of a body.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// The words of one or many commands, and the commands in RESP.
const JSON_COST: JsonCost = JsonCost {
    element_bytes: 64,
    list_bytes: 96,
    object_bytes: 0,
};
/// A body that is the last word of the path's command.
const RAW_COST: JsonCost = JsonCost {
    element_bytes: 0,
    list_bytes: 0,
    object_bytes: 0,
};

/// The latest commit that an answer can have seen. A client sends it with its next request, so that
/// a server that lags waits; this server never lags.
const SYNC_TOKEN: &str = "upstash-sync-token";
const ENCODING: &str = "upstash-encoding";
const RESPONSE_FORMAT: &str = "upstash-response-format";

/// The name of this layer's listener.
const LISTENER: &str = "http";

/// The operations whose durations are measured.
pub const OPERATIONS: [&str; 3] = ["command", "pipeline", "transaction"];

/// Refuses a body without room in the budget.
const REQUEST_OUT_OF_MEMORY: &str = "OOM the request takes more memory than there is left for one";

const METHODS: [&str; 4] = ["GET", "HEAD", "POST", "PUT"];

const OK: u16 = 200;
const NO_CONTENT: u16 = 204;
const BAD_REQUEST: u16 = 400;
const UNAUTHORIZED: u16 = 401;
const METHOD_NOT_ALLOWED: u16 = 405;
const SERVICE_UNAVAILABLE: u16 = 503;

pub struct Rest {
    /// For the default database.
    sessions: Arc<Sessions>,
    tokens: Tokens,
    tenants: Arc<Tenants>,
}

/// The caller's credential, and the region.
struct Caller {
    sessions: Arc<Sessions>,
    user: Arc<User>,
    scheduler_handle: FairShare,
}

/// How the replies to a request become its answer; in the order of [`OPERATIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One command.
    Single,
    Pipeline,
    Transaction,
}

/// The format that the client requests by headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json(Encoding),
    Resp2,
}

/// All of it.
#[derive(Clone, Copy)]
struct RequestOptions {
    shape: Shape,
    format: Format,
    compression: Option<&'static str>,
}

/// An answer that says no.
struct Refusal {
    status: u16,
    text: String,
}

impl Refusal {
    fn bad(text: impl ToString) -> Refusal {
        Refusal {
            status: BAD_REQUEST,
            text: text.to_string(),
        }
    }

    fn busy() -> Refusal {
        Refusal {
            status: SERVICE_UNAVAILABLE,
            text: BUSY.to_owned(),
        }
    }

    fn answer(&self) -> Answer {
        let mut body = b"{\"error\":".to_vec();
        write_text(self.text.as_bytes(), &mut body);
        body.push(b'}');
        let mut answer = answer(self.status, JSON, body, Dependency::ZERO);
        answer.credential = match self.status {
            UNAUTHORIZED => Credential::Wrong,
            METHOD_NOT_ALLOWED => Credential::Absent,
            _ => Credential::Right,
        };
        answer
    }
}

const JSON: &str = "application/json";

impl Rest {
    pub fn new(layer: Arc<Redis>, tenants: Arc<Tenants>, tokens: RestTokens, stop: watch::Receiver<bool>) -> Rest {
        Rest {
            tokens: Tokens::new(tokens, layer.table),
            sessions: Arc::new(Sessions::new(layer, stop)),
            tenants,
        }
    }

    pub fn dispatch(&self, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        if head.method == "OPTIONS" {
            return Dispatch::Answered(preflight());
        }
        if let Some(partition) = self.elsewhere(head) {
            // The length of an unsent body is not forwarded, so the body is requested.
            let method = if head.method == "HEAD" { "GET" } else { head.method };
            let head = Head { method, ..*head };
            return Dispatch::Elsewhere(Elsewhere::new(&self.tenants.parts, partition, LISTENER, &head, body));
        }
        if listens(head) {
            return Dispatch::Later;
        }
        // A script that has taken too long is reported at once.
        let is_kept = |layer: &Redis| layer.engine.is_busy() && !layer.scripting.long_scripts.is_busy();
        let has_several = self.tenants.parts.partitions.count() > 1;
        if !has_several && is_kept(self.sessions.layer()) {
            return Dispatch::Busy(PartitionId(0));
        }
        match self.authorized(head) {
            Ok(caller) if has_several && is_kept(caller.sessions.layer()) => {
                Dispatch::Busy(caller.scheduler_handle.partition())
            }
            Ok(caller) => caller.scheduler_handle.dispatch(|| begun(&caller, head, body)),
            // The partition is held, or the database is moving to another partition.
            Err(refusal) if refusal.status == SERVICE_UNAVAILABLE => Dispatch::Busy(PartitionId(0)),
            Err(refusal) => Dispatch::Answered(refusal.answer()),
        }
    }

    /// The same on a thread that may be kept.
    pub fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        match self.authorized(head) {
            Ok(caller) => match caller.scheduler_handle.dispatch(|| begun(&caller, head, body)) {
                Dispatch::Unfinished(_, unfinished) => unfinished(),
                Dispatch::Answered(answer) => answer,
                Dispatch::Busy(_) => answer_busy(),
                Dispatch::Later | Dispatch::Elsewhere(_) => unreachable!("a request that was begun"),
            },
            Err(refusal) => refusal.answer(),
        }
    }

    pub fn judge_head(&self, head: &Head<'_>) -> HeadShows {
        if head.method == "OPTIONS" {
            return HeadShows::Answer(preflight());
        }
        if self.elsewhere(head).is_some() {
            return HeadShows::Credential;
        }
        match self.authorized(head) {
            Ok(_) => HeadShows::Credential,
            Err(refusal) if refusal.status == SERVICE_UNAVAILABLE => HeadShows::Name,
            Err(refusal) => HeadShows::Answer(refusal.answer()),
        }
    }

    pub fn describe(&self, head: &Head<'_>) -> Described {
        let operation = match head.path() {
            "/pipeline" => Shape::Pipeline,
            "/multi-exec" => Shape::Transaction,
            _ => Shape::Single,
        };
        let caller = match self.elsewhere(head) {
            Some(_) => None,
            None => self.authorized(head).ok(),
        };
        Described {
            layer: "rest",
            operation: OPERATIONS[operation as usize],
            database: caller.and_then(|caller| named(caller.scheduler_handle.database())),
        }
    }

    /// Answers a request that only reads at a node that is not home, if `serves` accepts its
    /// database (`None`: the default one).
    pub fn answer_at_replica(
        &self,
        head: &Head<'_>,
        body: &[u8],
        serves: impl FnOnce(Option<&Database>) -> bool,
    ) -> AtReplica {
        let database = self.tokens.database_of(self.sessions.layer(), head);
        let database = database.map(|id| self.tenants.catalogue.numbered(id));
        if database.as_ref().is_some_and(Option::is_none) || !serves(database.flatten().as_deref()) {
            return AtReplica::NotHere;
        }
        // The home refuses what is wrong, and counts it.
        let Ok(caller) = self.authorized(head) else {
            return AtReplica::NotHere;
        };
        let layer = caller.sessions.layer();
        let users = layer.access.user_file.as_ref();
        match (users.map(|users| users.is_as_read()), layer.is_as_stored()) {
            (Some(Ok(true)), Ok(true)) => {}
            (Some(Ok(false)), _) => return AtReplica::Outdated,
            _ => return AtReplica::NotHere,
        }
        let Ok((mut execution, options)) = prepared(&caller, head, Some(body)) else {
            return AtReplica::NotHere;
        };
        let started_micros = layer.engine.now_micros();
        if !execution.is_read_at_replicas() || !matches!(execution.begin(), ExecutionStart::Everything) {
            return AtReplica::NotHere;
        }
        let answer = answered(&mut execution, options);
        note_duration(&caller.scheduler_handle, &execution, options.shape, started_micros);
        AtReplica::Answered(Box::new(answer))
    }

    /// The partition of the request's database, if another node is its home and checks the token.
    fn elsewhere(&self, head: &Head<'_>) -> Option<PartitionId> {
        if !self.tenants.is_apart() || !METHODS.contains(&head.method) {
            return None;
        }
        let database = self.tokens.database_of(self.sessions.layer(), head)?;
        self.tenants.elsewhere(&*self.tenants.catalogue.numbered(database)?)
    }

    fn authorized(&self, head: &Head<'_>) -> Result<Caller, Refusal> {
        if !METHODS.contains(&head.method) {
            return Err(Refusal {
                status: METHOD_NOT_ALLOWED,
                text: format!("ERR method not allowed: {}", head.method),
            });
        }
        let found = self.tokens.user_of(self.sessions.layer(), head);
        let (layer, user) = found.map_err(|unwelcome| match unwelcome {
            LoginError::Because(text) => Refusal {
                status: UNAUTHORIZED,
                text: text.to_owned(),
            },
            LoginError::Busy => Refusal::busy(),
        })?;
        Ok(self.caller(layer, user))
    }

    /// `layer` is that of another database than the default one.
    fn caller(&self, layer: Option<Arc<Redis>>, user: Arc<User>) -> Caller {
        let Some(layer) = layer else {
            return Caller {
                sessions: self.sessions.clone(),
                user,
                scheduler_handle: FairShare::new(self.tenants.clone(), None),
            };
        };
        let database = self.tenants.catalogue.numbered(layer.space.database);
        Caller {
            sessions: Arc::new(self.sessions.elsewhere(layer)),
            user,
            scheduler_handle: FairShare::new(self.tenants.clone(), database),
        }
    }

    /// An event stream, if the request is for one.
    pub fn follow(&self, head: &Head<'_>, wake: Wake) -> Option<ResponseStream> {
        if !listens(head) {
            return None;
        }
        Some(match self.events(head, wake) {
            Ok(events) => {
                let mut headers: Headers = vec![
                    ("content-type", "text/event-stream".into()),
                    ("cache-control", "no-cache".into()),
                ];
                allow_pages(&mut headers);
                Ok((OK, headers, Box::new(events) as Box<dyn Follower>))
            }
            Err(refusal) => Err(refusal.answer()),
        })
    }

    fn events(&self, head: &Head<'_>, wake: Wake) -> Result<Events, Refusal> {
        let caller = self.authorized(head)?;
        // A body is of no use to a subscription; clients send an empty array.
        let commands = Commands::of_path(head.path(), None, b"").map_err(Refusal::bad)?;
        caller.sessions.check_room().map_err(Refusal::bad)?;
        let mut session = caller.sessions.listen(caller.user, Arc::new(move || wake.notify_one()));
        let mut confirmation = Vec::new();
        let received = session.receive(commands.range(0, 1), &mut confirmation);
        if let Next::Busy = received.next {
            return Err(Refusal::busy());
        }
        if received.consumed == 0 {
            return Err(Refusal::bad("ERR all clients are paused"));
        }
        if let Some(error) = confirmation.strip_prefix(b"-") {
            return Err(Refusal::bad(String::from_utf8_lossy(error).trim_end()));
        }
        let partition = caller.scheduler_handle.partition();
        Ok(Events::new(session, confirmation, received.dependency, partition))
    }
}

/// The answer to a request that waited in vain for something that keeps the partition.
pub fn answer_busy() -> Answer {
    Refusal::busy().answer()
}

/// The outcome of a request at a node that is not home.
pub enum AtReplica {
    Answered(Box<Answer>),
    /// It is for the home.
    NotHere,
    /// The same: users have changed since they were read.
    Outdated,
}

/// Returns whether a request with this head only reads. `None`: its body says that.
pub fn reads_by_head(table: &Table, head: &Head<'_>) -> Option<bool> {
    let is_served = ["GET", "POST", "PUT"].contains(&head.method) && !listens(head);
    match head.path() {
        "/" | "/pipeline" | "/multi-exec" => {
            // The page of the console is at the first of them.
            let has_commands = head.method == "POST" && !head.has("content-encoding");
            (!is_served || !has_commands).then_some(false)
        }
        path => {
            let commands = Commands::of_path(path, head.query(), b"");
            Some(is_served && commands.is_ok_and(|commands| are_read_at_replicas(table, &commands)))
        }
    }
}

/// The same for a request with this body, of a head that does not say it.
pub fn body_only_reads(table: &Table, head: &Head<'_>, body: &[u8]) -> bool {
    let commands = commands_of(head, body);
    commands.is_ok_and(|(commands, _)| are_read_at_replicas(table, &commands))
}

/// Executes the short part, and returns the rest.
fn begun(caller: &Caller, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
    let scheduler_handle = caller.scheduler_handle.clone();
    let started_micros = scheduler_handle.tenants().parts.engine.now_micros();
    let (mut execution, wishes) = match prepared(caller, head, body) {
        Ok(prepared) => prepared,
        Err(refusal) => return Dispatch::Answered(refusal.answer()),
    };
    match execution.begin() {
        ExecutionStart::Everything => {
            let answer = answered(&mut execution, wishes);
            note_duration(&scheduler_handle, &execution, wishes.shape, started_micros);
            return Dispatch::Answered(answer);
        }
        ExecutionStart::Nothing => return Dispatch::Busy(scheduler_handle.partition()),
        ExecutionStart::APart => {}
    }
    let remaining = move || {
        scheduler_handle.answer(|| {
            execution.finish();
            let answer = answered(&mut execution, wishes);
            note_duration(&scheduler_handle, &execution, wishes.shape, started_micros);
            answer
        })
    };
    Dispatch::Unfinished(Some(caller.scheduler_handle.clone()), Box::new(remaining))
}

/// A request was answered. Its database's histogram has its commands already.
fn note_duration(scheduler_handle: &FairShare, execution: &Execution, shape: Shape, started_micros: u64) {
    let parts = &scheduler_handle.tenants().parts;
    let micros = parts.engine.now_micros().saturating_sub(started_micros);
    let operation = shape as usize;
    parts.durations.of("rest").at(operation).add(micros);
    let operation = LayerOperation {
        layer: "rest",
        name: OPERATIONS[operation],
    };
    parts.note_slow(micros, operation, scheduler_handle.database(), || execution.shape());
}

fn prepared(caller: &Caller, head: &Head<'_>, body: Option<&[u8]>) -> Result<(Execution, RequestOptions), Refusal> {
    let memory = caller.sessions.layer().engine.memory();
    let mut body = readable(head, body, memory)?;
    let is_json = matches!(head.path(), "/" | "/pipeline" | "/multi-exec");
    if !body.take_values(if is_json { JSON_COST } else { RAW_COST }) {
        return Err(Refusal::bad(REQUEST_OUT_OF_MEMORY));
    }
    let (commands, shape) = commands_of(head, &body)?;
    let input = body.keep(commands.bytes());
    let wishes = RequestOptions {
        shape,
        format: format_of(head, shape)?,
        compression: compression::preferred(head),
    };
    let execution = Execution::new(caller.sessions.clone(), caller.user.clone(), commands, input);
    Ok((execution, wishes))
}

/// True for a request whose answer is an event stream.
fn listens(head: &Head<'_>) -> bool {
    let accepted = head.header("accept").unwrap_or_default();
    if !accepted.contains("text/event-stream") || !METHODS.contains(&head.method) {
        return false;
    }
    let command = head
        .path()
        .trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or_default();
    let listening = ["subscribe", "psubscribe", "monitor"];
    listening.iter().any(|name| command.eq_ignore_ascii_case(name))
}

/// The body without its compression.
fn readable<'b>(head: &Head<'_>, body: Option<&'b [u8]>, memory: &Arc<Memory>) -> Result<Body<'b>, Refusal> {
    let too_long = || Refusal::bad(format!("ERR max request size exceeded. Limit: {BODY_BYTES_MAX} bytes"));
    let body = body.ok_or_else(too_long)?;
    Body::expanded(head, body, BODY_BYTES_MAX, memory).map_err(|unreadable| match unreadable {
        Unreadable::TooLong => too_long(),
        Unreadable::NoMemory => Refusal::bad(REQUEST_OUT_OF_MEMORY),
        Unreadable::Broken => Refusal::bad("ERR the body's Content-Encoding cannot be read"),
    })
}

fn commands_of(head: &Head<'_>, body: &[u8]) -> Result<(Commands, Shape), Refusal> {
    let commands = match head.path() {
        "/pipeline" => commands_of_body(body).map(|commands| (commands, Shape::Pipeline)),
        "/multi-exec" => commands_of_body(body).map(|commands| (commands.into_transaction(), Shape::Transaction)),
        path => Commands::of_path(path, head.query(), body).map(|commands| (commands, Shape::Single)),
    };
    commands.map_err(Refusal::bad)
}

fn format_of(head: &Head<'_>, shape: Shape) -> Result<Format, Refusal> {
    let encoding = match head.header(ENCODING) {
        Some("base64") => Encoding::Base64,
        _ => Encoding::Text,
    };
    match head.values(RESPONSE_FORMAT).next() {
        None | Some(b"json") => Ok(Format::Json(encoding)),
        // A transaction answers in JSON in any case.
        Some(b"resp2") if shape == Shape::Transaction => Ok(Format::Json(encoding)),
        Some(b"resp2") if encoding == Encoding::Text => Ok(Format::Resp2),
        Some(b"resp2") => Err(Refusal::bad(
            "ERR base64 encoding is not possible with the response format resp2",
        )),
        Some(_) => Err(Refusal::bad("ERR unknown response format: json and resp2 are known")),
    }
}

fn answered(execution: &mut Execution, wishes: RequestOptions) -> Answer {
    let (version, dependency) = (execution.version, execution.dependency);
    let layer = execution.layer().clone();
    let memory = CommandMemory::new(&layer);
    let replies = std::mem::take(&mut execution.replies);
    let (status, kind, body) = match wishes.format {
        Format::Json(encoding) => json(&replies, wishes.shape, Json::new(encoding, &memory)),
        Format::Resp2 => resp2(replies, wishes.shape),
    };
    let mut answer = match wishes.format {
        Format::Json(_) => {
            // The replies are gone by now.
            let mut reserved = Reserved::new(layer.engine.memory().clone());
            execution.unsent = None;
            memory.request.keep_in(&mut reserved);
            with_copy(status, kind, body, dependency, reserved)
        }
        Format::Resp2 => {
            let unsent = execution.unsent.take();
            let reserved = unsent.unwrap_or_else(|| Reserved::new(layer.engine.memory().clone()));
            with_copy(status, kind, body, dependency, reserved)
        }
    };
    let encoding = wishes
        .compression
        .filter(|_| answer.body.len() > compression::COMPRESSED_BYTES_MIN);
    if let Some(encoding) = encoding
        && let Some(compressed) = compression::encoded_as(encoding, &answer.body)
    {
        answer.body = compressed;
        answer.headers.push(("content-encoding", encoding.into()));
    }
    answer.headers.push((SYNC_TOKEN, version.0.to_string().into()));
    answer
}

/// An answer that counts as `reserved`, if there is room for a second copy of its body: compressed,
/// or after the head of the answer.
fn with_copy(status: u16, kind: &'static str, body: Vec<u8>, dependency: Dependency, mut reserved: Reserved) -> Answer {
    let copied = if body.len() > UNCOUNTED_BYTES {
        body.len() as u64
    } else {
        0
    };
    if !reserved.try_set(reserved.bytes() + copied) {
        drop(body);
        let mut refused = Refusal::bad(OUT_OF_MEMORY).answer();
        refused.dependency = dependency;
        return refused;
    }
    let mut answer = answer(status, kind, body, dependency);
    answer.kept = Some(reserved).filter(|reserved| reserved.bytes() > 0);
    answer
}

fn json(replies: &[u8], shape: Shape, mut body: Json<'_>) -> (u16, &'static str, Vec<u8>) {
    let is_error = match shape {
        Shape::Single => write_result(replies, &mut body).map(|written| written.is_error),
        Shape::Transaction => write_transaction(replies, &mut body).map(|written| written.is_error),
        Shape::Pipeline => {
            write_results(replies, usize::MAX, &mut body);
            Some(false)
        }
    };
    match is_error {
        Some(is_error) => (status_of(is_error, replies), JSON, body.into_bytes()),
        None => {
            let refusal = Refusal::bad("ERR the command answers nothing");
            (refusal.status, JSON, refusal.answer().body)
        }
    }
}

fn resp2(replies: Vec<u8>, shape: Shape) -> (u16, &'static str, Vec<u8>) {
    let is_error = shape == Shape::Single && replies.first() == Some(&b'-');
    (status_of(is_error, &replies), "application/octet-stream", replies)
}

/// The status of an answer with these replies. A request that no home has executed may be sent
/// again as it is.
fn status_of(is_error: bool, replies: &[u8]) -> u16 {
    match is_error {
        true if replies.starts_with(NO_HOME) => SERVICE_UNAVAILABLE,
        true => BAD_REQUEST,
        false => OK,
    }
}

/// The beginning of the reply to a command that was not executed because this node is not home.
const NO_HOME: &[u8] = b"-MASTERDOWN ";

fn answer(status: u16, kind: &'static str, body: Vec<u8>, dependency: Dependency) -> Answer {
    let mut headers: Headers = vec![("content-type", kind.into())];
    allow_pages(&mut headers);
    if status == SERVICE_UNAVAILABLE {
        headers.push(("retry-after", "1".into()));
    }
    Answer {
        status,
        headers,
        body,
        dependency,
        partition: PartitionId(0),
        pause: Duration::ZERO,
        credential: Credential::Right,
        kept: None,
        is_of_the_node: false,
        is_busy: false,
    }
}

/// Web pages may send requests: a token must be known, and cookies are ignored.
fn allow_pages(headers: &mut Headers) {
    headers.push(("access-control-allow-origin", "*".into()));
    headers.push(("access-control-expose-headers", SYNC_TOKEN.into()));
}

fn preflight() -> Answer {
    let mut answer = Answer::settled(NO_CONTENT, "");
    allow_pages(&mut answer.headers);
    answer.headers.extend([
        ("access-control-allow-methods", "GET, HEAD, POST, PUT".into()),
        ("access-control-allow-headers", "*, authorization".into()),
        ("access-control-max-age", "86400".into()),
    ]);
    answer
}
