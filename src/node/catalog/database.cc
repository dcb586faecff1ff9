#include "node/catalog/database.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <cerrno>

namespace lambent::catalog {
namespace {

// A column or value that is empty must not become NULL.
const char* not_null(std::string_view text) { return text.data() == nullptr ? "" : text.data(); }

// `system_error` is the errno of the system call that failed, if one did.
ErrorCode code_of(int sqlite_code, int system_error) {
  switch (sqlite_code & 0xff) {
    case SQLITE_FULL:
      return ErrorCode::kStorageFull;
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return ErrorCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::kDataLoss;
    case SQLITE_CONSTRAINT:
      return ErrorCode::kAlreadyExists;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return ErrorCode::kPermissionDenied;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      // The index beside the log cannot grow: SQLite has no word of its own for that.
      if (system_error == ENOSPC || system_error == EDQUOT) return ErrorCode::kStorageFull;
      return system_error == EROFS || system_error == EACCES ? ErrorCode::kPermissionDenied
                                                             : ErrorCode::kUnavailable;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kInternal;
  }
}

std::string advice_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::kStorageFull:
      return "; free space on its disk and try again";
    case ErrorCode::kPermissionDenied:
      return "; give the worker's user the right to write it and its folder";
    case ErrorCode::kDataLoss:
      return "; the file is damaged: stop the worker, keep a copy, then restore it from a backup, "
             "recover it with 'sqlite3 FILE .recover', or move the state folder away to start "
             "empty";
    default:
      return "";
  }
}

}  // namespace

Statement::Statement(Database& database, sqlite3_stmt* statement)
    : database_(&database), statement_(statement) {}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement& Statement::bind(int parameter, int64_t value) {
  bind_error_ |= sqlite3_bind_int64(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::bind(int parameter, double value) {
  bind_error_ |= sqlite3_bind_double(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::bind_text(int parameter, std::string_view value) {
  bind_error_ |= sqlite3_bind_text64(statement_.get(), parameter, not_null(value), value.size(),
                                     SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind_blob(int parameter, std::string_view value) {
  bind_error_ |= sqlite3_bind_blob64(statement_.get(), parameter, not_null(value), value.size(),
                                     SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::bind_null(int parameter) {
  bind_error_ |= sqlite3_bind_null(statement_.get(), parameter);
  return *this;
}

Result<bool> Statement::next() {
  if (bind_error_ != SQLITE_OK) return Error{ErrorCode::kResourceExhausted, "value too large"};
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const Error error = database_->error_of(code);
  sqlite3_reset(statement_.get());
  return error;
}

Result<void> Statement::run() {
  ASSIGN_OR_RETURN(const bool row, next());
  CHECK(!row, "a statement without rows gave one");
  return {};
}

int64_t Statement::column_int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::column_double(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string Statement::column_text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes == nullptr ? std::string() : std::string(bytes, static_cast<size_t>(size));
}

bool Statement::column_is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

Database::Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

Database::~Database() { sqlite3_close_v2(handle_); }

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  std::unique_ptr<Database> database(new Database(handle, path));
  if (code != SQLITE_OK) return database->error_of(code);
  sqlite3_extended_result_codes(handle, 1);
  // Payloads may be private.
  ::chmod(path.c_str(), 0600);
  RETURN_IF_ERROR(database->run("PRAGMA busy_timeout = 2000"));
  RETURN_IF_ERROR(database->run("PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(database->run("PRAGMA synchronous = FULL"));
  RETURN_IF_ERROR(database->run("PRAGMA foreign_keys = ON"));
  {
    ASSIGN_OR_RETURN(Statement check, database->prepare("PRAGMA quick_check(1)"));
    ASSIGN_OR_RETURN(const bool row, check.next());
    if (!row || check.column_text(0) != "ok") {
      Error error = database->error_of(SQLITE_CORRUPT);
      if (row) error.message += " (" + check.column_text(0) + ")";
      return error;
    }
  }
  return database;
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return error_of(code);
  return Statement(*this, statement);
}

Result<void> Database::run(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error_of(code);
  return {};
}

int64_t Database::changes() const { return sqlite3_changes64(handle_); }
int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(handle_); }
bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

Result<void> Database::limit_size(Bytes most) {
  ASSIGN_OR_RETURN(Statement size, prepare("PRAGMA page_size"));
  RETURN_IF_ERROR(size.next());
  const uint64_t pages = most.count / size.column_uint(0);
  return run("PRAGMA max_page_count = " + std::to_string(pages));
}

Error Database::error_of(int code) const {
  const int system_error = handle_ != nullptr ? sqlite3_system_errno(handle_) : 0;
  const ErrorCode ours = code_of(code, system_error);
  std::string message = "the database " + path_ + ": " + sqlite3_errstr(code);
  if (handle_ != nullptr && (sqlite3_errcode(handle_) & 0xff) == (code & 0xff)) {
    message = "the database " + path_ + ": " + sqlite3_errmsg(handle_);
  }
  return Error{ours, message + advice_for(ours)};
}

}  // namespace lambent::catalog
