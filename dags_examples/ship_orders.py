"""ship_orders: this Airflow DAG sends each order that is paid and packed to a shipping service, over HTTP.

The service's address and password are in the Airflow connection `shipping`, of type http. A service that is
down for a week gets all orders afterwards.
"""

from __future__ import annotations

from interlock import event
from interlock.operators import deliver_dag

paid = event("com.example.order.paid", by="data.order", label="paid")
packed = event("com.example.order.packed", by="data.order", label="packed")

ship = deliver_dag(
    "ship_orders",
    condition=(paid & packed).within("30d"),
    conn_id="shipping",
    path="/orders",
    retry={"timeout_s": 10, "give_up_after_s": 7 * 86_400},
    tags=["interlock"],
)
