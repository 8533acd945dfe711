"""Records the texts that transformers makes of conversations with published chat templates, under tests/data/chats.

    python tests/oracle/chats_golden.py

Needs transformers (5.24). `conversations.json` has the conversations, and `golden.jsonl` a line for each of them and for each template: the
text, or null if the template refuses the conversation; the bytes of its generation blocks; and the bytes of the model's turns by texts of
the first messages, or null if these are not the beginnings of the text.
"""

import datetime
import json
import os
import random

from transformers.utils import chat_template_utils as chats

FOLDER = os.path.join(os.path.dirname(__file__), "..", "data", "chats")

VARIABLES = {"bos_token": "<s>", "eos_token": "</s>"}


class Day(datetime.datetime):
    """The day that templates see."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 29)


def tool(name):
    parameters = {"type": "object", "properties": {"city": {"type": "string", "description": "Name of a city <b>"}}, "required": ["city"]}
    return {"type": "function", "function": {"name": name, "description": f"Returns the {name}; \"é\"", "parameters": parameters}}


def call(name, arguments):
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": "call00001", "function": {"name": name, "arguments": arguments}}]}


def conversations():
    """Returns conversations, each with its tools and variables of the template."""
    user, model, system = ({"role": role, "content": text} for role, text in (("user", "Hi"), ("assistant", "Hello!"), ("system", "Be brief.")))
    thinks = {"role": "assistant", "content": "It is 4.", "reasoning_content": "2 + 2\nis 4"}
    answer = {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": '{"degrees": 20.5}'}
    weather = call("weather", {"city": "Zürich", "days": 3, "exact": True, "list": [1.0, None]})
    parts = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Look <|im_end|>"}]}
    yield [user, model], None, {}
    yield [system, user, model, {"role": "user", "content": "And now?"}, {"role": "assistant", "content": "\n Bye.  \n"}], None, {}
    yield [user, thinks], None, {}
    yield [user, thinks, {"role": "user", "content": "More"}, {**thinks, "content": "<think>\nno\n</think>\n\nIt is 5."}], None, {}
    yield [user, {"role": "assistant", "content": "<think>\na\n</think>\n\nb"}], None, {"enable_thinking": False}
    yield [system, user, weather, answer, model], [tool("weather"), tool("news")], {}
    yield [user, weather, answer, {**answer, "content": "no JSON"}, model, user, model], [tool("weather")], {}
    yield [user, {"role": "assistant", "content": ""}], None, {}
    yield [{"role": "user", "content": "日本語 👩‍🔬 \u0301e \u200f\u001f\u0085\u00a0"}, {"role": "assistant", "content": "\u3000नमस्ते\u2028\r\n", "name": None}], None, {}
    yield [parts, {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]}], None, {}
    yield [user, user, model, model], None, {}
    yield [user, {"role": "assistant", "content": "{{ 1 }}{% if %}'\"\\"}], None, {"reasoning_effort": "high", "model_identity": "A <model>"}
    yield [system, user], None, {}
    numbers, letters = random.Random(0), "aé日\n\t <>/|{}%'\"\\_*#👍\u0301\u2028"
    for _ in range(6):
        text = lambda: "".join(numbers.choice(letters) for _ in range(numbers.randrange(12)))
        chat = [{"role": "system", "content": text()}] if numbers.randrange(2) else []
        for _ in range(1 + numbers.randrange(3)):
            thought = {"reasoning_content": text()} if numbers.randrange(2) else {}
            chat += [{"role": "user", "content": text()}, {"role": "assistant", "content": text(), **thought}]
        yield chat, None, {"enable_thinking": bool(numbers.randrange(2))}


def rendered(template, messages, tools, variables, has_prompt=False):
    """Returns the text and the blocks in characters."""
    chat = chats._normalize_chat_messages(messages)
    arguments = {"return_assistant_tokens_mask": True, "add_generation_prompt": has_prompt, **VARIABLES, **variables}
    texts, blocks = chats.render_jinja_template([chat], tools, chat_template=template, **arguments)
    return texts[0], blocks[0]


def turns_of(template, messages, tools, variables, text):
    """Returns the model's turns in characters, or None."""
    turns = []
    for turn, message in enumerate(messages):
        if message["role"] == "assistant":
            try:
                before = rendered(template, messages[:turn], tools, variables, True)[0]
                after = rendered(template, messages[: turn + 1], tools, variables)[0]
            except Exception:
                return None
            if not text.startswith(before) or not text.startswith(after):
                return None
            turns.append((len(before), max(len(before), len(after))))
    return turns


def main():
    chats.datetime = Day
    cases = [{"messages": messages, "tools": tools, "variables": variables} for messages, tools, variables in conversations()]
    with open(os.path.join(FOLDER, "conversations.json"), "w") as file:
        json.dump(cases, file, indent=1)
        file.write("\n")
    with open(os.path.join(FOLDER, "golden.jsonl"), "w") as file:
        for name in sorted(os.listdir(os.path.join(FOLDER, "templates"))):
            with open(os.path.join(FOLDER, "templates", name)) as source:
                template = source.read()
            for number, case in enumerate(cases):
                line = {"template": name, "conversation": number, "text": None}
                try:
                    text, blocks = rendered(template, **case)
                except Exception as error:
                    line["error"] = str(error)
                else:
                    in_bytes = lambda ranges: [[len(text[:at].encode()) for at in part] for part in ranges]
                    turns = turns_of(template, **case, text=text)
                    line |= {"text": text, "blocks": in_bytes(blocks), "turns": None if turns is None else in_bytes(turns)}
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
