"""What the scripts beside this need of the NVIDIA driver: kernels that were compiled elsewhere, loaded and launched."""

import ctypes

MAX_DYNAMIC_SHARED, LOCAL_BYTES, REGISTERS = 8, 3, 4


class Driver:
    """The entry points of libcuda that are needed, on device 0's primary context; every refusal is a RuntimeError."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")

    def allocate(self, size):
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address):
        self("cuMemFree_v2", ctypes.c_uint64(address))

    def fill(self, address, byte, size):
        self("cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(byte), ctypes.c_size_t(size))

    def write(self, address, data):
        self("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def read(self, address, size):
        data = ctypes.create_string_buffer(size)
        self("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data.raw


class Module:
    def __init__(self, driver, path):
        self.driver, self.handle, self.functions = driver, ctypes.c_void_p(), {}
        image = path.read_bytes() + b"\0"
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            driver("cuModuleLoadDataEx", ctypes.byref(self.handle), image, 2, options, values)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {log.value.decode(errors='replace').strip()}") from None

    def function(self, entry, shared):
        if entry not in self.functions:
            found = ctypes.c_void_p()
            self.driver("cuModuleGetFunction", ctypes.byref(found), self.handle, entry.encode())
            if shared > 49152:
                self.driver("cuFuncSetAttribute", found, MAX_DYNAMIC_SHARED, shared)
            self.functions[entry] = found
        return self.functions[entry]

    def attribute(self, function, which):
        value = ctypes.c_int()
        self.driver("cuFuncGetAttribute", ctypes.byref(value), which, function)
        return value.value

    def unload(self):
        self.driver("cuModuleUnload", self.handle)


def argument(value, buffers, workspace):
    """The JSON form as C has it: a buffer's index, "workspace", or a number; `buffers` and `workspace` are addresses."""
    kind, value = next(iter(value.items()))
    if kind == "buffer":
        return ctypes.c_void_p(buffers[value])
    if kind == "workspace":
        return ctypes.c_void_p(workspace)
    return {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}[kind](value)


def launcher(driver, module, case, buffers, workspace):
    """A function that runs the launches of a case on a stream (none: the default one), and the first of its kernels."""
    ready = []
    for launch in case["launches"]:
        arguments = [argument(value, buffers, workspace) for value in launch["arguments"]]
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(value) for value in arguments))
        function = module.function(launch["entry"], launch["shared"])
        ready.append((function, launch["grid"], launch["block"], launch["shared"], arguments, pointers))

    def run(stream=None):
        for function, grid, block, shared, _, pointers in ready:
            driver("cuLaunchKernel", function, *grid, *block, shared, ctypes.c_void_p(stream), pointers, None)

    return run, ready[0][0]
