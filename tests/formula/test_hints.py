"""Hints on the usual values of a column are checked against its declaration, which they do not change."""

import pytest

import privstats as ps

DOMAIN = ps.Domain({"age": (18, 100), "died": [0, 1], "place": ["N", "S", "W"], "weight": (0, 50), "day": (0, 1)})
SINCE = ps.Domain({"since": ("2020-01-01", "2024-12-31")})


def hinted():
    some = DOMAIN.hint("age", mean=47, sd=17).hint("died", shares={1: 0.02}).hint("weight", sd=3)
    return some.hint("place", shares={"S": 0.25, "W": 0.001}).hint("day", shares={1: 0.03})


def test_a_hint_makes_a_new_domain_and_the_second_about_a_column_replaces_the_first():
    before = repr(DOMAIN)
    once = DOMAIN.hint("age", mean=47, sd=17)
    assert repr(DOMAIN) == before and once != DOMAIN and once.without_hints() == DOMAIN
    assert once.hint("age", mean=50) == DOMAIN.hint("age", mean=50)
    assert once.extended({"z": (0, 1)}).hints == once.hints


def test_hints_survive_json_and_a_domain_without_them_is_written_as_before():
    domain = hinted()
    again = ps.Domain.from_json(domain.to_json())
    assert again == domain and hash(again) == hash(domain) and repr(again) == repr(domain)
    assert '"hints"' not in DOMAIN.to_json()
    broken = domain.to_json().replace('"mean": 47.0', '"mean": 470.0')
    with pytest.raises(ps.DomainError, match="the mean of 'age' is 470, outside its bounds"):
        ps.Domain.from_json(broken)


def test_a_domain_prints_hints_below_their_columns_within_80_characters():
    text = repr(hinted())
    assert "  age     18 to 100\n          hint: mean 47, sd 17\n  died    levels 0, 1\n" in text
    many = ps.Domain({"g": [f"level {k}" for k in range(4)]}).hint("g", shares={f"level {k}": 0.1234 for k in range(4)})
    lines = repr(many).splitlines()[2:]
    assert len(lines) > 1 and max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("hint", "says"),
    [
        ({"column": "agee", "mean": 50}, r"does not declare 'agee'; did you mean 'age'\?"),
        ({"column": "qqq", "mean": 50}, "does not declare 'qqq'; declare it first, as in "),
        ({"column": "age"}, r"is empty; write domain\.hint\('age', mean=59, sd=20\.5\)"),
        ({"column": "age", "mean": 3}, r"outside its bounds 18 to 100; write domain\.hint\('age', mean=59"),
        ({"column": "age", "mean": 50, "sd": 90}, "with mean 50 it is above 0 and below 40, as in"),
        ({"column": "age", "sd": 0}, "it is above 0 and below 41, as in"),
        ({"column": "age", "mean": "old"}, r"mean is 'old'; give a number, as in domain\.hint"),
        ({"column": "age", "sd": True}, "sd is True; give a number, as in"),
        ({"column": "age", "shares": {20: 0.5}}, "'age' is 18 to 100; write domain"),
        ({"column": "place", "mean": 1}, r"'place' has levels 'N', 'S', 'W'; write domain\.hint\('place', shares="),
        ({"column": "place", "shares": {"N": 0.5}, "sd": 1}, r"shares= belong to levels alone"),
        ({"column": "place", "shares": {"E": 0.5}}, "'E' is no level of 'place', which has levels 'N'"),
        ({"column": "place", "shares": {"N": 1.0}}, "the share of 'N' is 1.0; give a number between 0 and 1"),
        ({"column": "place", "shares": {"N": 0.0}}, "the share of 'N' is 0.0; give a number between 0 and 1"),
        ({"column": "place", "shares": {"N": 0.7, "S": 0.4}}, r"add up to 1\.1; give shares that add up to 1"),
        ({"column": "place", "shares": [0.5, 0.5]}, "shares is a list; write domain"),
    ],
)
def test_a_hint_that_contradicts_its_declaration_is_refused_with_a_cure(hint, says):
    with pytest.raises(ps.DomainError, match=says):
        DOMAIN.hint(**hint)


def test_dates_take_no_hint():
    with pytest.raises(ps.DomainError, match="declared as dates, which take no hint; leave it out"):
        SINCE.hint("since", mean=3)
