"""Counter-based randomness: every number is a pure function of a seed, a purpose, a position and a token id.

Nothing is consumed, so the number that belongs to a token does not depend on what was drafted, refused or batched
before it. That is what makes *one seed, one text* possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import torch
from torch import Tensor

Purpose = Literal["token", "draft", "residual", "coin"]
_PURPOSES: Final[tuple[Purpose, ...]] = ("token", "draft", "residual", "coin")
_MASK: Final = (1 << 64) - 1
# Stafford's mix 13, the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
_MULTIPLIERS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS: Final = (30, 27, 31)
_GAMMA: Final = 0x9E3779B97F4A7C15


def _signed(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def mix(value: int) -> int:
    """Scramble a 64-bit integer."""
    value &= _MASK
    for shift, multiplier in zip(_SHIFTS, (*_MULTIPLIERS, 1), strict=True):
        value = ((value ^ (value >> shift)) * multiplier) & _MASK
    return value


def derive(seed: int, *labels: int) -> int:
    """A seed for one use of ``seed``, told apart by ``labels``."""
    state = mix(seed + _GAMMA)
    for label in labels:
        state = mix(state ^ mix(label + _GAMMA))
    return state


def _mix_tensor(value: Tensor) -> Tensor:
    """``mix`` on an int64 tensor, in place: products wrap, and the sign bits that ``>>`` drags in are cut off."""
    for shift, multiplier in zip(_SHIFTS, (*_MULTIPLIERS, 1), strict=True):
        value ^= (value >> shift) & ((1 << (64 - shift)) - 1)
        value *= _signed(multiplier)
    return value


class Noise:
    """Random numbers for a vocabulary.

    Args:
        vocab_size: token ids covered.
        device: where the numbers are wanted. They are computed in float64 there, or on the host for devices without it.
    """

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self.device = device
        self._home = torch.device("cpu") if device.type == "mps" else device
        self._ids = _mix_tensor(torch.arange(vocab_size, device=self._home) * _signed(_GAMMA) + 1)
        self._kept: dict[tuple[int, int], Tensor] = {}

    def uniform(self, count: int, seed: int, purpose: Purpose, *labels: int) -> Tensor:
        """Numbers in (0, 1) for the first ``count`` ids, float64, where they are computed."""
        key = derive(seed, _PURPOSES.index(purpose), *labels)
        bits = _mix_tensor(self._ids[:count] ^ _signed(key))
        return ((bits >> 11) & ((1 << 53) - 1)).double().add_(0.5).mul_(2.0**-53)

    def coins(self, count: int, seed: int, *labels: int, dtype: torch.dtype) -> Tensor:
        """``count`` numbers in (0, 1)."""
        return self.uniform(count, seed, "coin", *labels).to(self.device, dtype)

    def gumbel(self, seed: int, purpose: Purpose, *labels: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Gumbel noise ``-log(-log u)`` for each token id, ``[vocab]``."""
        uniform = self.uniform(len(self._ids), seed, purpose, *labels)
        return uniform.log_().neg_().log_().neg_().to(self.device, dtype)

    def at(self, seeds: Sequence[int], starts: Sequence[int], count: int, *, dtype: torch.dtype) -> Tensor:
        """The Gumbel noise of the tokens at ``count`` positions from ``starts`` on, ``[rows, count, vocab]``.

        Draft and target both ask for it, and after a rejection the next round asks again: rows are kept until their
        position is behind the rows of their seed.
        """
        wanted = [(seed, start + i) for seed, start in zip(seeds, starts, strict=True) for i in range(count)]
        first: dict[int, int] = {}
        for seed, start in zip(seeds, starts, strict=True):
            first[seed] = min(start, first.get(seed, start))
        self._kept = {key: row for key, row in self._kept.items() if key[1] >= first.get(key[0], key[1] + 1)}
        for key in wanted:
            if key not in self._kept:
                self._kept[key] = self.gumbel(key[0], "token", key[1], dtype=dtype)
        return torch.stack([self._kept[key] for key in wanted]).view(len(seeds), count, -1)
