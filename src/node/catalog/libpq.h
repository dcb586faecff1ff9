// Libpq: what we use of PostgreSQL's C library, loaded at run time, so that only workers that are
// told of such a catalog need it. Its declarations are our own; they have not changed since its
// version 5 came out. Any thread, one connection on one thread at a time.
#pragma once

#include <memory>

#include "core/base/result.h"

namespace lambent::catalog {

struct PqConnection;
struct PqResult;
struct PqNotice;

enum PqStatus : int { kPqConnectionOk = 0 };
enum PqPolling : int { kPqFailed = 0, kPqReading = 1, kPqWriting = 2, kPqDone = 3 };
enum PqTransaction : int { kPqIdle = 0, kPqActive = 1, kPqInTransaction = 2, kPqInError = 3 };
enum PqOutcome : int { kPqEmpty = 0, kPqCommandOk = 1, kPqTuplesOk = 2 };
// PQconninfoOption.
struct PqSetting {
  char* keyword;
  char* environment;
  char* compiled;
  char* value;  // null: it is not set
  char* label;
  char* shown_as;
  int shown_size;
};
// PQresultErrorField().
constexpr int kPqSqlState = 'C';

struct Libpq {
  // FAILED_PRECONDITION, naming the package to install.
  static Result<std::shared_ptr<const Libpq>> load();

  // Null: it cannot be read. An array that ends with an entry without a keyword.
  PqSetting* (*conninfo_parse)(const char* conninfo, char** error);
  void (*conninfo_free)(PqSetting*);
  void (*free_memory)(void*);
  PqConnection* (*connect_start)(const char* const* keywords, const char* const* values,
                                 int expand_dbname);
  int (*connect_poll)(PqConnection*);
  int (*status)(const PqConnection*);
  void (*finish)(PqConnection*);
  int (*socket)(const PqConnection*);
  const char* (*error_message)(const PqConnection*);
  int (*transaction_status)(const PqConnection*);
  int (*send_query)(PqConnection*, const char* sql);
  int (*send_query_params)(PqConnection*, const char* sql, int count, const unsigned* types,
                           const char* const* values, const int* lengths, const int* formats,
                           int result_format);
  int (*consume_input)(PqConnection*);
  int (*is_busy)(PqConnection*);
  PqResult* (*get_result)(PqConnection*);
  int (*result_status)(const PqResult*);
  const char* (*result_error_message)(const PqResult*);
  const char* (*result_error_field)(const PqResult*, int field);
  void (*clear)(PqResult*);
  int (*ntuples)(const PqResult*);
  int (*nfields)(const PqResult*);
  unsigned (*ftype)(const PqResult*, int column);
  const char* (*get_value)(const PqResult*, int row, int column);
  int (*get_length)(const PqResult*, int row, int column);
  int (*get_is_null)(const PqResult*, int row, int column);
  const char* (*cmd_tuples)(PqResult*);
  void (*set_notice_processor)(PqConnection*, void (*)(void*, const char*), void*);
};

}  // namespace lambent::catalog
