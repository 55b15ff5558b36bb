"""The text is JSON that satisfies a schema."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from logitkit.automata.budget import one_budget
from logitkit.automata.collection import uncollected
from logitkit.automata.limits import Limits, check_limits
from logitkit.automata.nested_dfa import NestedDfa
from logitkit.automata.network_dfa import network_dfa
from logitkit.automata.pushdown_automaton import PushdownAutomaton
from logitkit.automata.pushdown_compile import pushdown_automaton
from logitkit.automata.shared import shared_by
from logitkit.constraints.constraint import check_has_eos
from logitkit.constraints.pushdown_constraint import PushdownConstraint, check_closing
from logitkit.errors import ConfigurationError, PatternTooLarge, UnsupportedSchema
from logitkit.integers import as_integer
from logitkit.json_schema.compile import schema_network
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.layout import Whitespace
from logitkit.vocabulary import Vocabulary

__all__ = ["JsonSchema"]

MOST_DEPTH = 1024

# Each character of a counted string takes a dozen states, for its bytes and its escapes. What all parts of a schema take together
# is counted, so that it is over in two seconds.
SCHEMA_LIMITS = Limits(states=200_000, work=7_000_000)


@dataclass(frozen=True)
class JsonSchema(PushdownConstraint):
    """Allow only JSON texts that satisfy a JSON Schema (draft 2020-12; older spellings are understood).

    The new text begins after the prompt, and EOS is legal where it is complete. One text is written of each value: members in the
    order of the schema, no needless escapes, no white space. A schema that does not nest without bound is a finite automaton, as
    that of `Regex`; recursive schemas and unconstrained values take a stack for each row.

    Args:
        schema: A dict, true or false, JSON text, or a pydantic model class.
        vocabulary: The tokens.
        whitespace: `"compact"`: none. `"bounded"`: where `json.dumps` may put some, with any indent of up to 32 spaces.
        lax: Whether to leave out, with a warning, keywords that cannot be honoured exactly.
        closing: Whether the output must be complete before it is cut off: True: within `Context.max_length`; or the most new
            tokens. EOS does not count. Where the context has less room than a shortest text needs, that is written.
        max_depth: Most brackets of the recursive parts that are open at once; a deeper one is illegal.
        limits: Bounds on what compiling may cost.

    Raises:
        UnsupportedSchema: A keyword cannot be honoured exactly, or the schema is too large; the message has its JSON pointer.
        ConfigurationError: An argument is not allowed, the schema is not valid, no value satisfies it, or none can be
            written in `closing` tokens.
        VocabularyError: The vocabulary has no EOS id.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"[", b"]", b",", b"1", None], eos_ids=[4])
        >>> schema = lk.JsonSchema({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, vocabulary)
        >>> context = lk.Context.of([[2]], vocabulary_size=5)
        >>> state = schema.advance(schema.init_state(context), torch.tensor([0]))
        >>> schema.process_logits(state, torch.zeros(1, 5), context)[1]
        tensor([[-inf, 0., -inf, 0., -inf]])

    Source: JSON Schema, draft 2020-12; Alur and Madhusudan, Visibly pushdown languages (2004).
    """

    schema: Any = field(compare=False)
    vocabulary: Vocabulary
    whitespace: Whitespace = field(default="compact", kw_only=True)
    lax: bool = field(default=False, kw_only=True)
    closing: bool | int = field(default=False, kw_only=True)
    max_depth: int = field(default=32, kw_only=True)
    limits: Limits = field(default=SCHEMA_LIMITS, kw_only=True)
    content: str = field(init=False, repr=False)
    automaton: PushdownAutomaton = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        check_limits(self.limits)
        if self.whitespace not in get_args(Whitespace):
            raise ConfigurationError(f"whitespace is {self.whitespace!r}; allowed are {get_args(Whitespace)}")
        if not isinstance(self.lax, bool):
            raise ConfigurationError(f"lax is {self.lax!r}; allowed are True and False")
        depth = as_integer(self.max_depth)
        if depth is None or not 1 <= depth <= MOST_DEPTH:
            raise ConfigurationError(f"max_depth is {self.max_depth!r}; allowed are integers from 1 to {MOST_DEPTH}")
        object.__setattr__(self, "max_depth", depth)
        object.__setattr__(self, "closing", check_closing(self.closing))
        with uncollected():
            object.__setattr__(self, "schema", load(self.schema))
            object.__setattr__(self, "content", key_of(self.schema))
        key = (JsonSchema, self.content, self.whitespace, self.lax, bool(self.closing), depth, self.limits)
        object.__setattr__(self, "automaton", shared_by(self.vocabulary).automaton(key, self._compile))
        needed = int(self.automaton.cost[self.automaton.start])
        if self.closing is not True and 0 < self.closing < needed:
            raise ConfigurationError(
                f"closing is {self.closing}, but a whole text of this schema takes {needed} tokens; allowed are {needed} and more"
            )
        if self.automaton.dropped:
            left_out = "; ".join(self.automaton.dropped)
            warnings.warn(f"JsonSchema leaves out what it cannot honour exactly: {left_out}", stacklevel=3)

    def nested_dfa(self) -> NestedDfa:
        """Return the automaton over bytes, made anew: what a text before it is put in front of."""
        return self._nested_dfa()[0]

    def _nested_dfa(self) -> tuple[NestedDfa, tuple[str, ...]]:
        with self._one_budget():
            # Where an object in place and one that is called may both begin, the former has to be called as well.
            for apart in (False, True):
                network, dropped = schema_network(self.schema, self.limits, self.whitespace, self.lax, apart)
                try:
                    return network_dfa(network, self.limits), dropped
                except ConfigurationError as error:
                    reason = str(error)
            raise UnsupportedSchema(reason, "#")

    def _compile(self) -> PushdownAutomaton:
        with self._one_budget():
            dfa, dropped = self._nested_dfa()
            made = pushdown_automaton(
                dfa, self.vocabulary, self.limits, "the schema", max_depth=self.max_depth, closing=bool(self.closing)
            )
            return replace(made, dropped=dropped)

    @contextmanager
    def _one_budget(self) -> Iterator[None]:
        """Count together what the many automata of a schema cost, and say of what is too much that it is the schema's."""
        try:
            with one_budget(), uncollected():
                yield
        except PatternTooLarge as error:
            raise UnsupportedSchema(str(error).replace("pattern", "schema"), "#") from None
