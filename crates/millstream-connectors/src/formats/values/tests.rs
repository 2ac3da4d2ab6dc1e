use super::*;
use millstream_core::Options;

const DAY: i64 = 86_400_000_000;

fn at(text: &str) -> Option<i64> {
    parse_timestamp(text, Zone::UTC)
}

fn pattern(pattern: &str) -> DateTimePattern {
    DateTimePattern::compile(pattern).unwrap()
}

#[test]
fn whole_numbers_have_a_sign_and_fit_64_bits() {
    assert_eq!(parse_long(b"-9223372036854775808"), Some(i64::MIN));
    assert_eq!(parse_long(b"9223372036854775808"), None);
    assert_eq!(parse_long(b"+5"), Some(5));
    for bad in ["", "-", "1.0", " 1", "1e3"] {
        assert_eq!(parse_long(bad.as_bytes()), None, "{bad:?}");
    }
}

#[test]
fn floating_point_follows_java() {
    assert_eq!(parse_double(" 1.5d "), Some(1.5));
    assert_eq!(parse_double("-Infinity"), Some(f64::NEG_INFINITY));
    assert!(parse_double("NaN").unwrap().is_nan());
    assert_eq!(parse_double("1e400"), Some(f64::INFINITY));
    assert_eq!(parse_float("16777217"), Some(16_777_216.0));
    for bad in ["", "inf", "nan", "infinity", "x", "+-1", "1 2"] {
        assert_eq!(parse_double(bad), None, "{bad:?}");
    }
}

#[test]
fn decimals_round_halves_up_and_know_their_limits() {
    assert_eq!(parse_decimal(b"1.005", 10, 2), Some(101));
    assert_eq!(parse_decimal(b"-1.005", 10, 2), Some(-101));
    assert_eq!(parse_decimal(b"0.004999", 10, 2), Some(0));
    assert_eq!(parse_decimal(b"0.005", 10, 2), Some(1));
    assert_eq!(parse_decimal(b"1.5e3", 10, 2), Some(150_000));
    assert_eq!(parse_decimal(b"15E-1", 10, 2), Some(150));
    assert_eq!(parse_decimal(b"99.995", 4, 2), None);
    assert_eq!(parse_decimal(b"0e999999999", 4, 2), Some(0));
    assert_eq!(parse_decimal(b"1e999999999", 38, 0), None);
    assert_eq!(parse_decimal(b"1e-999999999", 38, 10), Some(0));
    assert_eq!(parse_decimal(b"99999999999999999999999999999999999999", 38, 0), Some(POWERS_OF_TEN[38] - 1));
    assert_eq!(parse_decimal(b".5", 2, 1), Some(5));
    assert_eq!(parse_decimal(b"000123.4500", 5, 2), Some(12345));
    for bad in ["", ".", "-", "1e", "1,000", "1 ", "0x1"] {
        assert_eq!(parse_decimal(bad.as_bytes(), 10, 2), None, "{bad:?}");
    }
    assert_eq!(decimal_shape(b"99999999999999999999"), Some((20, 0)));
    assert_eq!(decimal_shape(b"-0.010"), Some((2, 3)));
    assert_eq!(decimal_shape(b"1e5"), Some((1, -5)));
}

#[test]
fn dates_as_cast_takes_them() {
    let expected = parse_date("2024-01-02");
    assert_eq!(expected, Some(19_724));
    for same in [" 2024-01-02 ", "2024-1-2", "2024-01-02T", "2024-01-02 25:00:00", "+2024-01-02"] {
        assert_eq!(parse_date(same), expected, "{same:?}");
    }
    assert_eq!(parse_date("2024"), Some(19_723));
    assert_eq!(parse_date("2024-01"), Some(19_723));
    assert_eq!(parse_date("1969-12-31"), Some(-1));
    assert_eq!(parse_date("0001-01-01"), Some(-719_162));
    for bad in ["", "02/01/2024", "2024-02-30", "now", "20240102", "2024-01-02x", "24-01-02"] {
        assert_eq!(parse_date(bad), None, "{bad:?}");
    }
}

