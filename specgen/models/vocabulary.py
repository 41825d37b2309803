"""Do draft and target mean the same by their token ids? And if not, how can one's tokens become the other's?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

# Below this share of the draft's tokens that the target has too, an intersection would leave the draft little to say.
_ENOUGH_IN_COMMON = 0.5
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, slots=True)
class Relation:
    """How the draft's token ids relate to the target's.

    Attributes:
        kind: ``same`` when ids below ``common`` mean the same; ``intersection`` when the tokens of ``pairs`` are in
            both vocabularies (TLI); ``text`` when drafts have to be written out and read again (SLEM).
        common: number of leading ids that mean the same, for ``same``.
        pairs: draft id to target id, one to one, for ``intersection``.
        difference: the first id that means different tokens, in words; empty for ``same``.
    """

    kind: Literal["same", "intersection", "text"]
    common: int = 0
    pairs: Mapping[int, int] = field(default_factory=dict)
    difference: str = ""


def relate(target: Any, draft: Any, *, target_size: int, draft_size: int) -> Relation:
    """Compare two tokenizers by content, not by size.

    Sizes may differ by padding or by tokens added at the end. Timor et al. 2025 (arXiv 2502.05202) give the two ways of
    drafting across really different vocabularies, both lossless.

    Args:
        target: the target's tokenizer.
        draft: the draft's tokenizer.
        target_size: rows of the target's output layer.
        draft_size: rows of the draft's.
    """
    difference, known = first_difference(target.get_vocab(), draft.get_vocab())
    if not difference:
        return Relation("same", common=min(known, target_size, draft_size))
    pairs = {
        theirs: ours
        for theirs, ours in intersection(target, draft).items()
        if ours < target_size and theirs < draft_size
    }
    if len(pairs) >= _ENOUGH_IN_COMMON * len(draft.get_vocab()):
        return Relation("intersection", pairs=pairs, difference=difference)
    return Relation("text", difference=difference)


def first_difference(target: Mapping[str, int], draft: Mapping[str, int]) -> tuple[str, int]:
    """Find the first id that means different tokens.

    Args:
        target: token to id, added tokens included.
        draft: the same of the draft.

    Returns:
        The difference in words, empty if there is none, and how many leading ids both know.
    """
    ours = {index: token for token, index in target.items()}
    theirs = {index: token for token, index in draft.items()}
    known = min(max(ours, default=-1), max(theirs, default=-1)) + 1
    for index in range(known):
        if ours.get(index) != theirs.get(index):
            ours_is, theirs_is = _shown(ours.get(index)), _shown(theirs.get(index))
            return f"token {index} is {ours_is} to the target, {theirs_is} to the draft", known
    return "", known


def _shown(token: str | None) -> str:
    return "unused" if token is None else repr(token)


def intersection(target: Any, draft: Any) -> dict[int, int]:
    """Draft id to target id of the tokens that stand for the same bytes, one to one.

    Special tokens match special tokens of the same name only.
    """
    ours = _by_content(target)
    return {index: ours[content] for content, index in _by_content(draft).items() if content in ours}


def _by_content(tokenizer: Any) -> dict[tuple[bool, bytes], int]:
    special = set(tokenizer.all_special_tokens) | {str(token) for token in tokenizer.get_added_vocab()}
    to_bytes = _byte_level if _is_byte_level(tokenizer) else _sentencepiece
    contents: dict[tuple[bool, bytes], int] = {}
    for token, index in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        key = (True, token.encode()) if token in special else (False, to_bytes(token))
        contents.setdefault(key, index)
    return contents


def _is_byte_level(tokenizer: Any) -> bool:
    fast = getattr(tokenizer, "backend_tokenizer", None)
    return fast is not None and '"ByteLevel"' in json.dumps(json.loads(fast.to_str()).get("decoder"))


def _sentencepiece(token: str) -> bytes:
    if octet := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(octet[1], 16)])
    return token.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()


def _byte_level(token: str) -> bytes:
    if all(char in _BYTES for char in token):
        return bytes(_BYTES[char] for char in token)
    return token.encode()


def _byte_alphabet() -> dict[str, int]:
    """The characters that byte-level tokenizers write bytes with (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(rest)}


_BYTES = _byte_alphabet()


def same_file(target: str, draft: str, name: str = "tokenizer.json") -> bool:
    """Whether two model folders hold the same tokenizer, byte for byte; comparing saves loading the second one."""
    first, second = Path(target) / name, Path(draft) / name
    if not (first.is_file() and second.is_file()) or first.stat().st_size != second.stat().st_size:
        return False
    return first.read_bytes() == second.read_bytes()
