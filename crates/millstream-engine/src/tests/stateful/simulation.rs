//! Spark's rules, row by row and without any cleverness: what queries over these files must give.

use std::collections::{BTreeMap, BTreeSet};

/// A row: key, second, value.
pub(super) type Row = (usize, i64, i64);

pub(super) const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
pub(super) const WIDTH: i64 = 10;
pub(super) const GAP: i64 = 5;
/// Left and right times of a join differ by at most so much.
pub(super) const RANGE: i64 = 20;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    SumsAppend,
    SumsUpdate,
    SumsComplete,
    ByKey,
    Distinct,
    DistinctByTime,
    DistinctWithin,
    Sessions,
    Chain,
    Inner,
    LeftOuter,
}

impl Kind {
    pub(super) const ALL: [Kind; 11] = [
        Kind::SumsAppend,
        Kind::SumsUpdate,
        Kind::SumsComplete,
        Kind::ByKey,
        Kind::Distinct,
        Kind::DistinctByTime,
        Kind::DistinctWithin,
        Kind::Sessions,
        Kind::Chain,
        Kind::Inner,
        Kind::LeftOuter,
    ];

    pub(super) fn joins(self) -> bool {
        matches!(self, Kind::Inner | Kind::LeftOuter)
    }
}

/// The two watermarks of a batch, seconds.
#[derive(Clone, Copy, Default)]
struct Time {
    late: i64,
    evict: i64,
}

/// State of every kind of query.
#[derive(Default)]
struct State {
    open: BTreeMap<(i64, usize), i64>,
    outer: BTreeMap<i64, i64>,
    totals: BTreeMap<usize, i64>,
    seen: BTreeSet<(usize, i64)>,
    until: BTreeMap<usize, i64>,
    /// Key, start, end, sum.
    sessions: Vec<(usize, i64, i64, i64)>,
    /// Row, and whether it has matched.
    left: Vec<(Row, bool)>,
    right: Vec<Row>,
}

/// The rows of the result, sorted. All files are there from the start, and each is a batch of its own; those of a join have two sides. `closing`
/// says whether there is a batch without data at the end.
pub(super) fn results(kind: Kind, left: &[Vec<Row>], right: &[Vec<Row>], delay: i64, closing: bool) -> Vec<String> {
    let mut state = State::default();
    let mut time = Time::default();
    let (mut nodes, mut out) = ([None::<i64>; 2], Vec::new());
    let batches = if kind.joins() { left.len().max(right.len()) } else { left.len() };
    let none = Vec::new();
    for batch in 0..batches {
        let rows = [left.get(batch).unwrap_or(&none), right.get(batch).unwrap_or(&none)];
        state.batch(kind, rows, time, delay, &mut out);
        let inputs = if kind.joins() { 2 } else { 1 };
        for (node, rows) in nodes.iter_mut().zip(rows).take(inputs) {
            if let Some(largest) = rows.iter().map(|(_, second, _)| second - delay).max() {
                *node = Some(node.unwrap_or(0).max(largest).max(0));
            }
        }
        let next = nodes.iter().take(inputs).map(|node| node.unwrap_or(0)).min().unwrap_or(0);
        time = Time { late: time.evict, evict: time.evict.max(next) };
    }
    let passes = !matches!(kind, Kind::SumsComplete | Kind::ByKey);
    if closing && passes && time.evict > time.late {
        state.batch(kind, [&none, &none], time, delay, &mut out);
    }
    out.sort();
    out
}

impl State {
    fn batch(&mut self, kind: Kind, [rows, right]: [&Vec<Row>; 2], time: Time, delay: i64, out: &mut Vec<String>) {
        match kind {
            Kind::SumsAppend | Kind::SumsUpdate | Kind::SumsComplete => self.sums(kind, rows, time, out),
            Kind::ByKey => {
                for (key, _, value) in rows {
                    *self.totals.entry(*key).or_default() += value;
                }
                let touched: BTreeSet<usize> = rows.iter().map(|(key, ..)| *key).collect();
                out.extend(touched.iter().map(|key| format!("{}|{}", KEYS[*key], self.totals[key])));
            }
            Kind::Distinct | Kind::DistinctByTime => {
                for (key, second, value) in rows.iter().filter(|(_, second, _)| *second > time.late) {
                    let of_time = if kind == Kind::Distinct { 0 } else { *second };
                    if self.seen.insert((*key, of_time)) {
                        out.push(format!("{}|{second}|{value}", KEYS[*key]));
                    }
                }
                self.seen.retain(|(_, second)| kind == Kind::Distinct || *second > time.evict);
            }
            Kind::DistinctWithin => {
                for (key, second, value) in rows.iter().filter(|(_, second, _)| *second > time.late) {
                    if !self.until.contains_key(key) {
                        self.until.insert(*key, second + delay);
                        out.push(format!("{}|{second}|{value}", KEYS[*key]));
                    }
                }
                self.until.retain(|_, until| *until > time.evict);
            }
            Kind::Sessions => self.sessions(rows, time, out),
            Kind::Chain => self.chain(rows, time, out),
            Kind::Inner | Kind::LeftOuter => self.join(kind, rows, right, time, out),
        }
    }

