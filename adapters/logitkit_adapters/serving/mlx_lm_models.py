"""The tokens of the models that requests to mlx-lm's server name."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

from mlx_lm.utils import _download, load_config, load_tokenizer

from logitkit_adapters.mlx_lm import vocabulary
from logitkit_adapters.serving.refusals import RefusedRequest
from logitkit_adapters.serving.served_model import Options, ServedModel

__all__ = ["MlxLmModels"]

_logger = logging.getLogger(__name__)

# The models that are kept: the server has one at a time.
MOST_MODELS = 2

# The files that say what a model's tokens are.
PATTERNS = ["*.json", "*.py", "*.model", "*.tiktoken", "*.txt", "*.jsonl", "*.jinja"]


class MlxLmModels:
    """The tokens of the models that requests name, read without the model itself, which another thread loads.

    Args:
        provider: The `ModelProvider` of the server.
        options: The options of `logitkit serve`.
    """

    def __init__(self, provider: Any, options: Options) -> None:
        self._provider, self._options = provider, options
        self._lock = threading.Lock()
        self._known: OrderedDict[str, ServedModel] = OrderedDict()
        # A lock for each model that is being read, which can take long: requests for other models do not wait.
        self._reading: dict[str, threading.Lock] = {}

    def prepare(self) -> None:
        """Read the default model in another thread, before the first request comes."""
        if self._provider.cli_args.model is not None:
            threading.Thread(target=self._prepare, name="logitkit-models", daemon=True).start()

    def _prepare(self) -> None:
        try:
            self.of("default_model")
        except Exception:
            _logger.exception("logitkit cannot read the tokens of the model; requests that need them are refused")

    def of(self, name: str) -> ServedModel:
        """Return the model of a name in a request.

        Raises:
            RefusedRequest: Its tokens cannot be read.
        """
        path = self._provider._model_map.get(name, name)  # noqa: SLF001
        if path is None:
            raise RefusedRequest("the server was started without --model; name a model in the request", "model")
        with self._lock:
            reading = self._reading.setdefault(path, threading.Lock())
        with reading:
            try:
                return self._kept(path, self._known.get(path) or self._read(path))
            finally:
                with self._lock:
                    self._reading.pop(path, None)

    def _kept(self, path: str, model: ServedModel) -> ServedModel:
        """Keep a model that is used now, in place of the one that was not used for longest."""
        with self._lock:
            self._known[path] = model
            self._known.move_to_end(path)
            while len(self._known) > MOST_MODELS:
                # Requests that it still compiles for keep it, and its processes end after them.
                self._known.popitem(last=False)
        return model

    def _read(self, path: str) -> ServedModel:
        try:
            extra = self._provider._tokenizer_config  # noqa: SLF001
            folder = _download(path, allow_patterns=PATTERNS)
            config = load_config(folder)
            tokenizer = load_tokenizer(folder, extra, eos_token_ids=config.get("eos_token_id"))
            tokens = vocabulary(tokenizer, SimpleNamespace(args=config))
        except Exception as error:
            raise RefusedRequest(f"the tokens of the model {path!r:.200} cannot be read: {error}", "model") from error
        return ServedModel(tokens, tokenizer._tokenizer, self._options)  # noqa: SLF001
