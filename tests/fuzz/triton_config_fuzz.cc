// A config.pbtxt that somebody wrote. What is accepted has values that a manifest can say.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "edge/model_files/triton_config.h"
#include "tests/fuzz/accepted.h"

namespace {
[[maybe_unused]] const bool kTold = lambent::fuzz::tells_what_it_accepts();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = model_files::read_triton_config(text, "config.pbtxt");
  if (!config.ok()) {
    CHECK(config.error().message.find("config.pbtxt") != std::string::npos, "names the file");
    return 0;
  }
  lambent::fuzz::accepted.last = true;
  CHECK(!config->batch_size || *config->batch_size > 0, "a batch has elements");
  CHECK(!config->batch_wait_ms || config->batch_size, "who waits has batches");
  return 0;
}
