//! A connection in words: its line in CLIENT LIST, which other logs quote.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use quartet_wire_resp::Arguments;

use crate::connections::clients::Client;
use crate::connections::tracking::Mode;
use crate::handler::groups::Groups;

/// Writes one line of CLIENT LIST. Figures about buffers that Quartet does not have are 0.
/// `own_request_bytes` is the length of the current request, of the connection `own_id`.
pub fn describe(groups: Groups<'_>, own_id: u64, client: &Client, own_request_bytes: usize) -> String {
    let now_micros = groups.engine().now_micros();
    let user = client.user(&groups.access().users);
    let seconds_since = |micros: u64| now_micros.saturating_sub(micros) / 1_000_000;
    let is_self = client.id == own_id;
    let queued = client.multi.load(Ordering::Relaxed);
    let load = |bytes: &AtomicUsize| bytes.load(Ordering::Relaxed);
    let details = client.details.lock();
    let mut line = String::new();
    writeln!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} qbuf={} \
         qbuf-free={} argv-mem=0 multi-mem={} rbs=0 rbp=0 obl=0 oll=0 omem={} tot-mem={} events=r cmd={} \
         user={} redir={} resp={} watch={} lib-name={} lib-ver={} capa={}",
        client.id,
        client.address,
        client.local_address,
        client.id,
        details.name,
        seconds_since(client.connected_micros),
        seconds_since(client.last_active_micros.load(Ordering::Relaxed)),
        flags(client),
        client.db.load(Ordering::Relaxed),
        load(&client.subscriptions.channels),
        load(&client.subscriptions.patterns),
        load(&client.subscriptions.shards),
        queued as i64 - 1,
        if is_self {
            own_request_bytes
        } else {
            load(&client.buffers.input)
        },
        load(&client.buffers.input_free),
        load(&client.buffers.queue),
        load(&client.buffers.output) + load(&client.buffers.mailbox),
        client.buffers.total(),
        client.last_command(groups.table()),
        String::from_utf8_lossy(&user.name),
        redirection(client),
        client.resp.load(Ordering::Relaxed),
        client.watched_keys.lock().len(),
        details.library_name,
        details.library_version,
        details.capabilities(),
    )
    .expect("a string takes any text");
    line
}

/// The letters that CLIENT LIST shows of a connection.
pub fn flags(client: &Client) -> String {
    let [tracks, is_broken, broadcasts] = letters(client);
    let flag_names = [
        (client.is_replica.load(Ordering::Relaxed), 'S'),
        (client.monitor.load(Ordering::Relaxed), 'O'),
        (client.subscriptions.any(), 'P'),
        (client.multi.load(Ordering::Relaxed) > 0, 'x'),
        (client.blocked.load(Ordering::Relaxed), 'b'),
        tracks,
        is_broken,
        broadcasts,
        (client.no_evict.load(Ordering::Relaxed), 'e'),
        (client.no_touch.load(Ordering::Relaxed), 'T'),
    ];
    let set: String = flag_names
        .iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, letter)| letter)
        .collect();
    if set.is_empty() { "N".into() } else { set }
}

/// Length of the request as an array of bulk strings.
pub fn request_bytes(arguments: Arguments<'_>) -> usize {
    let head = |number: usize| 3 + number.to_string().len();
    let bulks = arguments
        .iter()
        .map(|argument| head(argument.len()) + argument.len() + 2);
    head(arguments.len()) + bulks.sum::<usize>()
}

pub fn redirection(client: &Client) -> i64 {
    match &*client.tracking.lock() {
        None => -1,
        Some(mode) => mode.redirect.unwrap_or(0) as i64,
    }
}

/// The letters of CLIENT LIST.
pub fn letters(client: &Client) -> [(bool, char); 3] {
    let mode = client.tracking.lock();
    let is = |test: fn(&Mode) -> bool| mode.as_ref().is_some_and(test);
    [
        (mode.is_some(), 't'),
        (is(|mode| mode.is_redirect_broken), 'R'),
        (is(|mode| mode.broadcast), 'B'),
    ]
}
