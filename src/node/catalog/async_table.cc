#include "node/catalog/async_table.h"

#include <string>

#include "core/domain/version.h"
#include "node/catalog/invocation_archive.h"

namespace lambent::catalog {
namespace {

// Ids with a space after each.
std::string text_of(const std::vector<ObjectId>& objects) {
  std::string text;
  for (const ObjectId object : objects) text += to_string(object) + " ";
  return text;
}

std::vector<ObjectId> objects_from(const std::string& text) {
  std::vector<ObjectId> objects;
  for (size_t begin = 0, end; (end = text.find(' ', begin)) != std::string::npos; begin = end + 1) {
    if (const auto object = object_id_from_string(text.substr(begin, end - begin))) {
      objects.push_back(*object);
    }
  }
  return objects;
}

Error no_such_invocation(InvocationId id) {
  return Error{ErrorCode::kNotFound,
               "there is no asynchronous invocation " + to_string(id) + ", or it has expired"};
}

Result<Outcome> outcome_from(const std::string& word) {
  for (const Outcome outcome : {Outcome::kSucceeded, Outcome::kFunctionError, Outcome::kRejected}) {
    if (word == name_of(outcome)) return outcome;
  }
  return Error{ErrorCode::kDataLoss, "the catalog has an unknown outcome '" + word + "'"};
}

Result<StartClass> start_from(const std::string& word) {
  for (const StartClass start : {StartClass::kCold, StartClass::kGpuCold, StartClass::kWarm}) {
    if (word == name_of(start)) return start;
  }
  return Error{ErrorCode::kDataLoss, "the catalog has an unknown start '" + word + "'"};
}

// Of a result without a device.
constexpr int64_t kNowhere = -1;

constexpr std::string_view kResultColumns =
    "tenant, id, outcome, payload, error_type, error_code, error_message, start, queue_ns, "
    "sandbox_ns, init_ns, run_ns, device, device_memory_peak_bytes, host_memory_peak_bytes, "
    "log_tail, revision, expires_at_ns, memory_ns, beside";

Result<void> insert_result(Database& database, TenantId tenant, const InvocationResult& result,
                           Duration expires_at) {
  ASSIGN_OR_RETURN(Statement insert,
                   database.prepare("INSERT INTO async_results (" + std::string(kResultColumns) +
                                    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
                                    "?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)"));
  insert.bind(1, uint64_t{tenant.value}).bind_blob(2, bytes_of_id(result.id));
  insert.bind_text(3, name_of(result.outcome)).bind_blob(4, result.payload);
  insert.bind_text(5, result.error_type);
  if (result.error.has_value()) {
    insert.bind_text(6, name_of(result.error->code)).bind_text(7, result.error->message);
  } else {
    insert.bind_null(6).bind_null(7);
  }
  insert.bind_text(8, name_of(result.start));
  insert.bind(9, result.phases.queue.count()).bind(10, result.phases.sandbox.count());
  insert.bind(11, result.phases.init.count()).bind(12, result.phases.run.count());
  insert.bind(13, result.device ? int64_t{result.device->value} : kNowhere);
  insert.bind(14, result.device_memory_peak.count);
  insert.bind(15, result.host_memory_peak.count).bind_blob(16, result.log_tail);
  insert.bind(17, result.revision).bind(18, expires_at.count());
  insert.bind(19, result.phases.memory.count()).bind(20, bits_of(result.beside));
  return insert.run();
}

// Columns as in kResultColumns.
Result<InvocationResult> read_result_row(const Statement& row) {
  InvocationResult result;
  result.id = id_of_bytes(row.column_text(1));
  ASSIGN_OR_RETURN(result.outcome, outcome_from(row.column_text(2)));
  result.payload = row.column_text(3);
  result.error_type = row.column_text(4);
  if (!row.column_is_null(5)) {
    const auto code = error_code_from_name(row.column_text(5));
    result.error = Error{code.value_or(ErrorCode::kUnknown), row.column_text(6)};
  }
  ASSIGN_OR_RETURN(result.start, start_from(row.column_text(7)));
  result.phases.queue = Duration(row.column_int(8));
  result.phases.sandbox = Duration(row.column_int(9));
  result.phases.init = Duration(row.column_int(10));
  result.phases.run = Duration(row.column_int(11));
  if (row.column_int(12) != kNowhere) {
    result.device = DeviceId(static_cast<uint32_t>(row.column_uint(12)));
  }
  result.device_memory_peak = Bytes(row.column_uint(13));
  result.host_memory_peak = Bytes(row.column_uint(14));
  result.log_tail = row.column_text(15);
  result.revision = row.column_uint(16);
  result.phases.memory = Duration(row.column_int(18));
  result.beside = devices_of(row.column_uint(19));
  return result;
}

AsyncInvocation read_pending_row(const Statement& row) {
  AsyncInvocation invocation;
  invocation.sequence = row.column_uint(0);
  invocation.request.function.tenant = TenantId(static_cast<uint32_t>(row.column_uint(1)));
  invocation.request.id = id_of_bytes(row.column_text(2));
  invocation.function = FunctionId(static_cast<uint32_t>(row.column_uint(3)));  // NULL reads as 0
  invocation.request.function.name = row.column_text(4);
  invocation.request.kind = InvocationKind::kAsynchronous;
  invocation.request.payload = row.column_text(5);
  invocation.request.content_type = row.column_text(6);
  invocation.request.client_context = row.column_text(7);
  invocation.request.trace_id = row.column_text(8);
  invocation.request.idempotency_key = row.column_text(9);
  invocation.submitted_at = Duration(row.column_int(10));
  invocation.attempts = static_cast<unsigned>(row.column_uint(11));
  invocation.request.needs = objects_from(row.column_text(12));
  invocation.runs = static_cast<unsigned>(row.column_uint(13));
  invocation.due_at = Duration(row.column_int(14));
  invocation.chain = static_cast<unsigned>(row.column_uint(15));
  invocation.last_failure = row.column_text(16);
  return invocation;
}

// In the order of read_pending_row().
constexpr std::string_view kPendingColumns =
    "sequence, tenant, id, function, function_name, payload, content_type, client_context, "
    "trace_id, idempotency_key, submitted_at_ns, attempts, needs, runs, due_at_ns, chain, "
    "last_failure";

// What is kept beside its result: which version ran, how often, and what was told of it.
Result<void> read_history(Database& database, TenantId tenant, InvocationResult& result) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT function_name, runs, destination FROM "
                                    "async_invocations WHERE tenant = ?1 AND id = ?2"));
  rows.bind(1, uint64_t{tenant.value}).bind_blob(2, bytes_of_id(result.id));
  ASSIGN_OR_RETURN(const bool there, rows.next());
  if (!there) return {};
  result.version = version_of({tenant, rows.column_text(0)});
  result.runs = static_cast<unsigned>(rows.column_uint(1));
  result.destination = rows.column_text(2);
  return {};
}

