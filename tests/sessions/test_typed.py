"""Typed output in transformers, mlx-lm and llama.cpp."""

from __future__ import annotations

import copy
import re
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import mlx_lm
import pytest
import torch

import logitkit as lk
import logitkit_adapters.llama_cpp
import logitkit_adapters.mlx_lm
import logitkit_adapters.transformers
from logitkit.errors import ConfigurationError, IncompleteOutput
from logitkit.output_types import output_type_of
from tests.examples import of_all
from tests.output_types.types import TYPES, Colour, Invoice
from tests.sessions.engines import loaded
from tests.sessions.test_session_options import NEAR, independent
from tests.sessions.typed_cases import CASES, Case

PROMPT = "The price of "
MODULES = {
    "transformers": logitkit_adapters.transformers,
    "mlx-lm": logitkit_adapters.mlx_lm,
    "llama.cpp": logitkit_adapters.llama_cpp,
}


class Engine:
    """A model in an engine."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module: ModuleType = MODULES[name]
        self.model, self.tokenizer = loaded(name)

    def typed(self, prompt: Any, output_type: Any, **options: Any) -> Any:
        """Generate a value."""
        return self.module.generate_typed(self.model, self.tokenizer, prompt, output_type, **options)

    def session(self) -> Any:
        """Return a session."""
        return self.module.Session(self.model, self.tokenizer)


@pytest.fixture(params=MODULES, scope="module")
def engine(request: pytest.FixtureRequest) -> Engine:
    return Engine(str(request.param))


@pytest.mark.parametrize("name", CASES)
def test_a_value_of_every_type(engine: Engine, name: str) -> None:
    case: Case = CASES[name]
    for seed in (None, 3):
        found = engine.typed(PROMPT, case.given, max_new_tokens=80, seed=seed)
        assert found.finished in ("eos", "closed")
        assert case.is_value(found.value), found
        assert case.read is None or found.value == case.read(found.text)
    stream = engine.typed(PROMPT, case.given, max_new_tokens=80, seed=3, stream=True)
    pieces = []
    for piece in stream:
        pieces.append(piece)
        if name != "tools":
            assert stream.partial == output_type_of(case.given).partial_value("".join(pieces))
    assert "".join(pieces) == found.text
    assert stream.output.token_ids == found.token_ids
    assert stream.value == found.value


@pytest.mark.parametrize("name", [name for name in CASES if name != "tools"])
def test_every_budget_from_the_least_gives_a_value(engine: Engine, name: str) -> None:
    case: Case = CASES[name]
    least, session = least_of(case), engine.session()
    if least > 1:
        with pytest.raises(ValueError, match=f"takes {least}; give max_new_tokens={least} or more") as caught:
            engine.typed(PROMPT, case.given, max_new_tokens=least - 1, session=session)
        assert isinstance(caught.value, IncompleteOutput)
        assert (caught.value.limit, caught.value.needed) == (least - 1, least)
        assert session.cached_tokens == 0
    for budget in of_all(range(least, least + 6), 2):
        for seed in (None, 1):
            found = engine.typed(PROMPT, case.given, max_new_tokens=budget, seed=seed, session=session)
            assert case.is_value(found.value)
            assert len(found.token_ids) <= budget


def least_of(case: Case) -> int:
    """Return the least number of tokens of a value, by following the masks of the constraint breadth first."""
    vocabulary = logitkit_adapters.transformers.vocabulary(*reversed(loaded("transformers")))
    constraint = output_type_of(case.given).constraint(vocabulary)
    context, (eos,) = lk.Context.of([[]], vocabulary.size), vocabulary.eos_ids
    states, seen = [constraint.init_state(context)], set[str]()
    for count in range(40):
        after = []
        for state in states:
            legal = constraint.process_logits(state, torch.zeros(1, vocabulary.size), context)[1][0] > -torch.inf
            if legal[eos]:
                return count
            for token in legal.nonzero()[:, 0].tolist():
                reached = constraint.advance(state, torch.tensor([token]))
                if str(reached) not in seen:
                    seen.add(str(reached))
                    after.append(reached)
        states = after
    raise AssertionError


def test_log_prob_is_that_of_the_model(engine: Engine) -> None:
    _, tokenizer = loaded("transformers")
    vocabulary = logitkit_adapters.transformers.vocabulary(*reversed(loaded("transformers")))
    constraint = lk.JsonSchema(tuple[Colour, date, bool], vocabulary)
    found = engine.typed(PROMPT, tuple[Colour, date, bool], closing=False, max_new_tokens=80, seed=2)
    expected = independent(tokenizer.encode(PROMPT), found.token_ids, constraint)
    assert found.log_prob == pytest.approx(sum(expected), abs=NEAR * len(expected))


def test_batches_and_samples(engine: Engine) -> None:
    prompts = [PROMPT, "The meeting is on "]
    ids = [loaded("transformers")[1].encode(one) for one in prompts]
    single = [engine.typed(one, date, max_new_tokens=20) for one in prompts]
    for given in (prompts, ids):
        assert [one.value for one in engine.typed(given, date, max_new_tokens=20)] == [one.value for one in single]
    assert engine.typed(ids[0], date, max_new_tokens=20).text == single[0].text
    assert len(engine.typed(prompts[:1], date, max_new_tokens=20)) == 1
    hot = lk.Temperature(3.0)
    drawn = engine.typed(prompts, date, max_new_tokens=20, num_samples=3, seed=1, processor=hot)
    assert len({one.text for one in drawn[:3]}) > 1
    again = engine.typed(prompts, date, max_new_tokens=20, num_samples=3, seed=1, processor=hot)
    assert [one.text for one in again] == [one.text for one in drawn]
    assert all(isinstance(one.value, date) for one in drawn)


def test_a_session_is_used(engine: Engine) -> None:
    session = engine.session()
    engine.typed(PROMPT, int, max_new_tokens=5, session=session)
    assert session.cached_tokens > 0


def test_what_cannot_be_completed_is_an_error(engine: Engine) -> None:
    vocabulary = engine.module.vocabulary(engine.tokenizer or engine.model)
    with pytest.raises(IncompleteOutput, match=r"was cut off at the token limit; give max_new_tokens=\d+ or") as caught:
        engine.typed(PROMPT, re.compile("[a-z]{30}"), closing=False, max_new_tokens=4)
    assert (caught.value.limit, len(caught.value.text) > 3) == (4, True)
    lengths = {len(data) for data in vocabulary.tokens if data and re.fullmatch(b"[a-z]+", data)}
    least = [0]
    for count in range(1, 31):
        least.append(1 + min(least[count - length] for length in lengths if length <= count))
    assert caught.value.needed == 4 + least[30 - len(caught.value.text)]
    with pytest.raises(IncompleteOutput, match=r"was cut off at the token limit; give a larger max_new_tokens"):
        engine.typed(PROMPT, lk.BanTokens([7]), max_new_tokens=2)
    with pytest.raises(IncompleteOutput, match="was ended by a stop: , before it was complete"):
        engine.typed(PROMPT, Invoice, max_new_tokens=80, processor=lk.StopStrings([","], vocabulary))
    with pytest.raises(IncompleteOutput, match="was ended by a stop: , before it was complete"):
        engine.typed(PROMPT, re.compile("[a-z]{2},[a-z]{2}"), processor=lk.StopStrings([","], vocabulary))
    for pattern in ("[a-z]{2},([a-z]{2})?", "[a-z]{2},"):
        found = engine.typed(PROMPT, re.compile(pattern), processor=lk.StopStrings([","], vocabulary))
        assert re.fullmatch("[a-z]{2},", found.value)
        assert found.finished == "stop: ,"
    letters = lk.BanTokens([i for i, data in enumerate(vocabulary.tokens) if data and b"b" in data])
    together = (
        r"the output 'a' is incomplete, because the processors together allowed no further token; change the processor\. "
        r"Token 1, </s>, is illegal for \w+: the text is incomplete; expected 'b' at byte 1\. There, \w+ bans [\d,]+, "
        r"BanTokens bans \d+$"
    )
    with pytest.raises(IncompleteOutput, match=together):
        engine.typed(PROMPT, re.compile("ab"), max_new_tokens=6, processor=letters)


def test_what_is_refused(engine: Engine) -> None:
    with pytest.raises(
        TypeError, match=r"temperature=0.7: put logitkit.Temperature\(0.7\) into the processor and give seed="
    ):
        engine.typed(PROMPT, int, temperature=0.7)
    with pytest.raises(ConfigurationError, match="stream=True was given with several prompts, samples or beams"):
        engine.typed([PROMPT], int, stream=True, max_new_tokens=4)
    with pytest.raises(ConfigurationError, match="output_type is the text 'int'"):
        engine.typed(PROMPT, "int")


def test_what_is_not_a_session_is_refused(engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="session is of type int; give a Session of the model"):
        engine.typed(PROMPT, int, session=5)


def test_a_prompt_that_leaves_too_little_room_is_named(engine: Engine) -> None:
    with engine.module.Session(engine.model, engine.tokenizer, max_length=8) as short:
        message = "new tokens after this prompt, but the shortest .* takes [0-9]+; give a shorter prompt, or a session"
        with pytest.raises(IncompleteOutput, match=message) as found:
            engine.typed(PROMPT, date, session=short)
    assert found.value.needed is not None
    assert found.value.limit < 8 < found.value.needed


def test_a_session_of_another_model_or_without_text_is_refused() -> None:
    model, tokenizer = loaded("transformers")
    typed, session = logitkit_adapters.transformers.generate_typed, logitkit_adapters.transformers.Session
    with pytest.raises(ConfigurationError, match="session runs another model; give a session of this model"):
        typed(model, tokenizer, PROMPT, int, session=session(copy.deepcopy(model), tokenizer))
    with pytest.raises(ConfigurationError, match="session has no tokenizer"):
        typed(model, tokenizer, tokenizer.encode(PROMPT), int, max_new_tokens=3, session=session(model))


TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}bot:"


@pytest.fixture
def with_template(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine with a tokenizer that has a chat template."""
    if engine.tokenizer is None:
        monkeypatch.setitem(engine.model.metadata, "tokenizer.chat_template", TEMPLATE)
        return engine
    templated = copy.deepcopy(loaded("transformers")[1])
    templated.chat_template = TEMPLATE
    if engine.name == "mlx-lm":
        templated.save_pretrained(tmp_path)
        templated = mlx_lm.utils.load_tokenizer(tmp_path)
    monkeypatch.setattr(engine, "tokenizer", templated)
    return engine


