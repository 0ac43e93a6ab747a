//! A command: one entry of the table, from which dispatch, COMMAND replies, help and documents
//! derive.

pub mod arguments;
pub(crate) mod error_reply;
pub mod errors;
pub mod glob;
pub(crate) mod key_flags;
pub mod migration;
pub mod parse;
pub(crate) mod repetition;
pub mod table;

use quartet_wire_resp::Arguments;

/// One command or subcommand.
pub struct Command {
    /// Lower case; a subcommand carries its container: `config|get`.
    pub name: &'static str,
    /// Number of arguments with the name (a subcommand counts both words); negative: the least
    /// number.
    pub arity: i32,
    pub flags: u32,
    pub keys: Keys,
    pub group: Group,
    pub since: &'static str,
    pub complexity: &'static str,
    pub summary: &'static str,
    /// The number of its subcommands.
    pub subcommand_count: usize,
}

/// The positions of a request's keys.
#[derive(Clone, Copy)]
pub enum Keys {
    None,
    /// Positions of the first and last key and the step between them. A negative last counts from
    /// the end (-1: the last).
    Range {
        first: i32,
        last: i32,
        step: i32,
    },
    /// The argument at `count` says how many keys follow it; `also` is the position of one more
    /// key, 0 for none.
    Counted {
        count: usize,
        also: usize,
    },
    /// Worked out from the arguments; clients are given these specifications, which may say less.
    Computed(fn(Arguments<'_>) -> Vec<usize>, &'static [Specification]),
    /// No keys, but names of shard channels from the first argument on; `last` as in `Range`.
    Channels {
        last: i32,
    },
}

/// One of a command's key specifications: where a client finds keys in a request, and what the
/// command does to them.
#[derive(Clone, Copy)]
pub struct Specification {
    /// Separated by blanks.
    pub flags: &'static str,
    pub begin: Begin,
    pub find: Find,
}

/// The start of the search for keys.
#[derive(Clone, Copy)]
pub enum Begin {
    Index(i32),
    /// After the word, which is searched from an index on; a negative index counts from the end.
    Keyword(&'static str, i32),
    Unknown,
}

/// How keys are found from there.
#[derive(Clone, Copy)]
pub enum Find {
    /// `last` is relative to the first key, or counts from the end if it is negative. A `limit` of
    /// 2 or more leaves only the first half, third and so on of the words found.
    Range {
        last: i32,
        step: i32,
        limit: i32,
    },
    /// The first word says how many keys follow, `step` apart.
    Counted {
        step: i32,
    },
    Unknown,
}

impl Find {
    pub const ONE: Find = Find::Range {
        last: 0,
        step: 1,
        limit: 0,
    };
    /// Every word up to the end.
    pub const REST: Find = Find::Range {
        last: -1,
        step: 1,
        limit: 0,
    };
}

impl Specification {
    pub const fn new(flags: &'static str, begin: Begin, find: Find) -> Specification {
        Specification { flags, begin, find }
    }
}

pub const NO_KEYS: Keys = Keys::None;
pub const ONE_KEY: Keys = Keys::Range {
    first: 1,
    last: 1,
    step: 1,
};
pub const TWO_KEYS: Keys = Keys::Range {
    first: 1,
    last: 2,
    step: 1,
};
pub const ALL_KEYS: Keys = Keys::Range {
    first: 1,
    last: -1,
    step: 1,
};

impl Keys {
    /// Returns true if the first argument is a key in every request.
    pub fn are_from_the_first_argument_on(&self) -> bool {
        matches!(self, Keys::Range { first: 1, .. })
    }

