//! Time zones by the names that Java's `ZoneId` takes, and local time to instants.

use chrono::offset::{LocalResult, Offset, TimeZone};
use chrono::{DateTime, TimeDelta};
use chrono_tz::Tz;

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// A fixed distance from UTC in seconds, positive to the east.
    Offset(i32),
    /// A region with its history of offsets.
    Region(Tz),
}

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone::Offset(0);

    /// The zone of a name: `Z`, `UTC`, `+2`, `+02:00`, `-0130`, `GMT+5`, `America/New_York`, or one of Java's short names (`PST`).
    pub fn parse(id: &str) -> Option<Zone> {
        if id == "Z" || id == "UTC" || id == "GMT" || id == "UT" {
            return Some(Zone::UTC);
        }
        for prefix in ["UTC", "GMT", "UT"] {
            if let Some(rest) = id.strip_prefix(prefix).filter(|rest| rest.starts_with(['+', '-'])) {
                return parse_offset(rest.as_bytes()).map(Zone::Offset);
            }
        }
        if id.starts_with(['+', '-']) {
            return parse_offset(id.as_bytes()).map(Zone::Offset);
        }
        if let Some(short) = short_name(id) {
            return Zone::parse(short);
        }
        match id.parse::<Tz>().ok()? {
            Tz::UTC => Some(Zone::UTC),
            region => Some(Zone::Region(region)),
        }
    }

    /// The instant, in microseconds since 1970, of a local time given as microseconds since 1970 read as if it were UTC.
    ///
    /// Within a gap the clock is moved forward by the gap; within an overlap the earlier instant is taken, as Java does.
    pub fn instant(self, local: i64) -> Option<i64> {
        let seconds = match self {
            Zone::Offset(seconds) => i64::from(seconds),
            Zone::Region(region) => i64::from(offset_at(region, local)?),
        };
        local.checked_sub(seconds.checked_mul(1_000_000)?)
    }
}

/// The offset in seconds that a region applies to a local time.
fn offset_at(region: Tz, local: i64) -> Option<i32> {
    let wall = DateTime::from_timestamp_micros(local)?.naive_utc();
    match region.offset_from_local_datetime(&wall) {
        LocalResult::Single(offset) => Some(offset.fix().local_minus_utc()),
        LocalResult::Ambiguous(earlier, _) => Some(earlier.fix().local_minus_utc()),
        LocalResult::None => {
            // A gap: the offset in force before it. The longest gap on record is one day.
            let before = wall.checked_sub_signed(TimeDelta::hours(25))?;
            region.offset_from_local_datetime(&before).latest().map(|offset| offset.fix().local_minus_utc())
        }
    }
}

/// `+h`, `+hh`, `+h:mm`, `+hh:m`, `+hh:mm`, `+hhmm`, `+hh:mm:ss`, `+hhmmss`, as seconds; at most 18 hours.
fn parse_offset(text: &[u8]) -> Option<i32> {
    let (sign, digits) = match text.split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let mut fields = [0_i32; 3];
    if digits.contains(&b':') {
        for (count, part) in digits.split(|byte| *byte == b':').enumerate() {
            // One digit is fine for hours, and for minutes where no seconds follow.
            if part.is_empty() || part.len() > 2 || (count == 2 && part.len() != 2) {
                return None;
            }
            *fields.get_mut(count)? = number(part)?;
        }
    } else {
        match digits.len() {
            1 | 2 => fields[0] = number(digits)?,
            4 | 6 => {
                for (field, part) in fields.iter_mut().zip(digits.chunks(2)) {
                    *field = number(part)?;
                }
            }
            _ => return None,
        }
    }
    let [hours, minutes, seconds] = fields;
    let total = hours * 3600 + minutes * 60 + seconds;
    (minutes < 60 && seconds < 60 && total <= 18 * 3600).then_some(sign * total)
}

fn number(digits: &[u8]) -> Option<i32> {
    digits.iter().try_fold(0_i32, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i32::from(byte - b'0')))
}

/// Java's `ZoneId.SHORT_IDS`.
fn short_name(id: &str) -> Option<&'static str> {
    Some(match id {
        "ACT" => "Australia/Darwin",
        "AET" => "Australia/Sydney",
        "AGT" => "America/Argentina/Buenos_Aires",
        "ART" => "Africa/Cairo",
        "AST" => "America/Anchorage",
        "BET" => "America/Sao_Paulo",
        "BST" => "Asia/Dhaka",
        "CAT" => "Africa/Harare",
        "CNT" => "America/St_Johns",
        "CST" => "America/Chicago",
        "CTT" => "Asia/Shanghai",
        "EAT" => "Africa/Addis_Ababa",
        "ECT" => "Europe/Paris",
        "EST" => "-05:00",
        "HST" => "-10:00",
        "IET" => "America/Indiana/Indianapolis",
        "IST" => "Asia/Kolkata",
        "JST" => "Asia/Tokyo",
        "MIT" => "Pacific/Apia",
        "MST" => "-07:00",
        "NET" => "Asia/Yerevan",
        "NST" => "Pacific/Auckland",
        "PLT" => "Asia/Karachi",
        "PNT" => "America/Phoenix",
        "PRT" => "America/Puerto_Rico",
        "PST" => "America/Los_Angeles",
        "SST" => "Pacific/Guadalcanal",
        "VST" => "Asia/Ho_Chi_Minh",
        _ => return None,
    })
}
