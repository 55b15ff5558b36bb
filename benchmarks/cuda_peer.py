"""A step of XGrammar on a CUDA device in turns with ours: host matchers, the upload of their bits, and its kernel for masks.

A step begins with sampled tokens on the device and ends with masked logits there. XGrammar's matchers run on the host, so it
waits for the tokens. The time is the host's, until the device is done, because a part of the work is the host's.
"""

from __future__ import annotations

import json
import statistics
import time
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.cuda_comparison import DEVICE, captured
from benchmarks.cuda_steps import SCHEMA, microseconds
from tests import vocabularies

__all__ = ["beside_xgrammar"]

STEPS = 24


class Matchers:
    """Rows under a schema in XGrammar.

    Args:
        compiled: The compiled schema.
        rows: The number of rows.
        size: The number of ids of the vocabulary.
    """

    def __init__(self, compiled: Any, rows: int, size: int) -> None:
        import xgrammar

        self._matchers = [xgrammar.GrammarMatcher(compiled) for _ in range(rows)]
        self._fill = xgrammar.BatchGrammarMatcher().batch_fill_next_token_bitmask if rows > 1 else None
        self._apply = xgrammar.apply_token_bitmask_inplace
        self._bits = xgrammar.allocate_token_bitmask(rows, size).pin_memory()
        self.on_device = self._bits.to(DEVICE)

    def step(self, tokens: Tensor | None, logits: Tensor) -> None:
        """Accept tokens of the device, if there are any, and mask logits."""
        if tokens is not None:
            for matcher, token in zip(self._matchers, tokens.tolist(), strict=True):
                if not matcher.accept_token(token):
                    raise SystemExit(f"XGrammar does not take token {token}")
        if self._fill is None:
            self._matchers[0].fill_next_token_bitmask(self._bits, 0)
        else:
            self._fill(self._matchers, self._bits)
        self.on_device.copy_(self._bits, non_blocking=True)
        self.mask(logits)

    def mask(self, logits: Tensor) -> None:
        """Mask logits by the bits on the device."""
        self._apply(logits, self.on_device)


def beside_xgrammar(rows: int) -> dict[str, Any]:
    """Walk the same tokens with both, and return the median times of a step, in us."""
    import xgrammar

    v = vocabularies.tekken()
    tokens = [token or b"" for token in v.tokens]
    info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, vocab_size=v.size, stop_token_ids=[*v.eos_ids])
    # Both allow the same spaces between the parts of JSON.
    ours = lk.JsonSchema(SCHEMA, v)
    theirs = Matchers(
        xgrammar.GrammarCompiler(info).compile_json_schema(json.dumps(SCHEMA), any_whitespace=False), rows, v.size
    )
    context = lk.Context.of([[]] * rows, v.size, DEVICE)
    state, given = ours.init_state(context), None
    generator = torch.Generator(DEVICE).manual_seed(0)
    found: dict[str, list[float]] = {"logitkit": [], "XGrammar": []}
    disagreements = 0
    for step in range(STEPS):
        logits = torch.randn(rows, v.size, generator=generator, device=DEVICE)
        logits[:, list(v.eos_ids)] = -torch.inf
        mine, other = logits.clone(), logits.clone()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        if given is not None:
            state = ours.advance(state, given)
        ours.process_logits(state, mine, context)
        torch.cuda.synchronize()
        between = time.perf_counter()
        theirs.step(given, other)
        torch.cuda.synchronize()
        end = time.perf_counter()
        if step > 3:
            found["logitkit"].append((between - begin) * 1e6)
            found["XGrammar"].append((end - between) * 1e6)
        disagreements += int((mine.isneginf() != other.isneginf()).any(1).sum())
        # A token that both allow.
        given = torch.where(other.isneginf(), -torch.inf, mine).argmax(1)
        if bool((mine.isneginf() | other.isneginf()).all(1).any()):
            break
    result: dict[str, Any] = {name: round(statistics.median(times), 1) for name, times in found.items() if times}
    logits = torch.randn(rows, v.size, device=DEVICE)
    graphs = {
        "logitkit, mask captured": captured(lambda: ours.process_logits(state, logits, context), 10)[0],
        "XGrammar, mask captured": captured(lambda: theirs.mask(logits), 10)[0],
    }
    result |= microseconds(graphs)
    result["rows whose masks differ"] = disagreements
    print(f"{rows:4} JsonSchema beside XGrammar {version('xgrammar')}: {result}", flush=True)
    return result
