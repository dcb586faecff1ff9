#include "node/catalog/migrations.h"

namespace lambent::catalog {
namespace {

constexpr const char* kFunctions = R"sql(
CREATE TABLE functions (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant          INTEGER NOT NULL,
  name            TEXT    NOT NULL,
  revision        INTEGER NOT NULL,
  kind            TEXT    NOT NULL,
  runtime         TEXT    NOT NULL,
  runtime_name    TEXT    NOT NULL,
  handler         TEXT    NOT NULL,
  description     TEXT    NOT NULL,
  role            TEXT    NOT NULL,
  timeout_ns      INTEGER NOT NULL,
  memory_bytes    INTEGER NOT NULL,
  gpu_memory_bytes INTEGER NOT NULL,
  gpu_launch_mode TEXT    NOT NULL,
  weight          REAL    NOT NULL,
  max_concurrency INTEGER NOT NULL,
  code_sha256     TEXT    NOT NULL,
  code_bytes      INTEGER NOT NULL,
  last_modified_ns INTEGER NOT NULL,
  UNIQUE (tenant, name),
  UNIQUE (tenant, id)
);
CREATE TABLE function_variables (
  tenant   INTEGER NOT NULL,
  function INTEGER NOT NULL,
  kind     TEXT    NOT NULL CHECK (kind IN ('environment', 'tag')),
  key      TEXT    NOT NULL,
  value    TEXT    NOT NULL,
  PRIMARY KEY (tenant, function, kind, key),
  FOREIGN KEY (tenant, function) REFERENCES functions (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;
)sql";

// A removed function leaves its invocations and their results behind, without a function.
constexpr const char* kAsyncInvocations = R"sql(
CREATE TABLE async_invocations (
  sequence        INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant          INTEGER NOT NULL,
  id              BLOB    NOT NULL CHECK (length(id) = 16),
  function        INTEGER REFERENCES functions (id) ON DELETE SET NULL,
  function_name   TEXT    NOT NULL,
  payload         BLOB    NOT NULL,
  content_type    TEXT    NOT NULL,
  client_context  TEXT    NOT NULL,
  trace_id        TEXT    NOT NULL,
  idempotency_key TEXT    NOT NULL,
  submitted_at_ns INTEGER NOT NULL,
  attempts        INTEGER NOT NULL,
  state           TEXT    NOT NULL CHECK (state IN ('queued', 'running', 'done')),
  UNIQUE (tenant, id)
);
CREATE INDEX async_pending ON async_invocations (sequence) WHERE state <> 'done';
CREATE INDEX async_function ON async_invocations (function) WHERE function IS NOT NULL;
CREATE TABLE async_results (
  tenant          INTEGER NOT NULL,
  id              BLOB    NOT NULL,
  outcome         TEXT    NOT NULL,
  payload         BLOB    NOT NULL,
  error_type      TEXT    NOT NULL,
  error_code      TEXT,
  error_message   TEXT,
  start           TEXT    NOT NULL,
  queue_ns        INTEGER NOT NULL,
  sandbox_ns      INTEGER NOT NULL,
  init_ns         INTEGER NOT NULL,
  run_ns          INTEGER NOT NULL,
  device          INTEGER NOT NULL,
  device_memory_peak_bytes INTEGER NOT NULL,
  host_memory_peak_bytes   INTEGER NOT NULL,
  log_tail        BLOB    NOT NULL,
  revision        INTEGER NOT NULL,
  expires_at_ns   INTEGER NOT NULL,
  PRIMARY KEY (tenant, id),
  FOREIGN KEY (tenant, id) REFERENCES async_invocations (tenant, id) ON DELETE CASCADE
);
CREATE INDEX async_expiry ON async_results (expires_at_ns);
)sql";

constexpr const char* kStatistics = R"sql(
CREATE TABLE function_statistics (
  tenant               INTEGER NOT NULL,
  function             INTEGER NOT NULL,
  mean_execution_ns    INTEGER NOT NULL,
  mean_interarrival_ns INTEGER NOT NULL,
  mean_cold_start_ns   INTEGER NOT NULL,
  executions           INTEGER NOT NULL,
  arrivals             INTEGER NOT NULL,
  cold_starts          INTEGER NOT NULL,
  PRIMARY KEY (tenant, function),
  FOREIGN KEY (tenant, function) REFERENCES functions (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;
)sql";

// Not unique: older versions kept every repeat.
constexpr const char* kAsyncRepeats = R"sql(
CREATE INDEX async_repeats ON async_invocations (tenant, idempotency_key)
  WHERE idempotency_key <> '';
)sql";

// How a function's device memory is moved while it rests.
constexpr const char* kMemoryModes = R"sql(
ALTER TABLE functions ADD COLUMN gpu_memory_mode TEXT NOT NULL DEFAULT 'vmm';
ALTER TABLE functions ADD COLUMN gpu_checkpoint INTEGER NOT NULL DEFAULT 0;
)sql";

// How long a run was without its device memory; older ones always had it.
constexpr const char* kMemoryPhase = R"sql(
ALTER TABLE async_results ADD COLUMN memory_ns INTEGER NOT NULL DEFAULT 0;
)sql";

