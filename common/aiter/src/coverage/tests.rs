//! Which rows are found.

use super::*;

fn sheet(name: &str, text: &str) -> Sheet {
    Sheet::of(Table::parse(Path::new(name), text.as_bytes().to_vec()).unwrap(), None).unwrap()
}

const TUNED: &str =
    "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw
gfx942,304,32,512,512,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,5.0,k,0.0,1,1
gfx942,304,4,512,512,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,-1,k,0.0,1,1
gfx950,256,64,512,512,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,5.0,k,0.0,1,1
";

#[test]
fn shapes_are_found_as_aiter_looks_them_up() {
    let tuned = [sheet("bf16_tuned_gemm.csv", TUNED)];
    // A file of a model that tells less, with sizes that are padded, and one that was never measured.
    let untuned = sheet(
        "llama_untuned_gemm_bf16.csv",
        "M,N,K,bias,dtype,outdtype,scaleAB\n32, 512,512,False,torch.bfloat16,torch.bfloat16,False\n\n\
        20,512,512,0,torch.bfloat16,torch.bfloat16,False\n4,512,512,False,torch.bfloat16,torch.bfloat16,False\n",
    );
    let shapes = shapes_of(&untuned);
    let covered = coverage(&tuned, &shapes, &[], &Rules::default());
    let of = |gpu: &str| covered.iter().filter(|one| one.gpu == gpu).map(|one| one.presence).collect::<Vec<_>>();
    // Whatever its time is: what look-ups find is used. It is tuned once more.
    assert_eq!(of("gfx942-304"), [Presence::Exact, Presence::Padded(32), Presence::Exact]);
    assert_eq!(measured(&tuned, &shapes, &"gfx942-304".parse().unwrap()), [true, false, false]);
    assert_eq!(of("gfx950-256"), [Presence::Missing; 3]);
    let counts = summary(&covered)[&("gemm_a16w16", "gfx942-304".to_string())];
    assert_eq!(counts.to_string(), "2 tuned, 1 padded, 0 missing");
    let asked = coverage(&tuned, &shapes, &["gfx942-80".parse().unwrap()], &Rules::default());
    assert!(asked.iter().all(|one| one.presence == Presence::Missing && one.gpu == "gfx942-80"));
}

#[test]
fn what_is_new_is_added_and_spelled_as_aiter_does() {
    let family = sheet("bf16_untuned_gemm.csv", "M,N,K").family;
    let shape = |m: &str| Shape {
        family,
        key: Key(vec![
            ("gfx", Value::of("gfx942")),
            ("M", Value::of(m)),
            ("N", Value::of("8")),
            ("K", Value::of("8")),
            ("bias", Value::of("False")),
        ]),
        times: 2,
    };
    let mut table = Table::parse(Path::new("x.csv"), b"M,N,K,bias\n1, 8,8,False".to_vec()).unwrap();
    assert_eq!(extend(&mut table, family, &[&shape("1"), &shape("2"), &shape("2")]), 1);
    assert_eq!(table.to_bytes(), b"M,N,K,bias\n1, 8,8,False\n2,8,8,False\n");
    assert_eq!(gathered([shape("1"), shape("2"), shape("1")]).iter().map(|s| s.times).collect::<Vec<_>>(), [4, 2]);
}

const MOE: &str =
    "token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1";

/// A row of a mixture of experts.
fn experts(token: u32, activation: &str) -> String {
    format!("{token},4096,512,8,2,ActivationType.{activation},torch.bfloat16,a,b,QuantType.No,1,0")
}

fn presences(tuned: &Sheet, untuned: &Sheet) -> Vec<Presence> {
    let covered =
        coverage(std::slice::from_ref(tuned), &shapes_of(untuned), &["gfx942-304".parse().unwrap()], &Rules::default());
    covered.into_iter().map(|one| one.presence).collect()
}

#[test]
fn tokens_are_looked_up_rounded_and_nothing_else_is() {
    let mut text = format!("gfx,cu_num,{MOE},us,_tag\n");
    for (token, activation, us, tag) in [
        (96, "Silu", "5.0", ""),
        (128, "Silu", "0.0", ""),
        (8, "Silu", "5.0", "flydsl_fallback"),
        (16, "Gelu", "5.0", ""),
        (32768, "Silu", "5.0", ""),
    ] {
        text += &format!("gfx942,304,{},{us},{tag}\n", experts(token, activation));
    }
    let tuned = sheet("tuned_fmoe.csv", &text);
    let asked = [128, 96, 100, 60, 8, 16, 40_000, 200_000].map(|token| experts(token, "Silu")).join("\n");
    use Presence::{Exact, Missing, OtherActivation, Padded};
    assert_eq!(
        presences(&tuned, &sheet("untuned_fmoe.csv", &format!("{MOE}\n{asked}"))),
        [Exact, Padded(128), Padded(128), Missing, Missing, OtherActivation(16), Padded(32768), Padded(32768)]
    );
}

