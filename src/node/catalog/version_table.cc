#include "node/catalog/version_table.h"

#include "core/domain/function_record.h"
#include "node/catalog/function_table.h"

namespace lambent::catalog {
namespace {

// NOT_FOUND: there is no such function.
Result<uint64_t> id_of(Database& database, const FunctionName& name) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT id FROM functions WHERE tenant = ?1 AND name = ?2"));
  rows.bind(1, uint64_t{name.tenant.value}).bind_text(2, name.name);
  ASSIGN_OR_RETURN(const bool there, rows.next());
  if (there) return rows.column_uint(0);
  return Error{ErrorCode::kNotFound, "function '" + name.name + "' does not exist"};
}

// Numbers are never used again, also if the version is removed.
Result<uint64_t> next_version(Database& database, TenantId tenant, uint64_t function) {
  ASSIGN_OR_RETURN(Statement next,
                   database.prepare("INSERT INTO function_versions (tenant, function, last) "
                                    "VALUES (?1, ?2, 1) ON CONFLICT (tenant, function) "
                                    "DO UPDATE SET last = last + 1 RETURNING last"));
  next.bind(1, uint64_t{tenant.value}).bind(2, function);
  RETURN_IF_ERROR(next.next());
  const uint64_t version = next.column_uint(0);
  RETURN_IF_ERROR(next.next());
  return version;
}

// The number that was asked for, where it is above all that were used.
Result<uint64_t> use_version(Database& database, TenantId tenant, uint64_t function,
                             uint64_t number) {
  ASSIGN_OR_RETURN(Statement next,
                   database.prepare("INSERT INTO function_versions (tenant, function, last) "
                                    "VALUES (?1, ?2, ?3) ON CONFLICT (tenant, function) "
                                    "DO UPDATE SET last = ?3 WHERE last < ?3 RETURNING last"));
  next.bind(1, uint64_t{tenant.value}).bind(2, function).bind(3, number);
  ASSIGN_OR_RETURN(const bool is_free, next.next());
  if (!is_free) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the number " + std::to_string(number) +
                     " was used, or one above it: numbers of versions only grow, and a version "
                     "never changes"};
  }
  RETURN_IF_ERROR(next.next());
  return number;
}

TenantId tenant_in(const Statement& rows, int column) {
  return TenantId(static_cast<uint32_t>(rows.column_uint(column)));
}

}  // namespace

Result<FunctionSpec> publish_version(Database& database, FunctionSpec spec,
                                     std::optional<uint64_t> number) {
  ASSIGN_OR_RETURN(const uint64_t function, id_of(database, spec.name));
  const TenantId tenant = spec.name.tenant;
  ASSIGN_OR_RETURN(const uint64_t version, number ? use_version(database, tenant, function, *number)
                                                  : next_version(database, tenant, function));
  spec.id = FunctionId{};
  spec.name = version_record(spec.name, version);
  return put_function(database, std::move(spec));
}

Result<FunctionSpec> keep_version(Database& database, FunctionSpec spec, uint64_t number) {
  ASSIGN_OR_RETURN(const uint64_t function, id_of(database, spec.name));
  ASSIGN_OR_RETURN(Statement note,
                   database.prepare("INSERT INTO function_versions (tenant, function, last) "
                                    "VALUES (?1, ?2, ?3) ON CONFLICT (tenant, function) "
                                    "DO UPDATE SET last = max(last, ?3)"));
  note.bind(1, uint64_t{spec.name.tenant.value}).bind(2, function).bind(3, number);
  RETURN_IF_ERROR(note.run());
  spec.id = FunctionId{};
  spec.name = version_record(spec.name, number);
  return put_function(database, std::move(spec));
}

Result<void> put_alias(Database& database, const Alias& alias) {
  ASSIGN_OR_RETURN(const uint64_t function, id_of(database, alias.function));
  ASSIGN_OR_RETURN(
      Statement put,
      database.prepare("INSERT OR REPLACE INTO function_aliases (tenant, function, name, "
                       "description, version, second, second_share, revision, provisioned) "
                       "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"));
  put.bind(1, uint64_t{alias.function.tenant.value}).bind(2, function);
  put.bind_text(3, alias.name).bind_text(4, alias.description).bind_text(5, alias.version);
  put.bind_text(6, alias.second).bind(7, alias.second_share).bind(8, alias.revision);
  put.bind(9, uint64_t{alias.provisioned});
  return put.run();
}

