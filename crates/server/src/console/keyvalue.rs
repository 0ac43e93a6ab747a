//! The key-value layer for the page: rows of a range, or a transaction of writes, as JSON.
//!
//! ```text
//!   {"read": {"begin": B, "end": B, "rows": N, "reverse": false}}        {"rows": [[B, B], …], "more": true}
//!   {"write": [{"set": [B, B]}, {"clear": B}, {"clear_range": [B, B]}]}  {"version": N}
//! ```
//!
//! `B` is a key or a value in base64. A request is a session of the layer, like a client's
//! connection, for its duration: the same credentials, quotas and turns. It reads one page of rows.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quartet_engine::{Busy, Dependency, PartitionId};
use quartet_layer_keyvalue::{Answered, Session};
use quartet_tenancy::{Charge, Database, Exceeded};
use quartet_wire_keyvalue::{
    Commit, ErrorCode, FRAME_BYTES_MAX, Mutation, MutationKind, RangeReply, RangeRequest, Reply, Request, Selector,
    next_frame,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answers::{
    BAD_REQUEST, FORBIDDEN, NOT_FOUND, OK, SERVICE_UNAVAILABLE, TOO_MANY_REQUESTS, UNAUTHORIZED, whole,
};
use crate::http::body::{Body, JsonCost};
use crate::http::{Answer, Credential, Dispatch, Head, HeadShows, HttpLayer};
use crate::keyvalue::{KeyValueEndpoint, Opened};
use crate::tenants::admission_control;
use crate::tenants::turns::FairShare;

/// A page of keys and values, with room for one that is as large as they may be.
const PAGE_ROWS_MAX: u32 = 1_000;
const PAGE_BYTES_MAX: u32 = 1 << 20;
/// Base64 adds a third to the text that a person edits.
const BODY_BYTES_MAX: usize = 4 << 20;
/// A write of an empty key takes thirteen bytes of a body: here it is a value, a mutation, and its
/// effects.
const JSON_COST: JsonCost = JsonCost {
    element_bytes: 256,
    list_bytes: 64,
    object_bytes: 0,
};
const NO_MEMORY: &str = "the request takes more memory than there is left for one";
/// The only request of its session.
const ID: u32 = 1;

pub struct KeyValuePages(pub Arc<KeyValueEndpoint>);

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Asked {
    Read(Range),
    Write(Vec<Write>),
}

impl Asked {
    fn charge(&self) -> Charge {
        match self {
            Asked::Read(_) => Charge::READ,
            Asked::Write(_) => Charge::WRITE,
        }
    }

    fn grows(&self) -> bool {
        matches!(self, Asked::Write(writes) if writes.iter().any(|write| matches!(write, Write::Set(..))))
    }
}

#[derive(Deserialize)]
struct Range {
    begin: Bytes,
    end: Bytes,
    rows: u32,
    #[serde(default)]
    reverse: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Write {
    Set(Bytes, Bytes),
    Clear(Bytes),
    ClearRange(Bytes, Bytes),
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Bytes(Vec<u8>);

impl TryFrom<String> for Bytes {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Bytes, base64::DecodeError> {
        STANDARD.decode(text).map(Bytes)
    }
}

/// Why a request was not carried out.
enum Stopped {
    Busy,
    Refused(ErrorCode),
}

impl KeyValuePages {
    /// The credential opens a database.
    pub fn knows(&self, token: &str) -> bool {
        !matches!(self.0.open(token.as_bytes()), Ok(None))
    }

    fn opened(&self, head: &Head<'_>) -> Result<Option<Opened>, Busy> {
        let credential = head.header("authorization").unwrap_or_default();
        let token = credential.strip_prefix("Bearer ").unwrap_or_default();
        self.0.open(token.as_bytes())
    }

    fn post(&self, opened: Opened, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        if (head.method, head.path()) != ("POST", "/") {
            return Dispatch::Answered(whole(NOT_FOUND, &json!({ "error": "there is no such path" })));
        }
        let mut body = Body::of_plain(body.unwrap_or_default(), self.0.tenants.parts.engine.memory());
        if !body.take_values(JSON_COST) {
            return Dispatch::Answered(whole(SERVICE_UNAVAILABLE, &json!({ "error": NO_MEMORY })));
        }
        let request: Asked = match serde_json::from_slice(&body) {
            Ok(request) => request,
            Err(error) => return Dispatch::Answered(whole(BAD_REQUEST, &json!({ "error": error.to_string() }))),
        };
        // Keeps the database's layers, and the database in its partition, during the request.
        let _entered = match &opened.database {
            None => None,
            Some((moves, database)) => match self.0.tenants.enter(database) {
                Ok(Some(entered)) if database.moves() == *moves => Some(entered),
                Ok(None) => return Dispatch::Answered(unknown()),
                Ok(Some(_)) | Err(Busy) => return Dispatch::Busy(database.partition()),
            },
        };
        let database = opened.database.map(|(_, database)| database);
        let now_micros = self.0.tenants.parts.engine.now_micros();
        if let Some(database) = &database
            && let Err(exceeded) = self.admit(database, &request, body.len(), now_micros)
        {
            let text = admission_control::text(exceeded);
            return Dispatch::Answered(whole(TOO_MANY_REQUESTS, &json!({ "error": text })));
        }
        let mut session = Session::new(opened.layer, opened.may_write, Arc::new(|| ()));
        session.begin_batch();
        let done = carry_out(&mut session, &request);
        session.end_batch();
        if let Some(database) = &database {
            match done {
                Err(Stopped::Busy) => database.meter.take_back_command(now_micros),
                _ => database.meter.charge(request.charge()),
            }
        }
        let (reply, dependency) = match done {
            Ok(done) => done,
            Err(Stopped::Busy) => {
                let partition = database.as_ref().map(|database| database.partition());
                return Dispatch::Busy(partition.unwrap_or_default());
            }
            Err(Stopped::Refused(code)) => return Dispatch::Answered(refusal(code)),
        };
        let mut answer = whole(OK, &reply);
        answer.dependency = dependency;
        if let Some(database) = &database {
            database.meter.transferred(body.len(), answer.body.len());
        }
        Dispatch::Answered(answer)
    }

    fn admit(&self, database: &Database, request: &Asked, bytes: usize, now_micros: u64) -> Result<(), Exceeded> {
        let engine = self.0.tenants.parts.engine_of(database);
        if request.grows()
            && let Some(exceeded) = admission_control::has_no_room(database, engine)
        {
            database.meter.refuse();
            return Err(exceeded);
        }
        admission_control::admit(database, bytes, now_micros)
    }
}

fn carry_out(session: &mut Session, request: &Asked) -> Result<(Value, Dependency), Stopped> {
    match request {
        Asked::Read(range) => read(session, range),
        Asked::Write(writes) => {
            let commit = Commit {
                mutations: writes.iter().map(mutation).collect(),
                ..Commit::default()
            };
            let (body, dependency) = ask(session, &Request::Commit(commit))?;
            Ok((json!({ "version": number(&body)? }), dependency))
        }
    }
}

fn read(session: &mut Session, range: &Range) -> Result<(Value, Dependency), Stopped> {
    let (body, dependency) = ask(session, &Request::ReadVersion)?;
    let request = RangeRequest {
        version: number(&body)?,
        begin: Selector::first_at_or_after(&range.begin.0),
        end: Selector::first_at_or_after(&range.end.0),
        rows_max: range.rows.clamp(1, PAGE_ROWS_MAX),
        bytes_max: PAGE_BYTES_MAX,
        reverse: range.reverse,
        system: false,
    };
    let (body, _) = ask(session, &Request::GetRange(request))?;
    let reply = RangeReply::parse(&body).map_err(|_| unexpected())?;
    let rows = reply
        .rows()
        .map(|(key, value)| json!([STANDARD.encode(key), STANDARD.encode(value)]));
    Ok((
        json!({ "rows": rows.collect::<Vec<Value>>(), "more": reply.more }),
        dependency,
    ))
}

fn mutation(write: &Write) -> Mutation<'_> {
    let (kind, key, value): (_, _, &[u8]) = match write {
        Write::Set(key, value) => (MutationKind::Set, key, &value.0),
        Write::Clear(key) => (MutationKind::Clear, key, &[]),
        Write::ClearRange(begin, end) => (MutationKind::ClearRange, begin, &end.0),
    };
    Mutation {
        kind,
        key: &key.0,
        value,
    }
}

/// The body of the reply, and what it rests on.
fn ask(session: &mut Session, request: &Request<'_>) -> Result<(Vec<u8>, Dependency), Stopped> {
    let mut output = Vec::new();
    let dependency = match session.answer(ID, request, &mut output) {
        Answered::Reply(dependency) => dependency,
        Answered::Busy => return Err(Stopped::Busy),
        Answered::Nothing => return Err(unexpected()),
    };
    let frame = next_frame(&output, FRAME_BYTES_MAX).ok().flatten();
    match frame.and_then(|frame| Reply::parse(&frame).ok()) {
        Some(Reply::Done(body)) => Ok((body.to_vec(), dependency)),
        Some(Reply::Failed { code, .. }) => Err(Stopped::Refused(code)),
        None => Err(unexpected()),
    }
}

fn number(body: &[u8]) -> Result<u64, Stopped> {
    Reply::number(body).map_err(|_| unexpected())
}

fn unexpected() -> Stopped {
    Stopped::Refused(ErrorCode::OPERATION_FAILED)
}

fn refusal(code: ErrorCode) -> Answer {
    let status = if code == ErrorCode::PERMISSION_DENIED {
        FORBIDDEN
    } else {
        BAD_REQUEST
    };
    whole(status, &json!({ "error": code.to_string() }))
}

fn unknown() -> Answer {
    let mut answer = whole(UNAUTHORIZED, &json!({ "error": "unknown credential" }));
    answer.credential = Credential::Wrong;
    answer
}

impl HttpLayer for KeyValuePages {
    fn body_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    fn judge_head(&self, head: &Head<'_>) -> HeadShows {
        match self.opened(head) {
            Ok(Some(_)) => HeadShows::Credential,
            Ok(None) => HeadShows::Answer(unknown()),
            Err(Busy) => HeadShows::Name,
        }
    }

    fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        match self.dispatch(head, body) {
            Dispatch::Answered(answer) => answer,
            _ => self.answer_busy(head),
        }
    }

    fn answer_busy(&self, _head: &Head<'_>) -> Answer {
        whole(
            SERVICE_UNAVAILABLE,
            &json!({ "error": "the database is busy; try again" }),
        )
    }

    fn dispatch(&self, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        let opened = match self.opened(head) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Dispatch::Answered(unknown()),
            Err(Busy) => return Dispatch::Busy(PartitionId(0)),
        };
        let database = opened.database.as_ref().map(|(_, database)| database.clone());
        let turns = FairShare::new(self.0.tenants.clone(), database);
        turns.dispatch(|| self.post(opened, head, body))
    }
}
