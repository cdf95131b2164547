//! The limits of a plug-in.

/// Longest piece of one side that a plug-in is shown, and that is kept for it while a message is incomplete, bytes.
pub(crate) const WINDOW: usize = 16 * 1024;
/// Most bytes that a plug-in may have kept per connection.
pub(crate) const MAX_STATE: usize = 4096;
/// Largest module file, bytes.
pub(crate) const MAX_MODULE: u64 = 8 << 20;
/// Messages and ends that one call may describe.
pub(crate) const MAX_SAID: usize = 256;
/// Bytes of text that one call may write.
pub(crate) const MAX_WRITTEN: usize = 64 * 1024;
/// Different attribute keys of a plug-in: each is kept as long as the process lives.
pub(crate) const MAX_KEYS: usize = 32;
/// Attributes of one message.
pub(crate) const MAX_ATTRS: usize = 16;
/// Longest jump over bytes that need not be read.
pub(crate) const MAX_SKIP: i64 = 1 << 40;

/// Fuel that each call adds to a plug-in's credit, and fuel that each newly shown byte adds.
const CREDIT_CALL: u64 = 20_000;
const CREDIT_BYTE: u64 = 500;
/// Credit that can be saved up.
const CREDIT_MAX: u64 = 20_000_000;

/// Limits that the user may change. One unit of fuel is about one instruction of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fuel of one call.
    pub fuel: u64,
    /// Memory of the module, bytes; a fresh instance is one 64 KiB page at the least.
    pub memory_bytes: usize,
    /// Faults after which it is switched off.
    pub faults: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { fuel: 1_000_000, memory_bytes: 16 << 20, faults: 3 }
    }
}

/// Fuel that a plug-in has left: it grows with calls and bytes, so that the work stands in proportion to the traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit(u64);

impl Credit {
    pub(crate) fn full() -> Self {
        Credit(CREDIT_MAX)
    }

    /// A call begins with bytes that were not shown before.
    pub(crate) fn earn(&mut self, new_bytes: usize) {
        let bytes = u64::try_from(new_bytes).unwrap_or(u64::MAX).saturating_mul(CREDIT_BYTE);
        self.0 = self.0.saturating_add(CREDIT_CALL).saturating_add(bytes).min(CREDIT_MAX);
    }

    /// Fuel for the call.
    pub(crate) fn at_most(&self, fuel: u64) -> u64 {
        self.0.min(fuel)
    }

    pub(crate) fn spend(&mut self, fuel: u64) {
        self.0 = self.0.saturating_sub(fuel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_follows_the_traffic() {
        let mut credit = Credit::full();
        for _ in 0..30 {
            credit.earn(10);
            credit.spend(1_000_000);
        }
        // 30 calls of a million each are more than was saved and earned.
        assert_eq!(credit.at_most(1_000_000), 0);
        credit.earn(100);
        assert_eq!(credit.at_most(1_000_000), CREDIT_CALL + 100 * CREDIT_BYTE);
    }
}
