#include "node/catalog/shared_schema.h"

#include "node/catalog/migrations.h"

namespace lambent::catalog {
namespace {

// Functions are what nodes tell each other of them: one text, and a digest of it. The version of
// the catalog grows with every change of what nodes copy.
constexpr const char* kCopies = R"sql(
CREATE TABLE shared_version (
  one     BIGINT PRIMARY KEY,
  version BIGINT NOT NULL
);
INSERT INTO shared_version (one, version) VALUES (1, 0);
CREATE TABLE shared_functions (
  tenant      TEXT NOT NULL,
  name        TEXT NOT NULL,
  digest      TEXT NOT NULL,
  code_sha256 TEXT NOT NULL,
  copy        TEXT NOT NULL,
  PRIMARY KEY (tenant, name)
);
CREATE TABLE shared_packages (
  sha256  TEXT  NOT NULL PRIMARY KEY,
  content BYTEA NOT NULL
);
CREATE TABLE shared_tenants (
  name     TEXT NOT NULL PRIMARY KEY,
  settings TEXT NOT NULL
);
)sql";

// An invocation is its owner's to run. `life` is the process of that node that has it.
constexpr const char* kInvocations = R"sql(
CREATE TABLE shared_invocations (
  tenant          TEXT   NOT NULL,
  id              BYTEA  NOT NULL,
  function        TEXT   NOT NULL,
  idempotency_key TEXT   NOT NULL,
  submitted_at_ns BIGINT NOT NULL,
  attempts        BIGINT NOT NULL,
  state           TEXT   NOT NULL CHECK (state IN ('queued', 'running', 'done')),
  owner           TEXT   NOT NULL,
  life            TEXT   NOT NULL,
  request         BYTEA  NOT NULL,
  result          BYTEA,
  expires_at_ns   BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX shared_repeats ON shared_invocations (tenant, idempotency_key)
  WHERE idempotency_key <> '';
CREATE INDEX shared_pending ON shared_invocations (owner, life) WHERE state <> 'done';
CREATE INDEX shared_expiry ON shared_invocations (expires_at_ns) WHERE state = 'done';
)sql";

// What goes with a tenant goes when a program that does not know of it removes the tenant.
constexpr const char* kAccess = R"sql(
CREATE TABLE shared_access (
  one       BIGINT PRIMARY KEY,
  version   BIGINT NOT NULL,
  key_proof TEXT   NOT NULL
);
INSERT INTO shared_access (one, version, key_proof) VALUES (1, 0, '');
CREATE TABLE shared_tokens (
  id            TEXT   NOT NULL PRIMARY KEY,
  tenant        TEXT   NOT NULL REFERENCES shared_tenants (name) ON DELETE CASCADE,
  name          TEXT   NOT NULL,
  scopes        TEXT   NOT NULL,
  secret_sha256 BYTEA  NOT NULL,
  created_at_ns BIGINT NOT NULL,
  expires_at_ns BIGINT,
  certificate   TEXT   NOT NULL
);
CREATE UNIQUE INDEX shared_token_certificates ON shared_tokens (certificate)
  WHERE certificate <> '';
CREATE TABLE shared_secrets (
  tenant        TEXT   NOT NULL REFERENCES shared_tenants (name) ON DELETE CASCADE,
  name          TEXT   NOT NULL,
  sealed        BYTEA  NOT NULL,
  changed_at_ns BIGINT NOT NULL,
  PRIMARY KEY (tenant, name)
);
)sql";

// Versions and aliases are rows of shared_functions. Numbers of versions are never used again. What
// the first node had before the others knew of versions is brought here once.
constexpr const char* kSharedVersions = R"sql(
CREATE TABLE shared_version_numbers (
  tenant   TEXT   NOT NULL,
  function TEXT   NOT NULL,
  last     BIGINT NOT NULL,
  PRIMARY KEY (tenant, function)
);
CREATE TABLE shared_versions_brought (
  one     BIGINT PRIMARY KEY,
  brought BIGINT NOT NULL
);
INSERT INTO shared_versions_brought (one, brought) VALUES (1, 0);
)sql";

// As in a catalog of one node. A program that does not know of it runs what is not due yet.
constexpr const char* kSharedFollowUps = R"sql(
ALTER TABLE shared_invocations ADD COLUMN runs BIGINT NOT NULL DEFAULT 0;
ALTER TABLE shared_invocations ADD COLUMN due_at_ns BIGINT NOT NULL DEFAULT 0;
ALTER TABLE shared_invocations ADD COLUMN chain BIGINT NOT NULL DEFAULT 0;
ALTER TABLE shared_invocations ADD COLUMN last_failure TEXT NOT NULL DEFAULT '';
ALTER TABLE shared_invocations ADD COLUMN destination TEXT NOT NULL DEFAULT '';
)sql";

