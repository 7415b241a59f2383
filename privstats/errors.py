"""What privstats says when it refuses. No message here, or built from these, may quote a row."""


class PrivstatsError(ValueError):
    """Any refusal of this package: catch this one to catch them all."""


class PrivacyError(PrivstatsError):
    """The question cannot be asked under the promise that was made, or not safely."""


class OptionError(PrivstatsError):
    """The name, type or range of an argument is wrong."""


class BudgetError(PrivstatsError):
    """The budget is malformed, of the wrong currency, or spent."""


class DomainError(PrivstatsError):
    """What is publicly declared of the columns is missing or inconsistent."""


class FormulaError(PrivstatsError):
    """The formula, or the frame it is meant for, is not one this package can bound row by row."""


def quote(value: object) -> str:
    """Return a plain argument as it was written, anything else by its type: it might be a column."""
    return repr(value) if value is None or type(value) in (str, int, float, bool) else f"a {type(value).__name__}"
