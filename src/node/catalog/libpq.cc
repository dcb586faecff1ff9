#include "node/catalog/libpq.h"

#include <dlfcn.h>

#include <string>

namespace lambent::catalog {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<std::shared_ptr<const Libpq>> Libpq::load() {
  void* library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{ErrorCode::kFailedPrecondition,
                 "a catalog in PostgreSQL needs libpq.so.5: install the package libpq5"};
  }
  auto pq = std::make_shared<Libpq>();
  const bool whole =
      find(library, "PQconninfoParse", pq->conninfo_parse) &&
      find(library, "PQconninfoFree", pq->conninfo_free) &&
      find(library, "PQfreemem", pq->free_memory) &&
      find(library, "PQconnectStartParams", pq->connect_start) &&
      find(library, "PQconnectPoll", pq->connect_poll) && find(library, "PQstatus", pq->status) &&
      find(library, "PQfinish", pq->finish) && find(library, "PQsocket", pq->socket) &&
      find(library, "PQerrorMessage", pq->error_message) &&
      find(library, "PQtransactionStatus", pq->transaction_status) &&
      find(library, "PQsendQuery", pq->send_query) &&
      find(library, "PQsendQueryParams", pq->send_query_params) &&
      find(library, "PQconsumeInput", pq->consume_input) &&
      find(library, "PQisBusy", pq->is_busy) && find(library, "PQgetResult", pq->get_result) &&
      find(library, "PQresultStatus", pq->result_status) &&
      find(library, "PQresultErrorMessage", pq->result_error_message) &&
      find(library, "PQresultErrorField", pq->result_error_field) &&
      find(library, "PQclear", pq->clear) && find(library, "PQntuples", pq->ntuples) &&
      find(library, "PQnfields", pq->nfields) && find(library, "PQftype", pq->ftype) &&
      find(library, "PQgetvalue", pq->get_value) && find(library, "PQgetlength", pq->get_length) &&
      find(library, "PQgetisnull", pq->get_is_null) &&
      find(library, "PQcmdTuples", pq->cmd_tuples) &&
      find(library, "PQsetNoticeProcessor", pq->set_notice_processor);
  if (!whole) {
    return Error{ErrorCode::kFailedPrecondition, "libpq.so.5 lacks functions that it should have"};
  }
  return std::shared_ptr<const Libpq>(std::move(pq));
}

}  // namespace lambent::catalog
