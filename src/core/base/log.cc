#include "core/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <cstdio>

namespace lambent {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", number);
  return text;
}

std::string value_text(const LogField& field, LogFormat format) {
  if (const auto* text = std::get_if<std::string>(&field.value)) {
    const std::string escaped = json_escape(*text);
    const bool quote =
        format == LogFormat::kJson || escaped.find(' ') != std::string::npos || escaped.empty();
    return quote ? "\"" + escaped + "\"" : escaped;
  }
  if (const auto* number = std::get_if<int64_t>(&field.value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&field.value)) {
    return std::isfinite(*number) ? number_text(*number) : "null";
  }
  return std::get<bool>(field.value) ? "true" : "false";
}

}  // namespace

SpdlogSink::SpdlogSink(LogFormat format, LogLevel least)
    : format_(format),
      logger_(std::make_shared<spdlog::logger>("lambent",
                                               std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_level(to_spdlog(least));
  // The time is UTC, and the pattern holds the parts that every line has.
  logger_->set_pattern(format == LogFormat::kJson
                           ? "{\"ts\":\"%Y-%m-%dT%H:%M:%S.%fZ\",\"level\":\"%l\",%v}"
                           : "%H:%M:%S.%e %l %v",
                       spdlog::pattern_time_type::utc);
  logger_->flush_on(spdlog::level::debug);
}

void SpdlogSink::write(LogLevel level, std::string_view event,
                       std::initializer_list<LogField> fields) {
  if (!wants(level)) return;
  std::string line;
  if (format_ == LogFormat::kJson) {
    line = "\"event\":\"" + json_escape(event) + "\"";
    for (const LogField& field : fields) {
      line += ",\"" + json_escape(field.key) + "\":" + value_text(field, format_);
    }
  } else {
    line = event;
    for (const LogField& field : fields) {
      line += " " + std::string(field.key) + "=" + value_text(field, format_);
    }
  }
  logger_->log(to_spdlog(level), "{}", line);
}

bool SpdlogSink::wants(LogLevel level) const { return logger_->should_log(to_spdlog(level)); }

}  // namespace lambent
