// lambent report: result files of runs in, one HTML page and a table out.
#pragma once

#include <string>
#include <vector>

#include "edge/cli/console.h"

namespace lambent::cli {

struct ReportOptions {
  std::vector<std::string> files;
  std::string output = "report.html";
  std::string title = "Lambent: runs compared";
};

int run_report(Console& console, const ReportOptions& options);

}  // namespace lambent::cli
