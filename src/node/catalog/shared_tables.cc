#include "node/catalog/shared_tables.h"

#include <algorithm>

#include "node/catalog/invocation_archive.h"

namespace lambent::catalog {
namespace {

Error changed_elsewhere(const std::string& name) {
  return {ErrorCode::kAborted, "function '" + name +
                                   "' was changed through another node in the same moment; look "
                                   "at it and try again"};
}

Error no_shared_invocation(InvocationId id) {
  return {ErrorCode::kNotFound,
          "there is no asynchronous invocation " + to_string(id) + ", or it has expired"};
}

// Serializes writers of what nodes copy, until the end of the transaction.
Result<void> lock_version(Database& database) {
  return database.run("UPDATE shared_version SET version = version WHERE one = 1");
}

Result<void> next_version(Database& database) {
  return database.run("UPDATE shared_version SET version = version + 1 WHERE one = 1");
}

// The digest that the catalog has; empty: it has no such function.
Result<std::string> digest_of(Database& database, const std::string& tenant,
                              const std::string& name) {
  ASSIGN_OR_RETURN(Statement ask, database.prepare("SELECT digest FROM shared_functions WHERE "
                                                   "tenant = ?1 AND name = ?2"));
  ask.bind_text(1, tenant).bind_text(2, name);
  ASSIGN_OR_RETURN(const bool there, ask.next());
  return there ? ask.column_text(0) : std::string();
}

Result<void> drop_packages(Database& database) {
  RETURN_IF_ERROR(drop_revisions_of_none(database));
  return database.run(
      "DELETE FROM shared_packages WHERE sha256 NOT IN (SELECT code_sha256 FROM shared_functions "
      "UNION SELECT code_sha256 FROM shared_revisions)");
}

Result<void> put_package(Database& database, const std::string& sha256,
                         const std::function<Result<std::string>()>& package) {
  if (sha256.empty()) return {};
  ASSIGN_OR_RETURN(Statement ask,
                   database.prepare("SELECT 1 FROM shared_packages WHERE sha256 = ?1"));
  ask.bind_text(1, sha256);
  ASSIGN_OR_RETURN(const bool there, ask.next());
  if (there) return {};
  ASSIGN_OR_RETURN(const std::string content, package());
  ASSIGN_OR_RETURN(Statement insert, database.prepare("INSERT INTO shared_packages (sha256, "
                                                      "content) VALUES (?1, ?2)"));
  insert.bind_text(1, sha256).bind_blob(2, content);
  return insert.run();
}

// What is kept beside a function: its versions and aliases. Names are ASCII, so that bytes are
// characters.
Result<void> drop_qualified(Database& database, const std::string& tenant,
                            const std::string& function) {
  const std::string prefix = function + ":";
  ASSIGN_OR_RETURN(Statement remove,
                   database.prepare("DELETE FROM shared_functions WHERE tenant = ?1 AND "
                                    "substr(name, 1, CAST(?2 AS INTEGER)) = ?3"));
  remove.bind_text(1, tenant).bind(2, uint64_t{prefix.size()}).bind_text(3, prefix);
  RETURN_IF_ERROR(remove.run());
  RETURN_IF_ERROR(drop_revisions(database, tenant, function));
  ASSIGN_OR_RETURN(Statement forget,
                   database.prepare("DELETE FROM shared_version_numbers WHERE tenant = ?1 AND "
                                    "function = ?2"));
  forget.bind_text(1, tenant).bind_text(2, function);
  return forget.run();
}

Result<void> insert_function(Database& database, const SharedFunction& function) {
  ASSIGN_OR_RETURN(
      Statement put,
      database.prepare("INSERT INTO shared_functions (tenant, name, digest, code_sha256, copy) "
                       "VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (tenant, name) DO UPDATE SET "
                       "digest = ?3, code_sha256 = ?4, copy = ?5"));
  put.bind_text(1, function.tenant).bind_text(2, function.name).bind_text(3, function.digest);
  put.bind_text(4, function.code_sha256).bind_text(5, function.copy);
  return put.run();
}

Result<uint64_t> last_version(Database& database, const std::string& tenant,
                              const std::string& function) {
  ASSIGN_OR_RETURN(Statement ask,
                   database.prepare("SELECT last FROM shared_version_numbers WHERE tenant = ?1 AND "
                                    "function = ?2"));
  ask.bind_text(1, tenant).bind_text(2, function);
  ASSIGN_OR_RETURN(const bool there, ask.next());
  return there ? ask.column_uint(0) : uint64_t{0};
}

Result<void> note_last_version(Database& database, const std::string& tenant,
                               const std::string& function, uint64_t last) {
  ASSIGN_OR_RETURN(Statement note,
                   database.prepare("INSERT INTO shared_version_numbers (tenant, function, last) "
                                    "VALUES (?1, ?2, ?3) ON CONFLICT (tenant, function) DO UPDATE "
                                    "SET last = ?3"));
  note.bind_text(1, tenant).bind_text(2, function).bind(3, last);
  return note.run();
}

Result<void> check_brought(Database& database) {
  ASSIGN_OR_RETURN(const bool brought, versions_are_brought(database));
  if (brought) return {};
  return Error{ErrorCode::kUnavailable,
               "the first node of the cluster has not yet brought its versions into the shared "
               "catalog; try again once it is up, with this version of Lambent"};
}

bool is_qualified(const std::string& name) { return name.find(':') != std::string::npos; }

// Of an instant that is bound as its distance from now.
std::string from_now(const Database& database, const std::string& parameter) {
  return "(CAST(" + parameter + " AS BIGINT) + " + std::string(database.now_sql()) + ")";
}

Result<SharedDeployment> deployment_of(Database& database, const SharedFunction& function) {
  return is_qualified(function.name) ? SharedDeployment() : note_revision(database, function);
}

// What a program that knows no revisions put there can be gone back to as well.
Result<void> note_what_is_there(Database& database, const SharedFunction& next) {
  if (is_qualified(next.name)) return {};
  SharedFunction there{.tenant = next.tenant, .name = next.name};
  {
    ASSIGN_OR_RETURN(Statement ask,
                     database.prepare("SELECT f.digest, f.code_sha256, f.copy, "
                                      "coalesce(length(p.content), 0) FROM shared_functions f "
                                      "LEFT JOIN shared_packages p ON p.sha256 = f.code_sha256 "
                                      "WHERE f.tenant = ?1 AND f.name = ?2"));
    ask.bind_text(1, next.tenant).bind_text(2, next.name);
    RETURN_IF_ERROR(ask.next());
    there.digest = ask.column_text(0);
    there.code_sha256 = ask.column_text(1);
    there.copy = ask.column_text(2);
    there.code_bytes = ask.column_uint(3);
  }
  there.revision = next.revision > 0 ? next.revision - 1 : 0;
  const auto noted = note_revision(database, there);
  return noted.ok() ? Result<void>() : noted.error();
}

// In the order of read_claimed().
std::string pending_columns(const Database& database) {
  return "tenant, id, function, idempotency_key, submitted_at_ns, attempts, request, runs, "
         "due_at_ns, chain, last_failure, " +
         std::string(database.now_sql());
}

Result<SharedInvocation> read_claimed(const Statement& row, Duration now) {
  const auto here = [&](int column) {
    return now + Duration(row.column_int(column) - row.column_int(11));
  };
  SharedInvocation invocation;
  invocation.tenant = row.column_text(0);
  invocation.request.id = id_of_bytes(row.column_text(1));
  invocation.request.function.name = row.column_text(2);
  invocation.request.idempotency_key = row.column_text(3);
  invocation.submitted_at = here(4);
  invocation.attempts = static_cast<unsigned>(row.column_uint(5));
  invocation.runs = static_cast<unsigned>(row.column_uint(7));
  if (row.column_int(8) != 0) invocation.due_at = here(8);
  invocation.chain = static_cast<unsigned>(row.column_uint(9));
  invocation.last_failure = row.column_text(10);
  invocation.request.kind = InvocationKind::kAsynchronous;
  RETURN_IF_ERROR(read_request(row.column_text(6), invocation.request));
  return invocation;
}

}  // namespace

// ---- What nodes copy

Result<SharedDeployment> put_shared_function(Database& database, const SharedFunction& function,
                                             const std::optional<Expected>& expected,
                                             const std::function<Result<std::string>()>& package) {
  RETURN_IF_ERROR(lock_version(database));
  ASSIGN_OR_RETURN(const std::string there, digest_of(database, function.tenant, function.name));
  if (there == function.digest) return deployment_of(database, function);
  const bool may =
      expected && (there == expected->digest || (expected->or_nothing && there.empty()));
  if (!may) return changed_elsewhere(function.name);
  RETURN_IF_ERROR(next_version(database));
  // A program that does not know of them may have removed one of this name before.
  const bool is_first = there.empty() && !is_qualified(function.name);
  if (is_first) RETURN_IF_ERROR(drop_qualified(database, function.tenant, function.name));
  if (!there.empty()) RETURN_IF_ERROR(note_what_is_there(database, function));
  RETURN_IF_ERROR(put_package(database, function.code_sha256, package));
  RETURN_IF_ERROR(insert_function(database, function));
  ASSIGN_OR_RETURN(const SharedDeployment deployment, deployment_of(database, function));
  RETURN_IF_ERROR(drop_packages(database));
  return deployment;
}

// ---- Versions and aliases

Result<uint64_t> publish_shared(Database& database, const SharedVersion& publication) {
  const SharedFunction& version = publication.version;
  RETURN_IF_ERROR(lock_version(database));
  RETURN_IF_ERROR(check_brought(database));
  ASSIGN_OR_RETURN(const std::string there, digest_of(database, version.tenant, version.name));
  if (there.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the other nodes of the cluster do not know function '" + version.name +
                     "', which this one had before it joined; deploy it again first"};
  }
  if (there != publication.function_digest) return changed_elsewhere(version.name);
  ASSIGN_OR_RETURN(const uint64_t used, last_version(database, version.tenant, version.name));
  const uint64_t last = std::max(used, publication.last_here);
  const uint64_t number = publication.number.value_or(last + 1);
  if (number <= last) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the number " + std::to_string(number) +
                     " was used, or one above it: numbers of versions only grow, and a version "
                     "never changes"};
  }
  RETURN_IF_ERROR(next_version(database));
  RETURN_IF_ERROR(note_last_version(database, version.tenant, version.name, number));
  SharedFunction record = version;
  record.name += ":" + std::to_string(number);
  RETURN_IF_ERROR(insert_function(database, record));
  return number;
}

