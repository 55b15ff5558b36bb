"""Special tokens by name, and every EOS of the engine, in real generations."""

from __future__ import annotations

import pytest

import logitkit as lk
from logitkit.errors import VocabularyError
from tests.adapters import special_demo as demo
from tests.adapters.special_demo import ENGINES, EOS, THINK, TURN

PROMPTS = [[1, 40, 50, 60], [70, 80]]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_vocabulary_knows_names_and_ends(engine: str) -> None:
    vocabulary = demo.vocabulary(engine)
    assert vocabulary.eos_ids == (EOS, TURN)
    assert vocabulary.special == {"<pad>": 0, "<s>": 1, "</s>": EOS, "</think>": THINK, "<|im_end|>": TURN}
    assert vocabulary == demo.vocabulary("transformers")


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("engine", ENGINES)
def test_thinking_ends_and_an_answer_follows(engine: str, prompt: list[int]) -> None:
    vocabulary = demo.vocabulary(engine)
    answer = lk.then(None, lk.Choice(["yes", "no"], vocabulary), "</think>")
    written = demo.written(engine, prompt, lk.chain(answer, lk.ThinkingBudget(4, "</think>", vocabulary)))
    at = written.index(THINK)
    assert at <= 4
    assert not {EOS, TURN} & {*written[:at]}
    assert vocabulary.decode(written[at + 1 :]) in (b"yes", b"no")
    assert written[-1] in (EOS, TURN)


def test_beams_and_batches_end_thinking_too() -> None:
    model, tokenizer = demo.loaded("transformers")
    vocabulary = demo.vocabulary("transformers")
    answer = lk.then(None, lk.Choice(["yes", "no"], vocabulary), "</think>")
    processor = lk.chain(answer, lk.ThinkingBudget(4, "</think>", vocabulary))
    inputs = tokenizer(["The price of", "The meeting is on the"], return_tensors="pt", padding=True)
    for more in ({}, {"num_beams": 3, "num_return_sequences": 3}):
        hook = demo.adapter("transformers").logits_processor(processor)
        found = model.generate(**inputs, max_new_tokens=24, do_sample=False, logits_processor=[hook], **more)
        assert len(found) == (6 if more else 2)
        for row in found[:, inputs["input_ids"].shape[1] :].tolist():
            assert row.index(THINK) <= 4
            assert vocabulary.decode(row[row.index(THINK) + 1 :]) in (b"yes", b"no")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_generator_that_knows_the_model_runs_it(engine: str) -> None:
    module, (model, tokenizer) = demo.adapter(engine), demo.loaded(engine)
    vocabulary = demo.vocabulary(engine)
    processor = lk.chain(
        lk.then(None, lk.Choice(["yes", "no"], vocabulary), "</think>"), lk.ThinkingBudget(4, "</think>", vocabulary)
    )
    with module.Session(model, None if engine == "llama.cpp" else tokenizer, processor) as session:
        written = list(session.generate(PROMPTS[0], max_new_tokens=24).rows[0].token_ids)
    assert written == demo.written(engine, PROMPTS[0], processor)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stop_and_a_ban_by_name(engine: str) -> None:
    vocabulary = demo.vocabulary(engine)
    likely = lk.LogitBias({THINK: 1e4})
    stopped = demo.written(engine, PROMPTS[0], lk.chain(likely, lk.StopStrings(["</think>"], vocabulary)))
    assert stopped[0] == THINK
    assert stopped[1:] in ([EOS], [TURN])
    banned = demo.written(engine, PROMPTS[0], lk.chain(likely, lk.BannedStrings(["</think>"], vocabulary)), most=6)
    assert THINK not in banned


@pytest.mark.parametrize("engine", ENGINES)
def test_no_end_of_the_engine_comes_too_soon(engine: str) -> None:
    vocabulary = demo.vocabulary(engine)
    likely = lk.LogitBias({TURN: 1e4, EOS: 1e4})
    answer = lk.then(None, lk.Choice(["yes", "no"], vocabulary), "</think>")
    processor = lk.chain(likely, answer, lk.ThinkingBudget(3, "</think>", vocabulary))
    written = demo.written(engine, PROMPTS[1], processor)
    assert vocabulary.decode(written[written.index(THINK) + 1 :]) in (b"yes", b"no")
    longer = demo.written(engine, PROMPTS[1], lk.chain(likely, lk.MinNewTokens(5, vocabulary.eos_ids)))
    assert len(longer) == 6


@pytest.mark.parametrize("engine", ENGINES)
def test_sessions_refuse_a_vocabulary_without_an_end_of_the_engine(engine: str) -> None:
    module, (model, tokenizer) = demo.adapter(engine), demo.loaded(engine)
    tokens = demo.vocabulary(engine).tokens
    lacking = lk.Vocabulary(tokens, eos_ids=[EOS])
    given = None if engine == "llama.cpp" else tokenizer
    answer = lk.then(None, lk.Choice(["yes", "no"], lacking), "a")
    for processor, name in (
        (answer, "Then"),
        (lk.chain(lk.MinNewTokens(5, [EOS]), lk.TopK(3)), "MinNewTokens"),
        (lk.chain(lk.chain(lk.StopStrings(["a"], lacking)), lk.TopK(3)), "StopStrings"),
        (lk.Chain((lk.chain(lk.StopStrings(["a"], lacking), lk.TopK(3)), lk.TopP(0.5)), ()), "StopStrings"),
    ):
        message = rf"ends a text at the ids \[2, 1279\], but {name} knows the EOS ids \[2\] only: at \[1279\]"
        with pytest.raises(VocabularyError, match=message):
            module.Session(model, given, processor)
        with module.Session(model, given) as session, pytest.raises(VocabularyError, match=message):
            session.generate(PROMPTS[0], max_new_tokens=3, processor=processor)
        with pytest.raises(VocabularyError, match=message):
            module.continuous(model, given, processor)
    with module.Session(model, given, lk.MinNewTokens(3, [EOS, TURN])) as session:
        assert len(session.generate(PROMPTS[0], max_new_tokens=5).rows[0].token_ids) >= 3


def test_continuous_batching_refuses_it_too() -> None:
    model, _ = demo.loaded("transformers")
    refused = demo.adapter("transformers").continuous_batching(model, lk.MinNewTokens(5, [EOS]))
    with pytest.raises(VocabularyError, match=r"MinNewTokens knows the EOS ids \[2\] only"), refused:
        pass
    with demo.adapter("transformers").continuous_batching(model, lk.MinNewTokens(5, [EOS, TURN])):
        pass
