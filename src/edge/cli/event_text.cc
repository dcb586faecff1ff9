#include "edge/cli/event_text.h"

#include <iostream>
#include <iterator>
#include <string_view>

#include "core/base/fd.h"
#include "core/domain/limits.h"

namespace lambent::cli {

Result<std::string> event_text(const std::optional<std::string>& data,
                               const std::optional<std::string>& file) {
  const bool names_file = data && data->starts_with('@');
  if (!file && !names_file && data != "-") return data.value_or("{}");
  const std::string_view path = file ? *file : std::string_view(*data).substr(names_file ? 1 : 0);
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  if (path.empty()) {
    return Error{ErrorCode::kInvalidArgument, "a file's path follows the @, as in -d @event.json"};
  }
  return read_file(std::string(path), 2 * limits::kSyncPayload.count);
}

}  // namespace lambent::cli
