//! What texts become. `expressions.txt` and `statements.txt` are all the SQL that the conformance cases send.

use std::fmt::Write;

use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::{ExprType, cast};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{join, read, subquery_expression};

use super::*;

/// Texts of the cases that Spark refuses to parse too, and how.
const REFUSED: &[(&str, &str)] = &[
    ("interval 1 month 2 days", "_LEGACY_ERROR_TEMP_0029"),
    ("interval '1' fortnight", "INVALID_TYPED_LITERAL"),
    ("interval '1 2' day", "INVALID_INTERVAL_FORMAT.INVALID_UNIT"),
    ("date'2024-13-01'", "INVALID_TYPED_LITERAL"),
    ("timestamp'nope'", "INVALID_TYPED_LITERAL"),
    ("cast(i as nosuchtype)", "UNSUPPORTED_DATATYPE"),
    ("select k, count(*) from events group by 3", "GROUP_BY_POS_OUT_OF_RANGE"),
    ("select k, count(*) as n from events where v >= :low group by k", "UNBOUND_SQL_PARAMETER"),
];

fn code<T>(outcome: Result<T>) -> Result<(), String> {
    outcome.map(drop).map_err(|error| error.code().to_owned())
}

#[test]
fn every_text_of_the_conformance_cases_is_read() {
    let refusal = |text: &str| REFUSED.iter().find(|(known, _)| *known == text).map_or(Ok(()), |(_, code)| Err((*code).to_owned()));
    for text in include_str!("expressions.txt").lines() {
        assert_eq!(code(expression_with_subqueries(text)), refusal(text), "{text}");
        let named = format!("{text} AS x1");
        let outcome = code(expression_with_subqueries(&named));
        if refusal(text).is_ok() && !text.to_uppercase().contains(" AS (") && !text.contains(" AS ") && !text.ends_with(" x") {
            assert_eq!(outcome, Ok(()), "{named}");
        }
    }
    for text in include_str!("statements.txt").lines() {
        assert_eq!(code(statement(text, &HashMap::new(), &[])), refusal(text), "{text}");
    }
}

/// An expression as Lisp would have it.
fn shown(expression: &Expression) -> String {
    let mut out = String::new();
    match expression.expr_type.as_ref().unwrap() {
        ExprType::Literal(literal) => match literal.literal_type.as_ref().unwrap() {
            LiteralType::String(text) => write!(out, "'{text}'").unwrap(),
            LiteralType::Integer(number) => write!(out, "{number}").unwrap(),
            LiteralType::Boolean(value) => write!(out, "{value}").unwrap(),
            LiteralType::Null(_) => out.push_str("null"),
            other => write!(out, "{other:?}").unwrap(),
        },
        ExprType::UnresolvedAttribute(attribute) => out.push_str(&attribute.unparsed_identifier),
        ExprType::UnresolvedFunction(function) => {
            write!(out, "({}", function.function_name).unwrap();
            if function.is_distinct {
                out.push_str(" distinct");
            }
            function.arguments.iter().for_each(|argument| write!(out, " {}", shown(argument)).unwrap());
            out.push(')');
        }
        ExprType::UnresolvedStar(star) => out.push_str(star.unparsed_target.as_deref().unwrap_or("*")),
        ExprType::Alias(alias) => write!(out, "(as {} {})", shown(alias.expr.as_ref().unwrap()), alias.name.join(" ")).unwrap(),
        ExprType::Cast(cast) => {
            let Some(cast::CastToType::TypeStr(to)) = &cast.cast_to_type else { panic!("{cast:?}") };
            write!(out, "({:?} {} {to})", cast.eval_mode(), shown(cast.expr.as_ref().unwrap())).unwrap();
        }
        ExprType::UnresolvedExtractValue(extract) => {
            write!(out, "(get {} {})", shown(extract.child.as_ref().unwrap()), shown(extract.extraction.as_ref().unwrap())).unwrap();
        }
        ExprType::LambdaFunction(lambda) => {
            let names: Vec<String> = lambda.arguments.iter().map(|argument| argument.name_parts.join(".")).collect();
            write!(out, "(lambda ({}) {})", names.join(" "), shown(lambda.function.as_ref().unwrap())).unwrap();
        }
        ExprType::UnresolvedNamedLambdaVariable(variable) => write!(out, "${}", variable.name_parts.join(".")).unwrap(),
        ExprType::Window(window) => {
            let partition: Vec<String> = window.partition_spec.iter().map(shown).collect();
            let order: Vec<String> = window.order_spec.iter().map(|order| shown(order.child.as_ref().unwrap())).collect();
            let function = shown(window.window_function.as_ref().unwrap());
            write!(out, "(over {function} [{}] [{}] {})", partition.join(" "), order.join(" "), window.frame_spec.is_some()).unwrap();
        }
        ExprType::SortOrder(order) => write!(out, "(order {} {:?})", shown(order.child.as_ref().unwrap()), order.direction()).unwrap(),
        ExprType::NamedArgumentExpression(named) => write!(out, "{}=>{}", named.key, shown(named.value.as_ref().unwrap())).unwrap(),
        ExprType::SubqueryExpression(subquery) => {
            let values: Vec<String> = subquery.in_subquery_values.iter().map(shown).collect();
            write!(out, "({:?} [{}])", subquery.subquery_type(), values.join(" ")).unwrap();
        }
        other => panic!("{other:?}"),
    }
    out
}

