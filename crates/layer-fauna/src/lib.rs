//! FaunaDB's data model and query language (FQL v4) on the ordered, transactional key space.
//!
//! Pure: no sockets, no threads, no clock. A request comes in as method, target, headers and body;
//! a reply goes out with the version that must be durable before it may be sent.
//!
//! The rooms follow the way of a query:
//!
//! ```text
//!   service  ->  language           ->  evaluation          ->  language
//!   callers      json, parse,           functions, sets,        render
//!                expression             definitions
//!                                          |
//!                                       storage -> engine
//!                                       documents, indexes, rows
//! ```
//!
//! | room, file          | what it is                                                        |
//! |---------------------|-------------------------------------------------------------------|
//! | `language/`         | what is written and shown: values, errors, expressions            |
//! | - `api_version`     | the versions of the API                                           |
//! | - `references`      | refs out of JSON                                                  |
//! | - `signature`       | the one table of functions                                        |
//! | - `codec`           | values as bytes                                                   |
//! | `storage/`          | what is kept                                                      |
//! | - `documents`       | where documents are, and what leads from version to version |
//! | - `contents`        | their fields, decoded when somebody looks                         |
//! | - `indexes`         | entries of indexes, and their keys                                |
//! | - `ranges`          | parts of the keys of a set                                        |
//! | - `schema`          | compiled schemas                                                  |
//! | `credentials/`      | what callers prove themselves with                                |
//! | - `secrets`         | secrets of keys and tokens, passwords                             |
//! | - `jwt/`            | tokens of other issuers, and the keys that verify them            |
//! | `evaluation/`       | one query as one attempt at one transaction                       |
//! | - `functions/`      | who does each function, by family                                 |
//! | - `definitions`     | schema objects: databases, collections, indexes, keys, roles …    |
//! | - `versions`        | documents as a query reads and writes them                        |
//! | - `entries`         | entries of indexes as a query writes them                         |
//! | - `sets`, `pages`   | elements in order; cursors; events                                |
//! | - `combinations`    | sets that are made of others                                      |
//! | - `histories`       | histories of sets that are made of others                         |
//! | - `permitted`       | what of a set may be read                                         |
//! | - `deadline`        | how long a query may take, and where                              |
//! | `service/`          | one request: which transaction, what reply                        |
//! | - `callers`         | who asks, and what for                                            |
//! | - `rate_limits`     | how much a credential may ask for                                 |
//! | - `streams`         | what happens to a document or in a set, as it happens             |
//! | - `sweep`           | clearing what time has outdated                                   |
//! | - `maintenance`     | building large indexes, clearing what was deleted                 |
//! | - `changes`         | what effects mean, for change feeds                               |
//! | - `invariants`      | what `quartet check` judges                                       |

mod credentials;
mod evaluation;
mod language;
mod service;
mod storage;

pub use credentials::jwt::keys::{Fetch, KeySets};
pub use service::callers::database_named_by;
pub use service::changes::FaunaChanges;
pub use service::headers::presented_secret;
pub use service::invariants::FaunaInvariants;
pub use service::message::{Refusal, Reply, Request, Unanswered};
pub use service::rate_limits::{Operations, RateLimits};
pub use service::streams::{Stream, StreamStep};
pub use service::{BODY_BYTES_MAX, Fauna, RootSecret};
