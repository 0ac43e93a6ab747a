//! The HTTP listener: health, metrics, and Redis over REST.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use quartet_engine::Hold;
use quartet_layer_redis::Redis;
use tokio::sync::watch;

use crate::http_connection::{Followed, HttpAnswer, HttpLayer, Wake, Work};
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
    fn page(&self, path: &str) -> Option<HttpAnswer> {
        match path {
            "/healthz" | "/health" => Some(text("ok\n".into(), "text/plain; charset=utf-8")),
            "/readyz" => Some(text("ready\n".into(), "text/plain; charset=utf-8")),
            "/metrics" => Some(text(metrics::render(&self.layer), "text/plain; version=0.0.4")),
            _ => None,
        }
    }
}

fn text(body: String, kind: &'static str) -> HttpAnswer {
    let mut response = Response::new(Bytes::from(body));
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    HttpAnswer {
        response,
        hold: Hold::ZERO,
    }
}

impl HttpLayer for HttpPages {
    fn body_bytes_max(&self) -> usize {
        rest::BODY_BYTES_MAX
    }

    fn answer(&self, head: &Parts, body: Option<Bytes>) -> HttpAnswer {
        self.begin(head, body).unwrap_or_else(|work| work())
    }

    fn begin(&self, head: &Parts, body: Option<Bytes>) -> Result<HttpAnswer, Work> {
        match self.page(head.uri.path()) {
            Some(page) => Ok(page),
            None => self.rest.begin(head, body),
        }
    }

    fn follow(&self, head: &Parts, _body: &Option<Bytes>, wake: Wake) -> Option<Followed> {
        self.rest.follow(head, wake)
    }
}