#[test]
fn grouped_experts_are_looked_up_by_less_than_their_files_tell() {
    let text =
        format!("gfx,cu_num,{MOE},us\ngfx942,304,{},1.0\ngfx942,80,{},1.0\n", experts(4, "Silu"), experts(8, "Silu"));
    let tuned = sheet("tuned_grouped_fmoe.csv", &text);
    let asked = [4, 3, 8, 16].map(|token| experts(token, "Silu") + ",GateMode.SEPARATED").join("\n");
    use Presence::{Exact, Missing, OtherUnits, Padded};
    let untuned = sheet("untuned_grouped_fmoe.csv", &format!("{MOE},gate_mode\n{asked}"));
    assert_eq!(presences(&tuned, &untuned), [Exact, Padded(4), OtherUnits(8), Missing]);
}

#[test]
fn batches_are_rounded_once() {
    let tuned = sheet(
        "bf16_tuned_batched_gemm.csv",
        "gfx,cu_num,B,M,N,K,us\ngfx942,304,16,16,8,8,1.0\ngfx942,304,16,64,8,8,1.0\ngfx942,304,16,80,8,8,1.0\n",
    );
    let untuned = sheet("bf16_untuned_batched_gemm.csv", "B,M,N,K\n16,16,8,8\n16,3,8,8\n16,40,8,8\n16,70,8,8\n");
    use Presence::{Exact, Missing, Padded};
    assert_eq!(presences(&tuned, &untuned), [Exact, Padded(16), Padded(64), Missing]);
}

#[test]
fn small_numbers_of_rows_are_rounded_to_sixteen() {
    let tuned = sheet("a8w8_blockscale_tuned_gemm.csv", "gfx,cu_num,M,N,K,libtype,us\ngfx942,304,16,512,7168,ck,10\n");
    let untuned = sheet(
        "a8w8_blockscale_untuned_gemm.csv",
        "M,N,K\n1,512,7168\n8,512,7168\n9,512,7168\n16,512,7168\n17,512,7168\n",
    );
    use Presence::{Exact, Missing, Padded};
    assert_eq!(presences(&tuned, &untuned), [Padded(16), Padded(16), Padded(16), Exact, Missing]);
}

#[test]
fn packed_weights_are_written_as_tuners_read_them() {
    let family = sheet("untuned_fmoe.csv", MOE).family;
    let mut table = Table::parse(Path::new("x.csv"), b"token,q_dtype_w\n1,torch.int4\n".to_vec()).unwrap();
    let shape = |token: &str| {
        let key = Key(vec![("token", Value::of(token)), ("q_dtype_w", Value::of("torch.uint32"))]);
        Shape { family, key, times: 1 }
    };
    assert_eq!(extend(&mut table, family, &[&shape("1"), &shape("2")]), 1);
    assert_eq!(table.to_bytes(), b"token,q_dtype_w\n1,torch.int4\n2,torch.int4\n");
}

const GDN: &str = "gfx,cu_num,dtype,K,V,BT,H,Hg,is_varlen,use_h0,store_fs,snapshot_bf16,state_bf16,T_flat,N,total_chunks,\
    max_seq_chunks";

#[test]
fn flags_of_gdn_are_true_where_the_text_is() {
    let untuned = sheet(
        "chunk_gdn_h_opt_untuned.csv",
        &format!("{GDN}\ngfx950,256,torch.bfloat16,128,128,64,8,2,True,True,True,True,True,1,1,32,32\n"),
    );
    let with = |flag: &str| {
        format!("{GDN},BV,us\ngfx950,256,torch.bfloat16,128,128,64,8,2,{flag},True,True,True,True,1,1,32,32,64,5.0\n")
    };
    let of = |tuned: &[Sheet]| coverage(tuned, &shapes_of(&untuned), &[], &Rules::default())[0].presence;
    let file = |flag: &str| sheet("chunk_gdn_h_opt_tuned.csv", &with(flag));
    assert_eq!(of(&[file("True")]), Presence::Exact);
    assert_eq!(of(&[file(" True")]), Presence::Exact);
    // The look-up reads the only file itself. Several are put together by pandas, which writes `True`; 1 stays a number.
    let other = sheet("x_chunk_gdn_h_opt_tuned.csv", &with("False"));
    for (flag, alone, together) in [("TRUE", false, true), ("true", false, true), ("1", false, false)] {
        assert_eq!(of(&[file(flag)]) == Presence::Exact, alone, "{flag}");
        assert_eq!(of(&[file(flag), other.clone()]) == Presence::Exact, together, "{flag}");
    }
}

