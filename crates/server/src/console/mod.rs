//! The console: a page for a person, on the listener of REST, and the few endpoints that the page
//! needs.
//!
//! ```text
//!   GET  / (Accept: text/html), /console/…      the page and its files, from the binary
//!   POST /console/api/login                     a credential becomes a session, or joins the one that is there
//!   POST /console/api/logout
//!   GET  /console/api/session                   what the session opens, and where clients connect; null without a session
//!   *    /console/api/redis/DATABASE/…          REST     \
//!   *    /console/api/fauna/DATABASE/…          FaunaDB   | the layer's own protocol, with the session's credential
//!   POST /console/api/dynamodb/DATABASE/        DynamoDB  | instead of the browser's cookie
//!   POST /console/api/keyvalue/DATABASE/        rows     /  (`keyvalue`: its protocol is none of HTTP)
//!   GET  /console/api/changes/DATABASE?…        the change feed of a database
//!   *    /console/api/admin/…, …/metrics        the admin API
//! ```
//!
//! There is no second way into the data. A request of the page is given to the layer that serves
//! its protocol, as if the person had sent it there with his credential: authentication, access
//! control, quotas, metering and turns are the layer's. So a session can do nothing that its
//! credentials cannot.
//!
//! A session is protected by an HttpOnly, SameSite=Strict cookie, and a second secret that only the
//! page's own origin has and sends as a header (cookies are shared among the ports of a host, and a
//! form of another site cannot set a header). In addition, a request is refused if its browser
//! reports another origin.

mod answers;
mod assets;
mod keyvalue;
mod login;
mod sessions;

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

pub use self::keyvalue::KeyValuePages;

use self::answers::{BAD_REQUEST, FORBIDDEN, METHOD_NOT_ALLOWED, NOT_FOUND, OK, UNAUTHORIZED, whole};
use self::login::{DEFAULT, Login};
use self::sessions::{Keyring, PROOF, Sessions};
use crate::dynamodb;
use crate::http::web_pages::{self, comes_from_elsewhere};
use crate::http::{Answer, Credential, Dispatch, Head, HeadShows, Header, Headers, HttpLayer, ResponseStream, Wake};
use crate::observability::telemetry::spans::Described;
use crate::operations::changes;
use crate::settings::{AccessKeys, Settings};
use crate::tenants::Tenants;
use crate::tenants::turns::FairShare;

const API: &str = "/console/api/";
/// The role to run a request as, after the secret of FaunaDB.
const ROLE: &str = "x-quartet-role";
/// Headers that are for the console, or that it sets itself.
const OWN_HEADERS: [&str; 4] = ["authorization", "cookie", PROOF, ROLE];

/// The layers whose protocols the console speaks.
pub struct Layers {
    /// The listener's own: REST, the admin API, metrics.
    pub pages: Arc<dyn HttpLayer>,
    /// `None`: it is not served.
    pub fauna: Option<Arc<dyn HttpLayer>>,
    pub dynamodb: Option<Arc<dyn HttpLayer>>,
    pub keyvalue: Option<KeyValuePages>,
}

/// Wraps the pages of the listener, and passes on the requests that are not for the console.
pub struct Console {
    layers: Layers,
    tenants: Arc<Tenants>,
    sessions: Sessions,
    login: Login,
    access_keys: AccessKeys,
    is_development: bool,
    /// Name and connection string of each listener.
    endpoints: Vec<(&'static str, String)>,
}

/// A request of the page on its way to a layer.
struct Forwarded<'c> {
    layer: &'c dyn HttpLayer,
    target: String,
    /// The credential that replaces the cookie.
    credential: Carried,
    now_seconds: i64,
}

enum Carried {
    Nothing,
    Bearer(String),
    /// An access key and its secret: the request is signed with them.
    Signature(String, String),
}

