#include "core/domain/python_runtime.h"

#include "core/base/parse_number.h"

namespace lambent {

bool is_python_runtime(std::string_view name) {
  constexpr std::string_view kPython = "python3";
  if (!name.starts_with(kPython)) return false;
  name.remove_prefix(kPython.size());
  if (name.empty()) return true;
  if (name.front() != '.' || (name.size() > 1 && name[1] == '0')) return false;
  const auto minor = parse_number<unsigned>(name.substr(1));
  return minor && *minor >= 3 && *minor <= kNewestPython;
}

}  // namespace lambent