Result<void> put_shared_alias(Database& database, const SharedFunction& alias,
                              const std::string& expected,
                              const std::vector<std::string>& versions) {
  RETURN_IF_ERROR(lock_version(database));
  RETURN_IF_ERROR(check_brought(database));
  for (const std::string& version : versions) {
    ASSIGN_OR_RETURN(const std::string there, digest_of(database, alias.tenant, version));
    if (!there.empty()) continue;
    return Error{ErrorCode::kNotFound,
                 "'" + version +
                     "' is not in the catalog of the cluster: "
                     "it was removed through another node, or this one had it "
                     "before it joined"};
  }
  const auto put = put_shared_function(database, alias, Expected{.digest = expected}, {});
  return put.ok() ? Result<void>() : put.error();
}

Result<void> remove_shared_version(Database& database, const std::string& tenant,
                                   const std::string& name, const std::string& expected,
                                   const std::function<bool(const std::string& copy)>& needs_it) {
  RETURN_IF_ERROR(lock_version(database));
  const std::string prefix = name.substr(0, name.find(':') + 1);
  {
    ASSIGN_OR_RETURN(
        Statement ask,
        database.prepare("SELECT name, copy FROM shared_functions WHERE tenant = ?1 "
                         "AND substr(name, 1, CAST(?2 AS INTEGER)) = ?3 AND name <> ?4"));
    ask.bind_text(1, tenant).bind(2, uint64_t{prefix.size()}).bind_text(3, prefix);
    ask.bind_text(4, name);
    for (;;) {
      ASSIGN_OR_RETURN(const bool more, ask.next());
      if (!more) break;
      if (!needs_it(ask.column_text(1))) continue;
      return Error{ErrorCode::kFailedPrecondition,
                   "version '" + name + "' is needed by the alias '" + ask.column_text(0) +
                       "', which another node made; give that another version first"};
    }
  }
  return remove_shared_function(database, tenant, name, expected);
}

