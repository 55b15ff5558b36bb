"""Every kind of constraint, by every executor, against the plain machine of `docs/machine.md`, on random languages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, GrammarError, PatternTooLarge, UnsupportedSchema
from logitkit.languages import Language, any_text, dispatch, json_schema, optional, sequence
from tests.examples import examples
from tests.languages.patterns import Tree, written
from tests.languages.random_languages import SCHEMAS, languages, trees, words
from tests.languages.vocabularies import CROSSING, GAPS, NAMED, SPELLED, TEXT, VALUES
from tests.oracles.described import machine, machine_of, pattern_node, schema_rules, text, until, without
from tests.oracles.drawn import gbnf_of, grammars, palindromes, schemas
from tests.oracles.executors import compare
from tests.oracles.machine import Machine, TooMany
from tests.oracles.nodes import Alt, Both, Call, Free, Node, OneToken, Seq, Text

TOKENS = [*TEXT, *VALUES, *CROSSING, b"\\", b"\\n", b"1", b"\xe2\x82", b"\xac"]
# Two EOS ids, padding, a special token with a name, and one that nothing names.
ENDS: list[bytes | None] = [None] * 5
TWO = lk.Vocabulary(
    [*TOKENS, *ENDS],
    eos_ids=[len(TOKENS), len(TOKENS) + 3],
    pad_id=len(TOKENS) + 1,
    special={"<t>": len(TOKENS) + 2, "<o>": len(TOKENS) + 4},
)


def with_each_byte(*more: bytes) -> lk.Vocabulary:
    """Return a vocabulary in which every byte is a token, so that strings and the text after markers are shared."""
    tokens = [*(bytes([byte]) for byte in range(256)), *TOKENS, *more]
    special = {"<t>": len(tokens) + 1, "<o>": len(tokens) + 3}
    return lk.Vocabulary([*tokens, *ENDS], eos_ids=[len(tokens)], special=special)


BYTES = with_each_byte()
# Two of these tokens fill a string whose characters are counted.
LONG = with_each_byte(b"a" * 35, b"b" * 34 + b'"')
VOCABULARIES = {"named": NAMED, "spelled": SPELLED, "gaps": GAPS, "two": TWO, "bytes": BYTES, "long": LONG}
vocabularies = st.sampled_from(["named", "gaps", "two", "two", "bytes"])
chances = st.integers(0, 2**32).map(Random)
AMBIGUOUS = "no automaton with one stack can follow both"
LIMITS = lk.Limits(states=3_000, work=1_500_000)


def check(
    build: Callable[[], Any],
    oracle: Machine,
    chance: Random,
    *,
    closing: int | None = None,
    exact: bool = True,
    by_bytes: bool = True,
) -> None:
    """Compare a constraint with its oracle; it may be refused only if no text is possible, or it is too large."""
    try:
        start = oracle.start()
        possible = oracle.possible(start, closing)
        constraint = build()
        compare([(constraint, oracle)] * 3, chance, closing=closing, exact=exact, by_bytes=by_bytes)
    except (TooMany, PatternTooLarge, UnsupportedSchema):
        assume(False)
    except ConfigurationError as error:
        assume(AMBIGUOUS not in str(error))
        if possible and exact:
            raise


@settings(max_examples=examples(240))
@given(trees(), vocabularies, chances)
def test_patterns(tree: Tree, name: str, chance: Random) -> None:
    vocabulary = VOCABULARIES[name]
    check(lambda: lk.Regex(written(tree), vocabulary), machine(pattern_node(tree), vocabulary), chance)


@settings(max_examples=examples(80))
@given(st.lists(words, min_size=1, max_size=4), vocabularies, chances)
def test_choices(options: list[str], name: str, chance: Random) -> None:
    vocabulary = VOCABULARIES[name]
    check(lambda: lk.Choice(options, vocabulary), machine(Alt(tuple(map(text, options))), vocabulary), chance)


moves = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 15)), st.integers(0, 4), min_size=1, max_size=15)


@settings(max_examples=examples(80))
@given(moves, st.sets(st.integers(0, 4), min_size=1), chances)
def test_automata_over_tokens(transitions: dict[tuple[int, int], int], accepting: set[int], chance: Random) -> None:
    def rule(state: int) -> Node:
        moves = [Seq((OneToken(frozenset([t])), Call(str(to)))) for (at, t), to in transitions.items() if at == state]
        return Alt((*moves, *([Text(())] if state in accepting else [])))

    oracle = machine(Call("0"), TWO, {str(state): rule(state) for state in range(5)})
    check(lambda: lk.Dfa(transitions, 0, accepting, TWO), oracle, chance, by_bytes=False)


# Deeper than any text here.
DEEP = 32
LISTS: Any = {"type": "array", "items": {"$ref": "#"}}
TREE: Any = {
    "type": "object",
    "properties": {"a": LISTS, "b": {"const": "a"}},
    "required": ["b"],
    "additionalProperties": False,
}
depths = st.tuples(st.sampled_from([*SCHEMAS, True, LISTS, TREE]), st.integers(1, 3))
some_schemas = schemas().map(lambda schema: (schema, DEEP)) | depths


@settings(max_examples=examples(320))
@given(some_schemas, st.sampled_from(["two", "bytes", "long", "long"]), chances)
def test_schemas(given: tuple[Any, int], name: str, chance: Random) -> None:
    (schema, depth), vocabulary = given, VOCABULARIES[name]
    oracle = machine(Call("#"), vocabulary, schema_rules(schema), depth)
    check(lambda: lk.JsonSchema(schema, vocabulary, max_depth=depth), oracle, chance)


counted = st.builds(
    lambda least, most: {"type": "string", "minLength": least, "maxLength": most},
    st.sampled_from([0, 3, 69]),
    st.integers(69, 72),
)


@settings(max_examples=examples(24))
@given(counted | counted.map(lambda string: {"type": "array", "items": string}), chances)
def test_counted_strings(schema: Any, chance: Random) -> None:
    oracle = machine(Call("#"), LONG, schema_rules(schema), DEEP)
    check(lambda: lk.JsonSchema(schema, LONG, max_depth=DEEP), oracle, chance)


@settings(max_examples=examples(120))
@given(some_schemas, st.integers(1, 6), chances)
def test_schemas_within_a_number_of_tokens(given: tuple[Any, int], closing: int, chance: Random) -> None:
    schema, depth = given
    oracle = machine(Call("#"), TWO, schema_rules(schema), depth)
    check(
        lambda: lk.JsonSchema(schema, TWO, max_depth=depth, closing=closing),
        oracle,
        chance,
        closing=closing,
        exact=False,
    )


@pytest.mark.filterwarnings("ignore:Grammar. the rule")
@settings(max_examples=examples(320))
@given(grammars() | palindromes(), st.sampled_from([1, 2, 16]), st.none() | st.integers(1, 6), chances)
def test_grammars(rules: dict[str, Node], configurations: int, closing: int | None, chance: Random) -> None:
    oracle = machine(Call("root"), BYTES, rules)
    options = {"configurations": configurations, "closing": closing or False}
    check(lambda: grammar(rules, **options), oracle, chance, closing=closing, exact=closing is None)


def grammar(rules: dict[str, Node], **options: Any) -> lk.Grammar:
    """Return the constraint of some rules."""
    text = "\n".join(f"{name} ::= {gbnf_of(body)}" for name, body in rules.items())
    return lk.Grammar(text, BYTES, limits=LIMITS, **options)


# A value before, between and after markers, which a token may cross.
schema_languages = st.sampled_from([*SCHEMAS, True]).map(json_schema)
tagged = st.builds(
    lambda marker, value, more: sequence(any_text(marker), value, optional(sequence(any_text(marker), more))),
    words,
    schema_languages,
    schema_languages,
) | st.builds(lambda marker, value: dispatch({marker: sequence(marker, value, marker)}), words, schema_languages)


@settings(max_examples=examples(800))
@given(languages(SCHEMAS) | tagged, st.sampled_from(["named", "spelled", "gaps", "two", "bytes"]), chances)
def test_languages(language: Language, name: str, chance: Random) -> None:
    vocabulary = VOCABULARIES[name]
    check(
        lambda: language.constraint(vocabulary, max_depth=2, limits=LIMITS), machine_of(language, vocabulary, 3), chance
    )


@settings(max_examples=examples(160))
@given(languages(), st.sampled_from(["named", "spelled", "gaps", "two"]), st.integers(1, 6), chances)
def test_languages_within_a_number_of_tokens(language: Language, name: str, closing: int, chance: Random) -> None:
    vocabulary = VOCABULARIES[name]
    oracle = machine_of(language, vocabulary, 3)
    check(lambda: language.constraint(vocabulary, closing=closing, limits=LIMITS), oracle, chance, closing=closing)


ANYTHING = Free(utf8=False)


def part(tree: Tree | None, vocabulary: lk.Vocabulary) -> lk.Regex | None:
    """Return the constraint of a part. It must have a text of its own, although tokens may cross its ends."""
    try:
        return None if tree is None else lk.Regex(written(tree), vocabulary)
    except ConfigurationError:
        assume(False)
        raise


FINITE: list[Any] = [schema for schema in SCHEMAS if "$ref" not in str(schema)]


@settings(max_examples=examples(480))
@given(
    # As often without the one part, and with a schema as the other: a union of unions would draw patterns nearly always.
    st.booleans().flatmap(lambda is_some: trees(2) if is_some else st.none()),
    st.integers(0, 3).flatmap(lambda kind: (st.none(), trees(2), some_schemas, depths)[kind]),
    st.sampled_from(["<t>", ">", "<a", "ab"]) | st.just(0),
    st.sampled_from(["named", "two", "bytes", "bytes", "bytes"]),
    chances,
)
@example(None, (True, 2), "ab", "bytes", Random(0))
def test_one_constraint_after_another(first: Any, second: Any, marker: str | int, name: str, chance: Random) -> None:
    vocabulary = VOCABULARIES[name]
    assume(first is not None or second is not None)
    marker = vocabulary.special["<t>"] if marker == 0 else marker
    free = until(marker, vocabulary)
    whole = Alt(tuple(Text(way) for way, _ in free.until))
    before = free if first is None else Both(((pattern_node(first), whole), (free,)))
    rules, depth = (schema_rules(second[0]), second[1]) if isinstance(second, tuple) else ({}, 0)
    after = Call("#") if rules else ANYTHING if second is None else pattern_node(second)

    def build() -> Any:
        one = part(first, vocabulary)
        if isinstance(second, tuple):
            return lk.then(one, lk.JsonSchema(second[0], vocabulary, max_depth=second[1]), marker)
        return lk.then(one, part(second, vocabulary), marker)

    check(build, machine(Seq((before, after)), vocabulary, rules, depth), chance)


@settings(max_examples=examples(160))
@given(
    st.lists(trees(2) | st.lists(words, min_size=1, max_size=2) | st.sampled_from(FINITE), min_size=2, max_size=3),
    chances,
)
def test_intersections(given: list[Any], chance: Random) -> None:
    def node_of(one: Any) -> Node:
        if isinstance(one, list):
            return without(one, TWO)
        return schema_rules(one)["#"] if isinstance(one, dict) else pattern_node(one)

    def constraint_of(one: Any) -> Any:
        if isinstance(one, list):
            return lk.BannedStrings(one, TWO)
        return lk.JsonSchema(one, TWO) if isinstance(one, dict) else lk.Regex(written(one), TWO)

    oracle = machine(Both(tuple((node_of(one),) for one in given)), TWO)
    check(lambda: lk.Intersection(tuple(map(constraint_of, given))), oracle, chance)


@settings(max_examples=examples(80))
@given(words, st.none() | trees(2), vocabularies, chances)
def test_forced_prefixes(prefix: str, tree: Any, name: str, chance: Random) -> None:
    vocabulary = VOCABULARIES[name]

    def build() -> Any:
        return lk.ForcedPrefix(prefix, vocabulary, then=part(tree, vocabulary))

    oracle = machine(Seq((text(prefix), ANYTHING if tree is None else pattern_node(tree))), vocabulary)
    check(build, oracle, chance)


@pytest.mark.filterwarnings("ignore:Grammar. the rule")
@settings(max_examples=examples(120))
@given(st.lists(trees(), min_size=2, max_size=3), st.lists(schemas(), min_size=1, max_size=2), grammars(), chances)
def test_different_constraints_in_one_batch(given: list[Tree], values: list[Any], rules: Any, chance: Random) -> None:
    flat = [(partial(lk.Regex, written(tree), TWO), machine(pattern_node(tree), TWO)) for tree in given]
    nested: list[tuple[Callable[[], Any], Machine]] = [
        (partial(lk.JsonSchema, value, BYTES), machine(Call("#"), BYTES, schema_rules(value))) for value in values
    ]
    nested.append((partial(grammar, rules, configurations=1), machine(Call("root"), BYTES, rules)))
    for each in (flat, nested):
        pairs = []
        for build, oracle in each:
            with suppress(ConfigurationError, GrammarError, PatternTooLarge, UnsupportedSchema, TooMany):
                pairs.append((build(), oracle))
        if pairs:
            with suppress(TooMany):
                compare(pairs, chance)
