//! Writing the files of one flush: nodes and values one after the other.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_env::{File, UNSYNCED_BYTES_MAX};

use super::files::Files;
use super::node::{Node, Place};
use super::root::Use;
use crate::error::StoreError;

/// Room for the first file of a flush, so that a small flush succeeds on a full disk.
pub(super) const RESERVE: &str = "base.next";
/// Size at which a file is complete: a sixteenth of the tree, so that emptying a file is a small
/// part of the whole.
const FILE_BYTES_MIN: u64 = 1 << 20;
const FILE_BYTES_MAX: u64 = 64 << 20;
const FILES_OF_A_TREE: u64 = 16;
/// Bytes that gather before they are written.
const BUFFER_BYTES: usize = 1 << 20;

pub(super) struct Writer {
    files: Arc<Files>,
    /// The written bytes will not be read soon.
    pub is_forgotten: bool,
    /// Use of all files, including those of this flush.
    pub uses: BTreeMap<u32, Use>,
    current: Option<Current>,
    /// The files of this flush.
    begun: Vec<u32>,
    /// The places of unneeded nodes and values.
    pub freed: Vec<Place>,
    /// Files without live bytes; known at the end.
    pub dropped: BTreeMap<u32, Use>,
    pub written_bytes: u64,
    /// Bytes that the tree needed before.
    live_bytes: u64,
}

struct Current {
    number: u32,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    /// The position of the buffer's next write, and the end of the synced part.
    offset: u64,
    synced: u64,
}

impl Writer {
    pub fn new(files: Arc<Files>, uses: BTreeMap<u32, Use>) -> Writer {
        Writer {
            files,
            live_bytes: uses.values().map(|usage| usage.live_bytes).sum(),
            is_forgotten: false,
            uses,
            current: None,
            begun: Vec::new(),
            freed: Vec::new(),
            dropped: BTreeMap::new(),
            written_bytes: 0,
        }
    }

    /// Adds the bytes to the newest file. They can be read at once.
    pub fn put(&mut self, content: &[u8]) -> Result<Place, StoreError> {
        self.put_bytes(content)
            .map_err(|source| StoreError::io("a file of the store", source))
    }

    fn put_bytes(&mut self, content: &[u8]) -> io::Result<Place> {
        let file_bytes = self.file_bytes();
        let is_full = self.current.as_ref().is_some_and(|current| current.end() >= file_bytes);
        if is_full {
            self.close()?;
        }
        if self.current.is_none() {
            self.begin()?;
        }
        let current = self.current.as_mut().expect("a file was begun");
        let place = Place::of(current.number, current.end() as u32, content);
        current.buffer.extend_from_slice(content);
        if current.buffer.len() >= BUFFER_BYTES {
            current.write()?;
        }
        let usage = self.uses.entry(place.file).or_default();
        usage.bytes += content.len() as u64;
        usage.live_bytes += content.len() as u64;
        self.written_bytes += content.len() as u64;
        Ok(place)
    }

    /// How large a file becomes.
    fn file_bytes(&self) -> u64 {
        let tree = self.live_bytes + self.written_bytes;
        (tree / FILES_OF_A_TREE).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX)
    }

    /// Marks the node or value at the place as unneeded.
    pub fn free(&mut self, place: &Place) {
        self.freed.push(*place);
        if let Some(usage) = self.uses.get_mut(&place.file) {
            usage.live_bytes = usage.live_bytes.saturating_sub(place.bytes.into());
        }
    }

    /// Reads a node of this flush or of an older flush.
    pub fn node(&self, place: &Place) -> Result<Arc<Node>, StoreError> {
        if let Some(current) = &self.current
            && current.number == place.file
            && let Some(start) = u64::from(place.offset).checked_sub(current.offset)
        {
            let bytes = &current.buffer[start as usize..][..place.bytes as usize];
            let node = Node::parse(bytes.to_vec()).expect("what was just written");
            return Ok(Arc::new(node));
        }
        self.files.node_once(place)
    }

    /// A value of an older flush.
    pub fn value(&mut self, place: &Place) -> Result<Vec<u8>, StoreError> {
        let is_unwritten = self
            .current
            .as_ref()
            .is_some_and(|current| current.number == place.file);
        if is_unwritten && let Some(current) = &mut self.current {
            current
                .write()
                .map_err(|source| StoreError::io(Files::name(place.file), source))?;
        }
        self.files.read(place)
    }

    /// Closes the newest file: later writes go to another file.
    pub fn end_file(&mut self) -> Result<(), StoreError> {
        self.close()
            .map_err(|source| StoreError::io("a file of the store", source))
    }

    /// Makes everything that was put durable.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        let uses = std::mem::take(&mut self.uses).into_iter();
        (self.uses, self.dropped) = uses.partition(|(_, usage)| usage.live_bytes > 0);
        let finished = self.close().and_then(|()| self.files.disk.sync_directory());
        finished.map_err(|source| StoreError::io("a file of the store", source))
    }

    /// Removes the started files, because they will not be needed. The first file is kept as the
    /// room of the next flush: on a full disk, the log may take room that is freed for a moment.
    pub fn abandon(&mut self) {
        self.current = None;
        let mut numbers = std::mem::take(&mut self.begun).into_iter();
        if let Some(first) = numbers.next()
            && let Err(error) = self.files.rename(first, RESERVE)
        {
            tracing::warn!(%error, "no room is kept for the next flush");
            self.files.remove(first);
        }
        numbers.for_each(|number| self.files.remove(number));
    }

    fn begin(&mut self) -> io::Result<()> {
        let number = self.files.next_number.fetch_add(1, Ordering::Relaxed);
        let name = Files::name(number);
        let disk = &self.files.disk;
        let file: Arc<dyn File> = match self.begun.is_empty() && disk.exists(RESERVE)? {
            true => {
                disk.rename(RESERVE, &name)?;
                disk.open(&name)?.into()
            }
            false => disk.create(&name)?.into(),
        };
        self.begun.push(number);
        self.files.keep_open(number, file.clone());
        self.current = Some(Current {
            number,
            file,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            offset: 0,
            synced: 0,
        });
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        let Some(mut current) = self.current.take() else {
            return Ok(());
        };
        current.write()?;
        // Gives back what was reserved and not needed.
        current.file.set_len(current.offset)?;
        current.file.sync_gently()?;
        if self.is_forgotten {
            current.file.forget(0, current.offset);
        }
        Ok(())
    }
}

impl Current {
    fn end(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    fn write(&mut self) -> io::Result<()> {
        for piece in self.buffer.chunks(UNSYNCED_BYTES_MAX as usize) {
            self.file.write_at(self.offset, piece)?;
            self.offset += piece.len() as u64;
            if self.file.sync_if_due(self.offset - self.synced)? {
                self.synced = self.offset;
            }
        }
        self.buffer.clear();
        Ok(())
    }
}
