// The files of the dashboard, as they were when this was built: pages, scripts and styles of web/.
// Values; any thread.
#pragma once

#include <span>
#include <string_view>

namespace lambent::dashboard {

struct File {
  std::string_view name;  // "app.js"
  std::string_view type;  // its Content-Type
  std::string_view content;
};

std::span<const File> files();

}  // namespace lambent::dashboard
