"""The shipped model and its tokenizer, loaded once, and prompts that lead it elsewhere."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from logitkit.vocabulary import Vocabulary
from logitkit_adapters.demo import model_dir
from logitkit_adapters.transformers import vocabulary as read_vocabulary
from tests.adapters.reference_decoder import ReferenceDecoder


@cache
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(model_dir()).eval()


@cache
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(model_dir())


@cache
def vocabulary() -> Vocabulary:
    return read_vocabulary(tokenizer())


@cache
def reference(pattern: str) -> ReferenceDecoder:
    return ReferenceDecoder(model(), tokenizer(), pattern)


@cache
def prompts(pattern: str, count: int = 3, length: int = 9) -> torch.Tensor:
    """Random prompts, [count, length], after which the model's own first token is not of the language."""
    generator = torch.Generator().manual_seed(length)
    first_text_id = max(tokenizer().all_special_ids) + 1
    found: list[torch.Tensor] = []
    for _ in range(20 * count):
        ids = torch.randint(first_text_id, len(tokenizer()), (1, length), generator=generator)
        written = model().generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=1, do_sample=False)
        if int(written[0, -1]) not in reference(pattern).legal(""):
            found.append(ids)
        if len(found) == count:
            return torch.cat(found)
    raise AssertionError(f"the model begins {pattern!r} by itself after most prompts: choose another pattern")


def text_of(ids: torch.Tensor) -> str:
    """The text of one row's new ids, which must be finished: EOS, followed only by EOS and padding."""
    row, eos, pad = ids.tolist(), tokenizer().eos_token_id, tokenizer().pad_token_id
    assert eos in row, f"not finished: {tokenizer().decode(row)!r}"
    end = row.index(eos)
    assert set(row[end:]) <= {eos, pad}, row
    text: str = tokenizer().decode(row[:end])
    return text
