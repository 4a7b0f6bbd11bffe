//! The strategy as a whole, on made-up spaces.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bluefin_common::candidate::Candidate;
use bluefin_common::failure::FailureKind;
use bluefin_common::value::Value;

use super::Bayes;
use super::coordinates::Coordinates;
use super::lessons::Lessons;
use crate::KernelSpec;
use crate::search::{Ask, FixedOrder, Other, Search, Space, Time, Tried, Variables};
use crate::tests::{SPEC, bundle, scope};

type Told = Result<Time, FailureKind>;

const NONE: &BTreeMap<String, String> = &BTreeMap::new();
const NOTHING: &Variables = &Variables::new();
const COMPILED: &BTreeSet<Candidate> = &BTreeSet::new();

fn took(median_ms: f64) -> Told {
    Ok(Time { median_ms, spread_ms: 0.0, pruned: false })
}

fn cut_short(median_ms: f64) -> Told {
    Ok(Time { median_ms, spread_ms: 0.0, pruned: true })
}

/// 16 x 16 x 10 x 4 points, one of them without an order.
fn points() -> Vec<Vec<Value>> {
    let mut points = Vec::new();
    for x in 1..=16_i64 {
        for y in 1..=16_i64 {
            for z in 0..10_i64 {
                points.extend(["a", "b", "c", "d"].map(|text| vec![(x * 16).into(), y.into(), z.into(), text.into()]));
            }
        }
    }
    points
}

fn space(points: Vec<Vec<Value>>, seed: u64) -> Space<'static> {
    let names: Vec<String> = (0..points[0].len()).map(|at| format!("P{at}")).collect();
    Space::listed("S", &names, points, seed)
}

/// Of a problem that nothing else is known of.
fn ask<'a>(space: &'a Space<'a>, tried: &'a [Tried<'a>], seed: u64, n: usize) -> Ask<'a> {
    Ask { space, tried, under_way: &[], variables: NOTHING, others: &[], compiled: COMPILED, seed, options: NONE, n }
}

fn numbers(candidate: &Candidate) -> Vec<f64> {
    let number = |value: &Value| match value {
        Value::Int(number) => *number as f64,
        Value::Bool(bool) => f64::from(u8::from(*bool)),
        Value::Text(text) => f64::from(text.as_bytes()[0] - b'a'),
    };
    candidate.params.iter().map(number).collect()
}

/// A valley at a block of 128 and a tile of 6, worse where a block is no multiple of 64, and with text other than c.
fn valley(candidate: &Candidate) -> f64 {
    let [x, y, z, text] = numbers(candidate)[..] else { panic!("{candidate}") };
    let far = (x / 128.0).ln().abs() + (y - 6.0).abs() / 8.0 + (z - 7.0).abs() / 20.0;
    1.0 + far + if x % 64.0 == 0.0 { 0.0 } else { 0.3 } + if text == 2.0 { 0.0 } else { 0.5 }
}

/// What was tried in so many rounds of eight, in order.
fn search(
    search: &dyn Search,
    space: &Space<'_>,
    rounds: u32,
    result: impl Fn(&Candidate) -> Told,
) -> Vec<(Candidate, u32, Told)> {
    let mut done: Vec<(Candidate, u32, Told)> = Vec::new();
    for round in 0..rounds {
        let next = search.next(&ask(space, &tried(&done), 7, 8)).unwrap();
        done.extend(next.into_iter().map(|candidate| {
            let result = result(&candidate);
            (candidate, round, result)
        }));
    }
    done
}

fn tried(done: &[(Candidate, u32, Told)]) -> Vec<Tried<'_>> {
    done.iter()
        .map(|(candidate, round, result)| Tried { candidate, round: *round, result: *result, cost: None })
        .collect()
}

fn best(done: &[(Candidate, u32, Told)]) -> f64 {
    done.iter().filter_map(|(_, _, result)| result.ok()).map(|time| time.median_ms).fold(f64::INFINITY, f64::min)
}

