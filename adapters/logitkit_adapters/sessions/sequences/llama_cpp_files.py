"""Which models of llama.cpp may read one another's caches."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import llama_cpp

__all__ = ["fingerprint"]

# Of a file of weights so many parts of so many bytes are read, which tell it from others.
PARTS, PART = 64, 4096

# What else decides about the values of a cache, and how they lie in it.
FORM = (
    *("type_k", "type_v", "flash_attn_type", "swa_full", "rope_scaling_type", "rope_freq_base", "rope_freq_scale"),
    *("yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_orig_ctx"),
)


def fingerprint(llama: Any) -> str:
    """Return what tells a model from others: parts of its file, and how it is loaded; without a file it is like no other."""
    digest = hashlib.sha256(f"{llama.lora_path}{llama.lora_scale}{llama.metadata}".encode())
    digest.update(repr([getattr(llama.context_params, name) for name in FORM]).encode())
    path = Path(llama.model_path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            for part in range(PARTS):
                file.seek(size * part // PARTS)
                digest.update(file.read(PART))
    except OSError:
        digest.update(os.urandom(32))
    return f"{llama_cpp.__version__} {digest.hexdigest()}"
