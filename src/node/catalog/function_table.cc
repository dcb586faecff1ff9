#include "node/catalog/function_table.h"

#include <map>

namespace lambent::catalog {
namespace {

// The words that stand in the database; they never change.
std::string_view word_of(Runtime runtime) {
  return runtime == Runtime::kPython ? "python" : "provided";
}

std::string_view word_of(GpuNeeds::LaunchMode mode) {
  return mode == GpuNeeds::LaunchMode::kModel ? "model" : "compute";
}

Error unknown_word(std::string_view column, const std::string& word) {
  return Error{ErrorCode::kDataLoss,
               "the catalog has an unknown " + std::string(column) + " '" + word + "'"};
}

Result<Runtime> runtime_from(const std::string& word) {
  if (word == "python") return Runtime::kPython;
  if (word == "provided") return Runtime::kProvided;
  return unknown_word("runtime", word);
}

Result<GpuNeeds::LaunchMode> launch_mode_from(const std::string& word) {
  if (word == "model") return GpuNeeds::LaunchMode::kModel;
  if (word == "compute") return GpuNeeds::LaunchMode::kCompute;
  return unknown_word("launch mode", word);
}

constexpr std::string_view kColumns =
    "tenant, name, revision, kind, runtime, runtime_name, handler, description, role, timeout_ns, "
    "memory_bytes, gpu_memory_bytes, gpu_launch_mode, weight, max_concurrency, code_sha256, "
    "code_bytes, last_modified_ns, gpu_memory_mode, gpu_checkpoint, gpu_runtime, gpu_domain, "
    "gpu_share, cpu_variant, cpu_handler, gpu_speedup, gpu_working_set";

void bind_columns(Statement& statement, const FunctionSpec& spec) {
  const CpuVariant cpu = spec.cpu_variant.value_or(CpuVariant{});
  statement.bind(1, uint64_t{spec.name.tenant.value})
      .bind_text(2, spec.name.name)
      .bind(3, spec.revision)
      .bind_text(4, name_of(spec.kind))
      .bind_text(5, word_of(spec.runtime))
      .bind_text(6, spec.runtime_name)
      .bind_text(7, spec.handler)
      .bind_text(8, spec.description)
      .bind_text(9, spec.role)
      .bind(10, spec.timeout.count())
      .bind(11, spec.memory.count)
      .bind(12, spec.gpu.memory.count)
      .bind_text(13, word_of(spec.gpu.launch_mode))
      .bind(14, spec.weight)
      .bind(15, uint64_t{spec.max_concurrency})
      .bind_text(16, spec.code_sha256)
      .bind(17, spec.code_size.count)
      .bind(18, spec.last_modified.count())
      .bind_text(19, name_of(spec.gpu.memory_mode))
      .bind(20, uint64_t{spec.gpu.checkpoint})
      .bind_text(21, name_of(spec.gpu.runtime))
      .bind_text(22, spec.gpu.domain)
      .bind(23, uint64_t{spec.gpu.share})
      .bind(24, uint64_t{spec.cpu_variant.has_value()})
      .bind_text(25, cpu.handler)
      .bind(26, cpu.gpu_speedup)
      .bind_text(27, name_of(spec.gpu.working_set));
}

// Columns as in kColumns, then the id.
Result<FunctionSpec> read_row(const Statement& row) {
  FunctionSpec spec;
  spec.name.tenant = TenantId(static_cast<uint32_t>(row.column_uint(0)));
  spec.name.name = row.column_text(1);
  spec.revision = row.column_uint(2);
  const auto kind = function_kind_from(row.column_text(3));
  if (!kind) return unknown_word("kind", row.column_text(3));
  spec.kind = *kind;
  ASSIGN_OR_RETURN(spec.runtime, runtime_from(row.column_text(4)));
  spec.runtime_name = row.column_text(5);
  spec.handler = row.column_text(6);
  spec.description = row.column_text(7);
  spec.role = row.column_text(8);
  spec.timeout = Duration(row.column_int(9));
  spec.memory = Bytes(row.column_uint(10));
  spec.gpu.memory = Bytes(row.column_uint(11));
  ASSIGN_OR_RETURN(spec.gpu.launch_mode, launch_mode_from(row.column_text(12)));
  spec.weight = row.column_double(13);
  spec.max_concurrency = static_cast<unsigned>(row.column_uint(14));
  spec.code_sha256 = row.column_text(15);
  spec.code_size = Bytes(row.column_uint(16));
  spec.last_modified = Duration(row.column_int(17));
  const auto memory_mode = memory_mode_from(row.column_text(18));
  if (!memory_mode) return unknown_word("memory mode", row.column_text(18));
  spec.gpu.memory_mode = *memory_mode;
  spec.gpu.checkpoint = row.column_uint(19) != 0;
  const auto runtime = gpu_runtime_from(row.column_text(20));
  if (!runtime) return unknown_word("GPU runtime", row.column_text(20));
  spec.gpu.runtime = *runtime;
  spec.gpu.domain = row.column_text(21);
  spec.gpu.share = static_cast<unsigned>(row.column_uint(22));
  if (row.column_uint(23) != 0) {
    spec.cpu_variant = CpuVariant{row.column_text(24), row.column_double(25)};
  }
  const auto working_set = working_set_from(row.column_text(26));
  if (!working_set) return unknown_word("working set", row.column_text(26));
  spec.gpu.working_set = *working_set;
  spec.id = FunctionId(static_cast<uint32_t>(row.column_uint(27)));
  return spec;
}

Result<void> insert_variables(Database& database, const FunctionSpec& spec, std::string_view kind,
                              const std::map<std::string, std::string>& variables) {
  for (const auto& [key, value] : variables) {
    ASSIGN_OR_RETURN(Statement insert,
                     database.prepare("INSERT INTO function_variables (tenant, function, kind, "
                                      "key, value) VALUES (?1, ?2, ?3, ?4, ?5)"));
    insert.bind(1, uint64_t{spec.name.tenant.value}).bind(2, uint64_t{spec.id.value});
    insert.bind_text(3, kind).bind_text(4, key).bind_text(5, value);
    RETURN_IF_ERROR(insert.run());
  }
  return {};
}

Result<void> replace_variables(Database& database, const FunctionSpec& spec) {
  ASSIGN_OR_RETURN(
      Statement clear,
      database.prepare("DELETE FROM function_variables WHERE tenant = ?1 AND function = ?2"));
  clear.bind(1, uint64_t{spec.name.tenant.value}).bind(2, uint64_t{spec.id.value});
  RETURN_IF_ERROR(clear.run());
  RETURN_IF_ERROR(insert_variables(database, spec, "environment", spec.environment));
  return insert_variables(database, spec, "tag", spec.tags);
}

Result<void> insert_function(Database& database, FunctionSpec& spec) {
  ASSIGN_OR_RETURN(Statement insert,
                   database.prepare("INSERT INTO functions (" + std::string(kColumns) +
                                    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
                                    "?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, "
                                    "?25, ?26, ?27)"));
  bind_columns(insert, spec);
  const auto inserted = insert.run();
  if (!inserted.ok() && inserted.error().code == ErrorCode::kAlreadyExists) {
    return Error{ErrorCode::kAlreadyExists, "function '" + spec.name.name + "' exists already"};
  }
  RETURN_IF_ERROR(inserted);
  spec.id = FunctionId(static_cast<uint32_t>(database.last_insert_id()));
  return {};
}

Result<void> update_function(Database& database, const FunctionSpec& spec) {
  ASSIGN_OR_RETURN(
      Statement update,
      database.prepare(
          "UPDATE functions SET (" + std::string(kColumns) +
          ") = (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, "
          "?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27) WHERE tenant = ?1 "
          "AND name = ?2 AND id = ?28"));
  bind_columns(update, spec);
  update.bind(28, uint64_t{spec.id.value});
  RETURN_IF_ERROR(update.run());
  if (database.changes() == 0) {
    return Error{ErrorCode::kNotFound, "function '" + spec.name.name + "' does not exist"};
  }
  return {};
}

Result<void> load_variables(Database& database, std::vector<FunctionSpec>& specs) {
  std::map<FunctionId, FunctionSpec*> by_id;
  for (FunctionSpec& spec : specs) by_id[spec.id] = &spec;
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT function, kind, key, value FROM function_variables"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return {};
    const auto found = by_id.find(FunctionId(static_cast<uint32_t>(rows.column_uint(0))));
    if (found == by_id.end()) continue;
    auto& variables =
        rows.column_text(1) == "tag" ? found->second->tags : found->second->environment;
    variables[rows.column_text(2)] = rows.column_text(3);
  }
}

}  // namespace

