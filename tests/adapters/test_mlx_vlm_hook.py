"""The hook of mlx-vlm: what it writes after images, in batches and with hidden prompts, and what it refuses."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from mlx_vlm.generate import batch_generate, generate, stream_generate
from mlx_vlm.sample_utils import make_sampler
from mlx_vlm.utils import StoppingCriteria

import logitkit as lk
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit_adapters.mlx_lm import logits_processor as for_mlx_lm
from logitkit_adapters.mlx_vlm import logits_processor, vocabulary
from logitkit_adapters.mlx_vlm.caller import CALLER
from tests.adapters import demo, demo_mlx_lm
from tests.adapters.demo_mlx_vlm import WHOLE, batch, inputs, plain, text_with_images
from tests.adapters.vision_models import COLUMNS, KINDS, image, loaded
from tests.conformance.replay import Replay

STEPS = 16
DATE = " [0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]"
TEXT = "The meeting is on"


def processors(kind: str) -> dict[str, lk.Processor[Any]]:
    v = vocabulary(loaded(kind)[1], loaded(kind)[0])
    return {
        "date": lk.Regex(DATE, v),
        "object": lk.chain(lk.JsonSchema({"type": "object", "properties": {"name": {"enum": ["tea", "café"]}}}, v)),
        "penalties": lk.chain(lk.RepetitionPenalty(1.4), lk.NoRepeatNGram(3), lk.BannedStrings([" the", "é"], v)),
    }


def step_by_step(
    kind: str, given: dict[str, Any], processor: lk.Processor[Any] | None, steps: int = STEPS
) -> list[int]:
    """Greedy tokens of a plain loop: at each step all tokens through the whole model, without a cache, and the core's mask."""
    model, _ = loaded(kind)
    others = {
        name: value for name, value in given.items() if name not in ("input_ids", "pixel_values", "attention_mask")
    }
    prompt: list[int] = given["input_ids"].tolist()[0]
    new: list[int] = []
    context = lk.Context.of([prompt], COLUMNS, max_length=len(prompt) + steps)
    state = None if processor is None else processor.init_state(context)
    while len(new) < steps and 2 not in new:
        ids = mx.array([[*prompt, *new]])
        logits = model(ids, given["pixel_values"], None, **others).logits[0, -1]
        row = torch.from_numpy(np.array(logits))[None]
        if processor is not None:
            if new:
                state = processor.advance(state, torch.tensor([new[-1:]]))
            state, row = processor.process_logits(state, row, context.at(torch.tensor([len(prompt) + len(new)])))
        new.append(int(row.argmax()))
    return new


def written(kind: str, given: dict[str, Any], hooks: list[Any], **options: Any) -> list[int]:
    return plain(given, hooks, kind, max_tokens=STEPS, **options)


@pytest.mark.parametrize("kind", KINDS)
class TestAfterAnImage:
    @pytest.mark.parametrize("name", ["date", "object", "penalties"])
    def test_greedy_tokens_are_those_of_a_loop_of_ones_own(self, kind: str, name: str) -> None:
        processor = processors(kind)[name]
        for seed in (1, 2):
            given = inputs(kind, TEXT, image(seed))
            expected = step_by_step(kind, given, processor)
            hook = logits_processor(processor, prompt=given["input_ids"])
            assert written(kind, given, [hook]) == expected
            # With the whole prompt in sight, none needs to be given.
            assert written(kind, given, [logits_processor(processor)], **WHOLE) == expected

    def test_the_text_depends_on_the_image(self, kind: str) -> None:
        texts = set()
        for seed in range(4):
            given = inputs(kind, TEXT, image(seed))
            texts.add(tuple(written(kind, given, [logits_processor(processors(kind)["object"])])))
        assert len(texts) > 1

    def test_a_neutral_processor_changes_nothing(self, kind: str) -> None:
        given = inputs(kind, TEXT, image(4), image(5)) if kind == "qwen2_vl" else inputs(kind, TEXT, image(4))
        without = written(kind, given, [])
        assert without == step_by_step(kind, given, None)
        for neutral in (lk.chain(), lk.Temperature(1.0), lk.AllowTokens(range(COLUMNS))):
            assert written(kind, given, [logits_processor(neutral)]) == without

    def test_samples_are_drawn_from_what_the_core_leaves(self, kind: str) -> None:
        given = inputs(kind, TEXT, image(1))
        for name, processor in processors(kind).items():
            mx.random.seed(3)
            replay = Replay(processor, given["input_ids"].tolist()[0])
            hooks = replay.around(logits_processor(processor))
            tokens = written(kind, given, hooks, sampler=make_sampler(temp=1.0), **WHOLE)
            assert replay.calls >= len(tokens), name

    def test_generate_itself(self, kind: str) -> None:
        model, processor = loaded(kind)
        hook = logits_processor(
            {"type": "integer", "minimum": 20, "maximum": 40}, processor, model=model, max_new_tokens=8
        )
        found = generate(
            model,
            processor,
            text_with_images(kind, TEXT),
            [image(1)],  # type: ignore[list-item]
            max_tokens=8,
            temperature=0.0,
            logits_processors=[hook],
        )
        assert 20 <= int(found.text) <= 40