    /// Positions of the keys in `arguments`; empty if there are none or the request is malformed.
    pub fn positions(&self, arguments: Arguments<'_>) -> Vec<usize> {
        let length = arguments.len();
        match *self {
            Keys::None | Keys::Channels { .. } => Vec::new(),
            Keys::Range { first, last, step } => {
                let last = if last < 0 { length as i32 + last } else { last };
                (first..=last)
                    .step_by(step.max(1) as usize)
                    .map(|position| position as usize)
                    .filter(|&position| position < length)
                    .collect()
            }
            Keys::Counted { count, also } => {
                let announced = arguments
                    .get(count)
                    .and_then(|text| std::str::from_utf8(text).ok()?.parse::<usize>().ok())
                    .unwrap_or(0);
                if announced > length.saturating_sub(count + 1) {
                    return Vec::new();
                }
                let also = (also > 0 && also < length).then_some(also);
                also.into_iter().chain(count + 1..count + 1 + announced).collect()
            }
            Keys::Computed(compute, _) => compute(arguments),
        }
    }
}

/// A command family, as COMMAND DOCS names it; it mostly gives the ACL category too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    String,
    Bitmap,
    Hash,
    List,
    Set,
    SortedSet,
    HyperLogLog,
    Stream,
    Geo,
    Json,
    Generic,
    Transactions,
    Scripting,
    Connection,
    PubSub,
    Server,
    Cluster,
    /// A family of a module.
    Module(ModuleGroup),
}

/// A command family of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleGroup {
    /// The name in COMMAND DOCS.
    pub name: &'static str,
    /// The ACL category of the family's commands. One that Redis 7.0 has not is added to
    /// [`CATEGORIES`].
    pub category: Option<&'static str>,
    /// The module of Redis that has these commands, for COMMAND LIST; `None` if no module does.
    pub module: Option<&'static str>,
    /// Commands that only read may visit much more than they reply: if that takes long, they
    /// continue without the partition's lock.
    pub looks_at_much: bool,
    /// Commands that only read find everything in rows: the module keeps no state of its own.
    pub is_all_in_rows: bool,
}

impl Group {
    /// The name in COMMAND DOCS.
    pub fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::Hash => "hash",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::HyperLogLog => "hyperloglog",
            Group::Stream => "stream",
            Group::Geo => "geo",
            Group::Json => "json",
            Group::Module(group) => group.name,
            Group::Generic => "generic",
            Group::Transactions => "transactions",
            Group::Scripting => "scripting",
            Group::Connection => "connection",
            Group::PubSub => "pubsub",
            Group::Server => "server",
            Group::Cluster => "cluster",
        }
    }

    /// The ACL category of the family's commands. The category of publish and subscribe is given by
    /// their flag.
    pub fn category(self) -> Option<&'static str> {
        match self {
            Group::String => Some("string"),
            Group::Bitmap => Some("bitmap"),
            Group::Hash => Some("hash"),
            Group::List => Some("list"),
            Group::Set => Some("set"),
            Group::SortedSet => Some("sortedset"),
            Group::HyperLogLog => Some("hyperloglog"),
            Group::Stream => Some("stream"),
            Group::Geo => Some("geo"),
            Group::Json => Some("json"),
            Group::Module(group) => group.category,
            Group::Generic => Some("keyspace"),
            Group::Transactions => Some("transaction"),
            Group::Scripting => Some("scripting"),
            Group::Connection => Some("connection"),
            Group::PubSub | Group::Server | Group::Cluster => None,
        }
    }
}

/// Command flags, with the names COMMAND INFO gives them (see [`FLAG_NAMES`]).
pub const WRITE: u32 = 1;
pub const READONLY: u32 = 1 << 1;
pub const DENYOOM: u32 = 1 << 2;
pub const ADMIN: u32 = 1 << 3;
pub const FAST: u32 = 1 << 4;
pub const BLOCKING: u32 = 1 << 5;
pub const NOSCRIPT: u32 = 1 << 6;
pub const LOADING: u32 = 1 << 7;
pub const STALE: u32 = 1 << 8;
pub const NO_AUTH: u32 = 1 << 9;
pub const NO_MULTI: u32 = 1 << 10;
pub const MOVABLE_KEYS: u32 = 1 << 11;
pub const SKIP_MONITOR: u32 = 1 << 12;
pub const SKIP_SLOWLOG: u32 = 1 << 13;
/// ACL category only; not shown as a flag.
pub const DANGEROUS: u32 = 1 << 14;
pub const ALLOW_BUSY: u32 = 1 << 15;
pub const NO_ASYNC_LOADING: u32 = 1 << 16;
/// ACL category only: an administrator's command without the flag.
pub const ADMIN_CATEGORY: u32 = 1 << 17;
/// ACL category only: the command is in the categories of lists, sets and sorted sets, not in its
/// family's.
pub const ORDERED_CATEGORIES: u32 = 1 << 18;

