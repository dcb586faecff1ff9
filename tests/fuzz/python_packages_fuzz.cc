// The Python packages of a function: as the JSON in its package, and as a requirements file. What
// is accepted names no place and no option, and is read again as it was.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/python_packages.h"

namespace {

void check_all(const std::vector<std::string>& requirements) {
  using namespace lambent;
  for (const std::string& one : requirements) {
    CHECK(one.find_first_of("\n\r\\@/$") == std::string::npos, "it names no place");
    CHECK(!one.starts_with('-'), "it is no option");
    const size_t option = one.find(" -");
    CHECK(option == std::string::npos || one.substr(option).starts_with(" --hash=sha"),
          "it has no options but hashes");
    const auto again = read_requirement(one);
    CHECK(again.ok() && *again == one, "it is read again as it was");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto packages = parse_python_packages(text); packages.ok()) {
    check_all(packages->requirements);
    const auto again = parse_python_packages(to_json(*packages));
    CHECK(again.ok() && *again == *packages, "what is written is read again");
  }
  if (const auto file = read_requirements_file(text); file.ok()) check_all(*file);
  return 0;
}
