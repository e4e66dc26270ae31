"""Compiled loops of Dirichlet priors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import log_gamma
from dpmmwrap.numerics.variates import standard_gammas

WORDS_AT_ONCE = 256


@compiled
def log_rising(prior: Any, prior_log_gamma: Any, count: Any) -> Any:
    """Log of Gamma(prior + count) / Gamma(prior)."""
    return log_gamma(prior + count) - prior_log_gamma


@compiled
def log_marginals(prior: Any, log_gamma_total: Any, log_gammas: Any, sums: Any) -> Any:
    """Log marginal likelihood of each cluster's counts. O(K V), with gamma functions for nonzero counts only."""
    whole = 0.0
    for v in range(len(prior)):
        whole += prior[v]
    found = np.empty(len(sums))
    for k in range(len(sums)):
        total, n = 0.0, 0.0
        for v in range(len(prior)):
            if sums[k, v] > 0.0:
                n += sums[k, v]
                total += log_rising(prior[v], log_gammas[v], sums[k, v])
        found[k] = total + log_gamma_total - log_gamma(whole + n)
    return found


@compiled
def union_log_marginals(prior: Any, log_gamma_total: Any, log_gammas: Any, sums: Any, one: Any, other: Any) -> Any:
    """Log marginal likelihoods of the unions of pairs of clusters. O(V) per pair."""
    whole = 0.0
    for v in range(len(prior)):
        whole += prior[v]
    found = np.empty(len(one))
    for pair in range(len(one)):
        total, n = 0.0, 0.0
        for v in range(len(prior)):
            both = sums[one[pair], v] + sums[other[pair], v]
            if both > 0.0:
                n += both
                total += log_rising(prior[v], log_gammas[v], both)
        found[pair] = total + log_gamma_total - log_gamma(whole + n)
    return found


@compiled
def expected_tables(prior: Any, sums: Any, halves: Any) -> Any:
    """Logs of the expected proportions (V, K) in float32, from a prior and sums of counts (K, V), minus the mean over
    all clusters, or with `halves` minus the mean of each pair.

    Most words occur in few clusters, so the log of a word's smallest concentration is computed once and reused. The
    tables of wide data are large, so they are written in one pass, a block of words at a time.
    """
    count, dim = sums.shape
    found, log_totals = np.empty((dim, count), np.float32), np.empty(count)
    concentration, least, logs, middle = np.empty(dim), np.empty(dim), np.empty(dim), np.zeros(dim, np.float32)
    for k in range(count):
        for v in range(dim):
            concentration[v] = prior[v] + sums[k, v]
        total = 0.0
        for v in range(dim):
            total += concentration[v]
        log_totals[k] = math.log(total)
    for begin in range(0, dim, WORDS_AT_ONCE):
        end = min(begin + WORDS_AT_ONCE, dim)
        for v in range(begin, end):
            least[v] = np.inf
        for k in range(count):
            for v in range(begin, end):
                least[v] = min(least[v], prior[v] + sums[k, v])
        for v in range(begin, end):
            logs[v] = math.log(least[v])
        for k in range(count):
            for v in range(begin, end):
                value = prior[v] + sums[k, v]
                found[v, k] = (logs[v] if value == least[v] else math.log(value)) - log_totals[k]
                # Summed in the order of the clusters for each word.
                middle[v] += found[v, k]
        for v in range(begin, end):
            if halves:
                for k in range(0, count, 2):
                    mean = np.float32(0.5) * (found[v, k] + found[v, k + 1])
                    found[v, k] -= mean
                    found[v, k + 1] -= mean
            else:
                mean = middle[v] / np.float32(count)
                for k in range(count):
                    found[v, k] -= mean
    return found


@compiled
def draw_log_proportions(key: Any, edges: Any, concentration: Any) -> Any:
    """Draw log proportions of each distribution (K, F), column by column, in float32."""
    count, width = concentration.shape
    found = np.empty((count, width), np.float32)
    gammas = standard_gammas(key, concentration.ravel())
    for k in range(count):
        for column in range(len(edges) - 1):
            total = 0.0
            for f in range(edges[column], edges[column + 1]):
                total += gammas[k * width + f]
            for f in range(edges[column], edges[column + 1]):
                found[k, f] = math.log(max(gammas[k * width + f], 1e-300) / max(total, 1e-290))
    return found
