//! Calls in names: operators, syntax, default arguments that Spark shows, and functions that are shown under another name.

use arrow::datatypes::{DataType, IntervalUnit};
use spark_connect_proto::Expression;
use spark_connect_proto::data_type::Kind;
use spark_connect_proto::expression::cast::EvalMode;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::{ExprType, UnresolvedFunction};

use super::Writer;
use super::shown::{CAPITALS, CASTS, DEFAULTS, FIRST_ARGUMENT_ONLY, NATURAL_ORDER, OPERATORS, RENAMED, SHIFTS};
use crate::analyzer::expression::name_parts;

impl Writer<'_> {
    pub(super) fn function(&self, function: &UnresolvedFunction) -> String {
        let lower = function.function_name.to_lowercase();
        let name = lower.strip_prefix("system.").unwrap_or(&lower);
        let name = name.strip_prefix("builtin.").unwrap_or(name);
        let internal = function.is_internal == Some(true);
        if let Some(clause) = self.clause(name, &function.arguments) {
            return clause;
        }
        if function.is_distinct {
            return format!("{name}(DISTINCT {}{})", self.list(&function.arguments), left_out(name, function.arguments.len()));
        }
        if let Some(child) = cast_by_name(function) {
            return self.write(child);
        }
        let written = match function.arguments.as_slice() {
            [one] => self.unary(name, one, internal),
            [left, right] => self.binary(name, left, right, internal),
            _ => None,
        };
        written.or_else(|| self.special(name, function, internal)).unwrap_or_else(|| self.plain(name, &function.arguments))
    }

    /// `name(arguments)`.
    fn plain(&self, name: &str, arguments: &[Expression]) -> String {
        let shown = match RENAMED.iter().find(|(known, _)| *known == name) {
            Some((_, shown)) => (*shown).to_owned(),
            // With an argument for the digits they are other functions.
            None if (name == "ceil" || name == "floor") && arguments.len() == 1 => name.to_uppercase(),
            None if CAPITALS.contains(&name) => name.to_uppercase(),
            None => name.to_owned(),
        };
        let kept = if FIRST_ARGUMENT_ONLY.contains(&name) { arguments.get(..1).unwrap_or(arguments) } else { arguments };
        format!("{shown}({}{})", self.list(kept), left_out(name, kept.len()))
    }

    /// What the parser wraps around aggregate functions.
    fn clause(&self, name: &str, arguments: &[Expression]) -> Option<String> {
        // Only what is shown is written: writing what another branch writes again would take twice the time at every level.
        let (first, rest) = arguments.split_first()?;
        let inner = || self.write(first);
        match name {
            "__filter" => Some(format!("{} FILTER (WHERE {})", inner(), self.list(rest))),
            "__within_group" => {
                let called = super::function::name_of_call(first);
                let orders: Vec<String> = rest.iter().map(|order| self.group_order(&called, order)).collect();
                let inner = inner();
                let inner = inner.strip_prefix("string_agg(").map_or_else(|| inner.clone(), |rest| format!("listagg({rest}"));
                Some(format!("{inner} WITHIN GROUP (ORDER BY {})", orders.join(", ")))
            }
            "__ignore_nulls" if name_of_call(first) == "nth_value" => Some(format!("{} ignore nulls", inner())),
            "__ignore_nulls" => Some(inner()),
            _ => None,
        }
    }

    /// A key of `WITHIN GROUP`: percentiles show only their direction, and `mode` shows the other one.
    fn group_order(&self, called: &str, order: &Expression) -> String {
        let full = self.write(order);
        let child = match &order.expr_type {
            Some(ExprType::SortOrder(order)) => self.optional(order.child.as_deref()),
            _ => return full,
        };
        let descending = full.ends_with(" DESC NULLS LAST") || full.ends_with(" DESC NULLS FIRST");
        match called {
            "percentile_cont" | "percentile_disc" => {
                if descending {
                    format!("{child} DESC")
                } else {
                    child
                }
            }
            "mode" => {
                if descending {
                    child
                } else {
                    format!("{child} DESC")
                }
            }
            _ => full,
        }
    }

    fn unary(&self, name: &str, operand: &Expression, internal: bool) -> Option<String> {
        let written = || self.write(operand);
        Some(match name {
            "not" | "!" => format!("(NOT {})", written()),
            "negative" if internal => format!("(- {})", written()),
            "positive" => format!("(+ {})", written()),
            "~" | "bitwise_not" => format!("~{}", written()),
            "isnull" => format!("({} IS NULL)", written()),
            "isnotnull" => format!("({} IS NOT NULL)", written()),
            "log" => format!("LOG(E(), {})", written()),
            "count" if is_star(operand) => "count(1)".to_owned(),
            "array_sort" => format!("array_sort({}, {NATURAL_ORDER})", written()),
            "assert_true" => format!("assert_true({0}, '{0}' is not true!)", written()),
            "raise_error" => format!("raise_error(USER_RAISED_EXCEPTION, map(errorMessage, {}))", written()),
            "try_to_time" => format!("try_to_time(to_time({}))", written()),
            _ => return None,
        })
    }

    fn binary(&self, name: &str, left: &Expression, right: &Expression, internal: bool) -> Option<String> {
        if internal && (name == "and" || name == "or") {
            return self.like_quantified(name, left);
        }
        if let Some(arithmetic) = self.temporal(name, left, right) {
            return Some(arithmetic);
        }
        if let Some((_, operator)) = OPERATORS.iter().find(|(known, _)| *known == name) {
            return Some(format!("({} {operator} {})", self.write(left), self.write(right)));
        }
        if internal && let Some((_, operator)) = SHIFTS.iter().find(|(known, _)| *known == name) {
            return Some(format!("({} {operator} {})", self.write(left), self.write(right)));
        }
        let (before, between, after) = match name {
            "!=" | "<>" => ("(NOT (", " = ", "))"),
            "like" => ("", " LIKE ", ""),
            "trim" => ("TRIM(BOTH ", " FROM ", ")"),
            "ltrim" => ("TRIM(LEADING ", " FROM ", ")"),
            "rtrim" => ("TRIM(TRAILING ", " FROM ", ")"),
            "extract" => ("extract(", " FROM ", ")"),
            "datepart" => ("datepart(", " FROM ", ")"),
            "convert_timezone" => ("convert_timezone(current_timezone(), ", ", ", ")"),
            "try_to_time" => ("try_to_time(to_time(", ", ", "))"),
            "try_make_timestamp_ntz" => ("try_make_timestamp_ntz(make_timestamp_ntz(", ", ", "))"),
            "mode" => return Some(self.mode(left, right)),
            "to_char" | "to_varchar" => return Some(self.char_of(name, left, right)),
            "time_bucket" => {
                let zoned = !matches!(self.names.data_type(right), Some(DataType::Timestamp(_, None)));
                ("time_bucket(", ", ", if zoned { ", TIMESTAMP '1970-01-01 00:00:00')" } else { ", TIMESTAMP_NTZ '1970-01-01 00:00:00')" })
            }
            _ => return None,
        };
        Some(format!("{before}{}{between}{}{after}", self.write(left), self.write(right)))
    }

    fn special(&self, name: &str, function: &UnresolvedFunction, internal: bool) -> Option<String> {
        let arguments = function.arguments.as_slice();
        Some(match (name, arguments) {
            ("in", [value, list @ ..]) => format!("({} IN ({}))", self.write(value), self.list(list)),
            ("when", branches) => {
                let mut text = "CASE".to_owned();
                let (pairs, otherwise) = branches.as_chunks::<2>();
                for [condition, value] in pairs {
                    text.push_str(&format!(" WHEN {} THEN {}", self.write(condition), self.write(value)));
                }
                if let [value] = otherwise {
                    text.push_str(&format!(" ELSE {}", self.write(value)));
                }
                text + " END"
            }
            ("if", [_, _, _]) => format!("(IF({}))", self.list(arguments)),
            ("like", [value, pattern, escape]) => {
                format!("{} LIKE {} ESCAPE '{}'", self.write(value), self.write(pattern), self.write(escape))
            }
            ("struct", values) if internal => {
                let fields: Vec<String> = fields(self, values).into_iter().map(|(name, value)| format!("{name}, {value}")).collect();
                format!("named_struct({})", fields.join(", "))
            }
            ("ilike", [value, pattern, _]) => format!("ilike({}, {})", self.write(value), self.write(pattern)),
            ("try_make_timestamp", [fields @ .., _]) if fields.len() == 6 => format!("try_make_timestamp({})", self.list(fields)),
            ("variant_get" | "try_variant_get", [value, path, ..]) => format!("{name}({}, {})", self.write(value), self.write(path)),
            ("from_json", [_, schema, ..]) if is_map(schema) => "entries".to_owned(),
            ("nth_value", [value, offset, ignore_nulls]) => {
                let clause = if is_true(ignore_nulls) { " ignore nulls" } else { "" };
                format!("nth_value({}, {}){clause}", self.write(value), self.write(offset))
            }
            ("window", _) => "window".to_owned(),
            ("session_window", _) => "session_window".to_owned(),
            _ => return None,
        })
    }

    /// `mode(x, true)` is the lowest of the most frequent values, which is shown as an order.
    fn mode(&self, value: &Expression, deterministic: &Expression) -> String {
        let value = self.write(value);
        if is_true(deterministic) { format!("mode() WITHIN GROUP (ORDER BY {value} DESC)") } else { format!("mode({value})") }
    }

    /// `to_char` is the function that writes values of the type that it is given.
    fn char_of(&self, name: &str, value: &Expression, format: &Expression) -> String {
        let (shown, format_text) = (self.write(value), self.write(format));
        match self.names.data_type(value) {
            Some(DataType::Date32 | DataType::Timestamp(..)) => format!("date_format({shown}, {format_text})"),
            Some(DataType::Binary) => match format_text.to_lowercase().as_str() {
                called @ ("base64" | "hex") => format!("{}({shown})", if name == "to_char" { called } else { name }),
                _ => format!("decode({shown}, utf-8)"),
            },
            _ => format!("to_char({shown}, {format_text})"),
        }
    }

    /// `s LIKE ANY (…)`, which is an OR of patterns here.
    fn like_quantified(&self, name: &str, left: &Expression) -> Option<String> {
        let mut first = left;
        let mut negated = false;
        loop {
            let function = match &first.expr_type {
                Some(ExprType::UnresolvedFunction(function)) => function,
                _ => return None,
            };
            match function.function_name.as_str() {
                "not" => negated = true,
                "like" | "ilike" => {
                    let value = self.optional(function.arguments.first());
                    let value = if function.function_name == "ilike" { format!("lower({value})") } else { value };
                    let quantifier = if name == "or" { "any" } else { "all" };
                    return Some(format!("{}like{quantifier}({value})", if negated { "not" } else { "" }));
                }
                _ => {}
            }
            first = function.arguments.first()?;
        }
    }

    /// Dates and timestamps plus and minus numbers and intervals, which are functions of their own.
    fn temporal(&self, name: &str, left: &Expression, right: &Expression) -> Option<String> {
        if name == "*" {
            // An interval comes first.
            let of_interval = |kind| matches!(kind, Some(Temporal::Interval | Temporal::Months | Temporal::WholeDays));
            let swapped = of_interval(self.temporal_kind(right)) && !of_interval(self.temporal_kind(left));
            return swapped.then(|| format!("({} * {})", self.write(right), self.write(left)));
        }
        if name != "+" && name != "-" {
            return None;
        }
        let (left_kind, right_kind) = (self.temporal_kind(left)?, self.temporal_kind(right)?);
        let (first, second) = (|| self.write(left), || self.write(right));
        use Temporal::{Date, Interval, Months, Number, Text, Timestamp, WholeDays};
        Some(match (left_kind, name, right_kind) {
            (Date, "+", Number) => format!("date_add({}, {})", first(), second()),
            (Number, "+", Date) => format!("date_add({}, {})", second(), first()),
            (Date, "-", Number) => format!("date_sub({}, {})", first(), second()),
            (Date, "+", WholeDays) => format!("date_add({}, extractansiintervaldays({}))", first(), second()),
            (WholeDays, "+", Date) => format!("date_add({}, extractansiintervaldays({}))", second(), first()),
            (Date, "-", WholeDays) => format!("date_add({}, (- extractansiintervaldays({})))", first(), second()),
            (Date | Timestamp | Text, operator, Months | Interval) | (Timestamp | Text, operator, WholeDays) => {
                format!("{} {operator} {}", first(), second())
            }
            (Months | Interval, "+", Date | Timestamp | Text) | (WholeDays, "+", Timestamp | Text) => {
                format!("{} + {}", second(), first())
            }
            _ => return None,
        })
    }

    fn temporal_kind(&self, expression: &Expression) -> Option<Temporal> {
        if let Some(ExprType::Literal(literal)) = &expression.expr_type {
            let whole_days = matches!(
                literal.data_type.as_ref().and_then(|data_type| data_type.kind.as_ref()),
                Some(Kind::DayTimeInterval(kind)) if kind.start_field == Some(0) && kind.end_field == Some(0)
            );
            return match &literal.literal_type {
                Some(LiteralType::Date(_)) => Some(Temporal::Date),
                Some(LiteralType::Timestamp(_) | LiteralType::TimestampNtz(_)) => Some(Temporal::Timestamp),
                Some(LiteralType::DayTimeInterval(_)) if whole_days => Some(Temporal::WholeDays),
                Some(LiteralType::DayTimeInterval(_) | LiteralType::CalendarInterval(_)) => Some(Temporal::Interval),
                Some(LiteralType::YearMonthInterval(_)) => Some(Temporal::Months),
                Some(LiteralType::Integer(_) | LiteralType::Short(_) | LiteralType::Byte(_)) => Some(Temporal::Number),
                Some(LiteralType::String(_)) => Some(Temporal::Text),
                _ => None,
            };
        }
        // The SQL parser's form of a timestamp.
        if let Some(ExprType::Cast(cast)) = &expression.expr_type
            && EvalMode::try_from(cast.eval_mode) == Ok(EvalMode::Ansi)
        {
            return Some(Temporal::Timestamp);
        }
        match self.names.data_type(expression)? {
            DataType::Date32 => Some(Temporal::Date),
            DataType::Timestamp(..) => Some(Temporal::Timestamp),
            DataType::Interval(IntervalUnit::YearMonth) => Some(Temporal::Months),
            DataType::Duration(_) | DataType::Interval(_) => Some(Temporal::Interval),
            DataType::Int8 | DataType::Int16 | DataType::Int32 => Some(Temporal::Number),
            DataType::Utf8 => Some(Temporal::Text),
            _ => None,
        }
    }
}

