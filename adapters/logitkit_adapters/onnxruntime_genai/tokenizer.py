"""The tokenizer of a model's folder, with the interface of other tokenizers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from logitkit.errors import ConfigurationError, VocabularyError
from logitkit_adapters.loaded_class import is_instance, needed_for

with needed_for("onnxruntime_genai", "onnxruntime-genai", "onnx"):
    import onnxruntime_genai as og

__all__ = ["Tokenizer"]


class Tokenizer:
    """The tokenizer of a model: that of ONNX Runtime GenAI encodes texts, and the file with its tokens decodes them.

    `onnxruntime_genai.Tokenizer` cannot say which bytes a token stands for, since it decodes only complete characters. The file
    `tokenizer.json` in the model's folder can.

    Args:
        model: The `onnxruntime_genai.Model`.
        folder: The folder from which it was loaded.
        backend: The `tokenizers.Tokenizer` of the file.

    Raises:
        ConfigurationError: `model` is not a model of ONNX Runtime GenAI.
        VocabularyError: The folder has no `tokenizer.json`, or that of another model.

    Example:
        >>> import onnxruntime_genai
        >>> from logitkit_adapters.demo import onnx_dir
        >>> from logitkit_adapters.onnxruntime_genai import Tokenizer
        >>> tokenizer = Tokenizer(onnxruntime_genai.Model(str(onnx_dir())), onnx_dir())
        >>> tokenizer.encode("The price of")
        [280, 661, 509]
        >>> tokenizer.decode([280, 661, 509])
        'The price of'
    """

    def __init__(self, model: og.Model, folder: str | os.PathLike[str]) -> None:
        if not is_instance(model, "onnxruntime_genai", "Model"):
            raise ConfigurationError(f"model is of type {type(model).__name__}; give an onnxruntime_genai.Model")
        self.folder = Path(folder)
        if not (self.folder / "tokenizer.json").is_file():
            raise VocabularyError(
                f"{self.folder} has no tokenizer.json; give the folder from which the model was loaded, or a tokenizer of "
                "transformers"
            )
        self.model = model
        self._own: Any = og.Tokenizer(model)
        self._inside: Any = og.Tokenizer(model)
        self._inside.update_options(add_special_tokens="false")
        with needed_for("onnxruntime_genai", "tokenizers", "onnx"):
            import tokenizers
        self.backend: Any = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self._check_folder()

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Return the tokens of a text, with a BOS if the model's tokenizer adds one.

        Raises:
            ConfigurationError: The text has a NUL character, at which ONNX Runtime GenAI would stop reading.
        """
        if "\0" in text:
            raise ConfigurationError(
                f"a text has a NUL as its character {text.index(chr(0))}, where ONNX Runtime GenAI would stop reading; "
                "take it out, or give token ids"
            )
        found = (self._own if add_special_tokens else self._inside).encode(text)
        return [int(i) for i in found]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens.

        Raises:
            ValueError: An id is not a token id.
        """
        given = list(ids)
        if given and not 0 <= min(given) <= max(given) < 2**31:
            raise ValueError(f"a token id is from {min(given)} to {max(given)}; allowed are ids from 0")
        return str(self.backend.decode(given, skip_special_tokens=True))

    @property
    def chat_template(self) -> str | None:
        """The chat template of the model's folder, if any."""
        file = self.folder / "chat_template.jinja"
        if file.is_file():
            return file.read_text("utf-8")
        file = self.folder / "tokenizer_config.json"
        config = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        found = config.get("chat_template")
        return found if isinstance(found, str) else None

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True, tokenize: bool = True
    ) -> list[int] | str:
        """Return a chat as tokens or text, by the template of the model's folder.

        Raises:
            ValueError: There is no template, or it refuses the messages.
        """
        template = self.chat_template
        if template is None:
            raise ValueError(f"{self.folder} has no chat template")
        given = json.dumps(list(messages))
        try:
            text = self._own.apply_chat_template(
                given, template_str=template, add_generation_prompt=add_generation_prompt
            )
        except RuntimeError as error:
            raise ValueError(f"ONNX Runtime GenAI cannot apply the chat template: {error}") from error
        return self.encode(text, add_special_tokens=False) if tokenize else str(text)

    @property
    def bos_token_id(self) -> int:
        """The id of BOS."""
        return int(self._own.bos_token_id)

    @property
    def eos_token_ids(self) -> list[int]:
        """The ids that end a text."""
        return [int(i) for i in self._own.eos_token_ids]

    @property
    def pad_token_id(self) -> int:
        """The id of padding."""
        return int(self._own.pad_token_id)

    def _check_folder(self) -> None:
        """Compare what the engine and the file make of the same ids."""
        ids = self.backend.encode(_PROBE, add_special_tokens=False).ids
        found = str(self._own.decode(np.array(ids, np.int32))).strip()
        if found != _PROBE:
            raise VocabularyError(
                f"tokenizer.json in {self.folder} has other tokens than the model: its ids of {_PROBE!r} are {found!r} to the "
                "model; give the folder from which the model was loaded"
            )


_PROBE = "The quick brown fox (31 years old) jumps over 1250 lazy dogs."
