"""The lane of the last round: which drafts were accepted, which was rejected, which were never tested."""

from __future__ import annotations

from specgen.display.escape import printable
from specgen.display.styles import Signs, Spans, Style, cut, width
from specgen.text import Spoken

_GAP = "  "


def lane(spoken: Spoken, room: int, signs: Signs) -> Spans:
    """Return the row; where it is too long, the first accepted drafts give way, for the news is at the end.

    Args:
        spoken: the round.
        room: cells.
        signs: for the states.
    """
    head = [(f" round {spoken.round.index + 1}   ", Style.PLAIN)]
    tokens = _tokens(spoken, signs)
    room -= width(head[0][0])
    left_out = 0
    while len(tokens) > 1 and _length(tokens, left_out, signs) > room:
        tokens, left_out = tokens[1:], left_out + 1
    if left_out:
        head.append((f"{signs.more}{left_out}{_GAP}", Style.QUIET))
        room -= width(head[1][0])
    row: list[tuple[str, Style]] = []
    for sign, text, style in tokens:
        # The sign is not underlined or struck: only the token is.
        row += [(sign, _SIGN[style]), (text, style), (_GAP, Style.PLAIN)]
    return [*head, *cut(row[:-1], room, signs.more)]


_SIGN = {
    Style.ACCEPTED: Style.GOOD,
    Style.REJECTED: Style.BAD,
    Style.DISCARDED: Style.DISCARDED,
    Style.PLAIN: Style.STRONG,
}


def _tokens(spoken: Spoken, signs: Signs) -> list[tuple[str, str, Style]]:
    """Return every token of the round, drafts first, with its sign and its style."""
    drafts = [(signs.accepted, _label(piece.text, signs), Style.ACCEPTED) for piece in spoken.pieces if piece.accepted]
    for place, text in enumerate(spoken.dropped):
        sign, style = (signs.discarded, Style.DISCARDED) if place else (signs.rejected, Style.REJECTED)
        drafts.append((sign, _label(text, signs), style))
    own = [(signs.own, _label(piece.text, signs), Style.PLAIN) for piece in spoken.pieces if not piece.accepted]
    return drafts + own


def _length(tokens: list[tuple[str, str, Style]], left_out: int, signs: Signs) -> int:
    mark = width(f"{signs.more}{left_out}{_GAP}") if left_out else 0
    return mark + sum(width(sign + text + _GAP) for sign, text, _ in tokens) - width(_GAP)


def _label(text: str, signs: Signs) -> str:
    """Return a token's text for one row: a word without its space, and whitespace as signs."""
    shown = printable(text)
    if not shown:
        return signs.more  # an incomplete character, or a token without text
    if not shown.strip():
        shown = shown.replace(" ", signs.space)
    return shown.strip(" ").replace("\n", signs.newline).replace("\t", signs.tab)
