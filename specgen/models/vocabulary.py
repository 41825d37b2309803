"""Do draft and target mean the same by their token ids?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specgen.errors import PairError


def common_size(target: Mapping[str, int], draft: Mapping[str, int], *, target_size: int, draft_size: int) -> int:
    """Number of leading ids that mean the same token to both models.

    Sizes may differ by padding or by tokens added at the end; what counts is the content.

    Args:
        target: token to id, of the target's tokenizer.
        draft: the same of the draft's.
        target_size: rows of the target's output layer.
        draft_size: rows of the draft's.

    Raises:
        PairError: an id means different tokens; the message names the first one.
    """
    ours = {index: token for token, index in target.items()}
    theirs = {index: token for token, index in draft.items()}
    known = min(max(ours, default=-1), max(theirs, default=-1)) + 1
    for index in range(known):
        if ours.get(index) != theirs.get(index):
            raise PairError(
                "draft and target do not share a vocabulary: "
                f"token {index} is {_shown(ours.get(index))} to the target, {_shown(theirs.get(index))} to the draft",
                "choose a draft from the target's model family, or run without one: --set draft=null",
            )
    return min(known, target_size, draft_size)


def _shown(token: str | None) -> str:
    return "unused" if token is None else repr(token)


def same_file(target: str, draft: str, name: str = "tokenizer.json") -> bool:
    """Whether two model folders hold the same tokenizer, byte for byte; comparing saves loading the second one."""
    first, second = Path(target) / name, Path(draft) / name
    if not (first.is_file() and second.is_file()) or first.stat().st_size != second.stat().st_size:
        return False
    return first.read_bytes() == second.read_bytes()


def token_ids(tokenizer: Any) -> dict[str, int]:
    """A tokenizer's whole vocabulary, added tokens included."""
    vocab: dict[str, int] = tokenizer.get_vocab()
    return vocab