impl Console {
    pub fn new(
        layers: Layers,
        tenants: Arc<Tenants>,
        settings: &Settings,
        endpoints: Vec<(&'static str, String)>,
        port: u16,
    ) -> Console {
        Console {
            login: Login::new(layers.pages.clone(), layers.fauna.clone(), tenants.clone(), settings),
            layers,
            tenants,
            sessions: Sessions::new(port),
            access_keys: settings.dynamodb.access_keys.clone(),
            is_development: settings.is_development(),
            endpoints,
        }
    }

    /// The request is for the console, and not for the pages.
    fn is_addressed(head: &Head<'_>) -> bool {
        let path = head.path();
        path == "/console" || path.starts_with("/console/") || path == "/" && assets::is_wanted_by_browser(head)
    }

    /// Returns the answer that needs no layer, or the request for one.
    fn route(&self, head: &Head<'_>, body: Option<&[u8]>) -> Result<Forwarded<'_>, Answer> {
        let Some(path) = head.path().strip_prefix(API) else {
            return Err(assets::answer(head));
        };
        if let Some(refusal) = self.refused_origin(head) {
            return Err(refusal);
        }
        match (head.method, path) {
            ("POST", "login") => Err(self.log_in(head, body)),
            ("POST", "logout") => {
                self.sessions.close(head);
                Err(self.sessions.forgetting_answer())
            }
            ("GET", "start") => Err(whole(OK, &json!({ "development": self.is_development }))),
            ("GET", "session") => Err(match self.sessions.keyring_of(head, Instant::now()) {
                Some(keyring) => self.describe(&keyring),
                // Every first visit sends this request, and a refusal would appear in the browser's
                // console.
                None => whole(OK, &Value::Null),
            }),
            ("OPTIONS", _) | (_, "login" | "logout" | "start" | "session") => {
                Err(whole(METHOD_NOT_ALLOWED, &json!({ "error": "method not allowed" })))
            }
            _ => self.forwarded(&self.keyring(head)?, head),
        }
    }

    /// A browser reports the origin of the requesting page; only the console's own page is allowed.
    fn refused_origin(&self, head: &Head<'_>) -> Option<Answer> {
        let host = head.header("host");
        let is_far = head.header("origin").is_some_and(|origin| {
            let origin_host = origin.split_once("://").map(|(_, host)| host);
            origin_host.is_none() || origin_host != host
        });
        let site = head.header("sec-fetch-site");
        let is_cross = site.is_some_and(|site| site != "same-origin" && site != "none");
        if is_far || is_cross || self.is_development && comes_from_elsewhere(head) {
            return Some(whole(FORBIDDEN, &json!({ "error": web_pages::REFUSAL })));
        }
        None
    }

    fn keyring(&self, head: &Head<'_>) -> Result<Keyring, Answer> {
        self.sessions.keyring_of(head, Instant::now()).ok_or_else(|| {
            // A session that has ended is no guess at a password: it is refused at once.
            whole(UNAUTHORIZED, &json!({ "error": "log in first" }))
        })
    }

    fn log_in(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        let now = Instant::now();
        let credentials: Value = match serde_json::from_slice(body.unwrap_or_default()) {
            Ok(credentials) => credentials,
            Err(error) => return whole(BAD_REQUEST, &json!({ "error": error.to_string() })),
        };
        let Some(keyring) = self.login.keyring_of(&credentials, head) else {
            let mut refusal = whole(UNAUTHORIZED, &json!({ "error": "this opens nothing here" }));
            refusal.credential = Credential::Wrong;
            return refusal;
        };
        if self.sessions.extend(head, &keyring, now) {
            return whole(OK, &json!({ "joined": true }));
        }
        self.sessions.open(keyring, head, now)
    }

    /// Describes the databases that the session opens.
    fn describe(&self, keyring: &Keyring) -> Answer {
        let others = self.tenants.catalogue.list();
        let others = others.iter().filter(|database| !database.is_closed());
        let mut names = vec![DEFAULT.to_owned()];
        names.extend(others.map(|database| database.definition().name.clone()));
        names.sort_by_key(|name| (name != DEFAULT, name.clone()));
        let is_carried = |layer: &str, name: &str| self.carried(keyring, layer, name, "").is_some();
        let databases: Vec<Value> = names
            .iter()
            .filter(|name| keyring.root_key.is_some() || keyring.names(name))
            .map(|name| {
                json!({
                    "name": name,
                    "redis": is_carried("redis", name),
                    "fauna": self.layers.fauna.is_some() && is_carried("fauna", name),
                    "dynamodb": self.layers.dynamodb.is_some() && is_carried("dynamodb", name),
                    "keyvalue": self.opens_keyvalue(keyring, name),
                })
            })
            .collect();
        let endpoints = self
            .endpoints
            .iter()
            .map(|(name, address)| ((*name).to_owned(), address.clone().into()));
        whole(
            OK,
            &json!({
                "development": self.is_development,
                "operator": keyring.root_key.is_some(),
                "cluster": self.tenants.parts.nodes.is_some(),
                "databases": databases,
                "endpoints": endpoints.collect::<serde_json::Map<String, Value>>(),
            }),
        )
    }

    /// Among credentials for Redis, the database's own tokens open its rows too; users' passwords
    /// and tokens of REST do not.
    fn opens_keyvalue(&self, keyring: &Keyring, database: &str) -> bool {
        let carried = self.carried(keyring, "keyvalue", database, "");
        match (&self.layers.keyvalue, carried) {
            (Some(pages), Some(Carried::Bearer(token))) => pages.knows(&token),
            (Some(_), Some(Carried::Nothing)) => true,
            _ => false,
        }
    }

    fn forwarded(&self, keyring: &Keyring, head: &Head<'_>) -> Result<Forwarded<'_>, Answer> {
        let unknown = || whole(NOT_FOUND, &json!({ "error": "there is no such path" }));
        let closed = || whole(FORBIDDEN, &json!({ "error": "the session has no credential for this" }));
        let path = head.target.strip_prefix(API).ok_or_else(unknown)?;
        let (service, path_below) = path.split_once('/').unwrap_or((path, ""));
        if service == "admin" || head.path() == "/console/api/metrics" {
            let key = keyring.root_key.clone().ok_or_else(closed)?;
            return Ok(Forwarded {
                layer: &*self.layers.pages,
                target: format!("/{path}"),
                credential: Carried::Bearer(key),
                now_seconds: self.now_seconds(),
            });
        }
        if service == "changes" {
            return self.changes_of(keyring, path_below).ok_or_else(closed);
        }
        let layer = match service {
            "redis" => Some(&*self.layers.pages),
            "fauna" => self.layers.fauna.as_deref(),
            "dynamodb" => self.layers.dynamodb.as_deref(),
            "keyvalue" => self.layers.keyvalue.as_ref().map(|pages| pages as &dyn HttpLayer),
            _ => None,
        };
        let layer = layer.ok_or_else(unknown)?;
        let (database, path_below) = path_below.split_once('/').unwrap_or((path_below, ""));
        let role = head.header(ROLE).unwrap_or_default();
        let credential = self.carried(keyring, service, database, role).ok_or_else(closed)?;
        Ok(Forwarded {
            layer,
            target: format!("/{path_below}"),
            credential,
            now_seconds: self.now_seconds(),
        })
    }

    /// The feed of a database, `path` being its name and the feed's parameters: for the operator,
    /// or for who has a token of the database.
    fn changes_of(&self, keyring: &Keyring, path: &str) -> Option<Forwarded<'_>> {
        let (database, parameters) = path.split_once('?').unwrap_or((path, ""));
        let token = keyring.root_key.as_ref().or_else(|| keyring.redis.get(database))?;
        Some(Forwarded {
            layer: &*self.layers.pages,
            target: format!("{}?database={database}&{parameters}", changes::PATH),
            credential: Carried::Bearer(token.clone()),
            now_seconds: self.now_seconds(),
        })
    }

    fn now_seconds(&self) -> i64 {
        (self.tenants.parts.engine.now_micros() / 1_000_000) as i64
    }

    /// Returns the credential with which the session enters a database's layer, or `None` if it has
    /// none.
    fn carried(&self, keyring: &Keyring, service: &str, database: &str, role: &str) -> Option<Carried> {
        let is_root = keyring.root_key.is_some() && database == DEFAULT;
        match service {
            "redis" | "keyvalue" => match (keyring.redis.get(database), &keyring.root_key) {
                (Some(token), _) => Some(Carried::Bearer(token.clone())),
                (None, Some(_)) if is_root && self.is_development => Some(Carried::Nothing),
                (None, Some(key)) if is_root => Some(Carried::Bearer(key.clone())),
                _ => None,
            },
            "fauna" => {
                let development = || crate::settings::DEVELOPMENT_SECRET.to_owned();
                let own = match (&keyring.root_key, self.is_development) {
                    (Some(_), true) if is_root => Some(development()),
                    (Some(key), false) if is_root => Some(key.clone()),
                    _ => None,
                };
                let secret = keyring.fauna.get(database).cloned().or(own)?;
                Some(Carried::Bearer(match role {
                    "" => secret,
                    role => format!("{secret}:{role}"),
                }))
            }
            _ => {
                // Where there are no access keys, any is right.
                let any = || ("console".to_owned(), "console".to_owned());
                let operators = || is_root.then(|| self.access_keys.known().first().cloned().unwrap_or_else(any));
                let (key, secret) = keyring.dynamodb.get(database).cloned().or_else(operators)?;
                Some(Carried::Signature(key, secret))
            }
        }
    }
}

impl Forwarded<'_> {
    /// Gives `ask` the request as the layer takes it.
    fn give<T>(
        &self,
        head: &Head<'_>,
        body: Option<&[u8]>,
        ask: impl FnOnce(&dyn HttpLayer, &Head<'_>, Option<&[u8]>) -> T,
    ) -> T {
        let body = body.filter(|body| body.len() <= self.layer.body_bytes_max());
        let given = head.headers.iter().copied();
        let mut headers: Vec<Header<'_>> = given.filter(|header| !is_own(header.name)).collect();
        let unsigned = Head {
            method: head.method,
            target: &self.target,
            headers: &headers,
        };
        let mut added = Vec::new();
        match &self.credential {
            Carried::Nothing => {}
            Carried::Bearer(secret) => added.push(("authorization", format!("Bearer {secret}"))),
            Carried::Signature(key, secret) => {
                let body = body.unwrap_or_default();
                added.extend(dynamodb::sign(key, secret, &unsigned, body, self.now_seconds));
            }
        }
        headers.extend(added.iter().map(|(name, value)| Header {
            name,
            value: value.as_bytes(),
        }));
        let head = Head {
            method: head.method,
            target: &self.target,
            headers: &headers,
        };
        ask(self.layer, &head, body)
    }
}

fn is_own(name: &str) -> bool {
    OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) || name.eq_ignore_ascii_case("x-amz-date")
}

/// Limits the layer's answer to the page: it removes any CORS headers of the layer, so pages of
/// other origins cannot read it.
fn for_the_page(mut answer: Answer) -> Answer {
    make_private(&mut answer.headers);
    answer
}

fn make_private(headers: &mut Headers) {
    headers.retain(|(name, _)| !name.starts_with("access-control-"));
    headers.push(("cache-control", "no-store".into()));
}

impl HttpLayer for Console {
    fn body_bytes_max(&self) -> usize {
        self.layers.pages.body_bytes_max()
    }

