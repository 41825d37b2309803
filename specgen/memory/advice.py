"""What would fit: the limits of each size, and changes from the cheapest on, every one of them planned again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from specgen.memory.errors import CannotTell
from specgen.memory.plan import Planner
from specgen.memory.report import Limits, Plan, Suggestion
from specgen.memory.request import Request

# The formula was off by 0.3 % at most where it was compared with the trace (docs/memory.md).
_HOLD_BACK = 0.004
_MOST_ROWS = 4096
_MOST_LOOKAHEAD = 64
_CONTEXT_STEP = 64


def advise(planner: Planner, request: Request, plan: Plan) -> Plan:
    """Add limits and, when a plan does not fit or only just, the changes that would help.

    Args:
        planner: of the pair.
        request: what was planned.
        plan: the answer to it.
    """
    advisor = _Advisor(planner, request, plan)
    suggestions = () if plan.verdict == "fits" else tuple(advisor.suggestions())
    return replace(plan, limits=advisor.limits(), suggestions=suggestions)


class _Advisor:
    def __init__(self, planner: Planner, request: Request, plan: Plan) -> None:
        self.planner, self.request, self.plan = planner, replace(request, detail=False), plan
        # The formula is moved to where the trace was; how the weights are kept is part of the distance.
        self._offset = 0
        self._covered = True
        try:
            formula = planner.plan(_plain(self.request))
        except CannotTell:
            self._covered = False
        else:
            self._offset = (plan.peak.peak - formula.peak.peak) // len(plan.devices)

    def spare(self, **changes: object) -> int:
        """Bytes left on the fullest device, after a change: quickly, and rather too few than too many."""
        request = self.request.changed(**changes)
        if not self._covered:
            return self._scaled(request)
        plan = self.planner.plan(_plain(request))
        return plan.left - self._offset - int(_HOLD_BACK * plan.need)

    def _scaled(self, request: Request) -> int:
        """The same from this plan alone: caches are exact, the rest grows with everything that grows."""
        plan, before, after = self.plan, self.request.load, request.load
        models = [(plan.target, after.slots)]
        if plan.draft is not None and request.with_draft:
            models.append((plan.draft, after.draft_slots(plan.draft.positions)))
        held = sum(m.weights + m.kv for m in (plan.target, plan.draft) if m is not None)
        needed = sum(m.weights + m.kv_per_token * slots * after.batch for m, slots in models)
        growth = max(after.batch / before.batch, 1.0)
        growth *= max(after.context / before.context, 1.0) * max((after.lookahead + 1) / (before.lookahead + 1), 1.0)
        working = int(max(plan.peak.peak - held, 0) * (growth - 1))
        return plan.left - (needed - held + working) // len(plan.devices)

    def most(self, name: str, low: int, high: int, *, step: int = 1) -> int:
        """The largest value that fits, a multiple of ``step``; 0 when none does."""
        return largest(lambda value: self.spare(**{name: value * step}), -(-low // step), high // step) * step

    def limits(self) -> Limits:
        """The most of each size that fits, with the others as they are."""
        positions = self.plan.target.positions
        shortest = self.request.load.lookahead + 2
        context = positions if self.spare(context=positions) >= 0 else 0
        if not context:
            context = self.most("context", shortest, positions, step=min(_CONTEXT_STEP, positions))
        draft = self.plan.draft is not None
        return Limits(
            context=context,
            context_by="model" if context == positions else "memory",
            batch=self.most("batch", 1, _MOST_ROWS),
            lookahead=self.most("lookahead", 0, min(_MOST_LOOKAHEAD, self.request.load.context - 2)) if draft else 0,
        )

    def suggestions(self) -> list[Suggestion]:
        """The changes that fit, from the one that costs least on."""
        found = []
        for make in (self._chunk, self._lookahead, self._dtype, self._draft_quant, self._no_draft, self._context):
            found += make()
        found += self._batch()
        found += self._target_quant()
        return [suggestion for suggestion in found if suggestion.verdict != "no"]

    def _try(self, options: str, cost: str, why: str, **changes: object) -> list[Suggestion]:
        try:
            plan = self.planner.plan(self.request.changed(**changes))
        except CannotTell:
            return []
        return [Suggestion(options, plan.need, plan.verdict, cost, why)]

    def _chunk(self) -> list[Suggestion]:
        chunk = 64
        if self.request.load.prefill_chunk <= chunk or "prefill" not in self.plan.peak.name:
            return []
        if self.spare(prefill_chunk=chunk) < 0:
            return []
        return self._try(f"--prefill-chunk {chunk}", "speed", "reads prompts in smaller pieces", prefill_chunk=chunk)

    def _lookahead(self) -> list[Suggestion]:
        now = self.request.load.lookahead
        if self.plan.draft is None or now <= 2 or self.spare(lookahead=2) < 0:
            return []
        return self._try("--lookahead 2", "speed", "scores fewer tokens a round", lookahead=2)

    def _dtype(self) -> list[Suggestion]:
        if self.plan.target.dtype != "float32" or self.plan.target.quantization:
            return []
        return self._try(
            "--dtype bfloat16", "quality", "half the bytes a number", target_dtype="bfloat16", draft_dtype="bfloat16"
        )

    def _draft_quant(self) -> list[Suggestion]:
        if self.plan.draft is None or self.plan.draft.quantization or not self._packs():
            return []
        return self._try(
            "--draft-quant nf4",
            "speed",
            "a 4-bit draft: the text stays the target's, fewer drafts may be accepted",
            draft_quant="nf4",
        )

    def _no_draft(self) -> list[Suggestion]:
        if self.plan.draft is None or self.spare(with_draft=False, lookahead=0) < 0:
            return []
        return self._try("--no-draft", "speed", "the target alone, without speedup", with_draft=False, lookahead=0)

    def _context(self) -> list[Suggestion]:
        load = self.request.load
        low = load.lookahead + 2
        if load.context <= low + _CONTEXT_STEP:
            return []
        value = self.most("context", low, load.context, step=_CONTEXT_STEP)
        if not value:
            return []
        return self._try(f"--context {value}", "size", "shorter texts", context=value)

    def _batch(self) -> list[Suggestion]:
        if self.request.load.batch < 2:
            return []
        value = self.most("batch", 1, self.request.load.batch)
        return self._try(f"--batch {value}", "size", "fewer rows side by side", batch=value) if value else []

    def _target_quant(self) -> list[Suggestion]:
        if self.plan.target.quantization or not self._packs():
            return []
        found = []
        for method, bits in (("int8", 8), ("nf4", 4)):
            found += self._try(
                f"--target-quant {method}", "quality", f"a {bits}-bit checkpoint of the target", target_quant=method
            )
        return found

    def _packs(self) -> bool:
        return self.request.devices[0].kind in ("cuda", "xpu") and not self.request.fast


def _plain(request: Request) -> Request:
    """The same question to the formula, which knows no quantized weights."""
    return replace(request, fast=True, target_quant=None, draft_quant=None)


def largest(spare: Callable[[int], int], low: int, high: int) -> int:
    """The largest value from ``low`` to ``high`` that leaves something to spare; 0 when none does.

    Memory grows almost in proportion, so guesses are taken where a straight line would end, with a halving in between.
    """
    if high < low:
        return 0
    at_low = spare(low)
    if at_low < 0:
        return 0
    at_high = spare(high)
    if at_high >= 0:
        return high
    halve = False
    while high - low > 1:
        guess = (low + high) // 2 if halve else low + (high - low) * at_low // (at_low - at_high)
        guess = min(max(guess, low + 1), high - 1)
        found = spare(guess)
        # Close to the end a line may creep up from one side.
        halve = not halve
        if found >= 0:
            low, at_low = guess, found
        else:
            high, at_high = guess, found
    return low
