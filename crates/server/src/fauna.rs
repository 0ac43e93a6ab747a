//! FaunaDB's protocol over HTTP: hands requests to the layer and writes its replies.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use quartet_layer_fauna::{BODY_BYTES_MAX, Fauna, Reply, Request, Stream, StreamStep};

use crate::http_connection::{Followed, Follower, Following, HttpAnswer, HttpLayer, Wake};

/// The secret that every local setup of FaunaDB uses.
pub const DEVELOPMENT_SECRET: &str = "secret";
/// Pieces of background work done at once.
const PIECES_AT_ONCE: usize = 64;

pub struct FaunaHttp {
    layer: Arc<Fauna>,
}

impl FaunaHttp {
    pub fn new(layer: Fauna) -> FaunaHttp {
        FaunaHttp { layer: Arc::new(layer) }
    }
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
    response.headers_mut().reserve(reply.headers.len());
    *response.status_mut() =
        hyper::StatusCode::from_u16(reply.status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &reply.headers {
        let value = match value {
            Cow::Borrowed(value) => Ok(HeaderValue::from_static(value)),
            Cow::Owned(value) => HeaderValue::from_str(value),
        };
        // A header made of what a client sent may hold what a header may not: it is left out.
        if let Ok(value) = value {
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
        if !self.layer.take_work() {
            return;
        }
        for _ in 0..PIECES_AT_ONCE {
            if !self.layer.maintain() {
                return;
            }
        }
        self.layer.work_is_left();
    }

    fn body_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    fn answer(&self, head: &Parts, body: Option<Bytes>) -> HttpAnswer {
        let reply = with_request(head, body.as_deref().unwrap_or_default(), |request| match &body {
            Some(_) => self.layer.answer(request),
            None => self.layer.too_large(request),
        });
        whole(reply)
    }

    fn follow(&self, head: &Parts, body: &Option<Bytes>, wake: Wake) -> Option<Followed> {
        // Nearly every request is a query, and known as one by its path.
        if head.uri.path() == "/" {
            return None;
        }
        let body = body.as_deref()?;
        let opened = with_request(head, body, |request| self.layer.stream(request, wake))?;
        Some(match opened {
            Ok((reply, stream)) => Ok((head_of(&reply, ()), Box::new(stream) as Box<dyn Follower>)),
            Err(reply) => Err(whole(reply)),
        })
    }
}

impl Follower for Stream {
    fn next(&mut self) -> Following {
        match self.step() {
            StreamStep::Send(event) => Following::Send(event.into()),
            StreamStep::Wait(hold) => Following::Wait(hold),
            StreamStep::Idle => Following::Idle,
            StreamStep::End => Following::End,
        }
    }
}
