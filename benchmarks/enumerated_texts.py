"""A language of a few texts after a prompt, with everything known: the probability of each text, of the language, and of masking.

The logits after every beginning of every tokenization are computed once by the shipped model in transformers. So the true
conditional is a sum over tokenizations, the result of masking token by token is another, and particles run on a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import NoParticleLeft
from logitkit.particles import ParticleFilter, Particles
from logitkit.sessions.tokenizations import contexts_of, tokenizations
from logitkit_adapters.sessions.engines import batch_engine_of

__all__ = ["EnumeratedTexts", "total_variation"]

Row = tuple[int, ...]
Change = Callable[[Row, Tensor], Tensor]


class EnumeratedTexts:
    """Texts after a prompt, and what a model makes of them.

    Args:
        model: A model of transformers.
        tokenizer: Its tokenizer.
        vocabulary: Its tokens, with one EOS.
        prompt: The prompt.
        texts: The texts, all different.
        change: The logits of the target, from the tokens after the prompt and the logits of the model, [V]. None: unchanged.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        vocabulary: lk.Vocabulary,
        prompt: str,
        texts: Sequence[str],
        change: Change | None = None,
    ) -> None:
        self.prompt, self.texts, self.vocabulary = [*map(int, tokenizer(prompt).input_ids)], [*texts], vocabulary
        (self.eos,) = vocabulary.eos_ids
        self.rows = {
            (*row, self.eos): text
            for text, found in zip(self.texts, tokenizations(self.texts, vocabulary, 2**14), strict=True)
            for row in found
        }
        contexts = contexts_of(self.rows)
        engine = batch_engine_of(model, tokenizer, None)
        self.given: dict[Row, Tensor] = {}
        for context, logits in zip(contexts, engine.continuations(self.prompt, contexts), strict=True):
            for length, row in enumerate(logits):
                self.given.setdefault(context[:length], row)
        self.columns = len(self.given[()])
        logs = {row: (change(row, x) if change else x).double().log_softmax(0) for row, x in self.given.items()}
        allowed: dict[Row, set[int]] = {}
        for row in self.rows:
            for length, token in enumerate(row):
                allowed.setdefault(row[:length], set()).add(token)
        masses = {row: math.log(sum(math.exp(logs[row][token]) for token in allowed[row])) for row in allowed}
        true, masked = dict.fromkeys(self.texts, 0.0), dict.fromkeys(self.texts, 0.0)
        for row, text in self.rows.items():
            log_prob = sum(float(logs[row[:i]][token]) for i, token in enumerate(row))
            true[text] += math.exp(log_prob)
            masked[text] += math.exp(log_prob - sum(masses[row[:i]] for i in range(len(row))))
        # The probability of the language, that of each text given the language, and that of each text by masking.
        self.probability = sum(true.values())
        self.truth = {text: p / self.probability for text, p in true.items()}
        self.masked = masked

    def reduced(self) -> EnumeratedTexts:
        """Return the same distribution over few tokens: those of the texts, EOS, and one that stands for all others."""
        made = copy(self)
        used = sorted({token for row in self.rows for token in row} - {self.eos})
        ids = [*used, self.eos]
        new = {token: place for place, token in enumerate(ids)}
        made.prompt, made.eos, made.columns = [], new[self.eos], len(ids) + 1
        tokens = [self.vocabulary.tokens[token] for token in used]
        made.vocabulary = lk.Vocabulary([*tokens, None, None], eos_ids=[made.eos])
        made.rows = {tuple(new[token] for token in row): text for row, text in self.rows.items()}
        made.given = {}
        for row, logits in self.given.items():
            others = logits.double().index_fill(0, torch.tensor(ids), -torch.inf).logsumexp(0)
            made.given[tuple(new[token] for token in row)] = torch.cat([logits[ids], others[None].float()])
        return made

    def run(self, particle_filter: ParticleFilter, max_new_tokens: int) -> Particles | None:
        """Return the result of particles on the table, as `particles.sample` would run them; None if all died."""
        population = particle_filter.start(self.prompt, self.columns, max_new_tokens)
        blank = torch.zeros(self.columns)
        try:
            while not population.is_done:
                rows = [tuple(token for token in row if token >= 0) for row in population.tokens.tolist()]
                logits = torch.stack([self.given.get(row, blank) for row in rows])
                population = particle_filter.step(population, logits)
        except NoParticleLeft:
            return None
        texts = [self.rows.get(tuple(t for t in row if t >= 0), "") for row in population.tokens.tolist()]
        return Particles.of(population, texts)


def total_variation(one: dict[str, float], other: dict[str, float]) -> float:
    """Return half of the sum of the differences of two distributions.

    Example:
        >>> total_variation({"a": 0.5, "b": 0.5}, {"a": 1.0})
        0.5
    """
    return sum(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in {*one, *other}) / 2
