"""Compare each format with the chat templates in a folder, such as `models/templates` of llama.cpp.

`python -m tests.tools.chat_templates FOLDER` renders past calls by each template and reads them back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from logitkit import ToolCall, Tools
from logitkit.errors import ConfigurationError
from logitkit.tools.formats import detect
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
UNKNOWN = ["google-gemma-2-2b-it", "Mistral-Small-3.2-24B-Instruct-2506", "mistralai-Mistral-Nemo-Instruct-2407"]
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


def check_unknown(name: str, template: str) -> None:
    """Check that a template of another format is not taken for a known one."""
    try:
        form = detect(template)
    except ConfigurationError:
        return
    raise AssertionError(f"{name} was taken for {form.name}")


def main(folder: Path) -> None:
    """Check all templates of a folder that are known here, and print what each check said."""
    for name in (*KNOWN, *UNKNOWN):
        file = folder / f"{name}.jinja"
        if not file.exists():
            print(f"{name}: not in the folder")
            continue
        (check if name in KNOWN else check_unknown)(name, file.read_text("utf-8"))
        print(f"{name}: {KNOWN[name][0] if name in KNOWN else 'unknown'}, as expected")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
