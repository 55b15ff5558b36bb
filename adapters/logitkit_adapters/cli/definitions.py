"""The definitions of constraints that commands take as arguments, and the vocabularies to compile them for."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from logitkit_adapters.cli.imported import imported, names_type
from logitkit_adapters.cli.usage import UsageError, ctrl_c_exits, text_argument

__all__ = ["KINDS", "add_shared", "compiled"]

# The kinds of definition: the form of the argument, and what it is.
KINDS = {
    "regex": ("PATTERN", "a regular expression (write --regex=PATTERN if it begins with -)"),
    "schema": (
        "SCHEMA",
        "a JSON Schema; JSON, a file, - for standard input, or a Python type such as a pydantic model, as package.module:Name",
    ),
    "tools": ("TOOLS", "a JSON list of tools in OpenAI's format; JSON, a file, or - for standard input"),
    "grammar": ("FILE", "a file with a grammar in GBNF or Lark's syntax; - reads it from standard input"),
}

# The options of each kind, with the arguments of argparse.
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "regex": {},
    "schema": {
        "whitespace": {
            "choices": ("compact", "spaced", "bounded"),
            "help": "the white space to allow: none, one space after commas and colons, or all of json.dumps (default: compact)",
        }
    },
    "tools": {
        "format": {"metavar": "NAME", "help": "the call format of the model (default: hermes)"},
        "choice": {
            "metavar": "CHOICE",
            "help": "auto, required, none, or the name of the only tool (default: required, so that the examples are calls)",
        },
    },
    "grammar": {
        "syntax": {
            "choices": ("gbnf", "lark"),
            "help": "its syntax (default: lark for a file named *.lark, otherwise gbnf)",
        },
        "start": {
            "metavar": "RULE",
            "type": text_argument,
            "help": "its start rule (default: root in gbnf, start in lark)",
        },
    },
}


def add_shared(parser: argparse.ArgumentParser, *kinds: str) -> None:
    """Add the arguments of commands on definitions.

    Args:
        parser: The parser of the command.
        kinds: The kinds of definition that the command takes.
    """
    parser.add_argument(
        "--tokenizer",
        metavar="DIR",
        help="compile for the transformers tokenizer in this folder (default: that of the demo model)",
    )
    for kind in kinds:
        for name, described in OPTIONS[kind].items():
            said = described["help"] if len(kinds) == 1 else f"for --{kind}: {described['help']}"
            parser.add_argument(f"--{name}", **described | {"help": said})


def options_of(kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a kind that are given.

    Raises:
        UsageError: An option of another kind is given.
    """
    for other, options in OPTIONS.items():
        wrong = [f"--{name}" for name in options if other != kind and getattr(arguments, name, None) is not None]
        if wrong:
            raise UsageError(f"{' and '.join(wrong)} cannot be used for a {kind}, only for --{other}; leave it out")
    given = {name: getattr(arguments, name) for name in OPTIONS[kind]}
    return {name: value for name, value in given.items() if value is not None}


def vocabulary_of(folder: str | None) -> Any:
    """Return the vocabulary of a tokenizer folder of transformers, or that of the demo model.

    Raises:
        UsageError: transformers is not installed, or cannot read the folder.
        VocabularyError: The bytes of the tokens cannot be recovered.
    """
    with ctrl_c_exits():
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise UsageError("reading a tokenizer needs transformers: pip install 'logitkit[transformers]'") from error
        from logitkit_adapters.demo import model_dir
        from logitkit_adapters.transformers import vocabulary
    path = model_dir() if folder is None else Path(folder)
    if not path.is_dir():
        raise UsageError(f"--tokenizer is {folder!r}, which is not a folder; give one with a tokenizer of transformers")
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:  # its errors have no common class
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"the folder {str(path)!r} has no tokenizer that transformers can read: {reason}") from error
    return vocabulary(tokenizer)


def compiled(kind: str, given: str, arguments: argparse.Namespace) -> tuple[Any, float, list[str]]:
    """Compile a definition for the tokenizer of the arguments.

    Args:
        kind: One of `KINDS`.
        given: The argument.
        arguments: The parsed arguments, with those of `add_shared`.

    Returns:
        The constraint; the seconds that it took, without reading the tokenizer; and warnings: advice on the definition, and the
        keywords and formats that are left out of it.

    Raises:
        UsageError: A file or folder cannot be used.
        LogitkitError: The definition does not compile.
    """
    compiler, advice = compiler_of(kind, given, arguments)
    vocabulary = vocabulary_of(arguments.tokenizer)
    # All constraints share the trie.
    _ = vocabulary.trie
    begin = perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        constraint = compiler(vocabulary)
    seconds = perf_counter() - begin
    # Some constraints also warn of what their automaton ignores.
    ignored = constraint.automaton.ignored
    heard = [said for said in map(str, (warning.message for warning in caught)) if not said.endswith(ignored)]
    return constraint, seconds, [*advice, *heard, *ignored]


def compiler_of(kind: str, given: str, arguments: argparse.Namespace) -> tuple[Callable[[Any], Any], tuple[str, ...]]:
    """Return what compiles a definition for a vocabulary, and advice on it.

    Args:
        kind: The kind: `regex`, `schema`, `tools` or `grammar`.
        given: The pattern, the file, or the name of a Python type.
        arguments: The parsed arguments, with those of `add_shared`.

    Raises:
        UsageError: The file cannot be read, or an argument is not for this kind.
        LogitkitError: The definition is wrong.
    """
    import logitkit as lk
    from logitkit.grammars.lark.differences import lark_advice
    from logitkit.json_schema.document import load
    from logitkit.json_schema.misspelt import misspelt
    from logitkit.json_schema.searched_patterns import searched_patterns
    from logitkit.patterns.advice import pattern_advice

    options = options_of(kind, arguments)
    if kind == "regex":
        return lambda vocabulary: lk.Regex(given, vocabulary), pattern_advice(given)
    if kind == "schema":
        schema = imported(given) if names_type(given) else _read_json(given)
        return lambda vocabulary: lk.JsonSchema(schema, vocabulary, **options), searched_patterns(load(schema))
    if kind == "grammar":
        text = _read(given)
        syntax = options.setdefault("syntax", "lark" if given.lower().endswith(".lark") else "gbnf")
        advice: tuple[str, ...] = ()
        with suppress(lk.errors.LogitkitError):  # compilation reports it
            advice = lark_advice(text) if syntax == "lark" else ()
        return lambda vocabulary: lk.Grammar(text, vocabulary, **options), advice
    text = _read_json(given)
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{given} is not JSON: {error}") from error
    tools = lk.Tools(listed, **{"format": "hermes", "choice": "required"} | options)
    said = ((tool, [misspelt(tool.schema), *searched_patterns(load(tool.schema))]) for tool in tools.tools)
    return tools.constraint, tuple(
        f"{tool.name}: {one}" for tool, several in said for one in several if one is not None
    )


def _read_json(given: str) -> str:
    """Return JSON that is an argument itself, or the text of a file."""
    # `true` and `false` are schemas too.
    return given if given.lstrip()[:1] in ("{", "[") or given.strip() in ("true", "false") else _read(given)


def _read(path: str) -> str:
    if not path.strip():
        raise UsageError("the argument is empty; give a file, or the definition itself")
    try:
        return text_argument(sys.stdin.read() if path == "-" else Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, argparse.ArgumentTypeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
