//! wirespan trace.