    /// A session is a credential: its page may send what is long.
    fn judge_head(&self, head: &Head<'_>) -> HeadShows {
        if !Console::is_addressed(head) {
            return self.layers.pages.judge_head(head);
        }
        if head.path().strip_prefix(API) == Some("login") {
            // The credential is in the body.
            return HeadShows::Name;
        }
        match self.route(head, None) {
            Ok(_) => HeadShows::Credential,
            Err(answer) => HeadShows::Answer(answer),
        }
    }

    fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        if !Console::is_addressed(head) {
            return self.layers.pages.answer(head, body);
        }
        match self.route(head, body) {
            Ok(forwarded) => for_the_page(forwarded.give(head, body, |layer, head, body| layer.answer(head, body))),
            Err(answer) => answer,
        }
    }

    fn dispatch(&self, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        if !Console::is_addressed(head) {
            return self.layers.pages.dispatch(head, body);
        }
        let forwarded = match self.route(head, body) {
            Ok(forwarded) => forwarded,
            Err(answer) => return Dispatch::Answered(answer),
        };
        match forwarded.give(head, body, |layer, head, body| layer.dispatch(head, body)) {
            Dispatch::Answered(answer) => Dispatch::Answered(for_the_page(answer)),
            Dispatch::Elsewhere(elsewhere) => Dispatch::Elsewhere(elsewhere.finished_by(for_the_page)),
            Dispatch::Unfinished(scheduler_handle, work) => {
                Dispatch::Unfinished(scheduler_handle, Box::new(move || for_the_page(work())))
            }
            dispatch => dispatch,
        }
    }

