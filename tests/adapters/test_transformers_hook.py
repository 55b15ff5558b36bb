"""The hook by itself: what it refuses, warns of, leaves alone and remembers."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BatchEncoding, LogitsProcessor

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError, ProcessorError
from logitkit_adapters.transformers import logits_processor
from tests.adapters.demo import model, prompts, text_of, vocabulary

SMALL = lk.Vocabulary([b"a", b"b", b"c", None, None], eos_ids=[3], pad_id=4)
AB = lk.Regex("ab*", SMALL)


def ids(*rows: list[int]) -> Tensor:
    return torch.tensor(rows)


def legal(scores: Tensor) -> list[list[int]]:
    return [row.isfinite().nonzero()[:, 0].tolist() for row in scores]


def test_it_is_a_processor_of_two_arguments_equal_to_itself_alone() -> None:
    one, two = logits_processor(AB), logits_processor(AB)
    assert isinstance(one, LogitsProcessor)
    assert one == one
    assert one != two
    assert len({one, two}) == 2
    assert type(one).__call__.__code__.co_argcount == 3  # self and two: with more, `generate` demands them by name


def test_scores_are_copied_exactly_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = 0
    clone = Tensor.clone

    def counted(tensor: Tensor, *args: Any, **options: Any) -> Tensor:
        nonlocal copies
        copies += tensor.shape == (2, 5) and tensor.is_floating_point()
        return clone(tensor, *args, **options)

    hook, scores = logits_processor(AB), torch.zeros(2, 5)
    hook(ids([1], [2]), scores)
    monkeypatch.setattr(Tensor, "clone", counted)
    processed = hook(ids([1, 0], [2, 1]), scores)
    assert copies == 1
    assert legal(processed) == [[1, 3], [3]]
    assert torch.equal(scores, torch.zeros(2, 5))
    assert processed.data_ptr() != hook(ids([1, 0], [2, 1]), scores).data_ptr()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_keep_their_dtype(dtype: torch.dtype) -> None:
    processed = logits_processor(AB)(ids([1]), torch.zeros(1, 5, dtype=dtype))
    assert processed.dtype == dtype
    assert legal(processed) == [[0]]


def test_the_state_of_the_last_call_can_be_asked() -> None:
    assert logits_processor(AB).state is None
    hook = logits_processor(AB)
    hook(ids([1, 1]), torch.zeros(1, 5))
    # Drafts that no processor saw before they were made: one legal, one not, one finished.
    for draft, dead, finished in (([0], False, False), ([2], True, False), ([0, 3], False, True)):
        for end in range(1, len(draft) + 1):
            processed = hook(ids([1, 1, *draft[:end]]), torch.ones(1, 5))
        assert AB.is_dead(hook.state).tolist() == [dead]
        assert AB.is_finished(hook.state).tolist() == [finished]
        if dead:
            assert legal(processed) == [[3]]
            assert processed[0, 3] == 0


def test_a_row_of_several_goes_on_alone() -> None:
    hook = logits_processor(AB)
    hook(ids([2], [1]), torch.zeros(2, 5))
    hook(ids([2, 0], [1, 1]), torch.zeros(2, 5))
    assert legal(hook(ids([2, 0]), torch.zeros(1, 5))) == [[1, 3]]
    assert legal(hook(ids([2, 0, 1]), torch.zeros(1, 5))) == [[1, 3]]
    hook.new_generation()
    assert legal(hook(ids([2, 0, 1]), torch.zeros(1, 5))) == [[0]]


def test_beams_go_on_from_a_row_that_began_alone() -> None:
    hook = logits_processor(AB)
    assert legal(hook(ids([2, 1]), torch.zeros(1, 5))) == [[0]]
    assert legal(hook(ids([2, 1, 0]), torch.zeros(1, 5))) == [[1, 3]]
    assert legal(hook(ids([2, 1, 0, 1], [2, 1, 0, 0]), torch.zeros(2, 5))) == [[1, 3], [3]]
    with pytest.raises(ConfigurationError, match="after 5"):
        hook(ids([2, 1, 0, 1, 1]), torch.zeros(1, 6))


def test_the_state_after_generate_is_that_of_its_rows() -> None:
    pattern = lk.Regex("[a-z]{3}", vocabulary())
    hook, prompt = logits_processor(pattern), prompts("[a-z]{3}", count=2)
    model().generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=8,
        logits_processor=[hook],
        do_sample=False,
    )
    # The last call came before the last token: EOS of the longer row.
    assert not pattern.is_dead(hook.state).any()
    assert hook.state.at.state.shape == (2,)


@pytest.mark.parametrize(
    ("shown", "scores", "error", "message"),
    [
        (torch.tensor([1, 2]), torch.zeros(2, 5), ConfigurationError, r"ids \[2\] .*continuous_batching"),
        (torch.tensor([[1]]), torch.zeros(1, 1, 5), ConfigurationError, r"scores \[1, 1, 5\]"),
        (torch.tensor([[1], [2]]), torch.zeros(1, 5), BatchMismatch, "2 rows of ids and 1 rows of scores"),
        (torch.tensor([[1]]), torch.zeros(1, 5, dtype=torch.int64), ConfigurationError, r"torch\.int64"),
        (torch.tensor([[1.0]]), torch.zeros(1, 5), ConfigurationError, r"torch\.float32"),
        (torch.tensor([[1]]), torch.zeros(1, 4), lk.errors.VocabularyError, "4 columns.*5 ids"),
    ],
)
def test_wrong_shapes_are_refused(shown: Tensor, scores: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        logits_processor(AB)(shown, scores)


def test_logits_of_another_vocabulary_in_one_generation_are_refused() -> None:
    # As an assistant with another tokenizer would bring, whose ids mean something else.
    hook = logits_processor(AB)
    hook(ids([1]), torch.zeros(1, 5))
    with pytest.raises(ConfigurationError, match="7 columns after 5"):
        hook(ids([1, 0]), torch.zeros(1, 7))
    assert legal(hook(ids([1, 0]), torch.zeros(1, 5))) == [[1, 3]]
    hook.new_generation()
    assert legal(hook(ids([1, 0]), torch.zeros(1, 7))) == [[0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attention_mask": torch.ones(1, 2), "pad_id": 0}, "both attention_mask and pad_id"),
        ({"attention_mask": torch.tensor([[1, 0]])}, "0 after a 1"),
        ({"attention_mask": torch.tensor([[0, 2]])}, "other than 0 and 1"),
        ({"attention_mask": torch.ones(2)}, r"attention_mask is \[2\]"),
        ({"attention_mask": [[1]]}, "attention_mask is list"),
        ({"pad_id": -1}, "pad_id is -1"),
        ({"pad_id": True}, "pad_id is True"),
        ({"prompt": torch.zeros(3)}, r"torch\.float32 tensor of shape \[3\]"),
        ({"prompt": []}, "no rows"),
        ({"prompt": [[-1, 2]]}, "allowed are token ids"),
        ({"prompt": ids([1, 2]), "attention_mask": torch.ones(2, 2)}, "1 rows, but attention_mask has 2"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        logits_processor(AB, **arguments)
    assert isinstance(raised.value, lk.errors.LogitkitError)


@pytest.mark.parametrize("given", [None, lk.Regex, "ab*", lambda logits: logits])
def test_a_value_that_is_not_a_processor_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="processor is "):
        logits_processor(given)


def test_a_mask_that_does_not_fit_the_rows_is_refused() -> None:
    hook = logits_processor(AB, attention_mask=torch.ones(2, 3))
    for shape in ((3, 3), (2, 2)):
        with pytest.raises(BatchMismatch, match=r"attention_mask is \[2, 3\]"):
            hook(torch.ones(shape, dtype=torch.int64), torch.zeros(shape[0], 5))


def test_the_prompt_tells_where_the_output_begins() -> None:
    for prompt in ([[1, 2]], ids([4, 1, 2])):
        hook = logits_processor(AB, prompt=prompt, pad_id=4)
        assert legal(hook(ids([4, 1, 2, 0, 1]), torch.zeros(1, 5))) == [[1, 3]]
        with pytest.raises(ConfigurationError, match="prompt"):
            hook(ids([4, 2, 2, 0, 1]), torch.zeros(1, 5))


def test_a_prompt_that_is_not_a_list_for_each_row() -> None:
    with pytest.raises(ConfigurationError, match=r"one list for each row of the batch, as in prompt=\[ids\]"):
        logits_processor(AB, prompt=[1, 2])  # type: ignore[list-item]
    with pytest.raises(
        ConfigurationError, match=r"prompt is of type BatchEncoding; give its ids, prompt\['input_ids'\]"
    ):
        logits_processor(AB, prompt=BatchEncoding({"input_ids": [[1, 2]]}))  # type: ignore[arg-type]


def test_pads_do_not_count() -> None:
    penalty, scores = lk.RepetitionPenalty(2.0), torch.ones(2, 6)
    padded, mask = ids([5, 5, 1], [2, 5, 3]), torch.tensor([[0, 0, 1], [1, 1, 1]])
    expected = [[1, 0.5, 1, 1, 1, 1], [1, 1, 0.5, 0.5, 1, 0.5]]
    for told in ({"attention_mask": mask}, {"pad_id": 5}):
        assert logits_processor(penalty, **told)(padded, scores).tolist() == expected
    # Beams: each row of the mask stands for as many rows of the call.
    hook = logits_processor(penalty, attention_mask=mask)
    assert hook(padded.repeat_interleave(2, 0), torch.ones(4, 6)).tolist() == [
        row for row in expected for _ in range(2)
    ]


PADDED = ids([5, 5, 1, 2], [2, 3, 1, 1])


@pytest.mark.parametrize(
    ("processor", "rows", "told", "warned"),
    [
        pytest.param(lk.RepetitionPenalty(2.0), PADDED, {}, True, id="pads"),
        pytest.param(lk.chain(AB, lk.RepetitionPenalty(2.0)), PADDED, {}, True, id="in a chain"),
        pytest.param(lk.RepetitionPenalty(2.0), ids([5, 2, 1], [2, 3, 1]), {}, True, id="one pad before BOS"),
        pytest.param(lk.RepetitionPenalty(2.0), ids([2, 2, 1], [2, 3, 1]), {}, True, id="BOS is the pad"),
        pytest.param(lk.RepetitionPenalty(2.0), ids([5, 5, 5], [2, 3, 1]), {}, True, id="an empty prompt"),
        pytest.param(lk.RepetitionPenalty(2.0), PADDED, {"pad_id": 5}, False, id="told"),
        pytest.param(lk.RepetitionPenalty(2.0), PADDED[:1], {}, False, id="one row"),
        pytest.param(lk.RepetitionPenalty(2.0), ids([5, 1, 2], [4, 3, 1]), {}, False, id="other texts"),
        pytest.param(lk.RepetitionPenalty(2.0), ids([2, 1, 1], [2, 3, 3]), {}, False, id="one BOS each"),
        pytest.param(lk.RepetitionPenalty(2.0, include_prompt=False), PADDED, {}, False, id="prompt not read"),
        pytest.param(AB, PADDED, {}, False, id="a constraint"),
    ],
)
def test_what_looks_like_pads_is_warned_of_once(
    processor: Any, rows: Tensor, told: dict[str, Any], warned: bool
) -> None:
    hook = logits_processor(processor, **told)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            hook(rows, torch.zeros(len(rows), 6))
            hook.new_generation()
    assert len(caught) == warned
    if warned:
        assert "attention_mask=... or pad_id=..." in str(caught[0].message)


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
def test_an_error_of_a_processor_reaches_the_caller_and_leaves_the_hook_usable(method: str) -> None:
    pattern = r"[a-z]{3}, [a-z]{3}"
    prompt, failing = prompts(pattern, count=2), [method]
    hook = logits_processor(Fragile(lk.Regex(pattern, vocabulary()), failing))

    def generate() -> Tensor:
        written: Tensor = model().generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=12,
            num_beams=2,
            logits_processor=[hook],
        )
        return written

    with pytest.raises(OSError, match=method):
        generate()
    failing.clear()
    texts = [text_of(row[prompt.shape[1] :]) for row in generate()]
    assert [text for text in texts if not re.fullmatch(pattern, text)] == []


def test_a_processor_that_breaks_the_protocol_is_named() -> None:
    hook = logits_processor(lk.Stateless(lambda logits, context: logits[:, :2]))
    with pytest.raises(ProcessorError, match="Stateless"):
        hook(ids([1]), torch.zeros(1, 5))
