#include "node/catalog/backup.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "node/catalog/database.h"
#include "node/catalog/migrations.h"

namespace lambent::catalog {
namespace {

Result<void> expect_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return {};
  return Error{ErrorCode::kNotFound, "there is no database at " + path};
}

Result<void> expect_known_file(Database& database, const std::string& path) {
  const auto version = known_schema_version(database, path);
  return version.ok() ? Result<void>() : version.error();
}

}  // namespace

Result<void> copy_database(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(expect_file(from));
  std::error_code ignored;
  if (std::filesystem::exists(to, ignored)) {
    return Error{ErrorCode::kAlreadyExists, to + " exists already"};
  }
  ASSIGN_OR_RETURN(const auto database, Database::open(from));
  ASSIGN_OR_RETURN(Statement copy, database->prepare("VACUUM INTO ?1"));
  copy.bind_text(1, to);
  RETURN_IF_ERROR(copy.run());
  if (::chmod(to.c_str(), 0600) != 0) return error_from_errno("chmod " + to, errno);
  return check_database(to);
}

Result<void> check_database(const std::string& path) {
  RETURN_IF_ERROR(expect_file(path));
  ASSIGN_OR_RETURN(const auto database, Database::open(path));
  return expect_known_file(*database, path);
}

Result<void> check_schema(const std::string& path) {
  RETURN_IF_ERROR(expect_file(path));
  ASSIGN_OR_RETURN(const auto database, Database::open_to_read(path));
  return expect_known_file(*database, path);
}

}  // namespace lambent::catalog
