#include "base/log.h"

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

// The length of the UTF-8 sequence at the start of `text`, or 0 if there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = 0;
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xc2 && byte(0) < 0xe0)
    length = 2;
  else if (byte(0) >= 0xe0 && byte(0) < 0xf0)
    length = 3;
  else if (byte(0) >= 0xf0 && byte(0) < 0xf5)
    length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  if (byte(0) == 0xe0 && byte(1) < 0xa0) return 0;
  if (byte(0) == 0xed && byte(1) >= 0xa0) return 0;
  if (byte(0) == 0xf0 && byte(1) < 0x90) return 0;
  if (byte(0) == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
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
  const auto spdlog_level = to_spdlog(level);
  if (!logger_->should_log(spdlog_level)) return;
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
  logger_->log(spdlog_level, "{}", line);
}

std::string json_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) {
      out += "\\ufffd";
      text.remove_prefix(1);
      continue;
    }
    const char c = text.front();
    if (length > 1) {
      out += text.substr(0, length);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      out += escaped;
    } else {
      out += c;
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace lambent
