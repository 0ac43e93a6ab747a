//! The HTTP listener: health, metrics, and Redis over REST.

use std::sync::Arc;

use quartet_layer_redis::Redis;
use tokio::sync::watch;

use crate::http_connection::{Answer, Followed, Head, HttpLayer, Soon, Wake};
use crate::metrics;
use crate::rest::{self, Rest};
use crate::settings::RestTokens;

pub struct HttpPages {
    layer: Arc<Redis>,
    rest: Rest,
}

impl HttpPages {
    pub fn new(layer: Arc<Redis>, tokens: RestTokens, stop: watch::Receiver<bool>) -> HttpPages {
        HttpPages {
            rest: Rest::new(layer.clone(), tokens, stop),
            layer,
        }
    }

    /// The pages for those who look after the server. No command is called like one of them.
    fn page(&self, path: &str) -> Option<Answer> {
        match path {
            "/healthz" | "/health" => Some(text("ok\n".into(), "text/plain; charset=utf-8")),
            "/readyz" => Some(text("ready\n".into(), "text/plain; charset=utf-8")),
            "/metrics" => Some(text(metrics::render(&self.layer), "text/plain; version=0.0.4")),
            _ => None,
        }
    }
}

fn text(body: String, kind: &'static str) -> Answer {
    let mut answer = Answer::settled(200, body);
    answer.headers.push(("content-type", kind.into()));
    answer
}

impl HttpLayer for HttpPages {
    fn body_bytes_max(&self) -> usize {
        rest::BODY_BYTES_MAX
    }

    fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        match self.page(head.path()) {
            Some(page) => page,
            None => self.rest.answer(head, body),
        }
    }

    fn answer_soon(&self, head: &Head<'_>, body: Option<&[u8]>) -> Soon {
        match self.page(head.path()) {
            Some(page) => Soon::Answered(page),
            None => self.rest.answer_soon(head, body),
        }
    }

    fn follow(&self, head: &Head<'_>, _body: Option<&[u8]>, wake: Wake) -> Option<Followed> {
        self.rest.follow(head, wake)
    }
}
