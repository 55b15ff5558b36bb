"""The hook of mlx-lm by itself, and its vocabulary: what they refuse, leave alone and remember."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
import torch
from mlx_lm.generate import batch_generate
from mlx_lm.tokenizer_utils import TokenizerWrapper
from torch import Tensor

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError, LogitkitError, ProcessorError, VocabularyError
from logitkit_adapters.mlx_lm import logits_processor, vocabulary
from logitkit_adapters.mlx_lm.caller import CALLER
from tests.adapters import demo
from tests.adapters.absent import make_absent
from tests.adapters.demo_mlx_lm import batch, loaded, model, plain, speculative, tokenizer

SMALL = lk.Vocabulary([b"a", b"b", b"c", None, None], eos_ids=[3], pad_id=4)
AB = lk.Regex("ab*", SMALL)


def legal(logits: Any) -> list[int]:
    return [i for i, x in enumerate(logits.reshape(-1).tolist()) if x > -np.inf]


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32], ids=str)
@pytest.mark.parametrize("shape", [(5,), (1, 5)], ids=str)
def test_logits_keep_their_dtype_and_shape(dtype: Any, shape: tuple[int, ...]) -> None:
    hook, given = logits_processor(AB), mx.zeros(shape, dtype)
    processed = hook(mx.array([1]), given)
    assert isinstance(processed, mx.array)
    assert (processed.dtype, processed.shape) == (dtype, shape)
    assert legal(processed) == [0]
    assert given.tolist() == mx.zeros(shape).tolist()


def test_a_generation_begins_once_whatever_shape_its_logits_have() -> None:
    hook = logits_processor(AB)
    assert legal(hook(mx.array([1]), mx.zeros(5))) == [0]
    assert legal(hook(mx.array([1, 0]), mx.zeros((1, 5)))) == [1, 3]
    hook.new_generation()
    assert legal(hook(mx.array([1, 0]), mx.zeros((1, 5)))) == [0]
    assert legal(hook(mx.array([1, 0, 0]), mx.zeros(5))) == [1, 3]


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64, mx.uint32], ids=str)
def test_a_hook_that_missed_a_token_refuses_to_begin(dtype: Any) -> None:
    scope: dict[str, Any] = {"__name__": "mlx_lm.generate"}
    exec("def generate_step(call):\n    n = 1\n    return call()", scope)
    hook = logits_processor(AB)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="first token"):
            scope["generate_step"](lambda: hook(mx.array([1], dtype), mx.zeros((1, 5))))
        assert hook.state is None
    assert legal(hook(mx.array([1], dtype), mx.zeros((1, 5)))) == [0]


def test_a_call_that_fails_leaves_the_state_of_the_one_before() -> None:
    hook = logits_processor(AB)
    for _ in range(2):
        hook(mx.array([1]), mx.zeros((1, 5)))
        hook(mx.array([1, 2]), mx.zeros((1, 5)))
        with pytest.raises(VocabularyError):
            hook(mx.array([1, 2, 0]), mx.zeros((1, 4)))
        assert AB.is_dead(hook.state).tolist() == [True]
        hook.new_generation()
        hook(mx.array([1]), mx.zeros((1, 5)))
        with pytest.raises(VocabularyError):
            hook(mx.array([1, 0]), mx.zeros((1, 4)))
        assert AB.is_dead(hook.state).tolist() == [False]
        hook.new_generation()


def test_what_mlx_has_yet_to_compute_stays_as_it_is() -> None:
    given = mx.array([[1.0, 2.0, 3.0, 4.0, 5.0]]) * 2
    later, part = given + 1, given[:, 1:]
    one = logits_processor(AB)(mx.array([1]), given)
    two = logits_processor(AB)(mx.array([1]), given)
    assert later.tolist() == [[3, 5, 7, 9, 11]]
    assert part.tolist() == [[4, 6, 8, 10]]
    assert one.tolist() == two.tolist() == [[2, *[-np.inf] * 4]]


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64, mx.uint32], ids=str)
def test_tokens_of_every_dtype(dtype: Any) -> None:
    hook = logits_processor(AB)
    for tokens, allowed in (([1, 2], [0]), ([1, 2, 0], [1, 3]), ([1, 2, 0, 1], [1, 3]), ([1, 2, 0, 3], [3, 4])):
        assert legal(hook(mx.array(tokens, dtype), mx.zeros((1, 5)))) == allowed


def test_the_state_of_the_last_call_can_be_asked() -> None:
    hook = logits_processor(AB)
    assert logits_processor(AB).state is None
    hook(mx.array([1, 1]), mx.zeros((1, 5)))
    hook(mx.array([1, 1, 2]), mx.zeros((1, 5)))
    assert AB.is_dead(hook.state).tolist() == [True]


def test_a_new_generation_begins_where_it_is_said_to() -> None:
    hook = logits_processor(AB)
    assert legal(hook(mx.array([1]), mx.zeros((1, 5)))) == [0]
    assert legal(hook(mx.array([1, 0]), mx.zeros((1, 5)))) == [1, 3]
    hook.new_generation()
    assert legal(hook(mx.array([1, 0]), mx.zeros((1, 5)))) == [0]


@pytest.mark.parametrize(
    ("tokens", "logits", "error", "message"),
    [
        (mx.array([[1], [2]]), mx.zeros((2, 5)), BatchMismatch, r"tokens \[2, 1\] and logits \[2, 5\]"),
        (mx.array([1]), mx.zeros((2, 5)), BatchMismatch, r"ids of shape \[1\] and logits of shape \[2, 5\]"),
        (mx.array([[[1]]]), mx.zeros((1, 5)), ConfigurationError, r"\[1, 1, 1\].* logits of shape \[1, 5\]"),
        (mx.array([1]), mx.zeros((1, 1, 5)), ConfigurationError, r"ids of shape \[1\] and logits of shape \[1, 1, 5\]"),
        (mx.array([1.0]), mx.zeros((1, 5)), ConfigurationError, "need integers"),
        (mx.array([1]), mx.zeros((1, 5), mx.int32), ConfigurationError, "need floating point"),
        (mx.array([1]), None, ConfigurationError, "NoneType"),
        (mx.array([1]), mx.zeros((1, 4)), VocabularyError, "4 columns.*5 ids"),
        (mx.array([-1]), mx.zeros((1, 5)), ConfigurationError, "id -1"),
    ],
)
def test_wrong_calls_are_refused(tokens: Any, logits: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        logits_processor(AB)(tokens, logits)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attention_mask": [1, 1], "pad_id": 0}, "both attention_mask and pad_id"),
        ({"attention_mask": mx.array([1, 0])}, "0 after a 1"),
        ({"attention_mask": np.array([0, 2])}, "other than 0 and 1"),
        ({"pad_id": -1}, "pad_id is -1"),
        ({"prompt": "text"}, "allowed are token ids"),
        ({"prompt": [1.5]}, "allowed are token ids"),
        ({"prompt": [-1, 2]}, "allowed are token ids"),
        ({"prompt": mx.zeros(3)}, "need integers"),
        ({"prompt": np.zeros((1, 2, 3), np.int64)}, r"\[1, 2, 3\]"),
        ({"prompt": [[1, 2], [1, 2, 3]]}, "the beginning of another"),
        ({"prompt": [1, 2], "attention_mask": [[1, 1], [1, 1]]}, None),
        ({"prompt": mx.array([1, 2]), "attention_mask": [[1, 1], [1, 1]]}, "1 rows, but attention_mask has 2"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str | None) -> None:
    if message is None:  # lists hold no pads, and need no mask
        logits_processor(AB, **arguments)
        return
    with pytest.raises(ValueError, match=message) as raised:
        logits_processor(AB, **arguments)
    assert isinstance(raised.value, LogitkitError)


@pytest.mark.parametrize("given", [None, lk.Regex, "ab*", lambda logits: logits])
def test_a_value_that_is_not_a_processor_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="processor is "):
        logits_processor(given)


def test_tokens_that_do_not_belong_to_the_given_prompt_are_refused() -> None:
    hook = logits_processor(AB, prompt=[1, 2, 2])
    with pytest.raises(ConfigurationError, match="begin neither with the given prompt"):
        hook(mx.array([0, 1]), mx.zeros((1, 5)))
    assert legal(hook(mx.array([2]), mx.zeros((1, 5)))) == [0]
    assert legal(hook(mx.array([2, 0]), mx.zeros((1, 5)))) == [1, 3]


def test_pads_of_what_is_shown_do_not_count() -> None:
    penalty, ones = lk.RepetitionPenalty(2.0), mx.ones((1, 6))
    for told in ({"attention_mask": [0, 0, 1]}, {"attention_mask": torch.tensor([[0, 0, 1]])}, {"pad_id": 5}):
        hook = logits_processor(penalty, **told)
        assert hook(mx.array([5, 5, 1]), ones).tolist() == [[1, 0.5, 1, 1, 1, 1]]
        assert hook(mx.array([5, 5, 1, 5]), ones).tolist() == [[1, 0.5, 1, 1, 1, 0.5]]
    with pytest.raises(BatchMismatch, match=r"attention_mask is \[2, 3\]"):
        logits_processor(penalty, attention_mask=np.ones((2, 3)))(mx.array([5, 5, 1]), ones)


@dataclass(frozen=True)
class Fragile:
    """A constraint that fails when a list says so."""

    inner: lk.Regex
    failing: list[str]

    def init_state(self, context: lk.Context) -> Any:
        self._fail("init_state")
        return self.inner.init_state(context)

    def advance(self, state: Any, tokens: Tensor) -> Any:
        self._fail("advance")
        return self.inner.advance(state, tokens)

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        self._fail("process_logits")
        return self.inner.process_logits(state, logits, context)

    def _fail(self, method: str) -> None:
        if method in self.failing:
            raise OSError(method)


@pytest.mark.parametrize("method", ["init_state", "advance", "process_logits"])
@pytest.mark.parametrize("mode", ["generate", "drafts", "BatchGenerator", "batch_generate"])
def test_an_error_of_a_processor_reaches_the_caller_and_leaves_the_hook_usable(mode: str, method: str) -> None:
    pattern, failing = "[a-z]{3}", [method]
    ids = demo.prompts(pattern, count=1)[0].tolist()
    hook = logits_processor(Fragile(lk.Regex(pattern, vocabulary(tokenizer())), failing))

    def generate() -> Any:
        if mode == "generate":
            return plain(ids, [hook])
        if mode == "drafts":
            return speculative(ids, [hook], model())
        if mode == "BatchGenerator":
            return batch([ids], [[hook]])[0]
        found: Any = batch_generate(*loaded(), [ids], logits_processors=[hook], return_token_ids=True)
        return [*found.token_ids[0], tokenizer().eos_token_id]

    with pytest.raises(OSError, match=method):
        generate()
    failing.clear()
    assert generate() == plain(ids, [logits_processor(lk.Regex(pattern, vocabulary(tokenizer())))])


def test_a_hook_is_gone_when_nobody_has_it() -> None:
    hook = logits_processor(lk.RepetitionPenalty(2.0))
    hook(mx.array([1]), mx.zeros((1, 5)))
    seen = weakref.ref(hook)
    gc.disable()
    try:
        del hook
        assert seen() is None
    finally:
        gc.enable()


def test_a_processor_that_breaks_the_protocol_is_named() -> None:
    hook = logits_processor(lk.Stateless(lambda logits, context: logits[:, :2]))
    with pytest.raises(ProcessorError, match="Stateless"):
        mlx_lm.generate(*loaded(), [5, 6], logits_processors=[hook])


def test_a_result_in_other_memory_is_given_back() -> None:
    hook = logits_processor(lk.Stateless(lambda logits, context: logits.flip(1)))
    assert hook(mx.array([1]), mx.array([[1.0, 2.0, 3.0]])).tolist() == [[3, 2, 1]]


def test_nobody_but_mlx_lm_says_what_it_knows() -> None:
    assert CALLER.cached_tokens() is None
    assert CALLER.batch_sequence() == (None, False)
    found = []

    def watch(tokens: Any, logits: Any) -> Any:
        found.append((CALLER.cached_tokens(), len(tokens), *CALLER.batch_sequence()))
        return logits

    plain([5, 6, 7], [watch], max_tokens=2)
    assert found == [(n, n, None, False) for n in (3, 4, 5)]
    found.clear()
    batch([[5, 6, 7], [8, 9]], [[watch], [watch]], max_tokens=2)
    assert found == [
        (3 + n, 3 + n, 0, n == 0) if i == 0 else (2 + n, 2 + n, 1, n == 0) for n in range(3) for i in range(2)
    ]


class TestVocabulary:
    def test_it_is_that_of_the_tokenizer_inside(self) -> None:
        assert isinstance(tokenizer(), TokenizerWrapper)
        for given in (tokenizer(), demo.tokenizer()):
            found = vocabulary(given)
            assert found.tokens == demo.vocabulary().tokens
            assert (found.eos_ids, found.pad_id) == (demo.vocabulary().eos_ids, demo.vocabulary().pad_id)

    def test_all_ids_at_which_mlx_lm_ends_are_eos(self) -> None:
        several = TokenizerWrapper(demo.tokenizer(), eos_token_ids=[2, 1])
        assert list(vocabulary(several).eos_ids) == [1, 2]
        assert list(vocabulary(several, eos_ids=2).eos_ids) == [2]

    def test_a_padded_vocabulary(self) -> None:
        assert vocabulary(tokenizer(), size=1300).size == 1300

    def test_what_is_no_tokenizer_is_refused(self) -> None:
        with pytest.raises(VocabularyError, match="no known kind"):
            vocabulary(object())


@pytest.mark.parametrize("absent", ["mlx", "mlx.core", "mlx_lm"])
def test_without_mlx_lm_the_error_says_what_to_install(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_absent(
        monkeypatch, absent, importers=["logitkit_adapters", "mlx_lm"] if absent != "mlx_lm" else ["logitkit_adapters"]
    )
    with pytest.raises(ImportError, match=r"logitkit_adapters.mlx_lm needs mlx-lm: pip install 'logitkit\[mlx\]'"):
        import_module("logitkit_adapters.mlx_lm")
