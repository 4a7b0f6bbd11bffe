//! One search of a measured space: what a session would have tried, and what it would have found.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::f64::consts::TAU;
use std::mem;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bluefin_common::candidate::Candidate;
use bluefin_common::failure::FailureKind;
use bluefin_common::value::Value;
use bluefin_kernel_spec::search::{
    Ask, GROUPS, Other, PriorRows, Priors, Proposal, Search, Space, Time, Tried, distance, in_contest,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::space::{Measured, Point};

/// So that what a strategy draws from its seed is not what disturbs it.
const DISTURBANCES: u64 = 0x9e37_79b9_7f4a_7c15;

/// How a search is tried.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Candidates of a round; `None`: as many as the strategy asks for.
    pub batch: Option<usize>,
    /// Rounds that are under way at a time, as in a [session](bluefin_common::ahead).
    pub ahead: u32,
    /// Candidates that it may try.
    pub budget: usize,
    /// Deviation of the times that it is told, as a share of them.
    pub noise: f64,
    /// Share of the points that fail, beside those that do so anyway.
    pub failures: f64,
    /// Winners of each other problem that a search begins with.
    pub transfer: usize,
    /// Problems of a solver are searched one after the other, so that one is told of what those before came to, and not side by side.
    pub in_turn: bool,
    /// Rounds are as those of a solver that competes with others.
    pub compete: bool,
    /// A point has one code object for all problems of a solver, as where their sizes are known at launch alone, and strategies are told which
    /// have one.
    pub shared: bool,
    pub options: &'a BTreeMap<String, String>,
}

/// What came of a search.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The time of the best point of the space.
    pub optimum_ms: f64,
    /// After each evaluation, the true time of the point that looked best by then.
    pub best_ms: Vec<Option<f64>>,
    /// Evaluations of points that no other problem of the solver had tried before.
    pub compiled: usize,
    pub proposals: u32,
    pub proposing: Duration,
    /// What it expected to gain, in order.
    pub estimates: Vec<Estimate>,
}

/// What a search expects to gain.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// So many evaluations were known.
    pub evaluations: usize,
    /// As [`Proposal::left`](bluefin_kernel_spec::search::Proposal::left).
    pub left: f64,
}

impl Run {
    /// The optimum over what was found by so many evaluations: 1 is the best, 0 is nothing. A search that ended before is scored by what
    /// it had.
    pub fn score(&self, evaluations: usize) -> f64 {
        let best_ms = self.best_ms.iter().take(evaluations).next_back().copied().flatten();
        best_ms.map_or(0.0, |best_ms| self.optimum_ms / best_ms)
    }
}

struct Evaluated {
    candidate: Candidate,
    round: u32,
    result: Result<Time, FailureKind>,
}

/// A space while it is searched.
struct Searched<'a> {
    measured: &'a Measured,
    space: Space<'a>,
    told: HashMap<&'a [Value], (&'a Point, Result<Time, FailureKind>)>,
    evaluated: Vec<Evaluated>,
    known: HashSet<&'a [Value]>,
    /// Winners of other problems, until the first round.
    beginning: Vec<Candidate>,
    /// What the best looked like, and what it is.
    best: Option<(f64, Option<f64>)>,
    run: Run,
    is_over: bool,
}