// The objects that an invocation waits for before it is queued.
constexpr const char* kNeeds = R"sql(
ALTER TABLE async_invocations ADD COLUMN needs TEXT NOT NULL DEFAULT '';
)sql";

// Functions that share a GPU runtime, and their shares of the multiprocessors.
constexpr const char* kSharedRuntimes = R"sql(
ALTER TABLE functions ADD COLUMN gpu_runtime TEXT NOT NULL DEFAULT 'own';
ALTER TABLE functions ADD COLUMN gpu_domain TEXT NOT NULL DEFAULT '';
ALTER TABLE functions ADD COLUMN gpu_share INTEGER NOT NULL DEFAULT 100;
)sql";

// What was measured of a pipeline function's revision, as profile.json.
constexpr const char* kPipelineProfiles = R"sql(
CREATE TABLE pipeline_profiles (
  tenant   INTEGER NOT NULL,
  function INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  profile  TEXT    NOT NULL,
  PRIMARY KEY (tenant, function),
  FOREIGN KEY (tenant, function) REFERENCES functions (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;
)sql";

// Functions that also run without a GPU, and what was learnt of them there.
constexpr const char* kCpuVariants = R"sql(
ALTER TABLE functions ADD COLUMN cpu_variant INTEGER NOT NULL DEFAULT 0;
ALTER TABLE functions ADD COLUMN cpu_handler TEXT NOT NULL DEFAULT '';
ALTER TABLE functions ADD COLUMN gpu_speedup REAL NOT NULL DEFAULT 0;
ALTER TABLE function_statistics ADD COLUMN mean_host_execution_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE function_statistics ADD COLUMN mean_host_cold_start_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE function_statistics ADD COLUMN host_executions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE function_statistics ADD COLUMN host_cold_starts INTEGER NOT NULL DEFAULT 0;
)sql";

// What the worker holds against its GPUs, and what the operator said of them. They are the worker's
// own, not a tenant's.
constexpr const char* kDevices = R"sql(
CREATE TABLE devices (
  uuid                TEXT    PRIMARY KEY,
  drained_by_operator INTEGER NOT NULL,
  operators_reason    TEXT    NOT NULL,
  sickness            TEXT    NOT NULL,
  errors              INTEGER NOT NULL,
  errors_accepted     INTEGER NOT NULL,
  repair_accepted     INTEGER NOT NULL
) WITHOUT ROWID;
)sql";

// What of a function's device memory comes in before it runs.
constexpr const char* kWorkingSets = R"sql(
ALTER TABLE functions ADD COLUMN gpu_working_set TEXT NOT NULL DEFAULT 'worker';
)sql";

// Teams that share the node, and their tokens, of which only digests are kept. The tenant of before
// is the first.
constexpr const char* kTenants = R"sql(
CREATE TABLE tenants (
  id                   INTEGER PRIMARY KEY AUTOINCREMENT,
  name                 TEXT    NOT NULL UNIQUE,
  weight               REAL    NOT NULL,
  functions            INTEGER,
  concurrency          INTEGER,
  gpu_memory_bytes     INTEGER,
  gpu_time_per_hour_ns INTEGER,
  host_memory_bytes    INTEGER,
  object_bytes         INTEGER,
  disk_bytes           INTEGER,
  requests_per_second  REAL,
  created_at_ns        INTEGER NOT NULL
);
INSERT INTO tenants (id, name, weight, created_at_ns) VALUES (1, 'default', 1, 0);
CREATE TABLE tokens (
  id            TEXT    PRIMARY KEY,
  tenant        INTEGER NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name          TEXT    NOT NULL,
  scopes        TEXT    NOT NULL,
  secret_sha256 BLOB    NOT NULL CHECK (length(secret_sha256) = 32),
  created_at_ns INTEGER NOT NULL,
  expires_at_ns INTEGER
) WITHOUT ROWID;
)sql";

