//! Indexes that are dropped after an idle time (TEMPORARY).
//!
//! ```text
//! 'S' 't' number    when the index was used, as far as it was written down: milliseconds since the Unix epoch (8)
//! ```
//!
//! A search only reads, so its use is noted in memory. The cycle of expiry writes it down when it
//! is a step later than the row says, and drops what was idle for too long. Uses that were not
//! written down before the layer was opened are unknown: then the last one counts as a step later
//! than its row, so that no index goes too early.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use quartet_engine::{Transaction, UniqueId};

use crate::indexes::catalogue::Index;
use crate::indexes::marks::numbered;

/// Indexes whose uses are kept in memory. Those of all are forgotten when there are more.
const KEPT_MAX: usize = 4096;

/// The longest delay of a use's row, as a part of the index's idle time, and in milliseconds.
const STEPS: u64 = 10;
const STEP_MS_MIN: u64 = 100;
const STEP_MS_MAX: u64 = 60_000;

fn step_ms(idle_ms: u64) -> u64 {
    (idle_ms / STEPS).clamp(STEP_MS_MIN, STEP_MS_MAX)
}

/// The last uses of temporary indexes.
#[derive(Default)]
pub struct Uses(Mutex<BTreeMap<UniqueId, u64>>);

impl Uses {
    /// Notes that an index is used, if it is temporary.
    pub fn note(&self, index: &Index, now_ms: u64) {
        if index.definition.idle_ms.is_none() {
            return;
        }
        let mut uses = self.0.lock();
        if uses.len() >= KEPT_MAX {
            uses.clear();
        }
        let used_ms = uses.entry(index.head.number).or_default();
        *used_ms = now_ms.max(*used_ms);
    }

    /// Writes down when an index was used if that is due. Returns true if it was idle for too long.
    pub fn keep(&self, tx: &mut Transaction<'_>, index: &Index, now_ms: u64) -> bool {
        let Some(idle_ms) = index.definition.idle_ms else {
            return false;
        };
        let (written_ms, step_ms) = (written_ms(tx, &index.head.number), step_ms(idle_ms));
        let used_ms = *self
            .0
            .lock()
            .entry(index.head.number)
            .or_insert(written_ms.saturating_add(step_ms));
        if used_ms > written_ms.saturating_add(step_ms) {
            write(tx, &index.head.number, used_ms);
        }
        now_ms >= used_ms.saturating_add(idle_ms)
    }

    pub fn forget(&self, number: &UniqueId) {
        self.0.lock().remove(number);
    }
}

fn written_ms(tx: &mut Transaction<'_>, number: &UniqueId) -> u64 {
    let row = tx.get(&numbered(b't', number));
    let bytes = row.and_then(|row| row.value().try_into().ok());
    bytes.map_or(0, u64::from_be_bytes)
}

/// Writes down that an index was used.
pub fn write(tx: &mut Transaction<'_>, number: &UniqueId, used_ms: u64) {
    tx.set(&numbered(b't', number), &used_ms.to_be_bytes());
}

pub fn clear(tx: &mut Transaction<'_>, number: &UniqueId) {
    tx.clear(&numbered(b't', number));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quartet_env::Clock;
    use quartet_layer_redis::{Identity, Redis};

    use crate::testing::{Connection, search_fixture, show};

    const USES: &[&str] = &[
        "FT.SEARCH i *",
        "FT.AGGREGATE a *",
        "FT.INFO i",
        "FT.EXPLAIN i x",
        "FT.TAGVALS i g",
        "FT.PROFILE i SEARCH QUERY *",
        "FT.ALTER i SCHEMA ADD t TEXT",
        "FT.SPELLCHECK i helo",
        "FT.SYNDUMP i",
    ];

    fn run(connection: &mut Connection, line: &str) -> String {
        show(&connection.run(&line.split(' ').collect::<Vec<_>>()))
    }

    /// Which commands are a use, and that keys go too, is what search 2.10 was seen to do.
    #[test]
    fn an_index_that_was_idle_goes_with_its_keys() {
        let fixture = search_fixture();
        let mut connection = fixture.connect();
        connection.check(
            "FT.CREATE i TEMPORARY 10 PREFIX 1 k SCHEMA n NUMERIC g TAG => OK\nFT.CREATE j SCHEMA n NUMERIC => OK
             FT.ALIASADD a i => OK\nHSET k1 n 1 g x => 2\nHSET other n 1 => 1",
        );
        for used in USES {
            fixture.advance_ms(9_900);
            let reply = run(&mut connection, used);
            assert!(!reply.starts_with('!'), "{used}: {reply}");
            fixture.layer.expire_due();
        }
        fixture.advance_ms(9_900);
        connection.check("HSET k2 n 2 => 1");
        fixture.layer.expire_due();
        connection.check("FT._LIST => [i j]");
        fixture.advance_ms(100);
        fixture.layer.expire_due();
        connection.check(
            "FT._LIST => [j]\nEXISTS k1 k2 other => 1\nFT.SEARCH j * NOCONTENT => [1 other]\nFT.ALIASADD a j => OK",
        );
    }

    #[test]
    fn an_index_of_many_keys_goes_whole() {
        let fixture = search_fixture();
        let mut connection = fixture.connect();
        connection.check("FT.CREATE i TEMPORARY 0 PREFIX 1 k SCHEMA n NUMERIC => OK\nHSET other n 1 => 1");
        for key in 0..700 {
            connection.run(&["HSET", &format!("k{key}"), "n", "1"]);
        }
        fixture.layer.expire_due();
        connection.check("FT._LIST => []\nDBSIZE => 1");
    }

    /// Unrecorded uses are unknown after a start, so the index may stay a step longer, and is never
    /// dropped earlier.
    #[test]
    fn an_index_goes_no_earlier_after_a_start() {
        let fixture = search_fixture();
        let mut connection = fixture.connect();
        connection.check("FT.CREATE i TEMPORARY 100 SCHEMA n NUMERIC => OK");
        let opened = || {
            let (engine, space) = (fixture.layer.engine.clone(), fixture.layer.space);
            Arc::new(Redis::new(
                engine,
                space,
                crate::testing::commands(),
                Identity::default(),
                Box::new(|| {}),
            ))
        };
        let list_after = |idle_ms: u64| {
            let now_micros = fixture.clock.now_micros();
            fixture.advance_ms(idle_ms);
            let layer = opened();
            layer.expire_due();
            let list = run(&mut Connection::to(&layer), "FT._LIST");
            fixture.clock.set(now_micros);
            list
        };
        for pause_ms in [9_000, 4_000, 30_000, 5_000] {
            fixture.advance_ms(pause_ms);
            run(&mut connection, "FT.SEARCH i *");
            fixture.layer.expire_due();
            assert_eq!(list_after(99_999), "[i]");
        }
        assert_eq!(list_after(100_000 + 10_000), "[]");
    }
}
