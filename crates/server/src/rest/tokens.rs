//! Whose a request over REST is: the one place where a token becomes a user.
//!
//! A token is, in this order: the read-only or the standard one of the settings, one of another
//! logical database, one that ACL RESTTOKEN made, or the password of `default`, which the root key
//! is. With `--dev` and no token in the settings any will do, and so does none.

use std::sync::Arc;

use quartet_engine::Busy;
use quartet_layer_redis::DatabaseLogin;
use quartet_layer_redis::Redis;
use quartet_layer_redis::access::acl::rules::Rules;
use quartet_layer_redis::access::acl::token::parts;
use quartet_layer_redis::access::acl::{DEFAULT_USER, User, password_hash};
use quartet_layer_redis::command::table::Table;
use quartet_model::DatabaseId;
use quartet_wire_rest::request::token_of_query;

use crate::http::Head;
use crate::http::web_pages::comes_from_elsewhere;
use crate::settings::RestTokens;
use crate::tenants::users::READER;

pub const UNAUTHORIZED: &str = "WRONGPASS invalid or missing auth token";
const FROM_ELSEWHERE: &str = "NOPERM a web page of another site may not use a server without credentials";

/// Why a request is not let in.
pub enum LoginError {
    Because(&'static str),
    /// Something keeps the partition, where the database's users are.
    Busy,
}

impl From<Busy> for LoginError {
    fn from(_: Busy) -> LoginError {
        LoginError::Busy
    }
}

pub struct Tokens {
    given: RestTokens,
    read_only: Arc<User>,
}

impl Tokens {
    pub fn new(configured: RestTokens, table: &'static Table) -> Tokens {
        Tokens {
            given: configured,
            read_only: Arc::new(User::new(READER, Rules::of_reader(table))),
        }
    }

    /// The database that the token of a request is of, if it is another than the default one.
    pub fn database_of(&self, layer: &Redis, head: &Head<'_>) -> Option<DatabaseId> {
        let token = token_of(head)?;
        let hash = Some(password_hash(token.as_bytes()));
        if hash == self.given.read_only || hash == self.given.standard {
            return None;
        }
        login_of(layer, token.as_bytes()).map(|login| login.database)
    }

    /// The user whose request it is, and the layer if it is another database's than `layer`; or the
    /// text of the refusal.
    pub fn user_of(&self, layer: &Redis, head: &Head<'_>) -> Result<(Option<Arc<Redis>>, Arc<User>), LoginError> {
        let token = token_of(head);
        let hash = token.as_ref().map(|token| password_hash(token.as_bytes()));
        if hash.is_some() && hash == self.given.read_only {
            return Ok((None, self.read_only.clone()));
        }
        if hash.is_some() && hash == self.given.standard {
            return Ok((None, layer.access.users.default_user().clone()));
        }
        if let Some(token) = &token
            && let Some(database_login) = login_of(layer, token.as_bytes())
        {
            let through = log_in_to(layer, &database_login, token.as_bytes())?;
            let (there, user) = through.ok_or(LoginError::Because(UNAUTHORIZED))?;
            return Ok((Some(there), user));
        }
        let user = self.user_here(layer, head, token).map_err(LoginError::Because)?;
        Ok((None, user))
    }

    fn user_here(&self, layer: &Redis, head: &Head<'_>, token: Option<String>) -> Result<Arc<User>, &'static str> {
        let users = &layer.access.users;
        if let Some(user) = token.as_ref().and_then(|token| users.of_token(token.as_bytes())) {
            return Ok(user);
        }
        let is_open = users.are_all_welcome();
        if is_open && self.given.standard.is_some() {
            return Err(UNAUTHORIZED);
        }
        if is_open && comes_from_elsewhere(head) {
            return Err(FROM_ELSEWHERE);
        }
        let password = token.unwrap_or_default();
        let default = users.default_user();
        users
            .authenticate(&default.name, password.as_bytes())
            .ok_or(UNAUTHORIZED)
    }
}

/// The way into another logical database that a token opens, if its secret is right.
fn login_of(layer: &Redis, token: &[u8]) -> Option<DatabaseLogin> {
    let directory = layer.access.directory.as_ref()?;
    let plain = directory.find(DEFAULT_USER, token);
    plain.or_else(|| {
        let (name, password) = parts(token)?;
        directory.find(&name, &password)
    })
}

/// Another database's layer, and a user of it.
type Guest = (Arc<Redis>, Arc<User>);

/// As of_token, one of ACL GENTOKEN may itself have been made the password.
fn log_in_to(layer: &Redis, database_login: &DatabaseLogin, token: &[u8]) -> Result<Option<Guest>, Busy> {
    let target = match &layer.access.directory {
        Some(directory) => directory.open(database_login.database)?,
        None => None,
    };
    Ok(target.and_then(|target| {
        let users = &target.access.users;
        let user = users.authenticate(&database_login.user, &database_login.password);
        let user = user.or_else(|| users.authenticate(&database_login.user, token))?;
        Some((target, user))
    }))
}

/// Returns the token that a request shows: a bearer's token, or one in the query.
pub fn token_of(head: &Head<'_>) -> Option<String> {
    let bearer = head.header("authorization").and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
    });
    bearer.or_else(|| token_of_query(head.query()))
}
