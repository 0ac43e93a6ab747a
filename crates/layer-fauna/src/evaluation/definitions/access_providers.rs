//! Access providers: what a definition must have, and that an issuer belongs to one provider.

use super::fields::{Definition, invalid_type, is_query, is_text};
use crate::evaluation::Evaluation;
use crate::language::error::{Errors, Failure, Result};
use crate::language::value::{Fields, Native, Value};
use crate::storage::documents::Place;
use crate::storage::rows::{self, Key};

/// A role, or a role with the predicate under which it is given.
fn is_provided_role(value: &Value) -> bool {
    let is_one = |value: &Value| is_text(value) || matches!(value, Value::Ref(role) if role.names(Native::Roles));
    match value {
        Value::Object(fields) => fields.get("role").is_some_and(is_one) && fields.get("predicate").is_none_or(is_query),
        role => is_one(role),
    }
}

pub(super) fn access_provider(definition: &mut Definition<'_>) {
    definition.name();
    definition.need("issuer", "String", is_text);
    definition.need("jwks_uri", "URI", is_text);
    if let Some(uri) = definition.params.string("jwks_uri")
        && !uri.to_ascii_lowercase().starts_with("https:")
    {
        let description = format!("`{uri}` is a not valid URI");
        definition.refuse("jwks_uri", "invalid uri", &description);
    }
    if let Some(roles) = definition.given("roles").cloned() {
        let wrong = roles.one_or_many().iter().find(|role| !is_provided_role(role));
        if let Some(wrong) = wrong {
            definition.failures.push(invalid_type(&["roles"], wrong, "Role"));
        }
        definition.put("roles", roles);
    }
    definition.data();
}

pub(super) fn take_issuer(evaluation: &mut Evaluation<'_>, place: &Place, fields: &Fields) -> Result<()> {
    let issuer = fields.string("issuer").cloned().unwrap_or_else(|| "".into());
    let key = Key::of(place.database(), b'P').bytes(issuer.as_bytes());
    match evaluation.view.get(&key.0) {
        Some(owner) if rows::number_at(&owner, 0) != place.id => {
            let failure = Failure::new(&["issuer"], "duplicate value", "Value is not unique.");
            Err(Errors::validation(vec![failure]))
        }
        _ => {
            evaluation.view.writing().set(&key.0, &place.id.to_be_bytes());
            Ok(())
        }
    }
}
