"""explain: what a processor did at each token of an output, and why a token was refused."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.composition.chain import Chain, members
from logitkit.composition.conflicts import eos_ids_of
from logitkit.composition.engine_vocabulary import check_tokens_agree
from logitkit.errors import BrokenLogits, ConfigurationError
from logitkit.explaining.explanation import Explanation
from logitkit.explaining.findings import Effect, Refusal, Step
from logitkit.explaining.token_texts import spelled
from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.calls import advance_checked, init_checked, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import only_masks, truncates
from logitkit.protocol.processor import Processor, Role, check_is_processor, name_of, reads_guidance, role_of
from logitkit.runtime.completion import completion_of
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.logit_arrays import why_broken
from logitkit.runtime.tensor_logits import broken_rows
from logitkit.vocabulary.marker import check_vocabulary
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["explain"]

# The maximum length of a text in tokens.
LONGEST = 2**31 - 1


def explain(
    processor: Processor[Any],
    vocabulary: Vocabulary,
    prompt: Sequence[int] | str,
    output: Sequence[int] | str,
    *,
    logits: Iterable[Tensor] | None = None,
    max_length: int | None = None,
) -> Explanation:
    """Explain what a processor did at each token of an output, and why a token was refused.

    Args:
        processor: A constraint, a chain or any other processor.
        vocabulary: The tokens.
        prompt: The prompt, as token ids, or as text.
        output: The output, as token ids or as text. A text is split into the longest tokens from left to right, which may differ
            from the tokenizer's choice; names of special tokens in it mean these tokens.
        logits: The logits of the model for each token of the output, [V] each. Without them, truncation and temperature are left
            out, and the shift of a logit is that of a logit of 1. `Guidance` is always left out, because it needs a second pass.
        max_length: The maximum number of tokens, prompt included, for a constraint with `closing=True`.

    Returns:
        The explanation, whose `refusal` is that of the first illegal token.

    Raises:
        BrokenLogits: A logit is NaN or +inf, or those of a token have no finite number.
        ConfigurationError: The processor is not a processor, the prompt or output is neither a text nor token ids, the tokens
            cannot spell it, there are fewer logits than tokens, or `max_length` is not a number of tokens.
        VocabularyError: The vocabulary is not a vocabulary, or has other tokens than the one that the processor was built for.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"2", b"-", b"x", b"2x", None], eos_ids=[4])
        >>> refusal = lk.explain(lk.Regex("[0-9]{2}-?", vocabulary), vocabulary, [], "22x").refusal
        >>> refusal.byte, refusal.expected, refusal.sources[0].span, refusal.completion
        (2, "'-' or the end", (8, 10), (0,))
    """
    check_is_processor(processor)
    check_vocabulary(vocabulary)
    check_tokens_agree(processor, vocabulary)
    if max_length is not None:
        checked_integer("max_length", max_length, 0, LONGEST)
    tokens = spelled(output, vocabulary)
    context = Context.of([spelled(prompt, vocabulary, "prompt")], vocabulary.size, max_length=max_length)
    run = _ExplainedRow(processor, vocabulary, context, tokens)
    rows = repeat(None) if logits is None else _checked_rows(logits, vocabulary.size)
    steps = [run.step(token, row) for token, row in zip(tokens, rows, strict=False)]
    if len(steps) < len(tokens):
        raise ConfigurationError(f"logits has only {len(steps)} rows; give one for each token of the output")
    completion = None if run.refused else run.completion()
    known = {token for step in steps for token in [step.wanted, *((step.refusal and step.refusal.completion) or ())]}
    return Explanation(
        name_of(processor),
        tuple(steps),
        completion == (),
        completion,
        {i: vocabulary.special_names.text([i]) for i in known | {*(completion or ())} if i is not None},
    )


class _Pass(NamedTuple):
    """One pass of logits through the processors.

    Args:
        legal: [V] bool, the tokens that are left.
        effects: The effects of each processor.
        refuser: The first processor that bans the token for good, or None.
        allowed: [V] bool, the tokens that this processor allows.
    """

    legal: NDArray[np.bool_]
    effects: tuple[Effect, ...]
    refuser: Processor[Any] | None
    allowed: NDArray[np.bool_]


def _checked_rows(logits: Iterable[Tensor], size: int) -> Iterator[Tensor]:
    if not isinstance(logits, Iterable):
        raise ConfigurationError(
            f"logits is of type {type(logits).__name__}; give one tensor for each token of the output"
        )
    for step, row in enumerate(logits):
        if not (isinstance(row, Tensor) and row.numel() >= size):
            given = f"of the shape {[*row.shape]}" if isinstance(row, Tensor) else f"of type {type(row).__name__}"
            raise ConfigurationError(
                f"logits has a row {given}; give a tensor with a number for each of the {size} tokens"
            )
        if bool(broken_rows(row.detach().reshape(1, -1))):
            raise BrokenLogits(why_broken(row.detach().reshape(-1)), 0, step)
        yield row


class _ExplainedRow:
    """The processors after each token of an output."""

    def __init__(
        self, processor: Processor[Any], vocabulary: Vocabulary, context: Context, output: Sequence[int]
    ) -> None:
        self.processor, self.vocabulary, self.context, self.output = processor, vocabulary, context, output
        self.state = init_checked(processor, context)
        self.history: list[int] = []
        self.dead = self.refused = False
        self.ends = {*eos_ids_of(processor), *vocabulary.eos_ids}

    @property
    def _parts(self) -> list[tuple[Processor[Any], Any]]:
        states = self.state if isinstance(self.processor, Chain) else (self.state,)
        return list(zip(members(self.processor), states, strict=True))

    def step(self, token: int, row: Tensor | None) -> Step:
        """Return what happens to one token, and advance by it."""
        if not 0 <= token < self.vocabulary.size:
            allowed = f"allowed are token ids from 0 to {self.vocabulary.size - 1}"
            raise ConfigurationError(f"output[{len(self.history)}] is {token}; {allowed}")
        done = self._pass(token, row)
        known: dict[str, Any] = {}
        if row is not None:
            chances = torch.softmax(row.detach().float().reshape(-1), 0)
            removed = float(chances[torch.from_numpy(~done.legal)].sum())
            known = {"probability": float(chances[token]), "removed": removed, "wanted": int(chances.argmax())}
        refusal = None if self.dead or done.refuser is None else self._refusal(done.refuser, done.allowed, token)
        step = Step(
            token,
            self.vocabulary.tokens[token] or b"",
            self.vocabulary.special_names.name(token),
            int(np.count_nonzero(done.legal)),
            done.effects,
            refusal,
            self.dead,
            **known,
        )
        self.dead = self.dead or (refusal is not None and isinstance(done.refuser, Constraint))
        self.refused = self.refused or refusal is not None
        self._advance(token)
        return step

    def _advance(self, token: int) -> None:
        self.state = advance_checked(self.processor, self.state, torch.tensor([token]))
        self.history.append(token)

    def complete(self) -> bool:
        """Whether the output is a complete legal text."""
        if self.dead:
            return False
        if self.history and self.history[-1] in self.ends:
            return True
        legal = self._pass(0).legal
        return any(bool(legal[end]) for end in self.ends if end < len(legal))

    def _pass(
        self,
        token: int,
        row: Tensor | None = None,
        without: Processor[Any] | None = None,
        parts: list[tuple[Processor[Any], Any]] | None = None,
    ) -> _Pass:
        """Return what a pass does: that of some parts, with their states, or of all but one."""
        context = self.context.at(self.context.prompt_lengths + len(self.history))
        # Not 0, of which a repetition penalty changes nothing.
        logits = torch.ones(1, self.vocabulary.size) if row is None else row.detach().float().reshape(1, -1).clone()
        legal = logits[0].numpy() > -np.inf
        effects, refuser, allowed = [], None, legal
        for processor, state in self._parts if parts is None else parts:
            # Nothing here has the logits of a second pass.
            if processor is without or reads_guidance(processor) or (row is None and _needs_logits(processor)):
                continue
            # Copying and comparing take longer than masking does.
            before = None if only_masks(processor) else logits.clone()
            logit = float(logits[0, token])
            logits = process_checked(processor, state, logits, context)
            now = logits[0].numpy() > -np.inf
            if only_masks(processor) or role_of(processor) is not Role.CONSTRAINT:
                # Only forced tokens override earlier bans; the EOS with which a constraint ends an empty row does not.
                if only_masks(processor) and not legal.all() and np.count_nonzero(now) <= len(self.ends):
                    alone = process_checked(processor, state, torch.ones(1, self.vocabulary.size), context)
                    now = alone[0].numpy() > -np.inf
                now &= legal
            banned = int(np.count_nonzero(legal > now))
            if banned or not (before is None or torch.equal(before, logits)):
                shift = round(float(logits[0, token]) - logit, 6) if legal[token] and now[token] else None
                effects.append(Effect(name_of(processor), banned, shift))
            if now[token]:
                refuser = None
            elif legal[token]:
                refuser, allowed = processor, now
            legal = now
        if parts is None and not legal.any():
            # The end is left in a row that a stop has ended, though its text is incomplete.
            stops = [(part, state) for part, state in self._parts if hasattr(part, "fired") and bool(part.fired(state))]
            if stops:
                return self._pass(token, row, without, stops)
        return _Pass(legal, tuple(effects), refuser, allowed)

    def _refusal(self, processor: Processor[Any], allowed: NDArray[np.bool_], token: int) -> Refusal:
        # Imported here because most programs never need a reason.
        from logitkit.explaining.refusals import ban, language_refusal

        if isinstance(processor, Constraint):
            left = next(int(state.left) for part, state in self._parts if part is processor)
            refusal = language_refusal(processor, self.history, token, left, self.output[len(self.history) + 1 :])
        else:
            refusal = ban(processor, self.vocabulary, allowed)
        return replace(refusal, completion=self.completion())

    def completion(self) -> tuple[int, ...] | None:
        """Return a shortest legal continuation, without EOS, or None if none is found."""
        if self.complete():
            return ()
        constraint = next(((p, s) for p, s in self._parts if isinstance(p, Constraint)), None)
        if constraint is None:
            return None
        others = self._pass(0, without=constraint[0]).legal
        left = int(constraint[0].init_state(self.context).left)
        found = completion_of(constraint[0], self.history, left, None if others.all() else others)
        return found if found is None or len(self._parts) == 1 or self._allows(found) else None

    def _allows(self, tokens: Sequence[int]) -> bool:
        """Whether all processors together allow some more tokens, and then the end."""
        ahead = copy.copy(self)
        ahead.history = list(self.history)
        for token in tokens:
            if not ahead._pass(token).legal[token]:  # noqa: SLF001 - of its own class
                return False
            ahead._advance(token)  # noqa: SLF001
        return ahead.complete()


def _needs_logits(processor: Processor[Any]) -> bool:
    """Whether it is unknown what a processor does without the logits of a model."""
    return truncates(processor) or role_of(processor) in (Role.TEMPERATURE, Role.TRUNCATION)
