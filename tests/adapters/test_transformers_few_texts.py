"""Beams of a language that has fewer texts than there are beams: no beam outside of the language wins."""

from __future__ import annotations

import re

import pytest
import torch

import logitkit as lk
from logitkit_adapters.transformers import logits_processor
from tests.adapters.demo import model, text_of, tokenizer, vocabulary
from tests.adapters.watch import Watch

# transformers' own mark for "no beam" is a score of -1e9, which it may divide by the length; sums of
# log-probabilities are far above.
NO_BEAM = -1e7
LIMIT = 12


LANGUAGES = {
    "yes|no": lambda: lk.Choice(["yes", "no"], vocabulary()),
    "yes": lambda: lk.Choice(["yes"], vocabulary()),
    "a{3}": lambda: lk.Regex("a{3}", vocabulary()),
    "": lambda: lk.Regex("", vocabulary()),
}


@pytest.mark.parametrize("pattern", LANGUAGES)
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("length_penalty", [1.0, 0.0, -1.0])
@pytest.mark.parametrize("early_stopping", [False, True, "never"])
def test_a_returned_row_is_legal_or_marked_as_no_beam(
    pattern: str, sampled: bool, length_penalty: float, early_stopping: bool | str
) -> None:
    prompt, watch = tokenizer()("Question: Is Paris in France?\nAnswer:", return_tensors="pt"), Watch()
    torch.manual_seed(0)
    out = model().generate(
        **prompt,
        max_new_tokens=LIMIT,
        num_beams=4,
        num_return_sequences=4,
        do_sample=sampled,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        logits_processor=[logits_processor(LANGUAGES[pattern]()), watch],
        output_scores=True,
        return_dict_in_generate=True,
    )
    rows = out.sequences[:, prompt["input_ids"].shape[1] :]
    beams = [text_of(row) for row, score in zip(rows, out.sequences_scores.tolist(), strict=True) if score > NO_BEAM]
    assert beams
    assert [text for text in beams if not re.fullmatch(pattern, text)] == []
    # Sampled beams do leave the language (others rather copy a legal text): a dead row has EOS alone, at 0.
    eos = tokenizer().eos_token_id
    dead = sum(int(row.isfinite().sum() == 1 and row[eos] == 0) for step in watch.scores for row in step)
    assert dead or not (sampled and pattern)
