#include "node/catalog/postgres_database.h"

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "node/catalog/libpq.h"

namespace lambent::catalog {
namespace {

// Types of PostgreSQL's catalog.
constexpr unsigned kBytea = 17;
constexpr unsigned kInt8 = 20;
constexpr unsigned kText = 25;
constexpr unsigned kFloat8 = 701;

constexpr const char* kSessionSettings =
    "SET tcp_keepalives_idle = 3; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3; "
    "SET tcp_user_timeout = 6000; SET bytea_output = hex; SET client_min_messages = warning; SET "
    "idle_in_transaction_session_timeout = 60000";

// ?1 as $1; our SQL has no question mark elsewhere.
std::string numbered(std::string_view sql) {
  std::string text(sql);
  std::replace(text.begin(), text.end(), '?', '$');
  return text;
}

int digit_of(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

// "\x0aff", as values of bytea are written.
std::string bytes_of_hex(std::string_view text) {
  std::string bytes;
  for (size_t at = 2; at + 1 < text.size(); at += 2) {
    bytes.push_back(static_cast<char>(digit_of(text[at]) << 4 | digit_of(text[at + 1])));
  }
  return bytes;
}

std::string one_line(const char* message) {
  std::string text(message == nullptr ? "" : message);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// By SQLSTATE, of which the first two characters are the class.
ErrorCode code_of_state(std::string_view state) {
  const std::string_view kind = state.substr(0, 2);
  if (kind == "23") return ErrorCode::kAlreadyExists;
  if (state == "53100") return ErrorCode::kStorageFull;
  if (kind == "28" || state == "42501") return ErrorCode::kPermissionDenied;
  // Connection, rollback for serialization, resources, operator intervention, system error; and a
  // server that only reads, which a standby is.
  for (const std::string_view retryable : {"08", "40", "53", "57", "58"}) {
    if (kind == retryable) return ErrorCode::kUnavailable;
  }
  if (state == "25006") return ErrorCode::kUnavailable;
  return ErrorCode::kInternal;
}

// A number that stands for the lease's name: FNV-1a of 64 bits.
int64_t key_of(std::string_view lease) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : lease) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return static_cast<int64_t>(hash);
}

class PostgresDatabase;

class PostgresStatement final : public PreparedStatement {
 public:
  PostgresStatement(PostgresDatabase& database, std::string sql)
      : database_(database), sql_(std::move(sql)) {}
  ~PostgresStatement() override;

  void bind(int parameter, int64_t value) override {
    set(parameter, std::to_string(value), kInt8, 0);
  }
  void bind(int parameter, double value) override {
    set(parameter, std::to_string(value), kFloat8, 0);
  }
  void bind_text(int parameter, std::string_view value) override {
    set(parameter, std::string(value), kText, 0);
  }
  void bind_blob(int parameter, std::string_view value) override {
    set(parameter, std::string(value), kBytea, 1);
  }
  void bind_null(int parameter) override { set(parameter, std::nullopt, 0, 0); }
  Result<bool> next() override;
  int64_t column_int(int column) const override {
    return column_is_null(column) ? 0 : std::strtoll(raw(column).data(), nullptr, 10);
  }
  double column_double(int column) const override {
    return column_is_null(column) ? 0 : std::strtod(raw(column).data(), nullptr);
  }
  std::string column_text(int column) const override;
  bool column_is_null(int column) const override;

 private:
  struct Value {
    std::optional<std::string> bytes;
    unsigned type = 0;
    int format = 0;  // 1: binary
  };
  void set(int parameter, std::optional<std::string> bytes, unsigned type, int format) {
    const auto place = static_cast<size_t>(parameter);
    if (values_.size() < place) values_.resize(place);
    values_[place - 1] = {std::move(bytes), type, format};
  }
  std::string_view raw(int column) const;
  Result<void> run_query();

  PostgresDatabase& database_;
  std::string sql_;
  std::vector<Value> values_;
  PqResult* rows_ = nullptr;
  int row_ = -1;
};

class PostgresDatabase final : public Database {
 public:
  PostgresDatabase(std::shared_ptr<const Libpq> pq, PostgresOptions options, const Clock& clock)
      : pq_(std::move(pq)), options_(std::move(options)), clock_(clock) {}
  ~PostgresDatabase() override { disconnect(); }

