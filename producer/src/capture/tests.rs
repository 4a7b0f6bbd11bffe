use proptest::prelude::*;

use super::*;

fn command(n: u32) -> String {
    format!(
        "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n {n} -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 \
         -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1"
    )
}

fn capture(log: &str) -> Captured {
    let mut capture = Capture::default();
    capture.feed(log.as_bytes());
    capture.finish()
}

/// (batch, count) of each problem, and how many commands were not read.
fn met(log: &str) -> (Vec<(u32, u64)>, u64) {
    let captured = capture(log);
    let batch = |problem: &Problem| match problem {
        Problem::Conv(conv) => conv.n,
        other => panic!("{other}"),
    };
    (captured.problems.iter().map(|met| (batch(&met.problem), met.count)).collect(), captured.unread)
}

#[test]
fn commands_are_counted_and_all_else_is_noise() {
    let log = format!(
        "Loading\n{}\nepoch 1\r 10%\r{}\nMIOpen(HIP): Info [SetStream] 0\n12 34 {}\n\u{1b}[0m\n",
        command(16),
        command(16),
        command(32)
    );
    assert_eq!(met(&log), (vec![(16, 2), (32, 1)], 0));
}

#[test]
fn two_commands_on_one_line_are_two() {
    assert_eq!(met(&format!("{}{}\n\n", command(1), command(2))), (vec![(1, 1), (2, 1)], 0));
    assert_eq!(met(&format!("12 34 {}12 34 {}\n", command(1), command(2))), (vec![(2, 1)], 1));
    assert_eq!(met(&format!("12 34 {} 12 34 {}\n", command(1), command(2))), (vec![(1, 1), (2, 1)], 0));
}

#[test]
fn what_is_lost_of_a_command_is_not_made_up() {
    let whole = command(128);
    for cut in whole.find("conv -n").unwrap()..whole.find("-F 1").unwrap() + 3 {
        assert_eq!(met(&whole[..cut]), (vec![], 1), "{}", &whole[..cut]);
    }
    let without_depths = whole.replace(" -k 64", " --fil_d 3 -k 64");
    assert_eq!(met(&without_depths).1, 1);
}

#[test]
fn a_torn_command_is_put_together() {
    let (first, other) = (command(128), command(7));
    for cut in "MIOpen(HIP): Command [".len()..first.find(" -t 1").unwrap() {
        let (head, rest) = first.split_at(cut);
        assert_eq!(met(&format!("{head}{other}\n{rest}\n")), (vec![(7, 1), (128, 1)], 0), "{head}");
    }
}

#[test]
fn a_rest_that_may_be_of_two_is_of_none() {
    let cut = command(12).find("-n 12").unwrap() + "-n 12".len();
    let (head, rest) = (&command(12)[..cut], &command(12)[cut..]);
    assert_eq!(met(&format!("{head}\n{head}\n{rest}\n{rest}\n")), (vec![], 2));
}

#[test]
fn a_list_keeps_the_counts() {
    let list = capture(&format!("{}\n{}\n{}\n", command(1), command(2), command(1))).list("net");
    assert_eq!(counts(list.as_bytes()), HashMap::from([(3, 2), (5, 1)]));
    let read = crate::input::read_problems("list", list.as_bytes(), &crate::input::Overrides::default());
    assert_eq!(read.problems.iter().map(|one| one.line).collect::<Vec<_>>(), [3, 5]);
}

#[test]
fn other_operations_are_counted_by_name() {
    let captured = capture("MIOpen(HIP): Command [LogCmdX] ./bin/MIOpenDriver poolfp16 -M 0 --input 1x2\n");
    assert_eq!(captured.unsupported, BTreeMap::from([("poolfp16".to_string(), 1)]));
    assert_eq!((captured.unread, captured.commands), (0, 0));
}

#[test]
fn old_releases_tell_the_direction_by_the_function() {
    let old = command(3).replace(" -F 1", "").replace("MIOpen(HIP): Command [LogCmdConvolution]", "x:");
    assert_eq!(met(&old), (vec![], 1));
    assert_eq!(met(&old.replace("x:", "miopenConvolutionForward:")), (vec![(3, 1)], 0));
}

#[test]
fn lines_without_end_are_left_out() {
    let long = format!("{} {}\n{}\n", command(1), "x".repeat(MAX_LINE), command(2));
    let mut pieces = Capture::default();
    for piece in long.as_bytes().chunks(1000) {
        pieces.feed(piece);
    }
    let captured = pieces.finish();
    assert_eq!((captured.problems.len(), captured.unread), (1, 1));
}

proptest! {
    #[test]
    fn nothing_panics_and_pieces_do_not_matter(
        lines in prop::collection::vec((1..9_u32, 0..400_usize, 0..3_u8), 0..12), size in 1..200_usize,
    ) {
        let mut log = Vec::new();
        for (n, cut, ending) in lines {
            let line = command(n).into_bytes();
            log.extend_from_slice(&line[..cut.min(line.len())]);
            log.extend_from_slice([&b"\n"[..], b"\xff", b""][usize::from(ending)]);
        }
        let mut whole = Capture::default();
        whole.feed(&log);
        let mut pieces = Capture::default();
        for piece in log.chunks(size) {
            pieces.feed(piece);
        }
        prop_assert_eq!(whole.finish(), pieces.finish());
    }
}
