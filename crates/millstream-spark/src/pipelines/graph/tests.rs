use super::*;

fn build_files(files: &[(&str, &str)]) -> Result<Graph, Diagnostics> {
    let files: Vec<Arc<SourceFile>> = files.iter().map(|(name, text)| Arc::new(SourceFile::new(*name, *text))).collect();
    Graph::build(&files, &Variables::new(), &|name| name.name == "crossings")
}

fn build(text: &str) -> Result<Graph, Diagnostics> {
    build_files(&[("p.sql", text)])
}

fn graph(text: &str) -> Graph {
    build(text).unwrap_or_else(|faults| panic!("{text}: {faults}"))
}

/// `name[component] <- upstream, …` of every flow, in order.
fn flows(graph: &Graph) -> Vec<String> {
    let name = |index: usize| graph.flows[index].name.to_string();
    let show = |flow: &Flow| {
        let upstream: Vec<String> = flow.upstream.iter().map(|index| name(*index)).collect();
        format!("{}[{}] <- {}", flow.name, flow.component, upstream.join(","))
    };
    graph.flows.iter().map(show).collect()
}

#[test]
fn flows_come_after_what_they_read() {
    let graph = graph(
        "CREATE MATERIALIZED VIEW gold AS SELECT count(*) AS n FROM Silver;
         CREATE STREAMING TABLE silver AS SELECT * FROM STREAM(LIVE.bronze) b JOIN sizes ON b.x = sizes.x;
         CREATE MATERIALIZED VIEW alone AS SELECT 1 AS one;
         CREATE STREAMING TABLE bronze;
         CREATE FLOW a AS INSERT INTO bronze BY NAME SELECT * FROM STREAM read_files('/a');
         CREATE FLOW b AS INSERT INTO bronze BY NAME SELECT * FROM STREAM loud;
         CREATE TEMPORARY VIEW loud AS SELECT * FROM STREAM crossings;
         CREATE MATERIALIZED VIEW sizes AS SELECT * FROM crossings;",
    );
    assert_eq!(
        flows(&graph),
        ["alone[0] <- ", "sizes[1] <- ", "a[1] <- ", "b[1] <- ", "silver[1] <- sizes,a,b", "gold[1] <- silver"].map(str::to_owned)
    );
    let silver = &graph.flows[4];
    assert_eq!(graph.datasets[silver.target].name.to_string(), "silver");
    assert_eq!(silver.inputs, [Input::Dataset(3), Input::Dataset(5)]);
    let view = graph.datasets[4].view.as_ref().unwrap();
    assert_eq!(view.inputs, [Input::External(TableName::new("crossings"))]);
    assert_eq!(graph.flows_into(3).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(graph.notes, []);
}

#[test]
fn flows_see_tables_through_views() {
    let graph = graph(
        "CREATE TEMPORARY VIEW second AS SELECT * FROM first; CREATE TEMPORARY VIEW first AS SELECT * FROM m;
         CREATE MATERIALIZED VIEW n AS SELECT * FROM second; CREATE MATERIALIZED VIEW m AS SELECT 1 AS a;",
    );
    assert_eq!(flows(&graph), ["m[0] <- ", "n[0] <- m"]);
}

#[test]
fn files_are_one_graph_and_settings_end_with_their_file() {
    let graph = build_files(&[
        ("a.sql", "USE SCHEMA s; CREATE MATERIALIZED VIEW one AS SELECT 1 AS a; CREATE MATERIALIZED VIEW two AS SELECT * FROM one"),
        ("b.sql", "CREATE MATERIALIZED VIEW one AS SELECT * FROM s.two"),
    ])
    .unwrap();
    assert_eq!(flows(&graph), ["s.one[0] <- ", "s.two[0] <- s.one", "one[0] <- s.two"]);
}

#[test]
fn a_stream_of_a_materialized_view_is_worth_a_note() {
    let graph = graph("CREATE MATERIALIZED VIEW m AS SELECT 1 AS a;\nCREATE STREAMING TABLE t AS SELECT * FROM STREAM m");
    assert_eq!(graph.notes.len(), 1);
    assert!(graph.notes[0].to_string().starts_with("p.sql:2:50: 'm' is written whole"), "{}", graph.notes[0]);
}

#[test]
fn faults_name_place_and_remedy() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("CREATE MATERIALIZED VIEW _Quarantine_a AS SELECT 1 AS x", "RESERVED_NAME", &["p.sql:1:26: names that begin with _quarantine_"]),
        ("", "RUN_EMPTY_PIPELINE", &["pipeline:1:1: the pipeline defines no table"]),
        (
            "CREATE MATERIALIZED VIEW m AS\n  SELECT * FROM mn",
            "TABLE_OR_VIEW_NOT_FOUND",
            &["p.sql:2:17: there is no table or view 'mn' (did you mean 'm'?)"],
        ),
        (
            "CREATE MATERIALIZED VIEW bad AS SELECT * FROM not_here; CREATE MATERIALIZED VIEW behind AS SELECT * FROM bad, nor_here",
            "TABLE_OR_VIEW_NOT_FOUND",
            &["p.sql:1:47: there is no table or view 'not_here' (it is neither", "p.sql:1:111: there is no table or view 'nor_here'"],
        ),
        (
            "CREATE STREAMING TABLE a AS SELECT * FROM STREAM crossings;\nCREATE MATERIALIZED VIEW A AS SELECT 1 AS x",
            "PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT",
            &["p.sql:2:26: 'A' is defined twice: the first is the streaming table at p.sql:1:24"],
        ),
        (
            "CREATE STREAMING TABLE t AS SELECT * FROM STREAM crossings; CREATE FLOW T AS INSERT INTO t BY NAME SELECT * FROM STREAM crossings",
            "PIPELINE_DUPLICATE_IDENTIFIERS.FLOW",
            &["p.sql:1:73: flow 'T' is defined twice: the first is at p.sql:1:24"],
        ),
        (
            "CREATE STREAMING TABLE orders;\nCREATE FLOW f AS INSERT INTO order BY NAME SELECT * FROM STREAM crossings",
            "TABLE_OR_VIEW_NOT_FOUND",
            &["p.sql:2:30: flow 'f' inserts into 'order', which the pipeline does not define (did you mean 'orders'?)"],
        ),
        (
            "CREATE MATERIALIZED VIEW m AS SELECT 1 AS a; CREATE FLOW f AS INSERT INTO m BY NAME SELECT * FROM STREAM crossings",
            "MATERIALIZED_VIEW_WITH_MULTIPLE_QUERIES",
            &["p.sql:1:75: a flow inserts into a streaming table, and 'm' is a materialized view"],
        ),
        ("CREATE STREAMING TABLE t", "PIPELINE_DATASET_WITHOUT_FLOW", &["p.sql:1:24: nothing writes into the streaming table 't'"]),
        (
            "CREATE STREAMING TABLE t AS SELECT * FROM crossings",
            "INVALID_FLOW_QUERY_TYPE.BATCH_RELATION_FOR_STREAMING_TABLE",
            &["p.sql:1:29: the query of the streaming table 't' reads no stream (write STREAM crossings, or CREATE MATERIALIZED VIEW)"],
        ),
        (
            "CREATE MATERIALIZED VIEW m AS SELECT * FROM STREAM crossings",
            "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_MATERIALIZED_VIEW",
            &["p.sql:1:52: the query of the materialized view 'm' reads a stream"],
        ),
        (
            "CREATE STREAMING TABLE t; CREATE FLOW f AS INSERT INTO ONCE t BY NAME SELECT * FROM STREAM crossings",
            "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_ONCE_FLOW",
            &["p.sql:1:92: flow 'f' is run once"],
        ),
        (
            "CREATE TEMPORARY VIEW still AS SELECT * FROM crossings; CREATE STREAMING TABLE t AS SELECT * FROM STREAM still",
            "INCOMPATIBLE_BATCH_VIEW_READ",
            &[
                "p.sql:1:106: view 'still' is a batch query and cannot be read as a stream (leave STREAM out, or write STREAM inside of the view at p.sql:1:23)",
            ],
        ),
        (
            "CREATE TEMPORARY VIEW moving AS SELECT * FROM STREAM crossings; CREATE MATERIALIZED VIEW m AS SELECT * FROM moving",
            "INCOMPATIBLE_STREAMING_VIEW_READ",
            &["p.sql:1:109: view 'moving' is a streaming query and cannot be read as a table (write STREAM moving)"],
        ),
        (
            "CREATE STREAMING TABLE a AS SELECT * FROM STREAM c;\nCREATE STREAMING TABLE b AS SELECT * FROM STREAM a;\n\
             CREATE TEMPORARY VIEW c AS SELECT * FROM STREAM b;\nCREATE STREAMING TABLE d AS SELECT * FROM STREAM c",
            "PIPELINE_CIRCULAR_DEPENDENCY",
            &[
                "p.sql:1:50: datasets read each other in a circle: 'a' reads 'c' at p.sql:1:50, 'c' reads 'b' at p.sql:3:49, 'b' reads 'a' at p.sql:2:50",
            ],
        ),
        (
            "CREATE MATERIALIZED VIEW m AS SELECT * FROM M; CREATE MATERIALIZED VIEW x AS SELECT * FROM y; CREATE MATERIALIZED VIEW y AS SELECT * FROM x",
            "PIPELINE_CIRCULAR_DEPENDENCY",
            &["p.sql:1:45: 'm' reads itself", "p.sql:1:92: datasets read each other in a circle: 'x' reads 'y'"],
        ),
        (
            "CREATE MATERIALIZED VIEW m AS SELECT * FROM a.b.c.d",
            "PARSE_SYNTAX_ERROR",
            &["p.sql:1:45: a table is named by at most three parts, and 'a.b.c.d' has 4"],
        ),
        (
            "CREATE TEMPORARY VIEW v AS SELECT 1 FROM nowhere;\nSELECT 1;\nCREATE MATERIALIZED VIEW m AS SELECT (",
            "TABLE_OR_VIEW_NOT_FOUND",
            &["p.sql:1:42: there is no table or view 'nowhere'", "p.sql:2:1: a statement", "p.sql:3:39: expected "],
        ),
    ];
    for (text, code, expected) in cases {
        let faults = build(text).map(|graph| flows(&graph)).unwrap_err();
        let shown: Vec<String> = faults.0.iter().map(|fault| fault.to_string()).collect();
        assert_eq!(shown.len(), expected.len(), "{text}: {shown:#?}");
        for (shown, expected) in shown.iter().zip(*expected) {
            assert!(shown.starts_with(expected), "{text}\n  is       {shown}\n  expected {expected}");
        }
        let error = millstream_core::Error::from(faults);
        assert_eq!((error.code(), error.kind()), (*code, millstream_core::ErrorKind::Invalid), "{text}");
    }
}

