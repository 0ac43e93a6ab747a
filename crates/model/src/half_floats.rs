//! Numbers of sixteen bits: `float16`, and `bfloat16`, the first half of an `f32`.

/// The number with these bytes, little-endian: a sign, five bits of exponent, ten of fraction.
pub fn float16(bytes: [u8; 2]) -> f64 {
    let bits = u32::from(u16::from_le_bytes(bytes));
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 0x1f, bits & 0x3ff);
    let size = match exponent {
        0 => fraction as f32 / 16_777_216.0,
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    f64::from(if sign == 1 { -size } else { size })
}

/// The bytes of the nearest `float16`; of two that are equally near the even one.
pub fn nearest_float16(number: f32) -> [u8; 2] {
    let sign = (number.to_bits() >> 16) as u16 & 0x8000;
    let size = number.abs();
    let bits = size.to_bits();
    let rounded = if size.is_nan() {
        0x7e00
    } else if size >= 65_520.0 {
        0x7c00
    } else if size < 1.0 / 16_384.0 {
        (size * 16_777_216.0).round_ties_even() as u16
    } else {
        (((bits + 0xfff + (bits >> 13 & 1)) >> 13) - (112 << 10)) as u16
    };
    (sign | rounded).to_le_bytes()
}

/// The number with these bytes, little-endian.
pub fn bfloat16(bytes: [u8; 2]) -> f64 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16).into()
}

/// The bytes of the nearest `bfloat16`; of two that are equally near the even one.
pub fn nearest_bfloat16(number: f32) -> [u8; 2] {
    let bits = number.to_bits();
    let rounded = match number.is_nan() {
        true => 0x7fc0,
        false => ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16,
    };
    rounded.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_survive_a_round_trip() {
        for number in [
            0.0,
            1.0,
            -2.5,
            65_504.0,
            1.0 / 16_777_216.0,
            0.000_061_035_156,
            f32::INFINITY,
        ] {
            assert_eq!(float16(nearest_float16(number)), f64::from(number));
            assert_eq!(float16(nearest_float16(-number)), f64::from(-number));
        }
        assert_eq!(nearest_float16(65_520.0), nearest_float16(f32::INFINITY));
        let near_one = [1.0, 3.0].map(|half_steps| nearest_float16(1.0 + half_steps / 2048.0));
        assert_eq!(near_one.map(u16::from_le_bytes), [0x3c00, 0x3c02]);
        let brain = [1.0, -1.0 - 3.0 / 256.0].map(nearest_bfloat16);
        assert_eq!(brain.map(u16::from_le_bytes), [0x3f80, 0xbf82]);
        assert!(float16(nearest_float16(f32::NAN)).is_nan());
    }
}
