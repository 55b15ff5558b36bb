"""The identity of a llama.cpp model, which decides whether it can read a saved cache."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import llama_cpp

__all__ = ["fingerprint"]

# Other parameters that determine the values of a cache and their layout.
FORM = (
    *("type_k", "type_v", "flash_attn_type", "swa_full", "rope_scaling_type", "rope_freq_base", "rope_freq_scale"),
    *("yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_orig_ctx"),
)


def fingerprint(llama: Any) -> str:
    """Return a string that identifies a model by its file and parameters; a model without a file equals no other."""
    digest = hashlib.sha256(f"{llama.lora_path}{llama.lora_scale}{llama.metadata}".encode())
    digest.update(repr([getattr(llama.context_params, name) for name in FORM]).encode())
    path = Path(llama.model_path)
    try:
        found = path.stat()
        digest.update(_digest_of(path.resolve(), found.st_ino, found.st_size, found.st_mtime_ns))
    except OSError:
        digest.update(os.urandom(32))
    return f"{llama_cpp.__version__} {digest.hexdigest()}"


@lru_cache(maxsize=64)
def _digest_of(path: Path, _node: int, _size: int, _changed: int) -> bytes:
    """Return the digest of a file, which is read again only after a change: a gigabyte takes about a second."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
