"""The probabilities of texts equal a sum over all sequences of tokens, and are the same in all engines."""

from __future__ import annotations

import itertools
import math
import re
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.sessions.tokenizations import contexts_of, log_probs_of, tokenizations
from logitkit_adapters.sessions import probabilities
from logitkit_adapters.sessions.engines import batch_engine_of
from tests.sessions.engines import ENGINES, loaded, watched

TOKENS = ["a", "b", "c", "ab", "bc", "abc", "aa", "ba", "Ġ", "Ġa", "</s>", "<end>"]
ENDS = [10, 11]
PROMPT = [8, 3, 0]
LONGEST = 4


@cache
def toy() -> tuple[Any, Any]:
    """Return a random model of 12 tokens, two of which end a text, and its tokenizer."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=12,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
        initializer_range=0.7,
        eos_token_id=ENDS,
        bos_token_id=None,
    )
    merges = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "a"), ("b", "a"), ("Ġ", "a")]
    pieces = Tokenizer(models.BPE({token: i for i, token in enumerate(TOKENS)}, merges))
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, eos_token="</s>", unk_token=None)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<end>"]})
    return transformers.LlamaForCausalLM(config).eval(), tokenizer


@cache
def enumerated() -> tuple[dict[str, float], dict[str, float]]:
    """Return the probability of every text of up to LONGEST tokens, without and with an EOS after it, by brute force."""
    alone: dict[str, float] = {"": 1.0}
    ended: dict[str, float] = {}
    texts = [token.replace("Ġ", " ") for token in TOKENS[:10]]
    for length in range(1, LONGEST + 1):
        rows = torch.tensor(list(itertools.product(range(12), repeat=length)))
        ids = torch.cat([torch.tensor([PROMPT] * len(rows)), rows], 1)
        with torch.no_grad():
            likelihood = (
                toy()[0](input_ids=ids, use_cache=False).logits.double().log_softmax(2)[:, len(PROMPT) - 1 : -1]
            )
        sums = likelihood.gather(2, rows[:, :, None])[:, :, 0].sum(1).exp()
        for row, value in zip(rows.tolist(), sums.tolist(), strict=True):
            if all(i not in ENDS for i in row):
                text = "".join(texts[i] for i in row)
                alone[text] = alone.get(text, 0.0) + value
            elif all(i not in ENDS for i in row[:-1]):
                text = "".join(texts[i] for i in row[:-1])
                ended[text] = ended.get(text, 0.0) + value
    return alone, ended


@given(st.lists(st.text("abc ", max_size=LONGEST), min_size=1, max_size=4, unique=True), st.booleans())
@settings(max_examples=30, deadline=None)
def test_they_equal_enumeration(options: list[str], with_eos: bool) -> None:
    model, tokenizer = toy()
    # EOS is one of the tokens of an enumerated sequence.
    options = [option[: LONGEST - 1] for option in options] if with_eos else options
    options = list(dict.fromkeys(options))
    wanted = [enumerated()[with_eos][option] for option in options]
    total = probabilities(model, tokenizer, PROMPT, options, with_eos=with_eos, normalized=False)
    assert list(total) == options
    assert list(total.values()) == pytest.approx(wanted, rel=1e-4)
    found = probabilities(model, tokenizer, PROMPT, options, with_eos=with_eos)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
    assert list(found.values()) == pytest.approx([value / sum(wanted) for value in wanted], rel=1e-4)


def test_eos_counts_only_if_one_option_begins_another() -> None:
    model, tokenizer = toy()
    for options, with_eos in ((["a", "b"], False), (["a", "ab"], True), (["ab", "b", "a"], True), (["", "b"], True)):
        wanted = probabilities(model, tokenizer, PROMPT, options, with_eos=with_eos)
        assert probabilities(model, tokenizer, PROMPT, options) == wanted
        assert probabilities(model, tokenizer, PROMPT, options, with_eos=not with_eos) != wanted


@given(st.lists(st.text("abc ", min_size=1, max_size=5), min_size=1, max_size=3, unique=True))
@settings(max_examples=20, deadline=None)
def test_tokenizations_are_those_that_a_choice_allows(options: list[str]) -> None:
    vocabulary = lk.Vocabulary([token.replace("Ġ", " ").encode() for token in TOKENS[:10]] + [None] * 2, ENDS)
    choice = lk.Choice(options, vocabulary)
    found = {text: set[tuple[int, ...]]() for text in options}
    begun: list[tuple[int, ...]] = [()]
    while begun:
        row = begun.pop()
        allowed = _allowed(choice, row)
        if ENDS[0] in allowed:
            found[vocabulary.decode(row).decode()].add(row)
        begun += [(*row, token) for token in allowed - {*ENDS}]
    rows = tokenizations(options, vocabulary, 4096)
    assert [len({*one}) for one in rows] == [len(one) for one in rows]
    assert [{*one} for one in rows] == [found[text] for text in options]


def _allowed(choice: lk.Choice, row: tuple[int, ...]) -> set[int]:
    context = lk.Context.of([[]], vocabulary_size=12)
    state = choice.init_state(context)
    if row:
        state = choice.advance(state, torch.tensor([row]))
    return set(choice.process_logits(state, torch.zeros(1, 12), context)[1].isfinite().nonzero()[:, 1].tolist())


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple), min_size=1, max_size=8))
def test_every_position_is_fed_once(rows: list[tuple[int, ...]]) -> None:
    contexts = contexts_of(rows)
    assert contexts == sorted(set(contexts))
    assert not any(a != b and b[: len(a)] == a for a in contexts for b in contexts)
    assert all(any(context[: len(row) - 1] == row[:-1] for context in contexts) for row in rows)

    def logits(prefix: tuple[int, ...]) -> Tensor:
        return torch.randn(4, generator=torch.Generator().manual_seed(hash(prefix) % 2**31))

    found = log_probs_of(rows, contexts, (torch.stack([logits(c[:n]) for n in range(len(c) + 1)]) for c in contexts))
    wanted = [sum(float(logits(row[:n]).log_softmax(0)[token]) for n, token in enumerate(row)) for row in rows]
    assert found == pytest.approx(wanted, rel=1e-4)


QUESTIONS: list[tuple[str, list[str]]] = [
    ("Question: Is Paris in France?\nAnswer:", [" yes", " no"]),
    ("The price of", [" tea", " teas", " coffee", " the tea", ""]),
    ("Name: Emma", [" Brown", "é", "\n"]),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("prompt", "options"), QUESTIONS)
def test_they_are_the_same_in_all_engines(engine: str, prompt: str, options: list[str]) -> None:
    found = probabilities(*loaded(engine), prompt, options)
    wanted = probabilities(*loaded("transformers"), prompt, options)
    assert list(found) == options
    assert found == pytest.approx(wanted, rel=1e-4)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_logits_of_rows_with_common_prefixes(engine: str) -> None:
    prompt, rows = [5, 300, 40], [(7, 8, 9), (7, 8, 10, 11), (7, 20), (30,)]
    found = batch_engine_of(*loaded(engine), None).continuations(prompt, rows)
    for row, logits in zip(rows, found, strict=True):
        with torch.no_grad():
            wanted = loaded("transformers")[0](input_ids=torch.tensor([[*prompt, *row]])).logits[0, len(prompt) - 1 :]
        torch.testing.assert_close(logits, wanted, rtol=0, atol=1e-3)


def test_the_prompt_is_fed_once_and_all_tokenizations_in_one_pass() -> None:
    model, tokenizer = loaded("transformers")
    with watched(model) as fed:
        probabilities(model, tokenizer, "The price of", [" tea", " coffee"])
    prompt = len(tokenizer("The price of")["input_ids"])
    assert fed == [prompt, max(len(option.encode()) for option in (" tea", " coffee")) - 1]


def test_a_batch_that_is_too_large_runs_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from logitkit_adapters.transformers import batch

    arguments = (*loaded("transformers"), "The price of", [" tea", " coffee"])
    whole = probabilities(*arguments)
    monkeypatch.setattr(batch, "MOST_LOGITS", 3 * 6 * 1280)
    with watched(arguments[0]) as fed:
        assert probabilities(*arguments) == pytest.approx(whole, rel=1e-4)
    assert len(fed) > 2


def test_a_model_whose_cache_cannot_be_cut() -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.MambaConfig(
        vocab_size=12, hidden_size=16, num_hidden_layers=2, state_size=4, eos_token_id=ENDS
    )
    model, tokenizer = transformers.MambaForCausalLM(config).eval(), toy()[1]
    found = probabilities(model, tokenizer, PROMPT, ["abc", "aab"], normalized=False)
    texts = [token.replace("Ġ", " ") for token in TOKENS[:10]]
    wanted = dict.fromkeys(found, 0.0)
    for row in itertools.chain(*(itertools.product(range(10), repeat=n) for n in (1, 2, 3))):
        text = "".join(texts[i] for i in row)
        if text in wanted:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([[*PROMPT, *row]])).logits[0].double().log_softmax(1)
            wanted[text] += math.exp(sum(float(logits[len(PROMPT) - 1 + n, token]) for n, token in enumerate(row)))
    assert found == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"prompt": [PROMPT, PROMPT]}, "2 prompts are given; give one"),
        ({"options": []}, "options is \\[\\]; give a list of at least one text"),
        ({"options": "ab"}, "options is 'ab'; give a list"),
        ({"options": ["a", "a"]}, "all different"),
        ({"options": ["a", "b\ud800"]}, "half of a surrogate pair; give whole characters"),
        ({"options": ["a", 1]}, "give a list of at least one text"),
        ({"options": None}, "options is None; give a list"),
        ({"options": re.compile("a|b")}, "options is re.compile.*; give a list"),
        ({"options": ["a", "x"]}, "no tokens that spell 'x'"),
        (
            {"options": ["b", "abcabcabc"], "max_tokenizations": 9},
            "have 65 tokenizations, 64 of them of 'abcabcabc'; at most 9",
        ),
        ({"options": ["cccccccccccccc"]}, "17 tokens, more than the model's 16 positions"),
        ({"max_tokenizations": 0}, "max_tokenizations is 0"),
    ],
)
def test_wrong_arguments(more: dict[str, Any], message: str) -> None:
    given = {"prompt": PROMPT, "options": ["a", "b"], **more}
    with pytest.raises(ConfigurationError, match=message):
        probabilities(*toy(), given.pop("prompt"), given.pop("options"), **given)
