use crate::functions::Settings;
use crate::functions::testing::outcome;

pub(super) fn check(cases: &[(&str, &str, &str)]) {
    check_with(cases, &Settings::default());
}

pub(super) fn check_with(cases: &[(&str, &str, &str)], settings: &Settings) {
    for (name, arguments, expected) in cases {
        assert_eq!(&outcome(name, arguments, settings), expected, "{name}({arguments}) ansi={}", settings.ansi);
    }
}

#[test]
fn operators_under_ansi_rules() {
    let diff = "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES";
    let wrong = "DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE";
    check(&[
        ("+", "1; 2", "int 3"),
        ("+", "2147483647; 1", "ARITHMETIC_OVERFLOW"),
        ("+", "tinyint'127'; tinyint'1'", "BINARY_ARITHMETIC_OVERFLOW"),
        ("*", "9223372036854775807; 2", "ARITHMETIC_OVERFLOW"),
        ("+", "1; 2.5", "double 3.5"),
        ("+", "1; float'1.5'", "double 2.5"),
        ("+", "'5'; 1", "bigint 6"),
        ("+", "'5'; 1.5", "double 6.5"),
        ("+", "'abc'; 1", "CAST_INVALID_INPUT"),
        ("+", "'1'; '2'", wrong),
        ("+", "1; true", diff),
        ("+", "true; true", wrong),
        ("+", "null; 1", "int null"),
        ("+", "null; null", "double null"),
        ("+", "null; 'x'", wrong),
        ("+", "decimal(5,2)'3.50'; 7", "decimal(6,2) 10.50"),
        ("+", "tinyint'1'; decimal(5,2)'3.50'", "decimal(6,2) 4.50"),
        ("*", "tinyint'1'; decimal(5,2)'3.50'", "decimal(9,2) 3.50"),
        ("-", "decimal(5,2)'3.50'; float'1.5'", "double 2.0"),
        ("/", "7; 2", "double 3.5"),
        ("/", "1; 0", "DIVIDE_BY_ZERO"),
        ("/", "double'1'; double'-0.0'", "DIVIDE_BY_ZERO"),
        ("/", "null; 0", "double null"),
        ("/", "decimal(5,2)'3.50'; 7", "decimal(9,6) 0.500000"),
        ("/", "decimal(5,2)'3.50'; decimal(5,2)'0'", "DIVIDE_BY_ZERO"),
        ("%", "7; 0", "REMAINDER_BY_ZERO"),
        ("%", "-7; 3", "int -1"),
        ("%", "7; double'2.5'", "double 2.0"),
        ("%", "decimal(5,2)'3.50'; 2", "decimal(3,2) 1.50"),
        ("pmod", "-7; 3", "int 2"),
        ("div", "7; 2", "bigint 3"),
        ("div", "-7; 2", "bigint -3"),
        ("div", "1; 0", "DIVIDE_BY_ZERO"),
        ("div", "-9223372036854775808; -1", "ARITHMETIC_OVERFLOW"),
        ("div", "decimal(5,2)'7.50'; decimal(5,2)'2.00'", "bigint 3"),
        ("div", "1; 2.5", diff),
        ("div", "2.5; decimal(5,2)'1'", wrong),
        ("div", "null; null", "bigint null"),
        ("negative", "-2147483648", "ARITHMETIC_OVERFLOW"),
        ("negative", "'1.5'", "double -1.5"),
        ("positive", "3", "int 3"),
        ("abs", "-3", "int 3"),
        ("abs", "-2147483648", "ARITHMETIC_OVERFLOW"),
        ("abs", "decimal(5,2)'-3.50'", "decimal(5,2) 3.50"),
        ("*", "decimal(38,0)'99999999999999999999999999999999999999'; decimal(38,0)'10'", "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"),
        (
            "+",
            "interval day to second'1 00:00:00'; interval day to second'0 01:00:00'",
            "interval day to second INTERVAL '1 01:00:00' DAY TO SECOND",
        ),
        ("-", "interval year to month'1-0'; interval year to month'0-1'", "interval year to month INTERVAL '0-11' YEAR TO MONTH"),
    ]);
}

#[test]
fn operators_without_ansi_rules() {
    let settings = Settings { ansi: false, ..Settings::default() };
    let cases = [
        ("+", "2147483647; 1", "int -2147483648"),
        ("+", "1; float'1.5'", "float 2.5"),
        ("+", "'5'; 1", "double 6.0"),
        ("+", "'1'; '2'", "double 3.0"),
        ("+", "'abc'; 1", "double null"),
        ("/", "1; 0", "double null"),
        ("%", "7; 0", "int null"),
        ("div", "-9223372036854775808; -1", "bigint -9223372036854775808"),
        ("negative", "-2147483648", "int -2147483648"),
        ("*", "decimal(38,0)'99999999999999999999999999999999999999'; decimal(38,0)'10'", "decimal(38,0) null"),
    ];
    check_with(&cases, &settings);
}

#[test]
fn attempts_give_null() {
    check(&[
        ("try_add", "2147483647; 1", "int null"),
        ("try_add", "1; 1", "int 2"),
        ("try_subtract", "-2147483648; 1", "int null"),
        ("try_multiply", "9223372036854775807; 2", "bigint null"),
        ("try_divide", "1; 0", "double null"),
        ("try_divide", "decimal(2,1)'1.5'; 1", "decimal(7,6) 1.500000"),
        ("try_mod", "1; 0", "int null"),
    ]);
}
