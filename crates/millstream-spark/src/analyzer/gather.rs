//! What the leaves of a plan stand for, looked up before its analysis.
//!
//! SQL text inside of the plan is parsed, and each leaf is replaced by a reference to what was found, so that the analysis itself never
//! waits. A leaf that occurs twice is looked up once: the same stream used twice is one source of the query, as in Spark.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use millstream_core::{Error, Options, Result};
use prost::Message;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{
    CachedRemoteRelation, CommonInlineUserDefinedFunction, CommonInlineUserDefinedTableFunction, Expression, Relation, WithRelations, read,
};

use super::expression::{is_builtin, name_parts};
use super::visit;
use super::{Analyzed, Leaf, Leaves};

/// How deep plans and views may be nested.
pub(super) const DEPTH: usize = 2_000;

/// How many views may be read through one another (`spark.sql.view.maxNestedViewDepth`).
const VIEW_DEPTH: usize = 100;

/// A plan whose leaves are known.
#[derive(Debug)]
pub(super) struct Gathered {
    /// The plan. Each leaf that had to be looked up is a `CachedRemoteRelation` that holds the number of a source.
    pub(super) root: Relation,
    /// What the leaves stand for.
    pub(super) sources: Vec<Source>,
}

impl Gathered {
    /// What a leaf stands for.
    pub(super) fn source(&self, reference: &CachedRemoteRelation) -> Result<&Source> {
        let index: Option<usize> = reference.relation_id.parse().ok();
        index
            .and_then(|index| self.sources.get(index))
            .ok_or_else(|| Error::internal(format!("the leaf '{}' was not looked up", reference.relation_id)))
    }
}

/// What a leaf stands for.
#[derive(Debug)]
pub(super) enum Source {
    /// Another plan: a view, or a common table expression.
    Plan {
        /// The plan.
        relation: Arc<Relation>,
        /// The name that its columns can be called by; empty for that of the plan itself.
        qualifier: Vec<String>,
        /// It is read as a stream, so it has to be one.
        as_stream: bool,
    },
    /// A relation that the engine reads.
    Table {
        /// What reads it.
        provider: Arc<dyn TableProvider>,
        /// The name that its columns can be called by.
        qualifier: Vec<String>,
    },
    /// A plan analyzed before.
    Analyzed {
        /// The plan.
        analyzed: Analyzed,
        /// The name that its columns can be called by; empty if none.
        qualifier: Vec<String>,
        /// It is read as a stream, so it has to be one.
        as_stream: bool,
    },
    /// The bytes of a local relation: one message, or data in several parts with the schema.
    Local {
        /// Parts of the data as Arrow IPC streams.
        data: Vec<Arc<[u8]>>,
        /// The schema as text.
        schema: Option<String>,
    },
}

/// A leaf that has to be looked up.
struct Request {
    leaf: Relation,
    /// How many views are around it.
    depth: usize,
}

/// Walks plans and numbers their leaves.
struct Walk<'a> {
    /// Who knows the functions that a client has registered.
    functions: Option<&'a dyn Leaves>,
    requests: Vec<Request>,
    /// Common table expressions, by the number of their source.
    plans: HashMap<usize, Arc<Relation>>,
}

/// Names of common table expressions in scope, innermost last.
type Names = Vec<(String, usize)>;

/// Looks up what the leaves of a plan stand for.
///
/// # Errors
/// Those of the parser and of the leaves; `VIEW_EXCEED_MAX_NESTED_DEPTH`.
pub(super) async fn gather(relation: &Relation, leaves: &dyn Leaves) -> Result<Gathered> {
    let mut walk = Walk { functions: Some(leaves), requests: Vec::new(), plans: HashMap::new() };
    let mut root = relation.clone();
    walk.relation(&mut root, &mut Vec::new(), 0)?;
    let mut sources: Vec<Source> = Vec::new();
    while let Some(request) = walk.requests.get(sources.len()) {
        let (leaf, depth) = (request.leaf.clone(), request.depth);
        if depth > VIEW_DEPTH {
            return Err(Error::invalid(
                "VIEW_EXCEED_MAX_NESTED_DEPTH",
                format!("views are nested more than {VIEW_DEPTH} deep, or a view reads itself"),
            )
            .with_sqlstate("54K00"));
        }
        let source = match walk.plans.get(&sources.len()) {
            Some(plan) => Source::Plan { relation: plan.clone(), qualifier: Vec::new(), as_stream: false },
            None => match look_up(&leaf, leaves).await? {
                Source::Plan { relation, qualifier, as_stream } => {
                    let mut view = relation.as_ref().clone();
                    walk.relation(&mut view, &mut Vec::new(), depth + 1)?;
                    Source::Plan { relation: Arc::new(view), qualifier, as_stream }
                }
                source => source,
            },
        };
        sources.push(source);
    }
    Ok(Gathered { root, sources })
}

