#include "node/catalog/database.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <unordered_map>

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

// As SQLite takes it. A file without a log beside it has no more to say than itself: so SQLite
// makes no log either, and no index of one.
std::string url_to_read(const std::string& path) {
  std::error_code ignored;
  std::string url = "file://";
  for (const char letter : std::filesystem::absolute(path, ignored).string()) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const bool is_special = letter == '%' || letter == '?' || letter == '#';
    if (!is_special) {
      url += letter;
    } else {
      url.append({'%', kDigits[static_cast<size_t>(letter) / 16], kDigits[letter % 16]});
    }
  }
  return url + (std::filesystem::exists(path + "-wal", ignored) ? "?mode=ro" : "?immutable=1");
}

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using StatementHandle = std::unique_ptr<sqlite3_stmt, Finalize>;

class SqliteDatabase final : public Database {
 public:
  SqliteDatabase(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  ~SqliteDatabase() override {
    idle_.clear();
    sqlite3_close_v2(handle_);
  }

  Result<void> begin() override { return run("BEGIN IMMEDIATE"); }
  Result<void> begin_exclusive() override { return begin(); }
  Result<Statement> prepare(std::string_view sql) override;
  Result<void> run(const std::string& sql) override;
  int64_t changes() const override { return sqlite3_changes64(handle_); }
  int64_t last_insert_id() const override { return sqlite3_last_insert_rowid(handle_); }
  bool in_transaction() const override { return sqlite3_get_autocommit(handle_) == 0; }
  Result<void> limit_size(Bytes most) override {
    ASSIGN_OR_RETURN(Statement size, prepare("PRAGMA page_size"));
    RETURN_IF_ERROR(size.next());
    const uint64_t pages = most.count / size.column_uint(0);
    return run("PRAGMA max_page_count = " + std::to_string(pages));
  }
  Result<bool> is_leased(const std::string&) override { return false; }
  std::string_view now_sql() const override {
    return "(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000000)";
  }

  // The error that a result code of SQLite stands for.
  Error error_of(int code) const {
    const int system_error = handle_ != nullptr ? sqlite3_system_errno(handle_) : 0;
    const ErrorCode ours = code_of(code, system_error);
    std::string message = "the database " + path_ + ": " + sqlite3_errstr(code);
    if (handle_ != nullptr && (sqlite3_errcode(handle_) & 0xff) == (code & 0xff)) {
      message = "the database " + path_ + ": " + sqlite3_errmsg(handle_);
    }
    return Error{ours, message + advice_for(ours)};
  }

  // Takes back one that has been used: the next of the same words need not be compiled.
  void take_back(std::string sql, StatementHandle statement) {
    sqlite3_reset(statement.get());
    sqlite3_clear_bindings(statement.get());
    // A PRAGMA may do its work when it is compiled.
    if (sql.size() > kLongestKept || sql.starts_with("PRAGMA")) return;
    if (idle_.size() >= kMostKept) idle_.clear();
    idle_.try_emplace(std::move(sql), std::move(statement));
  }

 private:
  static constexpr size_t kMostKept = 128, kLongestKept = 4096;

  sqlite3* handle_;
  std::string path_;
  std::unordered_map<std::string, StatementHandle> idle_;  // by their words
};

class SqliteStatement final : public PreparedStatement {
 public:
  SqliteStatement(SqliteDatabase& database, std::string sql, StatementHandle statement)
      : database_(database), sql_(std::move(sql)), statement_(std::move(statement)) {}
  ~SqliteStatement() override { database_.take_back(std::move(sql_), std::move(statement_)); }

  void bind(int parameter, int64_t value) override {
    bind_error_ |= sqlite3_bind_int64(statement_.get(), parameter, value);
  }
  void bind(int parameter, double value) override {
    bind_error_ |= sqlite3_bind_double(statement_.get(), parameter, value);
  }
  void bind_text(int parameter, std::string_view value) override {
    bind_error_ |= sqlite3_bind_text64(statement_.get(), parameter, not_null(value), value.size(),
                                       SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  void bind_blob(int parameter, std::string_view value) override {
    bind_error_ |= sqlite3_bind_blob64(statement_.get(), parameter, not_null(value), value.size(),
                                       SQLITE_TRANSIENT);
  }
  void bind_null(int parameter) override {
    bind_error_ |= sqlite3_bind_null(statement_.get(), parameter);
  }
  Result<bool> next() override {
    if (bind_error_ != SQLITE_OK) return Error{ErrorCode::kResourceExhausted, "value too large"};
    const int code = sqlite3_step(statement_.get());
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    const Error error = database_.error_of(code);
    sqlite3_reset(statement_.get());
    return error;
  }
  int64_t column_int(int column) const override {
    return sqlite3_column_int64(statement_.get(), column);
  }
  double column_double(int column) const override {
    return sqlite3_column_double(statement_.get(), column);
  }
  std::string column_text(int column) const override {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
    const int size = sqlite3_column_bytes(statement_.get(), column);
    return bytes == nullptr ? std::string() : std::string(bytes, static_cast<size_t>(size));
  }
  bool column_is_null(int column) const override {
    return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
  }

 private:
  SqliteDatabase& database_;
  std::string sql_;
  StatementHandle statement_;
  // What a bind went wrong with; reported by the next step.
  int bind_error_ = 0;
};

Result<Statement> SqliteDatabase::prepare(std::string_view sql) {
  std::string words(sql);
  if (auto kept = idle_.extract(words); !kept.empty()) {
    return Statement(
        std::make_unique<SqliteStatement>(*this, std::move(words), std::move(kept.mapped())));
  }
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_, words.data(), static_cast<int>(words.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return error_of(code);
  return Statement(
      std::make_unique<SqliteStatement>(*this, std::move(words), StatementHandle(statement)));
}

Result<void> SqliteDatabase::run(const std::string& sql) {
  if (sql.find(';') != std::string::npos) {
    const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return error_of(code);
    return {};
  }
  ASSIGN_OR_RETURN(Statement statement, prepare(sql));
  for (;;) {
    ASSIGN_OR_RETURN(const bool row, statement.next());
    if (!row) return {};
  }
}

}  // namespace

Result<void> Statement::run() {
  ASSIGN_OR_RETURN(const bool row, next());
  CHECK(!row, "a statement without rows gave one");
  return {};
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  auto database = std::make_unique<SqliteDatabase>(handle, path);
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
  return std::unique_ptr<Database>(std::move(database));
}

Result<std::unique_ptr<Database>> Database::open_to_read(const std::string& path) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(url_to_read(path).c_str(), &handle, flags, nullptr);
  auto database = std::make_unique<SqliteDatabase>(handle, path);
  if (code != SQLITE_OK) return database->error_of(code);
  sqlite3_extended_result_codes(handle, 1);
  RETURN_IF_ERROR(database->run("PRAGMA busy_timeout = 2000"));
  return std::unique_ptr<Database>(std::move(database));
}

}  // namespace lambent::catalog
