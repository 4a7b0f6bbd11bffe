"""What the hooks of a program's autotuner do before a launch: those that set tensors to zero and say the blocks of tensor descriptors, and do
nothing else, can be captured.

A hook is called with stand-ins for the tensors, which write down what it asks of them.
"""

from bluefin_triton import Left

# What a hook may ask of a tensor, as it changes nothing.
ASKED = ("shape", "dtype", "device", "ndim", "is_cuda", "numel", "size", "stride", "dim", "element_size", "is_contiguous")


class Asked:
    """Stands in for a tensor."""

    def __init__(self, name, tensor, zeroed):
        self.__dict__.update(_name=name, _tensor=tensor, _zeroed=zeroed)

    def zero_(self):
        self._zeroed.add(self._name)
        return self

    def fill_(self, value):
        if value != 0:
            raise Left(f"its pre_hook sets {self._name} to {value}")
        return self.zero_()

    def __getattr__(self, name):
        if name not in ASKED:
            raise Left(f"its pre_hook does more to {self._name} than to set it to zero: {name}")
        return getattr(self._tensor, name)

    def __setattr__(self, name, _):
        raise Left(f"its pre_hook sets {self._name}.{name}")


def is_descriptor(value):
    """Whether it is a tensor descriptor as Triton's own launcher takes it."""
    return type(value).__name__ == "TensorDescriptor" and hasattr(value, "block_shape") and not hasattr(value, "layout")


def asked_descriptor(name, descriptor, zeroed):
    """Stands in for a tensor descriptor: a hook may look at it, as one of its own type, and say its block."""

    class AskedDescriptor(type(descriptor)):
        def __init__(self):
            self.__dict__.update(descriptor.__dict__)
            self.__dict__.update(
                base=Asked(name, descriptor.base, zeroed), block_shape=[*descriptor.block_shape],
                shape=tuple(descriptor.shape), strides=tuple(descriptor.strides),
            )

        def __setattr__(self, attribute, value):
            if attribute != "block_shape":
                raise Left(f"its pre_hook sets {name}.{attribute}")
            self.__dict__[attribute] = value

    return AskedDescriptor()


def asked(tuner, config, given, arguments=dict):
    """What is done before a launch with `config`, whose arguments are `given`: names of the tensors that are set to zero, the blocks of tensor
    descriptors by name, and what the hooks were given, which is made by `arguments`."""
    names, described, told = set(), {}, arguments()
    hooks = [config.pre_hook] if config.pre_hook is not None else []
    if getattr(tuner, "user_defined_pre_hook", False):
        hooks.append(tuner.pre_hook)
    plain = (bool, int, float, str, type(None))

    def stand_in(name, value):
        if isinstance(value, plain) or callable(value):
            return value
        if not is_descriptor(value):
            return Asked(name, value, names)
        described[name] = asked_descriptor(name, value, names)
        return described[name]

    stand_ins = {name: stand_in(name, value) for name, value in {**given, **config.all_kwargs()}.items()}
    for hook in hooks:
        try:
            told = arguments(stand_ins)
            hook(told)
        except Left:
            raise
        except Exception as error:
            raise Left(f"its pre_hook does more than to zero tensors and set blocks: {type(error).__name__}: {error}") from error
    return names, {name: [int(size) for size in one.block_shape] for name, one in described.items()}, told


def own(tuner, config):
    """The program's own config that is like `config`, or else `config` with the hook that all of the program's have."""
    for one in tuner.configs:
        if one.all_kwargs() == config.all_kwargs():
            return one
    hooks = [one.pre_hook for one in tuner.configs]
    if hooks and all(hook is not None for hook in hooks):
        config.pre_hook = hooks[0]
    return config
