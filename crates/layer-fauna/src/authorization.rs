//! Who asks, and what they may do.
//!
//! The built-in roles are a table; user-defined roles grant actions on resources, always or if a predicate says exactly true.
//! Predicates are evaluated read-only and with all rights of reading; an error in one is a no.

use std::sync::Arc;

use crate::error::{Errors, Result};
use crate::evaluation::Evaluation;
use crate::expression::Effect;
use crate::functions::authentication::credentials_of;
use crate::schema::{Grant, Membership, Role};
use crate::value::{Closure, Native, Ref, Target, Value};

/// The identity and the rights of a request.
#[derive(Clone, Debug)]
pub struct Authorization {
    pub rights: Rights,
    /// The document that logged in.
    pub identity: Option<Ref>,
    /// The token, or the key if it lives in this database, or the claims of a JWT.
    pub token: Option<Value>,
    /// It is the document with which a token came and no role covers it: it may read itself.
    pub reads_itself: bool,
}

#[derive(Clone, Debug)]
pub enum Rights {
    Admin,
    Server,
    ServerReadonly,
    Client,
    Roles(Vec<Arc<Role>>),
}

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
        matches!(self.rights, Rights::Admin | Rights::Server | Rights::ServerReadonly)
    }
}

/// What only an admin may see or change.
fn is_for_admins(native: Native) -> bool {
    matches!(
        native,
        Native::Databases | Native::Keys | Native::Roles | Native::AccessProviders
    )
}

impl Evaluation<'_> {
    /// Fails unless `action` is granted on what the ref names. `arguments` are what a predicate is given.
    pub fn permit(&mut self, action: &str, reference: &Ref, arguments: &[Value]) -> Result<()> {
        let native = match &reference.target {
            Target::Native(native) | Target::Named(native, _) | Target::Numbered(native, _) => Some(*native),
            Target::Document(..) => None,
        };
        let is_read = matches!(action, "read" | "history_read" | "unrestricted_read");
        let here = reference.scope.is_empty();
        let rights = self.authorization.rights.clone();
        let allowed = match &rights {
            Rights::Admin => here || is_read,
            // Like an admin, a server reads in the databases below its own.
            Rights::Server => (here || is_read) && !native.is_some_and(is_for_admins),
            Rights::ServerReadonly => is_read && !native.is_some_and(is_for_admins),
            Rights::Client => false,
            Rights::Roles(roles) => {
                here && (self.is_own(reference, is_read) || self.roles_permit(roles, action, reference, arguments))
            }
        };
        match allowed {
            true => Ok(()),
            false => Err(Errors::denied()),
        }
    }

    /// A token's own token and credentials; its own document if no role covers it.
    fn is_own(&mut self, reference: &Ref, is_read: bool) -> bool {
        if let (Target::Numbered(Native::Credentials, _), Some(identity)) =
            (&reference.target, self.authorization.identity.clone())
        {
            return is_read && credentials_of(self, &identity).as_ref() == Some(reference);
        }
        let authorization = &self.authorization;
        let is_token = matches!(&authorization.token, Some(Value::Ref(token)) if token == reference);
        let is_identity = authorization.identity.as_ref() == Some(reference);
        is_token || (is_identity && is_read && authorization.reads_itself)
    }

    fn roles_permit(&mut self, roles: &[Arc<Role>], action: &str, reference: &Ref, arguments: &[Value]) -> bool {
        for role in roles {
            let covering = role
                .privileges
                .iter()
                .filter(|privilege| covers(&privilege.resource, reference));
            for (granted, grant) in covering.flat_map(|privilege| &privilege.actions) {
                let yes = **granted == *action
                    && match grant {
                        Grant::Always => true,
                        Grant::If(predicate) => self.holds(predicate, arguments),
                    };
                if yes {
                    return true;
                }
            }
        }
        false
    }

    /// True if the predicate says exactly true.
    pub fn holds(&mut self, predicate: &Closure, arguments: &[Value]) -> bool {
        let rights = std::mem::replace(&mut self.authorization.rights, Rights::Admin);
        let allowed = std::mem::replace(&mut self.allowed, Effect::Read);
        let argument = match arguments {
            [single] => single.clone(),
            several => Value::array(several.to_vec()),
        };
        let answer = self.apply(predicate, argument);
        self.authorization.rights = rights;
        self.allowed = allowed;
        matches!(answer, Ok(Value::Bool(true)))
    }

    /// The roles among these whose membership covers an identity.
    pub fn roles_of(&mut self, identity: &Ref) -> Vec<Arc<Role>> {
        let is_member = |membership: &Membership, evaluation: &mut Self| {
            identity.collection().as_ref() == Some(&membership.resource)
                && match &membership.predicate {
                    None => true,
                    Some(predicate) => evaluation.holds(predicate, &[Value::Ref(identity.clone())]),
                }
        };
        let roles = self.schema.roles.clone();
        let mut found = Vec::new();
        for role in roles {
            if role.membership.iter().any(|membership| is_member(membership, self)) {
                found.push(role);
            }
        }
        found
    }

    pub fn may_read(&mut self, reference: &Ref) -> bool {
        self.authorization.reads_everything()
            || self.permit("read", reference, &[Value::Ref(reference.clone())]).is_ok()
    }

    /// Fails unless the index may be read; true if that covers the documents in it.
    pub fn permit_index(&mut self, reference: &Ref, terms: &[Value]) -> Result<bool> {
        if self.authorization.reads_everything() {
            return Ok(true);
        }
        let terms = [Value::array(terms.to_vec())];
        if self.permit("unrestricted_read", reference, &terms).is_ok() {
            return Ok(true);
        }
        self.permit("read", reference, &terms)?;
        Ok(false)
    }

    /// Fails unless the documents of a collection may be listed; each is checked by itself for user-defined roles.
    pub fn permit_collection(&mut self, collection: &Ref) -> Result<()> {
        match &self.authorization.rights {
            Rights::Roles(roles) => {
                let grants_read = |role: &Arc<Role>| {
                    let privileges = role
                        .privileges
                        .iter()
                        .filter(|privilege| privilege.resource == *collection);
                    privileges
                        .flat_map(|privilege| &privilege.actions)
                        .any(|(action, _)| &**action == "read")
                };
                match roles.iter().any(grants_read) {
                    true => Ok(()),
                    false => Err(Errors::denied()),
                }
            }
            _ => self.permit("read", collection, &[]),
        }
    }

    pub fn permit_history(&mut self, document: &Ref) -> Result<()> {
        if self.authorization.reads_everything() {
            return self.permit("history_read", document, &[]);
        }
        let arguments = [Value::Ref(document.clone())];
        self.permit("history_read", document, &arguments)
    }
}

/// A privilege on a collection covers its documents; one on an index or a function itself.
fn covers(resource: &Ref, reference: &Ref) -> bool {
    resource == reference || reference.collection().as_ref() == Some(resource)
}
