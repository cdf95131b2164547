//! Enums whose values are stored and listed: one list of variants gives the type, its codes and `ALL`.

/// Defines a fieldless enum with one `u8` code per variant, the array `ALL`, and `from_code`.
///
/// The enum, its list and its decoding come from the same lines, so that a new variant cannot be missing from one of
/// them. Codes are written to disk and sent between releases: never change or reuse one.
macro_rules! listed_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $code:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $code,)+
        }

        impl $name {
            /// Every value, in the order of the codes.
            pub const ALL: [$name; [$($code),+].len()] = [$($name::$variant),+];

            /// The value with this code (`value as u8`); `None` for a code of a later release, or a damaged one.
            pub fn from_code(code: u8) -> Option<$name> {
                match code {
                    $($code => Some($name::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use listed_enum;

#[cfg(test)]
mod tests {
    use crate::{Evidence, KeyKind, SpanKind, Status, TapSide, Transport};
    use std::collections::HashSet;

    #[test]
    fn every_listed_value_comes_back_from_its_code() {
        assert!(TapSide::ALL.iter().all(|v| TapSide::from_code(*v as u8) == Some(*v)));
        assert!(Status::ALL.iter().all(|v| Status::from_code(*v as u8) == Some(*v)));
        assert!(SpanKind::ALL.iter().all(|v| SpanKind::from_code(*v as u8) == Some(*v)));
        assert!(Evidence::ALL.iter().all(|v| Evidence::from_code(*v as u8) == Some(*v)));
        assert!(KeyKind::ALL.iter().all(|v| KeyKind::from_code(*v as u8) == Some(*v)));
        assert!(Transport::ALL.iter().all(|v| Transport::from_code(*v as u8) == Some(*v)));
        assert_eq!((TapSide::from_code(200), Evidence::from_code(0)), (None, None));
    }

    #[test]
    fn names_shown_to_users_are_distinct() {
        let distinct = |names: &[&str]| names.iter().collect::<HashSet<_>>().len() == names.len();
        assert!(distinct(&TapSide::ALL.map(TapSide::as_str)));
        assert!(distinct(&Status::ALL.map(Status::as_str)));
        assert!(distinct(&Evidence::ALL.map(Evidence::as_str)));
    }
}