Result<bool> versions_are_brought(Database& database) {
  ASSIGN_OR_RETURN(Statement ask, database.prepare("SELECT brought FROM shared_versions_brought"));
  ASSIGN_OR_RETURN(const bool there, ask.next());
  return there && ask.column_uint(0) != 0;
}

Result<void> bring_versions(Database& database, const BroughtVersions& brought,
                            const std::function<Result<std::string>(const std::string&)>& package) {
  RETURN_IF_ERROR(lock_version(database));
  ASSIGN_OR_RETURN(const bool done, versions_are_brought(database));
  if (done) return {};
  RETURN_IF_ERROR(next_version(database));
  for (const SharedFunction& each : brought.all) {
    const std::string function = each.name.substr(0, each.name.find(':'));
    ASSIGN_OR_RETURN(const std::string there, digest_of(database, each.tenant, function));
    if (there.empty()) continue;
    RETURN_IF_ERROR(
        put_package(database, each.code_sha256, [&] { return package(each.code_sha256); }));
    RETURN_IF_ERROR(insert_function(database, each));
  }
  for (const auto& [function, last] : brought.last) {
    RETURN_IF_ERROR(note_last_version(database, function.first, function.second, last));
  }
  return database.run("UPDATE shared_versions_brought SET brought = 1 WHERE one = 1");
}

