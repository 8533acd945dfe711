"""Field of token ids of conversations, with their labels."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from .._arguments import one_of, shown, text, whole
from .._choices import DType
from ..errors import ConfigError
from .base import column_of
from .tokenize import FileField
from .values import token_rows
from .vocabulary import contents_of, file_of, is_contents, read, text_of

_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Special tokens of `tokenizer_config.json` that templates know as variables."""

_OF_LIBRARIES = {
    "assistant_only_loss": 'train_on="assistant"',
    "chat_template": "template",
    "completion_only_loss": "prompt",
    "padding": "pad",
}


class Chat(FileField, elsewhere=_OF_LIBRARIES):
    """Token ids of a conversation: a tensor of shape (N, length), or (N, L) where L is the length of the longest row of the batch.

        fields={"input_ids": Chat("messages", "model/tokenizer.json", pad=0)}       # input_ids and labels, (N, L)

    A Jinja chat template makes one text of the messages, as `apply_chat_template` of `transformers` does, and the tokenizer makes ids of it.
    The batch has a second output `labels` of the same shape: the ids of the turns that are trained, and -100 elsewhere. They are not
    shifted, as the models of `transformers` take them. A template with `{% generation %}` blocks marks the turns itself. Otherwise a
    turn is the difference of the texts with and without it; a template that changes the text of earlier turns, such as their thinking, is a
    `DecodeError` with its name and the turn. So is a conversation with nothing or everything trained.

    Args:
        column: Column with the messages as JSON: a list of objects with `role` and `content`, as OpenAI has them, or with `from` and
            `value`, as ShareGPT. Names are `messages` and `conversations` in most data sets. With `prompt` it is the completion.
        tokenizer: Path or URL of a `tokenizer.json` of Hugging Face, or its contents.
        template: Chat template: its text, or its path or URL. None: the file `chat_template.jinja` next to the tokenizer, or
            the `chat_template` of `tokenizer_config.json` there.
        tools: Column with the tools as JSON, a list of schemas; a sample may lack it. None: no tools.
        prompt: Column with the prompt of a completion: both are messages, or both are texts. Only the completion is trained. Texts
            have no template, and end with the tokenizer's `eos_token`.
        against: Column with the second conversation of a preference pair. The messages that both begin with are the prompt, unless
            `prompt` has it.
        train_on: "assistant": all turns of the model. "last": its last turn. "flag": messages with a true `train`, `weight` or
            `loss_mask`, and the turns of the model without such a flag.
        part: "all"; with a prompt also "prompt" or "completion", for collators that join them. "pair", with `against`: both conversations
            of a preference pair, with the ids and masks of TRL's `DPOTrainer` and its collator. With `pad` the output has the shape (2N, L), the
            chosen conversations before the rejected ones, and the batch has `attention_mask` and `completion_mask` next to it. Without `pad` the
            output is a list of prompts, and `chosen_ids` and `rejected_ids` are lists of answers. The columns are messages or texts.
        variables: Variables of the template, such as `{"enable_thinking": False}`. The special tokens of `tokenizer_config.json` are
            among them.
        date: Day that the template sees as the current one, such as "2026-11-29", so that all runs have the same ids. None: a
            template that asks for it is a `DecodeError`.
        length: Ids in a row, as in `Tokens`. None: rows are as long as the longest one of the batch.
        dtype: Type of the result.
        pad: Id that fills a short row; labels have -100 there.
        truncate: Keep only the first `length` ids of a longer conversation.
        pad_to_multiple: Without `length`, the length of rows is a multiple of it.
        max_length: Without `length`, keep only this many ids of a conversation. A pair with a prompt of as many ids is a `DecodeError`.
    """

    column: str
    tokenizer: str | os.PathLike[str] | bytes
    template: str | os.PathLike[str] | None = None
    tools: str | None = None
    prompt: str | None = None
    against: str | None = None
    train_on: Literal["assistant", "last", "flag"] = "assistant"
    part: Literal["all", "prompt", "completion", "pair"] = "all"
    variables: Mapping[str, Any] | None = None
    date: str | None = None
    length: int | None = None
    dtype: DType = "int64"
    pad: int | None = None
    truncate: bool = False
    pad_to_multiple: int | None = None
    max_length: int | None = None

    fim: ClassVar[None] = None
    mask: ClassVar[None] = None

    def _spec(self) -> dict[str, Any]:
        part = one_of("part of Chat", self.part, ("all", "prompt", "completion", "pair"))
        if part == "pair" and (self.length is not None or self.truncate):
            raise ConfigError('length and truncate of Chat are for single rows: part="pair" takes max_length and pad_to_multiple')
        spec = {
            "kind": "chat",
            "column": column_of("column of Chat", self.column),
            "train_on": one_of("train_on of Chat", self.train_on, ("assistant", "last", "flag")),
            "part": "ids" if part == "all" else part,
            **{name: text(f"{name} of Chat", value) for name in ("tools", "prompt", "against", "date") if (value := getattr(self, name)) is not None},
            **token_rows(self),
        }
        if part == "pair" and self.max_length is not None:
            # A prompt leaves room for a token of each answer, as TRL has it.
            spec["prompt_max"] = max(0, whole("max_length of Chat", self.max_length, 1) - 1)
        tokenizer, template, variables = self._once(lambda: _contents(self.tokenizer, self.template))
        if template is not None:
            spec |= {"template_name": template[0], "template": template[1]}
        return spec | {"tokenizer": tokenizer, "variables": variables | self._variables()}

    def _variables(self) -> dict[str, Any]:
        """Checks the variables of the template."""
        if self.variables is None:
            return {}
        if not isinstance(self.variables, Mapping):
            example = 'such as {"enable_thinking": False}'
            raise ConfigError(f"variables of Chat maps names to values, {example}, but it is {shown(self.variables)}")
        try:
            return json.loads(json.dumps({text("a name in variables of Chat", name): value for name, value in self.variables.items()}))
        except (TypeError, ValueError):
            values = "text, numbers, bools, None, and lists and dicts of these"
            raise ConfigError(f"variables of Chat are {values}, but they are {shown(self.variables)}: convert the rest to text") from None

    def _has_labels(self) -> bool:
        return self.part == "all"

    def _is_pair(self) -> bool:
        return self.part == "pair"