/// What Spark shows for the arguments that a call leaves out.
fn left_out(name: &str, given: usize) -> &'static str {
    DEFAULTS.iter().find(|(known, count, _)| *known == name && *count == given).map_or("", |(_, _, more)| more)
}

/// What a function that is a cast casts.
pub(super) fn cast_by_name(function: &UnresolvedFunction) -> Option<&Expression> {
    let [child] = function.arguments.as_slice() else { return None };
    CASTS.iter().any(|name| function.function_name.eq_ignore_ascii_case(name)).then_some(child)
}

/// What an operand of date arithmetic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Temporal {
    Date,
    Timestamp,
    WholeDays,
    Interval,
    Months,
    Number,
    Text,
}

fn name_of_call(expression: &Expression) -> String {
    match &expression.expr_type {
        Some(ExprType::UnresolvedFunction(function)) => function.function_name.to_lowercase(),
        _ => String::new(),
    }
}

fn is_true(expression: &Expression) -> bool {
    matches!(&expression.expr_type, Some(ExprType::Literal(literal)) if literal.literal_type == Some(LiteralType::Boolean(true)))
}

/// Whether a constant is the name of a type of maps.
fn is_map(expression: &Expression) -> bool {
    let Some(ExprType::Literal(literal)) = &expression.expr_type else { return false };
    let Some(LiteralType::String(text)) = &literal.literal_type else { return false };
    crate::types::parse_field_type(text).is_ok_and(|field| matches!(field.data_type(), DataType::Map(..)))
}

