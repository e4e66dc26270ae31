"""Points of Student-t clusters with diagonal scale matrices: the loops of full ones with different parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.base import ClusterPosteriors, Model
from dpmmwrap.families.diagonal.prior import Posteriors
from dpmmwrap.families.full.statistics import LOG_2_PI
from dpmmwrap.families.full.wishart import Gaussians
from dpmmwrap.families.points import Merges
from dpmmwrap.families.student.diagonal_collapsed import DiagonalStudentClusters
from dpmmwrap.families.student.points import StudentPoints, prior_of
from dpmmwrap.families.student.statistics import Statistics
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.partitions.gibbs_type import GibbsType, draw_weights
from dpmmwrap.partitions.hastings import MergeRule, merge_ratios

WEIGHTS_KEY = 1 << 48


class DiagonalStudentPoints(StudentPoints):
    """Points with scales, under diagonal scale matrices."""

    def likely_merges(
        self, model: Model, known: ClusterPosteriors, candidates: IntArray, rule: MergeRule,
        neg_log_uniform: Float64Array,
    ) -> Merges:  # fmt: skip
        one, other = (candidates[own] for own in np.triu_indices(len(candidates), 1))
        gains = prior_of(model).union_log_marginals(known.clusters, one, other)
        gains -= known.log_marginal[one] + known.log_marginal[other]
        margins = merge_ratios(rule, known.clusters.counts, one, other, gains) + neg_log_uniform[: len(one)]
        likely = margins > 0
        return Merges(one[likely], other[likely], margins[likely], len(one))

    def draw_parameters(self, model: Model, weights: GibbsType, known: ClusterPosteriors, key: Any) -> Any:
        drawn = draw_weights(derived_key(key, WEIGHTS_KEY), weights, known.clusters.counts, known.sides)
        return (*drawn, drawn_gaussians(known.posterior, key), prior_of(model).tails)

    def draw_clusters(self, model: Model, weights: GibbsType, bundle: Any, count: int, key: Any) -> Any:
        drawn = draw_weights(derived_key(key, WEIGHTS_KEY), weights, bundle.counts[:count], np.empty((0, 2)))
        posterior = prior_of(model).posterior(self.statistics_of(model, bundle, count))
        return (*drawn, drawn_gaussians(posterior, key), prior_of(model).tails)

    def empty_clusters(self, model: Model, capacity: int) -> DiagonalStudentClusters:
        prior, room = prior_of(model), capacity + 1
        fields, (logs, ones, constants, counts) = prior.fields, np.zeros((4, room))
        return DiagonalStudentClusters(
            counts, np.tile(fields.means, (room, 1)), np.full(room, fields.strengths[0]),
            np.full(room, fields.freedoms[0]), np.tile(fields.scales, (room, 1)), logs, ones, constants,
            np.zeros((room, len(prior.tails.heaviness))), prior.tails,
        )  # fmt: skip

    def collapsed(self, model: Model, clusters: Statistics, capacity: int) -> DiagonalStudentClusters:
        bundle, count = self.empty_clusters(model, capacity), len(clusters.counts)
        found: Posteriors = prior_of(model).gaussians(clusters)
        for own, values in (
            (bundle.counts, clusters.counts), (bundle.logs, clusters.logs), (bundle.ones, clusters.ones),
            (bundle.means, found.means), (bundle.strengths, found.strengths[:, 0]), (bundle.scales, found.scales),
        ):  # fmt: skip
            own[:count] = values
        bundle.freedoms[:count] += clusters.counts
        return bundle

    def statistics_of(self, model: Model, bundle: Any, count: int) -> Statistics:
        """Remove the prior's contribution from the posteriors. A scatter common to all features is split evenly."""
        prior = prior_of(model).fields
        strengths, dim = bundle.strengths[:count], bundle.means.shape[1]
        masses = np.maximum(strengths - prior.strengths[0], 0.0)
        gaps = bundle.means[:count] - prior.means
        far = np.where(masses > 0, strengths / np.maximum(masses, 1e-300), 0.0)[:, None]
        pulls = prior.strengths[0] * far * gaps**2
        squares = bundle.scales[:count] - prior.scales
        squares = squares - pulls if squares.shape[1] == dim else (squares - pulls.sum(axis=1, keepdims=True)) / dim
        scatters = np.maximum(squares, 0.0)[:, :, None] * np.eye(dim)
        counts, logs, ones = (own[:count].copy() for own in (bundle.counts, bundle.logs, bundle.ones))
        return Statistics(counts, masses, prior.means + far * gaps, scatters, logs, ones)


def drawn_gaussians(posterior: Any, key: Any) -> Gaussians:
    """Draw means and variances from their posteriors, in the layout of loops over full covariances."""
    means, variances = posterior.draw_gaussians(np.random.default_rng(int(derived_key(key, 0))))
    roots = 1 / np.sqrt(variances)
    log_peaks = np.log(roots).sum(axis=1) - 0.5 * means.shape[1] * LOG_2_PI
    return Gaussians(means, roots[:, :, None] * np.eye(means.shape[1]), log_peaks)