/// What look-ups of aiter e4048607 find of one row, read by pandas: `gfx950`, 256, 64, ... are asked for.
#[test]
fn text_is_compared_with_its_white_space_where_look_ups_do_not_strip() {
    use Presence::{Exact, Missing};
    let gpu = ["gfx950-256".parse().unwrap()];
    let untuned = sheet("a8w8_untuned_gemm.csv", "M,N,K,q_dtype_w\n64,8,8,torch.int8\n");
    let row = |row: &str| sheet("a8w8_tuned_gemm.csv", &format!("gfx,cu_num,M,N,K,q_dtype_w,us\n{row},5.0\n"));
    for (cells, expected) in [
        ("gfx950,256,64,8,8,torch.int8", Exact),
        ("gfx950,256 , 64.0,8,\t8,torch.int8", Exact),
        ("gfx950 ,256,64,8,8,torch.int8", Missing),
        ("gfx950,256,64,8,8, torch.int8", Missing),
        ("gfx950,256,\"64 \",8,8,\"torch.int8\"", Exact),
    ] {
        let tuned = [row(cells)];
        let shapes = shapes_of(&untuned);
        assert_eq!(coverage(&tuned, &shapes, &gpu, &Rules::default())[0].presence, expected, "{cells}");
        assert_eq!(measured(&tuned, &shapes, &gpu[0]), [expected == Exact], "{cells}");
    }
}

const BF16: &str = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,us\n";

fn bf16(m: &str, bias: &str) -> String {
    format!("gfx950,256,{m},8,8,{bias},torch.bfloat16,torch.bfloat16,False,False,5.0\n")
}

#[test]
fn one_odd_cell_costs_the_rows_of_its_column() {
    let gpu = ["gfx950-256".parse().unwrap()];
    let untuned = sheet(
        "bf16_untuned_gemm.csv",
        "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle\n64,8,8,False,torch.bfloat16,torch.bfloat16,False,False\n",
    );
    let is_found = |tuned: &[Sheet]| {
        let presence = coverage(tuned, &shapes_of(&untuned), &gpu, &Rules::default())[0].presence;
        assert_eq!(measured(tuned, &shapes_of(&untuned), &gpu[0]), [presence == Presence::Exact]);
        presence == Presence::Exact
    };
    let file = |name: &str, rows: &[String]| sheet(name, &(BF16.to_string() + &rows.concat()));
    let of = |rows: &[String]| [file("bf16_tuned_gemm.csv", rows)];
    assert!(is_found(&of(&[bf16("64", "False"), bf16("128", "fALSE")])));
    assert!(is_found(&of(&[bf16("64", "0"), bf16("128", "1.0")])));
    assert!(is_found(&of(&[bf16("64", "False"), bf16("128", "")])));
    for (m, bias) in [("128", "1"), ("128", "0"), ("128", "0.0"), ("128", "False "), ("x", "False")] {
        assert!(!is_found(&of(&[bf16("64", "False"), bf16(m, bias)])), "{m:?} {bias:?}");
    }
    // aiter puts files together, and reads the result.
    let other = |bias: &str| file("x_bf16_tuned_gemm.csv", &[bf16("128", bias)]);
    let first = || of(&[bf16("64", "False")])[0].clone();
    assert!(is_found(&[first(), other("TRUE")]));
    assert!(is_found(&[first(), other("1")]), "both become numbers");
    assert!(!is_found(&[first(), other("1.0")]), "each stays what it is");
    let without = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,us\n\
        gfx950,256,128,8,8,False,torch.bfloat16,torch.bfloat16,False,5.0\n";
    let without = sheet("y_bf16_tuned_gemm.csv", without);
    assert!(is_found(&[first(), without.clone()]), "bpreshuffle is filled with 0");
    let empty = [bf16("64", "False"), bf16("192", "False").replace("False,5.0", ",5.0")];
    assert!(!is_found(&[of(&empty)[0].clone(), without]), "0 stands beside False and what is no number");
    let spaced = BF16.replace(",bias,", ", bias,") + &bf16("64", "False");
    assert!(!is_found(&[sheet("bf16_tuned_gemm.csv", &spaced)]), "a name with white space is another");
}

