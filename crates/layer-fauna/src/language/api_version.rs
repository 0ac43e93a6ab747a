//! The versions of the API: which functions there are, and how refs and lambdas are shown.

/// Declared in the order of their appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiVersion {
    V2_0,
    V2_1,
    V2_7,
    V2_12,
    V3,
    V4,
    V5,
    Unstable,
}

impl ApiVersion {
    /// For a request that names none.
    pub const DEFAULT: ApiVersion = ApiVersion::V2_1;
    /// For a stored lambda that names none.
    pub const LAMBDA_DEFAULT: ApiVersion = ApiVersion::V2_12;

    const ALL: [ApiVersion; 8] = [
        ApiVersion::V2_0,
        ApiVersion::V2_1,
        ApiVersion::V2_7,
        ApiVersion::V2_12,
        ApiVersion::V3,
        ApiVersion::V4,
        ApiVersion::V5,
        ApiVersion::Unstable,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ApiVersion::V2_0 => "2.0",
            ApiVersion::V2_1 => "2.1",
            ApiVersion::V2_7 => "2.7",
            ApiVersion::V2_12 => "2.12",
            ApiVersion::V3 => "3",
            ApiVersion::V4 => "4",
            ApiVersion::V5 => "5",
            ApiVersion::Unstable => "UNSTABLE",
        }
    }

    pub fn parse(name: &str) -> Option<ApiVersion> {
        ApiVersion::ALL.into_iter().find(|version| version.name() == name)
    }
}