// Deployments of functions, by numbers of all nodes. Those of a function that is removed go with
// it; its numbers stay used.
constexpr const char* kSharedRevisions = R"sql(
CREATE TABLE shared_revisions (
  tenant         TEXT   NOT NULL,
  function       TEXT   NOT NULL,
  revision       BIGINT NOT NULL,
  digest         TEXT   NOT NULL,
  code_sha256    TEXT   NOT NULL,
  code_bytes     BIGINT NOT NULL,
  copy           TEXT   NOT NULL,
  deployed_at_ns BIGINT NOT NULL,
  PRIMARY KEY (tenant, function, revision)
);
CREATE TABLE shared_revision_numbers (
  tenant   TEXT   NOT NULL,
  function TEXT   NOT NULL,
  last     BIGINT NOT NULL,
  PRIMARY KEY (tenant, function)
);
)sql";

// The other devices of a run that had several, as in a catalog of one node. Programs that do not
// know of it read the result without them.
constexpr const char* kSharedResultsOfSeveralGpus = R"sql(
ALTER TABLE shared_invocations ADD COLUMN beside BIGINT NOT NULL DEFAULT 0;
)sql";

// Nodes ask each second which functions have invocations of lost nodes, of which there may be many.
constexpr const char* kSharedPendingByFunction = R"sql(
CREATE INDEX shared_pending_functions ON shared_invocations (owner, tenant, function)
  WHERE state <> 'done';
)sql";

// The last step that `table`, which is there, has noted.
Result<int64_t> noted_in(Database& database, const std::string& table) {
  ASSIGN_OR_RETURN(Statement ask,
                   database.prepare("SELECT coalesce(max(version), 0) FROM " + table));
  RETURN_IF_ERROR(ask.next());
  return ask.column_int(0);
}

Result<int64_t> version_of(Database& database, const std::string& table) {
  RETURN_IF_ERROR(
      database.run("CREATE TABLE IF NOT EXISTS " + table + " (version BIGINT PRIMARY KEY)"));
  return noted_in(database, table);
}

Result<void> expect_known_shared(int64_t version) {
  return expect_known_schema("the shared catalog", {version, shared_migrations().size()},
                             "upgrade this node");
}

Result<void> apply_from(Database& database, const std::vector<std::string>& steps, int64_t have,
                        size_t target, const std::string& table) {
  for (size_t version = static_cast<size_t>(have) + 1; version <= target; ++version) {
    RETURN_IF_ERROR(database.run(steps[version - 1]));
    RETURN_IF_ERROR(database.run("INSERT INTO " + table + " (version) VALUES (" +
                                 std::to_string(version) + ")"));
  }
  return {};
}

Result<void> apply_steps(Database& database, size_t target) {
  ASSIGN_OR_RETURN(const int64_t have, version_of(database, "shared_schema"));
  RETURN_IF_ERROR(expect_known_shared(have));
  RETURN_IF_ERROR(apply_from(database, shared_migrations(), have, target, "shared_schema"));
  if (target < shared_migrations().size()) return {};
  ASSIGN_OR_RETURN(const int64_t added, version_of(database, "shared_additions"));
  return apply_from(database, shared_additions(), added, shared_additions().size(),
                    "shared_additions");
}

}  // namespace

const std::vector<std::string>& shared_migrations() {
  static const std::vector<std::string> steps = {kCopies, kInvocations};
  return steps;
}

const std::vector<std::string>& shared_additions() {
  static const std::vector<std::string> steps = {kAccess,
                                                 kSharedVersions,
                                                 kSharedFollowUps,
                                                 kSharedRevisions,
                                                 kSharedResultsOfSeveralGpus,
                                                 kSharedPendingByFunction};
  return steps;
}

Result<void> migrate_shared(Database& database, size_t target) {
  RETURN_IF_ERROR(database.begin_exclusive());
  auto applied = apply_steps(database, target);
  if (applied.ok()) applied = database.run("COMMIT");
  if (applied.ok()) return {};
  if (database.in_transaction()) (void)database.run("ROLLBACK").ok();
  return applied.error().with_context("prepare the shared catalog");
}

Result<void> check_shared_schema(Database& database) {
  ASSIGN_OR_RETURN(Statement ask, database.prepare("SELECT CASE WHEN to_regclass('shared_schema') "
                                                   "IS NULL THEN 0 ELSE 1 END"));
  RETURN_IF_ERROR(ask.next());
  if (ask.column_int(0) == 0) return {};
  ASSIGN_OR_RETURN(const int64_t version, noted_in(database, "shared_schema"));
  return expect_known_shared(version);
}

}  // namespace lambent::catalog
