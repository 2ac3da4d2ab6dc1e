use super::*;
use proptest::prelude::*;

/// Every line of `bytes` when they arrive in pieces of the given sizes.
fn split(bytes: &[u8], sizes: &[usize], separator: &Separator, limit: usize) -> Vec<(u64, Option<Vec<u8>>, u64)> {
    let mut lines = Lines::new(separator.clone(), limit, true);
    let (mut out, mut rest, mut turn) = (Vec::new(), bytes, 0);
    loop {
        match lines.next_record() {
            Line::Record { bytes, position, utf8 } => {
                assert!(!utf8 || std::str::from_utf8(bytes).is_ok());
                out.push((position, Some(bytes.to_vec()), bytes.len() as u64));
            }
            Line::TooLarge { position, length } => out.push((position, None, length)),
            Line::Incomplete if rest.is_empty() => lines.finish(),
            Line::Incomplete => {
                let size = sizes[turn % sizes.len()].clamp(1, rest.len());
                turn += 1;
                lines.space().extend_from_slice(&rest[..size]);
                rest = &rest[size..];
                lines.filled();
            }
            Line::End => return out,
        }
    }
}

fn texts(bytes: &[u8], separator: &Separator) -> Vec<String> {
    split(bytes, &[1], separator, 100).into_iter().map(|(_, text, _)| String::from_utf8(text.unwrap()).unwrap()).collect()
}

#[test]
fn every_line_end_counts_once() {
    assert_eq!(texts(b"a\nb\r\nc\rd\r\re", &Separator::LineEnd), ["a", "b", "c", "d", "", "e"]);
    assert_eq!(texts(b"a\n", &Separator::LineEnd), ["a"]);
    assert_eq!(texts(b"\n\n", &Separator::LineEnd), ["", ""]);
    assert_eq!(texts(b"", &Separator::LineEnd), [""; 0]);
    assert_eq!(texts(b"\xef\xbb\xbfa", &Separator::LineEnd), ["a"]);
    assert_eq!(texts(b"\xef\xbb\xbf", &Separator::LineEnd), [""; 0]);
    assert_eq!(texts(b"a||b|c||", &Separator::Text(b"||".to_vec())), ["a", "b|c"]);
    assert_eq!(texts(b"a\nb", &Separator::Never), ["a\nb"]);
}

#[test]
fn a_separator_cut_by_the_end_of_a_piece_does_not_count_as_record() {
    let separator = Separator::Text(b"a|a".to_vec());
    for piece in 1..8 {
        assert_eq!(split(b"xxxxa|ay", &[piece], &separator, 4), [(0, Some(b"xxxx".to_vec()), 4), (7, Some(b"y".to_vec()), 1)]);
    }
}

#[test]
fn an_oversized_record_is_never_held() {
    let mut lines = Lines::new(Separator::LineEnd, 10, true);
    assert_eq!(lines.next_record(), Line::Incomplete);
    lines.space().extend_from_slice(b"ok\n");
    lines.filled();
    assert!(matches!(lines.next_record(), Line::Record { bytes: b"ok", position: 0, utf8: true }));
    for _ in 0..1000 {
        assert_eq!(lines.next_record(), Line::Incomplete);
        let space = lines.space();
        assert!(space.len() <= 10, "{}", space.len());
        space.extend_from_slice(&[b'x'; 100]);
        lines.filled();
    }
    lines.space().extend_from_slice(b"\nend");
    lines.filled();
    assert_eq!(lines.next_record(), Line::TooLarge { position: 3, length: 100_000 });
    lines.finish();
    assert!(matches!(lines.next_record(), Line::Record { bytes: b"end", position: 100_004, .. }));
    assert_eq!(lines.next_record(), Line::End);
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(b'|'), any::<u8>()], 0..200),
        sizes in proptest::collection::vec(1_usize..20, 1..8),
        limit in 1_usize..40,
        which in 0_usize..4,
    ) {
        let text_separator = |text: &[u8]| Separator::Text(text.to_vec());
        let separator = [Separator::LineEnd, text_separator(b"|"), text_separator(b"a|a"), Separator::Never][which].clone();
        let whole = split(&text, &[text.len().max(1)], &separator, limit);
        prop_assert_eq!(&split(&text, &sizes, &separator, limit), &whole);
        prop_assert!(whole.iter().all(|(_, text, length)| (*length > limit as u64) == text.is_none()));
    }
}
