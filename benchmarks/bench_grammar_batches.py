"""Grammars: loading from files, steps with several stacks per row, and 32 rows of 32 grammars beside XGrammar and LLGuidance.

    python -m benchmarks.bench_grammar_batches [--rounds 3] [--out FILE]

All times are CPU times of one thread, with the vocabulary Tekken (131,072 ids).

1. *Files.* A grammar is compiled and stored. Then `Grammar` compiles it again and finds it in its file, in turns, with nothing in
   memory.
2. *Stacks.* Half a palindrome is written, so that a row has a known number of stacks. A step is mask and advance, in places that
   were visited before.
3. *Batches.* There are 32 grammars: those that all three libraries take, each after a number of its own. Each row writes the
   valid texts of its grammar. A step is one token in all rows, in visited places. logitkit is measured twice, as an A/A control.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from benchmarks import peers
from benchmarks.circumstances import commit, processor
from benchmarks.cold import forget
from benchmarks.grammar_peers import LLGuidance, XGrammar
from benchmarks.peer import Rows, begun_again
from benchmarks.report_json_schema import table
from benchmarks.schema_peers import Spelling
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.shared import shared_by
from tests import vocabularies
from tests.grammars.own_grammars import own_grammars

ROWS, STEPS = 32, 24
# XGrammar does not become ready for some grammars in Lark's syntax, and LLGuidance's reading of chess allows none of its texts.
TAKEN = ("arithmetic.gbnf", "c_subset.gbnf", "cron.gbnf", "json5.gbnf", "xml.gbnf")
PALINDROME = 'root ::= "a" root "a" | "b" root "b" | ""'
Clock = time.process_time


@contextmanager
def quiet() -> Iterator[None]:
    """Collect garbage before, and not during."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def loading(vocabulary: lk.Vocabulary, rounds: int) -> list[tuple[str, float, float, int]]:
    """Return for each grammar the milliseconds to compile it and to load it, and the bytes of its file."""
    shared, found = shared_by(vocabulary), []
    with tempfile.TemporaryDirectory() as folder:
        files = AutomatonFiles(Path(folder) / "automata", vocabulary.content_key)
        for own in (*own_grammars("gbnf"), *own_grammars("lark")):
            times: dict[bool, list[float]] = {False: [], True: []}
            shared.files = files
            forget(vocabulary)
            lk.Grammar(own.text, vocabulary, syntax=own.syntax, lexer=own.lexer)
            for from_file in [False, True] * rounds:
                shared.files = files if from_file else None
                forget(vocabulary)
                with quiet():
                    begin = Clock()
                    lk.Grammar(own.text, vocabulary, syntax=own.syntax, lexer=own.lexer)
                    times[from_file].append((Clock() - begin) * 1e3)
            newest = max(files.folder.iterdir(), key=lambda path: path.stat().st_mtime)
            compiled, loaded = statistics.median(times[False]), statistics.median(times[True])
            found.append((own.name, compiled, loaded, newest.stat().st_size))
    shared.files = None
    forget(vocabulary)
    return found


def stacks(vocabulary: lk.Vocabulary, rounds: int) -> list[tuple[int, float]]:
    """Return the microseconds of a visited step by the number of stacks of a row."""
    grammar = lk.Grammar(PALINDROME, vocabulary)
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    letter, found = Spelling(vocabulary)(b"a")[:1], []
    logits = torch.zeros(1, vocabulary.size)
    state: Any = grammar.init_state(context)
    met: dict[int, Any] = {}
    for _ in range(40):
        met.setdefault(int((state.states > 1).sum()), state)
        state = grammar.advance(state, torch.tensor(letter))
    for count in (1, 2, 4, 8, 16):
        times = []
        for _ in range(rounds * 20):
            logits.zero_()
            begin = Clock()
            grammar.process_logits(met[count], logits, context)
            grammar.advance(met[count], torch.tensor(letter))
            times.append((Clock() - begin) * 1e6)
        found.append((count, statistics.median(times)))
    return found


