//! FaunaDB's protocol over HTTP: hands requests to the layer and writes its replies.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use quartet_layer_fauna::{
    BODY_BYTES_MAX, Fauna, Refusal, Reply, Request, Stream, StreamStep, database_named_by, presented_secret,
};
use quartet_model::DatabaseId;
use quartet_tenancy::{Access, Charge, Database};

use crate::http_connection::{Followed, Follower, Following, HttpAnswer, HttpLayer, Wake};
use crate::tenants::turns::Player;
use crate::tenants::{Entered, Tenants, gate};

/// The secret that every local setup of FaunaDB uses.
pub const DEVELOPMENT_SECRET: &str = "secret";
/// Pieces of background work done at once.
const PIECES_AT_ONCE: usize = 64;

pub struct FaunaHttp {
    layer: Arc<Fauna>,
    tenants: Arc<Tenants>,
}

impl FaunaHttp {
    pub fn new(layer: Fauna, tenants: Arc<Tenants>) -> FaunaHttp {
        FaunaHttp {
            layer: Arc::new(layer),
            tenants,
        }
    }

    /// Whose secret it is: the key of a database's root, or a secret that was made in one and names it. `None`: the default
    /// database's, or nobody's.
    fn database_of(&self, head: &Parts) -> Option<Arc<Database>> {
        let catalogue = &self.tenants.catalogue;
        if catalogue.is_empty() {
            return None;
        }
        let secret = presented_secret(head.headers.get(AUTHORIZATION)?.to_str().ok()?)?;
        if let Some(number) = database_named_by(&secret) {
            return catalogue.numbered(DatabaseId(number));
        }
        let (key, _) = secret.split_once(':').unwrap_or((&secret, ""));
        let (database, access) = catalogue.by_secret(key.as_bytes())?;
        (access == Access::Fauna).then_some(database)
    }

    fn answer_default(&self, head: &Parts, body: Option<Bytes>) -> HttpAnswer {
        whole(with_request(
            head,
            body.as_deref().unwrap_or_default(),
            |request| match &body {
                Some(_) => self.layer.answer(request),
                None => self.layer.refuse(request, Refusal::TooLarge),
            },
        ))
    }

    /// Answers in the name of a database that is one of several: within its quotas, and metered.
    fn answer_in(&self, database: &Arc<Database>, entered: &Entered, head: &Parts, body: Option<Bytes>) -> HttpAnswer {
        let layer = entered.fauna(&self.tenants.maker);
        let sent = body.as_deref().unwrap_or_default();
        let reply = with_request(head, sent, |request| {
            if body.is_none() {
                return layer.refuse(request, Refusal::TooLarge);
            }
            match gate::admit(database, sent.len(), layer.engine.now_micros()) {
                Ok(()) => layer.answer(request),
                Err(exceeded) => layer.refuse(request, Refusal::TooMany(gate::text(exceeded))),
            }
        });
        database.meter.charge(charge_of(&reply));
        database.meter.transferred(sent.len(), reply.body.len());
        whole(reply)
    }
}

/// The units that the reply tells of.
fn charge_of(reply: &Reply) -> Charge {
    let units = |wanted: &str| {
        let header = reply.headers.iter().find(|(name, _)| *name == wanted);
        header.and_then(|(_, value)| value.parse::<u64>().ok()).unwrap_or(0)
    };
    Charge {
        read_milliunits: units("x-byte-read-ops") * 1000,
        write_milliunits: units("x-byte-write-ops") * 1000,
    }
}

/// Does some of a layer's background work. True if there was any.
pub fn maintain(layer: &Fauna) -> bool {
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

/// Gives `body` the parts of a request as the layer takes them.
fn with_request<T>(head: &Parts, body: &[u8], answer: impl FnOnce(Request<'_>) -> T) -> T {
    let headers = head
        .headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let headers: Vec<(&str, &str)> = headers.collect();
    answer(Request {
        method: head.method.as_str(),
        target: head.uri.path_and_query().map_or("/", |target| target.as_str()),
        headers: &headers,
        body,
    })
}

fn head_of<B>(reply: &Reply, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() =
        hyper::StatusCode::from_u16(reply.status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &reply.headers {
        // A header made of what a client sent may hold what a header may not: it is left out.
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

fn whole(mut reply: Reply) -> HttpAnswer {
    let body = Bytes::from(std::mem::take(&mut reply.body));
    HttpAnswer {
        response: head_of(&reply, body),
        hold: reply.hold,
    }
}

impl HttpLayer for FaunaHttp {
    fn maintain(&self) {
        maintain(&self.layer);
    }

    fn body_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    fn answer(&self, head: &Parts, body: Option<Bytes>) -> HttpAnswer {
        let entered = self.database_of(head).and_then(|database| {
            let entered = self.tenants.enter(&database)?;
            Some((database, entered))
        });
        let player = Player::new(
            self.tenants.clone(),
            entered.as_ref().map(|(database, _)| database.clone()),
        );
        player.answer(|| match &entered {
            Some((database, entered)) => self.answer_in(database, entered, head, body),
            None => self.answer_default(head, body),
        })
    }

    fn follow(&self, head: &Parts, body: &Option<Bytes>, wake: Wake) -> Option<Followed> {
        let body = body.as_deref()?;
        let database = self.database_of(head);
        let entered = database.as_ref().and_then(|database| self.tenants.enter(database));
        let layer = entered
            .as_ref()
            .map_or(&self.layer, |entered| entered.fauna(&self.tenants.maker));
        let opened = with_request(head, body, |request| layer.stream(request, wake))?;
        Some(match opened {
            Ok((reply, stream)) => {
                let follower = DatabaseStream { stream, database };
                Ok((head_of(&reply, ()), Box::new(follower) as Box<dyn Follower>))
            }
            Err(reply) => Err(whole(reply)),
        })
    }
}

/// A stream, which ends with its database.
struct DatabaseStream {
    stream: Stream,
    database: Option<Arc<Database>>,
}

impl Follower for DatabaseStream {
    fn next(&mut self) -> Following {
        if self.database.as_ref().is_some_and(|database| database.is_closed()) {
            return Following::End;
        }
        match self.stream.step() {
            StreamStep::Send(event) => {
                if let Some(database) = &self.database {
                    database.meter.transferred(0, event.len());
                }
                Following::Send(event.into())
            }
            StreamStep::Wait(hold) => Following::Wait(hold),
            StreamStep::Idle => Following::Idle,
            StreamStep::End => Following::End,
        }
    }
}
