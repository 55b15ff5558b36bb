"""Whether a grammar is refused by the project that publishes it too, given its text and its start rule, as here.

SynCode is judged by lark: it has a modified copy of it, `larkm`, and the same syntax. Only grammars in Lark's syntax are
judged.
"""

from __future__ import annotations

import llguidance
import xgrammar
from lark import Lark
from lark.exceptions import LarkError

from benchmarks.published_grammars import Published

__all__ = ["own_refusal"]


def own_refusal(grammar: Published) -> str:
    """Return why the project of a grammar refuses it, in one line, or an empty text."""
    project, start = grammar.name.partition(":")[0], grammar.start or "start"
    try:
        if project in ("lark", "syncode"):
            Lark(grammar.text, parser="earley", start=start)
        elif project == "llguidance" and grammar.suffix == ".lark":
            wrapped = llguidance.LLMatcher.grammar_from_lark(grammar.text)
            matcher = llguidance.LLMatcher(llguidance.LLTokenizer("byte"), wrapped)
            return str(matcher.get_error()).splitlines()[0] if matcher.is_error() else ""
        elif project == "xgrammar" and grammar.suffix == ".lark":
            xgrammar.Grammar.from_lark(grammar.text)
    except (LarkError, OSError, RuntimeError) as error:
        # An import reads another file.
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ""
