"""The EBNF grammars in XGrammar's tests: how many logitkit reads, and whether both give the same verdict on random texts.

    python -m benchmarks.xgrammar_grammars PATH_TO_XGRAMMAR [--texts 6]

Every string with `::=` in XGrammar's tests is tried that XGrammar itself reads. Texts are written at random under logitkit's
masks, over bytes, and changed in a place at random. Grammars that name tokens by ids are read, but have no texts over bytes.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch
import xgrammar
from xgrammar.testing import _is_grammar_accept_string as is_accepted

import logitkit as lk
from logitkit.errors import ConfigurationError, GrammarError, PatternTooLarge

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256], special={"</s>": 256})
EOS, LONGEST, CHANGES = 256, 40, 3
SIGNS = 'ab1"{}[] <>\\'


def grammars(folder: Path) -> list[str]:
    """Return the grammars in the tests below a folder that XGrammar reads."""
    texts = {
        node.value
        for file in folder.rglob("tests/python/**/*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "::=" in node.value
    }
    return [text for text in sorted(texts) if _is_read(text)]


def _is_read(text: str) -> bool:
    try:
        xgrammar.Grammar.from_ebnf(text)
    except RuntimeError:
        return False
    return True


def random_text(grammar: lk.Grammar, chance: random.Random) -> str | None:
    """Return a text written under the masks of a grammar, which may be cut; None if it ends within a character."""
    context = lk.Context.of([[]], VOCABULARY.size, max_length=LONGEST)
    state, written = grammar.init_state(context), bytearray()
    while len(written) < LONGEST:
        logits = grammar.process_logits(state, torch.zeros(1, VOCABULARY.size), context)[1][0]
        legal = (logits > -torch.inf).nonzero()[:, 0].tolist()
        token = EOS if EOS in legal and chance.random() < 0.3 else chance.choice(legal)
        if token == EOS:
            break
        written.append(token)
        state = grammar.advance(state, torch.tensor([token]))
    try:
        return written.decode()
    except UnicodeDecodeError:
        return None


def changed(text: str, chance: random.Random) -> Iterator[str]:
    """Yield a text, and some that differ from it in one place."""
    yield text
    for _ in range(CHANGES if text else 0):
        place = chance.randrange(len(text))
        yield text[:place] + chance.choice(["", text[place] * 2, chance.choice(SIGNS)]) + text[place + 1 :]


def main() -> None:
    """Print how many grammars are read, why others are not, and how many verdicts agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=6, help="random texts of each grammar")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    chance, refused, found = random.Random(0), Counter[str](), Counter[str]()
    texts = grammars(options.folder)
    for text in texts:
        try:
            grammar = lk.Grammar(text, VOCABULARY, syntax="gbnf")
        except (ConfigurationError, GrammarError, PatternTooLarge) as error:
            refused[re.sub(r"'[^']*'|[0-9]+", "N", str(error).partition("\n")[0])[:110]] += 1
            continue
        if re.search(r"Token\(|TokenTagDispatch\(", text):
            found["grammars of tokens"] += 1
            continue
        theirs = xgrammar.Grammar.from_ebnf(text)
        for written in filter(None, (random_text(grammar, chance) for _ in range(options.texts))):
            for other in changed(written, chance):
                try:
                    expected = is_accepted(theirs, other)
                except RuntimeError:  # XGrammar reads the grammar, but does not compile it
                    found["texts without a verdict"] += 1
                    continue
                agrees = grammar.matches(other) == expected
                found["texts with the same verdict" if agrees else "texts with another verdict"] += 1
                if not agrees:
                    print(f"XGrammar {'takes' if expected else 'refuses'} {other!r}, of\n{text}\n")
    print(f"{len(texts)} grammars that XGrammar reads, {len(texts) - sum(refused.values())} compiled")
    for counts in (found, refused):
        for name, count in counts.most_common():
            print(f"{count:>8,} {name}")


if __name__ == "__main__":
    main()
