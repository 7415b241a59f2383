"""Mechanisms that choose theta: how far neighbours move score, loss and curvature; exact densities; intervals.

Objective perturbation has laws of its own in `test_objective`.
"""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import privstats as ps
from privstats.mechanisms.random import public_stream
from privstats.older.mechanisms import MECHANISMS
from privstats.older.mechanisms.comparison import exponential, kng
from privstats.older.mechanisms.comparison.level_sets import gradient_union, loss_union
from tests.architecture.test_leaks import DOMAIN, FRAMES
from tests.conftest import NORMS, design_6_1, domain_6_1, formula_6_1, slow
from tests.laws.test_audits import BOUNDS, OPTIONS, base, rows_to_try, with_row

RADIUS = 1.5
CUT = 1e-4  # p-value at which a fixed seed is taken to refute a law that is right
CAUGHT = 1e-7  # p-value below which a wrong law counts as found out
NAMES = ("kng", "objpert", "expmech")
UNIT = {"x": (-1, 1), "y": (-1, 1)}


@pytest.fixture
def heard_by(recorded):
    """Run a fit without intervals; return what its one mechanism was told: (mechanism, exact, sensitivity)."""

    def run(formula, data, mech="kng", eps=1.0, **options):
        del recorded[:]
        ps.dp_lm(formula, data, eps, mech=mech, inference="none", **{"theta_bound": RADIUS, **options})
        return recorded[-1]

    return run


def parameters(dim, radius=RADIUS):
    """Points of the parameter set: its centre, its corners, points of its faces and of its inside."""
    rng = np.random.default_rng(5)
    face = rng.standard_exponential((60, dim)) * rng.choice([-1, 0, 1], (60, dim))
    face /= np.maximum(np.abs(face).sum(axis=1, keepdims=True), 1e-9)
    corners = np.concatenate([np.eye(dim), -np.eye(dim)])
    return radius * np.concatenate([np.zeros((1, dim)), corners, face, face * rng.uniform(0, 1, (60, 1))])


# Sensitivity: raw neighbouring frames


@pytest.mark.parametrize(
    ("formula", "options"),
    [("y ~ x", "all"), ("y ~ x + g", "all"), ("y ~ 0 + x", "all"), ("y ~ x", "subset"), ("y ~ x", "weights")],
)
def test_no_neighbouring_frame_moves_score_loss_or_curvature_beyond_the_claim_and_one_nearly_does(
    heard_by, formula, options
):
    def told(data, mech="kng", **more):
        return heard_by(formula, data, mech, domain=BOUNDS, **OPTIONS[options], **more)

    without = told(base())[1].coefficients()
    rows = rows_to_try()
    tried = [told(with_row(base(), *row))[1].coefficients() for row in rows[:18] + rows[18::3]]
    A, b = (np.array(part) for part in zip(*tried, strict=True))
    thetas = parameters(A.shape[-1])
    reach = 1 + np.abs(thetas).sum(axis=1)
    scores, scores_without = A @ thetas.T - b[..., None], without[0] @ thetas.T - without[1][:, None]
    for neighbors in ("replace", "add_remove"):
        replaced = neighbors == "replace"
        moves = (scores[:, None] - scores if replaced else (scores - scores_without)[:, None]).swapaxes(-1, -2)
        curvatures = A[:, None] - A if replaced else (A - without[0])[:, None]
        tilts = b[:, None] - b if replaced else (b - without[1])[:, None]
        losses = np.einsum("ti,klij,tj->klt", thetas, curvatures, thetas) / 2 - tilts @ thetas.T
        for noise in NORMS:
            sensitivity = told(base(), noise=noise, neighbors=neighbors)[2]
            shares = NORMS[noise](moves) / (sensitivity.size * reach)
            assert shares.max() <= 1 + 1e-12
            if formula == "y ~ x" and options == "all":
                assert shares.max() >= 0.95
        # the sum of losses lacks the part (y^2 - y'^2) / 2 that theta does not enter: c in [-1/2, 1/2], or [0, 1/2]
        sensitivity = told(base(), "expmech", neighbors=neighbors)[2]
        lowest, highest = losses.min(axis=-1), losses.max(axis=-1)
        claim = sensitivity.loss * (1 + 1e-12)
        assert (np.maximum(-claim - lowest, -0.5 if replaced else 0.0) <= np.minimum(claim - highest, 0.5)).all()
        eigenvalues = np.linalg.eigvalsh(curvatures)
        assert np.abs(eigenvalues).max() <= sensitivity.curvature * (1 + 1e-12)
        assert ((np.abs(eigenvalues) > 1e-9).sum(axis=-1) <= 1 + replaced).all()  # of rank one each
        if formula == "y ~ x" and options == "all":
            assert np.abs(eigenvalues).max() >= 0.95 * sensitivity.curvature
            if not replaced:  # of the row's loss all but the constant is seen
                assert (losses + 0.5).max() >= 0.95 * sensitivity.loss
    assert sensitivity.radius == RADIUS


