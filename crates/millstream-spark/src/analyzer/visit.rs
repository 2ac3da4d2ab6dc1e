//! The parts of an unresolved plan: the relations below a relation, its expressions, and the expressions inside of them.

use spark_connect_proto::expression::{ExprType, SortOrder, window};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Expression, Relation, subquery_expression};

/// The relations right below a relation.
pub(crate) fn inputs(relation: &mut Relation) -> Vec<&mut Relation> {
    let Some(kind) = &mut relation.rel_type else { return Vec::new() };
    let mut found: Vec<&mut Relation> = Vec::new();
    macro_rules! below {
        ($($input:expr),+) => {{ $(found.extend($input.as_deref_mut());)+ }};
    }
    match kind {
        RelType::Project(r) => below!(r.input),
        RelType::Filter(r) => below!(r.input),
        RelType::Join(r) => below!(r.left, r.right),
        RelType::SetOp(r) => below!(r.left_input, r.right_input),
        RelType::Sort(r) => below!(r.input),
        RelType::Limit(r) => below!(r.input),
        RelType::Aggregate(r) => below!(r.input),
        RelType::Sample(r) => below!(r.input),
        RelType::Offset(r) => below!(r.input),
        RelType::Deduplicate(r) => below!(r.input),
        RelType::SubqueryAlias(r) => below!(r.input),
        RelType::Repartition(r) => below!(r.input),
        RelType::ToDf(r) => below!(r.input),
        RelType::WithColumnsRenamed(r) => below!(r.input),
        RelType::ShowString(r) => below!(r.input),
        RelType::Drop(r) => below!(r.input),
        RelType::Tail(r) => below!(r.input),
        RelType::WithColumns(r) => below!(r.input),
        RelType::Hint(r) => below!(r.input),
        RelType::Unpivot(r) => below!(r.input),
        RelType::ToSchema(r) => below!(r.input),
        RelType::RepartitionByExpression(r) => below!(r.input),
        RelType::MapPartitions(r) => below!(r.input),
        RelType::CollectMetrics(r) => below!(r.input),
        RelType::Parse(r) => below!(r.input),
        RelType::GroupMap(r) => below!(r.input, r.initial_input),
        RelType::CoGroupMap(r) => below!(r.input, r.other),
        RelType::WithWatermark(r) => below!(r.input),
        RelType::ApplyInPandasWithState(r) => below!(r.input),
        RelType::HtmlString(r) => below!(r.input),
        RelType::AsOfJoin(r) => below!(r.left, r.right),
        RelType::WithRelations(r) => {
            below!(r.root);
            found.extend(&mut r.references);
        }
        RelType::Transpose(r) => below!(r.input),
        RelType::LateralJoin(r) => below!(r.left, r.right),
        RelType::NearestByJoin(r) => below!(r.left, r.right),
        RelType::Zip(r) => below!(r.left, r.right),
        RelType::FillNa(r) => below!(r.input),
        RelType::DropNa(r) => below!(r.input),
        RelType::Replace(r) => below!(r.input),
        RelType::Summary(r) => below!(r.input),
        RelType::Crosstab(r) => below!(r.input),
        RelType::Describe(r) => below!(r.input),
        RelType::Cov(r) => below!(r.input),
        RelType::Corr(r) => below!(r.input),
        RelType::ApproxQuantile(r) => below!(r.input),
        RelType::FreqItems(r) => below!(r.input),
        RelType::SampleBy(r) => below!(r.input),
        RelType::Read(_)
        | RelType::Sql(_)
        | RelType::LocalRelation(_)
        | RelType::Range(_)
        | RelType::CachedLocalRelation(_)
        | RelType::CachedRemoteRelation(_)
        | RelType::CommonInlineUserDefinedTableFunction(_)
        | RelType::CommonInlineUserDefinedDataSource(_)
        | RelType::UnresolvedTableValuedFunction(_)
        | RelType::ChunkedCachedLocalRelation(_)
        | RelType::RelationChanges(_)
        | RelType::Catalog(_)
        | RelType::MlRelation(_)
        | RelType::Extension(_)
        | RelType::Unknown(_) => {}
    }
    found
}