class Mixed:
    """Rows of logitkit under different grammars.

    Args:
        grammars: The grammar of each row.
    """

    def __init__(self, grammars: list[lk.Grammar]) -> None:
        size = grammars[0].vocabulary.size
        self.grammars, self.first = grammars, grammars[0]
        single = lk.Context.of([[]], vocabulary_size=size)
        self.context = lk.Context.of([[]] * len(grammars), vocabulary_size=size)
        self.state: Any = lk.concatenate([grammar.init_state(single) for grammar in grammars])
        self.beginning = self.state

    def mask(self, logits: Tensor) -> None:
        self.first.process_logits(self.state, logits, self.context)

    def advance(self, tokens: Tensor) -> None:
        ended = tokens == -1
        self.state = self.first.advance(self.state, tokens)
        if ended.any():
            self.state = begun_again(self.state, self.beginning, ended)


def batches(vocabulary: lk.Vocabulary, rounds: int) -> list[tuple[str, float]]:
    """Return the microseconds of a step of all rows, for each library."""
    spell, texts, written = Spelling(vocabulary), [], []
    for number, own in enumerate(islice(cycle([own for own in own_grammars("gbnf") if own.name in TAKEN]), ROWS)):
        texts.append(f'root ::= "{number}: " whole\n' + re.sub(r"\broot\b", "whole", own.text))
        tokens = [token for text in own.valid for token in (*spell(f"{number}: {text}".encode()), -1)]
        written.append([*islice(cycle(tokens), STEPS)])
    steps = [torch.tensor(column) for column in zip(*written, strict=True)]
    theirs, others = LLGuidance(vocabulary), XGrammar(vocabulary)
    bits = peers.bits_of(ROWS, vocabulary.size)
    compiled = [others.compile(text) for text in texts]
    rows: dict[str, Rows] = {
        "logitkit": Mixed([lk.Grammar(text, vocabulary) for text in texts]),
        "logitkit, again": Mixed([lk.Grammar(text, vocabulary) for text in texts]),
        "XGrammar": peers.XGrammarRows([others.library.GrammarMatcher(c) for c in compiled], bits, "cpu"),
        "LLGuidance": peers.LLGuidanceRows(
            [theirs.compile(text) for text in texts], peers.bits_of(ROWS, vocabulary.size)
        ),
    }
    logits, again = torch.zeros(ROWS, vocabulary.size), torch.full((ROWS,), -1)
    found: dict[str, list[float]] = {name: [] for name in rows}
    for turn in range(rounds + 1):
        for name, some in rows.items():
            some.advance(again)
            with quiet():
                times = _steps(some, steps, logits, check=turn == 0)
            found[name] += times if turn else []
    return [(name, statistics.median(times) * 1e6) for name, times in found.items()]


def _steps(rows: Rows, steps: list[Tensor], logits: Tensor, check: bool) -> list[float]:
    times = []
    for tokens in steps:
        logits.zero_()
        begin = Clock()
        rows.mask(logits)
        masked = Clock()
        legal = tokens >= 0
        assert not check or not logits[legal, tokens[legal]].any(), "a library does not allow a valid text"
        advancing = Clock()
        rows.advance(tokens)
        times.append(Clock() - advancing + masked - begin)
    return times


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    vocabulary = vocabularies.tekken()
    lk.Grammar(PALINDROME, vocabulary)
    measured: dict[str, list[Any]] = {
        "files": loading(vocabulary, options.rounds),
        "stacks": stacks(vocabulary, options.rounds),
        "batches": batches(vocabulary, options.rounds),
    }
    heads = {
        "files": ("grammar", "compiled, ms", "loaded, ms", "bytes"),
        "stacks": ("stacks", "step, us"),
        "batches": ("32 rows of 32 grammars", "step, us"),
    }
    for name, rows in measured.items():
        shown = [[f"{cell:,.1f}" if isinstance(cell, float) else cell for cell in row] for row in rows]
        print("\n".join(table(heads[name], shown)))
    if options.out is not None:
        circumstances = {"commit": commit(), "processor": processor(), "date": time.strftime("%Y-%m-%d")}
        options.out.write_text(json.dumps({**circumstances, **measured}) + "\n", "utf-8")


if __name__ == "__main__":
    main()
