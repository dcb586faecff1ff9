// A request with tensors in shared memory: two bytes of the JSON's length, a byte that says whether
// it counts, and the body. Then the same bytes as an answer, and as a registration. What is made of
// them is whole: sizes are those of the bytes that there are.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/check.h"
#include "edge/inference/shared_memory_request.h"

namespace {

using namespace lambent;
using namespace lambent::inference;

void check_request(std::string_view body, std::optional<size_t> length) {
  const auto parsed = parse_shared_memory_request(body, length);
  if (!parsed.ok()) {
    CHECK(parsed.error().code == ErrorCode::kInvalidArgument, "the client is to blame");
    return;
  }
  if (!*parsed) return;
  const SharedMemoryRequest& request = **parsed;
  CHECK(nlohmann::json::accept(request.json), "what is passed on is JSON");
  size_t own = 0;
  for (const InputBytes& input : request.inputs) {
    CHECK(!input.shared || input.own.empty(), "an input lies in one place");
    own += input.own.size();
  }
  CHECK(own == body.size() - length.value_or(body.size()), "no byte is lost");
  CHECK(request.shared_input_bytes() <= (uint64_t{1} << 50), "the sum is no overflow");
}

void check_answer(std::string_view body, std::optional<size_t> length) {
  http::Response whole;
  whole.body = body;
  if (length) {
    whole.headers.add("Inference-Header-Content-Length", std::to_string(*length));
  }
  const std::vector<SharedOutput> outputs = {
      {.name = "y", .place = {.region = "r", .offset = 4, .size = 8}}};
  const auto taken = take_shared_outputs(whole, outputs);
  if (!taken.ok()) return;
  CHECK(taken->written.size() == 1, "one for each output");
  CHECK(taken->written[0].size() <= 8, "no more than its place");
  CHECK(taken->response.headers.contains("Content-Type"), "an answer says what it is");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  uint16_t length = 0;
  memcpy(&length, data, sizeof length);
  const std::string_view body(reinterpret_cast<const char*>(data) + 3, size - 3);
  const auto json_length = (data[2] & 1) != 0 ? std::optional<size_t>(length) : std::nullopt;
  check_request(body, json_length);
  check_answer(body, json_length);
  const auto region = parse_registration("r", body);
  if (region.ok()) {
    const auto file = file_of_key(region->key);
    CHECK(!file.ok() || file->find('/') == std::string::npos, "a key is a name in one folder");
  }
  return 0;
}