Result<void> put_successor(Database& database, TenantId tenant, const AsyncSuccessor& successor,
                           std::string_view source_payload) {
  AsyncInvocation invocation;
  invocation.request.id = successor.id;
  invocation.request.function = successor.name;
  invocation.request.function.tenant = tenant;
  invocation.request.payload = successor.payload(source_payload);
  invocation.function = successor.function;
  invocation.submitted_at = successor.submitted_at;
  invocation.chain = successor.chain;
  const auto kept = put_async(database, invocation);
  return kept.ok() ? Result<void>{} : kept.error();
}

}  // namespace

Result<std::optional<InvocationId>> find_async(Database& database, TenantId tenant,
                                               const std::string& idempotency_key) {
  if (idempotency_key.empty()) return std::optional<InvocationId>();
  ASSIGN_OR_RETURN(Statement find,
                   database.prepare("SELECT id FROM async_invocations WHERE tenant = ?1 AND "
                                    "idempotency_key = ?2 AND idempotency_key <> ''"));
  find.bind(1, uint64_t{tenant.value}).bind_text(2, idempotency_key);
  ASSIGN_OR_RETURN(const bool found, find.next());
  if (!found) return std::optional<InvocationId>();
  return std::optional<InvocationId>(id_of_bytes(find.column_text(0)));
}

