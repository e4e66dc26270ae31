"""The loss is blind to the names of the labels."""

import math

import torch

from dpmmwrap.splitnet.loss import proposal_loss, split_loss


def test_flipped_labels_cost_the_same() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(4, 50), torch.randint(0, 2, (4, 50)).float()
    torch.testing.assert_close(split_loss(logits, labels), split_loss(logits, 1 - labels))
    torch.testing.assert_close(split_loss(logits, labels), split_loss(-logits, labels))


def test_it_is_the_smaller_of_two_cross_entropies() -> None:
    torch.manual_seed(1)
    logits, labels = torch.randn(3, 40), torch.randint(0, 2, (3, 40)).float()
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    both = [entropy(logits, z, reduction="none").mean(dim=1) for z in (labels, 1 - labels)]
    torch.testing.assert_close(split_loss(logits, labels), torch.minimum(*both))


def test_padding_does_not_count() -> None:
    torch.manual_seed(2)
    logits, targets = torch.randn(2, 30, 3), torch.rand(2, 2, 30)
    present = torch.arange(30)[None].expand(2, -1) < 20
    changed = logits.clone()
    changed[:, 20:] = 7.0
    one, other = (split_loss(x[..., 0], targets[:, 0], present.float()) for x in (logits, changed))
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(one, split_loss(logits[:, :20, 0], targets[:, 0, :20]))


def test_answering_with_the_proportions_costs_one() -> None:
    labels = (torch.arange(100) < 20).float()[None, None]
    constant = torch.full((1, 100, 1), math.log(0.2 / 0.8))
    assert abs(float(proposal_loss(constant, labels)) - 1.0) < 1e-5


def test_other_proposals_are_paid_for_other_targets() -> None:
    """With two targets, proposals that cover both cost less than proposals that cover one twice."""
    targets = torch.zeros(1, 2, 60)
    targets[0, 0, :20] = 1
    targets[0, 1, 20:30] = 1
    first, second = (20 * targets[0, k] - 10 for k in range(2))
    both = proposal_loss(torch.stack([first, first, second], dim=1)[None], targets)
    twice = proposal_loss(torch.stack([first, first, first], dim=1)[None], targets)
    assert both < twice / 2
