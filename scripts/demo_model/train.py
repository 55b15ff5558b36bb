"""The training of the demo model: a small Llama on packed documents."""

import math
import random
import sys
import time
from collections.abc import Iterator

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from demo_model.tokenizer import BOS_ID, EOS_ID, PAD_ID, VOCABULARY_SIZE

MAX_LENGTH = 2048
_WARM_UP_STEPS = 100
_PEAK_RATE = 3e-3
_CUT_SHARE = 0.4


def build_model() -> LlamaForCausalLM:
    """Build the untrained model: 4 layers of width 128, heads of size 32, tied embeddings, 0.7 M weights."""
    config = LlamaConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=128,
        intermediate_size=224,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
        pad_token_id=PAD_ID,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
    )
    return LlamaForCausalLM(config)


def pack(texts: Iterator[str], tokenizer: Tokenizer, count: int, length: int, seed: int) -> Tensor:
    """Pack documents into rows of token ids.

    A row starts with a document, half of the rows without its `<s>`, because prompts come with and without
    it. Some documents are cut at a random character, half of these after a space, and encoded in two parts.
    So the model sees the unusual tokens that occur after the end of a prompt, and those that a constraint forces.

    Args:
        texts: Enough documents.
        tokenizer: A tokenizer from `train_tokenizer`.
        count: The number of rows.
        length: The number of tokens per row.
        seed: The seed of the cuts.

    Returns:
        [count, length] int64.
    """
    rng = random.Random(seed)
    rows: list[list[int]] = []
    row: list[int] = []
    while len(rows) < count:
        text = next(texts)
        cut = rng.randrange(len(text)) if rng.random() < _CUT_SHARE else 0
        if rng.random() < 0.5:
            cut = text.rfind(" ", 0, cut) + 1
        ids = tokenizer.encode(text[:cut]).ids + tokenizer.encode(text[cut:]).ids
        row += [BOS_ID, *ids, EOS_ID] if row or rng.random() < 0.5 else [*ids, EOS_ID]
        if len(row) >= length:
            rows.append(row[:length])
            row = []
    return torch.tensor(rows, dtype=torch.int64)


def train(model: LlamaForCausalLM, rows: Tensor, steps: int, batch_size: int) -> None:
    """Train the model in place, and print the loss as it goes.

    Args:
        model: A model from `build_model`.
        rows: [at least steps x batch_size, length] int64 token ids; each is used once.
        steps: The number of optimiser steps.
        batch_size: The number of rows per step.
    """
    decayed = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
        betas=(0.9, 0.98),
    )
    model.train()
    began, mean = time.monotonic(), math.nan
    for step in range(steps):
        rate = _PEAK_RATE * min((step + 1) / _WARM_UP_STEPS, 0.5 + 0.5 * math.cos(math.pi * step / steps))
        for group in optimiser.param_groups:
            group["lr"] = rate
        batch = rows[step * batch_size : (step + 1) * batch_size]
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        mean = loss.item() if math.isnan(mean) else 0.95 * mean + 0.05 * loss.item()
        if (step + 1) % 50 == 0 or step + 1 == steps:
            seconds = time.monotonic() - began
            left = seconds / (step + 1) * (steps - step - 1)
            text = f"step {step + 1:4d}/{steps}  loss {mean:.3f}  {seconds:4.0f} s, {left:4.0f} s left"
            print(text, flush=True)
    model.train(False)


def sample(model: LlamaForCausalLM, tokenizer: Tokenizer, prompt: str, new_tokens: int = 80) -> str:
    """Continue a prompt greedily.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        prompt: A text; `<s>` is prepended.
        new_tokens: The maximum number of new tokens.

    Returns:
        The new text, including special tokens.
    """
    ids = [BOS_ID, *tokenizer.encode(prompt).ids]
    start = len(ids)
    with torch.inference_mode():
        while len(ids) < start + new_tokens and ids[-1] != EOS_ID:
            ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    text: str = tokenizer.decode(ids[start:], skip_special_tokens=False)
    return text


def settle(seed: int, threads: int) -> None:
    """Make this process repeatable: seed, thread count and deterministic kernels."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    python = sys.version.split()[0]
    print(f"python {python}, torch {torch.__version__}, seed {seed}, {threads} thread(s)", flush=True)
