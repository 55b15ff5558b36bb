"""Guidance in `generate` of transformers: its own processor writes the same tokens, and so does one without any cache."""

from __future__ import annotations

import re
from functools import cache
from typing import Any
from unittest import mock

import pytest
import torch
import transformers
from torch import Tensor

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit_adapters.transformers import GuidancePass, logits_processor
from tests.adapters.demo import model, tokenizer, vocabulary

TEXTS = ("The price of", "A code: ", "On 3 May, she went to the")
NEGATIVES = ("The boy", "Name: Ann\nPhone: +49", "A")
NEW = 12
DATE = r" [0-9]{4}-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])"


@cache
def inputs(texts: tuple[str, ...]) -> Any:
    """Return prompts with padding on the left."""
    return tokenizer()(list(texts), return_tensors="pt", padding=True, padding_side="left")


def generate(given: Any, hooks: list[Any], **options: Any) -> Tensor:
    options = {"max_new_tokens": NEW, "do_sample": False, **options}
    torch.manual_seed(7)
    found: Tensor = model().generate(
        input_ids=given.input_ids, attention_mask=given.attention_mask, logits_processor=hooks, **options
    )
    return found


def hook_of(processor: Any, negative: Any, **options: Any) -> Any:
    ids, mask = (None, None) if negative is None else (negative.input_ids, negative.attention_mask)
    return logits_processor(processor, guidance=GuidancePass(model(), ids, mask, **options))


class WithoutCache(transformers.LogitsProcessor):
    """Guidance by the formula, which runs the model for each row with all its tokens, one row after the other.

    Args:
        scale: The scale.
        negatives: The negative prompt of each prompt.
        start: The number of columns of the prompts.
        model: The model, or None for the shipped one.
    """

    def __init__(self, scale: float, negatives: list[list[int]], start: int, model: Any = None) -> None:
        self.scale, self.negatives, self.start, self.model = scale, negatives, start, model

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        samples, run = len(input_ids) // len(self.negatives), self.model or model()
        rows = []
        for number, ids in enumerate(input_ids.tolist()):
            text = [*self.negatives[number // samples], *ids[self.start :]]
            rows.append(run(torch.tensor([text])).logits[0, -1])
        second = torch.stack(rows).log_softmax(1)
        return self.scale * (scores.log_softmax(1) - second) + second


def reference(scale: float, texts: tuple[str, ...], negatives: tuple[str, ...]) -> WithoutCache:
    return WithoutCache(scale, [tokenizer()(text).input_ids for text in negatives], inputs(texts).input_ids.shape[1])


@pytest.mark.parametrize("scale", [-0.5, 0.0, 0.7, 1.5, 4.0])
@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_rows_are_those_of_transformers(scale: float, use_cache: bool) -> None:
    differ = 0
    for text, negative in zip(TEXTS, NEGATIVES, strict=True):
        given, other = inputs((text,)), inputs((negative,))
        theirs = generate(given, [], guidance_scale=scale, negative_prompt_ids=other.input_ids)
        assert torch.equal(generate(given, [hook_of(lk.Guidance(scale), other, use_cache=use_cache)]), theirs)
        differ += not torch.equal(generate(given, []), theirs)
    assert differ


@pytest.mark.parametrize("use_cache", [True, False])
def test_without_a_negative_prompt_it_is_the_last_token(use_cache: bool) -> None:
    for text in TEXTS:
        theirs = generate(inputs((text,)), [], guidance_scale=2.5)
        assert torch.equal(generate(inputs((text,)), [hook_of(lk.Guidance(2.5), None, use_cache=use_cache)]), theirs)


def test_samples_are_those_of_transformers() -> None:
    for options in ({"do_sample": True}, {"do_sample": True, "top_k": 0, "temperature": 1.3}):
        given, other = inputs(TEXTS[:1]), inputs(NEGATIVES[:1])
        theirs = generate(given, [], guidance_scale=1.7, negative_prompt_ids=other.input_ids, **options)
        assert torch.equal(generate(given, [hook_of(lk.Guidance(1.7), other)], **options), theirs)


@pytest.mark.parametrize("texts", [TEXTS, ("The price of", "The price of")])
def test_a_batch_is_that_of_transformers(texts: tuple[str, ...]) -> None:
    """With padding on the left of prompts and of negative prompts; the shipped model sees only distances between tokens."""
    given, other = inputs(texts), inputs(NEGATIVES[: len(texts)])
    assert not other.attention_mask.all()
    theirs = generate(
        given,
        [],
        guidance_scale=2.0,
        negative_prompt_ids=other.input_ids,
        negative_prompt_attention_mask=other.attention_mask,
    )
    assert torch.equal(generate(given, [hook_of(lk.Guidance(2.0), other)]), theirs)
    assert torch.equal(generate(given, [reference(2.0, texts, NEGATIVES[: len(texts)])]), theirs)
    lists = [tokenizer()(text).input_ids for text in NEGATIVES[: len(texts)]]
    hook = logits_processor(lk.Guidance(2.0), guidance=GuidancePass(model(), lists))
    assert torch.equal(generate(given, [hook]), theirs)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"num_beams": 4}, id="beams"),
        pytest.param({"num_beams": 4, "num_return_sequences": 4, "length_penalty": 0.3}, id="all beams"),
        pytest.param({"num_beams": 3, "do_sample": True, "top_k": 0}, id="sampled beams"),
        pytest.param({"do_sample": True, "num_return_sequences": 3}, id="samples"),
    ],
)
@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS])
def test_rows_that_change_places_are_those_without_a_cache(texts: tuple[str, ...], options: dict[str, Any]) -> None:
    """Not those of transformers, whose cache stays where it is when beams change places."""
    given, negatives = inputs(texts), NEGATIVES[: len(texts)]
    wanted = generate(given, [reference(1.8, texts, negatives)], **options)
    hook = hook_of(lk.Guidance(1.8), inputs(negatives))
    with mock.patch.object(transformers.DynamicCache, "reorder_cache", autospec=True, side_effect=_reorder) as moved:
        assert torch.equal(generate(given, [hook], **options), wanted)
    # The cache of `generate` and that of the second pass both move.
    assert bool(moved.called) is ("num_beams" in options)
    assert len({id(call.args[0]) for call in moved.call_args_list}) == (2 if "num_beams" in options else 0)