Result<void> remove_shared_function(Database& database, const std::string& tenant,
                                    const std::string& name, const std::string& expected) {
  RETURN_IF_ERROR(lock_version(database));
  ASSIGN_OR_RETURN(const std::string there, digest_of(database, tenant, name));
  if (there.empty()) return {};
  if (there != expected) return changed_elsewhere(name);
  RETURN_IF_ERROR(next_version(database));
  ASSIGN_OR_RETURN(
      Statement remove,
      database.prepare("DELETE FROM shared_functions WHERE tenant = ?1 AND name = ?2"));
  remove.bind_text(1, tenant).bind_text(2, name);
  RETURN_IF_ERROR(remove.run());
  if (!is_qualified(name)) RETURN_IF_ERROR(drop_qualified(database, tenant, name));
  return drop_packages(database);
}

Result<void> put_shared_tenant(Database& database, const SharedTenant& tenant) {
  RETURN_IF_ERROR(lock_version(database));
  ASSIGN_OR_RETURN(Statement same, database.prepare("SELECT 1 FROM shared_tenants WHERE name = ?1 "
                                                    "AND settings = ?2"));
  same.bind_text(1, tenant.name).bind_text(2, tenant.settings);
  ASSIGN_OR_RETURN(const bool is_same, same.next());
  if (is_same) return {};
  RETURN_IF_ERROR(next_version(database));
  ASSIGN_OR_RETURN(Statement put,
                   database.prepare("INSERT INTO shared_tenants (name, settings) VALUES (?1, ?2) "
                                    "ON CONFLICT (name) DO UPDATE SET settings = ?2"));
  put.bind_text(1, tenant.name).bind_text(2, tenant.settings);
  return put.run();
}

Result<void> remove_shared_tenant(Database& database, const std::string& name) {
  // Its tokens and secrets go with it.
  RETURN_IF_ERROR(database.run("UPDATE shared_access SET version = version + 1 WHERE one = 1"));
  RETURN_IF_ERROR(next_version(database));
  ASSIGN_OR_RETURN(Statement ask,
                   database.prepare("SELECT 1 FROM shared_functions WHERE tenant = ?1 LIMIT 1"));
  ask.bind_text(1, name);
  ASSIGN_OR_RETURN(const bool has_functions, ask.next());
  if (has_functions) {
    return Error{ErrorCode::kFailedPrecondition,
                 "tenant '" + name + "' has functions; remove them first"};
  }
  ASSIGN_OR_RETURN(Statement remove, database.prepare("DELETE FROM shared_tenants WHERE name = "
                                                      "?1"));
  remove.bind_text(1, name);
  RETURN_IF_ERROR(remove.run());
  RETURN_IF_ERROR(drop_revision_numbers(database, name));
  return drop_packages(database);
}

Result<uint64_t> version_in(Database& database, const std::string& table) {
  ASSIGN_OR_RETURN(Statement ask, database.prepare("SELECT version FROM " + table));
  RETURN_IF_ERROR(ask.next());
  return ask.column_uint(0);
}