Result<InvocationId> put_async(Database& database, const AsyncInvocation& invocation) {
  const InvocationRequest& request = invocation.request;
  ASSIGN_OR_RETURN(const auto earlier,
                   find_async(database, request.function.tenant, request.idempotency_key));
  if (earlier) return *earlier;
  // A function that is gone by now leaves NULL, as if it had been removed a moment later.
  ASSIGN_OR_RETURN(
      Statement insert,
      database.prepare("INSERT INTO async_invocations (tenant, id, function, function_name, "
                       "payload, content_type, client_context, trace_id, idempotency_key, "
                       "submitted_at_ns, attempts, needs, chain, state) VALUES (?1, ?2, (SELECT id "
                       "FROM functions WHERE tenant = ?1 AND id = ?3), ?4, ?5, ?6, ?7, ?8, ?9, "
                       "?10, ?11, ?12, ?13, 'queued')"));
  insert.bind(1, uint64_t{request.function.tenant.value}).bind_blob(2, bytes_of_id(request.id));
  insert.bind(3, uint64_t{invocation.function.value}).bind_text(4, request.function.name);
  insert.bind_blob(5, request.payload).bind_text(6, request.content_type);
  insert.bind_text(7, request.client_context).bind_text(8, request.trace_id);
  insert.bind_text(9, request.idempotency_key).bind(10, invocation.submitted_at.count());
  insert.bind(11, uint64_t{invocation.attempts}).bind_text(12, text_of(request.needs));
  insert.bind(13, uint64_t{invocation.chain});
  const auto inserted = insert.run();
  if (!inserted.ok() && inserted.error().code == ErrorCode::kAlreadyExists) {
    return Error{ErrorCode::kAlreadyExists,
                 "there is already an asynchronous invocation " + to_string(request.id)};
  }
  if (!inserted.ok()) return inserted.error();
  return request.id;
}

Result<void> begin_async(Database& database, TenantId tenant, InvocationId id) {
  ASSIGN_OR_RETURN(
      Statement update,
      database.prepare("UPDATE async_invocations SET state = 'running', attempts = attempts + 1 "
                       "WHERE tenant = ?1 AND id = ?2 AND state <> 'done'"));
  update.bind(1, uint64_t{tenant.value}).bind_blob(2, bytes_of_id(id));
  RETURN_IF_ERROR(update.run());
  if (database.changes() == 0) return no_such_invocation(id);
  return {};
}

// It begins afresh: what counts is how often workers end under the next run.
Result<void> retry_async(Database& database, TenantId tenant, InvocationId id,
                         const AsyncRetry& retry) {
  ASSIGN_OR_RETURN(
      Statement update,
      database.prepare("UPDATE async_invocations SET state = 'queued', attempts = 0, runs = ?3, "
                       "due_at_ns = ?4, last_failure = ?5 WHERE tenant = ?1 AND id = ?2 AND state "
                       "<> 'done'"));
  update.bind(1, uint64_t{tenant.value})
      .bind_blob(2, bytes_of_id(id))
      .bind(3, uint64_t{retry.runs});
  update.bind(4, retry.due_at.count()).bind_text(5, retry.last_failure);
  RETURN_IF_ERROR(update.run());
  if (database.changes() == 0) return no_such_invocation(id);
  return {};
}

Result<void> finish_async(Database& database, TenantId tenant, const InvocationResult& result,
                          Duration expires_at, const std::optional<AsyncSuccessor>& successor) {
  if (successor) {
    ASSIGN_OR_RETURN(const auto source, find_pending(database, tenant, result.id));
    if (!source) return no_such_invocation(result.id);
    RETURN_IF_ERROR(put_successor(database, tenant, *successor, source->request.payload));
  }
  // The event is not needed any more: give its space to the result.
  ASSIGN_OR_RETURN(
      Statement update,
      database.prepare("UPDATE async_invocations SET state = 'done', payload = zeroblob(0), runs = "
                       "?3, destination = ?4 WHERE tenant = ?1 AND id = ?2 AND state <> 'done'"));
  update.bind(1, uint64_t{tenant.value}).bind_blob(2, bytes_of_id(result.id));
  update.bind(3, uint64_t{result.runs}).bind_text(4, result.destination);
  RETURN_IF_ERROR(update.run());
  if (database.changes() == 0) return no_such_invocation(result.id);
  return insert_result(database, tenant, result, expires_at);
}

