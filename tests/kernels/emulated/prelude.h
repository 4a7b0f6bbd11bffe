// The prelude of GPU kernels on the CPU: the threads of a block are fibers that take turns, and instructions of a wave are
// done by the definition of their lane layouts. What is late on a GPU is late here: copies land when they are waited for,
// warpgroup instructions read then when LATE is in the environment. Shared memory begins as NaN. -DON_NVIDIA=1 is NVIDIA's side, else AMD's.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#define KERNEL extern "C" void
#define DEVICE inline
#define DEVICE_LAMBDA
#define SHARED alignas(16) static
#define BLOCK_OF(threads)
#define BLOCK_ALONE(threads)
#define SHARED_SPACE(name, bytes) unsigned char* name = emulated::space(bytes)

using half = _Float16;
using bfloat = __bf16;
// What compilers call for the conversion, where their own library may lack it: nothing here names it. The result is in the low
// half of the register that a float is returned in.
extern "C" __attribute__((used, weak)) float __truncsfbf2(float value) {
    const unsigned bits = __builtin_bit_cast(unsigned, value);
    const unsigned rounded = value != value ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return __builtin_bit_cast(float, rounded);
}
template <class T, int N> using Vec = T __attribute__((ext_vector_type(N)));
template <class To, class From, int N> DEVICE Vec<To, N> convert(Vec<From, N> from) {
    return __builtin_convertvector(from, Vec<To, N>);
}
using Element = ELEMENT;

#if ON_NVIDIA
constexpr int WAVE = 32;
#else
constexpr int WAVE = 64;
#endif

namespace emulated {
static const bool late = getenv("LATE") != nullptr;
struct Copy {
    void* to;
    const void* from;
    int bytes;
    bool inside;
};
// A meeting of threads: all arrive, then all go on.
struct Meeting {
    int arrived = 0;
    unsigned phase = 0;
};
struct Fiber {
    // Where it begins, and where it goes on: unlike contexts, jumps ask nothing of the kernel.
    ucontext_t context;
    jmp_buf at;
    bool begun = false, done = false;
    std::deque<std::vector<Copy>> groups;
    std::vector<Copy> copies;
    std::deque<std::vector<std::function<void()>>> batches;
    std::vector<std::function<void()>> batch;
};
// What a lane shows to its wave.
struct Shown {
    unsigned words[8];
};

inline jmp_buf scheduler;
inline std::vector<Fiber> fibers;
// Of the fibers, block after block: cleared, they would cost more than what runs on them.
constexpr size_t STACK = 256 << 10;
inline std::vector<std::unique_ptr<unsigned char[]>> stacks;
inline std::function<void()> body;
inline int current, blocks[3];
inline unsigned dynamic_bytes;
// By the threads that said how many they want.
inline int registers_owned;
inline std::vector<unsigned char> memory;
inline Meeting block_meeting;
inline std::vector<Meeting> wave_meetings;
inline std::vector<Shown> shown;

[[noreturn]] inline void fail(const char* why) {
    fprintf(stderr, "block %d %d %d, thread %d: %s\n", blocks[0], blocks[1], blocks[2], current, why);
    exit(1);
}
__attribute__((noinline)) inline void yield() {
    if (!_setjmp(fibers[current].at)) _longjmp(scheduler, 1);
}
__attribute__((noinline)) inline void resume(Fiber& fiber) {
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.at, 1);
    fiber.begun = true;
    setcontext(&fiber.context);
}
inline void meet(Meeting& meeting, int count) {
    const unsigned phase = meeting.phase;
    if (++meeting.arrived == count) {
        meeting.arrived = 0;
        ++meeting.phase;
    } else {
        while (meeting.phase == phase) yield();
    }
}
inline void meet_wave() { meet(wave_meetings[current / WAVE], WAVE); }

inline unsigned char* base() { return (unsigned char*)(((uintptr_t)memory.data() + 1023) / 1024 * 1024); }
inline unsigned char* space(unsigned bytes) {
#if ON_NVIDIA
    if (bytes > dynamic_bytes) fail("more shared memory than the launch gives");
#endif
    return base();
}

inline void enter() {
    body();
    fibers[current].done = true;
    while (true) yield();
}

