"""`GET /firings`: what has fired, the newest first."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException
from starlette.responses import Response

from .answers import Asks
from .rows import RowMaker
from .waits import Limit, Text, dispatchers_of

router = APIRouter()


@router.get("/firings")
def firings(
    asks: Asks, dag_id: Text = "", search: Text = "", name: Text = "", before: Text = "", limit: Limit = 50
) -> Response:
    """The latest firings that the read model keeps. name: of exactly this subscription."""
    model = asks.model()
    asks.unless_known(model)
    dags = asks.rights.dags
    try:
        page = model.firings(
            limit, before or None, dags=dags, dag_id=dag_id or None, subscription=name or None, search=search
        )
    except ValueError:
        raise HTTPException(400, f"before={before!r}: give what `next` of an answer was.") from None
    maker = RowMaker(
        model, model.subscriptions, dispatchers_of(asks.bus, [each.subscription for each in page.rows])
    )
    return asks.answer({"rows": [maker.firing(each, asks) for each in page.rows], "next": page.next})
