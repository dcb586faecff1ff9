// Modules of PTX as they become sources for the host: any text is read or refused.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "gpu/bundle/ptx_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const auto made = bundle::source_of_ptx({std::string(reinterpret_cast<const char*>(data), size)});
  CHECK(!made.ok() || !made->text.empty(), "a source has a text");
  CHECK(made.ok() || !made.error().message.empty(), "a refusal says why");
  return 0;
}
