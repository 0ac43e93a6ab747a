//! The RDB file that SAVE and BGSAVE write beside the checkpoint, if the operator wants one.
//!
//! It shows one version and is written while others write. A new file takes the place of the old
//! one once it is whole on disk.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quartet_layer_redis::Redis;
use quartet_layer_redis::execution::image::{Broken, Written};

const OWNER_ONLY: u32 = 0o600;

pub struct RdbFile {
    path: PathBuf,
    /// One at a time.
    is_writing: AtomicBool,
    /// The time of the newest complete file, in microseconds since the Unix epoch; zero if none was
    /// written.
    written_micros: AtomicU64,
}

impl RdbFile {
    pub fn new(path: &Path) -> RdbFile {
        RdbFile {
            path: path.to_owned(),
            is_writing: AtomicBool::new(false),
            written_micros: AtomicU64::new(0),
        }
    }
}

impl quartet_layer_redis::RdbFile for RdbFile {
    fn written_micros(&self) -> u64 {
        self.written_micros.load(Ordering::Relaxed)
    }

    fn write(&self, layer: &Redis) -> Result<(), String> {
        if self.is_writing.swap(true, Ordering::SeqCst) {
            return Err("ERR Background save already in progress".into());
        }
        let written = self.write_now(layer);
        self.is_writing.store(false, Ordering::SeqCst);
        match written {
            Ok(written) => {
                tracing::info!(keys = written.keys, bytes = written.bytes, path = %self.path.display(), "wrote an RDB file");
                self.written_micros.store(layer.engine.now_micros(), Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, path = %self.path.display(), "writing an RDB file");
                Err(format!("ERR writing the RDB file: {error}"))
            }
        }
    }
}

impl RdbFile {
    fn write_now(&self, layer: &Redis) -> io::Result<Written> {
        let mut image = layer.image(&mut layer.engine.partition());
        // A file must not show commits that a crash can undo.
        if !layer.engine.wait_durable(image.dependency()) {
            return Err(io::Error::other("the log failed"));
        }
        let new_path = self.path.with_extension("rdb.new");
        match fs::remove_file(&new_path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(OWNER_ONLY)
            .open(&new_path)?;
        let written = image.write(None, &mut |part| file.write_all(part));
        let written = match written {
            Ok(written) => written,
            Err(broken) => {
                let _ = fs::remove_file(&new_path);
                return Err(match broken {
                    Broken::Unreadable => io::Error::other("the disk did not give back what is stored"),
                    Broken::Taker(error) => error,
                });
            }
        };
        file.sync_all()?;
        fs::rename(&new_path, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(written)
    }
}

/// Writes the layer's file on a thread of its own.
pub fn write_in_background(layer: Arc<Redis>) {
    // Errors are in the server's log.
    let started = std::thread::Builder::new()
        .name("rdb".into())
        .spawn(move || drop(layer.write_rdb_file()));
    if let Err(error) = started {
        tracing::error!(%error, "starting the thread that writes an RDB file");
    }
}
