//! Which source files MIOpen's solvers compile, as far as it is known: the names in a kernel db are those of source files,
//! not of solvers. MIOpen alone knows the options, so this tells which kernels a solver may use, and that it has none.

/// Solvers by how their names begin, with the beginnings of the source files of which each uses at least one. The first
/// row that fits counts. Solvers that run library code (GEMM, the composable kernel instances) and those of which
/// it is not known (MLIR) are not here.
const SOURCES: &[(&str, &[&str])] = &[
    ("ConvAsm3x3U", &["conv3x3.s"]),
    ("ConvAsm1x1UV2", &["conv1x1u_stride2.s"]),
    ("ConvAsm1x1U", &["conv1x1u.s"]),
    ("ConvBiasActivAsm1x1U", &["conv1x1u_bias_activ.s"]),
    ("ConvAsm5x10u2v2f1", &["conv5x10u2v2f1.s"]),
    ("ConvAsm5x10u2v2b1", &["conv5x10u2v2b1.s"]),
    ("ConvAsm7x7c3h224w224k64u2v2p3q3f1", &["conv7x7c3h224w224k64u2v2p3q3f1.s"]),
    ("ConvAsmBwdWrW3x3", &["conv3x3wrw.s"]),
    ("ConvAsmBwdWrW1x1", &["conv1x1wrw.s"]),
    ("ConvOclDirectFwd11x11", &["MIOpenConvFwd_LxL_11.cl"]),
    ("ConvOclDirectFwdGen", &["MIOpenConvDirGenFwd"]),
    ("ConvOclDirectFwd1x1", &["MIOpenConv1x1"]),
    ("ConvOclDirectFwdFused", &["MIOpenConvDirBatchNormActiv.cl"]),
    ("ConvOclDirectFwd", &["MIOpenConvDirUni", "MIOpenGroupConvDirUni"]),
    ("ConvOclBwdWrW2", &["MIOpenConvBwdWrWS2", "MIOpenGroupConvBwdWrWS2"]),
    ("ConvOclBwdWrW53", &["MIOpenConvBwdWrW_LxG_P53", "MIOpenGroupConvBwdWrW_LxG_P53"]),
    ("ConvOclBwdWrW1x1", &["MIOpenConvBwdWrW1x1"]),
    ("ConvBinWinograd3x3U", &["conv_3x3_wheel_alpha_"]),
    ("ConvBinWinogradRxS", &["conv_3x3_wheel_alpha_", "Conv_Winograd_"]),
    ("ConvWinoFuryRxS", &["Conv_Winograd_Fury_"]),
    ("ConvMPBidirectWinograd", &["xform_bidirect_winograd_"]),
    ("ConvWinograd3x3MultipassWrW", &["xform_"]),
    ("ConvDirectNaiveConv", &["naive_conv", "fp8_naive_conv"]),
    ("ConvAsmImplicitGemm", &["igemm_"]),
    ("ConvHipImplicitGemmV4R1", &["static_kernel_gridwise_convolution_"]),
    ("ConvHipImplicitGemmV4R4", &["static_kernel_gridwise_convolution_"]),
    ("ConvHipImplicitGemmBwdDataV", &["static_kernel_gridwise_convolution_"]),
    ("ConvHipImplicitGemmForwardV4R", &["static_kernel_gridwise_convolution_"]),
    ("ConvHipImplicitGemmWrwV4R4", &["static_kernel_gridwise_convolution_"]),
    ("fft", &["MIOpenConvFFT.cl"]),
];

/// Whether a run of `solver` may use a kernel of the source file `name`: one of its own, or one that no solver is known to have for
/// itself, as what transposes or fills tensors.
#[must_use]
pub fn may_use(solver: &str, name: &str) -> bool {
    let is_of = |files: &[&str]| files.iter().any(|file| name.starts_with(file));
    sources(solver).is_some_and(is_of) || !SOURCES.iter().any(|(_, files)| is_of(files))
}

/// Source files whose options MIOpen joins with blanks only between them. Others of convolutions put one in front of each.
const JOINED: &[&str] = &["conv3x3.s", "conv_3x3_wheel_alpha_", "Conv_Winograd_v", "MIOpenConvDirGenFwd"];
/// Source files of convolutions whose solvers do the one or the other, or of which it is not known.
const EITHER: &[&str] = &["Conv_Winograd_", "MIOpenConvDirBatchNormActiv"];

/// Whether the options of a kernel of the source file `name` begin with a blank; `None` if it is not known: those of batch norms and of
/// other operations are joined in some releases and not in others.
#[must_use]
pub fn starts_with_blank(name: &str) -> Option<bool> {
    let is_of = |files: &[&str]| files.iter().any(|file| name.starts_with(file));
    if is_of(JOINED) {
        return Some(false);
    }
    (!is_of(EITHER) && SOURCES.iter().any(|(_, files)| is_of(files))).then_some(true)
}

/// How the source files begin of which `solver` uses at least one; `None` if that is not known, or there are none.
#[must_use]
pub fn sources(solver: &str) -> Option<&'static [&'static str]> {
    SOURCES.iter().find(|(name, _)| solver.starts_with(name)).map(|(_, sources)| *sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_name_counts() {
        assert_eq!(sources("ConvAsm1x1UV2"), Some(["conv1x1u_stride2.s"].as_slice()));
        assert_eq!(sources("ConvAsm1x1U"), Some(["conv1x1u.s"].as_slice()));
        assert_eq!(sources("ConvOclBwdWrW2<16>"), sources("ConvOclBwdWrW2NonTunable"));
        assert_eq!(sources("GemmFwdRest"), None);
        for (index, (name, _)) in SOURCES.iter().enumerate() {
            let hidden = SOURCES[..index].iter().find(|(before, _)| name.starts_with(before));
            assert_eq!(hidden, None, "{name}");
        }
    }

    #[test]
    fn kernels_of_other_solvers_are_not_its_own() {
        assert!(may_use("ConvAsm1x1U", "conv1x1u.s.o") && !may_use("ConvAsm1x1U", "conv3x3.s.o"));
        assert!(!may_use("GemmFwdRest", "conv1x1u.s.o") && may_use("GemmFwdRest", "MIOpenUtilKernels4.cl.o"));
        assert!(may_use("ConvAsm1x1U", "batched_transpose.cpp.o"));
        assert!(may_use("ConvBinWinogradRxSf2x3", "Conv_Winograd_v21_1_3_gfx9_fp32_f2x3.s.o"));
    }

    #[test]
    fn a_blank_is_known_of_convolutions_alone() {
        assert_eq!(starts_with_blank("conv1x1u.s.o"), Some(true));
        assert_eq!(starts_with_blank("conv3x3.s.o"), Some(false));
        for name in ["MIOpenBatchNormFwdTrainSpatial.cl.o", "MIOpenNeuron.cl.o", "Conv_Winograd_Fury_v1.s.o"] {
            assert_eq!(starts_with_blank(name), None, "{name}");
        }
    }

    #[test]
    fn the_solvers_are_miopens() {
        let solvers = crate::db::solvers::Solvers::shipped();
        for (name, _) in SOURCES {
            assert!(solvers.names().any(|solver| solver.starts_with(name)), "{name}");
        }
    }
}
