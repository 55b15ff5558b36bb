"""Processors that registered factories have made, and their kinds."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

from torch import Tensor

from logitkit.errors import ConfigurationError, LogitkitError, ProcessorError
from logitkit.parameters.place import Place
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind
from logitkit.protocol.not_a_hook import NotAHook
from logitkit.protocol.processor import Processor, is_processor

__all__ = ["Registered", "RegisteredKind"]


@dataclass(frozen=True)
class Registered(NotAHook):
    """A processor that a registered factory has made, with its configuration.

    Two with the same configuration are equal. Each kind has its own subclass, whose attributes are the declarations of the
    factory; all other attributes are those of the processor.

    Args:
        parameters: The parameters in JSON.
        vocabulary_key: The content key of the vocabulary that they were read with.
        processor: The processor that the factory has made.
        eos_ids: The ids that end a row.
    """

    parameters: str
    vocabulary_key: str = field(repr=False)
    processor: Processor[Any] = field(compare=False)
    eos_ids: tuple[int, ...] = field(repr=False, compare=False)

    kind: ClassVar[RegisteredKind]

    def init_state(self, context: Context) -> Any:
        """Return the processor's state after the prompt."""
        return self.processor.init_state(context)

    def advance(self, state: Any, tokens: Tensor) -> Any:
        """Return the state after tokens, [B] or [B, T]."""
        return self.processor.advance(state, tokens)

    def process_logits(self, state: Any, logits: Tensor, context: Context) -> tuple[Any, Tensor]:
        """Return the processor's state and logits."""
        return self.processor.process_logits(state, logits, context)

    def __getattr__(self, name: str) -> Any:
        # `copy` asks for attributes before there is a processor.
        if name.startswith("__") or name == "processor":
            raise AttributeError(name)
        return getattr(self.processor, name)


@dataclass(frozen=True, eq=False, kw_only=True)
class RegisteredKind(Kind):
    """The declarations of a registered factory, which is `make`; `register` explains them."""

    examples: tuple[Mapping[str, Any], ...]
    several: bool
    devices: tuple[str, ...] | None
    reads_host: bool
    parameters_in_state: bool

    def build(self, arguments: dict[str, Any], place: Place) -> Any:
        """Return the processor that the factory makes.

        Raises:
            ConfigurationError: The factory refuses an argument or fails.
            ProcessorError: The factory returns something else.
        """
        text = json.dumps(arguments, sort_keys=True)
        taken = inspect.signature(self.make).parameters
        given = {"vocabulary": place.vocabulary, "limits": place.limits}
        more = {name: value for name, value in given.items() if name in taken and name not in self.parameters}
        try:
            made = self.make(**arguments, **more)
        except Exception as error:
            if isinstance(error, LogitkitError) and not isinstance(error, ConfigurationError):
                raise
            refuses = isinstance(error, ValueError | TypeError)
            reason = str(error) if refuses else f"its factory failed with {type(error).__name__}: {error}"
            raise place.refused(ConfigurationError(reason)) from error
        if not is_processor(made):
            raise ProcessorError(f"the factory of {self.name!r} made a {type(made).__name__}, which is not a processor")
        if type(made).__module__.partition(".")[0] == "logitkit" and isinstance(vars(type(made)).get("kind"), Kind):
            # A shipped processor has its own configuration.
            return made
        assert self.made is not None
        return self.made(text, place.vocabulary.content_key, made, tuple(place.vocabulary.eos_ids))

    def write(self, processor: Any, nested: Callable[[Any], Any]) -> Any:
        """Return the parameters of a processor."""
        if not isinstance(processor, Registered):
            self._check_described(processor)
            return super().write(processor, nested)
        given = json.loads(processor.parameters)
        return given[self.main] if self.main is not None and list(given) == [self.main] else given

    def _check_described(self, processor: Any) -> None:
        """Raise ConfigurationError for a field that no parameter describes, if its value is not its default."""
        for own in fields(processor) if is_dataclass(processor) else ():
            # A field that is not compared does not tell one processor from another.
            if not (own.init and own.compare) or own.name in self.parameters or own.name in ("vocabulary", "limits"):
                continue
            default = own.default_factory() if own.default_factory is not MISSING else own.default
            value = getattr(processor, own.name)
            if isinstance(value, Tensor) or value != default:
                raise ConfigurationError(
                    f"a {type(processor).__name__} with {own.name}={value!r} cannot be written as JSON, because the "
                    f"parameters of {self.name!r} do not describe {own.name!r}; add it to them, or make the processor with "
                    "from_config"
                )
