//! Finds the databases that a credential opens: each layer that it could belong to says whether it
//! knows it.
//!
//! One field takes the root key, a database's token, read-only token or Fauna key,
//! `ACCESS_KEY_ID:SECRET`, a secret made inside Fauna, a token of REST; with a user's name, a Redis
//! user's password. The JSON that the admin API answered with a new database's credentials is taken
//! whole.

use std::sync::Arc;

use quartet_layer_fauna::database_named_by;
use quartet_layer_redis::access::acl::{self, password_hash};
use quartet_model::DatabaseId;
use quartet_tenancy::Access;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::sessions::Keyring;
use crate::http::{Head, HeadShows, Header, HttpLayer};
use crate::operations::admin::DEVELOPMENT_KEY;
use crate::settings::{AccessKeys, Credentials, RestTokens, Settings};
use crate::tenants::Tenants;

/// The database that every server has.
pub const DEFAULT: &str = "default";

pub struct Login {
    pages: Arc<dyn HttpLayer>,
    fauna: Option<Arc<dyn HttpLayer>>,
    tenants: Arc<Tenants>,
    credentials: Credentials,
    rest_tokens: RestTokens,
    access_keys: AccessKeys,
}

/// The fields of the credentials of a database, as they are shown when it is made.
const FIELDS: [&str; 3] = ["token", "read_only_token", "fauna_key"];

impl Login {
    pub fn new(
        pages: Arc<dyn HttpLayer>,
        fauna: Option<Arc<dyn HttpLayer>>,
        tenants: Arc<Tenants>,
        settings: &Settings,
    ) -> Login {
        Login {
            pages,
            fauna,
            tenants,
            credentials: settings.credentials.clone(),
            rest_tokens: settings.http.rest_tokens.clone(),
            access_keys: settings.dynamodb.access_keys.clone(),
        }
    }

    /// Returns the keyring for `{"credential": …, "user": …}`, or `None`. With `--dev`, where the
    /// root key is public, an empty credential suffices.
    pub fn keyring_of(&self, credentials: &Value, head: &Head<'_>) -> Option<Keyring> {
        let text = |name: &str| credentials[name].as_str().unwrap_or_default().trim();
        let (user, credential) = (text("user"), text("credential"));
        let keyring = match (user, credential) {
            ("", "") if self.is_development() => self.single(DEVELOPMENT_KEY, head),
            (_, "") => Keyring::default(),
            ("", credential) => match serde_json::from_str(credential) {
                Ok(Value::Object(fields)) => self.all(&Value::Object(fields), head),
                _ => self.single(credential, head),
            },
            (user, password) => {
                let token = acl::token::token(user.as_bytes(), password.as_bytes());
                self.redis_user(user, token, head)
            }
        };
        (!keyring.is_empty()).then_some(keyring)
    }

    fn is_development(&self) -> bool {
        self.credentials == Credentials::None
    }

    /// The credentials of a new database, or the whole answer that holds them.
    fn all(&self, answer: &Value, head: &Head<'_>) -> Keyring {
        let fields = answer.get("credentials").unwrap_or(answer);
        let text = |name: &str| fields[name].as_str().unwrap_or_default();
        let mut keyring = Keyring::default();
        // The full token is checked last, because it opens more than the read-only token.
        for name in FIELDS.iter().rev().filter(|name| !text(name).is_empty()) {
            keyring.add(self.single(text(name), head));
        }
        keyring.add(self.access_key(text("access_key_id"), text("secret_access_key")));
        keyring
    }

    fn single(&self, credential: &str, head: &Head<'_>) -> Keyring {
        let mut keyring = Keyring::default();
        if self.is_root_key(credential) {
            keyring.root_key = Some(credential.to_owned());
            return keyring;
        }
        if let Some((database, access)) = self.tenants.catalogue.by_secret(credential.as_bytes()) {
            let kept = match access {
                Access::Full | Access::ReadOnly => &mut keyring.redis,
                Access::Fauna => &mut keyring.fauna,
            };
            kept.insert(database.definition().name.clone(), credential.to_owned());
            return keyring;
        }
        if self.is_rest_token(credential, head) {
            keyring.redis.insert(DEFAULT.to_owned(), credential.to_owned());
            return keyring;
        }
        if let Some(database) = self.fauna_database(credential, head) {
            keyring.fauna.insert(database, credential.to_owned());
            return keyring;
        }
        match credential.split_once(':') {
            Some((key, secret)) => self.access_key(key, secret),
            None => keyring,
        }
    }

    fn is_root_key(&self, credential: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(credential).into();
        let root_key = self.credentials.root_key();
        root_key.map_or(credential == DEVELOPMENT_KEY, |hash| digest == hash)
    }

    /// A token of the command line, or of a user of the default database. With `--dev` any token is
    /// accepted, which proves nothing.
    fn is_rest_token(&self, credential: &str, head: &Head<'_>) -> bool {
        let hash = Some(password_hash(credential.as_bytes()));
        if hash == self.rest_tokens.standard || hash == self.rest_tokens.read_only {
            return true;
        }
        !self.is_development() && is_known_to(&*self.pages, credential, head)
    }

    /// A Redis user of the default database, or `DATABASE/USER`.
    fn redis_user(&self, user: &str, token: String, head: &Head<'_>) -> Keyring {
        let mut keyring = Keyring::default();
        let is_of_default = !user.contains('/');
        if self.is_development() && is_of_default && user == DEFAULT || !is_known_to(&*self.pages, &token, head) {
            return keyring;
        }
        let database = user.split_once('/').map_or(DEFAULT, |(database, _)| database);
        keyring.redis.insert(database.to_owned(), token);
        keyring
    }

    /// The database that a secret of Fauna opens, if it is one.
    fn fauna_database(&self, secret: &str, head: &Head<'_>) -> Option<String> {
        let fauna = self.fauna.as_ref()?;
        if !is_known_to(&**fauna, secret, head) {
            return None;
        }
        match database_named_by(secret) {
            Some(number) => {
                let database = self.tenants.catalogue.numbered(DatabaseId(number))?;
                Some(database.definition().name.clone())
            }
            None => Some(DEFAULT.to_owned()),
        }
    }

    fn access_key(&self, key: &str, secret: &str) -> Keyring {
        let mut keyring = Keyring::default();
        let own = || (key.to_owned(), secret.to_owned());
        let is_same = |existing: &str| Sha256::digest(existing) == Sha256::digest(secret);
        if let Some((database, existing)) = self.tenants.catalogue.by_access_key(key)
            && is_same(&existing)
        {
            keyring.dynamodb.insert(database.definition().name.clone(), own());
        }
        let mut existing = self.access_keys.known().iter();
        if existing.any(|(existing, known_secret)| existing == key && is_same(known_secret)) {
            keyring.dynamodb.insert(DEFAULT.to_owned(), own());
        }
        keyring
    }
}

/// The layer lets this secret in.
fn is_known_to(layer: &dyn HttpLayer, secret: &str, head: &Head<'_>) -> bool {
    let value = format!("Bearer {secret}");
    let mut headers: Vec<Header<'_>> = head.headers.to_vec();
    headers.retain(|header| !header.name.eq_ignore_ascii_case("authorization"));
    headers.push(Header {
        name: "authorization",
        value: value.as_bytes(),
    });
    let head = Head {
        method: "POST",
        target: "/",
        headers: &headers,
    };
    matches!(layer.judge_head(&head), HeadShows::Credential)
}
