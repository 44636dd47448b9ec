//! CRC-32C, the Castagnoli polynomial, reflected. Source: RFC 3720, appendix B.4.

/// The checksum of the parts, one after the other.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    !bytes.fold(!0, |crc, byte| {
        let index = (crc ^ u32::from(*byte)) & 0xff;
        TABLE[index as usize] ^ (crc >> 8)
    })
}

const POLYNOMIAL: u32 = 0x82f6_3b78;

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { POLYNOMIAL ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn published_examples_are_met() {
        assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283);
        assert_eq!(crc32c(&[&[0; 32]]), 0x8a91_36aa, "RFC 3720, B.4");
        assert_eq!(crc32c(&[b"1234", b"56789"]), 0xe306_9283, "parts count as one");
    }
}
