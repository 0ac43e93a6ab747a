//! The caller, and the caller's rights.
//!
//! The built-in roles are a table; user-defined roles grant actions on resources, always or if a
//! predicate is exactly true. Predicates are evaluated read-only and with rights of their own; an
//! error in one is a no. Things that belong to the caller grant a few actions without any role:
//! they are one table, [`OWN`].

use std::sync::Arc;

use crate::evaluation::Evaluation;
use crate::language::error::{Errors, Result};
use crate::language::expression::{Effect, Parameters};
use crate::language::value::{Closure, Fields, Native, Ref, Target, Value};
use crate::storage::rows;
use crate::storage::schema::{Grant, Membership, Role};

/// The identity and the rights of a request.
#[derive(Clone, Debug)]
pub struct Authorization {
    pub rights: Rights,
    /// The document that logged in.
    pub identity: Option<Ref>,
    /// The token, or the key if it lives in this database, or the claims of a JWT.
    pub token: Option<Value>,
    /// It is the document of a token, without a role that covers it: it may read itself.
    pub reads_itself: bool,
}

#[derive(Clone, Debug)]
pub enum Rights {
    Admin,
    Server,
    ServerReadonly,
    Client,
    /// The rights of a predicate: reading as a server may, and calling functions.
    Predicate,
    Roles(Vec<Arc<Role>>),
}

/// An entity that belongs to a caller with the identity of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// A token of the document: the caller's, or another.
    Token,
    Credentials,
    /// The key that was sent.
    Key,
    /// The document itself.
    Document,
}

/// The action of replacing one's password by proving the one before.
pub const CHANGE_PASSWORD: &str = "change_password";

/// The actions that need no role. None of them can change the caller's identity: a token keeps its
/// document, credentials keep theirs, and a key its role. The original grants the same, with two
/// differences: it requires a role to change a password, contrary to its documentation, and does
/// not let a document be read by itself, which drivers expect.
const OWN: [(Own, &[&str]); 4] = [
    (Own::Token, &["read", "delete"]),
    (Own::Credentials, &["read", CHANGE_PASSWORD]),
    (Own::Key, &[]),
    // Only while no role covers the document.
    (Own::Document, &["read"]),
];

impl Authorization {
    pub fn of(rights: Rights) -> Authorization {
        Authorization {
            rights,
            identity: None,
            token: None,
            reads_itself: false,
        }
    }

    pub fn reads_everything(&self) -> bool {
        matches!(
            self.rights,
            Rights::Admin | Rights::Server | Rights::ServerReadonly | Rights::Predicate
        )
    }
}

/// Returns true for objects that only an admin may see or change.
fn is_for_admins(native: Native) -> bool {
    matches!(
        native,
        Native::Databases | Native::Keys | Native::Roles | Native::AccessProviders
    )
}

