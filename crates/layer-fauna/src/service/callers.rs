//! Callers: from a secret to a database and the rights in it.
//!
//! A key or a token is found in the installation's registry by its id, and believed by its hash; a
//! JWT is believed if a key of the access provider that its issuer is known as has signed it. An
//! admin's secret may be followed by a database and a role.

use std::sync::Arc;

use crate::credentials::jwt::{self, Token};
use crate::credentials::secrets::{self, Claim};
use crate::evaluation::Evaluation;
use crate::evaluation::authorization::{Authorization, Rights};
use crate::evaluation::deadline::Deadline;
use crate::evaluation::host::Host;
use crate::language::error::{Code, Errors, Result};
use crate::language::parse;
use crate::language::references::parse_id;
use crate::language::value::{Native, Ref, Target, Timestamp, Value};
use crate::service::Fauna;
use crate::storage::rows::{self, DatabaseNumber, Key, ROOT, View};
use crate::storage::schema::{AccessProvider, Schema};

/// The caller, as far as the secret determines it.
#[derive(Clone, Debug)]
pub struct Caller {
    pub database: DatabaseNumber,
    grant: Grant,
}

#[derive(Clone, Debug)]
enum Grant {
    /// The role of a key, and the key if it lives in the database it opens.
    Role(Value, Option<Ref>),
    Token(u64),
    /// A document as identity, assumed by an admin or a server.
    Document(Ref),
    /// The claims of a JWT, and the access provider that vouches for it.
    Claims(Value, Arc<AccessProvider>),
}

fn unauthorized() -> Errors {
    Errors::protocol(Code::Unauthorized, "Unauthorized")
}

/// The number of the logical database that a secret, or the audience of a JWT, says it is known in.
/// Nothing is proved by that.
pub fn database_named_by(secret: &str) -> Option<u16> {
    match jwt::is_token(secret) {
        true => databases_of(&Token::parse(secret)?)?.0,
        false => secrets::elsewhere_of(secret),
    }
}

fn databases_of(token: &Token) -> Option<(Option<u16>, u64)> {
    secrets::databases_of(&token.audience(secrets::AUDIENCE_PREFIX)?)
}

impl Host for Fauna {
    fn schema(&self, view: &mut View<'_>, database: DatabaseNumber) -> Arc<Schema> {
        Fauna::schema(self, view, database)
    }

    fn elsewhere(&self) -> Option<u16> {
        Fauna::elsewhere(self)
    }

    fn random(&self) -> [u8; 20] {
        Fauna::random(self)
    }

    fn new_id(&self, now_micros: u64) -> u64 {
        Fauna::new_id(self, now_micros)
    }

    fn now_micros(&self) -> u64 {
        self.engine.now_micros()
    }

    fn room_bytes(&self) -> u64 {
        self.engine.memory().room_for_a_request()
    }

    fn work_is_left(&self) {
        Fauna::work_is_left(self);
    }

    fn keys_are_ready(&self, view: &mut View<'_>, secret: &str) -> bool {
        Fauna::keys_are_ready(self, view, secret)
    }

    fn make_keys_ready(&self, view: &mut View<'_>, secret: &str) {
        Fauna::make_keys_ready(self, view, secret);
    }

    fn database_of(&self, view: &mut View<'_>, secret: &str) -> Option<DatabaseNumber> {
        Some(self.authenticate(view, secret).ok()?.database)
    }
}

