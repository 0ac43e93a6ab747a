//! Parameters that CONFIG GET and SET know.
//!
//! One table ([`table::PARAMETERS`]) names them all with type, bounds and default. Those on a
//! command's path are atomics of their own; the others are texts, stored only when they differ from
//! the default. CONFIG SET checks every pair before it changes any, so it sets all or none.

pub(crate) mod table;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use crate::config::table::{Access, Effect, PARAMETERS, Parameter};
use crate::keyspace::event_classes::classes;
use crate::keyspace::eviction_policy::Policy;

macro_rules! parameters {
    ($($field:ident = $default:expr;)*) => {
        /// The parameters that commands consult, and the texts of the others.
        pub struct Config {
            $(pub $field: AtomicI64,)*
            /// By the parameter's first name: values that were set.
            texts: Mutex<BTreeMap<&'static str, String>>,
            /// First names of the parameters that CONFIG SET has changed.
            changed: Mutex<BTreeSet<&'static str>>,
        }

        impl Default for Config {
            fn default() -> Config {
                Config {
                    $($field: AtomicI64::new($default),)*
                    texts: Mutex::default(),
                    changed: Mutex::default(),
                }
            }
        }
    };
}

parameters! {
    hash_max_listpack_entries = 512;
    hash_max_listpack_value = 64;
    set_max_intset_entries = 512;
    zset_max_listpack_entries = 128;
    zset_max_listpack_value = 64;
    stream_node_max_entries = 100;
    stream_node_max_bytes = 4096;
    search_timeout = 500;
    search_default_dialect = 2;
    // 1: a search that runs out of time replies its partial results.
    search_answers_parts = 0;
    // 1: a search of an index that is being filled replies the indexed part.
    search_partial_results = 0;
    slowlog_log_slower_than = 10_000;
    slowlog_max_len = 128;
    commandlog_request_larger_than = 1 << 20;
    commandlog_large_request_max_len = 128;
    commandlog_reply_larger_than = 1 << 20;
    commandlog_large_reply_max_len = 128;
    hll_sparse_max_bytes = 3000;
    latency_tracking = 1;
    latency_monitor_threshold = 0;
    maxclients = 10_000;
    // The largest value of `maxclients`.
    maxclients_possible = u32::MAX as i64;
    maxmemory = 0;
    // A number of `eviction_policy::Policy`.
    maxmemory_policy = 0;
    maxmemory_samples = 5;
    lfu_log_factor = 10;
    lfu_decay_time = 1;
    min_replicas_to_write = 0;
    min_replicas_max_lag = 10;
    timeout = 0;
    busy_reply_threshold = 5000;
    proto_max_bulk_len = 512 << 20;
    client_query_buffer_limit = 1 << 30;
    // The class `normal` of client-output-buffer-limit; 0: no limit.
    output_bytes_hard = 0;
    output_bytes_soft = 0;
    output_soft_seconds = 0;
    // Its class `pubsub`.
    pubsub_bytes_hard = 32 << 20;
    pubsub_bytes_soft = 8 << 20;
    pubsub_soft_seconds = 60;
    // Bits of the classes of events, see `event_classes`.
    notify_keyspace_events = 0;
    tracking_table_max_keys = 1_000_000;
    acllog_max_len = 128;
    acl_pubsub_allchannels = 0;
}

