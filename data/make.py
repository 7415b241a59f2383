"""Make the small sample in this folder: python data/make.py."""

from pathlib import Path

from privstats.datasets import make_housing

if __name__ == "__main__":
    data, domain = make_housing(1000, seed=2021)
    folder = Path(__file__).parent
    data.round(4).to_csv(folder / "housing_sample.csv", index=False)
    (folder / "housing_domain.json").write_text(domain.to_json() + "\n")
