// Lines of JSON as a worker answers with a log: whatever it holds, what is printed is the same
// whether it comes whole or in pieces.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string_view>

#include "core/base/check.h"
#include "edge/cli/log_printer.h"

namespace {

using lambent::cli::Console;
using lambent::cli::LogPrinter;

struct Printed {
  std::ostringstream out, err;

  // In pieces of so many bytes.
  void print(std::string_view bytes, size_t piece) {
    Console console{.out = out, .err = err};
    LogPrinter printer(console, true, true);
    for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
      printer.feed(bytes.substr(0, piece));
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Printed whole, pieces;
  whole.print(bytes, SIZE_MAX);
  pieces.print(bytes, 1 + size / 7);
  CHECK(whole.out.str() == pieces.out.str(), "the same lines in pieces");
  CHECK(whole.err.str() == pieces.err.str(), "and the same words on them");
  return 0;
}
