//! Backups of a running engine: restored to any version they equal the state then; damaged or
//! unfinished backups are detected.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quartet_backup::{
    Anchor, Archive, BackupError, BackupOptions, BackupStart, BackupSummary, Gap, Restore, Restored, Session, Source,
    Target, open_target, restore, take,
};
use quartet_engine::{Durability, Engine, EngineOptions, Parts, Space, StoreKind};
use quartet_env::{FaultyDisk, ManualClock};
use quartet_log::FileLogOptions;
use quartet_model::{DatabaseId, LayerId, LogSequence, Version};

const SPACE: Space = Space {
    database: DatabaseId(1),
    layer: LayerId::Redis,
    durability: Durability::Always,
};

fn open(disk: &FaultyDisk, kind: StoreKind) -> Arc<Engine> {
    open_keeping(disk, kind, 1 << 30)
}

fn open_keeping(disk: &FaultyDisk, kind: StoreKind, log_retention_bytes: u64) -> Arc<Engine> {
    open_at(disk, kind, log_retention_bytes, Arc::new(ManualClock::new(1)))
}

fn open_at(disk: &FaultyDisk, kind: StoreKind, log_retention_bytes: u64, clock: Arc<ManualClock>) -> Arc<Engine> {
    let log = FileLogOptions {
        segment_bytes: 4096,
        ..FileLogOptions::default()
    };
    let options = EngineOptions {
        kept_bytes: 1024,
        checkpoint_log_bytes: 30_000,
        store: Some(kind),
        log_retention_bytes,
        // A checkpoint between two backups leaves the log of both.
        log_retention: Duration::from_secs(3600),
        ..EngineOptions::default()
    };
    let parts = Parts::with_file_log(Arc::new(disk.clone()), clock, log);
    let ended = Box::new(|error: &quartet_log::LogError| panic!("the log failed: {error}"));
    Arc::new(Engine::open_with(parts, options, ended, &mut |_| {}).unwrap())
}

/// Returns an engine's rows and log within this process, up to a number of answers, while others
/// write to it.
struct Beside {
    engine: Arc<Engine>,
    session: Option<Session>,
    answers_left: usize,
    /// Before each of the first answers there is another transaction.
    writes_left: usize,
    random: Random,
    written: Vec<(Version, u128)>,
    now_micros: u64,
}

impl Beside {
    fn new(engine: &Arc<Engine>) -> Beside {
        Beside {
            engine: engine.clone(),
            session: None,
            answers_left: usize::MAX,
            writes_left: 0,
            random: Random(engine.durable().0),
            written: Vec::new(),
            now_micros: 0,
        }
    }

    fn session(&mut self) -> Result<&mut Session, BackupError> {
        if self.answers_left == 0 {
            return Err(BackupError::Source("gone".into()));
        }
        self.answers_left -= 1;
        if self.writes_left > 0 {
            self.writes_left -= 1;
            self.written.push(write(&self.engine, &mut self.random));
        }
        Ok(self.session.as_mut().expect("it was begun"))
    }
}

impl Source for Beside {
    fn begin(&mut self, anchor: Option<Anchor>, is_full: bool) -> Result<BackupStart, BackupError> {
        let (session, start) = Session::begin(self.engine.clone(), anchor, is_full)?;
        self.session = Some(session);
        Ok(start)
    }

    fn rows(&mut self, after: Option<&[u8]>, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        // Small pieces, so that there are many.
        self.session()?.rows(after, bytes_max.min(2000))
    }

    fn log(&mut self, from: LogSequence, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.session()?.log(from, bytes_max.min(2000))
    }

    fn now_micros(&self) -> u64 {
        self.now_micros
    }
}

