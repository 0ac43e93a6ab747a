//! Files below a root that an operator has named: a folder, or a prefix in a bucket of an object
//! store. For clients' exports and imports, with untrusted paths.
//!
//! No path leads out of the root, by its parts or by a symbolic link inside it. A file appears
//! whole or not at all, and is durable once `put` has returned.

use std::fs::{self, DirEntry, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use object_store::path::Path as ObjectPath;
use object_store::{ObjectMeta, ObjectStore, PutPayload};

use crate::BackupError;
use crate::target::{Bucket, UNFINISHED, sync_folder};

/// Most files that one listing may return.
const LISTED_MAX: usize = 100_000;
/// Bytes of an object that are read at once.
const READ_BYTES: u64 = 4 << 20;

/// Files by their paths, with parts joined by slashes.
pub trait Tree: Send + Sync {
    /// Writes a whole file.
    fn put(&self, path: &str, bytes: Vec<u8>) -> io::Result<()>;
    /// The paths with the prefix `prefix`, sorted.
    fn list(&self, prefix: &str) -> io::Result<Vec<String>>;
    /// The total size of all files, in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// The content of a file, from its start.
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>>;
}

/// Opens `s3://bucket/prefix`, with credentials and endpoint from the usual `AWS_` variables, or an
/// existing folder.
pub fn open_tree(address: &str) -> Result<Arc<dyn Tree>, BackupError> {
    if let Some(location) = address.strip_prefix("s3://") {
        return Ok(Arc::new(Bucket::open(location)?));
    }
    let root = PathBuf::from(address);
    if address.contains("://") || !root.is_dir() {
        return Err(BackupError::Address(format!(
            "{address} is neither a folder nor s3://BUCKET/PREFIX"
        )));
    }
    Ok(Arc::new(FolderTree { root }))
}

/// Refuses a path that could lead anywhere else.
fn check(path: &str) -> io::Result<()> {
    let is_name = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\0', '\\']);
    match path.split('/').all(is_name) {
        true => Ok(()),
        false => Err(not_a_file()),
    }
}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a path of a file")
}

/// The folder that a prefix of paths is in; empty for the root.
fn folder_of(prefix: &str) -> &str {
    prefix.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn bounded(files: usize) -> io::Result<()> {
    match files > LISTED_MAX {
        true => Err(io::Error::other(format!("more than {LISTED_MAX} files"))),
        false => Ok(()),
    }
}

struct FolderTree {
    root: PathBuf,
}

impl Tree for FolderTree {
    fn put(&self, path: &str, bytes: Vec<u8>) -> io::Result<()> {
        let path = self.below(path)?;
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder)?;
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(UNFINISHED);
        let mut file = File::create(&unfinished)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)?;
        // Folders that were made are entries of those around them.
        let mut made = folder.ancestors().take_while(|folder| folder.starts_with(&self.root));
        made.try_for_each(sync_folder)
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<String>> {
        let folder = folder_of(prefix);
        let start = match folder {
            "" => self.root.clone(),
            folder => self.below(folder)?,
        };
        let mut paths = Vec::new();
        each_file(&start, &mut |path, _| {
            // Files that are being written are left out.
            let path = path.strip_prefix(&self.root).ok().and_then(Path::to_str);
            paths.extend(path.filter(|path| !path.ends_with(UNFINISHED)).map(str::to_owned));
            bounded(paths.len())
        })?;
        paths.retain(|path| path.starts_with(prefix));
        paths.sort();
        Ok(paths)
    }

    fn bytes(&self) -> io::Result<u64> {
        let (mut files, mut bytes) = (0, 0_u64);
        each_file(&self.root, &mut |_, entry| {
            bytes = bytes.saturating_add(entry.metadata()?.len());
            files += 1;
            bounded(files)
        })?;
        Ok(bytes)
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(self.below(path)?)?))
    }
}

impl FolderTree {
    /// The place of a path. Links are refused: no client can create one, so an existing link is not
    /// meant for clients.
    fn below(&self, path: &str) -> io::Result<PathBuf> {
        check(path)?;
        let mut place = self.root.clone();
        for part in path.split('/') {
            place.push(part);
            if fs::symlink_metadata(&place).is_ok_and(|metadata| metadata.is_symlink()) {
                return Err(not_a_file());
            }
        }
        Ok(place)
    }
}

