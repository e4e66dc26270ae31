"""The built-in sampler as a backend: one chain, or several side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from dpmmwrap.families.base import Points, Prior
from dpmmwrap.families.learned.base import LearnedPrior, Summary
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.sampler.chain import Chain, ChainResult
from dpmmwrap.sampler.draws import Draws, labels_array
from dpmmwrap.sampler.refinement import refined
from dpmmwrap.sampler.settings import Result, Settings, has_few_numbers
from dpmmwrap.sampler.state import Best


class NativeBackend:
    """The built-in sampler."""

    def fit(self, X: Points, settings: Settings, outer: Interrupt | None = None) -> Result:
        """Run all chains. Ctrl-C does not reach a fit in another thread, which uses its caller's interrupt."""
        settings.bind(X, settings.full_ratio)
        chains, labels = settings.n_chains, None
        if settings.n_draws and settings.keep_labels:
            labels = labels_array((chains, settings.n_draws, X.shape[0]), settings.checkpoint)
        side_by_side = min(chains, settings.n_jobs)
        shared = replace(settings, n_jobs=max(1, settings.n_jobs // side_by_side))

        def run(number: int) -> ChainResult:
            return run_chain(X, shared, number, interrupt, None if labels is None else labels[number])

        with nullcontext(outer) if outer else Interrupt() as interrupt:
            if side_by_side == 1:
                results = [run(number) for number in range(chains)]
            else:
                with ThreadPoolExecutor(side_by_side) as pool:
                    results = list(pool.map(run, range(chains)))
            result = result_of(results, labels, settings.hyperprior)
            if settings.refine and has_few_numbers(X) and not result.interrupted:
                best = refined(X, settings, result.candidates, interrupt)
                if best.labels is not result.labels:
                    others = [chain.best.labels for number, chain in enumerate(results) if number != result.chain]
                    agreement = tuple(float(adjusted_rand_score(best.labels, other)) for other in others)
                    result = replace(with_best(result, best), agreement=agreement)
        # Also after the last iteration: Ctrl-C should end a loop of fits.
        return replace(result, interrupted=result.interrupted or interrupt.requested)


def with_best(result: Result, best: Best) -> Result:
    return replace(result, **best._asdict())


def run_chain(
    X: Points, settings: Settings, number: int, interrupt: Interrupt, labels: IntArray | None = None
) -> ChainResult:
    """Run one chain, and store the labels of its draws."""
    progress: Any = settings.progress
    if hasattr(progress, "of_chain"):
        of_chain = progress.of_chain(number)
    else:
        of_chain = None if number else progress
    chain = Chain(X, replace(settings, progress=of_chain), number, labels)
    try:
        result = chain.run(interrupt)
        chain.problem.data.flush()
        return result
    finally:
        chain.problem.data.close()
        if hasattr(progress, "ended"):
            progress.ended(number)


def result_of(
    results: list[ChainResult],
    labels: IntArray | None = None,
    hyperprior: LearnedPrior | None = None,
    rand_index: Callable[[Any, Any], float] = adjusted_rand_score,
) -> Result:
    """The best clustering of all chains, and all draws."""
    # After an interrupt, some chains have not made a step.
    begun = [result for result in results if len(result.trace)] or results
    chain = max(begun, key=lambda result: result.best.log_posterior)
    draws, draw_priors = draws_of(results, labels, hyperprior)
    others = [other.best.labels for other in begun if other is not chain]
    return Result(
        **chain.best._asdict(),
        trace=chain.trace,
        interrupted=any(result.interrupted for result in results),
        chain=next(index for index, result in enumerate(results) if result is chain),
        traces=[result.trace for result in begun],
        draws=draws,
        draw_priors=draw_priors,
        agreement=tuple(float(rand_index(chain.best.labels, other)) for other in others),
        candidates=[candidate for result in begun for candidate in result.candidates],
    )


def draws_of(
    results: list[ChainResult], labels: IntArray | None, hyperprior: LearnedPrior | None
) -> tuple[Draws | None, tuple[Prior, ...]]:
    """The draws of all chains, and the prior of each, one chain after the other: the same number of each chain; after
    an interrupt, the number that gives most draws in all."""
    lengths = np.array([len(result.record) for result in results])
    count = max(lengths.tolist(), key=lambda length: length * int((lengths >= length).sum()))
    if not count:
        return None, ()
    chosen = np.flatnonzero(lengths >= count)
    results = [results[number] for number in chosen]
    if labels is not None:
        # No copy if these are all chains.
        labels = labels[:, :count] if len(chosen) == len(labels) else labels[chosen, :count]
    samples = [result.record.samples[:count] for result in results]
    moves = np.array([result.record.moves[:count] for result in results])
    most = max(sample.n_clusters for chain in samples for sample in chain)
    weights = np.zeros((len(results), count, most))
    for c, chain in enumerate(samples):
        for d, sample in enumerate(chain):
            weights[c, d, : sample.n_clusters] = sample.weights
    learned = {}
    if hyperprior is not None:
        values = np.array([[hyperprior.summary(sample.prior) for sample in chain] for chain in samples])
        learned = {f"prior_{name}": values[:, :, index] for index, name in enumerate(Summary._fields)}
    if "discount" in samples[0][0].partition_prior.parameters:
        learned["discount"] = np.array([[sample.partition_prior.values[1] for sample in chain] for chain in samples])
    draws = Draws(
        n_clusters=np.array([[sample.n_clusters for sample in chain] for chain in samples]),
        alpha=np.array([[sample.partition_prior.alpha for sample in chain] for chain in samples]),
        log_posterior=np.array([[sample.log_posterior for sample in chain] for chain in samples]),
        weights=weights,
        splits=moves[:, :, 0],
        splits_proposed=moves[:, :, 1],
        merges=moves[:, :, 2],
        merges_proposed=moves[:, :, 3],
        labels=labels,
        **learned,
    )
    return draws, tuple(sample.prior for chain in samples for sample in chain)
