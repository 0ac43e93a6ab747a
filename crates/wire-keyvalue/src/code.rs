//! The numbers of errors. They are FoundationDB's, so that a client of its interface passes them on as they are.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Why a request failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct ErrorCode(pub u16);

        impl ErrorCode {
            $(
                #[doc = concat!("Number ", $code, ": \"", $text, "\".")]
                $(#[doc = ""] #[$doc])*
                pub const $name: ErrorCode = ErrorCode($code);
            )*

            /// What the number means, in words.
            pub fn text(self) -> &'static str {
                match self.0 {
                    $($code => $text,)*
                    _ => "An unknown error occurred",
                }
            }
        }
    };
}
codes! {
    OPERATION_FAILED = 1000, "Operation failed";
    TIMED_OUT = 1004, "Operation timed out";
    /// The read version has left the server's window: begin the transaction anew.
    TRANSACTION_TOO_OLD = 1007, "Transaction is too old to perform reads or be committed";
    /// The server has not reached the version that the client named: wait a little, then repeat.
    FUTURE_VERSION = 1009, "Request for future version";
    /// Something in the read conflict ranges was written after the read version. Nothing was committed: begin anew.
    NOT_COMMITTED = 1020, "Transaction not committed due to conflict with another transaction";
    /// The connection was lost before the reply: the commit is whole in the database or not at all.
    COMMIT_UNKNOWN_RESULT = 1021, "Transaction may or may not have committed";
    TRANSACTION_CANCELLED = 1025, "Operation aborted because the transaction was cancelled";
    CONNECTION_FAILED = 1026, "Network connection failed";
    /// The server keeps no more watches for this connection.
    WATCH_LIMIT = 1029, "Too many watches at the server";
    TRANSACTION_TIMED_OUT = 1031, "Operation aborted because the transaction timed out";
    /// The client keeps no more watches for this database.
    TOO_MANY_WATCHES = 1032, "Too many watches currently set";
    LOCALITY_UNAVAILABLE = 1033, "Locality information not available";
    WATCHES_DISABLED = 1034, "Watches cannot be set if read your writes is disabled";
    DEFAULT_ERROR_OR = 1035, "Default error for an ErrorOr object";
    ACCESSED_UNREADABLE = 1036, "Read or wrote an unreadable key";
    /// The server is not home any more. Nothing was committed: repeat, perhaps elsewhere.
    PROCESS_BEHIND = 1037, "Storage process does not have recent mutations";
    DATABASE_LOCKED = 1038, "Database is locked";
    CLUSTER_VERSION_CHANGED = 1039, "The protocol version of the cluster has changed";
    /// The server is short of room, most often of disk. Nothing was committed: wait, then repeat.
    COMMIT_PROXY_MEMORY_LIMIT = 1042, "CommitProxy commit memory limit exceeded";
    SHUTDOWN = 1043, "Server is shutting down";
    BROKEN_PROMISE = 1100, "Broken promise";
    OPERATION_CANCELLED = 1101, "Asynchronous operation cancelled";
    FUTURE_RELEASED = 1102, "Future has been released";
    TAG_THROTTLED = 1213, "Transaction tag is being throttled";
    PLATFORM_ERROR = 1500, "Platform error";
    /// The server could not read its own disk. Nothing was committed; only an operator can help.
    IO_ERROR = 1510, "Disk i/o operation failed";
    FILE_NOT_FOUND = 1511, "File not found";
    NO_CLUSTER_FILE = 1515, "No cluster file found in current directory or default location";
    CLIENT_INVALID_OPERATION = 2000, "Invalid API call";
    COMMIT_READ_INCOMPLETE = 2002, "Commit with incomplete read";
    TEST_SPECIFICATION_INVALID = 2003, "Invalid test specification";
    KEY_OUTSIDE_LEGAL_RANGE = 2004, "Key outside legal range";
    INVERTED_RANGE = 2005, "Range begin key larger than end key";
    INVALID_OPTION_VALUE = 2006, "Option set with an invalid value";
    INVALID_OPTION = 2007, "Option not valid in this context";
    NETWORK_NOT_SETUP = 2008, "Action not possible before the network is configured";
    NETWORK_ALREADY_SETUP = 2009, "Network can be configured only once";
    READ_VERSION_ALREADY_SET = 2010, "Transaction already has a read version set";
    VERSION_INVALID = 2011, "Version not valid";
    RANGE_LIMITS_INVALID = 2012, "Range limits not valid";
    INVALID_DATABASE_NAME = 2013, "Database name must be 'DB'";
    ATTRIBUTE_NOT_FOUND = 2014, "Attribute not found";
    FUTURE_NOT_SET = 2015, "Future not ready";
    FUTURE_NOT_ERROR = 2016, "Future not an error";
    USED_DURING_COMMIT = 2017, "Operation issued while a commit was outstanding";
    INVALID_MUTATION_TYPE = 2018, "Unrecognized atomic mutation type";
    ATTRIBUTE_TOO_LARGE = 2019, "Attribute too large for type int";
    TRANSACTION_INVALID_VERSION = 2020, "Transaction does not have a valid commit version";
    NO_COMMIT_VERSION = 2021, "Transaction is read-only and therefore does not have a commit version";
    ENVIRONMENT_VARIABLE_OPTION = 2022, "Environment variable network option could not be set";
    TRANSACTION_READ_ONLY = 2023, "Attempted to commit a transaction specified as read-only";
    NETWORK_CANNOT_BE_RESTARTED = 2025, "Network cannot be restarted";
    BLOCKED_FROM_NETWORK_THREAD = 2026, "Detected a deadlock in a callback called from the network thread";
    INCOMPATIBLE_PROTOCOL = 2100, "Incompatible protocol version";
    /// The commit exceeds the server's limit or the client's own. Nothing was committed.
    TRANSACTION_TOO_LARGE = 2101, "Transaction exceeds byte limit";
    KEY_TOO_LARGE = 2102, "Key length exceeds limit";
    VALUE_TOO_LARGE = 2103, "Value length exceeds limit";
    CONNECTION_STRING_INVALID = 2104, "Connection string invalid";
    ADDRESS_IN_USE = 2105, "Local address in use";
    INVALID_LOCAL_ADDRESS = 2106, "Invalid local address";
    TLS_ERROR = 2107, "TLS error";
    UNSUPPORTED_OPERATION = 2108, "Operation is not supported";
    TOO_MANY_TAGS = 2109, "Too many tags set on transaction";
    TAG_TOO_LONG = 2110, "Tag set on transaction is too long";
    SPECIAL_KEYS_CROSS_MODULE = 2112, "Special key space range read crosses modules. Refer to the `special_key_space_relaxed' transaction option for more details.";
    SPECIAL_KEYS_NO_MODULE = 2113, "Special key space range read does not intersect a module. Refer to the `special_key_space_relaxed' transaction option for more details.";
    SPECIAL_KEYS_WRITE_DISABLED = 2114, "Special Key space is not allowed to write by default. Refer to the `special_key_space_enable_writes` transaction option for more details.";
    SPECIAL_KEYS_NO_WRITE_MODULE = 2115, "Special key space key or keyrange in set or clear does not intersect a module";
    SPECIAL_KEYS_CROSS_CLEAR = 2116, "Special key space clear crosses modules";
    SPECIAL_KEYS_API_FAILURE = 2117, "Api call through special keys failed. For more information, call get on special key 0xff0xff/error_message to get a json string of the error message.";
    CLIENT_LIBRARY_INVALID_METADATA = 2118, "Invalid client library metadata.";
    CLIENT_LIBRARY_ALREADY_EXISTS = 2119, "Client library with same identifier already exists on the cluster.";
    CLIENT_LIBRARY_NOT_FOUND = 2120, "Client library for the given identifier not found.";
    API_VERSION_UNSET = 2200, "API version is not set";
    API_VERSION_ALREADY_SET = 2201, "API version may be set only once";
    API_VERSION_INVALID = 2202, "API version not valid";
    API_VERSION_NOT_SUPPORTED = 2203, "API version not supported";
    EXACT_MODE_WITHOUT_LIMITS = 2210, "EXACT streaming mode requires limits, but none were given";
    UNKNOWN_ERROR = 4000, "An unknown error occurred";
    INTERNAL_ERROR = 4100, "An internal error occurred";
    NOT_IMPLEMENTED = 4200, "Not implemented yet";
    /// The credential is unknown, or may only read.
    PERMISSION_DENIED = 6000, "Client tried to access unauthorized data";
}

impl ErrorCode {
    /// A new attempt may succeed; whether the one that failed was committed may be unknown.
    pub fn is_retryable(self) -> bool {
        self.is_maybe_committed() || self.is_retryable_not_committed()
    }

    /// The transaction may have been committed: repeat it only if doing it twice does no harm.
    pub fn is_maybe_committed(self) -> bool {
        matches!(self.0, 1021 | 1039)
    }

    /// A new attempt may succeed, and the one that failed was certainly not committed.
    pub fn is_retryable_not_committed(self) -> bool {
        matches!(
            self.0,
            1007 | 1009 | 1020 | 1037 | 1038 | 1042 | 1051 | 1078 | 1213 | 1235 | 1242
        )
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.text(), self.0)
    }
}

impl std::error::Error for ErrorCode {}
