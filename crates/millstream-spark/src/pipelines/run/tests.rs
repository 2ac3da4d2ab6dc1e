#![expect(clippy::disallowed_methods, reason = "tests bring the real clock and random names")]

use std::path::PathBuf;

use std::time::Instant;

use arrow::util::pretty::pretty_format_batches;
use millstream_checkpoint::store::{self, Privacy, StoreOptions};
use millstream_connectors::delta::{DeltaSinkProvider, DeltaSourceProvider};
use millstream_connectors::files::FilesProvider;
use millstream_connectors::storage::{Location, Storage};
use millstream_core::registry::{ReadRequest, Registry};
use millstream_core::{Clock, Ids};
use millstream_engine::SessionOptions;

use super::*;

mod semantics;

#[derive(Debug)]
struct TestClock(Instant);

#[async_trait::async_trait]
impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        i64::try_from(now.as_millis()).unwrap()
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[derive(Debug)]
struct RandomIds;

impl Ids for RandomIds {
    fn next(&self) -> uuid::Uuid {
        uuid::Uuid::new_v4()
    }
}

/// A folder for the input, a storage root, and a process that can be started anew.
struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        Fixture { folder }
    }

    fn input(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join("in").join(name), text).unwrap();
    }

    async fn session(&self) -> (Session, CheckpointLocation) {
        let clock: Arc<dyn Clock> = Arc::new(TestClock(Instant::now()));
        let ids: Arc<dyn Ids> = Arc::new(RandomIds);
        let stores = StoreOptions::new(clock.clone(), ids.clone());
        let shared = stores.clone();
        let storage = Storage::new(move |place| {
            let (store, path, url) = store::open(place, Privacy::Shared, &shared)?;
            Ok(Location { url, store, path })
        });
        let mut registry = Registry::new(clock.clone(), ids.clone());
        for files in FilesProvider::all(&storage) {
            registry.add_source(files);
        }
        registry.add_source(Arc::new(DeltaSourceProvider::new(storage.clone())));
        registry.add_sink(Arc::new(DeltaSinkProvider::new(storage, clock, ids)));
        let session = Session::new(registry, SessionOptions { parallelism: 2, ..SessionOptions::default() }).unwrap();
        let root: PathBuf = self.folder.path().join("storage");
        let (store, path, url) = store::open(root.to_str().unwrap(), Privacy::Private, &stores).unwrap();
        (session, CheckpointLocation { store, root: path, url })
    }

    async fn pipeline(&self, text: &str) -> Result<Pipeline> {
        let (session, root) = self.session().await;
        let variables = [("in", self.folder.path().join("in").to_str().unwrap().to_owned())].into_iter().collect();
        Pipeline::of(session, &[Arc::new(SourceFile::new("p.sql", text))], &variables, root).await
    }

    async fn run(&self, text: &str, options: RunOptions) -> Result<RunSummary> {
        let (events, _receiver) = mpsc::channel(1_000);
        self.pipeline(text).await?.run(options, events, CancellationToken::new()).await
    }

    /// Runs once and gives `flow STATUS rows-in->rows-out` of each flow.
    async fn once(&self, text: &str) -> Vec<String> {
        outcomes(&self.run(text, RunOptions { once: true, retry_pause: Duration::from_millis(1), ..RunOptions::default() }).await.unwrap())
    }

    /// The rows of a table as text, sorted.
    async fn rows(&self, table: &str) -> Vec<String> {
        let (session, root) = self.session().await;
        let path = Place::new(root).table(&TableName::new(table));
        let relation = session.table_relation("delta", ReadRequest { paths: vec![path], ..ReadRequest::default() }).await.unwrap();
        let name = format!("t{}", uuid::Uuid::new_v4().simple());
        session.context().register_table(name.as_str(), Arc::new(relation)).unwrap();
        let (_, batches) = session.collect(session.plan_sql(&format!("SELECT * FROM {name}")).await.unwrap()).await.unwrap();
        let text = pretty_format_batches(&batches).unwrap().to_string();
        let cells = |line: &str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(",");
        let mut rows: Vec<String> = text.lines().skip(3).filter(|line| line.starts_with('|')).map(cells).collect();
        rows.sort();
        rows
    }
}

fn outcomes(summary: &RunSummary) -> Vec<String> {
    let show = |flow: &FlowSummary| {
        let error = flow.error.as_ref().map(|error| format!(" {}", error.code())).unwrap_or_default();
        format!("{} {:?} {}->{}{error}", flow.name, flow.status, flow.counts.input_rows, flow.counts.output_rows)
    };
    summary.flows.iter().map(show).collect()
}