/// Files that only old versions need are removed, never a file that a younger version needs; a base
/// older than a day is followed by another.
#[test]
fn versions_that_are_too_old_are_removed() {
    let keep = Duration::from_hours(72);
    let (disk, mut random, clock) = (FaultyDisk::new(), Random(11), Arc::new(ManualClock::new(1)));
    let engine = open_at(&disk, StoreKind::Memory, 1 << 30, clock.clone());
    let folder = tempfile::tempdir().unwrap();
    let target = target(&folder);
    let mut states = Vec::new();
    let mut removed = 0;
    for round in 0..12 {
        let now = Duration::from_hours(24 + 12 * round).as_micros() as u64;
        clock.set(now);
        states.push(write(&engine, &mut random));
        let options = BackupOptions {
            keep: Some(keep),
            ..BackupOptions::default()
        };
        let mut source = Beside::new(&engine);
        source.now_micros = now;
        let summary = take(target.as_ref(), &mut source, &options, &mut |_| {}, &mut |_| true).unwrap();
        assert_eq!((summary.is_full, summary.gap), (round % 3 == 0, None), "round {round}");
        let oldest = Archive::read(target.as_ref()).unwrap().chains().unwrap()[0].oldest();
        assert!(
            oldest.0 <= now.saturating_sub(keep.as_micros() as u64).max(states[0].0.0),
            "round {round}"
        );
        removed = states.iter().filter(|(version, _)| *version < oldest).count();
        for &(version, hash) in &states[removed..] {
            let (_, restored) = restored(target.as_ref(), Some(version), StoreKind::Memory).unwrap();
            assert_eq!(
                (restored.version, restored.state_hash),
                (version, hash),
                "round {round}"
            );
        }
    }
    assert_eq!(removed, 3, "those of the first base");
    assert!(Archive::read(target.as_ref()).unwrap().leftovers.is_empty());
    let refused_restore = restored(target.as_ref(), Some(states[0].0), StoreKind::Memory);
    assert!(matches!(refused_restore, Err(BackupError::NotCovered(_))));
}

fn take_from(engine: &Arc<Engine>, target: &dyn Target, full: bool) -> Result<BackupSummary, BackupError> {
    let options = BackupOptions {
        full,
        ..BackupOptions::default()
    };
    take(target, &mut Beside::new(engine), &options, &mut |_| {}, &mut |_| true)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Commits one transaction durably, and returns its version and the state's hash.
fn write(engine: &Engine, random: &mut Random) -> (Version, u128) {
    let executed = engine.partition().execute(SPACE, |tx| -> Result<(), ()> {
        for _ in 0..1 + random.below(5) {
            let key = [random.below(60) as u8];
            match random.below(12) {
                0 => drop(tx.clear(&key)),
                1 => drop(tx.clear_range(&key, &[key[0] + 6])),
                2..6 => tx.patch_parts(
                    &[&key],
                    random.below(300) as usize,
                    &vec![7; random.below(300) as usize],
                ),
                _ => drop(tx.set(&key, &vec![random.below(256) as u8; random.below(300) as usize])),
            }
        }
        tx.set(b"always", b"something");
        Ok(())
    });
    let ((), version) = executed.unwrap();
    assert!(engine.wait_durable(version));
    (version, engine.state_hash(None).unwrap())
}

fn restored(target: &dyn Target, at: Option<Version>, kind: StoreKind) -> Result<(FaultyDisk, Restored), BackupError> {
    let chain = Archive::read(target)?
        .chain_at(at)?
        .up_to(at.unwrap_or(Version(u64::MAX)));
    chain.verify(target, &mut |_| {})?;
    let disk = FaultyDisk::new();
    let options = Restore {
        at,
        engine: kind,
        database: None,
    };
    let restored = restore(target, &chain, Arc::new(disk.clone()), options, &mut |_| {})?;
    Ok((disk, restored))
}

fn target(folder: &tempfile::TempDir) -> Box<dyn Target> {
    open_target(folder.path().to_str().unwrap(), true).unwrap()
}

fn any_covered_version_is_restored(kind: StoreKind) {
    let (disk, mut random) = (FaultyDisk::new(), Random(7));
    let engine = open(&disk, kind);
    for _ in 0..30 {
        write(&engine, &mut random);
    }
    let folder = tempfile::tempdir().unwrap();
    let target = target(&folder);
    let mut states = Vec::new();
    for round in 0..12 {
        let options = BackupOptions {
            full: round == 6 || round == 8,
            ..BackupOptions::default()
        };
        let mut source = Beside::new(&engine);
        source.writes_left = 20;
        let summary = take(target.as_ref(), &mut source, &options, &mut |_| {}, &mut |_| true).unwrap();
        assert_eq!(summary.is_full, round == 0 || options.full, "round {round}");
        assert_eq!(summary.gap, None);
        states.append(&mut source.written);
        for _ in 0..40 {
            states.push(write(&engine, &mut random));
        }
    }
    take_from(&engine, target.as_ref(), false).unwrap();
    let newest_covered = states[states.len() - 1].0;
    for (number, &(version, hash)) in states.iter().enumerate() {
        let as_kind = [StoreKind::Memory, StoreKind::Ssd][number % 2];
        let (disk, restored) = restored(target.as_ref(), Some(version), as_kind).unwrap();
        assert_eq!(
            (restored.version, restored.state_hash),
            (version, hash),
            "at {version:?}"
        );
        let opened = open(&disk, as_kind);
        assert_eq!(opened.state_hash(None).unwrap(), hash, "at {version:?}, opened");
        let (later, _) = write(&opened, &mut random);
        assert!(later > version);
        Arc::into_inner(opened).unwrap().close().unwrap();
    }
    let (_, newest) = restored(target.as_ref(), None, kind).unwrap();
    assert_eq!(newest.state_hash, engine.state_hash(None).unwrap());
    let beyond = Version(newest_covered.0 + 1);
    for uncovered in [Version(1), beyond] {
        let refused = restored(target.as_ref(), Some(uncovered), kind);
        assert!(matches!(refused, Err(BackupError::NotCovered(_))), "{uncovered:?}");
    }
}

#[test]
fn a_memory_engine_is_restored_to_any_covered_version() {
    any_covered_version_is_restored(StoreKind::Memory);
}

#[test]
fn an_ssd_engine_is_restored_to_any_covered_version() {
    any_covered_version_is_restored(StoreKind::Ssd);
}

/// Counts the parts that were read and are not used up.
struct Counted<'t> {
    target: &'t dyn Target,
    /// Read, or being read, and used up.
    parts: Mutex<(usize, usize)>,
}