Result<FunctionSpec> put_function(Database& database, FunctionSpec spec) {
  if (spec.id == FunctionId()) {
    RETURN_IF_ERROR(insert_function(database, spec));
  } else {
    RETURN_IF_ERROR(update_function(database, spec));
  }
  RETURN_IF_ERROR(replace_variables(database, spec));
  return spec;
}

Result<void> remove_function(Database& database, const FunctionName& name) {
  ASSIGN_OR_RETURN(Statement remove,
                   database.prepare("DELETE FROM functions WHERE tenant = ?1 AND name = ?2"));
  remove.bind(1, uint64_t{name.tenant.value}).bind_text(2, name.name);
  RETURN_IF_ERROR(remove.run());
  if (database.changes() == 0) {
    return Error{ErrorCode::kNotFound, "function '" + name.name + "' does not exist"};
  }
  return {};
}

Result<std::vector<FunctionSpec>> load_functions(Database& database) {
  std::vector<FunctionSpec> specs;
  ASSIGN_OR_RETURN(Statement rows, database.prepare("SELECT " + std::string(kColumns) +
                                                    ", id FROM functions ORDER BY id"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) break;
    ASSIGN_OR_RETURN(FunctionSpec spec, read_row(rows));
    specs.push_back(std::move(spec));
  }
  RETURN_IF_ERROR(load_variables(database, specs));
  return specs;
}

