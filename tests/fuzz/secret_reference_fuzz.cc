// The environment of a function, a variable a line. What is resolved has no reference left but
// those that values brought, and every name that was found is one of a secret.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/secret.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  Variables environment;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    environment["V" + std::to_string(environment.size())] = std::string(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto names = secret_names(environment);
  const auto resolved = resolve_secrets(environment, [](const std::string& name) {
    CHECK(validate_secret_name(name).ok(), "only a secret's name is asked for");
    return std::optional<std::string>("value");
  });
  CHECK(names.ok() == resolved.ok(), "what has names can be resolved");
  if (!names.ok()) return 0;
  CHECK(resolved->variables.size() == environment.size(), "every variable is there");
  for (const auto& [key, text] : resolved->variables) {
    CHECK(text.find("${secret:") == std::string::npos, "no reference is left");
    CHECK(text.find("${secret-file:") == std::string::npos, "nor one of a file");
  }
  for (const auto& [name, value] : resolved->files) {
    CHECK(names->contains(name), "a file is that of a reference");
  }
  return 0;
}
