//! Error replies shared by many commands, with the texts that clients and suites compare.

pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub const SYNTAX: &str = "ERR syntax error";
pub const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
pub const NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";
pub const NOT_FLOAT: &str = "ERR value is not a valid float";
pub const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub const NO_SUCH_KEY: &str = "ERR no such key";
pub const INDEX_OUT_OF_RANGE: &str = "ERR index out of range";
pub const OUT_OF_RANGE_POSITIVE: &str = "ERR value is out of range, must be positive";
pub const DB_OUT_OF_RANGE: &str = "ERR DB index is out of range";
pub const STRING_TOO_LARGE: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
pub const REPLY_TOO_LARGE: &str = "ERR the reply exceeds the maximum size";
/// See `docs/memory.md`: there is no room for the reply, or for what it is made of.
pub const REPLY_OUT_OF_MEMORY: &str = "OOM the reply takes more memory than there is left for one";
/// The same of what a connection asks the server to keep for it.
pub const CONNECTION_OUT_OF_MEMORY: &str = "OOM there is no memory for what the connection asks to be kept";
pub const EFFECTS_TOO_LARGE: &str = "ERR the command's effects exceed the maximum size";
pub const KEY_TOO_LARGE: &str = "ERR key exceeds the maximum size of 65000 bytes";
pub const TIMEOUT_NOT_FLOAT: &str = "ERR timeout is not a float or out of range";
pub const TIMEOUT_NEGATIVE: &str = "ERR timeout is negative";
pub const TIMEOUT_OUT_OF_RANGE: &str = "ERR timeout is out of range";
pub const COUNT_OUT_OF_RANGE: &str =
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
pub const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// Redis' answer when its log cannot be written.
pub const DISK_FULL: &str = "MISCONF Errors writing to the AOF file: No space left on device";
/// Redis has all keys in memory and no text for this.
pub const UNREADABLE: &str = "ERR the disk could not be read, see the server's log";
/// The answer of a replica that may not show its data.
pub const NOT_HOME: &str = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// The answer of a replica while its first copy arrives.
pub const LOADING: &str = "LOADING Redis is loading the dataset in memory";
pub const READ_ONLY_REPLICA: &str = "READONLY You can't write against a read only replica.";
/// The answer to a client that waited for a key when the server became a replica.
pub const UNBLOCKED: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
/// Sent only to clients of a stopping server.
pub const ENDED: &str = "ERR the command was ended because the server stops";
