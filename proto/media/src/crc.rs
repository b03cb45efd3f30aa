//! Cyclic redundancy checks of 32 bits, in the reflected form that STUN and ZRTP share.

/// CRC-32 as ITU V.42 has it: STUN's FINGERPRINT (RFC 8489 §14.7).
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    checksum(&TABLE_V42, bytes)
}

/// CRC-32C of RFC 4960 Appendix B: the end of every ZRTP packet (RFC 6189 §5).
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    checksum(&TABLE_CASTAGNOLI, bytes)
}

fn checksum(table: &[u32; 256], bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ table[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(u32::MAX, step)
}

const TABLE_V42: [u32; 256] = table(0xedb8_8320);
const TABLE_CASTAGNOLI: [u32; 256] = table(0x82f6_3b78);

const fn table(polynomial_reflected: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ polynomial_reflected } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_values_of_both_polynomials() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn the_crc32c_vectors_of_rfc_3720_appendix_b_4() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: [u8; 32] = core::array::from_fn(|index| index as u8);
        assert_eq!(crc32c(&rising), 0x46dd_794e);
    }
}
