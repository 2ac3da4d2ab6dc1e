//! Column names as Spark resolves them: without regard to case, the result keeping the case that was written.
//!
//! The planner compares names exactly. Therefore every relation is given to it with lower-case columns, every name of the query is put into
//! lower case, and the columns of the result get their spelling back at the end. Fields inside of structs keep their spelling; names that
//! mean them are rewritten to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use arrow::datatypes::{DataType, Fields, Schema};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ExceptSelectItem, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};

/// The column of a file source that `SELECT *` leaves out.
const METADATA: &str = "_metadata";

/// A relation of the query, as far as names go.
#[derive(Clone, Debug)]
pub(crate) struct RelationNames<'a> {
    /// The name that stands for it in the query.
    pub(crate) placeholder: &'a str,
    /// Its columns as they are spelt.
    pub(crate) schema: &'a Schema,
    /// It shows a hidden `_metadata` column.
    pub(crate) hidden: bool,
}

/// The spelling of the columns of a result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spelling(BTreeMap<String, String>);

impl Spelling {
    /// The spelling of a column that the planner calls `name`.
    pub(crate) fn of<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, String::as_str)
    }
}

/// Whether the query names the hidden column of a file source.
pub(crate) fn mentions_metadata(query: &mut Query) -> bool {
    struct Mention(bool);
    impl VisitorMut for Mention {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let is = |ident: &Ident| ident.value.eq_ignore_ascii_case(METADATA);
            self.0 |= match expr {
                Expr::Identifier(ident) => is(ident),
                Expr::CompoundIdentifier(parts) => parts.iter().any(is),
                _ => false,
            };
            if self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let mut mention = Mention(false);
    let _ = query.visit(&mut mention);
    mention.0
}

/// Puts the names of a query into the form that the planner takes, and gives the spelling of the result's columns.
pub(crate) fn fold(query: &mut Query, relations: &[RelationNames<'_>]) -> Spelling {
    let mut spelling = BTreeMap::new();
    written_by(&query.body, &mut spelling);
    let mut fold = Fold { columns: BTreeSet::new(), fields: BTreeMap::new(), relations, aliases: BTreeMap::new() };
    for relation in relations {
        for field in relation.schema.fields() {
            fold.columns.insert(field.name().to_lowercase());
            nested(field.data_type(), &mut fold.fields);
        }
    }
    let mut collect = Aliases(BTreeMap::new());
    let _ = query.visit(&mut collect);
    fold.aliases = collect.0;
    let _ = query.visit(&mut fold);
    for (lower, written) in fold.aliases {
        spelling.entry(lower).or_insert(written);
    }
    for field in relations.iter().flat_map(|relation| relation.schema.fields()) {
        spelling.entry(field.name().to_lowercase()).or_insert_with(|| field.name().clone());
    }
    Spelling(spelling)
}

/// Puts the names of an expression over one schema into that schema's spelling.
pub(crate) fn spell(expr: &mut Expr, schema: &Schema) {
    struct Spell<'a> {
        columns: BTreeMap<String, &'a str>,
        fields: BTreeMap<String, String>,
    }
    impl VisitorMut for Spell<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(ident) if !is_final(ident) => {
                    let lower = ident.value.to_lowercase();
                    let spelt = self.columns.get(&lower).map(|name| (*name).to_owned()).unwrap_or(lower);
                    set(ident, spelt);
                }
                Expr::CompoundIdentifier(parts) => {
                    for (i, part) in parts.iter_mut().enumerate() {
                        let lower = part.value.to_lowercase();
                        let column = self.columns.get(&lower).map(|name| (*name).to_owned());
                        let spelt = if i == 0 { column } else { self.fields.get(&lower).cloned().or(column) };
                        set(part, spelt.unwrap_or(lower));
                    }
                }
                Expr::CompoundFieldAccess { access_chain, .. } => fields_of_chain(access_chain, &self.fields),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut fields = BTreeMap::new();
    for field in schema.fields() {
        nested(field.data_type(), &mut fields);
    }
    let columns = schema.fields().iter().map(|field| (field.name().to_lowercase(), field.name().as_str())).collect();
    let _ = expr.visit(&mut Spell { columns, fields });
}

/// The names of fields inside of a type, by their lower case.
fn nested(data_type: &DataType, fields: &mut BTreeMap<String, String>) {
    let mut all = |inner: &Fields| {
        for field in inner {
            fields.entry(field.name().to_lowercase()).or_insert_with(|| field.name().clone());
            nested(field.data_type(), fields);
        }
    };
    match data_type {
        DataType::Struct(inner) => all(inner),
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => nested(element.data_type(), fields),
        DataType::Map(entries, _) => {
            if let DataType::Struct(pair) = entries.data_type() {
                for part in pair {
                    nested(part.data_type(), fields);
                }
            }
        }
        _ => {}
    }
}

/// Double quotes mark a name that has its final form.
fn is_final(ident: &Ident) -> bool {
    ident.quote_style == Some('"')
}

fn set(ident: &mut Ident, value: String) {
    ident.value = value;
    ident.quote_style = Some('"');
}

fn lower(ident: &mut Ident) {
    if !is_final(ident) {
        set(ident, ident.value.to_lowercase());
    }
}

fn lower_name(name: &mut ObjectName) {
    for part in &mut name.0 {
        if let ObjectNamePart::Identifier(ident) = part {
            lower(ident);
        }
    }
}

fn fields_of_chain(chain: &mut [AccessExpr], fields: &BTreeMap<String, String>) {
    for access in chain {
        if let AccessExpr::Dot(Expr::Identifier(ident)) = access {
            let lower = ident.value.to_lowercase();
            set(ident, fields.get(&lower).cloned().unwrap_or(lower));
        }
    }
}

/// The spelling of what the outermost query selects.
fn written_by(body: &SetExpr, spelling: &mut BTreeMap<String, String>) {
    match body {
        SetExpr::Select(select) => {
            for item in &select.projection {
                let name = match item {
                    SelectItem::ExprWithAlias { alias, .. } => Some(alias),
                    SelectItem::UnnamedExpr(expr) => implied_name(expr),
                    _ => None,
                };
                if let Some(name) = name {
                    spelling.entry(name.value.to_lowercase()).or_insert_with(|| name.value.clone());
                }
            }
        }
        SetExpr::Query(query) => written_by(&query.body, spelling),
        SetExpr::SetOperation { left, .. } => written_by(left, spelling),
        _ => {}
    }
}

/// The name that Spark gives to an expression without alias, where it is a part of the expression.
fn implied_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(ident) => Some(ident),
        Expr::CompoundIdentifier(parts) => parts.last(),
        Expr::CompoundFieldAccess { access_chain, .. } => match access_chain.last() {
            Some(AccessExpr::Dot(Expr::Identifier(ident))) => Some(ident),
            _ => None,
        },
        Expr::Cast { expr, .. } => match expr.as_ref() {
            inner @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => implied_name(inner),
            _ => None,
        },
        _ => None,
    }
}

