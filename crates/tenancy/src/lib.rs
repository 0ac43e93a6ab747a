//! Logical databases: the catalogue, their credentials, their quotas and their usage.
//!
//! ```text
//!   catalogue   a row a database in the engine's system space, and an index of all of them in memory
//!   definition  what an operator decides about a database, and the form in which that is kept
//!   partitions  the engines of a process, and which has a database's rows
//!   copies      what a database's own partition knows of it
//!   pushes      how it hears of that, also where another node is its home
//!   rows        rows of the system space, and errors
//!   moves       a database goes from one of them to another
//!   quotas      how much a database may use, and what it is refused with
//!   operator    the root key's hash and DynamoDB's access key, as rows
//!   replica     the catalogue of a node that is not home
//!   meter       how much it has used: atomics, written to the system space now and then
//!   share       how long a busy database waits so that the others get their turn
//! ```
//!
//! Knows no protocol, no socket and no clock: time is passed in. The default database, which every
//! server has, is not in the catalogue: it has neither meter nor quota, so it pays for none of
//! this.

mod catalogue;
mod copies;
mod definition;
mod invariants;
mod meter;
mod moves;
mod operator;
mod partitions;
mod pushes;
mod quotas;
mod replica;
mod rows;
mod share;

pub use catalogue::{Access, Catalogue, Changed, Database, Secrets};
pub use definition::{
    Consistency, DEFAULT_DATABASE, DEFAULT_NAME, Definition, Hash, KeptCredentials, Move, Moved, is_name,
};
pub use invariants::CatalogueInvariants;
pub use meter::{BriefHistogram, Charge, Counted, DURATION_BOUNDS, Meter, Usage};
pub use moves::is_place;
pub use operator::{AccessKey, access_key, kept_root_key};
pub use partitions::Partitions;
pub use pushes::Homes;
pub use quotas::{Exceeded, Limits, Quotas};
pub use replica::watch_catalogue;
pub use rows::CatalogueError;
pub use share::{Share, Turns};