// Who may send HTTP requests to a function, and how a handler's answers to them leave.
constexpr const char* kFunctionUrls = R"sql(
ALTER TABLE functions ADD COLUMN url_auth TEXT NOT NULL DEFAULT 'token';
ALTER TABLE functions ADD COLUMN url_invoke_mode TEXT NOT NULL DEFAULT 'buffered';
)sql";

// -1: as the worker says.
constexpr const char* kQueueTimes = R"sql(
ALTER TABLE functions ADD COLUMN max_queue_time_s REAL NOT NULL DEFAULT -1;
)sql";

// Sealed with the node's key.
constexpr const char* kSecrets = R"sql(
CREATE TABLE secrets (
  tenant        INTEGER NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name          TEXT    NOT NULL,
  sealed        BLOB    NOT NULL,
  changed_at_ns INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
)sql";

// Programs that listen.
constexpr const char* kHttpFunctions = R"sql(
ALTER TABLE functions ADD COLUMN http_port INTEGER NOT NULL DEFAULT 8080;
ALTER TABLE functions ADD COLUMN http_readiness TEXT NOT NULL DEFAULT '';
)sql";

// Requests in one sandbox at once.
constexpr const char* kSandboxConcurrency = R"sql(
ALTER TABLE functions ADD COLUMN http_concurrency INTEGER NOT NULL DEFAULT 1;
)sql";

// Tokens that a client certificate stands for, each by one alternative name.
constexpr const char* kTokensForCertificates = R"sql(
ALTER TABLE tokens ADD COLUMN certificate TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX tokens_by_certificate ON tokens (certificate) WHERE certificate != '';
)sql";

