// A request to publish a layer: its name in the first line, its JSON in the rest; and the same line
// as the ARN of a version. What is accepted is written and read again as it was.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/limits.h"
#include "edge/frontend/lambda_name.h"
#include "edge/frontend/layer_frontend.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string line(bytes.substr(0, std::min(bytes.find('\n'), bytes.size())));
  bytes.remove_prefix(std::min(line.size() + 1, bytes.size()));
  if (const auto layer = frontend::read_layer_publication(line, std::string(bytes)); layer.ok()) {
    CHECK(validate_layer_name(layer->name).ok(), "only good names reach the service");
    CHECK(!layer->zip_base64.empty(), "a layer has something in it");
    CHECK(layer->runtimes.size() <= kLayerRuntimes, "within its limit");
    CHECK(layer->description.size() <= limits::kDescriptionLength, "within its limit");
  }
  if (const auto layer = frontend::parse_layer_arn(line); layer.ok()) {
    const auto again = frontend::parse_layer_arn(frontend::layer_arn_of(*layer));
    CHECK(again.ok(), "what is written is read again");
    CHECK(*again == *layer, "as it was");
  }
  if (const auto layers = parse_layers(line); layers.ok()) {
    const auto again = parse_layers(text_of(*layers));
    CHECK(again.ok(), "what is written is read again");
    CHECK(*again == *layers, "as it was");
  }
  return 0;
}
