//! Where backups are kept: a folder, or a bucket of an object store that speaks S3.
//!
//! A file appears whole or not at all, and is durable once `put` has answered.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as ObjectPath;
use object_store::{ClientConfigKey, Error, ObjectStore, PutMode, PutPayload, RetryConfig};
use tokio::runtime::Runtime;

use crate::{BackupError, passing};

/// Where the files of backups are. Names are flat.
pub trait Target: Send + Sync {
    /// All names, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// A whole file.
    fn get(&self, name: &str) -> io::Result<Vec<u8>>;
    /// A whole file of `bytes_max` bytes at most; `InvalidData` if it is longer.
    fn get_at_most(&self, name: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        let bytes = self.get(name)?;
        let fits = bytes.len() <= bytes_max;
        fits.then_some(bytes).ok_or_else(passing::too_long)
    }
    /// Writes a whole file.
    fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()>;
    /// Writes a whole file under an unused name; `AlreadyExists` if the name is used.
    fn put_new(&self, name: &str, bytes: Vec<u8>) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns true if no other process can be writing to it.
    fn is_held(&self) -> bool;
}

/// Opens a place that several processes write to, each under names of its own:
/// `s3://bucket/prefix`, or an existing folder. Each request to a bucket fails after `patience`.
pub fn open_shared(address: &str, patience: Duration) -> Result<Box<dyn Target>, BackupError> {
    match address.strip_prefix("s3://") {
        Some(location) => Ok(Box::new(Bucket::open_with(location, Some(patience))?)),
        None => open_target(address, false),
    }
}

/// Opens `s3://bucket/prefix`, with credentials and endpoint from the usual `AWS_` variables, or a
/// folder. `create`: a missing folder is created, and the process holds it exclusively.
pub fn open_target(address: &str, create: bool) -> Result<Box<dyn Target>, BackupError> {
    if let Some(location) = address.strip_prefix("s3://") {
        return Ok(Box::new(Bucket::open(location)?));
    }
    if address.contains("://") {
        return Err(BackupError::Address(format!(
            "{address} is neither a folder nor s3://BUCKET/PREFIX"
        )));
    }
    let path = PathBuf::from(address);
    if create {
        fs::create_dir_all(&path).map_err(BackupError::target(address))?;
    } else if !path.is_dir() {
        return Err(BackupError::Address(format!("there is no folder {address}")));
    }
    let lock = create.then(|| Lock::take(&path)).transpose()?;
    Ok(Box::new(Folder { path, lock }))
}

/// The target of one partition's backups below the server's target, which is itself the first
/// partition's, like the layout of data folders.
pub fn partition_address(address: &str, partition: u32) -> String {
    match partition {
        0 => address.to_owned(),
        number => format!("{}/partitions/{number}", address.trim_end_matches('/')),
    }
}

/// Writes down that the target has the backups of a server with `count` partitions.
///
/// Errors: `Target`; `Damaged`; `Address`: it has the backups of a server with more.
pub fn state_partitions(target: &dyn Target, count: u32) -> Result<(), BackupError> {
    let present = partitions_in(target)?;
    if present > count {
        let message =
            format!("the target has backups of a server with {present} partitions, and this server has {count}");
        return Err(BackupError::Address(message));
    }
    if present == count {
        return Ok(());
    }
    let stated = serde_json::json!({ "partitions": count }).to_string();
    target
        .put(PARTITIONS, stated.into_bytes())
        .map_err(BackupError::target(PARTITIONS))
}

/// Returns how many partitions the target has backups of: one, unless it states otherwise.
pub fn partitions_in(target: &dyn Target) -> Result<u32, BackupError> {
    let names = target.list().map_err(BackupError::target("the list of files"))?;
    if !names.iter().any(|name| name == PARTITIONS) {
        return Ok(1);
    }
    let stated = target
        .get_at_most(PARTITIONS, PARTITIONS_BYTES_MAX)
        .map_err(BackupError::target(PARTITIONS))?;
    let stated: Option<serde_json::Value> = serde_json::from_slice(&stated).ok();
    let count = stated.and_then(|stated| stated["partitions"].as_u64());
    let count = count
        .and_then(|count| u32::try_from(count).ok())
        .filter(|count| *count > 0);
    count.ok_or(BackupError::Damaged {
        file: PARTITIONS.into(),
        offset: 0,
        reason: "it does not say how many partitions there are",
    })
}

const PARTITIONS: &str = "partitions.json";
const PARTITIONS_BYTES_MAX: usize = 1024;

struct Folder {
    path: PathBuf,
    /// Held while writing.
    lock: Option<Lock>,
}

const LOCK: &str = "lock";

