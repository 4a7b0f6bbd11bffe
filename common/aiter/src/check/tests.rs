//! What is told of rows that look-ups do not find, and of those that aiter refuses.

use std::path::Path;

use super::*;
use crate::Table;

fn sheet(name: &str, text: &str) -> Sheet {
    Sheet::of(Table::parse(Path::new(name), text.as_bytes().to_vec()).unwrap(), None).unwrap()
}

/// `LINE: RULE: MESSAGE` of these rules, of all files.
fn told(sheets: Vec<Sheet>, rules: &[Rule]) -> Vec<String> {
    let reports = check(&Files { sheets, torn: Vec::new() }, &Strictness::default());
    let findings = reports.iter().flat_map(|report| &report.findings);
    let asked = findings.filter(|finding| rules.contains(&finding.rule));
    asked.map(|finding| format!("{}: {}: {}", finding.line, finding.rule, finding.message)).collect()
}

const BF16: &str = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw\n";

fn bf16(m: &str, bias: &str) -> String {
    format!(
        "gfx950,256,{m},256,5120,{bias},torch.bfloat16,torch.float32,False,False,asm,5,13,7.9191,k,0.0,21.19,417.92\n"
    )
}

const NOT_FOUND: &[Rule] = &[Rule::Lost, Rule::Unreachable];

#[test]
fn a_column_of_two_types_is_told_with_its_lines() {
    let file = |name: &str, rows: &[String]| sheet(name, &(BF16.to_string() + &rows.concat()));
    let rows = [bf16("64", "False"), bf16("128", "1"), bf16("192", "True"), bf16("256", "0.0")];
    let costs = "pandas takes the whole column for text, so that look-ups find no row of";
    let expected = [format!("3: lost: bias: found \"1\" (so in lines 5), expected True or False: {costs} the file")];
    assert_eq!(told(vec![file("bf16_tuned_gemm.csv", &rows)], NOT_FOUND), expected);
    let expected = [format!("2: lost: bias: found \"False \", expected True or False: {costs} the file")];
    assert_eq!(told(vec![file("bf16_tuned_gemm.csv", &[bf16("64", "False ")])], NOT_FOUND), expected);
    let expected = [format!("2: lost: M: found \"x\", expected a number: {costs} the file")];
    assert_eq!(told(vec![file("bf16_tuned_gemm.csv", &[bf16("x", "False"), bf16("1", "False")])], NOT_FOUND), expected);
    for fine in ["fALSE", "TRUE", ""] {
        let rows = [bf16("64", "False"), bf16("128", fine)];
        assert!(told(vec![file("bf16_tuned_gemm.csv", &rows)], NOT_FOUND).is_empty(), "{fine}");
    }
    let several = |other: Sheet| told(vec![file("bf16_tuned_gemm.csv", &rows[..1]), other], NOT_FOUND);
    let together = "all files that aiter puts together";
    assert!(several(file("x_bf16_tuned_gemm.csv", &rows[1..2])).is_empty(), "both become numbers");
    let expected = [format!("2: lost: bias: found \"0.0\", expected True or False: {costs} {together}")];
    assert_eq!(several(file("x_bf16_tuned_gemm.csv", &rows[3..])), expected);
    let without = BF16.replace(",bpreshuffle", "") + &bf16("128", "False").replace(",False,asm", ",asm");
    let without = || sheet("x_bf16_tuned_gemm.csv", &without);
    assert!(several(without()).is_empty(), "both become numbers");
    let empty = [bf16("64", "False"), bf16("128", "False").replace(",False,asm", ",,asm")];
    let found = "found no such column, for which aiter writes 0";
    let expected = [format!("1: lost: bpreshuffle: {found}, expected True or False: {costs} {together}")];
    assert_eq!(told(vec![file("bf16_tuned_gemm.csv", &empty), without()], NOT_FOUND), expected);
}

