"""The shipped model in llama.cpp, loaded once, with float32 keys and values and on one thread."""

from __future__ import annotations

from functools import cache
from typing import Any

import llama_cpp

import logitkit as lk
from logitkit_adapters.demo import gguf_path
from logitkit_adapters.llama_cpp import logits_processor
from tests.adapters.demo import vocabulary

COLOURS = lk.Regex(r"(red|green|blue)(, (red|green|blue)){3,5}", vocabulary())
PROMPT = "The price of the lamp is "


def loaded(*, kind: type[llama_cpp.Llama] = llama_cpp.Llama, **options: Any) -> Any:
    settings = {"n_ctx": 512, "type_k": 0, "type_v": 0, "n_threads": 1, "n_threads_batch": 1, "verbose": False}
    return kind(str(gguf_path()), **{**settings, **options})


@cache
def llama() -> Any:
    return loaded()


def ids(text: str) -> list[int]:
    found: list[int] = llama().tokenize(text.encode())
    return found


def text_of(tokens: Any) -> bytes:
    """The bytes up to EOS."""
    found: list[int] = []
    for token in tokens:
        if token in vocabulary().eos_ids:
            break
        found.append(token)
    tokens.close()
    return vocabulary().decode(found)


def llama_text(prompt: bytes) -> bytes:
    return text_of(llama().generate(llama().tokenize(prompt), temp=0, logits_processor=logits_processor(COLOURS)))
