// Database and Statement: the only door to SQLite, with its errors as ours. Resources; one thread
// at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

struct sqlite3;
struct sqlite3_stmt;

namespace lambent::catalog {

class Database;

// A prepared statement with its values. bind() numbers parameters from 1, column_*() from 0.
class Statement {
 public:
  Statement& bind(int parameter, int64_t value);
  Statement& bind(int parameter, uint64_t value) {
    return bind(parameter, static_cast<int64_t>(value));
  }
  Statement& bind(int parameter, double value);
  Statement& bind_text(int parameter, std::string_view value);
  Statement& bind_blob(int parameter, std::string_view value);
  Statement& bind_null(int parameter);

  // Advances to the next row; false when there is none.
  Result<bool> next();
  // For statements without rows.
  Result<void> run();

  int64_t column_int(int column) const;
  uint64_t column_uint(int column) const { return static_cast<uint64_t>(column_int(column)); }
  double column_double(int column) const;
  std::string column_text(int column) const;  // text or blob
  bool column_is_null(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(Database& database, sqlite3_stmt* statement);

  Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  // What a bind went wrong with; reported by the next step.
  int bind_error_ = 0;
};

class Database {
 public:
  // Opens or makes the file: WAL, synchronous=FULL, foreign keys on. DATA_LOSS if it is no database
  // or a damaged one.
  static Result<std::unique_ptr<Database>> open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Result<Statement> prepare(std::string_view sql);
  // Runs statements without parameters or rows.
  Result<void> run(const std::string& sql);
  // Rows changed by the last statement.
  int64_t changes() const;
  int64_t last_insert_id() const;
  // Whether a transaction is open; a serious error may have ended it.
  bool in_transaction() const;
  Result<void> limit_size(Bytes most);

  // The error that a result code of SQLite stands for.
  Error error_of(int code) const;

 private:
  Database(sqlite3* handle, std::string path);

  sqlite3* handle_;
  std::string path_;
};

}  // namespace lambent::catalog
