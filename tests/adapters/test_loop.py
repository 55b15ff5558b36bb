"""A loop of one's own with `Steps` writes what `generate` of transformers writes, in every array library."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import mlx.core as mx
import numpy as np
import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import BrokenLogits, ConfigurationError
from logitkit_adapters.loop import Steps
from logitkit_adapters.transformers import logits_processor
from tests.adapters.array_makers import traits
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.batches import tensor_path
from tests.conformance.families import FAMILIES, family
from tests.examples import of_all

EOS = 2
NEW = 16
TEXTS = ("The price of", "A code: ", "On 3 May, she", "Name: ")


def to_numpy(logits: Tensor) -> Any:
    return logits.numpy()


def to_torch_of_steps(logits: Tensor) -> Any:
    return logits[:, None]


def to_mlx(logits: Tensor) -> Any:
    return mx.array(logits.numpy())


def to_lists(logits: Tensor) -> Any:
    return logits.tolist()


def to_jax(logits: Tensor) -> Any:
    return jnp.asarray(logits.numpy())


LIBRARIES = [to_numpy, to_torch_of_steps, to_mlx, to_lists, to_jax]


def prompts() -> list[list[int]]:
    return [tokenizer()(text).input_ids for text in TEXTS]


def next_logits(rows: list[list[int]]) -> Tensor:
    """The model's logits after each row, computed one by one."""
    return torch.stack([_logits_after(tuple(row)) for row in rows])


@cache
def _logits_after(row: tuple[int, ...]) -> Tensor:
    with torch.no_grad():
        found: Tensor = model()(torch.tensor([row])).logits[0, -1]
    return found


def alone(prompt: list[int], processor: lk.Processor[Any] | None, **options: Any) -> list[int]:
    """The tokens that `generate` writes with a hook."""
    hooks = [] if processor is None else [logits_processor(processor)]
    ids = torch.tensor([prompt])
    settings = {"max_new_tokens": NEW, "do_sample": False, **options}
    written = model().generate(ids, attention_mask=torch.ones_like(ids), logits_processor=hooks, **settings)
    return until_end(written[0, len(prompt) :].tolist())


def until_end(tokens: list[int]) -> list[int]:
    ends = tokenizer().eos_token_id
    return tokens[: tokens.index(ends) + 1] if ends in tokens else tokens


def greedy(steps: Steps, rows: list[list[int]], convert: Callable[[Tensor], Any], most: int = NEW) -> list[list[int]]:
    """Write greedily; return the new tokens of each row."""
    written: list[list[int]] = [[] for _ in rows]
    for _ in range(most):
        found = steps.process(convert(next_logits([[*p, *w] for p, w in zip(rows, written, strict=True)])))
        tokens = torch.tensor(found if isinstance(found, list) else found.tolist()).reshape(len(rows), -1).argmax(-1)
        steps.commit(tokens.tolist())
        for row, token in zip(written, tokens.tolist(), strict=True):
            row.append(token)
    return [until_end(row) for row in written]


@pytest.mark.parametrize("kind", of_all(FAMILIES, 3))
def test_greedy_rows_are_those_of_generate(kind: str) -> None:
    processor, rows = family(kind), prompts()[:2]
    assert greedy(Steps(processor, rows), rows, to_numpy) == [alone(prompt, processor) for prompt in rows]


@cache
def of_rows() -> list[Any]:
    """A processor for each prompt, one of them none."""
    regex = lk.Regex(r"[0-9]{2}\.[0-9]{2} (euros|pounds)", vocabulary())
    mixed = lk.chain(lk.TopK(30), lk.Temperature(0.7), lk.RepetitionPenalty(1.4))  # in no canonical order
    return [regex, lk.chain(lk.RepetitionPenalty(1.2), lk.Regex("[A-Z]{2}-[0-9]{3}", vocabulary())), None, mixed]


@cache
def alone_of_rows() -> list[list[int]]:
    return [alone(prompt, processor) for prompt, processor in zip(prompts(), of_rows(), strict=True)]


