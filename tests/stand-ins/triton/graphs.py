"""Kernels, one of them Inductor's, whose first launch goes into a CUDA graph, which whoever asks for an event meanwhile spoils. Prints how
often.
"""

import torch
import triton
import triton.language as tl

from compiled import kernel

captures = spoilt = 0


class Event:
    def __init__(self, enable_timing):
        pass

    def record(self):
        pass

    def query(self):
        global spoilt
        spoilt += captures
        return True

    def elapsed_time(self, _):
        return 0.25


torch.cuda.Event = Event
torch.cuda.is_available = lambda: True
torch.cuda.is_current_stream_capturing = lambda: captures > 0


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["count"])
@triton.jit
def before(out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, at, mask=at < count)


if __name__ == "__main__":
    out = torch.empty(256, dtype=torch.int32)
    for _ in range(2):
        before[(4,)](out, 256)
    captures = 1
    before[(4,)](out, 200)
    kernel().run(*(torch.wave(500, dtype=torch.float32) for _ in range(2)), 500, stream=0)
    captures = 0
    print("spoilt", spoilt)
