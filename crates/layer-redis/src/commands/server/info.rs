//! INFO: facts and counters by section. Keys that clients parse are all there; those of mechanisms
//! that Quartet does not have show what a Redis without work for them shows.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_wire_resp::Arguments;
use rustc_hash::FxHashSet;

use crate::commands::scripting::libraries;
use crate::connections::channels::Scope;
use crate::connections::clients::Client;
use crate::facts::DATABASES;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::handler::groups::Groups;
use crate::keyspace::expiry_sample;
use crate::observation::statistics::{CommandCounter, DENIAL_REASONS};
use crate::replication::{LinkState, Upstream};

type Section = fn(&mut Context<'_, '_>, &mut String);

/// Title, whether it is shown unasked, and what writes it.
const SECTIONS: &[(&str, bool, Section)] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, modules),
    ("Commandstats", false, command_stats),
    ("Errorstats", true, error_stats),
    ("Latencystats", false, latency_stats),
    ("Cluster", true, cluster),
    ("Keyspace", true, keyspace),
];

pub fn info(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut out = String::new();
    for (title, is_default, section) in SECTIONS {
        if !is_wanted(title, *is_default, arguments) {
            continue;
        }
        if !out.is_empty() {
            out += "\r\n";
        }
        write!(out, "# {title}\r\n").expect("a string takes any text");
        section(context, &mut out);
    }
    context.reply.verbatim(b"txt", out.as_bytes());
    Ok(())
}

fn is_wanted(title: &str, is_default: bool, arguments: Arguments<'_>) -> bool {
    let names = |word: &str| {
        arguments
            .iter()
            .skip(1)
            .any(|name| name.eq_ignore_ascii_case(word.as_bytes()))
    };
    let asked_for_default = arguments.len() == 1 || names("default");
    names(title) || names("all") || names("everything") || is_default && asked_for_default
}

fn line(out: &mut String, key: &str, value: impl std::fmt::Display) {
    write!(out, "{key}:{value}\r\n").expect("a string takes any text");
}

