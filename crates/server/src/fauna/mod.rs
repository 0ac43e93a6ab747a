//! FaunaDB's protocol over HTTP: hands requests to the layer and writes its replies.

pub(crate) mod issuer_keys;

use std::sync::Arc;
use std::time::Duration;

use quartet_engine::{Busy, PartitionId};
use quartet_layer_fauna::{
    BODY_BYTES_MAX, Fauna, Refusal, Reply, Request, Stream, StreamStep, Unanswered, database_named_by, only_reads,
    presented_secret,
};
use quartet_model::{DatabaseId, LayerId};
use quartet_tenancy::{Access, Charge, Database, Exceeded};

use crate::http::body::{Body, JsonCost};
use crate::http::elsewhere::Elsewhere;
use crate::http::web_pages::{self, comes_from_elsewhere};
use crate::http::{
    Answer, Credential, Dispatch, Follower, Following, Head, HeadShows, HttpLayer, ResponseStream, Wake,
};
use crate::observability::slow_requests::shape_of_json;
use crate::observability::telemetry::spans::{Described, named};
use crate::tenants::turns::FairShare;
use crate::tenants::{Entered, Tenants, admission_control};

const LISTENER: &str = "fauna";
/// A query is a tree of expressions, whose values the evaluation counts.
const JSON_COST: JsonCost = JsonCost {
    element_bytes: 320,
    list_bytes: 110,
    object_bytes: 110,
};
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
/// Pieces of background work done at once.
const PIECES_AT_ONCE: usize = 64;

/// The operations whose durations are measured.
pub const OPERATIONS: [&str; 1] = ["query"];
const QUERY: usize = 0;

pub struct FaunaHttp {
    layer: Arc<Fauna>,
    tenants: Arc<Tenants>,
    /// The root secret is public.
    is_development: bool,
}

impl FaunaHttp {
    pub fn new(layer: Fauna, tenants: Arc<Tenants>) -> FaunaHttp {
        FaunaHttp {
            layer: Arc::new(layer),
            is_development: tenants.parts.settings.is_development(),
            tenants,
        }
    }

    /// The database of the secret: the key of a database's root, or a secret created in a database,
    /// which contains its name. `None`: the default database, or an unknown secret.
    pub fn database_of(&self, head: &Head<'_>) -> Option<Arc<Database>> {
        let catalogue = &self.tenants.catalogue;
        if catalogue.is_empty() {
            return None;
        }
        let secret = presented_secret(head.header("authorization")?)?;
        if let Some(number) = database_named_by(&secret) {
            return catalogue.numbered(DatabaseId(number));
        }
        let (key, _) = secret.split_once(':').unwrap_or((&secret, ""));
        let (database, access) = catalogue.by_secret(key.as_bytes())?;
        (access == Access::Fauna).then_some(database)
    }

    /// The partition of the request's database, if another node is its home and checks the secret.
    fn elsewhere(&self, head: &Head<'_>) -> Option<PartitionId> {
        match self.tenants.is_apart() {
            true => self.tenants.elsewhere(&*self.database_of(head)?),
            false => None,
        }
    }

    fn enter(&self, head: &Head<'_>) -> Result<Option<Inside>, Busy> {
        let Some(database) = self.database_of(head) else {
            return Ok(None);
        };
        let Some(entered) = self.tenants.enter(&database)? else {
            return Ok(None);
        };
        let layer = self.tenants.layer(&entered, LayerId::Fauna)?;
        Ok(Some(Inside {
            database,
            layer,
            _entered: entered,
        }))
    }

    /// Refuses a page of another site, which may not use the public secret.
    fn refused_page(&self, head: &Head<'_>) -> Option<Answer> {
        if !self.is_development || !comes_from_elsewhere(head) {
            return None;
        }
        let refusal = web_pages::REFUSAL;
        let body = format!("{{\"errors\":[{{\"code\":\"permission denied\",\"description\":\"{refusal}\"}}]}}");
        let mut answer = Answer::settled(FORBIDDEN, body);
        answer
            .headers
            .push(("content-type", "application/json;charset=utf-8".into()));
        Some(answer)
    }

    fn admit(&self, inside: &Option<Inside>, sent_bytes: usize, now_micros: u64) -> Result<(), Exceeded> {
        match inside {
            Some(inside) => admission_control::admit(&inside.database, sent_bytes, now_micros),
            None => Ok(()),
        }
    }

    fn layer<'s>(&'s self, inside: &'s Option<Inside>) -> &'s Arc<Fauna> {
        match inside {
            Some(inside) => &inside.layer,
            None => &self.layer,
        }
    }

    /// Notes an answered query. A restarted query counts from its last start.
    fn note_duration(&self, head: &Head<'_>, body: &[u8], inside: &Option<Inside>, micros: u64) {
        if head.method != "POST" {
            return;
        }
        let parts = &self.tenants.parts;
        let database = inside.as_ref().map(|inside| &*inside.database);
        parts.note_request("fauna", QUERY, database, micros, || shape_of_json(body));
    }