/// Sets parameters in the file that the server was started with, and leaves the rest of it
/// unchanged. Afterwards either the old or the whole new file exists. The server supplies it: the
/// layer touches no file.
pub type WriteParameters = dyn Fn(&[(&'static str, String)]) -> Result<(), String> + Send + Sync;

/// A checked value, ready to be stored.
pub struct Change {
    pub parameter: &'static Parameter,
    pub text: String,
}

impl Config {
    /// The value that is in force once these changes are made.
    pub fn text_after(&self, name: &str, changes: &[Change]) -> String {
        let changed = changes.iter().rev().find(|change| change.parameter.name == name);
        changed.map_or_else(|| self.text_of(name), |change| change.text.clone())
    }

    /// The value as CONFIG GET shows it.
    pub fn text(&self, parameter: &Parameter) -> String {
        if let Effect::Number(field) = parameter.effect {
            return values::show_number(parameter.kind, field(self).load(Ordering::Relaxed));
        }
        match self.texts.lock().get(parameter.name) {
            Some(text) => text.clone(),
            None => parameter.default.to_owned(),
        }
    }

    /// The value of the parameter called `name`, which must be in the table.
    pub fn text_of(&self, name: &str) -> String {
        self.text(Parameter::find(name.as_bytes()).expect("a parameter of the table"))
    }

    /// Checks a value for CONFIG SET. The error is the part of the reply with the reason.
    pub fn check(&self, parameter: &'static Parameter, value: &[u8]) -> Result<Change, String> {
        match parameter.access {
            Access::Immutable => return Err("can't set immutable config".into()),
            Access::Protected => return Err("can't set protected config".into()),
            Access::Modifiable | Access::Hidden => {}
        }
        let text = values::check(parameter.kind, value, &self.text(parameter))?;
        let clients_possible = self.maxclients_possible.load(Ordering::Relaxed);
        if parameter.name == "maxclients" && values::number(&text) > clients_possible {
            return Err(format!(
                "The operating system is not able to handle the specified number of clients, try with {clients_possible}"
            ));
        }
        Ok(Change { parameter, text })
    }

    /// Stores checked values that CONFIG SET brings.
    pub fn change(&self, changes: Vec<Change>) {
        self.changed
            .lock()
            .extend(changes.iter().map(|change| change.parameter.name));
        self.apply(changes);
    }

    /// Returns the parameters that CONFIG SET has changed and a file may keep, with the present
    /// values.
    pub fn changed(&self) -> Vec<(&'static str, String)> {
        let names = self.changed.lock().clone();
        let parameters = PARAMETERS.iter().filter(|parameter| names.contains(parameter.name));
        let settable = parameters.filter(|parameter| parameter.may_stand_in_a_file());
        settable
            .map(|parameter| (parameter.name, self.text(parameter)))
            .collect()
    }

    /// Sets a parameter as the configuration file does. The error says what is wrong with it.
    pub fn start_with_file(&self, name: &str, value: &str) -> Result<(), String> {
        let parameter = PARAMETERS.iter().find(|parameter| parameter.name == name);
        let parameter = parameter.filter(|parameter| parameter.may_stand_in_a_file());
        let parameter = parameter.ok_or("there is no such parameter, or it cannot stand in a file")?;
        self.apply(vec![self.check(parameter, value.as_bytes())?]);
        Ok(())
    }

    /// Stores checked values.
    pub fn apply(&self, changes: Vec<Change>) {
        for Change { parameter, text } in changes {
            match parameter.effect {
                Effect::Number(field) => field(self).store(values::number(&text), Ordering::Relaxed),
                Effect::Parsed(store) => {
                    store(self, &text);
                    self.texts.lock().insert(parameter.name, text);
                }
                Effect::Read | Effect::Kept => {
                    self.texts.lock().insert(parameter.name, text);
                }
            }
        }
    }

    /// Sets what the server decided when it started, immutable parameters included. Panics on an
    /// unknown name.
    pub fn start_with(&self, name: &str, text: String) {
        let parameter = Parameter::find(name.as_bytes()).expect("a parameter of the table");
        self.apply(vec![Change { parameter, text }]);
    }

    /// Keeps what client-output-buffer-limit says of the classes `normal` and `pubsub`: hard and
    /// soft limit, and the soft one's seconds.
    pub(crate) fn limit_output(&self, text: &str) {
        let normal = [
            &self.output_bytes_hard,
            &self.output_bytes_soft,
            &self.output_soft_seconds,
        ];
        let pubsub = [
            &self.pubsub_bytes_hard,
            &self.pubsub_bytes_soft,
            &self.pubsub_soft_seconds,
        ];
        for (fields, first) in [(normal, 1), (pubsub, 9)] {
            for (field, number) in fields.iter().zip(text.split(' ').skip(first)) {
                field.store(values::number(number), Ordering::Relaxed);
            }
        }
    }

    /// The bytes of the stream of commands that are kept for returning replicas, and the maximum
    /// for a replica that lags.
    pub fn backlog_limits(&self) -> (usize, usize) {
        const LAG_BYTES_MAX: usize = 1 << 30;
        let backlog_bytes = self.text_of("repl-backlog-size").parse().unwrap_or(1 << 20);
        let limits = self.text_of("client-output-buffer-limit");
        let hard = limits.split(' ').nth(5).and_then(|word| word.parse().ok()).unwrap_or(0);
        (
            backlog_bytes,
            if hard == 0 {
                LAG_BYTES_MAX
            } else {
                hard.max(backlog_bytes)
            },
        )
    }

    /// Stores the reply policy of a search that runs out of time.
    pub(crate) fn answer_parts(&self, text: &str) {
        let answers_parts = i64::from(text == "return");
        self.search_answers_parts.store(answers_parts, Ordering::Relaxed);
    }

    /// Keeps which keys go when memory is short.
    pub(crate) fn evict_by(&self, text: &str) {
        self.maxmemory_policy.store(Policy::number(text), Ordering::Relaxed);
    }

    /// Sets which classes of events are published.
    pub(crate) fn notify_events(&self, text: &str) {
        let classes = i64::from(classes(text));
        self.notify_keyspace_events.store(classes, Ordering::Relaxed);
    }

    /// Keeps whether new users may use every channel.
    pub(crate) fn default_channels(&self, text: &str) {
        let all = i64::from(text == "allchannels");
        self.acl_pubsub_allchannels.store(all, Ordering::Relaxed);
    }

    /// Most bytes of replies that a connection may have waiting, if there is a limit.
    pub fn output_bytes_max(&self) -> Option<usize> {
        usize::try_from(self.output_bytes_hard.load(Ordering::Relaxed))
            .ok()
            .filter(|bytes| *bytes > 0)
    }

    /// Returns the limit of `maxmemory-clients` on all connections together, if it is one.
    pub fn client_bytes_max(&self) -> Option<usize> {
        let text = self.text_of("maxmemory-clients");
        let bytes = match text.strip_suffix('%') {
            Some(percent) => {
                let whole = self.maxmemory.load(Ordering::Relaxed);
                i128::from(whole) * i128::from(values::number(percent)) / 100
            }
            None => values::number(&text).into(),
        };
        usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
    }

    /// The names and values that match one of the patterns, in the table's order, an alias beside
    /// its parameter. Hidden parameters answer to their whole name only.
    pub fn matching(
        &self,
        matches: impl Fn(&str) -> bool,
        is_named: impl Fn(&str) -> bool,
    ) -> Vec<(&'static str, String)> {
        let mut parameters = Vec::new();
        for parameter in PARAMETERS {
            let is_hidden = parameter.access == Access::Hidden;
            for name in parameter.names() {
                if is_named(name) || !is_hidden && matches(name) {
                    parameters.push((name, self.text(parameter)));
                }
            }
        }
        parameters
    }
}