def test_in_the_norm_linf_the_claim_is_reached_at_the_edge_of_the_set_where_a_coefficient_is_zero(heard_by):
    frame = base()
    rows = (-2, 10, "a"), (6, 0, "a")  # (y, x) = (-1, 1) and (1, -1) in scaled units
    (A, b), (C, d) = (heard_by("y ~ x", with_row(frame, *row), domain=BOUNDS)[1].coefficients() for row in rows)
    sensitivity = heard_by("y ~ x", frame, domain=BOUNDS)[2]
    theta = np.array([0.0, RADIUS])
    move = (A - C) @ theta - (b - d)
    assert np.abs(move).max() == pytest.approx(sensitivity.size * (1 + RADIUS), rel=1e-5)


def test_a_unit_of_k_rows_has_k_times_the_score_and_loss_and_k_changes_of_curvature(heard_by):
    frame = base().assign(who=range(9))
    one = heard_by("y ~ x", frame, domain=BOUNDS, unit="who")[2]
    three = heard_by("y ~ x", frame, domain=BOUNDS, unit="who", rows_per_unit=3)[2]
    assert (three.size, three.loss, three.rows) == (3 * one.size, 3 * one.loss, 3)
    assert three.curvature == one.curvature
    often = frame.assign(who=[0] * 9)
    A, _ = heard_by("y ~ x", often, domain=BOUNDS, unit="who", rows_per_unit=3)[1].coefficients()
    assert A[0, 0] == 3


# Exact densities in one and two dimensions


def exponent(mechanism, exact, sensitivity, thetas):
    """Minus the logarithm of the stated density, up to a constant."""
    A, b = exact.coefficients()
    if mechanism.name == "expmech":
        loss = np.einsum("ti,ij,tj->t", thetas, A, thetas) / 2 - thetas @ b
        return loss / (2 * mechanism.multiplier * sensitivity.loss)
    reach = sensitivity.size * (1 + np.abs(thetas).sum(axis=1))
    return NORMS[sensitivity.norm](thetas @ A - b) / (2 * mechanism.multiplier * reach)


def set_of_parameters(dim, radius, points):
    """Midpoints of equal cells that fill the parameter set; in the plane, a diamond, along its sides."""
    side = radius * ((np.arange(points) + 0.5) / points * 2 - 1)
    if dim == 1:
        return side[:, None]
    u, v = (part.ravel() for part in np.meshgrid(side, side, indexing="ij"))
    return np.stack([u + v, u - v], axis=1) / 2


def log_density(s):
    """Normalised over cells of equal size."""
    return -s - np.logaddexp.reduce(-s)


def scaled(*rows):
    return pd.DataFrame(rows, columns=["x", "y"], dtype=float)


FEW = [
    scaled((0, 0), (0, 0), (1, 1), (1, 1)), scaled((0, 0), (0, 0), (1, -1), (0.5, 1)),
    scaled((0, 0), (-1, 1), (-1, 1)), scaled(*[(1, -1)] * 30), scaled(*[(1, 1), (-1, -1)] * 3),
]  # fmt: skip
OTHERS = [(1, 1), (1, -1), (-1, 1), (0, -1), (0.6, -1)]
# the best theta at the very edge of a small set, after one replacement well inside: the normaliser moves too; score and
# edge are parallel in the plane as well
AT_THE_EDGE = scaled(*[(1, 0.0985)] * 600, (1, 1))


