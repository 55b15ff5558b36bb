"""How states follow beams that are reordered: a beam search over a small vocabulary."""

from __future__ import annotations

import torch
from pictures.svg import MARGIN, Picture
from pictures.toy import VOCABULARY, name

import logitkit as lk

__all__ = ["draw"]

BEAMS, STEPS, SEED = 3, 4, 5
PATTERN = r"[0-9]{1,2}(\.[0-9]{1,2})?"
COLUMN, ROW, TOP = 245, 92, 86


def draw() -> str:
    """Return the picture."""
    constraint = lk.Regex(PATTERN, VOCABULARY)
    context = lk.Context.of([[]] * BEAMS, vocabulary_size=VOCABULARY.size)
    state = constraint.init_state(context)
    generator = torch.Generator().manual_seed(SEED)
    scores = torch.tensor([0.0] + [-torch.inf] * (BEAMS - 1))
    texts = [""] * BEAMS
    picture = Picture(
        "State follows the beams",
        f"A beam search with {BEAMS} beams over the pattern {PATTERN}. At each step the engine picks parents, "
        "and each new row has the state of its parent after one more token.",
    )
    picture.text(
        MARGIN,
        34,
        f"Beam search with {BEAMS} beams: a row's state follows from its tokens, wherever the row goes",
        "title",
    )
    picture.text(
        MARGIN,
        56,
        f"A line leads from a beam to what it became; s is the number of its state in {PATTERN}, 1 after EOS",
        "faint",
    )
    for step in range(STEPS):
        logits = torch.randn(BEAMS, VOCABULARY.size, generator=generator)
        state, masked = constraint.process_logits(state, logits, context)
        scores, best = (scores[:, None] + masked.log_softmax(-1)).view(-1).topk(BEAMS)
        parents, tokens = best // VOCABULARY.size, best % VOCABULARY.size
        state = constraint.advance(lk.select(state, parents), tokens)
        texts = [texts[p] + name(t) + " " for p, t in zip(parents.tolist(), tokens.tolist(), strict=True)]
        x = MARGIN + COLUMN * step
        picture.text(x, TOP, f"step {step + 1}: parents {parents.tolist()}", "small")
        for row in range(BEAMS):
            y = TOP + 14 + ROW * row
            token, parent = int(tokens[row]), int(parents[row])
            if step:
                start = TOP + 14 + ROW * parent + 34
                middle = x - COLUMN + 205
                picture.path(f"M{middle} {start}C{middle + 20} {start} {x - 24} {y + 34} {x - 2} {y + 34}", arrow=True)
            number = int(state.at.state[row])
            picture.box(x, y, 205, 68, f"k{parent + 1}" if step else "box")
            picture.text(x + 10, y + 24, f"row {row}", "name")
            picture.text(x + 195, y + 24, f"s = {number}", "mono end")
            picture.text(x + 10, y + 50, texts[row].strip(), "mono")
            picture.text(x + 195, y + 50, f"+ {name(token)}", "mono end faint")
    foot = TOP + 14 + ROW * BEAMS + 10
    picture.text(
        MARGIN,
        foot,
        "The colour of a row is that of its parent's place: blue from row 0, green from row 1, orange from row 2.",
        "faint small",
    )
    picture.text(MARGIN, foot + 22, "state = processor.advance(lk.select(state, parents), tokens)", "mono")
    return picture.finish()
