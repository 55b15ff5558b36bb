"""A step in an array of 20 items that must differ, beside one in the same array without `uniqueItems`; also names of an object.

python -m benchmarks.unique_items

Times are those of one row, as a hook steps it: masking 131,072 logits, and advancing. Each step counts with its fastest of all
rounds, in which the sides take turns. The control is the second time without the keyword, over the first.
"""

from __future__ import annotations

import json
import statistics
import time
from itertools import islice
from typing import Any, NamedTuple

import torch

import logitkit as lk
from logitkit.runtime.single_row import row_of
from logitkit.vocabulary import Vocabulary
from tests import vocabularies

ITEMS, ROUNDS = 24, 12
# The steps from this item on are timed.
BEFORE = 20

NAMES = [
    f"{colour} {number}"
    for number in range(3)
    for colour in ("red", "green", "blue", "sky", "teal", "ash", "ivory", "plum")
]
CLOSED = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}, "on": {"type": "boolean"}},
    "required": ["name"],
    "additionalProperties": False,
}
RECORDS = [{"name": name, "size": number, "on": number % 2 == 0} for number, name in enumerate(NAMES)]
# The schema of the items, and some different ones.
ITEM_KINDS: dict[str, tuple[Any, list[Any]]] = {
    "strings": ({"type": "string"}, NAMES),
    "an enum of 40 strings": (
        {"enum": [f"v{number}" for number in range(40)]},
        [f"v{number}" for number in range(ITEMS)],
    ),
    "integers": ({"type": "integer"}, [37 * number for number in range(ITEMS)]),
    "numbers": ({"type": "number"}, [3.7 * number for number in range(ITEMS)]),
    "objects of three members": (CLOSED, RECORDS),
    "the same, with any other members": ({**CLOSED, "additionalProperties": True}, RECORDS),
}
INTEGERS = {"type": "object", "additionalProperties": {"type": "integer"}}


class Case(NamedTuple):
    """Two schemas, and a value of both.

    Args:
        plain: A schema whose rows remember nothing.
        remembering: The same, where they do.
        value: The items or members.
    """

    plain: Any
    remembering: Any
    value: list[Any] | dict[str, int]

    def begun(self, count: int) -> bytes:
        """Return the text of the first items or members."""
        value = self.value
        some = value[:count] if isinstance(value, list) else dict(islice(value.items(), count))
        return json.dumps(some, separators=(",", ":")).encode()[:-1]


def cases() -> dict[str, Case]:
    """Return what is compared."""
    found = {}
    for name, (items, values) in ITEM_KINDS.items():
        plain = {"type": "array", "items": items}
        found[name] = Case(plain, {**plain, "uniqueItems": True}, values)
    members = {name: number for number, name in enumerate(NAMES)}
    for name, schema in (("names, with integers", INTEGERS), ("names, with anything", {"type": "object"})):
        found[name] = Case({**schema, "minProperties": 1}, {**schema, "minProperties": 2}, members)
    return found


def tokens_of(text: bytes, vocabulary: Vocabulary) -> list[int]:
    """Return the longest tokens that spell a text."""
    found, at = list[int](), 0
    while at < len(text):
        at, token = max(vocabulary.trie.tokens_at(text, at))
        found.append(token)
    return found


def steps(constraint: lk.JsonSchema, tokens: list[int], logits: torch.Tensor) -> list[float]:
    """Return the seconds of the step with each token."""
    row = row_of(constraint, constraint.init_state(lk.Context.of([[]], logits.shape[1])))
    assert row is not None
    found = []
    for token in tokens:
        begin = time.perf_counter()
        row.processed(logits)
        row.advance(token)
        found.append(time.perf_counter() - begin)
    assert row.current > 1, "the text is illegal"
    return found


def main() -> None:
    """Print a line for each case."""
    torch.set_num_threads(1)
    vocabulary, draw = vocabularies.tekken(), torch.Generator().manual_seed(0)
    logits = torch.randn(1, vocabulary.size, generator=draw)
    print("| items | without, us | with, us | ratio | control |\n|---|---:|---:|---:|---:|")
    for name, case in cases().items():
        tokens = tokens_of(case.begun(ITEMS), vocabulary)
        first = len(tokens_of(case.begun(BEFORE), vocabulary))
        plain, remembering = (lk.JsonSchema(schema, vocabulary) for schema in case[:2])
        assert remembering.automaton.remembers is not None
        sides: list[list[list[float]]] = [[], [], []]
        for _ in range(ROUNDS):
            for side, constraint in zip(sides, (plain, remembering, plain), strict=True):
                side.append(steps(constraint, tokens, logits)[first:])
        without, with_it, again = (1e6 * statistics.mean(map(min, zip(*side, strict=True))) for side in sides)
        print(
            f"| {name} | {without:.1f} | {with_it:.1f} | {with_it / without:.1f} | {again / without:.2f} |", flush=True
        )


if __name__ == "__main__":
    main()