#[test]
fn a_valley_is_found_where_a_random_order_does_not() {
    let space = space(points(), 3);
    let timed = |candidate: &Candidate| took(valley(candidate));
    assert!(best(&search(&FixedOrder, &space, 8, timed)) > 1.1);
    assert!(best(&search(&Bayes, &space, 8, timed)) < 1.06);
}

#[test]
fn equal_arguments_give_equal_candidates_whatever_the_order_of_outcomes() {
    let space = space(points(), 3);
    let done = search(&Bayes, &space, 4, |candidate| match candidate.params[1] {
        Value::Int(12..) => Err(FailureKind::InvalidLaunch),
        Value::Int(9..) => cut_short(2.0),
        _ => took(valley(candidate)),
    });
    let mut tried = tried(&done);
    let next = |tried: &[Tried<'_>], seed| Bayes.next(&ask(&space, tried, seed, 8)).unwrap();
    let expected = next(&tried, 7);
    tried.reverse();
    assert_eq!(next(&tried, 7), expected);
    assert_ne!(next(&tried, 8), expected, "the random ones are others");
}

#[test]
fn what_is_left_is_said_once_enough_is_known_and_falls() {
    let space = space(points(), 3);
    let done = search(&Bayes, &space, 24, |candidate| took(valley(candidate)));
    let left = |rounds: usize| Bayes.propose(&ask(&space, &tried(&done[..8 * rounds]), 7, 8)).unwrap().left;
    assert_eq!([left(0), left(1), left(2)], [None; 3]);
    let (few, many) = (left(4).unwrap(), left(24).unwrap());
    assert!(many < few / 3.0 && few < 1.0, "{few} {many}");
    let alike = search(&Bayes, &space, 4, |_| took(1.0));
    assert_eq!(Bayes.propose(&ask(&space, &tried(&alike), 7, 8)).unwrap().left, Some(0.0), "all are alike");
    let failed = search(&Bayes, &space, 4, |_| Err(FailureKind::CompileError));
    assert_eq!(Bayes.propose(&ask(&space, &tried(&failed), 7, 8)).unwrap().left, None, "nothing ran");
}

#[test]
fn no_candidate_comes_twice_and_none_is_forgotten() {
    let few: Vec<Vec<Value>> = points().into_iter().step_by(97).collect();
    let count = few.len();
    let space = space(few, 3);
    let done = search(&Bayes, &space, 30, |candidate| took(valley(candidate)));
    assert_eq!(done.len(), count);
    assert_eq!(done.iter().map(|(candidate, ..)| candidate).collect::<HashSet<_>>().len(), count);
    assert!(done.iter().all(|(candidate, ..)| space.holds(candidate)));
}

#[test]
fn as_many_as_are_asked_for() {
    let space = space(points(), 3);
    let done = search(&Bayes, &space, 2, |candidate| took(valley(candidate)));
    for n in [1, 3, 24] {
        assert_eq!(Bayes.next(&ask(&space, &tried(&done), 1, n)).unwrap().len(), n);
        assert_eq!(Bayes.next(&ask(&space, &[], 1, n)).unwrap().len(), n);
    }
}

#[test]
fn where_all_times_are_alike_or_nothing_runs_the_search_goes_on() {
    for result in [took(1.0), cut_short(1.0), Err(FailureKind::CompileError), Err(FailureKind::BudgetSpent)] {
        assert_eq!(search(&Bayes, &space(points(), 3), 4, |_| result).len(), 32, "{result:?}");
    }
}

#[test]
fn a_region_of_failures_is_left() {
    // Too large to run, though larger is faster.
    let size = |candidate: &Candidate| numbers(candidate)[0] * numbers(candidate)[1];
    let fails = |candidate: &Candidate| size(candidate) > 800.0;
    let done = search(&Bayes, &space(points(), 3), 16, |candidate| match fails(candidate) {
        true => Err(FailureKind::LaunchFailure),
        false => took(1000.0 / size(candidate)),
    });
    let failed = |part: &[(Candidate, u32, Told)]| part.iter().filter(|(candidate, ..)| fails(candidate)).count();
    let (first, last) = (failed(&done[..32]), failed(&done[96..]));
    // Of random points two in three are.
    assert!(last < first && last <= 12, "{first} of the first 32, {last} of the last");
    assert!(best(&done) <= 1000.0 / 768.0, "{}", best(&done));
}

#[test]
fn what_each_outcome_teaches() {
    let candidates: Vec<Candidate> =
        (0..7).map(|at| Candidate { solver: "S".to_string(), params: vec![Value::Int(at)] }).collect();
    let results = [
        took(2.0),
        cut_short(3.0),
        took(1.0),
        took(8.0),
        Err(FailureKind::BudgetSpent),
        Err(FailureKind::OutOfMemory),
        took(64.0),
    ];
    let tried = candidates.iter().zip(results);
    let tried: Vec<Tried<'_>> =
        tried.map(|(candidate, result)| Tried { candidate, round: 0, result, cost: None }).collect();
    let values: Vec<Value> = (0..7_i64).map(Value::Int).collect();
    let coordinates = Coordinates::of([values.as_slice()].into_iter(), Vec::new());
    let lessons = Lessons::of(&tried, &coordinates, &[]);
    let ran: Vec<f64> = lessons.ran.iter().map(|lesson| lesson.target).collect();
    // A bound is a target, and beyond the median a tenth counts.
    let third = 3_f64.ln();
    let expected = [0.0, 2_f64.ln(), third, third + 0.1 * (8_f64.ln() - third), third + 0.1 * (64_f64.ln() - third)];
    assert!(ran.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12), "{ran:?}");
    let incumbents: Vec<String> = lessons.incumbents().iter().map(|candidate| candidate.params_text()).collect();
    assert_eq!(incumbents, ["2", "0", "3", "6"], "a bound is no time");
    let failed: Vec<&Candidate> = lessons.failed.iter().map(|lesson| lesson.candidate).collect();
    assert_eq!(failed, [&candidates[5]], "a budget says nothing of a candidate");
}

