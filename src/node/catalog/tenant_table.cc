#include "node/catalog/tenant_table.h"

#include <utility>

#include "core/base/state_archive.h"

namespace lambent::catalog {
namespace {

constexpr const char* kColumns =
    "name, weight, functions, concurrency, gpu_memory_bytes, gpu_time_per_hour_ns, "
    "host_memory_bytes, object_bytes, disk_bytes, requests_per_second, created_at_ns";

void bind_number(Statement& statement, int parameter, const std::optional<uint64_t>& number) {
  if (number) {
    statement.bind(parameter, *number);
  } else {
    statement.bind_null(parameter);
  }
}

void bind_bytes(Statement& statement, int parameter, const std::optional<Bytes>& bytes) {
  bind_number(statement, parameter, bytes ? std::optional<uint64_t>(bytes->count) : std::nullopt);
}

void bind_duration(Statement& statement, int parameter, const std::optional<Duration>& duration) {
  if (duration) {
    statement.bind(parameter, int64_t{duration->count()});
  } else {
    statement.bind_null(parameter);
  }
}

std::optional<uint64_t> number_of(const Statement& row, int column) {
  if (row.column_is_null(column)) return std::nullopt;
  return row.column_uint(column);
}

std::optional<Bytes> bytes_of(const Statement& row, int column) {
  if (row.column_is_null(column)) return std::nullopt;
  return Bytes(row.column_uint(column));
}

std::optional<Duration> duration_of(const Statement& row, int column) {
  if (row.column_is_null(column)) return std::nullopt;
  return Duration(row.column_int(column));
}

// The columns of kColumns as parameters 1 to 11.
void bind_tenant(Statement& statement, const Tenant& tenant) {
  const TenantQuotas& quotas = tenant.quotas;
  statement.bind_text(1, tenant.name).bind(2, tenant.weight);
  bind_number(statement, 3, quotas.functions);
  bind_number(statement, 4, quotas.concurrency);
  bind_bytes(statement, 5, quotas.gpu_memory);
  bind_duration(statement, 6, quotas.gpu_time_per_hour);
  bind_bytes(statement, 7, quotas.host_memory);
  bind_bytes(statement, 8, quotas.objects);
  bind_bytes(statement, 9, quotas.disk);
  if (quotas.requests_per_second) {
    statement.bind(10, *quotas.requests_per_second);
  } else {
    statement.bind_null(10);
  }
  statement.bind(11, int64_t{tenant.created_at.count()});
}

Tenant tenant_of(const Statement& row) {
  Tenant tenant;
  tenant.id = TenantId(static_cast<uint32_t>(row.column_uint(0)));
  tenant.name = row.column_text(1);
  tenant.weight = row.column_double(2);
  tenant.quotas.functions = number_of(row, 3);
  tenant.quotas.concurrency = number_of(row, 4);
  tenant.quotas.gpu_memory = bytes_of(row, 5);
  tenant.quotas.gpu_time_per_hour = duration_of(row, 6);
  tenant.quotas.host_memory = bytes_of(row, 7);
  tenant.quotas.objects = bytes_of(row, 8);
  tenant.quotas.disk = bytes_of(row, 9);
  if (!row.column_is_null(10)) tenant.quotas.requests_per_second = row.column_double(10);
  tenant.created_at = Duration(row.column_int(11));
  return tenant;
}

Error no_tenant() { return {ErrorCode::kNotFound, "there is no such tenant"}; }

Result<bool> has_functions(Database& database, TenantId tenant) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT 1 FROM functions WHERE tenant = ?1 LIMIT 1"));
  rows.bind(1, uint64_t{tenant.value});
  return rows.next();
}

void archive_used(StateArchive& archive, std::vector<GpuTimeRecord::Used>& used) {
  archive.list(used, [&](GpuTimeRecord::Used& each) {
    archive.field(each.at);
    archive.field(each.time);
  });
}

}  // namespace

Result<Tenant> put_tenant(Database& database, Tenant tenant) {
  ASSIGN_OR_RETURN(Statement same,
                   database.prepare("SELECT 1 FROM tenants WHERE name = ?1 AND id <> ?2"));
  same.bind_text(1, tenant.name).bind(2, uint64_t{tenant.id.value});
  ASSIGN_OR_RETURN(const bool taken, same.next());
  if (taken) {
    return Error{ErrorCode::kAlreadyExists, "there is a tenant '" + tenant.name + "' already"};
  }
  const bool is_new = tenant.id.value == 0;
  const std::string sql =
      is_new ? std::string("INSERT INTO tenants (") + kColumns +
                   ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
             : std::string("UPDATE tenants SET (") + kColumns +
                   ") = (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) WHERE id = ?12";
  ASSIGN_OR_RETURN(Statement put, database.prepare(sql));
  bind_tenant(put, tenant);
  if (!is_new) put.bind(12, uint64_t{tenant.id.value});
  RETURN_IF_ERROR(put.run());
  if (database.changes() == 0) return no_tenant();
  if (is_new) tenant.id = TenantId(static_cast<uint32_t>(database.last_insert_id()));
  return tenant;
}

Result<void> remove_tenant(Database& database, TenantId tenant) {
  ASSIGN_OR_RETURN(const bool used, has_functions(database, tenant));
  if (used) {
    return Error{ErrorCode::kFailedPrecondition, "the tenant has functions; remove them before it"};
  }
  ASSIGN_OR_RETURN(Statement remove, database.prepare("DELETE FROM tenants WHERE id = ?1"));
  remove.bind(1, uint64_t{tenant.value});
  RETURN_IF_ERROR(remove.run());
  if (database.changes() == 0) return no_tenant();
  return {};
}

