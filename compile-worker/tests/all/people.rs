//! HIP and CUDA files as people have them, compiled for every vendor: what bluefin's own headers are executed by is in `tests/all`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_compile_worker::toolchain::{Programs, probe};
use bluefin_compile_worker::{Limits, Metrics, Unit, Workshop};
use bluefin_kernel_spec::{Bundle, KernelSpec};

const TARGETS: [&str; 4] = ["gfx90a-104", "gfx942-304", "gfx1100-96", "sm_90-132"];

const SPEC: &str = r#"
name = "people"
problem = "kernel"
toolchain = "clang"
targets = ["amd", "nvidia"]
source = "SOURCE"
reference = "All"
[sizes]
n = 64
[[buffer]]
name = "out"
type = "FP32"
length = "n"
role = "output"
[tolerance.FP32]
absolute = 0.0
relative = 0.0
[[solver]]
name = "All"
algorithm = "Direct"
  [[solver.launch]]
  entry = "all<64, float>"
  arguments = ["out"]
  grid = [1]
  block = [64]
"#;

/// Each group of names, behind headers of the C++ library and beside a host.
const KERNEL: &str = r#"
namespace cg = cooperative_groups;
template <int N, class T> __global__ void __launch_bounds__(N) all(T* out) {
    extern __shared__ float dynamic[];
    __shared__ T fixed[N];
    const int t = blockIdx.x * blockDim.x + threadIdx.x + gridDim.y - 1;
    fixed[threadIdx.x] = std::exp((float)t) + tanhf(t) + erff(t) + (float)std::sin((double)t) + (float)pow(2.0, t) + rsqrtf(t);
    dynamic[threadIdx.x] = __expf(t) + __fdividef(t, 3) + fminf(t, 3) + std::max(t, 3) + (float)tgamma(t + 0.5);
    __syncthreads();
    const half2 pair = __hfma2(__float2half2_rn(t), __floats2half2_rn(1, 2), __halves2half2(__float2half(t), 3));
    const BFLOAT wide = __float2bfloat16(t);
    int bits = __popc(t) + __clz(t) + __ffs(t) + __mul24(t, 3) + (int)__umulhi(t, 5) + __syncthreads_count(t);
    bits += __shfl_down_sync(~0u, t, 1) + (int)__ballot_sync(~0u, t) + __any_sync(~0u, t) + (int)__activemask();
    bits += __reduce_add_sync(~0u, t);
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const float4 four = make_float4(1, 2, 3, 4);
    atomicAdd(out, 1.0f);
    atomicMax((int*)out + 1, bits);
    atomicAdd((double*)out + 1, 1.0);
    atomicInc((unsigned*)out + 4, 5u);
    atomicCAS((unsigned long long*)out + 3, 5ull, 6ull);
    __threadfence();
    bits += (int)__cvta_generic_to_shared(fixed);
    out[t] = fixed[N - 1 - threadIdx.x] + dynamic[threadIdx.x ^ 1] + __low2float(pair) + (float)(wide * wide) + four.w + __ldg(out + 9) +
             cg::reduce(tile, (float)t, cg::plus<float>());
    printf("%d\n", t);
    assert(t >= 0);
}
int main() {
    std::vector<float> host(64);
    RuntimeOfNobody::start(host.data());
    all<64, float><<<1, 64, 256>>>(host.data());
    std::cout << host[0] << std::endl;
}
"#;

async fn compiled(source: &str, head: &str, bfloat: &str) {
    let folder = tempfile::tempdir().unwrap();
    let standard =
        "#include <algorithm>\n#include <cassert>\n#include <cmath>\n#include <iostream>\n#include <vector>\n";
    let text = format!("{standard}{head}\n#define BFLOAT {bfloat}\n{KERNEL}");
    std::fs::write(folder.path().join(source), text).unwrap();
    let path = folder.path().join("spec.toml");
    std::fs::write(&path, SPEC.replace("SOURCE", source)).unwrap();
    let bundle = Arc::new(Bundle::read(&path).unwrap());
    let compiler = probe("clang", &Programs::default()).await.unwrap().compilers().remove(0);
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let registry = prometheus::Registry::new();
    let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
    let workshop = Workshop::new(store, 2, Limits::default(), None, metrics);
    let spec = KernelSpec::load(&bundle).unwrap();
    let problem = spec.problem(&BTreeMap::new()).unwrap();
    for target in TARGETS {
        let target: Target = target.parse().unwrap();
        let scope = spec.scope(&problem, &target).unwrap().unwrap();
        let build = spec.build(&spec.reference(), &scope).unwrap();
        let unit = Unit::new(&*compiler, target.arch(), Arc::clone(&bundle), &spec, build);
        let built = workshop.compile(&*compiler, &unit).await.unwrap();
        let built = built.unwrap_or_else(|failure| panic!("{source} for {target}: {}", failure.detail));
        let [launch] = built.launches.as_slice() else { panic!("{built:?}") };
        assert_eq!((launch.entry.as_str(), launch.block), ("_Z3allILi64EfEvPT0_", [64, 1, 1]), "{target}");
    }
}

#[tokio::test]
async fn a_hip_file_compiles_for_every_vendor() {
    let head = "#include <hip/hip_runtime.h>\n#include <hip/hip_fp16.h>\n#include <hip/hip_bf16.h>\n#include <hip/hip_cooperative_groups.h>";
    compiled("people.hip", head, "__hip_bfloat16").await;
}

#[tokio::test]
async fn a_cuda_file_compiles_for_every_vendor() {
    let head = "#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cooperative_groups.h>\n#include \"../common/helper_cuda.h\"";
    compiled("people.cu", head, "__nv_bfloat16").await;
}
