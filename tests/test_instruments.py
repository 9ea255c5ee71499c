"""What probes measure with counts what it says, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from autograder.instruments import (
    Conversions,
    GraphCounter,
    HostReads,
    MatmulDtypes,
    SavedTensors,
    mlp,
    reachable_bytes,
)

WEIGHTS = [torch.ones(3, 2), torch.zeros(3), torch.full((1, 3), 2.0), torch.ones(1)]


def test_mlp_is_the_network_of_these_weights() -> None:
    """Layers in order, an activation between them, parameters of its own in the dtype of the weights."""
    x = torch.tensor([[0.5, 0.25]])
    network = mlp(WEIGHTS)
    torch.testing.assert_close(network(x), torch.tanh(torch.tensor([[0.75]])) * 6 + 1)
    torch.testing.assert_close(mlp(WEIGHTS, torch.nn.ReLU)(x), torch.tensor([[5.5]]))
    assert mlp([w.double() for w in WEIGHTS])(x.double()).dtype == torch.float64
    with torch.no_grad():
        next(network.parameters()).zero_()
    assert (WEIGHTS[0] == 1).all()


def test_making_a_network_draws_no_random_numbers() -> None:
    """A probe's random numbers don't depend on the networks that it makes."""
    state = torch.get_rng_state()
    mlp(WEIGHTS)
    assert torch.equal(torch.get_rng_state(), state)


def _loss(network: torch.nn.Module) -> torch.Tensor:
    return network(torch.ones(4, 2)).tanh().pow(2).sum()  # type: ignore[no-any-return]


def test_saved_tensors_of_graphs_that_are_kept_and_that_are_gone() -> None:
    """A loss that is kept keeps its graph; after backward, or without the loss, nothing is held."""
    network = mlp(WEIGHTS)
    with SavedTensors() as saved:
        kept = [_loss(network)]
        one = saved.alive
        assert one > 0
        kept.append(_loss(network))
        assert saved.alive == 2 * one
        kept[0].backward()
        assert saved.alive == one
        kept.clear()
        assert saved.alive == 0
        _loss(network).detach()
        assert saved.alive == 0
        with torch.no_grad():
            _loss(network)
        assert saved.total == 3 * one


def test_gradients_are_the_same_under_saved_tensors() -> None:
    """First and second derivatives are those without counting."""
    x = torch.tensor([[0.3, -0.2]], dtype=torch.float64, requires_grad=True)
    network = mlp([w.double() for w in WEIGHTS])

    def derivatives() -> tuple[torch.Tensor, torch.Tensor]:
        (first,) = torch.autograd.grad(network(x).pow(2).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), x)
        return first, second

    plain = derivatives()
    with SavedTensors():
        counted = derivatives()
    torch.testing.assert_close(counted, plain)


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.item(),
        lambda t: float(t),
        lambda t: int(t),
        lambda t: 1 if t > 1 else 0,
        lambda t: f"{t:.3f}",
        lambda t: f"loss {t}",
        lambda t: str(t),
        lambda t: t.tolist(),
        lambda t: t.numpy(),
        lambda t: t.cpu(),
        lambda t: [1, 2, 3, 4][t.long()],
        lambda t: torch.tensor([t, t]),
        lambda t: torch.equal(t, t),
    ],
)
def test_each_way_of_reading_counts(read: Callable[[torch.Tensor], object]) -> None:
    """Whatever hands a value to Python is a read."""
    value = torch.tensor(3.0)
    with HostReads() as reads:
        read(value)
    assert reads.count == 1, reads.by_name


def test_arithmetic_is_no_read() -> None:
    """Work that stays in tensors is free, clipping and an optimiser's step included."""
    network = mlp(WEIGHTS)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    with HostReads() as reads:
        total = torch.zeros(())
        for _ in range(3):
            loss = _loss(network)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            total += loss.detach()
    assert reads.count == 0, reads.by_name


def test_graph_counter_sees_graphs_that_backward_has_emptied() -> None:
    """A running total keeps the graphs of its terms although nothing is saved in them any more."""
    counter = GraphCounter()
    network = torch.nn.Sequential(mlp(WEIGHTS), counter)
    total = torch.zeros(())
    with SavedTensors() as saved:
        for _ in range(3):
            loss = _loss(network)
            loss.backward()
            total = total + loss
    assert saved.alive == 0 and counter.alive == 3
    del total, loss
    assert counter.alive == 0
    assert counter.history == [0, 1, 2]
    with torch.no_grad():
        kept = _loss(network)
    assert counter.alive == 0 and kept.isfinite()


def test_graph_counter_changes_no_gradient() -> None:
    """With and without it the gradients are the same, also when only some inputs need them."""
    plain, counted = mlp(WEIGHTS), torch.nn.Sequential(GraphCounter(), mlp(WEIGHTS), GraphCounter())
    _loss(plain).backward()
    _loss(counted).backward()
    for mine, theirs in zip(counted.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_reachable_bytes_grow_with_what_is_kept() -> None:
    """Tensors, views of one storage and arrays are followed; a storage counts once."""

    class Log:
        def __init__(self) -> None:
            self.kept: list[object] = []

    log = Log()
    empty = reachable_bytes(log)
    rows = torch.zeros(1000)
    log.kept.append(rows)
    one = reachable_bytes(log)
    assert 4000 <= one - empty < 5000
    log.kept.append({"view": rows[:10]})
    assert reachable_bytes(log) - one < 1000
    log.kept.append(torch.zeros(1000).numpy())
    assert 4000 <= reachable_bytes(log) - one < 6000


def test_products_are_counted_in_the_dtype_that_they_run_in() -> None:
    """Below autocast, with a bias or without, batched or not, in forward and in backward."""
    layer = torch.nn.Linear(4, 3)
    x = torch.ones(2, 4, requires_grad=True)
    with MatmulDtypes() as products:
        layer(x)
        assert products.counts == {"torch.float32": 1}
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x)
            assert products.counts == {"torch.float32": 1, "torch.bfloat16": 1}
            y @ y.T
            torch.bmm(y[None], y.T[None])
            torch.nn.functional.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 2))
        assert products.counts == {"torch.float32": 1, "torch.bfloat16": 4}
        layer(x).sum().backward()
    assert products.counts["torch.float32"] == 4
    before = dict(products.counts)
    layer(x)
    assert products.counts == before


def test_a_fused_attention_counts_as_a_product() -> None:
    """However torch carries it out."""
    q = torch.ones(1, 2, 3, 4, dtype=torch.bfloat16)
    with MatmulDtypes() as products:
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert set(products.counts) == {"torch.bfloat16"}


def test_conversions_are_counted_autocasts_included() -> None:
    """By hand, into another tensor, and by autocast, which keeps what it made of a parameter."""
    x, layer = torch.ones(2, 4), torch.nn.Linear(4, 3)
    with Conversions() as conversions:
        x.to(torch.bfloat16)
        x.float()  # nothing to do
        torch.zeros(2, 4, dtype=torch.float64).copy_(x)
        assert (conversions.count, conversions.of(x)) == (2, 2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            layer(x)
            layer(x)
    assert conversions.of(layer.weight) == conversions.of(layer.bias) == 1
    assert conversions.of(x) == 4