_reorder = transformers.DynamicCache.reorder_cache


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"prompt_lookup_num_tokens": 3}, id="prompt lookup"),
        pytest.param({"cache_implementation": "static"}, id="static cache"),
        pytest.param({"prefill_chunk_size": 2}, id="chunked prefill"),
        pytest.param({"use_cache": False}, id="no cache"),
    ],
)
def test_other_ways_to_generate_change_nothing(options: dict[str, Any]) -> None:
    for text, negative in zip(TEXTS, NEGATIVES, strict=True):
        wanted = generate(inputs((text,)), [reference(2.0, (text,), (negative,))])
        assert torch.equal(
            generate(inputs((text,)), [hook_of(lk.Guidance(2.0), inputs((negative,)))], **options), wanted
        )


def test_each_step_reads_one_token() -> None:
    """So the second pass costs the same as the first."""
    for options, rows in (({}, 1), ({"num_beams": 4}, 4)):
        given, other = inputs(TEXTS[:1]), inputs(NEGATIVES[1:2])
        read: list[list[int]] = []
        real = model().forward

        def counted(ids: Tensor, *, real: Any = real, read: list[list[int]] = read, **arguments: Any) -> Any:
            read.append(list(ids.shape))
            return real(ids, **arguments)

        second = mock.Mock(spec=type(model()), side_effect=counted, config=model().config, device=model().device)
        second._orig_mod = model()
        hook = logits_processor(lk.Guidance(1.5), guidance=GuidancePass(second, other.input_ids))
        written = generate(given, [hook], **options)
        assert read[0] == [rows, other.input_ids.shape[1]]
        assert read[1:] == [[rows, 1]] * (written.shape[1] - given.input_ids.shape[1] - 1)


