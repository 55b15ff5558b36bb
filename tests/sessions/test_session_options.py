"""Log-probabilities, the reason of the end, samples, beams and streams of sessions."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import Session, continuous
from logitkit_adapters.sessions.session_call import SessionCall
from tests.sessions.engines import ENGINES, loaded, watched

PROMPT = "The price of"
# Equal log-probabilities in other engines, whose arithmetic differs.
NEAR = 1e-3


@pytest.fixture(params=ENGINES)
def session(request: pytest.FixtureRequest) -> Session:
    model, tokenizer = loaded(str(request.param))
    return Session(model, tokenizer, max_length=256)


@pytest.fixture(scope="session")
def vocabulary() -> lk.Vocabulary:
    from logitkit_adapters.transformers import vocabulary

    model, tokenizer = loaded("transformers")
    return vocabulary(tokenizer, model)


def independent(prompt: list[int], new: list[int], processor: Any = None, temperature: float = 1.0) -> list[float]:
    """Return log-probabilities from one forward pass of transformers, with the masks of a processor at each token."""
    model, _ = loaded("transformers")
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *new]])).logits[0, len(prompt) - 1 : -1].double()
    if processor is not None:
        context = lk.Context.of([prompt], logits.shape[1], max_length=len(prompt) + len(new))
        state = processor.init_state(context)
        for at, token in enumerate(new):
            mask = processor.process_logits(state, torch.zeros(1, logits.shape[1]), context)[1][0]
            logits[at] += mask
            state = processor.advance(state, torch.tensor([token]))
    exact = (logits / temperature).exp()
    chosen = exact[torch.arange(len(new)), new]
    return [math.log(float(one / row.sum())) for one, row in zip(chosen, exact, strict=True)]


@pytest.mark.parametrize("seed", [None, 4])
def test_log_probs_are_those_of_the_processed_distribution(
    session: Session, seed: int | None, vocabulary: lk.Vocabulary
) -> None:
    for pattern in (None, r" [a-z]{3,8} =+ [0-9]{3}"):
        constraint = None if pattern is None else lk.Regex(pattern, vocabulary)
        cooled = lk.Temperature(0.7) if constraint is None else lk.chain(constraint, lk.Temperature(0.7))
        (row,) = session.generate(PROMPT, max_new_tokens=20, processor=cooled, seed=seed, log_probs=True).rows
        prompt = loaded("transformers")[1].encode(PROMPT)
        assert row.log_probs is not None
        assert row.log_probs == pytest.approx(independent(prompt, row.token_ids, constraint, 0.7), abs=NEAR)
        assert row.log_prob == pytest.approx(sum(row.log_probs))
        assert row.log_probs.count(0.0) >= row.forced_tokens
        (without,) = session.generate(PROMPT, max_new_tokens=20, processor=cooled, seed=seed).rows
        assert (without.token_ids, without.log_probs, without.log_prob) == (row.token_ids, None, None)


def test_why_a_row_ended(session: Session, vocabulary: lk.Vocabulary) -> None:
    v = vocabulary
    numbers = {"type": "array", "items": {"type": "integer"}}
    (eos,) = v.eos_ids

    def closing(pattern: str) -> Any:
        return lk.languages.regex(pattern).constraint(v, closing=True)

    def with_letters(letters: str) -> list[int]:
        return [i for i, data in enumerate(v.tokens) if data and any(letter.encode() in data for letter in letters)]

    cases: list[tuple[Any, int, str]] = [
        (None, 3, "length"),
        (lk.Temperature(0.5), 3, "length"),
        (lk.LogitBias({eos: 1000.0}), 3, "eos"),
        (lk.chain(lk.Regex("[0-9]*", v), lk.LogitBias({eos: 1000.0})), 3, "eos"),
        (lk.Regex("[0-9]{3}", v), 8, "closed"),
        (lk.Regex("[0-9]{3}", v), 2, "length"),
        (lk.Regex("[0-9]+", v), 3, "length"),
        (lk.Regex("a{3}", v), 3, "closed"),
        (lk.Regex("a{3}", v), 2, "length"),
        (lk.JsonSchema(numbers, v, closing=True), 2, "closed"),
        (lk.JsonSchema(numbers, v, closing=True), 7, "closed"),
        (lk.StopStrings([" zebra", "e"], v), 9, "stop: e"),
        (lk.StopStrings([" zebra", b" caf"], v), 9, "stop:  caf"),
        (lk.chain(lk.StopStrings([" the"], v), lk.Regex(".{30}", v)), 9, "stop:  the"),
        (lk.chain(lk.AllowTokens([20, 24, eos]), lk.BanTokens([20, 24, eos])), 5, "conflict"),
        (lk.chain(closing("a[bc]"), lk.BanTokens(with_letters("bc"))), 5, "conflict"),
        (lk.chain(lk.BanTokens(with_letters("bc")), closing("a[bc]")), 5, "conflict"),
        (lk.chain(closing("a[bc]"), lk.BannedStrings(["b"], v)), 5, "closed"),
        (lk.chain(closing("ab?"), lk.BannedStrings(["b"], v)), 5, "closed"),
        (lk.chain(closing("a[bc]"), lk.ForcedTokens([67])), 5, "closed"),
    ]
    for processor, count, expected in cases:
        (row,) = session.generate(PROMPT, max_new_tokens=count, processor=processor).rows
        assert row.finished == expected, (processor, row)
        if expected.startswith("stop: "):
            assert expected[6:] in v.decode(row.token_ids).decode()
            assert expected[6:] not in row.text
    assert session.generate([[5, 6]], attention_mask=torch.tensor([[0, 0]])).rows[0].finished == "eos"


def test_a_pattern_ends_the_text_before_its_match(session: Session, vocabulary: lk.Vocabulary) -> None:
    whole = session.generate(PROMPT, max_new_tokens=20).rows[0].text
    match = re.search("[a-d]f", whole)
    assert match is not None
    stops = lk.StopStrings(["\x00", re.compile("[a-d]f")], vocabulary)
    (row,) = session.generate(PROMPT, max_new_tokens=20, processor=stops).rows
    assert (row.text, row.finished) == (whole[: match.start()], "stop: [a-d]f")
    assert "".join(session.stream(PROMPT, max_new_tokens=20, processor=stops)) == row.text


def test_a_dead_row_is_a_conflict(session: Session, vocabulary: lk.Vocabulary) -> None:
    # A bias of -inf bans every digit that the pattern needs.
    bans = lk.BanTokens([i for i, data in enumerate(vocabulary.tokens) if data and data[:1].isdigit()])
    (row,) = session.generate(PROMPT, max_new_tokens=8, processor=lk.chain(lk.Regex("a[0-9]", vocabulary), bans)).rows
    assert row.finished == "conflict"


def test_samples_are_those_of_continuous_and_find_the_prompt_in_the_cache(
    session: Session, vocabulary: lk.Vocabulary
) -> None:
    prompts = [PROMPT, "A list of"]
    processor = lk.chain(lk.RepetitionPenalty(1.1), lk.Temperature(1.3))
    options: dict[str, Any] = {"max_new_tokens": 6, "num_samples": 3, "seed": 5}
    found = session.generate(prompts, processor=processor, **options)
    assert len(found.rows) == 6
    encoded = [loaded("transformers")[1].encode(one) for one in prompts]
    state = continuous(*given_of(session), processor)(prompts, **options)
    for row, (mine, theirs) in enumerate(zip(found.rows, state.rows, strict=True)):
        assert (*encoded[row // 3], *(i for i in mine.token_ids if i != 2)) == theirs
        assert mine.cached_tokens == (0 if row % 3 == 0 else len(encoded[row // 3]) - 1)
    assert len({*map(tuple, found.token_ids[:3])}) == 3
    assert session.generate(prompts, processor=processor, **options).token_ids == found.token_ids
    torch.manual_seed(3)
    first = session.generate(PROMPT, max_new_tokens=6, num_samples=2).token_ids
    torch.manual_seed(3)
    assert session.generate(PROMPT, max_new_tokens=6, num_samples=2).token_ids == first
    assert session.generate(PROMPT, max_new_tokens=6, num_samples=2).token_ids != first


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_beams_are_those_of_continuous(session: Session, penalty: float, vocabulary: lk.Vocabulary) -> None:
    prompts = [PROMPT, "A list of"]
    processor = lk.Regex("[a-z ]{3,9}", vocabulary)
    options: dict[str, Any] = {"max_new_tokens": 6, "num_beams": 3, "length_penalty": penalty}
    with watched(given_of(session)[0]) as fed:
        found = session.generate(prompts, processor=processor, log_probs=True, **options)
    assert fed
    encoded = [loaded("transformers")[1].encode(one) for one in prompts]
    for at, prompt in enumerate(encoded):
        state = continuous(*given_of(session), processor)(prompt, **options)
        rows = found.rows[3 * at : 3 * at + 3]
        written = [(*prompt, *(i for i in row.token_ids if i != 2)) for row in rows]
        assert written == [*state.rows]
        assert [row.log_prob for row in rows] == pytest.approx(state.weights[0].tolist(), abs=NEAR)
        assert [row.token_ids[-1] == 2 for row in rows] == state.finished.tolist()
        assert {row.finished for row in rows} <= {"eos", "closed", "length"}
        assert [row.text for row in rows] == [text[len(prompts[at]) :] for text in state]
        for row in rows:
            assert row.log_probs is not None
            assert sum(row.log_probs) == pytest.approx(row.log_prob, abs=NEAR)
            # Beams are ranked by the model's log-probabilities of the tokens that a processor allows.
            assert row.log_probs == pytest.approx(independent(prompt, row.token_ids), abs=NEAR)
    cut = session.generate(PROMPT, num_beams=2, max_new_tokens=2)
    assert [row.finished for row in cut.rows] == ["length"] * 2
    # The session's cache is as before.
    assert session.generate(PROMPT, max_new_tokens=2).rows[0].cached_tokens == 0


def given_of(session: Session) -> tuple[Any, Any]:
    """Return the model and the tokenizer of a session."""
    name = type(session._engine).__module__.split(".")[1]
    return loaded(
        {
            "transformers": "transformers",
            "mlx_lm": "mlx-lm",
            "llama_cpp": "llama.cpp",
            "onnxruntime_genai": "onnxruntime-genai",
        }[name]
    )


@pytest.mark.parametrize("kind", ["free", "bytes", "forced", "empty"])
def test_pieces_join_to_the_text(session: Session, kind: str, vocabulary: lk.Vocabulary) -> None:
    patterns = {"bytes": "[é€😀 ]{12}", "forced": "(ab){9}[0-9]", "empty": ""}
    processor = lk.Regex(patterns[kind], vocabulary) if kind in patterns else None
    for count in (1, 5, 30):
        options: dict[str, Any] = {"max_new_tokens": count, "processor": processor, "log_probs": True}
        (whole,) = session.generate(PROMPT, **options).rows
        stream = session.stream(PROMPT, **options)
        pieces = []
        for piece in stream:
            pieces.append(piece)
            if "".join(pieces) != whole.text:
                with pytest.raises(ConfigurationError, match="read all of its pieces first"):
                    _ = stream.generated
        assert "".join(pieces) == stream.generated.text == whole.text
        assert all(pieces)
        (row,) = stream.generated.rows
        assert (row.token_ids, row.finished) == (whole.token_ids, whole.finished)
        assert row.log_probs == pytest.approx(whole.log_probs, abs=NEAR)
        assert list(stream) == []
        assert stream.generated.text == whole.text
    if kind == "free":
        assert len(pieces) >= 12


def test_other_calls_run_between_two_pieces(session: Session) -> None:
    alone = session.generate(PROMPT, max_new_tokens=12).text
    session.position = 0
    stream = session.stream(PROMPT, max_new_tokens=12)
    pieces = []
    for piece in stream:
        pieces.append(piece)
        session.generate("A list of", max_new_tokens=2)
        session.generate(PROMPT, max_new_tokens=3)
    assert "".join(pieces) == alone


def test_a_stream_that_is_closed_keeps_what_it_computed(session: Session) -> None:
    with session.stream(PROMPT, max_new_tokens=30) as stream:
        begun = [next(stream) for _ in range(6)]
    assert list(stream) == []
    with pytest.raises(ConfigurationError, match="read all of its pieces first"):
        _ = stream.generated
    (row,) = session.generate(PROMPT + "".join(begun), max_new_tokens=2).rows
    assert row.cached_tokens > 5
    open_one = session.stream(PROMPT, max_new_tokens=30)
    next(open_one)
    session.close()
    with pytest.raises(ConfigurationError, match="the session is closed"):
        list(open_one)


def test_what_is_refused(session: Session) -> None:
    with pytest.raises(
        TypeError, match=r"temperature=0.7: put logitkit.Temperature\(0.7\) into the processor and give seed="
    ):
        session.generate(PROMPT, temperature=0.7)
    with pytest.raises(
        TypeError, match=r"temperature=0.7: put logitkit.Temperature\(0.7\) into the processor and give seed="
    ):
        Session(*given_of(session), temperature=0.7)
    with pytest.raises(
        ConfigurationError, match=r"the class int; .*output_type_of\(int\).constraint\(vocabulary\) makes one"
    ):
        Session(*given_of(session), int)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="num_return_sequences=2: give num_samples= instead"):
        session.generate(PROMPT, num_return_sequences=2)
    with pytest.raises(
        TypeError, match="num_samples=2: num_samples is not an option here; allowed are attention_mask, max"
    ):
        session.stream(PROMPT, num_samples=2)
    with pytest.raises(ConfigurationError, match="2 prompts, samples or beams are given to stream"):
        session.stream([PROMPT, PROMPT])
    with pytest.raises(ConfigurationError, match="no tokenizer"):
        Session(loaded("transformers")[0]).stream([5])
    wrong: dict[str, Any]
    for wrong in ({"num_samples": 0}, {"num_beams": 0}, {"length_penalty": "a"}, {"num_beams": 2, "seed": 1}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            session.generate(PROMPT, max_new_tokens=2, **wrong)
    with pytest.raises(ConfigurationError, match="num_samples=3 and seed=None"):  # not one that nobody gave
        SessionCall(processor=None, prompts=[], counts=[], num_beams=2, num_samples=3)
