//! Circles of imports: files each of which leads to every other. A change of one of them has to
//! consider all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::arrows::{self, Arrows};

/// The circles of more than one file, the largest first.
pub fn circles(arrows: &Arrows) -> Vec<Vec<PathBuf>> {
    let backwards = turned_round(arrows);
    let mut circles: Vec<Vec<PathBuf>> = Vec::new();
    let mut seen = BTreeSet::new();
    for file in arrows.keys().filter(|file| !backwards_is_empty(&backwards, file)) {
        if seen.contains(file) {
            continue;
        }
        let ahead = reached(file, |from| arrows.get(from).into_iter().flat_map(BTreeMap::keys));
        let behind = reached(file, |from| backwards.get(from).into_iter().flatten().copied());
        let circle: Vec<PathBuf> = ahead.intersection(&behind).map(|&file| file.clone()).collect();
        if circle.len() > 1 {
            seen.extend(circle.iter().cloned());
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn backwards_is_empty(backwards: &BTreeMap<&PathBuf, BTreeSet<&PathBuf>>, file: &PathBuf) -> bool {
    backwards.get(file).is_none_or(BTreeSet::is_empty)
}

fn turned_round(arrows: &Arrows) -> BTreeMap<&PathBuf, BTreeSet<&PathBuf>> {
    let mut backwards: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = BTreeMap::new();
    for (from, targets) in arrows {
        for to in targets.keys() {
            backwards.entry(to).or_default().insert(from);
        }
    }
    backwards
}

/// `start`, and every file that it leads to over any number of arrows.
fn reached<'a, I: Iterator<Item = &'a PathBuf>>(
    start: &'a PathBuf,
    next: impl Fn(&'a PathBuf) -> I,
) -> BTreeSet<&'a PathBuf> {
    let mut reached = BTreeSet::from([start]);
    let mut ahead = vec![start];
    while let Some(file) = ahead.pop() {
        ahead.extend(next(file).filter(|&file| reached.insert(file)));
    }
    reached
}

/// The arrows between the folders below `src`; a file outside of them is a room of its own.
/// `lib.rs` and `main.rs` only combine the rooms.
pub fn between_rooms(arrows: &Arrows) -> Arrows {
    let room = |file: &PathBuf| PathBuf::from(file.components().next().expect("a file has a name").as_os_str());
    let is_a_root = |file: &PathBuf| file == Path::new("lib.rs") || file == Path::new("main.rs");
    let mut between = Arrows::new();
    for (from, targets) in arrows.iter().filter(|(from, _)| !is_a_root(from)) {
        let from = room(from);
        let rooms = targets.iter().map(|(to, names)| (room(to), names));
        for (to, names) in rooms.filter(|(to, _)| *to != from && !is_a_root(to)) {
            between.entry(to.clone()).or_default();
            let names = names.iter().cloned();
            between
                .entry(from.clone())
                .or_default()
                .entry(to)
                .or_default()
                .extend(names);
        }
    }
    between
}

/// Prints the circles of one crate, with the names that make each arrow: of its files for `NAME`,
/// of its rooms for `NAME/`.
pub fn show(root: &Path, name: &str) -> Result<()> {
    let arrows = arrows::of_crate(&root.join("crates").join(name))?;
    let arrows = if name.ends_with('/') {
        between_rooms(&arrows)
    } else {
        arrows
    };
    for circle in circles(&arrows) {
        println!("{} files", circle.len());
        for file in &circle {
            println!("  {}", file.display());
            for (to, names) in arrows[file].iter().filter(|(to, _)| circle.contains(to)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                println!("    -> {}  {}", to.display(), names.join(" "));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the sizes of the circles among arrows written `ab`: a leads to b.
    fn check(pairs: &str, expected: &[usize]) {
        let mut arrows = Arrows::new();
        for pair in pairs.split_whitespace() {
            let (from, to) = (PathBuf::from(&pair[..1]), PathBuf::from(&pair[1..]));
            arrows.entry(to.clone()).or_default();
            arrows.entry(from).or_default().entry(to).or_default();
        }
        let sizes: Vec<usize> = circles(&arrows).iter().map(Vec::len).collect();
        assert_eq!(sizes, expected, "{pairs}");
    }

    #[test]
    fn circles_are_found_with_their_sizes() {
        check("ab bc cd", &[]);
        check("ab ba", &[2]);
        check("ab bc ca cd", &[3]);
        check("ab ba bc cd de ec", &[3, 2]);
        check("ab bc cb cd dc da", &[4]);
    }

    #[test]
    fn rooms_that_name_each_other_are_a_circle_though_their_files_are_none() {
        let mut arrows = Arrows::new();
        for (from, to) in [
            ("a/one.rs", "b/one.rs"),
            ("b/two.rs", "a/two.rs"),
            ("a/one.rs", "a/two.rs"),
            ("lib.rs", "a/one.rs"),
        ] {
            arrows.entry(from.into()).or_default().entry(to.into()).or_default();
        }
        assert!(circles(&arrows).is_empty());
        assert_eq!(
            circles(&between_rooms(&arrows)),
            [[PathBuf::from("a"), PathBuf::from("b")]]
        );
    }
}
