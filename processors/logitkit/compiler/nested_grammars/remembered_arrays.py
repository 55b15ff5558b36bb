"""Arrays whose items a row remembers, and objects whose names: where they begin, in an automaton over bytes.

The grammar of a schema says so by a label: a word that stands after the opening bracket of such an array. No text has its bytes,
which are not UTF-8. So the states after these brackets are others than those after other brackets, and their numbers say what a
row must know. Then the labels are taken out.

By hand, for arrays of different ones and twos, with the label `*`: state 3 comes after the bracket and reads `*`, which leads to
state 4, which reads `1`, `2` and `]`. Now state 3 reads what state 4 reads, and remembers. If `[` leads to an array of another
kind as well, state 3 reads other bytes than the label: then the two cannot be told apart in time, which is an error.

Invariants: only an opening bracket leads to a state that remembers.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.errors import ConfigurationError

__all__ = [
    "MIXED",
    "MixedArrays",
    "Remembers",
    "can_remember",
    "is_label",
    "label_of",
    "with_number",
    "with_remembered_arrays",
]


class Remembers(IntEnum):
    """The items of an array, or the names in an object, that a row remembers, as the state after its bracket says."""

    NOTHING = 0
    ALIKE = 1
    """Its items, which are of one kind in all places."""
    VARIED = 2
    """Its items, which are of other kinds in other places."""
    NAMES = 3
    """The names of the members of an object."""
    SAME_NAMES = 4
    """The names of the members of an object in which the same ones are possible in all places."""


MIXED = (
    "arrays whose items must differ begin in one place with arrays of other items, or of items that need not differ; no "
    "automaton with one position can follow both"
)

# The first character of a label: a surrogate, with which no word and no text begins.
SURROGATE = "\udfff"
_FIRST = SURROGATE.encode("utf-8", "surrogatepass")
DIGITS = 6


def label_of(kind: Remembers, number: int) -> str:
    """Return the label of arrays of one kind.

    Args:
        kind: The kind.
        number: A number for what their items may be. Where arrays with other items may begin, it tells them apart.
    """
    return f"{SURROGATE}{kind:d}{number:0{DIGITS}d}"


def is_label(word: bytes) -> bool:
    """Whether a word is a label."""
    return word.startswith(_FIRST)


def with_number(label: bytes, number: int) -> bytes:
    """Return the label with another number, as in a larger grammar."""
    return label[:-DIGITS] + b"%0*d" % (DIGITS, number)


class MixedArrays(ConfigurationError):
    """Arrays whose items must differ, and arrays whose items need not, begin in one place; or such objects."""


def with_remembered_arrays(dfa: NestedDfa) -> NestedDfa:
    """Take out the labels.

    Raises:
        MixedArrays: An array whose items must differ and another one begin in one place.
    """
    # The states before a label, and where its bytes lead from each.
    path = [np.arange(dfa.states)]
    for byte in _FIRST:
        leads = dfa.step[path[-1], dfa.byte_class[byte]]
        live = NestedStep.is_state(leads) & (leads != DEAD)
        path = [*(states[live] for states in path), leads[live].astype(np.int64)]
    states, leads = path[0], path[-1]
    if not len(states):
        return dfa
    _check_alone(dfa, states)
    remembers = np.zeros(dfa.states, np.int8)
    for kind in Remembers:
        remembers[states[dfa.step[leads, dfa.byte_class[ord(f"{kind:d}")]] != DEAD]] = kind
    for _ in range(1 + DIGITS):
        _check_alone(dfa, leads)
        leads = dfa.step[leads].max(axis=1).astype(np.int64)
        path.append(leads)
    copied = np.arange(dfa.states)
    for inside in path[:-1]:
        # No text leads into a label any more.
        copied[inside] = leads
    return replace(
        dfa,
        step=dfa.step[copied],
        need=dfa.need[copied],
        special_tokens={token: targets[copied] for token, targets in dfa.special_tokens.items()},
        instances=None if dfa.instances is None else _entered(dfa.instances, states, leads),
        remembers=remembers,
    )


def can_remember(dfa: NestedDfa, spelled: NDArray[np.bool_]) -> bool:
    """Whether a row can write each byte of a text alone, so that it never gets stuck after a beginning that others share.

    Args:
        dfa: The automaton.
        spelled: [256] bool, which bytes are tokens.
    """
    is_read: NDArray[np.bool_] = dfa.step.any(axis=0)  # type: ignore[assignment]
    return bool((spelled | ~is_read[dfa.byte_class]).all())


def _check_alone(dfa: NestedDfa, states: NDArray[np.int64]) -> None:
    """Raise an error if a state of a label reads something else as well."""
    if np.count_nonzero(dfa.step[states]) > len(states):
        raise MixedArrays(MIXED)


def _entered(instances: FragmentInstances, labelled: NDArray[np.int64], inside: NDArray[np.int64]) -> FragmentInstances:
    """Return the instances, which quotes enter in labelled states as in those that the labels lead to."""
    source: dict[int, list[int]] = {int(leads): [] for leads in inside}
    for state, leads in zip(labelled.tolist(), inside.tolist(), strict=True):
        source[leads].append(state)
    pairs = [(at, state) for at, opening in enumerate(instances.opening.tolist()) for state in source.get(opening, ())]
    if not pairs:
        return instances
    at, state = np.array(pairs, np.int64).T
    return instances._replace(
        opening=np.concatenate([instances.opening, state]),
        **{
            name: np.concatenate([getattr(instances, name), getattr(instances, name)[at]])
            for name in ("opened", "entered", "frame")
        },
    )
