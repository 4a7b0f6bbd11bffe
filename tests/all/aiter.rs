//! `bluefin aiter` as a person or a script meets it, on the files that aiter ships.

use std::path::Path;
use std::process::{Command, Output};

use bluefin_test_support::data;

fn aiter(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bluefin")).arg("aiter").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a verb that must end with `code`. Returns what it printed, both streams.
fn ends(code: i32, arguments: &[&str]) -> (String, String) {
    let output = aiter(arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{err}");
    (out, err)
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = aiter(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

/// A folder with some of aiter's files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn of(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, data(&format!("aiter/{name}"))).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn file(&self, name: &str, content: &str) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }
}

const GROUPED: &str = "tuned_grouped_fmoe.csv";
const GLM: &str = "model_configs/a8w8_bpreshuffle_tuned_gemm_glm5.2.csv";

#[test]
fn check_names_file_line_and_what_was_expected() {
    let folder = Folder::of(&[GROUPED, "bf16_tuned_gemm.csv", "untuned_fmoe.csv"]);
    let first = folder.read("bf16_tuned_gemm.csv").lines().take(2).collect::<Vec<_>>().join("\n");
    folder.file("copy_bf16_tuned_gemm.csv", &first);
    let (out, _) = ends(1, &["check", &folder.path("")]);
    let finding = out.lines().find(|line| line.contains("error duplicate")).unwrap();
    let copy = folder.path("copy_bf16_tuned_gemm.csv");
    assert!(
        finding.starts_with(&format!("{copy}:2: error duplicate: found gfx950 cu_num=256 M=64 N=256")),
        "{finding}"
    );
    assert!(
        out.contains(&format!("{}:80: note dead: found gfx1250 cu_num=256 token=512", folder.path(GROUPED))),
        "{out}"
    );
    assert!(out.contains("/bf16_tuned_gemm.csv: gemm_a16w16, 232 rows, 0 findings"), "{out}");
    ends(0, &["check", &folder.path(""), "--allow", "duplicate"]);

    let bad = folder.read("bf16_tuned_gemm.csv").replacen(",7.9191,", ",0,", 1).replacen(",7.9676,", ",inf,", 1);
    let mut lines: Vec<String> = bad.lines().map(str::to_string).collect();
    lines[3] = lines[3].replacen("gfx950,256,", "gfx950,255,", 1);
    lines[4] = lines[4].replacen(",5120,", ",x,", 1);
    let bad = lines.join("\n");
    let bad = folder.file("bad_bf16_tuned_gemm.csv", &bad);
    let report = json(&["check", &bad]);
    let findings = report[0]["findings"].as_array().unwrap();
    let told: Vec<String> = findings.iter().map(|one| format!("{} {}", one["line"], one["rule"])).collect();
    assert!(told.iter().any(|one| one == "2 \"time\"") && told.iter().any(|one| one == "3 \"time\""), "{told:?}");
    assert!(told.iter().any(|one| one == "4 \"cus\"") && told.iter().any(|one| one == "5 \"value\""), "{told:?}");
    assert!(ends(0, &["check", "--rules"]).0.contains("duplicate"));
    // A column of a later release is no fault.
    let later = folder.file("x_a8w8_blockscale_tuned_gemm.csv", &BLOCKSCALE.replace(",us", ",mood,us"));
    assert!(ends(0, &["check", &later]).0.contains(":1: note unknown-column: column \"mood\": found in a file of"));
}

#[test]
fn a_merge_changes_what_is_better_and_no_other_byte() {
    let folder = Folder::of(&[GLM]);
    let base = folder.read(GLM);
    let lines: Vec<&str> = base.lines().collect();
    // One row faster by 1 %, one by a half, one that was never measured, one that is new.
    let faster = lines[1].replace(",8.5052,", ",8.42,");
    let half = lines[2].replace(",8.5564,", ",4.2782,");
    let never = lines[3].split(',').enumerate().map(|(at, cell)| if at == 9 { "-1" } else { cell }).collect::<Vec<_>>();
    let other = lines[4].replacen("gfx950,256,", "gfx942,304,", 1);
    let newer = [lines[0], &faster, &half, &never.join(","), &other].join("\n");
    let newer = folder.file("newer.csv", &newer);
    let (out, err) = ends(1, &["merge", &folder.path(GLM), &newer, "--family", "ck_gemm_a8w8_bpreshuffle"]);
    assert!(out.contains("60 rows; 1 added, 1 not better by enough, 1 refused, 1 replaced"), "{out}");
    assert!(err.contains("newer.csv:4: us: found \"-1\", expected more than 0 and finite"), "{err}");
    let expected = base.replace(lines[2], &half);
    assert_eq!(folder.read(GLM), format!("{expected}{other}\n"));
    let names: Vec<_> = Path::new(&folder.path("model_configs")).read_dir().unwrap().collect();
    assert_eq!(names.len(), 1, "nothing else was left there");
}

#[test]
fn a_merge_that_can_not_be_done_leaves_the_file_alone() {
    let folder = Folder::of(&[GLM, GROUPED]);
    let before = folder.read(GLM);
    let (_, err) = ends(1, &["merge", &folder.path(GLM), &folder.path(GROUPED)]);
    assert!(
        err.contains("found a file of grouped_fmoe (tuned), expected one of ck_gemm_a8w8_bpreshuffle (tuned)"),
        "{err}"
    );
    assert_eq!(folder.read(GLM), before);
}

#[test]
fn a_diff_fails_on_regressions() {
    let folder = Folder::of(&[GLM]);
    let before = folder.path(GLM);
    ends(0, &["diff", &before, &before]);
    let text = folder.read(GLM).replace(",8.5052,", ",9.9,").replace(",8.5564,", ",4.0,");
    let after = folder.file("x_a8w8_bpreshuffle_tuned_gemm.csv", &text);
    let (out, _) = ends(1, &["diff", &before, &after]);
    assert!(out.contains("REGRESS x1.164: ck_gemm_a8w8_bpreshuffle gfx950 cu_num=256 M=1 N=6144 K=4096"), "{out}");
    ends(0, &["diff", &before, &after, "--regress", "1.2"]);
    assert!(ends(1, &["diff", &before, &after, "--words"]).0.contains("us=[-8.5564-]{+4.0+}"));
    assert!(ends(1, &["diff", &before, &after, "--markdown"]).0.starts_with("57 rows unchanged, 1 REGRESS, 1 OK\n"));
    assert_eq!(json(&["diff", &before, &after])["counts"]["REGRESS"], 1);
}

#[test]
fn a_log_becomes_shapes_and_shapes_are_covered() {
    let folder = Folder::of(&[GLM, "bf16_tuned_gemm.csv"]);
    let miss = |m: u32, n: u32| {
        format!(
            "INFO [aiter] shape is M:{m}, N:{n}, K:4096, q_dtype_w:torch.float8_e4m3fn, not found tuned config in \
            /tmp/aiter_configs/a8w8_bpreshuffle_tuned_gemm.csv, will use default config!\n"
        )
    };
    let log = folder.file("server.log", &[miss(1, 6144), miss(3, 6144), miss(3, 6144), miss(1, 77)].concat());
    let configs = folder.path("");
    let (out, _) = ends(1, &["coverage", "--misses", &log, "--configs", &configs, "--missing"]);
    assert!(out.starts_with("ck_gemm_a8w8_bpreshuffle gfx950-256: 1 tuned, 1 padded, 1 missing\n"), "{out}");
    assert!(out.contains("missing: ck_gemm_a8w8_bpreshuffle gfx950-256 M=1 N=77 K=4096 q_dtype_w=torch.float8_e4m3fn"));

    let untuned = folder.path("untuned");
    let file = folder.path("untuned/a8w8_bpreshuffle_untuned_gemm.csv");
    assert!(ends(0, &["import", &log, "--out", &untuned]).0.contains("4 misses of 3 shapes, 3 added"));
    assert!(ends(0, &["import", &log, "--out", &untuned]).0.contains("4 misses of 3 shapes, 0 added"));
    let fp8 = "torch.float8_e4m3fn";
    let expected = format!("M,N,K,q_dtype_w\n1,6144,4096,{fp8}\n3,6144,4096,{fp8}\n1,77,4096,{fp8}\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    let covered = json(&["coverage", &file, "--configs", &configs, "--gpu", "gfx942-304"]);
    assert!(covered.as_array().unwrap().iter().all(|one| one["presence"] == "missing"), "{covered}");
}

/// Cut off while it was written: what is whole is checked, compared and looked up all the same.
#[test]
fn a_torn_file_is_an_error_of_its_own() {
    let folder = Folder::of(&[GROUPED, "bf16_tuned_gemm.csv", "bf16_untuned_gemm.csv"]);
    let torn = folder.file("torn_bf16_tuned_gemm.csv", "gfx,cu_num,M\ngfx950,256,1\ngfx950,\"25\n");
    let said = "found a quote that is not closed, expected one record a line";
    let (out, _) = ends(1, &["check", &folder.path("")]);
    assert!(out.contains(&format!("{torn}:3: error torn: {said}\n")), "{out}");
    assert!(out.contains(&format!("{torn}: gemm_a16w16, 0 rows, 1 finding")), "{out}");
    assert!(out.contains("/bf16_tuned_gemm.csv: gemm_a16w16, 232 rows, 0 findings"), "{out}");
    ends(0, &["check", &folder.path(""), "--allow", "torn"]);
    let (out, err) = ends(1, &["diff", &folder.path(""), &folder.path("bf16_tuned_gemm.csv")]);
    assert!(
        out.contains("232 the same") && err.contains(&format!("error: {torn}:3: {said}; nothing of")),
        "{out}{err}"
    );
    let (out, err) = ends(
        1,
        &["coverage", &folder.path("bf16_untuned_gemm.csv"), "--configs", &folder.path(""), "--gpu", "gfx950-256"],
    );
    assert!(out.contains("gemm_a16w16 gfx950-256: ") && err.contains(&format!("error: {torn}:3: ")), "{out}{err}");
}

#[test]
fn what_is_no_file_of_aiters_is_told() {
    let folder = Folder::of(&[]);
    let (_, err) = ends(1, &["check", &folder.file("notes.csv", "a,b\n1,2\n")]);
    assert!(
        err.contains("notes.csv: family: found columns a,b, expected those of one family, or its name given"),
        "{err}"
    );
    let (_, err) = ends(1, &["check", &folder.file("mla.csv", "qType,knl_name,co_name\nbf16,a,a.co\n")]);
    assert!(err.contains("mla.csv: family: found a list of kernels that aiter has assembled, expected a CSV"), "{err}");
    let (_, err) = ends(1, &["check", &folder.file("gfx942-GEMM-A16W16.json", "{\"any\": {}}")]);
    assert!(err.contains("GEMM-A16W16.json: family: found a JSON file: those of aiter's Triton kernels"), "{err}");
    let (_, err) = ends(2, &["check", "x.csv", "--family", "ck_gemm"]);
    assert!(err.contains("family: found \"ck_gemm\", expected one of ck_gemm_a8w8, "), "{err}");
    ends(2, &["merge", "x.csv", "y.csv", "--min-improvement", "100"]);
}

const BLOCKSCALE: &str = "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n";

/// How small numbers of rows are rounded differs between releases: the checkout says it.
#[test]
fn look_ups_are_those_of_the_checkout() {
    let folder = Folder::of(&[]);
    let configs = folder.path("aiter/configs");
    std::fs::create_dir_all(&configs).unwrap();
    folder.file(
        "aiter/configs/a8w8_blockscale_tuned_gemm.csv",
        &format!("{BLOCKSCALE}gfx942,304,16,512,7168,ck,8,2,10,k,11.74,400,0.0\n"),
    );
    let sizes = folder.file("u.csv", "M,N,K\n1,512,7168\n2,512,7168\n8,512,7168\n9,512,7168\n16,512,7168\n");
    let (_, err) = ends(1, &["coverage", &sizes, "--configs", &configs]);
    assert!(err.contains("u.csv: family: found M,N,K alone, which several families tune, expected --family"), "{err}");
    let arguments = ["coverage", &sizes, "--configs", &configs, "--family", "ck_gemm_a8w8_blockscale"];
    let (out, err) = ends(0, &arguments);
    assert_eq!(out, "ck_gemm_a8w8_blockscale gfx942-304: 1 tuned, 4 padded, 0 missing\n");
    assert!(err.contains("look-ups are taken to be those of aiter e4048607"), "{err}");

    let sources = folder.path("csrc/py_itfs_cu");
    std::fs::create_dir_all(sources).unwrap();
    folder.file("aiter/fused_moe.py", "def get_padded_M(M):\n    return nextPow2(M)\n");
    folder.file(
        "csrc/py_itfs_cu/gemm_common.cu",
        "int getPaddedM(int M, int N, int K, int gl) {\n  int padded_m = M;\n  if (gl == 0 && M >= 16) {\n    \
        padded_m = (M + 15) / 16 * 16;\n  } else {\n    padded_m = nextPow2(M);\n  }\n  return padded_m;\n}\n",
    );
    let (out, err) = ends(0, &arguments);
    assert_eq!(out, "ck_gemm_a8w8_blockscale gfx942-304: 1 tuned, 1 padded, 3 missing\n");
    let root = folder.0.path().display().to_string();
    assert!(
        err.contains(&format!("look-ups are those of {root}; what it does with batched GEMMs is not told")),
        "{err}"
    );
    let (_, err) = ends(1, &[arguments.as_slice(), &["--aiter", &configs]].concat());
    assert!(err.contains("--aiter: found no look-ups in "), "{err}");
}

#[test]
fn compute_units_are_those_of_any_product() {
    let folder = Folder::of(&[]);
    let row = |gpu: &str| format!("{gpu},64,1536,4096,ck,3,0,100,k,8.05,196.6,0.0\n");
    let rows = ["gfx950,128", "gfx1201,32", "gfx1201,64", "gfx950,100"].map(row).concat();
    let file = folder.file("a8w8_blockscale_tuned_gemm.csv", &format!("{BLOCKSCALE}{rows}"));
    let (out, _) = ends(1, &["check", &file, "--allow", "bw"]);
    assert!(out.contains(":5: warning cus: cu_num: found 100 for gfx950, expected 128 or 256"), "{out}");
    assert_eq!(out.matches(" cus: ").count(), 1, "{out}");
}

/// Batches of 8 bits are counted with a byte for each input, and shipped files as they were counted before.
#[test]
fn bandwidths_are_those_of_now_or_before() {
    let folder = Folder::of(&[]);
    let row = |bw: &str| format!("gfx942,304,16,32,1280,8192,28,0,68.9821,k,155.6551,{bw},0.0\n");
    let rows = ["2511.92", "5004.83", "4000.0"].map(row);
    let header = "gfx,cu_num,B,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n";
    let file = folder.file("a8w8_tuned_batched_gemm.csv", &format!("{header}{}", rows.concat()));
    let (out, _) = ends(1, &["check", &file, "--allow", "duplicate"]);
    assert!(out.contains(":4: warning bw: bw: found 4000, expected 2511.92 GB/s for 68.9821 us"), "{out}");
    assert!(out.ends_with(": ck_batched_gemm_a8w8, 3 rows, 1 finding\n"), "{out}");
}

#[test]
fn misses_of_every_form_become_untuned_files() {
    let folder = Folder::of(&[]);
    let moe = "'gfx950', 256, 16, 7168, 384, 385, 7, <ActivationType.Silu: 0>, 'torch.bfloat16', 'torch.bfloat16', 'torch.uint32', \
        'QuantType.per_1x32', True, False";
    let log = [
        "[aiter] shape is B:16, M:32, N:1280, K:8192 dtype is bf16, not found tuned config in CKGEMM, will use default config!".to_string(),
        format!("[aiter] [fused_moe] using 2stage default for ({moe}) "),
        format!("[aiter] [fused_moe] using 2stage default for ({moe}, 384, 0, 0, 'GateMode.INTERLEAVE') "),
        "[grouped-gemm-debug] no grouped CSV config match for {'gfx': 'gfx1250', 'cu_num': '256', 'token': '16', 'model_dim': '7168', \
        'inter_dim': '3072', 'expert': '96', 'topk': '6', 'act_type': 'ActivationType.Silu', 'dtype': 'torch.bfloat16', \
        'q_dtype_a': 'torch.float8_e4m3fn', 'q_dtype_w': 'torch.float4_e2m1fn_x2', 'q_type': 'QuantType.per_1x32'}; loaded_rows=112"
            .to_string(),
        "[aiter] shape is M:64, N:1536, K:7168, not found tuned config in /x/a8w8_bpreshuffle_tuned_gemm.csv, will use default config!"
            .to_string(),
    ];
    let log = folder.file("server.log", &log.join("\n"));
    let untuned = folder.path("untuned");
    let (out, err) = ends(1, &["import", &log, "--out", &untuned]);
    assert!(
        err.contains(
            "not taken: ck_gemm_a8w8_bpreshuffle M=64 N=1536 K=7168: found no q_dtype_w, expected --q-dtype-w"
        ),
        "{err}"
    );
    assert_eq!(out.lines().count(), 4, "{out}");
    ends(0, &["import", &log, "--out", &untuned, "--q-dtype-w", "torch.int8"]);
    let columns =
        "token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1";
    let experts =
        "16,7168,384,385,7,ActivationType.Silu,torch.bfloat16,torch.bfloat16,torch.int4,QuantType.per_1x32,1,0";
    for (name, expected) in [
        ("bf16_untuned_batched_gemm.csv", "B,M,N,K\n16,32,1280,8192\n".to_string()),
        ("untuned_fmoe.csv", format!("{columns}\n{experts}\n")),
        (
            "untuned_fhmoe.csv",
            format!(
                "{columns},shared_expert_id,hidden_pad,intermediate_pad,gate_mode\n{experts},384,0,0,GateMode.INTERLEAVE\n"
            ),
        ),
        (
            "untuned_grouped_fmoe.csv",
            format!(
                "{columns}\n16,7168,3072,96,6,ActivationType.Silu,torch.bfloat16,torch.float8_e4m3fn,torch.float4_e2m1fn_x2,\
                QuantType.per_1x32,1,0\n"
            ),
        ),
        ("a8w8_bpreshuffle_untuned_gemm.csv", "M,N,K,q_dtype_w\n64,1536,7168,torch.int8\n".to_string()),
    ] {
        assert_eq!(folder.read(&format!("untuned/{name}")), expected, "{name}");
    }
}

/// A shape that look-ups do not find is tuned, although a row of it seems to be there.
#[test]
fn rows_are_read_as_look_ups_read_them() {
    let folder = Folder::of(&[]);
    let columns = "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle";
    let row = |m: u32, bias: &str| format!("{m},256,5120,{bias},torch.bfloat16,torch.float32,False,False");
    let found = "asm,5,13,7.9191,k,0.0,21.19,417.92";
    let header = format!("gfx,cu_num,{columns},libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw");
    let shapes = folder.file("bf16_untuned_gemm.csv", &format!("{columns}\n{}\n", row(64, "False")));
    for (bias, counts) in [("fALSE", "1 tuned, 0 padded, 0 missing"), ("1", "0 tuned, 0 padded, 1 missing")] {
        let rows = [row(64, "False"), row(128, bias)].map(|row| format!("gfx950,256,{row},{found}\n")).concat();
        let tuned = folder.file("bf16_tuned_gemm.csv", &format!("{header}\n{rows}"));
        let (out, _) = ends(0, &["coverage", &shapes, "--configs", &tuned]);
        assert_eq!(out, format!("gemm_a16w16 gfx950-256: {counts}\n"), "{bias}");
        let (code, told) = if bias == "1" { (1, 1) } else { (0, 0) };
        let (out, _) = ends(code, &["check", &tuned, "--allow", "tflops,bw"]);
        assert_eq!(
            out.matches(":3: error lost: bias: found \"1\", expected True or False: pandas takes").count(),
            told
        );
    }
}

#[test]
fn shapes_without_the_columns_of_their_family_are_refused() {
    let folder = Folder::of(&[]);
    let row = "gfx942,304,16,512,7168,ck,8,2,10,k,11.74,400,0.0\n";
    let tuned = folder.file("a8w8_blockscale_tuned_gemm.csv", &format!("{BLOCKSCALE}{row}"));
    let shapes = folder.file("u.csv", "x,y\n2,3\n");
    let (out, err) = ends(1, &["coverage", &shapes, "--configs", &tuned, "--family", "ck_gemm_a8w8_blockscale"]);
    assert!(out.is_empty(), "{out}");
    let expected = "u.csv:1: column \"M\": found x,y, expected M,N,K of ck_gemm_a8w8_blockscale\n";
    assert!(err.starts_with("not taken: ") && err.contains(expected), "{err}");
}

/// Lines of warnings, whose others may not be logged.
#[test]
fn misses_that_only_warnings_tell_become_shapes() {
    let folder = Folder::of(&[]);
    let log = "[aiter] [fused_moe] no tuned FlyDSL config for ('gfx950', 256, 16, 7168, 256, 384, 8, <ActivationType.Silu: 0>, \
        'torch.bfloat16', 'torch.bfloat16', 'torch.int4', 'QuantType.per_1x32', True, False), using untuned a16wi4 fallback (kn1='a')\n\
        [aiter] no grouped CSV config matched (token=16 model_dim=7168 inter_dim=3072 experts=96 topk=6 act=ActivationType.Silu \
        dtype=torch.bfloat16 q_dtype_a=c q_dtype_w=d quant_type=QuantType.per_1x32); using defaults tile_m=64 n_warp=4 num_buffers=2\n";
    let log = folder.file("server.log", log);
    ends(0, &["import", &log, "--out", &folder.path("untuned")]);
    let columns =
        "token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1";
    let moe = "16,7168,256,384,8,ActivationType.Silu,torch.bfloat16,torch.bfloat16,torch.int4,QuantType.per_1x32,1,0";
    assert_eq!(folder.read("untuned/untuned_fmoe.csv"), format!("{columns}\n{moe}\n"));
    let grouped = "16,7168,3072,96,6,ActivationType.Silu,torch.bfloat16,c,d,QuantType.per_1x32,1,0";
    let told = folder.read("untuned/untuned_grouped_fmoe.csv");
    assert!(told.lines().any(|line| line.starts_with(grouped)), "{told}");
}
