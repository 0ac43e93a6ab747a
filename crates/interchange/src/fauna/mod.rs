//! FaunaDB's databases: folders with documents, and with all that a database has beside them.
//!
//! | file          | what it is                                                      |
//! |---------------|-----------------------------------------------------------------|
//! | `folder`      | the files of a folder, in the layouts that can be read          |
//! | `records`     | the records of one file                                         |
//! | `json`        | JSON that keeps order and spelling                              |
//! | `values`      | values of files, to values of queries                           |
//! | `documents`   | lines, to queries that insert documents                         |
//! | `definitions` | schema objects, keys, tokens and passwords, in and out          |
//! | `import`      | from a folder to a database                                     |
//! | `export`      | from a database to a folder                                     |
//!
//! Documents keep their ids and their moments: each is inserted as an event of its history. An
//! export reads everything as of one moment.

mod definitions;
mod documents;
mod export;
mod folder;
mod import;
mod json;
mod records;
mod values;

pub use export::export;
pub use import::import;

use std::fmt::Display;
use std::path::Path;

use base64::Engine;
use serde_json::{Value, json};

use self::json::Json;
use self::values::{Form, Reader};
use crate::error::{Error, Result, source, target};
use crate::http::{Answer, Http};
use crate::roots::TrustedRoots;

/// Elements of one page.
const PAGE: u32 = 500;

pub struct Client {
    http: Http,
    authorization: String,
}

/// An error of the query, or of the way to it.
struct Refused {
    status: u16,
    text: String,
}

impl Refused {
    /// Returns true if the query was refused because of its content: another query may succeed.
    fn is_of_content(&self) -> bool {
        matches!(self.status, 400 | 404 | 413)
    }
}

impl Client {
    /// Errors: no server accepts connections at `url`.
    pub fn new(url: &str, secret: &str, roots: &TrustedRoots) -> Result<Client> {
        let secret = base64::engine::general_purpose::STANDARD.encode(format!("{secret}:"));
        let http = Http::new(url, roots);
        http.check_reachable()?;
        Ok(Client {
            http,
            authorization: format!("Basic {secret}"),
        })
    }

    fn query(&self, expression: &dyn Display) -> std::result::Result<Json, Refused> {
        let request = || {
            let headers = vec![
                ("authorization", self.authorization.clone()),
                ("content-type", "application/json; charset=utf-8".to_owned()),
                ("x-faunadb-api-version", "4".to_owned()),
            ];
            (headers, expression.to_string())
        };
        let wants_patience = |answer: &Answer| matches!(answer.status, 409 | 429 | 503);
        let answer = self.http.ask("", &request, &wants_patience);
        let answer = answer.map_err(|text| Refused { status: 0, text })?;
        let body = Json::parse(&answer.body);
        let member = |name: &str| body.as_ref().and_then(|body| body.field(name)).cloned();
        match answer.status {
            200 | 201 => member("resource").ok_or_else(|| Refused {
                status: 0,
                text: "its answer is none of FaunaDB's".into(),
            }),
            status => Err(Refused {
                status,
                text: member("errors").map_or_else(|| format!("status {status}"), |errors| errors.to_string()),
            }),
        }
    }

    fn ask(&self, expression: &dyn Display, of: fn(String) -> Error) -> Result<Json> {
        self.query(expression).map_err(|refused| of(refused.text))
    }

    /// Shows each thing that a set has a ref of, as of a moment. Returns their number.
    fn each_of(&self, set: &Value, moment: i64, each: &mut dyn FnMut(&Json) -> Result<()>) -> Result<u64> {
        let get = json!({ "map": { "lambda": "ref", "expr": { "get": { "var": "ref" } } } });
        let mut count = 0;
        self.pages(set, &json!({ "size": PAGE }), moment, &get, &mut |element| {
            count += 1;
            each(element)
        })?;
        Ok(count)
    }

    /// Goes through the pages of a set as of a moment. `function` is `map` or `filter` over the
    /// elements.
    fn pages(
        &self,
        set: &Value,
        options: &Value,
        moment: i64,
        function: &Value,
        each: &mut dyn FnMut(&Json) -> Result<()>,
    ) -> Result<()> {
        let mut page = options.clone();
        page["paginate"] = set.clone();
        loop {
            let mut projection = function.clone();
            projection["collection"] = page.clone();
            let reply = self.ask(&json!({ "at": moment, "expr": projection }), Error::Source)?;
            for element in reply.field("data").map(Json::items).unwrap_or_default() {
                each(element)?;
            }
            match reply.field("after") {
                Some(after) => page["after"] = cursor(after)?,
                None => return Ok(()),
            }
        }
    }
}

/// A cursor as a query gives it back.
fn cursor(after: &Json) -> Result<Value> {
    let reader = Reader {
        form: Form::Wire,
        collections: &Default::default(),
    };
    let expression = reader.expression(after).map_err(Error::Source)?;
    serde_json::from_str(&expression.to_string()).map_err(source)
}

/// Creates a folder for private data: documents, hashes of secrets.
fn create_folder(folder: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.create(folder);
    made.map_err(|error| target(format!("{}: {error}", folder.display())))
}
