"""Schemas as automata that are put together from fragments, documents under a constraint, and a vocabulary of long tokens."""

from __future__ import annotations

import json
import random
from typing import Any

import torch

import logitkit as lk
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.nested_grammars.dfa import nested_grammar_dfa
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.json_schema.compile import schema_grammar
from logitkit.json_schema.document import load


def compiled(schema: Any, share: bool) -> NestedDfa:
    """Return the automaton over bytes of a schema; with `share`, strings may be called."""
    return nested_grammar_dfa(schema_grammar(load(schema), SCHEMA_LIMITS).nested_grammar, SCHEMA_LIMITS, share)


def written(values: Any, constraint: Any, seed: int) -> bool:
    """Whether a document may be written under a constraint, cut into tokens at random."""
    rng = random.Random(seed)
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
    vocabulary, ids = constraint.vocabulary, list[int]()
    while text:
        nodes = [node for node in vocabulary.trie.path(text) if vocabulary.trie.own[node]]
        ids.append(int(vocabulary.trie.tokens_below(rng.choice(nodes))[0]))
        text = text[len(vocabulary.tokens[ids[-1]] or b"") :]
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    state = constraint.advance(constraint.init_state(context), torch.tensor([ids]))
    masked = constraint.process_logits(state, torch.ones(1, vocabulary.size), context)[1]
    # A dead row ends too, with another logit.
    return bool(masked[0, vocabulary.eos_ids[0]] == 1)


SMALL = lk.Vocabulary(
    [
        *[bytes([b]) for b in range(256)],
        *(
            b'":',
            b'","',
            b'"}',
            b'"}]',
            b'":{"',
            b'{"',
            b'["',
            b'"]}',
            b'a"',
            b'ab":"a',
            b'",',
            b"null",
            b"}}",
            b'":[',
            b"]]",
            b'"b"',
        ),
        *("é".encode(), b"\\n", b"\xc3", b"12", b"12}", b'true,"', b'{"a":1}', b"{}}", b"[]", b"],"),
        None,
    ],
    eos_ids=[256 + 26],
)
