//! Aggregation over windows that overlap: state keeps one partial result for each key and slice, and windows are combined when they leave.
//!
//! What is counted and emitted is that of an aggregation by window. A window has closed once the watermark has passed its end; a slice leaves
//! state with the last window that it is in. State that was made under other rules (other windows, or a mode in which windows stay) is turned
//! into whole windows before the first batch, in a table like that of an aggregation by window.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{HashMap, HashSet};
use datafusion::error::{DataFusionError, Result as DfResult};
use millstream_core::sink::OutputMode;
use millstream_core::watermark::Watermarks;

use super::runs::Runs;
use super::{Slicing, bounds, instants, instants_of};
use crate::stateful::accumulate::{Accumulating, Functions};
use crate::stateful::aggregate::Aggregation;
use crate::stateful::logical::Slide;
use crate::stateful::operator::{Core, Counts, Description};
use crate::stateful::table::{Expiry, PerKey, StateTable, TableSchema, Tables, normalize};
use crate::stateful::{micros, slices};

/// Rows of state that are looked at together.
const AT_ONCE: usize = 1 << 16;
/// Keys whose windows are combined at a time.
const KEYS_AT_ONCE: usize = 1 << 8;

/// What an aggregation over windows that overlap computes.
#[derive(Clone, Debug)]
pub(crate) struct Sliding {
    aggregation: Aggregation,
    /// Which of the keys is the window.
    window: usize,
    slide: Slide,
}

impl Sliding {
    /// The same as `aggregation`, whose input has slices in place of windows.
    pub(crate) fn new(aggregation: Aggregation, slicing: &Slicing) -> Self {
        Sliding { aggregation, window: slicing.position, slide: slicing.slide }
    }

    /// What its state means.
    pub(crate) fn description(&self) -> Description {
        let Slide { width, slide, start } = self.slide;
        let plain = self.aggregation.description();
        Description {
            tables: vec![self.table(), self.windows()],
            variant: format!("slices width={width} slide={slide} start={start} of {}", plain.variant),
            ..plain
        }
    }

    /// Whole windows. They are where the slices of the same keys are.
    fn windows(&self) -> TableSchema {
        let others = (0..self.aggregation.keys.len()).filter(|index| *index != self.window).collect();
        TableSchema { grouped_by: Some(others), ..self.aggregation.table() }
    }

    fn table(&self) -> TableSchema {
        let others = self.aggregation.keys.iter().enumerate().filter(|(index, _)| *index != self.window);
        let end: FieldRef = Arc::new(Field::new("end", self.time(), true));
        TableSchema {
            name: "slices".into(),
            key: others.map(|(_, key)| key.clone()).collect(),
            value: [end].into_iter().chain(self.aggregation.functions.state_fields().iter().cloned()).collect(),
            expiry: Expiry::Value(0),
            per_key: PerKey::Many,
            grouped_by: None,
        }
    }

    fn field(&self) -> Option<&FieldRef> {
        self.aggregation.keys.get(self.window)
    }

    /// The type of the bounds of windows.
    fn time(&self) -> DataType {
        match self.field().map(|window| window.data_type()) {
            Some(DataType::Struct(bounds)) => bounds.first().map_or(DataType::Null, |bound| bound.data_type().clone()),
            _ => DataType::Null,
        }
    }

    /// Whether the watermark closes windows.
    fn closes(&self) -> bool {
        self.aggregation.closes()
    }
}

/// The windows of a variant as [`Sliding::description`] writes it.
fn slide_of(variant: &str) -> Option<Slide> {
    let mut parts = variant.strip_prefix("slices ")?.split(' ').map(|part| part.split_once('=')?.1.parse().ok());
    Some(Slide { width: parts.next()??, slide: parts.next()??, start: parts.next()?? })
}

