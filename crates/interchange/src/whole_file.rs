//! A file that appears after its completion: before that its name is `NAME.unfinished`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

pub struct WholeFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
    is_finished: bool,
}

impl WholeFile {
    /// Starts the file. Returns true if it replaces the partial file of a killed process.
    pub fn begin(path: &Path) -> io::Result<(WholeFile, bool)> {
        let mut name = path.as_os_str().to_owned();
        name.push(".unfinished");
        let unfinished = PathBuf::from(name);
        let was_begun = unfinished.exists();
        let file = WholeFile {
            path: path.to_owned(),
            file: owners_file(&unfinished)?,
            unfinished,
            is_finished: false,
        };
        Ok((file, was_begun))
    }

    /// The part written so far.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Makes it durable, under its own name.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.unfinished, &self.path)?;
        self.is_finished = true;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// An export may contain private data: only its owner may read it.
fn owners_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // A later attempt throws it away as well.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}
