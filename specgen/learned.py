"""What adaptive lookahead learned, kept from one run of a pair on a machine to the next.

A small JSON file in the cache folder: step times and acceptance, no text. Losing it costs a run a few rounds.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specgen.files import beside
from specgen.models.store import models_folder

if TYPE_CHECKING:
    from specgen.models.load import Pair

FORMAT = 1


class Learned:
    """The file of a pair, for the models, the arithmetic, the threads and the versions in use.

    Args:
        pair: the models.
        folder: where such files are; the cache folder by default.
    """

    def __init__(self, pair: Pair, folder: Path | None = None) -> None:
        self._pair, self._folder = pair, folder

    @cached_property
    def path(self) -> Path:
        """Where it is."""
        folder = self._folder or models_folder().parent / "learned"
        return folder / f"{self._pair.profile.name[:40]}-{_key(self._pair)}.json"

    def load(self) -> dict[str, Any] | None:
        """Return what was learned, or None where nothing is known or the file is damaged."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            _check(found)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return dict(found)

    def save(self, learned: Mapping[str, Any]) -> None:
        """Write what was learned; a cache that cannot be written is no failure."""
        with suppress(OSError), beside(self.path) as scratch:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps({"format": FORMAT, **learned}), encoding="utf-8")
            scratch.replace(self.path)


def _key(pair: Pair) -> str:
    import torch

    parts = [pair.describe(), platform.machine(), platform.node(), torch.get_num_threads(), version("transformers")]
    parts += [torch.__version__, pair.profile.target.model, pair.profile.draft and pair.profile.draft.model]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _check(found: Mapping[str, Any]) -> None:
    """Raise for data that is not what ``AdaptiveLookahead.as_data`` returns."""
    from specgen.decoding.adaptive import AdaptiveLookahead

    if found["format"] != FORMAT:
        raise ValueError("another format")
    AdaptiveLookahead(learned=found)