Result<std::optional<AsyncInvocation>> find_pending(Database& database, TenantId tenant,
                                                    InvocationId id) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT " + std::string(kPendingColumns) +
                                    " FROM async_invocations WHERE tenant = ?1 AND id = ?2 AND "
                                    "state <> 'done'"));
  rows.bind(1, uint64_t{tenant.value}).bind_blob(2, bytes_of_id(id));
  ASSIGN_OR_RETURN(const bool there, rows.next());
  if (!there) return std::optional<AsyncInvocation>();
  return std::optional<AsyncInvocation>(read_pending_row(rows));
}

Result<std::optional<InvocationResult>> read_async_result(Database& database, TenantId tenant,
                                                          InvocationId id) {
  ASSIGN_OR_RETURN(Statement rows, database.prepare("SELECT " + std::string(kResultColumns) +
                                                    " FROM async_results WHERE tenant = ?1 AND "
                                                    "id = ?2"));
  rows.bind(1, uint64_t{tenant.value}).bind_blob(2, bytes_of_id(id));
  ASSIGN_OR_RETURN(const bool finished, rows.next());
  if (finished) {
    ASSIGN_OR_RETURN(InvocationResult result, read_result_row(rows));
    RETURN_IF_ERROR(read_history(database, tenant, result));
    return std::optional<InvocationResult>(std::move(result));
  }
  ASSIGN_OR_RETURN(
      Statement known,
      database.prepare("SELECT 1 FROM async_invocations WHERE tenant = ?1 AND id = ?2"));
  known.bind(1, uint64_t{tenant.value}).bind_blob(2, bytes_of_id(id));
  ASSIGN_OR_RETURN(const bool pending, known.next());
  if (!pending) return no_such_invocation(id);
  return std::optional<InvocationResult>();
}

Result<uint64_t> expire_results(Database& database, Duration now, size_t most) {
  // The result goes with its invocation.
  ASSIGN_OR_RETURN(
      Statement remove,
      database.prepare("DELETE FROM async_invocations WHERE (tenant, id) IN (SELECT tenant, id "
                       "FROM async_results WHERE expires_at_ns <= ?1 ORDER BY expires_at_ns LIMIT "
                       "?2)"));
  remove.bind(1, now.count()).bind(2, uint64_t{most});
  RETURN_IF_ERROR(remove.run());
  return static_cast<uint64_t>(database.changes());
}

Result<Bytes> async_bytes(Database& database, TenantId tenant) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT bytes FROM async_bytes WHERE tenant = ?1"));
  rows.bind(1, uint64_t{tenant.value});
  ASSIGN_OR_RETURN(const bool there, rows.next());
  return there ? Bytes(rows.column_uint(0)) : Bytes();
}

Result<std::map<TenantId, Bytes>> all_async_bytes(Database& database) {
  ASSIGN_OR_RETURN(Statement rows, database.prepare("SELECT tenant, bytes FROM async_bytes"));
  std::map<TenantId, Bytes> all;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return all;
    all[TenantId(static_cast<uint32_t>(rows.column_uint(0)))] = Bytes(rows.column_uint(1));
  }
}

Result<uint64_t> count_pending(Database& database) {
  ASSIGN_OR_RETURN(
      Statement count,
      database.prepare("SELECT count(*) FROM async_invocations WHERE state <> 'done'"));
  RETURN_IF_ERROR(count.next());
  return count.column_uint(0);
}

Result<std::vector<AsyncInvocation>> load_pending(Database& database, uint64_t after_sequence,
                                                  size_t limit, Bytes payload_limit) {
  std::vector<AsyncInvocation> pending;
  ASSIGN_OR_RETURN(
      Statement rows,
      database.prepare("SELECT " + std::string(kPendingColumns) +
                       " FROM async_invocations WHERE state <> 'done' AND sequence > ?1 ORDER BY "
                       "sequence LIMIT ?2"));
  rows.bind(1, after_sequence).bind(2, uint64_t{limit});
  Bytes payload;
  while (payload < payload_limit) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) break;
    pending.push_back(read_pending_row(rows));
    payload += Bytes(pending.back().request.payload.size());
  }
  return pending;
}

}  // namespace lambent::catalog