    fn scheduler_handle(&self, inside: &Option<Inside>) -> FairShare {
        let database = inside.as_ref().map(|inside| inside.database.clone());
        FairShare::new(self.tenants.clone(), database)
    }
}

/// A request that is answered in the name of a database which is one of several: within its quotas,
/// and metered.
struct Inside {
    database: Arc<Database>,
    layer: Arc<Fauna>,
    _entered: Entered,
}

impl Inside {
    fn charge(&self, sent_bytes: usize, reply: &Reply) {
        self.database.meter.charge(charge_of(reply));
        self.database.meter.transferred(sent_bytes, reply.body.len());
    }
}

/// The units in the headers of the reply.
fn charge_of(reply: &Reply) -> Charge {
    let units = |field: &str| {
        let header = reply.headers.iter().find(|(name, _)| *name == field);
        header.and_then(|(_, value)| value.parse::<u64>().ok()).unwrap_or(0)
    };
    Charge {
        read_milliunits: units("x-byte-read-ops") * 1000,
        write_milliunits: units("x-byte-write-ops") * 1000,
    }
}

/// Does some of a layer's background work. True if there was any.
pub fn maintain(layer: &Fauna) -> bool {
    layer.sweep();
    if !layer.take_work() {
        return false;
    }
    for _ in 0..PIECES_AT_ONCE {
        if !layer.maintain() {
            return true;
        }
    }
    layer.work_is_left();
    true
}

/// Gives `answer` the parts of a request as the layer takes them.
fn with_request<T>(head: &Head<'_>, body: &[u8], answer: impl FnOnce(Request<'_>) -> T) -> T {
    let headers: Vec<(&str, &str)> = head.texts().collect();
    answer(Request {
        method: head.method,
        target: head.target,
        headers: &headers,
        body,
    })
}

/// Returns true if a node that is not home answers the request.
pub fn is_read_at_replicas(head: &Head<'_>, body: &[u8]) -> bool {
    with_request(head, body, |request| only_reads(&request))
}

fn whole(reply: Reply) -> Answer {
    // Only what was evaluated has a time.
    let is_timed = reply.headers.iter().any(|(name, _)| *name == "x-txn-time");
    let credential = match reply.status {
        UNAUTHORIZED => Credential::Wrong,
        _ if is_timed => Credential::Right,
        _ => Credential::Absent,
    };
    Answer {
        credential,
        status: reply.status,
        headers: reply.headers,
        body: reply.body.into_bytes(),
        dependency: reply.dependency,
        partition: PartitionId(0),
        pause: Duration::ZERO,
        kept: None,
        is_of_the_node: false,
        is_busy: reply.unanswered == Some(Unanswered::Busy),
    }
}

impl HttpLayer for FaunaHttp {
    fn maintain(&self) {
        maintain(&self.layer);
    }

    fn body_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    fn judge_head(&self, head: &Head<'_>) -> HeadShows {
        if let Some(refusal) = self.refused_page(head) {
            return HeadShows::Answer(refusal);
        }
        if self.elsewhere(head).is_some() {
            return HeadShows::Name;
        }
        let Ok(inside) = self.enter(head) else {
            return HeadShows::Name;
        };
        let layer = self.layer(&inside);
        match with_request(head, b"", |request| layer.judge_head(request)) {
            Ok(true) => HeadShows::Credential,
            Ok(false) => HeadShows::Name,
            Err(reply) => HeadShows::Answer(whole(reply)),
        }
    }

    fn refuse_stranger(&self, head: &Head<'_>) -> Option<Answer> {
        if self.elsewhere(head).is_some() {
            return None;
        }
        let keeps = self.tenants.busy_partition(|| self.database_of(head));
        if keeps.is_some() || self.refused_page(head).is_some() {
            return None;
        }
        let inside = self.enter(head).ok()?;
        let layer = self.layer(&inside);
        with_request(head, b"", |request| layer.refuse_stranger(request)).map(whole)
    }

