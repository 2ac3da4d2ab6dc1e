//! Literals as Spark prints them in names.

use chrono::{DateTime, NaiveDate};
use spark_connect_proto::data_type::Kind;
use spark_connect_proto::expression::Literal;
use spark_connect_proto::expression::literal::LiteralType;

/// The units of day-time intervals, by Spark's numbers.
const DAY_TIME: &[&str] = &["DAY", "HOUR", "MINUTE", "SECOND"];
/// The units of year-month intervals.
const YEAR_MONTH: &[&str] = &["YEAR", "MONTH"];

/// Texts are bare, numbers as Java prints them, everything else as SQL.
pub(super) fn pretty(literal: &Literal) -> String {
    let Some(value) = &literal.literal_type else { return "NULL".to_owned() };
    match value {
        LiteralType::Null(_) => "NULL".to_owned(),
        LiteralType::Boolean(value) => value.to_string(),
        LiteralType::Byte(number) | LiteralType::Short(number) | LiteralType::Integer(number) => number.to_string(),
        LiteralType::Long(number) => number.to_string(),
        LiteralType::Float(number) => java(f64::from(*number), &format!("{number:e}")),
        LiteralType::Double(number) => java(*number, &format!("{number:e}")),
        LiteralType::Decimal(decimal) => decimal_text(&decimal.value),
        LiteralType::String(text) => text.clone(),
        LiteralType::Binary(bytes) => format!("X'{}'", bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>()),
        LiteralType::Date(days) => {
            let date = NaiveDate::default().checked_add_signed(chrono::TimeDelta::days((*days).into()));
            date.map_or_else(|| days.to_string(), |date| format!("DATE '{}'", date.format("%Y-%m-%d")))
        }
        LiteralType::Timestamp(micros) => format!("TIMESTAMP '{}'", timestamp(*micros)),
        LiteralType::TimestampNtz(micros) => format!("TIMESTAMP_NTZ '{}'", timestamp(*micros)),
        LiteralType::Time(time) => {
            let time = DateTime::from_timestamp_nanos(time.nano);
            format!("TIME '{}'", without_zeros(&time.format("%H:%M:%S%.6f").to_string()))
        }
        LiteralType::CalendarInterval(interval) => {
            format!("INTERVAL '{} months {} days {} microseconds'", interval.months, interval.days, interval.microseconds)
        }
        LiteralType::YearMonthInterval(months) => year_month(*months, units(literal, 1)),
        LiteralType::DayTimeInterval(micros) => day_time(*micros, units(literal, 3)),
        LiteralType::Array(array) => format!("ARRAY({})", list(&array.elements)),
        LiteralType::Struct(fields) => format!("STRUCT({})", list(&fields.elements)),
        LiteralType::Map(map) => {
            let entries: Vec<String> =
                map.keys.iter().zip(&map.values).map(|(key, value)| format!("{}, {}", pretty(key), pretty(value))).collect();
            format!("MAP({})", entries.join(", "))
        }
        _ => String::new(),
    }
}

fn list(literals: &[Literal]) -> String {
    literals.iter().map(pretty).collect::<Vec<_>>().join(", ")
}

/// A floating-point number as Java's `toString` writes it; `shortest` is its shortest form with an exponent.
fn java(number: f64, shortest: &str) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if number != 0.0 && !(-3..7).contains(&exponent) {
        let point = if mantissa.contains('.') { "" } else { ".0" };
        return format!("{mantissa}{point}E{exponent}");
    }
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let place = usize::try_from(exponent + 1).unwrap_or(0);
    if exponent < 0 {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
        return format!("{sign}0.{zeros}{digits}");
    }
    let padded = format!("{digits:0<place$}");
    let (whole, fraction) = padded.split_at(place.min(padded.len()));
    format!("{sign}{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
}

/// A decimal as Java's `BigDecimal` writes it: with an exponent where there are many zeros after the point.
fn decimal_text(value: &str) -> String {
    let (sign, unsigned) = value.strip_prefix('-').map_or(("", value), |rest| ("-", rest));
    let Some((whole, fraction)) = unsigned.split_once('.') else { return value.to_owned() };
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let significant = if significant.is_empty() { "0" } else { significant };
    let adjusted = i64::try_from(significant.len()).unwrap_or(0) - 1 - i64::try_from(fraction.len()).unwrap_or(0);
    if adjusted >= -6 {
        return value.to_owned();
    }
    let (first, rest) = significant.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}E{adjusted}")
}

fn timestamp(micros: i64) -> String {
    match DateTime::from_timestamp_micros(micros) {
        Some(time) => without_zeros(&time.format("%Y-%m-%d %H:%M:%S%.6f").to_string()),
        None => micros.to_string(),
    }
}

fn without_zeros(text: &str) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The first and the last unit of an interval; `last` is the smallest that its kind has.
fn units(literal: &Literal, last: usize) -> (usize, usize) {
    let (start, end) = match literal.data_type.as_ref().and_then(|data_type| data_type.kind.as_ref()) {
        Some(Kind::DayTimeInterval(kind)) => (kind.start_field, kind.end_field),
        Some(Kind::YearMonthInterval(kind)) => (kind.start_field, kind.end_field),
        _ => (None, None),
    };
    let unit =
        |field: Option<i32>, otherwise: usize| field.and_then(|field| usize::try_from(field).ok()).map_or(otherwise, |n| n.min(last));
    let start = unit(start, 0);
    (start, unit(end, if literal.data_type.is_some() { start } else { last }).max(start))
}

fn range(names: &[&str], (start, end): (usize, usize)) -> String {
    let name = |n: usize| names.get(n).copied().unwrap_or_default();
    if start == end { name(start).to_owned() } else { format!("{} TO {}", name(start), name(end)) }
}

fn year_month(months: i32, units: (usize, usize)) -> String {
    let (sign, absolute) = (if months < 0 { "-" } else { "" }, months.unsigned_abs());
    let text = match units {
        (0, 0) => (absolute / 12).to_string(),
        (0, _) => format!("{}-{}", absolute / 12, absolute % 12),
        _ => absolute.to_string(),
    };
    format!("INTERVAL '{sign}{text}' {}", range(YEAR_MONTH, units))
}

fn day_time(micros: i64, units: (usize, usize)) -> String {
    let (sign, absolute) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
    let (start, end) = units;
    let seconds = absolute / 1_000_000;
    let mut rest = seconds;
    let mut text = String::new();
    for (n, length) in [86_400, 3_600, 60, 1].into_iter().enumerate() {
        if n < start || n > end {
            continue;
        }
        let value = rest / length;
        rest %= length;
        match n {
            0 => text.push_str(&value.to_string()),
            _ => {
                let separator = match n {
                    _ if n == start => "",
                    1 => " ",
                    _ => ":",
                };
                text.push_str(&format!("{separator}{value:02}"));
            }
        }
    }
    if end == 3 && absolute % 1_000_000 != 0 {
        text.push_str(&format!(".{}", without_zeros(&format!("{:06}", absolute % 1_000_000))));
    }
    format!("INTERVAL '{sign}{text}' {}", range(DAY_TIME, units))
}
