"""One step of `JsonSchema` beside one of `Regex`, on the same tokens, of a language that nests.

python -m benchmarks.schema_steps
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.peer import begun_again
from benchmarks.walks import walk
from logitkit.runtime.logit_arrays import as_array
from logitkit.runtime.row_mask import RowMask
from logitkit.runtime.single_row import row_of
from logitkit.vocabulary import Vocabulary
from tests import vocabularies

# So deep do a pattern and a schema without recursion nest, and so the texts.
DEPTH = 4
STEPS, ROUNDS = 80, 9

_CHARACTER = r'(?:[^"\\\x00-\x1f]|\\(?:["\\bfnrt]|u00[01][0-9a-f]))'


class Language(NamedTuple):
    """A language that nests, written in two ways.

    Args:
        pattern: The pattern of a text, of that of one that is less deep; the innermost is of None.
        schema: The schema of a text, of that of those in it.
    """

    pattern: Callable[[str | None], str]
    schema: Callable[[Any], Any]

    def regex(self, vocabulary: Vocabulary) -> lk.Regex:
        found = None
        for _ in range(DEPTH):
            found = self.pattern(found)
        assert found is not None
        return lk.Regex(found, vocabulary)

    def nested(self, vocabulary: Vocabulary) -> lk.JsonSchema:
        return lk.JsonSchema(self.schema({"$ref": "#"}), vocabulary)

    def flat(self, vocabulary: Vocabulary) -> lk.JsonSchema:
        found: Any = False
        for _ in range(DEPTH):
            found = self.schema(found)
        return lk.JsonSchema(json.dumps(found), vocabulary)


def _record(inner: str | None) -> str:
    behind = "null" if inner is None else f"(?:null|{inner})"
    return rf'\{{"name":"{_CHARACTER}*","next":{behind}\}}'


def _brackets(inner: str | None) -> str:
    if inner is None:
        return r"(?:\[\]|\{\})"
    return rf'(?:\[(?:{inner}(?:,{inner})*)?\]|\{{(?:"a":{inner})?\}})'


def _record_schema(inner: Any) -> Any:
    members = {"name": {"type": "string"}, "next": {"anyOf": [{"type": "null"}, inner]}}
    return {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}


def _brackets_schema(inner: Any) -> Any:
    table = {"type": "object", "properties": {"a": inner}, "additionalProperties": False}
    return {"anyOf": [{"type": "array", "items": inner}, table]}


LANGUAGES = {"strings": Language(_record, _record_schema), "brackets": Language(_brackets, _brackets_schema)}


class _Texts:
    """Rows that write one text after another, with a clock for the cost of a step.

    Args:
        constraint: The constraint on the texts.
        count: How many rows.
    """

    def __init__(self, constraint: lk.Regex | lk.JsonSchema, count: int) -> None:
        self.constraint: Any = constraint
        self.context = lk.Context.of([[]] * count, vocabulary_size=constraint.vocabulary.size)
        self.state = self.beginning = self.constraint.init_state(self.context)
        self.seconds = 0.0

    def mask(self, logits: Tensor) -> None:
        begin = time.perf_counter()
        self.constraint.process_logits(self.state, logits, self.context)
        self.seconds += time.perf_counter() - begin

    def advance(self, tokens: Tensor) -> None:
        begin = time.perf_counter()
        self.state = self.constraint.advance(self.state, tokens)
        self.seconds += time.perf_counter() - begin
        ended = tokens == -1
        if ended.any():
            self.state = begun_again(self.state, self.beginning, ended)

    def begin(self) -> None:
        self.state = self.beginning

    def forget(self) -> None:
        self.constraint.registry.masks.drop_slot(self.constraint.handle().slot)


class _Alone(_Texts):
    """One row as hooks of engines step it, without tensors."""

    def __init__(self, constraint: lk.Regex | lk.JsonSchema) -> None:
        super().__init__(constraint, 1)
        self.begin()

    def begin(self) -> None:
        row = row_of(self.constraint, self.beginning)
        assert row is not None
        self.row = row

    def mask(self, logits: Tensor) -> None:
        begin = time.perf_counter()
        array, never, zero = as_array(logits)
        self.row.process(array[0], never, zero)
        self.seconds += time.perf_counter() - begin

    def advance(self, tokens: Tensor) -> None:
        token = int(tokens)
        if token == -1:
            self.begin()
            return
        begin = time.perf_counter()
        self.row.advance(token)
        self.seconds += time.perf_counter() - begin


def steps(vocabulary: Vocabulary) -> dict[str, dict[str, dict[str, float]]]:
    """Return the seconds of a step at batch 1 and 32 for `Regex`, a schema without recursion and a recursive one.

    Rows write random legal tokens: long strings, or brackets that open and close. "first visits" forgets all masks before
    each step. "without the logits" leaves out what takes as long for all: to write to them. "alone" is one row without tensors.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, language in LANGUAGES.items():
        compiled: dict[str, lk.Regex | lk.JsonSchema] = {
            "Regex": language.regex(vocabulary),
            "flat": language.flat(vocabulary),
            "nested": language.nested(vocabulary),
        }
        for batch, count in (("alone", 1), ("batch_1", 1), ("batch_32", 32)):
            texts: dict[str, _Texts] = {
                kind: _Alone(c) if batch == "alone" else _Texts(c, count) for kind, c in compiled.items()
            }
            written = walk(texts["Regex"], count, vocabulary, STEPS)
            assert not written.stuck, written.stuck
            _check_same(texts, written.tokens, count, vocabulary.size)
            logits = torch.empty(count, vocabulary.size)
            found.setdefault(name, {})[batch] = _times(texts, written.tokens, logits)
            found.setdefault(f"{name}, first visits", {})[batch] = _times(texts, written.tokens, logits, forgets=True)
            with mock.patch.object(RowMask, "apply", _nothing):
                found.setdefault(f"{name}, without the logits", {})[batch] = _times(texts, written.tokens, logits)
    return found


