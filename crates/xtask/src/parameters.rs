//! Parameters that are tuples: a call passes the values without their names.
//!
//! A range, separate parameters or a struct name the values. The number of tuples in each crate is
//! on record in `tuple_parameters.txt`.

use syn::{FnArg, Signature, Type};

/// A parameter that is a tuple or a reference to a tuple.
pub struct TupleParameter {
    pub function: String,
    /// Counted from 1.
    pub line: usize,
}

impl TupleParameter {
    /// The tuples among the parameters of a function.
    pub fn all(signature: &Signature) -> impl Iterator<Item = TupleParameter> {
        signature.inputs.iter().filter_map(|parameter| match parameter {
            FnArg::Typed(parameter) if is_tuple(&parameter.ty) => Some(TupleParameter {
                function: signature.ident.to_string(),
                line: parameter.colon_token.span.start().line,
            }),
            _ => None,
        })
    }
}

/// True for a tuple of two values or more, and for a reference to it.
fn is_tuple(parameter_type: &Type) -> bool {
    match parameter_type {
        Type::Tuple(tuple) => tuple.elems.len() > 1,
        Type::Reference(reference) => is_tuple(&reference.elem),
        Type::Paren(parenthesized) => is_tuple(&parenthesized.elem),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::modules::Modules;
    use crate::tidy::tests::tree;

    /// Checks the tuple parameters of a crate with this source, written `LINE FUNCTION`.
    fn check(source: &str, expected: &[&str]) {
        let folder = tree(&[("src/lib.rs", source)]);
        let modules = Modules::of_crate(folder.path()).unwrap();
        let parameters = modules.all.iter().flat_map(|module| &module.tuple_parameters);
        let written: Vec<String> = parameters
            .map(|parameter| format!("{} {}", parameter.line, parameter.function))
            .collect();
        assert_eq!(written, expected, "{source}");
    }

    #[test]
    fn tuples_and_references_to_tuples_are_parameters_without_names() {
        check("fn f((start, end): (u8, u8)) {}", &["1 f"]);
        check(
            "fn f(\n range: (u8, u8),\n count: u8,\n pair: &mut (u8, u8),\n) {}",
            &["2 f", "4 f"],
        );
        check("impl A { fn g(&self, pair: &(u8, u8)) {} }", &["1 g"]);
        check("trait B { fn g(pair: (u8, u8)); }", &["1 g"]);
        check("mod c { fn f() { fn inner(pair: (u8, u8)) {} } }", &["1 inner"]);
    }

    #[test]
    fn closures_units_and_tuples_inside_other_types_do_not_count() {
        check("fn f() { let g = |(a, b): (u8, u8)| a + b; }", &[]);
        check(
            "fn f(rows: Vec<(u8, u8)>, more: &[(u8, u8)], last: Option<(u8, u8)>) {}",
            &[],
        );
        check("fn f(visit: impl Fn((u8, u8)), nothing: ()) -> (u8, u8) {}", &[]);
    }

    #[test]
    fn tests_do_not_count() {
        check("#[test] fn t(pair: (u8, u8)) {}", &[]);
        check("#[cfg(test)] mod tests { fn f(pair: (u8, u8)) {} }", &[]);
    }
}
