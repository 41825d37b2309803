"""Speculative decoding for local language models: the target's text, sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specgen.api import Generation, Request, Session, generate, load, stream

__version__ = "0.1.0"
__all__ = ["Generation", "Request", "Session", "__version__", "generate", "load", "stream"]


def __getattr__(name: str) -> object:
    """Import the API when it is asked for: ``specgen --help`` must not wait for it."""
    if name in __all__:
        from specgen import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
