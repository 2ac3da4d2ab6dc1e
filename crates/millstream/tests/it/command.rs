//! The command as people and scripts run it: exit codes, words, and what it does when its output goes nowhere.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Output, Stdio};

struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        let rows: String = (0..20_000).map(|number| format!("{number}\n")).collect();
        std::fs::write(folder.path().join("in/a.csv"), rows).unwrap();
        let sql = "CREATE STREAMING TABLE t AS SELECT a FROM STREAM read_files('${in}', format => 'csv', schema => 'a INT');
                   CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t;";
        std::fs::write(folder.path().join("p.sql"), sql).unwrap();
        World { folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.current_dir(self.folder.path()).env_remove("MILLSTREAM_STORAGE").env_remove("MILLSTREAM_WAREHOUSE").args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }
}

const RUN: [&str; 7] = ["run", "p.sql", "--once", "--storage", "lake", "--var", "in=in"];

#[test]
fn what_cannot_work_is_refused_with_words_that_help() {
    let world = World::new();
    assert_eq!(world.run(&RUN).status.code(), Some(0));
    for (arguments, code, words) in [
        (&["run", "p.sql", "--once", "--storage", "lake"][..], 3, "variable 'in' has no value"),
        (&["run", "p.sql", "--var", "in=in", "--accept-change", "foo"], 2, "possible values: window"),
        (&["run", "p.sql", "--var", "in=in", "--once", "--storage", "p.sql"], 12, "check --storage"),
        (&["serve", "--python", "/no/such/python"], 3, "cannot be run"),
        (&["serve", "--warehouse", "p.sql/x"], 12, "check --warehouse"),
        (&["serve", "--bind", "localhost"], 3, "is no host and port"),
        (&["table", "show", "t", "--storage", "lake", "--version", "99"], 3, "has no version 99: its newest is"),
        (&["table", "show", "u", "--storage", "lake"], 3, "lake/tables/u or lake/u"),
        (&["checkpoint", "diff", "lake/_checkpoints/t"], 3, "nothing before batch 0"),
    ] {
        let output = world.run(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), told.contains(words)), (Some(code), true), "{arguments:?}: {told}");
    }
    let told = world.run(&["run", "p.sql", "--once"]).stderr;
    assert_eq!(String::from_utf8_lossy(&told).matches("has no value").count(), 1);
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_a_full_disk_is() {
    let world = World::new();
    let json = [&RUN[..], &["--json"][..]].concat();
    for arguments in [RUN.to_vec(), json, vec!["table", "info", "t", "--storage", "lake"], vec!["options"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = world.command(&arguments).stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), told.contains("OUTPUT_FAILED")), (Some(11), true), "{arguments:?}: {told}");
    }
    for format in ["csv", "json", "table"] {
        let arguments = ["table", "show", "t", "--storage", "lake", "--limit", "100000", "--format", format];
        let mut child = world.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 1];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut first).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""), "{format}");
    }
}