/// One is used, one waits, one is read.
const PARTS_HELD_MAX: usize = 3;

impl Counted<'_> {
    fn used_up(&self) {
        self.parts.lock().unwrap().1 += 1;
        // A reader that reads ahead without a bound has the time to.
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Target for Counted<'_> {
    fn get(&self, name: &str) -> std::io::Result<Vec<u8>> {
        if name.starts_with("part-") {
            let mut parts = self.parts.lock().unwrap();
            parts.0 += 1;
            assert!(parts.0 - parts.1 <= PARTS_HELD_MAX, "{parts:?}");
        }
        self.target.get(name)
    }

    fn list(&self) -> std::io::Result<Vec<String>> {
        self.target.list()
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> std::io::Result<()> {
        self.target.put(name, bytes)
    }

    fn put_new(&self, name: &str, bytes: Vec<u8>) -> std::io::Result<()> {
        self.target.put_new(name, bytes)
    }

    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.target.remove(name)
    }

    fn is_held(&self) -> bool {
        self.target.is_held()
    }
}

/// A part is as large as one record may be: a hundred that were read ahead took gigabytes.
#[test]
fn a_restore_holds_a_few_parts() {
    let (disk, mut random) = (FaultyDisk::new(), Random(14));
    let engine = open(&disk, StoreKind::Memory);
    let folder = tempfile::tempdir().unwrap();
    let target = target(&folder);
    for _ in 0..30 {
        write(&engine, &mut random);
        take_from(&engine, target.as_ref(), false).unwrap();
    }
    let chain = Archive::read(target.as_ref()).unwrap().chain_at(None).unwrap();
    let parts = chain.steps.iter().map(|step| step.parts.len()).sum::<usize>();
    assert!(parts >= 30);
    let counted = || Counted {
        target: target.as_ref(),
        parts: Mutex::default(),
    };
    let verified = counted();
    chain.verify(&verified, &mut |_| verified.used_up()).unwrap();
    assert_eq!(*verified.parts.lock().unwrap(), (parts, parts));
    for kind in StoreKind::ALL {
        let (read, disk) = (counted(), Arc::new(FaultyDisk::new()));
        let options = Restore {
            at: None,
            engine: kind,
            database: None,
        };
        let restored = restore(&read, &chain, disk, options, &mut |_| read.used_up()).unwrap();
        assert_eq!(restored.state_hash, engine.state_hash(None).unwrap());
        assert_eq!(*read.parts.lock().unwrap(), (parts, parts));
    }
}

