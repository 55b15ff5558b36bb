"""Grammars that other projects publish: which are read, which become deterministic, and how large they are.

    python -m benchmarks.real_grammars FOLDER_OR_GIT_DIRECTORY... [--out FILE]

The grammars are read from folders or bare git repositories that the user names, and are not copied into this repository. They are
the files `*.gbnf`, `*.ebnf` and `*.lark`, and those that the tests of LLGuidance and XGrammar hold together with texts. All have
the default lexer and limits. Times are CPU times. The first one goes from the text to the automaton over bytes, the second one
from the text to the first mask for the vocabulary Tekken; without one, the grammar is too large for that vocabulary, or names
tokens that it does not have. A grammar that is not deterministic has several stacks at once; they are counted while its texts are
read, or random texts if there are no tests for it. A grammar of a test is listed only if it can be read. The last tables
count the refusals: first those of grammars that their own projects take, then those that these refuse too.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import logitkit as lk
from benchmarks.cold import forget
from benchmarks.own_projects import own_refusal
from benchmarks.published_grammars import Published, published
from benchmarks.report_json_schema import table
from benchmarks.report_jsonschemabench import reason_of
from logitkit.budget import one_budget
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.collection import gc_paused
from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import ConfigurationError, GrammarError, PatternSyntaxError, PatternTooLarge
from logitkit.grammars.gbnf import read_gbnf
from logitkit.grammars.lark import read_lark
from logitkit.grammars.rule_set import RuleSet
from tests import vocabularies
from tests.grammars.pushdowns import Follower, accepts

LIMITS = lk.Limits()
# Random texts: how many, how long, and how many frames; more stacks than `MOST` are not followed. `FEW` are counted in the total.
WALKS, WALK_LENGTH, DEPTH, MOST, FEW = 12, 60, 32, 256, 8


@dataclass(frozen=True)
class Outcome:
    """The result of reading and compiling a grammar.

    Args:
        read: Whether its text was read.
        refused: Why it was refused; empty if it was not.
        dfa: Its automaton, if it has one.
        seconds: The time to the automaton or the refusal.
        agreed: How many texts are judged as their project says.
        alive: How many stacks a text has at once, after each byte of some texts.
        first_mask: The CPU seconds to the first mask of a vocabulary, if there is one.
        own_refusal: Why its own project refuses it too, if it was refused; empty if it does not.
    """

    read: bool
    refused: str
    dfa: PushdownDfa | None
    seconds: float
    agreed: int = 0
    alive: tuple[int, ...] = (1,)
    first_mask: float | None = None
    own_refusal: str = ""

    @property
    def is_deterministic(self) -> bool:
        """Whether it was compiled, to one stack per row."""
        return self.dfa is not None and not len(self.dfa.further)


def outcome(grammar: Published) -> Outcome:
    """Read and compile a grammar, and judge its texts."""
    rules: RuleSet | None = None
    begin = time.process_time()
    try:
        with one_budget(LIMITS.work), gc_paused():
            rules = (
                read_lark(grammar.text, grammar.start, limits=LIMITS)
                if grammar.suffix == ".lark"
                else read_gbnf(grammar.text, grammar.start, limits=LIMITS)
            )
            bodies = tuple([rule.body for rule in rules.rules])
            dfa = pushdown_dfa(Rules(bodies, rules.start, tuple(range(len(rules.tokens)))), LIMITS, splits=True)
    except (GrammarError, ConfigurationError, PatternSyntaxError, PatternTooLarge) as error:
        reason = str(error).splitlines()[0]
        return Outcome(rules is not None, f"{type(error).__name__}: {reason}", None, time.process_time() - begin)
    seconds = time.process_time() - begin
    agreed = sum(accepts(dfa, text.encode("utf-8", "replace")) == valid for text, valid in grammar.texts)
    alive = stacks(dfa, [text.encode() for text, valid in grammar.texts if valid]) if len(dfa.further) else (1,)
    return Outcome(True, "", dfa, seconds, agreed, alive)


def first_mask(grammar: Published, vocabulary: lk.Vocabulary) -> float | None:
    """Return the CPU seconds from a grammar to its first mask, or None."""
    forget(vocabulary)
    gc.collect()
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            syntax: Any = "lark" if grammar.suffix == ".lark" else "gbnf"
            made = lk.Grammar(grammar.text, vocabulary, syntax=syntax, start=grammar.start)
        except (GrammarError, ConfigurationError, PatternSyntaxError, PatternTooLarge):
            return None
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    made.process_logits(made.init_state(context), torch.zeros(1, vocabulary.size), context)
    return time.process_time() - begin


def stacks(dfa: PushdownDfa, texts: list[bytes]) -> tuple[int, ...]:
    """Return the number of stacks after each byte of some texts, or of random texts if none are given."""
    chance, found, follower = random.Random(0), list[int](), Follower(dfa, DEPTH)
    symbols = np.unique(dfa.byte_class).tolist()
    chosen: list[bytes | None] = [*texts] or [None] * WALKS
    for text in chosen:
        places = {(dfa.start, tuple[int, ...]())}
        for symbol in range(WALK_LENGTH) if text is None else dfa.byte_class[list(text)].tolist():
            tried = chance.sample(symbols, len(symbols)) if text is None else [symbol]
            after = next((after for s in tried if (after := follower.after(places, s))), None)
            if after is None:
                break
            places = after
            found.append(len(places))
            if len(places) > MOST:
                break
    return tuple(found) or (1,)


def line_of(grammar: Published, found: Outcome) -> str:
    """Return a row of the table."""
    read, dfa = ("yes" if found.read else "no"), found.dfa
    size = ("", "", "", "")
    if dfa:
        alive = "1" if found.is_deterministic else f"{sum(found.alive) / len(found.alive):.1f}, {max(found.alive)}"
        size = ("yes" if found.is_deterministic else "no", alive, f"{dfa.states - 2:,}", f"{dfa.frames}")
    texts = f"{found.agreed} of {len(grammar.texts)}" if grammar.texts and dfa else ""
    times = (f"{took * 1e3:,.1f}" if took is not None else "" for took in (found.seconds, found.first_mask))
    cells = (grammar.name, read, *size, *times, texts, reason_of(found.refused))
    return f"| {' | '.join(map(_cell, cells))} |"


def refusals(results: list[tuple[Published, Outcome]]) -> list[str]:
    """Count the refusals by reason, and list those of grammars that their own projects refuse too."""
    refused = [(grammar, found) for grammar, found in results if found.refused]
    reasons = Counter(reason_of(found.refused) for _, found in refused if not found.own_refusal)
    own = [(_cell(grammar.name), _cell(found.own_refusal)) for grammar, found in refused if found.own_refusal]
    return [
        *table(("refused because", "grammars"), [(_cell(reason), count) for reason, count in reasons.most_common()]),
        *table(("refused by its own project too", "because"), own),
    ]


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("<", "&lt;")


def main() -> None:
    """Print the table and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    grammars = [grammar for path in options.paths for grammar in published(path)]
    torch.set_num_threads(1)
    vocabulary = vocabularies.tekken()
    lk.Grammar('root ::= "a" root "b" | "c"', vocabulary)
    results = [(g, replace(outcome(g), first_mask=first_mask(g, vocabulary))) for g in grammars]
    results = [(g, replace(found, own_refusal=own_refusal(g) if found.refused else "")) for g, found in results]
    lines = [
        "| grammar | read | deterministic | stacks, mean, most | states | frames | ms | first mask, ms | texts alike | refused |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---|",
        *(line_of(grammar, found) for grammar, found in results if not grammar.texts),
        *(line_of(grammar, found) for grammar, found in results if grammar.texts and found.read),
    ]
    compiled = [(grammar, found) for grammar, found in results if found.dfa]
    agreed, texts = sum(found.agreed for _, found in compiled), sum(len(grammar.texts) for grammar, _ in compiled)
    several = [found for _, found in compiled if not found.is_deterministic]
    few = sum(max(found.alive) <= FEW for found in several)
    total = (
        f"{len(results)} grammars; {sum(found.read for _, found in results)} read; {len(compiled) - len(several)} deterministic; "
        f"{len(several)} with several stacks, {few} of them with at most {FEW} at once; "
        f"{agreed} of {texts} texts judged as their project says."
    )
    masks = [found.first_mask * 1e3 for _, found in results if found.first_mask is not None]
    middle, most = np.percentile(masks, (50, 95))
    speed = f"First mask of {len(masks)} grammars: median {middle:.1f} ms, 95th percentile {most:.1f} ms."
    lines += ["", total, "", speed, "", *refusals(results)]
    print("\n".join(lines))
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
