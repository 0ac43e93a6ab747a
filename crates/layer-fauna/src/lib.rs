//! FaunaDB's data model and query language (FQL v4) on the ordered, transactional key space.
//!
//! Pure: no sockets, no threads, no clock. A request comes in as method, target, headers and body; a reply goes out with the
//! version that must be durable before it may be sent.
//!
//! ```text
//!   json -> parse -> expression -> evaluation -> render
//!                       |             |
//!                   functions     documents, indexes, sets, pages, definitions
//!                                     |
//!                              rows, codec, order -> engine
//! ```
//!
//! | file             | what it is                                                        |
//! |------------------|-------------------------------------------------------------------|
//! | `api_version`    | the versions of the API                                           |
//! | `references`     | refs out of JSON                                                  |
//! | `service`        | one request: which transaction, what reply                        |
//! | `callers`        | who asks, and what for                                            |
//! | `signature`      | the one table of functions                                        |
//! | `functions/`     | who does them, by family                                          |
//! | `definitions`    | schema objects: databases, collections, indexes, keys, roles …    |
//! | `documents`      | versions of documents                                             |
//! | `contents`       | their fields, decoded when somebody looks                         |
//! | `indexes`        | entries and their history                                         |
//! | `sets`, `pages`  | elements in order; cursors; events                                |
//! | `combinations`   | sets that are made of others                                      |
//! | `ranges`         | parts of the keys of a set                                        |
//! | `permitted`      | what of a set may be read                                         |
//! | `jwt/`           | tokens of other issuers, and the keys that verify them            |
//! | `patience`       | how long a query may take, and where                              |
//! | `rate_limits`    | how much a credential may ask for                                 |
//! | `histories`      | histories of sets that are made of others                         |
//! | `streams`        | what happens to a document or in a set, as it happens             |
//! | `schema`         | compiled schemas                                                  |
//! | `sweep`          | clearing what time has outdated                                   |
//! | `maintenance`    | building large indexes, clearing what was deleted                 |
//! | `upgrade`        | indexes as earlier versions wrote them                            |

mod api_version;
mod authorization;
mod callers;
mod casefold;
mod codec;
mod combinations;
mod contents;
mod credentials;
mod definitions;
mod documents;
mod error;
mod evaluation;
mod expression;
mod functions;
mod headers;
mod histories;
mod indexes;
mod interned;
mod json;
mod jwt;
mod maintenance;
mod number;
mod order;
mod pages;
mod parse;
mod patience;
mod permitted;
mod ranges;
mod rate_limits;
mod references;
mod render;
mod rows;
mod schema;
mod secrets;
mod service;
mod sets;
mod signature;
mod streams;
mod surroundings;
mod sweep;
mod time;
mod upgrade;
mod value;

pub use callers::database_named_by;
pub use headers::presented_secret;
pub use jwt::keys::{Fetch, KeySets};
pub use rate_limits::{Operations, RateLimits};
pub use service::{BODY_BYTES_MAX, Fauna, Refusal, Reply, Request, RootSecret, Unanswered};
pub use streams::{Stream, StreamStep};
