"""Derives the markers of reasoning, from a turn with reasoning before calls, or from the prompt."""

from __future__ import annotations

from collections.abc import Mapping

from logitkit.tools.derivation.atoms import atoms, first_tag, is_tag, shared_end, shared_start
from logitkit.tools.derivation.probes import NAMES, REASONING
from logitkit.tools.derivation.turn_parts import TurnParts

__all__ = ["KEYS", "reasoning_markers"]

# Where templates look for reasoning in a message.
KEYS = ("reasoning_content", "reasoning", "thinking", "thought")
# Markers that templates write around reasoning without rendering any, as in a prompt.
_KNOWN = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))


def reasoning_markers(parts: TurnParts, replies: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what stands before and after reasoning; None if the template has none.

    Args:
        parts: The texts around the calls of a turn.
        replies: The renderings, by the names of the probes; those with reasoning by its key.
    """
    one = replies["one"]
    plain = one[: one.find(NAMES[0])]
    for key in KEYS:
        before, found, after = replies.get(key, "").partition(REASONING)
        if not found or REASONING in after or NAMES[0] not in after:
            continue
        begin = before.removeprefix(shared_start(before, _without_reasoning(plain, parts)))
        is_always = not begin.strip()
        if is_always:
            # Calls without reasoning have the markers too, with nothing between them.
            tags = [atom for atom in atoms(before[-200:]) if is_tag(atom)]
            begin = before[before.rindex(tags[-1]) :] if tags else ""
        shown = after[: after.find(NAMES[0])]
        calls = plain[len(parts.header) :]
        if calls and shown.endswith(calls):
            end = shown.removesuffix(calls).strip()
        else:
            end = shown.removesuffix(shared_end(shown, plain)).strip() or first_tag(shown.lstrip()) or ""
        begin = (_like(end, before) if is_always else "") or begin
        if end and begin.strip():
            # A line before the marker belongs to the template; a space may be part of what the model writes.
            lead = begin[: len(begin) - len(begin.lstrip())]
            return begin.removeprefix(lead) if "\n" in lead else begin, end
    shown = parts.header + replies.get("prompt", "")
    for begin, end in _KNOWN:
        if begin in shown or end in shown:
            return begin + ("\n" if begin + "\n" in shown else ""), end
    return None


def _like(end: str, before: str) -> str:
    """Return the end of a text that only begins with another tag than the end of reasoning, such as `<|open|>think<|sep|>`."""
    found = atoms(end)
    tags = [at for at, atom in enumerate(found) if is_tag(atom)]
    if len(tags) < 2 or tags[0] or tags[1] == 1:
        return ""
    shared = "".join(found[1 : tags[1] + 1])
    rest = atoms(before.removesuffix(shared)[-200:])
    return rest[-1] + shared if before.endswith(shared) and rest and is_tag(rest[-1]) else ""


def _without_reasoning(plain: str, parts: TurnParts) -> str:
    """Return what stands before calls and before empty reasoning, if there is some."""
    for begin, _ in _KNOWN:
        if begin in plain:
            return plain[: plain.index(begin)]
    return parts.header if plain.startswith(parts.header) else plain