  Result<void> begin() override {
    RETURN_IF_ERROR(ensure_connected());
    return run("BEGIN");
  }
  Result<void> begin_exclusive() override {
    RETURN_IF_ERROR(begin());
    const auto exclusive =
        run("SELECT pg_advisory_xact_lock(" + std::to_string(key_of("lambent migration")) + ")");
    if (!exclusive.ok() && in_transaction()) (void)run("ROLLBACK").ok();
    return exclusive;
  }
  Result<Statement> prepare(std::string_view sql) override {
    if (!in_transaction()) RETURN_IF_ERROR(ensure_connected());
    return Statement(std::make_unique<PostgresStatement>(*this, numbered(sql)));
  }
  Result<void> run(const std::string& sql) override {
    if (!in_transaction()) RETURN_IF_ERROR(ensure_connected());
    return run_connected(sql);
  }
  int64_t changes() const override { return changes_; }
  int64_t last_insert_id() const override { return 0; }
  bool in_transaction() const override {
    if (connection_ == nullptr || pq_->status(connection_) != kPqConnectionOk) return false;
    const int state = pq_->transaction_status(connection_);
    return state == kPqInTransaction || state == kPqInError;
  }
  Result<void> limit_size(Bytes) override {
    return Error{ErrorCode::kUnimplemented, "PostgreSQL limits the size of its databases itself"};
  }
  Result<bool> is_leased(const std::string& lease) override {
    ASSIGN_OR_RETURN(Statement ask, prepare("SELECT CASE WHEN pg_try_advisory_xact_lock(?1) THEN 1 "
                                            "ELSE 0 END"));
    ask.bind(1, key_of("lambent node " + lease));
    RETURN_IF_ERROR(ask.next());
    return ask.column_int(0) == 0;
  }

  // For statements.
  const Libpq& pq() const { return *pq_; }
  PqConnection* connection() { return connection_; }
  // The last result of what was sent; the caller clears it.
  Result<PqResult*> answer();
  Error lost(const std::string& why);
  Error connection_error(const std::string& what) {
    return Error{ErrorCode::kUnavailable,
                 "the catalog " + without_password(options_.url) + " cannot be reached: " + what};
  }

 private:
  Result<void> ensure_connected();
  Result<void> connect();
  Result<void> take_lease();
  Result<void> run_connected(const std::string& sql) {
    if (connection_ == nullptr) return connection_error("the connection was lost");
    if (pq_->send_query(connection_, sql.c_str()) == 0) return lost("it was closed");
    ASSIGN_OR_RETURN(PqResult* const result, answer());
    pq_->clear(result);
    return {};
  }
  // Waits until the socket is so, at most until `end`.
  bool wait(int socket, int events, Instant end) const;
  void disconnect() {
    if (connection_ != nullptr) pq_->finish(connection_);
    connection_ = nullptr;
  }

