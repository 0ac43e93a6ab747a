//! Access control: users, their permissions, and the log of refusals.
//!
//! Rules, texts and their order follow
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/> and what Redis
//! 7.0.15 was seen to answer. A password is kept as its SHA-256 only.
//!
//! Every connection has a user, `default` before it authenticates. A user's rules are replaced as a
//! whole, so a command is checked against either the old or the new rules. A user without
//! restrictions costs a command one load.

pub(crate) mod log;
pub mod rules;
pub(crate) mod selector;
#[cfg(test)]
mod tests;
pub mod token;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use quartet_wire_resp::Arguments;
use sha2::{Digest, Sha256};

use self::log::DenialLog;
use self::rules::Rules;
use self::selector::Selector;
use crate::command::Command;
use crate::command::table::Table;

/// The user of a connection that has named none.
pub const DEFAULT_USER: &[u8] = b"default";

/// Memory for a user beside the name and the rules.
const USER_BYTES: usize = 300;

/// A user that may authenticate. Lives on while a connection is his, also when he is deleted.
pub struct User {
    pub name: Vec<u8>,
    rules: RwLock<Arc<Rules>>,
    unrestricted: AtomicBool,
}

impl User {
    pub fn new(name: &[u8], rules: Rules) -> User {
        User {
            name: name.to_vec(),
            unrestricted: AtomicBool::new(rules.is_unrestricted()),
            rules: RwLock::new(Arc::new(rules)),
        }
    }

    pub fn rules(&self) -> Arc<Rules> {
        self.rules.read().clone()
    }

    pub fn set_rules(&self, rules: Rules) {
        let mut current = self.rules.write();
        self.unrestricted.store(rules.is_unrestricted(), Ordering::SeqCst);
        *current = Arc::new(rules);
    }

    /// Memory for the user, about.
    fn bytes(&self) -> u64 {
        (2 * self.name.len() + USER_BYTES) as u64 + self.rules().bytes()
    }

    /// Returns the part of this request that the user may not do, if any.
    #[inline]
    pub fn check(&self, command: &'static Command, arguments: Arguments<'_>) -> Result<(), Denial> {
        if self.is_unrestricted() {
            return Ok(());
        }
        self.rules().check(command, arguments)
    }

    pub fn is_unrestricted(&self) -> bool {
        self.unrestricted.load(Ordering::SeqCst)
    }

    /// Returns true if a single selector allows the request together with `also`, which checks the
    /// parts of the request outside of its key arguments.
    pub fn allows_with(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
        also: &dyn Fn(&Selector) -> bool,
    ) -> bool {
        self.is_unrestricted() || self.rules().allow_with(command, arguments, also)
    }

    /// Returns true if a selector allows reading this key, with any commands.
    pub fn may_read(&self, name: &[u8]) -> bool {
        self.is_unrestricted() || self.rules().may_read(name)
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    Command,
    /// The position of the key.
    Key(usize),
    /// The position of the channel.
    Channel(usize),
}

impl Denial {
    /// The error reply.
    pub fn text(&self, command: &Command) -> String {
        match self {
            Denial::Command => format!(
                "NOPERM this user has no permissions to run the '{}' command",
                command.name
            ),
            Denial::Key(_) => "NOPERM this user has no permissions to access one of the keys used as arguments".into(),
            Denial::Channel(_) => {
                "NOPERM this user has no permissions to access one of the channels used as arguments".into()
            }
        }
    }

    /// The error reply of a command that was queued while it was still allowed.
    pub fn text_at_exec(&self) -> String {
        let reason = match self {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => "no permission to access one of the channels used as arguments",
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
             This command is no longer allowed for the following reason: {reason}"
        )
    }

    /// The error that a script gets of the command that it called.
    pub fn text_in_script(&self) -> &'static str {
        match self {
            Denial::Command => "ERR The user executing the script can't run this command or subcommand",
            Denial::Key(_) => {
                "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
            }
            Denial::Channel(_) => {
                "ERR The user executing the script can't publish to the channel mentioned in the command"
            }
        }
    }

    /// The answer of ACL DRYRUN.
    pub fn dry_run_text(&self, command: &Command, arguments: Arguments<'_>) -> String {
        let show = |position: usize| String::from_utf8_lossy(&arguments[position]).into_owned();
        match self {
            Denial::Command => format!("This user has no permissions to run the '{}' command", command.name),
            Denial::Key(position) => {
                format!("This user has no permissions to access the '{}' key", show(*position))
            }
            Denial::Channel(position) => {
                format!(
                    "This user has no permissions to access the '{}' channel",
                    show(*position)
                )
            }
        }
    }
}

/// All users.
pub struct Users {
    table: &'static Table,
    all: RwLock<BTreeMap<Vec<u8>, Arc<User>>>,
    default: Arc<User>,
    pub log: Mutex<DenialLog>,
    /// Memory for all of them, about.
    bytes: AtomicU64,
    /// A user was made, changed or removed since users were last saved.
    pub is_changed: AtomicBool,
    /// Held while users are saved, so that the newest are the ones that stay.
    pub(crate) saving: Mutex<()>,
}

