#include "node/catalog/shared_revisions.h"

#include <algorithm>
#include <optional>

#include "core/domain/version.h"
#include "node/catalog/shared_tables.h"

namespace lambent::catalog {
namespace {

struct Last {
  SharedDeployment deployment;
  std::string digest;
};

Result<std::optional<Last>> last_of(Database& database, const SharedFunction& function) {
  ASSIGN_OR_RETURN(Statement ask,
                   database.prepare("SELECT revision, deployed_at_ns, digest FROM shared_revisions "
                                    "WHERE tenant = ?1 AND function = ?2 ORDER BY revision DESC "
                                    "LIMIT 1"));
  ask.bind_text(1, function.tenant).bind_text(2, function.name);
  ASSIGN_OR_RETURN(const bool there, ask.next());
  if (!there) return std::optional<Last>();
  return std::optional<Last>({.deployment = {ask.column_uint(0), Duration(ask.column_int(1))},
                              .digest = ask.column_text(2)});
}

// In whose row of a tenant's numbers those of functions are that have none of their own.
constexpr const char* kAllOthers = "";

Result<std::optional<uint64_t>> last_number(Database& database, const std::string& tenant,
                                            const std::string& function) {
  ASSIGN_OR_RETURN(Statement ask,
                   database.prepare("SELECT last FROM shared_revision_numbers WHERE tenant = ?1 "
                                    "AND function = ?2"));
  ask.bind_text(1, tenant).bind_text(2, function);
  ASSIGN_OR_RETURN(const bool there, ask.next());
  return there ? std::optional(ask.column_uint(0)) : std::nullopt;
}

Result<void> note_number(Database& database, const std::string& tenant, const std::string& function,
                         uint64_t number) {
  ASSIGN_OR_RETURN(Statement note,
                   database.prepare("INSERT INTO shared_revision_numbers (tenant, function, last) "
                                    "VALUES (?1, ?2, ?3) ON CONFLICT (tenant, function) DO UPDATE "
                                    "SET last = ?3"));
  note.bind_text(1, tenant).bind_text(2, function).bind(3, number);
  return note.run();
}

Result<uint64_t> next_number(Database& database, const SharedFunction& function) {
  ASSIGN_OR_RETURN(auto last, last_number(database, function.tenant, function.name));
  if (!last) {
    ASSIGN_OR_RETURN(last, last_number(database, function.tenant, kAllOthers));
  }
  const uint64_t number = std::max(last.value_or(0) + 1, function.revision);
  RETURN_IF_ERROR(note_number(database, function.tenant, function.name, number));
  return number;
}

// Of functions that are gone: one number for all once there are many.
Result<void> gather_numbers(Database& database, const std::string& tenant) {
  const std::string are_gone =
      " FROM shared_revision_numbers WHERE tenant = ?1 AND function <> ?2 AND function NOT IN "
      "(SELECT name FROM shared_functions WHERE tenant = ?1)";
  uint64_t highest = 0;
  {
    ASSIGN_OR_RETURN(Statement ask,
                     database.prepare("SELECT count(*), coalesce(max(last), 0)" + are_gone));
    ask.bind_text(1, tenant).bind_text(2, kAllOthers);
    RETURN_IF_ERROR(ask.next());
    if (ask.column_uint(0) <= kNumbersOfRemoved) return {};
    highest = ask.column_uint(1);
  }
  ASSIGN_OR_RETURN(const auto before, last_number(database, tenant, kAllOthers));
  RETURN_IF_ERROR(note_number(database, tenant, kAllOthers, std::max(highest, before.value_or(0))));
  ASSIGN_OR_RETURN(Statement drop, database.prepare("DELETE" + are_gone));
  drop.bind_text(1, tenant).bind_text(2, kAllOthers);
  return drop.run();
}

}  // namespace

Result<SharedDeployment> note_revision(Database& database, const SharedFunction& function) {
  ASSIGN_OR_RETURN(const auto before, last_of(database, function));
  if (before && before->digest == function.digest) return before->deployment;
  ASSIGN_OR_RETURN(const uint64_t number, next_number(database, function));
  ASSIGN_OR_RETURN(
      Statement put,
      database.prepare("INSERT INTO shared_revisions (tenant, function, revision, digest, "
                       "code_sha256, code_bytes, copy, deployed_at_ns) VALUES (?1, ?2, ?3, ?4, ?5, "
                       "?6, ?7, " +
                       std::string(database.now_sql()) + ")"));
  put.bind_text(1, function.tenant).bind_text(2, function.name).bind(3, number);
  put.bind_text(4, function.digest).bind_text(5, function.code_sha256);
  put.bind(6, function.code_bytes).bind_text(7, function.copy);
  RETURN_IF_ERROR(put.run());
  ASSIGN_OR_RETURN(
      Statement drop,
      database.prepare("DELETE FROM shared_revisions WHERE tenant = ?1 AND function = ?2 AND "
                       "revision NOT IN (SELECT revision FROM shared_revisions WHERE tenant = ?1 "
                       "AND function = ?2 ORDER BY revision DESC LIMIT ?3)"));
  drop.bind_text(1, function.tenant).bind_text(2, function.name);
  drop.bind(3, uint64_t{kRevisionsKept});
  RETURN_IF_ERROR(drop.run());
  ASSIGN_OR_RETURN(const auto noted, last_of(database, function));
  if (noted) return noted->deployment;
  return Error{ErrorCode::kInternal, "the revision was not kept"};
}

Result<std::vector<SharedRevision>> read_revisions(Database& database, const std::string& tenant,
                                                   const std::string& function) {
  ASSIGN_OR_RETURN(
      Statement ask,
      database.prepare("SELECT r.revision, r.deployed_at_ns, r.code_sha256, r.code_bytes, r.copy, "
                       "CASE WHEN r.digest = f.digest THEN 1 ELSE 0 END FROM shared_revisions r "
                       "JOIN shared_functions f ON f.tenant = r.tenant AND f.name = r.function "
                       "WHERE r.tenant = ?1 AND r.function = ?2 ORDER BY r.revision DESC"));
  ask.bind_text(1, tenant).bind_text(2, function);
  std::vector<SharedRevision> all;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, ask.next());
    if (!more) return all;
    all.push_back({.deployment = {ask.column_uint(0), Duration(ask.column_int(1))},
                   .code_sha256 = ask.column_text(2),
                   .code_bytes = ask.column_uint(3),
                   .copy = ask.column_text(4),
                   .is_current = all.empty() && ask.column_int(5) != 0});
  }
}

Result<void> drop_revisions(Database& database, const std::string& tenant,
                            const std::string& function) {
  ASSIGN_OR_RETURN(Statement drop, database.prepare("DELETE FROM shared_revisions WHERE tenant = "
                                                    "?1 AND function = ?2"));
  drop.bind_text(1, tenant).bind_text(2, function);
  RETURN_IF_ERROR(drop.run());
  return gather_numbers(database, tenant);
}

Result<void> drop_revisions_of_none(Database& database) {
  return database.run(
      "DELETE FROM shared_revisions WHERE NOT EXISTS (SELECT 1 FROM shared_functions f WHERE "
      "f.tenant = shared_revisions.tenant AND f.name = shared_revisions.function)");
}

Result<void> drop_revision_numbers(Database& database, const std::string& tenant) {
  ASSIGN_OR_RETURN(Statement drop,
                   database.prepare("DELETE FROM shared_revision_numbers WHERE tenant = ?1"));
  drop.bind_text(1, tenant);
  return drop.run();
}

}  // namespace lambent::catalog
