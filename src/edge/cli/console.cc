#include "edge/cli/console.h"

#include <cstdio>

#include "core/base/log.h"

namespace lambent::cli {

int fail(Console& console, const Error& error) {
  if (console.json) {
    console.err << "{\"error\":{\"code\":\"" << name_of(error.code) << "\",\"message\":\""
                << json_escape(error.message) << "\"}}\n";
  } else {
    console.err << "lambent: " << to_string(error) << "\n";
  }
  return exit_code_of(error.code);
}

std::string human_seconds(double seconds) {
  char text[32];
  if (seconds < 0.0995) {
    std::snprintf(text, sizeof(text), "%.1f ms", seconds * 1e3);
  } else if (seconds < 120) {
    std::snprintf(text, sizeof(text), "%.2f s", seconds);
  } else if (seconds < 7200) {
    std::snprintf(text, sizeof(text), "%.0f min", seconds / 60);
  } else {
    std::snprintf(text, sizeof(text), "%.0f h", seconds / 3600);
  }
  return text;
}

}  // namespace lambent::cli
