//! wirespan enrich.
