"""Stands in for PyTorch's module of this name."""

import contextlib

_disable_current_modes = contextlib.nullcontext
