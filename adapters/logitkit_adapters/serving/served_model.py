"""What a server knows of a model that it serves: its tokens, the format in which it writes calls, and how to compile for it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from logitkit import Vocabulary
from logitkit.errors import ConfigurationError
from logitkit.protocol.processor import Processor
from logitkit.tools import ToolFormat
from logitkit.tools.formats.known_formats import format_of
from logitkit_adapters.admission.clients import NOBODY, Client
from logitkit_adapters.serving.admission import Admission
from logitkit_adapters.serving.refusals import RefusedRequest
from logitkit_adapters.serving.requests import ServedRequest, read_request

__all__ = ["Options", "ServedModel"]


@dataclass(frozen=True)
class Options:
    """The options of `logitkit serve`.

    Args:
        tool_format: The name of the format in which the model writes calls, or `"auto"`: as its chat template writes them.
        reasoning: Whether turns with tools begin with reasoning.
    """

    tool_format: str = "auto"
    reasoning: bool = False


class ServedModel:
    """A model of a server.

    Args:
        vocabulary: Its tokens.
        template: Its chat template, as text or as a tokenizer; None: it has none.
        options: The options of the operator.
        only_stops: Why requests to it may have stops only, and no processors; None: they may have any.
    """

    def __init__(
        self, vocabulary: Vocabulary, template: Any, options: Options, *, only_stops: str | None = None
    ) -> None:
        self.vocabulary = vocabulary
        self._only_stops = only_stops
        self._template, self._options = template, options
        self._admission = Admission(vocabulary)
        self._form: ToolFormat | ConfigurationError | None = None
        self._lock = threading.Lock()

    def read(self, body: Mapping[str, Any], max_tokens: int | None = None) -> ServedRequest | None:
        """Read the body of a request, as `read_request` does.

        Args:
            body: The body.
            max_tokens: The maximum number of tokens if the request does not say it.

        Raises:
            RefusedRequest: It is not allowed.
        """
        asked = read_request(body, self.tool_format, max_tokens=max_tokens, reasoning=self._options.reasoning)
        if asked is not None and asked.configs and self._only_stops is not None:
            raise RefusedRequest(self._only_stops)
        return asked

    def processor(self, asked: ServedRequest, client: Client = NOBODY) -> Processor[Any] | None:
        """Return the processor of a request, as `Admission.processor` does."""
        return self._admission.processor(asked, client)

    async def processor_async(self, asked: ServedRequest, client: Client = NOBODY) -> Processor[Any] | None:
        """Return the processor of a request, as `Admission.processor_async` does."""
        return await self._admission.processor_async(asked, client)

    def tool_format(self) -> ToolFormat:
        """Return the format in which the model writes calls, derived from its chat template when it is first asked for.

        Raises:
            RefusedRequest: It cannot be derived.
        """
        with self._lock:
            if self._form is None:
                try:
                    self._form = format_of(self._options.tool_format, self._template)
                except ConfigurationError as error:
                    self._form = error
        if isinstance(self._form, ConfigurationError):
            raise RefusedRequest(
                "tools are given, but the format in which the model writes calls is not known. The operator can name it: "
                f"logitkit serve --tool-format NAME ... ({self._form})",
                "tools",
            )
        return self._form

    def close(self) -> None:
        """End the processes that compile for the model."""
        self._admission.close()
