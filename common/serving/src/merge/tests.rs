use super::*;
use crate::file::Document;
use crate::files::name_of;
use crate::row::{GROUP, K, M, N, USE_TMA};
use crate::version::Version;

const FP8: &str = "E=8,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
const FP8_SGLANG: &str = "triton_3_6_0/E=8,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json";

fn row(m: i64, k: i64) -> Row {
    Row::of([(M, m), (N, 64), (K, k), (GROUP, 1)])
}

/// A file in a folder of its own.
fn file(folder: &Path, name: &str, version: Option<&str>, rows: &[(i64, Row)]) -> Found {
    let engine = Engine::of_path(Path::new(name));
    let version: Option<Version> = version.map(|version| version.parse().unwrap());
    let config = ConfigFile::of(engine, version, rows.iter().cloned());
    let path = folder.join(name);
    write(&path, &config.text()).unwrap();
    Found {
        path: path.clone(),
        engine,
        name: FileName::parse(&name_of(&path)),
        folder: Version::of_folder(&path),
        document: Document::read(&path),
    }
}

fn merged(base: &Found, other: &Found, policy: Policy, any: bool) -> Result<(ConfigFile, Vec<Told>), String> {
    let mut config = ConfigFile::read(&base.path, base.engine).unwrap();
    let told = merge(&mut config, base, other, policy, any).map_err(|error| error.to_string())?;
    Ok((config, told))
}

#[test]
fn what_no_kernel_is_launched_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let name = "E=8,N=128,device_name=NVIDIA_H200.json";
    let base = file(&folder.path().join("one"), name, None, &[(1, row(16, 64))]);
    let huge = row(1 << 62, 1 << 62);
    let other = file(&folder.path().join("two"), name, None, &[(-1, row(16, 64)), (0, row(16, 64)), (2, huge)]);
    let (config, told) = merged(&base, &other, Policy::Newest, false).unwrap();
    assert_eq!(config.rows().map(|(size, _)| size).collect::<Vec<_>>(), [1]);
    let reasons: Vec<_> =
        told.iter().map(|told| if let Fate::Refused(reason) = &told.fate { reason } else { "" }).collect();
    assert_eq!(reasons[..2], ["found -1, expected a batch size from 1 on", "found 0, expected a batch size from 1 on"]);
    assert!(reasons[2].contains(&format!("found {} bytes of shared memory a block", i64::MAX)), "{}", reasons[2]);
}

#[test]
fn rows_are_brought_together() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let name = "E=8,N=128,device_name=NVIDIA_H200.json";
    let base = file(&one, name, Some("3.6.0"), &[(1, row(16, 64)), (8, row(16, 64))]);
    let other = file(&two, name, None, &[(1, row(16, 64)), (4, row(32, 64)), (8, row(64, 64))]);
    let (config, told) = merged(&base, &other, Policy::Newest, false).unwrap();
    let fates: Vec<_> = told.iter().map(|told| (told.size, told.fate.name())).collect();
    assert_eq!(fates, [(1, "the same"), (4, "added"), (8, "replaced")]);
    assert_eq!(config.rows().map(|(size, _)| size).collect::<Vec<_>>(), [1, 4, 8]);
    assert!(config.text().starts_with("{\n    \"triton_version\": \"3.6.0\",\n    \"1\": {"));
    let (config, told) = merged(&base, &other, Policy::Missing, false).unwrap();
    assert_eq!(told[2].fate, Fate::Kept);
    assert_eq!(config.row(8), Some(&row(16, 64)));

    let newer = file(&two, name, Some("3.9.0"), &[(1, row(16, 64))]);
    let error = merged(&base, &newer, Policy::Newest, false).unwrap_err();
    assert!(error.contains("triton_version: found 3.9.0, expected 3.6.0, as the first file says"), "{error}");
    assert!(merged(&base, &newer, Policy::Newest, true).is_ok());
    let stranger = file(&two, "E=9,N=128,device_name=NVIDIA_H200.json", None, &[(1, row(16, 64))]);
    let error = merged(&base, &stranger, Policy::Newest, false).unwrap_err();
    assert!(
        error.contains("name: found E=9,N=128,device_name=NVIDIA_H200.json, expected a file of the same layer"),
        "{error}"
    );
}

#[test]
fn four_bits_are_counted_otherwise_by_the_other_engine() {
    let folder = tempfile::tempdir().unwrap();
    let name = |n: u32| format!("E=8,N={n},device_name=NVIDIA_H200,dtype=int4_w4a16.json");
    let vllm = file(folder.path(), &name(256), None, &[(1, row(16, 64))]);
    let sglang = file(folder.path(), &format!("triton_3_6_0/{}", name(128)), None, &[(2, row(32, 64))]);
    let (config, told) = merged(&vllm, &sglang, Policy::Newest, false).unwrap();
    assert_eq!(told[0].fate, Fate::Added);
    assert_eq!(config.row(2).unwrap().short(), "32x64x64 g1 SPLIT_K=1");
    let same_n = file(folder.path(), &format!("triton_3_6_0/{}", name(256)), None, &[(2, row(32, 64))]);
    let error = merged(&vllm, &same_n, Policy::Newest, false).unwrap_err();
    assert!(error.contains("expected a file of the same layer"), "{error}");
    let (_, told) =
        merged(&vllm, &file(&folder.path().join("two"), &name(256), None, &[(4, row(16, 64))]), Policy::Newest, false)
            .unwrap();
    assert!(matches!(&told[0].fate, Fate::Refused(reason) if reason.starts_with("found no SPLIT_K")), "{told:?}");
}