#[test]
fn versions_that_a_trimmed_log_has_lost_are_named_and_refused() {
    let (disk, mut random) = (FaultyDisk::new(), Random(12));
    let engine = open_keeping(&disk, StoreKind::Memory, 10_000);
    let folder = tempfile::tempdir().unwrap();
    let target = target(&folder);
    let (first, _) = write(&engine, &mut random);
    take_from(&engine, target.as_ref(), false).unwrap();
    let mut lost = Vec::new();
    while engine.read_log(LogSequence(1)).is_ok() {
        assert!(lost.len() < 1000, "the log is not trimmed");
        for _ in 0..20 {
            lost.push(write(&engine, &mut random).0);
        }
        engine.checkpoint().unwrap();
    }
    let summary = take_from(&engine, target.as_ref(), true).unwrap();
    let newest = lost.pop().unwrap();
    let gap = Gap {
        after: first,
        before: newest,
    };
    assert_eq!(summary.gap, Some(gap));
    for version in lost {
        let refused = restored(target.as_ref(), Some(version), StoreKind::Memory);
        assert!(matches!(refused, Err(BackupError::NotCovered(_))), "{version:?}");
    }
    for version in [first, newest] {
        restored(target.as_ref(), Some(version), StoreKind::Memory).unwrap();
    }
}

/// Repeated backups never contain a transaction twice.
#[test]
fn another_log_starts_a_new_chain() {
    let (disk, mut random) = (FaultyDisk::new(), Random(8));
    let engine = open(&disk, StoreKind::Memory);
    let folder = tempfile::tempdir().unwrap();
    let target = target(&folder);
    write(&engine, &mut random);
    take_from(&engine, target.as_ref(), false).unwrap();
    let (version, _) = write(&engine, &mut random);
    write(&engine, &mut random);
    take_from(&engine, target.as_ref(), false).unwrap();
    // The server continues from a restored state: the same sequences hold other transactions.
    let (disk, _) = restored(target.as_ref(), Some(version), StoreKind::Memory).unwrap();
    let other = open(&disk, StoreKind::Memory);
    for _ in 0..5 {
        write(&other, &mut random);
    }
    let summary = take_from(&other, target.as_ref(), false).unwrap();
    assert!(summary.is_full);
    let (_, newest) = restored(target.as_ref(), None, StoreKind::Memory).unwrap();
    assert_eq!(newest.state_hash, other.state_hash(None).unwrap());
    // Nothing new is no step.
    assert!(take_from(&other, target.as_ref(), false).unwrap().steps.is_empty());
}

#[test]
fn an_interrupted_backup_does_not_count_and_the_next_continues() {
    let (disk, mut random) = (FaultyDisk::new(), Random(9));
    let engine = open(&disk, StoreKind::Memory);
    let folder = tempfile::tempdir().unwrap();
    let target = target(&folder);
    for answers in 0..25 {
        for _ in 0..10 {
            write(&engine, &mut random);
        }
        let mut source = Beside::new(&engine);
        source.answers_left = answers;
        let ended = take(
            target.as_ref(),
            &mut source,
            &BackupOptions::default(),
            &mut |_| {},
            &mut |_| true,
        );
        let hash = engine.state_hash(None).unwrap();
        if ended.is_ok() {
            assert_eq!(
                restored(target.as_ref(), None, StoreKind::Memory).unwrap().1.state_hash,
                hash
            );
            continue;
        }
        // The earlier steps are still whole, and so is the next step.
        if answers > 20 {
            take_from(&engine, target.as_ref(), false).unwrap();
            assert_eq!(
                restored(target.as_ref(), None, StoreKind::Memory).unwrap().1.state_hash,
                hash
            );
        }
    }
    take_from(&engine, target.as_ref(), true).unwrap();
    assert!(Archive::read(target.as_ref()).unwrap().leftovers.is_empty());
}

