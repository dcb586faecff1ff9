// Database and Statement: the interface to a database, SQLite's or PostgreSQL's, with its errors as
// ours. Resources; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::catalog {

// A statement as its kind of database has it; used through Statement.
class PreparedStatement {
 public:
  virtual ~PreparedStatement() = default;
  virtual void bind(int parameter, int64_t value) = 0;
  virtual void bind(int parameter, double value) = 0;
  virtual void bind_text(int parameter, std::string_view value) = 0;
  virtual void bind_blob(int parameter, std::string_view value) = 0;
  virtual void bind_null(int parameter) = 0;
  virtual Result<bool> next() = 0;
  virtual int64_t column_int(int column) const = 0;
  virtual double column_double(int column) const = 0;
  virtual std::string column_text(int column) const = 0;
  virtual bool column_is_null(int column) const = 0;
};

// A prepared statement with its values. bind() numbers parameters from 1, column_*() from 0.
class Statement {
 public:
  explicit Statement(std::unique_ptr<PreparedStatement> prepared)
      : prepared_(std::move(prepared)) {}

  Statement& bind(int parameter, int64_t value) {
    prepared_->bind(parameter, value);
    return *this;
  }
  Statement& bind(int parameter, uint64_t value) {
    return bind(parameter, static_cast<int64_t>(value));
  }
  Statement& bind(int parameter, double value) {
    prepared_->bind(parameter, value);
    return *this;
  }
  Statement& bind_text(int parameter, std::string_view value) {
    prepared_->bind_text(parameter, value);
    return *this;
  }
  Statement& bind_blob(int parameter, std::string_view value) {
    prepared_->bind_blob(parameter, value);
    return *this;
  }
  Statement& bind_null(int parameter) {
    prepared_->bind_null(parameter);
    return *this;
  }

  // Advances to the next row; false when there is none.
  Result<bool> next() { return prepared_->next(); }
  // For statements without rows.
  Result<void> run();

  int64_t column_int(int column) const { return prepared_->column_int(column); }
  uint64_t column_uint(int column) const { return static_cast<uint64_t>(column_int(column)); }
  double column_double(int column) const { return prepared_->column_double(column); }
  // Text or blob.
  std::string column_text(int column) const { return prepared_->column_text(column); }
  bool column_is_null(int column) const { return prepared_->column_is_null(column); }

 private:
  std::unique_ptr<PreparedStatement> prepared_;
};

class Database {
 public:
  // Opens or makes a file of SQLite: WAL, synchronous=FULL, foreign keys on. DATA_LOSS if it is no
  // database or a damaged one.
  static Result<std::unique_ptr<Database>> open(const std::string& path);
  // Opens one that is there to read it as it is, also while a worker has it open, and changes
  // nothing of it. Not all of it is read: DATA_LOSS if it is no database.
  static Result<std::unique_ptr<Database>> open_to_read(const std::string& path);
  virtual ~Database() = default;
  Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Begins a transaction that changes something.
  virtual Result<void> begin() = 0;
  // The same, and no other one does so until it ends.
  virtual Result<void> begin_exclusive() = 0;
  // SQL with parameters ?1, ?2 and so on.
  virtual Result<Statement> prepare(std::string_view sql) = 0;
  // Runs statements without parameters or rows.
  virtual Result<void> run(const std::string& sql) = 0;
  // Rows changed by the last statement.
  virtual int64_t changes() const = 0;
  // Of SQLite only.
  virtual int64_t last_insert_id() const = 0;
  // Whether a transaction is open; a serious error may have ended it.
  virtual bool in_transaction() const = 0;
  // Of SQLite only: UNIMPLEMENTED.
  virtual Result<void> limit_size(Bytes most) = 0;
  // Whether a session that lives holds this lease. If none does, none gets it before this
  // transaction ends. SQLite knows of no leases: one process has its file.
  virtual Result<bool> is_leased(const std::string& lease) = 0;
  // SQL for what its own clock says while a statement runs: nanoseconds since the Unix epoch.
  virtual std::string_view now_sql() const = 0;
};

}  // namespace lambent::catalog