/// Searches `spaces` side by side, each once: in every round a strategy is told of the rounds before, those of the other spaces included. Another
/// seed gives another order, another strategy's seed, and other disturbances.
///
/// # Errors
/// What the strategy says, or a candidate of it that is no point of the space.
pub fn run(search: &dyn Search, spaces: &[&Measured], rules: &Rules<'_>, seed: u64) -> anyhow::Result<Vec<Run>> {
    let mut searched: Vec<Searched<'_>> = spaces.iter().map(|space| Searched::new(space, rules, seed)).collect();
    for (at, own) in searched.iter_mut().enumerate().filter(|_| rules.transfer > 0) {
        own.begin_with(spaces.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| *other), rules);
    }
    let all: Vec<usize> = (0..searched.len()).collect();
    let together: Vec<Vec<usize>> =
        if rules.in_turn { all.into_iter().map(|at| vec![at]).collect() } else { vec![all] };
    let mut compiled: HashSet<Candidate> = HashSet::new();
    for together in together {
        for round in 0.. {
            let mut batches = Vec::new();
            for at in &together {
                batches.push((*at, next(search, &mut searched, (*at, round), rules, seed)?));
            }
            if batches.iter().all(|(_, batch)| batch.is_empty()) {
                break;
            }
            for (at, batch) in batches {
                if let Some(space) = searched.get_mut(at) {
                    space.run.compiled += batch.iter().filter(|one| compiled.insert((*one).clone())).count();
                    space.evaluate(batch, round)?;
                }
            }
        }
    }
    Ok(searched.into_iter().map(|space| space.run).collect())
}

/// What the space at `at` tries in this round.
fn next(
    search: &dyn Search,
    searched: &mut [Searched<'_>],
    (at, round): (usize, u32),
    rules: &Rules<'_>,
    seed: u64,
) -> anyhow::Result<Vec<Candidate>> {
    let Some(own) = searched.get(at) else { return Ok(Vec::new()) };
    let size = match rules.batch {
        Some(batch) => batch,
        None if rules.compete => in_contest(search, own.evaluated.len(), !own.measured.costs.is_empty()),
        None => search.round(),
    };
    let n = size.min(rules.budget.saturating_sub(own.evaluated.len()));
    if n == 0 || own.is_over {
        return Ok(Vec::new());
    }
    let variables = &own.measured.variables;
    let mut like: Vec<&Searched<'_>> = Vec::new();
    if search.asks_others() && !own.evaluated.is_empty() {
        like.extend(searched.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other));
        like.retain(|other| !other.evaluated.is_empty());
        like.sort_by(|a, b| {
            let far = |one: &Searched<'_>| distance(variables, &one.measured.variables);
            far(a).total_cmp(&far(b))
        });
        like.truncate(GROUPS);
    }
    let others: Vec<Other<'_>> = like
        .into_iter()
        .map(|other| {
            let round = if rules.in_turn { u32::MAX } else { round };
            Other { variables: other.measured.variables.clone(), tried: other.known_to(round, rules.ahead).0 }
        })
        .collect();
    let of_others = others.iter().filter(|_| rules.shared).flat_map(|other| &other.tried);
    let compiled = &of_others.map(|tried| tried.candidate.clone()).collect();
    let (space, options) = (&own.space, rules.options);
    let (tried, under_way) = own.known_to(round, rules.ahead);
    let (tried, under_way) = (&tried, &under_way);
    let asked = Instant::now();
    let Proposal { candidates, left, owes } =
        search.propose(&Ask { space, tried, under_way, variables, others: &others, compiled, seed, options, n })?;
    let took = asked.elapsed();
    let evaluations = tried.len();
    drop(others);
    if let Some(own) = searched.get_mut(at) {
        own.run.proposing += took;
        own.run.proposals += 1;
        let candidates = mem::take(&mut own.beginning).into_iter().chain(candidates).collect();
        // One that owes something does not stop by it.
        own.run.estimates.extend(left.filter(|_| !owes).map(|left| Estimate { evaluations, left }));
        return own.untried(candidates, n);
    }
    Ok(Vec::new())
}

impl<'a> Searched<'a> {
    fn new(measured: &'a Measured, rules: &Rules<'_>, seed: u64) -> Self {
        let points = measured.points.iter().map(|point| point.params.clone()).collect();
        Self {
            measured,
            space: Space::listed(&measured.solver, &measured.params, points, seed).with_costs(measured.costs.clone()),
            told: told(measured, rules, seed),
            evaluated: Vec::new(),
            known: HashSet::new(),
            beginning: Vec::new(),
            best: None,
            run: Run { optimum_ms: measured.optimum_ms(), ..Run::default() },
            is_over: false,
        }
    }

