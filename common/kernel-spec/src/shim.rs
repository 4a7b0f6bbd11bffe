//! Headers that HIP and CUDA files include and that bluefin ships, so that such a file compiles as it is: whoever reads a spec puts those
//! that its source includes into the bundle, from where they travel with the job. A file of the same name beside the spec goes before.

mod places;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

pub use self::places::is_of_machine;
pub(super) use self::places::{above, is_nothing, places, plain};
use self::places::{ending_with, joined, within};
use crate::host_code::{self, Include};

/// What kernels of a file are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// HIP's names; a warp is a wave.
    Hip,
    /// CUDA's names; a warp has 32 lanes on every GPU.
    Cuda,
}

macro_rules! shim_file {
    ($name:literal) => {
        (concat!("bluefin/", $name), include_str!(concat!("../kernels/shim/", $name)))
    };
}

/// By what a file includes of the shim, and what the shim's own files include of each other.
macro_rules! hip {
    ($name:literal, $($file:literal)+) => {
        ($name, concat!(
            "#pragma once\n#include \"bluefin/gpu.h\"\n#if !defined(__NVCC__)\n", $("#include \"bluefin/", $file, "\"\n",)+ "#endif\n"
        ))
    };
}

/// A header that nvcc has itself. It includes `cuda_runtime.h` ahead of every file and finds this one in its own folder, of which the next folder
/// is the same again: read once alone, this one would hide its own.
macro_rules! cuda {
    ($name:literal, $file:literal) => {
        (
            $name,
            concat!(
                "#if defined(__NVCC__)\n#include_next <",
                $name,
                ">\n#else\n#pragma once\n#include \"bluefin/",
                $file,
                "\"\n#endif\n"
            ),
        )
    };
}

/// The headers of each dialect's own that decide which it is.
const HIP: &str = "hip/hip_runtime.h";
const CUDA: &str = "cuda_runtime.h";

/// bluefin's own words for kernels, which stand beside the shim.
const PRELUDE: &str = "prelude.h";

const HEADERS: &[(&str, &str)] = &[
    shim_file!("gpu.h"),
    shim_file!("words.h"),
    shim_file!("vectors.h"),
    shim_file!("indices.h"),
    shim_file!("lanes.h"),
    shim_file!("integers.h"),
    shim_file!("atomics.h"),
    shim_file!("atomic_ref.h"),
    shim_file!("math.h"),
    shim_file!("math64.h"),
    shim_file!("special.h"),
    shim_file!("names.h"),
    shim_file!("directed.h"),
    shim_file!("simd.h"),
    shim_file!("textures.h"),
    shim_file!("function.h"),
    shim_file!("ptx.h"),
    shim_file!("complex.h"),
    shim_file!("thrust.h"),
    shim_file!("tiles.h"),
    shim_file!("random.h"),
    shim_file!("runtime.h"),
    shim_file!("half.h"),
    shim_file!("bfloat.h"),
    shim_file!("float8.h"),
    shim_file!("constants.h"),
    shim_file!("groups.h"),
    shim_file!("blocks.h"),
    shim_file!("host.h"),
    shim_file!("libraries.h"),
    shim_file!("operands.h"),
    shim_file!("operators.h"),
    shim_file!("torch.h"),
    shim_file!("nvcc.h"),
    shim_file!("rtc.h"),
    hip!("hip/hip_runtime.h", "gpu.h"),
    hip!("hip/hip_runtime_api.h", "gpu.h"),
    hip!("hip/hip_common.h", "gpu.h"),
    hip!("hip/hip_ext.h", "gpu.h"),
    hip!("hip/hip_vector_types.h", "gpu.h"),
    hip!("hip/hip_math_constants.h", "constants.h"),
    hip!("hip/hip_version.h", "gpu.h"),
    hip!("hip/hip_complex.h", "complex.h"),
    hip!("hip/math_functions.h", "gpu.h"),
    hip!("hip/device_functions.h", "gpu.h"),
    hip!("hip/driver_types.h", "gpu.h"),
    hip!("hip/hip_profile.h", "gpu.h"),
    hip!("hip/hip_fp16.h", "half.h"),
    hip!("hip/hip_bf16.h", "bfloat.h"),
    hip!("hip/hip_bfloat16.h", "bfloat.h"),
    hip!("hip/hip_cooperative_groups.h", "groups.h"),
    cuda!("cuda_runtime.h", "gpu.h"),
    cuda!("cuda_runtime_api.h", "gpu.h"),
    cuda!("cuda.h", "gpu.h"),
    // Nothing of it is for kernels, and NVRTC's packages lack it.
    ("cuda_profiler_api.h", "#pragma once\n#include \"bluefin/gpu.h\"\n"),
    cuda!("device_launch_parameters.h", "gpu.h"),
    cuda!("device_functions.h", "gpu.h"),
    cuda!("device_atomic_functions.h", "gpu.h"),
    cuda!("sm_60_atomic_functions.h", "gpu.h"),
    cuda!("driver_types.h", "gpu.h"),
    cuda!("vector_types.h", "gpu.h"),
    cuda!("vector_functions.h", "gpu.h"),
    cuda!("math_functions.h", "gpu.h"),
    cuda!("math_constants.h", "constants.h"),
    cuda!("cuComplex.h", "complex.h"),
    cuda!("builtin_types.h", "gpu.h"),
    cuda!("host_defines.h", "gpu.h"),
    cuda!("cuda_fp16.h", "half.h"),
    cuda!("cuda_bf16.h", "bfloat.h"),
    cuda!("cuda_fp8.h", "float8.h"),
    hip!("hip/hip_fp8.h", "float8.h"),
    cuda!("mma.h", "tiles.h"),
    cuda!("curand_kernel.h", "random.h"),
    hip!("hiprand/hiprand_kernel.h", "random.h"),
    cuda!("cooperative_groups.h", "groups.h"),
    cuda!("cooperative_groups/reduce.h", "groups.h"),
    cuda!("cooperative_groups/scan.h", "groups.h"),
    cuda!("cooperative_groups/memcpy_async.h", "groups.h"),
    // What samples share for their hosts, of which kernels need nothing.
    ("helper_cuda.h", HOST),
    ("helper_functions.h", HOST),
    ("helper_timer.h", HOST),
    ("helper_string.h", HOST),
    ("helper_image.h", HOST),
    ("helper_math.h", "#pragma once\n#include \"bluefin/operators.h\"\n"),
    ("example_utils.hpp", HOST),
    ("cmdparser.hpp", HOST),
    ("omp.h", "#pragma once\n"),
];
const HOST: &str = "#pragma once\n#include \"bluefin/gpu.h\"\n#include \"bluefin/host.h\"\n";

