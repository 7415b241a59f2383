"""NoisySGD and noisy gradient descent: the privacy cost of subsamples, and Huber's location at equal (eps, delta).

The script prints the privacy cost of T steps on m of n rows in three ways: by the composed trade-off function, by its
Gaussian limit (never used as a guarantee), and by the Renyi accountant of dp_accounting, if this package is installed.
The figure shows iterates of both methods for the location of normal rows, of which one in ten is shifted by 8 standard
deviations; all of (eps, delta) is spent on the steps.

The script exits with a non-zero status if the Renyi accountant is below the cost by more than rounding, or if descent
on all rows ends farther from the truth than descent on subsamples, in the mean over replicates and by more than two
standard errors. Run: ``python -m benchmarks.noisy_sgd --seed 1``
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.common import arguments, new_figure, save
from privstats.losses.base import HuberLoss
from privstats.mechanisms.comparison.noisy_sgd import LinearGradient, NoisySGD
from privstats.mechanisms.random import public_stream
from privstats.privacy.subsampling import limit_mu, noise_multiplier, sampled_eps
from privstats.privacy.tradeoff import gdp_eps, gdp_mu

DELTA = 1e-5
# noise multiplier sigma, sampling rate, number of steps
PRICED = ((1.0, 0.01, 1000), (0.6, 0.05, 20), (2.0, 0.1, 100), (4.0, 0.5, 50))
ROWS, STEPS, BATCH, STEP, EPS = 2_000, 100, 100, 0.3, (0.25, 1.0, 4.0)
FAR, TRUTH, ROUNDING = 8.0, 1.0, 1e-4
LOSS = HuberLoss()


def by_renyi(sigma: float, q: float, steps: int) -> float:
    """Return eps at `DELTA` by the Renyi accountant of dp_accounting if a row is replaced; NaN without this package.

    sigma is the noise multiplier of a step, and q the sampling rate.
    """
    try:
        from dp_accounting import dp_event, privacy_accountant
        from dp_accounting.rdp import rdp_privacy_accountant
    except ImportError:
        return np.nan
    replaced = privacy_accountant.NeighboringRelation.REPLACE_ONE
    accountant = rdp_privacy_accountant.RdpAccountant(neighboring_relation=replaced)
    rows = 100_000
    step = dp_event.SampledWithoutReplacementDpEvent(rows, round(q * rows), dp_event.GaussianDpEvent(sigma))
    accountant.compose(dp_event.SelfComposedDpEvent(step, steps))
    return float(accountant.get_epsilon(DELTA))


def rows_of(rng: np.random.Generator) -> np.ndarray:
    """Return rows (weight, 1, y, offset) of a location: y is N(`TRUTH`, 1), shifted by +-`FAR` in one row in ten."""
    y = TRUTH + rng.normal(size=ROWS)
    far = rng.uniform(size=ROWS) < 0.1
    y[far] += FAR * rng.choice([-1, 1], far.sum())
    return np.column_stack([np.ones(ROWS), np.ones(ROWS), y, np.zeros(ROWS)])


def paths(eps: float, seed: int, r: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the iterates of descent on all rows, and of NoisySGD on subsamples, each of shape (steps,)."""
    rows = rows_of(np.random.default_rng([seed, r]))
    rng, y = public_stream(1000 * seed + r), rows[:, 2]
    sd = 2 * LOSS.clip * STEPS**0.5 / (ROWS * gdp_mu(eps, DELTA))
    theta, all_rows = 0.0, []
    for noise in rng.normal(0.0, 1.0, STEPS):
        theta += STEP * (LOSS.psi(np.full(ROWS, theta), y).mean() + sd * noise)
        all_rows.append(theta)
    sgd = NoisySGD(LinearGradient(LOSS), ROWS, STEPS, BATCH, STEP, LOSS.clip)
    sigma = noise_multiplier(eps, DELTA, sgd.q, STEPS)
    return np.array(all_rows), np.array([theta[0] for theta in sgd.iterates(rows, sigma, rng)])


def main() -> int:
    """Print privacy costs and distances to the truth; draw iterates."""
    given = arguments(__doc__, 200, "noisy_sgd").parse_args()
    failed = 0
    for sigma, q, steps in PRICED:
        price, renyi = sampled_eps(DELTA, sigma, q, steps), by_renyi(sigma, q, steps)
        limit = gdp_eps(limit_mu(sigma, q, steps), DELTA)
        failed += renyi < price * (1 - ROUNDING)
        print(f"sigma = {sigma:g}, q = {q:g}, T = {steps:5,}: eps = {price:.3f}, limit {limit:.3f}, Renyi {renyi:.3f}")
    figure, panels = new_figure(len(EPS))
    for panel, eps in zip(panels, EPS, strict=True):
        several = [paths(eps, given.seed, r) for r in range(given.replicates)]
        distance = np.array([[abs(one[k][-1] - TRUTH) for one in several] for k in (0, 1)])
        off, gap = distance.mean(axis=1), distance[0] - distance[1]
        worse = bool(gap.mean() > 2 * gap.std() / len(gap) ** 0.5)
        failed += worse
        print(f"eps = {eps:g}: mean distance, all rows {off[0]:.4f}, subsamples {off[1]:.4f}{' MISSED' * worse}")
        for k, (words, color) in enumerate((("all rows", "C0"), ("subsamples", "C1"))):
            for number, one in enumerate(several[:5]):
                panel.plot(one[k], color=color, alpha=0.7, linewidth=1, label=words if not number else None)
        panel.axhline(TRUTH, color="black", linewidth=0.8)
        panel.set(title=f"eps = {eps:g}, delta = {DELTA:g}", xlabel="step", ylabel="location")
        panel.legend()
    save(figure, given.plot)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
