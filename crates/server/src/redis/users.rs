//! A file of Redis users: if the settings name a file, that of ACL SAVE and ACL LOAD; in the data
//! folder, users that take effect at the next start.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use quartet_layer_redis::access::acl::UserFile;

pub struct UsersOnDisk {
    path: PathBuf,
}

const NAME: &str = "users.acl";
/// It holds hashes of passwords.
const OWNER_ONLY: u32 = 0o600;

impl UsersOnDisk {
    pub fn new(path: PathBuf) -> UsersOnDisk {
        UsersOnDisk { path }
    }

    /// The file of new users in a data folder.
    pub fn in_directory(directory: &Path) -> UsersOnDisk {
        UsersOnDisk::new(directory.join(NAME))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file another name, by which nothing reads it. Returns its new path.
    pub fn set_aside(&self) -> io::Result<PathBuf> {
        let aside = self.with_suffix(".imported");
        fs::rename(&self.path, &aside)?;
        self.sync_folder()?;
        Ok(aside)
    }

    /// Path of the new file before it replaces the old one.
    fn new_path(&self) -> PathBuf {
        self.with_suffix(".new")
    }

    fn with_suffix(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }

    fn sync_folder(&self) -> io::Result<()> {
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl UserFile for UsersOnDisk {
    fn read(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A new file takes the place of the old one once it is whole on disk.
    fn write(&self, text: &str) -> io::Result<()> {
        let new_path = self.new_path();
        // A file left by a write that did not end keeps its permissions if it is only truncated.
        match fs::remove_file(&new_path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(OWNER_ONLY)
            .open(&new_path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new_path, &self.path)?;
        self.sync_folder()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_written_file_is_read_and_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let file = UsersOnDisk::in_directory(directory.path());
        assert_eq!(file.read().unwrap(), None);
        file.write("user a on\nuser b off\n").unwrap();
        file.write("user c on\n").unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some("user c on\n"));
        assert!(!file.new_path().exists());
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, OWNER_ONLY);
        let aside = file.set_aside().unwrap();
        assert_eq!(file.read().unwrap(), None);
        assert_eq!(fs::read_to_string(aside).unwrap(), "user c on\n");
    }
}