/// How the names of libraries for hosts begin, of which kernels need nothing, but for nvcc, which has CUDA's.
const LIBRARIES: [&str; 40] = [
    "cuda/",
    "thrust/",
    "cub/",
    "hipcub/",
    "rocprim/",
    "rocthrust/",
    "cublas",
    "hipblas",
    "rocblas",
    "cufft",
    "hipfft",
    "rocfft",
    "curand.h",
    "hiprand/hiprand.h",
    "rocrand/rocrand.h",
    "cusparse",
    "hipsparse",
    "rocsparse",
    "cusolver",
    "hipsolver",
    "rocsolver",
    "cudnn",
    "miopen/",
    "nccl",
    "rccl",
    "mpi.h",
    "nvToolsExt",
    "nvtx3/",
    "roctx",
    "roctracer/",
    "nvml.h",
    "boost/",
    "Eigen/",
    "opencv2/",
    "torch/",
    "ATen/",
    "c10/",
    "THC",
    "cute/",
    "cutlass/",
];

/// Those that bring the types of 16 bits and complex numbers along.
const OF_OPERANDS: [&str; 15] = [
    "cublas",
    "hipblas",
    "rocblas",
    "cudnn",
    "nccl",
    "rccl",
    "miopen/",
    "cufft",
    "hipfft",
    "cusparse",
    "hipsparse",
    "rocsparse",
    "cusolver",
    "hipsolver",
    "rocsolver",
];

/// Those of PyTorch.
const TORCH: [&str; 4] = ["torch/", "ATen/", "c10/", "THC"];

/// Whether a word is one of HIP's interface: `hipMalloc`, `HIP_DYNAMIC_SHARED`.
fn is_word_of_hip(word: &str) -> bool {
    let named = |rest: &str| rest.starts_with(|first: char| first.is_ascii_uppercase());
    word.starts_with("HIP_") || word.strip_prefix("hip").is_some_and(named)
}

/// Whether `word` is among the words of a text.
fn names_word(text: &str, word: &str) -> bool {
    text.contains(word) && host_code::tokens(text).iter().any(|token| token.text == word)
}

/// Where what stands for headers lies that neither the spec nor bluefin has.
const OF_MACHINE: &str = "bluefin/machine/";

