use std::io;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use millstream_core::conformance::sink::schema;
use uuid::Uuid;

use super::*;

#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Screen {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

async fn shown(options: &[(&str, &str)], parts: &[&[(Option<&str>, i64)]]) -> String {
    let screen = Screen::default();
    let request = WriteRequest { options: options.iter().copied().collect(), ..WriteRequest::default() };
    let sink = ConsoleProvider::new(ConsoleOutput::new(screen.clone())).sink(&request).await.unwrap();
    let batch = BatchInfo { query_id: Uuid::nil(), batch_id: 4, mode: OutputMode::Append, schema: schema(), timestamp_ms: 0 };
    let mut staged = Vec::new();
    for rows in parts {
        let mut writer = sink.writer(&batch, staged.len()).await.unwrap();
        let keys = Arc::new(rows.iter().map(|(key, _)| *key).collect::<StringArray>());
        let values = Arc::new(rows.iter().map(|(_, value)| Some(*value)).collect::<Int64Array>());
        writer.write(RecordBatch::try_new(schema(), vec![keys, values]).unwrap()).await.unwrap();
        staged.push(writer.finish().await.unwrap());
    }
    assert_eq!(screen.text(), "", "nothing is shown before the commit");
    let committed = sink.commit(&batch, staged.clone()).await.unwrap();
    assert_eq!(committed.rows, parts.iter().map(|rows| rows.len() as u64).sum::<u64>());
    let text = screen.text();
    assert_eq!(sink.admit(&batch).await.unwrap(), Admission::AlreadyCommitted);
    sink.commit(&batch, staged).await.unwrap();
    assert_eq!(screen.text(), text, "a second commit shows nothing");
    text
}

/// Recorded from Spark 4.2.
#[tokio::test]
async fn a_batch_is_shown_as_spark_shows_it() {
    let expected = concat!(
        "-------------------------------------------\n",
        "Batch: 4\n",
        "-------------------------------------------\n",
        "+--------------------+---+\n",
        "|                   k|  v|\n",
        "+--------------------+---+\n",
        "|a very long strin...|  1|\n",
        "|exactly20characters!| -3|\n",
        "|                NULL|  2|\n",
        "|              日本\\n|  2|\n",
        "+--------------------+---+\n",
        "\n",
    );
    let rows: &[&[(Option<&str>, i64)]] =
        &[&[(Some("a very long string value beyond twenty"), 1), (Some("exactly20characters!"), -3)], &[(None, 2), (Some("日本\n"), 2)]];
    assert_eq!(shown(&[], rows).await, expected);
}

#[tokio::test]
async fn whole_values_are_aligned_to_the_left() {
    let text = shown(&[("truncate", "false")], &[&[(Some("a value of more than twenty"), 1), (None, 2)]]).await;
    let table: Vec<&str> = text.lines().skip(3).collect();
    assert_eq!(
        table,
        [
            "+---------------------------+---+",
            "|k                          |v  |",
            "+---------------------------+---+",
            "|a value of more than twenty|1  |",
            "|NULL                       |2  |",
            "+---------------------------+---+",
            "",
        ]
    );
}

#[tokio::test]
async fn rows_beyond_the_limit_are_counted_and_not_shown() {
    let many: Vec<(Option<&str>, i64)> = (0..9).map(|i| (Some("x"), i)).collect();
    let text = shown(&[("numRows", "2")], &[&many[..1], &many[1..]]).await;
    assert!(text.ends_with("|  x|  0|\n|  x|  1|\n+---+---+\nonly showing top 2 rows\n"), "{text}");
    let all = shown(&[("numRows", "9")], &[&many]).await;
    assert!(all.ends_with("|  x|  8|\n+---+---+\n\n"), "{all}");
}

#[tokio::test]
async fn an_empty_batch_shows_its_header() {
    assert!(shown(&[], &[]).await.ends_with("+---+---+\n|  k|  v|\n+---+---+\n+---+---+\n\n"));
}

#[tokio::test]
async fn bad_options_are_refused() {
    let request = WriteRequest { options: [("numRows", "few")].into_iter().collect(), ..WriteRequest::default() };
    let error = ConsoleProvider::new(ConsoleOutput::new(io::sink())).sink(&request).await.unwrap_err();
    assert_eq!(error.code(), "INVALID_OPTION_VALUE");
}