#[test]
fn a_space_too_large_to_be_enumerated_is_searched_from_its_default() {
    let values = (1..=4096).map(|value: u32| value.to_string()).collect::<Vec<_>>().join(",");
    let [tiles, splits] = ["[1, 2, 4, 8]", "[1, 2, 4]"].map(|values| SPEC.matches(values).count());
    assert_eq!((tiles, splits), (1, 1));
    let large = SPEC.replacen("[1, 2, 4, 8]", &format!("[{values}]"), 1);
    let large = large.replacen("[1, 2, 4]", &format!("[{values}]"), 1);
    let spec = KernelSpec::load(&bundle(&large.replacen("TILE * UNROLL <= 512", "UNROLL % 2 == 0", 1))).unwrap();
    let scope = scope(&spec, 1000);
    let solver = spec.solver("Tiled").unwrap();
    let space = Space::of(&spec, solver, &scope);
    // The less, the better.
    let timed = |candidate: &Candidate| took(1.0 + numbers(candidate)[1] + numbers(candidate)[3] / 16.0);
    let done = search(&Bayes, &space, 8, timed);
    assert_eq!((done.len(), &done[0].0), (64, &solver.default_candidate()));
    assert!(done.iter().all(|(candidate, ..)| space.holds(candidate)));
    let unlearnt = search(&FixedOrder, &space, 8, timed);
    assert!(best(&done[1..]) < best(&unlearnt[1..]), "{} and {}", best(&done[1..]), best(&unlearnt[1..]));
}

