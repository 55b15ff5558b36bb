"""How the tokens of a vocabulary become a few classes, and how a mask is a union of classes."""

from __future__ import annotations

from typing import Any

from pictures.svg import MARGIN, Picture
from pictures.toy import VOCABULARY, name

import logitkit as lk

__all__ = ["draw"]

PATTERN = r"[0-9]+(\.[0-9]+)?"
WALK = ("42", ".", "7", "EOS")
SECONDS = 2.5  # for each step of the walk
FINISHED = 1  # the state after EOS
TOKENS = range(VOCABULARY.size)


def draw() -> str:
    """Return the picture."""
    automaton = lk.Regex(PATTERN, VOCABULARY).automaton
    letter = {state: chr(ord("A") + i) for i, state in enumerate(range(automaton.start, automaton.states))}
    letter[FINISHED] = "end"
    picture = Picture(
        "Tokens become classes, and a mask is a union of classes",
        f"The pattern {PATTERN} over {len(TOKENS)} tokens: its automaton, its {automaton.classes} classes of tokens, "
        "its table by state and class, and the masks of a text, token by token.",
    )
    order = _automaton(picture, automaton, letter)
    _masks(picture, automaton, letter, _table(picture, automaton, letter, order))
    total, share = SECONDS * len(WALK), 100 / len(WALK)
    return picture.finish(
        ".now{fill:#5c6bc0;stroke:none;opacity:0}.chosen{stroke:#c62828;stroke-width:3}"
        f"@media(prefers-reduced-motion:no-preference){{.now{{animation:now {total}s infinite}}}}"
        f"@keyframes now{{0%,{share - 1}%{{opacity:.22}}{share}%,100%{{opacity:0}}}}"
    )


def _automaton(picture: Picture, automaton: Any, letter: dict[int, str]) -> list[int]:
    """Draw the states in a chain, with an edge for the tokens of one character; return the states in this order."""
    picture.text(MARGIN, 34, f"1. The pattern {PATTERN} becomes an automaton", "title")
    order = [automaton.start]
    for place, state in enumerate(order):
        edges: dict[int, list[str]] = {}
        for token in TOKENS:
            if len(name(token)) == 1 and (target := automaton.next(state, token)) != 0:
                edges.setdefault(target, []).append(name(token))
        x = 90 + 210 * place
        for target, labels in edges.items():
            if target == state:
                picture.path(f"M{x - 12} 74C{x - 34} 44 {x + 34} 44 {x + 12} 74", arrow=True)
                picture.text(x + 32, 66, " ".join(labels), "mono small")
            else:
                assert target not in order, "the picture shows a chain of states"
                order.append(target)
                picture.path(f"M{x + 24} 94H{x + 184}", arrow=True)
                picture.text(x + 104, 88, " ".join(labels), "mono small middle")
        picture.circle(x, 94, 22)
        if automaton.accepting[state]:
            picture.circle(x, 94, 17)
        picture.text(x, 99, letter[state], "name middle")
    picture.text(MARGIN, 136, "A double circle: the text may end here.", "faint small")
    return order


def _table(picture: Picture, automaton: Any, letter: dict[int, str], order: list[int]) -> float:
    """Draw the classes with their tokens, and where each leads from each state; return the height below."""
    members = [[t for t in TOKENS if automaton.class_of[t] == c] for c in range(automaton.classes)]
    counts = f"{len(TOKENS)} tokens, {len(members)} classes"
    picture.text(MARGIN, 176, f"2. Tokens that act alike in every state form a class: {counts}", "title")
    left, column, top = 100, 124, 192
    tall = 28 * max((len(each) + 1) // 2 for each in members) + 10
    for c, each in enumerate(members):
        picture.box(left + c * column, top, column - 8, tall, f"k{c}")
        for i, token in enumerate(each):
            x = left + c * column + (58 if len(each) == 1 else 30 + 56 * (i % 2))
            picture.text(x, top + 24 + 28 * (i // 2), name(token), "mono middle")
    top += tall + 10
    for row, state in enumerate(order):
        picture.text(MARGIN, top + 30 * row + 17, f"state {letter[state]}", "name")
        for c in range(len(members)):
            target = automaton.target(state, c)
            what, style = (f"→ {letter[target]}", f"k{c}") if target != 0 else ("–", "off")
            picture.chip(left + c * column, top + 30 * row, column - 8, what, style)
    return top + 30 * len(order)


def _masks(picture: Picture, automaton: Any, letter: dict[int, str], above: float) -> None:
    """Draw the mask of each step of a text, and the token that is taken."""
    picture.text(MARGIN, above + 40, "3. The mask of a step is the union of the legal classes of one state", "title")
    ids = {name(t): t for t in TOKENS}
    width = 750 / len(TOKENS)
    state, text, y = automaton.start, "", above + 54
    for step, chosen in enumerate(WALK):
        delay = f"animation-delay:{step * SECONDS}s"
        picture.raw(f'<rect class="now" style="{delay}" x="{MARGIN - 8}" y="{y}" width="976" height="32" rx="6"/>')
        picture.text(MARGIN, y + 21, f"“{text}”", "mono")
        picture.text(MARGIN + 90, y + 21, f"state {letter[state]}", "name")
        for token in TOKENS:
            legal = automaton.next(state, token) != 0
            style = f"k{automaton.class_of[token]}" if legal else "off"
            picture.chip(200 + token * width, y + 4, width - 6, name(token), style)
        x = 200 + ids[chosen] * width
        picture.path(f"M{x + 3:.1f} {y + 30}H{x + width - 9:.1f}", "chosen")
        state, text, y = automaton.next(state, ids[chosen]), text + chosen, y + 34
        assert state != 0, f"{chosen} is not legal"
    note = "A filled token is legal; the underlined one is taken, and the next row follows. EOS ends the text."
    picture.text(MARGIN, y + 24, note, "faint small")