#[test]
fn expressions_have_sparks_precedence_and_its_functions() {
    for (text, expected) in [
        ("a + b * c - d", "(- (+ a (* b c)) d)"),
        ("-a * b", "(* (negative a) b)"),
        ("- -1", "(negative -1)"),
        ("a -1", "(- a 1)"),
        ("a | b ^ c & d << 1", "(| a (^ b (& c (shiftleft d 1))))"),
        ("a || b || c", "(concat (concat a b) c)"),
        ("a = b = c", "(== (== a b) c)"),
        ("a <> 1", "(not (== a 1))"),
        ("NOT a = 1 AND b", "(and (not (== a 1)) b)"),
        ("a AND b AND c AND d OR e", "(or (and (and a b) (and c d)) e)"),
        ("a BETWEEN 1 AND 2 AND b", "(and (between a 1 2) b)"),
        ("a NOT IN (1, 2)", "(not (in a 1 2))"),
        ("a IS NOT NULL OR b IS NOT TRUE", "(or (isnotnull a) (not (<=> b true)))"),
        ("a IS DISTINCT FROM b", "(not (<=> a b))"),
        ("s NOT LIKE 'a!%' ESCAPE '!'", "(not (like s 'a!%' '!'))"),
        ("s LIKE ANY ('a', 'b')", "(or (like s 'a') (like s 'b'))"),
        ("s NOT LIKE ALL ('a', 'b')", "(and (not (like s 'a')) (not (like s 'b')))"),
        ("s REGEXP 'a'", "(rlike s 'a')"),
        ("CASE a WHEN 1 THEN 'x' ELSE 'y' END", "(when (== a 1) 'x' 'y')"),
        ("CASE WHEN a THEN 1 END + 1", "(+ (when a 1) 1)"),
        ("a.b[0].c['d']", "(get (get (get a.b 0) 'c') 'd')"),
        ("(a).b", "a.b"),
        ("x::int::string", "(Unspecified (Unspecified x int) string)"),
        ("TRY_CAST(a AS MAP<STRING, ARRAY<INT>>)", "(Try a MAP<STRING, ARRAY<INT>>)"),
        ("TIMESTAMP '2024-1-2'", "(Ansi '2024-01-02 00:00:00' TIMESTAMP)"),
        ("EXTRACT(year FROM a)", "(extract 'year' a)"),
        ("position('a' IN s)", "(locate 'a' s)"),
        ("position('a', s)", "(position 'a' s)"),
        ("substring(s FROM 2 FOR 3)", "(substring s 2 3)"),
        ("trim(LEADING 'x' FROM s)", "(ltrim 'x' s)"),
        ("overlay(s PLACING 'x' FROM 2)", "(overlay s 'x' 2 -1)"),
        ("dateadd(DAY, 1, ts)", "(timestampadd 'DAY' 1 ts)"),
        ("dateadd(day, 1)", "(dateadd day 1)"),
        ("count(*)", "(count 1)"),
        ("count(DISTINCT a, b)", "(count distinct a b)"),
        ("sum(a) FILTER (WHERE b > 1)", "(__filter (sum a) (> b 1))"),
        ("first_value(a) IGNORE NULLS", "(first a true)"),
        ("lag(a) IGNORE NULLS OVER (ORDER BY b)", "(over (__ignore_nulls (lag a)) [] [b] false)"),
        ("percentile_cont(0.5D) WITHIN GROUP (ORDER BY a DESC)", "(__within_group (percentile_cont Double(0.5)) (order a Descending))"),
        ("sum(a) OVER (PARTITION BY b ORDER BY c ROWS 1 PRECEDING)", "(over (sum a) [b] [c] true)"),
        ("transform(a, x -> x.y + b)", "(transform a (lambda (x) (+ (get $x 'y') b)))"),
        ("aggregate(a, 0, (acc, x) -> acc + x)", "(aggregate a 0 (lambda (acc x) (+ $acc $x)))"),
        ("struct(a, b AS c)", "(struct a (as b c))"),
        ("(a, b)", "(struct a b)"),
        ("f(a => 1)", "(f a=>1)"),
        ("* EXCEPT (a, b.c)", "(star except * a b.c)"),
        ("t.*", "t.*"),
        ("stack(2, 1, 2) AS (a, b)", "(as (stack 2 1 2) a b)"),
        ("`a b`.c", "`a b`.c"),
        ("v:a.b[0]::int", "(Unspecified (variant_get v '$.a.b[0]' 'variant') int)"),
        ("offset + limit", "(+ offset limit)"),
        ("IDENTIFIER('a.b')", "a.b"),
        ("exists(a, x -> x)", "(exists a (lambda (x) $x))"),
        ("EXISTS (SELECT 1)", "(Exists [])"),
        ("(a, b) IN (SELECT 1, 2)", "(In [a b])"),
        ("((SELECT 1) + 1)", "(+ (Scalar []) 1)"),
        ("((SELECT 1) UNION (SELECT 2))", "(Scalar [])"),
    ] {
        let (expression, _) = expression_with_subqueries(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(shown(&expression), expected, "{text}");
    }
}

#[test]
fn faults_have_sparks_conditions() {
    for (text, expected) in [
        ("a IS NULL IS NULL", "PARSE_SYNTAX_ERROR"),
        ("a +", "PARSE_SYNTAX_ERROR"),
        ("a b c", "PARSE_SYNTAX_ERROR"),
        ("(1", "PARSE_SYNTAX_ERROR"),
        ("1)", "PARSE_SYNTAX_ERROR"),
        ("a..b", "PARSE_SYNTAX_ERROR"),
        ("{'a': 1}", "PARSE_SYNTAX_ERROR"),
        ("* EXCEPT (a), a", "PARSE_SYNTAX_ERROR"),
        ("interval 1 quarter", "PARSE_SYNTAX_ERROR"),
        ("interval '1' fortnight AS x", "PARSE_SYNTAX_ERROR"),
        ("128Y", "INVALID_NUMERIC_LITERAL_RANGE"),
        ("foo 'x'", "UNSUPPORTED_TYPED_LITERAL"),
        ("X'0g'", "INVALID_TYPED_LITERAL"),
        ("s LIKE 'a' ESCAPE 'bc'", "INVALID_ESC"),
        ("CAST(a AS array)", "INCOMPLETE_TYPE_DEFINITION.ARRAY"),
        ("CAST(a AS char)", "DATATYPE_MISSING_SIZE"),
        ("CAST(a AS decimal(50, 2))", "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION"),
        (":x", "UNBOUND_SQL_PARAMETER"),
        ("sum(a) OVER w", "MISSING_WINDOW_SPECIFICATION"),
        ("1 AS a-b", "INVALID_IDENTIFIER"),
        ("", "PARSE_EMPTY_STATEMENT"),
        // What is wrong with the grammar is told before what is wrong with a literal.
        ("date'x' +", "PARSE_SYNTAX_ERROR"),
    ] {
        assert_eq!(code(expression_with_subqueries(text)), Err(expected.to_owned()), "{text}");
    }
    for (text, expected) in [
        ("SELECT", "PARSE_SYNTAX_ERROR"),
        ("SELECT 1; SELECT 2", "PARSE_SYNTAX_ERROR"),
        ("SELECT * FROM t x WATERMARK ts DELAY OF INTERVAL 10 SECONDS", "PARSE_SYNTAX_ERROR"),
        ("SELECT TRANSFORM(a) USING 'cat' FROM t", "UNSUPPORTED_FEATURE"),
        ("WITH c AS (SELECT 1), c AS (SELECT 2) SELECT * FROM c", "DUPLICATED_CTE_NAMES"),
        ("SELECT *, 1 FROM t GROUP BY 1", "STAR_GROUP_BY_POS"),
        ("SELECT a FROM t LIMIT -1", "INVALID_LIMIT_LIKE_EXPRESSION.IS_NEGATIVE"),
        ("SELECT a FROM t LIMIT a", "INVALID_LIMIT_LIKE_EXPRESSION.IS_UNFOLDABLE"),
        ("SELECT a FROM t LIMIT 'x'", "INVALID_LIMIT_LIKE_EXPRESSION.DATA_TYPE"),
        ("VALUES (1), (2, 3)", "INVALID_INLINE_TABLE.NUM_COLUMNS_MISMATCH"),
        ("VALUES (1), ('a')", "INVALID_INLINE_TABLE.INCOMPATIBLE_TYPES_IN_INLINE_TABLE"),
        ("SELECT * FROM t TABLESAMPLE (101 PERCENT)", "_LEGACY_ERROR_TEMP_0064"),
        ("SELECT a-b FROM t-x", "INVALID_IDENTIFIER"),
        ("SELECT 1 AS (a, b)", "MULTI_ALIAS_WITHOUT_GENERATOR"),
        ("CREATE TEMP VIEW IF NOT EXISTS v AS SELECT 1", "_LEGACY_ERROR_TEMP_0053"),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1", "CREATE_VIEW_WITH_IF_NOT_EXISTS_AND_REPLACE"),
        ("CREATE TEMP VIEW a.b AS SELECT 1", "INVALID_TEMP_OBJ_QUALIFIER"),
        ("CREATE STREAMING TABLE st AS SELECT 1", "UNSUPPORTED_FEATURE.CREATE_PIPELINE_DATASET_QUERY_EXECUTION"),
        ("CREATE TABLE t (a INT, a INT) USING json", "COLUMN_ALREADY_EXISTS"),
        ("CREATE TABLE", "PARSE_SYNTAX_ERROR"),
        ("GRANT SELECT ON t TO x", "INVALID_STATEMENT_OR_CLAUSE"),
    ] {
        assert_eq!(code(statement(text, &HashMap::new(), &[])), Err(expected.to_owned()), "{text}");
    }
}

/// Runs `work` with the stack of the threads that plan queries in the server.
fn on_a_planning_thread(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(16 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn long_and_deep_texts_neither_overflow_nor_pass_unbounded() {
    on_a_planning_thread(|| {
        let chain = |operator: &str| vec!["a = 1"; 20_000].join(operator);
        for text in [chain(" OR "), chain(" AND "), vec!["'a'"; 20_000].join(" || "), format!("a IN ({})", vec!["1"; 20_000].join(", "))] {
            let parsed = expression(&text);
            assert!(parsed.is_ok(), "{}", text.get(..60).unwrap());
        }
        let unions = vec!["SELECT 1"; 5_000].join(" UNION ALL ");
        assert!(relation(&unions, &HashMap::new(), &[]).is_ok());
        let deep = |open: &str, close: &str, n: usize| format!("{}a{}", open.repeat(n), close.repeat(n));
        for text in [
            vec!["a"; 20_000].join(" + "),
            deep("(", ")", 20_000),
            deep("f(", ")", 20_000),
            deep("NOT ", "", 20_000),
            deep("- ", "", 20_000),
            deep("", "[0]", 20_000),
            deep("", "::int", 20_000),
            deep("x -> ", "", 20_000),
            deep("CASE WHEN ", " THEN 1 END", 20_000),
        ] {
            assert_eq!(code(expression(&text)), Err("FAILED_TO_PARSE_TOO_COMPLEX".to_owned()), "{}", text.get(..20).unwrap());
        }
        assert!(expression(&vec!["a"; 250].join(" + ")).is_ok());
        assert!(expression(&deep("(", ")", 150)).is_ok());
    });
}

fn query(text: &str) -> Relation {
    relation(text, &HashMap::new(), &[]).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The kinds of relations from the root down its first inputs.
fn spine(relation: &Relation) -> String {
    let (name, input) = match relation.rel_type.as_ref().unwrap() {
        RelType::Read(read) => return format!("read{}", if read.is_streaming { " stream" } else { "" }),
        RelType::LocalRelation(_) => return "local".to_owned(),
        RelType::Range(_) => return "range".to_owned(),
        RelType::UnresolvedTableValuedFunction(function) => return format!("function {}", function.function_name),
        RelType::Project(project) => match &project.input {
            Some(input) => ("project".to_owned(), input),
            None => return "project".to_owned(),
        },
        RelType::Filter(filter) => ("filter".to_owned(), filter.input.as_ref().unwrap()),
        RelType::Aggregate(aggregate) => {
            let sets = if aggregate.grouping_sets.is_empty() { String::new() } else { format!(" {} sets", aggregate.grouping_sets.len()) };
            (format!("aggregate {:?}{sets}", aggregate.group_type()), aggregate.input.as_ref().unwrap())
        }
        RelType::Sort(sort) => (format!("sort {}", sort.is_global()), sort.input.as_ref().unwrap()),
        RelType::Limit(limit) => (format!("limit {}", limit.limit), limit.input.as_ref().unwrap()),
        RelType::Offset(offset) => (format!("offset {}", offset.offset), offset.input.as_ref().unwrap()),
        RelType::SubqueryAlias(alias) => (format!("as {}", alias.alias), alias.input.as_ref().unwrap()),
        RelType::ToDf(to) => (format!("columns {}", to.column_names.join(" ")), to.input.as_ref().unwrap()),
        RelType::Join(join) => (format!("{:?} join", join.join_type()), join.left.as_ref().unwrap()),
        RelType::LateralJoin(join) => {
            (format!("{:?} lateral ({})", join.join_type(), spine(join.right.as_ref().unwrap())), join.left.as_ref().unwrap())
        }
        RelType::SetOp(set) => (format!("{:?} {}", set.set_op_type(), set.is_all()), set.left_input.as_ref().unwrap()),
        RelType::WithRelations(with) => (format!("with {}", with.references.len()), with.root.as_ref().unwrap()),
        RelType::WithWatermark(watermark) => {
            (format!("watermark {} {}", watermark.event_time, watermark.delay_threshold), watermark.input.as_ref().unwrap())
        }
        RelType::Sample(sample) => (format!("sample {}", sample.upper_bound), sample.input.as_ref().unwrap()),
        RelType::Hint(hint) => (format!("hint {}", hint.name), hint.input.as_ref().unwrap()),
        RelType::RepartitionByExpression(by) => ("repartition".to_owned(), by.input.as_ref().unwrap()),
        RelType::Unpivot(unpivot) => ("unpivot".to_owned(), unpivot.input.as_ref().unwrap()),
        other => panic!("{other:?}"),
    };
    format!("{name} < {}", spine(input))
}

#[test]
fn clauses_become_relations_in_their_order() {
    for (text, expected) in [
        ("SELECT 1", "project"),
        ("SELECT a FROM t WHERE b ORDER BY a LIMIT 1 + 1 OFFSET 3", "limit 2 < offset 3 < sort true < project < filter < read"),
        ("SELECT DISTINCT a FROM t", "aggregate Unspecified < project < read"),
        ("SELECT count(*) FROM t HAVING count(*) > 1", "filter < aggregate Unspecified < read"),
        ("SELECT a, sum(b) FROM t GROUP BY 1 HAVING sum(b) > 1", "filter < aggregate Unspecified < read"),
        ("SELECT a, b FROM t GROUP BY a, ROLLUP(b, c)", "aggregate Unspecified 3 sets < read"),
        ("SELECT a FROM t GROUP BY GROUPING SETS ((a, b), CUBE(a, b), ())", "aggregate Unspecified 6 sets < read"),
        ("SELECT a FROM t GROUP BY a, b WITH CUBE", "aggregate Unspecified 4 sets < read"),
        ("SELECT a FROM t QUALIFY row_number() OVER w = 1 WINDOW w AS (ORDER BY a)", "filter < project < read"),
        ("SELECT a FROM t DISTRIBUTE BY a SORT BY b", "sort false < repartition < project < read"),
        ("SELECT /*+ BROADCAST(t) */ a FROM t", "project < hint BROADCAST < read"),
        ("SELECT * FROM t AS x (a, b)", "project < as x < columns a b < read"),
        ("SELECT * FROM (SELECT 1)", "project < as __auto_generated_subquery_name < project"),
        ("SELECT * FROM a, b", "project < Inner join < read"),
        ("SELECT * FROM a LEFT ANTI JOIN b ON a.x = b.x", "project < LeftAnti join < read"),
        ("SELECT * FROM a NATURAL FULL OUTER JOIN b", "project < FullOuter join < read"),
        ("SELECT * FROM t, LATERAL explode(a) AS e (x)", "project < Inner lateral (as e < columns x < function explode) < read"),
        ("SELECT * FROM t LATERAL VIEW OUTER explode(a) AS x, y", "project < LeftOuter lateral (columns x y < function explode) < read"),
        ("SELECT * FROM t LATERAL VIEW explode(a) e x", "project < Inner lateral (as e < columns x < function explode) < read"),
        ("SELECT 1 UNION ALL SELECT 2 UNION SELECT 3", "Union false < Union true < project"),
        ("SELECT 1 UNION SELECT 2 INTERSECT ALL SELECT 3", "Union false < project"),
        ("(SELECT 1) MINUS (SELECT 2) ORDER BY 1", "sort true < Except false < project"),
        ("WITH a AS (SELECT 1), b (x) AS (SELECT * FROM a) SELECT * FROM b", "with 2 < project < read"),
        ("SELECT * FROM t WHERE a IN (SELECT b FROM u) AND c > (SELECT max(d) FROM v)", "with 2 < project < filter < read"),
        ("SELECT * FROM STREAM t", "project < read stream"),
        (
            "SELECT * FROM STREAM(t) WATERMARK ts DELAY OF INTERVAL 90 SECONDS AS x",
            "project < as x < watermark ts 90 seconds < read stream",
        ),
        ("SELECT * FROM t WATERMARK a + b AS ts DELAY OF INTERVAL '1' DAY", "project < watermark ts 1 days < project < read"),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT) x", "project < as x < sample 0.1 < read"),
        ("SELECT * FROM range(10)", "project < range"),
        ("SELECT * FROM read_files('/in', format => 'csv')", "project < read"),
        ("VALUES (1, 'a'), (2L, null) AS t (x, y)", "as t < columns x y < local"),
        ("VALUES (1), (a)", "function inline"),
        ("FROM t SELECT a", "project < read"),
        ("FROM t |> WHERE a > 1 |> SELECT a |> LIMIT 5", "limit 5 < project < filter < project < read"),
        ("TABLE t", "project < read"),
        ("SELECT * FROM t UNPIVOT (v FOR n IN (a, b AS c))", "project < filter < unpivot < read"),
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))", "project < aggregate Pivot < read"),
        ("SELECT * FROM t PIVOT (sum(a) FOR (b, c) IN ((1, 2) AS x))", "project < aggregate Unspecified < read"),
    ] {
        assert_eq!(spine(&query(text)), expected, "{text}");
    }
}

#[test]
fn tables_keep_their_names_versions_and_options() {
    let read = |text: &str| match query(text).rel_type.unwrap() {
        RelType::Project(project) => match project.input.unwrap().rel_type.unwrap() {
            RelType::Read(read) => read.read_type.unwrap(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    for (text, name, options) in [
        ("SELECT * FROM a.`b c`.d", "a.`b c`.d", vec![]),
        ("SELECT * FROM t VERSION AS OF 3", "t", vec![("versionAsOf", "3")]),
        ("SELECT * FROM t FOR TIMESTAMP AS OF '2024-01-01'", "t", vec![("timestampAsOf", "2024-01-01")]),
        ("SELECT * FROM t WITH (a = 1, 'b.c' = 'x')", "t", vec![("a", "1"), ("b.c", "x")]),
        ("SELECT * FROM IDENTIFIER('a' || '.b')", "a.b", vec![]),
    ] {
        let read::ReadType::NamedTable(table) = read(text) else { panic!("{text}") };
        let expected: HashMap<String, String> = options.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        assert_eq!((table.unparsed_identifier.as_str(), table.options), (name, expected), "{text}");
    }
    let read::ReadType::DataSource(source) = read("SELECT * FROM json.`/in`") else { panic!("a path") };
    assert_eq!((source.format.as_deref(), source.paths), (Some("json"), vec!["/in".to_owned()]));
}

#[test]
fn parameters_are_replaced_by_their_arguments() {
    let named: HashMap<String, Expression> = [("low".to_owned(), proto::integer(2)), ("t".to_owned(), proto::string("a.b"))].into();
    let positional = [proto::integer(1), proto::integer(7)];
    let filter = |relation: &Relation| match relation.rel_type.as_ref().unwrap() {
        RelType::Project(project) => match project.input.as_ref().unwrap().rel_type.as_ref().unwrap() {
            RelType::Filter(filter) => shown(filter.condition.as_ref().unwrap()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let by_name = relation("SELECT * FROM IDENTIFIER(:t) WHERE v >= :low AND v <> :low", &named, &[]).unwrap();
    assert_eq!(filter(&by_name), "(and (>= v 2) (not (== v 2)))");
    let by_place = relation("SELECT ? FROM t WHERE v >= ?", &HashMap::new(), &positional).unwrap();
    assert_eq!(filter(&by_place), "(>= v 7)");
    assert_eq!(code(relation("SELECT ?, ?, ?", &HashMap::new(), &positional)), Err("UNBOUND_SQL_PARAMETER".to_owned()));
}

#[test]
fn subqueries_are_found_by_their_plan_ids() {
    let RelType::WithRelations(with) = query("SELECT (SELECT 1), EXISTS (SELECT 2)").rel_type.unwrap() else { panic!("no references") };
    let ids: Vec<i64> = with.references.iter().map(|reference| reference.common.as_ref().unwrap().plan_id.unwrap()).collect();
    let RelType::Project(project) = with.root.unwrap().rel_type.unwrap() else { panic!("no projection") };
    let used: Vec<(i64, subquery_expression::SubqueryType)> = project
        .expressions
        .iter()
        .map(|expression| match expression.expr_type.as_ref().unwrap() {
            ExprType::SubqueryExpression(subquery) => (subquery.plan_id, subquery.subquery_type()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(used, [(ids[0], subquery_expression::SubqueryType::Scalar), (ids[1], subquery_expression::SubqueryType::Exists)]);
    assert!(ids.iter().all(|id| *id < 0) && ids[0] != ids[1]);
}

#[test]
fn joins_keep_their_columns_and_conditions() {
    let joined = |text: &str| match query(text).rel_type.unwrap() {
        RelType::Project(project) => match project.input.unwrap().rel_type.unwrap() {
            RelType::Join(join) => (join.join_type(), join.using_columns, join.join_condition.as_ref().map(shown)),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(joined("SELECT * FROM a JOIN b USING (x, y)"), (join::JoinType::Inner, names(&["x", "y"]), None));
    assert_eq!(joined("SELECT * FROM a NATURAL LEFT JOIN b"), (join::JoinType::LeftOuter, names(&["*"]), None));
    assert_eq!(
        joined("SELECT * FROM a RIGHT OUTER JOIN b ON a.x = b.x AND y"),
        (join::JoinType::RightOuter, names(&[]), Some("(and (== a.x b.x) y)".to_owned()))
    );
}
