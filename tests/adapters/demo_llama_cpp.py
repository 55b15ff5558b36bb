"""The shipped model in llama.cpp, loaded once, with float32 keys and values and on one thread."""

from __future__ import annotations

from functools import cache
from typing import Any

import llama_cpp

from logitkit_adapters.demo import gguf_path


def loaded(*, kind: type[llama_cpp.Llama] = llama_cpp.Llama, **options: Any) -> Any:
    settings = {"n_ctx": 512, "type_k": 0, "type_v": 0, "n_threads": 1, "n_threads_batch": 1, "verbose": False}
    return kind(str(gguf_path()), **{**settings, **options})


@cache
def llama() -> Any:
    return loaded()
