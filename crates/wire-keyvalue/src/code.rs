//! The numbers of errors. They are FoundationDB's, so that a client of its interface passes them on
//! as they are.

use crate::texts::TEXTS;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u16);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!("Number ", $code, ".")]
                $(#[doc = ""] #[$doc])*
                pub const $name: ErrorCode = ErrorCode($code);
            )*
        }

        /// Every number that has a name.
        #[cfg(test)]
        const NAMED: &[u16] = &[$($code),*];
    };
}

codes! {
    OPERATION_FAILED = 1000;
    /// The read version has left the server's window: restart the transaction.
    TRANSACTION_TOO_OLD = 1007;
    /// The server has not reached the version that the client named: wait a little, then repeat.
    FUTURE_VERSION = 1009;
    /// A key in the read conflict ranges was written after the read version. Nothing was committed:
    /// restart the transaction.
    NOT_COMMITTED = 1020;
    /// The connection was lost before the reply: the commit is whole in the database or not at all.
    COMMIT_UNKNOWN_RESULT = 1021;
    TRANSACTION_CANCELLED = 1025;
    CONNECTION_FAILED = 1026;
    /// The connection's limit of watches is reached.
    WATCH_LIMIT = 1029;
    TRANSACTION_TIMED_OUT = 1031;
    /// The client's limit of watches for this database is reached.
    TOO_MANY_WATCHES = 1032;
    WATCHES_DISABLED = 1034;
    ACCESSED_UNREADABLE = 1036;
    /// The server is no longer home. Nothing was committed: repeat, perhaps at another node.
    PROCESS_BEHIND = 1037;
    CLUSTER_VERSION_CHANGED = 1039;
    /// The server is short of room, most often of disk. Nothing was committed: wait, then repeat.
    COMMIT_PROXY_MEMORY_LIMIT = 1042;
    SHUTDOWN = 1043;
    BROKEN_PROMISE = 1100;
    OPERATION_CANCELLED = 1101;
    FUTURE_RELEASED = 1102;
    PLATFORM_ERROR = 1500;
    /// The server could not read its own disk. Nothing was committed; only an operator can help.
    IO_ERROR = 1510;
    NO_CLUSTER_FILE = 1515;
    CLIENT_INVALID_OPERATION = 2000;
    KEY_OUTSIDE_LEGAL_RANGE = 2004;
    INVERTED_RANGE = 2005;
    INVALID_OPTION_VALUE = 2006;
    INVALID_OPTION = 2007;
    NETWORK_NOT_SETUP = 2008;
    NETWORK_ALREADY_SETUP = 2009;
    READ_VERSION_ALREADY_SET = 2010;
    VERSION_INVALID = 2011;
    RANGE_LIMITS_INVALID = 2012;
    FUTURE_NOT_SET = 2015;
    USED_DURING_COMMIT = 2017;
    INVALID_MUTATION_TYPE = 2018;
    TRANSACTION_INVALID_VERSION = 2020;
    NO_COMMIT_VERSION = 2021;
    ENVIRONMENT_VARIABLE_OPTION = 2022;
    TRANSACTION_READ_ONLY = 2023;
    NETWORK_CANNOT_BE_RESTARTED = 2025;
    BLOCKED_FROM_NETWORK_THREAD = 2026;
    MAPPER_BAD_INDEX = 2030;
    MAPPER_BAD_RANGE = 2032;
    /// The transaction has written what a mapped range would read.
    MAPPED_RANGE_READS_YOUR_WRITES = 2039;
    KEY_NOT_TUPLE = 2041;
    VALUE_NOT_TUPLE = 2042;
    MAPPER_NOT_TUPLE = 2043;
    INCOMPATIBLE_PROTOCOL = 2100;
    /// The commit exceeds the server's limit or the client's own. Nothing was committed.
    TRANSACTION_TOO_LARGE = 2101;
    KEY_TOO_LARGE = 2102;
    VALUE_TOO_LARGE = 2103;
    CONNECTION_STRING_INVALID = 2104;
    TLS_ERROR = 2107;
    UNSUPPORTED_OPERATION = 2108;
    TOO_MANY_TAGS = 2109;
    TAG_TOO_LONG = 2110;
    SPECIAL_KEYS_CROSS_MODULE = 2112;
    SPECIAL_KEYS_NO_MODULE = 2113;
    SPECIAL_KEYS_WRITE_DISABLED = 2114;
    SPECIAL_KEYS_NO_WRITE_MODULE = 2115;
    /// No tenant has this name: there are none.
    TENANT_NOT_FOUND = 2131;
    API_VERSION_ALREADY_SET = 2201;
    API_VERSION_INVALID = 2202;
    API_VERSION_NOT_SUPPORTED = 2203;
    EXACT_MODE_WITHOUT_LIMITS = 2210;
    UNKNOWN_ERROR = 4000;
    INTERNAL_ERROR = 4100;
    /// The credential is unknown, or may only read.
    PERMISSION_DENIED = 6000;
}

