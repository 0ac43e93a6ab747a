//! Patterns of sentences that databases' own texts hardly have, and the words to use instead.
//!
//! A form is words in lower case, separated by spaces: `a|b` is either word, `^` the start of a
//! sentence, and `.` the end of a clause. A pattern has several forms, separated by commas.

/// One row of the table.
pub struct Pattern {
    pub name: &'static str,
    pub forms: &'static str,
    /// The field's words for it.
    pub instead: &'static str,
}

const fn pattern(name: &'static str, forms: &'static str, instead: &'static str) -> Pattern {
    Pattern { name, forms, instead }
}

/// No sentence has one of these; they are counted one by one, and `refused` is their record.
pub const REFUSED: [Pattern; 2] = [
    pattern(
        "opening without a noun",
        "^ What|Who|Whoever|Of|Has|Somebody",
        "a type, a field or a role as the subject",
    ),
    pattern(
        "paraphrase",
        "so many|much, told, in the place of, for ever",
        "the quantity; reported or returned; instead of; indefinitely",
    ),
];

/// A sentence with one of these is *touched*; the share of touched sentences is on record.
pub const PATTERNS: [Pattern; 25] = [
    pattern(
        "stand",
        "stand|stands|stood|standing",
        "is stored, is in, says, is current",
    ),
    pattern(
        "the one that",
        "the|that one|ones that|who|which|it|whose, those|he|she|they who|whose|whom, those that, the other that, that of the",
        "name the noun",
    ),
    pattern(
        "preposition and which",
        "of|by|in|behind|up which|whom, whose",
        "a sentence of its own, or where and when",
    ),
    pattern(
        "one for a noun",
        "ones, this|that|such|another|no|new|newer|older|last|own|wrong|single one .|that|who|is|was|has|in|at|and|or|with|without, \
         a|an|the|each|every one ., one who|whose, than|with|without one .",
        "name the noun",
    ),
    pattern(
        "whoever",
        "whoever|whatever|wherever|whichever, however much|many",
        "each client that, any",
    ),
    pattern(
        "somebody",
        "somebody|nobody|anybody|everybody|somebody's|nobody's|anybody's|everybody's|someone",
        "a client, a reader, no caller",
    ),
    pattern("ask", "ask|asks|asked|asking", "query, request, call"),
    pattern("behind", "behind", "after, below, through"),
    pattern("begin", "begin|begins|began|begun|beginning", "start"),
    pattern(
        "is over",
        "is|was|are|were|be|been over|near|under, is|was|are|were to",
        "has ended; must; close to; running",
    ),
    pattern("come", "come|comes|came|coming", "arrive, follow, be added"),
    pattern(
        "go on",
        "go|goes|went|going|gone on|by|away, on it goes",
        "continue, proceed",
    ),
    pattern("alone", "alone", "only, single, standalone"),
    pattern("tell", "tell|tells|told|telling", "report, return"),
    pattern("judge", "judge|judges|judged|judging", "verify, check, validate"),
    pattern("lie", "lie|lies|lay|lain|lying", "is in, is stored"),
    pattern(
        "be gone",
        "is|are|was|were|be|has|have|had|been gone, is|are|was|were|be no longer|more there, gone",
        "was removed, expired, closed",
    ),
    pattern(
        "be there",
        "is|are|was|were|be there .|is|are|was|were|that|who|when|before|afterwards|already|and|or|again|anew, been there, there already",
        "exists",
    ),
    pattern(
        "free relative",
        "of|than|beyond|but|beside|behind|without what, what comes|came|stands|goes|lies",
        "name the noun",
    ),
    pattern(
        "quantity without a noun",
        "so much|many, as much|many as, as good as, that many|much",
        "the figure with its unit",
    ),
    pattern(
        "archaism",
        "in the place of, for ever, ever after, at hand, anew, thereby, therein, until then, since then, by then, upon",
        "instead of; indefinitely; again; then",
    ),
    pattern(
        "stranger",
        "stranger|strangers|stranger's|strangers'|elsewhere|guest|guests|visitor",
        "unauthenticated peer, another node",
    ),
    pattern(
        "take in",
        "take|takes|took|taken|taking|put|puts in|back, let|lets|letting go|in",
        "admit, restore, release, insert",
    ),
    pattern(
        "inverted condition",
        "if one, if not one, but for|it|those, nothing|none but, none is|are|has",
        "only; except; none of the NOUN",
    ),
    pattern(
        "owe",
        "owe|owes|owed, meet|meets|met, hear|hears|heard, wish|wishes|wanted, sees to it, stay|stays as it, make|makes up for, \
         hold|holds|held up, near by",
        "the verb of the protocol",
    ),
];