// Versions are functions of their own, named NAME:NUMBER. `last` is the number of the newest one.
// A record of a revision is a function as text (core/domain/function_record.h).
constexpr const char* kVersions = R"sql(
CREATE TABLE function_versions (
  tenant   INTEGER NOT NULL,
  function INTEGER NOT NULL,
  last     INTEGER NOT NULL,
  PRIMARY KEY (tenant, function),
  FOREIGN KEY (tenant, function) REFERENCES functions (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE function_aliases (
  tenant       INTEGER NOT NULL,
  function     INTEGER NOT NULL,
  name         TEXT    NOT NULL,
  description  TEXT    NOT NULL,
  version      TEXT    NOT NULL,
  second       TEXT    NOT NULL,
  second_share REAL    NOT NULL,
  revision     INTEGER NOT NULL,
  PRIMARY KEY (tenant, function, name),
  FOREIGN KEY (tenant, function) REFERENCES functions (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE function_revisions (
  tenant   INTEGER NOT NULL,
  function INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  record   TEXT    NOT NULL,
  PRIMARY KEY (tenant, function, revision),
  FOREIGN KEY (tenant, function) REFERENCES functions (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE deployments (
  tenant  INTEGER NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name    TEXT    NOT NULL,
  creates INTEGER NOT NULL,
  record  TEXT    NOT NULL,
  failure TEXT    NOT NULL,
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
)sql";

// Sizes of what lies in a sandbox's memory, and what it sees of volumes and the host.
constexpr const char* kMounts = R"sql(
ALTER TABLE functions ADD COLUMN scratch_bytes INTEGER NOT NULL DEFAULT 536870912;
ALTER TABLE functions ADD COLUMN shared_memory_bytes INTEGER NOT NULL DEFAULT 67108864;
ALTER TABLE functions ADD COLUMN mounts TEXT NOT NULL DEFAULT '';
)sql";

// What is kept ready of a function, how long the rest of it rests, and when it is invoked by
// itself. A firing that is in the table, or came before one that is, is not begun again.
constexpr const char* kWarmFunctions = R"sql(
ALTER TABLE functions ADD COLUMN min_instances INTEGER NOT NULL DEFAULT 0;
ALTER TABLE functions ADD COLUMN keep_alive_s REAL NOT NULL DEFAULT -1;
ALTER TABLE functions ADD COLUMN warm_up TEXT NOT NULL DEFAULT '';
ALTER TABLE functions ADD COLUMN schedules TEXT NOT NULL DEFAULT '';
CREATE TABLE schedule_firings (
  tenant     INTEGER NOT NULL,
  function   INTEGER NOT NULL,
  name       TEXT    NOT NULL,
  due_s      INTEGER NOT NULL,
  invocation TEXT    NOT NULL,
  PRIMARY KEY (tenant, function, name),
  FOREIGN KEY (tenant, function) REFERENCES functions (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;
)sql";

// Where functions may connect to.
constexpr const char* kNetworkAccess = R"sql(
ALTER TABLE functions ADD COLUMN network TEXT NOT NULL DEFAULT '';
)sql";

// Pages that may call a function, and instances that are ready for an alias.
constexpr const char* kCorsAndProvisioned = R"sql(
ALTER TABLE functions ADD COLUMN url_cors TEXT NOT NULL DEFAULT '';
ALTER TABLE function_aliases ADD COLUMN provisioned INTEGER NOT NULL DEFAULT 0;
)sql";

// Functions that take several GPUs together.
constexpr const char* kSeveralGpus = R"sql(
ALTER TABLE functions ADD COLUMN gpu_count INTEGER NOT NULL DEFAULT 1;
)sql";

// What follows an asynchronous invocation. `runs` are those that ended, of which all but the last
// of one that is done had failed; it is due again at `due_at_ns`; `chain` destinations led to it.
constexpr const char* kFollowUps = R"sql(
ALTER TABLE functions ADD COLUMN async_retries REAL NOT NULL DEFAULT -1;
ALTER TABLE functions ADD COLUMN async_max_age_s REAL NOT NULL DEFAULT 0;
ALTER TABLE functions ADD COLUMN async_on_success TEXT NOT NULL DEFAULT '';
ALTER TABLE functions ADD COLUMN async_on_failure TEXT NOT NULL DEFAULT '';
ALTER TABLE async_invocations ADD COLUMN runs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE async_invocations ADD COLUMN due_at_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE async_invocations ADD COLUMN chain INTEGER NOT NULL DEFAULT 0;
ALTER TABLE async_invocations ADD COLUMN last_failure TEXT NOT NULL DEFAULT '';
ALTER TABLE async_invocations ADD COLUMN destination TEXT NOT NULL DEFAULT '';
)sql";

// What each tenant used of a GPU in the hour before: pairs of instant and time (tenant_table.cc).
constexpr const char* kGpuTimes = R"sql(
CREATE TABLE tenant_gpu_times (
  tenant INTEGER PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
  used   BLOB    NOT NULL
) WITHOUT ROWID;
)sql";

// 0: it has none.
constexpr const char* kSlos = R"sql(
ALTER TABLE functions ADD COLUMN slo_ms INTEGER NOT NULL DEFAULT 0;
)sql";

// Functions whose sandboxes may use only some processors.
constexpr const char* kCpuQuotas = R"sql(
ALTER TABLE functions ADD COLUMN cpus REAL NOT NULL DEFAULT 0;
)sql";

// What the asynchronous invocations of each tenant take, results included, and
// limits::kAsyncOverhead for each.
constexpr const char* kAsyncBytes = R"sql(
CREATE TABLE async_bytes (
  tenant INTEGER PRIMARY KEY,
  bytes  INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO async_bytes SELECT tenant, sum(bytes) FROM (
  SELECT tenant, 512 + length(payload) + length(client_context) AS bytes FROM async_invocations
  UNION ALL SELECT tenant, length(payload) + length(log_tail) FROM async_results) GROUP BY tenant;
CREATE TRIGGER async_bytes_of_invocation AFTER INSERT ON async_invocations BEGIN
  INSERT INTO async_bytes VALUES
    (NEW.tenant, 512 + length(NEW.payload) + length(NEW.client_context))
    ON CONFLICT (tenant) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER async_bytes_of_payload AFTER UPDATE OF payload ON async_invocations BEGIN
  UPDATE async_bytes SET bytes = bytes + length(NEW.payload) - length(OLD.payload)
    WHERE tenant = NEW.tenant;
END;
CREATE TRIGGER async_bytes_without_invocation AFTER DELETE ON async_invocations BEGIN
  UPDATE async_bytes SET bytes = bytes - 512 - length(OLD.payload) - length(OLD.client_context)
    WHERE tenant = OLD.tenant;
END;
CREATE TRIGGER async_bytes_of_result AFTER INSERT ON async_results BEGIN
  UPDATE async_bytes SET bytes = bytes + length(NEW.payload) + length(NEW.log_tail)
    WHERE tenant = NEW.tenant;
END;
CREATE TRIGGER async_bytes_without_result AFTER DELETE ON async_results BEGIN
  UPDATE async_bytes SET bytes = bytes - length(OLD.payload) - length(OLD.log_tail)
    WHERE tenant = OLD.tenant;
END;
)sql";

