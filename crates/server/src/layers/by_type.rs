//! A set with at most one value of each type, by which a layer keeps something for its own use
//! among the parts of a server, which know no layer.

use std::any::Any;
use std::sync::Arc;

use parking_lot::RwLock;

#[derive(Default)]
pub struct ByType(RwLock<Vec<Arc<dyn Any + Send + Sync>>>);

impl ByType {
    /// Adds a value. The first of a type stays.
    pub fn put<T: Send + Sync + 'static>(&self, value: Arc<T>) {
        self.0.write().push(value);
    }

    /// The value of a type, if it was put there.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let values = self.0.read();
        values.iter().find_map(|value| value.clone().downcast().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_type() {
        let set = ByType::default();
        set.put(Arc::new("text"));
        set.put(Arc::new(5_u8));
        assert_eq!(set.get::<u8>().as_deref(), Some(&5));
        assert_eq!(set.get::<u16>(), None);
    }
}
