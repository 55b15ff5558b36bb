"""Forget what an earlier compilation left behind, so that the next one is measured from nothing."""

from __future__ import annotations

from logitkit.compiler.tokens.fragments import fragment_tokens
from logitkit.constraints.json_schema import JsonSchema
from logitkit.json_schema import string_fragment
from logitkit.patterns import classes
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary import Vocabulary


def forget(vocabulary: Vocabulary) -> None:
    """Drop cached automata of a vocabulary, and what depends on patterns and schemas in other caches.

    Tables that are made once per process or once per vocabulary stay, as those of peers do; so do the parts of any JSON value.
    """
    shared = shared_by(vocabulary)
    fragment_tokens._known.pop(vocabulary, None)
    string_fragment._known.clear()
    JsonSchema({}, vocabulary)
    shared._automata.clear()
    shared._bytes = 0
    classes._build.cache_clear()
    classes._named.cache_clear()
    assert not len(shared.registry.masks), "an earlier automaton is still in use"