/// Like an object store: no process can hold it.
struct Unheld<'t>(&'t dyn Target);

impl Target for Unheld<'_> {
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.0.list()
    }

    fn get(&self, name: &str) -> std::io::Result<Vec<u8>> {
        self.0.get(name)
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> std::io::Result<()> {
        self.0.put(name, bytes)
    }

    fn put_new(&self, name: &str, bytes: Vec<u8>) -> std::io::Result<()> {
        self.0.put_new(name, bytes)
    }

    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.0.remove(name)
    }

    fn is_held(&self) -> bool {
        false
    }
}

/// Takes another backup into the same target before one of its answers.
struct Meanwhile<'t> {
    source: Beside,
    target: &'t dyn Target,
    answers_left: usize,
}

impl Meanwhile<'_> {
    fn count(&mut self) {
        if self.answers_left == 0 {
            write(&self.source.engine, &mut self.source.random);
            take_from(&self.source.engine, self.target, false).unwrap();
        }
        self.answers_left = self.answers_left.wrapping_sub(1);
    }
}

impl Source for Meanwhile<'_> {
    fn begin(&mut self, anchor: Option<Anchor>, is_full: bool) -> Result<BackupStart, BackupError> {
        self.count();
        self.source.begin(anchor, is_full)
    }

    fn rows(&mut self, after: Option<&[u8]>, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.count();
        self.source.rows(after, bytes_max)
    }

    fn log(&mut self, from: LogSequence, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.count();
        self.source.log(from, bytes_max)
    }

    fn now_micros(&self) -> u64 {
        0
    }
}

#[test]
fn two_at_the_same_time_damage_nothing_and_one_may_be_refused() {
    let (disk, mut random) = (FaultyDisk::new(), Random(13));
    let engine = open(&disk, StoreKind::Memory);
    let folder = tempfile::tempdir().unwrap();
    let target = target(&folder);
    let shared = Unheld(target.as_ref());
    let (mut refused, mut readable) = (0, 0);
    for answers_left in 0..30 {
        for _ in 0..10 {
            write(&engine, &mut random);
        }
        let mut source = Meanwhile {
            source: Beside::new(&engine),
            target: &shared,
            answers_left,
        };
        let options = BackupOptions {
            full: answers_left % 2 == 0,
            ..BackupOptions::default()
        };
        match take(&shared, &mut source, &options, &mut |_| {}, &mut |_| true) {
            Ok(_) => readable += 1,
            Err(BackupError::Address(said)) => {
                assert!(said.contains("at the same time"), "{said}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
        for chain in Archive::read(&shared).unwrap().chains().unwrap() {
            chain.verify(&shared, &mut |_| {}).unwrap();
        }
        take_from(&engine, &shared, false).unwrap();
        let (_, report) = restored(&shared, None, StoreKind::Memory).unwrap();
        assert_eq!(report.state_hash, engine.state_hash(None).unwrap());
    }
    assert!(refused > 5 && readable > 5, "{refused} refused, {readable} taken");
    take_from(&engine, &shared, true).unwrap();
    assert!(Archive::read(&shared).unwrap().leftovers.is_empty());
}

/// A target that fails after some files.
struct Failing<'t> {
    target: &'t dyn Target,
    puts_left: Mutex<usize>,
}

impl Target for Failing<'_> {
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.target.list()
    }

    fn get(&self, name: &str) -> std::io::Result<Vec<u8>> {
        self.target.get(name)
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> std::io::Result<()> {
        let mut puts = self.puts_left.lock().unwrap();
        *puts = puts.checked_sub(1).ok_or(std::io::ErrorKind::StorageFull)?;
        self.target.put(name, bytes)
    }

    fn put_new(&self, name: &str, bytes: Vec<u8>) -> std::io::Result<()> {
        let mut puts = self.puts_left.lock().unwrap();
        *puts = puts.checked_sub(1).ok_or(std::io::ErrorKind::StorageFull)?;
        self.target.put_new(name, bytes)
    }

    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.target.remove(name)
    }

    fn is_held(&self) -> bool {
        self.target.is_held()
    }
}

