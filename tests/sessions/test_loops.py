"""`LoopStop` in sessions, typed outputs and traces: `finished` says "loop", in every engine."""

from __future__ import annotations

import re

import pytest

import logitkit as lk
from logitkit.errors import IncompleteOutput
from logitkit_adapters.sessions import Session, continuous, generate_typed, trace
from logitkit_adapters.sessions.end_of_row import end_of_row
from tests.adapters.demo import vocabulary
from tests.sessions.engines import ENGINES, loaded

V = vocabulary()
(EOS,) = V.eos_ids
PROMPT = [280, 661, 509]
A, B = V.tokens.index(b"a"), V.tokens.index(b"b")
LOOPS = lk.LoopStop(V, max_period=8)
# The model writes `a`, and then `a` again.
STUCK = lk.chain(lk.LogitBias({A: 1000.0}), LOOPS)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_front_end_says_that_it_was_a_loop(engine: str) -> None:
    model, tokenizer = loaded(engine)
    with Session(model, tokenizer, STUCK) as session:
        (row,) = session.generate(PROMPT, max_new_tokens=9).rows
        assert (row.token_ids, row.text.strip(), row.finished) == ([A, A, A, EOS], "aaa", "loop")
        assert [row.finished for row in session.generate(PROMPT, num_samples=2, seed=1).rows] == ["loop"] * 2
        assert session.generate(PROMPT, max_new_tokens=9, num_beams=2).rows[0].finished == "loop"
        # At the limit, no EOS follows.
        (row,) = session.generate(PROMPT, max_new_tokens=3).rows
        assert (row.token_ids, row.finished) == ([A, A, A], "loop")
        assert session.generate(PROMPT, max_new_tokens=2).rows[0].finished == "length"
        stream = session.stream(PROMPT, max_new_tokens=9)
        assert "".join(stream).strip() == "aaa"
        assert stream.generated.rows[0].finished == "loop"
    state = continuous(model, tokenizer, STUCK, max_new_tokens=9)(PROMPT)
    assert state.finished.tolist() == [True]
    assert LOOPS.fired(state.processor_state[1]).tolist() == [True]
    found = trace(model, tokenizer, PROMPT, STUCK, max_new_tokens=9)
    assert (found.finished, found.to_dict()["finished"]) == ("loop", "loop")
    assert str(found).endswith("Its last tokens are a loop, at which LoopStop ended it.")
    assert trace(model, tokenizer, PROMPT, STUCK, output=[A, A, A, EOS]).finished is None


@pytest.mark.parametrize("engine", ENGINES)
def test_a_typed_value_that_a_loop_ended(engine: str) -> None:
    model, tokenizer = loaded(engine)
    found = generate_typed(
        model, tokenizer, PROMPT, re.compile("a*"), processor=STUCK, max_new_tokens=9, errors="return", num_samples=2
    )
    assert [(one.value, one.finished, one.error) for one in found] == [("aaa", "loop", None)] * 2
    with pytest.raises(IncompleteOutput, match="the output 'aaa' was ended by a loop before it was complete"):
        generate_typed(model, tokenizer, PROMPT, re.compile("a{6}"), processor=STUCK, max_new_tokens=9)


def test_why_a_row_ended() -> None:
    biased = lk.LogitBias({A: 1000.0})
    cases = (
        (lk.chain(biased, lk.Regex("a{9}", V), LOOPS), "loop"),
        (lk.chain(biased, LOOPS, lk.Regex("a{9}", V)), "loop"),
        # A stop that the last token completes comes first.
        (lk.chain(biased, LOOPS, lk.StopStrings(["aaa"], V)), "stop: aaa"),
        (lk.chain(biased, lk.StopStrings(["aaaa"], V), LOOPS), "loop"),
        # The marker of reasoning is forced, and then there is another loop.
        (lk.chain(biased, lk.LoopStop(V, then="b")), "loop"),
        # No text of the pattern has the marker.
        (lk.chain(biased, lk.Regex("a{9}", V), lk.LoopStop(V, then="b")), "conflict"),
        (lk.chain(biased, lk.LoopStop(V, count=9)), "length"),
    )
    with Session(*loaded("transformers")) as session:
        for processor, expected in cases:
            (row,) = session.generate(PROMPT, max_new_tokens=8, processor=processor).rows
            assert row.finished == expected, (processor, row)
        (row,) = session.generate(PROMPT, max_new_tokens=9, processor=cases[4][0]).rows
        assert row.token_ids == [A, A, A, B, A, A, A, EOS]
    # The tokens of the prompt are not part of a loop.
    assert end_of_row(LOOPS, [A, A], [A, EOS], 9, [EOS], V.size) == "eos"
