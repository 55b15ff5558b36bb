"""Compare formats with the chat templates of other projects, such as those in `models/templates` of llama.cpp.

`python -m tests.tools.chat_templates FOLDER...` derives a format from each template in some folders, and prints a table in
Markdown. Where a format is known by name, it compares the two, and also renders past calls by the template and reads them back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError
from logitkit.tools.formats import TOOL_FORMATS, detect
from tests.tools.turns import EOS, TOOLS, ids_of, same, vocabulary

# Names of templates, the format that they write, and the text that ends a turn.
KNOWN = {
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": ("hermes", "<|im_end|>\n"),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": ("hermes", "<|im_end|>\n"),
    "Qwen-QwQ-32B": ("hermes", "<|im_end|>\n"),
    "Qwen-Qwen2.5-7B-Instruct": ("hermes", "<|im_end|>\n"),
    "Qwen-Qwen3-0.6B": ("hermes", "<|im_end|>\n"),
    "Qwen3-Coder": ("qwen_coder", "<|im_end|>\n"),
    "meta-llama-Llama-3.1-8B-Instruct": ("llama3_json", "<|eot_id|>"),
    "meta-llama-Llama-3.2-3B-Instruct": ("llama3_json", "<|eot_id|>"),
    "meta-llama-Llama-3.3-70B-Instruct": ("llama3_json", "<|eot_id|>"),
    "deepseek-ai-DeepSeek-V3.1": ("deepseek_v31", "<｜end▁of▁sentence｜>"),
    "openai-gpt-oss-120b": ("harmony", "<|call|>"),
    "unsloth-mistral-Devstral-Small-2507": ("mistral", "</s>"),
}
CALLS = [
    ToolCall("get_weather", {"city": 'Bö"nn\n<x>', "days": 2}),
    ToolCall("ping", {}),
    ToolCall("get_weather", {"city": "", "unit": "F"}),
]


def rendered(template: str, calls: list[ToolCall], end: str, as_text: bool) -> str:
    """Render a turn with calls by a template."""
    from transformers.utils.chat_template_utils import render_jinja_template

    def written(arguments: Any) -> Any:
        return json.dumps(arguments, ensure_ascii=False) if as_text else arguments

    made = [
        {"type": "function", "id": f"call{i:05}", "function": {"name": c.name, "arguments": written(c.arguments)}}
        for i, c in enumerate(calls)
    ]
    user = {"role": "user", "content": "Weather?"}
    turn = {"role": "assistant", "content": "", "tool_calls": made}
    tools: Any = Tools(TOOLS).schemas()
    # Templates of models that reason may close the reasoning in the prompt otherwise.
    fixed: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>", "enable_thinking": True}

    def render(conversation: list[Any], prompt: bool) -> str:
        made: Any = render_jinja_template(
            [conversation], tools=tools, chat_template=template, add_generation_prompt=prompt, **fixed
        )
        found: str = made[0][0]
        return found

    prompt, whole = render([user], True), render([user, turn], False)
    # Some templates end the line before the turn in the prompt alone, or begin reasoning there.
    prompt = next(
        p for p in (prompt, prompt.removesuffix("\n"), prompt.removesuffix("<think>\n")) if whole.startswith(p)
    )
    assert whole.endswith(end)
    # Qwen3 and DeepSeek V3.1 write that there was no reasoning.
    turn_text = whole.removeprefix(prompt).removesuffix(end)
    return turn_text.removeprefix("<think>\n\n</think>\n\n").removeprefix("</think>")


def check(name: str, template: str) -> None:
    """Check one template of a known format."""
    format_name, end = KNOWN[name]
    form = detect(template)
    assert form.name == format_name, name
    assert form.verified, name
    tools = Tools(TOOLS, form, choice="required")
    for calls in ([CALLS[0]], [CALLS[1]], [CALLS[2]], CALLS):
        if len(calls) > 1 and form.separator is None:
            continue
        # DeepSeek's own template takes arguments as text; that of llama.cpp writes them itself.
        as_text = format_name == "deepseek_v31" and "tojson" not in template
        text = rendered(template, calls, end, as_text)
        turn = tools.parse([*ids_of(text, form), EOS], vocabulary(form))
        assert same(turn.calls, calls), (name, text)
        assert (turn.outside_at, turn.problem, turn.text.strip()) == (None, None, ""), (name, text)


# Known formats that differ from what their templates write, and why.
DIFFERENT = {
    "qwen_coder": "the template writes `True` and `None` between tags; the known format has `true` and `null`",
    "harmony": "the known format has the two orders in which the models write a call, and the template one",
}


def verdict(template: str) -> tuple[str, str]:
    """Return what is derived from a template, in one word and in a sentence."""
    try:
        form = ToolFormat.from_chat_template(template)
    except ConfigurationError as error:
        reason = str(error).partition(". The template rendered")[0].partition(". Give a ToolFormat")[0]
        reason = reason.removeprefix("the format of tool calls cannot be derived from the chat template: ")
        return ("no calls" if "does not write calls" in reason else "not derived"), reason.replace("|", "\\|")
    style = {"json": "JSON", "json_string": "JSON in a string", "xml": "tags", "python": "Python"}[form.arguments]
    style = "named members" if form.strings == "delimited" else style
    ids = "{id}" in form.call_begin + form.name_end + form.call_end
    numbers = "{number}" in form.call_begin + form.name_end + form.call_end
    more = [
        *(["ASCII only"] if form.strings == "ascii" else []),
        *(["strings as in Python"] if form.strings == "python" else []),
        *(["strings between delimiters"] if form.strings == "delimited" else []),
        *(["sorted members"] if form.member_order != "schema" else []),
        *(["CDATA sections"] if form.cdata else []),
        *(["ids"] if ids else []),
        *(["numbers"] if numbers else []),
        *(["one call in a turn"] if form.separator is None else []),
        *([f'as `"{form.name}"`'] if form.name in TOOL_FORMATS else []),
    ]
    return "proved", ", ".join([style, *more]).replace("|", "\\|")


def table(folders: list[Path]) -> dict[str, tuple[str, str]]:
    """Print the verdict on each template of some folders, and return them by name."""
    found: dict[str, tuple[str, str]] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.jinja")):
            name = file.stem.removeprefix("tool_chat_template_")
            found[f"{folder.name}: {name}"] = said = verdict(file.read_text("utf-8"))
            print(f"| {folder.name} | {name} | {said[0]} | {said[1]} |", flush=True)
    write = [word for word, _ in found.values() if word != "no calls"]
    print(f"\nproved: {write.count('proved')} of {len(write)} templates that write calls")
    return found


def main(folders: list[Path]) -> None:
    """Print the table, and check the templates that are known here."""
    table(folders)
    for name in KNOWN:
        for file in (folder / f"{name}.jinja" for folder in folders):
            if not file.exists():
                continue
            template = file.read_text("utf-8")
            check(name, template)
            form = ToolFormat.from_chat_template(template)
            same = form.name == KNOWN[name][0]
            print(f"{name}: {'the known format' if same else DIFFERENT[KNOWN[name][0]]}")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
