"""A tiny pair with room for the built-in prompts, and arms that do what a test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from specgen.bench.arms import Job, Outcome
from specgen.bench.prompts import Prompt
from specgen.bench.provenance import Provenance
from specgen.bench.run import Sample
from specgen.decoding.events import Round
from tests.pairs import folder

WHERE = Provenance(
    profile="toy",
    models="a with b",
    dtype="float32",
    device="cpu",
    cpu="a processor",
    threads=1,
    system="Linux x86_64",
    python="3.11",
    torch="2.13",
    transformers="5.24",
    specgen="0.1",
    prompts=2,
    source="built-in",
    max_tokens=8,
    repeats=2,
    seed=0,
    rule="coupled",
)


def write_pair(place: Path, *, drafted: bool = True, context: int = 4096) -> str:
    """Write a pair and return its profile's path."""
    folder(place / "target", chat=True, max_position_embeddings=context)
    lines = ["target: {model: ./target, dtype: float32, device: cpu}"]
    if drafted:
        folder(place / "draft", seed=1, chat=True, max_position_embeddings=context)
        lines.append("draft: {model: ./draft, dtype: float32, device: cpu}")
    profile = place / "tiny.yaml"
    profile.write_text("\n".join([*lines, "lookahead: 3", ""]))
    return str(profile)


@dataclass
class FakeArm:
    """An arm that takes the seconds it is told to take."""

    name: str
    seconds: Callable[[Job], float] = lambda job: 1.0
    family: str = "specgen"
    group: str = ""
    about: str = "made up"
    begun: int = 0
    ran: list[Job] = field(default_factory=list)

    def begin(self) -> None:
        self.begun += 1

    def run(self, job: Job) -> Outcome:
        self.ran.append(job)
        return outcome(self.seconds(job))


def outcome(seconds: float, *, count: int = 10, decode: float | None = None, rounds=(), **more) -> Outcome:
    return Outcome(
        prompt_tokens=5,
        count=count,
        seconds=seconds,
        decode_seconds=seconds if decode is None else decode,
        rounds=tuple(rounds),
        **more,
    )


def sample(arm: str, prompt: int, repeat: int, seconds: float, *, temperature: float = 0.0, **more) -> Sample:
    category = more.pop("category", f"c{prompt}")
    memory = more.pop("memory", None)
    return Sample(arm, temperature, prompt, category, repeat, outcome(seconds, **more), memory)


def played(tokens: int, proposed: int, accepted: int, seconds: float = 1.0, source: str = "draft") -> Round:
    return Round(0, (1,) * proposed, accepted, (1,) * tokens, 0.25 * seconds, 0.5 * seconds, seconds, source=source)


PROMPTS = (Prompt("a", "1", "the quick"), Prompt("b", "1", "brown fox"), Prompt("b", "2", "jumps over"))