    /// Answers a request that `dispatch` has admitted.
    fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        let Ok(inside) = self.enter(head) else {
            return self.answer_busy(head);
        };
        let layer = self.layer(&inside);
        self.scheduler_handle(&inside).answer(|| {
            let sent = body.unwrap_or_default();
            let mut read = Body::of_plain(sent, self.layer.engine.memory());
            let reply = with_request(head, sent, |request| match body {
                Some(_) if !read.take_values(JSON_COST) => layer.refuse(request, Refusal::NoMemory),
                Some(_) => layer.answer(request),
                None => layer.refuse(request, Refusal::TooLarge),
            });
            inside.as_ref().inspect(|inside| inside.charge(sent.len(), &reply));
            self.note_duration(head, sent, &inside, reply.duration_micros);
            whole(reply)
        })
    }

    fn dispatch(&self, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        // Requests for `answer` and `follow` pass this check first.
        if let Some(refusal) = self.refused_page(head) {
            return Dispatch::Answered(refusal);
        }
        let Some(sent) = body else {
            return Dispatch::Answered(self.answer(head, None));
        };
        if let Some(partition) = self.elsewhere(head) {
            return Dispatch::Elsewhere(Elsewhere::new(&self.tenants.parts, partition, LISTENER, head, body));
        }
        if let Some(partition) = self.tenants.busy_partition(|| self.database_of(head)) {
            return Dispatch::Busy(partition);
        }
        let Ok(inside) = self.enter(head) else {
            let database = self.database_of(head);
            return Dispatch::Busy(database.map_or(PartitionId(0), |database| database.partition()));
        };
        let layer = self.layer(&inside);
        self.scheduler_handle(&inside).dispatch(|| {
            let now_micros = self.layer.engine.now_micros();
            let mut read = Body::of_plain(sent, self.layer.engine.memory());
            let reply = with_request(head, sent, |request| {
                match self.admit(&inside, sent.len(), now_micros) {
                    Ok(()) if !read.take_values(JSON_COST) => Ok(layer.refuse(request, Refusal::NoMemory)),
                    Ok(()) => layer.dispatch(request),
                    Err(exceeded) => Ok(layer.refuse(request, Refusal::TooMany(admission_control::text(exceeded)))),
                }
            });
            match reply {
                Ok(reply) => {
                    inside.as_ref().inspect(|inside| inside.charge(sent.len(), &reply));
                    self.note_duration(head, sent, &inside, reply.duration_micros);
                    Dispatch::Answered(whole(reply))
                }
                Err(Unanswered::TakesLong) => Dispatch::Later,
                Err(Unanswered::Busy) => {
                    let database = inside.as_ref().map(|inside| &inside.database);
                    database.inspect(|database| database.meter.take_back_command(now_micros));
                    Dispatch::Busy(database.map_or(PartitionId(0), |database| database.partition()))
                }
            }
        })
    }

    fn answer_busy(&self, head: &Head<'_>) -> Answer {
        let refused = with_request(head, b"", |request| self.layer.refuse(request, Refusal::Busy));
        Answer {
            is_busy: true,
            ..whole(refused)
        }
    }

    fn describe(&self, head: &Head<'_>) -> Described {
        let operation = match (head.method, head.path()) {
            ("POST", "/") => "query",
            ("POST", "/stream") => "stream",
            _ => "other",
        };
        Described {
            layer: "fauna",
            operation,
            database: named(self.database_of(head).as_deref()),
        }
    }

    fn long_turn(&self, head: &Head<'_>) -> Option<FairShare> {
        Some(FairShare::new(self.tenants.clone(), self.database_of(head)))
    }

    fn follow(&self, head: &Head<'_>, body: Option<&[u8]>, wake: Wake) -> Option<ResponseStream> {
        let Ok(inside) = self.enter(head) else {
            return Some(Err(self.answer_busy(head)));
        };
        let wake = Arc::new(move || wake.notify_one());
        let mut read = Body::of_plain(body?, self.layer.engine.memory());
        let opened = with_request(head, body?, |request| match read.take_values(JSON_COST) {
            true => self.layer(&inside).stream(request, wake),
            false => Some(Err(self.layer(&inside).refuse(request, Refusal::NoMemory))),
        })?;
        Some(match opened {
            Ok((reply, stream)) => {
                let database = inside.map(|inside| (inside.database.moves(), inside.database));
                let follower = DatabaseStream { stream, database };
                Ok((reply.status, reply.headers, Box::new(follower)))
            }
            Err(reply) => Err(whole(reply)),
        })
    }
}

/// A stream, which ends with its database, and when that goes to another partition.
struct DatabaseStream {
    stream: Stream,
    /// The count of its moves, and the database.
    database: Option<(u64, Arc<Database>)>,
}

impl Follower for DatabaseStream {
    fn partition(&self) -> PartitionId {
        let database = self.database.as_ref();
        database.map_or(PartitionId(0), |(_, database)| database.partition())
    }

    fn next(&mut self) -> Following {
        let is_gone = |(moves, database): &(u64, Arc<Database>)| database.is_closed() || database.moves() != *moves;
        if self.database.as_ref().is_some_and(is_gone) {
            return Following::End;
        }
        match self.stream.step() {
            StreamStep::Send(event) => {
                if let Some((_, database)) = &self.database {
                    database.meter.transferred(0, event.len());
                }
                Following::Send(event.into())
            }
            StreamStep::Wait(dependency) => Following::Wait(dependency),
            StreamStep::Idle => Following::Idle,
            StreamStep::Busy => Following::Busy,
            StreamStep::End => Following::End,
        }
    }
}
