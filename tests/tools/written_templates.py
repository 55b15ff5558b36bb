"""Chat templates that are written from random markers, and the same calls in plain Python, to compare with what is derived."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from logitkit import ToolCall

# Around the calls of a turn, around each call, and between two.
AROUND = (
    ("", "<call>", "</call>", "\n", ""),
    ("", "<|call|>", "<|/call|>", "", ""),
    ("<calls>\n", "<one>", "</one>", "\n", "\n</calls>"),
    ("[CALLS]", "[ONE]", "[/ONE]", "", ""),
    ("<|calls|>[", "", "", ", ", "]<|done|>"),
    ("[", "", "", ", ", "]"),
    ("", "", "", ";", ""),
    ("", "≪call≫ ", " ≪end≫", "\n\n", ""),
    ("<tools>", "\n<t>", "</t>", "", "\n</tools>"),
)
# Around the name in a call with a JSON object, and after the object.
JSON_HEADS = (
    ('{"name": "', '", "arguments": ', "}"),
    ('{"tool_name": "', '", "parameters": ', "}"),
    ('\n{"function":"', '","args":', "}\n"),
    ("", " ", ""),
    ("function<sep>", "\n```json\n", "\n```"),
    ("tool=", "\narguments=", "."),
)
# The same with ids or numbers.
ID_HEADS = (
    ('{"name": "', '", "arguments": ', ', "id": "{id}"}'),
    ('{"id": "{id}", "name": "', '", "arguments": ', "}"),
    ("functions.", ":{number}<|args|>", ""),
    ('{"number": {number}, "name": "', '", "arguments": ', "}"),
)
# Before names of members, after them, and after values.
MEMBERS = (
    ("<parameter=", ">\n", "\n</parameter>\n"),
    ("<key>", "</key>\n<value>", "</value>\n"),
    ('<p name="', '">', "</p>"),
    ('<arg name="', '" string="{kind}">', "</arg>\n"),
)
TAGGED_HEADS = (
    ("<function=", ">\n", "</function>"),
    ("", "\n", ""),
    ("<f>", "", "</f>"),
    ('<invoke name="', '">\n', "</invoke>\n"),
)
# Between tags that name the type of a value, by six words.
TYPED_MEMBER = ('<arg key="', '" type="{kind}">', "</arg>\n")
TYPE_NAMES = ("string", "number", "boolean", "null", "object", "array")
# Around calls with keyword arguments, and around their names.
KEYWORD_AROUND = (
    ("[", "", "", ", ", "]"),
    ("<calls>", "", "", "\n", "</calls>"),
    ("", "<call>", "</call>", "\n", ""),
)
KEYWORD_HEAD, KEYWORD_MEMBER = ("", "(", ")"), ("", "=", "")
# Around strings without escapes.
DELIMITERS = ('<|"|>', "<escape>", "`", "\u00ab\u00bb")
# After a name that stands a second time.
AGAIN = (">\n", " = ")
# The characters for which a string stands in a CDATA section.
SECTIONS = (("<",), ("<", "&"), ("<", "&", "\n"))
HEADERS = ("<|assistant|>", "<|im_start|>assistant\n", "ASSISTANT: ", "<role>model</role>\n\n")
ENDS = ("<|im_end|>\n", "</s>", "<|eot|>", "")
REASONING = (None, ("<think>\n", "\n</think>\n\n"), ("[THINK]", "[/THINK]"))


@dataclass(frozen=True)
class WrittenTemplate:
    """Random markers, a template that writes them, and the text that it has to write.

    Args:
        around: The texts around calls.
        head: The texts around names, and after arguments.
        member: The texts around members; None: the arguments are one JSON object.
        literals: How true, false and null are written between tags.
        separator: The text between two members.
        header: The text that begins a turn.
        end: The text that ends it.
        reasoning: The texts around reasoning.
        content_first: Whether text stands before calls in the template.
        as_text: Whether the template takes arguments as text.
        in_string: Whether JSON arguments stand in a JSON string.
        strings: How strings are written in JSON, in keyword arguments, and in arrays and objects between tags: `"json"`,
            `"ascii"` or `"python"`.
        kinds: The six words for types of values; empty: tags say whether a value is a string, or nothing.
        again: The text after a name that stands a second time; None: it stands once.
        cdata: The characters for which a string stands in a CDATA section.
        keywords: Whether members are keyword arguments, with strings in quotes.
        delimiter: For keyword arguments, the text around strings, which then have no escapes; None: they have quotes.
        bare: Whether names in objects stand without it.
        order: The order of members, as in `ToolFormat`.
        spaced: Whether a space follows a comma and a colon in objects and arrays among strings with delimiters.
    """

    around: tuple[str, str, str, str, str]
    head: tuple[str, str, str]
    member: tuple[str, str, str] | None
    literals: str
    separator: str
    header: str
    end: str
    reasoning: tuple[str, str] | None
    content_first: bool
    as_text: bool
    in_string: bool = False
    strings: str = "json"
    kinds: tuple[str, ...] = ()
    again: str | None = None
    cdata: tuple[str, ...] = ()
    keywords: bool = False
    delimiter: str | None = None
    bare: bool = False
    order: str = "schema"
    spaced: bool = False

    def template(self) -> str:
        """The chat template."""
        begin, first, last, between, end = self.around
        before, after, closing = self.head
        again = "" if self.again is None else "{{ c.function.name }}" + _put(self.again)
        calls = (
            f"{_put(begin)}{{% for c in m.tool_calls %}}{{% if not loop.first %}}{_put(between)}{{% endif %}}"
            f"{_put(first + before)}{{{{ c.function.name }}}}{_put(after)}{again}{self._arguments()}{_put(closing + last)}"
            f"{{% endfor %}}{_put(end)}"
        )
        content = "{{ m.content or '' }}"
        body = (
            f"{{% if m.tool_calls %}}{content if self.content_first else ''}{calls}{{% else %}}{content}{{% endif %}}"
        )
        thought = ""
        if self.reasoning is not None:
            opened, closed = map(_put, self.reasoning)
            thought = f"{{% if m.reasoning_content %}}{opened}{{{{ m.reasoning_content }}}}{closed}{{% endif %}}"
        header = _put(self.header)
        return (
            f"{self._macro()}"
            "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}{% if m.role == 'user' %}"
            f"USER: {{{{ m.content }}}}{_put(self.end or chr(10))}{{% else %}}{header}{thought}{body}{_put(self.end)}"
            "{% endif %}"
            f"{{% endfor %}}{{% if add_generation_prompt %}}{header}{{% endif %}}"
        )

    def _macro(self) -> str:
        """Return the macro that writes a value with delimiters."""
        if self.delimiter is None:
            return ""
        around, space = _put(self.delimiter), " " if self.spaced else ""
        words = [{"python": "None True False", "none": "None true false"}.get(self.literals, "null true false").split()]
        null, true, false = words[0]
        name = "{{ k }}" if self.bare else around + "{{ k }}" + around
        comma = f"{{% if not loop.first %}},{space}{{% endif %}}"
        members = f"{{% for k, w in {self._items('v')} %}}{comma}{name}:{space}{{{{ shown(w) }}}}{{% endfor %}}"
        return (
            f"{{% macro shown(v) %}}{{% if v is string %}}{around}{{{{ v }}}}{around}{{% elif v is none %}}{null}"
            f"{{% elif v is boolean %}}{{{{ {true!r} if v else {false!r} }}}}"
            f"{{% elif v is mapping %}}{_put('{')}{members}{_put('}')}"
            f"{{% elif v is iterable %}}[{{% for w in v %}}{comma}{{{{ shown(w) }}}}{{% endfor %}}]"
            "{% else %}{{ v }}{% endif %}{% endmacro %}"
        )

    def _items(self, name: str) -> str:
        """Return what yields the members of an object in their order."""
        sort = {"sorted": "dictsort(case_sensitive=true)", "sorted_ignoring_case": "dictsort"}.get(self.order)
        return f"{name}.items()" if sort is None else f"{name} | {sort}"

    def _arguments(self) -> str:
        options = ["ensure_ascii=True"] * (self.strings == "ascii") + ["sort_keys=True"] * (self.order == "sorted")
        to_json = f"tojson({', '.join(options)})" if options else "tojson"
        if self.member is None:
            if self.in_string:
                return f"{{{{ c.function.arguments | {to_json} | tojson }}}}"
            return "{{ c.function.arguments }}" if self.as_text else f"{{{{ c.function.arguments | {to_json} }}}}"
        before, after, closing = self.member
        raw, other = after.replace("{kind}", "true"), after.replace("{kind}", "false")
        if self.delimiter is not None:
            text = "{{ shown(v) }}"
        elif self.keywords:
            text = "{{ ([v] | string)[1:-1] }}" if self.strings == "python" else f"{{{{ v | {to_json} }}}}"
        elif self.strings == "python":
            text = "{{ v }}"
        elif self.literals == "python":
            text = f"{{{{ v | {to_json} if v is mapping or (v is iterable and v is not string) else v }}}}"
        else:
            text = f"{{{{ v if v is string else v | {to_json} }}}}"
        if self.cdata:
            contained = " or ".join(f"{json.dumps(one)} in v" for one in self.cdata)
            text = f"{{% if v is string and ({contained}) %}}<![CDATA[{{{{ v }}}}]]>{{% else %}}{text}{{% endif %}}"
        if self.kinds:
            tests = ("string", "none", "boolean", "number", "mapping")
            words = [self.kinds[TYPE_NAMES.index(one)] for one in ("string", "null", "boolean", "number", "object")]
            word = "".join(f"{json.dumps(word)} if v is {test} else " for test, word in zip(tests, words, strict=True))
            opened, closed = after.split("{kind}")
            tag = f"{_put(opened)}{{{{ {word}{json.dumps(self.kinds[-1])} }}}}{_put(closed)}"
        else:
            tag = f"{{% if v is string %}}{_put(raw)}{{% else %}}{_put(other)}{{% endif %}}"
        between = f"{{% if not loop.first %}}{_put(self.separator)}{{% endif %}}"
        return (
            f"{{% for k, v in {self._items('c.function.arguments')} %}}{between}"
            f"{_put(before)}{{{{ k }}}}{tag}{text}"
            f"{_put(closing)}{{% endfor %}}"
        )

    def text(self, calls: Sequence[ToolCall]) -> str:
        """Return the text that the template has to write for calls."""
        begin, first, last, between, end = self.around
        before, after, closing = self.head

        def filled(marker: str, number: int, call: ToolCall) -> str:
            return marker.replace("{number}", str(number)).replace("{id}", call.id or "")

        texts = [
            filled(first + before, number, call)
            + call.name
            + filled(after, number, call)
            + ("" if self.again is None else call.name + self.again)
            + self._written(dict(call.arguments))
            + filled(closing + last, number, call)
            for number, call in enumerate(calls)
        ]
        return begin + between.join(texts) + end

    def _arranged(self, value: Any) -> Any:
        """Return a value with the members of its objects in the order in which the template writes them."""
        if isinstance(value, list):
            return [self._arranged(one) for one in value]
        if not isinstance(value, dict) or self.order == "schema":
            return value
        names = sorted(value, key=str.lower if self.order == "sorted_ignoring_case" else None)
        return {name: self._arranged(value[name]) for name in names}

    def _written(self, arguments: dict[str, Any]) -> str:
        if not self.as_text:
            arguments = self._arranged(arguments)
        if self.member is None:
            text = json.dumps(arguments, ensure_ascii=self.strings == "ascii" and (self.in_string or not self.as_text))
            return json.dumps(text, ensure_ascii=False) if self.in_string else text
        before, after, closing = self.member
        members = [
            before + name + after.replace("{kind}", self._kind(value)) + self._value(value) + closing
            for name, value in arguments.items()
        ]
        return self.separator.join(members)

    def _kind(self, value: Any) -> str:
        if not self.kinds:
            return str(isinstance(value, str)).lower()
        types = {str: "string", bool: "boolean", type(None): "null", dict: "object", list: "array"}
        return self.kinds[TYPE_NAMES.index(types.get(type(value), "number"))]

    def _value(self, value: Any) -> str:
        if self.delimiter is not None:
            return self._with_delimiters(value)
        if isinstance(value, str) and not self.keywords:
            return f"<![CDATA[{value}]]>" if any(one in value for one in self.cdata) else value
        if self.strings == "python":
            return repr(value)
        if self.literals == "python" and (value is None or isinstance(value, bool)):
            return str(value)
        return json.dumps(value, ensure_ascii=self.strings == "ascii")

    def _with_delimiters(self, value: Any) -> str:
        around, space = str(self.delimiter), " " * self.spaced
        if isinstance(value, str):
            return around + value + around
        if isinstance(value, dict):
            names = [name if self.bare else around + name + around for name in value]
            inside = zip(names, value.values(), strict=True)
            return "{" + f",{space}".join(f"{n}:{space}{self._with_delimiters(v)}" for n, v in inside) + "}"
        if isinstance(value, list):
            return "[" + f",{space}".join(map(self._with_delimiters, value)) + "]"
        if value is None:
            return "null" if self.literals == "json" else "None"
        return str(value) if self.literals == "python" else json.dumps(value)


def _put(text: str) -> str:
    """Return what writes a text in a template, with the id or the number of a call for what varies."""
    if not text:
        return ""
    for piece, value in (("{id}", "c.id"), ("{number}", "loop.index0")):
        before, found, after = text.partition(piece)
        if found:
            return f"{_put(before)}{{{{ {value} }}}}{_put(after)}"
    return "{{ " + json.dumps(text, ensure_ascii=False) + " }}"


def drawn(draw: random.Random) -> WrittenTemplate:
    """Draw a template."""
    style = draw.choice(("json", "json", "ids", "tagged", "tagged", "keywords"))
    if style == "keywords":
        return _drawn_keywords(draw)
    heads = {"json": JSON_HEADS, "ids": ID_HEADS, "tagged": TAGGED_HEADS}[style]
    around, head = draw.choice(AROUND), draw.choice(heads)
    while not (around[0] + around[1] + head[0]).strip() or (
        around[2] == around[4] == head[2] == "" and style == "tagged"
    ):
        # A format needs a text before names, and an end after members.
        around, head = draw.choice(AROUND), draw.choice(heads)
    found = WrittenTemplate(
        around,
        head,
        draw.choice((*MEMBERS, TYPED_MEMBER)) if style == "tagged" else None,
        draw.choice(("json", "python")),
        draw.choice(("", "", ";")),
        draw.choice(HEADERS),
        draw.choice(ENDS),
        draw.choice(REASONING),
        draw.random() < 0.7,
        draw.random() < 0.3,
        draw.random() < 0.2,
    )
    found = replace(found, strings=draw.choice(("json", "json", "ascii")))
    if head[1] and draw.random() < 0.2:
        found = replace(found, again=draw.choice(AGAIN))
    if style != "tagged":
        # As text, arguments stand in the order in which they are given.
        sorts = not found.as_text and draw.random() < 0.2
        return replace(found, order="sorted") if sorts else found
    if found.literals == "python" and draw.random() < 0.4:
        found = replace(found, strings="python")
    if draw.random() < 0.3:
        found = replace(found, cdata=draw.choice(SECTIONS))
    return replace(found, kinds=TYPE_NAMES) if found.member == TYPED_MEMBER else found


def _drawn_keywords(draw: random.Random) -> WrittenTemplate:
    """Draw a template with keyword arguments."""
    strings = draw.choice(("json", "ascii", "python", "delimited"))
    found = WrittenTemplate(
        draw.choice(KEYWORD_AROUND),
        KEYWORD_HEAD,
        KEYWORD_MEMBER,
        "python" if strings == "python" else "json",
        ", ",
        draw.choice(HEADERS),
        draw.choice(ENDS),
        draw.choice(REASONING),
        draw.random() < 0.7,
        False,
        strings=strings,
        keywords=True,
    )
    if strings != "delimited":
        return found
    head, member = draw.choice(((KEYWORD_HEAD, KEYWORD_MEMBER), (("call:", "{", "}"), ("", ":", ""))))
    return replace(
        found,
        head=head,
        member=member,
        delimiter=draw.choice(DELIMITERS),
        literals=draw.choice(("json", "python", "none")),
        separator=draw.choice((",", ", ", ";")),
        bare=draw.random() < 0.6,
        order=draw.choice(("schema", "sorted", "sorted_ignoring_case")),
        spaced=draw.random() < 0.4,
    )


# JSON objects between tags, after reasoning.
JSON = WrittenTemplate(
    ("", "<call>", "</call>", "\n", ""),
    ('{"name": "', '", "arguments": ', "}"),
    None,
    "json",
    "",
    "<|assistant|>",
    "<|end|>\n",
    ("<think>\n", "\n</think>\n\n"),
    True,
    False,
)