impl Evaluation<'_> {
    /// Fails unless `action` is granted on the document that a ref names. `arguments` are what a
    /// predicate is given.
    pub fn permit(&mut self, action: &str, reference: &Ref, arguments: &[Value]) -> Result<()> {
        let owns = matches!(self.authorization.rights, Rights::Roles(_)) && self.owns(reference, action);
        match (owns, reference.collection()) {
            (true, _) => Ok(()),
            (false, Some(collection)) => self.permit_on(action, &collection, arguments),
            (false, None) => Err(Errors::denied()),
        }
    }

    /// Fails unless `action` is granted on a resource itself: a collection, an index, a function.
    pub fn permit_on(&mut self, action: &str, resource: &Ref, arguments: &[Value]) -> Result<()> {
        let is_read = matches!(action, "read" | "history_read" | "unrestricted_read");
        let is_local = resource.scope.is_empty();
        let is_for_admins = matches!(resource.target, Target::Native(native) if is_for_admins(native));
        let rights = self.authorization.rights.clone();
        let allowed = match &rights {
            Rights::Admin => is_local || is_read,
            // Like an admin, a server reads in the databases below its own.
            Rights::Server => (is_local || is_read) && !is_for_admins,
            Rights::ServerReadonly => is_read && !is_for_admins,
            Rights::Predicate => match action {
                "call" => is_local,
                "history_read" => false,
                _ => is_read && !is_for_admins,
            },
            Rights::Client => false,
            Rights::Roles(roles) => is_local && self.roles_permit(roles, action, resource, arguments),
        };
        match allowed {
            true => Ok(()),
            false => Err(Errors::denied()),
        }
    }

    /// Returns true if the action is one that needs no role, because of whose the thing is.
    fn owns(&mut self, reference: &Ref, action: &str) -> bool {
        let granted = |own: Own| OWN.iter().any(|(of, actions)| *of == own && actions.contains(&action));
        self.own(reference).is_some_and(granted)
    }

    /// As what a thing belongs to the caller, if it does.
    fn own(&mut self, reference: &Ref) -> Option<Own> {
        let identity = self.authorization.identity.clone();
        match (&reference.target, identity) {
            (Target::Numbered(Native::Keys, _), _) => {
                let key = self.authorization.token.as_ref();
                let is_it = matches!(key, Some(Value::Ref(key)) if key == reference);
                is_it.then_some(Own::Key)
            }
            (Target::Numbered(Native::Tokens, id), Some(identity)) => {
                let fields = self.token_fields(*id as u64)?;
                let is_its = matches!(fields.get("instance"), Some(Value::Ref(instance)) if *instance == identity);
                is_its.then_some(Own::Token)
            }
            (Target::Numbered(Native::Credentials, _), Some(identity)) => {
                let credentials = self.credentials_of(&identity);
                (credentials.as_ref() == Some(reference)).then_some(Own::Credentials)
            }
            (_, Some(identity)) => (identity == *reference && self.authorization.reads_itself).then_some(Own::Document),
            (_, None) => None,
        }
    }

    /// Returns the credentials of a document, if it has some.
    pub fn credentials_of(&mut self, identity: &Ref) -> Option<Ref> {
        let place = self.resolve(identity).ok()?;
        let row = self.view.get_latest(&place.credentials_key().0)?;
        let id = rows::number_at(&row, 0) as i64;
        Some(Ref::new(Target::Numbered(Native::Credentials, id)))
    }

    /// Returns the fields of a token, if it exists.
    pub fn token_fields(&mut self, id: u64) -> Option<Arc<Fields>> {
        let reference = Ref::new(Target::Numbered(Native::Tokens, id as i64));
        let place = self.resolve(&reference).ok()?;
        self.live_fields(&place).map(|(_, fields)| fields)
    }

    fn roles_permit(&mut self, roles: &[Arc<Role>], action: &str, resource: &Ref, arguments: &[Value]) -> bool {
        for role in roles {
            for (granted, grant) in role.privileges.get(resource).into_iter().flatten() {
                let yes = **granted == *action
                    && match grant {
                        Grant::Always => true,
                        Grant::If(predicate) => self.holds(predicate, taken(action, predicate, arguments)),
                    };
                if yes {
                    return true;
                }
            }
        }
        false
    }

    /// Returns true if the predicate returns exactly true for the present state, at any read time.
    pub fn holds(&mut self, predicate: &Closure, arguments: &[Value]) -> bool {
        let rights = std::mem::replace(&mut self.authorization.rights, Rights::Predicate);
        let allowed = std::mem::replace(&mut self.allowed, Effect::Read);
        let allowed_in = std::mem::replace(&mut self.allowed_in, "auth predicates");
        let argument = match arguments {
            [single] => single.clone(),
            several => Value::array(several.to_vec()),
        };
        let (at, in_the_past) = (self.at, self.in_the_past);
        (self.at, self.in_the_past) = (self.present, false);
        let answer = self.apply(predicate, argument);
        (self.at, self.in_the_past) = (at, in_the_past);
        self.authorization.rights = rights;
        (self.allowed, self.allowed_in) = (allowed, allowed_in);
        matches!(answer, Ok(Value::Bool(true)))
    }

    /// The roles among these with a membership that covers an identity.
    pub fn roles_of(&mut self, identity: &Ref) -> Vec<Arc<Role>> {
        let is_member = |membership: &Membership, evaluation: &mut Self| {
            identity.collection().as_ref() == Some(&membership.resource)
                && match &membership.predicate {
                    None => true,
                    Some(predicate) => evaluation.holds(predicate, &[Value::Ref(identity.clone())]),
                }
        };
        let roles = self.schema.roles.clone();
        let mut held_roles = Vec::new();
        for role in roles {
            if role.membership.iter().any(|membership| is_member(membership, self)) {
                held_roles.push(role);
            }
        }
        held_roles
    }

    pub fn may_read(&mut self, reference: &Ref) -> bool {
        self.authorization.reads_everything()
            || self.permit("read", reference, &[Value::Ref(reference.clone())]).is_ok()
    }

    pub fn permit_history(&mut self, document: &Ref) -> Result<()> {
        self.permit("history_read", document, &[Value::Ref(document.clone())])
    }
}

/// The arguments that a predicate declares: the ref after old and new, and after the data of a
/// document with a chosen id, is passed only if it is declared.
fn taken<'v>(action: &str, predicate: &Closure, arguments: &'v [Value]) -> &'v [Value] {
    let declared = match predicate.lambda.parameters {
        Parameters::One => 1,
        Parameters::Many(count) => count,
    };
    let count = match (action, declared) {
        ("write", 3) => 3,
        ("write", _) => 2,
        ("create_with_id", 1) => 1,
        _ => arguments.len(),
    };
    &arguments[..count.min(arguments.len())]
}
