//! The protocol of epochs and logs as a small model, explored whole: two runs, three batches, any stall, a few crashes.
//!
//! A run is a program counter and what it remembers; every step is one request to the store, and between any two steps the other run may make
//! any number of its own, which is what a stall is. The model is also explored with one rule broken at a time: each broken rule must be found
//! out, otherwise the model proves nothing. The real code goes through fewer schedules in `interleavings.rs`.

use std::collections::{HashSet, VecDeque};

const BATCHES: usize = 3;
const CRASHES: u8 = 2;

/// A rule that a writer breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// Nobody looks whether there is a higher epoch.
    NoCheck,
    /// It is looked for before a write and not after.
    NoCheckAfter,
    /// The logs are read before the epoch is claimed.
    ReadThenClaim,
    /// Two runs may get the same epoch.
    SharedEpoch,
    /// Records replace what is there.
    Overwrite,
    /// A plan that is in the log already is taken for one's own.
    IgnoreConflict,
    /// The commit record comes before the sink.
    CommitThenSink,
    /// Clean-up also removes the newest batch but one.
    RemoveTooMuch,
}

/// The input of a batch: after the first, up to and including the second.
type Range = (u8, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Start,
    Claim,
    ReadCommits,
    ReadPlans,
    CheckPlan,
    PutPlan,
    CheckPlanned,
    Send,
    CheckCommit,
    PutCommit,
    CheckCommitted,
    CheckPurge,
    Purge,
    /// Finished, or fenced for good.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    step: Step,
    epoch: u8,
    batch: usize,
    plan: Range,
    committed: Option<usize>,
}

const UNBORN: Run = Run { step: Step::Start, epoch: 0, batch: 0, plan: (0, 0), committed: None };

/// The store and the sink, and what was ever seen of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    runs: [Run; 2],
    crashes: u8,
    epoch: u8,
    plans: [Option<Range>; BATCHES],
    commits: [Option<u8>; BATCHES],
    /// What an idempotent sink holds.
    sink: [Option<Range>; BATCHES],
    /// What was ever sent for a batch, if always the same.
    sent: [Option<Range>; BATCHES],
    /// The end of a batch that some run was told is committed.
    accepted: [Option<u8>; BATCHES],
}

impl World {
    fn new() -> World {
        World {
            runs: [UNBORN; 2],
            crashes: 0,
            epoch: 0,
            plans: [None; BATCHES],
            commits: [None; BATCHES],
            sink: [None; BATCHES],
            sent: [None; BATCHES],
            accepted: [None; BATCHES],
        }
    }

