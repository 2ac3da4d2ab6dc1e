//! Kinds of JSON values, and the narrowest kind that takes two of them.

use std::collections::BTreeMap;

/// The fields of an object in the order of their names.
pub type Fields = BTreeMap<String, Kind>;

/// What is known about a value's type.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Nothing yet.
    Null,
    /// `boolean`.
    Boolean,
    /// `bigint`.
    Long,
    /// `double`.
    Double,
    /// `decimal(precision, scale)`.
    Decimal {
        /// The number of digits.
        precision: u8,
        /// How many of them are behind the point.
        scale: i8,
    },
    /// `string`.
    Text,
    /// `timestamp`.
    Timestamp,
    /// An array of one kind.
    Array(Box<Kind>),
    /// An object.
    Struct(Fields),
}

/// A decimal kind, if Spark has one of this precision and scale.
pub fn decimal(precision: i64, scale: i64) -> Option<Kind> {
    if !(0..=precision).contains(&scale) || precision > 38 {
        return None;
    }
    Some(Kind::Decimal { precision: u8::try_from(precision).ok()?, scale: i8::try_from(scale).ok()? })
}

/// The narrowest kind for values of both.
pub fn merge(one: Kind, other: Kind) -> Kind {
    match (one, other) {
        (Kind::Null, kind) | (kind, Kind::Null) => kind,
        (one, other) if one == other => one,
        (Kind::Struct(mut fields), Kind::Struct(others)) => {
            for (name, kind) in others {
                let kind = match fields.remove(&name) {
                    Some(before) => merge(before, kind),
                    None => kind,
                };
                fields.insert(name, kind);
            }
            Kind::Struct(fields)
        }
        (Kind::Array(one), Kind::Array(other)) => Kind::Array(Box::new(merge(*one, *other))),
        (Kind::Double, Kind::Long | Kind::Decimal { .. }) | (Kind::Long | Kind::Decimal { .. }, Kind::Double) => Kind::Double,
        // A bigint has up to 20 digits.
        (Kind::Long, Kind::Decimal { precision, scale }) | (Kind::Decimal { precision, scale }, Kind::Long) => {
            wider((20, 0), (i64::from(precision), i64::from(scale)))
        }
        (Kind::Decimal { precision, scale }, Kind::Decimal { precision: other_precision, scale: other_scale }) => {
            wider((i64::from(precision), i64::from(scale)), (i64::from(other_precision), i64::from(other_scale)))
        }
        _ => Kind::Text,
    }
}

/// The decimal with the digits of both before and behind the point, or double where that is too many.
fn wider(one: (i64, i64), other: (i64, i64)) -> Kind {
    let scale = one.1.max(other.1);
    let whole = (one.0 - one.1).max(other.0 - other.1);
    decimal(whole + scale, scale).unwrap_or(Kind::Double)
}
