"""The work behind KServe's model server: an event as one BYTES tensor, a model's rows as FP32. Usage: kserve_app.py with KServe's own flags."""
import argparse
import json

import kserve
import work


class Peer(kserve.Model):
    def __init__(self, name):
        super().__init__(name)
        self.ready = True

    def predict(self, payload, headers=None, response_headers=None):
        del headers, response_headers
        tensor = payload.inputs[0]
        if tensor.datatype == "BYTES":
            text = json.dumps(work.answer(json.loads(tensor.data[0])))
            output = kserve.InferOutput("event", [1], "BYTES", data=[text])
        else:
            found = work.scores(tensor.as_numpy())
            output = kserve.InferOutput("scores", list(found.shape), "FP32")
            output.set_data_from_numpy(found, binary_data=False)
        return kserve.InferResponse(payload.id or "1", self.name, [output])


if __name__ == "__main__":
    options, _ = argparse.ArgumentParser(parents=[kserve.model_server.parser], conflict_handler="resolve").parse_known_args()
    kserve.ModelServer(http_port=options.http_port, workers=options.workers, enable_grpc=False, access_log_format=None).start([Peer("m")])
