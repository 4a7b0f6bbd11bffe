"""Stands in for torch and for a GPU: tensors hold numbers that no kernel touches, and launches do nothing. Benchmarking is counted, as
whoever has a tuned config should do none.

STAND_IN_TARGET is the GPU: "hip gfx942 64" where it is not set.
"""

import array
import math
import os

from triton.backends.compiler import GPUTarget
from triton.runtime import driver as _driver

benchmarked = 0
# Its modules, which are imported by name.
__path__ = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "parts")]


class dtype:
    def __init__(self, name, code, floats):
        self.name, self.code, self.is_floating_point = name, code, floats
        self.itemsize = array.array(code).itemsize if code else 2

    def __str__(self):
        return f"torch.{self.name}"


float16, float32, float64 = dtype("float16", None, True), dtype("float32", "f", True), dtype("float64", "d", True)
int32, uint8, bool = dtype("int32", "i", False), dtype("uint8", "B", False), dtype("bool", "B", False)


class finfo:
    def __init__(self, of):
        if of not in (float16, float32):
            raise TypeError(of)
        self.bits, self.max = (16, 65504.0) if of is float16 else (32, 3.4028234663852886e38)
        self.min = -self.max

    @property
    def eps(self):
        raise NotImplementedError("of no type here")


class Storage:
    """Memory with an address that is nobody else's."""

    next = 1 << 20

    def __init__(self, numbers, size):
        self.numbers, self.length, self.address = numbers, size, Storage.next
        Storage.next += (size + 511) // 512 * 512

    def data_ptr(self):
        return self.address

    def nbytes(self):
        return self.length

    size = nbytes


class Tensor:
    def __init__(self, shape, dtype, numbers, storage=None, begin=0, device="cuda"):
        self.shape, self.dtype, self.device = tuple(shape), dtype, device
        self.storage = storage or Storage(numbers, math.prod(shape) * dtype.itemsize)
        self.begin = begin
        self.data = self

    def stride(self, at=None):
        strides = tuple(math.prod(self.shape[one + 1:]) for one in range(len(self.shape)))
        return strides if at is None else strides[at]

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self.storage.address + self.begin * self.dtype.itemsize

    def untyped_storage(self):
        return self.storage

    def set_(self, storage, begin, shape, strides):
        return Tensor(shape, self.dtype, None, storage, begin, self.device)

    def list(self):
        return list(self.storage.numbers[self.begin:self.begin + self.numel()])

    def made(self, numbers, dtype=None):
        return Tensor([len(numbers)], dtype or self.dtype, numbers, device=self.device)

    def __getitem__(self, at):
        if isinstance(at, Tensor):
            return self.made([one for one, kept in zip(self.list(), at.list()) if kept])
        begin, end, step = at.indices(self.numel())
        if step != 1:
            return self.made(self.list()[at])
        return Tensor([end - begin], self.dtype, None, self.storage, self.begin + begin, self.device)

    def to(self, dtype):
        return self.made(self.list(), dtype)

    def cpu(self):
        return self

    contiguous = numpy = cpu

    def view(self, _):
        return self

    def tobytes(self):
        return array.array(self.dtype.code, self.list()).tobytes()

    def zero_(self):
        self.storage.numbers[:] = [0] * len(self.storage.numbers)

    def clone(self):
        return self.made(self.list())

    def abs(self):
        return self.made([abs(one) for one in self.list()])

    def __lt__(self, other):
        return self.made([one < other for one in self.list()], bool)

    def square(self):
        return self.made([one * one for one in self.list()])

    def sqrt(self):
        return self.made([math.sqrt(one) for one in self.list()])

    def mean(self):
        return self.made([math.fsum(self.list()) / self.numel()])

    def std(self, unbiased):
        middle = float(self.mean())
        return self.made([math.sqrt(math.fsum((one - middle) ** 2 for one in self.list()) / self.numel())])

    def min(self):
        return self.made([min(self.list())])

    def max(self):
        return self.made([max(self.list())])

    def __float__(self):
        return float(self.list()[0])


def isfinite(tensor):
    return tensor.made([math.isfinite(one) for one in tensor.list()], bool)


def empty(*shape, dtype=float32, device="cuda"):
    shape = shape if shape and shape != (0,) else (0,)
    return Tensor(shape, dtype, [0] * math.prod(shape), device=device)


def wave(*shape, dtype=float16):
    """Numbers between -1 and 1 with mean 0."""
    return Tensor(shape, dtype, [math.sin(at) for at in range(math.prod(shape))])


def bytes(count):
    return Tensor([count], uint8, [at % 64 for at in range(count)])


def sentinels(count):
    """What a kernel that masks every other number has written."""
    return Tensor([count], float32, [-3.4e38 if at % 2 else math.sin(at) for at in range(count)])


def tensor(numbers, dtype=int32):
    return Tensor([len(numbers)], dtype, list(numbers))


def get_float32_matmul_precision():
    return "highest"


class cuda:
    @staticmethod
    def is_available():
        return False

    @staticmethod
    def get_device_name():
        return "a stand-in"


class _Launcher:
    def __init__(self, source, metadata):
        pass

    def __call__(self, *arguments):
        pass


class _Driver:
    launcher_cls = _Launcher

    class utils:
        @staticmethod
        def load_binary(*_):
            return None, 1, 0, 0, 1024

        @staticmethod
        def get_device_properties(_):
            return {"max_shared_mem": 65536, "multiprocessor_count": 304}

    def get_current_target(self):
        backend, arch, lanes = os.environ.get("STAND_IN_TARGET", "hip gfx942 64").split()
        return GPUTarget(backend, int(arch) if backend == "cuda" else arch, int(lanes))

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device):
        return 0

    def get_benchmarker(self):
        def bench(call, quantiles):
            global benchmarked
            benchmarked += 1
            call()
            return [1.0, 1.0, 1.0]

        return bench


_driver.set_active(_Driver())
