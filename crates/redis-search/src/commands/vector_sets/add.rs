//! VADD, VREM and VSETATTR.

use quartet_layer_redis::module_api::{Context, ErrorReply, Header, LARGE, parse};
use quartet_search::rows::WriteRows;
use quartet_search::vectors::set::codec::{Projection, Quantization};
use quartet_search::vectors::set::{self, Head, LINKS_MAX, LINKS_MIN};
use quartet_wire_resp::Arguments;

use super::key::{Changed, check_arity, wrong_arity};
use super::stored::head;
use super::vector::{self, input_mismatch, mismatch};
use crate::kinds::VECTOR_SET;

/// Longest name of an element, for its row's key must fit into the store.
pub const ELEMENT_BYTES_MAX: usize = 65_000;
const EFFORT_MAX: i64 = 1_000_000;

/// A request of VADD.
struct Request<'a> {
    vector: Vec<f32>,
    /// REDUCE; zero if it is absent.
    reduced_to: usize,
    element: &'a [u8],
    quantization: Quantization,
    links: usize,
    effort: usize,
    attributes: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    fn read(arguments: Arguments<'a>) -> Result<Request<'a>, ErrorReply> {
        if arguments.len() < 5 {
            return Err(wrong_arity("VADD"));
        }
        let is_reduced = parse::is(&arguments[2], "reduce");
        let reduced_to = match is_reduced {
            true => parse::integer(&arguments[3])
                .and_then(|to| usize::try_from(to).ok())
                .filter(|to| *to > 0),
            false => Some(0),
        };
        let reduced_to = reduced_to.ok_or(vector::INVALID)?;
        let (vector, at) = vector::read(arguments, if is_reduced { 4 } else { 2 })?;
        let mut request = Request {
            vector,
            reduced_to,
            element: arguments.get(at).ok_or_else(|| wrong_arity("VADD"))?,
            quantization: Quantization::Bytes,
            links: 16,
            effort: 200,
            attributes: None,
        };
        request.read_options(arguments.tail(at + 1))?;
        if request.element.len() > ELEMENT_BYTES_MAX {
            return Err("ERR element exceeds the maximum size of 65000 bytes".into());
        }
        Ok(request)
    }

    fn read_options(&mut self, options: Arguments<'a>) -> Result<(), ErrorReply> {
        let mut words = options.iter().peekable();
        while let Some(word) = words.next() {
            let has_value = words.peek().is_some();
            let mut number = |least: i64, most: i64| {
                let number = words.next().and_then(parse::integer);
                number.filter(|number| (least..=most).contains(number))
            };
            if parse::is(word, "cas") {
                // Elements are always added in the transaction of the command.
            } else if parse::is(word, "ef") && has_value {
                self.effort = number(1, EFFORT_MAX).ok_or("ERR invalid EF")? as usize;
            } else if parse::is(word, "m") && has_value {
                self.links = number(LINKS_MIN as i64, LINKS_MAX as i64).ok_or("ERR invalid M")? as usize;
            } else if parse::is(word, "setattr") && has_value {
                self.attributes = words.next();
            } else if parse::is(word, "noquant") {
                self.quantization = Quantization::None;
            } else if parse::is(word, "bin") {
                self.quantization = Quantization::Bits;
            } else if parse::is(word, "q8") {
                self.quantization = Quantization::Bytes;
            } else {
                return Err("ERR invalid option after element".into());
            }
        }
        Ok(())
    }

    /// The set that this makes if there is none.
    fn new_head(&self) -> Result<Head, ErrorReply> {
        let dimensions = if self.reduced_to > 0 {
            self.reduced_to
        } else {
            self.vector.len()
        };
        let mut head = Head::new(self.quantization, self.links, dimensions);
        if self.reduced_to > 0 {
            Projection::new(self.vector.len(), self.reduced_to).ok_or(vector::INVALID)?;
            head.projected_from = self.vector.len();
        }
        Ok(head)
    }

    fn check(&self, head: &Head) -> Result<(), ErrorReply> {
        if head.quantization != self.quantization {
            return Err("ERR asked quantization mismatch with existing vector set".into());
        }
        if head.links != self.links {
            return Err("ERR asked M value mismatch with existing vector set".into());
        }
        let is_projected = head.projected_from > 0;
        let dimensions = if is_projected {
            self.reduced_to
        } else {
            self.vector.len()
        };
        if dimensions != head.dimensions {
            return Err(mismatch(self.vector.len(), head.dimensions));
        }
        if self.reduced_to > 0 && !is_projected {
            return Err("ERR cannot add projection to existing set without projection".into());
        }
        if is_projected && self.vector.len() != head.projected_from {
            return Err(input_mismatch(self.vector.len(), head.projected_from));
        }
        Ok(())
    }
}

pub fn add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let request = Request::read(arguments)?;
    let name = &arguments[1];
    let changed = match context.keys().find_kind(name, VECTOR_SET)? {
        Some(entry) => {
            let changed = Changed::of(name, entry.clone(), context.tx);
            request.check(&changed.head)?;
            context.note_change(name, Some(&entry));
            changed
        }
        None => Changed {
            name,
            header: Header::new(VECTOR_SET).flags(LARGE),
            head: request.new_head()?,
            elements: context.keys().new_elements(),
            before: None,
        },
    };
    let mut is_new = false;
    changed.change(context.groups, &mut context.keys(), |rows, head| {
        let vector = set::projected(rows, head, &request.vector);
        let (element, attributes) = (request.element, request.attributes);
        is_new = set::add(rows, head, element, &vector, attributes, request.effort);
        true
    });
    context.reply.boolean(is_new);
    Ok(())
}

pub fn remove(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, 3, "VREM")?;
    // The neighbours of a removed element are compared with each other.
    let comparisons = |head: &Head| {
        let neighbours = (2 * head.links as u64).min(head.count);
        neighbours * neighbours
    };
    change(context, arguments, comparisons, |rows, head| {
        set::remove(rows, head, &arguments[2])
    })
}

pub fn set_attributes(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, 4, "VSETATTR")?;
    change(
        context,
        arguments,
        |_| 1,
        |rows, head| set::set_attributes(rows, head, &arguments[2], &arguments[3]),
    )
}

/// Changes an element of a set that has it, and answers whether it has. `work` is how many elements
/// it visits at most.
fn change(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    work: impl FnOnce(&Head) -> u64,
    change: impl FnOnce(&mut dyn WriteRows, &mut Head) -> bool,
) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let set_entry = context.keys().find_kind(name, VECTOR_SET)?;
    if set_entry
        .as_ref()
        .and_then(head)
        .is_some_and(|head| context.must_end_before(work(&head)))
    {
        return Ok(());
    }
    let is_changed = match set_entry {
        Some(entry) => {
            let changed = Changed::of(name, entry.clone(), context.tx);
            let is_changed = changed.change(context.groups, &mut context.keys(), change);
            if is_changed {
                context.note_change(name, Some(&entry));
            }
            is_changed
        }
        None => false,
    };
    context.reply.boolean(is_changed);
    Ok(())
}
