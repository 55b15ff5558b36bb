"""A configuration inside a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logitkit.chain import Chain
from logitkit.configuration.place import Place
from logitkit.processor import Processor


class Nested:
    """A whole configuration, of what stands inside a processor."""

    allowed = "a configuration of its own"

    def fits(self, value: object) -> bool:
        """Whether it is an object, or a processor to be written."""
        return isinstance(value, Mapping | Processor)

    def read(self, value: Any, place: Place) -> Any:
        """Return the processor."""
        from logitkit.configuration.reading import read  # reading knows the kinds, and some kinds hold others

        made = read(value, place.nested())
        # Several constraints are one, their intersection.
        return made.processors[0] if isinstance(made, Chain) and len(made.processors) == 1 else made

    def write(self, value: Any) -> Any:
        """Return the configuration of a processor."""
        from logitkit.configuration.writing import to_config

        return to_config(value)

    def schema(self) -> dict[str, Any]:
        """Refer to the schema of all configurations."""
        return {"$ref": "#/$defs/config"}
