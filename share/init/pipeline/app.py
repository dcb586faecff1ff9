# Components, and who needs what of whom. After a change of define_dag:
#   python3 -m lambent.pipeline build app.App -o pipeline.json
# Each component may run in a process of its own, on a slice of its own. With torch, write
# `from lambent.pipeline import Module` and load the weights in setup(self): docs/guides/pipelines.md.
from lambent.pipeline import Component, Pipeline


class Clean(Component):
    def forward(self, text):
        return "".join(letter for letter in text if letter.isalpha() or letter.isspace())


class Count(Component):
    def forward(self, text):
        return len(text.split())


class Longest(Component):
    def forward(self, text):
        return max(text.split(), key=len, default="")


class App(Pipeline):
    def define_dag(self, text):  # the input, as the event calls it
        clean = self.register("clean", Clean, text, when=lambda text: not text.isalpha())
        # Two branches, which may run at the same time.
        return self.register("count", Count, clean), self.register("longest", Longest, clean)
