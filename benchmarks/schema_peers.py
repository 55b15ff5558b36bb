"""logitkit and its peers on JSON Schema, with the interface of `peer`; each is set to write compact JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from benchmarks import peers
from benchmarks.peer import NotTaken, Peer, Refused, Rows, begun_again
from logitkit.errors import ConfigurationError, PatternSyntaxError, PatternTooLarge, UnsupportedSchema
from logitkit.vocabulary import Vocabulary


class Logitkit(Peer):
    """`JsonSchema`, through its public methods.

    Attributes:
        resources: A folder of the documents that schemas may refer to; None: there are none.
    """

    name = "logitkit"
    distribution = "logitkit"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.resources: Path | None = None
        assert vocabulary.trie.depth > 0
        assert vocabulary.content_key

    def compile(self, pattern: str) -> lk.JsonSchema:
        try:
            return lk.JsonSchema(pattern, self.vocabulary, resources=self.resources)
        except (ConfigurationError, UnsupportedSchema, PatternSyntaxError, PatternTooLarge) as error:
            raise Refused(str(error)) from error

    def start(self, compiled: lk.JsonSchema, rows: int) -> Rows:
        return LogitkitRows(compiled, rows)


class LogitkitRows:
    def __init__(self, schema: lk.JsonSchema, rows: int) -> None:
        self.schema = schema
        self.context = lk.Context.of([[]] * rows, vocabulary_size=schema.vocabulary.size)
        self.state = self.beginning = schema.init_state(self.context)

    def mask(self, logits: Tensor) -> None:
        self.schema.process_logits(self.state, logits, self.context)

    def advance(self, tokens: Tensor) -> None:
        ended = tokens == -1
        self.state = self.schema.advance(self.state, tokens)
        if ended.any():
            self.state = begun_again(self.state, self.beginning, ended)


class LLGuidance(peers.LLGuidance):
    def grammar(self, pattern: str) -> Any:
        form: Any = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
        return self.matcher.grammar_from_json_schema(pattern, overrides=form)


class XGrammar(peers.XGrammar):
    def compile(self, pattern: str) -> Any:
        return self._compile(pattern, any_whitespace=False, separators=(",", ":"))

    def compile_spaced(self, pattern: str) -> Any:
        """Compile with any whitespace allowed; otherwise XGrammar requires a space after the commas of unconstrained values."""
        return self._compile(pattern, any_whitespace=True)

    def _compile(self, pattern: str, **form: Any) -> Any:
        try:
            # Its strict mode forbids additional properties that the schema does not mention, which is not JSON Schema.
            return self.compiler.compile_json_schema(pattern, strict_mode=False, **form)
        except (RuntimeError, ValueError) as error:
            raise Refused(str(error)) from error


class OutlinesCore(peers.OutlinesCore):
    def compile(self, pattern: str) -> Any:
        from outlines_core.json_schema import build_regex_from_schema

        try:
            return self.library.Index(build_regex_from_schema(pattern, ""), self.vocabulary)
        except (TypeError, ValueError) as error:
            raise Refused(str(error)) from error


class Spelling:
    """Texts in the longest token at each place.

    Args:
        vocabulary: The tokens.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._ids = {token: i for i, token in enumerate(vocabulary.tokens) if token}
        self._longest = max(map(len, self._ids))

    def __call__(self, text: bytes) -> list[int]:
        ids, at = [], 0
        while at < len(text):
            widths = range(min(self._longest, len(text) - at), 0, -1)
            width = next(w for w in widths if text[at : at + w] in self._ids)
            ids.append(self._ids[text[at : at + width]])
            at += width
        return ids


def accepts(rows: Rows, tokens: list[int], eos: int, logits: Tensor) -> bool:
    """Whether one row accepts these tokens from the start and may end after them; `logits` is [1, V]."""
    for token in (*tokens, eos):
        logits.zero_()
        rows.mask(logits)
        if logits[0, token] != 0:
            return False
        if token != eos:
            try:
                rows.advance(torch.tensor([token]))
            except NotTaken:
                return False
    return True


def compact(schema: Any) -> str:
    """Write a schema as JSON text."""
    return json.dumps(schema, ensure_ascii=False)
