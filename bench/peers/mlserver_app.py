"""The work behind MLServer: an event as one BYTES tensor, a model's rows as FP32."""
import json

import numpy
import work
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceResponse


class Peer(MLModel):
    async def load(self):
        return True

    async def predict(self, payload):
        tensor = payload.inputs[0]
        if tensor.datatype == "BYTES":
            event = json.loads(StringCodec.decode_input(tensor)[0])
            output = StringCodec.encode_output("event", [json.dumps(work.answer(event))])
        else:
            x = self.decode(tensor, default_codec=NumpyCodec)
            output = NumpyCodec.encode_output("scores", work.scores(x.astype(numpy.float32, copy=False)))
        return InferenceResponse(model_name=self.name, outputs=[output])