/// The leaves of a plan that have to be looked up, in plan order. Names of common table expressions are none.
///
/// # Errors
/// Those of the parser, for text inside of the plan.
pub(crate) fn leaves_of(relation: &Relation) -> Result<Vec<Relation>> {
    let mut walk = Walk { functions: None, requests: Vec::new(), plans: HashMap::new() };
    walk.relation(&mut relation.clone(), &mut Vec::new(), 0)?;
    Ok(walk.requests.into_iter().map(|request| request.leaf).filter(|leaf| leaf.rel_type.is_some()).collect())
}

async fn look_up(leaf: &Relation, leaves: &dyn Leaves) -> Result<Source> {
    match &leaf.rel_type {
        Some(RelType::Read(read)) => match &read.read_type {
            Some(read::ReadType::NamedTable(table)) => {
                let parts = name_parts(&table.unparsed_identifier)?;
                let options: Options = table.options.iter().collect();
                Ok(found(leaves.named(&parts, read.is_streaming, &options).await?, parts, read.is_streaming))
            }
            Some(read::ReadType::DataSource(source)) => Ok(found(leaves.source(source, read.is_streaming).await?, Vec::new(), false)),
            None => Err(incomplete("what is read")),
        },
        Some(RelType::Extension(any)) => Ok(found(leaves.extension(any).await?, Vec::new(), false)),
        Some(RelType::CachedRemoteRelation(cached)) => Ok(found(leaves.remote(&cached.relation_id).await?, Vec::new(), false)),
        Some(RelType::CachedLocalRelation(cached)) => {
            let bytes = leaves.cached(&cached.hash).await?;
            let local = spark_connect_proto::LocalRelation::decode(bytes.as_ref()).map_err(|error| {
                Error::invalid("INVALID_PLAN_INPUT", "a cached local relation cannot be decoded").with_sqlstate("42000").caused_by(error)
            })?;
            Ok(Source::Local { data: local.data.iter().map(|data| Arc::from(data.as_ref())).collect(), schema: local.schema })
        }
        Some(RelType::ChunkedCachedLocalRelation(chunked)) => {
            let mut data = Vec::with_capacity(chunked.data_hashes.len());
            for hash in &chunked.data_hashes {
                data.push(leaves.cached(hash).await?);
            }
            let schema = match &chunked.schema_hash {
                Some(hash) => Some(String::from_utf8_lossy(&leaves.cached(hash).await?).into_owned()),
                None => None,
            };
            Ok(Source::Local { data, schema })
        }
        _ => Err(Error::internal("only leaves are looked up")),
    }
}

fn found(leaf: Leaf, qualifier: Vec<String>, as_stream: bool) -> Source {
    match leaf {
        Leaf::View(relation) => Source::Plan { relation: Arc::new(relation), qualifier, as_stream },
        Leaf::Table(provider) => Source::Table { provider, qualifier },
        Leaf::Analyzed(analyzed) => Source::Analyzed { analyzed, qualifier, as_stream },
    }
}

impl Walk<'_> {
    fn relation(&mut self, relation: &mut Relation, names: &mut Names, depth: usize) -> Result<()> {
        self.nested(relation, names, depth, 0)
    }

    fn nested(&mut self, relation: &mut Relation, names: &mut Names, depth: usize, level: usize) -> Result<()> {
        if level > DEPTH {
            return Err(too_deep());
        }
        stacker::maybe_grow(64 * 1024, 4 * 1024 * 1024, || self.step(relation, names, depth, level))
    }

    fn step(&mut self, relation: &mut Relation, names: &mut Names, depth: usize, level: usize) -> Result<()> {
        if let Some(RelType::Sql(sql)) = &relation.rel_type {
            let mut parsed = crate::sql::parse::relation(&sql.query, &sql.named_arguments, &sql.pos_arguments)?;
            // What refers to the frame by its id refers to what the text says.
            match &mut parsed.common {
                Some(common) if common.plan_id.is_some() => {
                    let root = Some(Box::new(parsed));
                    let with = WithRelations { root, references: Vec::new() };
                    *relation = Relation { common: relation.common.clone(), rel_type: Some(RelType::WithRelations(Box::new(with))) };
                }
                _ => *relation = Relation { common: relation.common.clone(), rel_type: parsed.rel_type },
            }
        }
        let mut subqueries: Vec<Relation> = Vec::new();
        for expression in visit::expressions(relation) {
            expanded(expression, self.functions, &mut subqueries, 0)?;
        }
        if !subqueries.is_empty() {
            let root = Some(Box::new(std::mem::take(relation)));
            let common = root.as_ref().and_then(|root| root.common.clone());
            let with = WithRelations { root, references: subqueries };
            *relation = Relation { common, rel_type: Some(RelType::WithRelations(Box::new(with))) };
        }
        if let Some(RelType::UnresolvedTableValuedFunction(call)) = &relation.rel_type
            && let Some(function) = plain_name(&call.function_name).and_then(|name| self.functions?.table_function(&name))
        {
            let call = CommonInlineUserDefinedTableFunction { arguments: call.arguments.clone(), ..function };
            relation.rel_type = Some(RelType::CommonInlineUserDefinedTableFunction(call));
        }
        match &mut relation.rel_type {
            Some(RelType::WithRelations(with)) => return self.with_relations(with, names, depth, level),
            Some(
                RelType::Read(_)
                | RelType::Extension(_)
                | RelType::CachedRemoteRelation(_)
                | RelType::CachedLocalRelation(_)
                | RelType::ChunkedCachedLocalRelation(_),
            ) => {
                let index = match common_table(relation, names) {
                    Some(index) => index,
                    None => self.number(relation, depth),
                };
                relation.rel_type = Some(RelType::CachedRemoteRelation(CachedRemoteRelation { relation_id: index.to_string() }));
            }
            _ => {}
        }
        for input in visit::inputs(relation) {
            self.nested(input, names, depth, level + 1)?;
        }
        Ok(())
    }

    /// References with an alias are common table expressions: each is visible to those after it and to the root.
    fn with_relations(&mut self, with: &mut WithRelations, names: &mut Names, depth: usize, level: usize) -> Result<()> {
        let outside = names.len();
        for reference in &mut with.references {
            self.nested(reference, names, depth, level + 1)?;
            // The parser gives subqueries negative ids; they are found by these.
            let is_subquery = reference.common.as_ref().and_then(|common| common.plan_id).is_some_and(|plan_id| plan_id < 0);
            if let Some(RelType::SubqueryAlias(alias)) = &reference.rel_type
                && !is_subquery
            {
                let index = self.requests.len();
                self.plans.insert(index, Arc::new(reference.clone()));
                self.requests.push(Request { leaf: Relation::default(), depth });
                names.push((alias.alias.clone(), index));
            }
        }
        if let Some(root) = with.root.as_deref_mut() {
            self.nested(root, names, depth, level + 1)?;
        }
        names.truncate(outside);
        Ok(())
    }

    fn number(&mut self, leaf: &Relation, depth: usize) -> usize {
        if let Some(known) = self.requests.iter().position(|request| request.leaf.rel_type == leaf.rel_type) {
            return known;
        }
        self.requests.push(Request { leaf: Relation { common: None, rel_type: leaf.rel_type.clone() }, depth });
        self.requests.len() - 1
    }
}