/// The slices that the running batch touched.
#[derive(Debug)]
struct Touched {
    numbers: HashMap<Arc<[u8]>, usize>,
    keys: Vec<Arc<[u8]>>,
    /// The group of each key and slice.
    groups: HashMap<(usize, i64), usize>,
    /// The key and slice of each group.
    slices: Vec<(usize, i64)>,
    accumulating: Accumulating,
}

/// What follows from the slices in state.
#[derive(Debug)]
struct Index {
    /// Keys by the first open window that they are in. An entry is a hint: by now the key may be in later windows only.
    due: BTreeMap<i64, Vec<Arc<[u8]>>>,
    /// Open windows of all keys.
    open: u64,
    /// The last window that has closed.
    closed: i64,
}

/// Slices of some keys: those of one key in the order of time, and keys one after the other.
#[derive(Debug, Default)]
struct Fetched {
    /// The position of the key, and the begin of the slice.
    slices: Vec<(usize, i64)>,
    values: Vec<Box<[u8]>>,
}

impl Fetched {
    /// The slices of one key after the other: where they are in `slices`.
    fn by_key(&self, keys: usize) -> Vec<Range<usize>> {
        let mut from = 0;
        let ranges = (0..keys).map(|key| {
            let length = self.slices.get(from..).unwrap_or_default().iter().take_while(|(of, _)| *of == key).count();
            from += length;
            from - length..from
        });
        ranges.collect()
    }

    fn starts(&self, range: Range<usize>) -> impl Iterator<Item = i64> {
        self.slices.get(range).unwrap_or_default().iter().map(|(_, slice)| *slice)
    }
}

/// Windows on their way out.
struct Combined {
    /// All keys, the window among them.
    keys: Vec<ArrayRef>,
    /// The keys as the table of whole windows knows them, where that has any rows.
    encoded: Vec<Box<[u8]>>,
    accumulating: Accumulating,
    count: usize,
}

/// Aggregates.
#[derive(Debug)]
pub(crate) struct SlidingCore {
    sliding: Sliding,
    slices: StateTable,
    /// Windows that were made under other rules.
    windows: StateTable,
    touched: Touched,
    late: HashMap<Box<[u8]>, Vec<(i64, i64)>>,
    /// `None` until the first batch, when all state is there.
    index: Option<Index>,
    /// The windows that the slices in the checkpoint were made for, if other ones.
    made_for: Option<Slide>,
    counts: Counts,
}

impl SlidingCore {
    pub(crate) fn new(sliding: Sliding, tables: &Tables) -> DfResult<Self> {
        Ok(SlidingCore {
            slices: tables.open(sliding.table())?,
            windows: tables.open(sliding.windows())?,
            touched: Self::untouched(&sliding)?,
            sliding,
            late: HashMap::new(),
            index: None,
            made_for: None,
            counts: Counts::default(),
        })
    }

    fn untouched(sliding: &Sliding) -> DfResult<Touched> {
        let accumulating = sliding.aggregation.functions.start()?;
        Ok(Touched { numbers: HashMap::new(), keys: Vec::new(), groups: HashMap::new(), slices: Vec::new(), accumulating })
    }

    /// Finds out what there is in state, and turns what was made under other rules into whole windows.
    fn index(&mut self, time: Watermarks) -> DfResult<&mut Index> {
        if self.index.is_none() {
            let closes = self.sliding.closes();
            let (keys, closed_before) = self.keys_in_state()?;
            let made_for = self.made_for.take().filter(|slide| *slide != self.sliding.slide);
            if !keys.is_empty() && (closed_before != closes || made_for.is_some()) {
                let slide = made_for.unwrap_or(self.sliding.slide);
                let closed = if closed_before { slide.last_closed(micros(time.late_ms)) } else { i64::MIN };
                self.make_windows(&keys, slide, closed)?;
                self.index = Some(Index { due: BTreeMap::new(), open: 0, closed: i64::MIN });
            } else {
                let closed = if closes { self.sliding.slide.last_closed(micros(time.late_ms)) } else { i64::MIN };
                let mut index = Index { due: BTreeMap::new(), open: 0, closed };
                for piece in keys.chunks(KEYS_AT_ONCE) {
                    let fetched = self.fetch(piece)?;
                    for (key, range) in piece.iter().zip(fetched.by_key(piece.len())) {
                        let open = self.runs(self.sliding.slide, fetched.starts(range)).between(closed, i64::MAX);
                        index.open += open.count();
                        if let Some(first) = open.first().filter(|_| closes) {
                            index.due.entry(first).or_default().push(key.clone());
                        }
                    }
                }
                self.index = Some(index);
            }
        }
        Ok(self.index.get_or_insert_with(|| Index { due: BTreeMap::new(), open: 0, closed: i64::MIN }))
    }