@pytest.mark.parametrize("mech", ["kng", "expmech"])
@pytest.mark.parametrize(("formula", "dim"), [("y ~ 1", 1), ("y ~ 0 + x", 1), ("y ~ x", 2)])
def test_no_neighbour_changes_the_density_by_more_than_eps_and_some_nearly_does(heard_by, mech, formula, dim):
    norms = ("loss",) if mech == "expmech" else ("linf",) if dim == 1 else tuple(NORMS)
    highest, without_half = dict.fromkeys(norms, 0.0), dict.fromkeys(norms, 0.0)
    for radius, frames in ((0.1, [AT_THE_EDGE]), (1.0, FEW if dim == 1 else FEW[1:4])):
        thetas = set_of_parameters(dim, radius, 1001 if dim == 1 else 121)
        told = {norm: heard_by(formula, FEW[0], mech, domain=UNIT, noise=norm, theta_bound=radius)[2] for norm in norms}
        for data in frames:
            near = [data, *(pd.concat([data.iloc[:-1], scaled(other)]) for other in OTHERS)]
            exact = [heard_by(formula, one, mech, domain=UNIT)[1] for one in near]
            for norm in norms:
                for eps in (0.3, 4.0) if radius == 1.0 else (0.3,):
                    mechanism = MECHANISMS[mech](1 / eps)
                    s, *others = (exponent(mechanism, one, told[norm], thetas) for one in exact)
                    for t in others:
                        gap, more = (log_density(k * s) - log_density(k * t) for k in (1, 2))
                        highest[norm] = max(highest[norm], np.abs(gap).max() / eps)
                        without_half[norm] = max(without_half[norm], np.abs(more).max() / eps)
    assert max(highest.values()) <= 1 + 1e-9
    assert max(highest.values()) >= (0.6 if mech == "kng" and dim == 2 else 0.7)  # what these few neighbours show
    assert max(without_half.values()) > 1.0  # the normaliser moves too: the factor 1/2 is needed on a bounded set


LINES = {"inside": [(1, 0.2), (0.5, 0.3), (-1, 0.4)] * 40, "at the edge": [(1, 1), (-0.5, -1), (0.7, 1)] * 40,
         "a lone row": [(0.2, 1), (0, 0)]}  # fmt: skip


def many(mechanism, exact, sensitivity, stream, draws):
    """Many releases of one layout of the density, the first of them the mechanism's own, from the same stream."""
    if mechanism.name == "objpert":
        chance = public_stream(stream)
        return np.array([mechanism.release("q", exact, sensitivity, chance).value for _ in range(draws)])
    module, sampler, lay_out = {
        "kng": (kng, "sample_gradient", gradient_union),
        "expmech": (exponential, "sample_loss", loss_union),
    }[mechanism.name]
    asked, sample = [], getattr(module, sampler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, sampler, lambda chance, *told: asked.append(told) or sample(chance, *told))
        own = mechanism.release("q", exact, sensitivity, public_stream(stream)).value
    values = lay_out(*asked[0]).draw(public_stream(stream), draws)
    np.testing.assert_allclose(values[0], own, rtol=0, atol=sensitivity.radius * 2.0**-43)
    return values


@pytest.mark.parametrize("mech", ["kng", "expmech"])
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ 0 + x"])
def test_in_one_dimension_releases_follow_the_stated_density_and_a_multiplier_halved_is_caught(heard_by, mech, formula):
    thetas = set_of_parameters(1, RADIUS, 20_001)
    wrong = []
    for rows in LINES.values():
        mechanism, exact, sensitivity = heard_by(formula, scaled(*rows), mech, domain=UNIT)
        for use in (mechanism, type(mechanism)(mechanism.multiplier / 2)):
            draws = many(use, exact, sensitivity, 61, 4000)[:, 0]
            cdf = np.cumsum(np.exp(log_density(exponent(mechanism, exact, sensitivity, thetas))))
            p = stats.kstest(draws, lambda x, cdf=cdf: np.interp(x, thetas[:, 0], cdf)).pvalue
            if use is mechanism:
                assert p > CUT
            else:
                wrong.append(p)
    assert min(wrong) < CAUGHT