/// A lock file of a folder, removed when its process releases it.
struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Two that write would take each other's parts for leftovers.
    fn take(folder: &Path) -> Result<Lock, BackupError> {
        let path = folder.join(LOCK);
        loop {
            let file = File::create(&path).map_err(BackupError::target(LOCK))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let message = format!("another backup is being taken into {}", folder.display());
                    return Err(BackupError::Address(message));
                }
                Err(TryLockError::Error(error)) => return Err(BackupError::target(LOCK)(error)),
            }
            let lock = Lock {
                path: path.clone(),
                file,
            };
            // The previous holder may have removed it in between: then another process may hold
            // another.
            if lock.is_in_place().map_err(BackupError::target(LOCK))? {
                return Ok(lock);
            }
        }
    }

    fn is_in_place(&self) -> io::Result<bool> {
        let metadata = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(named) => Ok((metadata.dev(), metadata.ino()) == (named.dev(), named.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_in_place().unwrap_or(false) {
            // A remaining file is empty, and the next backup takes the lock.
            let _ = fs::remove_file(&self.path);
        }
    }
}

pub(crate) const UNFINISHED: &str = ".unfinished";

impl Target for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        passing::read(&self.path.join(name))
    }

    fn get_at_most(&self, name: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        passing::read_at_most(&self.path.join(name), bytes_max)
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        let unfinished = self.path.join(format!("{name}{UNFINISHED}"));
        passing::write(&unfinished, &bytes)?;
        fs::rename(&unfinished, self.path.join(name))?;
        sync_folder(&self.path)
    }

    fn put_new(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        match self.path.join(name).try_exists()? {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            // A writer holds the lock.
            false => self.put(name, bytes),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn is_held(&self) -> bool {
        self.lock.is_some()
    }
}

pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A prefix in a bucket.
pub(crate) struct Bucket {
    pub store: Arc<dyn ObjectStore>,
    pub prefix: ObjectPath,
    pub runtime: Runtime,
}

impl Bucket {
    pub fn open(address: &str) -> Result<Bucket, BackupError> {
        Bucket::open_with(address, None)
    }

    fn open_with(address: &str, patience: Option<Duration>) -> Result<Bucket, BackupError> {
        let (bucket, prefix) = address.split_once('/').unwrap_or((address, ""));
        let wrong = |error: object_store::Error| BackupError::Address(error.to_string());
        // The environment is the operator's: an unencrypted store requires AWS_ALLOW_HTTP.
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        if let Some(patience) = patience {
            let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
            builder = builder
                .with_config(timeout, format!("{} seconds", patience.as_secs()))
                .with_retry(RetryConfig {
                    max_retries: 1,
                    retry_timeout: patience,
                    ..RetryConfig::default()
                });
        }
        let store = builder.build().map_err(wrong)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(BackupError::target(address))?;
        Ok(Bucket {
            store: Arc::new(store),
            prefix: ObjectPath::from(prefix),
            runtime,
        })
    }

    fn path(&self, name: &str) -> ObjectPath {
        self.prefix.child(name)
    }
}

impl Target for Bucket {
    fn list(&self) -> io::Result<Vec<String>> {
        let prefix = (!self.prefix.as_ref().is_empty()).then_some(&self.prefix);
        let listed = self.runtime.block_on(self.store.list_with_delimiter(prefix))?;
        let names = listed.objects.iter().filter_map(|object| object.location.filename());
        Ok(names.map(str::to_owned).collect())
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let path = self.path(name);
        let bytes = self
            .runtime
            .block_on(async { self.store.get(&path).await?.bytes().await })?;
        Ok(bytes.into())
    }

    fn get_at_most(&self, name: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        let path = self.path(name);
        let bytes = self.runtime.block_on(async {
            let object = self.store.get(&path).await?;
            match object.meta.size > bytes_max as u64 {
                true => Err(passing::too_long()),
                false => Ok(object.bytes().await?),
            }
        })?;
        Ok(bytes.into())
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        let path = self.path(name);
        self.runtime.block_on(self.store.put(&path, PutPayload::from(bytes)))?;
        Ok(())
    }

    fn put_new(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        let (path, payload) = (self.path(name), PutPayload::from(bytes));
        let put = self.store.put_opts(&path, payload.clone(), PutMode::Create.into());
        match self.runtime.block_on(put) {
            Ok(_) => Ok(()),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Err(io::ErrorKind::AlreadyExists.into()),
            // A store without conditional writes: then the operator must prevent concurrent
            // backups.
            Err(Error::NotImplemented | Error::NotSupported { .. }) => {
                self.runtime.block_on(self.store.put(&path, payload))?;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        Ok(self.runtime.block_on(self.store.delete(&path))?)
    }

    fn is_held(&self) -> bool {
        false
    }
}
