//! Text that may leave the process: values become `?`, names stay.
//!
//! - [`sql::Masker`]: one pass over a statement; writes masked text, operation, first table and summary into memory
//!   that it reuses: no allocation once warm
//! - [`Keep`]: what the user lets through and what the user hides, by protocol
//! - [`text`](text::text): error texts: whatever stands in quotes, parentheses after `is`/`=`, and numbers
//!
//! Bias: to mask. Text that a dialect could read as a string *or* as a name is masked (`"x"` in MySQL and SQL Server).
//! A literal whose end was not captured is masked to the end of the input. If it is unknown whether a backslash
//! escapes, a backslash before a quote masks the rest.
//!
//! Kept are keywords, operators, and names of tables, columns, functions and parameters. Comments are left out, because
//! people write anything into them. A list of values is written once (`IN (?)`, `VALUES (?)`), so the same statement
//! has the same text with any number of values.

mod describe;
mod dialect;
mod keep;
mod lex;
pub mod sql;
pub mod statements;
mod summary;
pub mod text;
mod words;

#[cfg(test)]
mod tests;

pub use describe::Described;
pub use dialect::{Backslash, Dialect, Rules};
pub(crate) use keep::{FieldNames, KeptHttp};
pub use keep::{Keep, KeepKey, Mask};
pub use sql::Masker;
pub use statements::{Statement, Statements};
pub use text::text;