Result<void> save_statistics(Database& database,
                             const std::vector<FunctionStatistics>& statistics) {
  for (const FunctionStatistics& one : statistics) {
    ASSIGN_OR_RETURN(
        Statement put,
        database.prepare("INSERT OR REPLACE INTO function_statistics (tenant, function, "
                         "mean_execution_ns, mean_interarrival_ns, mean_cold_start_ns, executions, "
                         "arrivals, cold_starts, mean_host_execution_ns, "
                         "mean_host_cold_start_ns, host_executions, host_cold_starts) "
                         "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 WHERE "
                         "EXISTS (SELECT 1 FROM functions WHERE tenant = ?1 AND id = ?2)"));
    put.bind(1, uint64_t{one.tenant.value}).bind(2, uint64_t{one.function.value});
    put.bind(3, one.mean_execution.count()).bind(4, one.mean_interarrival.count());
    put.bind(5, one.mean_cold_start.count()).bind(6, one.executions);
    put.bind(7, one.arrivals).bind(8, one.cold_starts);
    put.bind(9, one.mean_host_execution.count()).bind(10, one.mean_host_cold_start.count());
    put.bind(11, one.host_executions).bind(12, one.host_cold_starts);
    RETURN_IF_ERROR(put.run());
  }
  return {};
}

Result<std::vector<FunctionStatistics>> load_statistics(Database& database) {
  std::vector<FunctionStatistics> statistics;
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT tenant, function, mean_execution_ns, "
                                    "mean_interarrival_ns, mean_cold_start_ns, executions, "
                                    "arrivals, cold_starts, mean_host_execution_ns, "
                                    "mean_host_cold_start_ns, host_executions, host_cold_starts "
                                    "FROM function_statistics"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return statistics;
    FunctionStatistics one;
    one.tenant = TenantId(static_cast<uint32_t>(rows.column_uint(0)));
    one.function = FunctionId(static_cast<uint32_t>(rows.column_uint(1)));
    one.mean_execution = Duration(rows.column_int(2));
    one.mean_interarrival = Duration(rows.column_int(3));
    one.mean_cold_start = Duration(rows.column_int(4));
    one.executions = rows.column_uint(5);
    one.arrivals = rows.column_uint(6);
    one.cold_starts = rows.column_uint(7);
    one.mean_host_execution = Duration(rows.column_int(8));
    one.mean_host_cold_start = Duration(rows.column_int(9));
    one.host_executions = rows.column_uint(10);
    one.host_cold_starts = rows.column_uint(11);
    statistics.push_back(one);
  }
}

Result<void> save_profile(Database& database, const PipelineProfileRecord& record) {
  ASSIGN_OR_RETURN(
      Statement put,
      database.prepare("INSERT OR REPLACE INTO pipeline_profiles (tenant, function, revision, "
                       "profile) SELECT ?1, ?2, ?3, ?4 WHERE "
                       "EXISTS (SELECT 1 FROM functions WHERE tenant = ?1 AND id = ?2)"));
  put.bind(1, uint64_t{record.tenant.value}).bind(2, uint64_t{record.function.value});
  put.bind(3, record.revision).bind_text(4, record.profile);
  return put.run();
}

Result<std::vector<PipelineProfileRecord>> load_profiles(Database& database) {
  std::vector<PipelineProfileRecord> records;
  ASSIGN_OR_RETURN(
      Statement rows,
      database.prepare("SELECT tenant, function, revision, profile FROM pipeline_profiles"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return records;
    PipelineProfileRecord record;
    record.tenant = TenantId(static_cast<uint32_t>(rows.column_uint(0)));
    record.function = FunctionId(static_cast<uint32_t>(rows.column_uint(1)));
    record.revision = rows.column_uint(2);
    record.profile = rows.column_text(3);
    records.push_back(std::move(record));
  }
}

}  // namespace lambent::catalog