/// Collects the aliases of columns as they are written.
struct Aliases(BTreeMap<String, String>);

impl Aliases {
    fn add(&mut self, alias: &Ident) {
        self.0.entry(alias.value.to_lowercase()).or_insert_with(|| alias.value.clone());
    }
}

impl VisitorMut for Aliases {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for column in query.with.iter().flat_map(|with| &with.cte_tables).flat_map(|cte| &cte.alias.columns) {
            self.add(&column.name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => self.add(alias),
                SelectItem::ExprWithAliases { aliases, .. } => aliases.iter().for_each(|alias| self.add(alias)),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { alias: Some(alias), .. } | TableFactor::Table { alias: Some(alias), .. } = factor {
            alias.columns.iter().for_each(|column| self.add(&column.name));
        }
        ControlFlow::Continue(())
    }
}

struct Fold<'a> {
    /// Lower-case names of all columns of all relations.
    columns: BTreeSet<String>,
    /// Spelling of fields inside of structs.
    fields: BTreeMap<String, String>,
    relations: &'a [RelationNames<'a>],
    /// Aliases of columns as written, by their lower case.
    aliases: BTreeMap<String, String>,
}

impl Fold<'_> {
    fn table_alias(&self, alias: &mut Option<TableAlias>) {
        if let Some(alias) = alias {
            lower(&mut alias.name);
            alias.columns.iter_mut().for_each(|column| lower(&mut column.name));
        }
    }

    /// `t.a`, `a.field`, `t.a.field.field`: a part that is not the first is a column only where the first cannot be one.
    fn compound(&self, parts: &mut [Ident]) {
        let column = |name: &str| self.columns.contains(name) || self.aliases.contains_key(name);
        let starts_with_column = parts.first().is_some_and(|first| column(&first.value.to_lowercase()));
        for (i, part) in parts.iter_mut().enumerate() {
            let folded = part.value.to_lowercase();
            let field = match i {
                0 => false,
                1 => starts_with_column && !column(&folded),
                _ => true,
            };
            let spelt = if field { self.fields.get(&folded).cloned() } else { None };
            set(part, spelt.unwrap_or(folded));
        }
    }

    fn wildcard(&self, options: &mut WildcardAdditionalOptions, hide: bool) {
        if let Some(except) = &mut options.opt_except {
            lower(&mut except.first_element);
            except.additional_elements.iter_mut().for_each(lower);
        }
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => lower_name(name),
            Some(ExcludeSelectItem::Multiple(names)) => names.iter_mut().for_each(lower_name),
            None => {}
        }
        if let Some(replace) = &mut options.opt_replace {
            replace.items.iter_mut().for_each(|item| lower(&mut item.column_name));
        }
        if hide {
            let metadata = Ident::with_quote('"', METADATA);
            match &mut options.opt_except {
                Some(except) => except.additional_elements.push(metadata),
                None => options.opt_except = Some(ExceptSelectItem { first_element: metadata, additional_elements: Vec::new() }),
            }
        }
    }

    /// Names under which the relations of a `FROM` with a hidden column are known.
    fn hidden_in(&self, from: &[TableWithJoins]) -> Vec<String> {
        let mut names = Vec::new();
        for item in from {
            self.hidden_factor(&item.relation, &mut names);
            for join in &item.joins {
                self.hidden_factor(&join.relation, &mut names);
            }
        }
        names
    }

    fn hidden_factor(&self, factor: &TableFactor, names: &mut Vec<String>) {
        match factor {
            TableFactor::Table { name, alias, .. } => {
                let is = |relation: &&RelationNames<'_>| relation.hidden && name.to_string().trim_matches('`') == relation.placeholder;
                if self.relations.iter().any(|relation| is(&relation)) {
                    names.push(alias.as_ref().map_or_else(String::new, |alias| alias.name.value.to_lowercase()));
                }
            }
            TableFactor::NestedJoin { table_with_joins, .. } => names.extend(self.hidden_in(std::slice::from_ref(table_with_joins))),
            _ => {}
        }
    }

    fn select(&self, select: &mut Select) {
        let hidden = self.hidden_in(&select.from);
        for item in &mut select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    // The planner would call a field or a cast by its whole expression.
                    let plain = matches!(expr, Expr::Identifier(_))
                        || matches!(expr, Expr::CompoundIdentifier(parts) if parts.len() == 2
                        && parts.first().is_some_and(|first| !self.columns.contains(&first.value.to_lowercase())));
                    if let (false, Some(name)) = (plain, implied_name(expr)) {
                        let alias = Ident::with_quote('"', name.value.to_lowercase());
                        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                    }
                }
                SelectItem::ExprWithAlias { alias, .. } => lower(alias),
                SelectItem::ExprWithAliases { aliases, .. } => aliases.iter_mut().for_each(lower),
                SelectItem::QualifiedWildcard(kind, options) => {
                    let mut hide = false;
                    if let SelectItemQualifiedWildcardKind::ObjectName(name) = kind {
                        lower_name(name);
                        hide = name.0.last().and_then(ObjectNamePart::as_ident).is_some_and(|last| hidden.contains(&last.value));
                    }
                    self.wildcard(options, hide);
                }
                SelectItem::Wildcard(options) => self.wildcard(options, !hidden.is_empty()),
            }
        }
        for item in &mut select.from {
            joins(item);
        }
    }
}

fn joins(item: &mut TableWithJoins) {
    if let TableFactor::NestedJoin { table_with_joins, .. } = &mut item.relation {
        joins(table_with_joins);
    }
    for join in &mut item.joins {
        if let Some(JoinConstraint::Using(columns)) = constraint(&mut join.join_operator) {
            columns.iter_mut().for_each(lower_name);
        }
    }
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}

impl VisitorMut for Fold<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            lower(&mut cte.alias.name);
            cte.alias.columns.iter_mut().for_each(|column| lower(&mut column.name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.select(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                lower_name(name);
                self.table_alias(alias);
            }
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::NestedJoin { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. } => self.table_alias(alias),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => lower(ident),
            Expr::CompoundIdentifier(parts) => self.compound(parts),
            Expr::CompoundFieldAccess { access_chain, .. } => fields_of_chain(access_chain, &self.fields),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
