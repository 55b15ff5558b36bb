"""Schemas whose author computed a collision of digests: two sets of pairs of states that differ, and have the same sum.

States are numbered before letters are looked at. So an attacker compiles a schema with any text in it, notes the states on the
way through this text, and chooses the letters so that the pairs that they add to the set of a token add up to nothing. There is
an attack for each place that merges classes of tokens by such sums.

Two other places cannot be steered so: the text before a marker (`joined_tables`), where all pairs come from the vocabulary,
and the bytes inside of characters (`in_utf8`), where a sum has 64 numbers at most. Their digests are made to lie in
`test_digests`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from unittest import mock

import jsonschema
import numpy as np
import torch
from numpy.typing import NDArray

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.effects.distinct_sets import digest_of_pairs
from logitkit.compiler.tokens.fragments import fragment_tokens
from logitkit.compiler.tokens.linking import joined_tables, linked_classes, linked_fragment
from tests.automata.collisions import NUMBERS, zero_sum

__all__ = ["ATTACKS", "MODULES", "PLAIN", "Attack", "Letters", "legal_along"]

Ints = NDArray[Any]
MODULES = fragment_tokens, linked_fragment, linked_classes, joined_tables

# Characters that stand for themselves in a pattern, and are not part of an escape in JSON, which moves with them too.
PLAIN = "ghijklmopqsvwxyzGHIJKLMNOPQRSTUVWXYZ_~!@%&=;<>'`"

# In each vocabulary another token, so that nothing is known of it.
_fresh = count()


@dataclass(frozen=True)
class Letters:
    """How the signs of a collision are spelled.

    Args:
        three: The letters for -1, 0 and 1, of `PLAIN`.
        before: The text before those that are chosen, of other letters of it.
        after: The text after them.
        seed: The seed of all choices.
    """

    three: str = "yzx"
    before: str = ""
    after: str = ""
    seed: int = 0

    def text(self, signs: Ints) -> str:
        """Return the text for some signs."""
        return self.before + "".join([self.three[sign + 1] for sign in signs.tolist()]) + self.after

    def any_text(self) -> str:
        """Return a text to compile before the signs are known."""
        return self.text(np.random.default_rng(self.seed).integers(-1, 2, NUMBERS))

    def chosen(self, numbers: Ints) -> Ints:
        """Return those of some numbers, one for each letter of the text, whose letters are chosen."""
        begin = len(self.before)
        return numbers[begin : begin + NUMBERS]


@dataclass(frozen=True)
class Attack:
    """A schema with a collision.

    Args:
        schema: The schema.
        documents: All its texts that begin like those that are walked along.
        walk: The text to walk along.
        vocabulary: The vocabulary.
        compared: The tokens that are compared; None for all.
    """

    schema: Any = field(repr=False)
    documents: frozenset[str] = field(repr=False)
    walk: str
    vocabulary: lk.Vocabulary = field(repr=False)
    compared: frozenset[str] | None = field(default=None, repr=False)

    def expected(self, text: str) -> set[str]:
        """Return the compared tokens that are legal after a text, by comparing them with all documents."""
        left = [document[len(text) :] for document in self.documents if document.startswith(text)]
        tokens = self.compared or {token.decode("latin-1") for token in self.vocabulary.tokens if token}
        longest = max(map(len, tokens))
        return {*tokens} & {rest[:end] for rest in left for end in range(1, longest + 1)}

    def check(self) -> int:
        """Check the mask before each character of the walk; return their number."""
        validator = jsonschema.Draft202012Validator(self.schema)
        assert all(validator.is_valid(json.loads(document)) for document in self.documents)
        legal = legal_along(lk.JsonSchema(self.schema, self.vocabulary), self.walk)
        for end, found in enumerate(legal):
            text, legal_here = self.walk[:end], found & (self.compared or found)
            expected = self.expected(text)
            assert legal_here == expected, f"after {text!r}, {legal_here} are legal, not {expected}"
        return len(legal)


def legal_along(constraint: Any, text: str) -> list[set[str]]:
    """Return the tokens that are legal before each character of a text of ASCII."""
    vocabulary = constraint.vocabulary
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    state, found = constraint.init_state(context), []
    for byte in text.encode():
        masked = constraint.process_logits(state, torch.zeros(1, vocabulary.size), context)[1][0]
        legal = (masked == 0).nonzero().ravel().tolist()
        found.append({(vocabulary.tokens[i] or b"").decode("latin-1") for i in legal})
        state = constraint.advance(state, torch.tensor([byte]))
    return found


def inside_strings(letters: Letters) -> Attack:
    """Collide the moves inside of a string."""

    def schema(text: str) -> Any:
        return {"type": "string", "pattern": f"^{text}"}

    vocabulary = _bytes_and()
    with _asked() as asked:
        lk.JsonSchema(schema(letters.any_text()), vocabulary)
    path = _along_string(asked["fragment_tokens"][0], len(letters.any_text()))
    text = _collision(letters, digest_of_pairs(path[:-1], path[1:]))
    return Attack(schema(text), frozenset({f'"{text}"'}), f'"{text}', vocabulary)


def ends_of_strings(letters: Letters) -> Attack:
    """Collide the states in which a string may end."""

    def beginnings(text: str) -> list[str]:
        return [text[:end] for end in range(1, len(text) + 1)]

    def schema(text: str) -> Any:
        return {"type": "string", "pattern": f"^(?:{'|'.join(beginnings(text))}|{text}.*)$"}

    vocabulary = _bytes_and(*[f'{letter}"' for letter in letters.three])
    with _asked() as asked:
        lk.JsonSchema(schema(letters.any_text()), vocabulary)
    moves, ends = asked["fragment_tokens"][:2]
    path = _along_string(moves, len(letters.any_text()))[:-1]
    text = _collision(letters, digest_of_pairs(path, np.full(len(path), ends[1][0])))
    documents = frozenset([f'"{beginning}"' for beginning in beginnings(text)])
    return Attack(schema(text), documents, f'"{text}', vocabulary)


def after_strings(letters: Letters) -> Attack:
    """Collide what follows the same string in many places."""

    def names(text: str) -> list[str]:
        return [f"{letter}{i:03}" for i, letter in enumerate(f"{letters.three[2]}{text}")]

    def schema(text: str) -> Any:
        properties = {name: {"type": "string"} for name in names(text)}
        return {"type": "object", "properties": properties, "required": names(text), "additionalProperties": False}

    commas = [f'","{letter}' for letter in letters.three]
    vocabulary = _bytes_and(*commas)
    with _asked() as asked:
        lk.JsonSchema(schema(letters.any_text()), vocabulary)
    leads, place = asked["linked_fragment"][0]
    # After each string but the last, one of the three tokens leads on.
    many = (leads > 0).sum(axis=0)
    places = len(letters.any_text())
    next_name = leads[:, (many > 1) & (many < places)].max(axis=1)[:-1]
    numbers = digest_of_pairs(next_name, place[:-1, 0]) - digest_of_pairs(0 * next_name, place[:-1, 0])
    text = _collision(letters, numbers)
    document = json.dumps(dict.fromkeys(names(text), ""), separators=(",", ":"))
    return Attack(schema(text), frozenset({document}), document, vocabulary, frozenset(commas))


def outside_strings(letters: Letters) -> Attack:
    """Collide moves outside of strings, as those in the texts of a `const` are."""

    def schema(text: str) -> Any:
        members = {"a": {"const": "b"}, "c": {"const": text}}
        return {"type": "object", "properties": members, "additionalProperties": False, "required": ["c"]}

    vocabulary, begin = _bytes_and(), '{"c":"'
    compiled = lk.JsonSchema(schema(letters.any_text()), vocabulary)
    path = _states_along(compiled, begin + letters.any_text())[len(begin) - 1 :]
    text = _collision(letters, digest_of_pairs(path[:-1], path[1:]))
    documents = frozenset([f'{{"a":"b","c":"{text}"}}', f'{{"c":"{text}"}}'])
    return Attack(schema(text), documents, f'{{"c":"{text}"}}', vocabulary)


ATTACKS: dict[str, Callable[[Letters], Attack]] = {
    attack.__name__: attack for attack in (inside_strings, ends_of_strings, after_strings, outside_strings)
}


def _collision(letters: Letters, numbers: Ints) -> str:
    """Return the text whose letters add numbers, one for each letter, that sum up to 0."""
    return letters.text(zero_sum(letters.chosen(numbers), letters.seed))


def _bytes_and(*tokens: str) -> lk.Vocabulary:
    every = [*tokens, f"#{next(_fresh)}"]
    return lk.Vocabulary(
        [*(bytes([b]) for b in range(256)), *(t.encode() for t in every), None], eos_ids=[256 + len(every)]
    )


@contextmanager
def _asked() -> Iterator[dict[str, list[tuple[Ints, Ints]]]]:
    """Collect the pairs whose digests are asked for, by module."""
    found: dict[str, list[tuple[Ints, Ints]]] = {}

    def spy(name: str) -> Callable[[Ints, Ints], NDArray[np.uint64]]:
        def digests(first: Ints, second: Ints) -> NDArray[np.uint64]:
            found.setdefault(name, []).append((first, second))
            return digest_of_pairs(first, second)

        return digests

    with ExitStack() as stack:
        for module in MODULES:
            name = module.__name__.rsplit(".", 1)[-1]
            stack.enter_context(mock.patch.object(module, "digest_of_pairs", spy(name)))
        yield found


def _along_string(moves: tuple[Ints, Ints], length: int) -> Ints:
    """Return the states of a string that begins with a text, one for each of its characters and one after them."""
    leads = dict(zip(*(part.tolist() for part in moves), strict=True))
    path = [FIRST_STATE]
    while len(path) <= length:
        path.append(leads[path[-1]])
    return np.array(path)


def _states_along(constraint: Any, text: str) -> Ints:
    """Return the states after each beginning of a text."""
    state, found = constraint.init_state(lk.Context.of([[]], vocabulary_size=constraint.vocabulary.size)), []
    for byte in text.encode():
        state = constraint.advance(state, torch.tensor([byte]))
        found.append(int(state.at.state))
    return np.array(found)
