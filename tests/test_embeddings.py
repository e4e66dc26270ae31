"""Embeddings in the hands of other packages: pipelines, and BERTopic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from dpmmwrap import DPMM

N, D = 240, 50
QUICK: dict[str, Any] = {"init": "kmeans", "n_chains": 1, "backend": "native", "random_state": 0}


@pytest.fixture(scope="module")
def embedding() -> Any:
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(3), N // 3)
    X = 4.0 * rng.normal(size=(3, D))[y] / np.sqrt(D) + 0.3 * rng.normal(size=(N, D))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y


def test_the_interface_of_a_cluster_model_for_topics(embedding: Any) -> None:
    """fit(X, y=None), labels_ and predict are all that is asked of one."""
    X, y = embedding
    model = DPMM(**QUICK)
    assert model.fit(X, y=None) is model
    assert model.labels_.shape == (N,) and (model.labels_ >= 0).all() and adjusted_rand_score(y, model.labels_) > 0.95
    np.testing.assert_array_equal(model.predict(X[:10]), model.labels_[:10])


def test_after_other_steps_of_a_pipeline(embedding: Any) -> None:
    X, y = embedding
    labels = make_pipeline(Normalizer(), PCA(10, random_state=0), DPMM(**QUICK)).fit_predict(5.0 * X)
    assert adjusted_rand_score(y, labels) > 0.95


def test_bertopic_loses_no_document(embedding: Any) -> None:
    bertopic = pytest.importorskip("bertopic")
    X, y = embedding
    words = (["piano", "violin", "opera"], ["river", "valley", "forest"], ["engine", "wheel", "brake"])
    documents = [" ".join(np.random.default_rng(i).choice(words[k], 4)) for i, k in enumerate(y)]
    topics = bertopic.BERTopic(umap_model=PCA(10, random_state=0), hdbscan_model=DPMM(**QUICK), embedding_model=None)
    found, _ = topics.fit_transform(documents, X)
    assert min(found) >= 0 and adjusted_rand_score(y, found) > 0.95
    again, _ = topics.transform(documents[:5], X[:5])
    assert list(again) == list(found[:5])
