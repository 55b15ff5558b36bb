r"""Languages that call the bytes inside characters, because they would have too many states, such as `\w{1,300}`."""

from __future__ import annotations

import random
from itertools import count
from unittest import mock

import pytest
import torch

import logitkit as lk
from logitkit.compiler.nested_grammars.assembly import Assembly
from logitkit.errors import PatternTooLarge
from logitkit.languages import any_text, choice, either, optional, regex, sequence, special
from tests.languages.comparison import compare
from tests.languages.test_masks import LANGUAGES
from tests.languages.vocabularies import BYTES, NAMED, SHOWN
from tests.processors.four_logits import on_either_path

_fresh = count(1)


@pytest.fixture
def too_many_states() -> object:
    """Let every automaton have too many states where characters are not called."""
    with mock.patch.object(Assembly, "dfa", side_effect=PatternTooLarge("too many states")) as patched:
        yield patched


# In these there are characters beyond ASCII, without which there is nothing to call.
CALLED = [
    name
    for name in LANGUAGES
    if name.startswith(("pattern", "anything", "until", "without", "in order", "one of", "tag", "dispatch"))
]


@pytest.mark.parametrize("name", CALLED)
def test_masks_are_those_of_a_plain_matcher(name: str, too_many_states: mock.Mock) -> None:
    assert compare(LANGUAGES[name], BYTES, shown=SHOWN, limits=lk.Limits(states=50_000 + next(_fresh))) > 1
    assert too_many_states.called


FEW = lk.Limits(states=50_000)
LARGE = {
    "words": regex(r"\w{1,300}"),
    "after a special token": sequence(special("<t>"), regex(r"\w{1,300}"), special("<o>")),
    "one of several": either(regex(r"x\w{1,400}"), choice(["yes", "no"]), special("<o>")),
    "before free text": sequence(regex(r"\w{1,300}"), "<b>", any_text("<t>"), optional(special("<o>"))),
}


@pytest.mark.parametrize("name", LARGE)
def test_masks_are_those_without_calls(name: str) -> None:
    called = LARGE[name].constraint(BYTES, limits=FEW)
    written = LARGE[name].constraint(BYTES, limits=lk.Limits(states=500_000, work=500_000_000))
    assert called.automaton.has_stacks
    assert not written.automaton.has_stacks
    assert called.automaton.nbytes < written.automaton.nbytes / 10
    rng = random.Random(name)
    context = lk.Context.of([[]], vocabulary_size=BYTES.size)
    for _ in range(4):
        states = [constraint.init_state(context) for constraint in (called, written)]
        for _ in range(120):
            masks = [
                constraint.process_logits(state, torch.zeros(1, BYTES.size), context)[1]
                for constraint, state in zip((called, written), states, strict=True)
            ]
            assert torch.equal(*masks)
            legal = [t for t in torch.nonzero(masks[0][0] == 0).ravel().tolist() if t not in BYTES.eos_ids]
            if not legal:
                break
            beyond = [token for token in legal if max(BYTES.tokens[token] or b"a") >= 0x80]
            token = torch.tensor([rng.choice(beyond if beyond and rng.random() < 0.6 else legal)])
            states = [
                constraint.advance(state, token) for constraint, state in zip((called, written), states, strict=True)
            ]


def test_both_paths_agree() -> None:
    constraint = LARGE["after a special token"].constraint(BYTES, limits=FEW)
    token = BYTES.special["<t>"]
    free = [0.5] * BYTES.size
    found = on_either_path(constraint, [token, *b"a\xc3"], free)
    assert [byte for byte in range(256) if found[byte] == 0.5] == [
        byte for byte in range(0x80, 0xC0) if chr(byte + 0x40).isalnum()
    ]


def test_a_vocabulary_without_some_byte_is_refused() -> None:
    """A character that has begun could not always be completed, so that more than the character would have to be known."""
    with pytest.raises(PatternTooLarge, match="more than 50000 states"):
        LARGE["words"].constraint(NAMED, limits=FEW)
