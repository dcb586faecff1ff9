"""The Python SDK under mypy --strict: its own modules, and a user's program that calls it."""
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
# What runs in sandboxes (lambent_runtime, lambent_cuda) is left out: it does without the module typing, which takes its time to load.
MODULES = ["lambent"]
# Packages without types: those of torch and TVM, where they are installed. Ray types a part of itself, which differs between its versions:
# it counts as untyped whether it is installed or not.
CONFIG = "[mypy]\n[mypy-ray.*]\nfollow_imports = skip\n"
UNTYPED = ["--follow-imports", "silent", "--allow-subclassing-any", "--disable-error-code", "import-untyped",
           "--disable-error-code", "import-not-found"]
PROGRAM = """
    from collections.abc import AsyncIterator, Iterator

    import lambent
    from lambent.client import Client

    app = lambent.App("shop")


    @app.function(memory="256M")
    def price(item: int, quantity: int = 1) -> float:
        return item * 1.5 * quantity


    @app.function()
    def numbers(n: int) -> Iterator[int]:
        yield from range(n)


    @app.function(slo=0.5)
    def total(prices: list[float]) -> float:
        return sum(prices)


    @app.workflow(timeout=60)
    def order(items: list[int], customer: str) -> dict[str, float]:
        return {customer: total(price.each(items, quantity=2))}


    @app.http()
    def web() -> object:
        return None


    async def later() -> None:
        async for each in price.map_async([1, 2]):
            reveal_type(each)
        reveal_type(await price.remote_async(3))


    reveal_type(price.remote(3))
    reveal_type(price.spawn(3).get())
    reveal_type(list(price.starmap([(1, 2)])))
    reveal_type(next(price.map([1, 2], return_exceptions=True)))
    reveal_type(next(numbers.remote_gen(3)))
    reveal_type(Client().invoke("price"))
    reveal_type(order.remote([1], "Ada"))
    reveal_type(price.each([1, 2]))
    reveal_type(price.when(True)(3))
    reveal_type(web())
"""
REVEALED = ["float", "float", "float", "float", "list[float]", "float | Exception", "int", "bytes",
            "dict[str, float]", "list[float]", "float | None", "object"]


class TypesTest(unittest.TestCase):
    def mypy(self, *arguments, version="3.10"):
        with tempfile.TemporaryDirectory() as cache:
            config = pathlib.Path(cache, "mypy.ini")
            config.write_text(CONFIG)
            done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", str(config), "--strict", "--cache-dir", cache,
                                   "--python-version", version, *UNTYPED, "--no-error-summary", *map(str, arguments)],
                                  capture_output=True, text=True, timeout=280, cwd=PYTHON)
        return done.returncode, done.stdout + done.stderr

    def test_its_own_modules_are_typed(self):
        self.assertEqual(self.mypy(*MODULES), (0, ""))
        self.assertEqual(self.mypy(*MODULES, version="3.14"), (0, ""))

    def test_a_program_sees_the_types_of_its_functions(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            program.write_text(textwrap.dedent(PROGRAM).lstrip())
            code, said = self.mypy(program)
            self.assertEqual(code, 0, said)
            revealed = [line.partition('Revealed type is "')[2].rstrip('"').replace("builtins.", "") for line in said.splitlines()
                        if "Revealed type" in line]
            self.assertEqual(revealed, REVEALED, said)
            program.write_text(program.read_text() + 'price.remote("three")\nprice.remote(3).upper()\n')
            program.write_text(program.read_text() + 'order.remote(["one"], "Ada")\n')
            code, said = self.mypy(program)
            self.assertEqual((code, said.count("error:")), (1, 3), said)


if __name__ == "__main__":
    unittest.main()
