//! Making a layer over the commands that the server has put together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use quartet_engine::{Engine, Space};

use crate::access::acl::Users;
use crate::command::migration::Targets;
use crate::command::table::Table;
use crate::command_set::Commands;
use crate::config::Config;
use crate::facts::REPLY_BYTES_MAX;
use crate::layer::{Access, Connections, Eviction, Identity, Observation, Process, Redis, Resources, Scripting};
use crate::observation::statistics::Statistics;

impl Redis {
    pub fn new(
        engine: Arc<Engine>,
        space: Space,
        commands: &'static Commands,
        identity: Identity,
        shutdown: Box<dyn Fn() + Send + Sync>,
    ) -> Redis {
        let table = &commands.table;
        let config = initial_config(&identity);
        Redis {
            engine,
            space,
            replica: None,
            command_set: commands,
            table,
            config,
            changes: Default::default(),
            module_states: commands.modules.open(),
            outbox: Default::default(),
            replication: Default::default(),
            reply_bytes_max: AtomicUsize::new(REPLY_BYTES_MAX),
            random: Default::default(),
            expiry: Default::default(),
            eviction: Eviction {
                recency: Default::default(),
                found_nothing: true.into(),
            },
            observation: empty_observation(table),
            scripting: Scripting {
                scripts: Default::default(),
                library_mark: Default::default(),
                long_scripts: Default::default(),
                scripts_call_all: AtomicBool::new(false),
                log: Arc::new(|_, _| {}),
            },
            connections: Connections {
                is_held: AtomicBool::new(false),
                clients: Default::default(),
                blocking: Default::default(),
                pause: Default::default(),
                channels: Default::default(),
                tracking: Default::default(),
                pending_disconnects: Default::default(),
            },
            access: Access {
                users: Users::new(table),
                user_file: None,
                admission_control: None,
                realm: Vec::new(),
                directory: None,
                login_guard: Default::default(),
                is_followed: false,
            },
            process: Process {
                identity,
                migration_targets: Targets::Any,
                shutdown,
                resources: Box::new(Resources::default),
                purge: Box::new(|| {}),
                secret_digits: None,
                slow: None,
                use_tls: None,
                rdb_file: None,
                write_parameters: None,
            },
        }
    }
}

/// The defaults, and the parameters that follow from the server's identity.
fn initial_config(identity: &Identity) -> Config {
    let config = Config::default();
    if identity.tcp_port != 0 {
        config.start_with("port", identity.tcp_port.to_string());
    }
    if identity.emulated_cluster.is_some() {
        config.start_with("cluster-enabled", "yes".into());
    }
    config
}

fn empty_observation(table: &Table) -> Observation {
    Observation {
        statistics: Statistics::new(table),
        slowlog: Default::default(),
        large_requests: Default::default(),
        large_replies: Default::default(),
        latency: Default::default(),
        key_counts: Default::default(),
    }
}
