//! Values of text: words and their forms, marks around them, places and shapes.

pub mod analysis;
pub mod geo;
pub(crate) mod marks;
pub mod shapes;
