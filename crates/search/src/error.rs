//! The errors of searches and of indexing.
//!
//! Each variant is one code of the errors that Redis 8 lists
//! (<https://redis.io/docs/latest/develop/reference/errors/all/search/>); [`SearchError::text`] is
//! the whole reply.

/// The reason why a request is refused. It depends only on the request and the schema, so every
/// replica refuses alike.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The query does not follow the grammar, or names a field that cannot be searched so.
    #[error("{0}")]
    Syntax(String),
    /// An expression of APPLY or FILTER does not follow the grammar, or could not be evaluated.
    #[error("{0}")]
    Expression(String),
    /// An argument of the request or of the schema is wrong.
    #[error("{0}")]
    Arguments(String),
    /// A word of the request in a place where its kind is not allowed.
    #[error("{0}")]
    Unrecognized(String),
    /// A query names a parameter that PARAMS does not give.
    #[error("No such parameter `{0}`")]
    NoParameter(String),
    /// A value has the wrong type or size.
    #[error("{0}")]
    Value(String),
    /// An attribute after `=>` is not known, or not for this part of a query.
    #[error("{0}")]
    Attribute(String),
    /// `ismissing` of a field without INDEXMISSING.
    #[error("{0}")]
    MissingNotIndexed(String),
    /// A step of an aggregation names a property that nothing before it gives.
    #[error("{0}")]
    NoProperty(String),
    /// The request would take more than a request may.
    #[error("{0}")]
    Limit(String),
    /// There is no room for what the request would hold in memory.
    #[error("Not enough memory available to execute the query")]
    Memory,
    /// The request took longer than it may.
    #[error("Timeout limit was reached")]
    Timeout,
}

impl SearchError {
    /// Returns the error as Redis 8 sends it: the code, then what happened.
    pub fn text(&self) -> String {
        let code = match self {
            SearchError::Syntax(_) => "SEARCH_SYNTAX",
            SearchError::Expression(_) => "SEARCH_EXPR",
            SearchError::Arguments(_) => "SEARCH_PARSE_ARGS",
            SearchError::Unrecognized(_) => "SEARCH_ARG_UNRECOGNIZED",
            SearchError::NoParameter(_) => "SEARCH_PARAM_NOT_FOUND",
            SearchError::Value(_) => "SEARCH_VALUE_BAD",
            SearchError::Attribute(_) => "SEARCH_ATTR_BAD",
            SearchError::MissingNotIndexed(_) => "SEARCH_FIELD_MISSING_REQ",
            SearchError::NoProperty(_) => "SEARCH_PROP_NOT_FOUND",
            SearchError::Limit(_) => "SEARCH_LIMIT_OVER",
            SearchError::Memory => "SEARCH_OOM",
            SearchError::Timeout => "SEARCH_TIMEOUT",
        };
        format!("{code} {self}")
    }
}

/// Why a document is not in the index although its key is in the index's prefix. The key is
/// written all the same; the failure is counted and shown with the index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct IndexingFailure {
    /// Position of the field in the schema.
    pub field: u16,
    /// The original's words for it.
    pub reason: String,
}
