// CUDA sources as they are rewritten for the host compiler: any text is, and keeps its lines.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "gpu/bundle/program_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  std::vector<std::string> headers;
  const std::string rewritten = bundle::rewrite_program(
      text, [](std::string_view, bool quoted) { return quoted ? "copy" : ""; }, &headers);
  CHECK(std::count(rewritten.begin(), rewritten.end(), '\n') ==
            std::count(text.begin(), text.end(), '\n'),
        "a message of the compiler names the right line");
  return 0;
}
