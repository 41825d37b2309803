"""Speculative decoding for local language models: the target's text, sooner."""

from __future__ import annotations

__version__ = "0.1.0"
