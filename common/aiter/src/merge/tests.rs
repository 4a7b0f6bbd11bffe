//! What becomes of rows.

use std::path::Path;

use super::*;
use crate::Table;

const HEADER: &str = "gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n";

fn sheet(text: &str) -> Sheet {
    sheet_of(&format!("{HEADER}{text}"))
}

fn sheet_of(text: &str) -> Sheet {
    let table = Table::parse(Path::new("a4w4_blockscale_tuned_gemm.csv"), text.as_bytes().to_vec()).unwrap();
    Sheet::of(table, None).unwrap()
}

fn row(m: u32, us: &str, name: &str) -> String {
    format!("gfx950,256,{m},512,512,1,0,{us},{name},1.0,1.0,0.0\n")
}

fn merged(base: &str, newer: &str, policy: Policy) -> (String, Vec<Fate>) {
    let terms = Terms { policy, error_limit: None };
    let (sheet, told) = merge(sheet(base), &[sheet(newer)], terms).unwrap();
    let text = String::from_utf8(sheet.table.to_bytes()).unwrap();
    (text.strip_prefix(HEADER).unwrap().to_string(), told.iter().map(|told| told.fate).collect())
}

#[test]
fn policies_decide_between_rows_of_a_key() {
    let base = row(1, "10.0", "a") + &row(2, "10.0", "a") + &row(4, "-1", "a");
    let newer = row(1, "9.8", "b") + &row(2, "11.0", "b") + &row(4, "50.0", "b");
    let expected = |names: [(&str, &str); 3]| {
        [1, 2, 4].iter().zip(names).map(|(m, (us, name))| row(*m, us, name)).collect::<String>()
    };
    let (text, fates) = merged(&base, &newer, Policy::Newest);
    assert_eq!(text, expected([("9.8", "b"), ("11.0", "b"), ("50.0", "b")]));
    assert_eq!(fates, [Fate::Replaced; 3]);
    let (text, fates) = merged(&base, &newer, Policy::Fastest);
    assert_eq!(text, expected([("9.8", "b"), ("10.0", "a"), ("50.0", "b")]));
    assert_eq!(fates, [Fate::Replaced, Fate::Kept, Fate::Replaced]);
    let (text, fates) = merged(&base, &newer, Policy::Improved(3.0));
    assert_eq!(text, expected([("10.0", "a"), ("10.0", "a"), ("50.0", "b")]));
    assert_eq!(fates, [Fate::Kept, Fate::Kept, Fate::Replaced]);
}

#[test]
fn new_rows_go_where_they_belong_and_bad_ones_nowhere() {
    let base = row(1, "10.0", "a") + &row(4, "10.00", "a");
    let (text, fates) =
        merged(&base, &(row(2, "5.0", "b") + &row(8, "0", "b") + &row(4, "10.00", "a")), Policy::Fastest);
    assert_eq!(text, row(1, "10.0", "a") + &row(2, "5.0", "b") + &row(4, "10.00", "a"));
    assert_eq!(fates, [Fate::Added, Fate::Refused, Fate::Same]);
    // What aiter did not sort is not sorted.
    let base = row(4, "10.0", "a") + " \n" + &row(1, "10.0", "a");
    let (text, _) = merged(&base, &(row(3, "5.0", "b") + &row(2, "5.0", "b")), Policy::Fastest);
    assert_eq!(text, base + &row(2, "5.0", "b") + &row(3, "5.0", "b"));
}

#[test]
fn nothing_new_changes_no_byte() {
    let base = row(4, "10.0", "a") + "gfx950, 256,1,512,512,1,0,3.10,a,1.0,1.0,0.0";
    assert_eq!(merged(&base, &row(4, "20", "b"), Policy::Fastest).0, base);
}

#[test]
fn of_rows_that_share_a_key_one_remains_once_a_new_one_stands() {
    let base = row(1, "10.0", "a") + &row(1, "9.0", "b") + &row(1, "11.0", "c");
    for policy in [Policy::Fastest, Policy::Newest, Policy::Improved(3.0)] {
        assert_eq!(merged(&base, "", policy).0, base);
        let (text, fates) = merged(&base, &base, policy);
        assert_eq!((text.as_str(), fates), (base.as_str(), vec![Fate::Same; 3]));
    }
    assert_eq!(merged(&base, &row(1, "9.5", "d"), Policy::Fastest), (base.clone(), vec![Fate::Kept]));
    assert_eq!(merged(&base, &row(1, "8.0", "d"), Policy::Fastest).0, row(1, "8.0", "d"));
    assert_eq!(merged(&base, &row(1, "20.0", "d"), Policy::Newest).0, row(1, "20.0", "d"));
}