def test_a_constraint_after_guidance() -> None:
    for options in ({}, {"num_beams": 3, "num_return_sequences": 3}):
        given, date = inputs(TEXTS[:1]), lk.Regex(DATE, vocabulary())
        chain = lk.chain(lk.Guidance(1.6), lk.RepetitionPenalty(1.2), date)
        written = generate(given, [hook_of(chain, inputs(NEGATIVES[:1]))], max_new_tokens=20, **options)
        rest = logits_processor(lk.chain(lk.RepetitionPenalty(1.2), date))
        hooks = [reference(1.6, TEXTS[:1], NEGATIVES[:1]), rest]
        assert torch.equal(written, generate(given, hooks, max_new_tokens=20, **options))
        for row in written:
            text = tokenizer().decode(row[given.input_ids.shape[1] :], skip_special_tokens=True)
            assert re.fullmatch(DATE, text)


def test_rows_with_a_scale_each_or_none() -> None:
    given, other = inputs(TEXTS), inputs(NEGATIVES)
    hook = hook_of([lk.Guidance(3.0), None, lk.chain(lk.Guidance(0.5), lk.TopK(5))], other)
    written = generate(given, [hook])
    for row, scale in enumerate((3.0, 1.0, 0.5)):
        wanted = generate(given, [reference(scale, TEXTS, NEGATIVES)])
        # A batch goes on until its last row has ended.
        width = min(written.shape[1], wanted.shape[1])
        assert torch.equal(written[row, :width], wanted[row, :width])


def test_a_hook_serves_a_second_generation() -> None:
    other = inputs(NEGATIVES[:1])
    hook = hook_of(lk.Guidance(2.0), other)
    for text in TEXTS:
        theirs = generate(inputs((text,)), [], guidance_scale=2.0, negative_prompt_ids=other.input_ids)
        assert torch.equal(generate(inputs((text,)), [hook]), theirs)
        hook.new_generation()


def test_a_pass_that_fails_is_begun_again() -> None:
    given, other = inputs(TEXTS[:1]), inputs(NEGATIVES[:1])
    hook = hook_of(lk.Guidance(2.0), other)
    ids, scores = given.input_ids, torch.zeros(1, len(tokenizer()))
    hook(ids, scores)
    longer = torch.cat([ids, torch.tensor([[9]])], 1)
    with mock.patch.object(type(model()), "forward", side_effect=MemoryError), pytest.raises(MemoryError):
        hook(longer, scores)
    fresh = hook_of(lk.Guidance(2.0), other)
    fresh(ids, scores)
    torch.testing.assert_close(hook(longer, scores), fresh(longer, scores))


def test_a_prompt_that_is_continued() -> None:
    """The output of an earlier generation belongs to the output, also in the second pass."""
    given, negative = inputs(TEXTS[:1]), inputs(NEGATIVES[:1])
    whole = generate(given, [hook_of(lk.Guidance(2.0), negative)])
    cut = whole[:, : given.input_ids.shape[1] + 5]
    guidance = GuidancePass(model(), negative.input_ids)
    hook = logits_processor(lk.Guidance(2.0), prompt=given.input_ids, guidance=guidance)
    again = model().generate(
        cut, attention_mask=torch.ones_like(cut), max_new_tokens=NEW - 5, do_sample=False, logits_processor=[hook]
    )
    assert torch.equal(again, whole)


SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64}
HEADS: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32}
OTHERS: dict[str, Any] = {
    "learned positions": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=64, n_positions=64)
    ),
    "sliding window": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(**SMALL, **HEADS, sliding_window=4)
    ),
    "a state for all tokens": lambda: transformers.MambaForCausalLM(transformers.MambaConfig(**SMALL, state_size=4)),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_kinds_of_models(kind: str) -> None:
    """If they take positions, their rows have different lengths in the second pass, where padding must not count."""
    torch.manual_seed(1)
    own, has_positions = OTHERS[kind]().eval(), kind != "a state for all tokens"
    ids, negatives = torch.randint(3, 64, (2, 5)), [[5, 6, 7, 8, 9, 10], [11]] if has_positions else [[5, 6], [7, 8]]
    for beams in (1, 3) if has_positions else (1,):
        options = {"max_new_tokens": 9, "do_sample": False, "num_beams": beams, "eos_token_id": 0, "pad_token_id": 0}
        hooks = [
            logits_processor(lk.Guidance(3.0), guidance=GuidancePass(own, negatives)),
            WithoutCache(3.0, negatives, 5, own),
        ]
        found, wanted, bare = (
            own.generate(ids, attention_mask=torch.ones_like(ids), logits_processor=given, **options)
            for given in (hooks[:1], hooks[1:], [])
        )
        assert torch.equal(found, wanted)
        assert not torch.equal(found, bare)