impl Fauna {
    /// Everything that is needed to evaluate for a caller, as of a time (`None`: as of the latest
    /// commit).
    pub fn evaluation<'v>(
        &'v self,
        mut view: View<'v>,
        caller: &Caller,
        deadline: Deadline,
        at: Option<Timestamp>,
    ) -> Result<Evaluation<'v>> {
        let schema = self.schema(&mut view, caller.database);
        let mut evaluation = Evaluation::new(
            crate::evaluation::functions::BODIES,
            self,
            view,
            schema,
            Authorization::of(Rights::Client),
        );
        evaluation.deadline = deadline;
        (evaluation.at, evaluation.present) = (at, at);
        let authorization = self.authorization(&mut evaluation, caller)?;
        evaluation.authorization = authorization;
        match evaluation.interrupted.take() {
            Some(errors) => Err(errors),
            None => Ok(evaluation),
        }
    }

    /// `SECRET`, `SECRET:role`, `SECRET:database/path:role`.
    pub fn authenticate(&self, view: &mut View<'_>, text: &str) -> Result<Caller> {
        if jwt::is_token(text) {
            return self.claimant(view, text).ok_or_else(unauthorized);
        }
        let (secret, suffix) = text
            .split_once(':')
            .map_or((text, None), |(secret, suffix)| (secret, Some(suffix)));
        let caller = self.caller(view, secret).ok_or_else(unauthorized)?;
        if !self.is_registered(view, caller.database) {
            return Err(unauthorized());
        }
        match suffix {
            None | Some("") => Ok(caller),
            Some(suffix) => self.suffixed(view, caller, suffix),
        }
    }

    /// Whom a JWT names: its audience the database, its issuer the access provider, whose keys must
    /// have signed it.
    fn claimant(&self, view: &mut View<'_>, text: &str) -> Option<Caller> {
        let token = Token::parse(text)?;
        let (database, provider) = self.provider_of(view, &token)?;
        let verified = self.key_sets.known(&provider.jwks_uri).verify(&token);
        let caller = Caller {
            database,
            grant: Grant::Claims(parse::quoted(&token.claims), provider),
        };
        verified.then_some(caller)
    }

    /// The access provider that could vouch for a token, if it is current.
    fn provider_of(&self, view: &mut View<'_>, token: &Token) -> Option<(DatabaseNumber, Arc<AccessProvider>)> {
        if !token.is_current(view.clock_micros()) {
            return None;
        }
        let (elsewhere, number) = databases_of(token)?;
        let database = DatabaseNumber(number);
        if elsewhere != self.elsewhere() || !self.is_registered(view, database) {
            return None;
        }
        let issuer = token.issuer()?;
        let schema = self.schema(view, database);
        let provider = schema.providers.iter().find(|provider| provider.issuer == issuer)?;
        Some((database, provider.clone()))
    }

    /// Returns whether a JWT can be verified now. A JWT without a provider can.
    pub fn keys_are_ready(&self, view: &mut View<'_>, secret: &str) -> bool {
        let Some(token) = Token::parse(secret) else { return true };
        let now = view.clock_micros();
        let provider = self.provider_of(view, &token);
        provider.is_none_or(|(_, provider)| self.key_sets.are_ready(&provider.jwks_uri, &token, now))
    }

    /// Fetches the keys that verify a JWT, if they are due.
    pub fn make_keys_ready(&self, view: &mut View<'_>, secret: &str) {
        let Some(token) = Token::parse(secret) else { return };
        if let Some((_, provider)) = self.provider_of(view, &token) {
            self.key_sets
                .make_ready(&provider.jwks_uri, &token, view.clock_micros());
        }
    }

    fn caller(&self, view: &mut View<'_>, secret: &str) -> Option<Caller> {
        if secrets::hash(secret) == self.root_secret.sha256 {
            return Some(Caller {
                database: ROOT,
                grant: Grant::Role(Value::string("admin"), None),
            });
        }
        match secrets::claim(secret)? {
            Claim::Key(id) => {
                let row = view.get_latest(&Key::global(b'K').number(id).0)?;
                if *row.get(16..48)? != secrets::hash(secret) || !self.is_alive(view, &row, Native::Keys, id) {
                    return None;
                }
                let (partition, database) = (rows::number_at(&row, 0), rows::number_at(&row, 8));
                let role =
                    crate::language::codec::Decoder::new(row.get(48..)?, &crate::language::value::NoNames).value()?;
                let own = (partition == database).then(|| Ref::new(Target::Numbered(Native::Keys, id as i64)));
                Some(Caller {
                    database: DatabaseNumber(database),
                    grant: Grant::Role(role, own),
                })
            }
            Claim::Token(id) => {
                let row = view.get_latest(&Key::global(b'T').number(id).0)?;
                if *row.get(8..40)? != secrets::hash(secret) || !self.is_alive(view, &row, Native::Tokens, id) {
                    return None;
                }
                Some(Caller {
                    database: DatabaseNumber(rows::number_at(&row, 0)),
                    grant: Grant::Token(id),
                })
            }
        }
    }

    /// Returns true if the document of a key or a token exists and has not expired.
    fn is_alive(&self, view: &mut View<'_>, row: &[u8], native: Native, id: u64) -> bool {
        let partition = DatabaseNumber(rows::number_at(row, 0));
        let document = view.get_latest(&rows::document(partition, native as u64, id).0);
        let now = view.now_micros() + self.credential_margin_micros();
        document.is_some_and(|row| !crate::storage::indexes::is_expired(&row, now))
    }

    /// A database is there if it and all above it are.
    fn is_registered(&self, view: &mut View<'_>, database: DatabaseNumber) -> bool {
        let mut number = database.0;
        while number != ROOT.0 {
            match view.get_latest(&Key::global(b'R').number(number).0) {
                Some(row) => number = rows::number_at(&row, 0),
                None => return false,
            }
        }
        true
    }

    /// Applies a suffix for another database or role. Only an admin may use it; a server for one of
    /// its documents.
    fn suffixed(&self, view: &mut View<'_>, caller: Caller, suffix: &str) -> Result<Caller> {
        let own = match &caller.grant {
            Grant::Role(Value::String(own), _) => own,
            // A role requested after a token's secret is ignored (as in the original's code).
            Grant::Token(_) => return Ok(caller),
            _ => return Err(unauthorized()),
        };
        let (path, role) = suffix
            .split_once(':')
            .map_or((None, suffix), |(path, role)| (Some(path), role));
        let asks_for_document = document_of(role).is_some();
        if &**own != "admin" && !(&**own == "server" && path.is_none() && asks_for_document) {
            return Err(unauthorized());
        }
        let mut database = caller.database;
        for name in path.unwrap_or("").split('/').filter(|name| !name.is_empty()) {
            let row = view.get_latest(&rows::name(database, Native::Databases as u8, name).0);
            database = DatabaseNumber(rows::number_at(&row.ok_or_else(unauthorized)?, 0));
        }
        let schema = self.schema(view, database);
        Ok(Caller {
            database,
            grant: suffix_grant(&schema, role).ok_or_else(unauthorized)?,
        })
    }

    fn authorization(&self, evaluation: &mut Evaluation<'_>, caller: &Caller) -> Result<Authorization> {
        match &caller.grant {
            Grant::Role(role, key) => {
                let rights = crate::evaluation::functions::rights_of(evaluation, role);
                Ok(Authorization {
                    token: key.clone().map(Value::Ref),
                    ..Authorization::of(rights)
                })
            }
            Grant::Token(id) => {
                let fields = evaluation.token_fields(*id).ok_or_else(unauthorized)?;
                let Some(Value::Ref(identity)) = fields.get("instance") else {
                    return Err(unauthorized());
                };
                let token = Value::Ref(Ref::new(Target::Numbered(Native::Tokens, *id as i64)));
                identity_authorization(evaluation, identity.clone(), Some(token))
            }
            Grant::Document(identity) => identity_authorization(evaluation, identity.clone(), None),
            Grant::Claims(claims, provider) => claims_authorization(evaluation, claims, provider),
        }
    }
}

