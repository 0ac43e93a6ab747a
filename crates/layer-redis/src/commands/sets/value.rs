//! A set as rows.
//!
//! ```text
//! small   one row            payload: member*                          packed
//! large   the key's row      payload: id (10), number of members (8)
//!         a row a member     position, member -> nothing
//! ```
//!
//! A set becomes large past `PACKED_MEMBERS_MAX` members or `PACKED_BYTES_MAX` of payload and stays
//! so. Flags: `LARGE`; `FLAG_A` once Redis would have left its integer form. Both stay set for the
//! key's life. Invariants: a set has at least one member; members are different; the number in a
//! large set's row is that of its members.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

use crate::keyspace::{Elements, Entry, FLAG_A, Header, Keyspace, Kind, LARGE};
use crate::{command::parse, keyspace::packed, keyspace::scan};

const PACKED_MEMBERS_MAX: u64 = 128;
const PACKED_BYTES_MAX: usize = 4096;
/// Longest member: its element's key must fit into the store.
pub const MEMBER_BYTES_MAX: usize = 65_000;
/// Number of members from which they are looked up by hash.
const SEARCHED_MAX: usize = 16;

/// Returns the answer of OBJECT ENCODING.
pub fn encoding(entry: &Entry) -> &'static str {
    if entry.flags & FLAG_A != 0 {
        "hashtable"
    } else {
        "intset"
    }
}

/// Number of members.
pub fn len(entry: &Entry) -> u64 {
    if entry.is_large() {
        u64::from_be_bytes(entry.large_payload()[..8].try_into().expect("eight bytes of count"))
    } else {
        packed::count(entry.payload()) as u64
    }
}

pub fn contains(keys: &mut Keyspace<'_, '_>, entry: &Entry, member: &[u8]) -> bool {
    if entry.is_large() {
        scan::get(&entry.elements(), keys.tx, member).is_some()
    } else {
        packed::iter(entry.payload()).any(|element| element == member)
    }
}

/// Visits every member, in the order of the rows.
pub fn each(keys: &mut Keyspace<'_, '_>, entry: &Entry, visit: &mut dyn FnMut(&[u8])) {
    if !entry.is_large() {
        packed::iter(entry.payload()).for_each(visit);
        return;
    }
    entry
        .elements()
        .scan(keys.tx, &scan::FIRST, None, false, &mut |key, _| {
            visit(scan::element_of(key));
            ControlFlow::Continue(())
        });
}

/// All members, in the order of the rows.
pub fn members(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Vec<Vec<u8>> {
    let mut members = Vec::with_capacity(len(entry) as usize);
    each(keys, entry, &mut |member| members.push(member.to_vec()));
    members
}

/// Visits the members at `indexes`, each below [`len`]. Repeated indexes are visited again.
pub fn at(keys: &mut Keyspace<'_, '_>, entry: &Entry, indexes: &[u64], visit: &mut dyn FnMut(&[u8])) {
    if !entry.is_large() {
        let members: Vec<&[u8]> = packed::iter(entry.payload()).collect();
        indexes.iter().for_each(|&index| visit(members[index as usize]));
        return;
    }
    for &index in indexes {
        let row = entry.elements().nth(keys.tx, &scan::FIRST, index);
        let row = row.expect("an index below the number of members");
        visit(scan::element_of(Elements::name(&row)));
    }
}

/// Visits the members of one page of SSCAN. Returns the next cursor.
pub fn page(keys: &mut Keyspace<'_, '_>, entry: &Entry, cursor: u64, count: u64, visit: &mut dyn FnMut(&[u8])) -> u64 {
    if !entry.is_large() {
        each(keys, entry, visit);
        return 0;
    }
    scan::page(&entry.elements(), keys.tx, cursor, count, &mut |member, _| {
        visit(member)
    })
}

/// Adds the members to the set `name`, which was found as `entry`. Returns how many were new.
/// `integers_max`: members up to which Redis keeps integers in their own form.
pub fn add(
    keys: &mut Keyspace<'_, '_>,
    integers_max: u64,
    name: &[u8],
    entry: Option<&Entry>,
    members: &mut dyn Iterator<Item = &[u8]>,
) -> u64 {
    let header = entry.map_or(Header::new(Kind::Set), Header::of);
    let mut writer = Writer {
        form: Form::of(entry),
        header,
        count: entry.map_or(0, len),
    };
    let before = writer.count;
    for member in members {
        writer.add(keys, member);
    }
    if writer.count > before {
        writer.put(keys, integers_max, name);
    }
    writer.count - before
}

/// Replaces the key's value by the set of the members, which may repeat. Without members the key is
/// removed. Returns the number of members.
pub fn store(keys: &mut Keyspace<'_, '_>, integers_max: u64, name: &[u8], members: &[impl AsRef<[u8]>]) -> u64 {
    if members.is_empty() {
        keys.remove(name);
        return 0;
    }
    let mut members = members.iter().map(AsRef::as_ref);
    add(keys, integers_max, name, None, &mut members)
}

/// Removes the member at `index`, which is below [`len`], from a set that has others.
pub fn take(keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, index: u64) -> Vec<u8> {
    if !entry.is_large() {
        let member = packed::iter(entry.payload()).nth(index as usize);
        let member = member.expect("an index below the number of members");
        remove(keys, name, entry, std::iter::once(member));
        return member.to_vec();
    }
    let elements = entry.elements();
    let row = elements.clear_nth(keys.tx, &scan::FIRST, index);
    let row = row.expect("an index below the number of members");
    let writer = Writer {
        form: Form::Large(elements),
        header: Header::of(entry),
        count: len(entry) - 1,
    };
    writer.put(keys, u64::MAX, name);
    scan::element_of(Elements::name(&row)).to_vec()
}

/// Removes the members, and the key with its last member. Returns the number of removed members.
pub fn remove<'m>(
    keys: &mut Keyspace<'_, '_>,
    name: &[u8],
    entry: &Entry,
    members: impl ExactSizeIterator<Item = &'m [u8]> + Clone,
) -> u64 {
    let before = len(entry);
    let (form, count) = if entry.is_large() {
        let elements = entry.elements();
        let mut removed = 0;
        scan::clear_many(&elements, keys.tx, members, &mut |_| removed += 1);
        (Form::Large(elements), before - removed)
    } else {
        let payload = without(entry.payload(), members);
        let count = packed::count(&payload) as u64;
        (Form::Packed(Cow::Owned(payload)), count)
    };
    let writer = Writer {
        form,
        header: Header::of(entry),
        count,
    };
    if writer.count == 0 {
        keys.remove(name);
    } else if writer.count < before {
        writer.put(keys, u64::MAX, name);
    }
    before - writer.count
}

