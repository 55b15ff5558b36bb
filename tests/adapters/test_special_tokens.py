"""The names of special tokens, read out of real tokenizers."""

from __future__ import annotations

from typing import Any

import pytest
import tiktoken
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from tokenizers import AddedToken

import logitkit as lk
from logitkit.errors import VocabularyError
from logitkit_adapters.tokenizers import model_vocabulary, vocabulary
from tests.adapters import demo
from tests.adapters import tokenizer_zoo as zoo
from tests.adapters.tokenizer_zoo import known

# The names that a user would write, in tokenizers that have them.
EXPECTED = {
    "demo model": {"<pad>": 0, "<s>": 1, "</s>": 2},
    "byte-level BPE": {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3},
    "byte-level BPE, bare": {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3},
    "Llama": {"<unk>": 0, "<s>": 1, "</s>": 2},
    "Unigram with byte fallback": {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3},
    "SentencePiece, bare": {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3, "<call>": 4},
    "mistral-common SentencePiece in transformers": {"<unk>": 0, "<s>": 1, "</s>": 2, "[INST]": 3, "[/INST]": 4},
    "mistral-common Tekken in transformers": {"<unk>": 0, "<s>": 1, "</s>": 2, "[INST]": 3, "[AVAILABLE_TOOLS]": 5},
}


@pytest.mark.parametrize("name", zoo.LOSSLESS)
def test_every_id_without_text_has_its_name(name: str) -> None:
    tokenizer, vocab = known(name)
    assert vocab.special.items() >= EXPECTED.get(name, {"<unk>": 0, "<s>": 1, "</s>": 2}).items() or "converted" in name
    nameless = {i for i, token in enumerate(vocab.tokens) if token is None} - {*vocab.special.values()}
    assert not nameless
    for text, token in vocab.special.items():
        assert vocab.tokens[token] in (None, text.encode())
        if hasattr(tokenizer, "convert_tokens_to_ids"):
            assert tokenizer.convert_tokens_to_ids(text) == token


def test_added_tokens_that_are_named_like_special_ones_keep_their_text() -> None:
    """As Qwen3 has `<think>`: an added token that its tokenizer does not call special."""
    for tokenizer in (zoo.wrapped(zoo.byte_level()), zoo.wrapped(zoo.gemma()), zoo.slow("bpe")):
        added = ["<think>", AddedToken("</think>", normalized=False), "qqq", "[x]", "<a b>", "▁▁▁"]
        tokenizer.add_tokens(added)
        tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
        vocab = vocabulary(tokenizer)
        ids = {name: tokenizer.convert_tokens_to_ids(name) for name in ("<think>", "</think>", "[x]", "<|im_end|>")}
        assert vocab.special.items() >= ids.items()
        assert [vocab.tokens[i] for i in ids.values()] == [b"<think>", b"</think>", b"[x]", None]
        assert not {"qqq", "<a b>", "▁▁▁", "\n\n\n"} & vocab.special.keys()
        budget = lk.ThinkingBudget(0, "</think>", vocab)
        assert budget.automaton.next(2, ids["</think>"]) > 2
        # Its text is text: it may be part of a longer marker, and what names it by its bytes means it.
        assert lk.then(None, lk.Regex("a", vocab), "\n</think>\n").automaton.states > 3


def test_word_pieces_have_the_names_of_their_special_tokens() -> None:
    vocab = vocabulary(zoo.bert(), eos_ids=3)
    assert vocab.special == {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}


def test_tiktoken_and_tekken_have_theirs() -> None:
    ranks = {bytes([b]): b for b in range(256)}
    special = {"<|endoftext|>": 257, "<|im_start|>": 258}
    encoding = tiktoken.Encoding("small", pat_str=r"\w+|\W+", mergeable_ranks=ranks, special_tokens=special)
    assert vocabulary(encoding).special == special
    inner: Any = MistralTokenizer.v3(is_tekken=True).instruct_tokenizer.tokenizer
    vocab = vocabulary(inner)
    assert len(vocab.special) == 1000
    assert {name: vocab.special[name] for name in ("</s>", "[INST]", "[TOOL_CALLS]")} == {
        "</s>": 2,
        "[INST]": inner.get_special_token("[INST]"),
        "[TOOL_CALLS]": inner.get_special_token("[TOOL_CALLS]"),
    }


def test_ends_of_the_model_come_to_those_of_the_tokenizer() -> None:
    from logitkit_adapters.transformers import vocabulary as of_transformers

    class Model:
        config: Any = None
        generation_config: Any = None

    class Config:
        def __init__(self, **values: Any) -> None:
            self.__dict__.update(values)

    tokenizer, model = demo.tokenizer(), Model()
    for generation, config, expected in (
        (Config(eos_token_id=[2, 1]), Config(eos_token_id=7), (1, 2)),
        (Config(eos_token_id=1), Config(), (1, 2)),
        (Config(eos_token_id=None), Config(eos_token_id=[7]), (2, 7)),
        (None, Config(text_config=Config(eos_token_id=7, vocab_size=1300)), (2, 7)),
        (None, Config(), (2,)),
    ):
        model.generation_config, model.config = generation, config
        assert of_transformers(tokenizer, model).eos_ids == expected
        assert of_transformers(tokenizer, model, eos_ids=5).eos_ids == (5,)
    assert of_transformers(tokenizer, model).size == 1280
    model.config = Config(vocab_size=1300)
    assert of_transformers(tokenizer, model).size == 1300
    assert of_transformers(tokenizer, model, size=1400).size == 1400
    # Tokens that the model has no logits for.
    model.config = Config(vocab_size=1000, eos_token_id=[2, 1200])
    smaller = of_transformers(tokenizer, model)
    assert (smaller.size, smaller.eos_ids) == (1000, (2,))
    with pytest.raises(VocabularyError, match="model is of type str; give the transformers model that generates"):
        of_transformers(tokenizer, "gpt2")


def test_the_demo_model_says_how_many_columns_there_are() -> None:
    from logitkit_adapters.hooks import columns_of, ends_of

    assert (columns_of(demo.model()), ends_of(demo.model())) == (1280, [2])
    assert model_vocabulary(demo.tokenizer(), [2], 1280) == demo.vocabulary()