    fn sums(&mut self, kind: Kind, rows: &[Row], time: Time, out: &mut Vec<String>) {
        let complete = kind == Kind::SumsComplete;
        let mut touched = BTreeSet::new();
        for (key, second, value) in rows {
            let start = second.div_euclid(WIDTH) * WIDTH;
            if complete || start + WIDTH > time.late {
                *self.open.entry((start, *key)).or_default() += value;
                touched.insert((start, *key));
            }
        }
        let line = |(start, key): &(i64, usize), sum: i64| format!("{start}|{}|{}|{sum}", start + WIDTH, KEYS[*key]);
        if kind == Kind::SumsUpdate {
            out.extend(touched.iter().map(|group| line(group, self.open[group])));
        }
        if complete {
            out.extend(self.open.iter().map(|(group, sum)| line(group, *sum)));
            return;
        }
        self.open.retain(|group, sum| {
            let stays = group.0 + WIDTH > time.evict;
            if !stays && kind == Kind::SumsAppend {
                out.push(line(group, *sum));
            }
            stays
        });
    }

    fn sessions(&mut self, rows: &[Row], time: Time, out: &mut Vec<String>) {
        for (key, second, value) in rows.iter().filter(|(_, second, _)| second + GAP > time.late) {
            let mut session = (*key, *second, second + GAP, *value);
            self.sessions.retain(|(of, start, end, sum)| {
                let touches = of == key && *start <= session.2 && session.1 <= *end;
                if touches {
                    session = (*key, session.1.min(*start), session.2.max(*end), session.3 + sum);
                }
                !touches
            });
            self.sessions.push(session);
        }
        self.sessions.retain(|(key, start, end, sum)| {
            let stays = *end > time.evict;
            if !stays {
                out.push(format!("{}|{start}|{end}|{sum}", KEYS[*key]));
            }
            stays
        });
    }

    /// Sums by two windows, and sums of them by a window.
    fn chain(&mut self, rows: &[Row], time: Time, out: &mut Vec<String>) {
        let mut closed = Vec::new();
        let inner = WIDTH / 2;
        for (_, second, value) in rows {
            let start = second.div_euclid(inner) * inner;
            if start + inner > time.late {
                *self.open.entry((start, 0)).or_default() += value;
            }
        }
        self.open.retain(|(start, _), sum| {
            let stays = start + inner > time.evict;
            if !stays {
                closed.push((*start, *sum));
            }
            stays
        });
        for (second, value) in closed {
            let start = second.div_euclid(WIDTH) * WIDTH;
            if start + WIDTH > time.late {
                *self.outer.entry(start).or_default() += value;
            }
        }
        self.outer.retain(|start, sum| {
            let stays = start + WIDTH > time.evict;
            if !stays {
                out.push(format!("{start}|{}|{sum}", start + WIDTH));
            }
            stays
        });
    }

    /// `left time <= right time <= left time + RANGE`, both sides with a watermark.
    fn join(&mut self, kind: Kind, left: &[Row], right: &[Row], time: Time, out: &mut Vec<String>) {
        let matches = |left: &Row, right: &Row| left.0 == right.0 && left.1 <= right.1 && right.1 <= left.1 + RANGE;
        let line = |left: &Row, right: &Row| format!("{}|{}|{}|{}|{}|{}", KEYS[left.0], left.1, left.2, KEYS[right.0], right.1, right.2);
        // Nothing that is not late can match these any more.
        let left_gone = |row: &Row| row.1 + RANGE < time.evict;
        let right_gone = |row: &Row| row.1 < time.evict;
        let alone = |row: &Row| format!("{}|{}|{}|null|null|null", KEYS[row.0], row.1, row.2);
        for row in left.iter().filter(|row| row.1 > time.late) {
            let partners: Vec<String> = self.right.iter().filter(|right| matches(row, right)).map(|right| line(row, right)).collect();
            let matched = !partners.is_empty();
            out.extend(partners);
            // A row that is on time may be gone at the end of its own batch: until then it can match, and it leaves unmatched.
            self.left.push((*row, matched));
        }
        for row in right.iter().filter(|row| row.1 > time.late) {
            for (left, matched) in self.left.iter_mut().filter(|(left, _)| matches(left, row)) {
                *matched = true;
                out.push(line(left, row));
            }
            if !right_gone(row) {
                self.right.push(*row);
            }
        }
        self.left.retain(|(row, matched)| {
            let gone = left_gone(row);
            if gone && kind == Kind::LeftOuter && !matched {
                out.push(alone(row));
            }
            !gone
        });
        self.right.retain(|row| !right_gone(row));
    }
}