    /// The keys that have slices, and whether windows close in the mode that made those: where they do not, slices have no end.
    fn keys_in_state(&self) -> DfResult<(Vec<Arc<[u8]>>, bool)> {
        let (mut keys, mut closes) = (HashSet::<Arc<[u8]>>::new(), false);
        self.slices.scan(AT_ONCE, &mut |rows| {
            let encoded = self.slices.encode_keys(&rows.keys, rows.subs.len())?;
            for key in encoded.iter() {
                if !keys.contains(key) {
                    keys.insert(key.into());
                }
            }
            closes |= rows.values.first().is_some_and(|ends| ends.null_count() < ends.len());
            Ok(())
        })?;
        Ok((keys.into_iter().collect(), closes))
    }

    /// Puts whole windows in the place of slices.
    fn make_windows(&mut self, keys: &[Arc<[u8]>], slide: Slide, closed: i64) -> DfResult<()> {
        for piece in keys.chunks(KEYS_AT_ONCE) {
            let fetched = self.fetch(piece)?;
            let runs: Vec<Runs> = fetched
                .by_key(piece.len())
                .into_iter()
                .map(|range| self.runs(slide, fetched.starts(range)).between(closed, i64::MAX))
                .collect();
            if let Some(mut combined) = self.combine(slide, piece, &runs, &fetched)? {
                let states = combined.accumulating.states()?;
                let expiries = self.windows.expiries(&combined.keys, &[])?;
                let encoded = self.windows.encode_keys(&combined.keys, combined.count)?;
                let states = self.windows.encode_values(&states, combined.count)?;
                for (row, (key, state)) in encoded.iter().zip(states.iter()).enumerate() {
                    let expiry = expiries.as_ref().filter(|expiries| expiries.is_valid(row)).map(|expiries| expiries.value(row));
                    self.windows.put(key, 0, state, expiry)?;
                }
            }
            for (key, slice) in fetched.slices {
                if let Some(key) = piece.get(key) {
                    self.slices.remove(key, slice)?;
                }
            }
        }
        Ok(())
    }

    fn runs(&self, slide: Slide, slices: impl Iterator<Item = i64>) -> Runs {
        Runs::of(slices.map(|slice| slide.span(slice)))
    }

    fn fetch(&mut self, keys: &[Arc<[u8]>]) -> DfResult<Fetched> {
        let mut fetched = Fetched::default();
        self.slices.get_many(slices(keys), &mut |key, slice, value| {
            fetched.slices.push((key, slice));
            fetched.values.push(value.into());
        })?;
        Ok(fetched)
    }

