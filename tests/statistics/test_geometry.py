"""The benchmark reproduces sensitivities and noise on lines in Awan and Slavkovic (2021), sections 3 and 4."""

import numpy as np
import pytest

from benchmarks import knorm_figure1

DRAWS = 100_000


def test_sensitivities_and_noise_on_lines_are_those_of_the_example(capsys):
    assert knorm_figure1.example(np.random.default_rng(1), DRAWS) == []
    assert "3.1250" in capsys.readouterr().out


def test_corollaries_hold_with_the_relations_that_they_need():
    assert knorm_figure1.free_entries() == knorm_figure1.counts() == knorm_figure1.contained() == []


@pytest.mark.parametrize("name", knorm_figure1.ORDERS)
def test_half_of_a_noise_would_show(name, monkeypatch):
    law = knorm_figure1.NORM_LAWS[name]
    halved = {**knorm_figure1.NORM_LAWS, name: lambda scale: law(scale / 2)}
    monkeypatch.setattr(knorm_figure1, "NORM_LAWS", halved)
    missed = knorm_figure1.example(np.random.default_rng(2), DRAWS)
    assert len(missed) == len(knorm_figure1.ANGLES)
    assert all(name in miss for miss in missed)