fn lines(out: &mut String, values: &[(&str, u64)]) {
    values.iter().for_each(|(key, value)| line(out, key, value));
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn server(context: &mut Context<'_, '_>, out: &mut String) {
    let identity = &context.process().identity;
    let now_micros = context.engine().now_micros();
    let uptime_seconds = now_micros.saturating_sub(identity.started_micros) / 1_000_000;
    line(out, "redis_version", identity.redis_version.text());
    line(out, "redis_git_sha1", "00000000");
    line(out, "redis_git_dirty", 0);
    line(out, "redis_build_id", "0000000000000000");
    line(out, "redis_mode", identity.mode());
    line(out, "quartet_version", &identity.quartet_version);
    line(out, "quartet_durability", context.space().durability.name());
    line(
        out,
        "quartet_data",
        if identity.keeps_data { "folder" } else { "memory" },
    );
    line(out, "os", std::env::consts::OS);
    line(out, "arch_bits", usize::BITS);
    line(out, "process_id", identity.process_id);
    line(out, "process_supervised", "no");
    line(out, "run_id", &identity.run_id);
    line(out, "tcp_port", identity.tcp_port);
    line(out, "server_time_usec", now_micros);
    line(out, "uptime_in_seconds", uptime_seconds);
    line(out, "uptime_in_days", uptime_seconds / 86_400);
    line(out, "hz", context.config().text_of("hz"));
    line(out, "configured_hz", context.config().text_of("hz"));
    line(out, "lru_clock", (now_micros / 1_000_000) & 0x00ff_ffff);
    line(out, "executable", &identity.executable);
    line(out, "config_file", &identity.config_file);
    line(out, "io_threads_active", 0);
}

fn modules(context: &mut Context<'_, '_>, out: &mut String) {
    for (name, version) in context.commands().module_names() {
        let options = "api=1,filters=0,usedby=[],using=[],options=[handle-io-errors|handle-repl-async-load]";
        line(out, "module", format!("name={name},ver={version},{options}"));
    }
}

fn cluster(context: &mut Context<'_, '_>, out: &mut String) {
    let is_emulated = context.process().identity.emulated_cluster.is_some();
    line(out, "cluster_enabled", u8::from(is_emulated));
}

fn clients(context: &mut Context<'_, '_>, out: &mut String) {
    let groups = context.groups;
    let waiting = groups.connections().blocking.counts();
    let blocked = waiting.clients + groups.connections().pause.waiting.load(Ordering::Relaxed);
    let all = groups.connections().clients.list();
    let (watching, watched_keys) = watched(&all);
    let listening = all.iter().filter(|client| client.subscriptions.any()).count();
    line(out, "connected_clients", all.len());
    line(out, "cluster_connections", 0);
    line(out, "maxclients", groups.config().text_of("maxclients"));
    line(out, "client_recent_max_input_buffer", 0);
    line(out, "client_recent_max_output_buffer", 0);
    line(out, "blocked_clients", blocked);
    line(out, "tracking_clients", groups.connections().tracking.counts().clients);
    line(out, "pubsub_clients", listening);
    line(out, "watching_clients", watching);
    line(out, "clients_in_timeout_table", 0);
    line(out, "total_watched_keys", watched_keys);
    line(out, "total_blocking_keys", waiting.keys);
    line(out, "total_blocking_keys_on_nokey", waiting.keys_if_gone);
}

/// The number of connections that watch keys, and of the watched keys.
fn watched(clients: &[Arc<Client>]) -> (usize, usize) {
    let mut keys = FxHashSet::default();
    let mut watching = 0;
    for client in clients {
        let client_keys = client.watched_keys.lock();
        watching += usize::from(!client_keys.is_empty());
        keys.extend(client_keys.iter().cloned());
    }
    (watching, keys.len())
}

fn memory(context: &mut Context<'_, '_>, out: &mut String) {
    let groups = context.groups;
    let resources = groups.resources();
    let used = groups.used_bytes();
    let startup = groups.process().identity.startup_bytes;
    let (_, script_bytes) = groups.scripting().scripts.size();
    let peak = groups.observation().statistics.used_peak(used);
    let maxmemory = groups.config().maxmemory.load(Ordering::Relaxed) as u64;
    for (key, bytes) in [
        ("used_memory", used),
        ("used_memory_rss", resources.rss_bytes),
        ("used_memory_peak", peak),
        ("total_system_memory", resources.machine_bytes),
        ("used_memory_lua", 0),
        ("used_memory_vm_total", 0),
        ("used_memory_scripts", script_bytes as u64),
        ("maxmemory", maxmemory),
    ] {
        line(out, key, bytes);
        line(out, &format!("{key}_human"), human(bytes));
    }
    line(
        out,
        "used_memory_peak_perc",
        format_args!("{:.2}%", ratio(used, peak) * 100.0),
    );
    if !groups.is_one_of_several() {
        let memory = groups.engine().memory();
        line(out, "memory_budget", memory.budget().unwrap_or(0));
        line(out, "memory_budget_source", resources.budget_source);
        line(out, "memory_reserved", memory.reserved_bytes());
    }
    line(out, "maxmemory_policy", groups.config().text_of("maxmemory-policy"));
    let dataset_share = ratio(used - startup, used) * 100.0;
    line(out, "used_memory_dataset_perc", format_args!("{dataset_share:.2}%"));
    let fragmentation = ratio(resources.rss_bytes, used);
    line(out, "mem_fragmentation_ratio", format_args!("{fragmentation:.2}"));
    line(out, "allocator_frag_ratio", format_args!("{fragmentation:.2}"));
    line(out, "allocator_rss_ratio", "1.00");
    line(out, "rss_overhead_ratio", "1.00");
    line(out, "mem_fragmentation_bytes", resources.rss_bytes as i64 - used as i64);
    line(out, "used_memory_dataset", used - startup);
    line(out, "mem_allocator", "mimalloc");
    memory_parts(context, out, used, resources.rss_bytes);
}

/// Writes the memory of parts of the process, which has `used` bytes of data and `rss_bytes` in
/// all.
fn memory_parts(context: &mut Context<'_, '_>, out: &mut String, used: u64, rss_bytes: u64) {
    let groups = context.groups;
    let startup = groups.process().identity.startup_bytes;
    let client_bytes = groups.client_bytes();
    let (script_count, _) = groups.scripting().scripts.size();
    let (libraries, functions) = libraries::count(context.tx);
    let pending = match groups.is_one_of_several() {
        true => 0,
        false => context.tx.unfreed_count(),
    };
    lines(
        out,
        &[
            ("used_memory_overhead", startup + client_bytes),
            ("used_memory_startup", startup),
            ("mem_not_counted_for_evict", 0),
            ("mem_replication_backlog", 0),
            ("mem_clients_slaves", 0),
            ("allocator_allocated", used),
            ("allocator_active", rss_bytes),
            ("allocator_resident", rss_bytes),
            ("mem_cluster_links", 0),
            ("mem_total_replication_buffers", 0),
            ("used_memory_vm_eval", 0),
            ("used_memory_vm_functions", 0),
            ("used_memory_scripts_eval", 0),
            ("used_memory_functions", 0),
            ("mem_clients_normal", client_bytes),
            ("mem_aof_buffer", 0),
            ("number_of_cached_scripts", script_count as u64),
            ("number_of_functions", functions),
            ("number_of_libraries", libraries),
            ("active_defrag_running", 0),
            ("lazyfree_pending_objects", pending as u64),
            ("lazyfreed_objects", 0),
        ],
    );
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn human(bytes: u64) -> String {
    let units = ["K", "M", "G", "T"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let power = (bytes.ilog2() / 10).min(4);
    let size = bytes as f64 / (1u64 << (10 * power)) as f64;
    format!("{size:.2}{}", units[power as usize - 1])
}

fn persistence(context: &mut Context<'_, '_>, out: &mut String) {
    let groups = context.groups;
    let statistics = groups.engine().statistics();
    let is_checkpointing = u64::from(statistics.checkpoint_running.load(Ordering::Relaxed));
    lines(
        out,
        &[
            ("loading", 0),
            ("async_loading", 0),
            (
                "rdb_changes_since_last_save",
                load(&statistics.transactions_since_checkpoint),
            ),
            ("rdb_bgsave_in_progress", is_checkpointing),
            ("rdb_last_save_time", groups.last_save_seconds()),
        ],
    );
    let status = |failed: bool| if failed { "err" } else { "ok" };
    let checkpoint_status = status(statistics.checkpoint_failed.load(Ordering::Relaxed));
    line(out, "rdb_last_bgsave_status", checkpoint_status);
    line(out, "rdb_last_bgsave_time_sec", -1);
    line(out, "rdb_current_bgsave_time_sec", -1);
    line(out, "rdb_last_cow_size", 0);
    line(out, "rdb_last_load_keys_expired", 0);
    line(out, "rdb_last_load_keys_loaded", 0);
    line(out, "module_fork_in_progress", 0);
    line(out, "module_fork_last_cow_size", 0);
    line(out, "rdb_saves", load(&statistics.checkpoints));
    line(
        out,
        "aof_enabled",
        u64::from(groups.config().text_of("appendonly") == "yes"),
    );
    line(out, "aof_rewrite_in_progress", 0);
    line(out, "aof_rewrite_scheduled", 0);
    line(out, "aof_rewrites", 0);
    line(out, "aof_last_cow_size", 0);
    line(out, "aof_last_rewrite_time_sec", -1);
    line(out, "aof_current_rewrite_time_sec", -1);
    line(out, "aof_last_bgrewrite_status", checkpoint_status);
    line(out, "aof_last_write_status", status(groups.engine().is_disk_full()));
    if groups.is_one_of_several() {
        return;
    }
    lines(
        out,
        &[
            ("quartet_transactions", statistics.transactions()),
            ("quartet_epochs", load(&statistics.epochs)),
            ("quartet_epoch_bytes", load(&statistics.epoch_bytes)),
            ("quartet_syncs", load(&statistics.syncs)),
            ("quartet_conflicts", load(&statistics.conflicts)),
        ],
    );
}

fn stats(context: &mut Context<'_, '_>, out: &mut String) {
    let statistics = &context.observation().statistics;
    let served = &context.replication().served;
    let [commands, bytes_read, bytes_written] = statistics.rate.lock().per_second();
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    line(out, "instantaneous_input_kbps", kilobytes(bytes_read));
    line(out, "instantaneous_output_kbps", kilobytes(bytes_written));
    line(out, "expired_stale_perc", "0.00");
    let (channels, tracked) = (&context.connections().channels, context.connections().tracking.counts());
    lines(
        out,
        &[
            ("total_connections_received", load(&statistics.connections_received)),
            ("total_commands_processed", statistics.commands_processed()),
            ("instantaneous_ops_per_sec", commands),
            ("total_net_input_bytes", load(&statistics.bytes_read)),
            ("total_net_output_bytes", load(&statistics.bytes_written)),
            ("total_reads_processed", load(&statistics.reads)),
            ("total_writes_processed", load(&statistics.writes)),
            ("total_net_repl_input_bytes", 0),
            ("total_net_repl_output_bytes", 0),
            ("io_threaded_reads_processed", 0),
            ("io_threaded_writes_processed", 0),
            ("rejected_connections", load(&statistics.connections_rejected)),
            ("sync_full", load(&served.full)),
            ("sync_partial_ok", load(&served.partial)),
            ("sync_partial_err", load(&served.partial_refused)),
            ("expired_subkeys", load(&statistics.expired_fields)),
            ("expired_keys", load(&statistics.expired_keys)),
            ("evicted_keys", load(&statistics.evicted_keys)),
            ("evicted_clients", load(&statistics.evicted_clients)),
            ("expired_time_cap_reached_count", 0),
            ("total_eviction_exceeded_time", 0),
            ("migrate_cached_sockets", 0),
            ("slave_expires_tracked_keys", 0),
            ("active_defrag_hits", 0),
            ("active_defrag_misses", 0),
            ("active_defrag_key_hits", 0),
            ("active_defrag_key_misses", 0),
            ("dump_payload_sanitizations", 0),
            ("keyspace_hits", load(&statistics.keyspace_hits)),
            ("keyspace_misses", load(&statistics.keyspace_misses)),
            ("pubsub_channels", channels.count(Scope::Channel) as u64),
            ("pubsub_patterns", channels.count(Scope::Pattern) as u64),
            ("pubsubshard_channels", channels.count(Scope::Shard) as u64),
            ("latest_fork_usec", 0),
            ("total_forks", 0),
            ("tracking_total_keys", tracked.keys as u64),
            ("tracking_total_items", tracked.items as u64),
            ("tracking_total_prefixes", tracked.prefixes as u64),
            ("unexpected_error_replies", 0),
            ("total_error_replies", load(&statistics.error_replies)),
        ],
    );
    for (reason, count) in DENIAL_REASONS.iter().zip(&statistics.denials) {
        line(out, &format!("acl_access_denied_{reason}"), load(count));
    }
}

fn replication(context: &mut Context<'_, '_>, out: &mut String) {
    match context.replication().upstream() {
        None => line(out, "role", "master"),
        Some(upstream) => of_replica(context.groups, &upstream, out),
    }
    let replicas = super::replicas::lines(context.groups);
    line(out, "connected_slaves", replicas.len());
    for (number, replica) in replicas.iter().enumerate() {
        line(out, &format!("slave{number}"), replica);
    }
    line(out, "master_failover_state", "no-failover");
    line(out, "master_replid", &context.process().identity.run_id);
    line(out, "master_replid2", "0".repeat(40));
    let (start, length) = context.replication().backlog();
    line(out, "master_repl_offset", context.replication().shown_end());
    line(out, "second_repl_offset", -1);
    line(out, "repl_backlog_active", u8::from(context.replication().is_on()));
    line(out, "repl_backlog_size", context.config().text_of("repl-backlog-size"));
    line(out, "repl_backlog_first_byte_offset", start);
    line(out, "repl_backlog_histlen", length);
}

fn of_replica(groups: Groups<'_>, upstream: &Upstream, out: &mut String) {
    let now_micros = groups.engine().now_micros();
    let seconds_since = |micros: u64| now_micros.saturating_sub(micros) / 1_000_000;
    let is_up = upstream.link == LinkState::Up;
    line(out, "role", "slave");
    line(out, "master_host", &upstream.host);
    line(out, "master_port", upstream.port);
    line(out, "master_link_status", if is_up { "up" } else { "down" });
    match is_up {
        true => line(out, "master_last_io_seconds_ago", seconds_since(upstream.heard_micros)),
        false => line(out, "master_last_io_seconds_ago", -1),
    }
    line(
        out,
        "master_sync_in_progress",
        u8::from(upstream.link == LinkState::Copying),
    );
    line(out, "slave_read_repl_offset", upstream.offset);
    line(out, "slave_repl_offset", upstream.offset);
    if !is_up {
        line(
            out,
            "master_link_down_since_seconds",
            seconds_since(upstream.down_since_micros),
        );
    }
    line(out, "slave_priority", groups.config().text_of("replica-priority"));
    line(
        out,
        "slave_read_only",
        u8::from(groups.config().text_of("replica-read-only") == "yes"),
    );
    line(out, "replica_announced", 1);
}

fn cpu(context: &mut Context<'_, '_>, out: &mut String) {
    let resources = context.resources();
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    line(out, "used_cpu_sys", seconds(resources.cpu_system_micros));
    line(out, "used_cpu_user", seconds(resources.cpu_user_micros));
    line(out, "used_cpu_sys_children", "0.000000");
    line(out, "used_cpu_user_children", "0.000000");
}

/// The commands that were called or refused, with their counters.
fn used_commands<'c>(context: &Context<'c, '_>) -> impl Iterator<Item = (&'static str, &'c CommandCounter)> {
    let table = context.table();
    let counters = context.observation().statistics.commands.0.iter().enumerate();
    counters.map(|(index, counter)| (table.at(index).name, counter))
}

fn command_stats(context: &mut Context<'_, '_>, out: &mut String) {
    for (name, counter) in used_commands(context) {
        let (calls, rejected) = (load(&counter.calls), load(&counter.rejected));
        if calls + rejected == 0 {
            continue;
        }
        let micros = load(&counter.micros);
        let per_call = ratio(micros, calls);
        let failed = load(&counter.failed);
        let counts = format!(
            "calls={calls},usec={micros},usec_per_call={per_call:.2},rejected_calls={rejected},failed_calls={failed}"
        );
        line(out, &format!("cmdstat_{name}"), counts);
    }
}

fn error_stats(context: &mut Context<'_, '_>, out: &mut String) {
    for (code, count) in context.observation().statistics.errors.lock().iter() {
        line(out, &format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn latency_stats(context: &mut Context<'_, '_>, out: &mut String) {
    let percentiles = context.config().text_of("latency-tracking-info-percentiles");
    for (name, counter) in used_commands(context) {
        if counter.durations.cumulative().is_empty() {
            continue;
        }
        let figures = percentiles.split_whitespace().map(|percent| {
            let micros = counter
                .durations
                .percentile(percent.parse().expect("a checked percentile"));
            format!("p{percent}={micros}.000")
        });
        let figures: Vec<String> = figures.collect();
        line(out, &format!("latency_percentiles_usec_{name}"), figures.join(","));
    }
}

/// Expiries looked at one by one; with more keys than this that expire, the databases' shares are
/// estimated.
const EXPIRY_SAMPLE: u64 = 10_000;

fn keyspace(context: &mut Context<'_, '_>, out: &mut String) {
    let (expiry_count, expiries) = expiry_sample(context.tx, false, EXPIRY_SAMPLE);
    let (field_expiry_count, field_expiries) = expiry_sample(context.tx, true, EXPIRY_SAMPLE);
    for db in 0..DATABASES {
        let keys = context.keys_of(db).key_count();
        if keys == 0 {
            continue;
        }
        let (expires, average_ms) = share(expiry_count, &expiries, db, context.now_ms);
        let (subexpiry, _) = share(field_expiry_count, &field_expiries, db, context.now_ms);
        line(
            out,
            &format!("db{db}"),
            format_args!("keys={keys},expires={expires},avg_ttl={average_ms},subexpiry={subexpiry}"),
        );
    }
}

/// A database's share of all expiries, and their average remaining time, from a sample.
fn share(total: u64, sample: &[(u8, u64)], db: u8, now_ms: u64) -> (u64, u64) {
    let deadlines = sample.iter().filter(|(of, _)| *of == db);
    let seen = deadlines.clone().count() as u64;
    let left_ms: u64 = deadlines
        .map(|(_, deadline_ms)| deadline_ms.saturating_sub(now_ms))
        .fold(0, u64::saturating_add);
    let count = (u128::from(seen) * u128::from(total) / (sample.len() as u128).max(1)) as u64;
    (count, left_ms / seen.max(1))
}
