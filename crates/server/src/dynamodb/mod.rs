//! DynamoDB over HTTP: the routing of requests to the layer, authentication, and the headers of the
//! answers.
//!
//! Checked in this order: method, size, content type, target, signature, JSON; the rest is the
//! layer's. For a small body that is refused for its target or signature, broken JSON is reported
//! first, as the service does.

pub(crate) mod buckets;
mod signature;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_engine::{Busy, PartitionId};
use quartet_layer_dynamodb::wire::json::Json;
use quartet_layer_dynamodb::{DynamoDb, Exception, Failure, Reply, Target, storage::region};
use quartet_model::LayerId;
use quartet_tenancy::{Charge, Database};

use crate::http::body::{Body, JsonCost};
use crate::http::compression::{self, Unreadable};
use crate::http::elsewhere::Elsewhere;
use crate::http::web_pages::{self, comes_from_elsewhere};
use crate::http::{Answer, Credential, Dispatch, Head, HeadShows, HttpLayer};
use crate::observability::slow_requests::shape_of_json;
use crate::observability::telemetry::spans::{Described, named};
use crate::process::system::fill_random;
use crate::tenants::turns::FairShare;
use crate::tenants::{Tenants, admission_control};
use signature::Caller;
pub use signature::{Verifier, sign};

const BODY_BYTES_MAX: usize = 16 << 20;
/// A request is a tree, and its items are values beside it.
const JSON_COST: JsonCost = JsonCost {
    element_bytes: 200,
    list_bytes: 110,
    object_bytes: 110,
};
/// Headers, and the request line, may be this long.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most bytes that are parsed of an unauthenticated body.
const STRANGERS_JSON_BYTES_MAX: usize = 16 << 10;
const JSON: &str = "application/x-amz-json-1.0";
/// The content type of requests to the key management service.
const JSON_OF_KEYS: &str = "application/x-amz-json-1.1";
const LISTENER: &str = "dynamodb";

/// The layer as HTTP sees it.
pub struct DynamoDbHttp {
    pub layer: DynamoDb,
    tenants: Arc<Tenants>,
    verifier: Verifier,
    request_ids: RequestIds,
}

impl DynamoDbHttp {
    /// With no `access_keys` any is accepted, unless it is a database's own.
    pub fn new(layer: DynamoDb, access_keys: &[(String, String)], tenants: Arc<Tenants>) -> DynamoDbHttp {
        let mut seed = [0; 8];
        fill_random(&mut seed);
        DynamoDbHttp {
            layer,
            verifier: Verifier::of_databases(access_keys, tenants.clone()),
            tenants,
            request_ids: RequestIds(AtomicU64::new(u64::from_ne_bytes(seed))),
        }
    }

    fn post(&self, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        if let Some(partition) = self.tenants.busy_partition(|| self.database_of(head)) {
            return Dispatch::Busy(partition);
        }
        let Some(sent) = body else {
            return Dispatch::Answered(plain(PAYLOAD_TOO_LARGE, ""));
        };
        // An empty request need not name its content type.
        let kind = content_type(head).or(sent.is_empty().then_some("application/json"));
        let Some(kind) = kind else {
            return Dispatch::Answered(plain(NOT_FOUND, "<UnknownOperationException/>\n"));
        };
        let (target, caller) = match self.authenticate(head, sent) {
            Ok(authenticated) => authenticated,
            Err(failure) => {
                let mut answer = self.json(head, kind, refuse_stranger(head, sent, &failure));
                answer.credential = shown_by(&failure);
                return Dispatch::Answered(answer);
            }
        };
        let reply = match Body::expanded(head, sent, BODY_BYTES_MAX, self.layer.engine.memory()) {
            Ok(mut body) => match body.take_values(JSON_COST) {
                true => self.reply(&target, &caller, sent.len(), &body),
                false => Reply::refusing(&Failure::out_of_memory()),
            },
            Err(Unreadable::TooLong) => return Dispatch::Answered(plain(PAYLOAD_TOO_LARGE, "")),
            Err(Unreadable::NoMemory) => Reply::refusing(&Failure::out_of_memory()),
            Err(Unreadable::Broken) => Reply::refusing(&Failure::new(
                Exception::InternalServer,
                "The request body cannot be decoded",
            )),
        };
        if reply.is_busy {
            let database = caller.database.as_ref();
            return Dispatch::Busy(database.map_or(PartitionId(0), |database| database.partition()));
        }
        let mut answer = self.json(head, kind, reply);
        answer.credential = Credential::Right;
        Dispatch::Answered(answer)
    }

