"""The tokenizer of a `Llama`, with the interface of other tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llama_cpp
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

__all__ = ["LlamaTokenizer"]


class LlamaTokenizer:
    """The tokenizer of a `Llama`, with the interface of other tokenizers.

    Args:
        llama: The model.
    """

    def __init__(self, llama: llama_cpp.Llama) -> None:
        self._llama = llama

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Return the tokens of a text, with a BOS if the model uses one."""
        return self._llama.tokenize(text.encode(), add_bos=add_special_tokens, special=True)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens.

        Raises:
            ValueError: An id is out of range, at which llama.cpp would end the process.
        """
        if ids and not 0 <= min(ids) <= max(ids) < self._llama.n_vocab():
            raise ValueError(
                f"a token id is from {min(ids)} to {max(ids)}; the model has {self._llama.n_vocab()} tokens"
            )
        return self._llama.detokenize(list(ids)).decode("utf-8", "replace")

    @property
    def chat_template(self) -> str | None:
        """The chat template of the model's file, if any."""
        return self._llama.metadata.get("tokenizer.chat_template")

    def apply_chat_template(
        self, messages: list[Any], add_generation_prompt: bool = True, tokenize: bool = True
    ) -> list[int] | str:
        """Return a chat as tokens or text, by the template in the model's file.

        Raises:
            ValueError: The file has no template.
        """
        if self.chat_template is None:
            raise ValueError("the model's file has no chat template")
        eos, bos = self._name(self.eos_token_id), self._name(self.bos_token_id)
        formatter = Jinja2ChatFormatter(self.chat_template, eos, bos, add_generation_prompt)
        text = formatter(messages=messages).prompt
        return self.encode(text, add_special_tokens=False) if tokenize else text

    @property
    def bos_token_id(self) -> int | None:
        """The id of BOS, if any."""
        return _id(self._llama.token_bos())

    @property
    def eos_token_id(self) -> int | None:
        """The id of EOS, if any."""
        return _id(self._llama.token_eos())

    def _name(self, token: int | None) -> str:
        vocab = llama_cpp.llama_model_get_vocab(self._llama.model)
        return "" if token is None else llama_cpp.llama_vocab_get_text(vocab, token).decode("utf-8", "replace")


def _id(token: int) -> int | None:
    return token if token >= 0 else None
