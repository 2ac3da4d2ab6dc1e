//! Subqueries in expressions: scalar, `EXISTS`, `IN`.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Spans;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use millstream_core::{Error, Result};
use spark_connect_proto::SubqueryExpression;
use spark_connect_proto::subquery_expression::SubqueryType;

use super::Resolver;
use crate::analyzer::Analyzed;
use crate::functions::{Typed, cast, coercion, faults};

impl Resolver<'_> {
    pub(super) fn subquery(&self, subquery: &SubqueryExpression) -> Result<Typed> {
        let relation = self.surroundings.relation(subquery.plan_id)?;
        let analyzed = self.surroundings.subquery(&relation, self.scope)?;
        match subquery.subquery_type() {
            SubqueryType::Scalar => {
                let [column] = visible(&analyzed)?;
                let (data_type, metadata) = (column.data_type.clone(), column.metadata.clone());
                Ok(Typed::new(Expr::ScalarSubquery(planned(analyzed.plan)), data_type, true).with_metadata(metadata))
            }
            SubqueryType::Exists => Ok(Typed::new(Expr::Exists(Exists::new(planned(analyzed.plan), false)), DataType::Boolean, false)),
            SubqueryType::In => self.in_subquery(subquery, analyzed),
            SubqueryType::TableArg | SubqueryType::Unknown => Err(Error::invalid(
                "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_TABLE_ARGUMENT",
                "a table is an argument of table functions only",
            )
            .with_sqlstate("0A000")),
        }
    }

    fn in_subquery(&self, subquery: &SubqueryExpression, analyzed: Analyzed) -> Result<Typed> {
        let values = subquery.in_subquery_values.iter().map(|value| self.value(value)).collect::<Result<Vec<_>>>()?;
        let columns: Vec<_> = analyzed.columns.iter().filter(|column| !column.hidden).collect();
        if values.len() != columns.len() {
            return Err(faults::mismatch(
                "IN_SUBQUERY_LENGTH_MISMATCH",
                format!("{} values cannot be looked for among {} columns", values.len(), columns.len()),
            ));
        }
        let ([value], [column]) = (values.as_slice(), columns.as_slice()) else {
            return Err(Error::invalid(
                "UNSUPPORTED_FEATURE",
                "IN over several columns of a subquery: use EXISTS with a condition per column",
            )
            .with_sqlstate("0A000"));
        };
        let common = coercion::common_type(&value.data_type, &column.data_type, self.settings)
            .ok_or_else(|| faults::mismatch("IN_SUBQUERY_DATA_TYPE_MISMATCH", "the value and the column of the subquery differ in type"))?;
        let nullable = value.nullable || column.nullable;
        let found = Typed::new(
            Expr::Column(datafusion::common::Column::new_unqualified(column.internal.clone())),
            column.data_type.clone(),
            column.nullable,
        );
        let cast_column = cast::implicit(found, &common, self.settings)?.expr.alias(column.internal.clone());
        let plan = datafusion::logical_expr::LogicalPlanBuilder::from(analyzed.plan)
            .project([cast_column])
            .and_then(datafusion::logical_expr::LogicalPlanBuilder::build)
            .map_err(millstream_engine::from_datafusion)?;
        let value = cast::implicit(value.clone(), &common, self.settings)?;
        let expr = Expr::InSubquery(InSubquery::new(Box::new(value.expr), planned(plan), false));
        Ok(Typed::new(expr, DataType::Boolean, nullable))
    }
}

fn visible(analyzed: &Analyzed) -> Result<[&crate::analyzer::Attribute; 1]> {
    let columns: Vec<_> = analyzed.columns.iter().filter(|column| !column.hidden).collect();
    <[_; 1]>::try_from(columns.as_slice()).map_err(|_| {
        Error::invalid(
            "INVALID_SUBQUERY_EXPRESSION.SCALAR_SUBQUERY_RETURN_MORE_THAN_ONE_OUTPUT_COLUMN",
            format!("a scalar subquery gives one column, and this one {}", columns.len()),
        )
        .with_sqlstate("42823")
    })
}

fn planned(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}
