//! Window functions in names.

use spark_connect_proto::Expression;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::window::window_frame::{FrameBoundary, FrameType, frame_boundary};
use spark_connect_proto::expression::{ExprType, UnresolvedFunction, Window};

use super::Writer;

/// Functions over all rows up to the current one, whatever the order has equal.
const BY_ROWS: &[&str] = &["row_number", "rank", "dense_rank", "percent_rank", "ntile"];

impl Writer<'_> {
    /// `f(…) OVER (PARTITION BY … ORDER BY … ROWS …)`.
    pub(super) fn window(&self, window: &Window) -> String {
        let function = window.window_function.as_deref();
        let mut parts: Vec<String> = Vec::new();
        if !window.partition_spec.is_empty() {
            parts.push(format!("PARTITION BY {}", self.list(&window.partition_spec)));
        }
        if !window.order_spec.is_empty() {
            let order: Vec<String> = window.order_spec.iter().map(|order| self.sort_order(order)).collect();
            parts.push(format!("ORDER BY {}", order.join(", ")));
        }
        parts.push(match &window.frame_spec {
            Some(frame) => {
                let kind = if frame.frame_type() == FrameType::Range { "RANGE" } else { "ROWS" };
                let lower = self.boundary(frame.lower.as_deref(), "PRECEDING");
                let upper = self.boundary(frame.upper.as_deref(), "FOLLOWING");
                format!("{kind} BETWEEN {lower} AND {upper}")
            }
            None => self.default_frame(function, !window.order_spec.is_empty()),
        });
        format!("{} OVER ({})", self.optional(function), parts.join(" "))
    }

    fn boundary(&self, boundary: Option<&FrameBoundary>, side: &str) -> String {
        match boundary.and_then(|boundary| boundary.boundary.as_ref()) {
            Some(frame_boundary::Boundary::Value(value)) => self.distance(value),
            Some(frame_boundary::Boundary::CurrentRow(_)) => "CURRENT ROW".to_owned(),
            _ => format!("UNBOUNDED {side}"),
        }
    }

    /// The parser writes a distance backwards with a minus before it; a frame may also have a negative number.
    fn distance(&self, value: &Expression) -> String {
        match &value.expr_type {
            Some(ExprType::UnresolvedFunction(function)) if function.function_name == "negative" => {
                format!("{} PRECEDING", self.list(&function.arguments))
            }
            Some(ExprType::Literal(literal)) if matches!(literal.literal_type, Some(LiteralType::Integer(0) | LiteralType::Long(0))) => {
                "CURRENT ROW".to_owned()
            }
            _ => format!("{} FOLLOWING", self.write(value)),
        }
    }

    fn default_frame(&self, function: Option<&Expression>, ordered: bool) -> String {
        let function = function.and_then(plain_function);
        let name = function.map(|function| function.function_name.to_lowercase()).unwrap_or_default();
        if name == "lag" || name == "lead" {
            let distance = function.and_then(|function| function.arguments.get(1)).map_or("1".to_owned(), |distance| self.write(distance));
            let distance = if name == "lag" { backwards(distance) } else { distance };
            return format!("ROWS BETWEEN {distance} FOLLOWING AND {distance} FOLLOWING");
        }
        if BY_ROWS.contains(&name.as_str()) {
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW".to_owned()
        } else if ordered {
            "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW".to_owned()
        } else {
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING".to_owned()
        }
    }
}

/// The function inside of its clauses.
fn plain_function(expression: &Expression) -> Option<&UnresolvedFunction> {
    match &expression.expr_type {
        Some(ExprType::UnresolvedFunction(function)) if function.function_name.starts_with("__") => {
            function.arguments.first().and_then(plain_function)
        }
        Some(ExprType::UnresolvedFunction(function)) => Some(function),
        _ => None,
    }
}

/// The distance of `lag` as one of `lead`.
fn backwards(distance: String) -> String {
    match distance.parse::<i64>() {
        Ok(number) => number.wrapping_neg().to_string(),
        Err(_) => format!("-{distance}"),
    }
}
