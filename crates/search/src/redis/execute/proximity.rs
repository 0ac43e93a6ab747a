//! Checks that words are close enough to each other, and in order.
//!
//! Each list holds the ascending positions of one word (or of several that count as one). The
//! distances are those of the original: the number of other words between, summed up over words in
//! order, or what the narrowest window has beyond the words themselves.

/// Returns true if there is a choice of positions with at most `slop` other words between them.
/// Lists of no positions at all are not among them.
pub(super) fn are_within(lists: &[&[u32]], slop: Option<u32>, in_order: bool) -> bool {
    if lists.len() <= 1 {
        return true;
    }
    let slop = slop.map_or(i64::MAX, i64::from);
    match in_order {
        true => in_order_within(lists, slop),
        false => unordered_within(lists, slop),
    }
}

fn in_order_within(lists: &[&[u32]], slop: i64) -> bool {
    let mut next = vec![0; lists.len()];
    for &first in lists[0] {
        let (mut last, mut between) = (first, 0);
        for (list, next) in lists.iter().zip(&mut next).skip(1) {
            *next += list[*next..].partition_point(|position| *position < last);
            let Some(&position) = list.get(*next) else {
                return false;
            };
            between += i64::from(position) - i64::from(last) - 1;
            last = position;
            if between > slop {
                break;
            }
        }
        if between <= slop {
            return true;
        }
    }
    false
}

fn unordered_within(lists: &[&[u32]], slop: i64) -> bool {
    let mut next = vec![0; lists.len()];
    loop {
        let positions: Option<Vec<u32>> = lists
            .iter()
            .zip(&next)
            .map(|(list, at)| list.get(*at).copied())
            .collect();
        let Some(positions) = positions else {
            return false;
        };
        let (Some(first), Some(last)) = (positions.iter().min(), positions.iter().max()) else {
            return false;
        };
        let between = i64::from(*last) - i64::from(*first) - (lists.len() as i64 - 1);
        if first != last && between <= slop {
            return true;
        }
        let least = positions.iter().position(|position| position == first);
        next[least.expect("the least is one of them")] += 1;
    }
}

/// How far the words of neighbouring lists are from each other: the root of the sum of the squares
/// of their least distances, and 1 where there is none.
pub(super) fn spread(lists: impl IntoIterator<Item = Vec<u32>>, parts: usize) -> f64 {
    if parts <= 1 {
        return 1.0;
    }
    // Two lists are there at a time: a query may have hundreds.
    let (mut before, mut squares) = (None, 0);
    for list in lists {
        let pair = before.as_deref().map(|before| least_distance(before, &list));
        squares += pair.map_or(0, |distance| u64::from(distance).pow(2));
        before = Some(list);
    }
    match squares {
        0 => (parts - 1) as f64,
        squares => (squares as f64).sqrt().floor(),
    }
}

fn least_distance(a: &[u32], b: &[u32]) -> u32 {
    let (mut at_a, mut at_b) = (0, 0);
    let mut least = u32::MAX;
    while let (Some(&first), Some(&second)) = (a.get(at_a), b.get(at_b)) {
        least = least.min(first.abs_diff(second));
        match second > first {
            true => at_a += 1,
            false => at_b += 1,
        }
        if least <= 1 {
            break;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lists: &[&[u32]], slop: u32, in_order: bool) -> bool {
        are_within(lists, Some(slop), in_order)
    }

    #[test]
    fn a_phrase_is_words_one_after_the_other() {
        assert!(check(&[&[1, 7], &[2], &[3, 9]], 0, true));
        assert!(check(&[&[1, 5], &[3, 6]], 0, true));
        assert!(!check(&[&[2], &[1]], 0, true));
        assert!(!check(&[&[1], &[3]], 0, true) && check(&[&[1], &[3]], 1, true));
    }

    #[test]
    fn words_in_any_order_are_in_a_window() {
        assert!(check(&[&[2], &[1]], 0, false));
        assert!(!check(&[&[1], &[5]], 2, false) && check(&[&[1], &[5]], 3, false));
        assert!(check(&[&[9, 20], &[1, 19], &[22]], 1, false));
        assert!(!check(&[&[], &[1]], 9, false));
    }

    #[test]
    fn spread_is_the_root_of_squares() {
        assert_eq!(spread([vec![1, 10], vec![4, 13]], 2), 3.0);
        assert_eq!(spread([vec![1], vec![2], vec![3]], 3), 1.0);
        assert_eq!(spread([vec![1]], 1), 1.0);
    }
}
