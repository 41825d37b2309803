"""What ``specgen verify`` finds: frozen records, with the verdict as a property."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["draft", "lookup", "self", "random", "none"]
Kind = Literal["tie", "fault"]


@dataclass(frozen=True, slots=True)
class LawCheck:
    """(D) An acceptance rule's output law, enumerated.

    Attributes:
        rule: its name.
        laws: pairs of distributions that it was enumerated on.
        worst: the largest total variation from the target's law.
        limit: what rounding may leave of it.
    """

    rule: str
    laws: int
    worst: float
    limit: float

    @property
    def ok(self) -> bool:
        """Whether the law is the target's."""
        return self.worst <= self.limit


@dataclass(frozen=True, slots=True)
class Case:
    """A way of decoding the prompts, to be compared with the target alone on one row.

    Attributes:
        source: who proposes: the pair's ``draft``, a ``lookup`` in the text, the target itself, ``random`` ids, or
            nobody.
        temperature: of the sampling; 0 is greedy.
        lookahead: tokens proposed a round.
        rows: prompts side by side.
    """

    source: Source
    temperature: float
    lookahead: int
    rows: int

    def __str__(self) -> str:
        """Say it in a few words."""
        rows = f"{self.rows} row{'s' * (self.rows != 1)}"
        who = {"self": "self-draft", "random": "random draft", "none": "target alone"}.get(self.source, self.source)
        return f"{who}, k {self.lookahead}, temperature {self.temperature:g}, {rows}"


@dataclass(frozen=True, slots=True)
class Token:
    """A token, for people.

    Attributes:
        id: its number.
        text: what it decodes to, by itself.
    """

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Divergence:
    """(N) A place where a run chose another token than the target alone does after the same text.

    Attributes:
        prompt: number of the prompt, from 1.
        position: which token of the output, from 0.
        what: ``emitted`` in the text, or ``refused``: a token of the self-draft that the target did not confirm.
        token: the run's.
        reference: what the target alone chooses there.
        gap: by how much the target alone prefers its choice to ``token``, in units of its logits (noise included).
        top_two: the gap between its two best choices there.
        margin: the largest gap that rounding explains there.
        kind: ``tie`` when the gap is within the margin, else ``fault``.
    """

    prompt: int
    position: int
    what: Literal["emitted", "refused"]
    token: Token
    reference: Token
    gap: float
    top_two: float
    margin: float
    kind: Kind


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of a case.

    Attributes:
        case: how the prompts were decoded.
        texts: how many there were.
        equal: how many of them are the reference's, token by token.
        tokens: tokens in all of them.
        proposed: draft tokens proposed.
        tested: draft tokens compared with the target's.
        accepted: draft tokens kept.
        divergences: every place where the run and the target alone disagree.
    """

    case: Case
    texts: int
    equal: int
    tokens: int
    proposed: int
    tested: int
    accepted: int
    divergences: tuple[Divergence, ...]

    @property
    def ties(self) -> int:
        """Divergences that rounding explains."""
        return sum(divergence.kind == "tie" for divergence in self.divergences)

    @property
    def faults(self) -> int:
        """Divergences that it does not explain."""
        return sum(divergence.kind == "fault" for divergence in self.divergences)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was checked.

    Attributes:
        profile: the pair's name.
        models: the pair in words.
        rule: the profile's acceptance rule; paths are compared under ``coupled``, whose text a seed decides.
        dtype: the target's arithmetic.
        translation: how the draft's tokens become the target's: ``same``, ``intersection`` or ``text``; None without a
            draft.
        prompts: how many were run.
        max_tokens: tokens generated for each at most.
        seed: of the first prompt's noise.
        strict: whether every pass of the target had one shape.
        row_invariant: whether this machine's kernels give equal bits for equal shapes; None when it was not asked.
        tolerance: the rule for ties, in words.
        laws: the enumerated rules.
        cases: the runs.
        seconds: that all of it took.
    """

    profile: str
    models: str
    rule: str
    dtype: str
    translation: str | None
    prompts: int
    max_tokens: int
    seed: int
    strict: bool
    row_invariant: bool | None
    tolerance: str
    laws: tuple[LawCheck, ...]
    cases: tuple[CaseResult, ...]
    seconds: float

    @property
    def faults(self) -> int:
        """Rules with a wrong law, and divergences that rounding does not explain."""
        return sum(not law.ok for law in self.laws) + sum(case.faults for case in self.cases)

    @property
    def ties(self) -> int:
        """Divergences that rounding explains."""
        return sum(case.ties for case in self.cases)

    @property
    def ok(self) -> bool:
        """Whether nothing is at fault."""
        return not self.faults
