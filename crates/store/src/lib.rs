//! Where spans are kept: [`Store`] says what a store can do, [`Embedded`] does it with files and no server.
//!
//! Spans flow `append → log + memory segment → Parquet segment + key sidecar → merged segment → dropped by retention`;
//! `docs/store.md` has the picture, the columns and the figures.
#![forbid(unsafe_code)]

mod contract;
pub mod embedded;

pub use contract::{Field, Order, Query, Store, StoreError, StoreStatus};
pub use embedded::{Embedded, Options};
/// The range of a query is a noun of the model; it is named here for those who query.
pub use wirespan_model::TimeRange;
