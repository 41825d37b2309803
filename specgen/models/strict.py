"""Passes of one constant shape, so that low precision rounds a token alike in a plain and in a verifying pass.

A matrix product of one row and one of five use different kernels and add in different orders; bfloat16 then rounds to
different logits, and a near-tie flips. With a constant shape the same kernels run, and what is left to ask is whether
they treat every row of a matrix alike. That is a property of the machine, so it is measured.
"""

from __future__ import annotations

import torch

from specgen.models.cached import CachedModel

COLUMNS = 12
"""Columns of every pass in strict mode: a lookahead of up to 11 and the target's own token.

A multiple of four, because common float32 kernels work on rows in fours and treat a remainder differently.
"""


def is_row_invariant(model: CachedModel, *, slots: int = 64) -> bool:
    """Whether this model's kernels give a token the same bits in every column of a pass.

    The tokens of one full pass are scored again one by one, at the first column; the logits must be equal in every bit.
    """
    prompt = 2 * COLUMNS
    ids = torch.arange(1, slots + 1, device=model.device)[None] % model.vocab_size
    model.open(1, slots, columns=COLUMNS)
    model.logits(ids, [prompt], last=0)
    together = model.logits(ids, [prompt + COLUMNS], last=COLUMNS)[0]  # [columns, vocab]
    model.crop([prompt])
    single = [model.logits(ids, [prompt + 1 + i], last=1)[0, 0] for i in range(COLUMNS)]
    return bool(torch.equal(together, torch.stack(single)))
