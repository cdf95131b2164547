//! Faults of plug-ins.

use std::fmt;
use wasmi::errors::{ErrorKind, HostError, MemoryError};
use wasmi::{Error, TrapCode};

/// A fault; the plug-in loses the connection on which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A call used up its fuel.
    Loop,
    /// Its calls together used more fuel than their bytes allow.
    Slow,
    /// It ended itself: `unreachable`, division by zero, its stack, a table.
    Trap,
    /// It asked for more memory than it may have.
    Memory,
    /// It named memory that it does not have.
    Range,
    /// It described something impossible; the text says what.
    Lie(&'static str),
    /// It described without end.
    Flood,
}

impl Fault {
    /// Every name, in the order of the counters.
    pub(crate) const NAMES: [&'static str; 7] = ["loop", "slow", "trap", "memory", "range", "lie", "flood"];

    /// Place in [`NAMES`](Self::NAMES).
    pub(crate) fn index(self) -> usize {
        match self {
            Fault::Loop => 0,
            Fault::Slow => 1,
            Fault::Trap => 2,
            Fault::Memory => 3,
            Fault::Range => 4,
            Fault::Lie(_) => 5,
            Fault::Flood => 6,
        }
    }

    /// Why a call ended early. `scarce` says that it had less than the fuel of a call.
    pub(crate) fn of(error: &Error, scarce: bool) -> Fault {
        if let Some(fault) = error.downcast_ref::<Fault>() {
            return *fault;
        }
        let memory = matches!(
            error.kind(),
            ErrorKind::Memory(MemoryError::ResourceLimiterDeniedAllocation | MemoryError::OutOfSystemMemory)
        );
        match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) if scarce => Fault::Slow,
            Some(TrapCode::OutOfFuel) => Fault::Loop,
            Some(TrapCode::GrowthOperationLimited | TrapCode::OutOfSystemMemory) => Fault::Memory,
            Some(TrapCode::MemoryOutOfBounds) => Fault::Range,
            _ if memory => Fault::Memory,
            _ => Fault::Trap,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Loop => "one call used up its fuel (does it loop?)",
            Fault::Slow => "it does more work than the bytes that it reads are worth",
            Fault::Trap => "it trapped",
            Fault::Memory => "it asked for more memory than it may have",
            Fault::Range => "it named memory that it does not have",
            Fault::Lie(what) => what,
            Fault::Flood => "it describes without end",
        })
    }
}

impl std::error::Error for Fault {}

impl HostError for Fault {}
