//! FaunaDB's protocol over HTTP: hands requests to the layer and writes its replies.

use std::sync::Arc;

use quartet_layer_fauna::{BODY_BYTES_MAX, Fauna, Reply, Request, Stream, StreamStep};

use crate::http_connection::{Answer, Followed, Follower, Following, Head, HttpLayer, Soon, Wake};

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

fn whole(reply: Reply) -> Answer {
    Answer {
        status: reply.status,
        headers: reply.headers,
        body: reply.body.into_bytes(),
        hold: reply.hold,
    }
}

impl HttpLayer for FaunaHttp {
    fn maintain(&self) {
        self.layer.sweep();
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

    fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        let reply = with_request(head, body.unwrap_or_default(), |request| match body {
            Some(_) => self.layer.answer(request),
            None => self.layer.too_large(request),
        });
        whole(reply)
    }

    fn answer_soon(&self, head: &Head<'_>, body: Option<&[u8]>) -> Soon {
        let Some(body) = body else {
            return Soon::Answered(self.answer(head, None));
        };
        match with_request(head, body, |request| self.layer.answer_soon(request)) {
            Some(reply) => Soon::Answered(whole(reply)),
            None => Soon::Later,
        }
    }

    fn follow(&self, head: &Head<'_>, body: Option<&[u8]>, wake: Wake) -> Option<Followed> {
        let wake = Arc::new(move || wake.notify_one());
        let opened = with_request(head, body?, |request| self.layer.stream(request, wake))?;
        Some(match opened {
            Ok((reply, stream)) => Ok((reply.status, reply.headers, Box::new(stream))),
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
