"""Embeddings in the hands of other packages: pipelines, UMAP, AnnData and BERTopic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, homogeneity_score
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


def test_after_umap_in_a_pipeline(embedding: Any) -> None:
    umap = pytest.importorskip("umap")
    X, y = embedding
    pipeline = make_pipeline(umap.UMAP(n_components=5, random_state=0), DPMM(**QUICK))
    # UMAP tears clusters apart, but does not join those that lie far from each other.
    labels = pipeline.fit_predict(X)
    assert homogeneity_score(y, labels) > 0.95 and pipeline.predict(X[:3]).shape == (3,)


def test_the_principal_components_of_cells(embedding: Any) -> None:
    anndata = pytest.importorskip("anndata")
    X, y = embedding
    cells = anndata.AnnData(X)
    cells.obsm["X_pca"] = PCA(10, random_state=0).fit_transform(X)
    model = DPMM(**QUICK).fit(cells.obsm["X_pca"])
    cells.obs["dpmm"] = model.labels_.astype(str)
    cells.obsm["X_dpmm"] = model.predict_proba(cells.obsm["X_pca"])
    assert adjusted_rand_score(y, cells.obs["dpmm"]) > 0.95 and cells.obsm["X_dpmm"].shape == (N, model.n_clusters_)


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
