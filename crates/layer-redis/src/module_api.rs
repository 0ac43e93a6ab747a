//! The parts of the layer that modules are built on: [`Module`](crate::module::Module) is the way
//! in, this is the way out. A module names the layer only through this page.
//!
//! Everything here is re-exported from the module that defines it; the rest of the layer stays
//! private, and may change without a thought for modules.

// Commands: the rows of the table, handlers' context, replies and errors.
pub use crate::command::error_reply::ErrorReply;
pub use crate::command::errors::WRONG_TYPE;
pub use crate::command::{Command, Group, ModuleGroup, WRITE, glob, parse};
pub use crate::command_set::Commands;
pub use crate::config::table::{Access, Parameter};
pub use crate::connections::blocking::{Block, EmptyReply};
pub use crate::handler::command_memory::{ELEMENT_BYTES, GatheredList, Workspace};
pub use crate::handler::context::Context;
pub use crate::handler::definition;
pub use crate::handler::definition::Definition;
pub use crate::handler::groups::Groups;
pub use crate::handler::outcome::Outcome;

// Keys and their values.
pub use crate::commands::json::{Json, Matches, Path, Stored, text_bytes};
pub use crate::commands::serialization::{BAD_FORMAT, LONG_MEMBER, MEMBER_BYTES_MAX};
pub use crate::commands::streams::StreamId;
pub use crate::commands::streams::stream::Stream;
pub use crate::keyspace::changes::{Changes, TouchedEntry, Unindexed, What};
pub use crate::keyspace::marks;
pub use crate::keyspace::random::PickCount;
pub use crate::keyspace::string_value::StringValue;
pub use crate::keyspace::{Elements, Entry, Header, Keyspace, Kind, LARGE, each_due, key_row, keys_range, packed};

/// Fields of hashes, and changes to them.
pub mod hashes {
    pub use crate::commands::hashes::{Change, Deadline, Edits, FIELD_BYTES_MAX, apply, each, find};
}

// The layer, its users and its modules.
pub use crate::access::acl::selector::Selector;
pub use crate::access::acl::{Denial, User};
pub use crate::access::admission_control::PARAMETERS_OF_TENANTS;
pub use crate::layer::Redis;
pub use crate::module::{DataType, Events, Module, Modules};
pub use crate::module_states::TransactionEnds;

// `quartet check`.
pub use crate::invariants::collections::verify_count;
pub use crate::invariants::whole_entry;
pub use crate::keyspace::stored_key::{ELEMENTS_PREFIX_BYTES, StoredKey, database_and_name};
