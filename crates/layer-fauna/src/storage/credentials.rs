//! Things that belong to a document or a token by which a caller asks.

use std::sync::Arc;

use crate::evaluation::Evaluation;
use crate::language::value::{Fields, Native, Ref, Target};
use crate::storage::documents::Place;
use crate::storage::rows::{self, Key};

/// The row that leads from a document to its credentials.
pub fn credentials_key(place: &Place) -> Key {
    Key::of(place.database(), b'C')
        .number(place.collection)
        .number(place.id)
}

/// The credentials of a document.
pub fn credentials_of(evaluation: &mut Evaluation<'_>, identity: &Ref) -> Option<Ref> {
    let place = evaluation.resolve(identity).ok()?;
    let row = evaluation.view.get_latest(&credentials_key(&place).0)?;
    Some(Ref::new(Target::Numbered(
        Native::Credentials,
        rows::number_at(&row, 0) as i64,
    )))
}

/// The fields of a token.
pub fn token_fields(evaluation: &mut Evaluation<'_>, id: u64) -> Option<Arc<Fields>> {
    let reference = Ref::new(Target::Numbered(Native::Tokens, id as i64));
    let place = evaluation.resolve(&reference).ok()?;
    evaluation.live_fields(&place).map(|(_, fields)| fields)
}