Result<std::optional<SharedContents>> read_shared(Database& database, uint64_t known) {
  SharedContents contents;
  ASSIGN_OR_RETURN(contents.version, version_in(database, "shared_version"));
  if (contents.version == known) return std::optional<SharedContents>();
  // What changes while this reads has a later version, which the next look finds.
  ASSIGN_OR_RETURN(Statement tenants,
                   database.prepare("SELECT name, settings FROM shared_tenants ORDER BY name"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, tenants.next());
    if (!more) break;
    contents.tenants.push_back({tenants.column_text(0), tenants.column_text(1)});
  }
  ASSIGN_OR_RETURN(Statement functions,
                   database.prepare("SELECT f.tenant, f.name, f.digest, f.code_sha256, "
                                    "coalesce(r.revision, 0), coalesce(r.deployed_at_ns, 0) FROM "
                                    "shared_functions f LEFT JOIN shared_revisions r ON r.tenant = "
                                    "f.tenant AND r.function = f.name AND r.digest = f.digest AND "
                                    "r.revision = (SELECT max(revision) FROM shared_revisions l "
                                    "WHERE l.tenant = f.tenant AND l.function = f.name) ORDER BY "
                                    "f.tenant, f.name"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, functions.next());
    if (!more) break;
    contents.functions.push_back({.tenant = functions.column_text(0),
                                  .name = functions.column_text(1),
                                  .digest = functions.column_text(2),
                                  .code_sha256 = functions.column_text(3),
                                  .copy = {},
                                  .revision = functions.column_uint(4),
                                  .deployed_at = Duration(functions.column_int(5))});
  }
  return std::optional<SharedContents>(std::move(contents));
}

Result<std::string> read_shared_function(Database& database, const std::string& tenant,
                                         const std::string& name) {
  ASSIGN_OR_RETURN(Statement ask, database.prepare("SELECT copy FROM shared_functions WHERE "
                                                   "tenant = ?1 AND name = ?2"));
  ask.bind_text(1, tenant).bind_text(2, name);
  ASSIGN_OR_RETURN(const bool there, ask.next());
  if (there) return ask.column_text(0);
  return Error{ErrorCode::kNotFound, "function '" + name + "' does not exist"};
}

Result<std::string> read_shared_package(Database& database, const std::string& sha256) {
  ASSIGN_OR_RETURN(Statement ask,
                   database.prepare("SELECT content FROM shared_packages WHERE sha256 = ?1"));
  ask.bind_text(1, sha256);
  ASSIGN_OR_RETURN(const bool there, ask.next());
  if (there) return ask.column_text(0);
  return Error{ErrorCode::kNotFound, "the catalog has no package " + sha256};
}

// ---- Asynchronous invocations

Result<std::optional<InvocationId>> find_shared_async(Database& database, const std::string& tenant,
                                                      const std::string& idempotency_key) {
  if (idempotency_key.empty()) return std::optional<InvocationId>();
  ASSIGN_OR_RETURN(Statement find,
                   database.prepare("SELECT id FROM shared_invocations WHERE tenant = ?1 AND "
                                    "idempotency_key = ?2 AND idempotency_key <> ''"));
  find.bind_text(1, tenant).bind_text(2, idempotency_key);
  ASSIGN_OR_RETURN(const bool found, find.next());
  if (!found) return std::optional<InvocationId>();
  return std::optional<InvocationId>(id_of_bytes(find.column_text(0)));
}

Result<InvocationId> put_shared_async(Database& database, const Owner& owner,
                                      const SharedInvocation& invocation, Duration now) {
  const InvocationRequest& request = invocation.request;
  ASSIGN_OR_RETURN(const auto earlier,
                   find_shared_async(database, invocation.tenant, request.idempotency_key));
  if (earlier) return *earlier;
  // An answer to COMMIT that was lost makes it come twice.
  ASSIGN_OR_RETURN(
      Statement insert,
      database.prepare(
          "INSERT INTO shared_invocations (tenant, id, function, "
          "idempotency_key, submitted_at_ns, attempts, state, owner, "
          "life, request, chain) VALUES (?1, ?2, ?3, ?4, " +
          from_now(database, "?5") +
          ", ?6, 'queued', ?7, ?8, ?9, ?10) ON CONFLICT (tenant, id) DO UPDATE SET state = "
          "shared_invocations.state WHERE shared_invocations.life = "
          "?8"));
  insert.bind_text(1, invocation.tenant).bind_blob(2, bytes_of_id(request.id));
  insert.bind_text(3, request.function.name).bind_text(4, request.idempotency_key);
  insert.bind(5, (invocation.submitted_at - now).count()).bind(6, uint64_t{invocation.attempts});
  insert.bind_text(7, owner.node).bind_text(8, owner.life);
  insert.bind_blob(9, bytes_of_request(request)).bind(10, uint64_t{invocation.chain});
  RETURN_IF_ERROR(insert.run());
  if (database.changes() == 1) return request.id;
  return Error{ErrorCode::kAlreadyExists,
               "there is already an asynchronous invocation " + to_string(request.id)};
}