/// What `_find_grouped_config` of aiter e4048607 finds of one row.
#[test]
fn grouped_experts_compare_texts_and_take_what_is_empty() {
    use Presence::{Exact, Missing, OtherUnits};
    let columns: Vec<&str> = "gfx,cu_num".split(',').chain(MOE.split(',')).collect();
    let usual = format!("gfx1250,256,{}", experts(64, "Silu"));
    let untuned = sheet("untuned_grouped_fmoe.csv", &format!("{MOE}\n{}\n", experts(64, "Silu")));
    let with = |changes: &[(&str, &str)]| {
        let cells = columns.iter().zip(usual.split(',')).map(|(column, cell)| {
            changes.iter().find(|(changed, _)| changed == column).map_or(cell, |(_, cell)| *cell)
        });
        sheet(
            "tuned_grouped_fmoe.csv",
            &format!("{},us\n{},1.0\n", columns.join(","), cells.collect::<Vec<_>>().join(",")),
        )
    };
    let gpu = ["gfx1250-256".parse().unwrap()];
    for (column, cell, expected) in [
        ("token", "64.0", Missing),
        ("token", "064", Missing),
        ("token", " 64 ", Exact),
        ("token", "\"64\"", Exact),
        ("token", "", Exact),
        ("token", " ", Missing),
        ("topk", "", Exact),
        ("dtype", "", Exact),
        ("dtype", " torch.bfloat16 ", Exact),
        ("gfx", "", Exact),
        ("gfx", " gfx1250", Exact),
        ("cu_num", "128", OtherUnits(64)),
        ("cu_num", "256.0", OtherUnits(64)),
        ("use_g1u1", "0", Exact),
    ] {
        let found = coverage(&[with(&[(column, cell)])], &shapes_of(&untuned), &gpu, &Rules::default());
        assert_eq!(found[0].presence, expected, "{column} {cell:?}");
    }
}

#[test]
fn a_table_of_gdn_is_read_whole_or_not_at_all() {
    let row = |gpu: &str, h: &str| format!("{gpu},torch.bfloat16,128,128,64,{h},2,True,True,True,True,True,1,1,32,32");
    let untuned = sheet("chunk_gdn_h_opt_untuned.csv", &format!("{GDN}\n{}\n", row("gfx950,256", "8")));
    let file = |h: &str, other: &str| {
        let rows = [row("gfx950 , 256", h) + ", 64 ,5.0\n", row("gfx950,256", other) + ",32,5.0\n"];
        sheet("chunk_gdn_h_opt_tuned.csv", &format!("# by hand\n{GDN},BV,us\n# these\n{}", rows.concat()))
    };
    let of =
        |tuned: &[Sheet]| coverage(tuned, &shapes_of(&untuned), &["gfx950-256".parse().unwrap()], &Rules::default());
    let is_found = |tuned: &[Sheet]| of(tuned)[0].presence == Presence::Exact;
    assert!(is_found(&[file(" 8", "16")]));
    assert!(!is_found(&[file("8", "16.0")]), "int raises an error");
    assert!(!is_found(&[file("8", "")]), "int raises an error");
    let other = sheet("x_chunk_gdn_h_opt_tuned.csv", &format!("{GDN},BV,us\n{},32,5.0\n", row("gfx950,80", "8")));
    assert!(!is_found(&[file("8", "16"), other]), "pandas takes comments for rows");
}

#[test]
fn shapes_that_do_not_tell_all_are_told() {
    let family = |name: &str| name.parse::<crate::FamilyName>().unwrap().0;
    let told = |name: &str, text: &str| {
        let table = Table::parse(Path::new("u.csv"), text.as_bytes().to_vec()).unwrap();
        lacking(&Sheet::of(table, Some(family(name))).unwrap()).map(|error| error.to_string())
    };
    let expected = "u.csv:1: column \"M\": found x,y, expected M,N,K of ck_gemm_a8w8_blockscale";
    assert_eq!(told("ck_gemm_a8w8_blockscale", "x,y\n2,3\n").as_deref(), Some(expected));
    let expected = "u.csv:1: column \"b\": found B,M,N,K, expected b,m,n,k of batched_gemm_a8w8_mxscale";
    assert_eq!(told("batched_gemm_a8w8_mxscale", "B,M,N,K\n1,2,3,4\n").as_deref(), Some(expected));
    let expected = "u.csv:3: column \"K\": found nothing, expected M,N,K of ck_gemm_a8w8_blockscale";
    assert_eq!(told("ck_gemm_a8w8_blockscale", "M,N,K\n1,2,3\n1,2\n").as_deref(), Some(expected));
    assert_eq!(told("gemm_a16w16", "M,N,K,bias,dtype,outdtype,scaleAB\n"), None, "what is left out has a default");
    assert_eq!(told("gdn_k5", "dtype,K,V,BT,H,Hg,is_varlen,use_h0,store_fs\n"), None);
}