#[test]
fn white_space_matters_where_look_ups_do_not_strip() {
    let row = |gfx: &str, kind: &str| format!("{gfx},256, 64 ,8,8,{kind},3,0,5.0,k,0.0,0.0,0.0\n");
    let header = "gfx,cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n";
    let of = |gfx: &str, kind: &str| {
        told(vec![sheet("a8w8_tuned_gemm.csv", &(header.to_string() + &row(gfx, kind)))], NOT_FOUND)
    };
    assert!(of("gfx950", "torch.int8").is_empty());
    let expected =
        "2: unreachable: q_dtype_w: found white space around \"torch.int8\", expected none: look-ups compare it";
    assert_eq!(of("gfx950", " torch.int8"), [expected]);
    let expected = "2: unreachable: gfx: found white space around \"gfx950\", expected none: look-ups compare it";
    assert_eq!(of("gfx950 ", "torch.int8"), [expected]);
    let names = header.replace(",M,", ", M,").to_string() + &row("gfx950", "torch.int8");
    let expected = "1: column: column \" M\": found white space around it, expected \"M\": to look-ups it is another";
    assert_eq!(told(vec![sheet("a8w8_tuned_gemm.csv", &names)], &[Rule::Column]), [expected]);
}

const GROUPED: &str = "gfx,cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,\
    doweight_stage1,tile_m,us\n";

fn grouped(gfx: &str, token: &str, dtype: &str, us: &str) -> String {
    format!("{gfx},256,{token},4096,512,8,2,ActivationType.Silu,{dtype},a,b,QuantType.No,1,0,16,{us}\n")
}

#[test]
fn grouped_experts_are_told_of_what_is_another_text() {
    let of = |gfx: &str, token: &str, dtype: &str| {
        let text = GROUPED.to_string() + &grouped(gfx, token, dtype, "1.0");
        told(vec![sheet("tuned_grouped_fmoe.csv", &text)], NOT_FOUND)
    };
    assert!(of("gfx1250 ", " 64", " torch.bfloat16 ").is_empty());
    assert!(of("", "64", "").is_empty(), "what is empty is equal to anything");
    let expected = "2: unreachable: token: found \"64.0\", expected 64: look-ups compare the text";
    assert_eq!(of("gfx1250", "64.0", "torch.bfloat16"), [expected]);
    let file = |name: &str, token: &str| sheet(name, &(GROUPED.to_string() + &grouped("gfx1250", token, "d", "1.0")));
    let together =
        told(vec![file("tuned_grouped_fmoe.csv", "064"), file("x_tuned_grouped_fmoe.csv", "32.0")], NOT_FOUND);
    let suffix = "that aiter writes when it puts the files together";
    let expected = [
        format!("2: unreachable: token: found \"064\", expected 64: look-ups compare the text \"64.0\" {suffix}"),
        "2: unreachable: token: found \"32.0\", expected 32: look-ups compare the text".to_string(),
    ];
    assert_eq!(together, expected);
}

const GDN: &str = "gfx,cu_num,dtype,K,V,BT,H,Hg,is_varlen,use_h0,store_fs,snapshot_bf16,state_bf16,T_flat,N,total_chunks,\
    max_seq_chunks,BV,us\n";

fn gdn(gfx: &str, h: &str, flag: &str) -> String {
    format!("{gfx},304,torch.bfloat16,128,128,64,{h},2,{flag},True,True,True,True,1,1,32,32,64,5.0\n")
}