    /// The operation and its caller. `sent` is the original body, as covered by the signature:
    /// nothing is decoded yet.
    fn authenticate(&self, head: &Head<'_>, sent: &[u8]) -> Result<(Target, Caller), Failure> {
        let target = Target::parse(head.header("x-amz-target").unwrap_or_default())?;
        let caller = self.verifier.check(head, sent, self.now_seconds())?;
        Ok((target, caller))
    }

    fn now_seconds(&self) -> i64 {
        (self.layer.engine.now_micros() / 1_000_000) as i64
    }

    /// Whose turn the request is, as far as it says itself.
    fn scheduler_handle(&self, head: &Head<'_>) -> FairShare {
        FairShare::new(self.tenants.clone(), self.database_of(head))
    }

    /// The database of the access key that the request names; `None`: the default one.
    pub fn database_of(&self, head: &Head<'_>) -> Option<Arc<Database>> {
        let catalogue = &self.tenants.catalogue;
        let key = if catalogue.is_empty() {
            None
        } else {
            signature::claimed_key(head)
        };
        let owner = key.and_then(|key| catalogue.by_access_key(&key));
        owner.map(|(database, _)| database)
    }

    /// The partition of the access key's database, if another node is its home and checks the
    /// signature.
    fn elsewhere(&self, head: &Head<'_>) -> Option<PartitionId> {
        let tenants = &self.tenants;
        if !tenants.is_apart() {
            return None;
        }
        let owner = tenants.catalogue.owner_of_access_key(&signature::claimed_key(head)?)?;
        tenants.elsewhere(&owner)
    }

    fn reply(&self, target: &Target, caller: &Caller, sent_bytes: usize, body: &[u8]) -> Reply {
        let Ok(request) = Json::parse(body) else {
            return Reply::refusing(&Failure::serialization(""));
        };
        let engine = &self.layer.engine;
        let started_micros = engine.now_micros();
        let reply = self.reply_to(target, caller, sent_bytes, &request);
        if reply.is_busy {
            return reply;
        }
        let micros = engine.now_micros().saturating_sub(started_micros);
        let parts = &self.tenants.parts;
        let database = caller.database.as_deref();
        let place = parts.durations.of("dynamodb").place(target.name());
        parts.note_request("dynamodb", place, database, micros, || shape_of_json(body));
        reply
    }

    fn reply_to(&self, target: &Target, caller: &Caller, sent_bytes: usize, request: &Json<'_>) -> Reply {
        let region = caller.region.as_deref().unwrap_or(region::HOME);
        let ask = |layer: &DynamoDb| layer.in_region(region, |layer| layer.answer(target, request));
        match &caller.database {
            None => ask(&self.layer),
            Some(database) => {
                let answered = self.answer_in(database, target, request, sent_bytes, ask);
                answered.unwrap_or_else(|failure| Reply::refusing(&failure))
            }
        }
    }

    /// Answers in the name of a database that is one of several: within its quotas, and metered.
    fn answer_in(
        &self,
        database: &Arc<Database>,
        target: &Target,
        request: &Json<'_>,
        sent_bytes: usize,
        ask: impl Fn(&DynamoDb) -> Reply,
    ) -> Result<Reply, Failure> {
        let Ok(entered) = self.tenants.enter(database) else {
            return Ok(Reply::refusing(&Failure::busy()));
        };
        let entered = entered.ok_or_else(signature::unknown_key)?;
        let engine = self.tenants.parts.engine_of(database);
        let now_micros = engine.now_micros();
        admission_control::admit(database, sent_bytes, now_micros).map_err(admission_control::dynamodb_failure)?;
        if target.makes_larger(request)
            && let Some(exceeded) = admission_control::has_no_room(database, engine)
        {
            database.meter.refuse();
            return Err(admission_control::dynamodb_failure(exceeded));
        }
        let reply = match self.tenants.layer::<DynamoDb>(&entered, LayerId::DynamoDb) {
            Ok(layer) => ask(&layer),
            Err(Busy) => Reply::refusing(&Failure::busy()),
        };
        if reply.is_busy {
            database.meter.take_back_command(now_micros);
            return Ok(reply);
        }
        database.meter.charge(charge_of(target, sent_bytes, reply.body.len()));
        database.meter.transferred(sent_bytes, reply.body.len());
        Ok(reply)
    }

    /// Refuses a page of another site, if the server has no authentication.
    fn refused_page(&self, head: &Head<'_>) -> Option<Answer> {
        let is_refused = self.verifier.accepts_anybody() && comes_from_elsewhere(head);
        let failure = || Failure::new(Exception::AccessDenied, web_pages::REFUSAL);
        is_refused.then(|| self.json(head, JSON, Reply::refusing(&failure())))
    }

