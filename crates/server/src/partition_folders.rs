//! Where the partitions of a data folder are: the first in the folder itself, the others in folders
//! of their own below it.
//!
//! ```text
//!   DATA                 partition 0: log, checkpoints, the catalogue, credentials
//!   DATA/partitions/1    partition 1, laid out the same way
//!   DATA/partitions/2    ...
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use quartet_env::Disk;

const FOLDER: &str = "partitions";

/// The folders of the partitions that a data folder has, by their numbers.
///
/// Errors: one of them is missing.
pub fn partition_folders(data: &Path) -> Result<Vec<PathBuf>> {
    let below = data.join(FOLDER);
    let mut numbers = Vec::new();
    if below.is_dir() {
        let reading = || format!("reading {}", below.display());
        for entry in fs::read_dir(&below).with_context(reading)? {
            let name = entry.with_context(reading)?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
    }
    numbers.sort_unstable();
    let mut folders = vec![data.to_owned()];
    for number in numbers {
        let missing = below.join(folders.len().to_string());
        ensure!(
            number as usize == folders.len(),
            "the folder of partition {} is missing: {}",
            folders.len(),
            missing.display()
        );
        folders.push(missing);
    }
    Ok(folders)
}

/// Refuses a folder without others that says that it has one of several partitions. `disk` is its
/// own.
pub fn check_complete(disk: &dyn Disk, data: &Path) -> Result<()> {
    ensure!(
        !quartet_log::is_one_of_several(disk)?,
        "{} has one of several partitions, and there is no other in {}: name the folder that has all of them",
        data.display(),
        data.join(FOLDER).display()
    );
    Ok(())
}

/// The folders of a server's partitions: `configured`, or all existing ones.
pub fn wanted_folders(data: &Path, configured: Option<u32>) -> Result<Vec<PathBuf>> {
    let mut folders = partition_folders(data)?;
    let configured = configured.map_or(folders.len(), |configured| configured as usize);
    ensure!(
        configured >= folders.len(),
        "{} has {} partitions, and they do not become fewer: start with --partitions {} or without it",
        data.display(),
        folders.len(),
        folders.len()
    );
    folders.extend((folders.len()..configured).map(|number| data.join(FOLDER).join(number.to_string())));
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_counted_without_a_gap_and_only_become_more() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        assert_eq!(partition_folders(data).unwrap(), [data.to_owned()]);
        assert_eq!(wanted_folders(data, None).unwrap().len(), 1);
        let folders = wanted_folders(data, Some(3)).unwrap();
        assert_eq!(folders[2], data.join("partitions/2"));
        for folder in &folders {
            fs::create_dir_all(folder).unwrap();
        }
        assert_eq!(partition_folders(data).unwrap(), folders);
        assert!(
            wanted_folders(data, Some(2))
                .unwrap_err()
                .to_string()
                .contains("do not become fewer")
        );
        fs::remove_dir(&folders[1]).unwrap();
        let missing = partition_folders(data).unwrap_err().to_string();
        assert!(missing.contains("partition 1 is missing"), "{missing}");
    }
}