/// The rights of a document: those of the roles whose membership covers it. Their predicates
/// receive the caller's identity and credential.
fn identity_authorization(
    evaluation: &mut Evaluation<'_>,
    identity: Ref,
    token: Option<Value>,
) -> Result<Authorization> {
    let place = evaluation.resolve(&identity).map_err(|_| unauthorized())?;
    evaluation.live(&place).ok_or_else(unauthorized)?;
    evaluation.authorization.identity = Some(identity.clone());
    evaluation.authorization.token = token.clone();
    let roles = evaluation.roles_of(&identity);
    Ok(Authorization {
        reads_itself: roles.is_empty(),
        rights: Rights::Roles(roles),
        identity: Some(identity),
        token,
    })
}

/// The rights of a JWT: the roles of its access provider whose predicates hold for its claims.
fn claims_authorization(
    evaluation: &mut Evaluation<'_>,
    claims: &Value,
    provider: &AccessProvider,
) -> Result<Authorization> {
    evaluation.authorization.token = Some(claims.clone());
    let mut roles = Vec::new();
    for (role, predicate) in &provider.roles {
        let name = match role {
            Value::Ref(role) => role.id(),
            other => other.as_str().cloned().unwrap_or_else(|| "".into()),
        };
        let holds = match predicate {
            None => true,
            Some(predicate) => evaluation.holds(predicate, std::slice::from_ref(claims)),
        };
        roles.extend(evaluation.schema.role(&name).filter(|_| holds).cloned());
    }
    match roles.is_empty() {
        true => Err(unauthorized()),
        false => Ok(Authorization {
            token: Some(claims.clone()),
            ..Authorization::of(Rights::Roles(roles))
        }),
    }
}

/// The document that a suffix names, in one of the ways of writing that.
fn document_of(suffix: &str) -> Option<&str> {
    let prefixes = ["@doc/", "collections/", "classes/"];
    prefixes.iter().find_map(|prefix| suffix.strip_prefix(prefix))
}

fn suffix_grant(schema: &Schema, role: &str) -> Option<Grant> {
    if let Some(name) = role.strip_prefix("@role/") {
        schema.role(name)?;
        return Some(Grant::Role(Value::named(Native::Roles, name), None));
    }
    let Some(document) = document_of(role) else {
        return Some(Grant::Role(Value::string(role), None));
    };
    let (collection, id) = document.split_once('/')?;
    schema.collection(collection)?;
    Some(Grant::Document(Ref::new(Target::Document(
        collection.into(),
        parse_id(id)?,
    ))))
}