    /// One step of a run; if it plans a batch, `found` is how much input it finds. An error is a violation.
    fn step(&mut self, who: usize, found: u8, broken: Broken) -> Result<(), String> {
        let mut run = self.runs[who];
        let fenced = self.epoch > run.epoch && broken != Broken::NoCheck;
        match run.step {
            Step::Start => run.step = if broken == Broken::ReadThenClaim { Step::ReadCommits } else { Step::Claim },
            Step::Claim => {
                if broken != Broken::SharedEpoch || self.epoch == 0 {
                    self.epoch += 1;
                }
                run.epoch = self.epoch;
                run.step = Step::ReadCommits;
                if broken == Broken::ReadThenClaim {
                    go_on(&mut run, found, broken);
                }
            }
            Step::ReadCommits => {
                run.committed = self.commits.iter().rposition(Option::is_some);
                run.step = Step::ReadPlans;
            }
            Step::ReadPlans => {
                if broken == Broken::ReadThenClaim {
                    // What was read is remembered until the epoch is claimed.
                    run.batch = self.plans.iter().rposition(Option::is_some).map_or(0, |planned| planned + 1);
                    run.plan = run.batch.checked_sub(1).and_then(|planned| self.plans[planned]).unwrap_or_default();
                    run.step = Step::Claim;
                } else {
                    let newest = self.plans.iter().rposition(Option::is_some);
                    if newest.is_some_and(|newest| newest > 0 && self.plans[newest - 1].is_none()) {
                        return Err(format!("recovery finds a hole before plan {newest:?}"));
                    }
                    run.batch = newest.map_or(0, |newest| newest + 1);
                    run.plan = newest.and_then(|newest| self.plans[newest]).unwrap_or_default();
                    go_on(&mut run, found, broken);
                }
            }
            Step::CheckPlan => run.step = if fenced { Step::Stopped } else { Step::PutPlan },
            Step::PutPlan => {
                let slot = &mut self.plans[run.batch];
                if slot.is_none() || broken == Broken::Overwrite {
                    *slot = Some(run.plan);
                }
                let mine = *slot == Some(run.plan) || broken == Broken::IgnoreConflict;
                // With another plan in the slot a run starts again, and finds that plan.
                run.step = if mine { Step::CheckPlanned } else { Step::Stopped };
                if !mine && !fenced {
                    run = UNBORN;
                }
            }
            Step::CheckPlanned => {
                let next = if broken == Broken::CommitThenSink { Step::CheckCommit } else { Step::Send };
                run.step = if fenced && broken != Broken::NoCheckAfter { Step::Stopped } else { next };
            }
            Step::Send => {
                if self.sent[run.batch].is_some_and(|sent| sent != run.plan) {
                    return Err(format!("batch {} is run with {:?} and with {:?}", run.batch, self.sent[run.batch], run.plan));
                }
                self.sent[run.batch] = Some(run.plan);
                if self.sink[run.batch..].iter().all(Option::is_none) {
                    self.sink[run.batch] = Some(run.plan);
                }
                run.step = if broken == Broken::CommitThenSink { Step::CheckPurge } else { Step::CheckCommit };
            }
            Step::CheckCommit => run.step = if fenced { Step::Stopped } else { Step::PutCommit },
            Step::PutCommit => {
                let slot = &mut self.commits[run.batch];
                if slot.is_none() || broken == Broken::Overwrite {
                    *slot = Some(run.plan.1);
                }
                run.step = if *slot == Some(run.plan.1) { Step::CheckCommitted } else { Step::Stopped };
            }
            Step::CheckCommitted => {
                if fenced && broken != Broken::NoCheckAfter {
                    run.step = Step::Stopped;
                } else {
                    if self.accepted[run.batch].is_some_and(|end| end != run.plan.1) {
                        return Err(format!("two commits of batch {} are accepted", run.batch));
                    }
                    self.accepted[run.batch] = Some(run.plan.1);
                    run.step = if broken == Broken::CommitThenSink { Step::Send } else { Step::CheckPurge };
                }
            }
            Step::CheckPurge => run.step = if fenced { Step::Stopped } else { Step::Purge },
            Step::Purge => {
                let kept = if broken == Broken::RemoveTooMuch { 0 } else { 1 };
                let end = run.batch.saturating_sub(kept);
                self.plans[..end].fill(None);
                self.commits[..end].fill(None);
                run.batch += 1;
                run.committed = Some(run.batch - 1);
                go_on(&mut run, found, broken);
            }
            Step::Stopped => {}
        }
        self.runs[who] = run;
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        let mut end = 0;
        for (batch, held) in self.sink.iter().enumerate() {
            match held {
                Some(range) if range.0 != end => return Err(format!("the sink has {range:?} as batch {batch} after {end}")),
                Some(range) => end = range.1,
                None if self.sink[batch..].iter().any(Option::is_some) => return Err(format!("the sink lacks batch {batch}")),
                None => {}
            }
            if self.accepted[batch].is_some() && (held.is_none() || held.map(|range| range.1) != self.accepted[batch]) {
                return Err(format!("batch {batch} is committed with {:?}, the sink has {held:?}", self.accepted[batch]));
            }
        }
        Ok(())
    }
}

/// From the newest plan known, `run.plan` of batch `run.batch - 1`: that batch again, or the next.
fn go_on(run: &mut Run, found: u8, broken: Broken) {
    match run.batch.checked_sub(1) {
        Some(planned) if run.committed != Some(planned) => {
            run.batch = planned;
            run.step = if broken == Broken::CommitThenSink { Step::CheckCommit } else { Step::Send };
        }
        _ if run.batch == BATCHES => run.step = Step::Stopped,
        _ => {
            run.plan = (run.plan.1, run.plan.1 + found);
            run.step = Step::CheckPlan;
        }
    }
}

/// Every world that can be reached, or the first violation on a shortest way.
fn explore(broken: Broken) -> Result<(usize, bool), String> {
    let mut seen = HashSet::from([World::new()]);
    let mut open = VecDeque::from([World::new()]);
    let mut complete = false;
    while let Some(world) = open.pop_front() {
        complete |= world.accepted.iter().all(Option::is_some);
        for who in 0..world.runs.len() {
            for found in [1, 2] {
                let mut next = world.clone();
                next.step(who, found, broken)?;
                if seen.insert(next.clone()) {
                    open.push_back(next);
                }
            }
            // A crash, or a restart of a run that was fenced: all is forgotten.
            if world.crashes < CRASHES && world.runs[who].step != Step::Start {
                let mut next = world.clone();
                next.runs[who] = UNBORN;
                next.crashes += 1;
                if seen.insert(next.clone()) {
                    open.push_back(next);
                }
            }
        }
    }
    Ok((seen.len(), complete))
}

#[test]
fn no_schedule_loses_or_doubles_a_batch() {
    let (worlds, complete) = explore(Broken::Nothing).unwrap();
    println!("{worlds} worlds");
    assert!(complete, "no schedule commits every batch");
    assert!(worlds > 10_000, "{worlds} worlds are too few for two runs, three batches and {CRASHES} crashes");
}

#[test]
fn every_broken_rule_is_found_out() {
    for broken in [
        Broken::NoCheck,
        Broken::NoCheckAfter,
        Broken::ReadThenClaim,
        Broken::SharedEpoch,
        Broken::Overwrite,
        Broken::IgnoreConflict,
        Broken::CommitThenSink,
        Broken::RemoveTooMuch,
    ] {
        let violation = explore(broken).expect_err(&format!("{broken:?} is not noticed"));
        println!("{broken:?}: {violation}");
    }
}
