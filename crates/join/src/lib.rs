//! wirespan join.
