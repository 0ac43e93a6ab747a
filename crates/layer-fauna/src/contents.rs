//! The fields of a document, as far as anybody has looked at them.
//!
//! Most documents that are read are only shown, and most that are replaced go into the history as they are: both is done from
//! the bytes of the row. They are decoded once somebody wants the fields.

use std::sync::{Arc, OnceLock};

use quartet_engine::RowValue;

use crate::codec::Decoder;
use crate::schema::Schema;
use crate::value::{Fields, Size, Value};

#[derive(Clone, Debug)]
pub enum Contents {
    Known(Arc<Fields>),
    Stored(Arc<Stored>),
}

/// Fields in a row, `offset` bytes into it. They have been walked through, so they can be shown.
pub struct Stored {
    row: RowValue,
    offset: usize,
    schema: Arc<Schema>,
    size: Size,
    ttl: Option<Value>,
    decoded: OnceLock<Arc<Fields>>,
}

impl Contents {
    /// What stands in a row. Of a broken one nothing.
    pub fn of_row(row: RowValue, offset: usize, schema: &Arc<Schema>) -> Contents {
        let bytes = row.get(offset..).unwrap_or_default();
        let Some((size, ttl)) = Decoder::new(bytes, schema.as_ref()).survey("ttl") else {
            return Contents::Known(Arc::default());
        };
        Contents::Stored(Arc::new(Stored {
            row,
            offset,
            schema: schema.clone(),
            size,
            ttl,
            decoded: OnceLock::new(),
        }))
    }

    pub fn fields(&self) -> &Arc<Fields> {
        match self {
            Contents::Known(fields) => fields,
            Contents::Stored(stored) => stored.decoded.get_or_init(|| {
                let fields = stored.decoder().fields();
                Arc::new(fields.unwrap_or_default())
            }),
        }
    }

    /// The field that says when the document ends.
    pub fn ttl(&self) -> Option<&Value> {
        match self {
            Contents::Known(fields) => fields.get("ttl"),
            Contents::Stored(stored) => stored.ttl.as_ref(),
        }
    }

    pub fn size(&self) -> Size {
        match self {
            Contents::Known(fields) => fields.size(),
            Contents::Stored(stored) => stored.size,
        }
    }
}

impl From<Arc<Fields>> for Contents {
    fn from(fields: Arc<Fields>) -> Contents {
        Contents::Known(fields)
    }
}

impl Stored {
    /// The fields as they are stored.
    pub fn bytes(&self) -> &[u8] {
        &self.row[self.offset..]
    }

    pub fn decoder(&self) -> Decoder<'_> {
        Decoder::new(self.bytes(), self.schema.as_ref())
    }
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stored").field(&self.bytes()).finish()
    }
}
