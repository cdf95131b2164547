//! wirespan ship.
