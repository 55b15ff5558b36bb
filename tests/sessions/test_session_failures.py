"""A call that fails leaves its session usable."""

from __future__ import annotations

from typing import Any

import pytest

from logitkit_adapters.sessions import Session
from tests.sessions.alone import alone
from tests.sessions.engines import COPYING, ENGINES, loaded
from tests.sessions.failing import Failing

PROMPT = [280, 661, 509, 277, 372, 81, 87, 338, 311, 1086]


@pytest.fixture(params=ENGINES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()], ids=["error", "interruption"])
@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("name", COPYING)
def test_a_processor_that_raises_leaves_the_session_usable(name: str, error: BaseException, at: int) -> None:
    with Session(*loaded(name), max_length=256) as session:
        session.generate(PROMPT, max_new_tokens=4)
        longer = [*PROMPT[:8], 7, 7, 7]
        with pytest.raises(type(error)):
            session.generate(longer, max_new_tokens=6, processor=Failing(error, at))
        assert session.position == 13
        for prompt in (longer, PROMPT, [*PROMPT, 9]):
            (row,) = session.generate(prompt, max_new_tokens=6).rows
            assert row.token_ids == alone(name, prompt, 6)
            assert row.reuse.length >= 8  # what had been cached before the failure still was


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()], ids=["error", "interruption"])
@pytest.mark.parametrize("after", [False, True], ids=["before the pass", "behind the pass"])
@pytest.mark.parametrize("name", COPYING)
def test_a_forward_pass_that_fails_leaves_the_session_usable(
    name: str, error: BaseException, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = loaded(name)
    if name == "llama.cpp":
        owner, attribute = type(model._ctx), "decode"
    else:
        # In the middle of the model: some layers have their new positions then, others do not.
        owner, attribute = type(model.model.layers[0].mlp), "forward" if name == "transformers" else "__call__"
    whole, left = getattr(owner, attribute), [2 if name == "llama.cpp" else 10]

    def failing(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and not after:
            raise error
        output = whole(*args, **kwargs)
        if left[0] == 0:
            raise error
        return output

    with Session(model, tokenizer, max_length=256) as session:
        session.generate(PROMPT, max_new_tokens=4)
        longer = [*PROMPT[:8], 7, 7, 7]
        with monkeypatch.context() as patch:
            patch.setattr(owner, attribute, failing)
            with pytest.raises(type(error)):
                session.generate(longer, max_new_tokens=6)
        assert session.position == 13
        for prompt in (longer, PROMPT, [*PROMPT, 9]):
            (row,) = session.generate(prompt, max_new_tokens=6).rows
            assert row.token_ids == alone(name, prompt, 6)
            assert row.reuse.length >= 8
