"""A stream yields the text of a generation while it is generated, and ends with its state."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit import SequenceState
from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import continuous
from tests.adapters.demo import vocabulary
from tests.sessions.continuation import PROMPT, PROMPTS
from tests.sessions.engines import ENGINES, loaded, watched

BYTES = "é😀, naïve – ünï 日本語."


def joined(pieces: Sequence[str | list[str]], rows: int) -> tuple[str, ...]:
    """Return the text of each row."""
    lists = [[piece] if isinstance(piece, str) else piece for piece in pieces]
    assert all(len(one) == rows and any(one) for one in lists)
    return tuple("".join(one[row] for one in lists) for row in range(rows))


def same(found: SequenceState, wanted: SequenceState) -> None:
    assert found.rows == wanted.rows
    assert found.finished.tolist() == wanted.finished.tolist()
    torch.testing.assert_close(found.weights, wanted.weights)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("prompt", [PROMPT, PROMPTS])
@pytest.mark.parametrize("more", [{}, {"num_samples": 2, "seed": 4}])
def test_pieces_join_to_the_new_texts_of_a_call(engine: str, prompt: Any, more: dict[str, Any]) -> None:
    text = continuous(*loaded(engine), max_new_tokens=9, **more)
    stream = text.stream(prompt)
    pieces = list(stream)
    same(stream.state, text(prompt))
    assert joined(pieces, len(stream.state)) == stream.state.new_texts
    assert len(pieces) > 3
    # A state continues in the same way.
    again = text.stream(stream.state, max_new_tokens=5)
    rest = joined(list(again), len(stream.state))
    same(again.state, text(stream.state, max_new_tokens=5))
    assert rest == again.state.new_texts
    assert [a + b for a, b in zip(stream.state.texts, rest, strict=True)] == list(again.state)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_piece_comes_before_the_next_step(engine: str) -> None:
    model, tokenizer = loaded(engine)
    with watched(model) as fed:
        stream = continuous(model, tokenizer).stream(PROMPT, max_new_tokens=6)
        assert fed == []
        first = next(stream)
        assert first
        steps = len(fed)
        assert steps < 3
        with pytest.raises(ConfigurationError, match="has not finished, so it has no"):
            _ = stream.state
        list(stream)
        assert len(fed) > steps


@pytest.mark.parametrize("engine", ENGINES)
def test_whole_characters_only(engine: str) -> None:
    model, tokenizer = loaded(engine)
    words = [" " + BYTES, " ß" + BYTES[::-1]]
    processor = lk.Choice(words, vocabulary())
    stream = continuous(model, tokenizer, processor, max_new_tokens=80).stream(PROMPTS)
    pieces = list(stream)
    assert "�" not in str(pieces)
    assert joined(pieces, 3) == stream.state.new_texts
    assert {*stream.state.new_texts} <= {*words}
    assert stream.state.finished.all()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_model_can_be_used_during_a_stream_and_after_one_that_was_left(engine: str) -> None:
    text = continuous(*loaded(engine))
    wanted, other = text(PROMPTS, max_new_tokens=8), text("Item: pen", max_new_tokens=5)
    stream = text.stream(PROMPTS, max_new_tokens=8)
    for _ in stream:
        assert text("Item: pen", max_new_tokens=5).rows == other.rows
    same(stream.state, wanted)
    for leave in (lambda one: one.close(), lambda one: None):
        left = text.stream(PROMPTS, max_new_tokens=8)
        next(left)
        leave(left)
        assert text(PROMPTS, max_new_tokens=8).rows == wanted.rows
    with text.stream(PROMPTS, max_new_tokens=8) as left:
        next(left)
    assert list(left) == []
    with pytest.raises(ConfigurationError, match="no state"):
        _ = left.state


def test_a_state_is_carried_on() -> None:
    model, tokenizer = loaded("transformers")
    date = continuous(model, tokenizer, lk.Regex(r" \d{4}-\d\d-\d\d", vocabulary()), carry_state=True)
    begun = date("The meeting is on", max_new_tokens=3)
    stream = date.stream(begun, max_new_tokens=20)
    assert begun.new_texts[0] + "".join(map(str, stream)) == stream.state.new_texts[0]
    assert stream.state.rows == date("The meeting is on", max_new_tokens=23).rows
    # It is complete, so nothing is added.
    ended = date.stream(stream.state, max_new_tokens=20)
    assert list(ended) == []
    assert ended.state.rows == stream.state.rows


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("samples", [1, 2])
def test_rows_of_pads_have_no_text(engine: str, samples: int) -> None:
    text = continuous(*loaded(engine), num_samples=samples, do_sample=False, max_new_tokens=4)
    ids, mask = torch.tensor([[5, 6, 7], [0, 0, 0], [0, 8, 9]]), torch.tensor([[1, 1, 1], [0, 0, 0], [0, 1, 1]])
    stream = text.stream(ids, attention_mask=mask)
    found = joined(list(stream), 3 * samples)
    assert found == stream.state.new_texts
    assert [bool(one) for one in found] == [bool(sum(row)) for row in mask.tolist() for _ in range(samples)]
    same(stream.state, text(ids, attention_mask=mask))


def test_wrong_options() -> None:
    model, tokenizer = loaded("transformers")
    text = continuous(model, tokenizer)
    with pytest.raises(ConfigurationError, match="num_beams=3, but the best beam is known only at the end"):
        text.stream(PROMPT, max_new_tokens=3, num_beams=3)
    instead = r"put logitkit.Temperature\(0.7\) into the processor and give seed="
    for call in (
        lambda: continuous(model, tokenizer, temperature=0.7),
        lambda: text(PROMPT, temperature=0.7),
        lambda: text.stream(PROMPT, temperature=0.7),
    ):
        with pytest.raises(TypeError, match=instead):
            call()
    with pytest.raises(TypeError, match="tempo is not an option here; allowed are max_new_tokens, num_samples"):
        continuous(model, tokenizer, tempo=1)
    with pytest.raises(ConfigurationError, match="prompt is None"):
        text.stream(None)  # type: ignore[arg-type]


UNREAD = """
from logitkit_adapters.sessions import continuous
from logitkit_adapters.transformers import generate_typed
from tests.sessions.engines import loaded

model, tokenizer = loaded("transformers")
typed = generate_typed(model, tokenizer, "x ", list[int], stream=True, max_new_tokens=40)
states = continuous(model, tokenizer, max_new_tokens=9).stream("The price is ")
print(bool(next(typed)), bool(next(states)))
"""


def test_a_program_may_end_before_it_has_read_a_stream() -> None:
    """Python frees the rest of the stream when it shuts down, where torch aborts the process."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", UNREAD], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["True", "True"]), done.stderr[-2000:]
