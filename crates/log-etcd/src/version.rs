//! The versions of etcd that are refused, because they have lost or confused what they had
//! acknowledged.

/// The oldest release of each line without a known loss: data inconsistencies after crashes in
/// 3.5.0 to 3.5.2 (etcd #13766), a single member's loss of confirmed writes up to 3.5.4 and 3.4.20
/// (#14370), wrong revisions in 3.4.21 and 3.5.5 (the etcd-dev announcement cited in
/// kubernetes/website #40816). Lines before 3.4 have no such corrections.
const OLDEST: [(u32, u32, u32); 2] = [(3, 4, 22), (3, 5, 6)];

/// Returns true for a version without known losses. Text that is not a version is untrusted.
pub(crate) fn is_trusted(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) = (numbers.next(), numbers.next(), numbers.next()) else {
        return false;
    };
    let line = OLDEST.iter().find(|oldest| (oldest.0, oldest.1) == (major, minor));
    match line {
        Some(oldest) => patch >= oldest.2,
        None => (major, minor) > (OLDEST[1].0, OLDEST[1].1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_known_losses_are_refused() {
        for version in [
            "3.4.22",
            "3.4.23",
            "3.5.6",
            "3.5.21",
            "3.6.0",
            "3.6.0-rc.1",
            "3.7.3",
            "4.0.0",
        ] {
            assert!(is_trusted(version), "{version}");
        }
        for version in [
            "3.3.27", "3.4.0", "3.4.21", "3.5.0", "3.5.2", "3.5.5", "2.3.8", "", "3.5", "three",
        ] {
            assert!(!is_trusted(version), "{version}");
        }
    }
}
