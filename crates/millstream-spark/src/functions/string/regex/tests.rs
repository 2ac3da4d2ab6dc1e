use super::*;

/// What the machine finds, whatever the `regex` crate could do.
fn by_machine(regex: &Regex, text: &str) -> Option<Vec<Option<(usize, usize)>>> {
    let mut machine = Machine::new(text, 0);
    let found = regex.search(&mut machine, text, 0).unwrap();
    let groups = Groups { slots: machine.slots };
    found.then(|| (0..=regex.groups()).map(|group| groups.get(group)).collect())
}

fn found(regex: &Regex, text: &str) -> Option<Vec<Option<(usize, usize)>>> {
    let mut groups = Groups::default();
    regex.find_at(text, 0, &mut groups).unwrap().then(|| (0..=regex.groups()).map(|group| groups.get(group)).collect())
}

#[test]
fn both_ways_of_finding_agree() {
    let patterns = [
        "a",
        "a|b",
        "(a|ab)(c|bcd)(d*)",
        "[a-e&&[^bc]]+",
        "(?i)[k-s]+",
        "(?i)straße",
        "\\w+@\\w+\\.com",
        "^b",
        "b$",
        "(?m)^b$",
        "\\bb\\b",
        "a{2,3}?",
        "(a{2,3})(a*)",
        "x*?y",
        "(?:ab)+",
        ".+",
        "(.)(.)$",
        "[^\\s]+",
        "\\d{3}-\\d{4}",
        "(a)|(b)|(c)",
        "\\p{L}+\\p{Nd}",
        "\\h+",
        "[\\x41-\\x43é]+",
        "(&|^)k=([^&]*)",
        "\\.\\*",
        "[-a]+",
        "(?s)a.b",
        "a.b",
        "(?x) a b # c",
    ];
    let texts = [
        "",
        "a",
        "abcd",
        "aaaa",
        "b\nb",
        "a\nb",
        "x@y.com",
        "KLMNOpqrs",
        "STRASSE straße",
        "555-1234",
        "é1 A\u{a0}B",
        "k=1&k=2",
        "xxy",
        "a b",
        "日本😀b",
        "-a-",
        "ab ab\tab",
    ];
    for pattern in patterns {
        let regex = Regex::compile(pattern).unwrap();
        assert!(regex.linear.is_some(), "{pattern} is not linear");
        for text in texts {
            assert_eq!(found(&regex, text), by_machine(&regex, text), "{pattern} in {text:?}");
        }
    }
}

#[test]
fn what_only_java_finds() {
    for (pattern, text, expected) in [
        ("(a)\\1", "xaa", Some((1, 3))),
        ("(?<=a{1,3})b", "aab", Some((2, 3))),
        ("(?<!a)b", "abcb", Some((3, 4))),
        ("(?>a|ab)c", "abc", None),
        ("a*+a", "aaa", None),
        ("(a*)*b", "aab", Some((0, 3))),
        ("(?:a?)*?b", "aab", Some((0, 3))),
        ("(?i)(é)\\1", "éé", Some((0, 4))),
        ("end$", "end\r\n", Some((0, 3))),
        ("(?m)^b", "a\rb", Some((2, 3))),
        ("a.c", "a\u{85}c", None),
        ("\\Ga", "aa", Some((0, 1))),
    ] {
        let regex = Regex::compile(pattern).unwrap();
        assert_eq!(found(&regex, text).map(|groups| groups[0].unwrap()), expected, "{pattern} in {text:?}");
    }
}

#[test]
fn invalid_patterns_say_what_is_wrong() {
    for (pattern, expected) in [
        ("(", "not closed"),
        (")", "closes nothing"),
        ("[a", "not closed"),
        ("*a", "repeats nothing"),
        ("a{2", "not closed"),
        ("a{3,2}", "at least"),
        ("\\", "ends with a backslash"),
        ("\\y", "means nothing"),
        ("\\p{Nope}", "no property"),
        ("(?<a>x)(?<a>y)", "twice"),
        ("\\k<z>", "no group"),
        ("(?<=a*)b", "greatest length"),
        ("[z-a]", "backwards"),
    ] {
        let error = Regex::compile(pattern).unwrap_err();
        assert!(error.contains(expected), "{pattern}: {error}");
    }
}

#[test]
fn a_pattern_that_never_ends_is_given_up() {
    let regex = Regex::compile("(a+)+(?!a)b").unwrap();
    let error = regex.is_match(&"a".repeat(40)).unwrap_err();
    assert_eq!(error.code(), "REGEX_TOO_COMPLEX");
}