def test_chats(with_template: Engine) -> None:
    engine = with_template
    chat = [{"role": "user", "content": "How much is it?"}]
    # The template of llama.cpp has no BOS, and the other tokenizers add none.
    ids = loaded("transformers")[1].encode("user: How much is it?\nbot:", add_special_tokens=False)
    wanted = engine.typed(ids, int, max_new_tokens=4).text
    assert engine.typed(chat, int, max_new_tokens=4).text == wanted
    assert [one.text for one in engine.typed([chat, chat], int, max_new_tokens=4)] == [wanted] * 2
    assert engine.session().generate(chat, max_new_tokens=4).rows[0].prompt_tokens == len(ids)
    model, tokenizer = engine.model, engine.tokenizer
    probable = engine.module.probabilities(model, tokenizer, chat, [" yes", " no"])
    assert probable == pytest.approx(engine.module.probabilities(model, tokenizer, ids, [" yes", " no"]), rel=1e-3)
    traced = [engine.module.trace(model, tokenizer, given, int, max_new_tokens=4).steps for given in (chat, ids)]
    assert [step.token_id for step in traced[0]] == [step.token_id for step in traced[1]]
    (row,) = engine.module.continuous(model, tokenizer)(chat, max_new_tokens=2).rows
    assert [*row[: len(ids)]] == ids


def test_every_type_of_the_list_is_tried() -> None:
    assert {*TYPES} <= {*CASES}