fn is_star(expression: &Expression) -> bool {
    matches!(&expression.expr_type, Some(ExprType::UnresolvedStar(star)) if star.unparsed_target.is_none())
}

/// The last key of the path that `v:a.b` takes out of a variant.
pub(super) fn variant_path(function: &UnresolvedFunction) -> Option<String> {
    if function.function_name != "variant_get" || function.is_internal != Some(true) {
        return None;
    }
    let path = match &function.arguments.get(1)?.expr_type {
        Some(ExprType::Literal(literal)) => match &literal.literal_type {
            Some(LiteralType::String(path)) => path,
            _ => return None,
        },
        _ => return None,
    };
    let keys = path.trim_start_matches('$').split(['.', '[']).map(|key| key.trim_end_matches(']').trim_matches('\''));
    let mut keys = keys;
    keys.rfind(|key| !key.is_empty() && key.parse::<u64>().is_err()).map(str::to_owned)
}

/// The names that the fields of a row get, with their values.
pub(super) fn fields(writer: &Writer<'_>, values: &[Expression]) -> Vec<(String, String)> {
    values
        .iter()
        .enumerate()
        .map(|(n, value)| match &value.expr_type {
            Some(ExprType::UnresolvedAttribute(attribute)) => {
                let name = name_parts(&attribute.unparsed_identifier).ok().and_then(|mut parts| parts.pop());
                (name.unwrap_or_default(), writer.write(value))
            }
            Some(ExprType::Alias(alias)) => (
                alias.name.first().cloned().unwrap_or_default(),
                alias.expr.as_deref().map(|inner| writer.write(inner)).unwrap_or_default(),
            ),
            _ => (format!("col{}", n + 1), writer.write(value)),
        })
        .collect()
}
