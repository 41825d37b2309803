"""Prompts to tokens, through the model's chat template where there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from specgen.errors import PromptError

Message = Mapping[str, str]


class Tokenizer(Protocol):
    """The part of a transformers tokenizer that specgen uses."""

    chat_template: Any
    bos_token_id: int | None

    def __call__(self, text: str, *, add_special_tokens: bool, verbose: bool) -> Mapping[str, Any]: ...  # noqa: D102

    def apply_chat_template(self, messages: Any, *, tokenize: bool, add_generation_prompt: bool) -> str: ...  # noqa: D102

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str | None]: ...  # noqa: D102

    def decode(self, ids: list[int], **options: Any) -> str: ...  # noqa: D102


def encode_prompt(
    tokenizer: Tokenizer, prompt: str | Sequence[Message], *, system: str | None, chat: bool
) -> tuple[int, ...]:
    """Return the tokens of a prompt, through the chat template where one is wanted and there is one.

    Args:
        tokenizer: the target's.
        prompt: what the user says, or the messages of a conversation.
        system: the system message, before everything else.
        chat: whether to use the tokenizer's chat template.

    Raises:
        PromptError: if the prompt is empty or not text, or needs a chat template that cannot say it.
    """
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(item) for item in prompt]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    _check(messages)
    if chat and tokenizer.chat_template:
        return _encode(tokenizer, _render(tokenizer, messages), special=False)
    if not isinstance(prompt, str) or system is not None:
        what = "a system message" if isinstance(prompt, str) else "messages"
        raise PromptError(
            f"{what} cannot be given: " + ("the model has no chat template" if chat else "the chat template is off"),
            "put everything into the prompt",
        )
    return _encode(tokenizer, prompt, special=True)


def _check(messages: Sequence[Message]) -> None:
    contents = [message.get("content", "") for message in messages if message.get("role") != "system"]
    if not any(content.strip() for content in contents):
        raise PromptError("the prompt is empty", 'specgen generate "Explain speculative decoding."')
    try:
        "".join(message.get("content", "") for message in messages).encode()
    except UnicodeEncodeError as error:
        raise PromptError("the prompt is not valid UTF-8", "check the encoding of the text") from error


def _render(tokenizer: Tokenizer, messages: Sequence[Message]) -> str:
    """Apply the chat template, and notice a system message that it refuses or drops."""
    from jinja2 import TemplateError

    def render(messages: Sequence[Message]) -> str:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    system = next((message["content"].strip() for message in messages if message.get("role") == "system"), "")
    try:
        text = render(messages)
    except TemplateError as error:
        others = [message for message in messages if message.get("role") != "system"]
        if len(others) == len(messages) or not _renders(render, others):
            raise PromptError(
                f"the model's chat template refuses the prompt: {error}", "--raw leaves the template out"
            ) from error
        text = ""
    if system not in text:
        raise PromptError(
            "the model's chat template has no place for a system message", "put the instructions into the prompt"
        )
    return text


def _renders(render: Any, messages: Sequence[Message]) -> bool:
    from jinja2 import TemplateError

    try:
        render(messages)
    except TemplateError:
        return False
    return True


def _encode(tokenizer: Tokenizer, text: str, *, special: bool) -> tuple[int, ...]:
    ids = tuple(int(token) for token in tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"])
    bos = tokenizer.bos_token_id
    # A prompt that spells the beginning-of-sequence token out would have it twice.
    return ids[1:] if bos is not None and ids[:2] == (bos, bos) else ids
