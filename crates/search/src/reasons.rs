//! Why a document has its score, as EXPLAINSCORE shows it.

/// A part of a score, and the parts that it is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// The worth of the part, and why.
    pub text: String,
    /// Its parts.
    pub parts: Vec<Explanation>,
}

impl Explanation {
    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        let parts = self.parts.iter().map(Explanation::size);
        size_of::<Explanation>() + self.text.len() + parts.sum::<usize>()
    }
}
