//! Sketches: the commands BF, CF, CMS, TOPK and TDIGEST, as RedisBloom 2.8 answers them.
//!
//! The crate's other modules compute; `stored` has the rows of a key.
//! Texts and the order of checks were observed of Redis 8.2.3 with RedisBloom 2.8.2.

mod bloom;
mod count_min;
mod cuckoo;
mod data_type;
mod groups;
mod requests;
mod stored;
mod t_digest;
mod top_k;

#[cfg(test)]
mod tests;

use self::data_type::Sketches;
use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{DataType, Events, Module};

/// The module: the row of a server's list of modules.
pub struct SketchModule;

impl Module for SketchModule {
    fn names(&self) -> &'static [(&'static str, i64)] {
        &[("bf", 20_802)]
    }

    fn commands(&self) -> &'static [&'static [Definition]] {
        &[
            bloom::COMMANDS,
            cuckoo::COMMANDS,
            count_min::COMMANDS,
            top_k::COMMANDS,
            t_digest::COMMANDS,
        ]
    }

    fn arguments(&self) -> &'static str {
        include_str!("arguments.txt")
    }

    /// A sketch has no other events, as at the original.
    fn events(&self) -> &'static [(&'static [&'static str], Events)] {
        &[(
            &[
                "bf.reserve",
                "bf.add",
                "bf.madd",
                "bf.insert",
                "bf.loadchunk",
                "cf.reserve",
                "cf.add",
                "cf.addnx",
                "cf.insert",
                "cf.insertnx",
                "cf.loadchunk",
                "cms.initbydim",
                "cms.initbyprob",
                "topk.reserve",
                "tdigest.create",
                "tdigest.merge",
            ],
            Events::Created,
        )]
    }

    /// All but the two that draw by chance.
    fn sent_as_they_came(&self) -> &'static [&'static str] {
        &[
            "bf.reserve",
            "bf.add",
            "bf.madd",
            "bf.insert",
            "bf.loadchunk",
            "cf.reserve",
            "cf.add",
            "cf.addnx",
            "cf.insert",
            "cf.insertnx",
            "cf.del",
            "cf.compact",
            "cf.loadchunk",
            "cms.initbydim",
            "cms.initbyprob",
            "cms.incrby",
            "cms.merge",
            "topk.reserve",
            "tdigest.create",
            "tdigest.add",
            "tdigest.reset",
            "tdigest.merge",
        ]
    }

    fn data_types(&self) -> &'static [&'static dyn DataType] {
        &[&Sketches]
    }
}
