//! wirespan view.
