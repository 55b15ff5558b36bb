"""Token automata after one another, against both walked by hand."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.tokens.linking.token_concatenation import until_token
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS
from logitkit.vocabulary import Vocabulary
from tests.automata.brute_force import targets_by_table
from tests.automata.test_intersection import BANS, PATTERNS, WORDS, compiled
from tests.examples import examples

EOS = 1
Place = tuple[bool, int]


def places_by_hand(first: TokenAutomaton, marker: int, second: TokenAutomaton) -> dict[Place, list[Place | None]]:
    """Return where each token leads from each place, (after the marker, state), or None where no end is reached."""
    moves: dict[Place, list[Place | None]] = {}
    todo = [(False, first.start)]
    while todo:
        place = todo.pop()
        if place in moves:
            continue
        behind, state = place
        targets = targets_by_table(second if behind else first, state).tolist()
        row: list[Place | None] = [(behind, t) if t >= FIRST_STATE else None for t in targets]
        if not behind:
            row[marker] = (True, second.start) if first.accepting[state] else None
        moves[place] = row
        todo += [p for p in row if p is not None]
    alive: set[Place] = {(behind, state) for behind, state in moves if behind and second.accepting[state]}
    while more := {p for p in moves if p not in alive and alive.intersection(q for q in moves[p] if q)}:
        alive |= more
    return {p: [q if q in alive else None for q in row] for p, row in moves.items() if p in alive}


@settings(max_examples=examples(400))
@given(WORDS, st.sampled_from(PATTERNS) | BANS, st.sampled_from(PATTERNS) | BANS, st.data())
def test_every_token_of_every_place(
    words: set[str], before: str | list[bytes], behind: str | list[bytes], data: st.DataObject
) -> None:
    tokens = [None, None, *(w.encode() for w in sorted(words))]
    vocabulary = Vocabulary(tokens, eos_ids=[EOS])
    marker = data.draw(st.sampled_from([0, *range(2, len(tokens))]))
    try:
        first, second = compiled(before, vocabulary), compiled(behind, vocabulary)
    except ConfigurationError:
        return
    expected = places_by_hand(first, marker, second)
    both = until_token(first, marker, second, DEFAULT_LIMITS)
    if both is None:
        assert (False, first.start) not in expected
        return
    start = (False, first.start)
    state_of, todo = {start: both.start}, [start]
    while todo:
        place = todo.pop()
        found = targets_by_table(both, state_of[place]).tolist()
        assert found[EOS] == (FINISHED if place[0] and second.accepting[place[1]] else DEAD)
        for token, target in enumerate(expected[place]):
            if token == EOS:
                continue
            assert (found[token] == DEAD) == (target is None)
            if target is not None and target not in state_of:
                state_of[target] = found[token]
                todo.append(target)
            assert target is None or state_of[target] == found[token]
