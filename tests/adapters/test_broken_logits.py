"""A model whose logits are broken: every engine and front end raises the error, with row and step, instead of writing text."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import BrokenLogits
from logitkit_adapters.sessions import Session, continuous, generate_typed, probabilities, trace
from tests.adapters.demo import vocabulary
from tests.adapters.test_broken_processors import FRONT_ENDS, ids
from tests.sessions.engines import ENGINES, loaded
from tests.sessions.faulty_models import FAULTS, faulty

V = vocabulary()
PROCESSORS: dict[str, Any] = {
    # Neither can force a token, so that every token comes from the logits.
    "constraint": lk.Regex("[0-9]{9}", V),
    "chain": lk.chain(lk.RepetitionPenalty(1.2), lk.Regex("[0-9]{9}", V), lk.TopK(5)),
    "sampler": lk.Temperature(0.5),
    "nothing": lk.chain(),
}


def engine_of(front_end: str) -> str:
    return next((engine for engine in ENGINES if front_end.endswith(engine)), "transformers")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_broken_logits_are_an_error(front_end: str, name: str, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "ContinuousBatchingLogger")
    for after in (0, 2):
        written: list[int] = []
        with faulty(engine_of(front_end), FAULTS[fault], after), pytest.raises(BrokenLogits) as caught:
            FRONT_ENDS[front_end](PROCESSORS[name], written)
        # A session feeds a prompt of several tokens in one pass or two.
        assert (caught.value.row, caught.value.step) in ((0, after), (0, max(after - 1, 0)))
        assert len(written) <= after


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("engine", ENGINES)
def test_sessions(engine: str, fault: str) -> None:
    model, tokenizer = loaded(engine)
    regex = PROCESSORS["constraint"]
    calls = {
        "typed": lambda: generate_typed(model, tokenizer, ids(), re.compile("[0-9]{9}")),
        "typed samples": lambda: generate_typed(model, tokenizer, ids(), re.compile("[0-9]{9}"), num_samples=2),
        "stream": lambda: list(Session(model, tokenizer).stream(ids(), max_new_tokens=4)),
        "samples": lambda: Session(model, tokenizer).generate(ids(), max_new_tokens=4, num_samples=3),
        "beams": lambda: Session(model, tokenizer, regex).generate(ids(), max_new_tokens=4, num_beams=3),
        "free beams": lambda: Session(model, tokenizer).generate(ids(), max_new_tokens=4, num_beams=2),
        "continuous": lambda: continuous(model, tokenizer)([ids(), ids()[1:]], max_new_tokens=4),
        "continuous samples": lambda: continuous(model, tokenizer, regex)(ids(), max_new_tokens=4, num_samples=2),
        "trace": lambda: trace(model, tokenizer, ids(), regex, max_new_tokens=4),
        "trace of a text": lambda: trace(model, tokenizer, ids(), regex, output="123456789"),
        "probabilities": lambda: probabilities(model, tokenizer, ids(), [" yes", " no"]),
    }
    for name, call in calls.items():
        with faulty(engine, FAULTS[fault]), pytest.raises(BrokenLogits):
            print(name, call())
        call()


def test_the_row_of_a_call_is_named() -> None:
    model, tokenizer = loaded("transformers")
    session = Session(model, tokenizer)
    passes = len(ids())  # more than the first row takes
    with faulty("transformers", FAULTS["all NaN"], after=passes), pytest.raises(BrokenLogits) as caught:
        session.generate([ids(), ids()], max_new_tokens=passes)
    assert caught.value.row == 1
    # The session is usable, and keeps nothing of the faulty pass.
    again = session.generate(ids(), max_new_tokens=4).token_ids
    assert again == Session(model, tokenizer).generate(ids(), max_new_tokens=4).token_ids


@pytest.fixture
def as_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the logits be looked at as those on a device, where nothing is read."""
    for module in ("logitkit.composition.engine_logits", "logitkit_adapters.sessions.written_rows"):
        monkeypatch.setattr(f"{module}.by_tensors", lambda _: True)
    monkeypatch.setattr("logitkit_adapters.transformers.hook._single", lambda *_: None)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("as_on_a_device")
