//! The description of a node: its entry at the sequencer, its status, and the pages that it answers
//! while another node is home.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use quartet_cluster::silence::BEAT_EVERY;
use quartet_engine::{Condition, Durability, Engine, Replication, Role};
use quartet_layer_redis::Announcement;
use quartet_log_etcd::Etcd;
use quartet_log_replicated::{PartitionId, Sequencer};
use quartet_model::LogSequence;
use serde_json::json;

use super::{EXIT_REMOVED, Shared};
use crate::cluster::formats::Formats;
use crate::cluster::forward::Pages;
use crate::cluster::members::{Member, Members, now_us};
use crate::http::Head;
use crate::metrics;
use crate::observability::exposition::Text;
use crate::operations::admin::shows_root_key;
use crate::serving::Foundation;

/// Interval of requests to etcd's members for their versions and sizes.
const ETCD_STATUS_EVERY: Duration = Duration::from_secs(5);

impl Shared {
    /// This node's record about itself.
    pub(super) fn own_member(&self) -> Member {
        let figures: Vec<_> = self.engines().map(|engine| engine.replication()).collect();
        let most = |lag: fn(&Replication) -> u64| figures.iter().map(lag).max().unwrap_or_default();
        let mut heard = self.heard_homes();
        let endpoints = self.foundation.sockets.addresses();
        let announcement = &self.foundation.settings.redis.announcement;
        let reached_at = |name: &str, announcement: &Announcement| {
            let bound = endpoints.get(name);
            bound.map(|bound| self.settings.reached_at(bound, announcement))
        };
        Member {
            name: self.settings.node_name.clone(),
            address: self.settings.address(),
            redis: reached_at("redis", announcement).or_else(|| reached_at("redis-tls", announcement)),
            sentinel: reached_at("sentinel", &announcement.without_port()),
            clock_us: now_us(),
            lag_records: most(|figures| figures.lag_records),
            lag_millis: most(|figures| figures.lag_millis),
            hears: heard.first().copied().flatten(),
            hears_others: heard.split_off(1),
            endpoints,
            process: self.process,
            is_strict: self.foundation.settings.storage.durability == Durability::Always,
            has_room: !self.is_disk_full(),
            state_mismatches: figures.iter().map(|figures| figures.hash_mismatches).sum(),
            applied: figures.first().map_or(0, |figures| figures.applied),
            synced: figures.first().map_or(0, |figures| figures.synced),
            condition: self.condition(&figures).to_owned(),
            disk_free_bytes: self.disk_free_bytes(),
            formats: Formats::of_this_process(),
            state_hashes: figures.iter().map(state_hash).collect(),
        }
    }

    /// The condition of this node in a word or two: the worst of the partitions that it is home of.
    pub(super) fn condition(&self, figures: &[Replication]) -> &'static str {
        let roles: Vec<Role> = self.engines().map(|engine| engine.role()).collect();
        let is_any = |is_it: fn(&Role) -> bool| roles.iter().any(is_it);
        let is_home_so = |expected: Condition| {
            let mut roles = roles.iter();
            roles.any(|role| matches!(role, Role::Home { condition, .. } if *condition == expected))
        };
        let is_in: [(bool, &'static str); 10] = [
            (is_any(|role| matches!(role, Role::Stopped(_))), "stopped"),
            (is_any(|role| matches!(role, Role::Copying)), "needs a copy"),
            (self.is_in_doubt(), "state differs"),
            (self.is_disk_full(), "disk full"),
            (figures.iter().any(|figures| figures.is_suspended), "suspended"),
            (is_home_so(Condition::Uncertain), "uncertain"),
            (
                is_home_so(Condition::Draining) || is_home_so(Condition::Drained),
                "handing over",
            ),
            (is_home_so(Condition::Sure), "commits"),
            (is_any(|role| matches!(role, Role::RollingBack)), "rolling back"),
            (is_any(|role| matches!(role, Role::Candidate { .. })), "taking over"),
        ];
        is_in
            .into_iter()
            .find(|(is_it, _)| *is_it)
            .map_or("follows", |(_, word)| word)
    }

