"""The expected content of a date's report, computed without Spark and without the jobs' code."""

from __future__ import annotations

from datetime import date

CURRENCIES = ("EUR", "JPY", "USD")


def rates(day: date) -> dict[str, int]:
    """Returns the value of one unit of each currency in millionths of a euro."""
    number = day.toordinal()
    return {"EUR": 1_000_000, "JPY": 5_500 + number * 31 % 700, "USD": 850_000 + number * 37 % 90_000}


def turnover(day: date) -> list[dict[str, object]]:
    """Returns the report's lines: the orders of each currency, and their sum in cents times millionths."""
    number = day.toordinal()
    counts = dict.fromkeys(CURRENCIES, 0)
    totals = dict.fromkeys(CURRENCIES, 0)
    for order in range(1000 + number % 97):
        currency = CURRENCIES[(order * 7 + number) % len(CURRENCIES)]
        counts[currency] += 1
        totals[currency] += ((order * 7919 + number * 104729) % 50000 + 100) * rates(day)[currency]
    return [{"currency": name, "orders": counts[name], "total": totals[name]} for name in CURRENCIES]
