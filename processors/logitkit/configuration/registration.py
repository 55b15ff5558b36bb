"""Registration of processors of other packages, which configurations can then name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from logitkit.configuration.declared_schema import DeclaredSchema
from logitkit.configuration.registered import Registered, RegisteredKind
from logitkit.configuration.shipped_kinds import KINDS
from logitkit.errors import ConfigurationError
from logitkit.parameters import Form
from logitkit.protocol.kind import Role, add_kind

__all__ = ["register"]

# After the shipped kinds of the same role.
DEFAULT_ORDER = 1000

NAME = re.compile("[a-z][a-z0-9_]{0,63}")


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
        raise ConfigurationError(
            f"the factory of {name!r} is of type {type(factory).__name__}; pass a class or a function"
        )
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
        needed = given.default is given.empty and given.kind not in (given.VAR_KEYWORD, given.VAR_POSITIONAL)
        if needed and parameter not in {*forms, "vocabulary", "limits"}:
            raise ConfigurationError(
                f"the factory of {name!r} takes {parameter!r}, which `parameters` does not describe"
            )
    return [p for p in forms if taken[p].default is inspect.Parameter.empty]
