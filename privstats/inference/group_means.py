"""Means of columns by group, from released sums of values and squares, with degrees of freedom for each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privstats.inference.error_law import ErrorLaw, mixed_law
from privstats.inference.estimate import Estimate, Loading, NormalEstimate
from privstats.inference.joint_tests import bonferroni, combines, echelon
from privstats.inference.matrix import NoisyMatrix
from privstats.inference.meat import positive_mean
from privstats.inference.noise import total_covariance
from privstats.inference.notes import Note, empty_note, may_be_empty
from privstats.inference.simulate import noise_draws
from privstats.inference.tables import through
from privstats.numerics.law import FloatArray, Law


@dataclass(frozen=True, eq=False)
class GroupMeans(Estimate):
    """Means of columns by group; sampling errors are independent between groups, and dependent between columns.

    The dependence between columns is unknown, because products of columns are not released. So the std error of a
    contrast of several columns is an upper bound for any dependence, computed by adding standard deviations.

    Parameters
    ----------
    names : tuple of str
        Names of the means, ordered by column, then by group.
    theta : ndarray, shape (k,)
        Means; NaN for groups that may be empty.
    sampling : ndarray, shape (k,)
        Sampling variances.
    uncertain : ndarray, shape (k,)
        Variances of the entries of `sampling`: the entries are estimates from limited numbers of rows and noisy sums.
    noises : tuple of Loading
        Privacy noises in theta.
    group : ndarray of int, shape (k,)
        Index of the group of each mean.
    counts : ndarray, shape (k,)
        Number of rows in the group of each mean, released or public.
    remarks : tuple of Note
        Notes on the estimates.
    diagnostics : mapping of str to float
        Diagnostics of the fit, by name, such as the number of rows used.
    """

    names: tuple[str, ...]
    theta: FloatArray
    sampling: FloatArray
    uncertain: FloatArray
    noises: tuple[Loading, ...]
    group: NDArray[np.intp]
    counts: FloatArray
    remarks: tuple[Note, ...] = ()
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    tested: ClassVar[bool] = False

    @classmethod
    def of_sums(
        cls,
        names: Sequence[str],
        sums: FloatArray,
        centre: FloatArray,
        half: FloatArray,
        noises: Sequence[tuple[Law, NDArray[np.intp]]],
        remarks: Sequence[Note] = (),
        known: bool = False,
        budget: str = "this budget",
    ) -> GroupMeans:
        """Return the means of k columns in g groups, from released sums of values u scaled to [-1, 1].

        Parameters
        ----------
        names : sequence of str
            The ``g k`` names of the means, ordered by column, then by group.
        sums : ndarray, shape (g, 1 + 2 k)
            For each group, the number of rows, the sums of u, and the sums of u^2.
        centre, half : ndarray, shape (k,)
            Centres and half-ranges of the columns: a value is ``centre + half u``.
        noises : sequence of (Law, ndarray of int)
            Distributions of independent noise vectors, each with an array of shape (g, 1 + 2 k): for each entry of
            `sums`, the index of the noise coordinate added to it, or -1 if this vector adds no noise to the entry.
        remarks : sequence of Note
            Notes on the estimates.
        known : bool
            Whether the counts are public.
        budget : str
            Budget of the release, such as "eps = 1", for the note on groups that may be empty.

        Notes
        -----
        For one column and group, let N, S and Q be the released number of rows, sum of u and sum of u^2. The mean of u
        is estimated by ``a = S / N``, with the noise error ``(noise of S - a (noise of N)) / N``.

        The variance of u is estimated by ``Q / N - a^2`` plus the noise variance of a, which corrects a bias. Because
        this estimate has noise, the estimate is replaced by the posterior mean m of the variance, limited to
        ``1 - a^2``. Let r be the squared ratio of posterior std dev to posterior mean (`positive_mean`). If the
        posterior distribution is approximated by an inverse gamma distribution, the sampling error of a, times sqrt(N -
        1), has a Student distribution with ``f = 4 + 2 / r`` degrees of freedom and squared scale
        ``m (1 + r) / (1 + 2 r)``. Because m also has a sampling error, the degrees of freedom are reduced to
        ``1 / (1 / f + 1 / (N - 1))``.
        """
        g, k = len(sums), len(centre)
        count, first, second = np.maximum(1.0, sums[:, :1]), sums[:, 1 : 1 + k], sums[:, 1 + k :]
        mean = np.clip(first / count, -1.0, 1.0)
        index = np.arange(k)[:, None] * g + np.arange(g)  # position of the mean of column j in group i
        of_mean, of_square, of_count = [], np.zeros((g, k)), np.zeros(g)
        for law, places in noises:
            onto, squares, counted = (np.zeros((g * k, len(law.variance()))) for _ in range(3))
            for i in range(g):
                for j in range(k):
                    for place, weight, matrix in (
                        (places[i, 1 + j], half[j] / count[i, 0], onto),
                        (places[i, 0], -half[j] * mean[i, j] / count[i, 0], onto),
                        (places[i, 1 + k + j], 1 / count[i, 0], squares),
                        (places[i, 1 + j], -2 * mean[i, j] / count[i, 0], squares),
                        (places[i, 0], -(mean[i, j] ** 2) / count[i, 0], squares),
                        (places[i, 0], 1.0, counted),
                    ):
                        if place >= 0:
                            matrix[index[j, i], place] += weight
            of_mean.append(Loading(onto, law))
            of_square += np.diag(np.asarray(law.covariance(squares)))[index.T]
            of_count += np.diag(np.asarray(law.covariance(counted)))[index[0]]
        noise = np.diag(total_covariance(tuple(of_mean), g * k))[index.T] / half**2
        freedom = np.maximum(1.0, count - 1)
        variance, sd = positive_mean(second / count - mean**2 + noise, np.sqrt(of_square))
        relative = (sd / np.maximum(variance, 1e-300)) ** 2
        variance = np.minimum(variance, 1 - mean**2) * (1 + relative) / (1 + 2 * relative) / freedom
        uncertain = 2 * variance**2 * (1 / freedom + relative / (2 + 4 * relative))
        each = list(zip(sums[:, 0].tolist(), np.sqrt(of_count).tolist(), strict=True))
        missing = np.array([not known and may_be_empty(*one) for one in each])
        empty = []
        for i in np.flatnonzero(missing).tolist():
            about = [names[j] for j in index[:, i]]
            one = empty_note(about, *each[i], budget, several=g > 1)
            if not any(other.key == one.key and about[0] in other.about for other in remarks):
                empty.append(one)
        theta = np.where(missing[:, None], np.nan, centre + half * mean)
        return cls(
            names=tuple(names),
            theta=theta.T.ravel(),
            sampling=(half**2 * variance).T.ravel(),
            uncertain=(half**4 * uncertain).T.ravel(),
            noises=tuple(of_mean),
            group=np.tile(np.arange(g), k),
            counts=np.tile(count[:, 0], k),
            remarks=(*remarks, *empty),
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        return self.remarks

    @property
    def rows(self) -> FloatArray:
        return self.counts

    def mapped(self, matrix: FloatArray, shift: FloatArray, names: Sequence[str] | None = None) -> GroupMeans:
        """Return the means theta in other units, ``matrix @ theta + shift``, where `matrix` is diagonal."""
        scale = np.diag(matrix)
        assert np.array_equal(matrix, np.diag(scale)), "means are mapped one by one"
        return replace(
            self,
            names=self.names if names is None else tuple(names),
            theta=scale * self.theta + shift,
            sampling=scale**2 * self.sampling,
            uncertain=scale**4 * self.uncertain,
            noises=tuple(matrix @ noise for noise in self.noises),
        )

    def contrast(
        self, R: ArrayLike, alpha: float = 0.05, q: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        R = np.atleast_2d(np.asarray(R, dtype=float))
        estimate = through(R, self.theta)
        law = self.error_law(R)
        half, p = law.lengths(alpha), law.pvalues(np.nan_to_num(estimate - q))
        values = (estimate, law.sd, estimate - half, estimate + half, p)
        return tuple(np.where(np.isnan(estimate), np.nan, value) for value in values)  # type: ignore[return-value]

    def error_law(self, R: FloatArray) -> ErrorLaw:
        """Return the error distributions of q linear functions ``R theta`` of the k means theta, R of shape (q, k)."""
        parts = np.abs(R) * np.sqrt(self.sampling)
        varies = self.sampling > 1e-150
        relative = np.where(varies, self.uncertain, 0.0) / np.where(varies, self.sampling, 1.0) ** 2
        sampling, uncertain = np.zeros(len(R)), np.zeros(len(R))
        for group in np.unique(self.group):
            together = parts[:, self.group == group].sum(axis=1) ** 2
            sampling += together
            uncertain += together**2 * np.where(parts > 0, relative, 0.0)[:, self.group == group].max(axis=1)
        noise = np.maximum(np.diag(R @ total_covariance(self.noises, len(self.theta)) @ R.T), 0.0)
        apart = sum((np.diag(R @ one.covariance() @ R.T) for one in self.noises if not one.normal), np.zeros(len(R)))

        def freedom(normal: FloatArray) -> FloatArray:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.maximum(1.0, np.where(uncertain > 0, 2 * normal**2 / uncertain, np.inf))

        simulated = tuple(one for one in self.noises if not one.normal)
        return mixed_law(
            sampling + noise,
            apart,
            np.zeros(len(R)),
            freedom,
            lambda: self._draws @ R.T,
            lambda: [R @ one for one in simulated],
        )

    def covariance(self) -> FloatArray:
        """Return the covariance of the means; NaN (unknown) for two means of different columns in one group."""
        together = np.equal.outer(self.group, self.group) & ~np.eye(len(self.theta), dtype=bool)
        missing = np.isnan(self.theta)
        covariance = np.diag(self.sampling) + total_covariance(self.noises, len(self.theta))
        return np.where(together | missing | missing[:, None], np.nan, covariance)

    def noise_share(self) -> FloatArray:
        noise = np.diag(total_covariance(self.noises, len(self.theta)))
        return np.where(np.isnan(self.theta), np.nan, noise / np.maximum(noise + self.sampling, 1e-300))

    def dependent(self, R: FloatArray) -> NDArray[np.bool_]:
        return combines(R, self.group)

    def wald(self, R: ArrayLike, q: FloatArray | float = 0.0) -> tuple[float, int, float]:
        """Test hypotheses ``R theta = q`` on the means theta jointly; equivalent hypotheses give the same result.

        Return the test statistic, the number of independent hypotheses, and the p-value. If the hypotheses involve at
        most one mean of each group, this is a Wald test, whose p-value allows for noise that is not normal. Otherwise
        the test is a Bonferroni test, because the covariance of the means of several columns in one group is unknown.
        """
        R, q = echelon(R, q)
        if len(R) > 1 and not self.dependent(np.abs(R).sum(axis=0, keepdims=True)).any():
            return self.independent().wald(R, q)
        estimate, sd, _, _, p = self.contrast(R, q=q)
        with np.errstate(divide="ignore", invalid="ignore"):
            return bonferroni((estimate - q) / sd, p)

    def independent(self) -> NormalEstimate:
        """Return the means as a `NormalEstimate` with independent sampling errors.

        The results of this estimate are correct for linear functions that involve at most one mean of each group.
        """
        k = len(self.theta)
        missing = np.isnan(self.theta)
        return replace(
            NormalEstimate.of(self.names, np.nan_to_num(self.theta), np.diag(self.sampling), self.noises),
            hidden=np.eye(k)[:, missing],
            hidden_size=missing.astype(float),
            meat_noise=(NoisyMatrix.uncorrelated(np.zeros((k, k)), np.diag(self.uncertain), np.eye(k)),),
            remarks=self.remarks,
        )

    @cached_property
    def _draws(self) -> FloatArray:
        """Draws of the non-normal privacy noise in the k means, one row per draw and one column per mean."""
        return noise_draws(tuple(one for one in self.noises if not one.normal))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_draws"}
