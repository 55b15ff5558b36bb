"""Processors of other packages, which configurations can name after registration."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from logitkit.configuration.declared_schema import DeclaredSchema
from logitkit.errors import ConfigurationError, LogitkitError, ProcessorError
from logitkit.parameters import Form
from logitkit.parameters.place import Place
from logitkit.protocol.context import Context
from logitkit.protocol.kind import KINDS, Kind, Role, add_kind
from logitkit.protocol.not_a_hook import NotAHook
from logitkit.protocol.processor import Processor, is_processor

__all__ = ["Registered", "RegisteredKind", "register"]

# After the shipped kinds of the same role.
DEFAULT_ORDER = 1000

NAME = re.compile("[a-z][a-z0-9_]{0,63}")


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
            return super().write(processor, nested)
        given = json.loads(processor.parameters)
        return given[self.main] if self.main is not None and list(given) == [self.main] else given


def register(
    name: str,
    factory: Callable[..., Any],
    *,
    parameters: Mapping[str, Mapping[str, Any] | Form] | None = None,
    role: Role | None = None,
    order: int | None = None,
    examples: Sequence[Mapping[str, Any]] | None = None,
    several: bool | None = None,
    reads_prompt: bool | None = None,
    reads_max_length: bool | None = None,
    may_empty_rows: bool | None = None,
    devices: Collection[str] | None = None,
    reads_host: bool | None = None,
    parameters_in_state: bool | None = None,
) -> None:
    """Make your own processor usable by name in configurations.

    An installed package does the same with an entry point in the group `logitkit.processors`: its name is the name of the kind,
    and its object is the factory. A server needs that, because every process finds it there. A declaration that is not passed is
    read from the attribute of the factory with the same name; without one, it has its default.

    Args:
        name: The key in configurations: lowercase letters, digits and `_`. Names of logitkit's own kinds cannot be taken.
        factory: The class of the processor, or a function that returns one. It gets the parameters as keyword arguments, and
            also `vocabulary` if it has a parameter with this name. It refuses values with a ValueError.
        parameters: The JSON Schema of each parameter, by name. A parameter with a default in the factory is optional. If there is
            only one parameter, its value may be written alone.
        role: The kind of change that the processor makes to logits, which decides where it runs in the canonical order. Required.
        order: Its place among the kinds of the same role. Those of logitkit have 0 to 999. Default: 1000, after them.
        examples: Parameters to check the processor with when a server starts. Required if a parameter has no default.
        several: Whether a configuration may hold it several times, in a `chain`. Default: False.
        reads_prompt: Whether it reads the tokens of the prompt. Default: False.
        reads_max_length: Whether it reads the maximum length of a row. Default: False.
        may_empty_rows: Whether it may mask all tokens of a row. Default: True; every row is then checked.
        devices: The types of devices that it supports, such as `["cpu"]`. Default: all. A server on another device refuses
            requests for it.
        reads_host: Whether it reads values of tensors in Python or numpy. Default: False. If True, a server on an accelerator
            processes its rows on the CPU.
        parameters_in_state: Whether its state holds all parameters, so that one processor can process the rows of requests with
            different parameters in one call. Default: False; only requests with equal parameters share a call. When a server
            starts, it checks this with two different `examples`.

    Raises:
        ConfigurationError: A declaration is not allowed, or the name is taken.

    Example:
        >>> from dataclasses import dataclass
        >>> import torch
        >>> import logitkit as lk
        >>> @dataclass(frozen=True)
        ... class OwnTopA:
        ...     a: float
        ...
        ...     def init_state(self, context):
        ...         return ()
        ...
        ...     def advance(self, state, tokens):
        ...         return state
        ...
        ...     def process_logits(self, state, logits, context):
        ...         p = logits.softmax(-1)
        ...         return state, logits.masked_fill(p < self.a * p.amax(-1, keepdim=True) ** 2, -torch.inf)
        >>> unit = {"type": "number", "minimum": 0, "maximum": 1}
        >>> lk.register("own_top_a", OwnTopA, parameters={"a": unit}, role=lk.Role.TRUNCATION, examples=[{"a": 0.2}])
        >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
        >>> lk.to_config(lk.from_config({"own_top_a": 0.5, "temperature": 0.7}, vocabulary))
        {'temperature': 0.7, 'own_top_a': 0.5}
        >>> lk.from_config({"own_top_a": 1.5}, vocabulary)
        Traceback (most recent call last):
            ...
        logitkit.errors.ConfigurationError: config['own_top_a'] is 1.5; allowed is a value of
        {"type": "number", "minimum": 0, "maximum": 1}
    """
    _check_name(name, factory)

    def declared(attribute: str, given: Any, default: Any) -> Any:
        return getattr(factory, attribute, default) if given is None else given

    forms = {
        parameter: form if isinstance(form, Form) else DeclaredSchema(form)
        for parameter, form in declared("parameters", parameters, {}).items()
    }
    required = _required(name, factory, forms)
    found_role = declared("role", role, None)
    if not isinstance(found_role, Role):
        raise ConfigurationError(
            f"the factory of {name!r} has no role; declare one, such as role=logitkit.Role.PENALTY"
        )
    tried = tuple(declared("examples", examples, () if required else ({},)))
    if not tried:
        raise ConfigurationError(f"{name!r} needs examples=[...], because its parameter {required[0]!r} has no default")
    where = declared("devices", devices, None)
    attributes: dict[str, Any] = {
        "role": found_role,
        "reads_prompt": bool(declared("reads_prompt", reads_prompt, False)),
        "reads_max_length": bool(declared("reads_max_length", reads_max_length, False)),
        "__module__": getattr(factory, "__module__", __name__),
    }
    # Without this attribute, the processor may leave a row without a token.
    if declared("may_empty_rows", may_empty_rows, True) is False:
        attributes["may_empty_rows"] = False
    made = type(getattr(factory, "__name__", name), (Registered,), attributes)
    kind = RegisteredKind(
        name=name,
        parameters=forms,
        main=next(iter(forms)) if len(forms) == 1 else None,
        order=declared("order", order, DEFAULT_ORDER),
        role=found_role,
        make=factory,
        made=made,
        examples=tried,
        several=bool(declared("several", several, False)),
        devices=None if where is None else tuple(where),
        reads_host=bool(declared("reads_host", reads_host, False)),
        parameters_in_state=bool(declared("parameters_in_state", parameters_in_state, False)),
    )
    made.kind = kind  # type: ignore[attr-defined]
    add_kind(kind)


def _check_name(name: str, factory: object) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name) or name == "chain":
        raise ConfigurationError(
            f"name is {name!r}; allowed are up to 64 lowercase letters, digits and '_', beginning with a letter, except 'chain'"
        )
    if not callable(factory):
        raise ConfigurationError(f"the factory of {name!r} is a {type(factory).__name__}; pass a class or a function")
    taken = KINDS.get(name)
    if isinstance(taken, RegisteredKind) and taken.make is factory:
        return
    if taken is not None:
        owner = "another package" if isinstance(taken, RegisteredKind) else "logitkit"
        raise ConfigurationError(f"the name {name!r} is taken by {owner}; choose another name")


def _required(name: str, factory: Callable[..., Any], forms: Mapping[str, Form]) -> list[str]:
    """Return the parameters without a default, after a check that the factory takes all parameters and no others."""
    taken = inspect.signature(factory).parameters
    for parameter in forms:
        if parameter not in taken:
            raise ConfigurationError(f"the factory of {name!r} does not take the parameter {parameter!r}")
    for parameter, given in taken.items():
        needed = given.default is inspect.Parameter.empty and given.kind not in (
            inspect.Parameter.VAR_KEYWORD,
            inspect.Parameter.VAR_POSITIONAL,
        )
        if needed and parameter not in forms and parameter not in ("vocabulary", "limits"):
            raise ConfigurationError(
                f"the factory of {name!r} takes {parameter!r}, which `parameters` does not describe"
            )
    return [p for p in forms if taken[p].default is inspect.Parameter.empty]