fn without<'m>(payload: &[u8], members: impl ExactSizeIterator<Item = &'m [u8]> + Clone) -> Vec<u8> {
    let mut retained = Vec::with_capacity(payload.len());
    let hashed: Option<HashSet<&[u8]>> = (members.len() > SEARCHED_MAX).then(|| members.clone().collect());
    for element in packed::iter(payload) {
        let is_removed = match &hashed {
            Some(hashed) => hashed.contains(element),
            None => members.clone().any(|member| member == element),
        };
        if !is_removed {
            packed::push(&mut retained, element);
        }
    }
    retained
}

enum Form<'e> {
    /// Copied when the first member joins: mostly none does.
    Packed(Cow<'e, [u8]>),
    Large(Elements),
}

impl<'e> Form<'e> {
    fn of(entry: Option<&'e Entry>) -> Form<'e> {
        match entry {
            Some(entry) if entry.is_large() => Form::Large(entry.elements()),
            Some(entry) => Form::Packed(entry.payload().into()),
            None => Form::Packed(Cow::default()),
        }
    }
}

/// A set that is being written: a small one in memory, of a large one everything but the key's row.
struct Writer<'e> {
    form: Form<'e>,
    header: Header,
    count: u64,
}

impl Writer<'_> {
    fn add(&mut self, keys: &mut Keyspace<'_, '_>, member: &[u8]) {
        match &mut self.form {
            Form::Large(elements) => {
                let old = scan::set(elements, keys.tx, member, b"");
                if old.is_some() {
                    return;
                }
            }
            Form::Packed(payload) => {
                if packed::iter(payload).any(|element| element == member) {
                    return;
                }
                packed::push(payload.to_mut(), member);
            }
        }
        self.count += 1;
        if parse::integer(member).is_none() {
            self.header.flags |= FLAG_A;
        }
        self.unpack_if_grown(keys);
    }

    fn unpack_if_grown(&mut self, keys: &mut Keyspace<'_, '_>) {
        let Form::Packed(payload) = &self.form else { return };
        if self.count <= PACKED_MEMBERS_MAX && payload.len() <= PACKED_BYTES_MAX {
            return;
        }
        let elements = keys.new_elements();
        for member in packed::iter(payload) {
            scan::set(&elements, keys.tx, member, b"");
        }
        self.header.flags |= LARGE;
        self.form = Form::Large(elements);
    }

    fn put(&self, keys: &mut Keyspace<'_, '_>, integers_max: u64, name: &[u8]) {
        let mut header = self.header;
        if self.count > integers_max {
            header.flags |= FLAG_A;
        }
        match &self.form {
            Form::Packed(payload) => keys.put(name, header, payload),
            Form::Large(elements) => keys.put_parts(name, header, &[elements.id(), &self.count.to_be_bytes()]),
        }
    }
}