    /// Begins with winners of `others`, as a session does that is told of them.
    fn begin_with<'b>(&mut self, others: impl Iterator<Item = &'b Measured>, rules: &Rules<'_>) {
        let winners = others.flat_map(|other| other.winners(rules.transfer)).collect();
        if let Some(problem) = &self.measured.problem {
            self.beginning = Priors::of(PriorRows(winners)).choose("", &self.space, problem).candidates;
        }
    }

    /// What is known when that round is planned, and what is under way then.
    fn known_to(&self, round: u32, ahead: u32) -> (Vec<Tried<'_>>, Vec<Candidate>) {
        let (known, under_way): (Vec<&Evaluated>, Vec<&Evaluated>) =
            self.evaluated.iter().partition(|one| one.round.saturating_add(ahead) <= round);
        let tried = known.into_iter();
        let tried = tried.map(|Evaluated { candidate, round, result }| {
            let cost = self.measured.costs.get(&candidate.params).copied();
            Tried { candidate, round: *round, result: *result, cost }
        });
        (tried.collect(), under_way.into_iter().map(|one| one.candidate.clone()).collect())
    }

    /// Those of `next` that count. As in a session, what was tried is not tried again.
    fn untried(&mut self, next: Vec<Candidate>, n: usize) -> anyhow::Result<Vec<Candidate>> {
        let mut batch = Vec::new();
        for candidate in next {
            ensure!(
                candidate.solver == self.measured.solver && self.told.contains_key(candidate.params.as_slice()),
                "found the candidate {candidate}, expected a point of the space"
            );
            let (point, _) = self.told.get(candidate.params.as_slice()).context("a point of the space")?;
            if batch.len() < n && self.known.insert(&point.params) {
                batch.push(candidate);
            }
        }
        self.is_over = batch.is_empty();
        Ok(batch)
    }

    fn evaluate(&mut self, batch: Vec<Candidate>, round: u32) -> anyhow::Result<()> {
        let mut evaluated = Vec::new();
        for candidate in batch {
            let (point, result) = self.told.get(candidate.params.as_slice()).context("a point of the space")?;
            if let Ok(time) = result
                && !time.pruned
                && self.best.is_none_or(|(best_ms, _)| time.median_ms < best_ms)
            {
                self.best = Some((time.median_ms, point.time_ms()));
            }
            self.run.best_ms.push(self.best.and_then(|(_, true_ms)| true_ms));
            evaluated.push(Evaluated { candidate, round, result: *result });
        }
        evaluated.sort_by(|a, b| a.candidate.cmp(&b.candidate));
        self.evaluated.extend(evaluated);
        Ok(())
    }
}

/// The points, with what a strategy is told of each.
fn told<'a>(
    measured: &'a Measured,
    rules: &Rules<'_>,
    seed: u64,
) -> HashMap<&'a [Value], (&'a Point, Result<Time, FailureKind>)> {
    let mut random = StdRng::seed_from_u64(seed ^ DISTURBANCES);
    let told = measured.points.iter().map(|point| {
        // All three for every point: noise is the same whatever the share of failures, and the other way round.
        let [fate, radius, angle]: [f64; 3] = random.random();
        let normal = (-2.0 * (1.0 - radius).ln()).sqrt() * (TAU * angle).cos();
        let result = point.result.and_then(|time| match fate < rules.failures {
            true => Err(FailureKind::LaunchFailure),
            false => Ok(Time {
                median_ms: time.median_ms * (rules.noise * normal).exp(),
                spread_ms: time.spread_ms + rules.noise * time.median_ms,
                pruned: time.pruned,
            }),
        });
        (point.params.as_slice(), (point, result))
    });
    told.collect()
}

#[cfg(test)]
pub mod tests {
    use bluefin_kernel_spec::SpecError;
    use bluefin_kernel_spec::search::FixedOrder;

    use super::super::space::time;
    use super::*;

