//! The errors of searches and of indexing.
//!
//! Each code is one of the errors that Redis 8 lists
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
    /// No index or alias has this name.
    #[error("Index not found: {0}")]
    NoIndex(String),
    /// FT.CREATE with the name of an index or alias.
    #[error("Index already exists")]
    IndexExists,
    /// FT.ALIASADD of an alias that leads to an index already.
    #[error("Alias already exists")]
    AliasExists,
    /// An alias with the name of an index.
    #[error("Alias conflicts with an existing index name")]
    AliasIsIndex,
    /// FT.ALIASDEL of no alias.
    #[error("Alias does not exist")]
    NoAlias,
    /// FT.CREATE in a numbered database other than 0.
    #[error("Cannot create index on db != 0")]
    OtherDatabase,
    /// A value that an option of FT.CREATE does not have.
    #[error("{0}")]
    IndexOption(String),
    /// The index is filled from the keys, so a search of it is not complete.
    #[error("{0}")]
    Filling(String),
    /// An empty dictionary.
    #[error("could not open dict key")]
    NoDictionary,
    /// The request has no query.
    #[error("No query string provided")]
    NoQuery,
    /// SLOP or INORDER for a field with values in no order.
    #[error("slop/inorder are not supported for field with undefined ordering `{0}`")]
    Unordered(String),
    /// A step of an aggregation names a property twice.
    #[error("Property `{0}` specified more than once")]
    PropertyTwice(String),
    /// A cursor that was deleted, has expired or never existed.
    #[error("Cursor {0}")]
    NoCursor(&'static str),
    /// A size of batches for a policy without batches.
    #[error("'batch size' is irrelevant for the selected policy (Error parsing vector similarity parameters)")]
    BatchSize,
    /// A vector expression in a part of FT.HYBRID that allows none.
    #[error("Vector expressions are not allowed in {0}")]
    VectorExpression(&'static str),
    /// A weight in the filter of FT.HYBRID's vector part.
    #[error("Weight attributes are not allowed in FT.HYBRID VSIM FILTER")]
    WeightInFilter,
    /// A policy for a range of vectors.
    #[error("hybrid query attributes were sent for a non-hybrid query (Error parsing vector similarity parameters)")]
    PolicyOfRange,
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
            SearchError::NoIndex(_) => "SEARCH_INDEX_NOT_FOUND",
            SearchError::IndexExists | SearchError::AliasExists => "SEARCH_INDEX_EXISTS",
            SearchError::AliasIsIndex => "SEARCH_ALIAS_CONFLICT",
            SearchError::NoAlias => "SEARCH_ALIAS_NOT_FOUND",
            SearchError::OtherDatabase => "SEARCH_INDEX_DB",
            SearchError::IndexOption(_) => "SEARCH_ADD_ARGS",
            SearchError::Filling(_) => "SEARCH_INDEX_FILLING",
            SearchError::NoDictionary => "SEARCH_GENERIC",
            SearchError::NoQuery => "SEARCH_QUERY_STRING_BAD",
            SearchError::Unordered(_) => "SEARCH_ORDER_OPTION_BAD",
            SearchError::PropertyTwice(_) => "SEARCH_FIELD_DUP",
            SearchError::NoCursor(_) => "SEARCH_CURSOR_NOT_FOUND",
            SearchError::BatchSize => "SEARCH_ADHOC_BATCH_SIZE_IRRELEVANT",
            SearchError::VectorExpression(_) => "SEARCH_VECTOR_NOT_ALLOWED",
            SearchError::WeightInFilter => "SEARCH_WEIGHT_NOT_ALLOWED",
            SearchError::PolicyOfRange => "SEARCH_HYBRID_ATTR_NON_HYBRID",
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