impl Users {
    /// The user `default`, who may do everything.
    pub fn new(table: &'static Table) -> Users {
        let default = Arc::new(User::new(DEFAULT_USER, Rules::of_default_user(table)));
        Users {
            table,
            all: RwLock::new(BTreeMap::from([(DEFAULT_USER.to_vec(), default.clone())])),
            default,
            log: Mutex::default(),
            bytes: AtomicU64::new(0),
            is_changed: AtomicBool::new(false),
            saving: Mutex::default(),
        }
    }

    /// The user of connections that have not authenticated. Always there, always the same.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// Returns true if no authentication is required.
    pub fn are_all_welcome(&self) -> bool {
        let rules = self.default.rules();
        rules.is_on && rules.any_password
    }

    pub fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.all.read().get(name).cloned()
    }

    /// In the order of their names.
    pub fn list(&self) -> Vec<Arc<User>> {
        self.all.read().values().cloned().collect()
    }

    /// Gives the user new rules. He is made if there is none of the name.
    pub fn set(&self, name: &[u8], rules: Rules) {
        self.is_changed.store(true, Ordering::SeqCst);
        let mut all = self.all.write();
        let before = all.get(name).map_or(0, |user| user.bytes());
        let user = all.entry(name.to_vec()).or_insert_with(|| {
            let none = Rules::new(self.table, false);
            Arc::new(User::new(name, none))
        });
        user.set_rules(rules);
        self.bytes.fetch_add(user.bytes(), Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// Memory for the users that were made, about: it counts as what the database holds.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn remove(&self, name: &[u8]) -> Option<Arc<User>> {
        self.is_changed.store(true, Ordering::SeqCst);
        let mut all = self.all.write();
        let removed = all.remove(name);
        self.count(&all);
        removed
    }

    /// The password that `default` needs: `requirepass`. `None`: none.
    pub fn require_password(&self, hash: Option<[u8; 32]>) {
        let mut rules = Rules::clone(&self.default.rules());
        rules.passwords = hash.into_iter().collect();
        rules.any_password = hash.is_none();
        self.default.set_rules(rules);
    }

    /// Makes a user who may only read, and that nothing that concerns others, with this password.
    pub fn admit_reader(&self, name: &[u8], hash: [u8; 32]) {
        let mut rules = Rules::of_reader(self.table);
        rules.passwords = [hash].into_iter().collect();
        let mut all = self.all.write();
        all.insert(name.to_vec(), Arc::new(User::new(name, rules)));
    }

    /// Returns the user if the password is one of its passwords.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let user = self.find(name)?;
        let rules = user.rules();
        let is_right = rules.any_password || rules.has_password(&password_hash(password));
        (rules.is_on && is_right).then_some(user)
    }

    /// Replaces all users by these. Returns users that were removed or changed.
    pub fn replace(&self, users: BTreeMap<Vec<u8>, Rules>, default_rules: Rules) -> Vec<Arc<User>> {
        let mut all = self.all.write();
        let mut removed = Vec::new();
        all.retain(|name, user| {
            let keeps = name == DEFAULT_USER || users.get(name).is_some_and(|rules| *rules == *user.rules());
            if !keeps {
                removed.push(user.clone());
            }
            keeps
        });
        for (name, rules) in users {
            if name != DEFAULT_USER {
                all.entry(name.clone())
                    .or_insert_with(|| Arc::new(User::new(&name, rules)));
            }
        }
        self.default.set_rules(default_rules);
        self.count(&all);
        removed
    }

    fn count(&self, all: &BTreeMap<Vec<u8>, Arc<User>>) {
        let bytes = all.values().map(|user| user.bytes()).sum();
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// The file of ACL SAVE and ACL LOAD. The server supplies it: the layer touches no file.
pub trait UserFile: Send + Sync {
    /// `None`: there is no such file yet.
    fn read(&self) -> std::io::Result<Option<String>>;
    /// Replaces the file atomically: afterwards either the old or the whole new file exists.
    fn write(&self, text: &str) -> std::io::Result<()>;
    /// Returns true if it is as it was when it was read last, or absent if it never was.
    fn is_as_read(&self) -> std::io::Result<bool> {
        Ok(true)
    }
}

/// The users of a file, or what is wrong with it, line by line.
pub fn parse_file(table: &'static Table, text: &str, all_channels: bool) -> Result<BTreeMap<Vec<u8>, Rules>, String> {
    let mut users: BTreeMap<Vec<u8>, Rules> = BTreeMap::new();
    let mut errors = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
        match words.as_slice() {
            [] => {}
            [first, ..] if first.starts_with(b"#") => {}
            [b"user", name, rules @ ..] if !users.contains_key(*name) => {
                match rules::Rules::new(table, all_channels).changed(rules, all_channels) {
                    Ok(rules) => drop(users.insert(name.to_vec(), rules)),
                    Err((modifier, reason)) => errors.push(format!("{}: {modifier}: {reason}", index + 1)),
                }
            }
            [b"user", name, ..] => {
                let name = String::from_utf8_lossy(name);
                errors.push(format!("{}: Duplicate user '{name}' found", index + 1));
            }
            _ => errors.push(format!(
                "{}: should start with user keyword followed by the username",
                index + 1
            )),
        }
    }
    if errors.is_empty() {
        Ok(users)
    } else {
        Err(errors.join(". "))
    }
}

/// The stored form of a password.
pub fn password_hash(password: &[u8]) -> [u8; 32] {
    Sha256::digest(password).into()
}
