//! The command families of the module, for COMMAND DOCS, COMMAND LIST and ACL categories.

use quartet_layer_redis::module_api::{Group, ModuleGroup};

/// FT.*
pub const SEARCH: Group = Group::Module(ModuleGroup {
    name: "search",
    category: Some("search"),
    module: Some("search"),
    looks_at_much: true,
    is_all_in_rows: false,
});

/// Upstash's SEARCH.*
pub const UPSTASH_SEARCH: Group = Group::Module(ModuleGroup {
    name: "search",
    category: Some("search"),
    module: None,
    looks_at_much: true,
    is_all_in_rows: false,
});

/// V*
pub const VECTOR_SET: Group = Group::Module(ModuleGroup {
    name: "module",
    category: None,
    module: Some("vectorset"),
    looks_at_much: true,
    is_all_in_rows: false,
});

/// Upstash's VECTOR.*
pub const VECTOR_INDEX: Group = Group::Module(ModuleGroup {
    name: "module",
    category: None,
    module: None,
    looks_at_much: true,
    is_all_in_rows: false,
});
