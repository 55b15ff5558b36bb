"""Sessions in ONNX Runtime GenAI: a generator is rewound, or another one computes the tokens again; the output is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnxruntime_genai as og
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.onnxruntime_genai import Session, continuous
from logitkit_adapters.onnxruntime_genai.engine import sequence_engine
from logitkit_adapters.onnxruntime_genai.model_limits import limits_of
from logitkit_adapters.onnxruntime_genai.sequence import OnnxEngine
from tests.adapters import demo
from tests.adapters.demo_onnxruntime_genai import PAD, PROMPT, by_engine, copy_with, model, tokenizer
from tests.examples import examples
from tests.sessions.engines import watched
from tests.sessions.failing import Failing


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(model(), tokenizer(), max_length=256) as session:
        yield session


def logits_of_transformers(ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = demo.model()(torch.tensor([ids])).logits[0]
    return found


def near(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, atol=2e-4, rtol=0)


def fed_by(session: Session, prompt: list[int], count: int = 4) -> list[int]:
    """Generate after a prompt as the engine alone does, and return the number of tokens that each pass was fed."""
    with watched(model()) as fed:
        (row,) = session.generate(prompt, max_new_tokens=count).rows
    assert [row.token_ids] == by_engine([prompt], count)
    assert sum(fed) == row.positions_fed == row.prompt_tokens + len(row.token_ids) - 1 - row.positions_saved
    return fed


def test_the_turns_of_a_conversation_feed_what_is_new(session: Session) -> None:
    prompt = list(PROMPT)
    assert fed_by(session, prompt) == [10, 1, 1, 1]
    for _ in range(3):
        prompt = [*prompt, *by_engine([prompt], 4)[0], 7, 8]
        # The last token of the answer, and the two new ones.
        assert fed_by(session, prompt)[:2] == [3, 1]


def test_an_edited_prompt_is_continued_from_where_it_differs(session: Session) -> None:
    fed_by(session, PROMPT)
    assert fed_by(session, [*PROMPT[:8], 30, 31])[0] == 2
    assert (session.position, session.cached_tokens) == (13, 13)
    # Again the same prompt: its last token is fed, whatever was generated.
    fed_by(session, PROMPT[:3], count=9)
    assert fed_by(session, PROMPT[:3], count=9)[0] == 1


def test_a_conversation_is_not_cut_to_save_less_than_it_has(session: Session) -> None:
    fed_by(session, PROMPT)
    assert fed_by(session, [*PROMPT[:5], 30, 31])[0] == 7
    assert session.cached_tokens == 13 + 10 - 5
    # Both are still there.
    assert fed_by(session, [*PROMPT, *by_engine([PROMPT], 4)[0], 9])[0] == 2
    assert fed_by(session, [*PROMPT[:5], 30, 31, 9])[0] == 1


def test_what_a_failed_call_has_left_is_continued(session: Session) -> None:
    fed_by(session, PROMPT)
    longer = [*PROMPT[:8], 7, 7, 7]
    for error in (RuntimeError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            session.generate(longer, max_new_tokens=6, processor=Failing(error, 2))
        assert session.position == 8
    assert fed_by(session, longer)[0] == 3


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [RuntimeError("no memory"), KeyboardInterrupt()], ids=["error", "interruption"])
def test_a_pass_that_fails_leaves_the_session_usable(
    session: Session, after: bool, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed_by(session, PROMPT)
    whole, calls = og.Generator.append_tokens, 0

    def failing(generator: Any, tokens: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2 and not after:
            raise error
        whole(generator, tokens)
        if calls == 2:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(og.Generator, "append_tokens", failing)
        with pytest.raises(type(error)):
            session.generate([*PROMPT, 7, 7], max_new_tokens=6)
    for prompt in ([*PROMPT, 7, 7], PROMPT, [*PROMPT, 9]):
        fed_by(session, prompt)


TOKENS = st.lists(st.sampled_from([PAD, 2, 5, 280, 661]), min_size=1, max_size=5)


@settings(max_examples=examples(80))
@given(st.lists(TOKENS, min_size=1, max_size=4), st.booleans())
def test_padding_in_a_prompt_is_a_token(parts: list[list[int]], all_positions: bool) -> None:
    """The engine takes padding at the end of what it is given for no token, and may read memory before the logits."""
    sequence, ids = sequence_engine(model(), None, None).new(), list[int]()
    for part in parts:
        ids += part
        found = sequence.feed(part, all_positions=all_positions)
        wanted = logits_of_transformers(ids)[-len(part) :]
        assert near(found, wanted if all_positions else wanted[-1])


@settings(max_examples=examples(80))
@given(st.data())
def test_sequences_that_share_a_generator_do_not_affect_each_other(data: st.DataObject) -> None:
    engine = sequence_engine(model(), None, None)
    sequences, saved = [engine.new()], list[Any]()
    sequences[0].feed(PROMPT[:4])
    for _ in range(data.draw(st.integers(1, 12))):
        place = data.draw(st.integers(0, len(sequences) - 1))
        sequence = sequences[place]
        match data.draw(st.sampled_from(["feed", "trim", "fork", "save", "restore"])):
            case "feed":
                tokens = data.draw(st.lists(st.integers(3, 1279), min_size=1, max_size=3))
                wanted = logits_of_transformers([*sequence.tokens, *tokens])[-1]
                assert near(sequence.feed(tokens), wanted)
            case "trim":
                length, before = data.draw(st.integers(1, sequence.length)), sequence.tokens
                wanted_tokens = before[:length] if sequence.trim(length) else before
                assert sequence.tokens == wanted_tokens
            case "fork":
                sequences.append(sequence.fork())
            case "save":
                saved.append(sequence.save())
            case "restore" if saved:
                one = data.draw(st.sampled_from(saved))
                length = data.draw(st.integers(1, len(one.tokens)))
                restored = engine.restore(one, length)
                if restored is not None:
                    assert restored.tokens == one.tokens[:length]
                    sequences.append(restored)


def test_a_snapshot_whose_tokens_were_replaced_is_lost() -> None:
    engine = sequence_engine(model(), None, None)
    sequence = engine.new()
    sequence.feed(PROMPT)
    saved, fork = sequence.save(), sequence.fork()
    assert sequence.trim(6)
    sequence.feed([5, 6, 7, 8])
    # As many tokens as before, but others.
    assert engine.restore(saved, 10) is None
    assert near(fork.feed([9]), logits_of_transformers([*PROMPT, 9])[-1])
    again = engine.restore(saved, 6)
    assert again is not None
    assert near(again.feed([7]), logits_of_transformers([*PROMPT[:6], 7])[-1])


def test_streams_that_take_turns_write_what_they_write_alone(session: Session) -> None:
    session.generate(PROMPT, max_new_tokens=4)
    prompts = [[*PROMPT, 7], [*PROMPT, 8], PROMPT[:9]]
    streams = [session.stream(prompt, max_new_tokens=8) for prompt in prompts]
    waiting = list(streams)
    while waiting:
        waiting = [stream for stream in waiting if next(stream, None) is not None]
    for prompt, stream in zip(prompts, streams, strict=True):
        assert stream.generated.token_ids == by_engine([prompt], 8)


def limited(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    limits = replace(limits_of(model()), **changes)
    monkeypatch.setattr("logitkit_adapters.onnxruntime_genai.sequence.limits_of", lambda _: limits)


def test_a_model_that_cannot_be_rewound_computes_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, can_rewind=False)
    with Session(model(), tokenizer(), max_length=256) as other:
        fed_by(other, PROMPT)
        # A cache that is continued as it is needs no cut.
        assert fed_by(other, [*PROMPT, *by_engine([PROMPT], 4)[0], 9])[0] == 2
        assert fed_by(other, [*PROMPT[:8], 30, 31])[0] == 10
        other.position = 3
        assert other.position == 0
    limited(monkeypatch)
    # A layer with a window notices only then that its window has moved on.
    fed_by(session, PROMPT)

    def refuse(_generator: Any, _length: int) -> None:
        raise RuntimeError("the window has moved")

    with monkeypatch.context() as patch:
        patch.setattr(og.Generator, "rewind_to", refuse)
        assert fed_by(session, [*PROMPT[:8], 30, 31])[0] == 10
    sequence = sequence_engine(model(), None, None).new()
    sequence.feed(PROMPT)
    with monkeypatch.context() as patch:
        patch.setattr(og.Generator, "rewind_to", refuse)
        assert not sequence.trim(4)
    assert near(sequence.feed([5]), logits_of_transformers([*PROMPT, 5])[-1])


def test_logits_that_a_model_shows_of_the_last_token_only(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, shows_all_logits=False)
    with watched(model()) as fed:
        found = sequence_engine(model(), None, None).new().feed(PROMPT, all_positions=True)
    assert fed == [1] * 10
    assert near(found, logits_of_transformers(PROMPT))


def test_positions_are_computed_again_where_a_model_switches_their_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, switches_at=12)
    sequence = sequence_engine(model(), None, None).new()
    with watched(model()) as fed:
        sequence.feed(PROMPT)
        rows = sequence.feed([5, 6, 7], all_positions=True)
        sequence.feed([8])
    assert fed == [10, 13, 1]
    assert near(rows, logits_of_transformers([*PROMPT, 5, 6, 7])[-3:])
    assert sequence.trim(12)
    # Below that, all were computed in the other way.
    assert not sequence.trim(11)
    with watched(model()) as fed:
        assert near(sequence.feed([9]), logits_of_transformers([*PROMPT, 5, 6, 9])[-1])
    assert fed == [1]


def test_a_long_text_gets_a_larger_generator() -> None:
    sequence = sequence_engine(model(), None, None).new()
    ids = [3 + i % 1277 for i in range(1500)]
    rooms = []
    for begin in (0, 500, 1000):
        sequence.feed(ids[begin : begin + 500])
        assert sequence._generator is not None
        rooms.append(sequence._generator.room)
    assert rooms == [1000, 1000, 2048]
    assert sequence.positions_fed == 500 + 500 + 1000 + 500
    assert near(sequence.feed([5]), logits_of_transformers([*ids, 5])[-1])


def test_ids_and_lengths_that_the_model_lacks(session: Session, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"token ids from 5 to 1280; allowed are ids from 0 to 1279"):
        session.generate([5, 1280], max_new_tokens=1)
    engine = sequence_engine(model(), None, None)
    with pytest.raises(ConfigurationError, match="token ids from -1 to 5"):
        engine.new().feed([5, -1])
    with pytest.raises(ConfigurationError, match=r"2049 tokens are more than the 2048 of search.max_length"):
        engine.new().feed([5] * 2049)
    short = copy_with(tmp_path, search={"max_length": 12})
    with Session(short) as limited_session:
        assert limited_session.max_length == 12
        assert limited_session.generate(PROMPT, max_new_tokens=2).token_ids == by_engine([PROMPT], 2)
        with pytest.raises(ConfigurationError, match="max_length=12"):
            limited_session.generate(PROMPT, max_new_tokens=3)


def test_what_the_engine_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="does not give access to the keys in its cache; leave rolling=False"):
        Session(model(), tokenizer(), rolling=True)
    with pytest.raises(ConfigurationError, match="makes its cache by itself; leave it out"):
        Session(model(), tokenizer(), make_cache=dict)
    assert not OnnxEngine(model()).new().shift(1)


def test_a_state_goes_on_from_a_file_by_computing_it_again(tmp_path: Path) -> None:
    text = continuous(model(), tokenizer(), lk.FrequencyPenalty(0.4))
    state = text(["The price of", "Name: "], max_new_tokens=5)
    state.save(tmp_path)
    with watched(model()) as fed:
        wanted = text(state, max_new_tokens=4).rows
    assert max(fed) == 1
    with watched(model()) as fed:
        assert text(text.load(tmp_path), max_new_tokens=4).rows == wanted
    assert max(fed) > 1