#[test]
fn tables_of_gdn_are_read_as_their_look_up_does() {
    let of = |text: String| {
        told(
            vec![sheet("chunk_gdn_h_opt_tuned.csv", &text)],
            &[Rule::Lost, Rule::Unreachable, Rule::Column, Rule::Cells],
        )
    };
    for (gfx, flag) in [(" gfx942 ", "True"), ("gfx942", "FALSE"), ("gfx942", "0"), ("gfx942", " True ")] {
        let text = format!("# by hand\n{GDN}# more\n{}", gdn(gfx, " 8 ", flag));
        assert_eq!(of(text), Vec::<String>::new(), "{gfx:?} {flag:?}");
    }
    let suffix = "expected True or False: the look-up takes all but the text True for false";
    for flag in ["TRUE", "1", "tRUE"] {
        let expected = format!("2: unreachable: is_varlen: found {flag:?}, {suffix}");
        assert_eq!(of(GDN.to_string() + &gdn("gfx942", "8", flag)), [expected]);
    }
    let expected = "2: lost: H: found \"8.0\", expected a whole number: the look-up reads nothing of the table";
    assert_eq!(of(GDN.to_string() + &gdn("gfx942", "8.0", "True")), [expected]);
    let file = |name: &str, text: String| sheet(name, &text);
    let commented = file("chunk_gdn_h_opt_tuned.csv", format!("# by hand\n{GDN}{}", gdn("gfx942", "8", "True")));
    let other = file("x_chunk_gdn_h_opt_tuned.csv", GDN.to_string() + &gdn("gfx942", "16", "True"));
    let told = told(vec![commented, other], NOT_FOUND);
    assert!(told.len() == 1 && told[0].starts_with("1: lost: found a comment, expected none"), "{told:?}");
}

/// What `update_config_files` of aiter e4048607 raises an error for.
#[test]
fn files_that_aiter_puts_together_have_keys_of_their_own() {
    let of = |one: Sheet, other: Sheet| told(vec![one, other], &[Rule::Duplicate, Rule::Dead]);
    let start = ": aiter raises an error when it puts the files together";
    let group =
        |name: &str, token: &str, us: &str| sheet(name, &(GROUPED.to_string() + &grouped("gfx1250", token, "d", us)));
    let found = of(group("tuned_grouped_fmoe.csv", "64", "2.0"), group("x_tuned_grouped_fmoe.csv", "064", "1.0"));
    assert!(found.len() == 1 && found[0].starts_with("2: duplicate: ") && found[0].ends_with(start), "{found:?}");
    let alone = GROUPED.to_string() + &grouped("gfx1250", "64", "d", "2.0") + &grouped("gfx1250", "64", "d", "1.0");
    let found = told(vec![sheet("tuned_grouped_fmoe.csv", &alone)], &[Rule::Duplicate, Rule::Dead]);
    assert!(found.len() == 1 && found[0].ends_with(": look-ups take the faster one"), "{found:?}");

    let columns = "gfx,cu_num,token,model_dim,inter_dim,expert,topk,shared_expert_id,act_type,dtype,q_dtype_a,q_dtype_w,q_type,\
        use_g1u1,doweight_stage1,hidden_pad,intermediate_pad,gate_mode,block_m,ksplit,kernelName1,kernelName2";
    let shared = |name: &str, id: u32, pad: u32, gate: &str, token: u32| {
        let row = format!(
            "gfx950,256,{token},7168,384,385,7,{id},ActivationType.Silu,d,a,b,QuantType.No,1,0,{pad},0,{gate},32,0,k,l"
        );
        sheet(name, &format!("{columns}\n{row}\n"))
    };
    for (id, pad, gate) in [(383, 0, "GateMode.A"), (384, 1, "GateMode.A"), (384, 0, "GateMode.B")] {
        let first = || shared("tuned_fhmoe.csv", 384, 0, "GateMode.A", 1);
        let found = of(first(), shared("x_tuned_fhmoe.csv", id, pad, gate, 1));
        assert!(found.len() == 1 && found[0].ends_with(start), "{found:?}");
        assert!(of(first(), shared("x_tuned_fhmoe.csv", id, pad, gate, 2)).is_empty());
    }

    let batch = |name: &str, kernel: &str| {
        let columns = "gfx,b,m,n,k,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio";
        sheet(name, &format!("{columns}\ngfx950,2,32,1024,4096,opus,{kernel},0,5.0,k,53.68,1760.0,0.0\n"))
    };
    let name = "batched_gemm_a8w8_blockscale_mxscale_tuned";
    let found = of(batch(&format!("{name}.csv"), "1"), batch(&format!("x_{name}.csv"), "2"));
    let suffix = ": aiter puts the files together, and its look-up raises an error";
    assert!(found.len() == 1 && found[0].ends_with(suffix), "{found:?}");
}
