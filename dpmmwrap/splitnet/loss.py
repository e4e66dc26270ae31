"""The loss of the paper, and its extension to several proposals."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

OTHER_PROPOSALS = 0.5
SMALLEST_ENTROPY = 0.1


def split_loss(logits: Tensor, targets: Tensor, present: Tensor | None = None) -> Tensor:
    """The smaller of the mean BCE against the labels and against the flipped labels; (..., n) -> (...).

    Targets are probabilities of side 1: labels (0 or 1), or posteriors under the true mixture.
    """
    if present is None:
        present = torch.ones_like(targets)
    weights = present / present.sum(dim=-1, keepdim=True)
    # BCE(z, l) = softplus(l) - z l, and the flipped one is softplus(l) - (1 - z) l.
    positive = (weights * functional.softplus(logits)).sum(dim=-1)
    agreement = (weights * targets * logits).sum(dim=-1)
    total = (weights * logits).sum(dim=-1)
    return positive - torch.maximum(agreement, total - agreement)


def proposal_loss(logits: Tensor, targets: Tensor, present: Tensor | None = None) -> Tensor:
    """The mean loss of a batch: logits (B, n, P), targets (B, T, n).

    The first proposal learns the best split. Each target is also learned by the nearest of the other proposals, so that
    these come to differ. Each loss is divided by the entropy of the target's proportions: predicting only the
    proportions costs 1 for every set, whether its halves are equal or one is small.
    """
    proposals = logits.transpose(1, 2)
    share = targets.mean(dim=-1)
    entropy = -(torch.xlogy(share, share) + torch.xlogy(1 - share, 1 - share))
    present = None if present is None else present.to(logits.dtype)[:, None, None, :].expand(-1, 1, 1, -1)
    pairs = split_loss(
        proposals[:, :, None, :],
        targets[:, None, :, :],
        None if present is None else present.expand(-1, proposals.shape[1], targets.shape[1], -1),
    ) / entropy[:, None, :].clamp_min(SMALLEST_ENTROPY)
    loss = pairs[:, 0, 0].mean()
    if proposals.shape[1] > 1:
        loss = loss + OTHER_PROPOSALS * pairs[:, 1:, :].min(dim=1).values.mean()
    return loss