def _check_same(texts: dict[str, _Texts], tokens: list[Tensor], count: int, size: int) -> None:
    """Raise if what one allows the recursive schema does not, or the two that end at the same depth differ."""
    for rows in texts.values():
        rows.begin()
    for column in tokens:
        masked = torch.zeros(len(texts), count, size)
        for logits, rows in zip(masked, texts.values(), strict=True):
            rows.mask(logits)
            rows.advance(column)
        regex, flat, nested = masked
        assert torch.equal(regex, flat)
        assert (nested >= regex).all()


def _times(texts: dict[str, _Texts], tokens: list[Tensor], logits: Tensor, forgets: bool = False) -> dict[str, float]:
    """Return the mean seconds of a step of each subject, the median over several rounds of each step.

    The logits are written again before each step, as a model does.
    """
    taken: dict[str, list[list[float]]] = {name: [] for name in texts}
    gc.collect()
    gc.disable()
    # The first round finds what is visited.
    for turn in range(ROUNDS + 1):
        for name, rows in texts.items():
            rows.begin()
            times = []
            for column in tokens:
                logits.zero_()
                if forgets:
                    rows.forget()
                rows.seconds = 0.0
                rows.mask(logits)
                rows.advance(column)
                times.append(rows.seconds)
            if turn:
                taken[name].append(times)
    gc.enable()
    return {name: statistics.fmean(map(statistics.median, zip(*t, strict=True))) for name, t in taken.items()}


def _nothing(*_: object) -> None:
    # A `Mock` takes as long as a step.
    pass


def main() -> None:
    torch.set_num_threads(1)
    for kind, batches in steps(vocabularies.tekken()).items():
        for batch, taken in batches.items():
            shown = ", ".join(f"{n} {s * 1e6:.1f} us ({s / taken['Regex']:.2f})" for n, s in taken.items())
            print(f"{kind}, {batch}: {shown}", flush=True)


if __name__ == "__main__":
    main()
