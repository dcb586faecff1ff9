#include "node/catalog/function_table.h"

#include <map>
#include <utility>

#include "core/domain/function_fields.h"
#include "node/catalog/function_columns.h"

namespace lambent::catalog {
namespace {

// The maps of a function, const or not, by the kind of their rows in function_variables.
template <typename Map>
struct VariableMaps {
  std::map<std::string_view, Map*> maps = {};

  void operator()(const FunctionField& field, Map& map) { maps[field.column] = &map; }
  template <typename Value>
  void operator()(const FunctionField&, Value&) {}
};

Result<void> insert_variables(Database& database, const FunctionSpec& spec, std::string_view kind,
                              const Variables& variables) {
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
  VariableMaps<const Variables> variables;
  visit_fields(variables, spec);
  for (const auto& [kind, map] : variables.maps) {
    RETURN_IF_ERROR(insert_variables(database, spec, kind, *map));
  }
  return {};
}

Result<void> insert_function(Database& database, FunctionSpec& spec) {
  const FunctionColumns& columns = function_columns();
  ASSIGN_OR_RETURN(Statement insert, database.prepare("INSERT INTO functions (" + columns.names +
                                                      ") VALUES (" + columns.parameters + ")"));
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
  const FunctionColumns& columns = function_columns();
  const int id = columns.count + 1;
  ASSIGN_OR_RETURN(
      Statement update,
      database.prepare("UPDATE functions SET (" + columns.names + ") = (" + columns.parameters +
                       ") WHERE tenant = ?1 AND name = ?2 AND id = ?" + std::to_string(id)));
  bind_columns(update, spec);
  update.bind(id, uint64_t{spec.id.value});
  RETURN_IF_ERROR(update.run());
  if (database.changes() == 0) {
    return Error{ErrorCode::kNotFound, "function '" + spec.name.name + "' does not exist"};
  }
  return {};
}

Result<void> load_variables(Database& database, std::vector<FunctionSpec>& specs) {
  std::map<FunctionId, VariableMaps<Variables>> by_id;
  for (FunctionSpec& spec : specs) visit_fields(by_id[spec.id], spec);
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT function, kind, key, value FROM function_variables"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return {};
    const auto found = by_id.find(FunctionId(static_cast<uint32_t>(rows.column_uint(0))));
    if (found == by_id.end()) continue;
    const auto map = found->second.maps.find(rows.column_text(1));
    if (map == found->second.maps.end()) continue;
    (*map->second)[rows.column_text(2)] = rows.column_text(3);
  }
}

// A tenant can be removed while its first function is on its way; not once it has one.
Result<void> check_tenant(Database& database, TenantId tenant) {
  ASSIGN_OR_RETURN(Statement rows, database.prepare("SELECT 1 FROM tenants WHERE id = ?1"));
  rows.bind(1, uint64_t{tenant.value});
  ASSIGN_OR_RETURN(const bool there, rows.next());
  if (there) return {};
  return Error{ErrorCode::kNotFound, "the tenant was removed"};
}

}  // namespace

Result<FunctionSpec> put_function(Database& database, FunctionSpec spec) {
  if (spec.id == FunctionId()) {
    RETURN_IF_ERROR(check_tenant(database, spec.name.tenant));
    RETURN_IF_ERROR(insert_function(database, spec));
  } else {
    RETURN_IF_ERROR(update_function(database, spec));
  }
  RETURN_IF_ERROR(replace_variables(database, spec));
  return spec;
}

// SQLite counts the ids of an AUTOINCREMENT column there, which may be changed like any other
// table.
Result<FunctionId> reserve_function_id(Database& database) {
  ASSIGN_OR_RETURN(Statement next,
                   database.prepare("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = "
                                    "'functions'"));
  RETURN_IF_ERROR(next.run());
  if (database.changes() == 0) {
    ASSIGN_OR_RETURN(Statement first, database.prepare("INSERT INTO sqlite_sequence (name, seq) "
                                                       "VALUES ('functions', 1)"));
    RETURN_IF_ERROR(first.run());
  }
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'functions'"));
  ASSIGN_OR_RETURN(const bool there, rows.next());
  if (!there) return Error{ErrorCode::kInternal, "there is no sequence of functions"};
  return FunctionId(static_cast<uint32_t>(rows.column_uint(0)));
}

Result<void> remove_function(Database& database, const FunctionName& name) {
  ASSIGN_OR_RETURN(Statement remove,
                   database.prepare("DELETE FROM functions WHERE tenant = ?1 AND name = ?2"));
  remove.bind(1, uint64_t{name.tenant.value}).bind_text(2, name.name);
  RETURN_IF_ERROR(remove.run());
  if (database.changes() == 0) {
    return Error{ErrorCode::kNotFound, "function '" + name.name + "' does not exist"};
  }
  // Its versions: no name of a function has a colon, and ';' follows it.
  ASSIGN_OR_RETURN(Statement versions,
                   database.prepare("DELETE FROM functions WHERE tenant = ?1 AND name > ?2 || ':' "
                                    "AND name < ?2 || ';'"));
  versions.bind(1, uint64_t{name.tenant.value}).bind_text(2, name.name);
  return versions.run();
}

Result<std::vector<FunctionSpec>> load_functions(Database& database) {
  std::vector<FunctionSpec> specs;
  ASSIGN_OR_RETURN(Statement rows, database.prepare("SELECT " + function_columns().names_with_id +
                                                    " FROM functions ORDER BY id"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) break;
    ASSIGN_OR_RETURN(FunctionSpec spec, read_columns(rows));
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

Result<void> save_firing(Database& database, const FiringRecord& record) {
  ASSIGN_OR_RETURN(
      Statement put,
      database.prepare("INSERT OR REPLACE INTO schedule_firings (tenant, function, name, due_s, "
                       "invocation) SELECT ?1, ?2, ?3, ?4, ?5 WHERE "
                       "EXISTS (SELECT 1 FROM functions WHERE tenant = ?1 AND id = ?2)"));
  put.bind(1, uint64_t{record.tenant.value}).bind(2, uint64_t{record.function.value});
  put.bind_text(3, record.schedule).bind(4, int64_t{record.due.count()});
  put.bind_text(5, to_string(record.invocation));
  return put.run();
}

Result<std::vector<FiringRecord>> load_firings(Database& database) {
  std::vector<FiringRecord> records;
  ASSIGN_OR_RETURN(
      Statement rows,
      database.prepare("SELECT tenant, function, name, due_s, invocation FROM schedule_firings"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return records;
    FiringRecord record;
    record.tenant = TenantId(static_cast<uint32_t>(rows.column_uint(0)));
    record.function = FunctionId(static_cast<uint32_t>(rows.column_uint(1)));
    record.schedule = rows.column_text(2);
    record.due = seconds(rows.column_int(3));
    const auto invocation = invocation_id_from_string(rows.column_text(4));
    if (!invocation) return Error{ErrorCode::kDataLoss, "the catalog has a bad firing"};
    record.invocation = *invocation;
    records.push_back(std::move(record));
  }
}

}  // namespace lambent::catalog
