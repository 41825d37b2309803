"""Text from a model, a file or the web, made safe for a terminal."""

from __future__ import annotations

# C0 except newline and tab, DEL, C1, and the bidirectional controls that make text read as it is not.
_CONTROLS = [*range(0x20), 0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_KEPT = {0x09, 0x0A}


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_VISIBLE = {code: _escape(code) for code in _CONTROLS if code not in _KEPT}
# A surrogate on its own is no character: terminals and encoders disagree about it.
_VISIBLE |= {code: _escape(code) for code in range(0xD800, 0xE000)}


def printable(text: str) -> str:
    r"""Return the text with every control character that could act on a terminal shown as ``\x1b`` or ``\u202e``.

    Each character is judged alone, so it makes no difference how the text is cut into pieces.
    """
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """Return the text for a place that has one row."""
    return printable(" ".join(text.split()) if "\n" in text or "\t" in text else text)