def _contents(tokenizer: Any, template: Any) -> tuple[str, tuple[str, str] | None, dict[str, Any]]:
    """Reads the tokenizer, and the template and special tokens that are next to it."""
    contents, folder = contents_of("Chat", tokenizer), _folder(tokenizer)
    config: dict[str, Any] = {}
    if folder is not None and (found := _next_to(folder, "tokenizer_config.json")) is not None:
        try:
            config = json.loads(found)
        except ValueError as error:
            raise ConfigError(f"{folder}tokenizer_config.json is not JSON: {error}: fetch it again, or repair it") from None
        config = config if isinstance(config, dict) else {}
    tokens = {name: token for name in _TOKENS if (token := _token(config.get(name))) is not None}
    if template is not None:
        return contents, _template(template), tokens
    if folder is not None and (found := _next_to(folder, "chat_template.jinja")) is not None:
        return contents, (f"{folder}chat_template.jinja", found), tokens
    found = config.get("chat_template")
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
        if found is None and named:
            raise ConfigError(f"{folder}tokenizer_config.json has several chat templates, and none is the default: pass `template` to Chat")
    return contents, (f"{folder}tokenizer_config.json", found) if isinstance(found, str) else None, tokens


def _template(template: Any) -> tuple[str, str]:
    """Returns the name and the text of the argument `template`."""
    if isinstance(template, str) and ("{" in template or "\n" in template):
        return "template of Chat", template
    if not isinstance(template, (str, os.PathLike)):
        raise ConfigError(f"template of Chat is a path or URL of a file, or its text, but it is {shown(template)}")
    path = os.fspath(template)
    return path, _text_of(path, file_of("template of Chat", path, "chat_template.jinja"))


def _token(token: Any) -> str | None:
    """Returns the text of a special token of `tokenizer_config.json`."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def _folder(tokenizer: Any) -> str | None:
    """Returns the folder of the tokenizer's file with a slash at its end; None for the contents of one."""
    if is_contents(tokenizer):
        return None
    path = os.fspath(tokenizer)
    return path[: path.rfind("/") + 1]


def _next_to(folder: str, name: str) -> str | None:
    """Returns the text of a file in the tokenizer's folder; None if there is none."""
    try:
        return _text_of(folder + name, read(folder + name))
    except (FileNotFoundError, PermissionError):  # A store may refuse what it does not have.
        return None


def _text_of(path: str, data: bytes) -> str:
    return text_of(data, f"{path} is not text, because its bytes are not UTF-8: write it again, or pass a different path")
