"""The reader of GBNF against llama.cpp: both read the same grammars, and the same texts match."""

from __future__ import annotations

import ctypes
import itertools
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.errors import GrammarError
from logitkit.grammars.gbnf import read_gbnf
from tests import llama_cpp_samplers as samplers
from tests.grammars.rule_matcher import matches

TEXTS = ["".join(letters) for size in range(4) for letters in itertools.product("ab", repeat=size)]


def sampler_of(grammar: str, said: list[bytes] | None = None) -> object:
    """Return llama.cpp's sampler of a grammar, or None if llama.cpp refuses it; its log goes to `said`."""
    said = [] if said is None else said
    vocabulary = samplers.vocabulary()
    recording = samplers.llama.llama_log_callback(lambda level, text, data: said.append(text))
    samplers.llama.llama_log_set(recording, ctypes.c_void_p(0))
    try:
        return samplers.llama.llama_sampler_init_grammar(vocabulary, grammar.encode(), b"root")
    finally:
        samplers.llama.llama_log_set(samplers.SILENT, ctypes.c_void_p(0))


def llama_accepts(grammar: str, text: str) -> bool:
    """Tell whether llama.cpp's sampler lets a text pass, one byte per token, and then the end."""
    sampler = sampler_of(grammar)
    assert sampler
    try:
        # Tokens 0 and 1 are special, 1 is EOS, and byte b is token 2 + b.
        for token in (*(2 + byte for byte in text.encode()), 1):
            found = samplers.candidates(torch.zeros(268))
            samplers.apply(sampler, found)
            if samplers.logits_of(found)[token] == -torch.inf:
                return False
            samplers.accept(sampler, [token])
        return True
    finally:
        samplers.llama.llama_sampler_free(sampler)


@st.composite
def recursive_grammars(draw: st.DrawFn) -> str:
    """Grammars with rules that call themselves, but never at their left edge, which llama.cpp refuses."""
    texts = []
    for number, name in enumerate(("root", "x", "y")):
        later = ["x", "y"][number:]
        leaves = st.sampled_from(['"a"', '"b"', "[ab]", *later, '"a" root "b"', '"b" x', '"a" y "a"'])
        bodies = st.recursive(
            leaves,
            lambda inner: st.one_of(
                st.tuples(inner, inner).map(" ".join),
                st.tuples(inner, inner).map(lambda two: f"({two[0]} | {two[1]})"),
                st.tuples(inner, st.sampled_from("?*+")).map(lambda one: f'("b" {one[0]}){one[1]}'),
            ),
            max_leaves=4,
        )
        texts.append(f'{name} ::= {draw(bodies)} |\n  "{draw(st.sampled_from(["a", "b", "ab"]))}"')
    return "\n".join(texts)


@given(recursive_grammars())
@settings(max_examples=40, deadline=None)
def test_recursive_grammars_match_what_llama_cpp_lets_pass(text: str) -> None:
    grammar = read_gbnf(text)
    for candidate in TEXTS:
        assert matches(grammar, candidate) == llama_accepts(text, candidate), candidate


FRAGMENTS = [
    *(
        '"a"',
        "[a-z]",
        "(",
        ")",
        "|",
        "*",
        "?",
        "+",
        "\n",
        "\r\n",
        "{2}",
        "{1,3}",
        "{2,}",
        "{",
        "}",
        "{,2}",
        "# c",
        ".",
        " ",
    ),
    *(
        "b",
        r'"\n"',
        r'"\q"',
        r'"\x4"',
        r"[\]]",
        "[",
        '"',
        "^",
        "::=",
        "b ::= ",
        "\nc ::= ",
        "c",
        "<[10]>",
        "-",
        "_",
        "'a'",
    ),
]
# Reasons to refuse grammars that llama.cpp reads, since they are always mistakes.
STRICTER = ("already defined", "no finite text", "is empty")


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=8))
@settings(max_examples=500, deadline=None)
def test_llama_cpp_reads_the_same_texts(fragments: list[str]) -> None:
    text = 'root ::= "a" ' + "".join(fragments) + '\nb ::= "b"\n'
    said: list[bytes] = []
    sampler = sampler_of(_joined(text), said)
    if sampler:
        samplers.llama.llama_sampler_free(sampler)
    try:
        read_gbnf(text)
        refused = ""
    except GrammarError as error:
        refused = error.reason
    if sampler:
        assert not refused or any(known in refused for known in STRICTER)
    else:
        # A repetition of something that may be empty is left recursion after llama.cpp's rewriting. It cannot repeat `""`.
        # Here, but not there, a rule may go on in the next line.
        reason = b"".join(said)
        assert refused or b"left recursion" in reason or '""' in text or {"\n", "\r\n"} & {*fragments}


@pytest.mark.parametrize("form", ['"\\{}"', "[\\{}]"])
def test_every_escape_that_llama_cpp_takes_is_the_same_character(form: str) -> None:
    taken = ""
    for letter in map(chr, range(32, 127)):
        text = "root ::= " + form.replace("{}", letter)
        # A string or a class that ends with the escaped mark is not closed.
        if sampler := sampler_of(text):
            samplers.llama.llama_sampler_free(sampler)
            taken += letter
            grammar = read_gbnf(text)
            assert all(matches(grammar, chr(code)) == llama_accepts(text, chr(code)) for code in range(1, 128)), letter
    assert taken == '"-[\\]nrt'


def _joined(text: str) -> str:
    """Join lines that continue a rule, as llama.cpp wants it."""
    return re.sub(r"(?:#[^\n\r]*)?[\r\n]\s*(?![\s\w-]*::=)", " ", text)


@pytest.mark.parametrize("name", ["ARITHMETIC", "C", "CHESS", "JAPANESE", "JSON_ARR", "JSON", "LIST"])
def test_the_grammars_of_llama_cpp_are_read_without_warnings(name: str) -> None:
    text = getattr(samplers.llama.llama_grammar, f"{name}_GBNF")
    grammar = read_gbnf(text)
    assert grammar.warnings == ()
    assert len(grammar.rules) == text.count("::=")
    assert grammar.rules[grammar.start].name == "root"
