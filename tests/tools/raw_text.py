"""Raw text between tags: tokens that cross its bounds, and walks that compare masks with those of states for each count."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.json_schema.string_set import StringSet
from logitkit.languages import Language, xml_arguments, xml_members
from logitkit.limits import DEFAULT_LIMITS
from logitkit.runtime.constraint import Constraint

BEGIN, END, MARKER = b"<parameter=x>\n", b"\n</parameter>", b"</parameter>"
# Tokens that cross every boundary: from a tag into text, from text into its end, over a whole short text, parts of characters.
CROSSING = [
    *(
        b"\n</",
        b"</parameter>",
        b"\n</parameter>",
        b"</parameter>\n",
        b">\n",
        b">\nab",
        b"a\n</parameter>",
        b"\n\n",
        b"</par",
    ),
    *(
        b"ab",
        b"abcd",
        b"aaaaaaaa",
        b"rameter>\n<parameter=",
        b"x>\n\n</parameter>\n<parameter=y>\n",
        "é".encode(),
        "ééa".encode(),
    ),
    *(
        "\U0001f600".encode(),
        b"\x98\x80",
        b"a\xc3",
        b"\xa9b",
        b"<parameter=x>\n",
        b"\n</parameter>\n<parameter=y>\nab",
        b"meter>b",
    ),
    *(b">\nab</parameter>\n", b"a</parameter>\n<parameter=y>\n", b"\n\n</parameter"),
    *(b"\n</parameter\n</parameter>", b'"aa', b'aa"]', b'["a', b"12"),
    # Several lines: in a text, from its tag on, and up to its end.
    *(b"\n\n\n\n\n", b"a\nb\nc", b">\n\n\na", b"\n\n</parameter>", b"x>\n\n\n\n</parameter>\n<parameter=y>\n\n"),
    # Several words, in the same way.
    *(
        b" a",
        b"b a b",
        b" a b ",
        b">\na b",
        b"x>\na b a\n</parameter>\n<parameter=y>\na b",
        b" a\n</parameter>",
        b"    ",
    ),
]
TOKENS = [*(bytes([byte]) for byte in range(256)), *CROSSING, None]
VOCABULARY = lk.Vocabulary(TOKENS, eos_ids=[len(TOKENS) - 1])
EOS = len(TOKENS) - 1

LONG = {"type": "string", "maxLength": 20}


def schema_of(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": ["x"], "additionalProperties": False}


def arguments(properties: dict[str, Any], **tags: Any) -> Language:
    return xml_arguments(schema_of(properties), **tags)


def counts(language: Language) -> bool:
    constraint = language.constraint(VOCABULARY)
    return constraint.automaton.counting is not None


def after(dfa: NestedDfa, place: tuple[int, tuple[int, ...]], text: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the state and the frames after some bytes."""
    state, stack = place
    for byte in text:
        does = int(dfa.step[state, dfa.byte_class[byte]])
        if NestedStep.is_state(does):
            state = does
        elif NestedStep.is_call(does):
            call = NestedStep.number(does)
            state, stack = int(dfa.entry[call]), (*stack, int(dfa.frame[call]))
        else:
            state, stack = int(dfa.return_state[NestedStep.number(does), stack[-1]]), stack[:-1]
        if state == DEAD:
            break
    return state, stack


def walk(language: Language, seed: int, steps: int) -> None:
    """Write a random text, and compare all masks on the way."""
    constraint = language.constraint(VOCABULARY)
    dfa = constraint.nested_dfa()
    rng = random.Random(seed)
    state = constraint.init_state(lk.Context.of([[]], vocabulary_size=len(TOKENS)))
    place: tuple[int, tuple[int, ...]] = dfa.start, ()
    # The end of a text is as likely as a text that grows.
    often = [at for at, token in enumerate(TOKENS) if token in CROSSING or (token and token in b"ab<>/ \n")]
    for _ in range(steps):
        alive = [token is not None and after(dfa, place, token)[0] >= FIRST_STATE for token in TOKENS]
        alive[EOS] = bool(dfa.accepting[place[0]])
        assert constraint.allowed_tokens(state)[0].tolist() == alive
        legal = [at for at in range(EOS) if alive[at]]
        if not legal:
            break
        likely = [at for at in often if alive[at]]
        token = rng.choice(likely if likely and rng.random() < 0.8 else legal)
        state, place = constraint.advance(state, torch.tensor([token])), after(dfa, place, TOKENS[token] or b"")


def uncounted(language: Language, patch: pytest.MonkeyPatch, closing: int | bool = False) -> Constraint:
    """Return the constraint that has states for each count."""
    patch.setattr(xml_members, "text_fragment", lambda *_: None)
    patch.setattr(StringSet, "counts", lambda *_: False)
    # Other limits, so that it is compiled again.
    limits = replace(DEFAULT_LIMITS, work=DEFAULT_LIMITS.work + 1)
    constraint = language.constraint(VOCABULARY, closing=closing, limits=limits)
    assert constraint.automaton.counting is None
    return constraint
