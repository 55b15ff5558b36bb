"""Threads that share processors, compile patterns, and generate with hooks and sessions: `python -m tests.soak.threads`."""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import jsonschema
import torch

import logitkit as lk
from logitkit_adapters.sessions import Session, continuous
from logitkit_adapters.transformers import logits_processor
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.conformance.cases import RECORD
from tests.conformance.families import SCHEMA, TREE
from tests.soak.load import Job, soak

THREADS = 8
STOPS = (". ", "\n", " and", "e")
PROMPTS = (
    "The meeting is on",
    "Name: Emma Brown\nAge:",
    "Question: Is Paris in France?\nAnswer:",
    "Item: pen\nPrice:",
    "The price of the red chair is",
)
# Padding is a setting of the tokenizer, which threads would change for one another.
IDS: list[list[int]] = [tokenizer()(prompt).input_ids for prompt in PROMPTS]
EOS, PAD = tokenizer().eos_token_id, tokenizer().pad_token_id

v = vocabulary()
DATE = lk.Regex(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", v)
RECORDS = lk.chain(lk.RepetitionPenalty(1.3, window=32), lk.FrequencyPenalty(0.2), lk.Regex(RECORD, v), lk.TopK(40))
PERSON = lk.JsonSchema(SCHEMA, v, closing=70)
NESTED = lk.JsonSchema(TREE, v, whitespace="bounded", closing=32)
STOP = lk.StopStrings(STOPS, v)
ONCE = lk.chain(lk.NoRepeatNGram(3), lk.Dry(0.8, vocabulary=v), lk.PresencePenalty(0.3))


def generated(processor: lk.Processor[Any], chance: random.Random, most: int, rows: int = 1) -> list[list[int]]:
    """Return the new tokens of each row of transformers' `generate`, greedy, drawn or with beams; EOS and pads are left out."""
    prompts = chance.choices(IDS, k=rows)
    width = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    how: dict[str, Any] = {"do_sample": False} | chance.choice(({}, {"do_sample": True}, {"num_beams": 3}))
    hook = logits_processor(processor, attention_mask=mask)
    written = model().generate(ids, attention_mask=mask, max_new_tokens=most, logits_processor=[hook], **how)
    return [[i for i in row if i not in (EOS, PAD)] for row in written[:, width:].tolist()]


def texts(rows: Sequence[Sequence[int]]) -> list[str]:
    return [v.decode(row).decode() for row in rows]


def dates(chance: random.Random) -> str:
    for text in texts(generated(DATE, chance, 20, chance.randint(1, 4))):
        assert re.fullmatch(DATE.pattern, text), text
    return "generations with a shared Regex"


def records(chance: random.Random) -> str:
    for text in texts(generated(RECORDS, chance, 110)):
        assert re.fullmatch(RECORD, text), text
    return "generations with a shared chain of penalties, Regex and top-k"


def persons(chance: random.Random) -> str:
    for text in texts(generated(PERSON, chance, 70)):
        jsonschema.validate(json.loads(text), SCHEMA)
    return "generations with a shared JsonSchema"


def trees(chance: random.Random) -> str:
    for text in texts(generated(NESTED, chance, 32)):
        jsonschema.validate(json.loads(text), TREE)
    return "generations with a shared recursive JsonSchema"


def stopped(chance: random.Random) -> str:
    for row in generated(STOP, chance, 20, 2):
        before = v.decode(row[:-1])
        assert not any(stop.encode() in before for stop in STOPS), before
    return "generations with shared StopStrings"


def never_again(chance: random.Random) -> str:
    for row in generated(ONCE, chance, 20):
        triples = list(zip(row, row[1:], row[2:], strict=False))
        assert len(triples) == len(set(triples)), row
    return "generations with shared NoRepeatNGram, Dry and PresencePenalty"


def conversation(chance: random.Random) -> str:
    with Session(model(), tokenizer(), max_length=256) as session:
        for _ in range(4):
            made = session.generate(chance.choice(PROMPTS), max_new_tokens=20, processor=DATE, seed=chance.randrange(9))
            assert re.fullmatch(DATE.pattern, made.rows[0].text), made.rows[0].text
    return "conversations of a Session, four calls each"


@cache
def shared_session() -> Session:
    return Session(model(), tokenizer(), max_length=256, max_cached_tokens=2_000)


def shared_conversation(chance: random.Random) -> str:
    words = " ".join(chance.choices(("red", "green", "blue", "tea", "pen"), k=chance.randint(0, 20)))
    made = shared_session().generate(
        chance.choice(PROMPTS) + words, max_new_tokens=20, processor=DATE, seed=chance.randrange(9)
    )
    assert re.fullmatch(DATE.pattern, made.rows[0].text), made.rows[0].text
    return "calls of a Session that all threads share"


def continued(chance: random.Random) -> str:
    text, date = continuous(model(), tokenizer()), continuous(model(), tokenizer(), DATE)
    said = text(chance.choice(PROMPTS), max_new_tokens=5)
    dated = str(date(said, max_new_tokens=20))
    assert re.fullmatch(DATE.pattern, dated.removeprefix(str(said))), dated
    return "states that continuous went on from"


def a_new_pattern(chance: random.Random) -> str:
    word = "".join(chance.choices("abcdefgh", k=6))
    pattern = f"({word}|[a-c]{{2,9}}){{1,3}}-{chance.randrange(10**6)}"
    for text in texts(generated(lk.chain(lk.Regex(pattern, v), lk.Temperature(0.8)), chance, 90)):
        assert re.fullmatch(pattern, text), (pattern, text)
    return "generations with a pattern of their own"


def a_new_schema(chance: random.Random) -> str:
    name = "".join(chance.choices("abcdefgh", k=6))
    properties = {name: {"enum": [name, chance.randrange(10**6)]}}
    schema = {"type": "object", "properties": properties, "required": [name], "additionalProperties": False}
    for text in texts(generated(lk.JsonSchema(schema, v), chance, 60)):
        jsonschema.validate(json.loads(text), schema)
    return "generations with a schema of their own"


def refused(chance: random.Random) -> str:
    try:
        lk.Regex(f"(a|b)*a(a|b){{{chance.randint(16, 30)}}}", v, limits=lk.Limits(states=5_000, work=500_000))
    except lk.errors.PatternTooLarge:
        return "patterns refused"
    raise AssertionError("a pattern that is too large was accepted")


def fill(count: int = 600) -> None:
    """Compile more patterns than are kept, so that no cache has room left when the soak begins."""
    for number in range(count):
        lk.Regex(f"[a-c]{{1,9}}-{number}", v)


JOBS: tuple[Job, ...] = (
    *(dates, records, persons, trees, stopped, never_again, conversation, shared_conversation, continued),
    *(a_new_pattern, a_new_schema, refused),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description="Share processors between threads.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shared_session()  # transformers must load the model before there are threads
    fill()
    print(f"{THREADS} threads in one process", flush=True)
    return soak(JOBS, THREADS, options.minutes, options.seed)


if __name__ == "__main__":
    sys.exit(main())
