"""Everything that is accepted as an output type, and advice on everything else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from logitkit.errors import ConfigurationError
from logitkit.json_schema.document import load
from logitkit.json_schema.python_types import typed_schema
from logitkit.languages.language import Language
from logitkit.languages.texts import RegexText
from logitkit.output_types.definitions import (
    JsonOutput,
    LanguageOutput,
    ProcessorOutput,
    ToolsOutput,
)
from logitkit.output_types.output_type import OutputType
from logitkit.patterns.flags import with_flags
from logitkit.protocol.processor import check_is_processor, is_processor, looks_like_processor
from logitkit.tools.tool_set import ToolSet
from logitkit.tools.tools import Tools
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["output_type_of"]

# Classes that pydantic might take for a type of data.
DEFINITIONS = (Language, OutputType, ToolSet, Vocabulary, re.Pattern)


def output_type_of(given: object, name: str = "output_type") -> OutputType:
    r"""Return the output type of a processor, a language, tools, a compiled pattern, a Python type or a schema.

    The model writes JSON for a type, even for `str`: the outputs of `Literal["a", "b"]` are `"a"` and `"b"`, with quotes. Objects
    have only the members of the type, unless the type keeps others (`extra="allow"`). A schema is not changed.

    Args:
        given: A processor; a language of `logitkit.languages`; `logitkit.Tools`; `re.compile(...)`; a JSON Schema as a dict or a
            bool; or a type: a pydantic model, a dataclass, a `TypedDict`, `Literal`, an `Enum`, `int`, `date`, `list[int]`,
            `X | None` or a `TypeAdapter`.
        name: The argument's name, for errors.

    Returns:
        The output type, which compiles to a constraint and reads an output as a value.

    Raises:
        ConfigurationError: It is something else, such as a text, a list or the class of a processor, or a type without a JSON
            Schema.

    Example:
        >>> import re
        >>> output_type_of(list[int]).value("[1,2]", [], None)
        [1, 2]
        >>> output_type_of(re.compile("[a-z]+", re.IGNORECASE)).config()
        {'regex': '(?i)[a-z]+'}
    """
    if isinstance(given, type) and (looks_like_processor(given) or issubclass(given, DEFINITIONS)):
        raise ConfigurationError(f"{name} is the class {given.__name__}; create an instance, {given.__name__}(...)")
    if is_processor(given):
        return ProcessorOutput(given)
    if isinstance(given, Language):
        return LanguageOutput(given)
    if isinstance(given, Tools):
        return ToolsOutput(given)
    if isinstance(given, re.Pattern):
        return LanguageOutput(RegexText(with_flags(given, name)))
    if isinstance(given, str):
        raise ConfigurationError(
            f"{name} is the text {given!r:.60}, which may mean a pattern, a schema or the output itself; give re.compile(text), "
            "json.loads(text) or logitkit.languages.literal(text)"
        )
    if isinstance(given, list | tuple):
        raise ConfigurationError(
            f"{name} is a {type(given).__name__} of {len(given)}; logitkit.chain(first, second) makes one processor of several, "
            "and logitkit.languages.choice([...]) allows one of several texts"
        )
    if isinstance(given, Mapping | bool):
        return JsonOutput(load(given), json.loads)
    found = typed_schema(given)
    if found is not None:
        return JsonOutput(load(found[0]), found[1], given)
    check_is_processor(
        given, name, "a Python type, a JSON Schema as a dict, re.compile(...), logitkit.Tools or a language"
    )
    raise AssertionError
