//! Making a layer: the one place that knows every command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use quartet_engine::{Engine, Space};

use crate::access::acl::Users;
use crate::command::migration::Targets;
use crate::commands;
use crate::config::Config;
use crate::facts::REPLY_BYTES_MAX;
use crate::layer::{Access, Connections, Eviction, Identity, Observation, Process, Redis, Resources, Scripting};
use crate::observation::statistics::Statistics;

impl Redis {
    pub fn new(engine: Arc<Engine>, space: Space, identity: Identity, shutdown: Box<dyn Fn() + Send + Sync>) -> Redis {
        let config = Config::default();
        if identity.tcp_port != 0 {
            config.start_with("port", identity.tcp_port.to_string());
        }
        if identity.emulated_cluster.is_some() {
            config.start_with("cluster-enabled", "yes".into());
        }
        Redis {
            engine,
            space,
            table: commands::table(),
            config,
            changes: Default::default(),
            indexes: Default::default(),
            cursors: Default::default(),
            outbox: Default::default(),
            replication: Default::default(),
            reply_bytes_max: AtomicUsize::new(REPLY_BYTES_MAX),
            random: Default::default(),
            expiry: Default::default(),
            eviction: Eviction {
                recency: Default::default(),
                found_nothing: true.into(),
            },
            observation: Observation {
                statistics: Statistics::new(commands::table()),
                slowlog: Default::default(),
                large_requests: Default::default(),
                large_replies: Default::default(),
                latency: Default::default(),
                key_counts: Default::default(),
            },
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
                users: Users::new(commands::table()),
                user_file: None,
                admission_control: None,
                realm: Vec::new(),
                directory: None,
                login_guard: Default::default(),
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