    fn answer_busy(&self, head: &Head<'_>) -> Answer {
        if !Console::is_addressed(head) {
            return self.layers.pages.answer_busy(head);
        }
        match self.route(head, None) {
            Ok(forwarded) => for_the_page(forwarded.give(head, None, |layer, head, _| layer.answer_busy(head))),
            Err(answer) => answer,
        }
    }

    fn describe(&self, head: &Head<'_>) -> Described {
        if !Console::is_addressed(head) {
            return self.layers.pages.describe(head);
        }
        Described {
            layer: "http",
            operation: "console",
            database: None,
        }
    }

    fn long_turn(&self, head: &Head<'_>) -> Option<FairShare> {
        if !Console::is_addressed(head) {
            return self.layers.pages.long_turn(head);
        }
        let forwarded = self.route(head, None).ok()?;
        forwarded.give(head, None, |layer, head, _| layer.long_turn(head))
    }

    fn serves_operators(&self) -> bool {
        self.layers.pages.serves_operators()
    }

    fn maintain(&self) {
        self.layers.pages.maintain();
    }

    fn follow(&self, head: &Head<'_>, body: Option<&[u8]>, wake: Wake) -> Option<ResponseStream> {
        if !Console::is_addressed(head) {
            return self.layers.pages.follow(head, body, wake);
        }
        let forwarded = self.route(head, body).ok()?;
        let followed = forwarded.give(head, body, |layer, head, body| layer.follow(head, body, wake))?;
        Some(match followed {
            Ok((status, mut headers, follower)) => {
                make_private(&mut headers);
                Ok((status, headers, follower))
            }
            Err(answer) => Err(for_the_page(answer)),
        })
    }
}
