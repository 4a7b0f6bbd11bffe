//! Kernels in LLVM's intermediate text.

use bluefin_amd::Target;

use super::texture::{DIMENSIONS, POINTS};

/// A kernel that calls an intrinsic on the points of its threads: with `$P0` to `$P3`, their numbers, and `$S`, what every sample ends with.
pub fn kernel(target: &Target, result: &str, call: &str, declared: &str) -> String {
    let call = call.replace("$S", "<8 x i32> %image, <4 x i32> %sampler, i1 false, i32 0, i32 0");
    let call = (0..4).fold(call, |call, at| call.replace(&format!("$P{at}"), &format!("%p{at}")));
    let parts: String = (0..4).map(|at| format!("%p{at} = extractelement <4 x float> %point, i32 {at}\n")).collect();
    let halves: String = (0..4).map(|at| format!("%h{at} = fptrunc float %p{at} to half\n")).collect();
    format!(
        "target triple = \"amdgcn-amd-amdhsa\"\ndeclare i32 @llvm.amdgcn.workitem.id.x()\n{declared}\n\
         define amdgpu_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %points, ptr addrspace(4) %descriptors) #0 {{\n\
         %id = call i32 @llvm.amdgcn.workitem.id.x()\n%image = load <8 x i32>, ptr addrspace(4) %descriptors, align 16\n\
         %at = getelementptr i8, ptr addrspace(4) %descriptors, i64 32\n%sampler = load <4 x i32>, ptr addrspace(4) %at, align 16\n\
         %from = getelementptr <4 x float>, ptr addrspace(1) %points, i32 %id\n%point = load <4 x float>, ptr addrspace(1) %from, align 16\n\
         {parts}{halves}%found = call {result} {call}\n%to = getelementptr <4 x i32>, ptr addrspace(1) %out, i32 %id\n\
         store {result} %found, ptr addrspace(1) %to, align 16\nret void\n}}\n\
         attributes #0 = {{ \"target-cpu\"=\"{}\" \"amdgpu-flat-work-group-size\"=\"1,{POINTS}\" \"uniform-work-group-size\"=\"true\" }}\n",
        target.name
    )
}

/// An intrinsic of coordinates that are floats, and its declaration. `before` are types and values ahead of the coordinates.
pub fn intrinsic(name: &str, suffix: &str, result: &str, dmask: u32, arguments: &[(&str, &str)]) -> (String, String) {
    let types: String = arguments.iter().map(|(of, _)| format!("{of}, ")).collect();
    let values: String = arguments.iter().map(|(of, value)| format!("{of} {value}, ")).collect();
    let name = format!("@llvm.amdgcn.image.{name}.{suffix}");
    let call = format!("{name}(i32 {dmask}, {values}$S)");
    (call, format!("declare {result} {name}(i32, {types}<8 x i32>, <4 x i32>, i1, i32, i32)"))
}

/// A sample of level 0 of images of some dimensions.
pub fn plain(target: &Target, dimension: u32) -> String {
    let (_, name, count) = DIMENSIONS.iter().find(|row| row.0 == dimension).expect("a dimension");
    let arguments = [("float", "$P0"), ("float", "$P1"), ("float", "$P2")];
    let (call, declared) =
        intrinsic(&format!("sample.lz.{name}"), "v4f32.f32", "<4 x float>", 15, &arguments[..*count]);
    kernel(target, "<4 x float>", &call, &declared)
}