@pytest.mark.parametrize(("mech", "noise"), [*(("kng", noise) for noise in NORMS), ("expmech", "loss")])
def test_in_two_dimensions_releases_follow_the_stated_density_and_a_multiplier_halved_is_caught(heard_by, mech, noise):
    rows = scaled(*LINES["at the edge"][:60])
    mechanism, exact, sensitivity = heard_by("y ~ x", rows, mech, domain=UNIT, noise=noise)
    thetas = set_of_parameters(2, RADIUS, 500)
    probability = np.exp(log_density(exponent(mechanism, exact, sensitivity, thetas)))
    cells = 5  # of each coordinate along the diamond's sides: 20 points of the grid each way, cut where mass is

    def sides(points):
        return points.sum(axis=1), points[:, 0] - points[:, 1]

    u, v = sides(thetas)
    order = np.argsort(u, kind="stable")
    cuts = u[order][np.searchsorted(np.cumsum(probability[order]), np.arange(1, cells) / cells)] + RADIUS / 500
    strip = np.searchsorted(cuts, u)
    inner = []
    for k in range(cells):
        mine = np.flatnonzero(strip == k)[np.argsort(v[strip == k], kind="stable")]
        mass = np.cumsum(probability[mine])
        inner.append(v[mine][np.searchsorted(mass, mass[-1] * np.arange(1, cells) / cells)] + RADIUS / 500)

    def counts(points, weights=None):
        u, v = sides(points)
        strip = np.searchsorted(cuts, u)
        place = np.array([np.searchsorted(inner[k], value) for k, value in zip(strip, v, strict=True)])
        return np.bincount(strip * cells + place, weights, cells**2)

    draws, expected = 4000, counts(thetas, probability)
    assert expected.min() * draws > 5
    for use, right in ((mechanism, True), (type(mechanism)(mechanism.multiplier / 2), False)):
        found = counts(many(use, exact, sensitivity, 62, draws))
        p = stats.chisquare(found, expected / expected.sum() * draws).pvalue
        assert (p > CUT) if right else (p < CAUGHT)


# The law that is returned


@pytest.mark.parametrize(("mech", "noise"), [*((m, n) for m in NAMES[:2] for n in NORMS), ("expmech", "loss")])
def test_the_score_at_the_release_follows_the_returned_law_and_half_of_it_does_not(heard_by, mech, noise):
    data = design_6_1(50_000, seed=3, p=2)
    mechanism, exact, sensitivity = heard_by("y ~ x1 + x2", data, mech, 4.0, domain=domain_6_1(2), noise=noise)
    A, b = exact.coefficients()
    draws = 700 if mech == "objpert" else 3000
    release = mechanism.release("q", exact, sensitivity, public_stream(63))
    theta, law = many(mechanism, exact, sensitivity, 63, draws), release.law
    score = theta @ (A + release.penalty * np.eye(len(b))) - b
    stated = law.sample(public_stream(64), 20_000)
    if mech == "expmech":  # standardised by the curvature
        score = score @ np.linalg.inv(np.linalg.cholesky(A)).T
    for j in range(len(b)):
        assert stats.ks_2samp(score[:, j], stated[:, j]).pvalue > CUT
        assert stats.ks_2samp(score[:, j] / 2, stated[:, j]).pvalue < CAUGHT
    # relative error of the mean size: at most 1 / sqrt(draws) for norms of exponential tails
    size = NORMS["l2" if mech == "expmech" else noise]
    assert size(score).mean() == pytest.approx(size(stated).mean(), rel=4 / math.sqrt(draws))


# Nothing about the rows can be told from how a call ends

ODD_FRAMES = ("as it is", "constant", "all missing", "infinite", "huge", "one text", "one level", "categories",
              "collinear", "objects that raise")  # fmt: skip
CALLS = [(1e-3, "sandwich"), (1.0, "none"), (1e6, "sandwich")]


@pytest.mark.parametrize("mech", NAMES)
@pytest.mark.parametrize("frame", ODD_FRAMES)
def test_what_only_the_rows_could_tell_is_neither_refused_nor_warned_of(frame, mech):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for eps, inference in CALLS:
            fit = ps.dp_lm("y ~ x + g", FRAMES[frame], eps, domain=DOMAIN, mech=mech, inference=inference, rng=1)
            assert np.isfinite(fit.params).all()
            assert "Private regression" in str(fit.summary())
            interval = fit.conf_int().to_numpy()
            assert np.isfinite(interval).all() or np.isnan(interval).all()


@pytest.mark.parametrize("mech", NAMES)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_under_add_remove_not_even_the_number_of_rows_decides_about_failure(n, mech):
    for inference in ("sandwich", "none"):
        data = FRAMES["as it is"].head(n)
        fit = ps.dp_lm(
            "y ~ x + g", data, 1.0, domain=DOMAIN, mech=mech, neighbors="add_remove", inference=inference, rng=1
        )
        assert np.isfinite(fit.params).all()