    /// Windows of some keys from their slices; `None` where there are none.
    fn combine(&mut self, slide: Slide, keys: &[Arc<[u8]>], runs: &[Runs], fetched: &Fetched) -> DfResult<Option<Combined>> {
        let mut windows = Windows::default();
        for ((key, runs), range) in runs.iter().enumerate().zip(fetched.by_key(keys.len())) {
            let held = fetched.slices.get(range.clone()).unwrap_or_default();
            for number in runs.numbers() {
                let (begin, end) = (slide.begin(number), slide.end(number));
                let from = held.partition_point(|(_, slice)| *slice < begin);
                let to = held.partition_point(|(_, slice)| *slice < end);
                if from < to {
                    windows.keys.push(key);
                    windows.bounds.push((begin, end));
                    windows.slices.push(range.start + from..range.start + to);
                }
            }
        }
        let count = windows.bounds.len();
        if count == 0 {
            return Ok(None);
        }
        let columns = self.slices.decode_values(slices(&fetched.values))?;
        let functions = &self.sliding.aggregation.functions;
        let mut accumulating = merged(functions, columns.get(1..).unwrap_or_default(), fetched, &windows.slices)?;
        let of_key = |key: &usize| keys.get(*key).map_or(&[][..], AsRef::as_ref);
        let mut columns = self.slices.decode_keys(windows.keys.iter().map(of_key))?;
        let (begins, ends) = windows.bounds.into_iter().unzip();
        columns.insert(self.sliding.window.min(columns.len()), bounds(begins, ends, &self.sliding.time(), self.sliding.field())?);
        let mut encoded = Vec::new();
        if self.windows.len() > 0 {
            encoded = self.windows.encode_keys(&columns, count)?.iter().map(Box::from).collect();
            let (mut groups, mut known): (Vec<usize>, Vec<Box<[u8]>>) = (Vec::new(), Vec::new());
            self.windows.get_many(slices(&encoded), &mut |group, _, state| {
                groups.push(group);
                known.push(state.into());
            })?;
            if !groups.is_empty() {
                accumulating.merge(&self.windows.decode_values(slices(&known))?, &groups, count)?;
            }
        }
        Ok(Some(Combined { keys: columns, encoded, accumulating, count }))
    }

    /// Merges what the batch brought into state. Returns the windows that changed, by key.
    fn store(&mut self, closed: i64) -> DfResult<(Vec<Arc<[u8]>>, Vec<Runs>)> {
        let fresh = Self::untouched(&self.sliding)?;
        let mut touched = std::mem::replace(&mut self.touched, fresh);
        let groups = touched.slices.len();
        if groups == 0 {
            return Ok((Vec::new(), Vec::new()));
        }
        let (mut before, mut found, mut known): (Vec<Vec<i64>>, Vec<usize>, Vec<Box<[u8]>>) =
            (vec![Vec::new(); touched.keys.len()], Vec::new(), Vec::new());
        self.slices.get_many(slices(&touched.keys), &mut |key, slice, value| {
            if let Some(before) = before.get_mut(key) {
                before.push(slice);
            }
            if let Some(group) = touched.groups.get(&(key, slice)) {
                found.push(*group);
                known.push(value.into());
            }
        })?;
        if !found.is_empty() {
            let columns = self.slices.decode_values(slices(&known))?;
            touched.accumulating.merge(columns.get(1..).unwrap_or_default(), &found, groups)?;
        }
        let (slide, closes) = (self.sliding.slide, self.sliding.closes());
        let end = |slice: i64| slide.end(slide.span(slice).1);
        let ends: Int64Array = touched.slices.iter().map(|(_, slice)| closes.then(|| end(*slice))).collect();
        let mut values = vec![instants_of(ends, &self.sliding.time())];
        values.extend(touched.accumulating.states()?);
        let values = self.slices.encode_values(&values, groups)?;
        let mut after: Vec<Vec<i64>> = vec![Vec::new(); touched.keys.len()];
        for ((key, slice), value) in touched.slices.iter().zip(values.iter()) {
            if let (Some(encoded), Some(after)) = (touched.keys.get(*key), after.get_mut(*key)) {
                self.slices.put(encoded, *slice, value, closes.then(|| end(*slice)))?;
                after.push(*slice);
            }
        }
        let mut changed = Vec::with_capacity(touched.keys.len());
        for ((key, before), mut after) in touched.keys.iter().zip(before).zip(after) {
            after.sort_unstable();
            let runs = self.runs(slide, after.iter().copied());
            let known = self.runs(slide, before.iter().copied());
            let mut all = [before, after].concat();
            all.sort_unstable();
            let all = self.runs(slide, all.into_iter());
            if let Some(index) = &mut self.index {
                let open = |runs: &Runs| runs.between(index.closed, i64::MAX);
                let (known, all) = (open(&known), open(&all));
                index.open += all.count().saturating_sub(known.count());
                if let Some(first) = all.first().filter(|first| closes && known.first() != Some(*first)) {
                    index.due.entry(first).or_default().push(key.clone());
                }
            }
            changed.push(runs.between(closed, i64::MAX));
        }
        Ok((touched.keys, changed))
    }

