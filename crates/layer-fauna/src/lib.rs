//! FaunaDB's data model and query language (FQL v4) on the ordered, transactional key space.
//!
//! Pure: no sockets, no threads, no clock. A request has a method, a target, headers and a body; a
//! reply is returned with the version that must be durable before it may be sent.
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
//! | `language/`         | the language: values, errors, expressions                         |
//! | - `api_version`     | the versions of the API                                           |
//! | - `references`      | refs from JSON                                                    |
//! | - `signature`       | the one table of functions                                        |
//! | - `codec`           | values as bytes                                                   |
//! | `storage/`          | stored data                                                       |
//! | - `documents`       | documents as chains of versions                             |
//! | - `contents`        | their fields, decoded on demand                                   |
//! | - `indexes`         | entries of indexes, and their keys                                |
//! | - `ranges`          | parts of the keys of a set                                        |
//! | - `schema`          | compiled schemas                                                  |
//! | `credentials/`      | proofs of callers' identities                                     |
//! | - `secrets`         | secrets of keys and tokens, passwords                             |
//! | - `jwt/`            | tokens of other issuers, and the keys that verify them            |
//! | `evaluation/`       | one query as one attempt at one transaction                       |
//! | - `functions/`      | the implementation of each function, by family                    |
//! | - `definitions`     | schema objects: databases, collections, indexes, keys, roles …    |
//! | - `versions`        | documents as a query reads and writes them                        |
//! | - `entries`         | entries of indexes as a query writes them                         |
//! | - `sets`, `pages`   | elements in order; cursors; events                                |
//! | - `combinations`    | composed sets                                                     |
//! | - `histories`       | histories of composed sets                                        |
//! | - `permitted`       | the readable part of a set                                        |
//! | - `deadline`        | the time limit of a query, and its thread                         |
//! | `service/`          | one request: which transaction, what reply                        |
//! | - `callers`         | the caller's identity and rights                                  |
//! | - `rate_limits`     | the operations of a credential per second                         |
//! | - `streams`         | events of a document or a set, as they happen                     |
//! | - `sweep`           | clearing outdated rows                                            |
//! | - `maintenance`     | building large indexes, clearing deleted data                     |
//! | - `changes`         | the meaning of effects, for change feeds                          |
//! | - `invariants`      | the invariants that `quartet check` verifies                      |

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
pub use service::replica::only_reads;
pub use service::streams::{Stream, StreamStep};
pub use service::{BODY_BYTES_MAX, Fauna, RootSecret};