def test_a_model_that_counts_padding_needs_rows_of_one_length() -> None:
    given = inputs(TEXTS[:2])
    with mock.patch("logitkit_adapters.transformers.model.reads_pads", return_value=True):
        with pytest.raises(
            ConfigurationError, match="LlamaForCausalLM counts padding as tokens, and the rows of the sec"
        ):
            generate(given, [hook_of(lk.Guidance(2.0), inputs(NEGATIVES[:2]))])
        assert len(generate(given, [hook_of(lk.Guidance(2.0), inputs(NEGATIVES[:1]))])) == 2


def test_a_compiled_model_takes_its_arguments() -> None:
    """Else it would seem to count padding, because the class of compiled models has no arguments."""
    second = torch.compile(model(), backend="eager")
    hook = logits_processor(lk.Guidance(2.0), guidance=GuidancePass(second, *inputs(NEGATIVES).values()))
    assert torch.equal(generate(inputs(TEXTS), [hook]), generate(inputs(TEXTS), [reference(2.0, TEXTS, NEGATIVES)]))


RECURRENT = transformers.RecurrentGemmaConfig(**SMALL, num_attention_heads=2, intermediate_size=32)


def short() -> Any:
    """Return a model with few positions."""
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=1280, n_positions=8)
    )


def _encoder() -> Any:
    return mock.Mock(config=mock.Mock(is_encoder_decoder=True))


# Ids of one prompt, not in a list of prompts.
FLAT: Any = [5, 6]