// Runs a kernel, block after block.
inline void launch(int gx, int gy, int gz, int threads, unsigned shared, std::function<void()> kernel) {
    body = kernel;
    dynamic_bytes = shared;
    for (int z = 0; z < gz; ++z) for (int y = 0; y < gy; ++y) for (int x = 0; x < gx; ++x) {
        blocks[0] = x, blocks[1] = y, blocks[2] = z;
        memory.assign((1 << 18) + 1024, 0xff);
        block_meeting = {};
        registers_owned = 0;
        wave_meetings.assign(threads / WAVE + 1, {});
        shown.assign(threads, {});
        fibers.clear();
        fibers.resize(threads);
        while (stacks.size() < fibers.size()) stacks.emplace_back(new unsigned char[STACK]);
        for (int at = 0; at < threads; ++at) {
            ucontext_t& context = fibers[at].context;
            getcontext(&context);
            context.uc_stack.ss_sp = stacks[at].get();
            context.uc_stack.ss_size = STACK;
            makecontext(&context, enter, 0);
        }
        long long rounds = 0;
        for (bool left = true; left; ++rounds) {
            left = false;
            for (current = 0; current < threads; ++current) {
                if (fibers[current].done) continue;
                resume(fibers[current]);
                left = left || !fibers[current].done;
            }
            if (rounds > 20'000'000) fail("never ends");
        }
    }
}

inline void land(const Copy& copy) {
    if (copy.inside) {
        memcpy(copy.to, copy.from, copy.bytes);
    } else {
        memset(copy.to, 0, copy.bytes);
    }
}
inline float element(const unsigned* words, int index) { return (float)((const Element*)words)[index]; }
}  // namespace emulated

DEVICE int thread_x() { return emulated::current; }
DEVICE int block_x() { return emulated::blocks[0]; }
DEVICE int block_y() { return emulated::blocks[1]; }
DEVICE int block_z() { return emulated::blocks[2]; }
DEVICE void barrier() { emulated::meet(emulated::block_meeting, (int)emulated::fibers.size()); }

DEVICE float lane_xor(float value, int, int mask) {
    const int self = emulated::current;
    memcpy(emulated::shown[self].words, &value, 4);
    emulated::meet_wave();
    memcpy(&value, emulated::shown[self ^ mask].words, 4);
    emulated::meet_wave();
    return value;
}

template <class T> constexpr DEVICE T min(T a, T b) { return a < b ? a : b; }
template <class T> constexpr DEVICE T max(T a, T b) { return a < b ? b : a; }
constexpr DEVICE int ceil_div(int a, int b) { return (a + b - 1) / b; }
DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE int leading_zeros(int a) { return __builtin_clz((unsigned)a); }
constexpr DEVICE int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
DEVICE float wave_sum(float value, int lane) {
    for (int mask = WAVE / 2; mask > 0; mask /= 2) value += lane_xor(value, lane, mask);
    return value;
}

// Shows this lane's words to the wave; then `read` sees those of all its lanes.
template <class Read> DEVICE void with_wave(const void* words, int bytes, const Read& read) {
    memcpy(emulated::shown[emulated::current].words, words, bytes);
    emulated::meet_wave();
    read(&emulated::shown[emulated::current / WAVE * WAVE]);
    emulated::meet_wave();
}

#if ON_NVIDIA
// PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type".
DEVICE void matrix_fma(Vec<float, 4>& c, Vec<unsigned, 4> a, unsigned b0, unsigned b1) {
    const unsigned words[6] = {a[0], a[1], a[2], a[3], b0, b1};
    with_wave(words, sizeof words, [&](const emulated::Shown* lanes) {
        const int lane = emulated::current % WAVE;
        for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            for (int k = 0; k < 16; ++k) {
                const int word = row / 8 + k / 8 * 2;
                const float left = emulated::element(&lanes[row % 8 * 4 + k % 8 / 2].words[word], k % 2);
                const float right = emulated::element(&lanes[column * 4 + k % 8 / 2].words[4 + k / 8], k % 2);
                c[i] += left * right;
            }
        }
    });
}

