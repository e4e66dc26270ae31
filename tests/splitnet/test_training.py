"""Training: it learns, it resumes exactly, it is reproducible, and damaged files are refused."""

import json
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from dpmmwrap.splitnet import training as module
from dpmmwrap.splitnet.loss import proposal_loss
from dpmmwrap.splitnet.network import SplitNet, architecture
from dpmmwrap.splitnet.progress import TrainingProgress, beside_shipped
from dpmmwrap.splitnet.set_transformer import Architecture
from dpmmwrap.splitnet.training import (
    TrainingSettings,
    checkpoint_path,
    curriculum_progress,
    schedule,
    train,
)
from dpmmwrap.splitnet.weights_io import card_path, load_weights, save_weights


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A validation of a few sets: these tests are about the loop."""
    whole = module.validation_sets
    monkeypatch.setattr(module, "validation_sets", lambda seed, dims: whole(seed, dims, sets=2, n=64))


def weights_of(path: Path) -> dict[str, torch.Tensor]:
    return load_weights(path).state_dict()


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


SMALL = Architecture(dim=2, hidden=16, heads=2, encoders=1, inducing=4, decoders=1, seeds=3)
SETTINGS = TrainingSettings(dims=(2,), steps=12, batch=1, seed=3, validations=3)


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.safetensors" for name in "abc"]
    for path, seed in zip(paths, (3, 3, 4), strict=True):
        train(TrainingSettings(dims=(2,), steps=4, batch=1, seed=seed, validations=1), path)
    assert same(weights_of(paths[0]), weights_of(paths[1]))
    assert not same(weights_of(paths[0]), weights_of(paths[2]))


def test_a_killed_run_resumes_to_the_same_weights(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole.safetensors", tmp_path / "killed.safetensors"
    train(SETTINGS, whole)

    def kill(now: TrainingProgress) -> None:
        if now.step == 7:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        train(SETTINGS, killed, progress=kill)
    assert not killed.exists()
    assert checkpoint_path(killed).exists()
    card = train(SETTINGS, killed, resume=True)
    assert card["steps_done"] == 12
    assert same(weights_of(whole), weights_of(killed))
    assert not checkpoint_path(killed).exists()


def test_ctrl_c_keeps_the_best_so_far(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"

    def interrupt(now: TrainingProgress) -> None:
        if now.step == 5:
            signal.raise_signal(signal.SIGINT)

    card = train(SETTINGS, path, progress=interrupt)
    assert card["steps_done"] == 6
    assert 1 <= card["best_step"] <= 6
    assert load_weights(path).sizes == architecture()
    assert train(SETTINGS, path, resume=True)["steps_done"] == 12


def test_minutes_become_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMED", (2, 4))
    path = tmp_path / "w.safetensors"
    card = train(TrainingSettings(dims=(2,), steps=4000, batch=1), path, minutes=1e-9)
    assert card["steps"] == card["steps_done"] == 4
    assert card["validations"] == 1 and not checkpoint_path(path).exists()


def test_minutes_are_obeyed_when_a_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMED", (1, 2))
    path = tmp_path / "w.safetensors"

    def interrupt(now: TrainingProgress) -> None:
        if now.step == 2:
            signal.raise_signal(signal.SIGINT)

    first = train(TrainingSettings(dims=(2,), steps=4000, batch=1), path, progress=interrupt)
    assert (first["steps_done"], first["ended_by"]) == (3, "interrupt")
    # Two steps that are timed.
    card = train(TrainingSettings(dims=(2,), steps=4000, batch=1), path, resume=True, minutes=1e-9)
    assert card["steps"] == card["steps_done"] == 5


class TestBudget:
    """On a clock that the test turns."""

    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        now = [100.0]
        monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])

        def validate(network: object, sets: object) -> dict[str, float]:
            now[0] += 3.0
            return {}

        monkeypatch.setattr(module, "validate", validate)
        return now

    def test_a_minute_is_a_minute(self, clock: list[float]) -> None:
        training = module.Training(SETTINGS)
        budget = module.Budget(1.0, begun=90.0)
        for done in range(1, module.TIMED[1] + 1):
            clock[0] += 0.5
            training.step = done
            budget.look(training, done, [])
        planned = training.settings
        # 10 seconds to get ready, the steps so far and the validation that was timed.
        left = 60 - 10 - 0.5 * module.TIMED[1] - 3
        assert planned.validations == int(0.2 * left / 3)
        spent = 0.5 * (planned.steps - training.step) + 3 * planned.validations
        assert left - 0.5 < spent <= left

    def test_slower_steps_end_when_time_is_up(self, clock: list[float]) -> None:
        budget = module.Budget(1.0, begun=100.0)
        assert not budget.is_spent()
        budget.validation = 3.0
        clock[0] = 150.0
        assert not budget.is_spent()
        clock[0] = 164.0
        assert budget.is_spent()
        assert not module.Budget(None, begun=0.0, validation=3.0).is_spent()


def test_the_card_says_what_was_done(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    train(SETTINGS, path)
    card = json.loads(card_path(path).read_text())
    assert (card["dimensions"], card["preset"], card["steps"], card["seed"]) == ([2], "compact", 12, 3)
    assert set(card["metrics"]) == {"ari_easy 2", "ari_medium 2", "ari_hard 2", "ari_crowded 2"}
    assert [point["step"] for point in card["curve"]] == [4, 8, 12]
    assert set(card["curve"][0]) == {"step", "minutes", "difficulty", "loss", *card["metrics"]}
    assert "get harder" in card["curve_note"] and len(card["sha256"]) == 64
    assert card["version"]


def test_it_learns_one_batch() -> None:
    run = module.Training(TrainingSettings(dims=(2,), steps=50, batch=1))
    whole = module.training_batch(0, 0, SETTINGS.stage_at(0), 1, 0.2)
    batch = module.Batch(whole.X[:2, :64], whole.targets[:2, :, :64], whole.known[:2, :64])
    losses = [run.advance(batch) for _ in range(12)]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.slow
def test_it_learns() -> None:
    losses: list[float] = []
    run = module.Training(TrainingSettings(dims=(2,), steps=50, batch=4))
    for step in range(50):
        losses.append(run.advance(module.training_batch(0, step, SETTINGS.stage_at(step), 4, 0.2)))
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])


def test_schedules() -> None:
    assert schedule(0, 1000) < schedule(50, 1000) < schedule(99, 1000) == 1.0
    assert schedule(1000, 1000) == 0.02 < schedule(800, 1000) < schedule(400, 1000) == 1.0
    assert curriculum_progress(0) == curriculum_progress(100) == 0.33 < curriculum_progress(500) < 1.0
    assert curriculum_progress(1000) == 1.0


def test_the_learning_rate_falls_with_the_width_of_a_set_transformer() -> None:
    rates = {dim: TrainingSettings(dims=(dim,), preset="paper").learning_rate for dim in (2, 20)}
    assert rates == {2: 1e-3, 20: 5e-4}
    assert TrainingSettings(dims=(20,)).learning_rate == 2e-3


@pytest.mark.parametrize("reduced", [True, False])
def test_the_papers_network_is_trained_in_bfloat16_where_that_is_faster(
    reduced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_bfloat16", lambda device: reduced)
    training = module.Training(TrainingSettings(dims=(2,), preset="paper"))
    batch = module.training_batch(0, 0, training.settings.stage_at(0), 1, 0.3)
    with torch.no_grad():
        exact = float(proposal_loss(training.network(batch.X), batch.targets, batch.known))
    loss = training.advance(batch)
    assert (loss != exact) == reduced
    assert loss == pytest.approx(exact, rel=0.02)
    assert training.card()["arithmetic"] == ("bfloat16" if reduced else "float32")
    assert all(weight.dtype == torch.float32 for weight in training.network.parameters())
    assert not module.Training(TrainingSettings()).bfloat16


def test_a_checkpoint_with_another_learning_rate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.safetensors"
    module.Training(SETTINGS).save_checkpoint(checkpoint_path(path))
    monkeypatch.setattr(module, "COMPACT_RATE", 1e-3)
    with pytest.raises(ValueError, match="a different learning_rate"):
        train(SETTINGS, path, resume=True)


def test_stages() -> None:
    mixed = TrainingSettings()
    assert [mixed.stage_at(step) for step in (0, 2399, 2400, 9999)] == [module.MIXED_STAGES[i] for i in (0, 0, 1, 2)]
    assert mixed.validated_dims == [2, 10, 20]
    assert SETTINGS.stage_at(0) == SETTINGS.stage_at(9999) and SETTINGS.stage_at(0).dims == (2,)


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    with pytest.raises(ValueError, match="there is no checkpoint"):
        train(SETTINGS, path, resume=True)
    module.Training(SETTINGS).save_checkpoint(checkpoint_path(path))
    with pytest.raises(ValueError, match="a different dims, seed"):
        train(TrainingSettings(dims=(3,), steps=12, batch=1, seed=5), path, resume=True)
    save_file({"x": torch.zeros(1)}, checkpoint_path(path))
    with pytest.raises(ValueError, match="is not a checkpoint of SplitNet training"):
        train(SETTINGS, path, resume=True)


@pytest.mark.parametrize(
    "bad", [{"dims": (0,)}, {"dims": ()}, {"steps": 0}, {"batch": 0}, {"seed": -1}, {"preset": "huge"}]
)
def test_bad_settings(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        TrainingSettings(**{"dims": (2,), **bad})


def test_weights_that_are_not_what_they_should_be_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    network = SplitNet(SMALL)
    save_weights(path, network, {})
    assert same(weights_of(path), network.state_dict())
    other = SplitNet(SMALL)
    card = card_path(path).read_text()
    save_weights(path, other, {})
    card_path(path).write_text(card)
    with pytest.raises(ValueError, match=r"are damaged: their checksum is not the one in w\.json"):
        load_weights(path)
    card_path(path).write_text("{")
    with pytest.raises(ValueError, match="should hold JSON"):
        load_weights(path)
    card_path(path).unlink()
    assert same(weights_of(path), other.state_dict())
    save_weights(path, network, {})
    with pytest.raises(ValueError, match="there is no weights file"):
        load_weights(tmp_path / "none.safetensors")

    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="is damaged or not a safetensors file"):
        load_weights(path)
    path.write_bytes(b"not weights at all")
    with pytest.raises(ValueError, match="is damaged or not a safetensors file"):
        load_weights(path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="does not hold SplitNet weights"):
        load_weights(path)


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    network = SplitNet(SMALL)
    state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    sizes = network.describe()

    def written(sizes: object, tensors: dict[str, torch.Tensor]) -> Path:
        save_file(tensors, path, {"format": "dpmmwrap-splitnet-2", "architecture": json.dumps(sizes)})
        return path

    with pytest.raises(ValueError, match="have an unknown architecture"):
        load_weights(written({**sizes, "layers": 3}, state))
    with pytest.raises(ValueError, match="have an unknown architecture"):
        load_weights(written({**sizes, "hidden": 10**9}, state))
    with pytest.raises(ValueError, match="do not fit the architecture"):
        load_weights(written({**sizes, "hidden": 8}, state))
    with pytest.raises(ValueError, match="not finite"):
        load_weights(written(sizes, {**state, "body.logits.bias": torch.full((1,), float("nan"))}))


def test_how_far_it_is_from_the_shipped_network() -> None:
    rows = [{"step": 100, "ari_hard 2": 0.3}, {"step": 200, "ari_hard 2": 0.6}, {"step": 300, "ari_hard 2": 0.9}]
    card = {"curve": rows, "steps_done": 300, "batch": 10}
    said = beside_shipped({"hard 2": 0.1, "easy 2": 1.0}, {"hard 2": 0.9}, seen=500, minutes=2.0, card=card)
    assert said == (
        "ARI 0.10 on hard pairs in 2 dimensions after 2 min; the shipped network has 0.90, which learned from 3,000 "
        "sets of all dimensions (here 12 min); it was halfway there after 2,000 (8 min)"
    )
    said = beside_shipped({"hard 3": 0.1}, {"hard 3": 0.9}, seen=5, minutes=2.0, card=card)
    assert said.endswith("has 0.90, which learned from 3,000 sets of all dimensions (here 20.0 h)"), "no curve there"
    assert beside_shipped({"hard 2": 0.9}, {"hard 2": 0.9}, seen=5, minutes=2.0, card=card).endswith("has 0.90")


def test_the_comparison_does_not_wait_for_a_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPARED_AFTER", 0.0)
    moments: list[TrainingProgress] = []
    train(
        TrainingSettings(dims=(2,), steps=3, batch=1, validations=1),
        tmp_path / "w.safetensors",
        progress=moments.append,
    )
    assert not moments[0].validation
    assert "the shipped network has" in moments[0].remark == moments[-1].remark
