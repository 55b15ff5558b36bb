"""Hooks called in a loop of one's own, without an engine."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.transformers import logits_processor


def test_the_error_in_a_loop_over_numpy_arrays_names_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "llama_cpp", raising=False)
    hook = logits_processor(lk.TopK(2))
    with pytest.raises(ConfigurationError, match="was called with a numpy array; in a loop of your own, call the proc"):
        hook(np.array([[1]]), np.zeros((1, 8), np.float32))  # type: ignore[arg-type]