@pytest.mark.parametrize("convert", LIBRARIES)
def test_rows_with_a_processor_each(convert: Callable[[Tensor], Any]) -> None:
    rows, processors = prompts(), of_rows()
    steps = Steps(processors, rows)
    wanted = alone_of_rows()
    assert greedy(steps, rows, convert) == wanted
    ended = [EOS in row for row in wanted]
    assert steps.finished.tolist() == ended
    assert any(ended)


class Beams:
    """Follow the calls of beam search: each must get from `Steps` what it gets from the hook."""

    def __init__(self, steps: Steps, convert: Callable[[Tensor], Any]) -> None:
        self.steps, self.convert, self.calls, self.moves = steps, convert, 0, 0
        self._before: list[list[int]] = []
        self._scores = torch.empty(0)

    def before(self, ids: Tensor, scores: Tensor) -> Tensor:
        self._scores = scores.clone()
        return scores

    def after(self, ids: Tensor, scores: Tensor) -> Tensor:
        rows = ids.tolist()
        if self.calls:
            same = range(len(rows))
            parents = [
                row if self._before[row] == now[:-1] else self._before.index(now[:-1])
                for row, now in zip(same, rows, strict=True)
            ]
            self.moves += parents != [*same]
            self.steps.select(np.array(parents))
            self.steps.commit([now[-1] for now in rows])
        found = self.steps.process(self.convert(self._scores))
        assert torch.tensor(found.tolist()).reshape(scores.shape).equal(scores)
        self._before, self.calls = rows, self.calls + 1
        return scores


@pytest.mark.parametrize("convert", [to_numpy, to_jax])
@pytest.mark.parametrize("each", [False, True], ids=["one processor", "a processor each"])
def test_beams(convert: Callable[[Tensor], Any], each: bool) -> None:
    prompt = prompts()[0]
    processor = lk.chain(lk.RepetitionPenalty(1.3), lk.Regex(r"[a-z ]{4,20}\.( [A-Z][a-z]*)?", vocabulary()))
    beams = Beams(Steps([processor] * 4 if each else processor, [prompt] * 4), convert)
    ids = torch.tensor([prompt])
    hooks = [beams.before, logits_processor(processor), beams.after]
    model().generate(
        ids,
        attention_mask=torch.ones_like(ids),
        logits_processor=hooks,
        num_beams=4,
        max_new_tokens=16,
        do_sample=False,
    )
    assert beams.calls > 8
    assert beams.moves


@pytest.mark.parametrize("each", [False, True], ids=["one processor", "a processor each"])
def test_rows_leave_when_they_end_and_others_enter(each: bool) -> None:
    """As a server would do: two rows at a time, of five requests."""
    waiting = [*prompts(), tokenizer()("Yes or no? ").input_ids]
    shared = lk.Regex("[a-z]{3,9}( [a-z]{2,5})?", vocabulary())
    processors: list[Any] = [*of_rows(), lk.Choice(["yes", "no"], vocabulary())] if each else [shared] * 5
    wanted = [alone(prompt, p, max_new_tokens=12) for prompt, p in zip(waiting, processors, strict=True)]
    running, written = [0, 1], [list[int]() for _ in waiting]
    steps = Steps(processors[:2] if each else shared, waiting[:2])
    while running:
        logits = next_logits([[*waiting[r], *written[r]] for r in running]).numpy()
        tokens = steps.process(logits).argmax(-1)
        steps.commit(tokens)
        for request, token in zip(running, tokens.tolist(), strict=True):
            written[request].append(token)
        goes_on = ~steps.finished & np.array([len(written[r]) < 12 for r in running])
        steps.select(goes_on)
        running = [r for r, on in zip(running, goes_on, strict=True) if on]
        new = [r for r in range(5) if not written[r] and r not in running][: 2 - len(running)]
        steps.add([waiting[r] for r in new], [processors[r] for r in new] if each else None)
        running += new
        assert len(steps) == len(running)
    assert written == wanted


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_numbers_and_containers_stay(dtype: str) -> None:
    """The values that a constraint keeps are those given, bit for bit, in an array of the same type, dtype and shape."""
    regex = lk.Regex("b", vocabulary())
    first = regex.init_state(lk.Context.of([[]], vocabulary().size))
    kept = regex.allowed_tokens(first)[0].nonzero()[:, 0].tolist()
    values = torch.linspace(-9, 9, vocabulary().size, dtype=torch.float64).to(getattr(torch, dtype))
    shapes = [(vocabulary().size,), (1, vocabulary().size), (1, 1, vocabulary().size)]
    for shape in shapes:
        for given in containers(values.reshape(shape), dtype):
            before = np.array(flat(given))
            found = Steps(regex, [[5]]).process(given, overwrite=False)
            assert traits(found) == traits(given)
            assert flat(given) == before.tolist()
            wanted = np.full_like(before, -np.inf)
            wanted[kept] = before[kept]
            assert flat(found) == wanted.tolist()


