"""Grammars that are made to take long or much memory, in both syntaxes. Run as a program, it compiles them all and reports.

Usage: python -m tests.grammars.hostile_grammars [NAME...]: one JSON array per line, with the name, the outcome, the seconds of
processor time, and the megabytes of memory that it took. Each is compiled in a process of its own.
"""

from __future__ import annotations

import json
import os
import random
import resource
import string
import sys
import time
import warnings
from functools import cache
from typing import Literal, NamedTuple


class Hostile(NamedTuple):
    """A grammar and its syntax."""

    text: str
    syntax: Literal["gbnf", "lark"] = "gbnf"
    lexer: Literal["dynamic"] | None = None


def lark(text: str, lexer: Literal["dynamic"] | None = None) -> Hostile:
    return Hostile(text, "lark", lexer)


def nested(inside: str, levels: int, repetition: str) -> str:
    return "(" * levels + inside + f"){repetition}" * levels


def numbered(count: int, rule: str) -> str:
    """Return rules r0, r1 and so on; N, M and P stand for the next, another, and any number."""
    chance = random.Random(0)
    lines = []
    for i in range(count):
        drawn = rule.replace("NEXT", f"r{(i + 1) % count}").replace("OTHER", f"r{(7 * i + 1) % count}")
        while "ANY" in drawn:
            drawn = drawn.replace("ANY", f"r{chance.randrange(count)}", 1)
        lines.append(f"r{i} ::= {drawn.replace('SELF', str(i))}")
    return "root ::= r0\n" + "\n".join(lines)


def words(count: int) -> list[str]:
    """Return the first words of a random list, which is made once."""
    return _words()[:count]


@cache
def _words() -> list[str]:
    chance = random.Random(0)
    return ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(4, 12))) for _ in range(90_000)]


LETTERS = [chr(0x4E00 + i) for i in range(500)]
KEYWORDS = dict.fromkeys(words(2_000))

