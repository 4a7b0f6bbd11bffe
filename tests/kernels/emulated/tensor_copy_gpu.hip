// Hopper's copy engine on the CPU: a box lands at once, or with LATE when somebody waits for its gate.
#pragma once
#include "warpgroup_gpu.hip"

struct Tensor {
    const Element* data;
    int inner, lines, sheets;
    long long line_bytes, sheet_bytes;
};
constexpr int MAP_BYTES = 128;

struct Map {
    Tensor tensor;
    int box_lines;
};
static_assert(sizeof(Map) <= MAP_BYTES);

DEVICE void describe(const Tensor& tensor, int box_lines, void* map, unsigned char* scratch, int lane) {
    if ((uintptr_t)map % MAP_BYTES != 0 || (scratch - emulated::base()) % MAP_BYTES != 0) emulated::fail("map not aligned");
    const bool whole = (uintptr_t)tensor.data % 16 == 0 && tensor.line_bytes % 16 == 0 && tensor.sheet_bytes % 16 == 0;
    if (!whole || box_lines > 256) emulated::fail("a tensor that the copy engine refuses");
    if (lane == 0) *(Map*)map = {tensor, box_lines};
}

struct Gate {
    short phase, count, arrived;
    short copies;
    static_assert(sizeof(short) == 2);
};
// Bytes that were announced and have not landed, and copies under way, by gate.
struct Traffic {
    int bytes = 0;
    std::vector<std::function<void()>> copies;
};
#include <map>
inline std::map<Gate*, Traffic> traffic;

DEVICE void gate_turn(Gate* gate) {
    if (gate->arrived == gate->count && traffic[gate].bytes == 0) {
        gate->arrived = 0;
        gate->phase ^= 1;
    }
}
DEVICE void gate_init(Gate* gate, int count) {
    *gate = {0, (short)count, 0, 0};
    traffic[gate] = {};
}
DEVICE void gate_arrive(Gate* gate) {
    if (++gate->arrived > gate->count) emulated::fail("one arrival too many");
    gate_turn(gate);
}
DEVICE void gate_announce(Gate* gate, int bytes) {
    traffic[gate].bytes += bytes;
    gate_arrive(gate);
}
DEVICE void gate_wait(Gate* gate, int parity) {
    while (gate->phase == parity) {
        auto copies = std::move(traffic[gate].copies);
        traffic[gate].copies.clear();
        for (const auto& copy : copies) copy();
        if (gate->phase == parity) emulated::yield();
    }
}

DEVICE void copy_box(Element* to, const void* map, int inner, int line, int sheet, Gate* gate) {
    if (((unsigned char*)to - emulated::base()) % 1024 != 0) emulated::fail("a box that is not aligned");
    const Map& of = *(const Map*)map;
    const auto run = [=] {
        for (int y = 0; y < of.box_lines; ++y) {
            for (int x = 0; x < 64; ++x) {
                const bool inside = inner + x < of.tensor.inner && line + y < of.tensor.lines && sheet < of.tensor.sheets;
                const long long at = sheet * of.tensor.sheet_bytes + (line + y) * of.tensor.line_bytes + (inner + x) * 2;
                to[y * 64 + ((x / 8 ^ y) & 7) * 8 + x % 8] = inside ? *(const Element*)((const char*)of.tensor.data + at) : (Element)0;
            }
        }
        traffic[gate].bytes -= of.box_lines * 128;
        gate_turn(gate);
    };
    if (emulated::late) {
        traffic[gate].copies.push_back(run);
    } else {
        run();
    }
}

// A block begins with 64 Ki registers divided evenly, in eights a thread; who takes more of them than the others leave
// waits for ever. PTX ISA, "setmaxnreg".
template <int REGISTERS> DEVICE void own_registers() {
    static_assert(REGISTERS >= 24 && REGISTERS <= 256 && REGISTERS % 8 == 0);
    const int threads = (int)emulated::fibers.size();
    emulated::registers_owned += REGISTERS;
    if (emulated::registers_owned > 65536 / threads / 8 * 8 * threads) emulated::fail("registers that the block does not have");
}
template <int REGISTERS> DEVICE void keep_registers() { own_registers<REGISTERS>(); }
template <int REGISTERS> DEVICE void take_registers() { own_registers<REGISTERS>(); }