def containers(values: Tensor, dtype: str) -> list[Any]:
    found: list[Any] = [values]
    if dtype != "bfloat16":
        found.append(values.numpy().copy())
    if dtype != "float64":
        found.append(mx.array(values.float().numpy()).astype(getattr(mx, dtype)))
    return found


def flat(array: Any) -> list[float]:
    shown = (
        array.double()
        if isinstance(array, Tensor)
        else array.astype(mx.float32 if isinstance(array, mx.array) else float)
    )
    return [float(value) for value in shown.reshape(-1).tolist()]


class TestJax:
    """JAX arrays, which nobody may write to."""

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
    def test_the_given_array_keeps_its_values(self, dtype: str) -> None:
        given = jnp.linspace(-9, 9, 2 * vocabulary().size).astype(dtype).reshape(2, 1, -1)
        before = np.array(given).copy()
        doubled = given * 2  # may still have to be computed
        steps = Steps(lk.Regex("b", vocabulary()), [[5], [6]])
        found = steps.process(given)
        assert (type(found), found.dtype, found.shape) == (type(given), given.dtype, given.shape)
        assert (np.array(given) == before).all()
        assert (np.array(doubled) == before * 2).all()
        assert np.isinf(np.array(found).astype(np.float32)).sum() > vocabulary().size
        held = np.array(found).copy()
        steps.commit(jnp.argmax(found[:, 0], axis=-1))
        steps.process(given)
        assert (np.array(found) == held).all(), "a later step wrote to an earlier result"

    def test_numpy_arrays_of_bfloat16_are_shared(self) -> None:
        given = np.linspace(-9, 9, vocabulary().size).astype(ml_dtypes.bfloat16).reshape(1, -1)
        found = Steps(lk.Regex("b", vocabulary()), [[5]]).process(given)
        assert found is given
        assert given.dtype == ml_dtypes.bfloat16
        assert np.isinf(given.astype(np.float32)).sum() > vocabulary().size // 2

    def test_an_array_without_values_is_refused(self) -> None:
        steps = Steps(lk.TopK(1), [[1]])
        with pytest.raises(ConfigurationError, match=r"no values.*jax\.jit"):
            jax.jit(steps.process)(jax.numpy.ones((1, 3)))
        with pytest.raises(ConfigurationError, match="float8"):
            steps.process(jax.numpy.ones((1, 3), jax.numpy.float8_e4m3fn))


def test_a_numpy_array_is_overwritten_unless_that_is_refused() -> None:
    given = np.zeros((1, vocabulary().size), np.float32)
    steps = Steps(lk.Regex("b", vocabulary()), [[5]])
    copied = steps.process(given, overwrite=False)
    assert (given == 0).all()
    assert steps.process(given) is given
    assert (given == copied).all()


def test_tokens_after_the_end_and_several_at_once() -> None:
    (b,) = (v for v, t in enumerate(vocabulary().tokens) if t == b"b")
    regex = lk.Regex("b{2}", vocabulary())
    steps = Steps(regex, [[5], [6], [7]], columns=vocabulary().size)
    steps.commit([[b, b, EOS, b], [b, -1, -1, -1], [EOS, b, b, b]])
    assert steps.finished.tolist() == [True, False, True]
    assert regex.is_dead(steps.state).tolist() == [False, False, True]
    assert steps.context is not None
    assert steps.context.lengths.tolist() == [4, 2, 2]
    steps.commit(np.array([b, b, b]))
    assert steps.context.lengths.tolist() == [4, 3, 2]
    assert not regex.is_dead(steps.state)[1]


