"""One arm's training in eager torch, batched over trials: what `gpu.py` compares with."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch

from prism_fcp.data.clients import ClientData
from prism_fcp.train.settings import Arm, Federation


def seconds(populations: list[Any], federation: Federation, arm: Arm, repeats: int = 3) -> float:
    """Return the median wall time of all rounds."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    make = _net if isinstance(populations[0], ClientData) else _linear
    play = make(populations, federation, arm, device)
    play(5)
    found = []
    for _ in range(repeats):
        wait()
        begun = time.perf_counter()
        play(federation.rounds)
        wait()
        found.append(time.perf_counter() - begun)
    return median(found)


def _exchange(federation: Federation, arm: Arm, byzantine: Any, device: str) -> Callable[..., Any]:
    """Return what deals a round's participants, masks and hits, and what aggregates the mean."""
    shared, dimension = arm.masks.num_shared, federation.dimension
    trials, clients = byzantine.shape
    chosen = federation.num_participants
    options = federation.attack.options
    strength, probability = float(np.sqrt(options.get("variance", 0.1))), options.get("probability", 0.2)

    def deal() -> tuple[Any, Any, Any]:
        who = torch.rand(trials, clients, device=device).argsort(1)[:, :chosen]
        words = torch.rand(trials, chosen, dimension, device=device)
        mask = words <= words.kthvalue(shared, dim=-1, keepdim=True).values
        hit = byzantine.gather(1, who) & (torch.rand(trials, chosen, device=device) < probability)
        return who[..., None].expand(-1, -1, dimension), mask, hit

    def aggregate(mine: Any, model: Any, mask: Any, hit: Any) -> Any:
        sent = torch.where(hit[..., None], mine + strength * torch.randn_like(mine), mine)
        return torch.where(mask, sent, model[:, None]).mean(1)

    return lambda: (deal, aggregate)


def _linear(populations: list[Any], federation: Federation, arm: Arm, device: str) -> Callable[[int], Any]:
    def put(name: str) -> Any:
        return torch.tensor(np.stack([getattr(p, name) for p in populations]), dtype=torch.float32, device=device)

    byzantine = torch.tensor(np.stack([p.byzantine for p in populations]), device=device)
    means, spreads, noises = put("means")[..., None], put("variances").sqrt()[..., None], put("noise_variances").sqrt()
    truth = put("truth")[..., None]
    deal, aggregate = _exchange(federation, arm, byzantine, device)()
    trials, clients, dimension = len(populations), federation.num_clients, federation.dimension

    def play(rounds: int) -> Any:
        local = torch.zeros(trials, clients, dimension, device=device)
        model = torch.zeros(trials, dimension, device=device)
        for _ in range(rounds):
            who, mask, hit = deal()
            inputs = means + spreads * torch.randn(trials, clients, dimension, device=device)
            targets = (inputs @ truth)[..., 0] + noises * torch.randn(trials, clients, device=device)
            mine = torch.where(mask, model[:, None], local.gather(1, who))
            local.scatter_(1, who, mine)
            errors = targets - (local * inputs).sum(-1)
            local += federation.step_size * errors[..., None] * inputs
            model = aggregate(local.gather(1, who), model, mask, hit)
        return model

    return play


def _net(populations: list[Any], federation: Federation, arm: Arm, device: str) -> Callable[[int], Any]:
    net = populations[0].model
    features = torch.tensor(np.stack([p.features for p in populations]), device=device)
    target = torch.tensor(np.stack([p.target for p in populations]), device=device)
    rows = torch.tensor(np.stack([p.train for p in populations]).astype(np.int64), device=device)
    sizes = torch.tensor(np.stack([p.train_sizes for p in populations]).astype(np.int64), device=device)
    byzantine = torch.tensor(np.stack([p.byzantine for p in populations]), device=device)
    start = torch.tensor(np.stack([p.start for p in populations]), device=device)
    deal, aggregate = _exchange(federation, arm, byzantine, device)()
    batch, trials = federation.batch_size, len(populations)
    of_trial = torch.arange(trials, device=device)[:, None, None]

    def parts(models: Any) -> list[tuple[Any, Any]]:
        found = []
        for (inputs, outputs), layer in zip(net.widths, net.layers, strict=True):
            cut = layer.start + inputs * outputs
            found.append((models[:, layer.start : cut].view(-1, inputs, outputs), models[:, None, cut : layer.stop]))
        return found

    def play(rounds: int) -> Any:
        local, model = start[:, None].repeat(1, federation.num_clients, 1), start
        for n in range(rounds):
            who, mask, hit = deal()
            mine = torch.where(mask, model[:, None], local.gather(1, who))
            ids = who[..., 0]
            at = (n * batch + torch.arange(batch, device=device)) % sizes.gather(1, ids)[..., None]
            held = rows.gather(1, ids[..., None].expand(-1, -1, rows.shape[2])).gather(2, at)
            inputs = features[of_trial, held].flatten(0, 1)
            wanted = target[of_trial, held].flatten(0, 1)
            flat = mine.flatten(0, 1)
            slopes = torch.empty_like(flat)
            (w1, b1), (w2, b2), (w3, b3) = parts(flat)
            (d1, e1), (d2, e2), (d3, e3) = parts(slopes)
            first = torch.baddbmm(b1, inputs, w1).relu_()
            second = torch.baddbmm(b2, first, w2).relu_()
            flow = (torch.baddbmm(b3, second, w3) - wanted[..., None]) / batch
            d3.copy_(second.mT @ flow)
            e3.copy_(flow.sum(1, keepdim=True))
            flow = (flow * w3.mT) * (second > 0)
            d2.copy_(first.mT @ flow)
            e2.copy_(flow.sum(1, keepdim=True))
            flow = (flow @ w2.mT) * (first > 0)
            d1.copy_(inputs.mT @ flow)
            e1.copy_(flow.sum(1, keepdim=True))
            mine = (flat - federation.step_size * slopes).view_as(mine)
            local.scatter_(1, who, mine)
            model = aggregate(mine, model, mask, hit)
        return model

    return play
