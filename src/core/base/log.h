// Structured logs: an event name and fields, written as one JSON line or, for a terminal, as text.
// LogSink is the interface that rooms are given; SpdlogSink is the real one. Thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace spdlog {
class logger;
}

namespace lambent {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogField {
  std::string_view key;
  std::variant<std::string, int64_t, double, bool> value;
};

class LogSink {
 public:
  virtual ~LogSink() = default;
  // `event` is a name such as "sandbox_started"; every event about an invocation carries a field
  // "invocation".
  virtual void write(LogLevel level, std::string_view event,
                     std::initializer_list<LogField> fields) = 0;
  // Whether events of this level are written at all; to be asked where making the fields costs.
  virtual bool wants(LogLevel) const { return true; }

  void debug(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kDebug, event, fields);
  }
  void info(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kInfo, event, fields);
  }
  void warning(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kWarning, event, fields);
  }
  void error(std::string_view event, std::initializer_list<LogField> fields = {}) {
    write(LogLevel::kError, event, fields);
  }
};

// Drops everything; for tests.
class NullLogSink final : public LogSink {
 public:
  void write(LogLevel, std::string_view, std::initializer_list<LogField>) override {}
  bool wants(LogLevel) const override { return false; }
};

enum class LogFormat { kJson, kText };

// Writes to standard error.
class SpdlogSink final : public LogSink {
 public:
  SpdlogSink(LogFormat format, LogLevel least);
  void write(LogLevel level, std::string_view event,
             std::initializer_list<LogField> fields) override;
  bool wants(LogLevel level) const override;

 private:
  LogFormat format_;
  // spdlog's own ownership: its registry may hold the logger too.
  std::shared_ptr<spdlog::logger> logger_;
};

// `text` as the inside of a JSON string: quotes, backslashes and control characters escaped,
// bytes that are not UTF-8 replaced.
std::string json_escape(std::string_view text);

}  // namespace lambent
