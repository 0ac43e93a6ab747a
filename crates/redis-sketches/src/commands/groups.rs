//! The families of commands, each with its ACL category.

use quartet_layer_redis::module_api::{Group, ModuleGroup};

const fn group(category: &'static str) -> Group {
    Group::Module(ModuleGroup {
        name: "module",
        category: Some(category),
        module: Some("bf"),
        looks_at_much: false,
        is_all_in_rows: true,
    })
}

pub const BLOOM: Group = group("bloom");
pub const CUCKOO: Group = group("cuckoo");
pub const COUNT_MIN: Group = group("cms");
pub const TOP_K: Group = group("topk");
pub const T_DIGEST: Group = group("tdigest");
