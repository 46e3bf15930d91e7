"""What attackers upload: the same lie for all of them, or a change of their own model. `train/attack/`, compiled."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from prism_fcp.kernels import codes
from prism_fcp.kernels._jit import inlined, part


@inlined
def imitates(attack):
    """Return whether all attackers of this code send the same, made from honest models."""
    return attack == codes.ALIE or attack >= codes.INNER_PRODUCT


@part
def imitate(attack, strength, byzantine, local, a, selected, previous, forged):
    """Write the lie of this code into `forged[0]`; return whether there was anybody honest to make it from."""
    width = local.shape[2]
    honest = 0
    for i in range(len(selected)):
        honest += not byzantine[selected[i]]
    if honest == 0:
        return False
    count = np.float32(honest)
    for j in range(width):
        forged[0, j] = np.float32(0)
        forged[1, j] = np.float32(0)
    for i in range(len(selected)):
        if not byzantine[selected[i]]:
            for j in range(width):
                forged[0, j] += local[selected[i], a, j] / count
    if attack == codes.INNER_PRODUCT:
        for j in range(width):
            forged[0, j] = previous[j] - strength * (forged[0, j] - previous[j])
        return True
    if attack == codes.FIRST or attack == codes.NOISIEST:
        _copy(attack, byzantine, local, a, selected, forged)
        return True
    if attack == codes.HIGHEST or attack == codes.LOWEST:
        _extreme(attack == codes.HIGHEST, byzantine, local, a, selected, forged)
        return True
    for i in range(len(selected)):
        if not byzantine[selected[i]]:
            for j in range(width):
                difference = local[selected[i], a, j] - forged[0, j]
                forged[1, j] += difference * difference
    gain = np.float64(strength)
    if attack != codes.ALIE:
        gain = _farthest_inside(attack == codes.MIN_SUM, byzantine, local, a, selected, forged, count)
    z = np.float32(gain)
    for j in range(width):
        forged[0, j] -= z * np.sqrt(forged[1, j] / count)
    return True


@inlined
def _copy(attack, byzantine, local, a, selected, forged):
    """Write the model of the first honest participant, or of the one farthest from the mean in `forged[0]`."""
    width = local.shape[2]
    chosen, most = -1, -1.0
    for i in range(len(selected)):
        if byzantine[selected[i]]:
            continue
        far = 0.0
        for j in range(width):
            difference = local[selected[i], a, j] - forged[0, j]
            far += np.float64(difference) * np.float64(difference)
        if chosen < 0 or (attack == codes.NOISIEST and codes.TIE * far > most):
            chosen, most = selected[i], far
    for j in range(width):
        forged[0, j] = local[chosen, a, j]


@inlined
def _extreme(highest, byzantine, local, a, selected, forged):
    """Write each coordinate's highest, or lowest, honest value."""
    width = local.shape[2]
    sign = np.float32(1) if highest else np.float32(-1)
    for j in range(width):
        forged[0, j] = np.float32(-np.inf)
    for i in range(len(selected)):
        if not byzantine[selected[i]]:
            for j in range(width):
                value = sign * local[selected[i], a, j]
                forged[0, j] = value if value > forged[0, j] else forged[0, j]
    for j in range(width):
        forged[0, j] *= sign


@inlined
def _farthest_inside(summed, byzantine, local, a, selected, forged, count):
    """Return gamma of min-max or min-sum; `forged` holds the mean and the sum of squared deviations."""
    width = local.shape[2]
    bound, length = 0.0, 0.0
    for j in range(width):
        length += np.float64(forged[1, j]) / np.float64(count)
    for i in range(len(selected)):
        if byzantine[selected[i]]:
            continue
        total = 0.0
        for m in range(len(selected)):
            if byzantine[selected[m]]:
                continue
            apart = 0.0
            for j in range(width):
                difference = np.float64(local[selected[i], a, j]) - np.float64(local[selected[m], a, j])
                apart += difference * difference
            total = total + apart if summed else max(total, apart)
        bound = max(bound, total)
    if length <= 0.0:
        return 0.0
    gain, slopes, squares = np.inf, 0.0, 0.0
    for i in range(len(selected)):
        if byzantine[selected[i]]:
            continue
        slope, square = 0.0, 0.0
        for j in range(width):
            away = np.float64(local[selected[i], a, j]) - np.float64(forged[0, j])
            slope += away * np.sqrt(np.float64(forged[1, j]) / np.float64(count))
            square += away * away
        slopes, squares = slopes + slope, squares + square
        gain = min(gain, (-slope + np.sqrt(max(0.0, slope * slope - length * (square - bound)))) / length)
    if summed:
        length *= np.float64(count)
        gain = (-slopes + np.sqrt(max(0.0, slopes * slopes - length * (squares - bound)))) / length
    return max(0.0, gain)


@part
def forge(plan, n, own, previous, truth, perturbation, ranks, shared, forged, row):
    """Write into `row` what an attacker with the model `own` forges in round n."""
    width = len(row)
    attack, strength = plan.attack, plan.strength
    if imitates(attack):
        for j in range(width):
            row[j] = forged[0, j]
    elif attack == codes.GAUSSIAN:
        for j in range(width):
            row[j] = own[j] + strength * perturbation[j]
    elif attack == codes.SIGN_FLIP:
        for j in range(width):
            row[j] = previous[j] - strength * (own[j] - previous[j])
    elif attack == codes.SHIFT:
        if n > plan.asleep:
            for j in range(width):
                row[j] = own[j] + strength
    elif attack == codes.CONCENTRATE:
        sent = 0
        for j in range(width):
            sent += ranks[j] < shared
        gain = np.float32(np.sqrt(plan.dimension / max(1, sent)) * plan.exact_strength)
        for j in range(width):
            row[j] = own[j] + gain if ranks[j] < shared else own[j]
    elif attack == codes.PUSH:
        length = 0.0
        for j in range(width):
            difference = np.float64(previous[j] - truth[j])
            length += difference * difference
        if length > 0.0:
            gain = np.float32(plan.exact_strength * np.sqrt(plan.dimension) / np.sqrt(length))
            for j in range(width):
                row[j] = own[j] + gain * (previous[j] - truth[j])