// Keys began with the number of the tenant, which has a column.
constexpr const char* kKeysWithoutTenant = R"sql(
UPDATE async_invocations
  SET idempotency_key = substr(idempotency_key, length(tenant) + 2)
  WHERE idempotency_key LIKE tenant || '/%';
)sql";

// The other devices of a run that had several: bit N - 1 for device N.
constexpr const char* kResultsOfSeveralGpus = R"sql(
ALTER TABLE async_results ADD COLUMN beside INTEGER NOT NULL DEFAULT 0;
)sql";

Result<void> apply_step(Database& database, size_t version) {
  RETURN_IF_ERROR(database.begin());
  auto applied = database.run(migrations()[version - 1]);
  if (applied.ok()) {
    applied = database.run("INSERT INTO schema_version (version) VALUES (" +
                           std::to_string(version) + ")");
  }
  if (applied.ok()) applied = database.run("COMMIT");
  if (applied.ok()) return {};
  if (database.in_transaction()) (void)database.run("ROLLBACK").ok();
  return applied.error().with_context("bring the schema to version " + std::to_string(version));
}

}  // namespace

const std::vector<std::string>& migrations() {
  static const std::vector<std::string> steps = {kFunctions,
                                                 kAsyncInvocations,
                                                 kStatistics,
                                                 kAsyncRepeats,
                                                 kMemoryModes,
                                                 kMemoryPhase,
                                                 kNeeds,
                                                 kSharedRuntimes,
                                                 kPipelineProfiles,
                                                 kCpuVariants,
                                                 kDevices,
                                                 kWorkingSets,
                                                 kTenants,
                                                 kSecrets,
                                                 kHttpFunctions,
                                                 kQueueTimes,
                                                 kTokensForCertificates,
                                                 kVersions,
                                                 kMounts,
                                                 kWarmFunctions,
                                                 kFunctionUrls,
                                                 kSandboxConcurrency,
                                                 kNetworkAccess,
                                                 kCorsAndProvisioned,
                                                 kSeveralGpus,
                                                 kFollowUps,
                                                 kGpuTimes,
                                                 kSlos,
                                                 kCpuQuotas,
                                                 kAsyncBytes,
                                                 kKeysWithoutTenant,
                                                 kResultsOfSeveralGpus};
  return steps;
}

Result<int64_t> schema_version(Database& database) {
  ASSIGN_OR_RETURN(Statement tables,
                   database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'"));
  ASSIGN_OR_RETURN(const bool has_table, tables.next());
  if (!has_table) return 0;
  ASSIGN_OR_RETURN(Statement statement,
                   database.prepare("SELECT coalesce(max(version), 0) FROM schema_version"));
  RETURN_IF_ERROR(statement.next());
  return statement.column_int(0);
}

Result<void> expect_known_schema(const std::string& what, const SchemaVersions& versions,
                                 const std::string& advice) {
  if (versions.found <= static_cast<int64_t>(versions.known)) return {};
  return Error{ErrorCode::kFailedPrecondition,
               what + " has schema version " + std::to_string(versions.found) +
                   ", made by a newer Lambent; this one knows up to " +
                   std::to_string(versions.known) + ": " + advice};
}

Result<int64_t> known_schema_version(Database& database, const std::string& what) {
  ASSIGN_OR_RETURN(const int64_t found, schema_version(database));
  RETURN_IF_ERROR(
      expect_known_schema(what, {found, migrations().size()},
                          "install the newer one again, or restore a backup from before its "
                          "upgrade"));
  return found;
}

Result<void> migrate(Database& database, size_t target) {
  ASSIGN_OR_RETURN(const int64_t have, known_schema_version(database, "the database"));
  RETURN_IF_ERROR(database.run(
      "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY) WITHOUT ROWID"));
  for (size_t version = static_cast<size_t>(have) + 1; version <= target; ++version) {
    RETURN_IF_ERROR(apply_step(database, version));
  }
  return {};
}

}  // namespace lambent::catalog