#[test]
fn before_anything_is_known_a_model_says_what_is_tried() {
    let costs = points().into_iter().map(|params| {
        let candidate = Candidate { solver: "S".to_string(), params };
        // It says nothing of the texts.
        (candidate.params.clone(), (numbers(&candidate)[0] - 128.0).abs() + numbers(&candidate)[1])
    });
    let modelled = space(points(), 3).with_costs(costs.collect());
    let first = |space: &Space<'_>| Bayes.next(&ask(space, &[], 7, 8)).unwrap();
    let (plain, begun) = (first(&space(points(), 3)), first(&modelled));
    assert_eq!((plain.len(), begun.len(), &begun[0]), (8, 8, &plain[0]));
    let far = |candidate: &Candidate| (numbers(candidate)[0] - 128.0).abs();
    let near = |all: &[Candidate]| all.iter().skip(1).filter(|candidate| far(candidate) <= 32.0).count();
    assert!(near(&plain) <= 3 && near(&begun) >= 5, "{plain:?} {begun:?}");
    // From then on times say it.
    let done = search(&Bayes, &modelled, 1, |candidate| took(valley(candidate)));
    assert_eq!(
        Bayes.next(&ask(&modelled, &tried(&done), 7, 8)).unwrap(),
        Bayes.next(&ask(&space(points(), 3), &tried(&done), 7, 8)).unwrap()
    );
}