#[test]
fn columns_are_matched_by_name() {
    let legacy = sheet_of(
        "cu_num,M,N,K,us,kernelName,kernelId,splitK,tflops,bw,errRatio\n256,2,512,512,5.0,b,1,0,1.0,1.0,0.0\n",
    );
    let terms = Terms { policy: Policy::Fastest, error_limit: Some(0.05) };
    let (sheet, _) = merge(sheet(&row(1, "10.0", "a")), std::slice::from_ref(&legacy), terms).unwrap();
    assert_eq!(sheet.table.to_bytes(), (HEADER.to_string() + &row(1, "10.0", "a") + &row(2, "5.0", "b")).into_bytes());
    // The other way the column is put in, and old rows are of what aiter takes them for.
    let (merged, _) =
        merge(legacy, &[sheet_of(&(HEADER.to_string() + &row(1, "10.0", "a").replace("gfx950", "gfx1250")))], terms)
            .unwrap();
    assert_eq!(
        String::from_utf8(merged.table.to_bytes()).unwrap(),
        "gfx,cu_num,M,N,K,us,kernelName,kernelId,splitK,tflops,bw,errRatio\ngfx1250,256,1,512,512,10.0,a,1,0,1.0,1.0,0.0\n\
        gfx950,256,2,512,512,5.0,b,1,0,1.0,1.0,0.0\n"
    );
}

const MOE: &str =
    "token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1";
const SHAPE: &str = "4096,512,8,2,ActivationType.Silu,torch.bfloat16,a,b,QuantType.No,1,0";

fn moe(text: &str) -> Sheet {
    Sheet::of(Table::parse(Path::new("tuned_fmoe.csv"), text.as_bytes().to_vec()).unwrap(), None).unwrap()
}

#[test]
fn columns_that_are_missing_are_put_in_where_a_new_row_says_something() {
    let results = "block_m,ksplit,us1,kernelName1,err1,us2,kernelName2,err2,us,run_1stage";
    let found = |us: &str| format!("32,0,{us},k,0.0%,0.0,,0.0%,{us},1");
    let base = format!(
        "cu_num,{MOE},{results},tflops,bw,_tag\n80,1,{SHAPE},{},0,0,\n128,2,{SHAPE},{},0,0,\n",
        found("9.0"),
        found("8.0")
    );
    let header = format!("gfx,cu_num,{MOE},{results},xbf16,flat,mood,tflops,bw\n");
    let terms = Terms { policy: Policy::Fastest, error_limit: None };
    let new = |row: &str| merge(moe(&base), &[moe(&(header.clone() + row))], terms).unwrap().0.table.to_bytes();
    // Nothing better: nothing is put in.
    assert_eq!(new(&format!("gfx942,80,1,{SHAPE},{},0,2,good,0,0\n", found("9.0"))), base.as_bytes());
    let merged = String::from_utf8(new(&format!("gfx950,128,2,{SHAPE},{},0,2,good,0,0\n", found("7.0")))).unwrap();
    let expected = format!(
        "gfx,cu_num,{MOE},{results},flat,mood,tflops,bw,_tag\ngfx942,80,1,{SHAPE},{},0,,0,0,\ngfx950,128,2,{SHAPE},{},2,good,0,0,\n",
        found("9.0"),
        found("7.0")
    );
    assert_eq!(merged, expected);
}

