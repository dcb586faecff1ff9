// A request for inference as protobuf has it, and what a model's program answers (its JSON's length
// in two bytes, then the answer): what is made of either is whole.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/check.h"
#include "edge/grpc_inference/infer_conversion.h"

namespace {

using namespace lambent;

void check_request(const std::string& bytes) {
  inference::ModelInferRequest message;
  if (!message.ParseFromString(bytes)) return;
  const auto request = grpc_inference::infer_request(message);
  if (!request.ok()) {
    CHECK(request.error().code == ErrorCode::kInvalidArgument, "the client is to blame");
    return;
  }
  const std::string length(request->headers.get("Inference-Header-Content-Length"));
  const size_t size = std::stoul(length);
  CHECK(size <= request->body.size(), "the JSON is in the body");
  const auto head = nlohmann::json::parse(request->body.substr(0, size), nullptr, false);
  CHECK(head.is_object(), "what is sent is JSON");
  size_t behind = 0;
  for (const auto& input : head["inputs"]) {
    behind += input["parameters"].value("binary_data_size", size_t{0});
  }
  CHECK(size + behind == request->body.size(), "every input has its bytes");
  CHECK(request->target.find_first_of(" \r\n") == std::string::npos, "a target is one word");
}

void check_answer(const std::string& bytes) {
  if (bytes.size() < 2) return;
  http::Response response;
  const size_t length = static_cast<uint8_t>(bytes[0]) + 256 * static_cast<uint8_t>(bytes[1]);
  if (length != 0) {
    response.headers.add("Inference-Header-Content-Length", std::to_string(length));
  }
  response.body = bytes.substr(2);
  const auto message = grpc_inference::infer_response(response, {});
  if (!message.ok()) {
    CHECK(message.error().code == ErrorCode::kInternal, "the model is to blame");
    return;
  }
  CHECK(message->outputs_size() == message->raw_output_contents_size(),
        "outputs keep their places");
  response.status = 500;
  CHECK(!grpc_inference::status_of(response).ok(), "a failure is told");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check_request(bytes);
  check_answer(bytes);
  return 0;
}
