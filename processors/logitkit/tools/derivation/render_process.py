"""The child process that renders a chat template: it reads lines of JSON and answers each with one. It does not import logitkit.

A template is code of strangers. It runs in jinja2's immutable sandbox without a loader, in this process, whose CPU time, memory,
files and processes are limited before the template is read. `rendering.py` starts it by its path.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator
from typing import Any

__all__: list[str] = []


def limit(cpu_seconds: int, memory: int) -> None:
    """Limit what this process may use, where the system can."""
    try:
        import resource
    except ImportError:  # Windows: only the time on the wall is limited, by the process that started this one
        return
    limits = {
        "RLIMIT_CPU": (cpu_seconds, cpu_seconds + 1),
        "RLIMIT_AS": (memory, memory),
        "RLIMIT_FSIZE": (0, 0),
        # Standard input, output and errors are open; nothing else can be opened.
        "RLIMIT_NOFILE": (3, 3),
        "RLIMIT_NPROC": (0, 0),
        "RLIMIT_CORE": (0, 0),
    }
    for name, both in limits.items():
        # macOS refuses a limit of the address space.
        if (kind := getattr(resource, name, None)) is None or (name == "RLIMIT_AS" and sys.platform == "darwin"):
            continue
        hard = resource.getrlimit(kind)[1]
        soft, most = (size if hard == resource.RLIM_INFINITY else min(size, hard) for size in both)
        resource.setrlimit(kind, (soft, most))


def environment() -> Any:
    """Return the environment in which chat templates run, with the functions that transformers gives them."""
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class GenerationBlock(Extension):
        """Takes `{% generation %}` blocks, which mark what a model generated, for what is inside of them."""

        tags = {"generation"}  # noqa: RUF012 - as jinja2 has it

        def parse(self, parser: Any) -> Any:
            """Return the nodes of the block."""
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def raise_exception(message: object) -> None:
        raise TemplateError(str(message)[:500])

    def listed(value: Any) -> list[Any]:
        """Return what a filter such as `map` yields."""
        if isinstance(value, Iterator):
            return list(value)
        raise TypeError(f"{type(value).__name__} is not JSON")

    class Environment(ImmutableSandboxedEnvironment):
        """The sandbox of chat templates, in which a template may also add to a list. All lists belong to one rendering."""

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            """Whether a template may use an attribute."""
            # Not a subclass, whose `append` could be anything.
            if type(obj) is list and attr == "append":
                return True
            return bool(super().is_safe_attribute(obj, attr, value))

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=listed
        )

    made = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols], cache_size=0)
    made.filters["tojson"] = tojson
    made.filters["from_json"] = made.filters["fromjson"] = json.loads
    made.globals["raise_exception"] = raise_exception
    # Always the same day, so that two renderings are equal.
    made.globals["strftime_now"] = lambda form: datetime.datetime(2025, 1, 1).strftime(form)  # noqa: DTZ001
    # Python and jinja2 import some modules when they first need them, which is not possible later.
    answer(
        made.from_string("{{ '\\n' | pprint }}{{ lipsum(n=1) }}{{ strftime_now('%d') }}{{ missing.name }}"), {}, 10_000
    )
    return made


def _say(said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def answer(template: Any, given: dict[str, Any], most: int) -> dict[str, str]:
    """Render the template once: its text, or why there is none."""
    try:
        size, parts = 0, []
        for part in template.generate(**given):
            size += len(part)
            if size > most:
                return {"error": f"the text is longer than {most} characters"}
            parts.append(part)
        return {"text": "".join(parts)}
    except MemoryError:
        return {"error": "the template takes too much memory"}
    except RecursionError:
        return {"error": "the template is nested too deeply"}
    except Exception as error:  # noqa: BLE001 - whatever the template raises is an answer
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def main() -> None:
    """Read the template, then answer lines until there are no more."""
    first = json.loads(sys.stdin.readline())
    try:
        made = environment()
    except ImportError:
        _say({"missing": "jinja2"})
        return
    limit(first["cpu_seconds"], first["memory"])
    try:
        template = made.from_string(first["template"])
    except MemoryError:
        _say({"error": "the template takes too much memory"})
        return
    except Exception as error:  # noqa: BLE001 - as in `answer`
        _say({"error": f"{type(error).__name__}: {error}"[:500]})
        return
    _say({})
    for line in sys.stdin:
        found = [answer(template, given, first["most_characters"]) for given in json.loads(line)]
        _say(found)


if __name__ == "__main__":
    main()