#[test]
fn what_was_best_for_a_like_problem_is_tried_soon() {
    let space = space(points(), 3);
    let variables = |size: i64, layout: &str| -> Variables {
        [("size".to_string(), Value::Int(size)), ("layout".to_string(), layout.into())].into()
    };
    // Of the like problem the valley, of the unlike one the opposite.
    let like = search(&Bayes, &space, 8, |candidate| took(valley(candidate)));
    let unlike = search(&Bayes, &space, 8, |candidate| took(10.0 / valley(candidate)));
    let own = search(&Bayes, &space, 1, |candidate| took(valley(candidate)));
    let own = tried(&own);
    let here = variables(1000, "NCHW");
    let mut others = vec![
        Other { variables: variables(1100, "NCHW"), tried: tried(&like) },
        Other { variables: variables(10, "NHWC"), tried: tried(&unlike) },
    ];
    let next = |others: &[Other<'_>]| Bayes.next(&Ask { variables: &here, others, ..ask(&space, &own, 7, 8) }).unwrap();
    let least = |next: &[Candidate]| next.iter().map(valley).fold(f64::INFINITY, f64::min);
    let (alone, told) = (least(&next(&[])), next(&others));
    assert!(least(&told) <= 1.06 && least(&told) < alone - 0.1, "{} and {alone}", least(&told));
    others.reverse();
    assert_eq!(next(&others), told, "in whatever order they are told");
}

#[test]
fn of_one_candidate_a_problem_goes_on_with_the_best_of_the_two_most_similar() {
    let space = space(points(), 3);
    let size = |size: i64| Variables::from([("size".to_string(), Value::Int(size))]);
    let points = space.first(40).unwrap();
    // Of each other problem so many candidates, of which the first is the best.
    let tried_of = |at: usize, count: usize| -> Vec<(Candidate, u32, Told)> {
        let some = points.iter().skip(at).take(count).enumerate();
        some.map(|(behind, one)| (one.clone(), 0, took(1.0 + behind as f64))).collect()
    };
    let problems = [(4096, tried_of(1, 5)), (1100, tried_of(6, 5)), (900, tried_of(11, 3)), (500, tried_of(14, 5))];
    let others = problems.iter().map(|(of, all)| Other { variables: size(*of), tried: tried(all) });
    let others: Vec<Other<'_>> = others.collect();
    let here = size(1000);
    let own = [Tried { candidate: &points[0], round: 0, result: took(5.0), cost: None }];
    let next = |tried| Bayes.next(&Ask { variables: &here, others: &others, ..ask(&space, tried, 7, 3) }).unwrap();
    // 900 is the most similar, but too little is known of it.
    assert_eq!(next(&own)[..2], [points[6].clone(), points[14].clone()]);
    let more = [own[0], Tried { candidate: &points[30], round: 1, result: took(6.0), cost: None }];
    assert_ne!(next(&more)[..2], [points[6].clone(), points[14].clone()], "then times say it");
}

#[test]
fn no_search_stops_before_the_best_of_like_problems_was_tried() {
    let space = space(points(), 3);
    let size = |size: i64| Variables::from([("size".to_string(), Value::Int(size))]);
    let own = search(&Bayes, &space, 4, |candidate| took(valley(candidate)));
    let like = search(&Bayes, &space, 1, |candidate| took(20.0 - valley(candidate)));
    let slowest = like.iter().max_by(|a, b| valley(&a.0).total_cmp(&valley(&b.0))).unwrap();
    let others = [Other { variables: size(1100), tried: tried(&like) }];
    let own = tried(&own);
    let propose = |tried: &[Tried<'_>]| {
        Bayes.propose(&Ask { variables: &size(1000), others: &others, ..ask(&space, tried, 7, 8) }).unwrap()
    };
    // Too little is known to stop anyway.
    assert!(!propose(&own[..16]).owes);
    let known: Vec<Tried<'_>> = own.iter().copied().filter(|tried| tried.candidate != &slowest.0).collect();
    let proposal = propose(&known);
    assert_eq!((proposal.candidates.first(), proposal.owes), (Some(&slowest.0), true));
    assert!(proposal.left.is_some(), "what is left is known nevertheless");
    let tried_now = [known, vec![Tried { candidate: &slowest.0, round: 4, result: slowest.2, cost: None }]].concat();
    assert!(!propose(&tried_now).owes);
}

#[test]
fn of_two_that_promise_as_much_the_compiled_one_is_tried() {
    let space = space(points(), 3);
    let own = search(&Bayes, &space, 3, |candidate| took(valley(candidate)));
    let own = tried(&own);
    let next = |compiled: &BTreeSet<Candidate>| Bayes.next(&Ask { compiled, ..ask(&space, &own, 7, 8) }).unwrap();
    let alone: BTreeSet<Candidate> = next(COMPILED).into_iter().collect();
    let known: HashSet<&Candidate> = own.iter().map(|tried| tried.candidate).collect();
    let open = space.first(usize::MAX).unwrap().into_iter().filter(|one| !known.contains(one) && !alone.contains(one));
    let compiled: BTreeSet<Candidate> = open.enumerate().filter(|(at, _)| at % 2 == 0).map(|(_, one)| one).collect();
    let chosen = next(&compiled);
    let count = chosen.iter().filter(|one| compiled.contains(*one)).count();
    assert!((3..8).contains(&count), "{count}: what promises far more is compiled nevertheless");
    assert_eq!(next(&compiled), chosen);
}

#[test]
fn what_a_model_of_the_architecture_foresees_is_no_news() {
    // No coordinate tells one point from the next; a cost does, as far as its square root, and something else by some percent.
    let cost = |n: i64| 1.0 + (n * 7919 % 401) as f64 / 100.0;
    let points: Vec<Vec<Value>> = (0..401_i64).map(|n| vec![Value::Int(n)]).collect();
    let costs = points.iter().zip(0..).map(|(point, n)| (point.clone(), cost(n))).collect();
    let space = space(points.clone(), 3).with_costs(costs);
    let candidates: Vec<Candidate> =
        [9, 100, 200, 310].map(|at: usize| Candidate { solver: "S".to_string(), params: points[at].clone() }).to_vec();
    let tried = |has_cost: bool| -> Vec<Tried<'_>> {
        let one = |candidate| {
            let of = space.cost(candidate).unwrap().unwrap();
            let result = took(of.sqrt() * (1.0 + numbers(candidate)[0] / 4e4));
            Tried { candidate, round: 0, result, cost: has_cost.then_some(of) }
        };
        candidates.iter().map(one).collect()
    };
    let chosen = |tried: &[Tried<'_>]| {
        let next = Bayes.next(&ask(&space, tried, 7, 8)).unwrap();
        let mut of: Vec<f64> = next.iter().map(|one| space.cost(one).unwrap().unwrap()).collect();
        of.sort_by(f64::total_cmp);
        of
    };
    let foreseen = chosen(&tried(true));
    assert!(foreseen[..7].iter().all(|cost| *cost < 1.5), "all but the random one: {foreseen:?}");
    assert!(chosen(&tried(false))[6] > 2.0, "nobody knows what those that were tried should have taken");
}
