//! Text that may leave the process: values become `?`, names stay.
//!
//! | what | how |
//! |---|---|
//! | [`sql::Masker`] | one pass over a statement; writes masked text, operation, first table and summary into memory that it reuses: no allocation once warm |
//! | [`Keep`] | what the user lets through and what the user hides, by protocol |
//! | [`text`](text::text) | error texts: whatever stands in quotes, parentheses after `is`/`=`, and numbers |
//!
//! Bias: to mask. What a dialect could read as a string *or* as a name is masked (`"x"` in MySQL and SQL Server), a
//! literal whose end was not captured is masked to the end of the input, and where it is not known whether a backslash
//! escapes, a backslash before a quote masks the rest.
//!
//! What is kept: keywords, names of tables, columns, functions and parameters, operators. Comments are left out, since
//! people put anything there. Lists of values are written once (`IN (?)`, `VALUES (?)`), so that the same statement has
//! the same text whatever the number of its values.

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
