"""Patterns in Python's `re` syntax, as syntax trees over sets of code points.

parser          parses a pattern to its tree, with groups, escapes and classes
spans           parses a pattern and keeps where its parts stand
syntax          the tree; construction builds and simplifies its nodes
flags           the flags of compiled patterns, written into the pattern
advice          warnings of patterns that allow more, or less, than expected
charset         sets of code points (case_folding, unicode_classes, unicode_scripts)
"""

from logitkit.patterns.case_folding import case_table as case_table
from logitkit.patterns.charset import ANY as ANY
from logitkit.patterns.charset import MAX_CODE_POINT as MAX_CODE_POINT
from logitkit.patterns.charset import CharSet as CharSet
from logitkit.patterns.parser import MAX_NESTING as MAX_NESTING
from logitkit.patterns.parser import parse as parse
from logitkit.patterns.syntax import Alternate as Alternate
from logitkit.patterns.syntax import Anchor as Anchor
from logitkit.patterns.syntax import Atomic as Atomic
from logitkit.patterns.syntax import Call as Call
from logitkit.patterns.syntax import Characters as Characters
from logitkit.patterns.syntax import Concat as Concat
from logitkit.patterns.syntax import Empty as Empty
from logitkit.patterns.syntax import Graph as Graph
from logitkit.patterns.syntax import Look as Look
from logitkit.patterns.syntax import Machine as Machine
from logitkit.patterns.syntax import Node as Node
from logitkit.patterns.syntax import Repeat as Repeat
from logitkit.patterns.unicode_classes import perl_class as perl_class

__all__ = [
    "ANY",
    "MAX_CODE_POINT",
    "MAX_NESTING",
    "Alternate",
    "Anchor",
    "Atomic",
    "Call",
    "CharSet",
    "Characters",
    "Concat",
    "Empty",
    "Graph",
    "Look",
    "Machine",
    "Node",
    "Repeat",
    "case_table",
    "parse",
    "perl_class",
]
