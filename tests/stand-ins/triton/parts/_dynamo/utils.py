"""Stands in for PyTorch's module of this name."""

import contextlib

preserve_rng_state = contextlib.nullcontext
