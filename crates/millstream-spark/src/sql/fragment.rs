//! Pieces of a file as tokens, which the grammars of statements and of queries share.

use std::ops::Range;
use std::sync::Arc;

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::diagnostic::{Diagnostic, Position};
use super::source::SourceFile;
use super::{Cursor, START};

/// A stretch of a file cut into tokens.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    /// The text that was cut: the stretch with `${…}` replaced.
    pub(super) text: String,
    /// The tokens without blanks and comments, every span in coordinates of the file.
    pub(super) tokens: Vec<TokenWithSpan>,
    /// The bytes of `text` that each token stands at.
    pub(super) ranges: Vec<Range<usize>>,
}

/// Some tokens of a file, side by side: a query, or a condition.
#[derive(Clone, Debug)]
pub struct Fragment {
    file: Arc<SourceFile>,
    all: Arc<Tokens>,
    range: Range<usize>,
}

impl Fragment {
    /// All of a stretch of a file.
    pub(crate) fn new(file: Arc<SourceFile>, all: Arc<Tokens>) -> Self {
        let range = 0..all.tokens.len();
        Fragment { file, all, range }
    }

    /// The tokens between two marks of a cursor over this fragment.
    #[must_use]
    pub(crate) fn between(&self, from: usize, to: usize) -> Fragment {
        let start = (self.range.start + from).min(self.range.end);
        let end = (self.range.start + to).clamp(start, self.range.end);
        Fragment { range: start..end, ..self.clone() }
    }

    /// A reader before the first token.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        Cursor::new(&self.file, self.tokens(), START)
    }

    pub(crate) fn tokens(&self) -> &[TokenWithSpan] {
        self.all.tokens.get(self.range.clone()).unwrap_or_default()
    }

    /// The text that [`Fragment::ranges`] refers to.
    pub(super) fn whole_text(&self) -> &str {
        &self.all.text
    }

    pub(super) fn ranges(&self) -> &[Range<usize>] {
        self.all.ranges.get(self.range.clone()).unwrap_or_default()
    }

    /// The text as it was written, with `${…}` replaced.
    pub(crate) fn written(&self) -> &str {
        let ranges = self.ranges();
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return "" };
        self.all.text.get(first.start..last.end).unwrap_or_default()
    }

    /// The tokens as one line: the same line means the same.
    pub(crate) fn line(&self) -> String {
        self.tokens().iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Where it begins.
    pub(crate) fn position(&self) -> Position {
        self.file.position(self.tokens().first().map_or(START, |token| token.span.start))
    }

    /// An error of what the fragment says, at the name that it is about where it names one, otherwise at the beginning.
    pub(crate) fn located(&self, error: &millstream_core::Error) -> Diagnostic {
        let names = error.code().starts_with("UNRESOLVED_") || ["AMBIGUOUS_REFERENCE", "FIELD_NOT_FOUND"].contains(&error.code());
        let of_watermark = error.code().starts_with("EVENT_TIME_");
        let place = quoted(error.message()).filter(|_| names || of_watermark).and_then(|name| self.place_of(&name, of_watermark));
        Diagnostic::of(&place.unwrap_or_else(|| self.position()), error)
    }

    /// Where a name of one or more parts is first written; that of an event time after the word `WATERMARK`.
    fn place_of(&self, name: &[String], of_watermark: bool) -> Option<Position> {
        let mut cursor = self.cursor();
        let mut seen = !of_watermark;
        while cursor.peek().is_some() {
            let (mark, position) = (cursor.mark(), cursor.position());
            match cursor.object_name("a name") {
                Ok(parts) => {
                    seen |=
                        matches!(parts.as_slice(), [word] if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("WATERMARK"));
                    let same = |(part, name): (&String, &String)| part.to_lowercase() == name.to_lowercase();
                    let values: Vec<String> = parts.into_iter().map(|part| part.value).collect();
                    let is_name = values.len() >= name.len() && values.iter().zip(name).all(same);
                    // A name may be told without the relation that it was written with.
                    let is_end = values.len() > name.len() && values.iter().rev().zip(name.iter().rev()).all(same);
                    if seen && (is_name || is_end) {
                        return Some(position);
                    }
                }
                Err(_) => {
                    cursor.reset(mark + 1);
                }
            }
        }
        None
    }
}

/// The first name in backticks that a message mentions, in its parts.
fn quoted(message: &str) -> Option<Vec<String>> {
    let start = message.find('`')?;
    let bytes = message.as_bytes();
    let mut end = start;
    loop {
        end = end + 1 + message.get(end + 1..)?.find('`')?;
        match (bytes.get(end + 1), bytes.get(end + 2)) {
            // The name goes on with another part, or has a backtick in it.
            (Some(b'.'), Some(b'`')) => end += 2,
            (Some(b'`'), _) => end += 1,
            _ => break,
        }
    }
    crate::analyzer::name_parts(message.get(start..=end)?).ok()
}

#[cfg(test)]
mod tests {
    use millstream_core::Error;

    use super::*;
    use crate::sql::Variables;

    fn fragment(text: &str) -> Fragment {
        let file = Arc::new(SourceFile::new("f.sql", text));
        let tokens = file.tokens(0..text.len(), &Variables::new()).unwrap();
        Fragment::new(file, Arc::new(tokens))
    }

    #[test]
    fn fragments_know_their_text_and_line() {
        let all = fragment("SET day = '2024''01' -- no more\n + 1");
        let value = all.between(3, 6);
        assert_eq!((value.written(), value.position().column), ("'2024''01' -- no more\n + 1", 11));
        assert_eq!(value.line(), "'2024'01' + 1");
        assert_eq!(all.between(9, 12).written(), "");
    }

    #[test]
    fn errors_are_told_where_the_name_is() {
        let text = fragment("SELECT a, t.`b c`, s.x.y\nFROM t WATERMARK a DELAY OF INTERVAL 1 DAY WHERE nope(a)");
        for (code, message, line, column) in [
            ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "there is no column `A`: did you mean `b`?", 1, 8),
            ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "there is no column `t`.`b c`", 1, 11),
            ("FIELD_NOT_FOUND", "there is no field `y`", 1, 20),
            ("UNRESOLVED_ROUTINE", "cannot resolve routine `nope`", 2, 50),
            ("EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE", "the event time `a` is an int", 2, 18),
            ("DATATYPE_MISMATCH", "`a` is no number", 1, 1),
            ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "there is no column `z", 1, 1),
        ] {
            let place = text.located(&Error::invalid(code, message)).position;
            assert_eq!((place.line, place.column), (line, column), "{message}");
        }
    }
}