class TestBatches:
    """mlx-vlm 0.7 can run several images together in one of the two models."""

    kind = "qwen2_vl"
    texts = (TEXT, "The price of tea is", "In")
    images = (image(0), image(1, 140, 56), image(2))

    def alone(self, processors: list[lk.Processor[Any]]) -> list[str]:
        """The text after each prompt by itself."""
        v, found = vocabulary(*reversed(loaded(self.kind))), []
        for text, shown, processor in zip(self.texts, self.images, processors, strict=True):
            row = written(self.kind, inputs(self.kind, text, shown), [logits_processor(processor)])
            found.append(v.decode([i for i in row if i not in v.eos_ids]).decode().strip())
        return found

    @pytest.mark.parametrize("shared", [True, False])
    def test_batch_generate(self, shared: bool) -> None:
        model, processor = loaded(self.kind)
        date, number = processors(self.kind)["date"], lk.Regex(" [0-9]{3}", vocabulary(processor, model))
        of_rows: list[lk.Processor[Any]] = [date] * 3 if shared else [date, number, date]
        hooks: Any = [logits_processor(date)] if shared else [[logits_processor(each)] for each in of_rows]
        # Two of them have the same size, so they run together, and the third one after them.
        images: Any = self.images
        found = batch_generate(
            model, processor, images, None, list(self.texts), max_tokens=STEPS, logits_processors=hooks
        )
        assert [text.strip() for text in found.texts] == self.alone(of_rows)

    def test_rows_of_text_with_hooks_of_their_own(self) -> None:
        date, prompts = processors("qwen2_vl")["date"], [[280, 661, 509], [302, 28], [280, 661]]
        hooks: Any = [[logits_processor(date)], [], [logits_processor(date)]]
        found = batch(prompts, hooks, "qwen2_vl", max_tokens=STEPS)
        for ids, own, row in zip(prompts, hooks, found, strict=True):
            fresh = [logits_processor(date)] if own else []
            assert plain(ids, fresh, "qwen2_vl", max_tokens=STEPS) == row


class TestHiddenPrompts:
    def test_a_penalty_says_that_it_does_not_see_the_prompt(self) -> None:
        given = inputs("llava", TEXT, image(1))
        length = given["input_ids"].shape[1]
        with pytest.warns(UserWarning, match=f"mlx-vlm shows only the last 1 of {length} tokens"):
            written("llava", given, [logits_processor(lk.RepetitionPenalty(1.3))])

    def test_output_that_is_hidden_with_the_prompt_is_refused(self) -> None:
        date = processors("llava")["date"]
        prompt = loaded("llava")[1].tokenizer.encode(TEXT)
        first = plain(prompt, [logits_processor(date)], "llava", max_tokens=4)
        with pytest.raises(ConfigurationError, match="hides 4 tokens of the output; give mlx-vlm all tokens"):
            plain([*prompt, *first], [logits_processor(date, prompt=prompt)], "llava")
        whole = plain(prompt, [logits_processor(date)], "llava")
        rest = plain([*prompt, *first], [logits_processor(date, prompt=prompt)], "llava", **WHOLE)
        assert [*first, *rest] == whole


class TestRefusals:
    """Where mlx-vlm would choose tokens without the hook, the hook says so at the first of them."""

    def test_drafts_in_batches(self) -> None:
        class Watching:
            draft_model = object()

            def generate(self, hook: Any) -> Any:
                return hook(mx.array([1, 2]), mx.zeros((1, 1280)))

        scope: dict[str, Any] = {"__name__": "mlx_vlm.generate.ar"}
        exec("def generate(self, hook, tokens, logits):\n    i = 0\n    return hook(tokens, logits)", scope)
        with pytest.raises(ConfigurationError, match="leave out draft_model"):
            scope["generate"](Watching(), logits_processor(lk.TopK(2)), mx.array([1, 2]), mx.zeros((1, 9)))

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_a_thinking_budget(self, wrapped: bool) -> None:
        model, processor = loaded("qwen2_vl")
        hook = logits_processor(lk.TopK(2))

        def around(tokens: Any, logits: Any) -> Any:
            return hook(tokens, logits + 0)

        hooks: Any = [around if wrapped else hook]
        options: Any = {"thinking_budget": 3, "thinking_start_token": "a", "thinking_end_token": "b"}
        with pytest.raises(ConfigurationError, match=r"logitkit.ThinkingBudget\(...\)"):
            generate(model, processor, TEXT, max_tokens=5, logits_processors=hooks, **options)

    def test_hooks_of_mlx_lm_and_the_other_way_round(self) -> None:
        with pytest.raises(ConfigurationError, match="mlx-vlm was given a hook made for mlx-lm"):
            plain([280, 661], [for_mlx_lm(lk.TopK(2))])
        with pytest.raises(ConfigurationError, match="mlx-lm was given a hook made for mlx-vlm"):
            demo_mlx_lm.plain([280, 661], [logits_processor(lk.TopK(2))])

    def test_a_hook_outside_of_a_list_and_a_bare_processor(self) -> None:
        with pytest.raises(ConfigurationError, match=r"logits_processors=\[logits_processor"):
            list(stream_generate(*loaded("llava"), TEXT, logits_processors=logits_processor(lk.TopK(2))))
        with pytest.raises(ConfigurationError, match="wrap it in a hook"):
            list(stream_generate(*loaded("llava"), TEXT, logits_processors=[lk.TopK(2)]))