#[test]
fn timestamps_as_cast_takes_them() {
    let seconds = 1_704_164_645_000_000;
    assert_eq!(at("2024-01-02 03:04:05"), Some(seconds));
    assert_eq!(at("2024-01-02T03:04:05Z"), Some(seconds));
    assert_eq!(at("2024-1-2 3:4:5"), Some(seconds));
    assert_eq!(at("2024-01-02T03:04:05.123456789+05:30"), Some(seconds + 123_456 - 5 * 3_600_000_000 - 30 * 60_000_000));
    assert_eq!(at("2024-01-02 03:04:05 America/New_York"), Some(seconds + 5 * 3_600_000_000));
    assert_eq!(at("2024-01-02 03"), Some(seconds - 245_000_000));
    assert_eq!(at("2024-01-02 03:04:05.5"), Some(seconds + 500_000));
    assert_eq!(at("2024"), parse_date("2024").map(|days| i64::from(days) * DAY));
    for bad in
        ["", "now", "2024-02-30", "2024-01-02 25:00:00", "2024-01-02T", "2024-01-02 03:04Z", "03:04:05", "2024-01-02 03:04:05 Nowhere"]
    {
        assert_eq!(at(bad), None, "{bad:?}");
    }
    assert_eq!(parse_timestamp_ntz("2024-01-02T03:04:05Z", true), Some(seconds));
    assert_eq!(parse_timestamp_ntz("2024-01-02T03:04:05Z", false), None);
}

#[test]
fn regions_follow_java_in_gaps_and_overlaps() {
    let new_york = Zone::parse("America/New_York").unwrap();
    assert_eq!(parse_timestamp("2024-03-10 02:30:00", new_york), at("2024-03-10 07:30:00"));
    assert_eq!(parse_timestamp("2024-11-03 01:30:00", new_york), at("2024-11-03 05:30:00"));
    assert_eq!(parse_timestamp("2024-07-02T03:04:05", new_york), at("2024-07-02 07:04:05"));
    assert_eq!(parse_timestamp("2011-12-30 12:00:00", Zone::parse("Pacific/Apia").unwrap()), at("2011-12-30 22:00:00"));
    assert_eq!(Zone::parse("GMT+2"), Some(Zone::Offset(7200)));
    assert_eq!(Zone::parse("-0130"), Some(Zone::Offset(-5400)));
    for bad in ["", "+25", "+1:99", "Nowhere/Land", "utc+x"] {
        assert_eq!(Zone::parse(bad), None, "{bad:?}");
    }
}

