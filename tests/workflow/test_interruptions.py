"""If a fit is interrupted after the charge, the charge remains, nothing is released, and the error says so."""

import itertools
import signal

import pandas as pd
import pytest

import privstats as ps
from privstats.errors import PrivacyError
from tests.workflow.calls import DOMAIN, frame

CALL = {"mu": 1.0, "domain": DOMAIN, "mech": "newton", "rng": 1}  # this call makes several passes


class Rows:
    """A source that yields the rows of a CSV file in frames of 100 rows.

    In the pass with the number `turn`, it calls `happens` after the first frame.
    """

    def __init__(self, path, happens, turn):
        self.path, self.happens, self.turn, self.passes = path, happens, turn, itertools.count(1)
        frame().to_csv(path, index=False)

    def __call__(self):
        now = next(self.passes)
        for k, part in enumerate(pd.read_csv(self.path, chunksize=100)):
            if now == self.turn and k == 1:
                self.happens(self.path)
            yield part


def interrupt(path):
    # SIGINT must interrupt the fit, even if the process was started with SIGINT ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def truncate(path):
    text = path.read_text()
    path.write_text(text[: len(text) // 2])


def vanish(path):
    path.unlink()


def append(path):
    with path.open("a") as file:
        file.write("\n".join(path.read_text().splitlines()[-1:]) + "\n")


# what happens to a fit after the charge; the first pass over the file is before the charge
SAYS = {
    interrupt: (KeyboardInterrupt, "interrupted after the ledger was charged: nothing is released, and the budget"),
    truncate: (PrivacyError, "Nothing is released, and the budget of this call is spent"),
    append: (PrivacyError, "Nothing is released, and the budget of this call is spent"),
    vanish: (PrivacyError, "a release could not be computed.* The budget of this call is spent"),
}


@pytest.mark.parametrize("turn", [2, 3])
@pytest.mark.parametrize("happens", SAYS, ids=lambda what: what.__name__)
def test_the_charge_stands_nothing_is_released_and_the_error_says_so(tmp_path, monkeypatch, happens, turn):
    made, ledger = [], ps.Ledger(ps.GaussianDP(2.0))
    monkeypatch.setattr("privstats.workflow.fit.Results", lambda *args: made.append(args))
    kind, says = SAYS[happens]
    with pytest.raises(kind, match=says) as caught:
        ps.dp_lm("y ~ x", Rows(tmp_path / "rows.csv", happens, turn), ledger=ledger, **CALL)
    assert type(caught.value) is kind
    assert caught.value.__context__ is caught.value.__cause__ is None
    assert not made
    assert ledger.spent().mu == pytest.approx(1.0)


def test_an_interrupt_before_the_charge_charges_nothing_and_says_nothing_of_it(tmp_path):
    ledger = ps.Ledger(ps.GaussianDP(2.0))
    with pytest.raises(KeyboardInterrupt) as caught:
        ps.dp_lm("y ~ x", Rows(tmp_path / "rows.csv", interrupt, 1), ledger=ledger, **CALL)
    assert not str(caught.value)
    assert not len(ledger.entries)
