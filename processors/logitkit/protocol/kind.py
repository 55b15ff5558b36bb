"""The JSON form of a class of processors, and the registry of all classes that have one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS
from logitkit.parameters.form import Form
from logitkit.parameters.place import Place, shown

__all__ = ["KINDS", "Kind", "Role", "add_kind", "unknown_key"]

# Longer keys are not misspellings, and are not compared.
LONGEST_KEY = 64


class Role(IntEnum):
    """The kind of change that a processor makes to logits, in the canonical order of a chain.

    A constraint never follows a truncation, because all tokens that a truncation keeps may be illegal.
    """

    BIAS = 0
    PENALTY = 1
    CONSTRAINT = 2
    TEMPERATURE = 3
    TRUNCATION = 4
    WATERMARK = 5


@dataclass(frozen=True, eq=False)
class Kind:
    """The JSON form of a class of processors, set as its attribute `kind`.

    Args:
        name: Its key in a configuration.
        parameters: The form of each parameter, by argument name.
        main: The parameter whose value may be written alone, without an object around it.
        order: Its place among kinds of the same role in the canonical order, ascending; equal ones are ordered by name.
        bare: Whether the main parameter is always written alone, because its value is an object.
        wrapped: Whether the main parameter's value may be an object, if none of its members has the name of a parameter.
        unwritten: Parameters that have no JSON form except None, which is written by leaving them out.
        neutral: Arguments with which the class leaves all logits unchanged, bit for bit. They imply that all parameters are in
            the state, so that one processor can process the rows of all. None: the class has no such arguments, or has
            `neutral_state`.
        role: The role of the class; filled in.
        make: Creates a processor from parameters by name. It also gets `vocabulary` and `limits` if it has these parameters.
            Filled in: the classmethod `configured` of the class, or the class itself.
        made: The class of the processors; filled in.
    """

    name: str
    parameters: Mapping[str, Form]
    main: str | None = None
    order: int = 0
    bare: bool = False
    wrapped: bool = False
    unwritten: tuple[str, ...] = ()
    neutral: Mapping[str, Any] | None = None
    role: Role | None = None
    make: Callable[..., Any] = dict
    made: type | None = None

    @property
    def rank(self) -> tuple[int, int, str]:
        """The sort key of the canonical order; a kind without a role comes last."""
        return (len(Role) if self.role is None else self.role), self.order, self.name

    @property
    def defaults(self) -> dict[str, Any]:
        """The optional parameters, with their default values."""
        given = inspect.signature(self.make).parameters
        return {n: given[n].default for n in self.parameters if given[n].default is not inspect.Parameter.empty}

    @property
    def required(self) -> list[str]:
        """The required parameters."""
        return [name for name in self.parameters if name not in self.defaults]

    def read(self, value: Any, place: Place) -> Any:
        """Return the processor for a configuration value.

        Raises:
            ConfigurationError: A parameter is unknown, missing or not allowed.
            LogitkitError: The processor itself refuses an argument.
        """
        place.count()
        if isinstance(value, Mapping) and not self._alone(value):
            arguments = self._arguments(value, place)
        elif self.main is not None:
            arguments = {self.main: self.parameters[self.main].read(value, place)}
        else:
            secret = any(form.secret for form in self.parameters.values())
            raise place.refuse(value, f"an object with {', '.join(self.parameters) or 'no members'}", secret=secret)
        return self.build(arguments, place)

    def build(self, arguments: dict[str, Any], place: Place) -> Any:
        """Return the processor for arguments that have been read, or raise as `read` does."""
        taken = inspect.signature(self.make).parameters
        if "vocabulary" in taken:
            arguments["vocabulary"] = place.vocabulary
        # With default limits, each kind uses its own.
        if "limits" in taken and place.limits is not DEFAULT_LIMITS:
            arguments["limits"] = place.limits
        try:
            return self.make(**arguments)
        except ConfigurationError as error:
            raise place.refused(error) from None

    def _alone(self, value: Mapping[Any, Any]) -> bool:
        """Whether an object is the value of the main parameter."""
        return self.bare or (self.wrapped and self.parameters.keys().isdisjoint(value))

    def _arguments(self, value: Mapping[Any, Any], place: Place) -> dict[str, Any]:
        for key in value:
            if key not in self.parameters:
                raise unknown_key(place, key, self.parameters)
        missing = [name for name in self.required if name not in value]
        if missing:
            raise ConfigurationError(f"{place.path} lacks {missing[0]!r}: {self.parameters[missing[0]].allowed}")
        return {key: self.parameters[key].read(given, place.inside(key)) for key, given in value.items()}

    def write(self, processor: Any, nested: Callable[[Any], Any]) -> Any:
        """Return the configuration value of a processor of this kind, without parameters that have their defaults.

        Args:
            processor: The processor.
            nested: Returns the configuration of a processor inside this one.

        Raises:
            ConfigurationError: The processor has no JSON form.
        """
        for name in self.unwritten:
            if getattr(processor, name) is not None:
                raise ConfigurationError(f"a {type(processor).__name__} with {name}=... has no JSON form")
        defaults = self.defaults
        given = {name: getattr(processor, name) for name in self.parameters}
        written = {
            name: self.parameters[name].write(nested(argument) if hasattr(argument, "process_logits") else argument)
            for name, argument in given.items()
            if name not in defaults or argument != defaults[name]
        }
        if self.main is None or list(written) != [self.main]:
            return written
        alone = written[self.main]
        return written if isinstance(alone, Mapping) and not self._alone(alone) else alone

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the values."""
        forms = {name: form.schema() for name, form in self.parameters.items()}
        parameters = {"type": "object", "properties": forms, "required": self.required, "additionalProperties": False}
        if self.bare:
            return forms[str(self.main)]
        alone = self.main is not None and self.required in ([], [self.main])
        return {"anyOf": [forms[str(self.main)], parameters]} if alone else parameters


# Parameters by name, kinds in the canonical order.
KINDS: dict[str, Kind] = {}


def add_kind(kind: Kind) -> None:
    """Register a kind for configurations."""
    KINDS[kind.name] = kind
    ordered = sorted(KINDS.values(), key=lambda k: k.rank)
    KINDS.clear()
    KINDS.update((k.name, k) for k in ordered)


def unknown_key(place: Place, key: object, known: Mapping[str, Any]) -> ConfigurationError:
    """Return the error for an unknown key in a configuration."""
    near = get_close_matches(key, known, n=1) if isinstance(key, str) and len(key) < LONGEST_KEY else []
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return ConfigurationError(f"{place.path} has the unknown key {shown(key)}{hint} Allowed are {', '.join(known)}")