#[test]
fn patterns_read_what_spark_reads() {
    let read = |form: &str, text: &str| pattern(form).timestamp(text, Zone::UTC);
    assert_eq!(read("ddMMMyyyy:HH:mm:ss", "05Mar2024:07:08:09"), at("2024-03-05 07:08:09"));
    assert_eq!(read("yyyy-MM-dd h:mm a", "2024-03-05 7:08 PM"), at("2024-03-05 19:08:00"));
    assert_eq!(read("yyyy-MM-dd HH:mm:ss[.SSS]", "2024-03-05 07:08:09"), at("2024-03-05 07:08:09"));
    assert_eq!(read("yyyy-MM-dd HH:mm:ss[.SSS]", "2024-03-05 07:08:09.5"), at("2024-03-05 07:08:09.5"));
    assert_eq!(read("yyyy-MM-dd'T'HH:mm:ssZ", "2024-03-05T07:08:09+0200"), at("2024-03-05 05:08:09"));
    assert_eq!(read("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-03-05T07:08:09+02:00"), at("2024-03-05 05:08:09"));
    assert_eq!(read("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "2024-03-05T07:08:09Z"), at("2024-03-05 07:08:09"));
    assert_eq!(read("dd/MM/yyyy HH", "05/03/2024 01"), at("2024-03-05 01:00:00"));
    assert_eq!(read("yyyyMMddHHmmss", "20240305070809"), at("2024-03-05 07:08:09"));
    assert_eq!(read("yyyy-MM-dd HH:mm VV", "2024-01-05 07:08 Europe/Prague"), at("2024-01-05 06:08:00"));
    assert_eq!(read("yyyyMMddHHmmssSSS", "20240305070809123"), None);
    assert_eq!(read("yyyy-MM-dd", "2024-1-2"), None);
    assert_eq!(read("yyyy-MM-dd HH", "2024-01-02 24"), None);
    assert_eq!(read("yyyy-MM-dd", "2024-02-30"), None);
    let day = |form: &str, text: &str| pattern(form).date(text);
    assert_eq!(day("d.M.yy", "5.3.24"), parse_date("2024-03-05"));
    assert_eq!(day("MMMM d, yyyy", "march 5, 2024"), parse_date("2024-03-05"));
    assert_eq!(day("yyyy-DDD", "2024-065"), parse_date("2024-03-05"));
    assert_eq!(day("yyyy-MM", "2024-03"), parse_date("2024-03-01"));
    assert_eq!(day("''yyyy 'of' G", "'2024 of AD"), parse_date("2024-01-01"));
    assert_eq!(pattern("yyyy-MM-dd HH:mm").timestamp_ntz("2024-01-05 07:08"), at("2024-01-05 07:08:00"));
    assert_eq!(pattern("yyyy-MM-ddX").timestamp_ntz("2024-01-05Z"), None);
}

#[test]
fn patterns_that_spark_refuses_are_refused() {
    for (form, code) in [
        ("E", "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER"),
        ("yyyyyyy", "INVALID_DATETIME_PATTERN.LENGTH"),
        ("YYYY", "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN"),
        ("yyyy 'open", "INVALID_DATETIME_PATTERN"),
        ("yyyy]", "INVALID_DATETIME_PATTERN"),
        ("ddd", "INVALID_DATETIME_PATTERN"),
    ] {
        assert_eq!(DateTimePattern::compile(form).unwrap_err().code(), code, "{form}");
    }
    let bad = DateTimeFormats::from_options(&Options::new().with("timeZone", "Mars")).unwrap_err();
    assert_eq!(bad.code(), "INVALID_TIMEZONE");
}

#[test]
fn a_format_turns_the_fallback_off_unless_asked_for() {
    let plain = DateTimeFormats::from_options(&Options::new()).unwrap();
    assert_eq!(plain.timestamp("2024-01-02T03:04:05.000GMT+01:00"), at("2024-01-02 02:04:05"));
    let strict = DateTimeFormats::from_options(&Options::new().with("dateFormat", "dd/MM/yyyy")).unwrap();
    assert_eq!(strict.date("02/01/2024"), Some(19_724));
    assert_eq!(strict.date("2024-01-02"), None);
    let both = Options::new().with("dateFormat", "dd/MM/yyyy").with("enableDateTimeParsingFallback", "true");
    assert_eq!(DateTimeFormats::from_options(&both).unwrap().date("2024-01-02"), Some(19_724));
}

proptest::proptest! {
    #[test]
    fn days_count_up_by_one(days in -2_000_000_i64..2_000_000) {
        let date = chrono::DateTime::from_timestamp(days * 86_400, 0).unwrap().date_naive();
        use chrono::Datelike;
        proptest::prop_assert_eq!(days_of(i64::from(date.year()), date.month(), date.day()), Some(days));
    }

    #[test]
    fn any_text_is_a_value_or_none(text in "\\PC{0,40}", form in "[yMdHhmsSaXxZVGDkK' \\[\\]:.-]{0,12}") {
        let _ = (parse_date(&text), at(&text), parse_timestamp_ntz(&text, true), parse_double(&text), parse_float(&text));
        let _ = (parse_long(text.as_bytes()), parse_decimal(text.as_bytes(), 38, 18), decimal_shape(text.as_bytes()), Zone::parse(&text));
        if let Ok(pattern) = DateTimePattern::compile(&form) {
            let _ = (pattern.date(&text), pattern.timestamp(&text, Zone::UTC), pattern.timestamp_ntz(&form));
        }
    }
}
