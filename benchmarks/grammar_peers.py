"""logitkit, XGrammar and LLGuidance on grammars in GBNF and in Lark's syntax, with the interface of `peer`."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Literal

import torch
from torch import Tensor

import logitkit as lk
from benchmarks import peers, schema_peers
from benchmarks.peer import NotTaken, Peer, Refused, Rows
from logitkit.errors import ConfigurationError, GrammarError, PatternTooLarge

# CPU seconds in which a library must follow some tokens.
BOUND = 5


def syntax_of(grammar: str) -> Literal["gbnf", "lark"]:
    """Return the syntax of one of the project's own grammars."""
    return "gbnf" if "::=" in grammar else "lark"


class Logitkit(schema_peers.Logitkit):
    """`Grammar`, through its public methods."""

    def compile(self, pattern: str) -> Any:
        try:
            syntax = syntax_of(pattern)
            # As LLGuidance does.
            return lk.Grammar(pattern, self.vocabulary, syntax=syntax, lexer="longest" if syntax == "lark" else None)
        except (GrammarError, ConfigurationError, PatternTooLarge) as error:
            raise Refused(str(error)) from error


class AnyText(schema_peers.Logitkit):
    """`Regex` of any text, whatever the grammar: nearly all tokens are legal in all places."""

    def compile(self, pattern: str) -> Any:
        return lk.Regex(r"(.|\n)*", self.vocabulary)


class AnyAscii(schema_peers.Logitkit):
    """`Regex` of any ASCII text, whatever the grammar: its mask takes a pass over the row, as those of most grammars do."""

    def compile(self, pattern: str) -> Any:
        return lk.Regex(r"[\x00-\x7f]*", self.vocabulary)


class LLGuidance(peers.LLGuidance):
    def grammar(self, pattern: str) -> Any:
        from llguidance import grammar_from

        return grammar_from(syntax_of(pattern), pattern)


class XGrammar(peers.XGrammar):
    def compile(self, pattern: str) -> Any:
        compile_ = self.compiler.compile_grammar if syntax_of(pattern) == "gbnf" else self.compiler.compile_lark
        try:
            return compile_(pattern)
        except RuntimeError as error:
            raise Refused(str(error)) from error


def follow(rows: Rows, tokens: list[int], logits: Tensor, check: bool = False) -> list[float]:
    """Mask and advance one row; return the CPU seconds of each step."""
    times = []
    for token in tokens:
        logits.zero_()
        chosen = torch.tensor([token])
        begin = time.process_time()
        rows.mask(logits)
        masked = time.process_time()
        if check and token >= 0 and logits[0, token] != 0:
            raise NotTaken(f"token {token} is not allowed")
        advancing = time.process_time()
        rows.advance(chosen)
        times.append(time.process_time() - advancing + masked - begin)
    return times


def refusal(peer: Peer, text: str, tokens: list[int], logits: Tensor) -> str:
    """Return why a library does not follow the tokens within `BOUND` CPU seconds; empty if it does."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        # The signal ends the process.
        signal.setitimer(signal.ITIMER_PROF, BOUND)
        reason = "it ended without a reason"
        try:
            follow(peer.start(peer.compile(text), 1), tokens, logits, check=True)
            reason = ""
        except (Refused, NotTaken) as error:
            reason = (str(error) or "refused").splitlines()[0][:200]
        finally:
            os.write(write, reason.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        reason = answer.read().decode()
    _, status = os.waitpid(child, 0)
    return f"not done within {BOUND} s of CPU time" if status else reason
