//! The family of commands, with its ACL category.

use quartet_layer_redis::module_api::{Group, ModuleGroup};

pub const SERIES: Group = Group::Module(ModuleGroup {
    name: "module",
    category: Some("timeseries"),
    module: Some("timeseries"),
    looks_at_much: true,
    is_all_in_rows: true,
});
