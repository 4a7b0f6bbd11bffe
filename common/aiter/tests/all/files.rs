//! Every file is read, checked and written back.

use std::path::{Path, PathBuf};

use bluefin_aiter::check::{FileReport, Rule, Strictness, check};
use bluefin_aiter::coverage::{coverage, shapes_of, summary};
use bluefin_aiter::diff::{Limits, diff};
use bluefin_aiter::merge::{Fate, Policy, Terms, merge};
use bluefin_aiter::{Files, Rules, Sheet, SheetKind, Table};
use bluefin_test_support::{data, data_path};

/// Their names, as they are in aiter's folder.
fn names() -> Vec<String> {
    let folder = data_path("aiter");
    let mut names = Vec::new();
    for (prefix, folder) in [("", folder.clone()), ("model_configs/", folder.join("model_configs"))] {
        for entry in folder.read_dir().unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            names.extend(name.strip_suffix(".bz2").map(|name| format!("{prefix}{name}")));
        }
    }
    names.sort();
    names
}

fn sheet(name: &str) -> Sheet {
    let table = Table::parse(&PathBuf::from(name), data(&format!("aiter/{name}"))).unwrap();
    Sheet::of(table, None).unwrap()
}

#[test]
fn every_file_is_read_and_written_back_byte_for_byte() {
    let names = names();
    assert_eq!(names.len(), 36);
    for name in &names {
        let sheet = sheet(name);
        assert!(sheet.table.to_bytes() == data(&format!("aiter/{name}")), "{name}");
        assert_eq!(sheet.kind == SheetKind::Untuned, name.contains("untuned"), "{name}");
    }
}

#[test]
fn what_is_merged_with_itself_stays_as_it_is() {
    for name in names() {
        let sheet = sheet(&name);
        for policy in [Policy::Fastest, Policy::Improved(3.0), Policy::Newest] {
            let (merged, told) =
                merge(sheet.clone(), std::slice::from_ref(&sheet), Terms { policy, error_limit: None }).unwrap();
            assert!(told.iter().all(|row| row.fate == Fate::Same), "{name}");
            assert!(merged.table.to_bytes() == sheet.table.to_bytes(), "{name}");
        }
        let same = diff(std::slice::from_ref(&sheet), std::slice::from_ref(&sheet), Limits::default());
        assert!(same.changes.is_empty(), "{name}");
    }
}

/// `FILE: RULE COUNT ...` of every file with findings.
fn told(reports: &[FileReport]) -> Vec<String> {
    let counts =
        |report: &FileReport| report.counts.iter().map(|(rule, count)| format!(" {rule} {count}")).collect::<String>();
    let broken = reports.iter().filter(|report| !report.counts.is_empty());
    broken.map(|report| format!("{}:{}", Path::new(&report.path).display(), counts(report))).collect()
}

#[test]
fn what_is_wrong_with_them_is_found() {
    let sheets: Vec<Sheet> = names().iter().map(|name| sheet(name)).collect();
    let sheets = Files { sheets, torn: Vec::new() };
    let reports = check(&sheets, &Strictness::default());
    let expected = [
        "a8w8_bpreshuffle_tuned_gemm.csv: error-ratio 14",
        "model_configs/dsv3_fp4_tuned_fmoe.csv: no-gfx 1 tflops 48",
        "model_configs/glm47_fp8_tuned_fmoe.csv: no-gfx 1 dead 4",
        "model_configs/glm5_fp4_tuned_fmoe.csv: short 11 tflops 5",
        "model_configs/gptoss_fp4_tuned_fmoe.csv: no-gfx 1",
        "model_configs/qwen3next_80b_fp8_tuned_fmoe.csv: no-gfx 1 error-ratio 2",
        "tuned_grouped_fmoe.csv: dead 1",
    ];
    assert_eq!(told(&reports), expected);
    let Some(slower) = reports.iter().find(|report| report.path.ends_with("tuned_grouped_fmoe.csv")) else {
        panic!("there is one")
    };
    assert_eq!((slower.rows, slower.findings[0].line, slower.findings[0].rule), (111, 80, Rule::Dead));
    let message = &slower.findings[0].message;
    assert!(
        message.ends_with(
            "with 468.0528 us, which tuned_grouped_fmoe.csv:73 has with 517.8896 us: look-ups take the faster one"
        ),
        "{message}"
    );
    // Rows for a smaller GPU of the same architecture serve no larger one.
    let gpu = Some("gfx942-304".parse().unwrap());
    let reports = check(&sheets, &Strictness { gpu, ..Strictness::default() });
    let cus =
        reports.iter().filter_map(|report| report.counts.get(&Rule::Cus).map(|count| (report.path.clone(), *count)));
    assert_eq!(
        cus.collect::<Vec<_>>(),
        [
            (PathBuf::from("a8w8_bpreshuffle_tuned_gemm.csv"), 37),
            (PathBuf::from("a8w8_tuned_batched_gemm.csv"), 1),
            (PathBuf::from("model_configs/qwen3_5_35b_chunk_gdn_h_opt_tuned.csv"), 184)
        ]
    );
}

#[test]
fn the_shapes_of_a_model_are_covered_where_they_were_tuned() {
    let tuned = [sheet("model_configs/dsv3_fp4_tuned_fmoe.csv")];
    let covered =
        coverage(&tuned, &shapes_of(&sheet("model_configs/dsv3_fp4_untuned_fmoe.csv")), &[], &Rules::default());
    let counts: Vec<_> =
        summary(&covered).into_iter().map(|((family, gpu), counts)| format!("{family} {gpu}: {counts}")).collect();
    assert_eq!(counts, ["ck_gemm_moe_2stages_codegen gfx950-256: 62 tuned, 0 padded, 0 missing"]);
}
