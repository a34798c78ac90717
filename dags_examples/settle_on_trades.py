"""settle_on_trades: one run of the Airflow DAG `settle` for each trade that two of three markets confirmed.

No trade is lost while something is paused or down, and none is repeated. `settle` may be any DAG with
`schedule=None`; its tasks read the trade from `dag_run.conf["trade"]`.

Airflow skips files without the words dag and airflow; this docstring has both.
"""

from __future__ import annotations

from interlock.conditions import Matcher, at_least, event
from interlock.operators import dispatch_dag


def confirmed(market: str) -> Matcher:
    return event("com.example.trade.confirmed", subject=market, by="data.trade", label=market)


dispatch_dag(
    "settle_on_trades",
    condition=at_least(2, confirmed("nyse"), confirmed("lse"), confirmed("tse")),
    trigger_dag_id="settle",
    conf={
        "trade": "{{ firing.key }}",
        "markets": "{{ firing.events | join(',') }}",
        "firing": "{{ firing.firing_id }}",
    },
    note="Trade {{ firing.key }}, confirmed by {{ firing.events | join(' and ') }}",
    max_runs_in_flight=50,
    tags=["interlock"],
)
