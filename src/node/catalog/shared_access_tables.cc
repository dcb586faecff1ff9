#include "node/catalog/shared_access_tables.h"

namespace lambent::catalog {
namespace {

constexpr size_t kDigestBytes = 32;

// Serializes writers until the end of the transaction, and lets others see that something changed.
Result<void> next_access_version(Database& database) {
  return database.run("UPDATE shared_access SET version = version + 1 WHERE one = 1");
}

Result<void> put_tenant_unless_there(Database& database, const SharedTenant& tenant) {
  ASSIGN_OR_RETURN(Statement ask, database.prepare("SELECT 1 FROM shared_tenants WHERE name = ?1"));
  ask.bind_text(1, tenant.name);
  ASSIGN_OR_RETURN(const bool there, ask.next());
  return there ? Result<void>() : put_shared_tenant(database, tenant);
}

Result<std::vector<SharedToken>> read_tokens(Database& database) {
  std::vector<SharedToken> tokens;
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT id, tenant, name, scopes, secret_sha256, "
                                    "created_at_ns, expires_at_ns, certificate FROM shared_tokens "
                                    "ORDER BY created_at_ns, id"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return tokens;
    SharedToken shared{.tenant = rows.column_text(1), .token = {}, .secret_sha256 = {}};
    shared.token.id = rows.column_text(0);
    shared.token.name = rows.column_text(2);
    // One with a scope that only newer programs know is none here.
    const auto scopes = scopes_from(rows.column_text(3));
    if (!scopes.ok() || rows.column_text(4).size() != kDigestBytes) continue;
    shared.token.scopes = *scopes;
    shared.secret_sha256 = rows.column_text(4);
    shared.token.created_at = Duration(rows.column_int(5));
    if (!rows.column_is_null(6)) shared.token.expires_at = Duration(rows.column_int(6));
    shared.token.certificate = rows.column_text(7);
    tokens.push_back(std::move(shared));
  }
}

Result<std::vector<SharedSecret>> read_secrets(Database& database) {
  std::vector<SharedSecret> secrets;
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT tenant, name, sealed, changed_at_ns FROM "
                                    "shared_secrets ORDER BY tenant, name"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return secrets;
    secrets.push_back({.tenant = rows.column_text(0),
                       .name = rows.column_text(1),
                       .sealed = rows.column_text(2),
                       .changed_at = Duration(rows.column_int(3))});
  }
}

Result<void> compare_or_leave(Database& database, const std::string& proof) {
  ASSIGN_OR_RETURN(Statement ask,
                   database.prepare("SELECT key_proof FROM shared_access WHERE one = 1"));
  RETURN_IF_ERROR(ask.next());
  const std::string there = ask.column_text(0);
  if (there == proof) return {};
  if (!there.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this node's --cluster-key is not the one with which the secrets in the shared "
                 "catalog are sealed: start it with the same file as the other nodes"};
  }
  ASSIGN_OR_RETURN(Statement put,
                   database.prepare("UPDATE shared_access SET key_proof = ?1 WHERE one = 1"));
  put.bind_text(1, proof);
  return put.run();
}

}  // namespace

Result<void> settle_shared_key(Database& database, const std::string& proof) {
  RETURN_IF_ERROR(database.begin_exclusive());
  auto settled = compare_or_leave(database, proof);
  if (settled.ok()) settled = database.run("COMMIT");
  if (!settled.ok() && database.in_transaction()) (void)database.run("ROLLBACK").ok();
  return settled;
}

Result<void> put_shared_token(Database& database, const SharedToken& shared,
                              const SharedTenant& tenant) {
  RETURN_IF_ERROR(next_access_version(database));
  RETURN_IF_ERROR(put_tenant_unless_there(database, tenant));
  const Token& token = shared.token;
  // An answer to COMMIT that was lost makes it come twice.
  ASSIGN_OR_RETURN(Statement same, database.prepare("SELECT id FROM shared_tokens WHERE id = ?1 OR "
                                                    "(certificate <> '' AND certificate = ?2)"));
  same.bind_text(1, token.id).bind_text(2, token.certificate);
  ASSIGN_OR_RETURN(const bool there, same.next());
  if (there && same.column_text(0) == token.id) return {};
  if (there) {
    return Error{ErrorCode::kAlreadyExists,
                 "there is a token for certificates with " + token.certificate + " already"};
  }
  ASSIGN_OR_RETURN(Statement put,
                   database.prepare("INSERT INTO shared_tokens (id, tenant, name, scopes, "
                                    "secret_sha256, created_at_ns, expires_at_ns, certificate) "
                                    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"));
  put.bind_text(1, token.id).bind_text(2, shared.tenant).bind_text(3, token.name);
  put.bind_text(4, to_string(token.scopes)).bind_blob(5, shared.secret_sha256);
  put.bind(6, int64_t{token.created_at.count()});
  if (token.expires_at) {
    put.bind(7, int64_t{token.expires_at->count()});
  } else {
    put.bind_null(7);
  }
  put.bind_text(8, token.certificate);
  return put.run();
}

Result<void> remove_shared_token(Database& database, const std::string& id) {
  RETURN_IF_ERROR(next_access_version(database));
  ASSIGN_OR_RETURN(Statement remove, database.prepare("DELETE FROM shared_tokens WHERE id = ?1"));
  remove.bind_text(1, id);
  return remove.run();
}

Result<void> put_shared_secret(Database& database, const SharedSecret& secret,
                               const SharedTenant& tenant) {
  RETURN_IF_ERROR(next_access_version(database));
  RETURN_IF_ERROR(put_tenant_unless_there(database, tenant));
  ASSIGN_OR_RETURN(
      Statement put,
      database.prepare("INSERT INTO shared_secrets (tenant, name, sealed, changed_at_ns) "
                       "VALUES (?1, ?2, ?3, ?4) ON CONFLICT (tenant, name) DO UPDATE "
                       "SET sealed = ?3, changed_at_ns = ?4"));
  put.bind_text(1, secret.tenant).bind_text(2, secret.name).bind_blob(3, secret.sealed);
  put.bind(4, int64_t{secret.changed_at.count()});
  return put.run();
}

Result<void> remove_shared_secret(Database& database, const std::string& tenant,
                                  const std::string& name) {
  RETURN_IF_ERROR(next_access_version(database));
  ASSIGN_OR_RETURN(Statement remove,
                   database.prepare("DELETE FROM shared_secrets WHERE tenant = ?1 AND name = ?2"));
  remove.bind_text(1, tenant).bind_text(2, name);
  return remove.run();
}

Result<std::optional<SharedAccess>> read_shared_access(Database& database, uint64_t known) {
  SharedAccess access;
  ASSIGN_OR_RETURN(access.version, version_in(database, "shared_access"));
  if (access.version == known) return std::optional<SharedAccess>();
  // What changes while this reads has a later version, which the next look finds.
  ASSIGN_OR_RETURN(access.tokens, read_tokens(database));
  ASSIGN_OR_RETURN(access.secrets, read_secrets(database));
  return std::optional<SharedAccess>(std::move(access));
}

}  // namespace lambent::catalog