HOSTILE: dict[str, Hostile] = {
    # Counts and optional parts in each other.
    "nested optional counts": Hostile("root ::= " + nested("[^x]*", 6, "{0,99}")),
    "nested optional counts, recursive": Hostile("root ::= " + nested("[^x]* root?", 6, "{0,99}")),
    "nested optionals": Hostile("root ::= " + nested('"a"', 60, "?")),
    "nested optionals of two": Hostile("root ::= " + '("a" ' * 60 + ")?" * 60),
    "nested optionals that end in many ways": Hostile(
        "root ::= " + "(" * 40 + "x" + " x)?" * 40 + '\nx ::= "a" root? "b" | [^x]{0,20}'
    ),
    "nested stars": Hostile("root ::= " + nested('"a"* "b"*', 50, "*")),
    "nested counts": Hostile("root ::= " + nested('"a"', 4, "{100}")),
    "a large count": Hostile('root ::= "a"{2000} [a-z]{0,2000} root?'),
    "counts of a recursive rule": Hostile('root ::= "(" root{0,200} ")" | "a"'),
    "counts of two recursive rules": Hostile('root ::= "(" (root "," | "," root){0,100} ")" | "a"'),
    "options in a row": Hostile("root ::= " + "[a-z]? " * 2_000),
    "calls in a row": Hostile("root ::= " + "item? " * 1_000 + '\nitem ::= "a" | "(" item ")"'),
    "different calls in a row": Hostile(
        "root ::= "
        + " ".join(f"r{i}?" for i in range(300))
        + "\n"
        + "\n".join(f'r{i} ::= "a" | "(" r{i} ")"' for i in range(300))
    ),
    "one of many overlapping classes": Hostile(
        "root ::= " + " | ".join(f"[{chr(0x100 + i)}-{chr(0x1000 + 7 * i)}] root" for i in range(600)) + ' | "x"'
    ),
    "exponential": Hostile('root ::= ([ab])* "a" ([ab]){30}'),
    # Recursion that is not deterministic.
    "palindromes": Hostile('root ::= "a" root "a" | "b" root "b" | ""'),
    "palindromes over 500 characters": Hostile(
        "root ::= " + " | ".join(f'"{c}" root "{c}"' for c in LETTERS) + ' | ""'
    ),
    "palindromes over 62 characters": Hostile(
        "root ::= " + " | ".join(f'"{c}" root "{c}"' for c in string.ascii_letters + string.digits) + ' | ""'
    ),
    "palindromes of words": Hostile("root ::= " + " | ".join(f'"{w}" root "{w}"' for w in words(300)) + ' | ""'),
    "palindromes with separators": Hostile(
        "root ::= " + " | ".join(f'"{c}" root? "-"? root? "{c}"' for c in LETTERS[:100]) + ' | "x"'
    ),
    "all doubled": Hostile('root ::= root root | root root root | "a" | "b" | ""'),
    "ambiguous sums": Hostile("root ::= " + " | ".join(f'root "{c}" root' for c in string.ascii_letters) + ' | "("'),
    "endings without limit": Hostile('root ::= "x" root root? root? | "z"'),
    "many ways to close": Hostile('root ::= "(" root? (")" | "))" | ")))" | "))))") root? | "a"'),
    "many heights": Hostile('root ::= "a" root "b" | "a" root "bb" | "aa" root "b" | "aaa" root "bbb" | ""'),
    "cyclic": Hostile(numbered(60, '"a"? ANY | ANY "b"? | ANY ANY | "c"')),
    "dense": Hostile(numbered(40, '"a" ANY ANY | "b" ANY | ANY "c" ANY | ANY | "d"')),
    "dense and nested": Hostile(numbered(30, '"(" ANY ")" ANY? | ANY "+" ANY | "x" ANY? "y"')),
    "reversed twice": Hostile('root ::= a b\na ::= "x" a "x" | "y" a "y" | ""\nb ::= a a a'),
    # Many rules.
    "10,000 rules": Hostile(numbered(10_000, '"(" OTHER ")" NEXT | "b"')),
    "10,000 rules in a chain": Hostile(numbered(10_000, '"a" NEXT | "b"')),
    "10,000 names of names": Hostile(numbered(9_999, "NEXT | OTHER").replace("r9998 ::= ", 'r9998 ::= "c" | ')),
    "10,000 left-recursive rules": Hostile(numbered(10_000, 'NEXT "a" | "b"')),
    "10,000 nullable rules": Hostile(numbered(10_000, 'NEXT? OTHER? | "a"')),
    "10,000 unused rules": Hostile('root ::= "a"\n' + "\n".join(f'r{i} ::= "a" r{i} | "b"' for i in range(10_000))),
    "10,000 rules of one level": Hostile(
        "root ::= "
        + " | ".join(f"r{i}" for i in range(10_000))
        + "\n"
        + "\n".join(f'r{i} ::= "w{i}" root?' for i in range(10_000))
    ),
    "3,000 brackets": Hostile(
        "root ::= "
        + " | ".join(f"r{i}" for i in range(3_000))
        + "\n"
        + "\n".join(f'r{i} ::= "<{i}>" root? "</{i}>"' for i in range(3_000))
    ),
    "doubled rules": Hostile(
        "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)) + '\nr60 ::= "c"'
    ),
    "counts of doubled rules": Hostile(
        "root ::= r0\n" + "\n".join(f"r{i} ::= (r{i + 1} r{i + 1}){{1,30}}" for i in range(3)) + "\nr3 ::= [a-z]*"
    ),
    # The number of frames that may lie on each other grows with the square of the levels.
    "doubled rules of an optional letter": Hostile(
        "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(75)) + '\nr75 ::= "a"?'
    ),
    "a tower of 500 operators": Hostile(
        "root ::= r0\n"
        + "\n".join(f'r{i} ::= r{i + 1} ("o{i} " r{i + 1})*' for i in range(500))
        + '\nr500 ::= "x" | "(" root ")"'
    ),
    # Special tokens.
    "4,000 excluded tokens": Hostile("root ::= " + " | ".join(f"!<[{i}]> root" for i in range(3, 4_000)) + ' | "x"'),
    "all tokens by their ids": lark("start: " + " ".join(f"<[{i}0000-{i}9999]>?" for i in range(1, 13))),
    # Large texts.
    "a string of 20,000 characters": Hostile('root ::= "' + "ab" * 10_000 + '"'),
    "a string of 20,000 ideographs": Hostile('root ::= "' + "".join(LETTERS) * 40 + '"'),
    "strings of 20,000 characters": Hostile(
        "root ::= " + " | ".join(f'"{c * 20_000}" root?' for c in string.ascii_lowercase)
    ),
    "a rule of 1 MB": Hostile("root ::= " + " | ".join(f'"{w}"' for w in words(90_000))),
    "1 MB in rules of 40 kB": Hostile(
        "root ::= r0\n"
        + "\n".join(f"r{i} ::= " + f"[{i % 10}a-z] r{(i + 1) % 25} | " * 2_800 + '"b"' for i in range(25))
    ),
    "1 MB in rules of 100 bytes": Hostile(
        numbered(10_000, '"(" OTHER ")" [a-z]{2,9} ("+" | "-" ANY)* ".." NEXT | "b" ANY? [^b] "ccc"')
    ),
    "1 MB in rules of 100 bytes, in Lark": lark(
        "start: r0\n"
        + "\n".join(
            f'r{i}: "(" r{(7 * i + 1) % 10_000} ")" /[a-z]{{2,9}}/ ("+" | "-" r{3 * i % 10_000})* ".." r{(i + 1) % 10_000} | "b"'
            for i in range(10_000)
        )
    ),
    "a rule of 1 MB of calls": Hostile("root ::= " + "a " * 500_000 + '\na ::= "x"'),
    "a rule of 1 MB of classes": Hostile("root ::= " + "[a-z] " * 160_000),
    "a rule of 1 MB of groups": Hostile("root ::= " + '("a" | "b")? ' * 75_000),
    "a rule of 1 MB of options": Hostile("root ::= " + '"a" root | ' * 90_000 + '"b"'),
    "a rule of 1 MB of empty options": Hostile("root ::= " + "|" * 1_000_000),
    "a class of 1 MB": Hostile("root ::= [" + "".join(chr(0x4E00 + i * 2 % 20_000) for i in range(330_000)) + "]*"),
    "a comment of 1 MB": Hostile('root ::= "a"\n#' + "x" * 1_000_000),
    "parentheses of 1 MB": Hostile("root ::= " + "(" * 500_000 + '"a"' + ")" * 500_000),
    "open parentheses of 1 MB": Hostile("root ::= " + "(" * 1_000_000),
    # Lark.
    "2,000 keywords": lark(
        'start: (NAME | keyword)+\nNAME: /[a-z]+/\n%ignore " "\nkeyword: ' + " | ".join(f'"{w}"' for w in KEYWORDS)
    ),
    "2,000 keywords, each in a rule": lark(
        'start: (item ";")+\nitem: NAME | '
        + " | ".join(f'"{w}" NAME' for w in KEYWORDS)
        + '\nNAME: /[a-z]+/\n%ignore " "'
    ),
    "2,000 keywords, dynamic": lark(
        'start: (NAME | keyword)+\nNAME: /[a-z]+/\n%ignore " "\nkeyword: ' + " | ".join(f'"{w}"' for w in KEYWORDS),
        "dynamic",
    ),
    "500 names": lark(
        "start: item+\nitem: "
        + " | ".join(f"N{i}" for i in range(500))
        + "\n"
        + "\n".join(f"N{i}: /[a-z]*{w}[a-z]*/" for i, w in enumerate(words(500)))
    ),
    "300 names that begin alike": lark(
        "start: item+\nitem: "
        + " | ".join(f"N{i}" for i in range(300))
        + "\n"
        + "\n".join(f"N{i}: /[a-{chr(97 + i % 26)}]{{1,{i % 20 + 1}}}x?{w[:3]}/" for i, w in enumerate(words(300)))
    ),
    "100 names that go on in many ways": lark(
        "start: item+\nitem: "
        + " | ".join(f"N{i}" for i in range(100))
        + "\n"
        + "\n".join(f"N{i}: /({w[:2]}|{w[:3]}|{w[:4]}){{0,{i % 9 + 1}}}/" for i, w in enumerate(words(100)))
    ),
    "60 long strings": lark("start: (" + " | ".join(f'"{"a" * 16_000}{w}"' for w in words(60)) + ")*"),
    "500 names that ignore": lark(
        "start: N0+\nN0: /[a-z]+/\n" + "\n".join(f"%ignore /#{w}[^\\n]*\\n/" for w in words(500))
    ),
    "10,000 terminals": lark(
        "start: item+\nitem: "
        + " | ".join(f"N{i}" for i in range(10_000))
        + "\n"
        + "\n".join(f'N{i}: "w{i}"' for i in range(10_000))
    ),
    "5,000 terminals in each other": lark(
        "start: N0\n" + "\n".join(f'N{i}: "a" N{i + 1}' for i in range(5_000)) + '\nN5000: "b"'
    ),
    "doubled terminals": lark("start: N0\n" + "\n".join(f"N{i}: N{i + 1} N{i + 1}" for i in range(40)) + '\nN40: "c"'),
    "10,000 rules of Lark": lark(
        "start: r0\n"
        + "\n".join(f'r{i}: "(" r{(7 * i + 1) % 10_000} ")" r{(i + 1) % 10_000} | "b"' for i in range(10_000))
    ),
    "regular expressions that explode": lark("start: A+\nA: /(a|b)*a(a|b){30}/"),
    "lookaheads that explode": lark("start: A+\nA: /" + "".join(f"(?=.*{c})" for c in string.ascii_lowercase) + ".*/"),
    "lazy quantifiers": lark("start: A+\nA: /" + "a.*?b" * 200 + "/"),
    "lookaheads at 200 ends": lark("start: A+\nA: " + " | ".join(f"/{w}(?![a-{w[0]}])/" for w in words(200))),
    # Each round finds that a frame needs one more frame after it.
    "needs without an end": lark('start: u A\nu: A t "b" | A\nt: "b"? | u "c"\nA: /a(?![cx])/'),
    "a regular expression of 1 MB": lark("start: A\nA: /" + "|".join(words(90_000)) + "/"),
    "a string of Lark of 1 MB": lark('start: "' + "ab" * 500_000 + '"'),
    "a rule of Lark of 1 MB": lark("start: " + " | ".join(f'"{w}"' for w in words(80_000))),
    "a large count in Lark": lark('start: ("a" b)~1..999999\nb: "(" start ")" | "c"'),
    "counts of counts in Lark": lark('start: ((("a"~0..99)~0..99)~0..99)~0..99'),
    "many ignored and optional": lark(
        "start: "
        + " ".join(f"[A{i}]" for i in range(300))
        + "\n"
        + "\n".join(f"A{i}: /a{i}?b*/" for i in range(300))
        + "\n%ignore /[ab]#/"
    ),
    "a schema that explodes": lark('start: %json {"type": "string", "pattern": "^(a|b)*a(a|b){40}$"}'),
    "a deep schema": lark("start: %json " + '{"items": ' * 250 + "{}" + "}" * 250),
}


def main() -> None:
    """Compile the grammars on a real vocabulary."""
    import logitkit as lk
    from tests.vocabularies import tekken

    vocabulary = tekken()
    lk.Grammar('root ::= "a" root | "b"', vocabulary)
    lk.Grammar('start: "a" start | B\nB: /b+/', vocabulary, syntax="lark")
    scale = 2**20 if sys.platform == "darwin" else 2**10
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or HOSTILE:
        text, syntax, lexer = HOSTILE[name]
        sys.stdout.flush()
        # Memory that once was taken tells of all that came before.
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            assert status == 0, name
            continue
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin = time.process_time()
        try:
            lk.Grammar(text, vocabulary, syntax=syntax, lexer=lexer)
            said = "compiled"
        except lk.errors.LogitkitError as error:
            said = f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
        seconds = time.process_time() - begin
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / scale
        print(json.dumps([name, said, round(seconds, 2), round(peak)]), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
