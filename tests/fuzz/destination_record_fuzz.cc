// What a destination is told: the request of a client and the answer of a handler within one
// record, which is JSON whatever they are and never longer than it may be.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "decide/asynchronous/record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  constexpr size_t kMost = 4'096;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t cut = all.find('\n');
  asynchronous::Ended ended;
  ended.function_arn = "arn:aws:lambda:us-east-1:000000000000:function:f:$LATEST";
  ended.result.outcome = size % 2 == 0 ? Outcome::kSucceeded : Outcome::kFunctionError;
  if (cut != std::string_view::npos) ended.result.payload = std::string(all.substr(cut + 1));
  const std::string record = asynchronous::destination_record(ended, all.substr(0, cut), kMost);
  CHECK(record.size() <= kMost, "it is no longer than it may be");
  const auto json = nlohmann::json::parse(record, nullptr, false);
  CHECK(json.is_object() && json.contains("responsePayload"), "it is a record");
  return 0;
}
