"""The memory of a call's tensors: which views share it, what is in it, and which of it is read and written."""

import os
import sys

from bluefin_triton import Left

# Elements that take more bytes than this are summed up instead of kept.
CONTENTS = 64 << 20
# Bytes of memory beside a view that are taken with it.
BESIDE = 1 << 20
# Elements that a summary looks at.
SAMPLE = 1 << 20
# Numbers beyond it stand for infinity, as masks have them.
INFINITY = 1e30


class Buffers:
    """The memory that tensors of a call lie in: views of one storage are one buffer."""

    def __init__(self, contents):
        self.contents = contents
        self.found = {}

    def view(self, name, tensor, shape=None, strides=None):
        """Which buffer a tensor is, and where it begins there, in bytes. Sizes and strides may be others than its own."""
        from triton.runtime.jit import type_canonicalisation_dict

        dtype = str(tensor.dtype).split(".")[-1]
        # As `triton.reinterpret` has it.
        while type(tensor).__name__ == "TensorWrapper":
            tensor = tensor.base
        if not all(hasattr(tensor, asked) for asked in ("untyped_storage", "element_size", "stride")):
            raise Left(f"argument {name}: found a {type(tensor).__name__}, which does not say what memory it is in")
        if dtype not in type_canonicalisation_dict:
            raise Left(f"argument {name}: found elements of {dtype}")
        size = tensor.element_size()
        shape = [int(length) for length in (tensor.shape if shape is None else shape)]
        strides = [int(stride) for stride in (tensor.stride() if strides is None else strides)]
        # Rows of wrapped tensors may go backwards.
        steps = [] if 0 in shape else [(length - 1) * stride for length, stride in zip(shape, strides)]
        before = sum(step for step in steps if step < 0)
        extent = 0 if 0 in shape else 1 + sum(step for step in steps if step > 0)
        place = tensor.untyped_storage().data_ptr() or f"none of {name}"
        begin = 0 if isinstance(place, str) else tensor.data_ptr() - place
        if begin + before * size < 0 or begin + extent * size > tensor.untyped_storage().nbytes():
            raise Left(f"argument {name}: it reaches beyond its memory")
        known = self.found.get(place)
        if known is None:
            canonical = type_canonicalisation_dict[dtype]
            element = {"dtype": canonical, "torch": dtype, "size": size, "floats": canonical.startswith(("fp", "bf"))}
            known = self.found[place] = {"name": name, **element, "tensor": tensor, "begin": begin, "end": begin}
        if known["torch"] != dtype:
            raise Left(f"argument {name}: lies in the memory of {known['name']}, whose elements are of another type")
        known["begin"] = min(known["begin"], begin + before * size)
        known["end"] = max(known["end"], begin + extent * size)
        # A row that is many is where the kernel finds its way by itself, as in gathers.
        known["repeats"] = known.get("repeats", False) or any(stride == 0 and length > 1 for stride, length in zip(strides, shape))
        return {"buffer": known["name"], "offset": begin, "shape": shape, "strides": strides}

    def look(self, arguments):
        """Takes what is in them, before the launch, and says where views begin, in elements."""
        for buffer in self.found.values():
            storage = buffer["tensor"].untyped_storage().nbytes()
            # A kernel may look at more of a tensor's own memory than a view of it says, but not at a pool of it.
            beside = CONTENTS if buffer["repeats"] else 4 * (buffer["end"] - buffer["begin"]) + BESIDE
            if storage - buffer["begin"] <= beside:
                buffer["end"] = storage
            buffer["begin"] -= buffer["begin"] % 16
            buffer["elements"] = max(1, (buffer["end"] - buffer["begin"]) // buffer["size"])
            for one in arguments:
                if one.get("buffer") == buffer["name"]:
                    one["offset"] = (one["offset"] - buffer["begin"]) // buffer["size"]
            region = self.region(buffer)
            if region is None:
                continue
            if self.keeps(buffer) and region.numel() * buffer["size"] <= CONTENTS:
                buffer["data"] = raw(region)
            buffer["summary"] = summary(region)

    def keeps(self, buffer):
        return self.contents == "all" or (self.contents == "integers" and not buffer["floats"])

    @staticmethod
    def region(buffer):
        """All of a buffer as one row; nothing without torch, or if it is empty."""
        torch = sys.modules.get("torch")
        tensor = buffer["tensor"]
        if torch is None or buffer["end"] <= buffer["begin"]:
            return None
        row = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        row = row.set_(tensor.untyped_storage(), buffer["begin"] // buffer["size"], (buffer["elements"],), (1,))
        return row if str(tensor.dtype).split(".")[-1] == buffer["torch"] else reinterpreted(row, buffer["dtype"])

    def settle(self, arguments, roles, zeroed, kept):
        """Which of them are read and written, and how large the numbers are that were written, after the launch. Those that are `zeroed` are so
        before it, those that are `kept` are what they were."""
        kept = {*kept}
        for buffer in self.found.values():
            views = {one["name"] for one in arguments if one.get("buffer") == buffer["name"]}
            parts = set().union(*(roles.get(name, {"load", "store"}) for name in views))
            if "store" not in parts:
                buffer["role"] = "input"
            elif "load" in parts or views & (zeroed | kept):
                buffer["role"] = "inout"
            else:
                buffer["role"] = "output"
            if views & zeroed:
                buffer["summary"] = {"low": 0, "high": 0}
                buffer.pop("data", None)
            region = self.region(buffer)
            if buffer["role"] != "input" and buffer["floats"] and region is not None:
                buffer["rms"] = numbers(region)[3]

    def role(self, name):
        """The role of the buffer that is called as this argument, its only one."""
        return next((buffer["role"] for buffer in self.found.values() if buffer["name"] == name), None)

    def take_out(self, name):
        """Takes a buffer out of them."""
        place = next(place for place, buffer in self.found.items() if buffer["name"] == name)
        return self.found.pop(place)

    def told(self):
        return [
            {
                "name": buffer["name"],
                "dtype": buffer["dtype"],
                "elements": buffer["elements"],
                "role": buffer["role"],
                **buffer.get("summary", {}),
                "rms": buffer.get("rms"),
                "data": f"{buffer['name']}.bin" if buffer.get("data") is not None and buffer["role"] != "output" else None,
            }
            for buffer in self.found.values()
        ]

    def write(self, folder):
        for buffer in self.found.values():
            if buffer.get("data") is not None and buffer["role"] != "output":
                with open(os.path.join(folder, buffer["name"] + ".bin"), "wb") as out:
                    out.write(buffer["data"])


def reinterpreted(row, element):
    """A row with elements of this type of Triton's."""
    import torch
    from triton.runtime.jit import type_canonicalisation_dict

    names = [name for name, canonical in type_canonicalisation_dict.items() if canonical == element and hasattr(torch, name)]
    return row.view(getattr(torch, names[0])) if names else row


def raw(row):
    """The bytes of a row of elements."""
    import torch

    return row.cpu().contiguous().view(torch.uint8).numpy().tobytes()


def numbers(row):
    """Least, mean, largest and root mean square of a sample of what is finite and stands for nothing else, and its standard deviation."""
    import torch

    sample = row[:: max(1, row.numel() // SAMPLE)]
    sample = sample.to(torch.float64)
    sample = sample[torch.isfinite(sample)]
    sample = sample[sample.abs() < INFINITY]
    if sample.numel() == 0:
        return [0.0, 0.0, 0.0, 0.0, 0.0]
    deviation = sample.std(unbiased=False)
    return [float(one) for one in (sample.min(), sample.mean(), sample.max(), sample.square().mean().sqrt(), deviation)]


def summary(row):
    """The range of uniform numbers that have the mean and the spread of these."""
    least, mean, most, _, deviation = numbers(row)
    reach = 1.7320508 * deviation
    return {"low": max(least, mean - reach), "high": min(most, mean + reach)}