#[test]
fn a_target_that_fails_keeps_what_it_had() {
    let (disk, mut random) = (FaultyDisk::new(), Random(10));
    let engine = open(&disk, StoreKind::Memory);
    let folder = tempfile::tempdir().unwrap();
    let target = target(&folder);
    let mut last = None;
    for puts in [0, 1, 2, 3, 4, 0, 1, 2] {
        let (_, hash) = write(&engine, &mut random);
        let failing = Failing {
            target: target.as_ref(),
            puts_left: puts.into(),
        };
        match take_from(&engine, &failing, false) {
            Ok(_) => last = Some(hash),
            Err(error) => assert!(matches!(error, BackupError::Target { .. }), "{error}"),
        }
        let result = restored(target.as_ref(), None, StoreKind::Memory);
        match (result, last) {
            // The base may be whole, while the following step of the log is not.
            (Ok((_, report)), _) => assert!(report.rows > 0),
            (Err(error), last) => assert!(last.is_none(), "{error}"),
        }
    }
    assert!(last.is_some());
}

#[test]
fn damage_is_noticed_and_named() {
    let (disk, mut random) = (FaultyDisk::new(), Random(11));
    let engine = open(&disk, StoreKind::Memory);
    let folder = tempfile::tempdir().unwrap();
    let target = target(&folder);
    for _ in 0..4 {
        for _ in 0..10 {
            write(&engine, &mut random);
        }
        take_from(&engine, target.as_ref(), false).unwrap();
    }
    let (_, whole) = restored(target.as_ref(), None, StoreKind::Memory).unwrap();
    let mut names = target.list().unwrap();
    names.retain(|name| name != "lock");
    let mut noticed = 0;
    for _ in 0..600 {
        let name = &names[random.below(names.len() as u64) as usize];
        let path = folder.path().join(name);
        let bytes = fs::read(&path).unwrap();
        let at = random.below(bytes.len() as u64) as usize;
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << random.below(8);
        fs::write(&path, &flipped).unwrap();
        match restored(target.as_ref(), None, StoreKind::Memory) {
            // White space of the newest manifest.
            Ok((_, report)) => assert_eq!(report, whole, "{name}, byte {at}"),
            Err(error) => {
                noticed += 1;
                let is_named = matches!(&error, BackupError::Damaged { file, offset, .. }
                    if file != name || !name.starts_with("part") || *offset <= at as u64 + 1);
                assert!(
                    is_named || !matches!(error, BackupError::Damaged { .. }),
                    "{name}, byte {at}: {error}"
                );
            }
        }
        fs::write(&path, &bytes).unwrap();
    }
    assert!(noticed > 500, "{noticed}");
    let newest = names.iter().filter(|name| name.starts_with("manifest")).max().unwrap();
    for name in names.iter().filter(|name| *name != newest) {
        let path = folder.path().join(name);
        let bytes = fs::read(&path).unwrap();
        for cut in [0, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&path, &bytes[..cut]).unwrap();
            assert!(
                restored(target.as_ref(), None, StoreKind::Memory).is_err(),
                "{name} cut to {cut}"
            );
        }
        fs::remove_file(&path).unwrap();
        assert!(
            restored(target.as_ref(), None, StoreKind::Memory).is_err(),
            "without {name}"
        );
        fs::write(&path, &bytes).unwrap();
    }
    assert_eq!(restored(target.as_ref(), None, StoreKind::Memory).unwrap().1, whole);
}
