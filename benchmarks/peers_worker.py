"""Worker process that fits diffprivlib's LinearRegression in a separate environment, without scikit-learn 1.9.

diffprivlib cannot be imported with scikit-learn 1.9. Requests are lines of JSON on the standard input, {"data": path of
an .npz with X and y, "eps", "bounds_X", "bounds_y", "seed"}; answers are lines of JSON on the standard output:
{"theta": intercept and slopes, "seconds"}, or {"error"} if a fit fails. The first line of output has the package
versions, {"versions"}, or the reason for which no fit is possible, {"error"}. Nothing of privstats is imported.

Known flaws of diffprivlib 0.6.6, which the comparison inherits (linear_regression.py):
- The sensitivity of a square is ``np.max(np.abs([lower, lower])) ** 2``: the lower bound twice. With bounds (0, b) it
  is 0 and the squares are released without noise; with (-1, 1), as here, it is right up to the private mean
  subtracted before.
- The mean of X and the mean of y cost eps / (p + 1) each, but only one of them is deducted: the fit
  spends eps (p + 2) / (p + 1).
- The noisy objective is minimised by BFGS whatever its curvature. If its matrix is indefinite, the objective is
  unbounded below, and BFGS stops at coefficients of 1e3 to 1e4.
"""

from __future__ import annotations

import json
import sys
import time
import warnings


def main() -> int:
    """Answer requests until the input ends; return the exit status."""
    try:
        import diffprivlib
        import numpy as np
        import sklearn
        from diffprivlib.models import LinearRegression
    except Exception as failure:  # after any failure the benchmark goes on without diffprivlib
        print(json.dumps({"error": f"{type(failure).__name__}: {failure}"}), flush=True)
        return 1
    warnings.simplefilter("ignore")
    versions = {"diffprivlib": diffprivlib.__version__, "scikit-learn": sklearn.__version__, "numpy": np.__version__}
    print(json.dumps({"versions": versions}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        with np.load(request["data"]) as held:
            X, y = held["X"], held["y"]
        model = LinearRegression(
            epsilon=request["eps"],
            bounds_X=tuple(request["bounds_X"]),
            bounds_y=tuple(request["bounds_y"]),
            random_state=request["seed"],
        )
        start = time.perf_counter()
        try:
            model.fit(X, y)
        except Exception as failure:  # any failure is reported in the table, not by a traceback
            print(json.dumps({"error": f"{type(failure).__name__}: {failure}"}), flush=True)
            continue
        seconds = time.perf_counter() - start
        theta = [float(model.intercept_), *map(float, model.coef_)]
        print(json.dumps({"theta": theta, "seconds": seconds}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
