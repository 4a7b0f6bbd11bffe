//! `bluefin bench stability`: whether tuning comes to the same.

use crate::common::{bluefin, expect, json};

#[test]
fn whether_tuning_comes_to_the_same_is_measured_idle_and_beside_busy_loops() {
    let arguments =
        ["bench", "stability", "--repeats", "2", "--busy", "1", "--problems", "1", "--candidates", "2", "--json"];
    let rows = json(&expect(bluefin().args(arguments), 0));
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["busy_loops"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1]);
    for row in rows {
        assert_eq!((row["runs"].as_u64(), row["device"].as_str()), (Some(2), Some("host")), "{row}");
        let number = |name: &str| row[name].as_f64().unwrap();
        assert!(number("mean_regret") <= number("worst_regret") && number("mean_regret") >= 0.0, "{row}");
        assert!(number("winners") <= number("changes") + 1.0, "{row}");
    }
}
