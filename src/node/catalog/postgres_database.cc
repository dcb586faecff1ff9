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
  for (const char space : {'\n', '\t'}) std::replace(text.begin(), text.end(), space, ' ');
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

std::vector<std::string> list_of(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

// What a URL says of servers. Of one that cannot be read, libpq says why when it connects.
std::vector<PostgresHost> hosts_of(const Libpq& pq, const std::string& url) {
  char* error = nullptr;
  PqSetting* const settings = pq.conninfo_parse(url.c_str(), &error);
  if (error != nullptr) pq.free_memory(error);
  if (settings == nullptr) return {{}};
  const auto value_of = [settings](std::string_view keyword) -> std::string {
    for (const PqSetting* each = settings; each->keyword != nullptr; ++each) {
      if (keyword == each->keyword && each->value != nullptr) return each->value;
    }
    return {};
  };
  auto hosts = split_hosts(value_of("host"), value_of("hostaddr"), value_of("port"));
  pq.conninfo_free(settings);
  return hosts;
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
      : pq_(std::move(pq)),
        options_(std::move(options)),
        clock_(clock),
        hosts_(hosts_of(*pq_, options_.url)) {}
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
  std::string_view now_sql() const override {
    return "(CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT) * 1000)";
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
  Result<void> connect_to(const PostgresHost& host);
  Result<void> check_timeline();
  Result<void> take_lease();
  // The first value of the first row.
  Result<std::string> ask_connected(const std::string& sql);
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
  const std::vector<PostgresHost> hosts_;
  size_t host_ = 0;  // the one that was reached last
  // Of the server that was reached: it grows when a standby is promoted. 0: none was reached.
  uint64_t timeline_ = 0;
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
  bool reads_only = false;
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
    reads_only = state != nullptr && std::string_view(state) == "25006";
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
    if (reads_only) disconnect();  // another server has become the primary
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
  std::string why;
  for (size_t tried = 0; tried < hosts_.size(); ++tried) {
    const size_t place = (host_ + tried) % hosts_.size();
    auto connected = connect_to(hosts_[place]);
    if (connected.ok()) connected = check_timeline();
    if (connected.ok()) {
      host_ = place;
      return {};
    }
    disconnect();
    if (hosts_.size() == 1) return connected;
    const std::string& name = hosts_[place].host;
    std::string said = connected.error().message;
    const std::string prefix = connection_error("").message;
    if (said.starts_with(prefix)) said.erase(0, prefix.size());
    why += (why.empty() ? "" : "; ") + (name.empty() ? hosts_[place].address : name) + ": " + said;
  }
  return connection_error(why);
}

Result<void> PostgresDatabase::connect_to(const PostgresHost& host) {
  // What stands before the URL gives way to it, what stands after it does not. Both sides learn
  // within some seconds that the other is gone; the lease is free then.
  std::vector<const char*> keywords = {
      "target_session_attrs", "dbname",           "application_name", "keepalives_idle",
      "keepalives_interval",  "keepalives_count", "tcp_user_timeout"};
  std::vector<const char*> values = {"read-write", options_.url.c_str(), "lambent", "3", "1", "3",
                                     "6000"};
  const auto add = [&](const char* keyword, const std::string& value) {
    if (value.empty()) return;
    keywords.push_back(keyword);
    values.push_back(value.c_str());
  };
  if (hosts_.size() > 1) {
    add("host", host.host);
    add("hostaddr", host.address);
    add("port", host.port);
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  connection_ = pq_->connect_start(keywords.data(), values.data(), 1);
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

// A server that was the primary once, and comes back as one, has another history than the one that
// was promoted over it: what is written there is lost.
Result<void> PostgresDatabase::check_timeline() {
  const auto told = ask_connected(
      "SELECT CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE "
      "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END");
  if (!told.ok() && told.error().code == ErrorCode::kUnavailable) return told.error();
  if (!told.ok()) return {};  // a service that shows no files of its log
  if (*told == "standby") return connection_error("it is a standby, which takes no changes");
  const uint64_t timeline = std::strtoull(told->c_str(), nullptr, 16);
  if (timeline < timeline_) {
    return connection_error("it was the primary before another one was promoted (timeline " +
                            std::to_string(timeline) + ", where " + std::to_string(timeline_) +
                            " was reached): stop it, or make it a standby");
  }
  timeline_ = timeline;
  return {};
}

Result<std::string> PostgresDatabase::ask_connected(const std::string& sql) {
  if (pq_->send_query(connection_, sql.c_str()) == 0) return lost("it was closed");
  ASSIGN_OR_RETURN(PqResult* const result, answer());
  std::string value = pq_->ntuples(result) > 0 ? pq_->get_value(result, 0, 0) : "";
  pq_->clear(result);
  return value;
}

Result<void> PostgresDatabase::take_lease() {
  if (options_.lease.empty()) return {};
  const std::string key = std::to_string(key_of("lambent node " + options_.lease));
  ASSIGN_OR_RETURN(const std::string taken,
                   ask_connected("SELECT pg_try_advisory_lock(" + key + ")"));
  if (taken == "t") return {};
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

std::vector<PostgresHost> split_hosts(std::string_view hosts, std::string_view addresses,
                                      std::string_view ports) {
  const std::vector<std::string> names = list_of(hosts);
  const std::vector<std::string> numbers = list_of(addresses);
  const std::vector<std::string> all_ports = list_of(ports);
  std::vector<PostgresHost> split(std::max(names.size(), numbers.size()));
  for (size_t i = 0; i < split.size(); ++i) {
    if (i < names.size()) split[i].host = names[i];
    if (i < numbers.size()) split[i].address = numbers[i];
    split[i].port = all_ports.size() == 1 ? all_ports[0] : i < all_ports.size() ? all_ports[i] : "";
  }
  return split;
}

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
