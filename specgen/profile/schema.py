"""What a profile is: frozen values that say which models run, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ACCEPTANCE_RULES = ("coupled", "block", "token")
AUTO = "auto"
AUTO_MOST = 16
"""Tokens that a round proposes at most when the lookahead is ``auto``."""
DTYPES = ("auto", "float32", "float16", "bfloat16")
DRAFT_DTYPES = (*DTYPES, "int8")
"""A draft's weights may be rounded to eight bits, because the text does not depend on them."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The numbers of the warper chain; the defaults change nothing.

    Attributes:
        temperature: 0 is greedy.
        top_k: 0 is off.
        top_p: 1 is off.
        min_p: 0 is off.
        repetition_penalty: 1 is off.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class Mirror:
    """A GGUF file inside a wheel on the Python package index.

    Attributes:
        wheel: the exact requirement, ``name==version``.
        file: the path inside the wheel.
        sha256: of that file.
    """

    wheel: str
    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: where it comes from and where it runs.

    Attributes:
        model: hub id, local folder, or ``.gguf`` file.
        revision: branch, tag or commit on the hub.
        dtype: one of ``DTYPES``, or of ``DRAFT_DTYPES`` for a draft.
        device: ``auto``, ``cpu``, ``mps``, ``xpu``, ``cuda``, ``cuda:1``, or several: ``cuda:0,cuda:1``.
        mirror: where the weights can also be had.
        config: numbers from the model's config.json, for planning offline.
        licence: the licence of the weights.
        gated: whether the hub wants the terms accepted first.
    """

    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    mirror: Mirror | None = None
    # Not hashed, so that a spec can be a key although a mapping cannot.
    config: Mapping[str, Any] = field(default_factory=dict, hash=False)
    licence: str | None = None
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """A target, perhaps a draft, and how to run them.

    Attributes:
        name: the stem of the file.
        target: the model whose distribution is kept.
        draft: the model that proposes.
        description: one line for people.
        lookahead: tokens proposed a round, or ``auto`` for what measuring makes of it; 0 is the target alone.
        acceptance: one of ``ACCEPTANCE_RULES``.
        context: the most tokens of prompt and output together; None is what the target allows.
        sampling: the warper chain.
        chat: whether the tokenizer's chat template is used when it has one.
        source: the file it came from.
    """

    name: str
    target: ModelSpec
    draft: ModelSpec | None = None
    description: str = ""
    lookahead: int | str = AUTO
    acceptance: str = "coupled"
    context: int | None = None
    sampling: Sampling = Sampling()
    chat: bool = True
    source: str | None = None


def most_proposed(lookahead: int | str) -> int:
    """The most tokens that a round proposes."""
    return lookahead if isinstance(lookahead, int) else AUTO_MOST