impl ErrorCode {
    /// The meaning of the number, in the original's words.
    pub fn text(self) -> &'static str {
        match TEXTS.binary_search_by_key(&self.0, |(code, _)| *code) {
            Ok(place) => TEXTS[place].1,
            Err(_) => "UNKNOWN_ERROR",
        }
    }

    /// Returns true if a new attempt may succeed; the failed attempt may have been committed.
    pub fn is_retryable(self) -> bool {
        self.is_maybe_committed() || self.is_retryable_not_committed()
    }

    /// The transaction may have been committed: repeat it only if doing it twice does no harm.
    pub fn is_maybe_committed(self) -> bool {
        matches!(self.0, 1021 | 1039)
    }

    /// Returns true if a new attempt may succeed, and the failed attempt was certainly not
    /// committed.
    pub fn is_retryable_not_committed(self) -> bool {
        matches!(
            self.0,
            1007 | 1009 | 1020 | 1037 | 1038 | 1042 | 1051 | 1078 | 1213 | 1223
        )
    }

    /// Returns true if `on_error` waits and restarts the transaction. Differs from `is_retryable`:
    /// the original's client handles a change of the cluster's protocol version in another place,
    /// and retries the errors that only its blob granules return.
    pub fn is_retried(self) -> bool {
        self.is_retryable() && self != ErrorCode::CLUSTER_VERSION_CHANGED || self.0 == 1079
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.text(), self.0)
    }
}

impl std::error::Error for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_number() {
        assert!(TEXTS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let has_text = |code: &&u16| TEXTS.iter().any(|(other, _)| other == *code);
        assert_eq!(NAMED.iter().filter(has_text).count(), NAMED.len());
        let check = |code: u16, text: &str| assert_eq!(ErrorCode(code).text(), text, "{code}");
        check(0, "Success");
        check(1029, "Watch cancelled because storage server watch limit exceeded");
        check(2025, "Network can only be started once");
        check(2131, "Tenant does not exist");
        check(1999, "UNKNOWN_ERROR");
    }

    /// Retried were two codes of release 8.0, and neither 1223 nor all that the predicates say.
    #[test]
    fn every_code_is_retried_or_not_as_by_the_original() {
        let codes = |holds: fn(ErrorCode) -> bool| -> Vec<u16> {
            let codes = 0..=u16::MAX;
            codes.filter(|code| holds(ErrorCode(*code))).collect()
        };
        let not_committed = [1007, 1009, 1020, 1037, 1038, 1042, 1051, 1078, 1213, 1223];
        assert_eq!(codes(ErrorCode::is_retryable_not_committed), not_committed);
        assert_eq!(codes(ErrorCode::is_maybe_committed), [1021, 1039]);
        let mut retryable = [&not_committed[..], &[1021, 1039]].concat();
        retryable.sort_unstable();
        assert_eq!(codes(ErrorCode::is_retryable), retryable);
        let retried = [1007, 1009, 1020, 1021, 1037, 1038, 1042, 1051, 1078, 1079, 1213, 1223];
        assert_eq!(codes(ErrorCode::is_retried), retried);
    }
}
