"""The data flow between an engine, its hook and a processor: one layout, and one description for each engine."""

from __future__ import annotations

from typing import NamedTuple

from pictures.svg import MARGIN, Picture

__all__ = ["FLOWS", "Flow", "draw"]


class Flow(NamedTuple):
    """The data that pass between an engine and a processor.

    Args:
        file: The name of the picture.
        engine: The engine, and what calls the hook.
        hook: The class of the hook, and what it does.
        ids: How the hook gets token ids.
        logits: How it gets logits.
        back: How the logits return.
        state: Where the state lives.
    """

    file: str
    engine: tuple[str, ...]
    hook: tuple[str, ...]
    ids: tuple[str, str]
    logits: tuple[str, str]
    back: tuple[str, str]
    state: tuple[str, str]


FLOWS = (
    Flow(
        "flow-transformers",
        ("transformers", "model.generate calls the", "hook after each forward", "pass, for all rows"),
        ("TransformersLogitsProcessor", "finds the state of each", "row by the row's tokens,", "in any order"),
        ("ids [R, L]", "read in place"),
        ("scores [R, V]", "copied once"),
        ("new scores [R, V]", "that copy"),
        ("one row per sequence or beam, as tensors on the", "device of the scores, in the hook"),
    ),
    Flow(
        "flow-mlx-lm",
        ("mlx-lm", "generate_step calls the", "hook before it samples,", "one sequence per call"),
        ("MlxLmLogitsProcessor", "finds the sequence by its", "tokens; masks stay lazy", "operations of mlx"),
        ("tokens [L]", "memory is read"),
        ("logits [1, V]", "stay in mlx"),
        ("logits [1, V]", "one mlx operation"),
        ("one row per sequence, on the CPU, in the hook;", "processors other than a constraint work on a copy of the logits"),
    ),
    Flow(
        "flow-llama-cpp",
        ("llama.cpp", "Llama.sample calls the list", "of hooks before grammar", "and sampling parameters"),
        ("LlamaCppLogitsProcessor", "has one tracker for each", "generation, and passes", "errors to the caller"),
        ("ids [L], numpy", "read in place"),
        ("logits [V]", "a view of C memory"),
        ("the same memory", "changed in place"),
        ("one row for each generation,", "on the CPU, in the hook"),
    ),
    Flow(
        "flow-vllm",
        ("vLLM", "the model runner calls", "the plugin in each step,", "for its whole batch"),
        ("LogitsProcessor (plugin)", "follows requests as they", "enter, move and leave; one", "call per kind of processor"),
        ("requests and tokens", "lists, or on device"),
        ("logits [N, V]", "shared"),
        ("the same tensor", "changed in place"),
        ("one row per request with a configuration, on the device,", "in the plugin; a configuration compiles once"),
    ),
)  # fmt: skip

TOP, HEIGHT = 66, 150
COLUMNS = ((MARGIN, 218), (383, 250), (780, 200))


def draw(flow: Flow) -> str:
    """Return the picture of one engine."""
    picture = Picture(
        f"How data flows between {flow.engine[0]} and a processor",
        f"Engine: {' '.join(flow.engine)}. Hook: {' '.join(flow.hook)}. Ids: {', '.join(flow.ids)}. "
        f"Logits: {', '.join(flow.logits)}. Back: {', '.join(flow.back)}. State: {' '.join(flow.state)}.",
    )
    processor = ("Processor", "frozen: pattern, tables;", "shared by all hooks", "and generations")
    for (x, width), heading, lines, style in zip(
        COLUMNS, ("engine", "hook", "processor"), (flow.engine, flow.hook, processor), ("k0", "box", "k2"), strict=True
    ):
        picture.text(x, TOP - 14, heading, "faint small")
        picture.box(x, TOP, width, HEIGHT, style)
        picture.text(x + 14, TOP + 32, lines[0], "name")
        for i, line in enumerate(lines[1:]):
            picture.text(x + 14, TOP + 62 + 24 * i, line)
    between = ((sum(COLUMNS[0]), COLUMNS[1][0]), (sum(COLUMNS[1]), COLUMNS[2][0]))
    steps = (
        (flow.ids, flow.logits, flow.back),
        (("advance", "state, tokens"), ("process_logits", "state, logits"), ("state, logits", "new values")),
    )
    for (left, right), labels in zip(between, steps, strict=True):
        for i, (what, how) in enumerate(labels):
            y = TOP + 30 + 50 * i
            start, end = (left + 4, right - 4) if i < 2 else (right - 4, left + 4)
            picture.path(f"M{start} {y}H{end}", arrow=True)
            picture.text((left + right) / 2, y - 6, what, "small middle")
            picture.text((left + right) / 2, y + 15, how, "small middle faint")
    x, width = COLUMNS[1]
    picture.path(f"M{x + width / 2} {TOP + HEIGHT + 2}V{TOP + HEIGHT + 30}", arrow=True)
    picture.box(240, TOP + HEIGHT + 32, 545, 66, "k3")
    picture.text(254, TOP + HEIGHT + 57, "State", "name")
    for i, line in enumerate(flow.state):
        picture.text(310, TOP + HEIGHT + 57 + 24 * i, line)
    picture.text(MARGIN, 30, f"{flow.engine[0]}: what passes through, and what is copied", "title")
    return picture.finish()