/// Visits the files below a folder. A link may lead anywhere: it is none.
fn each_file(folder: &Path, visit: &mut dyn FnMut(&Path, &DirEntry) -> io::Result<()>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            each_file(&entry.path(), visit)?;
        } else if kind.is_file() {
            visit(&entry.path(), &entry)?;
        }
    }
    Ok(())
}

impl Bucket {
    fn at(&self, path: &str) -> ObjectPath {
        ObjectPath::from(format!("{}/{path}", self.prefix))
    }

    fn each_object(&self, folder: &str, visit: &mut dyn FnMut(&ObjectMeta)) -> io::Result<()> {
        let mut folders = vec![self.at(folder)];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            let within = (!folder.as_ref().is_empty()).then_some(&folder);
            let listed = self.runtime.block_on(self.store.list_with_delimiter(within))?;
            folders.extend(listed.common_prefixes);
            listed.objects.iter().for_each(&mut *visit);
            files += listed.objects.len();
            bounded(files + folders.len())?;
        }
        Ok(())
    }
}

impl Tree for Bucket {
    fn put(&self, path: &str, bytes: Vec<u8>) -> io::Result<()> {
        check(path)?;
        let path = self.at(path);
        self.runtime.block_on(self.store.put(&path, PutPayload::from(bytes)))?;
        Ok(())
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<String>> {
        let mut paths = Vec::new();
        self.each_object(folder_of(prefix), &mut |object| {
            let path = object.location.as_ref();
            let path = path.strip_prefix(self.prefix.as_ref()).unwrap_or(path);
            paths.push(path.trim_start_matches('/').to_owned());
        })?;
        paths.retain(|path| path.starts_with(prefix));
        paths.sort();
        Ok(paths)
    }

    fn bytes(&self) -> io::Result<u64> {
        let mut bytes = 0_u64;
        self.each_object("", &mut |object| bytes = bytes.saturating_add(object.size))?;
        Ok(bytes)
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>> {
        check(path)?;
        let path = self.at(path);
        let size = self.runtime.block_on(self.store.head(&path))?.size;
        Ok(Box::new(Object {
            store: self.store.clone(),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            path,
            size,
            position: 0,
            read: Bytes::new(),
        }))
    }
}

/// An object that is read piece by piece.
struct Object {
    store: Arc<dyn ObjectStore>,
    runtime: tokio::runtime::Runtime,
    path: ObjectPath,
    size: u64,
    position: u64,
    read: Bytes,
}

impl Read for Object {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read.is_empty() && self.position < self.size {
            let end = self.size.min(self.position + READ_BYTES);
            let range = self.position..end;
            self.read = self.runtime.block_on(self.store.get_range(&self.path, range))?;
            self.position = end;
        }
        let count = buffer.len().min(self.read.len());
        self.read.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_root() {
        let around = tempfile::tempdir().unwrap();
        let root = around.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(around.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(around.path().join("secret"), root.join("link")).unwrap();
        std::os::unix::fs::symlink(around.path(), root.join("folder")).unwrap();
        let tree = open_tree(root.to_str().unwrap()).unwrap();
        for path in [
            "../secret",
            "a/../../secret",
            "/secret",
            "",
            "a//b",
            "a/",
            ".",
            "a\0b",
            "a\\..\\b",
            "link",
            "folder/secret",
            "folder/root/x",
        ] {
            assert!(tree.put(path, b"x".to_vec()).is_err(), "{path:?}");
            assert!(tree.open(path).is_err(), "{path:?}");
        }
        for prefix in ["../", "a/../../x", "folder/", "folder/sec", "folder/root/"] {
            assert!(tree.list(prefix).is_err(), "{prefix}");
        }
        tree.put("a/b/c", b"content".to_vec()).unwrap();
        tree.put("a/d", b"".to_vec()).unwrap();
        assert_eq!(tree.list("").unwrap(), ["a/b/c", "a/d"]);
        assert_eq!(tree.list("a/b").unwrap(), ["a/b/c"]);
        assert_eq!(tree.list("none/").unwrap(), [""; 0]);
        assert_eq!(tree.bytes().unwrap(), "content".len() as u64);
        let mut read = String::new();
        tree.open("a/b/c").unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, "content");
        assert_eq!(fs::read_to_string(around.path().join("secret")).unwrap(), "secret");
    }
}