Result<void> begin_shared_async(Database& database, const Owner& owner, const std::string& tenant,
                                InvocationId id) {
  ASSIGN_OR_RETURN(
      Statement update,
      database.prepare("UPDATE shared_invocations SET state = 'running', attempts = attempts + 1 "
                       "WHERE tenant = ?1 AND id = ?2 AND state <> 'done' AND owner = ?3 AND life "
                       "= ?4"));
  update.bind_text(1, tenant).bind_blob(2, bytes_of_id(id));
  update.bind_text(3, owner.node).bind_text(4, owner.life);
  RETURN_IF_ERROR(update.run());
  if (database.changes() == 0) return no_shared_invocation(id);
  return {};
}

Result<void> retry_shared_async(Database& database, const Owner& owner, const std::string& tenant,
                                InvocationId id, const AsyncRetry& retry, Duration now) {
  ASSIGN_OR_RETURN(
      Statement update,
      database.prepare("UPDATE shared_invocations SET state = 'queued', attempts = 0, runs = ?5, "
                       "due_at_ns = " +
                       from_now(database, "?6") +
                       ", last_failure = ?7 WHERE tenant = ?1 AND id = ?2 AND state "
                       "<> 'done' AND owner = ?3 AND life = ?4"));
  update.bind_text(1, tenant).bind_blob(2, bytes_of_id(id));
  update.bind_text(3, owner.node).bind_text(4, owner.life);
  update.bind(5, uint64_t{retry.runs}).bind(6, (retry.due_at - now).count());
  update.bind_text(7, retry.last_failure);
  RETURN_IF_ERROR(update.run());
  if (database.changes() == 0) return no_shared_invocation(id);
  return {};
}

Result<std::optional<SharedInvocation>> find_shared_pending(Database& database, const Owner& owner,
                                                            const std::string& tenant,
                                                            InvocationId id, Duration now) {
  ASSIGN_OR_RETURN(Statement ask,
                   database.prepare("SELECT " + pending_columns(database) +
                                    " FROM shared_invocations WHERE tenant = ?1 AND id = ?2 AND "
                                    "state <> 'done' AND owner = ?3 AND life = ?4"));
  ask.bind_text(1, tenant).bind_blob(2, bytes_of_id(id));
  ask.bind_text(3, owner.node).bind_text(4, owner.life);
  ASSIGN_OR_RETURN(const bool there, ask.next());
  if (!there) return std::optional<SharedInvocation>();
  ASSIGN_OR_RETURN(SharedInvocation found, read_claimed(ask, now));
  return std::optional<SharedInvocation>(std::move(found));
}

AsyncInvocation pending_of(SharedInvocation invocation) {
  AsyncInvocation pending;
  pending.request = std::move(invocation.request);
  pending.submitted_at = invocation.submitted_at;
  pending.attempts = invocation.attempts;
  pending.runs = invocation.runs;
  pending.due_at = invocation.due_at;
  pending.chain = invocation.chain;
  pending.last_failure = std::move(invocation.last_failure);
  return pending;
}

