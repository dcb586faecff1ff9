#include "bin/audit_verify.h"

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/base/result.h"
#include "node/tenants/audit_log.h"

namespace lambent::bin {
namespace {

Result<std::vector<std::string>> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) return error_from_errno("open " + path, errno);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (file.bad()) return error_from_errno("read " + path, errno);
  if (lines.empty()) {
    return Error{ErrorCode::kInvalidArgument, path + " has no lines: is that the audit log?"};
  }
  return lines;
}

}  // namespace

int run_audit_verify(cli::Console& console, const std::string& path) {
  const auto lines = lines_of(path);
  if (!lines.ok()) return cli::fail(console, lines.error());
  const tenants::AuditCheck check = tenants::check_lines(*lines);
  if (check.broken) {
    return cli::fail(console,
                     {ErrorCode::kDataLoss,
                      path + ":" + std::to_string(*check.broken) +
                          ": this line does not continue the one before: lines were changed, "
                          "removed or added after they were written"});
  }
  if (check.foreign.size() == lines->size()) {
    return cli::fail(console, {ErrorCode::kInvalidArgument,
                               path + " has no line that is a record: is that the audit log?"});
  }
  if (console.json) {
    const nlohmann::ordered_json found = {
        {"file", path}, {"lines", lines->size()}, {"foreign_lines", check.foreign}};
    console.out << found.dump(2) << "\n";
  } else {
    const size_t records = lines->size() - check.foreign.size();
    console.out << path << ": " << records
                << " records, each continues the one before; nothing continues the last one yet\n";
    for (const size_t line : check.foreign) {
      console.out << path << ":" << line
                  << ": no record; a crash cut it off, or it was put there\n";
    }
  }
  return 0;
}

}  // namespace lambent::bin