/// Parses the texts inside of an expression and puts registered functions in the place of their names.
fn expanded(expression: &mut Expression, functions: Option<&dyn Leaves>, subqueries: &mut Vec<Relation>, level: usize) -> Result<()> {
    if level > DEPTH {
        return Err(too_deep());
    }
    stacker::maybe_grow(64 * 1024, 4 * 1024 * 1024, || {
        if let Some(ExprType::ExpressionString(text)) = &expression.expr_type {
            let (parsed, more) = crate::sql::parse::expression_with_subqueries(&text.expression)?;
            *expression = parsed;
            subqueries.extend(more);
        }
        if let Some(registered) = registered(expression, functions) {
            expression.expr_type = Some(ExprType::CommonInlineUserDefinedFunction(registered));
        }
        visit::parts(expression).into_iter().try_for_each(|part| expanded(part, functions, subqueries, level + 1))
    })
}

/// The call of a registered function that an expression is.
fn registered(expression: &Expression, functions: Option<&dyn Leaves>) -> Option<CommonInlineUserDefinedFunction> {
    let (name, arguments, is_distinct) = match &expression.expr_type {
        Some(ExprType::UnresolvedFunction(call)) => (&call.function_name, &call.arguments, call.is_distinct),
        Some(ExprType::CallFunction(call)) => (&call.function_name, &call.arguments, false),
        _ => return None,
    };
    let name = plain_name(name).filter(|name| !is_builtin(name))?;
    let function = functions?.function(&name)?;
    Some(CommonInlineUserDefinedFunction { arguments: arguments.clone(), is_distinct, ..function })
}

/// A name without the schema of temporary functions; `None` for one that is in another.
fn plain_name(name: &str) -> Option<String> {
    let mut parts = name_parts(name).ok()?;
    let plain = parts.pop()?;
    let schema = parts.join(".").to_lowercase();
    ["", "session", "system.session"].contains(&schema.as_str()).then_some(plain)
}

/// The common table expression that a leaf names.
fn common_table(leaf: &Relation, names: &Names) -> Option<usize> {
    let Some(RelType::Read(read)) = &leaf.rel_type else { return None };
    let Some(read::ReadType::NamedTable(table)) = &read.read_type else { return None };
    let parts = name_parts(&table.unparsed_identifier).ok()?;
    let [name] = parts.as_slice() else { return None };
    names.iter().rev().find(|(known, _)| known.to_lowercase() == name.to_lowercase()).map(|(_, index)| *index)
}

/// The plan lacks something.
pub(super) fn incomplete(what: &str) -> Error {
    Error::invalid("INVALID_PLAN_INPUT", format!("the plan is incomplete: {what} is missing")).with_sqlstate("42000")
}

/// The plan is nested too deeply.
pub(super) fn too_deep() -> Error {
    Error::invalid(
        "FAILED_TO_PARSE_TOO_COMPLEX",
        format!("the plan is nested more than {DEPTH} levels deep: store a part of it as a table"),
    )
    .with_sqlstate("54001")
}
