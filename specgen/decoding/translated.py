"""Drafting across vocabularies: through the tokens that both have, or through the text.

Timor et al. 2025, "Accelerating LLM inference with lossless speculative decoding algorithms for heterogeneous
vocabularies" (arXiv 2502.05202). What goes wrong in translation costs acceptance, never correctness: a proposal is
verified by the target like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import pad

from specgen.decoding.acceptance import NOTHING, Proposal
from specgen.decoding.calibration import UNKNOWN
from specgen.decoding.lookahead import Lookahead
from specgen.decoding.proposers import Drafted
from specgen.decoding.rows import Rows
from specgen.decoding.sampler import Sampler
from specgen.models.cached import CachedModel

# Tokens before the draft that are read again with it: enough for a word that began earlier.
_CONTEXT_TOKENS = 16


class TranslatedDraft(ABC):
    """A draft with a tokenizer of its own: the committed text in its ids, and a cache that follows it.

    Args:
        model: the draft.
        tokenizer: the draft's.
        target_tokenizer: the target's.
    """

    def __init__(self, model: CachedModel, tokenizer: Any, target_tokenizer: Any) -> None:
        self.model, self.tokenizer, self.target_tokenizer = model, tokenizer, target_tokenizer
        self._ids: list[list[int]] = []  # each row's text in the draft's ids
        self._buffer = torch.empty(0)  # the same on the device, and what is being drafted, [rows, slots]

    @property
    def fed(self) -> int:
        """Positions that the draft has computed so far."""
        return self.model.fed

    def _slots(self, slots: int) -> int:
        # A text may have more tokens in the draft's vocabulary than in the target's.
        return min(2 * slots + _CONTEXT_TOKENS, self.model.context + 1)

    def open(self, rows: int, slots: int) -> None:
        """Make room for a new run, up to the draft's own context."""
        self.model.open(rows, self._slots(slots))
        self._ids = [[] for _ in range(rows)]
        self._buffer = torch.zeros(rows, self._slots(slots), dtype=torch.long, device=self.model.device)

    def grow(self, slots: int) -> None:
        """Make room for more positions a row, up to the draft's own context."""
        self.model.grow(self._slots(slots))
        self._buffer = pad(self._buffer, (0, max(self._slots(slots) - self._buffer.shape[1], 0)))

    def resume(self, row: int, *, source: int, length: int) -> None:  # noqa: ARG002
        """Begin a row with what another holds; how much of it is right shows when its text is translated."""
        self.model.resume(row, source=source, length=min(self.model.lengths[source], len(self._ids[source])))
        self._ids[row] = list(self._ids[source])
        self._buffer[row] = self._buffer[source]

    def room(self, lengths: Sequence[int]) -> int:
        """Tokens until the draft's context is full, as far as the text has been translated."""
        return max(self._buffer.shape[1] - max(map(len, self._ids[: len(lengths)]), default=0), 0)

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget what was drafted: the text that follows is translated anew."""
        self.model.crop([len(ids) for ids in self._ids[: len(lengths)]])

    def propose(self, rows: Rows, sampler: Sampler, k: int, lookahead: Lookahead | None = None) -> Proposal:
        """Bring every row's text up to date and draft up to ``k`` tokens."""
        if lookahead is not None and not lookahead.go_on([[] for _ in rows.lengths]):
            return Proposal(rows.tokens[:, :0])
        for row in range(len(rows.lengths)):
            self._follow(row, self._translate(row, rows.committed(row)))
        return self._draft(rows, sampler, min(k, self.room(rows.lengths)), lookahead)

    def _follow(self, row: int, ids: list[int]) -> None:
        """Take a row's text in the draft's ids, keeping the part of the cache that still holds it."""
        ids = ids[: self._buffer.shape[1]]
        old = self._ids[row]
        same = next((i for i, (a, b) in enumerate(zip(old, ids, strict=False)) if a != b), min(len(old), len(ids)))
        held = self.model.lengths[row] if same == len(old) else min(self.model.lengths[row], same)
        self.model.lengths[row] = min(held, len(ids) - 1)
        self._buffer[row, same : len(ids)] = torch.tensor(ids[same:], dtype=torch.long)
        self._ids[row] = ids

    def _beginning(self) -> list[int]:
        """The token that the draft's texts begin with, where it has one."""
        ids: list[int] = self.tokenizer("", add_special_tokens=True)["input_ids"]
        return ids[:1] if ids[:1] == [self.tokenizer.bos_token_id] else []

    @abstractmethod
    def _translate(self, row: int, committed: Sequence[int]) -> list[int]:
        """A row's text in the draft's ids."""

    @abstractmethod
    def _draft(self, rows: Rows, sampler: Sampler, k: int, lookahead: Lookahead | None) -> Proposal:
        """Draft after the translated texts."""


