//! Rounding of rows to bf16, for requests of that element type.

use bytes::Bytes;
use noise_kernel::round_bf16;

/// Returns the values rounded to nearest, ties to even, as little-endian bf16.
pub fn bytes(values: &[f32]) -> Bytes {
    struct Owner(Vec<u16>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0)
        }
    }
    Bytes::from_owner(Owner(values.iter().map(|value| round_bf16(*value)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_nearest_and_ties_to_even() {
        let cases = [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (1.0, 0x3f80),
            (f32::from_bits(0x3f80_8000), 0x3f80),
            (f32::from_bits(0x3f81_8000), 0x3f82),
            (f32::from_bits(0x3f80_8001), 0x3f81),
            (f32::from_bits(0xbf80_7fff), 0xbf80),
            (f32::from_bits(0x3fff_ffff), 0x4000),
        ];
        for (value, expected) in cases {
            assert_eq!(round_bf16(value), expected, "{value}");
        }
        assert_eq!(bytes(&[1.0, -2.0])[..], [0x80, 0x3f, 0x00, 0xc0]);
    }
}
