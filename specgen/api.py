"""The Python API: load a pair, then generate or stream.

>>> from specgen import load, generate
>>> pair = load("starter")
>>> generate(pair, "Why is the sky blue?", max_tokens=40).text
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from specgen.decoding.events import Finished, FinishReason, Notice, Prompted
from specgen.decoding.halt import Halt
from specgen.profile import Profile, Sampling, load_profile
from specgen.text import Piece, Spoken, encode_prompt, narrate

if TYPE_CHECKING:
    from specgen.decoding.stats import Stats
    from specgen.models.load import Pair
    from specgen.models.progress import Progress

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Request:
    """What to generate; None takes the profile's value.

    Attributes:
        max_tokens: tokens at most.
        sampling: temperature and its companions.
        seed: of the noise; one seed, one text.
        stops: strings that end the text, which is cut before them.
        lookahead: tokens proposed a round; 0 is the target alone.
        system: text of a system message.
        chat: whether to use the tokenizer's chat template.
        baseline: whether to spend a few plain rounds on measuring the target alone.
        acceptance: ``coupled``, ``block`` or ``token``.
    """

    max_tokens: int = 256
    sampling: Sampling | None = None
    seed: int = 0
    stops: tuple[str, ...] = ()
    lookahead: int | None = None
    system: str | None = None
    chat: bool | None = None
    baseline: bool = True
    acceptance: str | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished text.

    Attributes:
        text: what the target wrote.
        tokens: its ids.
        finish_reason: why it ended.
        stats: counts and times.
        seed: of the noise.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    stats: Stats
    seed: int


def load(
    profile: str | Profile = "starter",
    *,
    overrides: Sequence[str] = (),
    offline: bool = False,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Pair:
    """Load the models of a profile.

    Args:
        profile: a name, a path to a YAML file, or a profile.
        overrides: settings such as ``target.dtype=float16`` that replace the profile's.
        offline: look on this machine only.
        trust_remote_code: run code that comes with a model.
        progress: told what is being loaded.

    Raises:
        SpecgenError: whatever stands in the way, with a hint.
    """
    from specgen.models.load import load_pair
    from specgen.models.progress import silent
    from specgen.profile import override

    if isinstance(profile, str):
        profile = load_profile(profile, overrides)
    elif overrides:
        profile = override(profile, overrides)
    return load_pair(profile, offline=offline, trust_remote_code=trust_remote_code, progress=progress or silent)


def stream(
    pair: Pair, prompt: str | Sequence[Message], request: Request | None = None, *, halt: Halt | None = None
) -> Iterator[Prompted | Spoken | Notice | Finished]:
    """Generate from one prompt, round by round.

    Args:
        pair: the models; one run at a time.
        prompt: a text, or chat messages.
        request: what to generate.
        halt: ends the run after the round in progress.

    Raises:
        PromptError: the prompt is empty or does not fit.
    """
    from specgen.decoding.lookahead import fixed
    from specgen.decoding.proposers import DraftModel
    from specgen.decoding.rounds import Task, rounds

    request = request or Request()
    halt = halt or Halt()
    profile = pair.profile
    tokens = encode_prompt(
        pair.tokenizer,
        prompt,
        system=request.system,
        chat=profile.chat if request.chat is None else request.chat,
    )
    task = Task(
        prompt=tokens,
        max_tokens=request.max_tokens,
        stop_ids=pair.stop_ids,
        sampling=request.sampling or profile.sampling,
        seed=request.seed,
        rule=request.acceptance or profile.acceptance,
    )
    k = profile.lookahead if request.lookahead is None else request.lookahead
    proposer = DraftModel(pair.draft, common=pair.common) if pair.draft is not None and k else None
    events = rounds(
        pair.target,
        task,
        proposer=proposer,
        lookahead=fixed(k if proposer else 0, baseline=request.baseline),
        halt=halt,
    )
    return narrate(events, pair.tokenizer, stops=request.stops, halt=halt, skip=pair.stop_ids)


def generate(pair: Pair, prompt: str | Sequence[Message], request: Request | None = None, **options: Any) -> Generation:
    """Generate from one prompt and return the whole text.

    Args:
        pair: the models.
        prompt: a text, or chat messages.
        request: what to generate.
        **options: fields of ``Request`` that replace the request's.

    Raises:
        PromptError: the prompt is empty or does not fit.
    """
    from specgen.decoding.stats import Stats

    request = replace(request or Request(), **options)
    stats = Stats()
    pieces: list[Piece] = []
    for event in stream(pair, prompt, request):
        if isinstance(event, Spoken):
            pieces += event.pieces
            stats.add(event.round)
        else:
            stats.add(event)
    assert stats.finish_reason is not None
    return Generation(
        text="".join(piece.text for piece in pieces),
        tokens=tuple(piece.token for piece in pieces),
        finish_reason=stats.finish_reason,
        stats=stats,
        seed=request.seed,
    )