Result<void> finish_shared_async(Database& database, const Owner& owner, const std::string& tenant,
                                 const InvocationResult& result, Duration expires_at,
                                 const std::optional<AsyncSuccessor>& successor, Duration now) {
  if (successor) {
    ASSIGN_OR_RETURN(const auto source,
                     find_shared_pending(database, owner, tenant, result.id, now));
    if (!source) return no_shared_invocation(result.id);
    SharedInvocation next;
    next.tenant = tenant;
    next.request.id = successor->id;
    next.request.function.name = successor->name.name;
    next.request.payload = successor->payload(source->request.payload);
    next.submitted_at = successor->submitted_at;
    next.chain = successor->chain;
    const auto kept = put_shared_async(database, owner, next, now);
    if (!kept.ok()) return kept.error();
  }
  ASSIGN_OR_RETURN(
      Statement update,
      database.prepare("UPDATE shared_invocations SET state = 'done', request = ?5, result = ?6, "
                       "expires_at_ns = " +
                       from_now(database, "?7") +
                       ", runs = ?8, destination = ?9, beside = ?10 WHERE tenant = ?1 AND id = ?2 "
                       "AND state <> 'done' AND owner = ?3 AND life = ?4"));
  update.bind_text(1, tenant).bind_blob(2, bytes_of_id(result.id));
  update.bind_text(3, owner.node).bind_text(4, owner.life);
  update.bind_blob(5, "").bind_blob(6, bytes_of_result(result));
  update.bind(7, (expires_at - now).count());
  update.bind(8, uint64_t{result.runs}).bind_text(9, result.destination);
  update.bind(10, bits_of(result.beside));
  RETURN_IF_ERROR(update.run());
  if (database.changes() == 0) return no_shared_invocation(result.id);
  return {};
}

Result<std::optional<InvocationResult>> read_shared_result(Database& database,
                                                           const std::string& tenant,
                                                           InvocationId id) {
  ASSIGN_OR_RETURN(
      Statement ask,
      database.prepare("SELECT result, runs, destination, beside FROM shared_invocations "
                       "WHERE tenant = ?1 AND id = ?2"));
  ask.bind_text(1, tenant).bind_blob(2, bytes_of_id(id));
  ASSIGN_OR_RETURN(const bool there, ask.next());
  if (!there) return no_shared_invocation(id);
  if (ask.column_is_null(0)) return std::optional<InvocationResult>();
  ASSIGN_OR_RETURN(InvocationResult result, read_result(ask.column_text(0)));
  result.id = id;
  result.runs = static_cast<unsigned>(ask.column_uint(1));
  result.destination = ask.column_text(2);
  const uint64_t beside = ask.column_uint(3);
  if (beside != 0) result.beside = devices_of(beside);
  return std::optional<InvocationResult>(std::move(result));
}

Result<Duration> time_of(Database& database) {
  ASSIGN_OR_RETURN(Statement ask, database.prepare("SELECT " + std::string(database.now_sql())));
  RETURN_IF_ERROR(ask.next());
  return Duration(ask.column_int(0));
}

Result<uint64_t> expire_shared_results(Database& database) {
  ASSIGN_OR_RETURN(Statement remove, database.prepare("DELETE FROM shared_invocations WHERE state "
                                                      "= 'done' AND expires_at_ns <= " +
                                                      std::string(database.now_sql())));
  RETURN_IF_ERROR(remove.run());
  return static_cast<uint64_t>(database.changes());
}

Result<void> give_shared(Database& database, const Owner& owner, const std::string& tenant,
                         InvocationId id, const std::string& node) {
  ASSIGN_OR_RETURN(
      Statement update,
      database.prepare("UPDATE shared_invocations SET owner = ?5, life = '' WHERE tenant = ?1 AND "
                       "id = ?2 AND state <> 'done' AND owner = ?3 AND life = ?4"));
  update.bind_text(1, tenant).bind_blob(2, bytes_of_id(id));
  update.bind_text(3, owner.node).bind_text(4, owner.life).bind_text(5, node);
  RETURN_IF_ERROR(update.run());
  if (database.changes() == 0) return no_shared_invocation(id);
  return {};
}

Result<std::vector<std::string>> owners_of_pending(Database& database, const std::string& self) {
  std::vector<std::string> owners;
  ASSIGN_OR_RETURN(Statement ask,
                   database.prepare("SELECT DISTINCT owner FROM shared_invocations WHERE state <> "
                                    "'done' AND owner <> ?1"));
  ask.bind_text(1, self);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, ask.next());
    if (!more) return owners;
    owners.push_back(ask.column_text(0));
  }
}