fn text_of(name: &str) -> Option<Cow<'static, str>> {
    if let Some(header) = name.strip_prefix(OF_MACHINE) {
        return Some(format!("#if __has_include(<{header}>)\n#include <{header}>\n#endif\n").into());
    }
    if let Some((_, text)) = HEADERS.iter().find(|(known, _)| *known == name) {
        return Some(Cow::Borrowed(text));
    }
    let is_library = LIBRARIES.iter().any(|library| name.starts_with(library));
    let is_of = |libraries: &[&str]| libraries.iter().any(|library| name.starts_with(library));
    let part = match () {
        // Blocks of threads use these as well.
        () if is_of(&["cub/", "hipcub/"]) => "blocks.h",
        () if is_of(&OF_OPERANDS) => "operands.h",
        () if is_of(&TORCH) => "torch.h",
        () if is_of(&["thrust/", "rocthrust/"]) => "thrust.h",
        () if is_of(&["cuda/std/complex"]) => "complex.h",
        () if is_of(&["cuda/atomic", "cuda/std/atomic"]) => "atomic_ref.h",
        () => "libraries.h",
    };
    // NVRTC has those that are for kernels, where they are installed; cub/cub.cuh has some that are not.
    let installed = match () {
        () if is_of(&["cub/"]) && name != "cub/cub.cuh" => "__has_include(<cub/version.cuh>)",
        () if is_of(&["cuda/"]) => "__has_include(<cuda/std/version>)",
        () => "0",
    };
    let types = match part {
        "operands.h" => "#else\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n",
        "torch.h" => {
            "#else\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nnamespace c10 {\nusing Half = __half;\nusing BFloat16 = __nv_bfloat16;\n}\n\
             namespace at {\nusing namespace c10;\n}\n"
        }
        _ => "",
    };
    is_library.then(|| {
        format!(
            "#if !defined(__NVCC__)\n#pragma once\n#include \"bluefin/{part}\"\n#elif !defined(__CUDACC_RTC__)\n#if __has_include_next(<{name}>)\n\
             #include_next <{name}>\n#endif\n#elif {installed}\n#include_next <{name}>\n{types}#endif\n"
        )
        .into()
    })
}

/// Whether a header of the shim defines the macro `name`.
pub(super) fn defines(name: &str) -> bool {
    HEADERS
        .iter()
        .filter(|(_, text)| text.contains(name))
        .any(|(_, text)| host_code::macros(text).any(|one| one == name))
}

/// Whether a file of a bundle is one of the shim's by its name.
pub(super) fn is_header(name: &str) -> bool {
    text_of(name).is_some()
}

/// Whether a header is one of a library by the beginning of its name alone, as one of a project may be that uses it: `cublas_tools.h`.
pub(super) fn is_called_alike(name: &str) -> bool {
    !name.contains('/') && HEADERS.iter().all(|(known, _)| *known != name)
}

/// The dialect of a bundle's files, if the shim is among them.
pub(super) fn dialect(files: &BTreeMap<String, String>) -> Option<Dialect> {
    let has = |name| files.contains_key(name);
    match (has("bluefin/gpu.h"), has(HIP)) {
        (true, true) => Some(Dialect::Hip),
        (true, false) => Some(Dialect::Cuda),
        (false, _) => None,
    }
}

/// The libraries for hosts whose headers are among a bundle's files, with nothing or only a part of them in it.
pub(super) fn libraries(files: &BTreeMap<String, String>) -> Vec<String> {
    let is_library = |name: &str| LIBRARIES.iter().any(|library| name.starts_with(library));
    // One of the project may be called like those of a library.
    let are_ours =
        |(name, text): &(&String, &String)| is_library(name) && text_of(name).is_some_and(|own| own == **text);
    files.iter().filter(are_ours).map(|(name, _)| name.clone()).collect()
}

/// The includes that were left out of the files of a bundle, as they are in no file of the spec.
pub(super) fn left_out(files: &BTreeMap<String, String>) -> Vec<String> {
    let lines = files.iter().filter(|(name, _)| !is_header(name)).flat_map(|(_, text)| text.lines());
    lines.filter_map(|line| line.strip_prefix(host_code::LEFT_OUT)).map(ToString::to_string).collect()
}

/// The headers in angle brackets that neither the spec nor bluefin has, which a machine may have.
pub(super) fn of_machine(files: &BTreeMap<String, String>) -> Vec<String> {
    files.keys().filter_map(|name| name.strip_prefix(OF_MACHINE)).map(ToString::to_string).collect()
}

