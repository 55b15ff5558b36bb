"""A processor that breaks the protocol is named by every engine and front end, before any token is chosen."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ProcessorError
from tests.core.misbehaving import BROKEN, Counter
from tests.core.test_calls import Faulty
from tests.sessions.engines import ENGINES, loaded

PROMPT = "The price of"
LIMIT = 4
EOS = 2


def ids() -> list[int]:
    tokens: list[int] = loaded("transformers")[1](PROMPT).input_ids
    return tokens


def transformers_hook(processor: Any, written: list[int]) -> None:
    from logitkit_adapters.transformers import logits_processor

    found = loaded("transformers")[0].generate(
        torch.tensor([ids()]), max_new_tokens=LIMIT, do_sample=False, logits_processor=[logits_processor(processor)]
    )
    written += found[0, len(ids()) :].tolist()


def continuous_batching(processor: Any, written: list[int]) -> None:
    from transformers import ContinuousBatchingConfig

    from logitkit_adapters.transformers import continuous_batching

    model = loaded("transformers")[0]
    config = ContinuousBatchingConfig(num_blocks=24, page_size=16, max_batch_tokens=32)
    with continuous_batching(model, processor):
        done = model.generate_batch([ids()], continuous_batching_config=config, max_new_tokens=LIMIT)
        written += next(iter(done.values())).generated_tokens


def mlx_lm_hook(processor: Any, written: list[int]) -> None:
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    from logitkit_adapters.mlx_lm import logits_processor

    hooks: list[Any] = [logits_processor(processor)]
    for token, _ in generate_step(mx.array(ids()), loaded("mlx-lm")[0], max_tokens=LIMIT, logits_processors=hooks):
        written.append(int(token))


def llama_cpp_hook(processor: Any, written: list[int]) -> None:
    from logitkit_adapters.llama_cpp import logits_processor

    for token in loaded("llama.cpp")[0].generate(ids(), temp=0, logits_processor=logits_processor(processor)):
        written.append(token)
        if len(written) == LIMIT:
            break


def session(engine: str) -> Callable[[Any, list[int]], None]:
    def run(processor: Any, written: list[int]) -> None:
        from logitkit_adapters.sessions import Session

        with Session(*loaded(engine), processor) as session:
            written += session.generate(ids(), max_new_tokens=LIMIT).rows[0].token_ids

    return run


def continuous(engine: str) -> Callable[[Any, list[int]], None]:
    def run(processor: Any, written: list[int]) -> None:
        from logitkit_adapters.sessions import continuous

        state = continuous(*loaded(engine), processor)(PROMPT, max_new_tokens=LIMIT)
        written += state.rows[0][len(ids()) :]

    return run


FRONT_ENDS: dict[str, Callable[[Any, list[int]], None]] = {
    "transformers": transformers_hook,
    "continuous batching": continuous_batching,
    "mlx-lm": mlx_lm_hook,
    "llama.cpp": llama_cpp_hook,
    **{f"Session, {engine}": session(engine) for engine in ENGINES},
    **{f"continuous, {engine}": continuous(engine) for engine in ENGINES},
}


@pytest.mark.parametrize("wrong", BROKEN)
@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_a_broken_processor_is_named(front_end: str, wrong: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "ContinuousBatchingLogger")
    processor, message = BROKEN[wrong]
    for broken in (processor, lk.chain(lk.Temperature(1.0), processor)):
        written: list[int] = []
        with pytest.raises(ProcessorError, match=message):
            FRONT_ENDS[front_end](broken, written)
        # A wrong `advance` shows after the first token. Continuous batching ends such a request, beside which others go on.
        assert len(written) <= ("advances" in wrong) or (front_end, written) == ("continuous batching", [EOS])


@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_a_right_processor_writes_on_after_a_broken_one(front_end: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "ContinuousBatchingLogger")
    run = FRONT_ENDS[front_end]
    wanted: list[int] = []
    run(lk.Temperature(1.0), wanted)
    with pytest.raises(ProcessorError):
        run(BROKEN["changes its state with the logits"][0], [])
    found: list[int] = []
    run(Counter(), found)
    assert found == wanted
    assert len(found) == LIMIT


def hook_of(engine: str, processor: Any) -> Callable[[list[int], list[float]], list[float]]:
    """Return a hook as a function from ids and logits to logits."""
    if engine == "transformers":
        from logitkit_adapters.transformers import logits_processor

        hook = logits_processor(processor)
        return lambda ids, logits: hook(torch.tensor([ids]), torch.tensor([logits])).tolist()[0]
    import numpy as np

    if engine == "mlx-lm":
        import mlx.core as mx

        from logitkit_adapters.mlx_lm import logits_processor as mlx_processor

        mlx_hook = mlx_processor(processor)
        return lambda ids, logits: mlx_hook(mx.array(ids), mx.array([logits])).tolist()[0]
    from logitkit_adapters.llama_cpp import logits_processor as llama_processor

    (llama_hook,) = llama_processor(processor)
    return lambda ids, logits: llama_hook(np.array(ids, np.intc), np.array(logits, np.single)).tolist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fault", ["init_state", "advance", "process_logits"])
def test_after_an_error_a_hook_goes_on_as_if_there_had_been_none(engine: str, fault: str) -> None:
    processor = Faulty()
    call = hook_of(engine, processor)

    def fails(*ids: int) -> None:
        processor.faults.append(fault)
        with pytest.raises(ProcessorError, match=f"Faulty.{fault}"):
            call([*ids], [0.0, 0.0, 0.0])
        processor.faults.clear()

    if fault != "advance":
        fails(2, 1)
    assert call([2, 1], [0.0, 0.5, 0.0]) == [0.0, 0.5, 0.0]
    if fault == "init_state":
        return
    assert call([2, 1, 1], [0.0, 0.5, 0.0]) == [1.0, 1.5, 1.0]
    fails(2, 1, 1, 0)
    fails(2, 1, 1, 2)
    # The same call again, and another one in its place.
    assert call([2, 1, 1, 2], [0.0, 0.5, 0.0]) == [2.0, 2.5, 2.0]
    assert call([2, 1, 1, 0], [0.0, 0.5, 0.0]) == [2.0, 2.5, 2.0]
    assert call([2, 1, 1, 0, 0], [0.0, 0.5, 0.0]) == [3.0, 3.5, 3.0]
