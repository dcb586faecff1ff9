"""Functions of a Python file: lambent run shop.py::price 3 --quantity 10"""
import lambent

app = lambent.App("shop")


class UnknownItem(Exception):
    pass


@app.function(memory="256M")
def price(item: int, quantity: int = 1) -> float:
    if item < 0:
        raise UnknownItem(f"there is no item {item}")
    return item * 1.5 * quantity


@app.cls(memory="256M")
class Recommender:
    @lambent.enter
    def load(self) -> None:
        self.weights = [1, 2, 3]  # once for each sandbox

    def score(self, x: int) -> int:
        return sum(weight * x for weight in self.weights)


if __name__ == "__main__":
    with app.run():
        print(price.remote(3, quantity=10))
        print(sum(price.map(range(100))))
        print(Recommender().score.remote(2))
