//! Options of the HTTP listener, and of Redis over REST there.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use quartet_server::{HttpSettings, RestTokens};
use serde::{Deserialize, Serialize};

use super::values::{listen, read_secret, variable};

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct HttpOptions {
    /// Address of HTTP: Redis over REST, /metrics, /healthz, /readyz; or "off" [default:
    /// 127.0.0.1:8080]
    #[arg(long, env = "QUARTET_LISTEN_HTTP")]
    listen_http: Option<String>,
    /// Token of Redis over REST [default: the root key; with --dev any]
    #[arg(long, env = "QUARTET_REST_TOKEN", hide_env_values = true)]
    rest_token: Option<String>,
    /// File that holds the token of Redis over REST
    #[arg(long, env = "QUARTET_REST_TOKEN_FILE")]
    rest_token_file: Option<PathBuf>,
    /// Token of Redis over REST that may only read [default: none]
    #[arg(long, env = "QUARTET_REST_READ_ONLY_TOKEN", hide_env_values = true)]
    rest_read_only_token: Option<String>,
    /// File that holds the token of Redis over REST that may only read
    #[arg(long, env = "QUARTET_REST_READ_ONLY_TOKEN_FILE")]
    rest_read_only_token_file: Option<PathBuf>,
}

impl HttpOptions {
    pub fn validated(&self) -> Result<HttpSettings> {
        Ok(HttpSettings {
            listen: listen("listen-http", &self.listen_http, "127.0.0.1:8080")?,
            rest_tokens: RestTokens::new(self.rest_token.as_deref(), self.rest_read_only_token.as_deref()),
        })
    }

    /// Takes tokens from the variables in which users of REST have them already, if no option names
    /// them.
    pub fn take_variables(&mut self) {
        self.rest_token = self.rest_token.take().or_else(|| variable(REST_TOKEN));
        self.rest_read_only_token = self
            .rest_read_only_token
            .take()
            .or_else(|| variable(REST_READ_ONLY_TOKEN));
    }

    pub fn read_secrets(&mut self) -> Result<()> {
        read_secret("rest-token", &mut self.rest_token, &self.rest_token_file)?;
        read_secret(
            "rest-read-only-token",
            &mut self.rest_read_only_token,
            &self.rest_read_only_token_file,
        )
    }
}

/// Upstash's, Vercel's, and that of serverless-redis-http.
const REST_TOKEN: &[&str] = &["UPSTASH_REDIS_REST_TOKEN", "KV_REST_API_TOKEN", "SRH_TOKEN"];
const REST_READ_ONLY_TOKEN: &[&str] = &["KV_REST_API_READ_ONLY_TOKEN"];
