//! Placeholder, replaced by the crate's first commit.