def test_every_row_ends_with_the_ids_of_its_own_processor() -> None:
    two = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[2, 3])
    steps = Steps([lk.MinNewTokens(1, eos_ids=[2]), lk.Regex("a", two)], [[], []], columns=4)
    steps.commit([[0, 1], [0, 3]])
    assert steps.finished.tolist() == [False, True]


def test_an_eos_that_a_processor_writes_as_text_ends_nothing() -> None:
    (b,) = (v for v, t in enumerate(vocabulary().tokens) if t == b"b")
    for processor in (lk.chain(lk.ForcedTokens([EOS, b]), lk.MinNewTokens(1, [EOS])), lk.ForcedTokens([EOS, b])):
        for given in (processor, [processor]):
            steps = Steps(given, [[5]], eos_ids=[EOS], columns=vocabulary().size)
            steps.commit(EOS)
            assert not steps.finished[0]
            steps.commit(np.int64(b))
            steps.commit(EOS)
            assert steps.finished[0]


def test_a_limit_closes_each_text() -> None:
    schema = lk.JsonSchema({"type": "array", "items": {"type": "string"}}, vocabulary(), closing=True)
    rows = prompts()[:2]
    steps = Steps(schema, rows, max_new_tokens=9)
    texts = [tokenizer().decode(row, skip_special_tokens=True) for row in greedy(steps, rows, to_numpy, 9)]
    assert [text[-1] for text in texts] == ["]", "]"]


def more(steps: Steps) -> None:
    steps.add([[5]], [None])
    steps.commit([1, 1, 1])


@pytest.mark.parametrize("change", [lambda steps: steps.select([0]), lambda steps: steps.select([]), more])
def test_broken_logits_on_an_accelerator_are_reported_though_rows_change(change: Callable[[Steps], Any]) -> None:
    steps = Steps([lk.Regex("b+", vocabulary()), None], [[5], [5]])
    with tensor_path():
        steps.process(torch.full((2, vocabulary().size), torch.nan))
        with pytest.raises(BrokenLogits):
            change(steps)
        assert len(steps) >= 2


def test_numbers_and_booleans_of_numpy_in_a_list_select_rows() -> None:
    steps = Steps([lk.Regex("b+", vocabulary()), None], [[5], [5]], columns=vocabulary().size)
    steps.select([*np.array([1, 0, 1])])
    steps.select([*np.array([False, True, False])])
    assert np.isinf(steps.process(np.zeros((1, vocabulary().size), np.float32))).any()


@pytest.mark.parametrize("convert", LIBRARIES, ids=lambda convert: convert.__name__)
def test_a_deadline_closes_the_reasoning_of_some_rows(convert: Callable[[Tensor], Any]) -> None:
    v = vocabulary()
    budget = lk.ThinkingBudget(99, "</think>", v, message="\n")
    steps = Steps(lk.chain(lk.MinNewTokens(NEW, v.eos_ids), budget), [prompts()[0]] * 3)
    rows: list[list[int]] = [[], [], []]
    for step in range(NEW):
        if step == 4:
            least, reasoning = steps.state
            steps.state = least, budget.close(reasoning, [False, True, False])
            steps.select([1, 1, 0])
            rows = [rows[1], rows[1], rows[0]]
        tokens = torch.tensor(np.asarray(steps.process(convert(torch.zeros(3, v.size)))).reshape(3, -1).argmax(1))
        steps.commit(tokens.tolist())
        rows = [[*row, token] for row, token in zip(rows, tokens.tolist(), strict=True)]
    texts = [v.decode(row[4:]) for row in rows]
    assert [text.startswith(b"\n</think>") for text in texts] == [True, True, False]
