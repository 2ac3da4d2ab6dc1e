//! The layout of shown rows. Widths are counted as a terminal shows them: East Asian characters are two columns wide.

use super::First;

/// The narrowest that a column is shown.
const LEAST_WIDTH: usize = 3;

/// Characters that would break the layout, and what is shown for them.
const ESCAPES: [(char, &str); 7] =
    [('\n', "\\n"), ('\r', "\\r"), ('\t', "\\t"), ('\u{c}', "\\f"), ('\u{8}', "\\b"), ('\u{b}', "\\v"), ('\u{7}', "\\a")];

/// Cells, ready for the layout.
#[derive(Debug)]
pub(super) struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
    more: bool,
    truncated: bool,
}

impl Table {
    /// Cells of at most `truncate` characters; 0 is no limit.
    pub(super) fn new(first: First, truncate: usize) -> Self {
        let cell = |text: String| cut(escape(&text), truncate);
        Table {
            names: first.names.iter().map(|name| escape(name)).collect(),
            rows: first.rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect(),
            more: first.more,
            truncated: truncate > 0,
        }
    }

    /// As `show` prints it.
    pub(super) fn render(&self, vertical: bool) -> String {
        let mut text = if vertical { self.records() } else { self.grid() };
        if vertical && self.rows.is_empty() {
            text.push_str("(0 rows)");
        } else if self.more {
            text.push_str(&self.footer());
        }
        text
    }

    fn footer(&self) -> String {
        let count = self.rows.len();
        format!("only showing top {count} {}", if count == 1 { "row" } else { "rows" })
    }

    fn grid(&self) -> String {
        let mut widths: Vec<usize> = self.names.iter().map(|name| width(name).max(LEAST_WIDTH)).collect();
        for row in &self.rows {
            for (known, cell) in widths.iter_mut().zip(row) {
                *known = (*known).max(width(cell));
            }
        }
        let rule = format!("+{}+\n", widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("+"));
        // Cells that were cut are set to the right, whole ones to the left.
        let set = |cell: &String, wide: &usize| {
            let space = " ".repeat(wide.saturating_sub(width(cell)));
            if self.truncated { format!("{space}{cell}") } else { format!("{cell}{space}") }
        };
        let line = |cells: &[String]| {
            format!("|{}|\n", cells.iter().zip(&widths).map(|(cell, wide)| set(cell, wide)).collect::<Vec<_>>().join("|"))
        };
        let mut text = format!("{rule}{}{rule}", line(&self.names));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text.push_str(&rule);
        text
    }

    fn records(&self) -> String {
        let names = self.names.iter().map(|name| width(name)).max().unwrap_or(0).max(LEAST_WIDTH);
        let cells = self.rows.iter().flatten().map(|cell| width(cell)).max().unwrap_or(0).max(LEAST_WIDTH);
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let title = format!("-RECORD {number}");
            let dashes = "-".repeat((names + cells + 5).saturating_sub(title.len()));
            text.push_str(&format!("{title}{dashes}\n"));
            for (name, cell) in self.names.iter().zip(row) {
                let (after_name, after_cell) = (" ".repeat(names - width(name).min(names)), " ".repeat(cells - width(cell).min(cells)));
                text.push_str(&format!(" {name}{after_name} | {cell}{after_cell} \n"));
            }
        }
        text
    }

    /// As notebooks show it.
    pub(super) fn html(&self) -> String {
        let row = |cells: &[String], tag: &str| {
            let cells: Vec<String> = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", html_escape(cell))).collect();
            format!("<tr>{}</tr>\n", cells.concat())
        };
        let rows: String = self.rows.iter().map(|cells| row(cells, "td")).collect();
        let footer = if self.more { format!("{}\n", self.footer()) } else { String::new() };
        format!("<table border='1'>\n{}{rows}</table>\n{footer}", row(&self.names, "th"))
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match ESCAPES.iter().find(|(special, _)| *special == c) {
            Some((_, shown)) => escaped.push_str(shown),
            None => escaped.push(c),
        }
    }
    escaped
}

fn html_escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// At most `limit` characters, the last three of which are dots if something was cut off and there is room.
fn cut(text: String, limit: usize) -> String {
    if limit == 0 || text.chars().count() <= limit {
        return text;
    }
    if limit < 4 { text.chars().take(limit).collect() } else { text.chars().take(limit - 3).chain("...".chars()).collect() }
}

/// The columns that a text takes on a terminal.
fn width(text: &str) -> usize {
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

fn is_wide(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{115F}' | '\u{2E80}'..='\u{A4CF}' | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}'
        | '\u{FE30}'..='\u{FE6F}' | '\u{FF00}'..='\u{FF60}' | '\u{FFE0}'..='\u{FFE6}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(names: &[&str], rows: &[&[&str]], more: bool, truncate: usize) -> Table {
        let owned = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        Table::new(First { names: owned(names), rows: rows.iter().map(|row| owned(row)).collect(), more }, truncate)
    }

    #[test]
    fn cells_are_cut_and_set_as_spark_does() {
        let rows: &[&[&str]] = &[&["0", "abcdefghijklmnopqrstuvwxyz", "日本語", "a\nb"]];
        let cut =
            "+---+----+------+----+\n| id|   s|   cjk| ctl|\n+---+----+------+----+\n|  0|a...|日本語|a\\nb|\n+---+----+------+----+\n";
        assert_eq!(table(&["id", "s", "cjk", "ctl"], rows, false, 4).render(false), cut);
        let short = table(&["id", "s", "cjk", "ctl"], rows, true, 3).render(false);
        assert!(short.contains("|  0|abc|日本語|a\\n|\n") && short.ends_with("only showing top 1 row"));
        let whole = table(&["id", "s"], &[&["0", "abcdef"]], false, 0).render(false);
        assert_eq!(whole, "+---+------+\n|id |s     |\n+---+------+\n|0  |abcdef|\n+---+------+\n");
    }

    #[test]
    fn nothing_to_show_has_a_layout_too() {
        assert_eq!(
            table(&["id", "verylongname"], &[], false, 20).render(false),
            "+---+------------+\n| id|verylongname|\n+---+------------+\n+---+------------+\n"
        );
        assert_eq!(table(&["id"], &[], false, 20).render(true), "(0 rows)");
        assert_eq!(table(&["id"], &[], true, 20).render(false), "+---+\n| id|\n+---+\n+---+\nonly showing top 0 rows");
        assert_eq!(table(&[], &[&[], &[]], false, 20).render(false), "++\n||\n++\n||\n||\n++\n");
    }

    #[test]
    fn records_are_vertical() {
        let shown = table(&["id", "s"], &[&["0", "abc"], &["1", "日本語"]], true, 20).render(true);
        assert_eq!(
            shown,
            "-RECORD 0-----\n id  | 0      \n s   | abc    \n-RECORD 1-----\n id  | 1      \n s   | 日本語 \nonly showing top 2 rows"
        );
    }

    #[test]
    fn html_is_escaped() {
        let html = table(&["a<b"], &[&["1 & 2"]], true, 20).html();
        assert_eq!(html, "<table border='1'>\n<tr><th>a&lt;b</th></tr>\n<tr><td>1 &amp; 2</td></tr>\n</table>\nonly showing top 1 row\n");
    }
}
