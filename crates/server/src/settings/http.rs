//! Settings of the HTTP listener: the console, pages for operators, Redis over REST.

use super::listen::{Credentials, Listen};

#[derive(Clone, Debug, Default)]
pub struct HttpSettings {
    pub listen: Listen,
    pub rest_tokens: RestTokens,
}

/// Tokens of REST, in addition to users' tokens by ACL; only their hashes are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestTokens {
    /// The token with the rights of `default`. Once it is set, even a server without a password
    /// requires it.
    pub standard: Option<[u8; 32]>,
    pub read_only: Option<[u8; 32]>,
}

impl RestTokens {
    pub fn new(standard: Option<&str>, read_only: Option<&str>) -> RestTokens {
        let hash = |token: &str| quartet_layer_redis::access::acl::password_hash(token.as_bytes());
        RestTokens {
            standard: standard.map(hash),
            read_only: read_only.map(hash),
        }
    }
}

impl HttpSettings {
    /// Returns the lines that a user of `@upstash/redis` pastes into an environment.
    pub fn rest_variables(&self, credentials: &Credentials, url: &str) -> String {
        let token = match (&self.rest_tokens.standard, credentials) {
            (Some(_), _) => "<the token given>",
            (None, Credentials::None) => "dev",
            (None, Credentials::Key { .. } | Credentials::Kept) => "<root key>",
        };
        format!("UPSTASH_REDIS_REST_URL={url} UPSTASH_REDIS_REST_TOKEN={token}")
    }
}