    /// Answers a browser's preflight request.
    fn preflight(&self, head: &Head<'_>) -> Answer {
        let mut answer = plain(OK, "");
        answer
            .headers
            .push(("x-amzn-requestid", self.request_ids.next().into()));
        answer.headers.push(("access-control-max-age", "172800".into()));
        for (question, reply) in [
            ("access-control-request-headers", "access-control-allow-headers"),
            ("access-control-request-method", "access-control-allow-methods"),
        ] {
            if let Some(value) = head.header(question) {
                answer.headers.push((reply, value.to_owned().into()));
            }
        }
        answer
    }

    fn json(&self, head: &Head<'_>, kind: &'static str, reply: Reply) -> Answer {
        let mut answer = Answer::settled(reply.status, reply.body);
        answer.dependency = reply.dependency;
        answer.is_busy = reply.is_busy;
        let compressed = compression::encoded(head, &answer.body);
        let encoding = compressed.map(|(encoding, compressed)| {
            answer.body = compressed;
            encoding
        });
        let checksum = crc32fast::hash(&answer.body);
        answer.headers = vec![
            ("content-type", kind.into()),
            ("x-amzn-requestid", self.request_ids.next().into()),
            ("x-amz-crc32", checksum.to_string().into()),
            SERVER,
        ];
        answer
            .headers
            .extend(encoding.map(|encoding| ("content-encoding", encoding.into())));
        answer
    }
}

impl HttpLayer for DynamoDbHttp {
    fn maintain(&self) {
        self.layer.maintain();
        self.layer.go_on();
    }

    fn body_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    /// A signature covers the body, so a request can be refused before its body has arrived, but
    /// not accepted.
    fn judge_head(&self, head: &Head<'_>) -> HeadShows {
        if let Some(refusal) = self.refused_page(head) {
            return HeadShows::Answer(refusal);
        }
        if (head.method, head.path()) != ("POST", "/") {
            return HeadShows::Answer(self.answer(head, Some(b"")));
        }
        if self.elsewhere(head).is_some() {
            return HeadShows::Name;
        }
        let Some(kind) = content_type(head) else {
            return HeadShows::Answer(plain(NOT_FOUND, "<UnknownOperationException/>\n"));
        };
        match self.verifier.check_head(head, self.now_seconds()) {
            Ok(true) => HeadShows::Credential,
            Ok(false) => HeadShows::Name,
            Err(failure) => {
                let mut answer = self.json(head, kind, Reply::refusing(&failure));
                answer.credential = shown_by(&failure);
                HeadShows::Answer(answer)
            }
        }
    }

    fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        match self.dispatch_now(head, body) {
            Dispatch::Answered(answer) => answer,
            _ => self.answer_busy(head),
        }
    }

    fn long_turn(&self, head: &Head<'_>) -> Option<FairShare> {
        Some(self.scheduler_handle(head))
    }

    fn describe(&self, head: &Head<'_>) -> Described {
        let target = Target::parse(head.header("x-amz-target").unwrap_or_default());
        Described {
            layer: "dynamodb",
            operation: target.map_or("other", |target| target.name()),
            database: named(self.scheduler_handle(head).database()),
        }
    }

    fn answer_busy(&self, head: &Head<'_>) -> Answer {
        let answer = self.json(
            head,
            content_type(head).unwrap_or(JSON),
            Reply::refusing(&Failure::busy()),
        );
        shown_to_page(head, answer)
    }

    /// A search of vectors compares each of them, so it does not hold up other connections.
    fn dispatch(&self, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        let takes_long = head.header("x-amz-target").is_some_and(Target::takes_long);
        match takes_long && body.is_some() && self.elsewhere(head).is_none() {
            true => Dispatch::Later,
            false => self.dispatch_now(head, body),
        }
    }
}

impl DynamoDbHttp {
    fn dispatch_now(&self, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        let headers = head.headers.iter();
        let header_bytes: usize = headers.map(|header| header.name.len() + header.value.len()).sum();
        if header_bytes > HEAD_BYTES_MAX || head.target.len() > HEAD_BYTES_MAX {
            return Dispatch::Answered(plain(BAD_REQUEST, ""));
        }
        if let Some(refusal) = self.refused_page(head) {
            return Dispatch::Answered(refusal);
        }
        if let (("POST", "/"), Some(partition), true) =
            ((head.method, head.path()), self.elsewhere(head), body.is_some())
        {
            let parts = &self.tenants.parts;
            return Dispatch::Elsewhere(Elsewhere::new(parts, partition, LISTENER, head, body));
        }
        let answer = match (head.method, head.path()) {
            ("POST", "/") => match self.scheduler_handle(head).dispatch(|| self.post(head, body)) {
                Dispatch::Answered(answer) => answer,
                dispatch => return dispatch,
            },
            ("GET", "/") => plain(OK, format!("healthy: {} ", head.header("host").unwrap_or_default())),
            ("OPTIONS", _) if head.has("origin") => self.preflight(head),
            _ => plain(NOT_FOUND, "<UnknownOperationException/>\n"),
        };
        Dispatch::Answered(shown_to_page(head, answer))
    }
}