/// The expressions of a relation, without those inside of them.
pub(super) fn expressions(relation: &mut Relation) -> Vec<&mut Expression> {
    let Some(kind) = &mut relation.rel_type else { return Vec::new() };
    let mut found: Vec<&mut Expression> = Vec::new();
    match kind {
        RelType::Project(r) => found.extend(&mut r.expressions),
        RelType::Filter(r) => found.extend(&mut r.condition),
        RelType::Join(r) => found.extend(&mut r.join_condition),
        RelType::LateralJoin(r) => found.extend(&mut r.join_condition),
        RelType::AsOfJoin(r) => {
            found.extend(&mut r.left_as_of);
            found.extend(&mut r.right_as_of);
            found.extend(&mut r.join_expr);
            found.extend(&mut r.tolerance);
        }
        RelType::NearestByJoin(r) => found.extend(&mut r.ranking_expression),
        RelType::Sort(r) => found.extend(keys(&mut r.order)),
        RelType::Aggregate(r) => {
            found.extend(&mut r.grouping_expressions);
            found.extend(&mut r.aggregate_expressions);
            if let Some(pivot) = &mut r.pivot {
                found.extend(&mut pivot.col);
            }
            found.extend(r.grouping_sets.iter_mut().flat_map(|set| &mut set.grouping_set));
        }
        RelType::Drop(r) => found.extend(&mut r.columns),
        RelType::WithColumns(r) => found.extend(r.aliases.iter_mut().filter_map(|alias| alias.expr.as_deref_mut())),
        RelType::Hint(r) => found.extend(&mut r.parameters),
        RelType::Unpivot(r) => {
            found.extend(&mut r.ids);
            if let Some(values) = &mut r.values {
                found.extend(&mut values.values);
            }
        }
        RelType::RepartitionByExpression(r) => found.extend(&mut r.partition_exprs),
        RelType::CollectMetrics(r) => found.extend(&mut r.metrics),
        RelType::Transpose(r) => found.extend(&mut r.index_columns),
        RelType::SampleBy(r) => found.extend(&mut r.col),
        RelType::UnresolvedTableValuedFunction(r) => found.extend(&mut r.arguments),
        RelType::CommonInlineUserDefinedTableFunction(r) => found.extend(&mut r.arguments),
        RelType::MapPartitions(r) => found.extend(r.func.iter_mut().flat_map(|func| &mut func.arguments)),
        RelType::GroupMap(r) => {
            found.extend(&mut r.grouping_expressions);
            found.extend(r.func.iter_mut().flat_map(|func| &mut func.arguments));
            found.extend(&mut r.sorting_expressions);
            found.extend(&mut r.initial_grouping_expressions);
        }
        RelType::CoGroupMap(r) => {
            found.extend(&mut r.input_grouping_expressions);
            found.extend(&mut r.other_grouping_expressions);
            found.extend(r.func.iter_mut().flat_map(|func| &mut func.arguments));
            found.extend(&mut r.input_sorting_expressions);
            found.extend(&mut r.other_sorting_expressions);
        }
        RelType::ApplyInPandasWithState(r) => {
            found.extend(&mut r.grouping_expressions);
            found.extend(r.func.iter_mut().flat_map(|func| &mut func.arguments));
        }
        RelType::Sql(r) => {
            found.extend(r.named_arguments.values_mut());
            found.extend(&mut r.pos_arguments);
        }
        _ => {}
    }
    found
}

fn keys(orders: &mut [SortOrder]) -> impl Iterator<Item = &mut Expression> {
    orders.iter_mut().filter_map(|order| order.child.as_deref_mut())
}

/// The expressions right inside of an expression.
pub(super) fn parts(expression: &mut Expression) -> Vec<&mut Expression> {
    let Some(kind) = &mut expression.expr_type else { return Vec::new() };
    let mut found: Vec<&mut Expression> = Vec::new();
    match kind {
        ExprType::UnresolvedFunction(e) => found.extend(&mut e.arguments),
        ExprType::CallFunction(e) => found.extend(&mut e.arguments),
        ExprType::CommonInlineUserDefinedFunction(e) => found.extend(&mut e.arguments),
        ExprType::Alias(e) => found.extend(e.expr.as_deref_mut()),
        ExprType::Cast(e) => found.extend(e.expr.as_deref_mut()),
        ExprType::SortOrder(e) => found.extend(e.child.as_deref_mut()),
        ExprType::LambdaFunction(e) => found.extend(e.function.as_deref_mut()),
        ExprType::Window(e) => {
            found.extend(e.window_function.as_deref_mut());
            found.extend(&mut e.partition_spec);
            found.extend(keys(&mut e.order_spec));
            if let Some(frame) = &mut e.frame_spec {
                for bound in [&mut frame.lower, &mut frame.upper].into_iter().flatten() {
                    if let Some(window::window_frame::frame_boundary::Boundary::Value(value)) = &mut bound.boundary {
                        found.push(value);
                    }
                }
            }
        }
        ExprType::UnresolvedExtractValue(e) => {
            found.extend(e.child.as_deref_mut());
            found.extend(e.extraction.as_deref_mut());
        }
        ExprType::UpdateFields(e) => {
            found.extend(e.struct_expression.as_deref_mut());
            found.extend(e.value_expression.as_deref_mut());
        }
        ExprType::NamedArgumentExpression(e) => found.extend(e.value.as_deref_mut()),
        ExprType::SubqueryExpression(e) => {
            found.extend(&mut e.in_subquery_values);
            if let Some(subquery_expression::TableArgOptions { partition_spec, order_spec, .. }) = &mut e.table_arg_options {
                found.extend(partition_spec);
                found.extend(keys(order_spec));
            }
        }
        ExprType::DirectShufflePartitionId(e) => found.extend(e.child.as_deref_mut()),
        _ => {}
    }
    found
}