// PTX ISA, "ldmatrix".
template <bool TRANSPOSED> DEVICE Vec<unsigned, 4> matrix_load(const Element* row) {
    Vec<unsigned, 4> out;
    with_wave(&row, sizeof row, [&](const emulated::Shown* lanes) {
        const int lane = emulated::current % WAVE;
        for (int q = 0; q < 4; ++q) {
            Element pair[2];
            for (int j = 0; j < 2; ++j) {
                const int from = TRANSPOSED ? lane % 4 * 2 + j : lane / 4, at = TRANSPOSED ? lane / 4 : lane % 4 * 2 + j;
                const Element* line;
                memcpy(&line, lanes[q * 8 + from].words, sizeof line);
                pair[j] = line[at];
            }
            unsigned word;
            memcpy(&word, pair, 4);
            out[q] = word;
        }
    });
    return out;
}

template <int BYTES> DEVICE void copy_async(void* to, const void* from, bool inside) {
    if ((uintptr_t)to % BYTES != 0 || (uintptr_t)from % BYTES != 0) emulated::fail("a copy that is not aligned");
    emulated::fibers[emulated::current].copies.push_back({to, from, BYTES, inside});
}
DEVICE void copy_commit() {
    auto& self = emulated::fibers[emulated::current];
    self.groups.push_back(std::move(self.copies));
    self.copies.clear();
}
template <int PENDING> DEVICE void copy_wait() {
    auto& groups = emulated::fibers[emulated::current].groups;
    for (; groups.size() > PENDING; groups.pop_front()) {
        for (const auto& copy : groups.front()) emulated::land(copy);
    }
}
#else
// AMD matrix instruction layouts of V_MFMA_F32_32X32X8_F16 and V_MFMA_F32_16X16X16_F16 (CDNA ISA): lane l holds four k of
// row (of A) or column (of B) l % SIDE; register r of C is four rows of column l % SIDE.
template <int SIDE, class Sums> DEVICE void mfma(Sums& c, Vec<Element, 4> a, Vec<Element, 4> b) {
    Element words[8] = {a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]};
    with_wave(words, sizeof words, [&](const emulated::Shown* lanes) {
        const int lane = emulated::current % WAVE, column = lane % SIDE, groups = WAVE / SIDE;
        for (int r = 0; r < SIDE * SIDE / WAVE; ++r) {
            const int row = r / 4 * 4 * groups + lane / SIDE * 4 + r % 4;
            for (int k = 0; k < 4 * groups; ++k) {
                const float left = emulated::element(lanes[row + k / 4 * SIDE].words, k % 4);
                c[r] += left * emulated::element(lanes[column + k / 4 * SIDE].words, 4 + k % 4);
            }
        }
    });
}
DEVICE void matrix_fma(Vec<float, 16>& c, Vec<Element, 4> a, Vec<Element, 4> b) { mfma<32>(c, a, b); }
DEVICE void matrix_fma(Vec<float, 4>& c, Vec<Element, 4> a, Vec<Element, 4> b) { mfma<16>(c, a, b); }
constexpr int LANE_K = 8;
template <int N> DEVICE void matrix_fma(Vec<float, N>& c, Vec<Element, 8> a, Vec<Element, 8> b) {
    matrix_fma(c, a.lo, b.lo);
    matrix_fma(c, a.hi, b.hi);
}
template <int SIDE> DEVICE int matrix_row(int row, int r, int lane) {
    return row + r / 4 * 4 * (WAVE / SIDE) + lane / SIDE * 4 + r % 4;
}
#endif

// A pointer that becomes what a kernel's parameter is.
struct AnyPointer {
    void* address;
    template <class T> operator T*() const { return (T*)address; }
};

// For the program that runs a kernel: values in [-1, 1], the same in every run.
inline std::vector<Element> emulated_input(size_t count, unsigned seed) {
    std::vector<Element> values(count);
    for (Element& value : values) {
        seed = seed * 1664525 + 1013904223;
        value = (Element)((float)(seed >> 8) / 8388608.0f - 1.0f);
    }
    return values;
}
inline std::vector<Element> emulated_output(size_t count) {
    return std::vector<Element>(count, (Element)__builtin_nanf(""));
}
inline void emulated_print(const std::vector<Element>& values) {
    for (const Element value : values) printf("%.9g\n", (double)(float)value);
}
