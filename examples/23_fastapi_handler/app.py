"""A shop with two pages. It needs Lambent no more than it needs Lambda: Mangum turns events into requests."""
from fastapi import FastAPI, HTTPException
from mangum import Mangum
from pydantic import BaseModel

PRICES = {"apple": 0.5, "pear": 0.75}

app = FastAPI(title="shop")


class Order(BaseModel):
    fruit: str
    count: int = 1


@app.get("/fruits")
def fruits() -> list[str]:
    return sorted(PRICES)


@app.post("/orders", status_code=201)
def order(order: Order):
    if order.fruit not in PRICES:
        raise HTTPException(404, f"there are no {order.fruit}s")
    return {"price": PRICES[order.fruit] * order.count}


handler = Mangum(app, lifespan="off")