Result<void> remove_alias(Database& database, const Alias& alias) {
  ASSIGN_OR_RETURN(const uint64_t function, id_of(database, alias.function));
  ASSIGN_OR_RETURN(Statement remove,
                   database.prepare("DELETE FROM function_aliases WHERE tenant = ?1 AND "
                                    "function = ?2 AND name = ?3"));
  remove.bind(1, uint64_t{alias.function.tenant.value}).bind(2, function);
  remove.bind_text(3, alias.name);
  return remove.run();
}

Result<std::vector<Alias>> load_aliases(Database& database) {
  std::vector<Alias> aliases;
  ASSIGN_OR_RETURN(
      Statement rows,
      database.prepare("SELECT a.tenant, f.name, a.name, a.description, a.version, a.second, "
                       "a.second_share, a.provisioned, a.revision FROM function_aliases a "
                       "JOIN functions f ON f.tenant = a.tenant AND f.id = a.function"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return aliases;
    aliases.push_back({.function = {tenant_in(rows, 0), rows.column_text(1)},
                       .name = rows.column_text(2),
                       .description = rows.column_text(3),
                       .version = rows.column_text(4),
                       .second = rows.column_text(5),
                       .second_share = rows.column_double(6),
                       .provisioned = static_cast<unsigned>(rows.column_uint(7)),
                       .revision = rows.column_uint(8)});
  }
}

Result<void> keep_revision(Database& database, const FunctionSpec& spec) {
  ASSIGN_OR_RETURN(
      Statement put,
      database.prepare("INSERT OR REPLACE INTO function_revisions (tenant, function, revision, "
                       "record) VALUES (?1, ?2, ?3, ?4)"));
  put.bind(1, uint64_t{spec.name.tenant.value}).bind(2, uint64_t{spec.id.value});
  put.bind(3, spec.revision).bind_text(4, to_record(spec));
  RETURN_IF_ERROR(put.run());
  ASSIGN_OR_RETURN(
      Statement drop,
      database.prepare("DELETE FROM function_revisions WHERE tenant = ?1 AND function = ?2 AND "
                       "revision NOT IN (SELECT revision FROM function_revisions WHERE "
                       "tenant = ?1 AND function = ?2 ORDER BY revision DESC LIMIT ?3)"));
  drop.bind(1, uint64_t{spec.name.tenant.value}).bind(2, uint64_t{spec.id.value});
  drop.bind(3, uint64_t{kRevisionsKept});
  return drop.run();
}

Result<std::vector<FunctionSpec>> load_revisions(Database& database) {
  std::vector<FunctionSpec> revisions;
  ASSIGN_OR_RETURN(
      Statement rows,
      database.prepare("SELECT record FROM function_revisions ORDER BY tenant, function, "
                       "revision"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return revisions;
    auto spec = function_from_record(rows.column_text(0));
    if (spec.ok()) revisions.push_back(std::move(spec).value());
  }
}

Result<void> put_deployment(Database& database, const DeploymentRecord& record) {
  ASSIGN_OR_RETURN(
      Statement put,
      database.prepare("INSERT OR REPLACE INTO deployments (tenant, name, creates, record, "
                       "failure) VALUES (?1, ?2, ?3, ?4, ?5)"));
  put.bind(1, uint64_t{record.spec.name.tenant.value}).bind_text(2, record.spec.name.name);
  put.bind(3, uint64_t{record.creates}).bind_text(4, to_record(record.spec));
  put.bind_text(5, record.failure);
  return put.run();
}

Result<void> remove_deployment(Database& database, const FunctionName& name) {
  ASSIGN_OR_RETURN(Statement remove,
                   database.prepare("DELETE FROM deployments WHERE tenant = ?1 AND name = ?2"));
  remove.bind(1, uint64_t{name.tenant.value}).bind_text(2, name.name);
  return remove.run();
}

Result<std::vector<DeploymentRecord>> load_deployments(Database& database) {
  std::vector<DeploymentRecord> records;
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT creates, record, failure FROM deployments"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return records;
    auto spec = function_from_record(rows.column_text(1));
    if (!spec.ok()) continue;
    records.push_back({.spec = std::move(spec).value(),
                       .creates = rows.column_uint(0) != 0,
                       .failure = rows.column_text(2)});
  }
}

}  // namespace lambent::catalog