    fn disk_free_bytes(&self) -> Option<u64> {
        let folder = self.foundation.settings.storage.data.folder()?;
        let disk = rustix::fs::statvfs(folder).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    pub(super) fn keep_members(&self, sequencer: &mut dyn Sequencer) {
        let next = |engine: &Arc<Engine>| LogSequence(engine.replication().synced + 1);
        let needed = || self.engines().map(next).collect();
        let kept = self.home.members.keep(
            sequencer,
            || self.own_member(),
            needed,
            || self.is_any_home_silent(),
            || self.is_over(),
        );
        if let Err(reason) = kept {
            tracing::error!("{reason}: stopping");
            std::process::exit(EXIT_REMOVED);
        }
    }

    /// Reads the status of etcd's members until the node ends. An operator's request to this node
    /// does not wait for them.
    pub(super) fn watch_etcd(&self) {
        let mut etcd = None::<Etcd>;
        let mut last = None::<Instant>;
        while !self.is_over() {
            std::thread::sleep(BEAT_EVERY);
            if last.is_some_and(|last| last.elapsed() < ETCD_STATUS_EVERY) {
                continue;
            }
            last = Some(Instant::now());
            etcd = etcd.or_else(|| Etcd::open(&self.settings.etcd).ok());
            let statuses = etcd.as_ref().map_or_else(Vec::new, Etcd::status);
            let described = self.settings.etcd.endpoints.iter().map(|endpoint| {
                let status = statuses.iter().find(|status| status.endpoint == *endpoint);
                json!({
                    "endpoint": endpoint,
                    "answers": status.is_some(),
                    "version": status.map(|status| &status.version),
                    "is_leader": status.map(|status| status.is_leader),
                    "file_bytes": status.map(|status| status.file_bytes),
                    "quota_bytes": status.map(|status| status.quota_bytes.unwrap_or(self.settings.etcd.quota_bytes)),
                })
            });
            self.home.members.note_etcd(described.collect());
        }
    }

    /// Answers for the node itself; at its home the layers do.
    pub(super) fn pages(&self) -> &Arc<Pages> {
        self.pages.get_or_init(|| {
            let (foundation, members) = (Arc::downgrade(&self.foundation), self.home.members.clone());
            Arc::new(move |head: &Head<'_>| {
                let foundation = foundation.upgrade()?;
                // A connection may be older than this node's term.
                let is_home = foundation.engine.is_home();
                (!is_home).then(|| own_page(head, &foundation, &members)).flatten()
            })
        })
    }
}

/// The state hash of a partition, as a node's key has it.
fn state_hash(figures: &Replication) -> Option<(u64, String)> {
    let hash = figures.own_hash?;
    Some((hash.at.0, format!("{:032x}", hash.hash)))
}

/// The pages that each node answers for itself.
fn own_page(head: &Head<'_>, foundation: &Foundation, members: &Members) -> Option<(u16, &'static str, String)> {
    const TEXT: &str = "text/plain; charset=utf-8";
    match head.path() {
        "/healthz" | "/health" => Some((200, TEXT, "ok\n".into())),
        "/healthz/home" => Some((503, TEXT, "another node is home\n".into())),
        "/readyz" => Some(
            match members.other_home(PartitionId(0)).filter(|_| hears_home(foundation)) {
                Some(home) => (200, TEXT, format!("ready: {} is home\n", home.name)),
                None => (503, TEXT, "no node is home, or this one does not hear it\n".into()),
            },
        ),
        "/metrics" => Some((200, "text/plain; version=0.0.4", own_metrics(head, foundation))),
        _ => None,
    }
}

pub(super) fn hears_home(foundation: &Foundation) -> bool {
    let nodes = foundation.nodes.get().and_then(Weak::upgrade);
    nodes.is_some_and(|nodes| nodes.hears_home())
}

fn own_metrics(head: &Head<'_>, foundation: &Foundation) -> String {
    let nodes = foundation.nodes.get().and_then(Weak::upgrade);
    let services = nodes.map(|nodes| metrics::services_of(&*nodes)).unwrap_or_default();
    let is_for_operators = shows_root_key(head, &foundation.settings, &foundation.engine);
    let mut out = Text::default();
    metrics::write_without_first(&foundation.partitions, &services, is_for_operators, &mut out);
    out.text
}
