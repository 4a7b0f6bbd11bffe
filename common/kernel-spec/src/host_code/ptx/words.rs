//! Names of instructions each word of which is translated: one with another word is left as it is.

/// Whole names, of instructions without a type.
const NAMES: [&str; 28] = [
    "bar.sync",
    "barrier.sync",
    "barrier.sync.aligned",
    "bar.warp.sync",
    "membar.cta",
    "membar.gl",
    "membar.sys",
    "fence.sc.cta",
    "fence.sc.gpu",
    "fence.sc.sys",
    "fence.acq_rel.cta",
    "fence.acq_rel.gpu",
    "fence.acq_rel.sys",
    "prefetch.L1",
    "prefetch.L2",
    "prefetch.global.L1",
    "prefetch.global.L2",
    "prefetch.global.L2::evict_last",
    "prefetch.global.L2::evict_normal",
    "prefetchu.L1",
    "nanosleep.u32",
    "griddepcontrol.wait",
    "griddepcontrol.launch_dependents",
    "trap",
    "activemask.b32",
    "cp.async.commit_group",
    "cp.async.wait_group",
    "cp.async.wait_all",
];

/// Names, what may stand between one and its type, and the types. Denormals are kept where `ftz` would make zeros of them.
const TYPED: [(&str, &str, &str); 62] = [
    ("mov", "", "pred b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"),
    ("add", "", "u16 u32 u64 s16 s32 s64"),
    ("add", "cc", "u32 u64 s32 s64"),
    ("addc", "cc", "u32 u64 s32 s64"),
    ("sub", "cc", "u32 u64 s32 s64"),
    ("subc", "cc", "u32 u64 s32 s64"),
    ("madc", "lo hi cc", "u32 u64 s32 s64"),
    ("add", "rn ftz", "f16 f16x2 f32"),
    ("add", "rn", "f64"),
    ("sub", "", "u16 u32 u64 s16 s32 s64"),
    ("sub", "rn ftz", "f16 f16x2 f32"),
    ("sub", "rn", "f64"),
    ("mul", "lo", "u32 u64 s32 s64"),
    ("mul", "hi", "u32 s32"),
    ("mul", "wide", "u16 u32 s16 s32"),
    ("mul", "rn ftz", "f16 f16x2 f32"),
    ("mul", "rn", "f64"),
    ("mad", "lo hi cc", "u32 u64 s32 s64"),
    ("mad", "wide", "u16 u32 s16 s32"),
    ("mad", "rn ftz", "f32"),
    ("mad", "rn", "f64"),
    ("fma", "rn ftz", "f16 f16x2 f32"),
    ("fma", "rn", "f64"),
    ("div", "", "u16 u32 u64 s16 s32 s64"),
    ("div", "rn full approx ftz", "f32"),
    ("div", "rn", "f64"),
    ("rem", "", "u16 u32 u64 s16 s32 s64"),
    ("and", "", "pred b16 b32 b64"),
    ("or", "", "pred b16 b32 b64"),
    ("xor", "", "pred b16 b32 b64"),
    ("not", "", "pred b16 b32 b64"),
    ("popc", "", "b32"),
    ("clz", "", "b32"),
    ("brev", "", "b32"),
    ("ex2", "approx ftz", "f16 f32"),
    ("lg2", "approx ftz", "f32"),
    ("sin", "approx ftz", "f32"),
    ("cos", "approx ftz", "f32"),
    ("tanh", "approx", "f16 f32"),
    ("rcp", "approx rn ftz", "f32"),
    ("rcp", "rn", "f64"),
    ("rsqrt", "approx ftz", "f32"),
    ("sqrt", "approx rn ftz", "f32"),
    ("sqrt", "rn", "f64"),
    ("abs", "", "s16 s32 s64 f64"),
    ("abs", "ftz", "f16 f16x2 f32"),
    ("neg", "", "s16 s32 s64 f64"),
    ("neg", "ftz", "f16 f16x2 f32"),
    ("min", "", "u16 u32 u64 s16 s32 s64 f64"),
    ("min", "ftz", "f16 f16x2 f32"),
    ("max", "", "u16 u32 u64 s16 s32 s64 f64"),
    ("max", "ftz", "f16 f16x2 f32"),
    ("shl", "", "b16 b32 b64"),
    ("shr", "", "b16 b32 b64 u16 u32 u64 s16 s32 s64"),
    ("shf", "l r wrap clamp", "b32"),
    ("selp", "", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"),
    ("bfe", "", "u32 s32 u64 s64"),
    ("bfi", "", "b32 b64"),
    ("prmt", "", "b32"),
    ("lop3", "", "b32"),
    ("setp", "eq ne lt le gt ge lo ls hi hs", "b16 b32 b64 u16 u32 u64 s16 s32 s64"),
    ("setp", "eq ne neu lt le gt ge ftz", "f16 f32 f64"),
];

/// The same of instructions that reach memory, or other lanes.
const REACHING: [(&str, &str, &str); 9] = [
    ("cvta", "to global shared shared::cta", "u64"),
    ("ld", LOADS, MOVED),
    ("st", STORES, MOVED),
    ("atom", ATOMICS, "u32 s32 u64 f32 f64 b32"),
    ("red", ATOMICS, "u32 s32 u64 f32 f64"),
    ("ldmatrix", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta", "b16"),
    ("shfl", "sync bfly up down idx", "b32"),
    ("mma", MATRICES, "f16 f32"),
    ("cvt", "rn ftz sat rni rzi rmi rpi u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64", CONVERTED),
];
const LOADS: &str = "weak volatile relaxed acquire cta gpu sys global shared shared::cta ca cg cs cv lu nc v2 v4 L1::no_allocate L1::evict_normal \
                     L1::evict_unchanged L1::evict_first L1::evict_last L2::64B L2::128B L2::256B L2::evict_normal L2::evict_first L2::evict_last";
const STORES: &str = "weak volatile relaxed release cta gpu sys global shared shared::cta wb cg cs wt v2 v4 L1::no_allocate L1::evict_normal \
                      L1::evict_unchanged L1::evict_first L1::evict_last L2::evict_normal L2::evict_first L2::evict_last";
const ATOMICS: &str = "relaxed acquire release acq_rel cta gpu sys global shared shared::cta add min max exch";
const MATRICES: &str = "sync aligned m16n8k8 m16n8k16 row col f16 bf16 f32";
const MOVED: &str = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64";
const CONVERTED: &str = "u8 u16 u32 u64 s8 s16 s32 s64 f16 f32 f64";

/// Copies between memories say no type.
const COPIES: &str = "async ca cg shared shared::cta global L2::64B L2::128B L2::256B";

/// Whether there is nothing in the name `text` that is not translated.
pub(super) fn is_known(text: &str) -> bool {
    let has = |list: &str, word: &str| list.split(' ').any(|one| one == word);
    let words: Vec<&str> = text.split('.').collect();
    let is_of = |(of, allowed, types): &(&str, &str, &str)| match words.as_slice() {
        [name, between @ .., type_] => of == name && has(types, type_) && between.iter().all(|word| has(allowed, word)),
        _ => false,
    };
    let is_copy = text.starts_with("cp.async.") && words.iter().skip(1).all(|word| has(COPIES, word));
    is_copy || NAMES.contains(&text) || TYPED.iter().chain(&REACHING).any(is_of)
}

#[cfg(test)]
mod tests {
    use super::is_known;

    #[test]
    fn a_word_that_is_not_translated_is_not_known() {
        for name in [
            "add.sat.s32",
            "add.rz.f32",
            "cvt.rn.relu.f16.f32",
            "cvt.rz.f16.f32",
            "cvt.rn.satfinite.f16.f32",
            "cvt.rn.bf16x2.f32",
            "max.NaN.f32",
            "min.xorsign.abs.f32",
            "fma.rn.sat.f32",
            "fma.rn.relu.f16",
            "mul.sat.f32",
            "mad.hi.sat.s32",
            "rcp.approx.ftz.f64",
            "setp.ne.and.u32",
            "ld.param.u32",
            "ld.global.L2::cache_hint.u32",
            "st.mmio.relaxed.sys.u32",
            "atom.global.inc.u32",
            "cp.async.cg.shared.global.L2::cache_hint",
            "cp.async.bulk.commit_group",
            "cvta.local.u64",
            "fence.proxy.async",
            "bar.red.popc.u32",
            "lop3.or.b32",
            "prmt.f4e.b32",
            "mul24.lo.u32",
            "",
            "mov",
        ] {
            assert!(!is_known(name), "{name}");
        }
        for name in [
            "add.s32",
            "add.cc.u32",
            "madc.hi.cc.u32",
            "shf.l.wrap.b32",
            "cvt.rn.f16x2.f32",
            "cvt.rni.sat.s8.f32",
            "cp.async.ca.shared.global.L2::128B",
            "cp.async.wait_group",
            "ld.global.nc.L1::no_allocate.L2::128B.v4.u32",
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
            "trap",
        ] {
            assert!(is_known(name), "{name}");
        }
    }
}
