//! The HTTP listener: health, metrics, the admin API, change feeds, and Redis over REST.

use std::sync::Arc;

use quartet_engine::{Condition, PartitionId, Role};
use quartet_layer_redis::Redis;
use tokio::sync::watch;

use crate::http::elsewhere::Elsewhere;
use crate::http::{Answer, Dispatch, Head, HeadShows, HttpLayer, ResponseStream, Wake};
use crate::metrics;
use crate::observability::exposition::Text;
use crate::observability::telemetry::spans::Described;
use crate::operations::admin::Admin;
use crate::operations::backup_tasks::BackupTasks;
use crate::operations::backups::Backups;
use crate::operations::changes::{self, Changes};
use crate::rest::{self, Rest};
use crate::settings::Settings;
use crate::tenants::Tenants;

const LISTENER: &str = "http";
const PLAIN: &str = "text/plain; charset=utf-8";

pub struct HttpPages {
    layer: Arc<Redis>,
    tenants: Arc<Tenants>,
    admin: Admin,
    rest: Rest,
    changes: Changes,
}

impl HttpPages {
    pub fn new(
        layer: Arc<Redis>,
        tenants: Arc<Tenants>,
        settings: &Settings,
        stop: watch::Receiver<bool>,
    ) -> HttpPages {
        metrics::count_keys(&layer);
        HttpPages {
            admin: Admin::new(tenants.clone(), layer.clone(), settings),
            rest: Rest::new(layer.clone(), tenants.clone(), settings.http.rest_tokens.clone(), stop),
            changes: Changes::new(
                tenants.clone(),
                settings.http.rest_tokens.clone(),
                settings.is_development(),
            ),
            layer,
            tenants,
        }
    }

    /// The pages for those who look after the server. No command is called like one of them.
    fn page(&self, head: &Head<'_>) -> Option<Answer> {
        match head.path() {
            "/healthz/home" if !self.layer.engine.is_home() => {
                Some(text(503, "the sequencer does not answer\n".into(), PLAIN))
            }
            "/healthz" | "/health" | "/healthz/home" => Some(text(200, "ok\n".into(), PLAIN)),
            "/readyz" => Some(match self.refuses() {
                None => text(200, "ready\n".into(), PLAIN),
                Some(reason) => text(503, format!("{reason}\n"), PLAIN),
            }),
            "/metrics" => Some(self.metrics(self.admin.is_operators(head))),
            _ => None,
        }
    }

    /// Why requests are refused here, if they are.
    fn refuses(&self) -> Option<&'static str> {
        match self.layer.engine.role() {
            Role::Home { .. } if !self.layer.engine.is_home() => Some("the sequencer does not answer"),
            Role::Home {
                condition: Condition::Uncertain,
                ..
            } => Some("writes are refused"),
            _ => None,
        }
    }

    fn metrics(&self, is_for_operators: bool) -> Answer {
        let mut page = Text::default();
        metrics::write(&self.layer, &self.tenants, is_for_operators, &mut page);
        text(200, page.text, "text/plain; version=0.0.4")
    }
}

fn text(status: u16, body: String, kind: &'static str) -> Answer {
    let mut answer = Answer::settled(status, body);
    answer.is_of_the_node = true;
    answer.headers.push(("content-type", kind.into()));
    answer
}

impl HttpLayer for HttpPages {
    fn body_bytes_max(&self) -> usize {
        rest::BODY_BYTES_MAX
    }

    fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        match self.page(head) {
            Some(page) => page,
            None if Admin::answers(head.path()) => self.admin.answer(head, body),
            None => self.rest.answer(head, body),
        }
    }

    fn judge_head(&self, head: &Head<'_>) -> HeadShows {
        match self.page(head) {
            Some(page) => HeadShows::Answer(page),
            None if Admin::answers(head.path()) => self.admin.judge_head(head),
            None if head.path() == changes::PATH => self.changes.judge_head(head, &self.admin),
            None => self.rest.judge_head(head),
        }
    }

    fn dispatch(&self, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        if head.path() == changes::PATH
            && let Some(partition) = self.changes.elsewhere(head, &self.admin)
        {
            return Dispatch::Elsewhere(Elsewhere::new(&self.tenants.parts, partition, LISTENER, head, body));
        }
        match self.page(head) {
            Some(page) => Dispatch::Answered(page),
            // A change waits for the lock and for the log.
            None if Backups::answers(head.path()) || BackupTasks::answers(head.path()) => Dispatch::Later,
            None if Admin::answers(head.path()) && head.method != "GET" && self.layer.engine.is_busy() => {
                Dispatch::Busy(PartitionId(0))
            }
            None if Admin::answers(head.path()) || head.path() == changes::PATH => Dispatch::Later,
            None => self.rest.dispatch(head, body),
        }
    }

    fn describe(&self, head: &Head<'_>) -> Described {
        let operation = match head.path() {
            "/metrics" => "metrics",
            "/healthz" | "/health" | "/readyz" => "health",
            changes::PATH => "changes",
            path if Admin::answers(path) => "admin",
            _ => return self.rest.describe(head),
        };
        Described {
            layer: "http",
            operation,
            database: None,
        }
    }

    fn serves_operators(&self) -> bool {
        true
    }

    fn answer_busy(&self, _head: &Head<'_>) -> Answer {
        rest::answer_busy()
    }

    fn follow(&self, head: &Head<'_>, _body: Option<&[u8]>, wake: Wake) -> Option<ResponseStream> {
        match head.path() {
            changes::PATH => Some(self.changes.follow(head, &self.admin, wake)),
            _ => self.rest.follow(head, wake),
        }
    }
}
