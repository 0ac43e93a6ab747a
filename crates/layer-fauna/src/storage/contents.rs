//! The fields of a document in its row.
//!
//! Most documents that are read are only shown, and most that are replaced go into the history
//! unchanged: both work on the bytes of the row. They are decoded once the fields are needed.

use std::sync::{Arc, OnceLock};

use quartet_engine::RowValue;

use crate::language::codec::Decoder;
use crate::language::value::{Contents, Fields, Names, Size, StoredFields, Value};
use crate::storage::schema::Schema;

/// Fields in a row, `offset` bytes into it. They have been walked through, so they can be shown.
struct Stored {
    row: RowValue,
    offset: usize,
    schema: Arc<Schema>,
    size: Size,
    ttl: Option<Value>,
    decoded: OnceLock<Arc<Fields>>,
}

/// Returns the contents of a row; a broken one has none.
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

impl StoredFields for Stored {
    fn bytes(&self) -> &[u8] {
        &self.row[self.offset..]
    }

    fn names(&self) -> &dyn Names {
        self.schema.as_ref()
    }

    fn fields(&self) -> &Arc<Fields> {
        self.decoded.get_or_init(|| {
            let fields = Decoder::new(self.bytes(), self.names()).fields();
            Arc::new(fields.unwrap_or_default())
        })
    }

    fn ttl(&self) -> Option<&Value> {
        self.ttl.as_ref()
    }

    fn size(&self) -> Size {
        self.size
    }
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stored").field(&self.bytes()).finish()
    }
}
