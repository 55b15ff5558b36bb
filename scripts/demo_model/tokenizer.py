"""A byte-level BPE tokenizer for the demo model, trained on its text."""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

PAD, BOS, EOS = "<pad>", "<s>", "</s>"
PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
VOCABULARY_SIZE = 1280


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Train a GPT-2 style byte-level BPE: every byte has a token, and digits never merge.

    Args:
        texts: The documents to learn merges from.

    Returns:
        A tokenizer of `VOCABULARY_SIZE` tokens; ids 0, 1 and 2 are `<pad>`, `<s>` and `</s>`. It does not
        add any of them itself.
    """
    tokenizer = Tokenizer(models.BPE())
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    # Digits are split off during training only. Without a merge that contains a digit, the plain GPT-2 split
    # also gives one token per digit, so engines that support only that split produce the same tokens.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), plain])
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=[PAD, BOS, EOS],  # these get the first ids, in this order
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.pre_tokenizer = plain
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, max_length: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`, the two files from which `AutoTokenizer` loads.

    Args:
        tokenizer: A tokenizer from `train_tokenizer`.
        folder: An existing folder.
        max_length: The maximum length of a text, in tokens.
    """
    tokenizer.save(str(folder / "tokenizer.json"))
    # Written by hand: `save_pretrained` names a class that older releases of transformers do not have.
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
        "padding_side": "left",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
