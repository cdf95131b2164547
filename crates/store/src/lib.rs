//! Storage of spans: [`Store`] is the interface, [`Embedded`] implements it with files and without a server.
//!
//! Spans flow `append → log + memory segment → Parquet segment + key sidecar → merged segment → dropped by retention`;
//! `docs/store.md` has the picture, the columns and the figures.
#![forbid(unsafe_code)]

mod contract;
pub mod embedded;

pub use contract::{Field, Order, Query, Store, StoreError, StoreStatus};
pub use embedded::{Embedded, Options};
/// The range of a query belongs to `model`. It is re-exported for callers that query a store.
pub use wirespan_model::TimeRange;
