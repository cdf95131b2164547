//! wirespan capture.