    /// Points 1 to `count`, of which each takes as many milliseconds, and the last one fails.
    pub fn measured(count: i64) -> Measured {
        let point = |x| Point {
            params: vec![Value::Int(x)],
            result: if x == count { Err(FailureKind::Hang) } else { Ok(time(x as f64)) },
        };
        let points = (1..=count).map(point).collect();
        let (name, solver, params) = ("line".into(), "points".into(), vec!["x".into()]);
        Measured { name, solver, params, variables: BTreeMap::new(), problem: None, costs: HashMap::new(), points }
    }

    pub fn rules(options: &BTreeMap<String, String>) -> Rules<'_> {
        let (in_turn, compete, shared) = (false, false, false);
        Rules {
            batch: None,
            ahead: 1,
            budget: 40,
            noise: 0.0,
            failures: 0.0,
            transfer: 0,
            in_turn,
            compete,
            shared,
            options,
        }
    }

    pub const NONE: &BTreeMap<String, String> = &BTreeMap::new();

    /// Searches one space.
    pub fn alone(search: &dyn Search, space: &Measured, rules: &Rules<'_>, seed: u64) -> Run {
        run(search, &[space], rules, seed).unwrap().remove(0)
    }

    /// Tries these params in their order, whatever comes of them.
    pub struct Listed(pub Vec<i64>);

    impl Search for Listed {
        fn name(&self) -> &'static str {
            "listed"
        }

        fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError> {
            let solver = ask.space.solver().to_string();
            let candidate = |x: &i64| Candidate { solver: solver.clone(), params: vec![Value::Int(*x)] };
            Ok(self.0.iter().skip(ask.tried.len()).take(ask.n).map(candidate).collect())
        }
    }

    #[test]
    fn the_best_so_far_after_each_evaluation() {
        let space = measured(20);
        let run = |list: &[i64]| alone(&Listed(list.to_vec()), &space, &rules(NONE), 0);
        let found = run(&[20, 7, 9, 3, 3, 20, 1]);
        // What is tried again counts once.
        assert_eq!(found.best_ms, [None, Some(7.0), Some(7.0), Some(3.0), Some(1.0)]);
        let nothing = run(&[]);
        assert_eq!((nothing.best_ms.len(), nothing.proposals), (0, 1));
        let all: Vec<i64> = (1..=20).collect();
        let found = run(&all);
        assert_eq!((found.best_ms.len(), found.proposals), (20, 4), "two rounds of eight, one of four, and none");
        let few = Rules { budget: 11, batch: Some(3), ..rules(NONE) };
        let found = alone(&Listed(all), &space, &few, 0);
        assert_eq!((found.best_ms.len(), found.proposals), (11, 4));
    }

    /// A strategy of rounds of eight, four where solvers compete, that goes by what it is told of other spaces: it begins where their best was.
    struct Follows;

    impl Search for Follows {
        fn name(&self) -> &'static str {
            "follows"
        }

        fn trial(&self) -> usize {
            4
        }

        fn asks_others(&self) -> bool {
            true
        }

        fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError> {
            let ms = |tried: &Tried<'_>| tried.result.map_or(f64::INFINITY, |time| time.median_ms);
            let told = ask.others.iter().flat_map(|other| &other.tried).min_by(|a, b| ms(a).total_cmp(&ms(b)));
            let mut next = FixedOrder.next(ask)?;
            next.splice(0..0, told.map(|told| told.candidate.clone()));
            Ok(next)
        }
    }

    #[test]
    fn in_turn_a_space_is_told_of_those_before() {
        let spaces = [1, 2].map(|n| Measured {
            variables: [("n".to_string(), Value::Int(n))].into(),
            costs: (1..=300).map(|x| (vec![Value::Int(x)], x as f64)).collect(),
            ..measured(300)
        });
        let spaces = [&spaces[0], &spaces[1]];
        let rules = Rules { budget: 20, compete: true, ..rules(NONE) };
        let best = |run: &Run, at: usize| run.best_ms[at].unwrap();
        let side = run(&Follows, &spaces, &rules, 5).unwrap();
        assert_eq!(side[0].best_ms, side[1].best_ms, "the same order, and no more is known of the other");
        assert_eq!(side[0].proposals, 6, "one, three, and four at a time");
        let turn = run(&Follows, &spaces, &Rules { in_turn: true, ..rules }, 5).unwrap();
        assert_eq!(best(&turn[0], 19), best(&side[0], 19));
        assert!(best(&turn[1], 0) >= best(&turn[0], 19), "nothing is told before anything is known");
        assert_eq!(best(&turn[1], 1), best(&turn[0], 19), "then the best of the other is there at once");
    }

    #[test]
    fn a_candidate_from_elsewhere_is_an_error() {
        let error = run(&Listed(vec![1, 21]), &[&measured(20)], &rules(NONE), 0).unwrap_err();
        assert_eq!(error.to_string(), "found the candidate points:21, expected a point of the space");
    }

    #[test]
    fn a_strategy_is_told_of_rounds_and_failures() {
        /// Checks what it is told by the space of [`measured`].
        struct Checks;

        impl Search for Checks {
            fn name(&self) -> &'static str {
                "checks"
            }

            fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError> {
                for (at, tried) in ask.tried.iter().enumerate() {
                    let Value::Int(x) = tried.candidate.params[0] else { panic!("{tried:?}") };
                    let expected = if x == 20 { Err(FailureKind::Hang) } else { Ok(time(x as f64)) };
                    assert_eq!((tried.result, tried.round as usize), (expected, at / 8));
                }
                assert!(ask.tried.chunks(8).all(|round| round.is_sorted_by_key(|tried| tried.candidate)));
                FixedOrder.next(ask)
            }
        }

        let run = alone(&Checks, &measured(20), &rules(NONE), 3);
        assert_eq!(run.best_ms.last(), Some(&Some(1.0)));
    }

    #[test]
    fn a_seed_is_an_order_and_comes_to_the_same_again() {
        let space = measured(1000);
        let run = |seed| alone(&FixedOrder, &space, &rules(NONE), seed).best_ms;
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn noise_hides_which_is_best_and_is_not_scored() {
        let space = measured(100);
        let noisy = Rules { noise: 1.0, budget: 100, ..rules(NONE) };
        let best = |seed| alone(&FixedOrder, &space, &noisy, seed).best_ms.last().copied().flatten();
        let found: Vec<f64> = (0..20).filter_map(best).collect();
        assert!(found.iter().all(|ms| (1.0..100.0).contains(ms) && ms.fract() == 0.0), "true times: {found:?}");
        assert!(found.len() == 20 && found.iter().any(|ms| *ms > 1.0), "{found:?}");
        let space = measured(1000);
        let rules = Rules { noise: 0.05, ..rules(NONE) };
        let told = told(&space, &rules, 7);
        let ratios = space.points.iter().filter_map(|point| {
            let (_, result) = told[point.params.as_slice()];
            Some((result.ok()?.median_ms / point.time_ms()?).ln())
        });
        let ratios: Vec<f64> = ratios.collect();
        let mean = ratios.iter().sum::<f64>() / 999.0;
        let deviation = (ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / 998.0).sqrt();
        assert!(mean.abs() < 0.01 && (deviation - 0.05).abs() < 0.005, "{mean} {deviation}");
    }

    #[test]
    fn a_share_of_the_points_fails() {
        let space = measured(1000);
        let told = told(&space, &Rules { failures: 0.3, ..rules(NONE) }, 7);
        let failed = told.values().filter(|(_, result)| *result == Err(FailureKind::LaunchFailure)).count();
        assert!((250..350).contains(&failed), "{failed}");
        assert_eq!(told[[Value::Int(1000)].as_slice()].1, Err(FailureKind::Hang), "what failed fails as it did");
    }
}
