"""Where Triton's cache on disk has the choice for a tuning key."""

import hashlib
import os

from bluefin_triton import jit_function
from bluefin_tuners import runs_by_itself


class NotOnDisk(Exception):
    """Triton's cache has no choice for this key."""


def parts(taken):
    """What Triton's cache on disk calls the choice for this key, and what that name is made of."""
    if hasattr(taken.tuner, "cache_place"):
        return taken.tuner.cache_place()
    if runs_by_itself(taken.tuner):
        return {"why": f"{type(taken.tuner).__name__} is a tuner of the program's own, which keeps its choices elsewhere"}
    if not taken.key:
        return {"why": "Triton keeps no choice on disk where the key is empty"}
    if any(config.pre_hook is not None for config in taken.configs):
        return {"why": "Triton keeps no choice on disk where configs have a pre_hook"}
    if taken.variant:
        return {"why": "Triton keeps one choice for a key, and the program launches it with other constants as well"}
    from triton.runtime import cache as caches

    found = {}

    def manager(key, *others):
        made = own(key, *others)
        found.update(digest=key, folder=os.path.basename(os.path.normpath(made.cache_dir)))

        class Reader:
            def get_file(self, name):
                found["file"] = name
                raise NotOnDisk

        return Reader()

    # Before 3.5 tuners import it when they are called.
    place = taken.capture.autotuner if hasattr(taken.capture.autotuner, "get_cache_manager") else caches
    own = getattr(place, "get_cache_manager", None)
    if own is None or not hasattr(taken.tuner, "check_disk_cache"):
        return {"why": f"Triton {taken.version} keeps no choices on disk"}
    place.get_cache_manager = manager
    try:
        taken.tuner.check_disk_cache(taken.key, taken.configs, lambda: None)
    except NotOnDisk:
        pass
    finally:
        place.get_cache_manager = own
    if "file" not in found:
        return {"why": f"Triton {taken.version} looks for choices elsewhere"}
    from triton._C.libtriton import get_cache_invalidating_env_vars

    environment = str(sorted(get_cache_invalidating_env_vars().items()))
    return {**found, "environment": environment, "key": str(taken.key), "elsewhere": elsewhere(taken, found, environment)}


def elsewhere(taken, found, environment):
    """The folder of the choice on each other GPU; nothing where this Triton makes up its names in another way than those before."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import compiler
    from triton.runtime import cache as caches

    version_of = next((of.triton_key for of in (taken.capture.autotuner, caches, compiler) if hasattr(of, "triton_key")), None)
    if version_of is None or not hasattr(caches, "_base32"):
        return {}
    function, _ = jit_function(taken.tuner)

    def folder(target):
        parts = [version_of(), compiler.make_backend(target).hash(), function.cache_key, environment, str(taken.key)]
        digest = hashlib.sha256("-".join(parts + [str(config) for config in taken.configs]).encode()).hexdigest()
        return caches._base32(digest)

    if folder(triton.runtime.driver.active.get_current_target()) != found["folder"]:
        return {}
    folders = {}
    for name, (backend, arch, wave) in taken.capture.gpus:
        try:
            folders[name] = folder(GPUTarget(backend, int(arch) if backend == "cuda" else arch, wave))
        except Exception:
            # This Triton does not know it.
            pass
    return folders
