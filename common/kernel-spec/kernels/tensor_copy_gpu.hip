// Hopper's copy engine: one thread asks for a box of a tensor, and a barrier in shared memory says when it has landed.
#pragma once
#include "warpgroup_gpu.hip"

// Sheets of lines of `inner` contiguous halves. Distances are in bytes; they and the address are multiples of 16.
struct Tensor {
    const Element* data;
    int inner, lines, sheets;
    long long line_bytes, sheet_bytes;
};

constexpr int MAP_BYTES = 128;

#define MAP_FIELD(name, type, ...) "tensormap.replace.tile." name ".shared::cta.b1024." type " [%0], " __VA_ARGS__ ";\n"

// Writes the copy engine's description of `tensor`, to be read in boxes of 64 elements by `box_lines`, to `map` in device
// memory, by way of `scratch` in shared memory, both aligned to MAP_BYTES; a whole wave does it. Boxes land as
// matrix_descriptor wants them, with zeros outside the tensor. PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy".
DEVICE void describe(const Tensor& tensor, int box_lines, void* map, unsigned char* scratch, int lane) {
    ((unsigned*)scratch)[lane] = 0;
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    if (lane == 0) {
        asm volatile(MAP_FIELD("global_address", "b64", "%1") MAP_FIELD("rank", "b32", "2")            //
                     MAP_FIELD("box_dim", "b32", "0, 64") MAP_FIELD("box_dim", "b32", "1, %2")         //
                     MAP_FIELD("box_dim", "b32", "2, 1") MAP_FIELD("global_dim", "b32", "0, %3")       //
                     MAP_FIELD("global_dim", "b32", "1, %4") MAP_FIELD("global_dim", "b32", "2, %5")   //
                     MAP_FIELD("global_stride", "b64", "0, %6") MAP_FIELD("global_stride", "b64", "1, %7")
                     MAP_FIELD("element_stride", "b32", "0, 1") MAP_FIELD("element_stride", "b32", "1, 1")
                     MAP_FIELD("element_stride", "b32", "2, 1")
                     MAP_FIELD("elemtype", "b32", "6") MAP_FIELD("interleave_layout", "b32", "0")  // FP16: BF16 is copied alike
                     MAP_FIELD("swizzle_mode", "b32", "3") MAP_FIELD("fill_mode", "b32", "0")      // 128 bytes, zeros
                     ::"r"(shared_address(scratch)), "l"(tensor.data), "r"(box_lines), "r"(tensor.inner),
                     "r"(tensor.lines), "r"(tensor.sheets), "l"(tensor.line_bytes), "l"(tensor.sheet_bytes)
                     : "memory");
    }
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 ::"l"(map), "r"(shared_address(scratch)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// A barrier in shared memory. It has phases of alternating parity and enters the next one when `count` have arrived and
// all bytes that were announced have landed.
using Gate = unsigned long long;
DEVICE void gate_init(Gate* gate, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(gate)), "r"(count) : "memory");
}
DEVICE void gate_arrive(Gate* gate) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(gate)) : "memory");
}
DEVICE void gate_announce(Gate* gate, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(gate)), "r"(bytes) : "memory");
}
// Waits until the phase of that parity is over.
DEVICE void gate_wait(Gate* gate, int parity) {
    unsigned passed = 0;
    while (!passed) {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(passed) : "r"(shared_address(gate)), "r"(parity) : "memory");
    }
}

// Starts the copy of the box that begins there; `gate` hears of its bytes.
DEVICE void copy_box(Element* to, const void* map, int inner, int line, int sheet, Gate* gate) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                 ::"r"(shared_address(to)), "l"(map), "r"(inner), "r"(line), "r"(sheet), "r"(shared_address(gate))
                 : "memory");
}

// Hands registers of this warpgroup to the others of the block, or takes what they gave.
template <int REGISTERS> DEVICE void keep_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> DEVICE void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