Result<std::vector<Tenant>> load_tenants(Database& database) {
  std::vector<Tenant> tenants;
  ASSIGN_OR_RETURN(Statement rows, database.prepare(std::string("SELECT id, ") + kColumns +
                                                    " FROM tenants ORDER BY id"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return tenants;
    tenants.push_back(tenant_of(rows));
  }
}

Result<void> save_gpu_times(Database& database, std::vector<GpuTimeRecord> records) {
  for (GpuTimeRecord& each : records) {
    std::string used;
    StateArchive archive(&used);
    archive_used(archive, each.used);
    ASSIGN_OR_RETURN(Statement put,
                     database.prepare("INSERT OR REPLACE INTO tenant_gpu_times (tenant, used) "
                                      "SELECT ?1, ?2 WHERE EXISTS "
                                      "(SELECT 1 FROM tenants WHERE id = ?1)"));
    put.bind(1, uint64_t{each.tenant.value}).bind_blob(2, used);
    RETURN_IF_ERROR(put.run());
  }
  return {};
}

Result<std::vector<GpuTimeRecord>> load_gpu_times(Database& database) {
  std::vector<GpuTimeRecord> records;
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT tenant, used FROM tenant_gpu_times ORDER BY tenant"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return records;
    GpuTimeRecord record{.tenant = TenantId(static_cast<uint32_t>(rows.column_uint(0)))};
    const std::string used = rows.column_text(1);
    StateArchive archive(used);
    archive_used(archive, record.used);
    if (!archive.complete()) {
      return Error{ErrorCode::kDataLoss, "the GPU time of a tenant in the database makes no sense"};
    }
    records.push_back(std::move(record));
  }
}

Result<void> put_token(Database& database, const TokenRecord& record) {
  const Token& token = record.token;
  ASSIGN_OR_RETURN(Statement put,
                   database.prepare("INSERT INTO tokens (id, tenant, name, scopes, secret_sha256, "
                                    "created_at_ns, expires_at_ns, certificate) "
                                    "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 "
                                    "WHERE EXISTS (SELECT 1 FROM tenants WHERE id = ?2)"));
  put.bind_text(1, token.id).bind(2, uint64_t{token.tenant.value}).bind_text(3, token.name);
  put.bind_text(4, to_string(token.scopes)).bind_blob(5, record.secret_sha256);
  put.bind(6, int64_t{token.created_at.count()});
  bind_duration(put, 7, token.expires_at);
  put.bind_text(8, token.certificate);
  const auto inserted = put.run();
  if (!inserted.ok() && inserted.error().code == ErrorCode::kAlreadyExists) {
    return Error{ErrorCode::kAlreadyExists,
                 "there is a token for certificates with " + token.certificate + " already"};
  }
  RETURN_IF_ERROR(inserted);
  if (database.changes() == 0) return no_tenant();
  return {};
}

Result<void> remove_token(Database& database, const std::string& id) {
  ASSIGN_OR_RETURN(Statement remove, database.prepare("DELETE FROM tokens WHERE id = ?1"));
  remove.bind_text(1, id);
  RETURN_IF_ERROR(remove.run());
  if (database.changes() == 0) {
    return Error{ErrorCode::kNotFound, "there is no such token"};
  }
  return {};
}

Result<void> put_secret(Database& database, const SecretRecord& record) {
  ASSIGN_OR_RETURN(
      Statement put,
      database.prepare("INSERT OR REPLACE INTO secrets (tenant, name, sealed, changed_at_ns) "
                       "SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM tenants WHERE id = ?1)"));
  put.bind(1, uint64_t{record.tenant.value}).bind_text(2, record.name);
  put.bind_blob(3, record.sealed).bind(4, int64_t{record.changed_at.count()});
  RETURN_IF_ERROR(put.run());
  if (database.changes() == 0) return no_tenant();
  return {};
}

Result<void> remove_secret(Database& database, TenantId tenant, const std::string& name) {
  ASSIGN_OR_RETURN(Statement remove,
                   database.prepare("DELETE FROM secrets WHERE tenant = ?1 AND name = ?2"));
  remove.bind(1, uint64_t{tenant.value}).bind_text(2, name);
  RETURN_IF_ERROR(remove.run());
  if (database.changes() == 0) {
    return Error{ErrorCode::kNotFound, "there is no secret '" + name + "'"};
  }
  return {};
}

Result<std::vector<SecretRecord>> load_secrets(Database& database) {
  std::vector<SecretRecord> secrets;
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT tenant, name, sealed, changed_at_ns FROM secrets"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return secrets;
    secrets.push_back({.tenant = TenantId(static_cast<uint32_t>(rows.column_uint(0))),
                       .name = rows.column_text(1),
                       .sealed = rows.column_text(2),
                       .changed_at = Duration(rows.column_int(3))});
  }
}

Result<std::vector<TokenRecord>> load_tokens(Database& database) {
  std::vector<TokenRecord> tokens;
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT id, tenant, name, scopes, secret_sha256, "
                                    "created_at_ns, expires_at_ns, certificate FROM tokens "
                                    "ORDER BY created_at_ns, id"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return tokens;
    TokenRecord record;
    record.token.id = rows.column_text(0);
    record.token.tenant = TenantId(static_cast<uint32_t>(rows.column_uint(1)));
    record.token.name = rows.column_text(2);
    ASSIGN_OR_RETURN(record.token.scopes, scopes_from(rows.column_text(3)));
    record.secret_sha256 = rows.column_text(4);
    record.token.created_at = Duration(rows.column_int(5));
    record.token.expires_at = duration_of(rows, 6);
    record.token.certificate = rows.column_text(7);
    tokens.push_back(std::move(record));
  }
}

}  // namespace lambent::catalog