#[test]
fn a_row_of_the_other_engine_is_written_as_it_launches() {
    let folder = tempfile::tempdir().unwrap();
    let mut split = row(16, 256);
    split.set(SPLIT_K, 1);
    let vllm = file(folder.path(), FP8, None, &[(1, split), (2, row(16, 64))]);
    let sglang = file(folder.path(), FP8_SGLANG, None, &[(1, row(16, 64))]);
    // vLLM lowers 256 to the block; SGLang would be wrong by it.
    let (config, told) = merged(&sglang, &vllm, Policy::Newest, false).unwrap();
    assert_eq!(told.iter().map(|told| told.fate.name()).collect::<Vec<_>>(), ["replaced", "added"]);
    assert_eq!(config.row(1), Some(&row(16, 128)));
    // Its own file with such a row is refused.
    let wrong = file(&folder.path().join("wrong"), FP8_SGLANG, None, &[(4, row(16, 256))]);
    let (_, told) = merged(&sglang, &wrong, Policy::Newest, false).unwrap();
    let expected = Fate::Refused("BLOCK_SIZE_K: found 256, expected a divisor of the block of 128".to_string());
    assert_eq!(told[0].fate, expected);
    // vLLM's launcher has no TMA.
    let mut tma = row(16, 64);
    tma.0.insert(USE_TMA.to_string(), true.into());
    let with_tma = file(&folder.path().join("tma"), FP8_SGLANG, None, &[(1, tma)]);
    let (_, told) = merged(&vllm, &with_tma, Policy::Newest, false).unwrap();
    assert!(matches!(&told[0].fate, Fate::Refused(reason) if reason.starts_with("found \"USE_TMA\", expected")));
}

/// A row of products is launched as it is by both engines: nothing is lowered on the way.
#[test]
fn rows_of_products_are_brought_over_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let name = |separator| {
        format!("N=7168,K=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128{separator}128].json")
    };
    let vllm = file(folder.path(), &name(","), None, &[(1, row(16, 256)), (2, row(16, 64))]);
    let sglang = file(folder.path(), &name(", "), None, &[(4, row(16, 64))]);
    let (config, told) = merged(&sglang, &vllm, Policy::Newest, true).unwrap();
    assert!(
        matches!(&told[0].fate, Fate::Refused(reason) if reason.contains("expected a divisor of the block of 128"))
    );
    assert_eq!((told[1].fate.clone(), config.row(2)), (Fate::Added, Some(&row(16, 64))));
}

#[test]
fn a_file_with_rows_of_two_versions_says_none() {
    let folder = tempfile::tempdir().unwrap();
    let name = "E=8,N=128,device_name=NVIDIA_H200.json";
    let base = file(&folder.path().join("one"), name, Some("3.4.0"), &[(1, row(16, 64))]);
    let other = |rows: &[(i64, Row)]| file(&folder.path().join("two"), name, Some("3.9.0"), rows);
    let version = |other: &Found| merged(&base, other, Policy::Newest, true).unwrap().0.version;
    assert_eq!(version(&other(&[(2, row(32, 64))])), None);
    assert_eq!(version(&other(&[(1, row(16, 64))])), Some("3.4.0".parse().unwrap()), "nothing was brought");
}

#[test]
fn rows_beside_those_that_are_tuned_again_stay() {
    let of = |version: Option<&str>, rows: &[(i64, Row)]| {
        ConfigFile::of(Engine::VLLM, version.map(|version| version.parse().unwrap()), rows.iter().cloned())
    };
    let tuned = of(Some("3.6.0"), &[(1, row(32, 64))]);
    let before = |version| of(version, &[(1, row(16, 64)), (8, row(16, 128))]);
    let (whole, note) = kept(tuned.clone(), before(Some("3.6.0")), false);
    assert_eq!((whole, note), (of(Some("3.6.0"), &[(1, row(32, 64)), (8, row(16, 128))]), None));
    let (alone, note) = kept(tuned.clone(), before(Some("3.4.0")), false);
    let expected = "the file's rows for 8 were made with Triton 3.4.0, not with Triton 3.6.0: they are gone";
    assert_eq!((alone, note.as_deref()), (tuned.clone(), Some(expected)));
    assert!(kept(tuned.clone(), before(None), false).1.unwrap().contains("an unknown Triton"));
    // SGLang's folders say it.
    assert!(kept(tuned, before(None), true).0.row(8).is_some());
}
