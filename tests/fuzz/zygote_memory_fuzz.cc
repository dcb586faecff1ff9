// The mappings of a process, whose files foreign code has named: a shared one is found whatever the
// others are called.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "node/sandbox/zygote_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string maps(reinterpret_cast<const char*>(data), size);
  const std::string found = sandbox::shared_memory_in(maps);
  CHECK(found.empty() || maps.find(found) != std::string::npos, "what is found is one of them");
  const std::string shared = "7f40-7f41 rw-s 00000000 00:01 9 /memfd:x (deleted)";
  const bool ends = maps.empty() || maps.back() == '\n';
  const std::string more = sandbox::shared_memory_in(maps + (ends ? "" : "\n") + shared + "\n");
  CHECK(more == (found.empty() ? shared : found), "the first shared one is found");
  return 0;
}
