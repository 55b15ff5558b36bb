"""Sessions in vLLM: log-probabilities, the reason of the end, samples and streams."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError, IncompleteOutput, VocabularyError
from tests.adapters_vllm import engine
from tests.sessions.misuse import WithoutAdvance, of_another_tokenizer
from tests.sessions.typed_cases import CASES

PROMPT = "The price of"
NEAR = 1e-3


TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}bot:"


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.adapters.demo import tokenizer

    folder = str(tmp_path_factory.mktemp("tokenizer"))
    templated = copy.deepcopy(tokenizer())
    templated.chat_template = TEMPLATE
    templated.save_pretrained(folder)
    started = engine.start(
        tokenizer=folder,
        logits_processors=[engine.PLUGIN],
        max_num_batched_tokens=128,
        enable_prefix_caching=True,
        num_gpu_blocks_override=64,
        logprobs_mode="processed_logprobs",
        max_logprobs=-1,
    )
    yield started
    started.llm_engine.engine_core.shutdown()


@pytest.fixture
def session(llm: Any) -> Any:
    from logitkit_adapters.vllm import Session

    return Session(llm)


def own_session() -> Any:
    """Return a session of transformers."""
    from logitkit_adapters.transformers import Session
    from tests.adapters.demo import model, tokenizer

    return Session(model(), tokenizer())


def test_guidance_is_refused(llm: Any, session: Any) -> None:
    from logitkit_adapters.vllm import Session, generate_typed

    guidance = lk.chain(lk.Guidance(1.5), lk.TopK(5))
    for call in (
        lambda: Session(llm, processor=guidance),
        lambda: session.generate(PROMPT, max_new_tokens=2, processor=guidance),
        lambda: generate_typed(llm, None, PROMPT, bool, processor=guidance),
    ):
        with pytest.raises(
            ConfigurationError, match="Guidance reads the logits of a second pass, which vLLM does not have"
        ):
            call()


@pytest.mark.parametrize("kind", ["free", "pattern", "configuration"])
def test_log_probs_are_those_of_transformers(session: Any, kind: str) -> None:
    from tests.adapters.demo import vocabulary

    pattern = " [a-z]{3,8} =+ [0-9]{3}"
    processor: Any = None if kind == "free" else lk.Regex(pattern, vocabulary())
    given = {"regex": pattern} if kind == "configuration" else processor
    (row,) = session.generate(PROMPT, max_new_tokens=20, processor=given, log_probs=True).rows
    (theirs,) = own_session().generate(PROMPT, max_new_tokens=20, processor=processor, log_probs=True).rows
    assert (row.token_ids, row.finished) == (theirs.token_ids, theirs.finished)
    assert row.log_probs == pytest.approx(theirs.log_probs, abs=NEAR)
    assert row.log_prob == pytest.approx(sum(row.log_probs))
    assert session.generate(PROMPT, max_new_tokens=2).rows[0].log_probs is None


def test_why_a_row_ended(session: Any) -> None:
    from tests.adapters.demo import vocabulary

    v = vocabulary()
    numbers = {"type": "array", "items": {"type": "integer"}}
    cases: list[tuple[Any, int, str]] = [
        (None, 3, "length"),
        (lk.Regex("[0-9]{3}", v), 8, "closed"),
        ({"regex": "[0-9]{3}"}, 8, "closed"),
        (lk.Regex("[0-9]{3}", v), 2, "length"),
        (lk.JsonSchema(numbers, v, closing=True), 2, "closed"),
        ('{"json_schema": {"schema": {"type": "array"}, "closing": true}}', 4, "closed"),
        (lk.StopStrings([" zebra", "e"], v), 9, "stop: e"),
    ]
    for processor, count, expected in cases:
        (row,) = session.generate(PROMPT, max_new_tokens=count, processor=processor).rows
        assert row.finished == expected, (processor, row)


def test_generate_and_stream_end_before_the_stop(session: Any) -> None:
    from tests.adapters.demo import vocabulary

    whole = session.generate(PROMPT, max_new_tokens=30).text
    for begin, length in ((5, 1), (9, 4), (14, 7), (0, 2)):
        stop = whole[begin : begin + length]
        for processor in (lk.StopStrings([stop, "\x00"], vocabulary()), {"stop_strings": [stop, "\x00"]}):
            (row,) = session.generate(PROMPT, max_new_tokens=30, processor=processor).rows
            assert (row.text, row.finished) == (whole[: whole.index(stop)], f"stop: {stop}")
            stream = session.stream(PROMPT, max_new_tokens=30, processor=processor)
            assert "".join(stream) == row.text
            assert stream.generated.rows[0].token_ids == row.token_ids


def test_samples_differ_and_can_be_repeated(session: Any) -> None:
    options: dict[str, Any] = {"max_new_tokens": 6, "num_samples": 3, "seed": 5, "log_probs": True}
    found = session.generate([PROMPT, "A list of"], **options)
    assert len(found.rows) == 6
    assert len({*map(tuple, found.token_ids[:3])}) == 3
    assert session.generate([PROMPT, "A list of"], **options).token_ids == found.token_ids
    assert [row.prompt_tokens for row in found.rows] == [row.prompt_tokens for row in found.rows[::3] for _ in range(3)]
    assert all(row.log_prob < 0 for row in found.rows)


@pytest.mark.parametrize("pattern", [None, "[é€😀 ]{12}", "(ab){9}[0-9]"])
def test_pieces_join_to_the_text(session: Any, pattern: str | None) -> None:
    processor = None if pattern is None else {"regex": pattern}
    for count in (1, 30):
        (whole,) = session.generate(PROMPT, max_new_tokens=count, processor=processor).rows
        stream = session.stream(PROMPT, max_new_tokens=count, processor=processor, log_probs=True)
        pieces = list(stream)
        assert "".join(pieces) == stream.generated.text == whole.text
        (row,) = stream.generated.rows
        assert (row.token_ids, row.finished) == (whole.token_ids, whole.finished)
        assert len(row.log_probs) == len(row.token_ids)
    assert len(pieces) > 5


def test_other_calls_wait_for_the_end_of_a_stream(session: Any) -> None:
    before = session.generate(PROMPT, max_new_tokens=12).text
    with session.stream(PROMPT, max_new_tokens=30) as stream:
        begun = next(stream)
        assert begun
        with pytest.raises(ConfigurationError, match="a stream of this LLM has not ended"):
            session.generate(PROMPT, max_new_tokens=2)
    assert session.generate(PROMPT, max_new_tokens=12).text == before
    assert list(stream) == []


def test_threads_take_turns_at_reading_a_stream(llm: Any, session: Any) -> None:
    """A web server may read each piece in another thread; one that wants another call waits, and then gets its own text."""
    from logitkit_adapters.vllm import probabilities

    alone = session.generate("A list of", max_new_tokens=6).text
    whole = session.generate(PROMPT, max_new_tokens=12).text
    stream = session.stream(PROMPT, max_new_tokens=12)
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second, ThreadPoolExecutor(1) as third:
        pieces = [first.submit(next, stream).result()]
        waiting = third.submit(lambda: session.generate("A list of", max_new_tokens=6).text)
        pieces.append(second.submit(next, stream).result())
        with pytest.raises(ConfigurationError, match="a stream of this LLM has not ended"):
            second.submit(probabilities, llm, None, PROMPT, [" a", " b"]).result()
        assert not waiting.done()
        pieces += first.submit(list, stream).result()
        assert "".join(pieces) == stream.generated.text == whole
        assert waiting.result(timeout=60) == alone
        # Another thread may also close it.
        other = session.stream(PROMPT, max_new_tokens=12)
        first.submit(next, other).result()
        second.submit(other.close).result()
    assert session.generate("A list of", max_new_tokens=6).text == alone


def test_what_is_refused(session: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"num_beams is 2, .* use logitkit_adapters.vllm.beam_search"):
        session.generate(PROMPT, num_beams=2)
    with pytest.raises(TypeError, match=r"top_p=0.9: put logitkit.TopP\(0.9\) into the processor"):
        session.generate(PROMPT, top_p=0.9)
    with pytest.raises(TypeError, match=r"top_p=0.9: put logitkit.TopP\(0.9\) into the processor"):
        type(session)(session._model, top_p=0.9)
    mode = session._config.model_config
    mode.logprobs_mode = "raw_logprobs"
    try:
        with pytest.raises(ConfigurationError, match="logprobs_mode='raw_logprobs', which ignores processors"):
            session.generate(PROMPT, log_probs=True)
    finally:
        mode.logprobs_mode = "processed_logprobs"


@pytest.mark.parametrize("name", CASES)
def test_a_value_of_every_type(llm: Any, session: Any, name: str) -> None:
    from logitkit_adapters.vllm import generate_typed

    case = CASES[name]
    for seed in (None, 3):
        found = generate_typed(llm, None, PROMPT, case.given, max_new_tokens=80, seed=seed)
        assert found.finished in ("eos", "closed")
        assert case.is_value(found.value), found
        assert case.read is None or found.value == case.read(found.text)
        assert found.log_prob < 0


def test_a_budget_that_is_too_small_names_the_least(llm: Any) -> None:
    from logitkit_adapters.vllm import generate_typed

    for name in ("pydantic model", "tools", "pattern"):
        with pytest.raises(IncompleteOutput) as caught:
            generate_typed(llm, None, PROMPT, CASES[name].given, max_new_tokens=1)
        needed = caught.value.needed
        assert needed is not None
        for budget in range(needed, needed + 6):
            found = generate_typed(llm, None, PROMPT, CASES[name].given, max_new_tokens=budget, seed=budget)
            assert CASES[name].is_value(found.value)
            assert len(found.token_ids) <= budget


def test_an_incomplete_output_says_why(llm: Any) -> None:
    from logitkit_adapters.vllm import generate_typed

    with pytest.raises(
        IncompleteOutput, match=r"cut off at the token limit; give max_new_tokens=\d+ or more"
    ) as caught:
        generate_typed(llm, None, PROMPT, re.compile("[a-z]{30}"), closing=False, max_new_tokens=4)
    assert caught.value.needed is not None
    assert caught.value.needed > caught.value.limit == 4
    with pytest.raises(
        IncompleteOutput,
        match=r"</s>, is illegal for StructuralTag: .* expected '1' at byte \d+\. There, NoRepeatNGram bans \d+, Str",
    ):
        generate_typed(llm, None, PROMPT, re.compile("1{10}"), max_new_tokens=20, processor=lk.NoRepeatNGram(2))


def test_bans_that_leave_no_text_of_a_type_are_refused(llm: Any) -> None:
    from vllm.exceptions import VLLMValidationError

    from logitkit_adapters.vllm import generate_typed
    from tests.adapters.demo import vocabulary

    letters = lk.BanTokens([i for i, data in enumerate(vocabulary().tokens) if data and b"b" in data])
    with pytest.raises(VLLMValidationError, match=r"spell no text .* forbidden by ban_tokens"):
        generate_typed(llm, None, PROMPT, re.compile("ab"), max_new_tokens=6, processor=letters)


def test_typed_batches_chats_and_streams(llm: Any, session: Any) -> None:
    from logitkit_adapters.vllm import generate_typed
    from tests.adapters.demo import vocabulary

    prompts = [PROMPT, "The meeting is on "]
    single = [generate_typed(llm, None, one, date, max_new_tokens=20) for one in prompts]
    assert [one.text for one in generate_typed(llm, None, prompts, date, max_new_tokens=20)] == [
        one.text for one in single
    ]
    hot = lk.Temperature(3.0)
    drawn = generate_typed(llm, None, prompts, date, max_new_tokens=20, num_samples=3, seed=1, processor=hot)
    assert len({one.text for one in drawn[:3]}) > 1
    assert all(isinstance(one.value, date) for one in drawn)
    stream = generate_typed(llm, None, PROMPT, date, max_new_tokens=20, stream=True)
    assert "".join(stream) == stream.output.text == single[0].text
    assert stream.value == single[0].value
    for budget in range(4, 10):
        found = generate_typed(llm, None, PROMPT, re.compile("[a-z]{4,60}"), max_new_tokens=budget, seed=budget)
        assert re.fullmatch("[a-z]{4,60}", found.value)
    stops = lk.StopStrings([","], vocabulary())
    with pytest.raises(IncompleteOutput, match="was ended by a stop: , before it was complete"):
        generate_typed(llm, None, PROMPT, re.compile("[a-z]{2},[a-z]{2}"), processor=stops)
    with pytest.raises(ConfigurationError, match="processor has regex, and so does the type"):
        generate_typed(llm, None, PROMPT, lk.languages.regex("a"), closing=False, processor=own_pattern())
    with pytest.raises(ConfigurationError, match="has no JSON form"):
        generate_typed(llm, None, PROMPT, lk.languages.literal("a"))
    with pytest.raises(ConfigurationError, match="session runs another model"):
        generate_typed(copy.copy(llm), None, PROMPT, date, session=session)


def test_ids_and_chats(llm: Any) -> None:
    import torch

    from logitkit_adapters.vllm import generate_typed, probabilities, trace

    chat, tokenizer = [{"role": "user", "content": "How much is it?"}], llm.get_tokenizer()
    ids = tokenizer.encode("user: How much is it?\nbot:", add_special_tokens=False)
    wanted = generate_typed(llm, None, ids, int, max_new_tokens=4).text
    for given in (chat, torch.tensor(ids), {"input_ids": ids}):
        assert generate_typed(llm, None, given, int, max_new_tokens=4).text == wanted
    for several in ([chat, chat], [ids, ids], torch.tensor([ids, ids])):
        assert [one.text for one in generate_typed(llm, None, several, int, max_new_tokens=4)] == [wanted] * 2
    both = [probabilities(llm, None, given, [" yes", " no"]) for given in (chat, ids)]
    assert both[0] == pytest.approx(both[1], rel=1e-3)
    traced = [trace(llm, None, given, int, max_new_tokens=4).steps for given in (chat, ids)]
    assert [step.token_id for step in traced[0]] == [step.token_id for step in traced[1]]


def test_misuse_is_named_at_once(llm: Any, session: Any) -> None:
    from logitkit_adapters.vllm import Session, generate_typed, sampling_params, trace

    def calls(given: Any) -> Iterator[Any]:
        yield lambda: generate_typed(llm, None, PROMPT, given)
        yield lambda: generate_typed(llm, None, PROMPT, int, processor=given)
        yield lambda: trace(llm, None, PROMPT, given)
        yield lambda: Session(llm, processor=given)
        yield lambda: session.generate(PROMPT, processor=given)

    for call in [*calls(lk.Regex), lambda: sampling_params(lk.Regex)]:
        with pytest.raises(ConfigurationError, match=r"is the class Regex; create an instance, Regex\(...\)"):
            call()
    for call in [*calls(WithoutAdvance()), lambda: sampling_params(WithoutAdvance())]:
        with pytest.raises(
            ConfigurationError, match="is a WithoutAdvance without advance; a processor has init_state, adv"
        ):
            call()
    for call in calls(of_another_tokenizer(lk.TopK(3))):
        with pytest.raises(
            VocabularyError, match=r"Regex was built for other tokens .* token 3 is b.* in its vocabulary"
        ):
            call()


def own_pattern() -> Any:
    """Return a constraint."""
    from tests.adapters.demo import vocabulary

    return lk.Regex("a", vocabulary())
