"""Patterns of at most 10 kB that are meant to exhaust a compiler. Run as a program, it compiles them all and reports.

Usage: python -m tests.automata.hostile_patterns [NAME...]: one JSON object per line, with CPU seconds and peak memory so far.
"""

from __future__ import annotations

import json
import sys
import time

HOSTILE = {
    "word boundaries between empty parts": r"\b".join([r"\w*"] * 30),
    "anchors in a row": "^" * 5000 + "a" + "$" * 4000,
    "atomic groups in a row": "(?>a*)" * 1500 + "b",
    "a set of many ranges in a row": r"[\w-]" * 1500,
    "letters in a row": r"\p{L}" * 1600,
    "exponential": "(a|b)*a(a|b){30}",
    "exponential over Unicode": r"(\w|\d)*\d(\w|\s){14}",
    "nested counts": "(((a{100}){100}){100}){100}",
    "nested optional counts": "((((a?){50}){50}){50}){50}",
    "nested mixed counts": "(?:(?:(?:a{0,30}b){0,30}c){0,30}d){0,30}",
    "counts twenty deep": "(" * 20 + "a" + "{0,3})" * 20,
    "ambiguous counts": "(?:(?:ab?){1,40}c?){1,40}",
    "overlapping counts": r"(?:[a-m]{1,50}|[g-z]{1,50}|[a-z]{0,30}x){1,20}",
    "one count as large as the limit": "a{49990}",
    "a large count of Unicode words": r"\w{49990}",
    "a large count of anything": r"[\s\S]{1,20000}",
    "a large bounded word": r"\w{1,3000}",
    "five hundred words": r"(?i)(?:\w+\W+){1,500}\w+",
    "digits in groups": r"(?:\d{1,3},?){1,200}\w{0,300}",
    "many stars": "(a*)*" * 1500,
    "many stars of stars": "(a*b*c*)*" * 1000,
    "many options": "a?" * 5000,
    "many overlapping options": r"\w?\d?" * 1500,
    "many ranges": "".join(f"[{chr(97 + i % 26)}-z]?" for i in range(1600)),
    "dot star a": ".*a" * 3000,
    "dot star letters": "".join(f".*{chr(97 + i % 26)}" for i in range(3000)),
    "one of all letters": "|".join(f".*{chr(97 + i)}.*" for i in range(26)),
    "distances": r"[\s\S]*a[\s\S]{30}b[\s\S]{50}c[\s\S]{70}d",
    "two long fields": r".{1,300}@.{1,300}",
    "three long fields": r".{1,100}@.{1,100}#.{1,100}",
    "thousand sets side by side": "|".join(f"[{chr(0x100 + i)}-{chr(0x1000 + 7 * i)}]x" for i in range(1200)),
    "sets in a loop": "(" + "|".join(f"[{chr(0x100 + i)}-{chr(0x1000 + 7 * i)}]{i}" for i in range(700)) + ")*",
    "properties": r"\p{L}*\p{Lu}" * 700,
    "parentheses": "(" * 99 + "a" + "*)" * 99,
    "lookaheads": "".join(f"(?=.*{chr(97 + i)})" for i in range(26)) + ".*",
    "distant lookaheads": "".join(f"(?=.{{{i}}}a)" for i in range(60)) + ".*",
    "repeated lookaheads": r"(?:(?=.{0,40}a)(?!.{0,30}b)[a-z]{1,20}){1,20}",
    "lookbehinds": r"(?:\w(?<=a.{15})|\d(?<!b.{12}))*",
    "boundaries": r"(?:\b.{0,40}\B.{0,40}){1,20}",
    "overlapping products": r"(?=.*a.{12}b)(?=.*c.{13}d)(?=.*e.{14}f).*",
    "deep lookbehind": r".*(?<=a.{14})b.*",
    "negated lookbehind": r"(?:.*(?<!a.{10}))+b",
    "coprime loops": "|".join(f"(?:a{{{p}}})*" for p in (1009, 1013)),
    "product of loops": "(?:" + "|".join(f"(?:a{{{p}}})*" for p in (2, 3, 5, 7, 11, 13, 17, 19)) + ")",
    "ambiguous fields": "(.{1,200},){1,50}",
    "atomic options": "(?>" + "".join(f"{chr(97 + i)}?" for i in range(20)) + ")z",
    "lookbehinds of one character": "".join(rf"(?:\w(?<!{chr(0x100 + i)}))?" for i in range(220)),
    "letters with lookbehinds": "".join(rf"(?:\w(?<!{chr(97 + i % 26)}))?" for i in range(500)),
    "lookbehinds in a row": "(?:." + "".join(f"(?<!{chr(0x100 + i)})" for i in range(1300)) + ")*",
    "overlapping sets": "".join(f"[{chr(0x100 + i)}-{chr(0x1000 + 7 * i)}]?" for i in range(1000)),
    "overlapping sets in a loop": "(?:"
    + "".join(f"[{chr(0x100 + i)}-{chr(0x1000 + 7 * i)}]?" for i in range(700))
    + ")*",
    "ideographs": "".join(chr(0x4E00 + 17 * i % 0x5000) for i in range(3300)),
    "ideographs and a large count": "".join(chr(0x4E00 + i) for i in range(1600)) + ".{1,40000}",
    "ideographs and optional words": r"\w?".join(chr(0x4E00 + i) for i in range(1600)),
    "atomic groups": r"(?>(?>a+|ab)+|(?>b+|ba)*c){1,30}",
}


def main() -> None:
    """Compile the patterns on a real vocabulary."""
    import logitkit as lk
    from tests.peak_memory import peak_megabytes
    from tests.vocabularies import tekken

    vocabulary = tekken()
    lk.Regex("ready", vocabulary)
    before = peak_megabytes()
    for name in sys.argv[1:] or HOSTILE:
        begin = time.process_time()
        try:
            outcome = f"{lk.Regex(HOSTILE[name], vocabulary).automaton.states} states"
        except lk.errors.PatternTooLarge as error:
            outcome = str(error)
        took = time.process_time() - begin
        grown = peak_megabytes() - before
        print(json.dumps({"name": name, "seconds": took, "megabytes": grown, "outcome": outcome}), flush=True)


if __name__ == "__main__":
    main()