/// Returns true if a node that is not home answers a request with this head. `None`: its body says
/// that.
pub fn reads_by_head(head: &Head<'_>) -> Option<bool> {
    match target_of(head) {
        Some(target) => target.reads_rows(),
        None => Some(false),
    }
}

/// The same for a request with this body, of a head that does not say it.
pub fn body_only_reads(head: &Head<'_>, body: &[u8]) -> bool {
    target_of(head).is_some_and(|target| target.statements_read_rows(body))
}

fn target_of(head: &Head<'_>) -> Option<Target> {
    let is_operation = (head.method, head.path()) == ("POST", "/");
    let target = Target::parse(head.header("x-amz-target").unwrap_or_default());
    target.ok().filter(|_| is_operation)
}

/// Lets the browser show the answer to the requesting page.
fn shown_to_page(head: &Head<'_>, mut answer: Answer) -> Answer {
    if head.has("origin") {
        answer.headers.push(("access-control-allow-origin", "*".into()));
        let exposed = "x-amzn-requestid,x-amz-crc32,date";
        answer.headers.push(("access-control-expose-headers", exposed.into()));
    }
    answer
}

const OK: u16 = 200;
const BAD_REQUEST: u16 = 400;
const NOT_FOUND: u16 = 404;
const PAYLOAD_TOO_LARGE: u16 = 413;
const SERVER: (&str, Cow<'static, str>) = ("server", Cow::Borrowed("Server"));

/// Returns the cost of a request: a unit for each 4 KiB that were read, or 1 KiB that were written,
/// of the bytes on the wire.
fn charge_of(target: &Target, sent_bytes: usize, answered_bytes: usize) -> Charge {
    let milliunits = |bytes: usize, unit_bytes: usize| 1000 * bytes.div_ceil(unit_bytes).max(1) as u64;
    match target.writes() {
        true => Charge {
            read_milliunits: 0,
            write_milliunits: milliunits(sent_bytes, 1024),
        },
        false => Charge {
            read_milliunits: milliunits(answered_bytes, 4096),
            write_milliunits: 0,
        },
    }
}

fn shown_by(failure: &Failure) -> Credential {
    match failure.exception {
        Exception::UnrecognizedClient | Exception::InvalidSignature => Credential::Wrong,
        _ => Credential::Absent,
    }
}

/// For a body within the limit of unauthenticated peers, broken JSON is reported first. For such
/// peers no tree is built, and nothing is decompressed.
fn refuse_stranger(head: &Head<'_>, sent: &[u8], failure: &Failure) -> Reply {
    let is_looked_at = sent.len() <= STRANGERS_JSON_BYTES_MAX && !head.has("content-encoding");
    if is_looked_at && !sent.is_empty() && !Json::is_well_formed(sent) {
        return Reply::refusing(&Failure::serialization(""));
    }
    Reply::refusing(failure)
}

/// The content type to answer in: the one of the request, if it is one that is spoken.
fn content_type(head: &Head<'_>) -> Option<&'static str> {
    let value = head.header("content-type")?;
    let kind = value.split(';').next().unwrap_or_default().trim();
    let is_about_keys = head
        .header("x-amz-target")
        .is_some_and(|target| target.starts_with("TrentService."));
    let own = if is_about_keys { JSON_OF_KEYS } else { JSON };
    [own, "application/json"]
        .into_iter()
        .find(|supported| kind.eq_ignore_ascii_case(supported))
}

fn plain(status: u16, text: impl Into<Vec<u8>>) -> Answer {
    let mut answer = Answer::settled(status, text);
    answer.headers.push(SERVER);
    answer
}

/// Names for requests: 52 letters and digits, never the same twice in a run.
struct RequestIds(AtomicU64);

impl RequestIds {
    fn next(&self) -> String {
        const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let mut state = self.0.fetch_add(1, Ordering::Relaxed);
        let mut id = [0; 52];
        for chunk in id.chunks_mut(12) {
            // SplitMix64: a permutation of the counter, so that neighbours look nothing alike.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            for digit in chunk {
                *digit = DIGITS[(mixed & 31) as usize];
                mixed >>= 5;
            }
        }
        String::from_utf8(id.to_vec()).expect("letters and digits")
    }
}