def test_on_a_device_the_flag_is_read_with_the_sampled_token(fault: str) -> None:
    model, tokenizer = loaded("transformers")
    for name, processor in PROCESSORS.items():
        calls = {
            "session": lambda p=processor: Session(model, tokenizer, p).generate(ids(), max_new_tokens=4),
            "samples": lambda p=processor: Session(model, tokenizer, p).generate(ids(), max_new_tokens=4, seed=1),
            "beams": lambda p=processor: continuous(model, tokenizer, p)(ids(), max_new_tokens=4, num_beams=2),
            "continuous": lambda p=processor: continuous(model, tokenizer, p)([ids(), ids()[1:]], max_new_tokens=4),
        }
        for call in calls.values():
            with faulty("transformers", FAULTS[fault], after=1), pytest.raises(BrokenLogits, match="for row 0 at step"):
                print(name, call())
            call()


@pytest.mark.usefixtures("as_on_a_device")
def test_on_a_device_a_hook_reads_the_flag_in_its_next_call() -> None:
    from logitkit_adapters.transformers import logits_processor

    digit = V.tokens.index(b"1")
    hook = logits_processor(PROCESSORS["constraint"])
    scores = torch.zeros(2, V.size)
    hook(torch.full((2, 4), digit), scores)
    scores[1, 7] = torch.nan
    found = hook(torch.full((2, 5), digit), scores)
    assert (found[1] > -torch.inf).nonzero().tolist() == [[V.eos_ids[0]]]
    assert hook.broken is not None
    assert hook.broken.tolist() == [False, True]
    with pytest.raises(BrokenLogits, match="for row 1 at step 1: a logit is NaN or"):
        hook(torch.full((2, 6), digit), torch.zeros(2, V.size))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_row_of_a_generator_is_named(engine: str) -> None:
    model, tokenizer = loaded(engine)
    # In llama.cpp and ONNX Runtime GenAI, rows run one after another, in four or five passes each; in mlx-lm, only prompts do, in
    # two.
    places = {"transformers": (1, 0), "mlx-lm": (3, 1), "llama.cpp": (6, 1), "onnxruntime-genai": (6, 1)}
    after, row = places[engine]
    with faulty(engine, FAULTS["one NaN"], after=after), pytest.raises(BrokenLogits) as caught:
        continuous(model, tokenizer, PROCESSORS["constraint"])([ids(), ids()[1:]], max_new_tokens=4)
    assert caught.value.row == row


def test_the_logits_of_a_row_that_has_ended_do_not_matter() -> None:
    model, tokenizer = loaded("transformers")
    for processor in (None, lk.Temperature(1.0), PROCESSORS["constraint"]):
        passes = 0

        def fault(_module: Any, _args: Any, output: Any) -> Any:
            nonlocal passes
            passes += 1
            output.logits = output.logits.clone()
            output.logits[0, -1, V.eos_ids[0]] = 1e4
            if passes > 1:
                output.logits[0] = torch.nan
            return output

        hook = model.register_forward_hook(fault)
        try:
            if processor is PROCESSORS["constraint"]:
                # It does not allow the end, so the row goes on.
                with pytest.raises(BrokenLogits, match="for row 0 at step 1"):
                    continuous(model, tokenizer, processor)([ids(), ids()[1:]], max_new_tokens=4)
                continue
            state = continuous(model, tokenizer, processor)([ids(), ids()[1:]], max_new_tokens=4)
        finally:
            hook.remove()
        assert state.finished.tolist() == [True, False]
        assert [len(row) for row in state.rows] == [len(ids()), len(ids()) + 3]


def test_one_broken_row_of_a_batch_is_named() -> None:
    from logitkit_adapters.transformers import logits_processor

    digit = V.tokens.index(b"1")
    for processor in PROCESSORS.values():
        hook = logits_processor(processor)
        scores = torch.zeros(3, V.size)
        scores[2, 5] = torch.nan
        hook(torch.full((3, 4), digit), torch.zeros(3, V.size))
        with pytest.raises(BrokenLogits, match=r"for row 2 at step 1: 1 of 1,280 are NaN"):
            hook(torch.full((3, 5), digit), scores)
