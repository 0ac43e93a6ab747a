//! Vectors in short: eight bits a component and a scale, with bounds for how far the vector itself
//! is.
//!
//! Equal vectors have equal codes on every processor, so a decision from codes depends only on the
//! vectors.

use crate::index::vector_kind::{Metric, VectorKind};
use crate::vectors::simd::{product, widely};

/// The greatest absolute value of a code's component.
const CODE_MAX: f64 = 127.0;

/// Sums of products of codes stay within 32 bits, so that nothing has to look whether they do.
const SUM_MAX: f64 = i32::MAX as f64;

/// Beyond this a component's products may leave the range of single precision: how far such a
/// vector is has no bounds.
const COMPONENT_MAX: f64 = 1e15;

/// More than single precision loses where products are nearly zero.
const UNDERFLOW: f64 = 1e-36;

/// A vector's figures beside its code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coded {
    /// Not a number if a component is none, or infinite.
    scale: f64,
    /// The greatest distance of the code from the vector; infinite if that says nothing of
    /// distances.
    error: f64,
    length: f64,
}

impl Coded {
    /// Appends the code of a vector to `codes`.
    pub fn of(kind: &VectorKind, components: &[f64], codes: &mut Vec<i8>) -> Coded {
        let (greatest, first) = (greatest(components), codes.len());
        if !greatest.is_finite() {
            codes.resize(first + components.len(), 0);
            return Coded {
                scale: f64::NAN,
                error: f64::INFINITY,
                length: 0.0,
            };
        }
        let (scale, steps) = (greatest / CODE_MAX, CODE_MAX / greatest);
        let squares = widely(|| {
            codes.extend(components.iter().map(|component| code(*component, steps, scale) as i8));
            let mut squares = 0.0;
            for (component, code) in components.iter().zip(&codes[first..]) {
                let off = component - f64::from(*code) * scale;
                squares += off * off;
            }
            squares
        });
        let coded = Coded {
            scale,
            error: if greatest > COMPONENT_MAX {
                f64::INFINITY
            } else {
                widened(squares)
            },
            length: length_of(components),
        };
        match is_bounded(kind) {
            true => coded,
            // Only angles count: as if its length were one.
            false => Coded {
                scale: scale / coded.length,
                error: f64::INFINITY,
                length: 1.0,
            },
        }
    }
}

/// Distances of this kind are bounded by those of codes.
fn is_bounded(kind: &VectorKind) -> bool {
    kind.metric() != Metric::Cosine || kind.is_normalized()
}

/// The nearest whole number. Calls nothing, as rounding would on processors without an instruction
/// for it.
#[inline]
fn code(component: f64, steps: f64, scale: f64) -> i32 {
    let stepped = component * steps;
    if scale > 0.0 {
        (stepped + 0.5f64.copysign(stepped)) as i32
    } else {
        0
    }
}

/// The greatest absolute value; not finite if that of a component is not.
fn greatest(components: &[f64]) -> f64 {
    let mut greatest = 0.0;
    for component in components {
        let size = component.abs();
        if size.is_nan() {
            return f64::NAN;
        }
        greatest = f64::max(greatest, size);
    }
    greatest
}

/// The length of a vector, a little more than exactly.
fn length_of(components: &[f64]) -> f64 {
    widened(components.iter().map(|component| component * component).sum())
}

fn widened(squares: f64) -> f64 {
    squares.sqrt() * (1.0 + 1e-9)
}

/// A vector as it is compared with codes.
pub(crate) struct CodedQuery {
    codes: Vec<i16>,
    scale: f64,
    error: f64,
    length: f64,
    is_squared: bool,
    /// The share of a sum that single precision may lose.
    rounding: f64,
}

impl CodedQuery {
    pub fn new(kind: &VectorKind, components: &[f64]) -> CodedQuery {
        let greatest = greatest(components);
        let code_max = (SUM_MAX / CODE_MAX / components.len() as f64)
            .floor()
            .min(i16::MAX.into());
        let (scale, steps) = (greatest / code_max, code_max / greatest);
        let codes = components.iter().map(|component| code(*component, steps, scale) as i16);
        let codes: Vec<i16> = codes.collect();
        let errors = components.iter().zip(&codes);
        let errors = errors.map(|(component, code)| component - f64::from(*code) * scale);
        let error = widened(errors.map(|off| off * off).sum());
        let is_coded = greatest <= COMPONENT_MAX && is_bounded(kind);
        CodedQuery {
            error: if is_coded { error } else { f64::INFINITY },
            length: length_of(components),
            codes,
            ..CodedQuery::empty(kind, scale)
        }
    }

    /// One of a vector of which there is only the code.
    pub fn of_code(kind: &VectorKind, coded: &Coded, codes: &[i8]) -> CodedQuery {
        CodedQuery {
            error: coded.error,
            length: coded.length,
            codes: codes.iter().map(|code| i16::from(*code)).collect(),
            ..CodedQuery::empty(kind, coded.scale)
        }
    }

    fn empty(kind: &VectorKind, scale: f64) -> CodedQuery {
        CodedQuery {
            codes: Vec::new(),
            scale,
            error: 0.0,
            length: 0.0,
            is_squared: kind.metric() == Metric::L2,
            rounding: (kind.dimensions() as f64 / 16.0 + 16.0) * f64::from(f32::EPSILON),
        }
    }

    /// False if it says nothing of how far vectors are.
    pub fn is_bounded(&self) -> bool {
        self.error.is_finite()
    }

    /// The distance of the code: nearly that of its vector. Infinite if a component is no number.
    #[inline]
    pub fn distance(&self, coded: &Coded, codes: &[i8]) -> f64 {
        let product = self.scale * coded.scale * f64::from(product(&self.codes, codes));
        let distance = self.middle(coded, product);
        if distance.is_nan() { f64::INFINITY } else { distance }
    }

    #[inline]
    fn middle(&self, coded: &Coded, product: f64) -> f64 {
        match self.is_squared {
            true => self.length * self.length + coded.length * coded.length - 2.0 * product,
            false => 1.0 - product,
        }
    }

    /// The least and the greatest distance of a vector.
    pub fn bounds(&self, coded: &Coded, codes: &[i8]) -> (f64, f64) {
        let product = self.scale * coded.scale * f64::from(product(&self.codes, codes));
        let off = self.error * (coded.length + coded.error) + self.length * coded.error + UNDERFLOW;
        let middle = self.middle(coded, product);
        let off = match self.is_squared {
            true => {
                let lengths = self.length + coded.length;
                // The lengths are a little too great as well.
                2.0 * off + lengths * lengths * (self.rounding + 1e-8)
            }
            false => off + (1.0 + self.length * coded.length) * self.rounding,
        };
        match off.is_finite() && middle.is_finite() {
            true => (middle - off, middle + off),
            false => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }
}