class IntersectionDraft(TranslatedDraft):
    """Draws from the draft's distribution over the tokens that both vocabularies have (TLI).

    Args:
        model: the draft.
        tokenizer: the draft's.
        target_tokenizer: the target's.
        pairs: draft id to target id of the common tokens.
    """

    def __init__(self, model: CachedModel, tokenizer: Any, target_tokenizer: Any, pairs: Mapping[int, int]) -> None:
        super().__init__(model, tokenizer, target_tokenizer)
        self._draft_ids = torch.tensor(list(pairs), device=model.device)  # [pairs]
        self._target_ids = torch.tensor(list(pairs.values()), device=model.device)
        self._spelling: dict[int, list[int]] = {target: [draft] for draft, target in pairs.items()}
        self._back = torch.zeros(int(self._target_ids.max()) + 1, dtype=torch.long, device=model.device)
        self._back[self._target_ids] = self._draft_ids
        self._drafted_after: list[tuple[int, int]] = []  # target's and draft's length of each row when it was drafted

    def open(self, rows: int, slots: int) -> None:
        """Make room for a new run, up to the draft's own context."""
        super().open(rows, slots)
        self._drafted_after = [(0, 0)] * rows

    def crop(self, lengths: Sequence[int]) -> None:
        """Forget what was not accepted; an accepted token is one token to both."""
        kept = [draft + n - target for n, (target, draft) in zip(lengths, self._drafted_after, strict=False)]
        self.model.crop([max(n, 0) for n in kept])

    def resume(self, row: int, *, source: int, length: int) -> None:
        """Begin a row with what another holds."""
        super().resume(row, source=source, length=length)
        self._drafted_after[row] = (length, len(self._ids[row]))

    def _translate(self, row: int, committed: Sequence[int]) -> list[int]:  # noqa: ARG002
        ids = self._beginning()
        for token in committed:
            if token not in self._spelling:
                text = self.target_tokenizer.decode([token])
                self._spelling[token] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            ids += self._spelling[token]
        return ids or [0]

    def _draft(self, rows: Rows, sampler: Sampler, k: int, lookahead: Lookahead | None) -> Proposal:
        probs = []
        evidence = Drafted(len(rows.lengths), self.model.device)
        self._drafted_after = [
            (n, len(ids)) for n, ids in zip(rows.lengths, self._ids, strict=False)
        ] + self._drafted_after[len(rows.lengths) :]
        while evidence.count < k and (not evidence.count or lookahead is None or lookahead.go_on(evidence.rows)):
            offset = evidence.count
            totals = [len(ids) + offset for ids in self._ids[: len(rows.lengths)]]
            logits = self.model.logits(self._buffer[: len(totals)], totals, last=1)
            mapped = logits.new_full((*logits.shape[:2], sampler.vocab_size), float("-inf"))
            mapped[..., self._target_ids] = logits[..., self._draft_ids]
            scores = sampler.scores(mapped.to(rows.tokens.device), rows, offset=offset)
            token, drawn_from = sampler.draw(scores, rows, offset=offset)  # the target's ids, [rows]
            rows.draft(offset, token)
            evidence.add(scores, token, read=lookahead is not None)
            if offset + 1 < k:
                own = self._back[token.to(self._back.device)]
                for row, total in enumerate(totals):
                    self._buffer[row, total] = own[row]
            if drawn_from is not None:
                probs.append(drawn_from)
        return evidence.proposal(rows, probs)


class TextDraft(TranslatedDraft):
    """Writes greedily in the draft's tokens, and reads the text in the target's (SLEM).

    The proposal is a text, so it is verified by exact match under every rule. It is read together with the tokens
    before it, and proposed only where reading them gives those tokens back.
    """

    def _translate(self, row: int, committed: Sequence[int]) -> list[int]:  # noqa: ARG002
        text = self.target_tokenizer.decode(list(committed))
        return [*self._beginning(), *self.tokenizer(text, add_special_tokens=False)["input_ids"]] or [0]

    def _draft(self, rows: Rows, sampler: Sampler, k: int, lookahead: Lookahead | None) -> Proposal:  # noqa: ARG002
        count = len(rows.lengths)
        if lookahead is not None:
            # The texts are read when all of them are written, so their length is decided beforehand.
            k = next((n for n in range(1, k) if not lookahead.go_on([[UNKNOWN] * n] * count)), k)
        starts = [len(ids) for ids in self._ids[:count]]
        for offset in range(k):
            totals = [start + offset for start in starts]
            token = self.model.logits(self._buffer[:count], totals, last=1)[:, 0].argmax(-1)  # [rows]
            for row, total in enumerate(totals):
                if total < self._buffer.shape[1]:
                    self._buffer[row, total] = token[row]
        # The one place where drafting must wait for the device: the tokens have to be read as text.
        written = self._buffer[:count].tolist()
        read = [
            self._read(rows.committed(row), written[row][: starts[row] + k], starts[row])[:k] for row in range(count)
        ]
        width = max(map(len, read), default=0)
        padded = torch.tensor([ids + [NOTHING] * (width - len(ids)) for ids in read], device=rows.tokens.device)
        for offset in range(width):
            rows.draft(offset, padded[:, offset].clamp_min(0))
        return Proposal(padded.view(count, width).long())

    def _read(self, committed: Sequence[int], ids: list[int], start: int) -> list[int]:
        """The drafted text in the target's tokens."""
        before = list(committed[-_CONTEXT_TOKENS:])
        drafted = self.tokenizer.decode(ids)[len(self.tokenizer.decode(ids[:start])) :]
        again: list[int] = self.target_tokenizer(
            self.target_tokenizer.decode(before) + drafted, add_special_tokens=False
        )["input_ids"]
        if again[: len(before)] != before:
            return []
        # The last token may grow when more text follows, so it is proposed only if it is all there is.
        fresh = again[len(before) :]
        return fresh[:-1] if len(fresh) > 1 else fresh