Result<void> give_up_unheld(Database& database, const Owner& owner, const HeldInvocations& held) {
  std::vector<std::pair<std::string, std::string>> unheld;
  {
    ASSIGN_OR_RETURN(Statement ask,
                     database.prepare("SELECT tenant, id FROM shared_invocations WHERE state <> "
                                      "'done' AND owner = ?1 AND life = ?2"));
    ask.bind_text(1, owner.node).bind_text(2, owner.life);
    for (;;) {
      ASSIGN_OR_RETURN(const bool more, ask.next());
      if (!more) break;
      std::pair<std::string, std::string> each{ask.column_text(0), ask.column_text(1)};
      if (!held.contains({each.first, id_of_bytes(each.second)})) unheld.push_back(std::move(each));
    }
  }
  for (const auto& [tenant, id] : unheld) {
    ASSIGN_OR_RETURN(Statement update,
                     database.prepare("UPDATE shared_invocations SET life = '' WHERE tenant = ?1 "
                                      "AND id = ?2"));
    update.bind_text(1, tenant).bind_blob(2, id);
    RETURN_IF_ERROR(update.run());
  }
  return {};
}

Result<std::vector<TenantFunction>> functions_to_claim(Database& database, const Owner& owner,
                                                       const std::vector<std::string>& lost,
                                                       const TenantFunction& after, size_t most) {
  constexpr size_t kFirstLost = 6;
  std::string of_lost;
  for (size_t node = 0; node < lost.size(); ++node) {
    of_lost += " OR owner = ?" + std::to_string(kFirstLost + node);
  }
  ASSIGN_OR_RETURN(
      Statement ask,
      database.prepare("SELECT DISTINCT tenant, function FROM shared_invocations WHERE state <> "
                       "'done' AND ((owner = ?1 AND life <> ?2)" +
                       of_lost +
                       ") AND (tenant, function) > (?3, ?4) ORDER BY tenant, function LIMIT ?5"));
  ask.bind_text(1, owner.node).bind_text(2, owner.life);
  ask.bind_text(3, after.first).bind_text(4, after.second).bind(5, uint64_t{most});
  for (size_t node = 0; node < lost.size(); ++node) {
    ask.bind_text(static_cast<int>(kFirstLost + node), lost[node]);
  }
  std::vector<TenantFunction> functions;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, ask.next());
    if (!more) return functions;
    functions.emplace_back(ask.column_text(0), ask.column_text(1));
  }
}

Result<std::vector<SharedInvocation>> claim_shared(Database& database, const Owner& owner,
                                                   const std::vector<std::string>& lost,
                                                   const std::vector<TenantFunction>& functions,
                                                   size_t most, Duration now) {
  std::vector<SharedInvocation> claimed;
  if (functions.empty()) return claimed;
  std::vector<std::string> without_process{owner.node};
  for (const std::string& node : lost) {
    ASSIGN_OR_RETURN(const bool lives, database.is_leased(node));
    if (!lives) without_process.push_back(node);
  }
  constexpr size_t kFirstFunction = 5;
  std::string of_these;
  for (size_t each = 0; each < functions.size(); ++each) {
    of_these += (each == 0 ? "(?" : ", (?") + std::to_string(kFirstFunction + 2 * each) + ", ?" +
                std::to_string(kFirstFunction + 2 * each + 1) + ")";
  }
  for (const std::string& node : without_process) {
    ASSIGN_OR_RETURN(
        Statement claim,
        database.prepare("UPDATE shared_invocations SET owner = ?1, life = ?2 WHERE state <> "
                         "'done' AND owner = ?3 AND life <> ?2 AND (tenant, id) IN (SELECT tenant, "
                         "id FROM shared_invocations WHERE state <> 'done' AND owner = ?3 AND life "
                         "<> ?2 AND (tenant, function) IN (VALUES " +
                         of_these + ") ORDER BY submitted_at_ns LIMIT ?4) RETURNING " +
                         pending_columns(database)));
    claim.bind_text(1, owner.node).bind_text(2, owner.life).bind_text(3, node);
    claim.bind(4, uint64_t{most - claimed.size()});
    int parameter = kFirstFunction;
    for (const auto& [tenant, function] : functions) {
      claim.bind_text(parameter, tenant).bind_text(parameter + 1, function);
      parameter += 2;
    }
    for (;;) {
      ASSIGN_OR_RETURN(const bool more, claim.next());
      if (!more) break;
      ASSIGN_OR_RETURN(claimed.emplace_back(), read_claimed(claim, now));
    }
    if (claimed.size() == most) break;
  }
  std::ranges::sort(claimed, {}, &SharedInvocation::submitted_at);
  return claimed;
}

}  // namespace lambent::catalog