/// Its place is channels, not keys.
pub const PUBSUB: u32 = 1 << 19;
pub const NO_MANDATORY_KEYS: u32 = 1 << 20;
/// ACL category only: a command about all keys in another family.
pub const KEYSPACE_CATEGORY: u32 = 1 << 21;
/// ACL category only: a command about the connection in another family.
pub const CONNECTION_CATEGORY: u32 = 1 << 22;
/// Not shown: the command may look at much, and knows at how many elements before it does.
pub const KNOWS_SIZE: u32 = 1 << 23;
/// Not shown: the command leaves something lasting, though Redis does not refuse it when memory is
/// short.
pub const GROWS: u32 = 1 << 24;
/// Not shown: the command works data off, or moves it, and leaves a little more.
pub const GROWS_A_LITTLE: u32 = 1 << 25;

/// Not shown: a read-only user may run it though it is dangerous.
pub const FOR_READERS: u32 = 1 << 24;

pub const FLAG_NAMES: &[(u32, &str)] = &[
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (NOSCRIPT, "noscript"),
    (LOADING, "loading"),
    (PUBSUB, "pubsub"),
    (STALE, "stale"),
    (SKIP_MONITOR, "skip_monitor"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (BLOCKING, "blocking"),
    (NO_MULTI, "no_multi"),
    (MOVABLE_KEYS, "movablekeys"),
    (ALLOW_BUSY, "allow_busy"),
    (NO_ASYNC_LOADING, "no_async_loading"),
    (NO_MANDATORY_KEYS, "no_mandatory_keys"),
];

/// ACL categories: every category of Redis 7.0, those without a command here included, and that of
/// JSON, which Redis has since 8.0. Those of modules follow them: see
/// [`Table::categories`](table::Table::categories).
pub const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    "json",
];

impl Command {
    /// The command makes the database larger: it is refused when memory is short.
    pub fn grows(&self) -> bool {
        self.has(DENYOOM | GROWS)
    }

    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The arity that COMMAND INFO shows and that is checked: both words of a subcommand count.
    pub fn accepts(&self, argument_count: usize) -> bool {
        let count = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            argument_count >= count
        } else {
            argument_count == count
        }
    }

    /// It reads keys and does nothing else.
    pub fn reads_keys(&self) -> bool {
        let is_of_keys = !matches!(
            self.group,
            Group::Scripting | Group::Transactions | Group::Connection | Group::PubSub | Group::Cluster
        );
        self.has(READONLY) && !self.has(BLOCKING | ADMIN_CATEGORY) && is_of_keys
    }

    /// Returns true if it only reads, and may visit much more than it replies: if that takes long,
    /// it continues without the partition's lock.
    pub fn may_look_at_much(&self) -> bool {
        // By group first: it is called for each request.
        let looks_at_much = match self.group {
            Group::Module(group) => group.looks_at_much,
            Group::Generic => ["keys", "dump"].contains(&self.name),
            _ => false,
        };
        self.has(KNOWS_SIZE) || looks_at_much && self.reads_keys()
    }

    /// It only holds subcommands, and does nothing itself.
    pub fn is_container(&self) -> bool {
        self.subcommand_count > 0 && self.arity == -2
    }

    /// The ACL categories, derived from the family and the flags as Redis derives them.
    pub fn categories(&self) -> Vec<&'static str> {
        let mut categories = Vec::new();
        let flag_categories = [
            (ORDERED_CATEGORIES, ["list", "set", "sortedset"].as_slice()),
            (KEYSPACE_CATEGORY, &["keyspace"]),
            (CONNECTION_CATEGORY, &["connection"]),
        ];
        match flag_categories.iter().find(|(flag, _)| self.has(*flag)) {
            Some((_, names)) => categories.extend(*names),
            None if self.is_container() => {}
            None => categories.extend(self.group.category()),
        }
        if self.has(PUBSUB) {
            categories.push("pubsub");
        }
        if self.has(WRITE) {
            categories.push("write");
        }
        if self.has(READONLY) && self.group != Group::Scripting {
            categories.push("read");
        }
        if self.has(ADMIN | ADMIN_CATEGORY) {
            categories.push("admin");
        }
        if self.has(ADMIN | ADMIN_CATEGORY | DANGEROUS) {
            categories.push("dangerous");
        }
        categories.push(if self.has(FAST) { "fast" } else { "slow" });
        if self.has(BLOCKING) {
            categories.push("blocking");
        }
        categories
    }
}

/// Its confirmations are pushes: CLIENT REPLY does not silence them.
pub fn changes_subscriptions(command: &Command) -> bool {
    command.has(PUBSUB) && command.name.ends_with("subscribe")
}