#[test]
fn untuned_files_keep_their_bytes() {
    let untuned = |text: &str| {
        let table = Table::parse(Path::new("a4w4_blockscale_untuned_gemm.csv"), text.as_bytes().to_vec()).unwrap();
        Sheet::of(table, None).unwrap()
    };
    let base = untuned("M,N,K\n4, 8,8\n1,8,8\n4,8,8");
    let terms = Terms { policy: Policy::Improved(3.0), error_limit: None };
    let (same, told) = merge(base.clone(), std::slice::from_ref(&base), terms).unwrap();
    assert_eq!((&same, told.iter().map(|one| one.fate).collect::<Vec<_>>()), (&base, vec![Fate::Same; 3]));
    let (more, _) = merge(base, &[untuned("M,N,K\n1,8,8\n2,8,8\n2,8,8\n")], terms).unwrap();
    assert_eq!(more.table.to_bytes(), b"M,N,K\n4, 8,8\n1,8,8\n4,8,8\n2,8,8\n");
}

#[test]
fn rows_among_which_look_ups_choose_stay() {
    let grouped = |rows: &[(&str, &str)]| {
        let mut text = format!("gfx,cu_num,{MOE},max_m,us\n");
        for (max_m, us) in rows {
            text += &format!("gfx1250,256,512,{SHAPE},{max_m},{us}\n");
        }
        Sheet::of(Table::parse(Path::new("tuned_grouped_fmoe.csv"), text.into_bytes()).unwrap(), None).unwrap()
    };
    let terms = Terms { policy: Policy::Fastest, error_limit: None };
    let base = grouped(&[("3072", "517.8"), ("384", "468.0")]);
    let (merged, _) = merge(base.clone(), std::slice::from_ref(&base), terms).unwrap();
    assert_eq!(merged, base);
    let (merged, _) = merge(base, &[grouped(&[("256", "400.0")])], terms).unwrap();
    assert_eq!(merged.table.to_bytes(), grouped(&[("3072", "517.8"), ("256", "400.0")]).table.to_bytes());
}

#[test]
fn a_row_goes_into_the_file_that_has_its_key() {
    let folder = Path::new("configs");
    let named = |name: &str, text: &str| {
        let table = Table::parse(&folder.join(name), format!("{HEADER}{text}").into_bytes()).unwrap();
        Sheet::of(table, None).unwrap()
    };
    let sheets = [
        named("a4w4_blockscale_tuned_gemm.csv", &row(1, "10.0", "a")),
        named("x_a4w4_blockscale_tuned_gemm.csv", &row(2, "10.0", "a")),
    ];
    let newer = [named("new_a4w4_blockscale_tuned_gemm.csv", &(row(2, "5.0", "b") + &row(3, "5.0", "b")))];
    let terms = Terms { policy: Policy::Improved(3.0), error_limit: None };
    let (changed, told, failed) = into_folder(folder, &sheets, &newer, terms);
    assert!(failed.is_empty());
    let texts: Vec<_> = changed.iter().map(|sheet| (sheet.path(), sheet.table.to_bytes())).collect();
    let expected = |name: &str, text: String| (folder.join(name), format!("{HEADER}{text}").into_bytes());
    let [one, two] = [
        expected("a4w4_blockscale_tuned_gemm.csv", row(1, "10.0", "a") + &row(3, "5.0", "b")),
        expected("x_a4w4_blockscale_tuned_gemm.csv", row(2, "5.0", "b")),
    ];
    assert_eq!(texts, [(one.0.as_path(), one.1), (two.0.as_path(), two.1)]);
    assert_eq!(told.len(), 2);
    // What can not be merged is told, and the rest is.
    let mut odd = newer[0].clone();
    odd.kind = SheetKind::Untuned;
    let (changed, _, failed) = into_folder(folder, &sheets, &[odd, newer[0].clone()], terms);
    assert_eq!((changed.len(), failed.len()), (2, 1));
    // Where there is none it is made.
    let (changed, _, _) = into_folder(folder, &[], &newer, terms);
    assert_eq!(changed[0].path(), folder.join("a4w4_blockscale_tuned_gemm.csv"));
    let (changed, _, _) = into_folder(folder, &changed, &newer, terms);
    assert!(changed.is_empty(), "again changes nothing");
}

#[test]
fn what_differs_too_much_is_refused() {
    let terms = Terms { policy: Policy::Newest, error_limit: Some(0.05) };
    let wrong = row(1, "1.0", "a").replace(",0.0\n", ",0.06\n");
    let (_, told) = merge(sheet(""), &[sheet(&wrong)], terms).unwrap();
    assert_eq!(told[0].reason.as_deref(), Some("errRatio: found 0.06, expected at most 0.05"));
}