#[test]
fn folders_are_read_in_order_and_hidden_files_are_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("b/.hidden")).unwrap();
    for (path, text) in [("c.sql", "\u{feff}SELECT c"), ("b/a.SQL", "SELECT a"), ("b/.hidden/x.sql", ""), (".y.sql", ""), ("note.txt", "")]
    {
        std::fs::write(folder.path().join(path), text).unwrap();
    }
    let files = read_files(folder.path()).unwrap();
    assert_eq!(files.iter().map(|file| (&*file.name, &*file.text)).collect::<Vec<_>>(), [("b/a.SQL", "SELECT a"), ("c.sql", "SELECT c")]);
    assert_eq!(read_files(&folder.path().join("c.sql")).unwrap().len(), 1);
    assert_eq!(read_files(&folder.path().join("none")).unwrap_err().code(), "PATH_NOT_FOUND");
    assert_eq!(read_files(&folder.path().join("b/.hidden/..")).unwrap().len(), 1);
    std::fs::write(folder.path().join("bad.sql"), [b'a', 0xff]).unwrap();
    assert!(read_files(folder.path()).unwrap_err().message().contains("not UTF-8 at byte 1"));
}

/// Chains, fans and unconnected flows of any shape: each flow comes after its upstream, and upstream is exactly what is read.
mod orders {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_order_is_topological(reads in prop::collection::vec(prop::collection::vec(0_usize..12, 0..3), 1..12), start in 0_usize..12) {
            let count = reads.len();
            // View i reads only views of smaller rank, where ranks are the places rotated by `start`.
            let rank = |i: usize| (i + start) % count;
            let text: String = (0..count).map(|i| {
                let inputs: Vec<String> = reads[i].iter().filter(|r| **r < count && rank(**r) < rank(i)).map(|r| format!(", t{r}")).collect();
                format!("CREATE MATERIALIZED VIEW t{i} AS SELECT 1 FROM crossings{};\n", inputs.concat())
            }).collect();
            let graph = build(&text).unwrap();
            prop_assert_eq!(graph.flows.len(), count);
            for (index, flow) in graph.flows.iter().enumerate() {
                let read: std::collections::BTreeSet<usize> = flow.inputs.iter().filter_map(|i| if let Input::Dataset(d) = i { Some(*d) } else { None }).collect();
                let upstream: std::collections::BTreeSet<usize> = flow.upstream.iter().map(|u| graph.flows[*u].target).collect();
                prop_assert_eq!(read, upstream);
                prop_assert!(flow.upstream.iter().all(|u| *u < index && graph.flows[*u].component == flow.component));
            }
        }
    }
}

#[test]
fn a_variable_without_a_value_is_told_once_and_alone() {
    let faults = build(
        "CREATE STREAMING TABLE a AS SELECT * FROM STREAM read_files('${in}');
         CREATE STREAMING TABLE b AS SELECT * FROM STREAM a;
         CREATE STREAMING TABLE c AS SELECT * FROM STREAM read_files('${in}/c');
         CREATE MATERIALIZED VIEW d AS SELECT * FROM c;",
    )
    .unwrap_err();
    let told: Vec<(&str, u64)> = faults.0.iter().map(|fault| (fault.code.as_ref(), fault.position.line)).collect();
    assert_eq!(told, [("UNDEFINED_VARIABLE", 1)]);
}

#[test]
fn names_are_not_empty() {
    for text in [
        "CREATE STREAMING TABLE `` AS SELECT * FROM STREAM crossings",
        "CREATE MATERIALIZED VIEW ` ` AS SELECT 1 AS a",
        "CREATE TEMPORARY VIEW `` AS SELECT 1 AS a",
    ] {
        let faults = build(text).unwrap_err();
        assert_eq!(faults.0[0].code, "INVALID_SCHEMA_OR_RELATION_NAME", "{text}: {faults}");
    }
}