def vocabulary_of(hook: Any) -> lk.Vocabulary:
    found: lk.Vocabulary = hook.processor.vocabulary
    return found


class TestVocabulary:
    def test_it_has_the_tokens_of_the_tokenizer_and_the_columns_of_the_language_model(self) -> None:
        shipped = vocabulary(loaded("shipped")[1], loaded("shipped")[0])
        assert shipped.tokens == demo.vocabulary().tokens
        assert (shipped.eos_ids, shipped.pad_id) == (demo.vocabulary().eos_ids, demo.vocabulary().pad_id)
        for kind in KINDS:
            model, processor = loaded(kind)
            # The configuration of LLaVA says 32,000, which is a default.
            assert vocabulary(processor, model).size == COLUMNS
            assert vocabulary(processor.tokenizer, model) == vocabulary(processor, model)
            assert vocabulary(processor).special["<|image_pad|>"] == 1283

    def test_every_id_at_which_mlx_vlm_ends_is_an_eos(self) -> None:
        _, processor = loaded("shipped")
        before = processor.stopping_criteria
        try:
            processor.stopping_criteria = StoppingCriteria([2, 1], processor)
            assert list(vocabulary(processor).eos_ids) == [1, 2]
            hook = logits_processor({"type": "boolean"}, processor)
            assert list(vocabulary_of(hook).eos_ids) == [1, 2]
            processor.stopping_criteria.add_eos_token_ids([5])
            later = logits_processor({"type": "boolean"}, processor)
            assert list(vocabulary_of(later).eos_ids) == [1, 2, 5]
        finally:
            processor.stopping_criteria = before

    def test_what_is_not_a_model_is_refused(self) -> None:
        with pytest.raises(VocabularyError, match="give the mlx-vlm model"):
            vocabulary(loaded("shipped")[1], object())


@pytest.mark.parametrize("most", [0, 1, 3, 7])
def test_a_budget_of_mlx_vlm_is_one_with_a_token_more_and_a_line_break(most: int) -> None:
    model, processor = loaded("llava")
    v, text = vocabulary(processor, model), TEXT + "<|vision_start|>"
    prompt = processor.tokenizer(text).input_ids

    def without_end(_: Any, logits: Any) -> Any:
        return mx.where(mx.arange(COLUMNS) == 2, -mx.inf, logits)

    def written(*hooks: Any, **options: Any) -> list[int | None]:
        chunks = stream_generate(
            model,
            processor,
            text,
            max_tokens=STEPS,
            temperature=0.0,
            logits_processors=[*hooks, without_end],
            **options,
        )
        return [chunk.token for chunk in chunks]

    theirs = written(
        thinking_budget=most,
        thinking_start_token="<|vision_start|>",
        thinking_end_token="<|vision_end|>",
        enable_thinking=True,
    )
    budget = lk.ThinkingBudget(most + 1, "<|vision_end|>", v, start="<|vision_start|>", message="\n")
    assert written(logits_processor(budget, prompt=prompt)) == theirs
    assert [*theirs[most + 1 : most + 3]] == [v.tokens.index(b"\n"), v.special["<|vision_end|>"]]


def test_nobody_but_mlx_vlm_says_what_it_knows() -> None:
    assert CALLER.cached_tokens() is None
    assert CALLER.batch_sequence() == (None, False)
    found = []

    def watch(tokens: Any, logits: Any) -> Any:
        found.append((CALLER.cached_tokens(), len(tokens), *CALLER.batch_sequence()))
        return logits

    plain([5, 6, 7], [watch], max_tokens=2)
    assert found == [(3 + n, 1 + n, None, False) for n in range(3)]
    found.clear()
    batch([[8, 9], [5, 6, 7]], [[watch], [watch]], max_tokens=2)
    assert found == [(2 + i + n, 2 + i + n, i, n == 0) for n in range(len(found) // 2) for i in range(2)]
