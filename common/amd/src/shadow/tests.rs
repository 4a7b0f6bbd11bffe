//! Touches of waves and blocks, and which of them nothing orders.

use super::*;
use crate::order::Clock;

/// Wave `wave` in span `span` of block `block`, with 4 waves a block and 100 numbers a block.
fn by(block: u32, span: u32, wave: u32) -> Toucher<'static> {
    let start = 1000 + block * 100;
    let (number, span) = (start + span * 4 + wave, start + span * 4);
    let clock = none();
    Toucher {
        launch: 1000,
        block: start,
        end: start + 100,
        waves: 4,
        number,
        span,
        fresh: u32::MAX,
        quiet: 1000,
        clock,
        how: How::Plain,
    }
}

fn none() -> &'static Clock {
    Box::leak(Box::default())
}

fn run(touches: &[(Toucher<'_>, usize, usize, bool)]) -> Option<(usize, Conflict)> {
    let mut shadow = Shadow::default();
    let mut touch =
        |(by, offset, size, write): &(Toucher<'_>, usize, usize, bool)| shadow.touch(64, *offset, *size, *write, by);
    touches.iter().find_map(&mut touch).map(|met| (met.at, met.conflict))
}

#[test]
fn the_last_byte_that_is_touched_is_the_end() {
    let end = |touches: &[(usize, usize, bool)]| {
        let mut shadow = Shadow::default();
        for (offset, size, write) in touches {
            assert!(shadow.touch(64, *offset, *size, *write, &by(0, 0, 0)).is_none());
        }
        shadow.end()
    };
    assert_eq!(end(&[]), 0);
    assert_eq!(end(&[(8, 4, false), (0, 4, true)]), 12);
    assert_eq!(end(&[(8, 8, true), (0, 4, false)]), 16);
    // A word of which a byte is touched.
    assert_eq!(end(&[(8, 1, false)]), 9);
    assert_eq!(end(&[(8, 4, true), (21, 1, true)]), 22);
}

#[test]
fn waves_race_within_a_span_and_not_across_a_barrier() {
    let wrote = Conflict::Wave { wave: 0, wrote: true };
    assert_eq!(run(&[(by(0, 0, 0), 8, 8, true), (by(0, 0, 1), 12, 4, false)]), Some((12, wrote)));
    assert_eq!(run(&[(by(0, 0, 0), 8, 8, true), (by(0, 1, 1), 12, 4, false)]), None);
    let read = Conflict::Wave { wave: 0, wrote: false };
    assert_eq!(run(&[(by(0, 0, 0), 8, 4, false), (by(0, 0, 1), 8, 4, true)]), Some((8, read)));
    assert_eq!(run(&[(by(0, 0, 0), 8, 4, false), (by(0, 1, 1), 8, 4, true)]), None);
    assert_eq!(run(&[(by(0, 0, 0), 8, 4, true), (by(0, 0, 0), 8, 4, false), (by(0, 0, 0), 8, 4, true)]), None);
}

#[test]
fn a_second_reader_does_not_hide_the_first() {
    let touches = [(by(0, 0, 0), 8, 4, false), (by(0, 0, 1), 8, 4, false), (by(0, 0, 1), 8, 4, true)];
    assert_eq!(run(&touches), Some((8, Conflict::Waves)));
    let touches = [(by(0, 0, 0), 8, 4, false), (by(1, 0, 1), 8, 4, false), (by(1, 5, 1), 8, 4, true)];
    assert_eq!(run(&touches), Some((8, Conflict::Blocks)));
}

#[test]
fn what_earlier_launches_did_hides_nothing() {
    let earlier = |block: u32, wave| Toucher {
        launch: 100,
        block,
        end: block + 100,
        number: block + wave,
        span: block,
        quiet: 100,
        ..by(0, 0, 0)
    };
    let before = [(earlier(100, 0), 0, 4, false), (earlier(200, 0), 0, 4, false), (earlier(200, 1), 0, 4, false)];
    let conflict = Conflict::Block { number: by(0, 0, 0).number, wrote: false };
    let now = [(by(0, 0, 0), 0, 4, false), (by(1, 0, 0), 0, 4, true)];
    assert_eq!(run(&[before.as_slice(), &now].concat()), Some((0, conflict)));
}

#[test]
fn blocks_race_whatever_their_barriers() {
    let conflict = Conflict::Block { number: by(0, 3, 2).number, wrote: true };
    assert_eq!(run(&[(by(0, 3, 2), 0, 4, true), (by(1, 0, 0), 0, 4, true)]), Some((0, conflict)));
    let earlier = Toucher { launch: 100, block: 100, end: 200, number: 101, span: 100, quiet: 100, ..by(0, 0, 0) };
    assert_eq!(run(&[(earlier, 0, 4, true), (by(1, 0, 0), 0, 4, true)]), None);
}

#[test]
fn halves_of_a_word_are_told_apart() {
    assert_eq!(run(&[(by(0, 0, 0), 8, 2, true), (by(0, 0, 1), 10, 2, true)]), None);
    let conflict = Conflict::Wave { wave: 1, wrote: true };
    let touches = [(by(0, 0, 0), 8, 2, true), (by(0, 0, 1), 10, 2, true), (by(0, 0, 0), 8, 4, false)];
    assert_eq!(run(&touches), Some((10, conflict)));
    let whole = Conflict::Wave { wave: 0, wrote: true };
    assert_eq!(run(&[(by(0, 0, 0), 8, 4, true), (by(0, 0, 1), 10, 1, true)]), Some((10, whole)));
}

#[test]
fn a_write_of_this_span_is_not_ordered() {
    let conflict = Conflict::Wave { wave: 0, wrote: true };
    assert_eq!(run(&[(by(0, 1, 0), 8, 4, true), (by(0, 1, 1), 8, 4, false)]), Some((8, conflict)));
}

#[test]
fn atomics_race_with_plain_touches_and_not_with_each_other() {
    let atomic = |wave| by(0, 0, wave).touching(How::Atomic);
    assert_eq!(run(&[(atomic(0), 8, 4, true), (atomic(1), 8, 4, true), (atomic(0), 8, 4, true)]), None);
    let conflict = Conflict::Wave { wave: 0, wrote: true };
    assert_eq!(run(&[(atomic(0), 8, 4, true), (by(0, 0, 1), 8, 4, false)]), Some((8, conflict)));
    // The last of several is the reader itself.
    let touches = [(atomic(0), 8, 4, true), (atomic(1), 8, 4, true), (by(0, 0, 1), 8, 4, false)];
    assert_eq!(run(&touches), Some((8, conflict)));
    assert_eq!(run(&[(atomic(0), 8, 4, true), (atomic(1), 8, 4, true), (by(0, 1, 1), 8, 4, true)]), None);
    assert_eq!(run(&[(by(0, 0, 0), 8, 4, true), (atomic(1), 8, 4, true)]), Some((8, conflict)));
    let other = by(1, 0, 0).touching(How::Atomic);
    let block = Conflict::Block { number: by(1, 0, 0).number, wrote: true };
    assert_eq!(run(&[(other, 8, 4, true), (by(2, 0, 0), 8, 4, true)]), Some((8, block)));
}

#[test]
fn what_a_wave_has_read_and_changed_itself_is_asked_of_it_once_others_come() {
    let atomic = |by: Toucher<'static>| (by.touching(How::Atomic), 8, 4, true);
    let read = (by(0, 0, 0), 8, 4, false);
    assert_eq!(run(&[read, atomic(by(0, 0, 0)), read, atomic(by(0, 0, 0))]), None);
    let met = Conflict::Wave { wave: 0, wrote: false };
    assert_eq!(run(&[read, atomic(by(0, 0, 0)), atomic(by(0, 0, 1))]), Some((8, met)));
    let store = (by(0, 0, 1).touching(How::Store), 8, 4, true);
    assert_eq!(run(&[read, atomic(by(0, 0, 0)), store]), Some((8, Conflict::Unsure)));
    assert_eq!(run(&[read, store]), Some((8, met)));
    assert_eq!(run(&[read, atomic(by(0, 0, 0)), atomic(by(0, 1, 1))]), None);
}

#[test]
fn what_a_clock_knows_comes_before() {
    let known = Clock::of(crate::order::Entry { start: 1000, end: 1000, waves: 4, heads: vec![(0, 1000)] });
    let after = Toucher { clock: &known, ..by(0, 0, 1) };
    assert_eq!(run(&[(by(0, 0, 0), 8, 4, true), (after, 8, 4, false), (after, 8, 4, true)]), None);
    let other = Toucher { clock: &known, ..by(1, 0, 1) };
    assert_eq!(run(&[(by(0, 0, 0), 8, 4, true), (other, 8, 4, true)]), None);
    let conflict = Conflict::Block { number: 1001, wrote: true };
    assert_eq!(run(&[(by(0, 0, 1), 8, 4, true), (other, 8, 4, true)]), Some((8, conflict)));
}
