"""Whether a text belongs to a constraint, and random texts that do."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

import numpy as np
from numpy.typing import NDArray

from logitkit.errors import ConfigurationError
from logitkit.runtime.byte_form import ByteForm
from logitkit.runtime.compiled_language import CompiledLanguage
from logitkit.runtime.completion import completion_of
from logitkit.runtime.walk import Walk
from logitkit.vocabulary.marker import encoded
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["example_text", "matches_text"]

# After this many steps, a random text is completed in the shortest way.
LONGEST = 200

# How often a text ends where it may.
ENDS = 1 / 3


def matches_text(constraint: CompiledLanguage, text: str | bytes) -> bool:
    """Whether the tokens can spell a text that a constraint allows; a name of a special token stands for it too.

    Raises:
        ConfigurationError: The text is neither str nor bytes, or has a lone surrogate.
    """
    if not isinstance(text, str | bytes):
        raise ConfigurationError(f"text is {text!r:.60} of type {type(text).__name__}; allowed are str and bytes")
    vocabulary, data = constraint.vocabulary, encoded("text", text)
    names = {name.encode(): token for name, token in vocabulary.special.items() if token not in vocabulary.eos_ids}
    start = Walk.start(constraint.automaton)
    # The places that some tokens reach, by offset: equal ones once.
    reached: list[dict[Hashable, Walk]] = [{} for _ in range(len(data) + 1)]
    reached[0][start.key] = start
    for at, walks in enumerate(reached):
        if not walks:
            continue
        ids = vocabulary.trie.tokens_at(data, at)
        ids += [(at + len(name), token) for name, token in names.items() if data.startswith(name, at)]
        for walk in walks.values():
            legal = walk.legal()
            for end, token in ids:
                if legal[constraint.automaton.class_of[token]]:
                    after = walk.after(token)
                    reached[end][after.key] = after
    return any(walk.may_end() for walk in reached[-1].values())


def example_text(constraint: CompiledLanguage, form: ByteForm | None, seed: int) -> str:
    """Return a random text that a constraint allows: in printable ASCII as far as possible, with special tokens by name.

    Raises:
        ConfigurationError: No way to complete a text is found.
    """
    random, vocabulary = Random(seed), constraint.vocabulary  # noqa: S311
    left = -1 if isinstance(constraint.closing, bool) else constraint.closing
    walk, written = Walk.start(constraint.automaton, left), list[int]()
    usable = _usable(vocabulary, form)
    while len(written) < LONGEST and not (walk.may_end() and random.random() < ENDS):
        class_of = walk.automaton.class_of
        tokens = next((few for ids in usable if len(few := walk.legal_ids(ids))), None)
        if tokens is None:
            break
        # First the class, so that the end of a string is as likely as all its letters together.
        chosen = random.choice(np.unique(class_of[tokens]).tolist())
        written.append(random.choice(tokens[class_of[tokens] == chosen].tolist()))
        walk = walk.after(written[-1])
    rest = completion_of(constraint, written, left)
    if rest is None:
        # The search gives up where items must differ and values nest deeply. A text from its beginning is found more often.
        written = []
        rest = completion_of(constraint, written, left)
    if rest is None:
        raise ConfigurationError(f"no way to complete a text of this {type(constraint).__name__} was found")
    return vocabulary.special_names.text((*written, *rest)).decode("utf-8", "replace")


def _usable(vocabulary: Vocabulary, form: ByteForm | None) -> list[NDArray[np.int64]]:
    """Return the tokens to write with, the most readable first."""
    named = set(vocabulary.special.values()) - set(vocabulary.eos_ids)
    every = [token for token, text in enumerate(vocabulary.tokens) if text is not None]
    found = [[*every, *named]]
    # If every byte is a token, bytes write all texts.
    if form is not None and max(form.byte_ids) < vocabulary.size:
        found = [[*form.byte_ids[0x20:0x7F], *named], [*form.byte_ids], *found]
    return [np.array(ids, np.int64) for ids in found]