/// Puts what the files of a spec include of the shim among them, and takes out of them what is for the host alone: then a source
/// compiles as it is, and a change of its host code changes nothing that is compiled. What is reached neither from the words of `named` nor
/// from what they reach goes as well.
pub(super) fn complete(files: &mut BTreeMap<String, String>, source: &str, named: &str) {
    let known = |name: &str| files.contains_key(name) || is_header(name);
    let of_include = |from: &str, name: &str| {
        let names = || files.keys().map(String::as_str);
        let may_be = !files.contains_key(name) && (is_called_alike(name) || is_nothing(name));
        let is_own = may_be && ending_with(name, names()).is_some();
        if known(name) && !is_own || is_of_machine(name) {
            return Include::Kept;
        }
        let elsewhere = || ending_with(name, names()).or_else(|| within(name, names()));
        let has = |place: &String| if is_own { files.contains_key(place) } else { known(place) };
        match places(from, name).into_iter().find(has).or_else(elsewhere) {
            Some(place) => Include::Renamed(place),
            None if joined("", name).is_some_and(|path| path == name) => {
                Include::NotBeside { machine: format!("{OF_MACHINE}{name}") }
            }
            None => Include::NotBeside { machine: name.to_string() },
        }
    };
    // The prelude includes CUDA's headers for nvcc alone.
    let own = files.iter().filter(|(name, _)| *name != PRELUDE);
    let mut wanted = BTreeSet::new();
    for (from, include) in own.flat_map(|(from, text)| host_code::includes(text).map(move |include| (from, include))) {
        match of_include(from, &include) {
            Include::NotBeside { .. } => {}
            Include::Kept => _ = wanted.insert(include),
            Include::Renamed(place) => _ = wanted.insert(place),
        }
    }
    wanted.retain(|name| is_header(name));
    // nvcc gives its sources this header without being asked.
    let is_cuda_source = source.ends_with(".cu") || source.ends_with(".cuh");
    // A header of kernels leaves theirs to whoever includes it.
    let has = |word: &str| files.iter().any(|(name, text)| *name != PRELUDE && names_word(text, word));
    if wanted.is_empty() && !is_cuda_source && !has("__global__") {
        return;
    }
    // hipcc compiles such a source without any header of HIP's: its words tell.
    let names_hip =
        || files.values().any(|text| host_code::tokens(text).iter().any(|token| is_word_of_hip(token.text)));
    let is_of_hip = |name: &String| name.starts_with("hip/");
    // A file for both has HIP's under a condition.
    if is_cuda_source && wanted.iter().any(|name| name.starts_with("cuda")) {
        wanted.retain(|name| !is_of_hip(name));
    }
    let is_hip = wanted.iter().any(is_of_hip) || wanted.is_empty() && (source.ends_with(".hip") || names_hip());
    let mut waiting: Vec<String> = wanted.into_iter().chain([if is_hip { HIP } else { CUDA }.to_string()]).collect();
    let opening = host_code::namespace_macros(files.values().map(String::as_str));
    let opened = |(name, text): (&String, &String)| (name.clone(), host_code::with_namespace_macros(text, &opening));
    let opened: BTreeMap<String, String> = files.iter().map(opened).collect();
    let texts = || opened.values().map(String::as_str);
    let (macros, of_host) = (host_code::marks(texts()), host_code::host_macros(texts()));
    let (declared, one_sided) = (host_code::namespaces(texts()), host_code::one_sided(texts()));
    let changed = |(name, text): (&String, &String)| match name.as_str() {
        PRELUDE => (name.clone(), text.clone()),
        _ => {
            let text = host_code::for_any_compiler(text);
            let included = host_code::with_includes(&text, |include| of_include(name, include));
            let plain = host_code::without_calls(&included, &of_host);
            let of_device = host_code::without_host(&host_code::without(&plain, &macros), &one_sided);
            let named = host_code::with_namespaces(&of_device, &declared);
            (name.clone(), if is_hip { named } else { host_code::with_ptx(&named) })
        }
    };
    let texts: BTreeMap<String, String> = opened.iter().map(changed).collect();
    *files = texts;
    let own = files.iter().filter(|(name, _)| *name != PRELUDE).map(|(name, text)| (name.clone(), text.clone()));
    let own: BTreeMap<String, String> = own.collect();
    waiting.extend(own.values().flat_map(|text| host_code::includes(text)).filter(|name| name.starts_with(OF_MACHINE)));
    for (name, ranges) in host_code::unreached(&own, named) {
        if let Some(text) = files.get_mut(&name) {
            *text = host_code::blank(text, ranges);
        }
    }
    while let Some(name) = waiting.pop() {
        let Some(text) = text_of(&name).filter(|_| !files.contains_key(&name)) else { continue };
        // nvcc has those of other names.
        waiting.extend(host_code::includes(&text).filter(|include| include.starts_with("bluefin/")));
        files.insert(name, text.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(source: &str, text: &str) -> BTreeMap<String, String> {
        let mut files = BTreeMap::from([(source.to_string(), text.to_string())]);
        complete(&mut files, source, "k");
        files
    }

    #[test]
    fn an_include_is_enough() {
        let files = completed("k.hip", "#include <hip/hip_fp16.h>\n__global__ void k() { }\n");
        assert!(files.contains_key("bluefin/half.h") && files.contains_key("bluefin/math64.h"));
        assert!(!files.contains_key("bluefin/bfloat.h"), "what nobody includes does not travel");
        assert_eq!(dialect(&files), Some(Dialect::Hip));
        assert_eq!(dialect(&completed("k.cu", "__global__ void k() { }\n")), Some(Dialect::Cuda));
        let named = "__global__ void k() { HIP_DYNAMIC_SHARED(int, words) }\n";
        assert_eq!(dialect(&completed("k.cu", named)), Some(Dialect::Hip));
        assert_eq!(dialect(&completed("k.cu", &format!("#include <cuda.h>\n{named}"))), Some(Dialect::Cuda));
        let alone = "static __global__ void k() { }\n";
        assert_eq!(dialect(&completed("k.hpp", alone)), Some(Dialect::Cuda));
        assert_eq!(dialect(&completed("k.hip", alone)), Some(Dialect::Hip));
        let both = "#if X\n#include <hip/hip_runtime.h>\n#else\n#include <cuda_fp16.h>\n#endif\n";
        assert_eq!(dialect(&completed("k.cuh", both)), Some(Dialect::Cuda));
        assert_eq!(dialect(&completed("k.cpp", both)), Some(Dialect::Hip));
        let files = completed(
            "k.hip",
            "#include \"../../Common/helper_cuda.h\"\n#include \"../x/own.h\"\n#include <sys/types.h>\n",
        );
        assert_eq!(dialect(&files), Some(Dialect::Cuda));
        assert_eq!(files["k.hip"], "#include \"helper_cuda.h\"\n// left out: ../x/own.h\n#include <sys/types.h>\n");
        assert_eq!(left_out(&files), ["../x/own.h"]);
    }

    #[test]
    fn what_only_a_host_may_need_is_left_out() {
        let text = "#include <cub/cub.cuh>\n#include \"reference.h\"\n#include \"math.h\"\n#include \"vector\"\n#include <own.h>\n";
        let files = completed("k.cu", text);
        assert_eq!(
            files["k.cu"],
            "#include <cub/cub.cuh>\n// left out: reference.h\n#include \"math.h\"\n#include \"vector\"\n#include \"bluefin/machine/own.h\"\n"
        );
        assert_eq!((left_out(&files), libraries(&files)), (vec!["reference.h".into()], vec!["cub/cub.cuh".into()]));
        assert_eq!(of_machine(&files), ["own.h"]);
        assert!(libraries(&completed("k.cu", "#include <cuda_fp16.h>\n")).is_empty());
    }

    #[test]
    fn what_asks_for_nvcc_asks_for_cuda() {
        let text = "#ifdef __NVCC__\n__global__ void k() { }\n#endif\n";
        assert_eq!(completed("k.cu", text)["k.cu"], text.replace("__NVCC__", "__CUDACC__"));
    }

    #[test]
    fn others_stay_as_they_are() {
        let text = "#include \"prelude.h\"\nint main() { return 0; }\n";
        assert_eq!(completed("k.hip", text), BTreeMap::from([("k.hip".to_string(), text.to_string())]));
        let mut files = BTreeMap::from([(PRELUDE.to_string(), "#include <cuda_fp16.h>\n".to_string())]);
        complete(&mut files, "k.hip", "k");
        assert_eq!(files.len(), 1, "what the prelude includes for nvcc is no file's wish");
    }

    #[test]
    fn a_file_beside_the_spec_goes_before() {
        let mut files = BTreeMap::from([
            ("k.cu".to_string(), "#include \"helper_cuda.h\"\n".to_string()),
            ("helper_cuda.h".to_string(), "#define MINE 1\n".to_string()),
        ]);
        complete(&mut files, "k.cu", "k");
        assert_eq!(files["helper_cuda.h"], "#define MINE 1\n");
        assert_eq!(dialect(&files), Some(Dialect::Cuda));
    }

    /// What one header includes of the shim is there as well.
    #[test]
    fn headers_are_whole() {
        for (name, text) in HEADERS {
            for include in host_code::includes(text).filter(|include| include.starts_with("bluefin/")) {
                assert!(is_header(&include), "{name} includes {include}");
            }
        }
    }
}
