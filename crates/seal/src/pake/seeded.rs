//! Random bytes that the caller gave, as the generator that the curve's arithmetic asks for.

use core::convert::Infallible;

use rand_core::{TryCryptoRng, TryRng};
use zeroize::{Zeroize, Zeroizing};

/// BLAKE3's extended output over a seed that is used once.
pub(super) struct Seeded(blake3::OutputReader);

impl Seeded {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        let mut hasher = blake3::Hasher::new_derive_key("cede/1 pairing scalar");
        hasher.update(seed.as_slice());
        let output = hasher.finalize_xof();
        hasher.zeroize();
        Self(output)
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl TryRng for Seeded {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill(into);
        Ok(())
    }
}

impl TryCryptoRng for Seeded {}
