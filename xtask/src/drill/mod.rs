//! `cargo xtask drill`: kills the real binary at every named crash point and at random times while files flow into a Delta table, and proves
//! with ids that no row is lost or doubled, neither in the table nor in its history.

mod feed;
mod scene;

use std::time::{Duration, Instant};

use crate::process::{Outcome, fail};
use feed::Feed;
pub use scene::build;
use scene::{Ended, Scene};

/// How a drill runs.
struct Plan {
    kills: u32,
    files: u32,
    seed: u64,
}

/// A small generator of pseudo-random numbers, so that a seed names a run.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}

/// Runs the drill that `args` describe: `--kills N` (default 20), `--files N` (default 300), `--seed N`.
pub fn drill(args: &[String]) -> Outcome {
    let plan = parse(args)?;
    let binary = scene::build()?;
    let started = Instant::now();
    kills(&plan, &binary)?;
    zombie(&plan, &binary)?;
    second_process(&plan, &binary)?;
    eprintln!("drill: all held ({} kills, seed {}, {:.0} s)", plan.kills, plan.seed, started.elapsed().as_secs_f64());
    Ok(())
}

fn parse(args: &[String]) -> Outcome<Plan> {
    let mut plan = Plan { kills: 20, files: 300, seed: 20_130_208 };
    for pair in args.chunks(2) {
        let [name, value] = pair else { return fail("drill takes pairs: --kills N --files N --seed N") };
        let number: u64 = value.parse().map_err(|_| format!("{name} takes a number, not '{value}'"))?;
        match name.as_str() {
            "--kills" => plan.kills = u32::try_from(number).unwrap_or(u32::MAX),
            "--files" => plan.files = u32::try_from(number).unwrap_or(u32::MAX),
            "--seed" => plan.seed = number,
            other => return fail(format!("drill has no option '{other}'")),
        }
    }
    Ok(plan)
}

/// Kills at every named point in turn and, between them, at random times.
fn kills(plan: &Plan, binary: &std::path::Path) -> Outcome {
    let mut random = Random(plan.seed);
    let scene = Scene::new("kills", binary)?;
    let points = scene::crash_points()?;
    let feed = Feed::start(&scene.input(), plan.files, plan.kills, random.below(u64::MAX))?;
    let (mut at_point, mut at_random, mut unreached) = (0, 0, Vec::new());
    for kill in 0..plan.kills {
        // Two of three kills are at a named point, at its first to fourth hit; the rest at any time.
        let named = kill % 3 != 2;
        if named {
            let point = &points[(kill as usize * 2 / 3) % points.len()];
            // Some places are reached once per run at most.
            let once = ["metadata.", "epoch.", "quarantine.", "purge."].iter().any(|place| point.starts_with(place));
            let hit = if once { 1 } else { 1 + random.below(3) };
            match scene.run_until_dead(Some(&format!("{point}:{hit}")), Duration::from_millis(2_500))? {
                Ended::Killed => at_point += 1,
                Ended::Timeout => unreached.push(format!("{point}:{hit}")),
                Ended::Failed(code, log) => return fail(format!("the run ended with {code} instead of dying at {point}:{hit}\n{log}")),
            }
        } else {
            let after = Duration::from_millis(30 + random.below(900));
            match scene.run_until_dead(None, after)? {
                Ended::Failed(code, log) => return fail(format!("the run ended with {code} before it was killed\n{log}")),
                Ended::Killed | Ended::Timeout => at_random += 1,
            }
        }
        feed.advance();
        eprint!("\rdrill: {}/{} kills", kill + 1, plan.kills);
    }
    eprintln!();
    let written = feed.finish()?;
    scene.run_once()?;
    let verdict = scene.verify(written)?;
    eprintln!(
        "drill: {at_point} kills at named points, {at_random} at random times, {} points not reached in time (killed there all the same): {verdict}",
        unreached.len()
    );
    if !unreached.is_empty() {
        eprintln!("drill: not reached: {}", unreached.join(", "));
    }
    Ok(())
}

/// A run that was stopped, replaced and continued changes nothing any more.
fn zombie(plan: &Plan, binary: &std::path::Path) -> Outcome {
    let mut random = Random(plan.seed ^ 0x5eed);
    let rounds = (plan.kills / 10).clamp(1, 20);
    for round in 0..rounds {
        let scene = Scene::new(&format!("zombie-{round}"), binary)?;
        let feed = Feed::start(&scene.input(), 40, 1, random.below(u64::MAX))?;
        let mut old = scene.start(&[])?;
        std::thread::sleep(Duration::from_millis(150 + random.below(900)));
        scene::signal(&old, "STOP")?;
        let new = scene.start(&["--takeover"])?;
        let written = feed.finish()?;
        std::thread::sleep(Duration::from_millis(1_500));
        scene::signal(&old, "CONT")?;
        match scene::wait(&mut old, Duration::from_secs(20))? {
            Some(17) => {}
            Some(code) => return fail(format!("the zombie ended with {code}, not 17 (fenced)\n{}", scene.log())),
            // With nothing left to do the zombie never writes, and so never learns that it is fenced.
            None => scene::signal(&old, "KILL")?,
        }
        scene.interrupt(new)?;
        scene.run_once()?;
        scene.verify(written)?;
    }
    eprintln!("drill: {rounds} stopped-then-continued zombies changed nothing");
    Ok(())
}

/// A second process on a live checkpoint is refused at once.
fn second_process(_: &Plan, binary: &std::path::Path) -> Outcome {
    let scene = Scene::new("second", binary)?;
    let feed = Feed::start(&scene.input(), 10, 1, 7)?;
    let first = scene.start(&[])?;
    std::thread::sleep(Duration::from_secs(1));
    let mut second = scene.start(&[])?;
    let code = scene::wait(&mut second, Duration::from_secs(20))?;
    let log = scene.log();
    if code != Some(17) || !log.contains("CONCURRENT_QUERY") {
        return fail(format!("a second process ended with {code:?} instead of 17 with CONCURRENT_QUERY\n{log}"));
    }
    let written = feed.finish()?;
    scene.interrupt(first)?;
    scene.run_once()?;
    scene.verify(written)?;
    eprintln!("drill: a second process is refused with CONCURRENT_QUERY");
    Ok(())
}
