"""Texts that end before their constraint allows it become an error of their request, instead of a text that looks complete.

A row without a legal token ends with EOS, so vLLM reports "stop". That is possible only where several masks cannot be compiled
into one: two constraints of which one nests without limit, `no_repeat_ngram`, or vLLM's bad words of several tokens beside such a
constraint. In vLLM, a plugin in a worker cannot make a request fail. So the front end follows the tokens of such requests and
judges their ends. Each early end is logged, and counted as `logitkit_early_ends` in `/metrics`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from logitkit.composition.chain import members
from logitkit.configuration import Registered
from logitkit.protocol.calls import advance_checked, init_checked, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, Role, role_of
from logitkit.runtime.constraint import Constraint

__all__ = [
    "EARLY_END",
    "IGNORED",
    "count_early_end",
    "ends_early",
    "leaves_language",
    "vllm_may_end_early",
]

_logger = logging.getLogger(__name__)

EARLY_END = (
    "the text ended after {tokens} tokens, before the constraint of `logitkit` allows its end: no token was left that all "
    "processors and vLLM's own parameters allow. Change the constraint, or what bans tokens beside it"
)

IGNORED = (
    "the text is not one that the constraint of `logitkit` allows: this engine ignores the masks of plugins, in a way that "
    "logitkit does not know. Please report the engine's settings"
)


def vllm_may_end_early(params: Any) -> bool:
    """Whether vLLM's own parameters may force or forbid tokens of a text that no constraint is compiled for.

    Args:
        params: The request's `SamplingParams`.
    """
    holds_back = bool(getattr(params, "min_tokens", 0)) and bool(getattr(params, "stop_token_ids", None))
    return holds_back or getattr(params, "thinking_token_budget", None) is not None


def ends_early(processor: Processor[Any], tokens: Sequence[int], eos_ids: Sequence[int]) -> bool:
    """Whether a text that ended with EOS is incomplete for a constraint, and neither a stop, a loop nor a forced EOS ended it.

    Args:
        processor: The processor of the request, with a constraint on text.
        tokens: The tokens of its output, EOS included.
        eos_ids: The ids that end a text.
    """
    text = tokens[:-1] if tokens and tokens[-1] in eos_ids else tokens
    end = torch.tensor([eos_ids[0]])
    columns = max(part.vocabulary.size for part in members(processor) if isinstance(part, Constraint))
    incomplete = False
    for part in members(processor):
        # Those of other packages do not run in the front end.
        if role_of(part) is Role.CONSTRAINT and not isinstance(part, Registered):
            state = _after(part, text)
            if isinstance(part, Constraint):
                incomplete |= not bool(part.is_finished(part.advance(state, end)).all())
            elif _ends_itself(part, state, eos_ids, columns):
                return False
    return incomplete


def leaves_language(processor: Processor[Any], tokens: Sequence[int], eos_ids: Sequence[int]) -> bool:
    """Whether a text is not even the beginning of one that the constraints of a processor allow.

    Args:
        processor: The processor of the request.
        tokens: The tokens of its output, with or without EOS.
        eos_ids: The ids that end a text.
    """
    text = tokens[:-1] if tokens and tokens[-1] in eos_ids else tokens
    languages = (part for part in members(processor) if isinstance(part, Constraint))
    return any(bool(part.is_dead(_after(part, text)).any()) for part in languages)


def _after(part: Any, text: Sequence[int]) -> Any:
    state = init_checked(part, Context.of([[]], max(text, default=0) + 1))
    return advance_checked(part, state, torch.tensor([[*text]])) if text else state


def _ends_itself(part: Any, state: Any, eos_ids: Sequence[int], columns: int) -> bool:
    """Whether a stop or a loop has ended the text, or a processor forces an EOS."""
    if hasattr(part, "fired"):
        return bool(part.fired(state).all())
    legal = process_checked(part, state, torch.zeros(1, columns), Context.of([[]], columns))[0] > -torch.inf
    return set(legal.nonzero()[:, 0].tolist()) <= set(eos_ids)


def count_early_end(request_id: str, message: str) -> None:
    """Log the early end of a text, and count it."""
    _logger.error("request %s: %s", request_id, message)
    counter = _counter()
    if counter is not None:
        counter.inc()


@cache
def _counter() -> Any | None:
    """Return the counter of early ends, made for the first of them: vLLM sets up the metrics of several servers after plugins."""
    try:
        from prometheus_client import Counter
    except ImportError:
        return None
    return Counter("logitkit_early_ends", "Texts that ended before their constraint allowed it.")
