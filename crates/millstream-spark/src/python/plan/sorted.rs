//! Groups of sorted rows.

use std::cmp::Ordering;
use std::collections::VecDeque;

use arrow::array::{Array, RecordBatch};
use arrow::row::{OwnedRow, RowConverter, Rows as KeyRows, SortField};
use futures::StreamExt;
use millstream_core::{Error, Result};

use super::chunks::Chunks;
use super::{BY_KEY, Rows};

/// A piece of a sequence of groups.
#[derive(Debug)]
pub(super) enum Piece {
    /// A group begins; its key.
    Begin(Key),
    /// Rows of the group.
    Rows(RecordBatch),
    /// The group ends.
    End,
}

/// The key of a group, which compares as the groups are sorted. Groups by nothing have one that is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key(Option<OwnedRow>);

impl Key {
    /// How the group of this key is sorted against that of another of the same columns.
    pub(super) fn order(&self, other: &Key) -> Ordering {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => one.row().cmp(&other.row()),
            _ => Ordering::Equal,
        }
    }
}

/// Cuts rows that are sorted by their keys into groups, and groups into batches of `most` rows.
pub(super) struct Groups {
    input: Rows,
    /// The places of the key's columns.
    keys: Vec<usize>,
    converter: Option<RowConverter>,
    most: usize,
    current: Option<Key>,
    chunks: Chunks,
    ready: VecDeque<Piece>,
    ended: bool,
}

impl Groups {
    /// Rows of `schema` grouped by the columns at these places; by nothing if there are none.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for columns that cannot be compared.
    pub(super) fn new(input: Rows, schema: &arrow::datatypes::Schema, keys: Vec<usize>, most: usize) -> Result<Self> {
        let fields = keys.iter().filter_map(|key| schema.fields().get(*key));
        let fields: Vec<SortField> = fields.map(|field| SortField::new_with_options(field.data_type().clone(), BY_KEY)).collect();
        let converter = if fields.is_empty() { None } else { Some(RowConverter::new(fields).map_err(incomparable)?) };
        Ok(Groups { input, keys, converter, most, current: None, chunks: Chunks::new(most), ready: VecDeque::new(), ended: false })
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// Those of the input.
    pub(super) async fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            if self.ended {
                return Ok(None);
            }
            match self.input.next().await {
                Some(batch) => self.split(&batch?)?,
                None => {
                    self.end()?;
                    self.ended = true;
                }
            }
        }
    }

    fn split(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut start = 0;
        for stop in self.ends(batch)? {
            let key = self.key(batch, start)?;
            if self.current.as_ref() != Some(&key) {
                self.end()?;
                self.ready.push_back(Piece::Begin(key.clone()));
                self.current = Some(key);
            }
            self.chunks.push(batch.slice(start, stop - start));
            while let Some(chunk) = self.chunks.full()? {
                self.ready.push_back(Piece::Rows(chunk));
            }
            start = stop;
        }
        Ok(())
    }

    /// Ends the group that goes on, if there is one.
    fn end(&mut self) -> Result<()> {
        if self.current.take().is_none() {
            return Ok(());
        }
        while let Some(chunk) = self.chunks.rest()? {
            self.ready.push_back(Piece::Rows(chunk));
        }
        self.chunks = Chunks::new(self.most);
        self.ready.push_back(Piece::End);
        Ok(())
    }

    /// Where each run of equal keys ends.
    fn ends(&self, batch: &RecordBatch) -> Result<Vec<usize>> {
        let Some(rows) = self.rows(batch)? else { return Ok(vec![batch.num_rows()]) };
        let mut ends: Vec<usize> = (1..batch.num_rows()).filter(|&row| rows.row(row) != rows.row(row - 1)).collect();
        ends.push(batch.num_rows());
        Ok(ends)
    }

    fn key(&self, batch: &RecordBatch, row: usize) -> Result<Key> {
        Ok(Key(self.rows(&batch.slice(row, 1))?.map(|rows| rows.row(0).owned())))
    }

    fn rows(&self, batch: &RecordBatch) -> Result<Option<KeyRows>> {
        let Some(converter) = &self.converter else { return Ok(None) };
        let columns: Vec<_> = self.keys.iter().filter_map(|key| batch.columns().get(*key)).cloned().collect();
        debug_assert!(columns.iter().all(|column| column.len() == batch.num_rows()));
        converter.convert_columns(&columns).map(Some).map_err(incomparable)
    }
}

fn incomparable(error: arrow::error::ArrowError) -> Error {
    Error::internal("the keys of groups cannot be compared").caused_by(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use futures::stream;

    use super::*;

    async fn shown(batches: &[&[Option<&str>]], keys: Vec<usize>, most: usize) -> String {
        let batch = |keys: &&[Option<&str>]| {
            let numbers = Int64Array::from_iter_values(0..keys.len() as i64);
            RecordBatch::try_from_iter_with_nullable([
                ("k", Arc::new(StringArray::from(keys.to_vec())) as ArrayRef, true),
                ("n", Arc::new(numbers) as ArrayRef, true),
            ])
            .unwrap()
        };
        let batches: Vec<RecordBatch> = batches.iter().map(batch).collect();
        let schema = batches[0].schema();
        let input = stream::iter(batches.into_iter().map(Ok)).boxed();
        let mut groups = Groups::new(input, &schema, keys, most).unwrap();
        let mut text = String::new();
        while let Some(piece) = groups.next().await.unwrap() {
            match piece {
                Piece::Begin(_) => text.push('('),
                Piece::Rows(rows) => text.push_str(&format!(" {}", rows.num_rows())),
                Piece::End => text.push(')'),
            }
        }
        text
    }

    #[tokio::test]
    async fn groups_go_on_from_batch_to_batch() {
        let batches: &[&[Option<&str>]] = &[&[None, Some("a")], &[Some("a"), Some("a"), Some("b")], &[Some("b")]];
        let cases = [
            (vec![0], 10, "( 1)( 3)( 2)"),
            (vec![0], 2, "( 1)( 2 1)( 2)"),
            (vec![], 10, "( 6)"),
            (vec![0, 1], 10, "( 1)( 1)( 1)( 1)( 1)( 1)"),
        ];
        for (keys, most, expected) in cases {
            assert_eq!(shown(batches, keys.clone(), most).await, expected, "by {keys:?} in batches of {most}");
        }
        assert_eq!(shown(&[&[]], vec![0], 10).await, "");
    }
}