  const std::shared_ptr<const Libpq> pq_;  // shared as load() gives it
  const PostgresOptions options_;
  const Clock& clock_;
  PqConnection* connection_ = nullptr;
  int64_t changes_ = 0;
  // Until then it is not tried again, and this is why.
  Instant not_before_ = Instant::min();
  Error why_not_;
};

bool PostgresDatabase::wait(int socket, int events, Instant end) const {
  for (;;) {
    const Duration left = end - clock_.now();
    if (left <= Duration::zero()) return false;
    pollfd entry{.fd = socket, .events = static_cast<short>(events), .revents = 0};
    const auto most = std::chrono::duration_cast<std::chrono::milliseconds>(left).count() + 1;
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(most, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

Error PostgresDatabase::lost(const std::string& why) {
  const std::string said = connection_ == nullptr ? "" : one_line(pq_->error_message(connection_));
  disconnect();
  return connection_error(said.empty() ? why : said);
}

Result<PqResult*> PostgresDatabase::answer() {
  const Instant end = clock_.now() + options_.answer_timeout;
  PqResult* last = nullptr;
  std::optional<Error> failed;
  for (;;) {
    while (pq_->is_busy(connection_) != 0) {
      const bool came = wait(pq_->socket(connection_), POLLIN, end);
      if (came && pq_->consume_input(connection_) != 0) continue;
      if (last != nullptr) pq_->clear(last);
      return lost("it does not answer in time");
    }
    PqResult* const result = pq_->get_result(connection_);
    if (result == nullptr) break;
    if (last != nullptr) pq_->clear(last);
    last = result;
    const int status = pq_->result_status(result);
    if (status == kPqCommandOk || status == kPqTuplesOk || status == kPqEmpty || failed) continue;
    const char* const state = pq_->result_error_field(result, kPqSqlState);
    failed = Error{state == nullptr ? ErrorCode::kUnavailable : code_of_state(state),
                   "the catalog " + without_password(options_.url) + ": " +
                       one_line(pq_->result_error_message(result))};
  }
  if (pq_->status(connection_) != kPqConnectionOk) {
    if (last != nullptr) pq_->clear(last);
    return lost("the connection was closed");
  }
  if (failed) {
    if (last != nullptr) pq_->clear(last);
    return *failed;
  }
  if (last == nullptr) return lost("it answered nothing");
  changes_ = std::strtoll(pq_->cmd_tuples(last), nullptr, 10);
  return last;
}

Result<void> PostgresDatabase::ensure_connected() {
  if (connection_ != nullptr && pq_->status(connection_) == kPqConnectionOk) return {};
  disconnect();
  if (clock_.now() < not_before_) return why_not_;
  auto connected = connect();
  if (connected.ok()) connected = take_lease();
  if (connected.ok() && options_.prepare) connected = options_.prepare(*this);
  if (connected.ok()) return {};
  disconnect();
  why_not_ = connected.error();
  not_before_ = clock_.now() + options_.pause;
  return connected;
}

Result<void> PostgresDatabase::connect() {
  // Both sides learn within some seconds that the other is gone; the lease is free then.
  const char* const keywords[] = {"dbname",
                                  "application_name",
                                  "keepalives_idle",
                                  "keepalives_interval",
                                  "keepalives_count",
                                  "tcp_user_timeout",
                                  nullptr};
  const char* const values[] = {options_.url.c_str(), "lambent", "3", "1", "3", "6000", nullptr};
  connection_ = pq_->connect_start(keywords, values, 1);
  if (connection_ == nullptr) return Error{ErrorCode::kResourceExhausted, "no memory for libpq"};
  pq_->set_notice_processor(
      connection_, [](void*, const char*) {}, nullptr);
  const Instant end = clock_.now() + options_.connect_timeout;
  for (int next = kPqWriting; next != kPqDone; next = pq_->connect_poll(connection_)) {
    if (next == kPqFailed || pq_->status(connection_) == 1) {
      return connection_error(one_line(pq_->error_message(connection_)));
    }
    if (!wait(pq_->socket(connection_), next == kPqReading ? POLLIN : POLLOUT, end)) {
      return connection_error("it does not answer in time");
    }
  }
  return run_connected(kSessionSettings);
}

Result<void> PostgresDatabase::take_lease() {
  if (options_.lease.empty()) return {};
  const std::string key = std::to_string(key_of("lambent node " + options_.lease));
  if (pq_->send_query(connection_, ("SELECT pg_try_advisory_lock(" + key + ")").c_str()) == 0) {
    return lost("it was closed");
  }
  ASSIGN_OR_RETURN(PqResult* const result, answer());
  const bool taken = *pq_->get_value(result, 0, 0) == 't';
  pq_->clear(result);
  if (taken) return {};
  return Error{ErrorCode::kUnavailable,
               "another worker is the node '" + options_.lease + "' at the catalog " +
                   without_password(options_.url) +
                   ", or was a moment ago: give each node a name of its own (--node-name)"};
}

PostgresStatement::~PostgresStatement() {
  if (rows_ != nullptr) database_.pq().clear(rows_);
}

Result<void> PostgresStatement::run_query() {
  std::vector<unsigned> types;
  std::vector<const char*> bytes;
  std::vector<int> lengths;
  std::vector<int> formats;
  for (const Value& value : values_) {
    types.push_back(value.type);
    bytes.push_back(value.bytes ? value.bytes->c_str() : nullptr);
    lengths.push_back(value.bytes ? static_cast<int>(value.bytes->size()) : 0);
    formats.push_back(value.format);
  }
  if (database_.connection() == nullptr) {
    return database_.connection_error("the connection was lost");
  }
  const int sent = database_.pq().send_query_params(
      database_.connection(), sql_.c_str(), static_cast<int>(values_.size()), types.data(),
      bytes.data(), lengths.data(), formats.data(), 0);
  if (sent == 0) return database_.lost("it was closed");
  ASSIGN_OR_RETURN(rows_, database_.answer());
  return {};
}

Result<bool> PostgresStatement::next() {
  if (rows_ == nullptr) RETURN_IF_ERROR(run_query());
  return ++row_ < database_.pq().ntuples(rows_);
}

std::string_view PostgresStatement::raw(int column) const {
  return {database_.pq().get_value(rows_, row_, column),
          static_cast<size_t>(database_.pq().get_length(rows_, row_, column))};
}

std::string PostgresStatement::column_text(int column) const {
  if (column_is_null(column)) return {};
  const std::string_view text = raw(column);
  return database_.pq().ftype(rows_, column) == kBytea ? bytes_of_hex(text) : std::string(text);
}

bool PostgresStatement::column_is_null(int column) const {
  return database_.pq().get_is_null(rows_, row_, column) != 0;
}

}  // namespace

std::string without_password(const std::string& url) {
  const size_t user = url.find("://");
  const size_t at = url.find('@');
  if (user == std::string::npos || at == std::string::npos) return url.substr(0, url.find('?'));
  const size_t colon = url.find(':', user + 3);
  std::string shown = colon < at ? url.substr(0, colon) + url.substr(at) : url;
  return shown.substr(0, shown.find('?'));
}

Result<std::unique_ptr<Database>> open_postgres(PostgresOptions options, const Clock& clock) {
  ASSIGN_OR_RETURN(auto pq, Libpq::load());
  return std::unique_ptr<Database>(
      std::make_unique<PostgresDatabase>(std::move(pq), std::move(options), clock));
}

}  // namespace lambent::catalog
