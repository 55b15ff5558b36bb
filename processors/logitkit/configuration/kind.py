"""One kind of processor in a configuration: its name, its class and its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from logitkit.automata.limits import DEFAULT_LIMITS
from logitkit.configuration.forms import Form
from logitkit.configuration.place import Place, shown
from logitkit.errors import ConfigurationError

__all__ = ["Kind", "unknown_key"]

# A longer one is no misspelling, and not looked at.
LONGEST_KEY = 64


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of processor.

    Args:
        name: Its key in a configuration.
        make: Makes a processor of parameters by their names; the class itself, or the function that users call.
        made: The class of what is made.
        parameters: The form of each parameter.
        main: The parameter that may stand alone, without an object around it.
        bare: Whether it always stands alone, being an object itself.
        wrapped: Whether it may be an object itself, if none of its members has the name of a parameter.
        unwritten: Parameters of which JSON can say None only, by their absence.
    """

    name: str
    make: Callable[..., Any]
    made: type
    parameters: Mapping[str, Form]
    main: str | None = None
    bare: bool = False
    wrapped: bool = False
    unwritten: tuple[str, ...] = ()

    @property
    def defaults(self) -> dict[str, Any]:
        """The parameters that may be left out, with what they then are."""
        given = inspect.signature(self.make).parameters
        return {n: given[n].default for n in self.parameters if given[n].default is not inspect.Parameter.empty}

    @property
    def required(self) -> list[str]:
        """The parameters that must be given."""
        return [name for name in self.parameters if name not in self.defaults]

    def read(self, value: Any, place: Place) -> Any:
        """Return the processor that a value stands for.

        Raises:
            ConfigurationError: A parameter is unknown, missing or not allowed.
            LogitkitError: What the processor itself refuses.
        """
        place.count()
        if isinstance(value, Mapping) and not self._alone(value):
            arguments = self._arguments(value, place)
        elif self.main is not None:
            arguments = {self.main: self.parameters[self.main].read(value, place)}
        else:
            raise place.refuse(value, f"an object with {', '.join(self.parameters)}")
        taken = inspect.signature(self.make).parameters
        if "vocabulary" in taken:
            arguments["vocabulary"] = place.vocabulary
        # Otherwise each kind has its own.
        if "limits" in taken and place.limits is not DEFAULT_LIMITS:
            arguments["limits"] = place.limits
        try:
            return self.make(**arguments)
        except ConfigurationError as error:
            raise place.refused(error) from None

    def _alone(self, value: Mapping[Any, Any]) -> bool:
        """Whether an object is the main parameter itself."""
        return self.bare or (self.wrapped and self.parameters.keys().isdisjoint(value))

    def _arguments(self, value: Mapping[Any, Any], place: Place) -> dict[str, Any]:
        for key in value:
            if key not in self.parameters:
                raise unknown_key(place, key, self.parameters)
        missing = [name for name in self.required if name not in value]
        if missing:
            raise ConfigurationError(f"{place.path} lacks {missing[0]!r}: {self.parameters[missing[0]].allowed}")
        return {key: self.parameters[key].read(given, place.inside(key)) for key, given in value.items()}

    def write(self, processor: Any) -> Any:
        """Return the value that stands for a processor of this kind, without what is as by default.

        Raises:
            ConfigurationError: JSON cannot say it.
        """
        for name in self.unwritten:
            if getattr(processor, name) is not None:
                raise ConfigurationError(f"a {self.made.__name__} with {name}=... has no JSON form")
        defaults = self.defaults
        given = {name: getattr(processor, name) for name in self.parameters}
        told = {
            name: self.parameters[name].write(argument)
            for name, argument in given.items()
            if name not in defaults or argument != defaults[name]
        }
        if self.main is None or list(told) != [self.main]:
            return told
        alone = told[self.main]
        return told if isinstance(alone, Mapping) and not self._alone(alone) else alone

    def schema(self) -> dict[str, Any]:
        """Describe the values in JSON Schema."""
        forms = {name: form.schema() for name, form in self.parameters.items()}
        parameters = {"type": "object", "properties": forms, "required": self.required, "additionalProperties": False}
        if self.bare:
            return forms[str(self.main)]
        alone = self.main is not None and self.required in ([], [self.main])
        return {"anyOf": [forms[str(self.main)], parameters]} if alone else parameters


def unknown_key(place: Place, key: object, known: Mapping[str, Any]) -> ConfigurationError:
    """Return the error for a key that a configuration must not have."""
    near = get_close_matches(key, known, n=1) if isinstance(key, str) and len(key) < LONGEST_KEY else []
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return ConfigurationError(f"{place.path} has the unknown key {shown(key)}{hint} Allowed are {', '.join(known)}")
