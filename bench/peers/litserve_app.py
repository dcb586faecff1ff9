"""The work behind LitServe. Usage: litserve_app.py PORT PROCESSES"""
import sys

import litserve
import work


class Peer(litserve.LitAPI):
    def setup(self, device):
        del device

    def decode_request(self, request):
        return request

    def predict(self, event):
        return work.answer(event)

    def encode_response(self, output):
        return output


if __name__ == "__main__":
    litserve.LitServer(Peer(), accelerator="cpu", workers_per_device=int(sys.argv[2]), max_payload_size=16 << 20).run(
        host="127.0.0.1", port=int(sys.argv[1]), num_api_servers=int(sys.argv[2]), generate_client_file=False, log_level="warning")
