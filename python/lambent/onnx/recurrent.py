"""Recurrent layers, step by step: a model's sequences have a length of their own once the shapes of its inputs are known."""
from typing import List, Optional, Tuple

import numpy
import onnx
from onnx import TensorProto

from .model import attribute_of
from .scope import Nodes, Scope, Writer

# Of all layers and directions of a model: each step is some 10 launches, of which a graph has 4,096.
STEPS = 128
_TOGETHER = 32  # states that one kernel puts together

_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
_USUAL = {"GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"], "RNN": ["Tanh"]}
_ACTIVATIONS = {each.lower(): each for each in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")}


def recurrent(scope: Scope, node: onnx.NodeProto) -> Optional[Nodes]:
    """RNN, GRU or LSTM."""
    layer = _Layer(scope, node)
    if not layer.is_covered() or scope.steps + layer.steps * layer.directions > STEPS:
        return None
    scope.steps += layer.steps * layer.directions
    return layer.nodes()


class _Layer:
    def __init__(self, scope: Scope, node: onnx.NodeProto) -> None:
        self.scope, self.node, self.kind, self.write = scope, node, node.op_type, Writer(scope, node)
        self.is_batch_first = bool(attribute_of(node, "layout", 0))
        first, second, self.wide = scope.shape(node.input[0])
        self.steps, self.batch = (second, first) if self.is_batch_first else (first, second)
        self.directions, _, self.hidden = scope.shape(node.input[2])
        self.dtype = scope.dtype(node.input[0])
        given = [each.decode() if isinstance(each, bytes) else each for each in attribute_of(node, "activations", None) or []]
        self.activations = [_ACTIVATIONS.get(each.lower(), "") for each in given or _USUAL[self.kind] * self.directions]
        self.gates = _GATES[self.kind]

    def is_covered(self) -> bool:
        odd = any(attribute_of(self.node, each, None) for each in ("activation_alpha", "activation_beta", "clip", "input_forget"))
        has_all = len(self.activations) == len(_USUAL[self.kind]) * self.directions and all(self.activations)
        return has_all and not odd

    def nodes(self) -> Nodes:
        write, node, x = self.write, self.node, self.node.input[0]
        if self.is_batch_first:
            x = write("Transpose", x, perm=[1, 0, 2])
        flat = write.shaped(x, [self.steps * self.batch, self.wide])
        direction = attribute_of(node, "direction", "forward")
        made = [_Direction(self, number, flat, direction == "reverse" or number == 1).run() for number in range(self.directions)]
        outputs = [*node.output, "", "", ""]
        if outputs[0]:
            all_states = self._beside([each[0] for each in made], [self.steps, 1, self.batch, self.hidden], 1)
            self._end(all_states, outputs[0], [2, 0, 1, 3])
        for place in (1, 2):
            if outputs[place]:
                last = self._beside([each[place] for each in made], [1, self.batch, self.hidden], 0)
                self._end(last, outputs[place], [1, 0, 2])
        return write.nodes

    def _end(self, value: str, output: str, batch_first: List[int]) -> None:
        if self.is_batch_first:
            self.write("Transpose", value, into=output, perm=batch_first)
        else:
            self.write("Identity", value, into=output)

    def _beside(self, values: List[str], shape: List[int], axis: int) -> str:
        values = [self.write.shaped(each, shape) for each in values]
        return values[0] if len(values) == 1 else self.write("Concat", *values, axis=axis)


class _Direction:
    """A layer in one direction."""

    def __init__(self, layer: _Layer, number: int, flat: str, is_backward: bool) -> None:
        self._layer, self._write, self._number = layer, layer.write, number
        self._is_backward = is_backward
        count = len(_USUAL[layer.kind])
        self._activations = layer.activations[number * count:(number + 1) * count]
        self._state_shape = [layer.batch, layer.hidden]
        node, hidden, gates = layer.node, layer.hidden, layer.gates
        weights = self._write("Transpose", self._own(node.input[1]), perm=[1, 0])
        # Of all steps at once.
        self._given = self._write.shaped(self._write("MatMul", flat, weights), [layer.steps, layer.batch, gates, hidden])
        self._biases = ""
        if bias := layer.scope.input(node, 3):
            both = self._write.shaped(self._own(bias), [2, gates, hidden])
            of_inputs, of_states = (self._picked(both, part, 0) for part in range(2))
            if layer.kind == "GRU" and attribute_of(node, "linear_before_reset", 0):
                # The last gate's is reset, too.
                self._biases = self._picked(of_states, 2, 0)
                shown = layer.scope.value(numpy.array([[1], [1], [0]]), layer.dtype)
                of_states = self._write("Mul", of_states, shown)
            self._given = self._write("Add", self._given, self._write("Add", of_inputs, of_states))
        recurrence = self._write.shaped(self._own(node.input[2]), [gates, hidden, hidden])
        self._recurrence = [self._gate_weights(recurrence, places) for places in ([[0, 1], [2]] if layer.kind == "GRU" else [list(range(gates))])]
        self._lengths = self._known_lengths()
        self._nothing = layer.scope.value(numpy.zeros(self._state_shape), layer.dtype)
        self._peepholes: List[str] = []
        if name := layer.scope.input(node, 7):
            parts = self._write.shaped(self._own(name), [3, hidden])
            self._peepholes = [self._picked(parts, place, 0) for place in range(3)]

    def _own(self, name: str) -> str:
        return self._picked(name, self._number, 0)

    def _picked(self, value: str, place: int, axis: int) -> str:
        return self._write("Gather", value, self._layer.scope.value(place), axis=axis)

    def _gate_weights(self, recurrence: str, places: List[int]) -> str:
        chosen = self._write("Gather", recurrence, self._layer.scope.value(places), axis=0)
        flat = self._write.shaped(chosen, [len(places) * self._layer.hidden, self._layer.hidden])
        return self._write("Transpose", flat, perm=[1, 0])

    def _known_lengths(self) -> str:
        """Of each sequence, as a column; nothing if all of them are whole."""
        name = self._layer.scope.input(self._layer.node, 4)
        known = self._layer.scope.constant(name) if name else None
        if not name or (known is not None and (known >= self._layer.steps).all()):
            return ""
        return self._write.shaped(self._write.cast(name, TensorProto.INT64), [self._layer.batch, 1])

    def _begin(self, place: int) -> str:
        if name := self._layer.scope.input(self._layer.node, place):
            return self._picked(name, self._number, 1 if self._layer.is_batch_first else 0)
        return self._nothing

    def _active(self, place: int, value: str) -> str:
        return self._write(self._activations[place], value)

    def run(self) -> Tuple[str, str, str]:
        """The states of all steps, the last state, and the last cell of an LSTM."""
        step = {"GRU": self._gru, "LSTM": self._lstm, "RNN": self._rnn}[self._layer.kind]
        state, cell = self._begin(5), self._begin(6) if self._layer.kind == "LSTM" else ""
        states = [""] * self._layer.steps
        for place in reversed(range(self._layer.steps)) if self._is_backward else range(self._layer.steps):
            given = self._write("Gather", self._given, self._layer.scope.value([place]), axis=0)
            given = self._write.shaped(given, [self._layer.batch, self._layer.gates, self._layer.hidden])
            new_state, new_cell = step(given, state, cell)
            states[place] = new_state
            if self._lengths:
                goes_on = self._write("Less", self._layer.scope.value([[place]]), self._lengths)
                states[place] = self._write("Where", goes_on, new_state, self._nothing)
                new_state = self._write("Where", goes_on, new_state, state)
                new_cell = self._write("Where", goes_on, new_cell, cell) if cell else ""
            state, cell = new_state, new_cell
        return self._together(states), state, cell

    def _together(self, states: List[str]) -> str:
        parts = [self._write.shaped(each, [1, *self._state_shape]) for each in states]
        while len(parts) > 1:
            groups = [parts[begin:begin + _TOGETHER] for begin in range(0, len(parts), _TOGETHER)]
            parts = [each[0] if len(each) == 1 else self._write("Concat", *each, axis=0) for each in groups]
        return parts[0]

    def _gates_of(self, given: str, state: str) -> List[str]:
        """What each gate adds up, with the state's part."""
        layer = self._layer
        sums = self._write("Add", given, self._write.shaped(self._write("MatMul", state, self._recurrence[0]), [layer.batch, layer.gates, layer.hidden]))
        return [self._picked(sums, gate, 1) for gate in range(layer.gates)]

    def _rnn(self, given: str, state: str, _: str) -> Tuple[str, str]:
        return self._active(0, self._gates_of(given, state)[0]), ""

    def _lstm(self, given: str, state: str, cell: str) -> Tuple[str, str]:
        write, peepholes = self._write, self._peepholes
        into, out, forget, new = self._gates_of(given, state)
        if peepholes:
            into = write("Add", into, write("Mul", peepholes[0], cell))
            forget = write("Add", forget, write("Mul", peepholes[2], cell))
        kept = write("Mul", self._active(0, forget), cell)
        cell = write("Add", kept, write("Mul", self._active(0, into), self._active(1, new)))
        if peepholes:
            out = write("Add", out, write("Mul", peepholes[1], cell))
        return write("Mul", self._active(0, out), self._active(2, cell)), cell

    def _gru(self, given: str, state: str, _: str) -> Tuple[str, str]:
        write, layer = self._write, self._layer
        both = write.shaped(write("MatMul", state, self._recurrence[0]), [layer.batch, 2, layer.hidden])
        update, reset = (self._active(0, write("Add", self._picked(given, gate, 1), self._picked(both, gate, 1))) for gate in range(2))
        if attribute_of(layer.node, "linear_before_reset", 0):
            part = write("MatMul", state, self._recurrence[1])
            part = write("Mul", reset, write("Add", part, self._biases) if self._biases else part)
        else:
            part = write("MatMul", write("Mul", reset, state), self._recurrence[1])
        new = self._active(1, write("Add", self._picked(given, 2, 1), part))
        # (1 - update) new + update state
        return write("Add", new, write("Mul", update, write("Sub", state, new))), ""