const MEDALLION: &str = "
    CREATE OR REFRESH STREAMING TABLE bronze AS
      SELECT *, _metadata.file_name AS file FROM STREAM read_files('${in}', format => 'json', schema => 'Id INT, kind STRING, amount DOUBLE');
    CREATE OR REFRESH STREAMING TABLE silver (
      CONSTRAINT has_id EXPECT (ID IS NOT NULL) ON VIOLATION DROP ROW,
      CONSTRAINT positive EXPECT (amount > 0)
    ) AS SELECT id, upper(Kind) AS kind, amount FROM STREAM(LIVE.bronze);
    CREATE TEMPORARY VIEW wanted AS SELECT * FROM silver WHERE kind <> 'X';
    CREATE MATERIALIZED VIEW gold AS SELECT kind, sum(amount) AS total, count(*) AS n FROM wanted GROUP BY kind;";

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_brought_up_to_date_and_nothing_is_computed_twice() {
    let fixture = Fixture::new();
    fixture.input(
        "a.json",
        "{\"Id\":1,\"kind\":\"a\",\"amount\":2}\n{\"kind\":\"a\",\"amount\":3}\nbroken\n{\"Id\":2,\"kind\":\"x\",\"amount\":-1}\n",
    );
    let summary = fixture.run(MEDALLION, RunOptions { once: true, ..RunOptions::default() }).await.unwrap();
    assert_eq!(outcomes(&summary), ["bronze Completed 4->4", "silver Completed 4->2", "gold Completed 2->1"]);
    let expectations = &summary.flows[1].counts.expectations;
    assert_eq!((expectations["has_id"].passed, expectations["has_id"].failed), (2, 2));
    assert_eq!((expectations["positive"].passed, expectations["positive"].failed), (2, 2));
    assert_eq!(summary.flows[0].counts.quarantined, 1);
    assert_eq!(fixture.rows("silver").await, ["1,A,2.0", "2,X,-1.0"]);
    assert_eq!(fixture.rows("gold").await, ["A,2.0,1"]);
    assert_eq!(fixture.rows("_quarantine_bronze").await.len(), 1);

    assert_eq!(fixture.once(MEDALLION).await, ["bronze Completed 0->0", "silver Completed 0->0", "gold Unchanged 0->0"]);
    fixture.input("b.json", "{\"Id\":3,\"kind\":\"a\",\"amount\":5}\n");
    assert_eq!(fixture.once(MEDALLION).await, ["bronze Completed 1->1", "silver Completed 1->1", "gold Completed 3->1"]);
    assert_eq!(fixture.rows("gold").await, ["A,7.0,2"]);
    // Another definition is another result.
    let changed = MEDALLION.replace("<> 'X'", "= 'X'");
    assert_eq!(fixture.once(&changed).await[2], "gold Completed 3->1");
    assert_eq!(fixture.rows("gold").await, ["X,-1.0,1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_that_fails_stops_only_what_reads_it() {
    let fixture = Fixture::new();
    fixture.input("a.csv", "1\n0\n");
    let text = "
        CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_files('${in}', format => 'csv', schema => 'a INT');
        CREATE STREAMING TABLE strict (CONSTRAINT some EXPECT (a > 0) ON VIOLATION FAIL UPDATE) AS SELECT a FROM STREAM raw;
        CREATE MATERIALIZED VIEW behind AS SELECT count(*) AS n FROM strict;
        CREATE MATERIALIZED VIEW further AS SELECT n FROM behind;
        CREATE MATERIALIZED VIEW beside AS SELECT count(*) AS n FROM raw;";
    let mut found = fixture.once(text).await;
    found.sort();
    assert_eq!(
        found,
        [
            "behind Skipped 0->0",
            "beside Completed 2->1",
            "further Skipped 0->0",
            "raw Completed 2->2",
            "strict Failed 0->0 EXPECTATION_VIOLATED",
        ]
    );
    assert_eq!(fixture.rows("strict").await, Vec::<String>::new());
    assert_eq!(fixture.rows("beside").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_append_by_name_and_once() {
    let fixture = Fixture::new();
    fixture.input("a.csv", "1,x\n");
    let text = "
        CREATE STREAMING TABLE pool (a INT, b STRING, c INT);
        CREATE FLOW first AS INSERT INTO pool BY NAME SELECT b, a FROM STREAM read_files('${in}', format => 'csv', schema => 'a INT, b STRING');
        CREATE FLOW backfill AS INSERT INTO ONCE pool BY NAME SELECT 7 AS a, 8 AS c;";
    for _ in 0..2 {
        fixture.once(text).await;
        assert_eq!(fixture.rows("pool").await, ["1,x,", "7,,8"]);
    }
    assert_eq!(fixture.once(text).await, ["first Completed 0->0", "backfill Unchanged 0->0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_refresh_begins_from_nothing() {
    let fixture = Fixture::new();
    fixture.input("a.csv", "1\n2\n");
    let text = "
        CREATE STREAMING TABLE raw AS SELECT a FROM STREAM read_files('${in}', format => 'csv', schema => 'a INT');
        CREATE STREAMING TABLE next AS SELECT a * 10 AS a FROM STREAM raw;
        CREATE STREAMING TABLE kept TBLPROPERTIES ('pipelines.reset.allowed' = 'false') AS SELECT a FROM STREAM raw;";
    fixture.once(text).await;
    std::fs::remove_file(fixture.folder.path().join("in/a.csv")).unwrap();
    fixture.input("b.csv", "3\n");
    let refresh = |tables: &[&str]| RunOptions {
        once: true,
        full_refresh: tables.iter().map(|t| (*t).to_owned()).collect(),
        ..RunOptions::default()
    };
    fixture.run(text, refresh(&["raw"])).await.unwrap();
    assert_eq!(fixture.rows("raw").await, ["3"]);
    // What reads it goes on with the new rows.
    assert_eq!(fixture.rows("next").await, ["10", "20", "30"]);
    fixture.run(text, refresh(&["NEXT"])).await.unwrap();
    assert_eq!(fixture.rows("next").await, ["30"]);
    assert_eq!(fixture.rows("kept").await, ["1", "2", "3"]);
    assert_eq!(fixture.run(text, refresh(&["kept"])).await.unwrap_err().code(), "PIPELINE_RESET_NOT_ALLOWED");
    assert!(fixture.run(text, refresh(&["nexd"])).await.unwrap_err().message().contains("did you mean 'next'"));
    fixture.run(text, RunOptions { once: true, full_refresh_all: true, ..RunOptions::default() }).await.unwrap();
    assert_eq!(fixture.rows("next").await, ["30"]);
    assert_eq!(fixture.rows("kept").await, ["1", "2", "3", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_its_checkpoint_and_a_checkpoint_without_its_table_are_refused() {
    let text = "
        CREATE STREAMING TABLE raw AS SELECT a FROM STREAM read_files('${in}', format => 'csv', schema => 'a INT');
        CREATE STREAMING TABLE pool;
        CREATE FLOW backfill AS INSERT INTO ONCE pool BY NAME SELECT 7 AS a;";
    let refresh = |table: &str| RunOptions { once: true, full_refresh: vec![table.to_owned()], ..RunOptions::default() };
    for (removed, found, code) in [
        ("tables/raw", "raw Failed 0->0 SINK_TABLE_LOST", "SINK_TABLE_LOST"),
        ("_checkpoints/raw", "raw Failed 0->0 CHECKPOINT_LOST", "CHECKPOINT_LOST"),
    ] {
        let fixture = Fixture::new();
        fixture.input("a.csv", "1\n2\n");
        fixture.once(text).await;
        std::fs::remove_dir_all(fixture.folder.path().join("storage").join(removed)).unwrap();
        fixture.input("b.csv", "3\n");
        // Being refused makes nothing that would be taken for whole the next time.
        for _ in 0..2 {
            let options = RunOptions { once: true, ..RunOptions::default() };
            let summary = fixture.run(text, options).await.unwrap();
            assert_eq!(outcomes(&summary)[0], found);
            let error = summary.flows[0].error.clone().unwrap();
            assert_eq!(error.code(), code);
            for named in ["tables/raw", "_checkpoints/raw", "--full-refresh raw"] {
                assert!(error.message().contains(named), "{named}: {error}");
            }
        }
        fixture.run(text, refresh("raw")).await.unwrap();
        assert_eq!(fixture.rows("raw").await, ["1", "2", "3"]);
        fixture.input("c.csv", "4\n");
        assert_eq!(fixture.once(text).await[0], "raw Completed 1->1");
    }
    // A flow that runs once does not run again, so its table cannot be made anew either. With table and record gone, all begins anew.
    let fixture = Fixture::new();
    fixture.once(text).await;
    std::fs::remove_dir_all(fixture.folder.path().join("storage/tables/pool")).unwrap();
    assert_eq!(fixture.once(text).await[1], "backfill Failed 0->0 SINK_TABLE_LOST");
    std::fs::remove_dir_all(fixture.folder.path().join("storage/_pipeline")).unwrap();
    fixture.once(text).await;
    assert_eq!(fixture.rows("pool").await, ["7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_cannot_be_written_is_the_failure_of_its_flow() {
    let fixture = Fixture::new();
    fixture.input("a.csv", "1\n");
    let text = "
        CREATE STREAMING TABLE odd TBLPROPERTIES ('delta.noSuchProperty' = '1') AS
          SELECT a FROM STREAM read_files('${in}', format => 'csv', schema => 'a INT');
        CREATE STREAMING TABLE fine AS SELECT a FROM STREAM read_files('${in}', format => 'csv', schema => 'a INT');
        CREATE MATERIALIZED VIEW behind AS SELECT * FROM odd;";
    let found = fixture.once(text).await;
    assert_eq!(found[..2], ["odd Failed 0->0 DELTA_UNSUPPORTED_TABLE_PROPERTY".to_owned(), "fine Completed 1->1".to_owned()]);
    assert_eq!(found[2], "behind Skipped 0->0");
}

#[tokio::test(flavor = "multi_thread")]
async fn inferred_schemas_stay_and_hints_hold() {
    let fixture = Fixture::new();
    fixture.input("a.json", "{\"a\":1,\"b\":\"x\"}\n");
    let text = "CREATE STREAMING TABLE t AS SELECT * FROM STREAM read_files('${in}/*.json', schemaHints => 'a INT, c DATE')";
    assert_eq!(fixture.once(text).await, ["t Completed 1->1"]);
    fixture.input("b.json", "{\"a\":2,\"b\":\"y\",\"c\":\"2024-01-01\",\"new\":true}\n");
    assert_eq!(fixture.once(text).await, ["t Completed 1->1"]);
    let rows = fixture.rows("t").await;
    assert_eq!(rows[0], "1,x,,");
    assert!(rows[1].starts_with("2,y,2024-01-01,{\"new\":true,\"_file_path\":"), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn checking_plans_everything_and_changes_nothing() {
    let fixture = Fixture::new();
    fixture.input("a.json", "{\"Id\":1}\n");
    let pipeline = fixture.pipeline(MEDALLION).await.unwrap();
    let checked = pipeline.check().await.unwrap();
    let ddl = |index: usize| crate::types::to_ddl(&checked.schemas[&index]);
    assert_eq!(ddl(0), "Id INT,kind STRING,amount DOUBLE,file STRING");
    assert_eq!(ddl(1), "id INT,kind STRING,amount DOUBLE");
    assert_eq!(ddl(3), "kind STRING,total DOUBLE,n BIGINT");
    assert!(!fixture.folder.path().join("storage").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_found_before_anything_runs() {
    let fixture = Fixture::new();
    fixture.input("a.json", "{\"a\":1}\n");
    let source = "FROM STREAM read_files('${in}', format => 'json', schema => 'a INT')";
    for (text, expected) in [
        (format!("CREATE STREAMING TABLE t AS SELECT b {source}"), "p.sql:1:36: there is no column `b`: did you mean `a`?"),
        (
            "CREATE STREAMING TABLE t AS SELECT * FROM STREAM read_files('${in}', format => 'jsn')".to_owned(),
            "p.sql:1:50: there is no format 'jsn'",
        ),
        (
            "CREATE STREAMING TABLE t AS SELECT * FROM STREAM read_files('${in}', format => 'json', multiLin => true)".to_owned(),
            "p.sql:1:100: read_files with format 'json' has no option 'multiLin' (did you mean multiLine?)",
        ),
        (
            "CREATE STREAMING TABLE t AS SELECT * FROM STREAM read_files('${in}', format => 'json', schema => 'a INTT')".to_owned(),
            "p.sql:1:98: in the schema 'a INTT': schema:1:3: there is no type INTT",
        ),
        (
            format!("CREATE STREAMING TABLE t PARTITIONED BY (z) AS SELECT a {source}"),
            "p.sql:1:42: partition column 'z' is not a column of 't'",
        ),
        (format!("CREATE STREAMING TABLE t (CONSTRAINT c EXPECT (z > 1)) AS SELECT a {source}"), "p.sql:1:48: there is no column `z`"),
        (
            format!("CREATE STREAMING TABLE t (CONSTRAINT c EXPECT (a)) AS SELECT a {source}"),
            "p.sql:1:48: the condition of expectation 'c' is of type \"INT\" and not boolean",
        ),
        (
            format!("CREATE STREAMING TABLE t (a BIGINT) AS SELECT a {source}"),
            "p.sql:1:27: column 'a' is declared as bigint, but the query gives int (cast it: CAST(a AS BIGINT))",
        ),
        (
            format!("CREATE STREAMING TABLE t (b INT) AS SELECT a {source}"),
            "p.sql:1:24: the query has a column 'a' that 't' does not declare",
        ),
        (
            "CREATE MATERIALIZED VIEW m (k INT, v INT) AS SELECT 1 AS k".to_owned(),
            "p.sql:1:36: column 'v' is declared, but the query does not give it",
        ),
        (format!("CREATE STREAMING TABLE t AS SELECT a, count(*) AS n {source} GROUP BY a"), "p.sql:1:29: "),
        (
            format!("CREATE STREAMING TABLE t AS SELECT a {source} WATERMARK a DELAY OF INTERVAL 1 DAY"),
            "p.sql:1:117: the event time `a` is a \"INT\" and not a \"TIMESTAMP\"",
        ),
        ("SET spark.sql.session.timeZone = Asia/Nowhere; CREATE MATERIALIZED VIEW m AS SELECT 1 AS a".to_owned(), "p.sql:1:78: "),
        (
            "CREATE TEMPORARY VIEW v AS SELECT nothing; CREATE MATERIALIZED VIEW m AS SELECT 1 AS a".to_owned(),
            "p.sql:1:35: there is no column `nothing`",
        ),
        (
            format!(
                "CREATE STREAMING TABLE t; CREATE FLOW x AS INSERT INTO t BY NAME SELECT a {source}; CREATE FLOW y AS INSERT INTO t BY NAME SELECT 'x' AS a {source}"
            ),
            "p.sql:1:1",
        ),
    ] {
        let error = fixture.pipeline(&text).await.unwrap().check().await.map(|checked| checked.schemas).unwrap_err();
        assert!(error.message().starts_with(expected), "{text}\n  is       {error}\n  expected {expected}");
        assert_eq!(error.message().lines().count(), 1, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continuous_run_follows_its_input_until_it_is_stopped() {
    let fixture = Fixture::new();
    fixture.input("a.json", "{\"Id\":1,\"kind\":\"a\",\"amount\":2}\n");
    let pipeline = fixture.pipeline(MEDALLION).await.unwrap();
    let (events, mut received) = mpsc::channel(1_000);
    let stop = CancellationToken::new();
    let options = RunOptions { refresh_interval: Duration::from_millis(10), ..RunOptions::default() };
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { pipeline.run(options, events, stop).await }
    });
    let mut added = false;
    let wait = async {
        while let Some(event) = received.recv().await {
            let PipelineEvent::Refreshed { .. } = event else { continue };
            let rows = fixture.rows("gold").await;
            if !added && rows == ["A,2.0,1"] {
                fixture.input("b.json", "{\"Id\":2,\"kind\":\"a\",\"amount\":3}\n");
                added = true;
            } else if rows == ["A,5.0,2"] {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap();
    stop.cancel();
    let summary = run.await.unwrap().unwrap();
    assert!(summary.flows.iter().all(|flow| flow.status == FlowStatus::Stopped && flow.error.is_none()), "{:?}", outcomes(&summary));
    assert_eq!(fixture.once(MEDALLION).await, ["bronze Completed 0->0", "silver Completed 0->0", "gold Unchanged 0->0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn checking_refuses_tables_that_could_not_be_written() {
    let fixture = Fixture::new();
    for (text, code, named) in [
        ("CREATE MATERIALIZED VIEW m AS SELECT count(*) FROM range(3)", "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "with AS"),
        (
            "CREATE STREAMING TABLE odd TBLPROPERTIES ('delta.noSuchProperty' = '1') AS
               SELECT a FROM STREAM read_files('${in}', format => 'csv', schema => 'a INT')",
            "DELTA_UNSUPPORTED_TABLE_PROPERTY",
            "noSuchProperty",
        ),
    ] {
        let error = fixture.pipeline(text).await.unwrap().check().await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().starts_with("p.sql:1:") && error.message().contains(named), "{error}");
    }
    assert!(!fixture.folder.path().join("storage").exists());
}
