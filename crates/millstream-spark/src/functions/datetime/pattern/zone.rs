//! Names and identifiers of time zones in texts: `PDT`, `Pacific Daylight Time`, `America/Los_Angeles`, `UTC+01:00`.

use chrono_tz::TZ_VARIANTS;

use super::super::super::TimeZone;
use super::offset::{self, OffsetStyle};
use super::zone_names::{NAMES, Names};

/// The name of a zone at an instant; generic names leave daylight saving out.
pub(super) fn name(zone: TimeZone, instant: i64, full: bool, generic: bool) -> String {
    let TimeZone::Region(region) = zone else { return zone.to_string() };
    let daylight = zone.is_daylight_saving_at(instant);
    if let Some(names) = NAMES.iter().find(|names| names.zones.contains(&region)) {
        let name = match (full, daylight && !generic) {
            (false, false) => names.short.0,
            (false, true) => names.short.1,
            (true, false) => names.full.0,
            (true, true) => names.full.1,
        };
        return match (generic, full) {
            (false, _) => name.to_owned(),
            (true, true) => name.replace(" Standard Time", " Time"),
            (true, false) => name.replacen("ST", "T", 1),
        };
    }
    match zone.abbreviation_at(instant) {
        Some(abbreviation) if !full => abbreviation,
        _ => {
            let mut text = String::new();
            offset::write_localized(zone.offset_seconds_at(instant), true, &mut text);
            text
        }
    }
}

/// The zone of an identifier at the start of a text, and the identifier's length.
pub(super) fn read_id(text: &str) -> Option<(TimeZone, usize)> {
    if text.starts_with(['+', '-']) {
        let (seconds, length) = OffsetStyle::ID.read(text)?;
        return Some((TimeZone::Offset(i32::try_from(seconds).ok()?), length));
    }
    let utc = TimeZone::Region(chrono_tz::Tz::UTC);
    for prefix in ["UTC", "UT", "GMT0", "GMT"] {
        let Some(rest) = strip_ignoring_case(text, prefix) else { continue };
        return Some(match if rest.starts_with(['+', '-']) { OffsetStyle::ID.read(rest) } else { None } {
            Some((seconds, length)) => (TimeZone::Offset(i32::try_from(seconds).ok()?), prefix.len() + length),
            None => (utc, prefix.len()),
        });
    }
    let regions = TZ_VARIANTS.iter().map(|zone| (zone.name(), TimeZone::Region(*zone)));
    longest(text, regions).or_else(|| strip_ignoring_case(text, "Z").map(|_| (TimeZone::Offset(0), 1)))
}

/// The zone of a name or an identifier at the start of a text, and the name's length.
pub(super) fn read_name(text: &str, full: bool) -> Option<(TimeZone, usize)> {
    let of = |names: &'static Names| {
        let [standard, daylight] = if full { [names.full.0, names.full.1] } else { [names.short.0, names.short.1] };
        let zone = names.zones.first().map(|zone| TimeZone::Region(*zone));
        [standard, daylight].into_iter().zip([zone; 2]).filter_map(|(name, zone)| Some((name, zone?)))
    };
    let named = longest(text, NAMES.iter().flat_map(of));
    match (named, read_id(text)) {
        (Some(named), Some(id)) => Some(if id.1 > named.1 { id } else { named }),
        (named, id) => named.or(id),
    }
}

/// Of the names that a text starts with, the longest; of those the first.
fn longest<'n>(text: &str, names: impl Iterator<Item = (&'n str, TimeZone)>) -> Option<(TimeZone, usize)> {
    names.filter(|(name, _)| strip_ignoring_case(text, name).is_some()).fold(None, |best: Option<(TimeZone, usize)>, (name, zone)| {
        match best {
            Some(best) if best.1 >= name.len() => Some(best),
            _ => Some((zone, name.len())),
        }
    })
}

fn strip_ignoring_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}