@pytest.mark.parametrize(
    ("make", "error", "problem"),
    [
        (lambda: GuidancePass("gpt2"), ConfigurationError, "model is of type str; give a decoder of transformers"),
        (lambda: GuidancePass(_encoder()), ConfigurationError, "has an encoder, which a second pass would need too"),
        (
            lambda: GuidancePass(model(), []),
            ConfigurationError,
            "the negative prompts are malformed: prompt has no rows",
        ),
        (lambda: GuidancePass(model(), [[5], []]), ConfigurationError, "a negative prompt is empty; give at least one"),
        (lambda: GuidancePass(model(), torch.ones(2)), ConfigurationError, "malformed: prompt is a torch.float32"),
        (
            lambda: GuidancePass(model(), torch.tensor([[5, 6]]), torch.tensor([[1, 0]])),
            ConfigurationError,
            "malformed: attention_mask has a 0 after a 1",
        ),
        (
            lambda: GuidancePass(model(), torch.tensor([[5, 6]]), torch.ones(2, 2)),
            BatchMismatch,
            "prompt has 1 rows, but attention_mask has 2",
        ),
        (
            lambda: GuidancePass(model(), negative_prompt_attention_mask=torch.ones(1, 2)),
            ConfigurationError,
            "negative_prompt_attention_mask is given without negative_prompt_ids",
        ),
        (
            lambda: logits_processor(lk.TopK(3), guidance=GuidancePass(model())),
            ConfigurationError,
            r"guidance is given, but TopK reads no second pass; put logitkit\.Guidance\(scale\) first",
        ),
        (
            lambda: logits_processor(lk.Guidance(2), guidance=model()),
            ConfigurationError,
            r"guidance is of type LlamaForCausalLM; give GuidancePass\(model, \.\.\.\)",
        ),
        (
            lambda: GuidancePass(model(), torch.tensor([[5, 6]]), torch.tensor([[0, 1, 1]])),
            BatchMismatch,
            r"negative_prompt_attention_mask is \[1, 3\], but negative_prompt_ids are \[1, 2\]; give both",
        ),
        (
            lambda: GuidancePass(model(), [[0, 5], [6, 7]], torch.tensor([[0, 1], [1, 1]])),
            ConfigurationError,
            "negative_prompt_attention_mask is given with lists of ids, which have no padding",
        ),
        (
            lambda: GuidancePass(model(), inputs(TEXTS[:1])),
            ConfigurationError,
            r"negative_prompt_ids is of type BatchEncoding; give \['input_ids'\] of it",
        ),
        (
            lambda: GuidancePass(model(), FLAT),
            ConfigurationError,
            r"negative_prompt_ids is a list of ids; give ids \[B, N\], or B lists of ids",
        ),
        (lambda: GuidancePass(model(), FLAT[0]), ConfigurationError, "negative_prompt_ids is of type int; give ids"),
        (
            lambda: GuidancePass(model(), [[5], [1280]]),
            ConfigurationError,
            "has the token 1280, but LlamaForCausalLM has ids from 0 to 1279; give ids of the tokenizer of this model",
        ),
        (
            lambda: generate(
                inputs(TEXTS[:1]), [logits_processor(lk.Guidance(2), guidance=GuidancePass(short(), [[5] * 9]))]
            ),
            ConfigurationError,
            "GPT2LMHeadModel cannot read the 9 tokens of the second pass .*max_position_embeddings are 8. Give a shorter",
        ),
        (
            lambda: generate(
                inputs(TEXTS[:1]), [logits_processor(lk.Guidance(2), guidance=GuidancePass(model().model))]
            ),
            ConfigurationError,
            "LlamaModel returns no logits; give a model with a head",
        ),
        (
            lambda: model().generate(
                inputs_embeds=model().get_input_embeddings()(inputs(TEXTS[:1]).input_ids),
                max_new_tokens=2,
                logits_processor=[hook_of(lk.Guidance(2), None)],
            ),
            ConfigurationError,
            "a prompt has no ids, as with inputs_embeds, so the second pass cannot begin with its last token",
        ),
        *(
            (
                lambda known=known: logits_processor(
                    known.pop("processor", lk.Guidance(2)), guidance=GuidancePass(model(), [[5], [6]]), **known
                ),
                BatchMismatch,
                "there are 2 negative prompts for 4 prompts; give one for each prompt of the batch, or one for all",
            )
            for known in (
                {"attention_mask": torch.ones(4, 3)},
                {"prompt": [[5], [6], [7], [8]]},
                {"processor": [lk.Guidance(2)] * 4},
            )
        ),
        (
            lambda: GuidancePass(transformers.RecurrentGemmaForCausalLM(RECURRENT), [[5]]),
            ConfigurationError,
            "RecurrentGemmaForCausalLM keeps the state of the last sequence in its modules, where a second pass would",
        ),
        (
            lambda: logits_processor(
                lk.Guidance(2),
                guidance=GuidancePass(
                    transformers.MiniMaxForCausalLM(transformers.MiniMaxConfig(**SMALL, **HEADS)), [[5]]
                ),
            ),
            ConfigurationError,
            r"the second pass of MiniMaxForCausalLM cannot keep a cache; give GuidancePass\(\.\.\., use_cache=False\)",
        ),
        (
            lambda: generate(inputs(TEXTS), [hook_of(lk.Guidance(2), inputs(NEGATIVES[:2]))]),
            BatchMismatch,
            "there are 2 negative prompts for 3 rows; give one for each prompt of the batch, or one for all",
        ),
    ],
)
def test_what_cannot_run_is_refused(make: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        make()


def test_one_negative_prompt_serves_all_rows() -> None:
    wanted = generate(inputs(TEXTS), [reference(2.0, TEXTS, NEGATIVES[1:2])])
    assert torch.equal(generate(inputs(TEXTS), [hook_of(lk.Guidance(2.0), inputs(NEGATIVES[1:2]))]), wanted)
