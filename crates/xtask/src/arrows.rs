//! Which file of a crate leads to which: an arrow for each name that a file's code takes from
//! another.
//!
//! A name that is passed on (`pub use`) leads to where it is defined, so a `lib.rs` that only lists
//! modules and names is no part of any circle. A module that is declared (`mod x;`) is no arrow.
//! Methods are not seen: they are called by value, and the file that gets hold of the value has
//! named its type.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::modules::{ModuleId, Modules};

/// For each file, the files it leads to, and by which names.
pub type Arrows = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// The arrows between the files of the crate in `folder`, by their paths below `src`.
pub fn of_crate(folder: &Path) -> Result<Arrows> {
    Ok(of_modules(&Modules::of_crate(folder)?, folder))
}

/// The same of modules that were read.
pub fn of_modules(modules: &Modules, folder: &Path) -> Arrows {
    let source = folder.join("src");
    let below = |file: &Path| file.strip_prefix(&source).unwrap_or(file).to_owned();
    let mut arrows = Arrows::new();
    for (id, module) in modules.all.iter().enumerate() {
        let from = arrows.entry(below(&module.file)).or_default();
        for path in &module.named {
            let target = match modules.resolve(id, path, 0) {
                None => continue,
                // A variable that has the name of a module.
                Some(Found::Module(_)) if path.len() == 1 => continue,
                Some(Found::Module(target) | Found::Item(target)) => &modules.all[target].file,
            };
            if *target != module.file {
                from.entry(below(target)).or_default().insert(path.join("::"));
            }
        }
    }
    arrows
}

/// The target of a path.
#[derive(Clone, Copy)]
enum Found {
    Module(ModuleId),
    /// Something that this module defines.
    Item(ModuleId),
}

/// Names that are passed on through more modules are not followed: they go round in a circle.
const STEPS_MAX: usize = 32;

impl Modules {
    /// Returns the meaning of `path` in the module `from`; `None` for names that another crate
    /// defines.
    fn resolve(&self, from: ModuleId, path: &[String], steps: usize) -> Option<Found> {
        let mut at = from;
        let mut remaining = path;
        let mut is_anchored = false;
        while let Some((first, following)) = remaining.split_first() {
            at = match first.as_str() {
                "crate" => self.all[at].root,
                "self" => at,
                "super" => self.all[at].parent?,
                _ => break,
            };
            is_anchored = true;
            remaining = following;
        }
        for name in remaining {
            match self.look_up(at, name, steps) {
                Some(Found::Module(next)) => at = next,
                Some(item) => return Some(item),
                // A name of another crate, or one that a macro defines here.
                None => return is_anchored.then_some(Found::Item(at)),
            }
            is_anchored = true;
        }
        Some(Found::Module(at))
    }

    fn look_up(&self, module: ModuleId, name: &str, steps: usize) -> Option<Found> {
        if steps > STEPS_MAX {
            return None;
        }
        let scope = &self.all[module];
        if let Some(&child) = scope.children.get(name) {
            return Some(Found::Module(child));
        }
        if scope.items.contains(name) {
            return Some(Found::Item(module));
        }
        if let Some(path) = scope.imports.get(name) {
            // An import with the name of its source would find itself.
            return (path.first().is_none_or(|first| first != name))
                .then(|| self.resolve(module, path, steps + 1))
                .flatten();
        }
        scope.globs.iter().find_map(|glob| {
            let is_itself = glob.first().is_some_and(|first| first == name);
            match (!is_itself).then(|| self.resolve(module, glob, steps + 1))?? {
                Found::Module(from) if from != module => self.look_up(from, name, steps + 1),
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    /// Checks the arrows of a crate with these files, written `from -> to`.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let folder = tree(files);
        let arrows = of_crate(folder.path()).unwrap();
        let written: Vec<String> = arrows
            .iter()
            .flat_map(|(from, targets)| {
                targets
                    .keys()
                    .map(move |to| format!("{} -> {}", from.display(), to.display()))
            })
            .collect();
        assert_eq!(written, expected);
    }

    #[test]
    fn imports_and_paths_in_code_lead_to_where_the_name_is_defined() {
        check(
            &[
                (
                    "src/lib.rs",
                    "mod a; mod b; mod c; pub use a::A; pub use c::inner::Deep;",
                ),
                ("src/a.rs", "pub struct A; impl A { fn f() { crate::b::g(); } }"),
                ("src/b.rs", "use crate::A; pub fn g() -> A { A }"),
                ("src/c/mod.rs", "pub mod inner; fn h() { inner::k(); }"),
                (
                    "src/c/inner.rs",
                    "use super::super::Deep as Other; pub struct Deep; pub fn k() {}",
                ),
            ],
            &["a.rs -> b.rs", "b.rs -> a.rs", "c/mod.rs -> c/inner.rs"],
        );
    }

    #[test]
    fn names_passed_on_and_modules_declared_are_no_arrows() {
        check(
            &[
                ("src/lib.rs", "mod a; mod b; pub use a::A; pub(crate) use b::*;"),
                ("src/a.rs", "pub struct A;"),
                ("src/b.rs", "pub struct B;"),
            ],
            &[],
        );
    }

    #[test]
    fn a_name_passed_on_and_used_is_an_arrow() {
        check(
            &[
                ("src/lib.rs", "mod a; pub use a::A; pub fn f(_: &A) {}"),
                ("src/a.rs", "pub struct A; pub fn g() { crate::f(&A) }"),
            ],
            &["a.rs -> lib.rs", "lib.rs -> a.rs"],
        );
    }

    #[test]
    fn tests_are_left_out() {
        check(
            &[
                ("src/lib.rs", "mod a; mod b;"),
                (
                    "src/a.rs",
                    "#[cfg(test)] mod tests { use crate::b::B; } #[cfg(test)] use crate::b::B; #[test] fn t() { crate::b::f() }",
                ),
                ("src/b.rs", "pub struct B; pub fn f() {}"),
            ],
            &[],
        );
    }

    #[test]
    fn paths_given_to_macros_and_imported_in_functions_count() {
        check(
            &[
                ("src/lib.rs", "mod a; mod b; mod c;"),
                (
                    "src/a.rs",
                    r#"fn f() { println!("{}", [crate::b::ONE]); use crate::c::Two; }"#,
                ),
                ("src/b.rs", "pub const ONE: u8 = 1;"),
                ("src/c.rs", "pub struct Two;"),
            ],
            &["a.rs -> b.rs", "a.rs -> c.rs"],
        );
    }

    /// Such a path made two files of a circle invisible: `#[serde(default = "crate::streams::…")]`.
    #[test]
    fn a_path_in_an_attribute_is_an_arrow() {
        check(
            &[
                ("src/lib.rs", "mod a; mod b;"),
                (
                    "src/a.rs",
                    r#"#[derive(Debug)] struct A { #[serde(default = "crate::b::two", rename = "b")] two: u8 }"#,
                ),
                ("src/b.rs", "pub fn two() -> u8 { 2 }"),
            ],
            &["a.rs -> b.rs"],
        );
    }

    #[test]
    fn names_through_a_glob_lead_to_where_they_are_defined() {
        check(
            &[
                ("src/lib.rs", "mod a; mod b; mod c;"),
                ("src/a.rs", "pub use crate::b::*;"),
                ("src/b.rs", "pub struct B;"),
                ("src/c.rs", "use crate::a::B; use std::fmt::*; fn f(_: Vec<B>) {}"),
            ],
            &["c.rs -> b.rs"],
        );
    }
}