def test_a_hopeless_budget_is_not_a_failure_either():
    data = scaled(*[(-0.9, -0.4), (0.2, 0.1), (0.8, 0.5), (-0.3, -0.2), (0.5, 0.2)] * 10)
    for mech in NAMES:
        for seed in range(8):
            for eps in (1e-6, 1e-5):
                fit = ps.dp_lm("y ~ x", data, eps, domain=UNIT, mech=mech, rng=seed)
                assert np.isfinite(fit.params).all()


def test_duplicated_predictors_do_not_stall_the_sampler():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 8))
    X[:, 1] = X[:, 0]
    data = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)]).assign(y=X @ np.linspace(-1, 1, 8) / 8)
    domain = {**{f"x{j}": (-1, 1) for j in range(8)}, "y": (-1, 1)}
    for mech in NAMES:
        for eps in (1.0, 100.0):
            formula = "y ~ " + " + ".join(f"x{j}" for j in range(8))
            fit = ps.dp_lm(formula, data, eps, domain=domain, mech=mech, inference="none", theta_bound=0.1, rng=1)
            assert np.isfinite(fit.params).all()


# Intervals


def coverage(n, eps, mech, replicates, seed, errors=None, p=5, **options):
    """Whether each 95 % interval holds the truth, by replicate and coefficient; replicates without intervals left out.

    Some give none: a little noise may put the estimate at the edge of the parameter set.
    """
    rng, truth, held = np.random.default_rng([seed, n]), np.append(0.5, np.linspace(-1, 1, p)), []
    for _ in range(replicates):
        data = design_6_1(n, rng, p)
        if errors is not None:
            X = data.drop(columns="y").to_numpy()
            data["y"] = truth[0] + X @ truth[1:] + errors(X) * rng.standard_normal(n)
        fit = ps.dp_lm(formula_6_1(p), data, eps, domain=domain_6_1(p), mech=mech, rng=rng, **options)
        low, high = fit.conf_int().to_numpy().T
        if not np.isnan(low).any():
            held.append((low <= truth) & (high >= truth))
    assert len(held) >= 0.75 * replicates
    return np.array(held)


def error_of(held):
    """Standard error of one coefficient's coverage; that of the mean of several is at most as large."""
    return math.sqrt(0.95 * 0.05 / len(held))


@pytest.mark.parametrize("mech", ["kng", "objpert"])
@pytest.mark.parametrize(("n", "eps"), [(2000, 4.0), slow(10_000, 1.0)])
def test_intervals_cover_at_their_level(mech, n, eps):
    held = coverage(n, eps, mech, 40, seed=71, theta_bound=1.0)
    assert 0.93 - error_of(held) <= held.mean() <= 0.985


def uneven(X):
    return 0.2 + 2 * np.abs(X[:, 0])


@pytest.mark.parametrize("mech", ["suffstats", slow("kng"), slow("objpert")])
def test_robust_intervals_cover_where_the_error_variance_is_not_constant(mech):
    held = coverage(10_000, 4.0, mech, 60, seed=72, errors=uneven, cov_type="HC")
    assert held.mean() >= 0.93 - error_of(held)


def test_plain_standard_errors_are_too_small_there_even_where_the_budget_is_ample():
    # Var(sum x e) / (E e^2 sum x^2) = E x^2 (.2 + 2|x|)^2 / (E x^2 E (.2 + 2|x|)^2) = 1.71: coverage 87 % of 95
    rng, ratios = np.random.default_rng(73), []
    for _ in range(6):
        data = design_6_1(4000, rng, 1)
        data["y"] = data["x1"] + uneven(data[["x1"]].to_numpy()) * rng.standard_normal(4000)
        plain, robust = (
            ps.dp_lm("y ~ x1", data, 1e4, domain={"x1": (-1, 1), "y": (-9, 9)}, cov_type=cov_type, rng=rng).bse["x1"]
            for cov_type in ("nonrobust", "HC")
        )
        ratios.append(robust / plain)
    assert np.mean(ratios) == pytest.approx(math.sqrt(1.71), rel=0.03)  # each known to about 2.5 %
