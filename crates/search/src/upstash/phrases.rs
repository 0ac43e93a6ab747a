//! Counts phrases: words that follow each other. Positions are relative to the first word.

/// The number of times that a document contains a phrase: `words` are the positions of each word,
/// ascending, each minus the word's offset in the phrase. `slop` is the greatest distance of a word
/// from its place.
pub fn count(words: &[Vec<u32>], slop: u32) -> u32 {
    match (words, slop) {
        ([], _) => 0,
        ([only], _) => only.len() as u32,
        (_, 0) => starts(words).len() as u32,
        ([left, right], slop) => count_of_two(left, right, slop),
        (_, slop) => count_of_many(words, slop),
    }
}

/// The positions shared by all words.
pub fn starts(words: &[Vec<u32>]) -> Vec<u32> {
    let Some((first, following)) = words.split_first() else {
        return Vec::new();
    };
    let at = |start: &&u32| following.iter().all(|word| word.binary_search(start).is_ok());
    first.iter().filter(at).copied().collect()
}

/// Each position counts once; the left word takes the nearest position that is not after the right
/// word.
fn count_of_two(left: &[u32], right: &[u32], slop: u32) -> u32 {
    let (mut at_left, mut at_right, mut count) = (0, 0, 0);
    while let (Some(a), Some(b)) = (left.get(at_left), right.get(at_right)) {
        if a.abs_diff(*b) <= slop {
            while left.get(at_left + 1).is_some_and(|next| next <= b) {
                at_left += 1;
            }
            count += 1;
            at_left += 1;
            at_right += 1;
        } else if a < b {
            at_left += 1;
        } else {
            at_right += 1;
        }
    }
    count
}

/// All words share the slop: later words have only what earlier words left over.
fn count_of_many(words: &[Vec<u32>], slop: u32) -> u32 {
    let mut reached: Vec<(u32, u32)> = words[0].iter().map(|position| (*position, 0)).collect();
    for word in &words[1..] {
        let mut next = Vec::new();
        for position in word {
            let from = reached.partition_point(|(at, _)| at.saturating_add(slop) < *position);
            let near = reached[from..]
                .iter()
                .take_while(|(at, _)| *at <= position.saturating_add(slop));
            let used = near.map(|(at, used)| used.saturating_add(at.abs_diff(*position)));
            if let Some(used) = used.min().filter(|used| *used <= slop) {
                next.push((*position, used));
            }
        }
        reached = next;
    }
    reached.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_counted() {
        for (words, slop, expected) in [
            (vec![vec![3]], 0, 1),
            (vec![vec![1, 5, 9], vec![5, 9, 12]], 0, 2),
            (vec![vec![1, 5], vec![2, 9]], 1, 1),
            (vec![vec![1, 2, 3], vec![3]], 1, 1),
            (vec![vec![1], vec![2], vec![3]], 1, 0),
            (vec![vec![1], vec![2], vec![3]], 2, 1),
        ] {
            assert_eq!(count(&words, slop), expected, "{words:?} {slop}");
        }
        assert_eq!(starts(&[vec![1, 5], vec![5]]), [5]);
    }
}