    /// Closes every window that ends at or before `instant` (microseconds). Returns how many.
    fn close(&mut self, instant: i64, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<u64> {
        let slide = self.sliding.slide;
        let number = slide.last_closed(instant);
        let appends = self.sliding.aggregation.mode == OutputMode::Append;
        let (mut removed, mut told) = (0, HashSet::<Box<[u8]>>::new());
        let Some(index) = self.index.as_mut().filter(|index| index.closed < number) else {
            return self.close_windows(instant, &told, emit);
        };
        let closed = std::mem::replace(&mut index.closed, number);
        let mut keys = Vec::new();
        while let Some(entry) = index.due.first_entry().filter(|entry| *entry.key() <= number) {
            keys.extend(entry.remove());
        }
        keys.sort_unstable();
        keys.dedup();
        for piece in keys.chunks(KEYS_AT_ONCE) {
            let fetched = self.fetch(piece)?;
            let mut closing = Vec::with_capacity(piece.len());
            for (key, range) in piece.iter().zip(fetched.by_key(piece.len())) {
                let runs = self.runs(slide, fetched.starts(range));
                let gone = runs.between(closed, number);
                removed += gone.count();
                closing.push(gone);
                if let (Some(first), Some(index)) = (runs.between(number, i64::MAX).first(), &mut self.index) {
                    index.due.entry(first).or_default().push(key.clone());
                }
            }
            if appends && let Some(combined) = self.combine(slide, piece, &closing, &fetched)? {
                told.extend(combined.encoded.iter().cloned());
                self.emit(combined, emit)?;
            }
        }
        self.slices.expire(instant)?;
        if let Some(index) = &mut self.index {
            index.open = index.open.saturating_sub(removed);
        }
        Ok(removed + self.close_windows(instant, &told, emit)?)
    }

    /// Closes windows that were made under other rules, apart from those that were `told` together with slices.
    fn close_windows(&mut self, instant: i64, told: &HashSet<Box<[u8]>>, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<u64> {
        let mut gone = self.windows.expire(instant)?;
        gone.retain(|(key, ..)| !told.contains(key));
        if self.sliding.aggregation.mode == OutputMode::Append && !gone.is_empty() {
            let rows = self.windows.select(&gone)?;
            self.sliding.aggregation.emit(rows.keys, &rows.values, gone.len(), emit)?;
        }
        Ok(gone.len() as u64)
    }

    /// Gives every window there is.
    fn emit_all(&mut self, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let (keys, _) = self.keys_in_state()?;
        let mut told = HashSet::<Box<[u8]>>::new();
        for piece in keys.chunks(KEYS_AT_ONCE) {
            let fetched = self.fetch(piece)?;
            let runs: Vec<Runs> =
                fetched.by_key(piece.len()).into_iter().map(|range| self.runs(self.sliding.slide, fetched.starts(range))).collect();
            if let Some(combined) = self.combine(self.sliding.slide, piece, &runs, &fetched)? {
                told.extend(combined.encoded.iter().cloned());
                self.emit(combined, emit)?;
            }
        }
        if self.windows.len() == 0 {
            return Ok(());
        }
        self.windows.scan(self.sliding.aggregation.batch_size.max(1), &mut |rows| {
            let encoded = self.windows.encode_keys(&rows.keys, rows.subs.len())?;
            let others: UInt32Array = (0_u32..).zip(encoded.iter()).filter(|(_, key)| !told.contains(*key)).map(|(row, _)| row).collect();
            let keep = |columns: Vec<ArrayRef>| columns.iter().map(|column| take(column, &others, None)).collect::<Result<Vec<_>, _>>();
            self.sliding.aggregation.emit(keep(rows.keys)?, &keep(rows.values)?, others.len(), emit)
        })
    }

    fn emit(&self, mut combined: Combined, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let results = combined.accumulating.evaluate()?;
        self.sliding.aggregation.emit_results(combined.keys, results, combined.count, emit)
    }
}

/// Windows to be combined, and the slices that they consist of.
#[derive(Default)]
struct Windows {
    /// The position of the key.
    keys: Vec<usize>,
    /// Begin and end.
    bounds: Vec<(i64, i64)>,
    /// Where the slices are.
    slices: Vec<Range<usize>>,
}

/// The partial results of ranges of slices.
///
/// Few ranges are merged slice by slice. Of many that overlap, stretches of 2, 4, 8 … slices are merged first, from every slice on, and each range
/// is put together from one stretch for each bit of its length.
fn merged(functions: &Functions, states: &[ArrayRef], fetched: &Fetched, ranges: &[Range<usize>]) -> DfResult<Accumulating> {
    let all = fetched.slices.len();
    let longest = ranges.iter().map(Range::len).max().unwrap_or(0);
    let doublings = longest.checked_ilog2().unwrap_or(0) as usize;
    let singly: usize = ranges.iter().map(Range::len).sum();
    let mut result = functions.start()?;
    if singly <= 2 * doublings * all + ranges.len() * doublings {
        let (mut parts, mut groups) = (Vec::with_capacity(singly), Vec::with_capacity(singly));
        for (group, range) in ranges.iter().enumerate() {
            parts.extend(range.clone());
            groups.extend(std::iter::repeat_n(group, range.len()));
        }
        result.merge(&taken(states, &parts)?, &groups, ranges.len())?;
        return Ok(result);
    }
    let each: Vec<usize> = (0..all).collect();
    let mut rest: Vec<usize> = ranges.iter().map(|range| range.start).collect();
    let mut stretches = states.to_vec();
    for doubling in 0..=doublings {
        let length = 1_usize << doubling;
        let (mut parts, mut groups) = (Vec::new(), Vec::new());
        for ((group, range), from) in ranges.iter().enumerate().zip(&mut rest) {
            if range.len() & length != 0 {
                parts.push(*from);
                groups.push(group);
                *from += length;
            }
        }
        if !parts.is_empty() {
            result.merge(&taken(&stretches, &parts)?, &groups, ranges.len())?;
        }
        if doubling < doublings {
            // A stretch that would go on with another key is never asked for.
            let key = |slice: usize| fetched.slices.get(slice).map(|(key, _)| *key);
            let longer: Vec<usize> = each.iter().copied().filter(|from| key(from + length) == key(*from)).collect();
            let seconds: Vec<usize> = longer.iter().map(|from| from + length).collect();
            let mut next = functions.start()?;
            next.merge(&stretches, &each, all)?;
            next.merge(&taken(&stretches, &seconds)?, &longer, all)?;
            stretches = next.states()?;
        }
    }
    Ok(result)
}

/// Some rows of columns.
fn taken(columns: &[ArrayRef], rows: &[usize]) -> DfResult<Vec<ArrayRef>> {
    let rows: UInt64Array = rows.iter().map(|row| Some(*row as u64)).collect();
    columns.iter().map(|column| take(column, &rows, None)).collect::<Result<Vec<_>, _>>().map_err(DataFusionError::from)
}

impl Core for SlidingCore {
    fn push(&mut self, _: usize, rows: &RecordBatch, time: Watermarks, _: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let width = self.sliding.aggregation.keys.len();
        let mut keys = rows.columns().iter().take(width).map(normalize).collect::<DfResult<Vec<_>>>()?;
        if self.sliding.window >= keys.len() {
            return Err(DataFusionError::Internal("rows of a sliding window have no slice".to_owned()));
        }
        let begins = instants(&keys.remove(self.sliding.window))?;
        let mut states: Vec<ArrayRef> = rows.columns().iter().skip(width).cloned().collect();
        let late = if self.sliding.closes() { self.sliding.slide.last_closed(micros(time.late_ms)) } else { i64::MIN };
        let encoded = self.slices.encode_keys(&keys, rows.num_rows())?;
        let (mut kept, mut groups): (Vec<u32>, Vec<usize>) = (Vec::new(), Vec::with_capacity(rows.num_rows()));
        for ((row, key), begin) in (0_u32..).zip(encoded.iter()).zip(begins.values()) {
            let (first, last) = self.sliding.slide.span(*begin);
            if first <= late {
                let span = (first, last.min(late));
                match self.late.get_mut(key) {
                    Some(spans) => spans.push(span),
                    None => drop(self.late.insert(key.into(), vec![span])),
                }
                if last <= late {
                    continue;
                }
            }
            kept.push(row);
            groups.push(self.touched.group(key, *begin));
        }
        if kept.len() < rows.num_rows() {
            let kept = UInt32Array::from(kept);
            states = states.iter().map(|column| take(column, &kept, None)).collect::<Result<Vec<_>, _>>()?;
        }
        if groups.is_empty() {
            return Ok(());
        }
        self.touched.accumulating.merge(&states, &groups, self.touched.slices.len())
    }

    fn finish(&mut self, time: Watermarks, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        self.sliding.aggregation.refuse_endless()?;
        self.index(time)?;
        let closes = self.sliding.closes();
        let late = if closes { micros(time.late_ms) } else { i64::MIN };
        let mut removed = 0;
        if closes {
            // What late rows can no longer reach must be gone before others of the same slice come in.
            removed += self.close(late, emit)?;
        }
        let last_late = if closes { self.sliding.slide.last_closed(late) } else { i64::MIN };
        let (keys, changed) = self.store(last_late)?;
        let updated = changed.iter().map(Runs::count).sum();
        match self.sliding.aggregation.mode {
            OutputMode::Update => {
                for (keys, changed) in keys.chunks(KEYS_AT_ONCE).zip(changed.chunks(KEYS_AT_ONCE)) {
                    let fetched = self.fetch(keys)?;
                    if let Some(combined) = self.combine(self.sliding.slide, keys, changed, &fetched)? {
                        self.emit(combined, emit)?;
                    }
                }
            }
            OutputMode::Complete => self.emit_all(emit)?,
            OutputMode::Append => {}
        }
        if closes {
            removed += self.close(micros(time.evict_ms), emit)?;
        }
        let late = std::mem::take(&mut self.late).into_values().map(|mut spans| {
            spans.sort_unstable();
            Runs::of(spans).count()
        });
        self.counts = Counts { updated, removed, late: late.sum() };
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn tables(&mut self) -> Vec<&mut StateTable> {
        vec![&mut self.slices, &mut self.windows]
    }

    fn rows(&mut self) -> u64 {
        self.index.as_ref().map_or(0, |index| index.open) + self.windows.len()
    }

    fn adopt(&mut self, variant: &str) {
        self.made_for = slide_of(variant);
    }

    fn wants_time_to_pass(&self) -> bool {
        self.sliding.aggregation.mode != OutputMode::Complete
    }
}

impl Touched {
    /// The group of a key and a slice.
    fn group(&mut self, key: &[u8], slice: i64) -> usize {
        let number = match self.numbers.get(key) {
            Some(number) => *number,
            None => {
                let (number, key): (usize, Arc<[u8]>) = (self.keys.len(), key.into());
                self.numbers.insert(key.clone(), number);
                self.keys.push(key);
                number
            }
        };
        *self.groups.entry((number, slice)).or_insert_with(|| {
            self.slices.push((number, slice));
            self.slices.len() - 1
        })
    }
}
