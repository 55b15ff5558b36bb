"""JsonSchema: the output is JSON that satisfies a schema."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from logitkit.budget import one_budget, spent
from logitkit.compiler.bytes.literal_overrides import BracketsOverlap
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.collection import gc_paused
from logitkit.compiler.nested_grammars.dfa import nested_grammar_dfa
from logitkit.compiler.nested_grammars.remembered_arrays import MixedArrays, can_remember
from logitkit.compiler.tokens.compile import pushdown_automaton
from logitkit.compiler.tokens.completion.dead_ends import may_have_dead_ends
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import PatternTooLarge, UnsupportedSchema
from logitkit.json_schema.compile import Compiled, schema_grammar
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.layout import AS_A_PART, TOGETHER, WITHOUT_BYTES, Whitespace
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.misspelt import misspelt
from logitkit.json_schema.resources import documents_of
from logitkit.limits import Limits, check_limits
from logitkit.parameters import Boolean, Either, Integer, SchemaForm, SchemasForm, Word
from logitkit.protocol.kind import Kind
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["JsonSchema"]

CLOSING = "the maximum number of new tokens; True: up to Context.max_length; False: no limit"

# Each character of a counted string takes a dozen states, for its bytes and its escapes. The work on all parts of a schema counts
# together, so compiling takes at most two seconds.
SCHEMA_LIMITS = Limits(states=200_000, work=7_000_000)


@dataclass(frozen=True)
class JsonSchema(Constraint):
    """Allow only JSON texts that satisfy a JSON Schema (draft 2020-12; older drafts are supported too).

    The text begins after the prompt, and EOS is allowed when it is complete. Each value has exactly one accepted spelling:
    members in the order of the schema, without unnecessary escapes or white space. A schema with limited nesting compiles to a
    finite automaton, like `Regex`. Recursive schemas and values of any kind need a stack per row. Unknown keywords are
    ignored; if one looks like a misspelt keyword, there is a warning.

    Args:
        schema: A dict, true or false, JSON text, a pydantic model class, or another Python type: a dataclass, `list[int]`,
            `Literal["a", "b"]`, `int | None`. Types need pydantic.
        vocabulary: The tokens.
        whitespace: `"compact"`: no white space. `"spaced"`: one space or none after commas and colons. `"bounded"`: white space
            where `json.dumps` may write it, with an indent of at most 32 spaces.
        lax: Whether to leave out, with a warning, the keywords that cannot be enforced exactly. Failed attempts may take as many
            steps again as `limits` allow.
        strict_formats: Whether to refuse a `format` that is unknown, that no automaton can decide (`regex`, `idn-hostname`), or
            that does not apply to any value which is possible there. By default, it is ignored, and listed in `ignored`.
        any_order: Whether the members of objects may come in any order, or only in that of the schema. With more than 8 listed
            names in an object, a row remembers those that it has written.
        closing: Whether the text must be complete before generation is cut off. True: within `Context.max_length`. An integer:
            within this many new tokens, not counting EOS. If the context has too little room, a shortest text is written.
        max_depth: The maximum number of open brackets in recursive parts, and in those that a large schema uses repeatedly; in
            some schemas, the outermost does not count.
        resources: The documents that a `$ref` may lead to besides the schema itself: schemas by URI, or a `pathlib.Path` to a
            folder of JSON files. A URI may be relative to the `$id` of the schema. Nothing is fetched, and meta-schemas are
            built in. Only the documents that are referred to are kept.
        limits: Bounds on the cost of compiling.

    Raises:
        UnsupportedSchema: A keyword cannot be enforced exactly, or the schema is too large; the message has its JSON pointer.
        ConfigurationError: An argument is not allowed, the schema is not valid, the type has no schema, no value satisfies it,
            or no value fits in `closing` tokens.
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

        With another document:

        >>> schema = {"type": "array", "items": {"$ref": "one.json"}, "maxItems": 2}
        >>> state = lk.JsonSchema(schema, vocabulary, resources={"one.json": {"const": 1}}).init_state(context)

    Source: JSON Schema, draft 2020-12; Alur and Madhusudan, Visibly pushdown languages (2004).
    """

    kind = Kind(
        "json_schema",
        {
            "schema": SchemaForm(),
            "whitespace": Word(get_args(Whitespace)),
            "lax": Boolean(),
            "strict_formats": Boolean(),
            "any_order": Boolean(),
            "closing": Either((Integer(1, note=CLOSING), Boolean())),
            "max_depth": Integer(1, 1024),
            "resources": SchemasForm(),
        },
        main="schema",
        order=120,
        wrapped=True,
    )

    schema: Any = field(compare=False)
    vocabulary: Vocabulary
    whitespace: Whitespace = field(default="compact", kw_only=True)
    lax: bool = field(default=False, kw_only=True)
    strict_formats: bool = field(default=False, kw_only=True)
    any_order: bool = field(default=False, kw_only=True)
    closing: bool | int = field(default=False, kw_only=True)
    max_depth: int = field(default=32, kw_only=True)
    resources: Mapping[str, Any] | Path | None = field(default=None, kw_only=True, compare=False)
    limits: Limits = field(default=SCHEMA_LIMITS, kw_only=True)
    content: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_limits(self.limits)
        super().__post_init__()
        with gc_paused():
            object.__setattr__(self, "schema", load(self.schema))
        with self._one_budget():
            # Only what is referred to counts: a schema with one document equals that with a folder of a thousand.
            reached = documents_of(self.schema, self.resources or {}, LeftOut(self.lax)) if self.resources else None
            object.__setattr__(self, "resources", reached or None)
            object.__setattr__(self, "content", key_of([self.schema, reached] if reached else self.schema))
        with self._one_budget():
            self._compile_once(
                JsonSchema,
                self.content,
                self.whitespace,
                self.lax,
                self.strict_formats,
                bool(self.closing),
                self.max_depth,
                # Content keys without it are those of earlier versions.
                *(["any order"] if self.any_order else []),
            )
        self._check_closing(self.closing, "this schema")
        unknown = misspelt(self.schema)
        if unknown:
            warnings.warn(f"JsonSchema ignores unknown keywords: {unknown}", stacklevel=3)
        if self.automaton.dropped:
            left_out = "; ".join(self.automaton.dropped)
            warnings.warn(f"JsonSchema leaves out what it cannot enforce exactly: {left_out}", stacklevel=3)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Each `format` that was ignored: where it is, and why.

        Equal schemas in several places are listed once.

        Example:
            >>> import logitkit as lk
            >>> vocabulary = lk.Vocabulary([b'"', b"a", None], eos_ids=[2])
            >>> lk.JsonSchema({"type": "string", "format": "phone"}, vocabulary).ignored
            ("'format' at #: the format 'phone' is not known",)
        """
        return self.automaton.ignored

    def nested_dfa(self) -> NestedDfa:
        """Compile and return the automaton over bytes, so that a text can be put before it."""
        return self._nested_dfa()[0]

    def _nested_dfa(self, counted: bool = False, forgets: str | None = AS_A_PART) -> tuple[NestedDfa, Compiled]:
        """Compile the automaton over bytes.

        Args:
            counted: Whether characters of strings may be counted, and strings and blocks of items called.
            forgets: Where it is that a row cannot remember the items of arrays; see `Layout`.
        """
        with self._one_budget():
            longest = self.vocabulary.trie.depth - 1 if counted else 0
            compiled = self._grammar(longest, forgets)
            try:
                return self._joined(compiled, longest), compiled
            except MixedArrays:
                # It is known which keyword asks for that where no items are remembered.
                return self._nested_dfa(counted, TOGETHER)
            except PatternTooLarge:
                if not longest or not compiled.nested_grammar.rules or spent() > self.limits.work:
                    raise
                # As in `schema_grammar`: without counts it is known which keyword asks for too many states.
                compiled = self._grammar(0, forgets)
                return self._joined(compiled, 0), compiled

    def _joined(self, compiled: Compiled, longest: int) -> NestedDfa:
        """Compile the grammar of the schema, given the number for which it has been read."""
        # With closing, it must be known what follows a string, so strings are not called.
        share, spelled = longest > 0 and not self.closing, self.vocabulary.trie.single_bytes()
        try:
            return nested_grammar_dfa(compiled.nested_grammar, self.limits, share, spelled)
        except BracketsOverlap as error:
            raise UnsupportedSchema(str(error), "#") from None

    def _grammar(self, longest: int, forgets: str | None) -> Compiled:
        """Read the schema, given the most characters of a token if they may be counted, else 0."""
        return schema_grammar(
            self.schema,
            self.limits,
            self.whitespace,
            self.lax,
            strict_formats=self.strict_formats,
            longest=longest,
            any_order=self.any_order,
            closing=bool(self.closing),
            resources=self.resources,  # type: ignore[arg-type]
            forgets=forgets,
        )

    @property
    def may_nest(self) -> bool:
        """Whether its rows can share a batch with those of constraints that nest: those of all schemas can."""
        return True

    @property
    def flat_automaton(self) -> TokenAutomaton:
        """The automaton without a stack, of a schema whose values nest to a limited depth; with one if it calls shared parts."""
        if not self.automaton.nesting.frames and self.automaton.counting is None:
            return self.automaton
        with self._one_budget():
            options = self.whitespace, self.lax, self.strict_formats, self.any_order
            key = (JsonSchema, "flat", self.content, *options, self.limits)
            return shared_by(self.vocabulary).automaton(key, lambda: self._compile_with(counted=False), self.limits)

    def _compile(self) -> TokenAutomaton:
        return self._compile_with(counted=True)

    def _compile_with(self, counted: bool) -> TokenAutomaton:
        forgets: str | None = None
        dfa, compiled = self._nested_dfa(counted, forgets)
        if dfa.remembers is not None and not can_remember(dfa, self.vocabulary.trie.single_bytes()):
            forgets = WITHOUT_BYTES
            dfa, compiled = self._nested_dfa(counted, forgets)
        if dfa.blocks and may_have_dead_ends(dfa, self.vocabulary):
            # With tokens for all bytes no text is a dead end, so that a block need not know who called it.
            dfa, compiled = self._nested_dfa(forgets=forgets)
        made = pushdown_automaton(
            dfa,
            self.vocabulary,
            self.limits,
            "the schema",
            max_depth=self.max_depth,
            complete_within=bool(self.closing),
        )
        if not compiled.dropped and not compiled.ignored:
            return made
        return replace(made, dropped=compiled.dropped, ignored=compiled.ignored)

    @contextmanager
    def _one_budget(self) -> Iterator[None]:
        """Count the work on all automata of a schema together, and report an excess as a problem of the schema."""
        try:
            with one_budget(self.limits.work), gc_paused():
                yield
        except PatternTooLarge as error:
            raise UnsupportedSchema(str(error).replace("pattern", "schema"), "#") from None
