//! Text without its case, as functions and indexes compare it.

use icu_casemap::CaseMapper;
use icu_normalizer::ComposingNormalizer;

/// Unicode's NFKC_Casefold.
pub fn casefold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let normalizer = ComposingNormalizer::new_nfkc();
    let fold = |text: &str| CaseMapper::new().fold_string(text).into_owned();
    let once = normalizer.normalize(&fold(text)).into_owned();
    normalizer.normalize(&fold(&once)).into_owned()
}
